//! Writes a closed list of kernel settings for the agent, and restores them: the only code that writes to `/sys` and `/proc/sys`.
//!
//! ```text
//! client ──line of JSON──▶ server: peer checked ──▶ writer ─▶ journal (old values, on disk first) ─▶ sysfs ─▶ read back
//!        ◀──line, pipes───                             └─ all or nothing; external changes stay
//! ```
//! The program `seekwise-applier` is [`serve`] with a command line. The library also serves clients: the [`Client`], the
//! [protocol](Request), and the [list of attributes](attribute).

pub mod attribute;
mod can;
pub mod cgroup;
mod client;
mod error;
pub mod journal;
mod lines;
pub mod log;
pub mod other_writers;
mod ownership;
#[cfg(feature = "policy")]
pub mod pattern;
mod plan;
#[cfg(feature = "policy")]
pub mod policy;
mod protocol;
mod restore;
mod server;
mod set;
pub mod sysfs;
mod take_over;
pub mod trace;
mod writer;

pub use client::{Client, TracePipes};
pub use error::{ApplierError, ErrorKind};
pub use journal::AtExit;
pub use protocol::{Answer, Can, Changed, Foreign, Original, Outcome, Request, Restored, Scope, SetRequest};
pub use restore::restore_alone;
pub use server::{Listen, Options, serve};
pub use writer::{MayKeep, Moment, Rules, Writer};

/// The program's file name.
pub const PROGRAM: &str = "seekwise-applier";
