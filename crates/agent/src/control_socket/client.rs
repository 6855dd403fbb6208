//! The client side of the control socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use endpoint::connections::UntilDeadline;

use super::{Answer, Ask, privileged};

/// Timeout for a reply: the daemon replies between two steps of its loop, and a step may switch a scheduler. Choice: no less than the
/// timeouts of the server together (30 s and twice 5 s), so that its error arrives; not varied.
const DEADLINE: Duration = Duration::from_secs(40);
/// Maximum bytes of a reply: a history of maximum length. Choice: bounds the memory; 100,000 entries of 2.6 KB; not varied.
const LONGEST: u64 = 256 << 20;

/// Sends a request to the daemon that listens on this socket, and returns its reply; `None` if none is running.
///
/// # Errors
/// Its whole reply is not there within 40 s, or is not valid JSON of this version.
pub fn ask(socket: &Path, ask: &Ask) -> io::Result<Option<Answer>> {
    // Others may not connect to the first.
    let connected = UnixStream::connect(privileged(socket)).or_else(|_| UnixStream::connect(socket));
    let stream = match connected {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut stream = UntilDeadline::new(&stream, DEADLINE);
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    // A refusal is there before the request is read.
    let sent = stream.write_all(&line);
    let mut answer = String::new();
    let received = BufReader::new(stream.take(LONGEST)).read_line(&mut answer);
    sent.or_else(|error| if answer.is_empty() { Err(error) } else { Ok(()) })?;
    received?;
    Ok(Some(serde_json::from_str(&answer)?))
}
