//! The client side of the control socket.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::{Answer, Ask};

/// Timeout for a reply: the daemon replies between two steps of its loop, and a step may switch a scheduler. Choice: no less than the
/// timeouts of the server together (30 s and twice 5 s), so that its error arrives; not varied.
const DEADLINE: Duration = Duration::from_secs(40);
/// Maximum bytes of a reply: a history of maximum length. Choice: bounds the memory; 100,000 entries of 2.6 KB; not varied.
const LONGEST: u64 = 256 << 20;

/// Sends a request to the daemon that listens on this socket, and returns its reply; `None` if none is running.
///
/// # Errors
/// It does not reply within 40 s, or the reply is not valid JSON of this version.
pub fn ask(socket: &Path, ask: &Ask) -> io::Result<Option<Answer>> {
    let mut stream = match UnixStream::connect(socket) {
        Ok(stream) => stream,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) => return Ok(None),
        Err(error) => return Err(error),
    };
    stream.set_read_timeout(Some(DEADLINE))?;
    stream.set_write_timeout(Some(DEADLINE))?;
    let mut line = serde_json::to_vec(ask)?;
    line.push(b'\n');
    stream.write_all(&line)?;
    let mut answer = String::new();
    BufReader::new(stream.take(LONGEST)).read_line(&mut answer)?;
    Ok(Some(serde_json::from_str(&answer)?))
}
