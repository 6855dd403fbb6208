//! The front door for the Network Block Device protocol: fixed newstyle, as in `doc/proto.md` of NetworkBlockDevice/nbd.
//!
//! ```text
//! client ─▶ handshake (options) ─▶ transmission: reader thread ─▶ Export::submit ─▶ store
//!    ▲                                             │ stops reading while too much is under way
//!    └───────────────────── writer thread ◀────────┴──────────── Replies::done
//! ```
//! [`wire`] knows the bytes, [`handshake`] the options, [`connection`] the requests, [`stream`] and [`tls`] the sockets. What is served is
//! behind [`Export`] and [`Exports`], and who may open it behind [`Entrance`].

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

use crate::store::{Buffer, Kind, Replies};

/// Where a client comes from, as the system says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Through a unix socket: the user that opened it. `None`: the system does not say.
    Unix(Option<u32>),
    /// Through TCP, from this address.
    Tcp(SocketAddr),
}

/// What is known of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Client {
    /// Where it comes from.
    pub origin: Origin,
    /// The names in its certificate, if it showed one that is believed.
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
            // Escaped: a signer may let clients choose their names.
            Some(names) => write!(formatter, " with the certificate of {names:?}"),
            None => Ok(()),
        }
    }
}

/// Whether clients are asked to use TLS.
#[derive(Clone, Copy)]
pub enum Security<'a> {
    /// It is not offered.
    Plain,
    /// A client may begin it.
    Offered(&'a tls::Tls),
    /// A client learns nothing before it has begun it.
    Required(&'a tls::Tls),
}

/// A place where clients connect, and what is open to each.
pub trait Entrance: Send + Sync {
    /// What a client can open. Asked for again when TLS has begun.
    fn exports<'a>(&'a self, client: &Client) -> Box<dyn Exports + 'a>;

    /// Whether TLS is offered.
    fn security(&self) -> Security<'_> {
        Security::Plain
    }

    /// How long a client may take until it has chosen an export.
    fn patience(&self) -> Duration {
        PATIENCE
    }

    /// A fault that an administrator should know of.
    fn note(&self, _: &str) {}
}

/// What [`Entrance::patience`] is: on a slow line a handshake takes some seconds.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a client can open.
pub trait Exports: Send + Sync {
    /// Names and descriptions; empty if they are not told.
    fn list(&self) -> Vec<(String, String)>;

    /// One by its name; the empty name is the default export, if there is one.
    ///
    /// # Errors
    /// In words for the client: there is none of this name, or this client may not open it.
    fn open(&self, name: &str) -> Result<Arc<dyn Export>, String>;
}

/// Something that can be read and written.
pub trait Export: Send + Sync {
    /// What it is called.
    fn name(&self) -> String;

    /// What it is.
    fn description(&self) -> String;

    /// Its size in bytes, now.
    fn bytes(&self) -> u64;

    /// The smallest transfer and alignment in bytes, the preferred one, and the largest.
    fn block_bytes(&self) -> [u32; 3];

    /// Buffers of a transfer cross no multiple of the first number of bytes, and are no longer than the second: see [`pieces`].
    fn cuts(&self) -> (u64, u64);

    /// Whether writes are refused.
    fn is_read_only(&self) -> bool;

    /// Whether it turns.
    fn is_rotational(&self) -> bool;

    /// Asks for something within its size; `replies` is called once with the cookie. The data of a write is in order, and so are the buffers
    /// of a read.
    fn submit(&self, ask: Ask, replies: Arc<dyn Replies>);

    /// Which parts of the range hold data: lengths in bytes, and whether they are holes that read as zeros. They cover the range from its
    /// beginning, all of it or less, and at least one byte.
    fn status(&self, offset: u64, bytes: u64) -> Vec<(u64, bool)>;

    /// A client begins; false if the export has gone since it was opened.
    fn begins(&self) -> bool {
        true
    }

    /// A client was not read from for this long, because too much of what it asked for was under way.
    fn held_back(&self, _: Duration) {}

    /// The client has gone, and all its requests are done.
    fn ends(&self) {}
}

/// A request of a client.
pub struct Ask {
    /// The client's number for it.
    pub cookie: u64,
    /// What.
    pub kind: Kind,
    /// The first byte.
    pub offset: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Durable before the answer.
    pub is_durable: bool,
    /// What is written, in buffers as the export asked for with [`pieces`].
    pub data: Vec<Buffer>,
}

/// The lengths of the buffers that a range is transferred in, so that none crosses a multiple of `boundary` or is longer than `most`.
///
/// ```
/// assert_eq!(serve::nbd::pieces(1000, 3000, 2048, 1024).collect::<Vec<_>>(), [1024, 24, 1024, 928]);
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

/// An error as the protocol has it.
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
