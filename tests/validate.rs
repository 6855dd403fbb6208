//! `seekwise-lab validate` under the real kernel: the simulator is near it, and all settings of a device come back, also after a kill.
//!
//! Needs root, /dev/fuse, loop devices, losetup and fio; skipped with a message otherwise. No test can hang: a dead FUSE server fails its
//! requests.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use program::{refused, run, succeeds, text};
use serde_json::Value;

/// Timeout of every step, sufficient for a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serialises tests, which share the machine's loop devices.
static ALONE: Mutex<()> = Mutex::new(());

/// Requirements of a test, or the reason to skip it.
fn alone() -> Option<MutexGuard<'static, ()>> {
    let opens = |path: &str| OpenOptions::new().read(true).write(true).open(path).is_ok();
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let missing = [
        (!opens("/dev/fuse"), "/dev/fuse that this user can open"),
        (fs::read_to_string("/proc/self/status").is_ok_and(|status| !status.contains("Uid:\t0\t")), "root"),
        (!opens("/dev/loop-control"), "/dev/loop-control"),
        (!runs("losetup"), "losetup"),
        (!runs("fio"), "fio"),
    ];
    if let Some((_, requirement)) = missing.iter().find(|(is_missing, _)| *is_missing) {
        eprintln!("skipped: needs {requirement}");
        return None;
    }
    Some(ALONE.lock().unwrap_or_else(PoisonError::into_inner))
}

