//! `seekwise-emulate` under the real kernel: data are read back as written, and kills leave nothing behind.
//!
//! Needs root, /dev/fuse, loop devices, losetup and fio; skipped with a message otherwise. No test can hang: a
//! dead FUSE server fails its requests, and every program is run under `timeout`.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use program::{refused, succeeds, text};

/// Timeout of every step, sufficient for a busy machine.
const PATIENCE: Duration = Duration::from_secs(20);

/// Serialises tests, which share the machine's loop devices.
static ALONE: Mutex<()> = Mutex::new(());

/// Requirements of a test, or the reason to skip it.
fn alone(needs_loop: bool) -> Option<MutexGuard<'static, ()>> {
    let opens = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = [
        (!opens("/dev/fuse"), "/dev/fuse that this user can open"),
        (fs::read_to_string("/proc/self/status").is_ok_and(|status| !status.contains("Uid:\t0\t")), "root"),
        (needs_loop && !opens("/dev/loop-control"), "/dev/loop-control"),
        (needs_loop && !runs("losetup"), "losetup"),
        (needs_loop && !runs("fio"), "fio"),
    ];
    if let Some((_, what)) = missing.iter().find(|(is_missing, _)| *is_missing) {
        eprintln!("skipped: needs {what}");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn signal(process: u32, signal: &str) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success(), "kill {signal} {process}");
}

/// Waits for a condition; panics after a timeout.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Queue settings of every loop device, and the number of tags of its driver, which sysfs does not show.
fn queues(debug: Option<&Path>) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir("/sys/block").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        for setting in ["scheduler", "nr_requests", "rotational", "max_sectors_kb", "wbt_lat_usec", "read_ahead_kb"] {
            if let Some(value) =
                fs::read_to_string(format!("/sys/block/{name}/queue/{setting}")).ok().filter(|_| name.starts_with("loop"))
            {
                found.insert(format!("{name} {setting}"), value);
            }
        }
        if let Some(tags) = debug.and_then(|debug| tags(debug, &name)).filter(|_| name.starts_with("loop")) {
            found.insert(format!("{name} tags"), tags);
        }
    }
    found
}

fn tags(debug: &Path, device: &str) -> Option<String> {
    let text = fs::read_to_string(debug.join("block").join(device).join("hctx0/tags")).ok()?;
    text.lines().find(|line| line.starts_with("depth=")).map(str::to_owned)
}

/// A mount of debugfs, unmounted on drop; none if not permitted.
struct Debug(Option<tempfile::TempDir>);

impl Debug {
    fn mount() -> Debug {
        let folder = tempfile::tempdir().unwrap();
        let mounted = Command::new("mount").args(["-t", "debugfs", "none"]).arg(folder.path()).stderr(Stdio::null()).status();
        Debug(mounted.is_ok_and(|status| status.success()).then_some(folder))
    }

    fn path(&self) -> Option<&Path> {
        self.0.as_ref().map(|folder| folder.path())
    }
}

impl Drop for Debug {
    fn drop(&mut self) {
        if let Some(folder) = &self.0 {
            let _ = Command::new("umount").arg(folder.path()).status();
        }
    }
}

/// A running `seekwise emulate`, killed on drop.
struct Emulator {
    child: Child,
    lines: mpsc::Receiver<String>,
    folder: PathBuf,
    /// Path of the device or file, from its first line of output.
    place: String,
}

impl Emulator {
    fn start(folder: &Path, arguments: &[&str]) -> Emulator {
        let mut child = Command::new(program::PROGRAM)
            .args(arguments)
            .arg("--json")
            .arg(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || output.lines().map_while(Result::ok).for_each(|line| drop(sender.send(line))));
        let mut emulator = Emulator { child, lines, folder: folder.to_owned(), place: String::new() };
        emulator.place = emulator.lines.recv_timeout(PATIENCE).unwrap();
        emulator
    }

    fn device(&self) -> &str {
        self.place.trim_start_matches("/dev/")
    }

