//! The server side of the control socket: threads read requests, the daemon's loop replies.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use super::{Answer, Ask, privileged};
use endpoint::connections::{Places, UntilDeadline, listen};

/// Time for a client to send its whole request, and to take the whole reply. Choice: a shorter one fails on a busy machine, a longer one
/// lets a silent client keep its place; not varied.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout for a reply of the daemon's loop. Choice: above a step of many devices, each with a switch of some 35 ms; not varied.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum bytes of a request. Choice: bounds the memory of unprivileged clients; one page; not varied.
const MAX_REQUEST_BYTES: u64 = 4096;
/// Maximum concurrent connections of privileged clients, and of all others. Choice: bounds the threads of unprivileged clients; not varied.
const MAX_CONNECTIONS: usize = 16;

/// Minimum interval between connections of unprivileged clients, all together. Choice: ten a second are enough for scripts, and cost little
/// processor time even if each asks for `verify`; not varied.
const OTHERS_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for a slot; later connections of unprivileged clients are refused. Choice: the ten that wait are fewer than
/// [`MAX_CONNECTIONS`], so that none of them is closed for a later one; not varied.
const OTHERS_WAIT: Duration = Duration::from_secs(1);

/// Pause after a refusal. Choice: thousands of refusals a second take a tenth of a processor, and the daemon's priority is not lent to a
/// flood; privileged clients have a queue of their own; not varied.
const REFUSAL_PAUSE: Duration = Duration::from_micros(200);

/// The time of the next connection of an unprivileged client: together they must not keep the daemon from its devices and from root.
#[derive(Debug, Default)]
struct Slots(Option<Instant>);

impl Slots {
    /// The wait for a slot that is taken by this; `None` if it is too long.
    fn take(&mut self, now: Instant) -> Option<Duration> {
        let slot = self.0.map_or(now, |next| next.max(now));
        let wait = slot - now;
        (wait <= OTHERS_WAIT).then(|| {
            self.0 = Some(slot + OTHERS_INTERVAL);
            wait
        })
    }
}

/// A request that waits for its reply.
#[derive(Debug)]
pub struct Asked {
    /// The request.
    pub ask: Ask,
    /// Whether the client is root or the daemon's own user.
    pub is_privileged: bool,
    answer: Sender<Answer>,
}

impl Asked {
    /// Sends the reply. Ignored if the client has disconnected.
    pub fn answer(self, answer: Answer) {
        let _ = self.answer.send(answer);
    }
}

/// The listening sockets. Dropping it removes their files.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    asked: Receiver<Asked>,
    /// Readable when a client has sent a request.
    wakes: UnixStream,
}

impl Server {
    /// Listens on a new socket at this path, and on one for privileged clients next to it.
    ///
    /// # Errors
    /// Another daemon listens there, or its folder does not exist or is not writable.
    pub fn listen(path: &Path) -> io::Result<Server> {
        let running = "another seekwise-agent is running";
        let listeners = [(path.to_owned(), 0o666), (privileged(path), 0o600)].map(|(path, mode)| {
            let listener = listen(&path, running)?;
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).map(|()| listener)
        });
        let (sender, asked) = channel();
        let (wakes, wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        let wake = Arc::new(wake);
        for listener in listeners {
            let (listener, sender, wake) = (listener?, sender.clone(), wake.clone());
            std::thread::Builder::new().name("control".to_owned()).spawn(move || accept(&listener, &sender, &wake))?;
        }
        Ok(Server { path: path.to_owned(), asked, wakes })
    }

    /// The next request; `None` if none is pending. Does not block.
    pub fn asked(&self) -> Option<Asked> {
        let mut away = [0; 64];
        let _ = (&self.wakes).read(&mut away);
        self.asked.try_recv().ok()
    }

    /// The descriptor that becomes readable when a client has sent a request.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.wakes.as_fd()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = fs::remove_file(privileged(&self.path));
        let _ = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, sender: &Sender<Asked>, wake: &Arc<UnixStream>) {
    // Others cannot take the places of root.
    let (privileged, others) = (Places::new(MAX_CONNECTIONS), Places::new(MAX_CONNECTIONS));
    let (mut slots, mut refused) = (Slots::default(), VecDeque::new());
    for stream in listener.incoming().filter_map(Result::ok) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let is_privileged = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        // Decided before there is a thread: thousands of threads a second would take the processor from the daemon and from root.
        let (places, wait) = if is_privileged {
            (&privileged, Duration::ZERO)
        } else if let Some(wait) = slots.take(Instant::now()) {
            (&others, wait)
        } else {
            refuse(stream, &mut refused);
            std::thread::sleep(REFUSAL_PAUSE);
            continue;
        };
        let (sender, wake) = (sender.clone(), wake.clone());
        // Without a thread for it the client sees the connection end.
        let _ = places.serve("control", stream, move |stream| {
            std::thread::sleep(wait);
            // A client that disconnects gets no reply.
            let _ = serve(stream, is_privileged, &sender, &wake);
        });
    }
}

