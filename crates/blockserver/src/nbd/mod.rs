//! The front door for the Network Block Device protocol: fixed newstyle, as in `doc/proto.md` of NetworkBlockDevice/nbd.
//!
//! ```text
//! client ─▶ handshake (options) ─▶ transmission: reader thread ─▶ Export::put ─▶ Batch::run ─▶ store
//!    ▲                                             │ stops reading while too much is under way     │
//!    ├───────────────────────────── any thread ◀───┴───────────────── Replies::done, flush ◀───────┘
//!    └── writer thread ◀── data that the socket does not take at once
//! ```
//! [`wire`] encodes messages, [`handshake`] negotiates options, [`connection`] serves requests, and [`stream`] and [`tls`] are the sockets.
//! [`Export`] and [`Exports`] are the volumes served, and [`Entrance`] decides which client may open which.

pub mod connection;
pub mod handshake;
pub mod stream;
#[cfg(test)]
mod tests;
pub mod tls;
pub mod wire;

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::store::{Batch, Buffers, Kind, Replies};

/// Where a client connects from, as reported by the operating system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Through a Unix socket; the user id of the client's process, `None` if unknown.
    Unix(Option<u32>),
    /// Through TCP, from this address.
    Tcp(SocketAddr),
}

/// Identity of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where it connects from.
    pub origin: Origin,
    /// Names in its certificate, if it presented a trusted one.
    pub names: Option<Vec<String>>,
}

impl fmt::Display for Client {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.origin {
            Origin::Unix(Some(user)) => write!(formatter, "user {user}")?,
            Origin::Unix(None) => write!(formatter, "a local user")?,
            Origin::Tcp(address) => write!(formatter, "{address}")?,
        }
        match &self.names {
            // Escaped, because a CA may let clients choose their names.
            Some(names) => write!(formatter, " with the certificate of {names:?}"),
            None => Ok(()),
        }
    }
}

/// Whether TLS is offered or required.
#[derive(Clone, Copy)]
pub enum Security<'a> {
    /// Not offered.
    Plain,
    /// Optional.
    Offered(&'a tls::Tls),
    /// Required; nothing is disclosed to a client before TLS is established.
    Required(&'a tls::Tls),
}

/// A listening address and its access control.
pub trait Entrance: Send + Sync {
    /// The exports open to a client. Called again after TLS is established.
    fn exports<'a>(&'a self, client: &Client) -> Box<dyn Exports + 'a>;

    /// Whether TLS is offered or required; not offered by default.
    fn security(&self) -> Security<'_> {
        Security::Plain
    }

    /// Time limit of a handshake, until an export is chosen; 30 s by default.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// Reports a fault to the administrator; does nothing by default.
    fn note(&self, _: &str) {}
}

/// Default of [`Entrance::patience`]: on a slow line a handshake takes some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// The exports open to a client.
pub trait Exports: Send + Sync {
    /// Names and descriptions; empty if they are not disclosed.
    fn list(&self) -> Vec<(String, String)>;

    /// Opens an export by its name; the empty name selects the default export, if there is one.
    ///
    /// # Errors
    /// The message for the client: there is no export of this name, or the client may not open it.
    fn open(&self, name: &str) -> Result<Arc<dyn Export>, String>;
}

/// An exported block device.
pub trait Export: Send + Sync {
    /// Its name.
    fn name(&self) -> String;

    /// A description for people.
    fn description(&self) -> String;

    /// Current size in bytes.
    fn bytes(&self) -> u64;

    /// Minimum, preferred and maximum transfer in bytes; the minimum is also the required alignment.
    fn block_bytes(&self) -> [u32; 3];

    /// Boundary and maximum length, in bytes, by which a transfer is split into buffers: see [`pieces`].
    fn cuts(&self) -> (u64, u64);

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;

    /// Whether it is on a rotational disk.
    fn is_rotational(&self) -> bool;

    /// Submits a request within the export's size, which starts with the batch. `replies` is called once with the cookie. The buffers of
    /// reads and writes are in order of offset.
    fn put(&self, ask: Ask, replies: Arc<dyn Replies>, batch: &mut Batch);

    /// Submits a request and starts it at once.
    fn submit(&self, ask: Ask, replies: Arc<dyn Replies>) {
        self.put(ask, replies, &mut Batch::default());
    }

    /// Allocation of a range as consecutive extents: length in bytes, and whether it is a hole, which reads as zeros. They start at
    /// `offset` and cover at least one byte, but may end before the range does.
    fn status(&self, offset: u64, bytes: u64) -> Vec<(u64, bool)>;

    /// A client connects. False if the export was removed after it was opened.
    fn begins(&self) -> bool {
        true
    }

    /// Reports back-pressure: for this time the client was not read from, because it had too many requests in flight.
    fn held_back(&self, _: Duration) {}

    /// The client has disconnected, and all its requests are complete.
    fn ends(&self) {}
}

/// A request of a client.
pub struct Ask {
    /// Identifies the request in the reply.
    pub cookie: u64,
    /// The operation.
    pub kind: Kind,
    /// First byte.
    pub offset: u64,
    /// Length in bytes.
    pub bytes: u64,
    /// The change is made durable before the reply (FUA).
    pub is_durable: bool,
    /// Data of a write, split by [`pieces`] as [`Export::cuts`] requires.
    pub data: Buffers,
}

/// Splits a range into buffers, of which none crosses a multiple of `boundary` or is longer than `most`. Returns their lengths in bytes.
///
/// ```
/// assert_eq!(blockserver::nbd::pieces(1000, 3000, 2048, 1024).collect::<Vec<_>>(), [1024, 24, 1024, 928]);
/// ```
pub fn pieces(offset: u64, bytes: u64, boundary: u64, most: u64) -> impl Iterator<Item = u64> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done;
        let length = (bytes - done).min(most).min(boundary - at % boundary);
        done += length;
        (length > 0).then_some(length)
    })
}

/// The protocol's code for an error; [`EIO`](wire::EIO) if no other fits.
pub fn error_code(error: &io::Error) -> u32 {
    match error.raw_os_error() {
        Some(1) => wire::EPERM,
        Some(12) => wire::ENOMEM,
        Some(22) => wire::EINVAL,
        Some(28) => wire::ENOSPC,
        Some(95) => wire::ENOTSUP,
        _ if error.kind() == io::ErrorKind::StorageFull => wire::ENOSPC,
        _ if error.kind() == io::ErrorKind::InvalidInput => wire::EINVAL,
        _ if error.kind() == io::ErrorKind::PermissionDenied => wire::EPERM,
        _ => wire::EIO,
    }
}
