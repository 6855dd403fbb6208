//! The side that asks.

use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use super::{Answer, Ask};

/// The daemon answers between two looks at its devices, of which one may switch a scheduler.
const DEADLINE: Duration = Duration::from_secs(40);
/// No answer is longer: a history of the greatest length.
const LONGEST: u64 = 256 << 20;

/// Asks the daemon; `None` if none is running.
///
/// # Errors
/// It does not answer in time, or not what is understood.
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
