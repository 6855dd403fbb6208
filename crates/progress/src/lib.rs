//! Progress of long work, and requests to stop it.

pub mod monitor;

pub use monitor::{Interrupted, Monitor, Suspended};
