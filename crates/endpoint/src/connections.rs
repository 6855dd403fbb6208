//! Connections of local clients, limited in number and time, so that no client blocks others.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A connection to a client.
pub trait ClientStream: Send + Sized + 'static {
    /// Another handle of the same connection.
    ///
    /// # Errors
    /// There are too many open files.
    fn duplicate(&self) -> io::Result<Self>;

    /// Shuts down both directions, which ends all waits for it.
    fn end(&self);

    /// Sets the timeout of each later read and write.
    ///
    /// # Errors
    /// The limit is zero.
    fn limit(&self, timeout: Duration) -> io::Result<()>;
}

macro_rules! client_stream {
    ($stream:ty) => {
        impl ClientStream for $stream {
            fn duplicate(&self) -> io::Result<Self> {
                self.try_clone()
            }

            fn end(&self) {
                // The client may have ended it already.
                let _ = self.shutdown(Shutdown::Both);
            }

            fn limit(&self, timeout: Duration) -> io::Result<()> {
                self.set_read_timeout(Some(timeout))?;
                self.set_write_timeout(Some(timeout))
            }
        }
    };
}

client_stream!(UnixStream);
client_stream!(TcpStream);

/// A stream that fails with [`TimedOut`](io::ErrorKind::TimedOut) after a deadline, no matter how many bytes arrive before.
pub struct UntilDeadline<'a, S> {
    stream: &'a S,
    deadline: Instant,
}

impl<'a, S: ClientStream> UntilDeadline<'a, S> {
    /// A stream whose deadline is `time` from now.
    pub fn new(stream: &'a S, time: Duration) -> UntilDeadline<'a, S> {
        UntilDeadline { stream, deadline: Instant::now() + time }
    }

    fn limit(&self) -> io::Result<()> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() { Err(io::ErrorKind::TimedOut.into()) } else { self.stream.limit(left) }
    }
}

impl<S: ClientStream> Read for UntilDeadline<'_, S>
where
    for<'s> &'s S: Read,
{
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.limit()?;
        (&mut &*self.stream).read(buffer)
    }
}

impl<S: ClientStream> Write for UntilDeadline<'_, S>
where
    for<'s> &'s S: Write,
{
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.limit()?;
        (&mut &*self.stream).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        (&mut &*self.stream).flush()
    }
}

/// The open connections of one kind of client. At the limit the oldest is closed: a well-behaved client needs milliseconds.
pub struct Places<S> {
    open: Arc<Mutex<Open<S>>>,
    max: usize,
}

struct Open<S> {
    streams: VecDeque<(u64, S)>,
    next: u64,
}

impl<S: ClientStream> Places<S> {
    /// Allows at most `max` connections.
    pub fn new(max: usize) -> Places<S> {
        Places { open: Arc::new(Mutex::new(Open { streams: VecDeque::new(), next: 0 })), max }
    }

    /// Serves a connection in a thread of its own, and closes it afterwards.
    ///
    /// # Errors
    /// There are too many open files or threads; the connection is closed.
    pub fn serve(&self, name: &str, stream: S, serve: impl FnOnce(&S) + Send + 'static) -> io::Result<()> {
        let handle = stream.duplicate()?;
        let number = {
            let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
            if open.streams.len() >= self.max
                && let Some((_, oldest)) = open.streams.pop_front()
            {
                oldest.end();
            }
            open.next += 1;
            let number = open.next;
            open.streams.push_back((number, handle));
            number
        };
        let place = Place { open: self.open.clone(), number };
        std::thread::Builder::new().name(name.to_owned()).spawn(move || {
            serve(&stream);
            drop(place);
        })?;
        Ok(())
    }
}

/// Removes its connection from the open ones when dropped.
struct Place<S> {
    open: Arc<Mutex<Open<S>>>,
    number: u64,
}

impl<S> Drop for Place<S> {
    fn drop(&mut self) {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        open.streams.retain(|(number, _)| *number != self.number);
    }
}

/// Listens on a Unix socket at `path`. Replaces a socket left by a killed process, and nothing else.
///
/// # Errors
/// Another process listens there, with the message `running`; something other than a socket is there; the folder is missing or may not be
/// written.
pub fn listen(path: &Path, running: &str) -> io::Result<UnixListener> {
    match fs::symlink_metadata(path) {
        Ok(there) if !there.file_type().is_socket() => {
            let message = format!("{} exists and is not a socket; it is left as it is, choose another path", path.display());
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, message));
        }
        Ok(_) if UnixStream::connect(path).is_ok() => return Err(io::Error::new(io::ErrorKind::AddrInUse, running)),
        Ok(_) => fs::remove_file(path)?,
        Err(_) => {}
    }
    UnixListener::bind(path)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::io::BufRead as _;
    use std::io::BufReader;
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn bytes_that_drip_do_not_extend_the_deadline() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let dripping = std::thread::spawn(move || {
            while theirs.write_all(b"x").is_ok() {
                std::thread::sleep(Duration::from_millis(5))
            }
        });
        let began = Instant::now();
        let mut line = String::new();
        let error = BufReader::new(UntilDeadline::new(&ours, Duration::from_millis(100))).read_line(&mut line).unwrap_err();
        assert!(matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock), "{error}");
        assert!(began.elapsed() < Duration::from_secs(5));
        drop(ours);
        dripping.join().unwrap();
    }

    #[test]
    fn the_oldest_connection_makes_room_for_a_new_one() {
        let places = Places::new(2);
        let (sender, ended) = channel();
        let connect = |number: u32| {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let sender = sender.clone();
            let serve = move |stream: &UnixStream| {
                // Until the other end is closed or the place is taken.
                let _ = (&mut &*stream).read(&mut [0; 1]);
                sender.send(number).unwrap();
            };
            places.serve("test", ours, serve).unwrap();
            theirs
        };
        let (_first, second, _third) = (connect(1), connect(2), connect(3));
        assert_eq!(ended.recv().unwrap(), 1);
        drop(second);
        assert_eq!(ended.recv().unwrap(), 2);
    }

    #[test]
    fn only_a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(listen(&path, "running").unwrap());
        let listener = listen(&path, "running").unwrap();
        assert_eq!(listen(&path, "running").unwrap_err().to_string(), "running");
        drop(listener);
        for make in [
            |path: &Path| fs::write(path, "precious").unwrap(),
            |path: &Path| {
                std::os::unix::fs::symlink("/etc/passwd", path).unwrap();
            },
        ] {
            fs::remove_file(&path).unwrap();
            make(&path);
            assert!(listen(&path, "running").unwrap_err().to_string().contains("is not a socket"));
            assert!(fs::symlink_metadata(&path).is_ok(), "it is still there");
        }
    }
}
