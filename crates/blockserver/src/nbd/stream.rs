//! Byte streams to clients: sockets, in plain text or under TLS.

use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

/// A stream in both directions.
pub trait Stream: Read + Write + Send + Sync + 'static {
    /// Another handle of the same stream, for another thread.
    ///
    /// # Errors
    /// The socket cannot be duplicated.
    fn twin(&self) -> io::Result<Self>
    where
        Self: Sized;

    /// Shuts down both directions, which ends the waits of all threads.
    fn hang_up(&self);

    /// Shuts down reading; output is still sent.
    fn take_no_more(&self);

    /// Sets the timeout of each later read and write; `None`: they wait without limit.
    ///
    /// # Errors
    /// The socket refuses the timeout.
    fn limit(&self, wait: Option<Duration>) -> io::Result<()>;

    /// Sends as much of `parts` as possible without blocking, and returns the number of bytes. By default, for streams that cannot do this,
    /// nothing is sent.
    ///
    /// # Errors
    /// [`WouldBlock`](io::ErrorKind::WouldBlock) if nothing can be sent now; or the connection failed.
    fn send_now(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
        let _ = parts;
        Err(io::ErrorKind::WouldBlock.into())
    }
}

/// [`Stream::send_now`] for sockets.
fn send_now(socket: impl AsFd, parts: &[IoSlice<'_>]) -> io::Result<usize> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    loop {
        match sendmsg(&socket, parts, &mut SendAncillaryBuffer::default(), flags) {
            Err(rustix::io::Errno::INTR) => {}
            result => return Ok(result?),
        }
    }
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

            fn send_now(&self, parts: &[IoSlice<'_>]) -> io::Result<usize> {
                send_now(self, parts)
            }
        }
    };
}

socket!(UnixStream);
socket!(TcpStream);

/// A stream that fails after a deadline, no matter how many bytes arrive before: a client that sends them one by one cannot keep its
/// connection.
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

/// Replaces the error of a socket's timeout.
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
