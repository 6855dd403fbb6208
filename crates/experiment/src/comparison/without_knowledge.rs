//! In place of the knowledge base in programs that were built without it: every one is refused.

use std::path::Path;

use anyhow::Context as _;
use control::experience::Experience;
use progress::Failed;
use progress::monitor::Monitor;

use super::run_history::RunHistory;

/// A knowledge base, which this program cannot open.
pub struct Remembered;

impl Remembered {
    /// Refuses the knowledge base.
    ///
    /// # Errors
    /// Always; the text says how to build a program that has it.
    pub fn open(path: &Path, _: &dyn Monitor) -> anyhow::Result<Remembered> {
        Err(Failed::left_out("knowledge bases")).with_context(|| format!("--kb {}", path.display()))
    }

    /// None.
    pub fn experience(&self) -> Option<&Experience> {
        None
    }

    /// Stores nothing.
    pub fn keep<'a>(&self, _: impl IntoIterator<Item = RunHistory<'a>>, _: &dyn Monitor) {}
}
