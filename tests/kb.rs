//! End-to-end tests of `seekwise kb`: output, files, cleanup and exit codes.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use block::{Nanos, Op};
use knowledge::{DecisionRow, Knowledge, ModelRow, RequestRow, Row, Run, RunId, WindowRow};
use observe::WindowOutcome;
use tempfile::{TempDir, tempdir};


fn seekwise(folder: &Path, args: &[&str]) -> Output {
    let args: Vec<&OsStr> = args.iter().map(OsStr::new).collect();
    command(folder, &args).output().unwrap()
}

fn command(folder: &Path, args: &[&OsStr]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    command.current_dir(folder).arg("kb").args(args);
    command
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error and exit code.
fn complaint(output: &Output) -> (i32, String) {
    (output.status.code().unwrap(), String::from_utf8(output.stderr.clone()).unwrap())
}

/// Names of all files in a folder, including hidden ones.
fn listing(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

fn run(number: u8) -> Run {
    Run {
        id: RunId([number; 16]),
        began_s: 1_790_000_000 + i64::from(number),
        plant: "simulator".into(),
        device: "sata7200".into(),
        source: "mixed.parquet".into(),
        seed: Some(1),
        program: "seekwise 0.1.0".into(),
    }
}

fn window(number: u64) -> WindowRow {
    let (from, to) = (Nanos::from_millis(number * 500), Nanos::from_millis(number * 500 + 500));
    WindowRow {
        number,
        from,
        to,
        setting: ["cfq", "deadline:read_expire=100 nr_requests=64"][(number % 2) as usize].into(),
        features: ["requests_per_s".to_owned(), "read_share".to_owned()].into(),
        values: vec![number as f64, f64::NAN],
        outcome: WindowOutcome {
            duration: to - from,
            requests: 10,
            waited_for: 9,
            bytes: 40960,
            mean_response_s: 0.01,
            waited_s: 0.01,
            p99_response_s: 0.02,
            max_response_s: 0.02,
            mean_service_s: 0.005,
            fairness: 1.0,
            unfinished: 0,
            calls: None,
        },
    }
}

fn rows(windows: u64) -> impl Iterator<Item = Row> {
    let decision = |number| DecisionRow {
        number,
        at: Nanos::from_millis(number * 500 + 500),
        window: Some(number),
        from: "cfq".into(),
        to: "cfq".into(),
        why: "it is \"best\"".into(),
        expected_gain: None,
        measured_gain: Some(0.5),
        refused: None,
    };
    let request = |number| RequestRow {
        number,
        op: Op::Read,
        lba: number,
        sectors: 8,
        sync: true,
        distance: -8,
        queued: Nanos(1),
        dispatched: Nanos(2),
        done: Nanos(3),
    };
    (0..windows).flat_map(move |number| [Row::Window(window(number)), decision(number).into(), request(number).into()])
}

/// A folder with a knowledge base of 10 windows, decisions and requests of run 1, and a model.
fn folder() -> TempDir {
    let folder = tempdir().unwrap();
    fill(&folder.path().join("a.kb"), 1, 10);
    folder
}

fn fill(path: &Path, number: u8, windows: u64) {
    let mut knowledge = Knowledge::open(path).unwrap();
    let mut batch = knowledge.batch().unwrap();
    for row in rows(windows) {
        batch.row(&run(number), &row).unwrap();
    }
    let (name, kind, json) = ("tree".into(), "c4.5".into(), "{\"leaf\": [1, 2]}".into());
    batch.model(&ModelRow { name, kind, json, trained_s: 1_790_000_100, features: vec!["read_share".into()] }).unwrap();
    batch.commit().unwrap();
}

#[test]
fn info_says_what_is_there_by_device_and_setting() {
    let folder = folder();
    let output = seekwise(folder.path(), &["info", "a.kb", "--check"]);
    assert_eq!(complaint(&output), (0, String::new()));
    let text = out(&output);
    let mut lines = text.lines();
    let first = lines.next().unwrap();
    assert!(first.starts_with("a.kb: schema version 3, ") && first.ends_with(" kB, no damage found"), "{first}");
    assert_eq!(
        lines.collect::<Vec<_>>(),
        [
            "  runs        1, begun 2026-09-21 14:13:21 UTC",
            "  windows     10",
            "  decisions   10",
            "  requests    10",
            "  models      1",
            "",
            "simulator sata7200",
            "     windows   observed s  setting",
            "           5          2.5  cfq",
            "           5          2.5  deadline:read_expire=100 nr_requests=64",
            "",
            "model                learner          features         kB  trained (UTC)",
            "tree                 c4.5                    1     0.0160  2026-09-21 14:15:00",
        ]
    );
    let json: serde_json::Value = serde_json::from_slice(&seekwise(folder.path(), &["info", "a.kb", "--json"]).stdout).unwrap();
    assert_eq!((&json["schema_version"], &json["settings"][1]["observed_s"]), (&3.into(), &2.5.into()));
    assert_eq!(listing(folder.path()), ["a.kb"]);
}

#[test]
fn every_table_goes_out_and_comes_in_the_same() {
    let folder = folder();
    for table in ["windows", "decisions", "requests", "models"] {
        let output = seekwise(folder.path(), &["export", "a.kb", "--table", table, "-o", "one.csv"]);
        assert_eq!(output.status.code(), Some(0), "{}", complaint(&output).1);
        let output = seekwise(folder.path(), &["import", "b.kb", "one.csv"]);
        let rows = if table == "models" { "1 row" } else { "10 rows" };
        assert_eq!(complaint(&output), (0, format!("seekwise: b.kb: {table}: {rows} taken in\n")));
        let again = seekwise(folder.path(), &["export", "b.kb", "--table", table]);
        assert_eq!(out(&again), fs::read_to_string(folder.path().join("one.csv")).unwrap());
        let json = seekwise(folder.path(), &["export", "b.kb", "--table", table, "--json"]);
        assert!(serde_json::from_slice::<serde_json::Value>(&json.stdout).unwrap().is_array());
    }
    let output = seekwise(folder.path(), &["import", "b.kb", "one.csv"]);
    assert_eq!(complaint(&output).1, "seekwise: b.kb: models: 0 rows taken in, 1 were there already\n");
    assert_eq!(listing(folder.path()), ["a.kb", "b.kb", "one.csv"]);
}

#[test]
fn what_learners_read_has_features_and_the_class_and_nothing_else() {
    let folder = folder();
    let output = seekwise(folder.path(), &["export", "a.kb", "--training"]);
    let text = out(&output);
    let header = text.lines().next().unwrap();
    assert!(header.starts_with("read_share,discard_share,") && header.ends_with(",setting"), "{header}");
    let output = seekwise(folder.path(), &["export", "a.kb", "--training", "--table", "models"]);
    assert_eq!(complaint(&output), (2, "seekwise: --training: only windows are training data, not models\n".into()));
    let output = seekwise(folder.path(), &["export", "a.kb", "--training", "-o", "x.json"]);
    assert_eq!(complaint(&output), (2, "seekwise: --training: learners read CSV, not JSON\n".into()));
}

#[test]
fn merging_takes_everything_once() {
    let folder = folder();
    fill(&folder.path().join("b.kb"), 2, 4);
    let output = seekwise(folder.path(), &["merge", "all.kb", "a.kb", "b.kb"]);
    // Both have the same model.
    assert_eq!(complaint(&output), (0, "seekwise: all.kb: 43 rows taken in, 1 were there already\n".into()));
    let output = seekwise(folder.path(), &["merge", "all.kb", "a.kb", "b.kb"]);
    assert_eq!(complaint(&output), (0, "seekwise: all.kb: 0 rows taken in, 44 were there already\n".into()));
    let output = seekwise(folder.path(), &["merge", "all.kb", "./all.kb"]);
    assert_eq!(complaint(&output), (2, "seekwise: ./all.kb: cannot be merged into itself\n".into()));
}

#[test]
fn pruning_removes_what_was_asked_for() {
    let folder = folder();
    let output = seekwise(folder.path(), &["prune", "a.kb", "--keep-windows", "2", "--keep-requests", "1"]);
    let (code, said) = complaint(&output);
    assert!(code == 0 && said.starts_with("seekwise: a.kb: forgot 6 windows, 6 decisions, 9 requests and 0 models; "), "{said}");
    let output = seekwise(folder.path(), &["prune", "a.kb", "--max-mib", "0"]);
    assert!(
        complaint(&output).1.ends_with("a.kb: still larger: one window of each setting and the last model of each name are kept\n")
    );
}

#[test]
fn a_missing_file_is_reported_and_not_created() {
    let folder = folder();
    for args in [&["info", "none"][..], &["export", "none"], &["prune", "none"], &["merge", "new.kb", "a.kb", "none"]] {
        let output = seekwise(folder.path(), args);
        assert_eq!(complaint(&output), (2, "seekwise: none: there is no such file\n".into()), "{args:?}");
    }
    let output = seekwise(folder.path(), &["merge", "no/where.kb", "a.kb"]);
    assert_eq!(complaint(&output), (2, "seekwise: no/where.kb: there is no folder no to put it into\n".into()));
    assert_eq!(listing(folder.path()), ["a.kb"]);
}

#[test]
fn a_file_that_is_no_knowledge_base_is_reported_with_its_kind() {
    let folder = folder();
    let job = fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md")).unwrap();
    fs::write(folder.path().join("job.fio"), &job).unwrap();
    assert!(Command::new("mkfifo").arg(folder.path().join("pipe")).status().unwrap().success());
    for command in ["info", "export", "prune"] {
        for (file, reason) in [
            ("job.fio", "is no database; a knowledge base is a file that seekwise wrote"),
            (".", "is a folder; a knowledge base is a file"),
            ("pipe", "is a pipe or a device; a knowledge base is a file"),
        ] {
            let output = seekwise(folder.path(), &[command, file]);
            assert_eq!(complaint(&output), (2, format!("seekwise: {file}: {reason}\n")), "{command}");
        }
    }
    assert_eq!(fs::read(folder.path().join("job.fio")).unwrap(), job);
}

#[test]
fn a_wrong_table_is_reported_with_a_remedy_and_leaves_no_empty_file() {
    let folder = folder();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("job.fio"), "[global]\nrw=read\n").unwrap();
    fs::write(at("job.csv"), "rw,bs\nread,4k\n").unwrap();
    let output = seekwise(folder.path(), &["export", "a.kb", "-o", "good.csv"]);
    assert!(output.status.success());
    assert!(seekwise(folder.path(), &["export", "a.kb", "-o", "good.json"]).status.success());
    let bad = fs::read_to_string(at("good.csv")).unwrap().replacen(",10,9,", ",10,nine,", 1);
    fs::write(at("bad.csv"), bad).unwrap();
    for (file, reason) in [
        ("a.kb", "a.kb: is a knowledge base: use `seekwise kb merge`"),
        (".", ". is a folder: name a file that `seekwise kb export` wrote"),
        ("none.csv", "none.csv: No such file or directory (os error 2)"),
        (
            "job.fio",
            "job.fio: line 1: names no columns of a knowledge base; `seekwise kb export` writes tables that can be imported",
        ),
        ("good.json", "good.json: is JSON, which is for other programs: export it as CSV"),
        (
            "job.csv",
            "job.csv: line 1: names no columns of a knowledge base; `seekwise kb export` writes tables that can be imported",
        ),
        ("bad.csv", "bad.csv: line 2, column 15 (outcome_waited_for): 'nine' should be a whole number, 0 or more"),
    ] {
        let output = seekwise(folder.path(), &["import", "new.kb", file]);
        assert_eq!(complaint(&output), (2, format!("seekwise: {reason}\n")));
        assert!(!at("new.kb").exists() && !at("new.kb-wal").exists(), "{file}");
    }
}

#[test]
fn unknown_endings_and_unwritable_places_are_reported_before_any_work() {
    let folder = folder();
    let output = seekwise(folder.path(), &["export", "a.kb", "-o", "out.txt"]);
    assert_eq!(
        complaint(&output),
        (2, "seekwise: -o out.txt: the name should end with .csv or .json, which selects the format\n".into())
    );
    let output = seekwise(folder.path(), &["export", "a.kb", "-o", "no/out.csv"]);
    assert!(complaint(&output).1.starts_with("seekwise: cannot write into no: "), "{}", complaint(&output).1);
    let output = seekwise(folder.path(), &["export", "a.kb", "--table", "window"]);
    let (code, said) = complaint(&output);
    assert!(code == 2 && said.contains("[possible values: windows, decisions, requests, models]"), "{said}");
    assert_eq!(listing(folder.path()), ["a.kb"]);
}

#[test]
fn a_full_disk_behind_the_export_is_a_failure_and_a_reader_that_goes_away_is_none() {
    let folder = folder();
    let full = fs::File::options().write(true).open("/dev/full").unwrap();
    let output = command(folder.path(), &["export", "a.kb"].map(OsStr::new)).stdout(full).stderr(Stdio::piped()).output().unwrap();
    assert_eq!(complaint(&output), (1, "seekwise: cannot write standard output: No space left on device (os error 28)\n".into()));
    fill(&folder.path().join("big.kb"), 1, 5000);
    let mut child = command(folder.path(), &["export", "big.kb"].map(OsStr::new))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    assert_eq!(complaint(&child.wait_with_output().unwrap()), (0, String::new()));
}

#[test]
fn ctrl_c_ends_an_import_with_nothing_taken_in() {
    let folder = folder();
    fill(&folder.path().join("big.kb"), 1, 60_000);
    assert!(seekwise(folder.path(), &["export", "big.kb", "-o", "big.csv"]).status.success());
    let child = command(folder.path(), &["import", "new.kb", "big.csv"].map(OsStr::new)).stderr(Stdio::piped()).spawn().unwrap();
    // The signal handler is installed before the file appears.
    while !folder.path().join("new.kb").exists() {
        std::thread::yield_now();
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(complaint(&child.wait_with_output().unwrap()), (130, "seekwise: interrupted; nothing was written\n".into()));
    assert_eq!(listing(folder.path()), ["a.kb", "big.csv", "big.kb"]);
}

#[test]
fn ctrl_c_during_a_long_query_ends_it_with_130_and_nothing_changed() {
    let folder = folder();
    let path = folder.path().join("big.kb");
    // If the query finished before the signal, retry with a longer one.
    for windows in [20_000, 60_000, 200_000] {
        let _ = fs::remove_file(&path);
        fill(&path, 1, windows);
        let before = out(&seekwise(folder.path(), &["info", "big.kb"]));
        let prune = ["prune", "big.kb", "--keep-windows", "1", "--keep-requests", "0"].map(OsStr::new);
        let mut child = command(folder.path(), &prune).stderr(Stdio::piped()).spawn().unwrap();
        // The signal handler is installed before the first write.
        while fs::metadata(folder.path().join("big.kb-wal")).map_or(0, |log| log.len()) == 0 && child.try_wait().unwrap().is_none()
        {
            std::thread::yield_now();
        }
        assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(0) {
            continue;
        }
        assert_eq!(complaint(&output), (130, "seekwise: interrupted; nothing was written\n".into()));
        assert_eq!(out(&seekwise(folder.path(), &["info", "big.kb"])), before);
        return;
    }
    panic!("every query was done before it could be interrupted");
}

#[test]
fn odd_names_are_only_names() {
    let folder = folder();
    for name in [&b":memory:"[..], b"file:x?mode=memory", b"-", b"a\nb", b"\xff\xfe", b"%41#?x"] {
        let path = folder.path().join(OsStr::from_bytes(name));
        fs::copy(folder.path().join("a.kb"), &path).unwrap();
        let output = command(folder.path(), &[OsStr::new("info"), OsStr::new("--"), OsStr::from_bytes(name)]).output().unwrap();
        assert_eq!(complaint(&output), (0, String::new()), "{name:?}");
        assert!(out(&output).contains("windows     10"), "{name:?}");
    }
}

/// Runs the program as an unprivileged user, if possible.
fn as_unprivileged(folder: &Path, args: &[&str]) -> Option<Output> {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups", env!("CARGO_BIN_EXE_seekwise"), "kb"]).args(args);
    command.current_dir(folder).output().ok().filter(|output| !String::from_utf8_lossy(&output.stderr).starts_with("setpriv"))
}

#[test]
fn missing_rights_are_reported_and_read_only_bases_are_read() {
    let folder = folder();
    let path = folder.path().join("a.kb");
    let allow = |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    allow(0o644);
    let Some(output) = as_unprivileged(folder.path(), &["info", "a.kb"]) else {
        eprintln!("skipped: cannot become another user here");
        return;
    };
    assert_eq!(complaint(&output), (0, String::new()));
    assert!(out(&output).contains("windows     10"));
    // Part of the data is still in the write-ahead log.
    let mut writer = Knowledge::open(&path).unwrap();
    let mut batch = writer.batch().unwrap();
    batch.window(&run(1), &window(11)).unwrap();
    batch.commit().unwrap();
    fs::set_permissions(folder.path().join("a.kb-shm"), fs::Permissions::from_mode(0o600)).unwrap();
    let output = as_unprivileged(folder.path(), &["info", "a.kb"]).unwrap();
    assert_eq!(complaint(&output).0, 2, "never half of it: {}", out(&output));
    drop(writer);
    let output = as_unprivileged(folder.path(), &["prune", "a.kb"]).unwrap();
    assert_eq!(complaint(&output), (2, "seekwise: a.kb: cannot be written: the file or its file system is read-only\n".into()));
    allow(0o600);
    for command in ["info", "export", "prune"] {
        let output = as_unprivileged(folder.path(), &[command, "a.kb"]).unwrap();
        assert_eq!(complaint(&output), (2, "seekwise: a.kb: Permission denied (os error 13)\n".into()));
    }
    let output = as_unprivileged(folder.path(), &["merge", "new.kb", "a.kb"]).unwrap();
    assert_eq!(complaint(&output).0, 2);
    assert_eq!(listing(folder.path()), ["a.kb"]);
}