/// Refuses a connection without reading its request. It stays open until later ones are refused, because closing it before the client has
/// sent its request would reset it, and the client would not see the reason.
fn refuse(mut stream: UnixStream, earlier: &mut VecDeque<UnixStream>) {
    let reason = "too many requests of unprivileged users; ask again later, or as root";
    let answer = serde_json::to_vec(&Answer::Refused(reason.to_owned())).unwrap_or_default();
    // An empty buffer of a socket takes a line; a client that disconnects gets no reply.
    let _ = stream.set_nonblocking(true).and_then(|()| stream.write_all(&[&answer[..], b"\n"].concat()));
    let _ = stream.shutdown(Shutdown::Write);
    earlier.push_back(stream);
    if earlier.len() > MAX_CONNECTIONS {
        earlier.pop_front();
    }
}

/// Serves a client.
fn serve(stream: &UnixStream, is_privileged: bool, sender: &Sender<Asked>, wake: &UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(UntilDeadline::new(stream, CLIENT_TIMEOUT).take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Err(error) => Answer::Refused(format!("invalid request: {error}; are both programs of the same version?")),
        Ok(ask) => {
            let (reply, answer) = channel();
            sender.send(Asked { ask, is_privileged, answer: reply }).map_err(io::Error::other)?;
            let _ = (&*wake).write(&[1]);
            answer.recv_timeout(REPLY_TIMEOUT).map_err(io::Error::other)?
        }
    };
    let mut text = serde_json::to_vec(&answer)?;
    text.push(b'\n');
    UntilDeadline::new(stream, CLIENT_TIMEOUT).write_all(&text)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::control_socket::ask;

    /// Waits for the next request, which a thread sends.
    fn next(server: &Server) -> Asked {
        let begin = std::time::Instant::now();
        loop {
            if let Some(asked) = server.asked() {
                return asked;
            }
            assert!(begin.elapsed() < CLIENT_TIMEOUT);
            std::thread::yield_now();
        }
    }

    #[test]
    fn requests_are_answered_and_invalid_ones_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        assert!(ask(&path, &Ask::Status).unwrap().is_none(), "no daemon is running");
        let server = Server::listen(&path).unwrap();
        assert!(Server::listen(&path).unwrap_err().to_string().contains("another seekwise-agent is running"));
        std::thread::scope(|scope| {
            let answer = scope.spawn(|| ask(&path, &Ask::Resume { scope: "sda".into() }).unwrap());
            let asked = next(&server);
            assert!(asked.is_privileged && asked.ask == Ask::Resume { scope: "sda".into() });
            asked.answer(Answer::Done(vec!["done".to_owned()]));
            assert_eq!(answer.join().unwrap(), Some(Answer::Done(vec!["done".to_owned()])));
        });
        let mut stream = UnixStream::connect(&path).unwrap();
        stream.write_all(b"{\"reboot\":{}}\n").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert!(line.starts_with("{\"refused\":\"invalid request"), "{line}");
        drop(server);
        assert!(!path.exists());
    }

    #[test]
    fn unprivileged_connections_get_ten_slots_a_second_and_wait_a_second_at_most() {
        let (mut slots, now) = (Slots::default(), Instant::now());
        let waits: Vec<Option<Duration>> = (0..20).map(|_| slots.take(now)).collect();
        let served: Vec<Duration> = waits.iter().flatten().copied().collect();
        assert_eq!(served, (0..=10).map(|number| number * OTHERS_INTERVAL).collect::<Vec<_>>());
        assert!(waits[11..].iter().all(Option::is_none) && served.len() < MAX_CONNECTIONS);
        assert_eq!(slots.take(now + Duration::from_secs(9)), Some(Duration::ZERO));
    }

    #[test]
    fn a_refused_client_reads_the_reason_before_and_after_it_has_sent_its_request() {
        let mut refused = VecDeque::new();
        for number in 0..3 * MAX_CONNECTIONS {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            if number % 2 == 0 {
                theirs.write_all(b"\"status\"\n").unwrap();
            }
            refuse(ours, &mut refused);
            if number % 2 == 1 {
                theirs.write_all(b"\"status\"\n").unwrap();
            }
            let mut line = String::new();
            BufReader::new(theirs).read_line(&mut line).unwrap();
            assert!(line.contains("too many requests"), "{line}");
        }
        assert_eq!(refused.len(), MAX_CONNECTIONS);
    }

    #[test]
    fn a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && ask(&path, &Ask::Status).unwrap().is_none());
        Server::listen(&path).unwrap();
    }
}
