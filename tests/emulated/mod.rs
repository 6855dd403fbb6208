//! An emulated disk under the real kernel, with helpers for tests.

#![allow(dead_code, reason = "each test uses a part of it")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Timeout of every step, sufficient for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Path of the agent: the program of the test's package, or next to it.
pub fn agent() -> PathBuf {
    match (option_env!("CARGO_BIN_EXE_seekwise-agent"), option_env!("CARGO_BIN_EXE_seekwise-lab")) {
        (Some(agent), _) => PathBuf::from(agent),
        (None, Some(lab)) => Path::new(lab).with_file_name("seekwise-agent"),
        (None, None) => panic!("the test belongs to a package without one of the programs"),
    }
}

/// Path of the program for people, in the folder of the built workspace.
pub fn seekwise() -> PathBuf {
    agent().with_file_name("seekwise")
}

/// Path of the program that emulates disks.
fn emulator() -> PathBuf {
    agent().with_file_name("seekwise-emulate")
}

/// Path of the applier, in the folder of the built workspace.
pub fn applier() -> PathBuf {
    agent().with_file_name("seekwise-applier")
}

/// Whether the requirements of the tests, and those in `more`, are met; prints the reason if not.
pub fn can_run(more: &[(bool, &str)]) -> bool {
    let opens = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let missing = [
        (fs::read_to_string("/proc/self/status").is_ok_and(|status| !status.contains("Uid:\t0\t")), "root"),
        (!opens("/dev/fuse"), "/dev/fuse"),
        (!opens("/dev/loop-control"), "/dev/loop-control"),
        (Command::new("losetup").arg("--version").output().is_err(), "losetup"),
        (!seekwise().exists(), "the program seekwise next to seekwise-agent (cargo build -p seekwise)"),
        (!emulator().exists(), "the program seekwise-emulate next to seekwise-agent (cargo build -p seekwise-emulate)"),
        (!agent().exists(), "the program seekwise-agent (cargo build -p seekwise-agent)"),
        (!applier().exists(), "the program seekwise-applier next to seekwise-agent (cargo build -p seekwise-applier)"),
        (!Path::new("/sys/kernel/tracing").exists(), "tracefs"),
    ];
    match missing.iter().chain(more).find(|(is_missing, _)| *is_missing) {
        Some((_, requirement)) => {
            eprintln!("skipped: needs {requirement}");
            false
        }
        None => true,
    }
}

/// Waits for a condition; panics after a timeout.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn signal(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success(), "kill {signal} {process}");
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Attaches an emulated disk; returns its process and the device.
pub fn emulate(options: &[&str], backing: &Path) -> (Child, String) {
    let mut emulator = Command::new(self::emulator());
    emulator
        .args(["--attach", "--no-overhead-compensation"])
        .args(options)
        .arg(backing)
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut emulator = emulator.spawn().unwrap();
    let mut lines = BufReader::new(emulator.stdout.take().unwrap()).lines();
    let place = lines.next().unwrap().unwrap();
    std::thread::spawn(move || lines.for_each(drop));
    (emulator, place)
}

/// An emulated disk with a process that reads from it.
pub struct Disk {
    emulator: Child,
    reader: Child,
    pub name: String,
    _folder: tempfile::TempDir,
}

impl Disk {
    pub fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let (emulator, place) = emulate(&["--size", "256M", "--disk", "sata7200", "--scale", "10"], folder.path());
        let name = place.trim_start_matches("/dev/").to_owned();
        let reads = format!("while dd if={place} of=/dev/null bs=4k iflag=direct status=none; do :; done");
        let reader = Command::new("bash").args(["-c", &reads]).stderr(Stdio::null()).spawn().unwrap();
        Disk { emulator, reader, name, _folder: folder }
    }

    pub fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join("queue")
    }

    pub fn scheduler(&self) -> String {
        let all = fs::read_to_string(self.queue().join("scheduler")).unwrap_or_default();
        all.split(['[', ']']).nth(1).unwrap_or_default().to_owned()
    }

    /// Stops the reader.
    pub fn rest(&mut self) {
        let _ = self.reader.kill();
        let _ = self.reader.wait();
    }

    /// Removes the disk and stops its reader.
    pub fn pull_out(&mut self) {
        self.rest();
        if matches!(self.emulator.try_wait(), Ok(None)) {
            signal(self.emulator.id(), "-TERM");
            let _ = self.emulator.wait();
        }
    }

    /// Settings that differ from `before`, as text.
    pub fn differences(&self, before: &BTreeMap<String, String>) -> String {
        let now = self.settings();
        let names: BTreeSet<&String> = before.keys().chain(now.keys()).collect();
        let differs = |name: &&&String| before.get(**name) != now.get(**name);
        let line = |name: &String| format!("{name}: {:?} and not {:?}\n", now.get(name), before.get(name));
        names.iter().filter(differs).map(|name| line(name)).collect()
    }

    /// All settings of the queue and its scheduler.
    pub fn settings(&self) -> BTreeMap<String, String> {
        let folders = [self.queue(), self.queue().join("iosched")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.filter_map(|entry| Some((entry.path().display().to_string(), fs::read_to_string(entry.path()).ok()?))).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.pull_out();
    }
}

/// A temporary folder with a configuration and all files of the agent.
pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new(rest: &str) -> Place {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().display();
        let text = format!(
            "socket = \"{path}/agent.sock\"\napplier_socket = \"{path}/applier.sock\"\nstate_directory = \"{path}/state\"\n\
             metrics = \"unix:{path}/metrics.sock\"\n{rest}"
        );
        fs::write(folder.path().join("agent.toml"), text).unwrap();
        Place { folder }
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(agent());
        command.args(arguments).args(["--config", &self.path("agent.toml")]).stdin(Stdio::null());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("log of the agent:\n{}", self.log());
        }
    }
}
