//! End-to-end tests of `seekwise compare`, from the command line to its output files.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

fn seekwise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    seekwise(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// A trace of `requests` requests: two sequential readers far apart and a random writer, about 80 requests per second.
fn trace(folder: &Path, requests: u64) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,sync\n");
    for n in 0..requests {
        let (stream, op, lba, sync) = match n % 3 {
            0 => (1, "R", 1_000_000 + 64 * n, 1),
            1 => (2, "R", 900_000_000 + 64 * n, 1),
            _ => (3, "W", (n * 7_919_993) % 1_000_000_000, 0),
        };
        writeln!(lines, "{},{stream},{op},{lba},64,{sync}", n * 12_500).unwrap();
    }
    let path = folder.join("three streams.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn the_table_has_a_row_for_every_scheduler_and_a_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 3000);
    let output = run(&["compare", trace.to_str().unwrap(), "--scheduler", "all"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    for spec in device_model::sched::all() {
        assert!(table.lines().any(|line| line.trim_start().starts_with(spec.name)), "no row for {} in\n{table}", spec.name);
    }
    for word in ["throughput", "response time", "fairness"] {
        assert!(table.to_lowercase().contains(word), "the verdict does not speak of {word}:\n{table}");
    }
    assert!(!table.contains('\u{1b}'), "escape codes in a pipe");
}

#[test]
fn the_same_input_gives_the_same_bytes_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 3000);
    let once = |threads: &str, name: &str| {
        let (page, records) = (folder.path().join(format!("{name}.html")), folder.path().join(name));
        let arguments = ["compare", trace.to_str().unwrap(), "--scheduler", "all", "--json", "--threads", threads, "--html"];
        let output = seekwise(&arguments).arg(&page).arg("--record").arg(&records).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut files: Vec<_> = std::fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        assert_eq!(files.len(), device_model::sched::all().count());
        let contents: Vec<_> =
            files.iter().map(|file| (file.file_name().unwrap().to_owned(), std::fs::read(file).unwrap())).collect();
        let again = seekwise(&["report", "--json"]).arg(&records).output().unwrap();
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert!(again.stdout == output.stdout, "a report of the records differs from the comparison");
        (output.stdout, again.stdout, std::fs::read(&page).unwrap(), contents)
    };
    assert!(once("1", "one") == once("4", "four"));
}

#[test]
fn processor_time_which_differs_from_run_to_run_is_left_out_unless_it_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 600);
    let with = |more: &[&str]| {
        let output = seekwise(&["compare", trace.to_str().unwrap(), "--scheduler", "noop"]).args(more).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert!(with(&[]) == with(&[]) && !with(&[]).contains("CPU"), "{}", with(&[]));
    assert!(with(&["--cpu-time"]).contains("CPU"));
    assert_eq!(run(&["compare", trace.to_str().unwrap(), "--no-cpu-time"]).status.code(), Some(2));
}

#[test]
fn the_table_keeps_to_the_columns_that_are_asked_for_in_a_pipe_too() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 600);
    let widest = |columns: &str| {
        let output = seekwise(&["compare", trace.to_str().unwrap()]).env("COLUMNS", columns).output().unwrap();
        text(&output.stdout).lines().map(|line| line.chars().count()).max().unwrap()
    };
    assert!(widest("80") <= 80, "{} columns", widest("80"));
    assert!(widest("") > 100 && widest("wide") > 100, "a value that is no number is ignored");
}

#[test]
fn json_names_the_winner_and_carries_units_in_its_keys() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 600);
    let output =
        run(&["compare", trace.to_str().unwrap(), "--json", "--scheduler", "noop", "--scheduler", "deadline:read_expire=50"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["schedulers"].as_array().unwrap().len(), 2);
    assert!(json["schedulers"][1]["figures"]["throughput_mb_s"].as_f64().unwrap() > 0.0, "{json:#}");
    assert!(json["winners"].is_object());
}

