//! The command line of `seekwise`, its documentation, and rules of the whole workspace. One test binary, because linking is slow; tests that
//! depend on the timing of a device have separate ones.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod circles;
mod commands;
mod program;

mod advise;
mod arrows;
mod capture;
mod check;
mod compare;
mod controllers;
mod disk;
mod docs;
mod export;
mod figures;
mod inline;
mod kb;
mod manual;
mod placement;
mod readme;
mod remembered;
mod schema;
mod simulate;
mod sweep;
mod tenants;
mod trace;
mod workloads;
