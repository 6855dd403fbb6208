//! `seekwise trace capture` and `seekwise advise DEVICE` under the real kernel: captured requests equal those that fio issues to a loop device.
//!
//! Needs root, tracefs, loop devices, losetup and fio; skipped with a message otherwise. Each test has its own device.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{refused, succeeds, text};
use serde_json::Value;

const SEEKWISE: &str = env!("CARGO_BIN_EXE_seekwise");

/// Whether the tests can run; prints the missing requirements.
fn can_run() -> bool {
    let runs = |program: &str| Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    let has_tracefs = fs::read_to_string("/proc/filesystems").is_ok_and(|text| text.contains("tracefs"));
    let missing = [
        (!is_root(), "root"),
        (!has_tracefs, "tracefs"),
        (!Path::new("/dev/loop-control").exists(), "/dev/loop-control"),
        (!runs("losetup"), "losetup"),
        (!runs("fio"), "fio"),
    ];
    missing.iter().filter(|(is_missing, _)| *is_missing).for_each(|(_, what)| eprintln!("skipped: needs {what}"));
    missing.iter().all(|(is_missing, _)| !is_missing)
}

fn is_root() -> bool {
    fs::read_to_string("/proc/self/status").is_ok_and(|status| status.contains("Uid:\t0\t"))
}

/// A loop device over a sparse file; both are removed on drop.
struct Loop {
    path: String,
    folder: tempfile::TempDir,
}

impl Loop {
    fn new() -> Loop {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk");
        fs::File::create(&file).unwrap().set_len(64 << 20).unwrap();
        let found = Command::new("losetup").args(["--find", "--show"]).arg(&file).output().unwrap();
        assert!(found.status.success(), "{}", text(&found.stderr));
        Loop { path: text(&found.stdout).trim().to_owned(), folder }
    }

    fn name(&self) -> &str {
        self.path.strip_prefix("/dev/").unwrap()
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs fio jobs with direct I/O on it, and returns fio's report.
    fn fio(&self, jobs: &[&str]) -> Value {
        let mut command = Command::new("fio");
        command.args(["--direct=1", "--ioengine=libaio", "--output-format=json", &format!("--filename={}", self.path)]);
        let output = command.args(jobs).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.path]).status();
    }
}