#[test]
fn a_mistake_is_named_with_what_would_be_right_and_exit_code_2() {
    let folder = tempfile::tempdir().unwrap();
    let good = trace(folder.path(), 30);
    let good = good.to_str().unwrap();
    let empty = folder.path().join("empty.csv");
    std::fs::write(&empty, "").unwrap();
    let header_only = folder.path().join("header.csv");
    std::fs::write(&header_only, "time_us,stream,op,lba,sectors\n").unwrap();
    let damaged = folder.path().join("damaged.csv");
    std::fs::write(&damaged, "time_us,stream,op,lba,sectors\n0,1,R,0,8\n1,1,R,zero,8\n").unwrap();
    let far = folder.path().join("far.csv");
    std::fs::write(&far, format!("time_us,stream,op,lba,sectors\n0,1,R,{},8\n", 1u64 << 40)).unwrap();
    let nowhere = folder.path().join("no such folder/page.html");
    let century = folder.path().join("century.csv");
    std::fs::write(&century, "time_s,stream,op,lba,sectors\n0,1,R,0,8\n200000,1,R,0,8\n").unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&[century.to_str().unwrap(), "--speed", "1e-5"], &["century.csv", "634 years", "--speed 7.0e-5"]),
        (&[good, "--speed", "-1"], &["--speed", "-1", "0.000001 to 1000000"]),
        (&[good, "--threads", "-1"], &["'-1'", "--threads", "give 1 to 1024 threads"]),
        (&[good, "--queue-depth", "-1"], &["'-1'", "--queue-depth", "give 1 to 1024 requests"]),
        (&[good, "--seed", "-1"], &["'-1'", "--seed", "whole number from 0"]),
        (&["/nonexistent/trace"], &["/nonexistent/trace"]),
        (&[folder.path().to_str().unwrap()], &["empty.csv: is empty"]),
        (&[empty.to_str().unwrap()], &["empty.csv"]),
        (&[header_only.to_str().unwrap()], &["header.csv", "no request"]),
        (&[damaged.to_str().unwrap()], &["damaged.csv:3", "zero"]),
        (&[far.to_str().unwrap()], &["far.csv", "--fit compact"]),
        (&[good, "--scheduler", "dedline"], &["dedline", "deadline"]),
        (&[good, "--scheduler", "deadline:read_expired=5"], &["read_expired", "read_expire"]),
        (&[good, "--scheduler", "deadline:read_expire=-5"], &["read_expire", "-5"]),
        (&[good, "--scheduler", "noop", "--scheduler", "noop"], &["noop", "twice"]),
        (&[good, "--disk", "no-such-disk"], &["no-such-disk", "atlas10k"]),
        (&[good, "--speed", "0"], &["--speed", "0"]),
        (&[good, "--speed", "nan"], &["--speed", "nan"]),
        (&[good, "--queue-depth", "0"], &["--queue-depth", "0"]),
        (&[good, "--html", nowhere.to_str().unwrap()], &["no such folder"]),
        (&[good, "--record", damaged.to_str().unwrap()], &["--record", "damaged.csv is a file; a folder is wanted"]),
        (&[good, "--record", "/proc/records"], &["--record /proc/records"]),
        (&[good, "--html", "/proc/page.html"], &["--html /proc/page.html"]),
        (&[good, "--format", "spc"], &["three streams.csv"]),
        (&[good, "--format", "nonsense"], &["nonsense", "csv"]),
    ];
    for (arguments, words) in cases {
        let output = seekwise(&["compare"]).args(*arguments).output().unwrap();
        let message = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {message}");
        assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
        for word in *words {
            assert!(message.contains(word), "{arguments:?}: the message does not name {word}:\n{message}");
        }
    }
}

#[test]
fn a_full_disk_under_the_page_loses_no_table() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 300);
    let compared = run(&[
        "compare",
        trace.to_str().unwrap(),
        "--disk",
        "sata7200",
        "--scheduler",
        "noop",
        "--scheduler",
        "sstf",
        "--html",
        "/dev/full",
    ]);
    let (out, error) = (text(&compared.stdout), text(&compared.stderr));
    assert!(out.contains("noop") && out.contains("sstf"), "{out}{error}");
    assert!(compared.status.code() == Some(1) && error.contains("/dev/full") && error.contains("No space left"), "{error}");
}

#[test]
fn damaged_lines_are_counted_when_they_are_to_be_skipped() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("damaged.csv");
    std::fs::write(&path, "time_us,stream,op,lba,sectors\n0,1,R,0,8\n1,1,R,zero,8\n2,1,R,8,8\n").unwrap();
    let output = run(&["compare", path.to_str().unwrap(), "--skip-bad", "--scheduler", "noop"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).contains("1 damaged line"), "{}", text(&output.stdout));
}

