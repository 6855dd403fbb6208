//! A server for `GET /metrics`: a thread for each connection.

use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use super::Metrics;
use crate::configuration::Listen;
use crate::connections::{self, ClientStream, Places, UntilDeadline};

/// Time for a client to send its whole request; until twice that it can take the response.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum concurrent connections.
const MAX_CONNECTIONS: usize = 16;
/// Maximum bytes of a request.
const MAX_REQUEST_BYTES: u64 = 16 << 10;

/// Starts the server at this address in a thread.
///
/// # Errors
/// The address is in use, or does not belong to this machine.
pub fn serve(listen: &Listen, metrics: Metrics) -> io::Result<()> {
    let accepting = std::thread::Builder::new().name("metrics".to_owned());
    match listen {
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            accepting.spawn(move || listener.incoming().filter_map(Result::ok).for_each(server(metrics)))?;
        }
        Listen::Unix(path) => {
            let listener = connections::listen(path, "another process serves metrics there")?;
            accepting.spawn(move || listener.incoming().filter_map(Result::ok).for_each(server(metrics)))?;
        }
    }
    Ok(())
}

/// What serves each connection.
fn server<S: ClientStream>(metrics: Metrics) -> impl FnMut(S)
where
    for<'s> &'s S: Read + Write,
{
    let places = Places::new(MAX_CONNECTIONS);
    move |stream| {
        let metrics = metrics.clone();
        // Errors of a client's connection are ignored.
        let _ = places.serve("metrics", stream, move |stream| {
            let until = |time| UntilDeadline::new(stream, time);
            let _ = answer(until(CLIENT_TIMEOUT), until(2 * CLIENT_TIMEOUT), &metrics);
        });
    }
}

fn answer(from: impl Read, mut to: impl Write, metrics: &Metrics) -> io::Result<()> {
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
        (Some("GET"), Some("/metrics")) => ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", metrics.text()),
        (Some("GET"), Some("/")) => ("200 OK", "text/plain; charset=utf-8", "seekwise-agent: see /metrics\n".to_owned()),
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
    use crate::history::{Entry, Kind};

    fn asked(request: &str, metrics: &Metrics) -> String {
        let mut answered = Vec::new();
        answer(request.as_bytes(), &mut answered, metrics).unwrap();
        String::from_utf8(answered).unwrap()
    }

    #[test]
    fn metrics_have_the_prefix_base_units_and_totals() {
        let metrics = Metrics::new();
        let mut entry = Entry::new("sda", Kind::Set, "none", "bfq", "because");
        entry.promised_percent = Some(25.0);
        metrics.happened(&entry);
        metrics.happened(&Entry::new("sda", Kind::Conflict, "bfq", "none", "udev"));
        metrics.measured("sda", 20.0);
        let text = asked("GET /metrics HTTP/1.1\r\nHost: here\r\n\r\n", &metrics);
        for line in [
            "seekwise_changes_total{device=\"sda\",reason=\"controller\"} 1",
            "seekwise_conflicts_total{device=\"sda\"} 1",
            "seekwise_promised_gain_ratios{device=\"sda\"} 0.25",
            "seekwise_measured_gain_ratios{device=\"sda\"} 0.2",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        let body = text.split_once("\r\n\r\n").unwrap().1;
        assert!(body.ends_with("# EOF\n") && text.contains(&format!("Content-Length: {}\r\n", body.len())));
        assert!(body.lines().all(|line| line.starts_with("seekwise_") || line.starts_with("# ")), "{body}");
        assert!(body.contains("seekwise_cpu_seconds_total ") && body.contains("seekwise_resident_memory_bytes "), "{body}");
        metrics.gone("sda");
        assert!(!metrics.text().contains("gain_ratios{"));
    }

    #[test]
    fn clients_that_send_nothing_keep_no_other_out() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("metrics.sock");
        serve(&Listen::Unix(path.clone()), Metrics::new()).unwrap();
        let silent: Vec<UnixStream> = (0..3 * MAX_CONNECTIONS).map(|_| UnixStream::connect(&path).unwrap()).collect();
        let mut client = UnixStream::connect(&path).unwrap();
        client.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let mut text = String::new();
        client.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 "), "{text}");
        drop(silent);
        // A regular file is not deleted.
        let file = folder.path().join("precious");
        std::fs::write(&file, "x").unwrap();
        assert!(serve(&Listen::Unix(file.clone()), Metrics::new()).is_err() && file.exists());
    }

    #[test]
    fn everything_else_is_refused() {
        let metrics = Metrics::new();
        assert!(asked("GET /etc/passwd HTTP/1.1\r\n\r\n", &metrics).starts_with("HTTP/1.1 404 "));
        assert!(asked("POST /metrics HTTP/1.1\r\n\r\n", &metrics).starts_with("HTTP/1.1 405 "));
        assert!(asked("", &metrics).starts_with("HTTP/1.1 405 "));
    }
}