/// Waits for a condition; panics after a timeout.
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts `seekwise trace capture` and waits until it records.
fn captures(arguments: &[&str]) -> Child {
    let child = Command::new(SEEKWISE).args(arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let prefix = format!("seekwise-{}-", child.id());
    until("it captures", || {
        instances().iter().any(|instance| {
            // A new instance is on before its events are.
            let is_on = |file: &str| fs::read_to_string(instance.join(file)).is_ok_and(|on| on.trim() == "1");
            is_on("events/block/block_rq_complete/enable")
                && is_on("tracing_on")
                && instance.file_name().unwrap().to_string_lossy().starts_with(&prefix)
        })
    });
    child
}

/// Instances in tracefs.
fn instances() -> Vec<PathBuf> {
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let place = mounts.lines().find_map(|line| {
        let mut words = line.split(' ');
        let place = words.nth(1)?;
        (words.next()? == "tracefs").then(|| place.to_owned())
    });
    let entries = place.and_then(|place| fs::read_dir(Path::new(&place).join("instances")).ok());
    entries.into_iter().flatten().flatten().map(|entry| entry.path()).collect()
}

/// Rows of a trace in CSV, by column.
fn rows(trace: &Path, columns: &[&str]) -> Vec<Vec<String>> {
    let csv = succeeds(&["trace", "convert", trace.to_str().unwrap(), "-", "--to", "csv"]);
    let mut lines = csv.lines().map(|line| line.split(',').map(str::to_owned).collect::<Vec<_>>());
    let head = lines.next().unwrap();
    let places: Vec<usize> = columns.iter().map(|name| head.iter().position(|column| column == name).unwrap()).collect();
    lines.map(|line| places.iter().map(|place| line[*place].clone()).collect()).collect()
}

#[test]
fn every_request_of_fio_is_captured_with_its_sectors_its_process_and_its_times() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let trace = device.file("trace.parquet");
    fs::write(format!("/sys/block/{}/queue/scheduler", device.name()), "none").unwrap();
    let child =
        captures(&["trace", "capture", &device.path, "--requests", "3000", "--seconds", "30", "--output", trace.to_str().unwrap()]);
    let log = device.file("log");
    let report = device.fio(&[
        "--name=mixed",
        "--rw=randrw",
        "--bsrange=4k-16k",
        "--iodepth=8",
        "--number_ios=3000",
        &format!("--write_iolog={}", log.display()),
    ]);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("3,000 requests of loop"), "{}", text(&output.stderr));
    // fio's log of issued requests: `2 /dev/loop0 read 8192 4096`, in bytes.
    let asked = fs::read_to_string(&log).unwrap();
    let mut expected: Vec<Vec<String>> = Vec::new();
    for line in asked.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let [.., op @ ("read" | "write"), offset, bytes] = words[..] {
            let sectors = |bytes: &str| (bytes.parse::<u64>().unwrap() / 512).to_string();
            expected.push(vec![op.to_owned(), sectors(offset), sectors(bytes)]);
        }
    }
    let mut captured = rows(&trace, &["op", "lba", "sectors"]);
    for row in &mut captured {
        row[0] = if row[0].starts_with(['R', 'r']) { "read".to_owned() } else { "write".to_owned() };
    }
    expected.sort();
    captured.sort();
    assert_eq!(captured.len(), 3000);
    assert!(captured == expected, "the captured requests differ from those of fio");
    let info: Value = serde_json::from_str(&succeeds(&["trace", "info", trace.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(info["recorded_response"]["requests"], 3000, "all were answered");
    assert_eq!((&info["stream_count"], &info["streams"][0]["name"]), (&Value::from(1), &Value::from("fio")));
    let recorded = &info["recorded_device"];
    assert_eq!((&recorded["capacity_sectors"], &recorded["scheduler"]), (&Value::from((64 << 20) / 512), &Value::from("none")));
    let advice: Value = serde_json::from_str(&succeeds(&["advise", trace.to_str().unwrap(), "--json"])).unwrap();
    assert_eq!(advice["in_force"], "none", "the trace names the active scheduler");
    // fio's times include its system calls.
    let mean = |direction: &str| report["jobs"][0][direction]["lat_ns"]["mean"].as_f64().unwrap() / 1e6;
    let (seen, slowest) = (info["recorded_response"]["mean_ms"].as_f64().unwrap(), mean("read").max(mean("write")));
    assert!(seen > 0.0 && seen < slowest, "{seen} ms at the device, {slowest} ms in fio");
}

#[test]
fn what_a_partition_is_asked_has_the_sectors_of_its_disk() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let added = Command::new("addpart").args([&device.path, "1", "2048", "20000"]).status();
    if !added.is_ok_and(|added| added.success()) {
        return eprintln!("skipped: needs addpart");
    }
    let part = format!("{}p1", device.name());
    let number = fs::read_to_string(format!("/sys/block/{}/{part}/dev", device.name())).unwrap();
    let (major, minor) = number.trim().split_once(':').unwrap();
    let node = device.file("part");
    assert!(Command::new("mknod").args([node.to_str().unwrap(), "b", major, minor]).status().unwrap().success());
    let trace = device.file("trace.parquet");
    let child = captures(&["trace", "capture", &part, "--requests", "2", "--seconds", "20", "--output", trace.to_str().unwrap()]);
    let (input, count) = (format!("if={}", node.display()), ["bs=4k", "skip=1", "count=2", "iflag=direct", "status=none"]);
    assert!(Command::new("dd").args([input.as_str(), "of=/dev/null"]).args(count).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(Command::new("delpart").args([&device.path, "1"]).status().unwrap().success());
    let said = text(&output.stderr);
    assert!(said.contains(&format!("{part} is a partition of {}", device.name())), "{said}");
    assert_eq!(rows(&trace, &["lba", "sectors"]), [["2056", "8"], ["2064", "8"]]);
}

#[test]
fn an_interrupted_capture_keeps_its_requests_and_leaves_nothing_behind() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let trace = device.file("trace.csv");
    let child = captures(&["trace", "capture", device.name(), "--output", trace.to_str().unwrap()]);
    let id = child.id().to_string();
    device.fio(&["--name=reads", "--rw=read", "--bs=4k", "--number_ios=100"]);
    assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(rows(&trace, &["lba"]).len() >= 100);
    let own = format!("seekwise-{id}-");
    assert!(instances().iter().all(|left| !left.to_string_lossy().contains(&own)), "its instance of tracefs is gone");
}

#[test]
fn what_a_killed_capture_left_is_taken_down_by_the_next() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let trace = device.file("trace.parquet");
    let arguments = ["trace", "capture", &device.path, "--requests", "1", "--output", trace.to_str().unwrap()];
    let mut killed = captures(&arguments);
    let left = format!("seekwise-{}-", killed.id());
    killed.kill().unwrap();
    killed.wait().unwrap();
    let is_left = || instances().iter().any(|instance| instance.to_string_lossy().contains(&left));
    let mut next = captures(&arguments);
    assert!(!is_left(), "the instance of the killed one");
    device.fio(&["--name=reads", "--rw=read", "--bs=4k", "--number_ios=4"]);
    assert!(next.wait().unwrap().success());
}