    fn supervisor(&self) -> Option<u32> {
        let children = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.child.id())).unwrap();
        children.split_whitespace().next().map(|process| process.parse().unwrap())
    }

    fn statistics(&self) -> serde_json::Value {
        serde_json::from_str(&self.lines.recv_timeout(PATIENCE).unwrap()).unwrap()
    }

    /// Stops it regularly and returns its statistics.
    fn end(mut self) -> serde_json::Value {
        signal(self.child.id(), "-TERM");
        let statistics = self.statistics();
        assert!(self.child.wait().unwrap().success());
        self.leaves_nothing();
        statistics
    }

    fn is_mounted(&self) -> bool {
        fs::read_to_string("/proc/self/mountinfo").unwrap().contains(&*self.folder.to_string_lossy())
    }

    fn has_loop(&self) -> bool {
        let name = self.folder.to_string_lossy().into_owned();
        let files = fs::read_dir("/sys/block").unwrap().map(|entry| entry.unwrap().path().join("loop/backing_file"));
        files.filter_map(|file| fs::read_to_string(file).ok()).any(|file| file.contains(&name))
    }

    fn record(&self) -> PathBuf {
        PathBuf::from(format!("/run/seekwise/emulate-{}.json", self.child.id()))
    }

    fn leaves_nothing(&self) {
        until("mount, loop device and record are gone", || !self.is_mounted() && !self.has_loop() && !self.record().exists());
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Clean up for the next test; tests check this themselves.
        let begin = Instant::now();
        while self.record().exists() && begin.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn fio(device: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.args(["-k", "5", "15", "fio", "--name=test", "--direct=1", "--ioengine=libaio", "--output-format=terse"]);
    command.arg(format!("--filename={device}")).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

const VERIFIED: &[&str] = &[
    "--rw=randrw",
    "--bs=4k-128k",
    "--iodepth=16",
    "--size=24M",
    "--verify=crc32c",
    "--verify_fatal=1",
    "--verify_state_save=0",
    "--fsync=50",
    "--randseed=7",
];

#[test]
fn an_attached_disk_reads_what_was_written_and_leaves_nothing_behind() {
    let Some(_alone) = alone(true) else { return };
    let folder = tempfile::tempdir().unwrap();
    let debug = Debug::mount();
    let before = queues(debug.path());
    let emulator = Emulator::start(folder.path(), &["--size", "256M", "--scale", "20", "--queue-depth", "16", "--attach"]);
    let setting =
        |name: &str| fs::read_to_string(format!("/sys/block/{}/queue/{name}", emulator.device())).unwrap().trim().to_owned();
    assert_eq!(
        (setting("rotational"), setting("max_sectors_kb"), setting("read_ahead_kb")),
        ("1".into(), "512".into(), "128".into())
    );
    if let Some(debug) = debug.path() {
        assert_eq!(tags(debug, emulator.device()).unwrap(), "depth=16");
    }
    let output = fio(&emulator.place, VERIFIED).output().unwrap();
    assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
    // A scheduler selected by the user is also reset.
    fs::write(format!("/sys/block/{}/queue/scheduler", emulator.device()), "mq-deadline").unwrap();
    signal(emulator.child.id(), "-USR1");
    let statistics = emulator.statistics();
    let figure = |name: &str| statistics[name].as_f64().unwrap();
    assert!(figure("reads") > 50.0 && figure("writes") > 50.0 && figure("flushes") > 0.0, "{statistics}");
    assert!((0.01..=1.0).contains(&figure("utilisation")) && (0.01..16.0).contains(&figure("mean_drive_queue")), "{statistics}");
    assert!(statistics["given"]["p50_ms"].as_f64() >= statistics["wanted"]["p50_ms"].as_f64(), "{statistics}");
    let device = emulator.place.clone();
    assert_eq!(emulator.end()["under_way"], 0);
    for (setting, value) in queues(debug.path()) {
        assert_eq!(before.get(&setting).unwrap_or(&value), &value, "{setting} of {device}");
    }
}

#[test]
fn on_a_signal_it_becomes_a_new_disk_with_the_same_data() {
    let Some(_alone) = alone(false) else { return };
    let folder = tempfile::tempdir().unwrap();
    let emulator = Emulator::start(folder.path(), &["--disk", "sd-card", "--size", "256M", "--scale", "2"]);
    let run = |arguments: &[&str]| {
        let output = fio(&emulator.place, arguments).output().unwrap();
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        text(&output.stdout).to_owned()
    };
    // Field 7 of fio's terse output: KiB/s read.
    let read = || run(&["--rw=read", "--bs=512k", "--size=16M"]).split(';').nth(6).unwrap().parse::<f64>().unwrap();
    let written = [
        "--rw=randwrite",
        "--bs=4k",
        "--iodepth=8",
        "--size=16M",
        "--verify=crc32c",
        "--do_verify=0",
        "--randseed=3",
        "--verify_state_save=0",
    ];
    run(&written);
    let used = read();
    signal(emulator.child.id(), "-USR2");
    assert_eq!(emulator.lines.recv_timeout(PATIENCE).unwrap(), emulator.place);
    let new = read();
    assert!(new > 1.2 * used, "pages lay scattered, and read at {used} KiB/s; on a new disk {new}");
    run(&[written.as_slice(), &["--verify_only", "--verify_fatal=1"]].concat());
    emulator.end();
}

#[test]
fn killing_the_emulator_fails_its_requests_and_leaves_nothing_behind() {
    let Some(_alone) = alone(true) else { return };
    let folder = tempfile::tempdir().unwrap();
    let debug = Debug::mount();
    let before = queues(debug.path());
    let mut emulator = Emulator::start(folder.path(), &["--size", "256M", "--attach"]);
    let mut load =
        fio(&emulator.place, &["--rw=randwrite", "--bs=4k", "--iodepth=32", "--time_based", "--runtime=60"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(500));
    emulator.child.kill().unwrap();
    let begin = Instant::now();
    emulator.child.wait().unwrap();
    assert!(!load.wait().unwrap().success(), "its disk is gone");
    assert!(begin.elapsed() < Duration::from_secs(10), "it hung for {:?}", begin.elapsed());
    emulator.leaves_nothing();
    assert_eq!(queues(debug.path()), before);
}

#[test]
fn what_two_killed_processes_leave_the_next_start_takes_down() {
    let Some(_alone) = alone(true) else { return };
    let folder = tempfile::tempdir().unwrap();
    let debug = Debug::mount();
    let before = queues(debug.path());
    let mut emulator = Emulator::start(folder.path(), &["--size", "256M", "--attach"]);
    // Stop the process, so that it cannot start another supervisor.
    signal(emulator.child.id(), "-STOP");
    signal(emulator.supervisor().unwrap(), "-KILL");
    until("the supervisor is dead", || {
        let output = program::run(&["--recover"]);
        text(&output.stderr).contains(&format!("left to process {}", emulator.child.id()))
    });
    emulator.child.kill().unwrap();
    emulator.child.wait().unwrap();
    assert!(emulator.has_loop() && emulator.is_mounted() && emulator.record().exists());
    let output = program::run(&["--recover"]);
    assert!(output.status.success() && text(&output.stderr).contains("cleaning up after"), "{}", text(&output.stderr));
    emulator.leaves_nothing();
    assert_eq!(queues(debug.path()), before);
    assert_eq!(succeeds(&["--recover"]), "");
}

#[test]
fn a_supervisor_that_is_killed_is_replaced() {
    let Some(_alone) = alone(true) else { return };
    let folder = tempfile::tempdir().unwrap();
    let emulator = Emulator::start(folder.path(), &["--size", "64M", "--disk", "none", "--attach"]);
    let first = emulator.supervisor().unwrap();
    signal(first, "-KILL");
    until("another supervisor", || emulator.supervisor().is_some_and(|now| now != first));
    emulator.end();
}

#[test]
fn a_file_keeps_what_was_written_for_the_next_time() {
    let Some(_alone) = alone(false) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (mountpoint, backing) = (folder.path().join("mnt"), folder.path().join("kept"));
    fs::create_dir(&mountpoint).unwrap();
    let arguments = ["--disk", "none", "--backing", backing.to_str().unwrap()];
    let emulator = Emulator::start(&mountpoint, &[&arguments[..], &["--size", "8M"]].concat());
    let file = OpenOptions::new().read(true).write(true).open(&emulator.place).unwrap();
    assert_eq!(file.metadata().unwrap().len(), 8 << 20);
    file.write_all_at(b"not on a sector's border", 1_000_001).unwrap();
    file.sync_all().unwrap();
    assert!(file.write_at(b"beyond", 8 << 20).is_err());
    drop(file);
    let statistics = emulator.end();
    assert_eq!((statistics["writes"].as_u64(), statistics["flushes"].as_u64()), (Some(1), Some(1)), "{statistics}");
    let emulator = Emulator::start(&mountpoint, &arguments);
    let file = fs::File::open(&emulator.place).unwrap();
    let mut read = [0; 24];
    file.read_exact_at(&mut read, 1_000_001).unwrap();
    assert_eq!((&read, file.metadata().unwrap().len()), (b"not on a sector's border", 8 << 20));
    drop(file);
    emulator.end();
}

#[test]
fn what_cannot_be_emulated_is_refused_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let empty = folder.path().join("empty");
    fs::create_dir(&empty).unwrap();
    let (empty, full) = (empty.to_str().unwrap(), folder.path().to_str().unwrap());
    for (arguments, reason) in [
        (vec!["/nowhere/at/all"], "create this folder first"),
        (vec![full], "is not empty"),
        (vec!["--disk", "none", empty], "give one with --size"),
        (vec!["--disk", "hp_c2247a", "--size", "1T", empty], "are more than"),
        (vec!["--disk", "satan", empty], "neither a file, nor one of the built-in disks"),
        (vec!["--size", "16X", empty], "give a size such as 512M"),
        (vec!["--size", "4097", empty], "not whole sectors"),
        (vec!["--scale", "0", empty], "give a number from 0.01 to 1000"),
        (vec!["--backing", full, empty], "Is a directory"),
        (vec!["--no-overhead-compensation", empty], "--attach"),
        (vec![], "MOUNTPOINT"),
    ] {
        let message = refused(&arguments);
        assert!(message.contains(reason), "{arguments:?}: {message}");
    }
}
