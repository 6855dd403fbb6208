//! Starts an emulated disk for a command.

use std::io::{BufRead as _, BufReader, Read as _};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::Context as _;
use nix::sys::signal::Signal;
use research::validation::Model;

use seekwise::arguments::QueuePolicyArgument;
use seekwise::number;

use crate::programs;
use terminal::eprint_line;

/// Options for emulated disks.
#[derive(clap::Args)]
pub struct Emulated {
    /// Disk to emulate: name (`seekwise disk list`) or file of a profile, or an array such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64` [default: sata7200 with queue depth 4 in FIFO order, sata7200 with queue depth 32
    /// and its own order, and sd-card]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    pub disk: Option<String>,
    /// Queue depth of the disk; at least 4, the minimum of Linux [default: the profile's]
    #[arg(long, value_name = "REQUESTS", requires = "disk", value_parser = number::within::<u32>(4..=1024, "requests"))]
    queue_depth: Option<u32>,
    /// The order in which the disk serves queued requests [default: the profile's]
    #[arg(long, value_enum, requires = "disk")]
    queue_policy: Option<QueuePolicyArgument>,
}

impl Emulated {
    /// The named disk, or the default selection.
    pub fn models(&self) -> Vec<Model> {
        let Some(disk) = &self.disk else { return Model::usual() };
        let (queue_depth, queue_policy) = (self.queue_depth, self.queue_policy.map(Into::into));
        vec![Model { name: disk.clone(), disk: disk.clone(), queue_depth, queue_policy }]
    }
}

/// `seekwise emulate --attach`, which detaches its device when it ends.
pub struct Emulator {
    child: Child,
    says: BufReader<ChildStdout>,
    // Its mount point; removed after the emulator has ended.
    _folder: tempfile::TempDir,
}

impl Emulator {
    /// Starts one of this size and speed, and returns it with its block device.
    ///
    /// # Errors
    /// It cannot be emulated, or attached.
    pub fn start(model: &Model, size_bytes: u64, scale: f64) -> anyhow::Result<(Emulator, PathBuf)> {
        let folder = tempfile::tempdir().context("cannot create a mount point")?;
        let mut command = Command::new(programs::find("seekwise-emulate", "emulates the disk")?);
        command.args(["--attach", "--disk", &model.disk, "--size", &size_bytes.to_string()]).arg(folder.path());
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
        if let Some(stderr) = emulator.child.stderr.take() {
            // Warnings that the machine is too busy. The thread ends with the emulator.
            std::thread::spawn(move || {
                BufReader::new(stderr)
                    .lines()
                    .map_while(Result::ok)
                    .for_each(|line| eprint_line(line.trim_start_matches("seekwise-emulate: ")))
            });
        }
        Ok((emulator, path))
    }

    /// Waits until it prints its block device.
    fn path_said(&mut self) -> anyhow::Result<PathBuf> {
        let mut line = String::new();
        self.says.read_line(&mut line).context("the emulated disk")?;
        if line.trim().is_empty() {
            let mut said = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                stderr.read_to_string(&mut said).context("the emulated disk")?;
            }
            anyhow::bail!("the emulated disk exited: {}", said.trim().trim_start_matches("seekwise-emulate: "));
        }
        Ok(PathBuf::from(line.trim()))
    }

    /// Resets it to a new disk: writes change the state of a flash device, and each simulated run starts with a new one.
    ///
    /// # Errors
    /// It has exited.
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
        // It may have exited already.
        let _ = self.signal(Signal::SIGTERM);
        let _ = self.child.wait();
    }
}
