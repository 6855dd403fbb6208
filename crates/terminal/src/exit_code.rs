//! The exit code of an error.
//!
//! | exit code | meaning |
//! |---|---|
//! | 0 | done (also when the reader of the output went away, as `head` does) |
//! | 1 | the work failed: a result missed its bound, or the disk was full |
//! | 2 | the input or the command line was wrong; the message says how to correct it |
//! | 130 | interrupted by Ctrl-C or SIGTERM; nothing half-written is left |

use std::io;
use std::process::ExitCode;

use progress::{Failed, Interrupted, Suspended};

use super::eprint_line;

pub(crate) const INTERRUPTED_EXIT_CODE: u8 = 130;

/// Prints the error, if any, and returns the exit code.
pub fn exit_code(outcome: anyhow::Result<()>) -> ExitCode {
    let Err(error) = outcome else { return ExitCode::SUCCESS };
    let io_kind = |kind| error.chain().any(|cause| cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == kind));
    if io_kind(io::ErrorKind::BrokenPipe) {
        return ExitCode::SUCCESS;
    }
    eprint_line(&message(&error));
    if error.is::<Interrupted>() || error.is::<Suspended>() {
        ExitCode::from(INTERRUPTED_EXIT_CODE)
    } else if io_kind(io::ErrorKind::StorageFull) || error.is::<Failed>() {
        ExitCode::from(1)
    } else {
        ExitCode::from(2)
    }
}

/// The error and its causes in one line. A cause with which the text already ends is not repeated.
pub fn message(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string).filter(|cause| !cause.is_empty()) {
        if text.is_empty() {
            text = cause;
        } else if !text.ends_with(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}
