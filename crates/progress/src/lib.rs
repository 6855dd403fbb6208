//! Progress of long work, requests to stop it, and its failure.

mod failed;
pub mod monitor;

pub use failed::Failed;
pub use monitor::{Interrupted, Monitor, Suspended};
