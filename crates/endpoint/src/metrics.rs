//! A server for `GET /metrics`, with a thread for each connection.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

use crate::connections::{self, ClientStream, Places, UntilDeadline};

/// Time limit for receiving a request. The response has to be sent within twice that.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

/// Address of a metrics server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Listen {
    /// A TCP address of this machine.
    Tcp(SocketAddr),
    /// A unix socket.
    Unix(PathBuf),
}

impl std::str::FromStr for Listen {
    type Err = String;

    /// # Errors
    /// It is neither `unix:` and a path nor an IP address with a port.
    fn from_str(text: &str) -> Result<Listen, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return Ok(Listen::Unix(PathBuf::from(path)));
        }
        let wrong = "should be an address and a port, as in \"127.0.0.1:9750\", or \"unix:\" and a path";
        text.parse().map(Listen::Tcp).map_err(|_| wrong.to_owned())
    }
}

/// Serves the OpenMetrics text that `text` returns at this address, in a thread. The page `/` shows the name `program`.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub fn serve(listen: &Listen, program: &'static str, text: impl Fn() -> String + Clone + Send + 'static) -> io::Result<()> {
    let accepting = std::thread::Builder::new().name("metrics".to_owned());
    match listen {
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            accepting.spawn(move || listener.incoming().filter_map(Result::ok).for_each(server(program, text)))?;
        }
        Listen::Unix(path) => {
            let listener = connections::listen(path, "another process serves metrics there")?;
            accepting.spawn(move || listener.incoming().filter_map(Result::ok).for_each(server(program, text)))?;
        }
    }
    Ok(())
}

/// Returns the handler of connections.
fn server<S: ClientStream>(program: &'static str, text: impl Fn() -> String + Clone + Send + 'static) -> impl FnMut(S)
where
    for<'s> &'s S: Read + Write,
{
    let places = Places::new(MAX_CONNECTIONS);
    move |stream| {
        let text = text.clone();
        // Errors of a client's connection are ignored.
        let _ = places.serve("metrics", stream, move |stream| {
            let until = |time| UntilDeadline::new(stream, time);
            let _ = answer(until(CLIENT_TIMEOUT), until(2 * CLIENT_TIMEOUT), program, &text);
        });
    }
}

fn answer(from: impl Read, mut to: impl Write, program: &str, text: &impl Fn() -> String) -> io::Result<()> {
    let mut lines = BufReader::new(from.take(MAX_REQUEST_BYTES)).lines();
    let first = lines.next().transpose()?.unwrap_or_default();
    // Closing before the whole request is read would reset the connection.
    for line in lines {
        if line?.is_empty() {
            break;
        }
    }
    let mut words = first.split(' ');
    let (status, kind, body) = match (words.next(), words.next().map(|path| path.split('?').next().unwrap_or_default())) {
        (Some("GET"), Some("/metrics")) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text()),
        (Some("GET"), Some("/")) => ("200 OK", "text/plain; charset=utf-8", format!("{program}: see /metrics\n")),
        (Some("GET"), Some(_)) => ("404 Not Found", "text/plain; charset=utf-8", "not found; see /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain; charset=utf-8", "only GET is supported\n".to_owned()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n");
    to.write_all(head.as_bytes())?;
    to.write_all(body.as_bytes())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::os::unix::net::UnixStream;

    use super::*;

    fn asked(request: &str) -> String {
        let mut answered = Vec::new();
        answer(request.as_bytes(), &mut answered, "program", &|| "a 1\n# EOF\n".to_owned()).unwrap();
        String::from_utf8(answered).unwrap()
    }

    #[test]
    fn metrics_are_answered_with_their_length_and_type() {
        let text = asked("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/openmetrics-text; version=1.0.0") && head.contains("Content-Length: 10\r\n"), "{head}");
        assert_eq!(body, "a 1\n# EOF\n");
    }

    #[test]
    fn clients_that_send_nothing_keep_no_other_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        let text = || "# EOF\n".to_owned();
        serve(&Listen::Unix(path.clone()), "program", text).unwrap();
        let silent: Vec<UnixStream> = (0..3 * MAX_CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut answered = String::new();
        client.read_to_string(&mut answered).unwrap();
        assert!(answered.starts_with("HTTP/1.1 200 "), "{answered}");
        drop(silent);
        // A regular file is not deleted.
        let file = folder.path().join("precious");
        std::fs::write(&file, "x").unwrap();
        assert!(serve(&Listen::Unix(file.clone()), "program", text).is_err() && file.exists());
    }

    #[test]
    fn everything_else_is_refused() {
        assert!(asked("GET /etc/passwd HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(asked("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(asked("").starts_with("HTTP/1.1 405 "));
    }
}
