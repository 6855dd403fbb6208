//! Learning mode under the real kernel: fio runs on a scratch file on an emulated disk, whose settings are restored after kills and foreign I/O.
//!
//! Needs root, /dev/fuse, loop devices, losetup, mkfs.ext4, fio and tracefs; skipped with a message otherwise. Only the device created here
//! is used.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod emulated;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

use emulated::{Place, agent, seekwise, text, until};

/// Maximum time until settings are restored for foreign I/O.
const STOPS_WITHIN: Duration = Duration::from_secs(1);
/// Candidate settings.
const KERNEL: &str = "candidates = [\"kernel\"]\n";
/// Short trials, so that the original setting is rarely active.
const SEARCH: &str = "random:trials=200,child_ms=1000";

/// Whether the tests can run; prints the reason if not.
fn can_run() -> bool {
    let lacks = |program: &str, argument: &str| Command::new(program).arg(argument).output().is_err();
    emulated::can_run(&[(lacks("mkfs.ext4", "-V"), "mkfs.ext4"), (lacks("fio", "--version"), "fio")])
}

fn run(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().unwrap();
    assert!(output.status.success(), "{program} {arguments:?}: {}", text(&output.stderr));
}

/// An emulated disk with ext4, a scratch file, and a file for another reader.
struct Disk {
    emulator: Child,
    name: String,
    folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let backing = folder.path().join("backing");
        fs::create_dir(&backing).unwrap();
        let (emulator, place) = emulated::emulate(&["--size", "256M", "--disk", "sata7200", "--scale", "10"], &backing);
        let name = place.trim_start_matches("/dev/").to_owned();
        let disk = Disk { emulator, name, folder };
        fs::create_dir(disk.mounted("")).unwrap();
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &place]);
        run("mount", &[&place, disk.mounted("").to_str().unwrap()]);
        for (file, mib) in [("scratch", "96"), ("work", "8")] {
            let of = format!("of={}", disk.mounted(file).display());
            run("dd", &["if=/dev/zero", &of, "bs=1M", &format!("count={mib}"), "conv=fsync", "status=none"]);
        }
        disk
    }

    fn mounted(&self, file: &str) -> PathBuf {
        self.folder.path().join("mounted").join(file)
    }

    fn scratch(&self) -> String {
        self.mounted("scratch").display().to_string()
    }

    fn queue(&self) -> PathBuf {
        Path::new("/sys/block").join(&self.name).join("queue")
    }

    fn scheduler(&self) -> String {
        let all = fs::read_to_string(self.queue().join("scheduler")).unwrap_or_default();
        all.split(['[', ']']).nth(1).unwrap_or_default().to_owned()
    }

    /// All settings of the queue and its scheduler.
    fn settings(&self) -> BTreeMap<String, String> {
        let folders = [self.queue(), self.queue().join("iosched")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.filter_map(|entry| Some((entry.path().display().to_string(), fs::read_to_string(entry.path()).ok()?))).collect()
    }

    /// Processes with the scratch file open.
    fn users_of_scratch(&self) -> Vec<u32> {
        let scratch = self.mounted("scratch");
        let processes = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let uses = |process: &u32| {
            let opened = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
            opened.filter_map(|file| fs::read_link(file.path()).ok()).any(|path| path == scratch)
        };
        processes.filter(uses).collect()
    }

    fn files(&self) -> Vec<String> {
        let files = fs::read_dir(self.mounted("")).unwrap().flatten();
        let mut files: Vec<String> = files.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        files.sort();
        files
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.mounted("")).status();
        let _ = Command::new("kill").args(["-TERM", &self.emulator.id().to_string()]).status();
        let _ = self.emulator.wait();
    }
}

impl Place {
    /// Starts a background process.
    fn start(&self, arguments: &[&str]) -> Running {
        let output = || OpenOptions::new().create(true).append(true).open(self.path("log")).unwrap();
        let mut command = self.command(arguments);
        Running(command.args(["--journal", &self.path("journal")]).stdout(output()).stderr(output()).spawn().unwrap())
    }
}

/// A background process, killed on drop.
struct Running(Child);