#[test]
fn a_trace_the_disk_cannot_keep_up_with_is_said_to_be_so_and_the_advice_holds() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 3000);
    let at = |speed: &str| {
        let output = run(&["compare", trace.to_str().unwrap(), "--scheduler", "noop", "--json", "--speed", speed]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        (json["schedulers"][0]["sustainable_speed"].as_f64(), json["warnings"].to_string())
    };
    let (sustainable, warning) = at("100");
    let mut sustainable = sustainable.expect("a hundredfold load is too much for any disk");
    assert!(warning.contains("cannot keep up") && warning.contains("--speed"), "{warning}");
    // A shorter queue is served more slowly, so the first speed may still be too high.
    for _ in 0..2 {
        let (slower, _) = at(&format!("{}", sustainable * 0.95));
        sustainable = slower.unwrap_or(sustainable);
    }
    let (sustainable, warning) = at(&format!("{}", sustainable * 0.95));
    assert_eq!(sustainable, None, "{warning}");
}

#[test]
fn a_burst_that_no_speed_would_spread_is_advised_the_closed_replay_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("burst.csv");
    let mut lines = String::from("time_ns,stream,op,lba,sectors\n");
    for n in 0..200 {
        writeln!(lines, "{},1,R,{},8", n / 100, n * 7_919_993 % 1_000_000_000).unwrap();
    }
    std::fs::write(&path, lines).unwrap();
    let output = run(&["compare", path.to_str().unwrap(), "--scheduler", "noop"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let table = text(&output.stdout);
    assert!(table.contains("cannot keep up") && table.contains("--closed") && !table.contains("--speed"), "{table}");
}

#[test]
fn a_disk_that_goes_on_writing_after_the_run_was_not_busier_than_all_the_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("last is cached.csv");
    std::fs::write(&path, "time_us,stream,op,lba,sectors\n0,1,R,7814037160,8\n10,1,W,0,8\n").unwrap();
    let output = run(&["compare", path.to_str().unwrap(), "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for scheduler in json["schedulers"].as_array().unwrap() {
        let busy = scheduler["figures"]["disk_utilisation_percent"].as_f64().unwrap();
        assert!((50.0..=100.0).contains(&busy), "{}: {busy}%", scheduler["label"]);
    }
}

#[test]
fn an_interrupt_during_a_controllers_decision_is_answered_within_a_second() {
    let mixed = concat!(env!("CARGO_MANIFEST_DIR"), "/../../traces/mixed.parquet");
    let mut child = seekwise(&["compare", mixed, "--disk", "raid5-5x-sata7200", "--controller", "seekwise"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Long enough that the controller has begun to simulate candidates.
    std::thread::sleep(Duration::from_millis(500));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let start = Instant::now();
    let status = child.wait().unwrap();
    assert!(start.elapsed() < Duration::from_secs(1), "it took {:?} to stop", start.elapsed());
    assert_eq!(status.code(), Some(130));
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("seekwise: interrupted; nothing was written"), "{said}");
}

#[test]
fn an_interrupt_stops_it_cleanly_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 400_000);
    let page = folder.path().join("page.html");
    let arguments = ["compare", trace.to_str().unwrap(), "--html", page.to_str().unwrap()];
    let mut child = seekwise(&arguments).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let start = Instant::now();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130));
    assert!(start.elapsed() < Duration::from_secs(5), "it took {:?} to stop", start.elapsed());
    let mut printed = String::new();
    child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
    assert_eq!(printed, "");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["three streams.csv"]);
}

#[test]
fn the_disks_own_queue_can_be_chosen_and_is_on_record() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 3000);
    let with = |policy: &str| {
        let arguments = ["compare", trace.to_str().unwrap(), "--speed", "3", "--scheduler", "noop", "--json"];
        let output = seekwise(&arguments).args(["--queue-depth", "16", "--queue-policy", policy]).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&json["disk"]["queue_depth"], &json["disk"]["queue_policy"]), (&16.into(), &policy.into()));
        json["schedulers"][0]["figures"]["response_mean_ms"].as_f64().unwrap()
    };
    assert!(with("sptf") < with("fifo"), "looking for the soonest should serve a backlog faster");
}

