//! The bytes of a client: a socket, in plain text or under TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// Both directions of a stream.
pub trait Stream: Read + Write + Send + 'static {
    /// The same stream for another thread.
    ///
    /// # Errors
    /// Of the system.
    fn twin(&self) -> io::Result<Self>
    where
        Self: Sized;

    /// Ends both directions, so that a thread that waits in either goes on.
    fn hang_up(&self);

    /// Takes nothing more, and still sends what is under way.
    fn take_no_more(&self);

    /// The longest wait of a read and of a write from now on; `None`: they wait for ever.
    ///
    /// # Errors
    /// Of the system.
    fn limit(&self, wait: Option<Duration>) -> io::Result<()>;
}

macro_rules! socket {
    ($socket:ty) => {
        impl Stream for $socket {
            fn twin(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn hang_up(&self) {
                let _ = self.shutdown(std::net::Shutdown::Both);
            }

            fn take_no_more(&self) {
                let _ = self.shutdown(std::net::Shutdown::Read);
            }

            fn limit(&self, wait: Option<Duration>) -> io::Result<()> {
                self.set_read_timeout(wait)?;
                self.set_write_timeout(wait)
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

/// A stream that fails from a moment on, however many bytes come before: a client that drips bytes does not keep its place.
pub(super) struct Until<'a, S> {
    pub stream: &'a mut S,
    pub deadline: Instant,
}

impl<S: Stream> Until<'_, S> {
    fn limit(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(late()) } else { self.stream.limit(Some(left)) }
    }
}

fn late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the handshake takes too long")
}

/// What a socket says when a wait was too long.
fn named(error: io::Error) -> io::Error {
    if error.kind() == io::ErrorKind::WouldBlock { late() } else { error }
}

impl<S: Stream> Read for Until<'_, S> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.read(buffer).map_err(named)
    }
}

impl<S: Stream> Write for Until<'_, S> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        self.stream.write(bytes).map_err(named)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.stream.flush()
    }
}
