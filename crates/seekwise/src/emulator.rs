//! An emulated disk that a command starts for itself.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use laboratory::truth::Model;
use nix::sys::signal::Signal;

/// `seekwise emulate --attach`, which takes everything down when it ends.
pub struct Emulator {
    child: Child,
    says: BufReader<ChildStdout>,
    // Its mount point; removed after the emulator has ended.
    _folder: tempfile::TempDir,
}

impl Emulator {
    /// Starts one of this size and speed; also returns its block device.
    ///
    /// # Errors
    /// It cannot be emulated, or attached.
    pub fn start(model: &Model, size_bytes: u64, scale: f64) -> anyhow::Result<(Emulator, PathBuf)> {
        let folder = tempfile::tempdir().context("cannot make a folder to mount on")?;
        let mut command = Command::new(std::env::current_exe().context("cannot find this program's own file")?);
        command.args(["emulate", "--attach", "--disk", &model.disk, "--size", &size_bytes.to_string()]).arg(folder.path());
        command.args(["--scale", &scale.to_string()]);
        if let Some(depth) = model.queue_depth {
            command.arg("--queue-depth").arg(depth.to_string());
        }
        if let Some(policy) = model.queue_policy {
            command.arg("--queue-policy").arg(format!("{policy:?}").to_lowercase());
        }
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start the emulated disk")?;
        let says = BufReader::new(child.stdout.take().context("the emulated disk")?);
        let mut emulator = Emulator { child, says, _folder: folder };
        let path = emulator.path_said()?;
        Ok((emulator, path))
    }

    /// Waits until it says where its block device is.
    fn path_said(&mut self) -> anyhow::Result<PathBuf> {
        let mut line = String::new();
        self.says.read_line(&mut line).context("the emulated disk")?;
        if line.trim().is_empty() {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                stderr.read_to_string(&mut said).context("the emulated disk")?;
            }
            anyhow::bail!("the emulated disk ended: {}", said.trim().trim_start_matches("seekwise: "));
        }
        Ok(PathBuf::from(line.trim()))
    }

    /// Makes it a new disk: what was done to a flash device shows for long, and in the simulator each run has a new one.
    ///
    /// # Errors
    /// It has ended.
    pub fn renew(&mut self) -> anyhow::Result<()> {
        self.signal(Signal::SIGUSR2).context("the emulated disk")?;
        self.path_said().map(|_| ())
    }

    fn signal(&self, signal: Signal) -> nix::Result<()> {
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(self.child.id() as i32), signal)
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.signal(Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
