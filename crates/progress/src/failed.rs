//! A result that is a failure.

use std::fmt;

/// The input was valid and the work completed, but its result is a failure: exit code 1 instead of 2.
#[derive(Debug)]
pub struct Failed(pub String);

impl Failed {
    /// This build of `seekwise` leaves out a feature, such as "knowledge bases"; with the remedy.
    pub fn left_out(feature: &str) -> Failed {
        Failed(format!(
            "this build has no {feature}: build it with `cargo build --release -p seekwise --features full`, or install the package"
        ))
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}
