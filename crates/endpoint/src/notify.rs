//! Notifies systemd of the service's state: ready, alive, stopping (sd_notify(3)).
//!
//! This takes a few lines to a Unix datagram socket, so no library is needed.

use std::io;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// The notification socket; none if systemd did not start the program.
#[derive(Debug, Default)]
pub struct Notify {
    socket: Option<(UnixDatagram, SocketAddr)>,
    watchdog: Option<Duration>,
}

impl Notify {
    /// Reads the environment variables that systemd sets: `NOTIFY_SOCKET`, `WATCHDOG_USEC`, `WATCHDOG_PID`.
    ///
    /// # Errors
    /// The socket cannot be used.
    pub fn from_environment() -> io::Result<Notify> {
        let Some(path) = std::env::var_os("NOTIFY_SOCKET") else { return Ok(Notify::default()) };
        let text = path.to_string_lossy();
        let address = match text.strip_prefix('@') {
            Some(name) => SocketAddr::from_abstract_name(name)?,
            None => SocketAddr::from_pathname(&*path)?,
        };
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let is_ours = number("WATCHDOG_PID").is_none_or(|process| process == u64::from(std::process::id()));
        let watchdog = number("WATCHDOG_USEC").filter(|_| is_ours).map(Duration::from_micros);
        Ok(Notify { socket: Some((UnixDatagram::unbound()?, address)), watchdog })
    }

    /// Reports that the service is ready, with its status.
    pub fn ready(&self, status: &str) {
        self.tell(&format!("READY=1\nSTATUS={}", printable(status)));
    }

    /// Reports the service's status.
    pub fn status(&self, status: &str) {
        self.tell(&format!("STATUS={}", printable(status)));
    }

    /// Reports to the watchdog that the service is alive.
    pub fn lives(&self) {
        self.tell("WATCHDOG=1");
    }

    /// Reports that the service is stopping.
    pub fn stopping(&self) {
        self.tell("STOPPING=1");
    }

    /// Interval for reports to the watchdog, half of its timeout; `None` without a watchdog.
    pub fn interval(&self) -> Option<Duration> {
        self.watchdog.map(|watchdog| watchdog / 2)
    }

    /// Sends a message. Errors are ignored: the service does not depend on systemd.
    fn tell(&self, text: &str) {
        if let Some((socket, address)) = &self.socket {
            let _ = socket.send_to_addr(text.as_bytes(), address);
        }
    }
}

/// A text without control characters, as names of processes and devices come from outside.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn systemd_is_notified_over_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("notify");
        let systemd = UnixDatagram::bind(&path).unwrap();
        let address = SocketAddr::from_pathname(&path).unwrap();
        let notify = Notify { socket: Some((UnixDatagram::unbound().unwrap(), address)), watchdog: Some(Duration::from_secs(30)) };
        notify.ready("watches sda\nREADY=0");
        let mut text = [0; 128];
        let length = systemd.recv(&mut text).unwrap();
        assert_eq!(std::str::from_utf8(&text[..length]).unwrap(), "READY=1\nSTATUS=watches sda\u{fffd}READY=0");
        assert_eq!(notify.interval(), Some(Duration::from_secs(15)));
        drop(systemd);
        notify.stopping();
        Notify::default().lives();
    }
}
