//! The server side of the control socket: threads read requests, the daemon's loop replies.

use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

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
    for stream in listener.incoming().filter_map(Result::ok) {
        let Ok(peer) = rustix::net::sockopt::socket_peercred(&stream) else { continue };
        let is_privileged = peer.uid.is_root() || peer.uid == rustix::process::geteuid();
        let (sender, wake) = (sender.clone(), wake.clone());
        let places = if is_privileged { &privileged } else { &others };
        // Without a thread for it the client sees the connection end.
        let _ = places.serve("control", stream, move |stream| {
            // A client that disconnects gets no reply.
            let _ = serve(stream, is_privileged, &sender, &wake);
        });
    }
}

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
    fn a_socket_without_a_listener_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        drop(UnixListener::bind(&path).unwrap());
        assert!(path.exists() && ask(&path, &Ask::Status).unwrap().is_none());
        Server::listen(&path).unwrap();
    }
}
