//! The server side of the control socket: threads read requests, the daemon's loop replies.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::{Answer, Ask};
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

/// Minimum interval between requests of unprivileged clients, all together. Choice: ten a second are enough for scripts, and cost little
/// processor time even if each asks for `verify`; not varied.
const OTHERS_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for a slot; later requests of unprivileged clients are refused. Choice: below the timeout of a client; it bounds the waiting
/// threads to twenty; not varied.
const OTHERS_WAIT: Duration = Duration::from_secs(2);

/// The time of the next request of an unprivileged client: together they must not keep the daemon from its devices and from root.
#[derive(Debug, Default)]
struct Slots(Mutex<Option<Instant>>);

impl Slots {
    /// The wait for a slot that is taken by this; `None` if it is too long.
    fn take(&self, now: Instant) -> Option<Duration> {
        let mut next = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = next.map_or(now, |next| next.max(now));
        let wait = slot - now;
        (wait <= OTHERS_WAIT).then(|| {
            *next = Some(slot + OTHERS_INTERVAL);
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

/// A listening socket. Dropping it removes its file.
#[derive(Debug)]
pub struct Server {
    path: PathBuf,
    asked: Receiver<Asked>,
    /// Readable when a client has sent a request.
    wakes: UnixStream,
}

impl Server {
    /// Listens on a new socket at this path.
    ///
    /// # Errors
    /// Another daemon listens there, or its folder does not exist or is not writable.
    pub fn listen(path: &Path) -> io::Result<Server> {
        let listener = listen(path, "another seekwise-agent is running")?;
        fs::set_permissions(path, fs::Permissions::from_mode(0o666))?;
        let (sender, asked) = channel();
        let (wakes, wake) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        wake.set_nonblocking(true)?;
        std::thread::Builder::new().name("control".to_owned()).spawn(move || accept(&listener, &sender, &Arc::new(wake)))?;
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
        let _ = fs::remove_file(&self.path);
    }
}

fn accept(listener: &UnixListener, sender: &Sender<Asked>, wake: &Arc<UnixStream>) {
    // Others cannot take the places of root.
    let (privileged, others) = (Places::new(MAX_CONNECTIONS), Places::new(MAX_CONNECTIONS));
    let slots = Arc::new(Slots::default());
    for stream in listener.incoming().filter_map(Result::ok) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let is_privileged = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        let (sender, wake) = (sender.clone(), wake.clone());
        let (places, slots) = if is_privileged { (&privileged, None) } else { (&others, Some(slots.clone())) };
        // Without a thread for it the client sees the connection end.
        let _ = places.serve("control", stream, move |stream| {
            // A client that disconnects gets no reply.
            let _ = serve(stream, slots.as_deref(), &sender, &wake);
        });
    }
}

/// Serves a client. `slots`: those of unprivileged clients; `None` for a privileged one.
fn serve(stream: &UnixStream, slots: Option<&Slots>, sender: &Sender<Asked>, wake: &UnixStream) -> io::Result<()> {
    let mut line = String::new();
    BufReader::new(UntilDeadline::new(stream, CLIENT_TIMEOUT).take(MAX_REQUEST_BYTES)).read_line(&mut line)?;
    let answer = match serde_json::from_str(&line) {
        Err(error) => Answer::Refused(format!("invalid request: {error}; are both programs of the same version?")),
        Ok(ask) => match slots.map_or(Some(Duration::ZERO), |slots| slots.take(Instant::now())) {
            None => Answer::Refused("too many requests of unprivileged users; ask again later, or as root".to_owned()),
            Some(wait) => {
                std::thread::sleep(wait);
                let (reply, answer) = channel();
                sender.send(Asked { ask, is_privileged: slots.is_none(), answer: reply }).map_err(io::Error::other)?;
                let _ = (&*wake).write(&[1]);
                answer.recv_timeout(REPLY_TIMEOUT).map_err(io::Error::other)?
            }
        },
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
    fn a_flood_of_unprivileged_requests_is_bounded_in_number_and_root_does_not_wait_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let server = Server::listen(&path).unwrap();
        let (slots, (sender, others), (_read, wake)) = (Slots::default(), channel(), UnixStream::pair().unwrap());
        let began = Instant::now();
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..60)
                .map(|_| {
                    let (ours, mut theirs) = UnixStream::pair().unwrap();
                    let (slots, sender, wake) = (&slots, sender.clone(), &wake);
                    scope.spawn(move || serve(&ours, Some(slots), &sender, wake));
                    scope.spawn(move || {
                        theirs.write_all(b"\"verify\"\n").unwrap();
                        let mut line = String::new();
                        BufReader::new(theirs).read_line(&mut line).unwrap();
                        line
                    })
                })
                .collect();
            // Root is answered on the real socket before any of them.
            let root = scope.spawn(|| ask(&path, &Ask::Status).unwrap());
            next(&server).answer(Answer::Done(Vec::new()));
            assert_eq!(root.join().unwrap(), Some(Answer::Done(Vec::new())));
            drop(sender);
            let served = others.iter().map(|asked: Asked| asked.answer(Answer::Differs(Vec::new()))).count();
            let most = (began.elapsed().as_millis() / OTHERS_INTERVAL.as_millis()) as usize + 1;
            assert!((2..=most).contains(&served), "{served} of at most {most}");
            let refused = clients.into_iter().map(|client| client.join().unwrap());
            assert_eq!(refused.filter(|line| line.contains("too many requests")).count(), 60 - served);
        });
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
