//! Errors of workloads.

/// An invalid workload: position, problem and what would be valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct WorkloadError {
    /// The file's name, as given by the caller.
    pub source_name: String,
    /// The line, from 1; `None` if no single line is at fault.
    pub line: Option<u32>,
    /// The problem and what would be valid.
    pub message: String,
}
