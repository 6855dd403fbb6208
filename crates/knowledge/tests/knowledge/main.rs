//! The knowledge base: rows are read back as written, after crashes of the program, full disks and damaged files.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bounds;
mod encrypted;
mod exchange;
mod fixture;
mod fleet;
mod helper;
mod keeping;
mod killed;
mod merging;
mod opening;
mod postgres;
mod writer;
