//! Errors of workloads.

/// An invalid workload: position, problem and valid alternatives.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct WorkloadError {
    /// The file's name, as given by the caller.
    pub source_name: String,
    /// The line, starting at 1; `None` if the error is not in a single line.
    pub line: Option<u32>,
    /// The problem and the valid alternatives.
    pub message: String,
}