fn until(condition: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {condition}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// An attribute of a device's queue.
fn read(place: &str, attribute: &str) -> String {
    let path = Path::new("/sys/block").join(place.trim_start_matches("/dev/")).join("queue").join(attribute);
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}

/// Writes an attribute of a device's queue.
fn write(place: &str, attribute: &str, value: &str) {
    let path = Path::new("/sys/block").join(place.trim_start_matches("/dev/")).join("queue").join(attribute);
    fs::write(&path, value).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
}

/// All settings of a device's queue and of its scheduler, and those of the page cache.
fn settings(place: &str) -> BTreeMap<String, String> {
    let queue = Path::new("/sys/block").join(place.trim_start_matches("/dev/")).join("queue");
    let folders = [queue.join("iosched"), queue, "/proc/sys/vm".into()];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let kept = files.filter(|file| !file.path().starts_with("/proc") || file.file_name().to_string_lossy().starts_with("dirty"));
    kept.filter_map(|file| Some((file.path().display().to_string(), fs::read_to_string(file.path()).ok()?))).collect()
}

/// A loop device over a sparse file, detached with this. The kernel keeps the settings of a loop device for its next file, so that they are
/// restored.
struct Loop {
    place: String,
    scheduler: String,
    read_ahead: String,
    _file: tempfile::NamedTempFile,
}

impl Loop {
    fn new() -> Loop {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(1 << 30).unwrap();
        let attached = Command::new("losetup").args(["--find", "--show"]).arg(file.path()).output().unwrap();
        assert!(attached.status.success(), "{}", text(&attached.stderr));
        let place = text(&attached.stdout).trim().to_owned();
        let (scheduler, read_ahead) = (read(&place, "scheduler"), read(&place, "read_ahead_kb"));
        let scheduler = scheduler.split(['[', ']']).nth(1).unwrap_or("none").to_owned();
        Loop { place, scheduler, read_ahead, _file: file }
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        write(&self.place, "scheduler", &self.scheduler);
        write(&self.place, "read_ahead_kb", &self.read_ahead);
        let _ = Command::new("losetup").args(["--detach", &self.place]).status();
    }
}

/// An emulated disk with 8 GiB, which ends with this.
struct Disk {
    emulator: Child,
    lines: BufReader<std::process::ChildStdout>,
    place: String,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Disk {
        let folder = tempfile::tempdir().unwrap();
        let mut emulator = Command::new(program::sibling("seekwise-emulate"))
            .args(["--attach", "--json", "--size", "8G", "--queue-depth", "4", "--queue-policy", "fifo"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(emulator.stdout.take().unwrap());
        let mut place = String::new();
        lines.read_line(&mut place).unwrap();
        Disk { emulator, lines, place: place.trim().to_owned(), _folder: folder }
    }

    /// Ends it, and returns its statistics.
    fn end(&mut self) -> Value {
        Command::new("kill").arg(self.emulator.id().to_string()).status().unwrap();
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        self.emulator.wait().unwrap();
        serde_json::from_str(&line).unwrap()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if matches!(self.emulator.try_wait(), Ok(None)) {
            let _ = Command::new("kill").arg(self.emulator.id().to_string()).status();
            let _ = self.emulator.wait();
        }
    }
}

#[test]
fn the_simulator_is_near_the_real_kernel_on_the_same_disk() {
    let Some(_alone) = alone() else { return };
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("truth.html");
    // A disk of ten times the speed, so that the test takes a minute. Direct I/O only, and no streaming workloads: at ten times
    // 150 MB/s the loop device and FUSE are the bottleneck instead of the emulated disk (two cores: maximum-throughput 26 to 67 MB/s).
    let disk = ["--disk", "sata7200", "--queue-depth", "4", "--queue-policy", "fifo", "--scale", "10"];
    let workloads = "random-reads,random-readers,random-mix,reader-and-writers,reader-among-writers,streams-and-readers,database,\
                     file-server,multi-threaded-access,typical-database";
    let runs = ["--seconds", "5", "--runs", "1", "--json", "--html", page.to_str().unwrap()];
    let truth: Value =
        serde_json::from_str(&succeeds(&[&["validate"], &disk[..], &["--workloads", workloads], &runs].concat())).unwrap();
    assert!(truth["kernel"].as_str().is_some_and(|kernel| !kernel.is_empty()));
    let disk = &truth["disks"][0];
    let rows = disk["rows"].as_array().unwrap();
    let all = |key: &str| rows.iter().map(|row| row[key].as_str().unwrap()).collect::<BTreeSet<_>>();
    assert!(all("workload").len() == 10 && all("scheduler").is_superset(&["none", "mq-deadline", "kyber"].into()), "{rows:?}");
    // Margins allow for a busy machine.
    let agreement = |figure: usize, key: &str| disk["agreement"][figure][key].as_f64().unwrap();
    assert!(agreement(0, "off_median_percent") < 20.0, "{}", disk["agreement"]);
    let sum = |key: &str| (0..3).map(|figure| agreement(figure, key)).sum::<f64>();
    assert!(sum("pairs") > 10.0 && sum("alike") > 0.8 * sum("pairs"), "{}", disk["agreement"]);
    assert!(fs::read_to_string(page).unwrap().contains("</html>"));
}

#[test]
fn a_drive_is_fitted_and_compared_by_reads_alone_and_left_as_it_was() {
    let Some(_alone) = alone() else { return };
    let mut disk = Disk::new();
    write(&disk.place, "scheduler", "mq-deadline");
    write(&disk.place, "iosched/read_expire", "250");
    let before = settings(&disk.place);
    let journal = tempfile::tempdir().unwrap();
    let device = ["--device", &disk.place, "--read-only", "--workloads", "random-reads,random-readers"];
    let runs = ["--scheduler", "none", "--scheduler", "mq-deadline", "--seconds", "3", "--runs", "1", "--json"];
    let output = run(&[&["validate", "--journal", journal.path().to_str().unwrap()], &device[..], &runs].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let found = text(&output.stderr);
    assert!(found.contains("kind of device: hard disk") && found.contains("time of a turn: 8.33"), "{found}");
    let truth: Value = serde_json::from_str(&text(&output.stdout)).unwrap();
    let rows = truth["disks"][0]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{rows:?}");
    for row in rows {
        let median = |which: &str| row[which][0]["median"].as_f64().unwrap();
        assert!((median("simulated") / median("real") - 1.0).abs() < 0.4, "{row:#}");
    }
    // The choice of the twin from the kernel's events is listed, too.
    assert!(truth["disks"][0]["choices"].as_array().is_some_and(|choices| !choices.is_empty()), "{truth:#}");
    assert_eq!(settings(&disk.place), before);
    let statistics = disk.end();
    assert_eq!(statistics["writes"], 0, "{statistics:#}");
}

/// Runs for long enough to be killed, with a setting of the queue, of the scheduler and of the page cache.
const INTERRUPTED: [&str; 10] = [
    "--read-only",
    "--disk",
    "sata7200",
    "--workloads",
    "random-reads",
    "--scheduler",
    "bfq:slice_idle=3 read_ahead_kb=512 dirty_expire_centisecs=1234",
    "--seconds",
    "600",
    "--json",
];

#[test]
fn all_settings_of_a_killed_run_come_back_with_the_next_start() {
    let Some(_alone) = alone() else { return };
    let disk = Loop::new();
    write(&disk.place, "scheduler", "mq-deadline");
    write(&disk.place, "iosched/read_expire", "250");
    write(&disk.place, "iosched/writes_starved", "5");
    write(&disk.place, "read_ahead_kb", "192");
    let before = settings(&disk.place);
    let journal = tempfile::tempdir().unwrap();
    let folder = journal.path().to_str().unwrap();
    let mut lab = Command::new(program::PROGRAM)
        .args(["validate", "--journal", folder, "--device", &disk.place])
        .args(INTERRUPTED)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let is = |attribute: &str, value: &str| read(&disk.place, attribute) == value;
    until("its settings are there", || is("iosched/slice_idle", "3") && is("read_ahead_kb", "512"));
    assert_eq!(fs::read_to_string("/proc/sys/vm/dirty_expire_centisecs").unwrap().trim(), "1234");
    let second = refused(&["validate", "--journal", folder, "--device", &disk.place, "--read-only", "--disk", "sata7200"]);
    assert!(second.contains("another seekwise-lab uses this journal"), "{second}");
    // With fio, its child.
    Command::new("kill").args(["-KILL", "--", &format!("-{}", lab.id())]).status().unwrap();
    lab.wait().unwrap();
    assert_ne!(settings(&disk.place), before);
    // This start fails, as there is no such device, but first restores.
    let next = refused(&["validate", "--journal", folder, "--device", "/dev/null", "--read-only"]);
    assert!(next.contains("restored after an interrupted run"), "{next}");
    assert_eq!(settings(&disk.place), before);
}

#[test]
fn what_cannot_be_compared_with_the_kernel_is_said_before_anything_is_run() {
    assert!(succeeds(&["validate", "--list"]).contains("random-reads "));
    // Not the journal of the tests that run at the same time.
    let journal = tempfile::tempdir().unwrap();
    let journal = ["--journal", journal.path().to_str().unwrap()];
    for (arguments, message) in [
        (&["--workloads", "nothing"][..], "--workloads nothing: unknown workload; known: random-reads, "),
        (&["--workloads", "database", "--read-only"], "--workloads database: writes to the device"),
        (&["--scheduler", "cfq"], "--scheduler cfq: Linux has no such scheduler; it has none, mq-deadline, kyber, bfq"),
        (&["--device", "/dev/null", "--read-only"], "--device /dev/null: is not a whole disk"),
        (&["--device", "/dev/sda"], "--read-only"),
        (&["--queue-depth", "3", "--disk", "sata7200"], "4"),
        (&["--scale", "10", "--scheduler", "bfq"], "--scheduler bfq: the time constants of bfq cannot be scaled"),
        (&["--scale", "10", "--workloads", "buffered-readers"], "--workloads buffered-readers: uses the page cache"),
        (&["--scheduler", "mq-deadline swappiness=10"], "swappiness"),
        (&["--html", "/nowhere/at/all.html"], "there is no folder /nowhere/at"),
    ] {
        let said = refused(&[&["validate"], &journal[..], arguments].concat());
        assert!(said.contains(message), "{said}");
    }
}
