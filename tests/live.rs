//! Papers on a block device of the real kernel: searches tune an emulated disk, whose settings are restored in every case. Skipped with a
//! message if it cannot be created.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const PATIENCE: Duration = Duration::from_secs(60);

fn lab() -> PathBuf {
    PathBuf::from(program::PROGRAM)
}

/// Whether the tests can run; prints the reason if not.
fn can_run() -> bool {
    let opens = |path: &str| fs::OpenOptions::new().read(true).write(true).open(path).is_ok();
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let missing = [
        (!nix::unistd::geteuid().is_root(), "root"),
        (!opens("/dev/fuse"), "/dev/fuse"),
        (!opens("/dev/loop-control"), "/dev/loop-control"),
        (!runs("losetup"), "losetup"),
        (!runs("fio"), "fio"),
        (!lab().with_file_name("seekwise-agent").exists(), "seekwise-agent next to seekwise (cargo build -p seekwise-agent)"),
        (
            !lab().with_file_name("seekwise-applier").exists(),
            "seekwise-applier next to seekwise-lab (cargo build -p seekwise-applier)",
        ),
        (!Path::new("/sys/kernel/tracing").exists(), "tracefs"),
    ];
    match missing.iter().find(|(is_missing, _)| *is_missing) {
        Some((_, what)) => {
            eprintln!("skipped: needs {what}");
            false
        }
        None => true,
    }
}

fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < PATIENCE, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// A folder that only its owner may write to, as required for a journal.
fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

/// Result of a quick run on a private disk.
fn quick(paper: &str) -> Value {
    let folder = folder();
    let (json, journal) = (folder.path().join("paper.json"), folder.path().join("journal"));
    let files = ["--journal", journal.to_str().unwrap(), "--json", json.to_str().unwrap()];
    let text = program::succeeds(&[&["paper", "run", paper, "--quick", "--live", "emulated"], &files[..]].concat());
    let replication: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    for bar in replication["bars"].as_array().unwrap() {
        assert!(text.contains(bar["about"].as_str().unwrap()), "{bar}");
    }
    let setup = replication["setup"].to_string();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert!(setup.contains(kernel.trim()) && setup.contains("sata7200") && setup.contains("fio-"), "{setup}");
    // The journal exists and has nothing left to restore.
    assert_eq!(fs::read_dir(journal).unwrap().count(), 0);
    replication
}

#[test]
fn random_workloads_are_searched_on_a_real_device_and_compared_with_a_grid() {
    if !can_run() {
        return;
    }
    let replication = quick("ioperf");
    let ids: Vec<&str> = replication["bars"].as_array().unwrap().iter().map(|bar| bar["id"].as_str().unwrap()).collect();
    assert_eq!(ids, ["improved-live", "improvement-live", "latency-live", "never-worse-live", "five-trials"]);
    assert_eq!(replication["tables"][0]["rows"][0]["cells"][0]["paper"], 88.2);
    let row = &replication["tables"][1]["rows"][0];
    let number = |column: usize| row["cells"][column]["ours"].as_f64().unwrap();
    let (default, best, five, near, took_s) = (number(0), number(1), number(2), number(3), number(4));
    assert!(default > 0.0 && best > 0.0 && (near - 100.0 * five / best).abs() < 1e-6, "{row}");
    // It monitors for eight seconds, then tries and verifies settings.
    assert!(took_s > 8.0, "{took_s}");
    let note = replication["notes"][0].as_str().unwrap();
    assert!(note.contains("five trials end with"), "{note}");
}

#[test]
#[ignore = "a minute and more of real time; its parts are tested next to random workloads"]
fn a_pair_of_workloads_is_steered_on_a_real_device_and_its_throughput_drawn() {
    if !can_run() {
        return;
    }
    let replication = quick("genetic");
    let curves = &replication["curves"][0];
    assert_eq!(curves["id"], "fig-4");
    let lines = curves["plots"][0]["lines"].as_array().unwrap();
    assert_eq!(lines.len(), 2, "the library as the paper has it, and the default");
    for line in lines {
        let points = line["points"].as_array().unwrap();
        // Two workloads in sequence, six seconds each.
        assert!(points.len() >= 10 && points.iter().any(|point| point[1].as_f64().unwrap() > 0.0), "{line}");
    }
}

#[test]
#[ignore = "a minute and more of real time; its parts are tested next to random workloads"]
fn a_load_runs_on_three_file_systems_of_the_real_kernel_and_nothing_stays_mounted() {
    if !can_run() {
        return;
    }
    if Command::new("mkfs.xfs").arg("-V").output().is_err() {
        eprintln!("skipped: needs mkfs.xfs (xfsprogs)");
        return;
    }
    let mounts = || fs::read_to_string("/proc/mounts").unwrap().lines().filter(|line| line.starts_with("/dev/loop")).count();
    let before = mounts();
    let replication = quick("self-learning");
    let rows = replication["tables"][0]["rows"].as_array().unwrap();
    for (row, file_system) in rows.iter().zip(["ext2", "ext3", "xfs"]) {
        let name = row["name"].as_str().unwrap();
        assert!(name.starts_with(&format!("sql-queries, {file_system};")) && name.contains("Algorithm 1 ends with"), "{name}");
        // Two schedulers, their difference, and Algorithm 1.
        let rates: Vec<f64> = row["cells"].as_array().unwrap().iter().map(|cell| cell["ours"].as_f64().unwrap()).collect();
        assert!(rates.len() == 5 && [0, 1, 3].iter().all(|place| rates[*place] > 0.01), "{row}");
    }
    assert_eq!((rows.len(), mounts()), (3, before));
}

