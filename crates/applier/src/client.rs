//! The client of the applier.

use std::io::{IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::error::{ApplierError, ErrorKind};
use crate::journal::AtExit;
use crate::protocol::{Answer, Can, Changed, Foreign, Original, Request, Restored, Scope, SetRequest};
use crate::trace::Formats;

/// Maximum time for an answer. A scheduler switch waits for all requests at the device: two thousand large ones take a hard disk half a
/// minute. This is also the kernel's timeout for hung tasks.
const DEADLINE: Duration = Duration::from_secs(120);
/// Maximum number of pipes per message (`SCM_MAX_FD`); with more processors there are several messages.
pub(crate) const PIPES_PER_MESSAGE: usize = 253;
/// Maximum length of an answer: the formats of a dozen events take some 30 KiB.
const LONGEST_ANSWER: usize = 4 << 20;

/// A connection to the applier. Blocking, with a deadline.
#[derive(Debug)]
pub struct Client {
    socket: PathBuf,
    stream: UnixStream,
    deadline: Duration,
}

/// The pipes of a trace, and the formats of its events.
#[derive(Debug)]
pub struct TracePipes {
    /// A pipe per processor, in ascending order. The trace ends with the connection.
    pub pipes: Vec<OwnedFd>,
    /// The formats of the events in the pipes.
    pub formats: Formats,
}

impl Client {
    /// Connects to the applier's socket.
    ///
    /// # Errors
    /// [`ErrorKind::Unreachable`].
    pub fn connect(socket: &Path) -> Result<Client, ApplierError> {
        let hint = "; is the applier running, and is this user allowed to talk to it?";
        let unreachable = |error| ApplierError::new(ErrorKind::Unreachable, format_args!("{}: {error}{hint}", socket.display()));
        let stream = UnixStream::connect(socket).map_err(unreachable)?;
        stream.set_write_timeout(Some(DEADLINE)).map_err(unreachable)?;
        Ok(Client { socket: socket.to_owned(), stream, deadline: DEADLINE })
    }

    /// Checks that the attributes of a device, or of the [machine](crate::attribute::MACHINE), can be written and read back: writes their
    /// current values.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`]; [`ErrorKind::Forbidden`] if the system forbids writing any of them; [`ErrorKind::Journal`].
    pub fn can(&mut self, device: &str) -> Result<Vec<Can>, ApplierError> {
        match self.ask(&Request::Can { scope: device.into() })? {
            Answer::Can(can) => Ok(can),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sets attributes, all or none, and reads them back. Also returns attributes that the kernel changed as a side effect.
    ///
    /// # Errors
    /// Any [`ErrorKind`]; nothing is changed, unless it is [`ErrorKind::HalfDone`].
    pub fn set(&mut self, scope: Scope, wanted: &[(String, String)], why: &str) -> Result<Vec<Changed>, ApplierError> {
        self.set_if(SetRequest { scope, values: wanted.to_vec(), expected: Vec::new(), why: why.to_owned() })
    }

    /// Like [`set`](Client::set), if the expected values are still current.
    ///
    /// # Errors
    /// Those of [`set`](Client::set); [`ErrorKind::Stale`] if they are not.
    pub fn set_if(&mut self, wanted: SetRequest) -> Result<Vec<Changed>, ApplierError> {
        match self.ask(&Request::Set(wanted))? {
            Answer::Changed(changed) => Ok(changed),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The attributes of a device that were changed externally since the agent last set them.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`], [`ErrorKind::Journal`].
    pub fn foreign(&mut self, device: &str) -> Result<Vec<Foreign>, ApplierError> {
        match self.ask(&Request::Foreign { scope: device.into() })? {
            Answer::Foreign(foreign) => Ok(foreign),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Stands down: external changes stay and are never reverted, and nothing is set on the device until it is [resumed](Client::resume).
    /// The originals of other attributes are kept. `changed`: external changes known to the caller, which the journal may not show: the
    /// name, and the value that the agent had or wanted.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`], [`ErrorKind::Journal`]; [`ErrorKind::NotAllowed`] for an unknown attribute.
    pub fn release(&mut self, device: &str, changed: &[(String, String)]) -> Result<(), ApplierError> {
        self.done(&Request::Release { scope: device.into(), changed: changed.to_vec() })
    }

    /// Resumes control of a device after standing down: its current values are the originals.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`], [`ErrorKind::Journal`].
    pub fn resume(&mut self, device: &str) -> Result<(), ApplierError> {
        self.done(&Request::Resume { scope: device.into() })
    }

    /// Restores the originals of one device or of everything, but never over external changes.
    ///
    /// # Errors
    /// [`ErrorKind::Journal`]: the readable part of the journal was restored; the message describes the rest.
    pub fn restore(&mut self, device: Option<&str>) -> Result<Vec<Restored>, ApplierError> {
        match self.ask(&Request::Restore { scope: device.map(Scope::from) })? {
            Answer::Restored(restored) => Ok(restored),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The original values of one device, or of everything.
    ///
    /// # Errors
    /// [`ErrorKind::Journal`].
    pub fn originals(&mut self, device: Option<&str>) -> Result<Vec<Original>, ApplierError> {
        match self.ask(&Request::Originals { scope: device.map(Scope::from) })? {
            Answer::Originals(originals) => Ok(originals),
            other => Err(self.unexpected(&other)),
        }
    }

    /// Sets whether a device's settings are restored when the agent ends. Stored in the journal.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`], [`ErrorKind::Journal`].
    pub fn at_exit(&mut self, device: &str, policy: AtExit) -> Result<(), ApplierError> {
        self.done(&Request::AtExit { device: device.to_owned(), policy })
    }

    /// Opens the pipes of a trace of one device, in a separate tracefs instance, which ends with this connection.
    ///
    /// # Errors
    /// [`ErrorKind::NoDevice`]; [`ErrorKind::Forbidden`] if the kernel has no tracefs or forbids it.
    pub fn tracepoints(&mut self, device: &str) -> Result<TracePipes, ApplierError> {
        let (answer, pipes) = self.exchange(&Request::Tracepoints { device: device.to_owned() }, true)?;
        match answer {
            Answer::Tracepoints { pipes: count, formats } if count == pipes.len() => Ok(TracePipes { pipes, formats }),
            Answer::Tracepoints { pipes: count, .. } => {
                let message = format_args!("{}: {} pipes came instead of {count}", self.socket.display(), pipes.len());
                Err(ApplierError::new(ErrorKind::Refused, message))
            }
            other => Err(self.unexpected(&other)),
        }
    }

    fn done(&mut self, request: &Request) -> Result<(), ApplierError> {
        match self.ask(request)? {
            Answer::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    fn ask(&mut self, request: &Request) -> Result<Answer, ApplierError> {
        self.exchange(request, false).map(|(answer, _)| answer)
    }

    /// Sends a request and waits for the answer. Without `with_pipes`, no descriptors are accepted.
    fn exchange(&mut self, request: &Request, with_pipes: bool) -> Result<(Answer, Vec<OwnedFd>), ApplierError> {
        let mut line = serde_json::to_vec(request).map_err(|error| ApplierError::new(ErrorKind::Refused, error))?;
        line.push(b'\n');
        let exchanged = (&self.stream).write_all(&line).map_err(|error| self.lost(error)).and_then(|()| self.receive(with_pipes));
        let (line, pipes) = exchanged.inspect_err(|_| {
            // A late answer would be taken for that to the next request. The applier notices that the client disconnects.
            let _ = self.stream.shutdown(Shutdown::Both);
        })?;
        let misunderstood = |error| {
            let socket = self.socket.display();
            ApplierError::new(
                ErrorKind::Refused,
                format_args!("{socket}: the answer is not understood ({error}); are both of one version?"),
            )
        };
        match serde_json::from_slice(&line).map_err(misunderstood)? {
            Answer::Error(error) => Err(error),
            answer => Ok((answer, pipes)),
        }
    }

    /// The line of an answer, and the pipes sent with it.
    fn receive(&self, with_pipes: bool) -> Result<(Vec<u8>, Vec<OwnedFd>), ApplierError> {
        let until = Instant::now() + self.deadline;
        let (mut line, mut pipes) = (Vec::new(), Vec::new());
        let mut buffer = vec![0; 64 << 10];
        while line.last() != Some(&b'\n') {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() || line.len() > LONGEST_ANSWER {
                return Err(self.lost(format_args!("no answer within {} s", self.deadline.as_secs())));
            }
            self.stream.set_read_timeout(Some(left)).map_err(|error| self.lost(error))?;
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PIPES_PER_MESSAGE))];
            let mut ancillary = RecvAncillaryBuffer::new(if with_pipes { &mut space[..] } else { &mut [] });
            let mut parts = [IoSliceMut::new(&mut buffer)];
            let bytes = match recvmsg(&self.stream, &mut parts, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR | Errno::AGAIN) => continue,
                received => received.map_err(|error| self.lost(error))?.bytes,
            };
            for message in ancillary.drain() {
                if let RecvAncillaryMessage::ScmRights(received) = message {
                    pipes.extend(received);
                }
            }
            if bytes == 0 {
                return Err(self.lost("the applier closed the connection; its log says why"));
            }
            line.extend_from_slice(&buffer[..bytes]);
        }
        Ok((line, pipes))
    }

    fn lost(&self, why: impl std::fmt::Display) -> ApplierError {
        ApplierError::new(ErrorKind::Unreachable, format_args!("{}: {why}", self.socket.display()))
    }

    fn unexpected(&self, answer: &Answer) -> ApplierError {
        ApplierError::new(
            ErrorKind::Refused,
            format_args!("{}: unexpected answer (another version of the applier?): {answer:?}", self.socket.display()),
        )
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::*;

    #[test]
    fn an_answer_that_comes_too_late_is_never_taken_for_another() {
        let (stream, other) = UnixStream::pair().unwrap();
        let applier = thread::spawn(move || {
            let mut asked = BufReader::new(other.try_clone().unwrap()).lines();
            asked.next().unwrap().unwrap();
            thread::sleep(Duration::from_millis(300));
            // The other end may be closed already.
            let _ = (&other).write_all(b"{\"changed\":[]}\n");
            asked.next().is_none()
        });
        let mut client = Client { socket: PathBuf::from("socket"), stream, deadline: Duration::from_millis(50) };
        let late = client.set(Scope::Machine, &[], "").unwrap_err();
        assert!(late.kind == ErrorKind::Unreachable && late.message.contains("no answer within"), "{late}");
        thread::sleep(Duration::from_millis(400));
        assert_eq!(client.set(Scope::Machine, &[], "").unwrap_err().kind, ErrorKind::Unreachable);
        assert!(applier.join().unwrap(), "its client left");
    }
}
