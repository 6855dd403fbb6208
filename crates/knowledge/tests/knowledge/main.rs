//! The knowledge base: what goes in comes out, whatever happens to the program, the disk or the file.

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
