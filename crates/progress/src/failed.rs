//! A result that is a failure.

use std::fmt;

/// The input was valid and the work completed, but its result is a failure: exit code 1 instead of 2.
#[derive(Debug)]
pub struct Failed(pub String);

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Failed {}
