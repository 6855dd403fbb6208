//! The package under a real systemd: both units start with hardening, and the disk's settings are restored after any action of systemd,
//! dpkg or `kill`.
//!
//! systemd runs as init of its own namespaces, over a disposable copy of this machine's files (`systemd/boot`), and the agent tunes an
//! emulated disk under this machine's kernel. Has the requirements of `agent.rs`, and needs systemd, dpkg and cgroup v2.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod emulated;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use emulated::{Disk, agent, can_run, text, until};

const WATCHER: &str = "seekwise-agent.service";
const APPLIER: &str = "seekwise-applier.service";
const SOCKET: &str = "seekwise-applier.socket";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Root of cgroup v2; `None` if it is missing or not writable.
fn groups() -> Option<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
    let place = mounts.lines().find(|line| line.split(' ').nth(2) == Some("cgroup2"))?.split(' ').nth(1)?;
    let group = Path::new(place).join(format!("seekwise-test-{}", std::process::id()));
    fs::create_dir(&group).ok()?;
    Some(group)
}

/// A container with its own files and init, sharing this machine's kernel and devices.
struct Booted {
    unshare: Child,
    first: u32,
    group: PathBuf,
    _folder: tempfile::TempDir,
}

impl Booted {
    fn new(group: PathBuf) -> Booted {
        let folder = tempfile::tempdir().unwrap();
        let boot = root().join("tests/systemd/boot");
        let mut unshare = Command::new(boot).arg(folder.path()).arg(&group).stdin(Stdio::null()).spawn().unwrap();
        let mut first = None;
        until("there is a first process", || {
            assert!(unshare.try_wait().unwrap().is_none(), "systemd did not boot");
            let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", unshare.id())).unwrap_or_default();
            first = children.split_whitespace().next().map(|process| process.parse().unwrap());
            first.is_some()
        });
        let booted = Booted { unshare, first: first.unwrap(), group, _folder: folder };
        until("it runs", || text(&booted.run(&["systemctl", "is-system-running"]).stdout).trim() == "running");
        booted
    }

    fn run(&self, command: &[&str]) -> Output {
        let first = self.first.to_string();
        let namespaces = ["--mount", "--pid", "--cgroup", "--uts", "--ipc", "--target", &first, "--"];
        Command::new("nsenter").args(namespaces).args(command).stdin(Stdio::null()).output().unwrap()
    }

    /// Standard output of a command that must succeed.
    fn succeeds(&self, command: &[&str]) -> String {
        let output = self.run(command);
        assert!(output.status.success(), "{command:?}: {}{}\n{}", text(&output.stdout), text(&output.stderr), self.log());
        text(&output.stdout)
    }

    /// Logs of both services.
    fn log(&self) -> String {
        text(&self.run(&["journalctl", "--no-pager", "--output=short-monotonic", "--unit=seekwise-*"]).stdout)
    }

