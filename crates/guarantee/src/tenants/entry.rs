//! A tenant as written in a file of tenants, or in the comments of a job file.

use toml::Value;

/// A tenant's keys with the lines on which they begin.
pub(super) struct Entry {
    /// The line where the tenant begins, from 1.
    pub line: usize,
    /// Keys with their lines and values.
    pub keys: Vec<(String, usize, Value)>,
}
