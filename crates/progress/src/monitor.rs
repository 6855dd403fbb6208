//! Progress of long work, and requests to stop it.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};

/// Told of progress and of warnings. The program draws progress bars on a terminal; tests use [`Quiet`].
pub trait Monitor: Sync {
    /// Work of `total` steps begins; 0 if the number is unknown.
    fn begin(&self, total: u64, what: &str);

    /// So many steps are done.
    fn progress(&self, done: u64);

    /// The work that began last is over.
    fn end(&self);

    /// A warning; the work continues.
    fn warn(&self, text: &str);

    /// Set: stop soon, with [`Interrupted`].
    fn stop(&self) -> &AtomicBool;

    /// Fails if the work is to stop.
    ///
    /// # Errors
    /// [`Interrupted`].
    fn check(&self) -> Result<(), Interrupted> {
        if self.stop().load(Ordering::Relaxed) { Err(Interrupted) } else { Ok(()) }
    }
}

/// Long work was asked to stop.
#[derive(Clone, Copy, Debug)]
pub struct Interrupted;

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted; nothing was written")
    }
}

impl std::error::Error for Interrupted {}

/// Like [`Interrupted`], but completed parts of the work are kept.
#[derive(Clone, Debug)]
pub struct Suspended {
    /// The completed parts: `12 of 48 cases`.
    pub kept: String,
}

impl fmt::Display for Suspended {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "interrupted; {} are complete and kept, and the same command continues", self.kept)
    }
}

impl std::error::Error for Suspended {}

/// Shows nothing, and stops only on [`stop`](Monitor::stop).
#[derive(Debug, Default)]
pub struct Quiet(AtomicBool);

impl Monitor for Quiet {
    fn begin(&self, _total: u64, _what: &str) {}

    fn progress(&self, _done: u64) {}

    fn end(&self) {}

    fn warn(&self, _text: &str) {}

    fn stop(&self) -> &AtomicBool {
        &self.0
    }
}