    fn path(&self, path: &str) -> PathBuf {
        PathBuf::from(format!("/proc/{}/root{path}", self.first))
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn property(&self, unit: &str, name: &str) -> String {
        self.succeeds(&["systemctl", "show", "--value", "--property", name, unit]).trim().to_owned()
    }

    fn is_active(&self, unit: &str) -> bool {
        self.property(unit, "ActiveState") == "active"
    }

    /// Waits until the unit is active with a main process other than `process`.
    fn runs_again(&self, unit: &str, process: &str) {
        until("it runs again", || {
            let now = self.property(unit, "MainPID");
            self.is_active(unit) && now != "0" && now != process
        });
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        let _ = self.unshare.kill();
        let _ = self.unshare.wait();
        // A cgroup can be removed only after its last process has exited, shortly after init.
        let remove = |folder: &Path| Command::new("find").arg(folder).args(["-depth", "-type", "d", "-delete"]).output();
        for _ in 0..100 {
            let _ = remove(&self.group);
            if !self.group.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Builds the package with the programs under test and returns its path.
fn package(folder: &Path) -> PathBuf {
    let mut build = Command::new(root().join("packaging/build-deb"));
    build.arg(folder).env("PROGRAMS", agent().parent().unwrap()).env("COMPRESSION", "-Znone");
    let built = build.output().unwrap();
    assert!(built.status.success(), "{}", text(&built.stderr));
    fs::read_dir(folder).unwrap().next().unwrap().unwrap().path()
}

#[test]
fn under_systemd_it_starts_hardened_and_any_end_restores_the_disk() {
    let is_missing = |program: &str| Command::new(program).arg("--version").output().is_err();
    let needs = [
        (!Path::new("/lib/systemd/systemd").exists(), "systemd"),
        (is_missing("dpkg-deb"), "dpkg-deb"),
        (is_missing("nsenter"), "nsenter"),
    ];
    if !can_run(&needs) {
        return;
    }
    let Some(group) = groups() else {
        eprintln!("skipped: needs a cgroup2 hierarchy that may be written to");
        return;
    };
    let booted = Booted::new(group);
    let mut disk = Disk::new();
    let (before, found) = (disk.settings(), disk.scheduler());
    let is_as_before = |disk: &Disk| disk.settings() == before;
    let sets_something = |disk: &Disk| until("something is set", || disk.scheduler() != found);

    let ours =
        || booted.succeeds(&["find", "/etc", "/run", "/usr/bin", "/usr/lib", "/usr/share", "/var/lib", "-name", "*seekwise*"]);
    // Such as a journal of `seekwise-lab` on this machine.
    let already_there = ours();
    install(&booted, &disk.name);
    booted.succeeds(&["systemctl", "enable", "--now", SOCKET]);
    assert!(!booted.is_active(APPLIER) && !booted.is_active(WATCHER) && is_as_before(&disk));
    booted.succeeds(&["systemctl", "enable", "--now", WATCHER]);
    // `start` returns on the service's readiness notification.
    assert_eq!(booted.property(WATCHER, "StatusText"), "tuning 1 and monitoring 0 devices", "{}", booted.log());
    assert!(booted.is_active(APPLIER), "it is started when it is asked");
    sets_something(&disk);
    both_are_confined(&booted);

    booted.succeeds(&["systemctl", "stop", WATCHER]);
    assert!(is_as_before(&disk), "stopped:\n{}{}", disk.differences(&before), booted.log());
    booted.succeeds(&["systemctl", "start", WATCHER]);
    sets_something(&disk);
    booted.succeeds(&["systemctl", "stop", APPLIER]);
    assert!(is_as_before(&disk), "the applier stopped:\n{}{}", disk.differences(&before), booted.log());
    // A request of the daemon starts it by socket activation.
    sets_something(&disk);
    booted.succeeds(&["systemctl", "restart", WATCHER, APPLIER]);
    sets_something(&disk);

    let process = booted.property(WATCHER, "MainPID");
    booted.succeeds(&["systemctl", "kill", "--signal=KILL", WATCHER]);
    until("the applier puts everything back after the watcher was killed", || is_as_before(&disk));
    booted.runs_again(WATCHER, &process);
    sets_something(&disk);
    let process = booted.property(APPLIER, "MainPID");
    booted.succeeds(&["systemctl", "kill", "--signal=KILL", APPLIER]);
    booted.runs_again(APPLIER, &process);
    until("the next applier puts everything back", || booted.log().contains("left from before: scheduler"));
    sets_something(&disk);
    let process = booted.property(WATCHER, "MainPID");
    booted.succeeds(&["systemctl", "kill", "--signal=STOP", WATCHER]);
    until("the watchdog ends it, and the applier puts everything back", || is_as_before(&disk));
    booted.runs_again(WATCHER, &process);
    assert!(booted.log().contains("Watchdog timeout"), "{}", booted.log());
    sets_something(&disk);

    it_learns_in_its_sandbox(&booted, &mut disk, &before);

    booted.succeeds(&["dpkg", "--no-triggers", "--remove", "seekwise"]);
    assert!(is_as_before(&disk), "removed:\n{}{}", disk.differences(&before), booted.log());
    assert!(booted.path("/var/lib/seekwise-agent").exists(), "the history stays until it is purged");
    booted.succeeds(&["dpkg", "--no-triggers", "--purge", "seekwise"]);
    let left = ours();
    let added: Vec<&str> = left.lines().filter(|path| !already_there.lines().any(|before| before == *path)).collect();
    assert_eq!(added, [format!("/etc/systemd/system/{WATCHER}.d")], "purging leaves nothing behind");
    disk.pull_out();
}

/// Installs the package and configures it to tune only this disk.
fn install(booted: &Booted, disk: &str) {
    let folder = tempfile::tempdir().unwrap();
    fs::copy(package(folder.path()), booted.path("/tmp/seekwise.deb")).unwrap();
    booted.succeeds(&["dpkg", "--no-triggers", "--install", "/tmp/seekwise.deb"]);
    // The controller changes the scheduler every second, independently of the load.
    let device = format!("[[device]]\nname = \"{disk}\"\nmode = \"act\"\ncontroller = \"rotate:window_ms=1000\"\n");
    let rest = "candidates = [\"kernel\"]\nchanges_per_minute = 60\n";
    booted.write("/etc/seekwise/agent.toml.d/50-test.conf", &format!("mode = \"leave-alone\"\n\n{device}{rest}"));
    // The default watchdog timeout of a minute is too long for a test.
    booted.write(&format!("/etc/systemd/system/{WATCHER}.d/test.conf"), "[Service]\nWatchdogSec=3\n");
    booted.succeeds(&["systemctl", "daemon-reload"]);
}

/// Setup from the administrator's page: a scratch file owned by the service, a drop-in that allows writing it, and fio in the sandbox.
fn it_learns_in_its_sandbox(booted: &Booted, disk: &mut Disk, before: &BTreeMap<String, String>) {
    if Command::new("fio").arg("--version").output().is_err() || Command::new("mkfs.ext4").arg("-V").output().is_err() {
        eprintln!("learning is left out: needs fio and mkfs.ext4");
        return;
    }
    disk.rest();
    let device = format!("/dev/{}", disk.name);
    let number = fs::read_to_string(Path::new("/sys/block").join(&disk.name).join("dev")).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    booted.succeeds(&["mknod", &device, "b", major, minor]);
    booted.succeeds(&["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &device]);
    booted.succeeds(&["mount", &device, "/srv"]);
    booted.succeeds(&["dd", "if=/dev/zero", "of=/srv/seekwise.scratch", "bs=1M", "count=96", "conv=fsync", "status=none"]);
    booted.succeeds(&["chown", "seekwise", "/srv/seekwise.scratch"]);
    let search = "random:trials=200,child_ms=1000";
    let plan = format!("[learning]\nscratch = \"/srv/seekwise.scratch\"\nidle_minutes = 0\ncontroller = \"{search}\"\n");
    let fixed = format!("mode = \"leave-alone\"\n\n[[device]]\nname = \"{}\"\nmode = \"act\"\ncontroller = \"fixed\"\n", disk.name);
    // Only learning mode changes settings now.
    booted.write("/etc/seekwise/agent.toml.d/50-test.conf", &format!("{fixed}candidates = [\"kernel\"]\n\n{plan}"));
    let may_learn = "[Service]\nReadWritePaths=/srv/seekwise.scratch\nSystemCallFilter=setpriority\n";
    booted.write(&format!("/etc/systemd/system/{WATCHER}.d/scratch.conf"), may_learn);
    booted.succeeds(&["systemctl", "daemon-reload"]);
    booted.succeeds(&["systemctl", "restart", WATCHER]);
    let fio = || text(&booted.run(&["pgrep", "-u", "seekwise", "-x", "fio"]).stdout);
    // The kernel reports process ids of the host's namespace, so the agent's own fio counts as foreign I/O here.
    until("fio works in the sandbox", || booted.log().contains("real work came: fio "));
    booted.succeeds(&["systemctl", "stop", WATCHER]);
    assert!(fio().is_empty() && disk.settings() == *before, "{}{}", disk.differences(before), booted.log());
    assert_eq!(booted.succeeds(&["ls", "/srv"]), "lost+found\nseekwise.scratch\n");
    booted.succeeds(&["umount", "/srv"]);
}

/// The daemon is unprivileged, the applier is root, and both are restricted by their units.
fn both_are_confined(booted: &Booted) {
    for (unit, is_root) in [(WATCHER, false), (APPLIER, true)] {
        let process = booted.property(unit, "MainPID");
        let status = fs::read_to_string(booted.path(&format!("/proc/{process}/status"))).unwrap();
        assert_eq!(status.contains("\nUid:\t0\t"), is_root, "{unit}: {status}");
        for line in ["CapEff:\t0000000000000000", "CapBnd:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"] {
            assert!(status.contains(line), "{unit}: {line} is missing in\n{status}");
        }
        let mounts = fs::read_to_string(booted.path(&format!("/proc/{process}/mounts"))).unwrap();
        let is_read_only = |place: &str| {
            let mount =
                mounts.lines().rfind(|line| line.split(' ').nth(1) == Some(place)).unwrap_or_else(|| panic!("{unit}: {mounts}"));
            mount.split(' ').nth(3).unwrap().split(',').any(|option| option == "ro")
        };
        assert!(is_read_only("/"), "{unit}: {mounts}");
        for place in ["/sys", "/sys/fs/cgroup"] {
            assert_eq!(is_read_only(place), !is_root, "{unit}: {place}: {mounts}");
        }
    }
}
