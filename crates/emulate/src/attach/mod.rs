//! Sets up the connection between an emulated disk and the kernel's block layer, and takes it down under all circumstances.
//!
//! The process that serves the disk must never block on a kernel operation that uses the disk: it would deadlock. And it may be killed. So
//! a second process, the supervisor, does all of that: it is started before anything is mounted, and takes everything down when its
//! standard input closes, which the kernel does however the first process ends.
//!
//! ```text
//! emulator ── stdin ──▶ supervisor: losetup, queue settings, umount     record: /run/seekwise/emulate-N.json
//!          ◀─ stdout ──             (JSON lines)                         the original state, and what to take down
//! ```
//! | what dies | what happens |
//! |---|---|
//! | the emulator | FUSE fails requests in flight; the supervisor takes everything down |
//! | the supervisor | the emulator starts another one, which takes over the record |
//! | both | [`recover`], which every start calls first |

pub mod queue;
mod record;
mod supervisor;
mod teardown;

use std::fmt;

pub use record::{AttachRequest, Plan};
pub use supervisor::{Attached, Supervisor, supervise};
pub use teardown::recover;

/// An error of setting up or taking down a disk, with a possible remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachError(pub(crate) String);

impl fmt::Display for AttachError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for AttachError {}

impl AttachError {
    pub(crate) fn new(message: impl fmt::Display) -> AttachError {
        AttachError(message.to_string())
    }
}