/// A private emulated disk.
struct Disk {
    emulator: Child,
    name: String,
    _folder: tempfile::TempDir,
}

impl Disk {
    fn new() -> Disk {
        let folder = folder();
        let mut emulator = Command::new(program::sibling("seekwise-emulate"))
            .args(["--attach", "--no-overhead-compensation", "--size", "256M", "--disk", "sata7200"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(emulator.stdout.take().unwrap()).lines();
        let place = lines.next().unwrap().unwrap();
        std::thread::spawn(move || lines.for_each(drop));
        Disk { emulator, name: place.trim_start_matches("/dev/").to_owned(), _folder: folder }
    }

    fn path(&self) -> String {
        format!("/dev/{}", self.name)
    }

    /// All settings of the queue and its scheduler.
    fn settings(&self) -> BTreeMap<String, String> {
        let queue = Path::new("/sys/block").join(&self.name).join("queue");
        let folders = [queue.clone(), queue.join("iosched")];
        let entries = folders.iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.filter_map(|entry| Some((entry.path().display().to_string(), fs::read_to_string(entry.path()).ok()?))).collect()
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.emulator.id().to_string()]).status();
        let _ = self.emulator.wait();
    }
}

#[test]
fn whoever_is_interrupted_or_killed_the_device_ends_as_it_was() {
    if !can_run() {
        return;
    }
    let (disk, folder) = (Disk::new(), folder());
    let journal = folder.path().join("journal");
    let before = disk.settings();
    for (signal, code) in [("-INT", Some(2)), ("-KILL", None)] {
        let mut run = Command::new(lab())
            .args(["paper", "run", "ioperf", "--quick", "--overwrite", "--live", &disk.path(), "--journal"])
            .arg(&journal)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        until("something is set", || disk.settings() != before);
        assert!(fs::read_dir(&journal).unwrap().count() > 0, "the values before are on disk");
        assert!(Command::new("kill").args([signal, &run.id().to_string()]).status().unwrap().success());
        let status = run.wait().unwrap();
        assert!(status.code() == code || code.is_some() && !status.success(), "{signal}: {status}");
        until("everything is put back", || disk.settings() == before);
        until("nothing is left to be put back", || fs::read_dir(&journal).unwrap().count() == 0);
        // fio may run a moment longer after its parent was killed.
        until("the device is free", || !is_used(&disk.path()));
    }
}

/// Whether fio is running on the device.
fn is_used(path: &str) -> bool {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let opened = processes.flat_map(|process| fs::read_dir(process.path().join("fd")).into_iter().flatten().flatten());
    opened.filter_map(|file| fs::read_link(file.path()).ok()).any(|target| target == Path::new(path))
}

#[test]
fn a_device_is_not_touched_unless_it_is_whole_and_free_and_its_owner_says_so() {
    let refused = |arguments: &[&str]| program::refused(&[&["paper", "run"], arguments].concat());
    let unsaid = refused(&["ioperf", "--live", "/dev/nothing"]);
    assert!(unsaid.contains("--live /dev/nothing: would be overwritten; add --overwrite to allow that"), "{unsaid}");
    let other = refused(&["fairio", "--live", "emulated"]);
    assert!(other.contains("fairio runs in the simulator only; available with --live: self-learning, ioperf, genetic"), "{other}");
    assert!(refused(&["ioperf", "--live", "emulated", "--only", "fig-1"]).contains("--only"));
    assert!(refused(&["ioperf", "--minutes", "5"]).contains("--live"));
    if can_run() {
        assert!(refused(&["ioperf", "--live", "/dev/nothing", "--overwrite"]).contains("/dev/nothing"));
        let disk = Disk::new();
        let before = disk.settings();
        let made = Command::new("mkfs.ext4").args(["-q", &disk.path()]).status();
        let (mounted, journal) = (folder(), folder());
        let mount = || Command::new("mount").arg(disk.path()).arg(mounted.path()).status().is_ok_and(|status| status.success());
        if made.is_ok_and(|status| status.success()) && mount() {
            let used = refused(&["ioperf", "--overwrite", "--live", &disk.path(), "--journal", journal.path().to_str().unwrap()]);
            assert!(Command::new("umount").arg(mounted.path()).status().unwrap().success());
            assert!(used.contains("is in use"), "{used}");
            assert_eq!(disk.settings(), before);
        }
    }
}