#[test]
fn memory_does_not_grow_with_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let peak_kib = |requests: u64| {
        let trace = trace(folder.path(), requests);
        let arguments = ["compare", trace.to_str().unwrap(), "--threads", "2"];
        let mut child = seekwise(&arguments).stdout(Stdio::null()).spawn().unwrap();
        let mut peak = 0;
        while child.try_wait().unwrap().is_none() {
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            peak = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(peak);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(child.wait().unwrap().success());
        peak
    };
    // Both are longer than every window and look-ahead, and than the part of a trace that is cached for the next scheduler.
    let (short, long): (u64, u64) = (peak_kib(1_200_000), peak_kib(2_400_000));
    assert!(short > 0 && long < short + 4 * 1024, "{short} KiB for 1,200,000 requests, {long} KiB for 2,400,000");
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 30);
    let mut child = seekwise(&["compare", trace.to_str().unwrap()]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn a_full_disk_is_said_to_be_full_and_the_old_page_survives() {
    let Some(full) = small_filesystem() else {
        eprintln!("skipped: mounting a small tmpfs needs root");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path(), 3000);
    let page = full.0.path().join("page.html");
    std::fs::write(&page, "old").unwrap();
    let output = run(&["compare", trace.to_str().unwrap(), "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stderr));
    assert!(text(&output.stderr).contains("page.html"), "{}", text(&output.stderr));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "old");
    assert_eq!(std::fs::read_dir(full.0.path()).unwrap().count(), 1, "something half-written is left");
}

/// A mounted filesystem with almost no space.
struct Small(tempfile::TempDir);

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

fn small_filesystem() -> Option<Small> {
    let folder = tempfile::tempdir().unwrap();
    let mount =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=16k", "tmpfs"]).arg(folder.path()).stderr(Stdio::null()).status();
    mount.is_ok_and(|status| status.success()).then(|| Small(folder))
}

#[test]
fn help_names_every_command_and_fits_a_narrow_terminal() {
    for arguments in [&["--help"][..], &["compare", "--help"], &["trace", "--help"], &["disk", "--help"], &["scheduler", "--help"]]
    {
        let output = seekwise(arguments).env("COLUMNS", "80").output().unwrap();
        assert!(output.status.success());
        let help = text(&output.stdout);
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 100, "{arguments:?}: a line of {widest} columns");
    }
}

/// A writer that calls fsync next to a reader.
const DATABASE: &str = "[global]\nsize=64m\nruntime=3\ntime_based\n[wal]\nrw=write\nbs=4k\nioengine=sync\nfdatasync=1\n\
    [scan]\nrw=read\nbs=128k\nioengine=psync\n";

#[test]
fn every_combination_of_varied_tunables_of_the_host_is_a_row_with_its_own_result() {
    let folder = tempfile::tempdir().unwrap();
    let job = folder.path().join("database.fio");
    std::fs::write(&job, DATABASE).unwrap();
    let job = job.to_str().unwrap();
    let varied = |more: &[&str]| run(&[&["compare", job, "--json", "--scheduler", "none", "--scheduler", "bfq"], more].concat());
    let output = varied(&["--vary", "read_ahead_kb=0,1024", "--vary", "nr_requests=64,256"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["schedulers"].as_array().unwrap();
    assert_eq!((rows.len(), &rows[3]["label"]), (8, &"none nr_requests=256 read_ahead_kb=1024".into()));
    let figure = |row: usize, key: &str| rows[row]["figures"][key].as_f64().unwrap();
    assert!(figure(2, "throughput_mb_s") > 1.2 * figure(0, "throughput_mb_s"), "reading ahead");
    assert!(figure(4, "fsync_p99_ms") > 0.0 && figure(4, "fsync_mean_ms") > 1.0, "a rotation of the disk");
    // Equal to a run with the value set by --set.
    let set = run(&["compare", job, "--json", "--scheduler", "none", "--set", "read_ahead_kb=1024,nr_requests=256"]);
    let set: serde_json::Value = serde_json::from_slice(&set.stdout).unwrap();
    assert_eq!(set["schedulers"][0]["figures"], rows[3]["figures"]);
    for (more, message) in [
        (["--vary", "read_ahead=3"], "--vary read_ahead=3: host has no tunable 'read_ahead'"),
        (["--vary", "read_ahead_kb=3,3"], "3 is given twice"),
        (["--vary", "read_ahead_kb"], "should be KEY=VALUE,VALUE,..."),
        (["--vary", "read_ahead_kb=x"], "should be a whole number from 0 to 65536 KiB"),
    ] {
        let output = varied(&more);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains(message), "{}", text(&output.stderr));
    }
    let trace = trace(folder.path(), 10);
    for more in [&["--vary", "read_ahead_kb=128"][..], &["--scheduler", "bfq read_ahead_kb=128"]] {
        let output = run(&[&["compare", trace.to_str().unwrap()], more].concat());
        let said = text(&output.stderr);
        let reason = "is a block trace, which was recorded below the page cache, so read_ahead_kb has no effect on it";
        assert!(output.status.code() == Some(2) && said.contains(reason) && said.contains("meets only nr_requests"), "{said}");
    }
}

#[test]
fn the_commands_of_the_page_about_schedulers_in_c_work_and_a_library_that_breaks_a_rule_fails_the_run() {
    let folder = tempfile::tempdir().unwrap();
    for shared in ["crates", "examples"] {
        std::os::unix::fs::symlink(crate::commands::root().join(shared), folder.path().join(shared)).unwrap();
    }
    if Command::new("cc").arg("--version").output().is_err() {
        eprintln!("skipped: there is no C compiler");
        return;
    }
    let shell = |line: &str| {
        let here = Path::new(env!("CARGO_BIN_EXE_seekwise")).parent().unwrap();
        let path = format!("{}:{}", here.display(), std::env::var("PATH").unwrap());
        Command::new("sh").args(["-c", line]).env("PATH", path).current_dir(&folder).output().unwrap()
    };
    let page = std::fs::read_to_string(crate::commands::root().join("docs/guide/own-scheduler.md")).unwrap();
    let lines: Vec<&str> = page.lines().filter(|line| line.starts_with("cc ") || line.starts_with("seekwise ")).collect();
    assert_eq!(lines.len(), 2);
    for line in &lines {
        let output = shell(line);
        assert!(output.status.success(), "{line}: {}", text(&output.stderr));
        let printed = text(&output.stdout);
        assert!(
            line.starts_with("cc ")
                || ["elevator-c ", "elevator-c:patience_ms=20", "mq-deadline"].iter().all(|name| printed.contains(name)),
            "{printed}"
        );
    }
    let source = std::fs::read_to_string(folder.path().join("examples/elevator.c")).unwrap();
    std::fs::write(folder.path().join("bad.c"), source.replace("*id = elevator->queued[best].id;", "*id = 12345;")).unwrap();
    assert!(shell(&lines[0].replace("elevator.so", "bad.so").replace("examples/elevator.c", "bad.c")).status.success());
    let output = shell("seekwise simulate recipes/etcd --disk sata7200 --scheduler ./bad.so");
    assert_eq!((output.status.code(), text(&output.stdout).as_str()), (Some(1), ""));
    assert!(
        text(&output.stderr).contains("elevator-c: pick dispatched request 12345, which is not queued; its results are not valid")
    );
    // Only the command line loads libraries.
    let plan = "loads = [\"recipes/etcd\"]\ndisks = [\"sata7200\"]\nschedulers = [\"./elevator.so\"]\n";
    std::fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let output = shell("seekwise sweep plan.toml --output out");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("./elevator.so"), "{}", text(&output.stderr));
    let output = shell("seekwise simulate recipes/etcd --scheduler ./absent.so");
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).contains("./absent.so"), "{}", text(&output.stderr));
}

#[test]
fn the_page_about_own_schedulers_compares_rows_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/guide/own-scheduler.md")).unwrap();
    let compile = page.lines().find_map(|line| line.strip_prefix("cc ")).unwrap();
    let library = folder.path().join("elevator.so");
    let compile = compile.replace("elevator.so", library.to_str().unwrap());
    let Ok(compiled) = Command::new("cc").args(compile.split(' ')).current_dir(&root).output() else {
        println!("skipped: there is no C compiler");
        return;
    };
    assert!(compiled.status.success(), "{}", text(&compiled.stderr));
    let compare = page.lines().find_map(|line| line.strip_prefix("seekwise compare ")).unwrap();
    let arguments: Vec<&str> = ["compare", "--json"].into_iter().chain(compare.split(' ')).collect();
    let output = seekwise(&arguments).current_dir(folder.path()).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figures: Vec<&serde_json::Value> = json["schedulers"].as_array().unwrap().iter().map(|row| &row["figures"]).collect();
    assert!(figures.len() == 3 && figures[0] != figures[1] && figures[1] != figures[2], "{figures:#?}");
}