#[test]
fn a_device_that_goes_ends_the_capture_and_is_said() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let trace = device.file("trace.parquet");
    let child = captures(&["trace", "capture", &device.path, "--seconds", "60", "--output", trace.to_str().unwrap()]);
    device.fio(&["--name=reads", "--rw=read", "--bs=4k", "--number_ios=10"]);
    assert!(Command::new("losetup").args(["--detach", &device.path]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let said = text(&output.stderr);
    assert!(output.status.success() && said.contains("is gone: these are its requests until then"), "{said}");
}

#[test]
fn advice_on_a_device_equals_advice_on_its_trace() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    // A change of the scheduler resets its tunables to defaults.
    let queue = PathBuf::from(format!("/sys/block/{}/queue", device.name()));
    for (name, value) in [("scheduler", "none"), ("scheduler", "mq-deadline"), ("iosched/fifo_batch", "4")] {
        fs::write(queue.join(name), value).unwrap();
    }
    let child = captures(&["advise", device.name(), "--for", "3", "--json"]);
    device.fio(&["--name=reads", "--rw=randread", "--bs=4k", "--iodepth=16", "--time_based", "--runtime=4", "--rate_iops=2000"]);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", text(&output.stderr));
    let advice: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(advice["load"], format!("{}, watched for 3 s", device.name()));
    assert!(advice["requests"].as_u64().unwrap() > 3_000, "{}", advice["requests"]);
    let in_force = advice["in_force"].as_str().unwrap();
    assert!(in_force.starts_with("mq-deadline:fifo_batch=4"), "{in_force} differs from the device's setting");
    assert!(advice["verdict"]["text"].as_str().is_some_and(|text| !text.is_empty()));
}

#[test]
fn an_aim_that_no_device_shows_is_refused_before_it_is_watched() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    let began = Instant::now();
    for (aim, said) in [("wal:fsync:p99=40ms", "aim at the writes (--protect wal:write:p99=40ms)"), ("wal:p95=1s", "name a --disk")]
    {
        let message = refused(&["advise", device.name(), "--for", "600", "--protect", aim]);
        assert!(message.contains(&format!("--protect {aim}: ")) && message.contains(said), "{message}");
    }
    assert!(began.elapsed() < Duration::from_secs(60));
}

#[test]
fn what_cannot_be_captured_is_refused_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("trace.parquet");
    let output = output.to_str().unwrap();
    let said = refused(&["trace", "capture", "no-such-disk", "--output", output]);
    assert!(said.contains("no-such-disk: is no block device; there are "), "{said}");
    let said = refused(&["advise", "/dev/no-such-disk"]);
    assert!(said.contains("/dev/no-such-disk: is no block device; there are "), "{said}");
    let said = refused(&["advise", "randread", "--seconds", "3"]);
    assert!(said.contains("--for: is how long a block device is watched"), "{said}");
    assert!(!Path::new(output).exists());
}

#[test]
fn without_root_it_says_that_root_is_needed() {
    if !can_run() {
        return;
    }
    let device = Loop::new();
    // The folders of this user are not accessible to others.
    let copy = Path::new("/tmp").join(format!("seekwise-capture-{}", std::process::id()));
    fs::copy(SEEKWISE, &copy).unwrap();
    let arguments =
        ["--reuid=65534", "--clear-groups", copy.to_str().unwrap(), "trace", "capture", &device.path, "--output", "/tmp/x.parquet"];
    let output = Command::new("setpriv").args(arguments).output();
    fs::remove_file(&copy).unwrap();
    let Ok(output) = output else { return eprintln!("skipped: needs setpriv") };
    assert_eq!(output.status.code(), Some(2), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("only root"), "{}", text(&output.stderr));
}