impl Running {
    fn end(mut self, signal: &str) -> std::process::ExitStatus {
        run("kill", &[signal, &self.0.id().to_string()]);
        self.0.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn whoever_is_killed_or_comes_the_disk_ends_as_it_was_found() {
    if !can_run() {
        return;
    }
    let disk = Disk::new();
    let (before, found, files) = (disk.settings(), disk.scheduler(), disk.files());
    let is_as_before = || disk.settings() == before;
    let place = Place::new(KERNEL);
    let is_learning = || disk.scheduler() != found && !disk.users_of_scratch().is_empty();

    what_cannot_be_a_scratch_file_is_refused(&place, &disk);
    assert!(is_as_before(), "a refused request has changed something");

    let learning = place.start(&["learn", &disk.name, "--scratch", &disk.scratch(), "--controller", SEARCH]);
    until("a setting is tried", is_learning);
    let took = work_comes(&disk, &is_as_before);
    until("it names the foreign process", || place.log().contains("real work came: dd "));
    assert!(took < STOPS_WITHIN, "real work had to wait for {took:?}");
    until("it goes on when nobody works any more", is_learning);
    assert!(learning.end("-INT").success(), "{}", place.log());
    assert!(is_as_before() && disk.users_of_scratch().is_empty(), "{}", place.log());

    let known = Command::new(seekwise()).args(["kb", "info", &place.path("state/knowledge.sqlite")]).output().unwrap();
    assert!(text(&known.stdout).contains("gene pool on "), "{}{}", text(&known.stdout), text(&known.stderr));

    the_daemon_learns_by_its_plan_until_it_is_killed(&disk, &before);
    assert_eq!(disk.files(), files, "nothing is left but the scratch file");
}

/// Reads a file by direct I/O; returns the time until settings are restored and fio has exited.
fn work_comes(disk: &Disk, is_as_before: &dyn Fn() -> bool) -> Duration {
    let from = format!("if={}", disk.mounted("work").display());
    let mut reader = Command::new("dd").args([&from, "of=/dev/null", "bs=64k", "iflag=direct", "status=none"]).spawn().unwrap();
    let began = Instant::now();
    until("the disk is as it was", || is_as_before() && disk.users_of_scratch().iter().all(|user| !is_fio(*user)));
    let took = began.elapsed();
    assert!(reader.wait().unwrap().success());
    took
}

fn is_fio(process: u32) -> bool {
    fs::read_to_string(format!("/proc/{process}/comm")).is_ok_and(|name| name.trim() == "fio")
}

fn what_cannot_be_a_scratch_file_is_refused(place: &Place, disk: &Disk) {
    let refused = |scratch: &str, words: &str| {
        let output = place.run(&["learn", &disk.name, "--scratch", scratch, "--for", "1", "--journal", &place.path("journal")]);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{scratch}: {said}");
        assert!(said.contains(words), "{scratch}: {words} is missing in {said}");
    };
    refused(&disk.mounted("missing").display().to_string(), "create it with `dd");
    refused(&disk.mounted("work").display().to_string(), "has 8 MiB");
    refused(&format!("/dev/{}", disk.name), "is in use: it is mounted");
    let elsewhere = PathBuf::from(place.path("scratch"));
    fs::write(&elsewhere, vec![1; 64 << 20]).unwrap();
    // The messages for a scratch file on no disk and on another disk differ.
    refused(&elsewhere.display().to_string(), "is on ");
    fs::remove_file(&elsewhere).unwrap();
    let output = place.run(&["learn", &disk.name, "--scratch", &disk.scratch(), "--controller", "seekwise"]);
    assert!(
        output.status.code() == Some(2) && text(&output.stderr).contains("is not a search controller"),
        "{}",
        text(&output.stderr)
    );
    let without = Command::new(agent())
        .args(["learn", &disk.name, "--scratch", &disk.scratch(), "--config", &place.path("agent.toml")])
        .env("PATH", "/nowhere")
        .output()
        .unwrap();
    assert!(without.status.code() == Some(2) && text(&without.stderr).contains("cannot run fio"), "{}", text(&without.stderr));
}

fn the_daemon_learns_by_its_plan_until_it_is_killed(disk: &Disk, before: &BTreeMap<String, String>) {
    let plan = format!(
        "controller = \"fixed\"\n[learning]\nscratch = \"{}\"\nidle_minutes = 0\ncontroller = \"{SEARCH}\"\n",
        disk.scratch()
    );
    let place = Place::new(&format!("{KERNEL}{plan}"));
    let status = || text(&place.run(&["status"]).stdout);
    let daemon = place.start(&["act", &disk.name]);
    until("the daemon says why it waits", || status().contains("It does not learn: "));
    until("it learns", || status().contains(&format!("It learns on {}", disk.name)) && disk.settings() != *before);
    assert!(status().contains(&format!("{} is learned on.", disk.name)), "{}", status());
    daemon.end("-KILL");
    until("fio is gone with the daemon", || disk.users_of_scratch().is_empty());
    until("the applier puts everything back", || disk.settings() == *before);
}
