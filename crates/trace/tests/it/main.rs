//! Readers, writers and the store, through their public interface. One test binary, as linking is slow; `memory` has its own, because it
//! measures the whole process.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod blktrace;
mod errors;
mod formats;
mod fuzz;
mod info;
mod rewrite;
mod shared_data;
mod store;
mod trace_help;
