//! Features and outcomes of windows, against a plain reckoning and against every kind of nonsense.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod nonsense;
mod plain;
mod request;
mod script;
