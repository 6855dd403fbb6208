//! What is wrong with a workload.

/// A workload that cannot be run: where in its text, what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{source_name}{}: {message}", line.map(|line| format!(":{line}")).unwrap_or_default())]
pub struct WorkloadError {
    /// The file, as its reader called it.
    pub source_name: String,
    /// The line, from 1 on; `None` if it is not one line's fault.
    pub line: Option<u32>,
    /// What is wrong, and what would be right.
    pub message: String,
}
