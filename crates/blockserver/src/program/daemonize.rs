//! `seekwise-serve --daemonize`: starts the server in the background, and ends when it is ready.

use std::fs::OpenOptions;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, bail};

/// Interval at which the end of the server is checked for.
const LOOKS: Duration = Duration::from_millis(50);

/// Starts the server and waits until it is ready. Its messages are appended to `log`.
///
/// # Errors
/// The server ends before it is ready: its last message.
pub fn run(config: &Path, log: &Path) -> anyhow::Result<()> {
    let output = || OpenOptions::new().create(true).append(true).open(log).with_context(|| format!("--log: {}", log.display()));
    let begun = output()?.metadata()?.len();
    let folder = std::env::temp_dir().join(format!("seekwise-serve-{}", std::process::id()));
    std::fs::create_dir(&folder).with_context(|| folder.display().to_string())?;
    let ready = wait(config, &folder, output()?);
    std::fs::remove_dir_all(&folder)?;
    if ready? {
        return Ok(());
    }
    let text = std::fs::read_to_string(log)?;
    let said = text.get(begun as usize..).unwrap_or_default();
    bail!("{}", said.trim().trim_start_matches("seekwise-serve: "))
}

/// Starts the server; returns whether it is ready, or has ended.
fn wait(config: &Path, folder: &Path, log: std::fs::File) -> anyhow::Result<bool> {
    let socket = folder.join("notify");
    let messages = UnixDatagram::bind(&socket).with_context(|| socket.display().to_string())?;
    messages.set_read_timeout(Some(LOOKS))?;
    // A group of its own: Ctrl-C in the terminal does not reach it.
    let mut server = Command::new(std::env::current_exe()?)
        .arg("--config")
        .arg(config)
        .env("NOTIFY_SOCKET", &socket)
        .env_remove("WATCHDOG_USEC")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .process_group(0)
        .spawn()?;
    let mut message = [0; 256];
    loop {
        if let Ok(length) = messages.recv(&mut message)
            && message[..length].starts_with(b"READY=1")
        {
            return Ok(true);
        }
        if server.try_wait()?.is_some() {
            return Ok(false);
        }
    }
}
