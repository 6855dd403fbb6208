//! End-to-end tests of controllers: rows of a comparison, decisions and errors.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::program::{refused, succeeds};
use serde_json::Value;

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&succeeds(arguments)).unwrap()
}

/// A sequential reader, a random reader and a random writer that overload the disk for 30 s.
fn trace(folder: &Path) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,sync\n");
    for n in 0..6000u64 {
        let (stream, op, lba, sync) = match n % 3 {
            0 => (1, "R", 1_000_000 + 64 * n, 1),
            1 => (2, "R", (n * 104_729_000) % 1_000_000_000, 1),
            _ => (3, "W", (n * 7_919_993) % 1_000_000_000, 0),
        };
        writeln!(lines, "{},{stream},{op},{lba},16,{sync}", n * 5_000).unwrap();
    }
    let path = folder.join("mixed.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

const JOBS: &str =
    "[global]\nsize=32m\nruntime=3\ntime_based\n[scattered]\nrw=randread\nnumjobs=2\n[writer]\nrw=randwrite\nfsync=32\n";

fn jobs(folder: &Path) -> PathBuf {
    let path = folder.join("mixed.fio");
    std::fs::write(&path, JOBS).unwrap();
    path
}

#[test]
fn a_controllers_row_is_next_to_the_schedulers_with_every_figure_and_its_decisions() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let output = json(&["compare", trace.to_str().unwrap(), "--controller", "rotate:window_ms=2000", "--json", "--cpu-time"]);
    let rows = output["schedulers"].as_array().unwrap();
    let schedulers: Vec<&str> =
        rows.iter().take_while(|row| row["steering"].is_null()).map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(schedulers, block::KERNEL.iter().map(|spec| spec.name).collect::<Vec<_>>());
    assert_eq!(rows.len(), schedulers.len() + 1);
    let row = rows.last().unwrap();
    assert_eq!((&row["label"], &row["name"]), (&"rotate:window_ms=2000".into(), &"rotate".into()));
    assert_eq!(row["tunables"]["window_ms"], 2000);
    for figure in ["throughput_mb_s", "response_mean_ms", "fairness_jain", "worst_slowdown", "scheduler_cpu_ns_per_request"] {
        assert!(row["figures"][figure].as_f64().unwrap() > 0.0, "{figure}");
    }
    let decisions = row["steering"]["decisions"].as_array().unwrap();
    let set: Vec<&str> = decisions.iter().map(|decision| decision["to"].as_str().unwrap()).collect();
    let all: Vec<&str> = block::KERNEL.iter().map(|spec| spec.name).collect();
    assert_eq!(set[..=all.len()], [&all[..], &all[..1]].concat());
    assert_eq!((&decisions[0]["at_s"], &decisions[0]["window"]), (&0.0.into(), &Value::Null));
    assert_eq!((&decisions[1]["at_s"], &decisions[1]["window"]), (&2.0.into(), &0.into()));
    // It rotates without comparing.
    assert!(decisions.iter().all(|decision| decision["measured_gain_percent"] == Value::Null));
}

#[test]
fn a_controller_that_only_watches_changes_nothing_under_any_setting() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, jobs) = (trace(folder.path()), jobs(folder.path()));
    for load in [trace, jobs] {
        for spec in device_model::sched::all() {
            let run = |more: &[&str]| {
                let arguments = ["simulate", load.to_str().unwrap(), "--json", "--scheduler", spec.name];
                json(&[&arguments, more].concat())
            };
            let (alone, watched) = (run(&[]), run(&["--controller", "fixed:window_ms=13"]));
            assert!(watched["steering"]["windows"].as_u64().unwrap() > 100);
            assert_eq!(watched["steering"]["changes"], 0);
            assert_eq!(watched["steering"]["decisions"][0]["to"], spec.name);
            for part in ["figures", "curves", "streams"] {
                assert!(alone[part] == watched[part], "{part} of {} differ", spec.name);
            }
        }
    }
}

#[test]
fn changes_cost_the_time_that_the_host_says() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let mean = |switch: &str| {
        let setting = format!("scheduler_switch_ms={switch}");
        let arguments = ["simulate", trace.to_str().unwrap(), "--json", "--controller", "rotate:window_ms=500", "--set", &setting];
        json(&arguments)["figures"]["response"]["mean_ms"].as_f64().unwrap()
    };
    let (free, dear) = (mean("0"), mean("300"));
    // Each of the 60 changes delays 60 requests by up to 300 ms.
    assert!(dear > free + 40.0, "{free} ms and {dear} ms");
}

#[test]
fn the_same_load_gives_the_same_bytes_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    for (name, load) in [("trace", trace(folder.path())), ("jobs", jobs(folder.path()))] {
        let once = |threads: &str| {
            let records = folder.path().join(format!("{name}{threads}"));
            let page = folder.path().join(format!("{name}{threads}.html"));
            let arguments = ["compare", load.to_str().unwrap(), "--explain", "--threads", threads];
            let more = ["--scheduler", "cfq", "--controller", "rotate:window_ms=700", "--controller", "seekwise", "--html"];
            let files = [page.to_str().unwrap(), "--record", records.to_str().unwrap()];
            let table = succeeds(&[&arguments[..], &more, &files].concat());
            assert_eq!(succeeds(&["report", "--explain", records.to_str().unwrap()]).len(), table.len());
            let mut files: Vec<_> = std::fs::read_dir(&records).unwrap().map(|entry| entry.unwrap().path()).collect();
            files.sort();
            assert_eq!(files.len(), 3);
            let contents: Vec<_> = files.iter().map(|file| std::fs::read(file).unwrap()).collect();
            (table, std::fs::read(&page).unwrap(), contents)
        };
        assert!(once("1") == once("4"), "{name}");
    }
}

#[test]
fn decisions_are_explained_when_that_is_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let with = |more: &[&str]| succeeds(&[&["compare", trace.to_str().unwrap(), "--scheduler", "noop"], more].concat());
    let quiet = with(&["--controller", "rotate"]);
    assert!(!quiet.contains("its turn"), "{quiet}");
    let changes = with(&["--controller", "rotate", "--controller", "fixed", "--explain", "--preference", "3,2,1"]);
    assert!(changes.contains("0.000 s  mq-deadline → none"), "{changes}");
    assert!(changes.contains("5.000 s  none → mq-deadline\n             its turn: 2 of 4\n"), "{changes}");
    assert!(changes.contains("preference 3,2,1; changed the setting never, kept it"), "{changes}");
    assert!(!changes.contains("keeps mq-deadline"), "{changes}");
    let all = with(&["--controller", "fixed", "--explain=all"]);
    assert!(all.contains("1.000 s  keeps mq-deadline"), "{all}");
    let simulated = succeeds(&["simulate", trace.to_str().unwrap(), "--controller", "rotate", "--explain"]);
    assert!(simulated.contains("under rotate") && simulated.contains("5.000 s  none → mq-deadline"), "{simulated}");
    let none = with(&["--explain"]);
    assert!(none.contains("No controller was run"), "{none}");
}

#[test]
fn the_scheduler_that_learns_can_be_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let output = json(&["simulate", trace.to_str().unwrap(), "--scheduler", "per-request", "--json"]);
    assert_eq!(output["scheduler"]["label"], "per-request");
    assert_eq!(output["figures"]["response"]["requests"], 6000);
    for arguments in [&["scheduler", "list"][..], &["scheduler", "show", "per-request"]] {
        assert!(succeeds(arguments).contains("per-request"));
    }
}

#[test]
fn controllers_are_listed_and_shown_with_their_tunables() {
    let list = succeeds(&["controller", "list"]);
    for spec in twin::controller::all() {
        assert!(list.lines().any(|line| line.starts_with(spec.name)), "{list}");
        let shown = succeeds(&["controller", "show", spec.name]);
        assert!(spec.tunables.iter().all(|tunable| shown.contains(tunable.name)), "{shown}");
    }
    assert!(refused(&["controller", "show", "nonsense"]).contains("known are fixed, rotate"));
}

#[test]
fn controllers_choose_among_the_candidates_that_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = jobs(folder.path());
    let set = |controller: &str, candidates: &[&str]| -> Vec<String> {
        let arguments = ["simulate", jobs.to_str().unwrap(), "--json", "--controller", controller];
        let candidates = candidates.iter().flat_map(|text| ["--candidates", text]);
        let output = json(&arguments.into_iter().chain(candidates).collect::<Vec<_>>());
        assert!(!output["steering"]["candidates"].as_array().unwrap().is_empty());
        let decisions = output["steering"]["decisions"].as_array().unwrap();
        assert!(decisions.iter().all(|decision| decision["refused"].is_null()), "{decisions:?}");
        decisions.iter().map(|decision| decision["to"].as_str().unwrap().to_owned()).collect()
    };
    let turns = |candidates: &[&str]| set("rotate:window_ms=100", candidates);
    assert_eq!(turns(&["paper"])[..7], ["noop", "sstf", "deadline", "anticipatory", "cfq", "per-request", "noop"]);
    let mine = ["deadline:fifo_batch=4,read_expire=1; noop", "cfq read_ahead_kb=4"];
    assert_eq!(
        turns(&mine)[..4],
        ["deadline:read_expire=1,fifo_batch=4", "noop", "cfq read_ahead_kb=4", "deadline:read_expire=1,fifo_batch=4"]
    );
    let all: std::collections::BTreeSet<String> = set("rotate:window_ms=50", &["all"]).into_iter().collect();
    assert_eq!(all.len(), control::candidates::parse(["all"]).unwrap().len());
    for controller in twin::controller::all() {
        set(controller.name, &["all"]);
        set(controller.name, &["noop"]);
    }
}

/// Decisions of `seekwise` on these jobs, in order, and its throughput relative to mq-deadline.
fn seekwise(jobs: &str, disk: &str) -> (Vec<Value>, f64) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("jobs.fio");
    std::fs::write(&path, format!("[global]\ndirect=1\nsize=1g\nruntime=60\ntime_based\n{jobs}")).unwrap();
    let arguments = ["compare", path.to_str().unwrap(), "--disk", disk, "--scheduler", "mq-deadline"];
    let output = json(&[&arguments[..], &["--controller", "seekwise", "--candidates", "classic;mq-deadline", "--json"]].concat());
    let rows = output["schedulers"].as_array().unwrap();
    let rate = |row: &Value| row["figures"]["throughput_mb_s"].as_f64().unwrap();
    (rows[1]["steering"]["decisions"].as_array().unwrap().clone(), rate(&rows[1]) / rate(&rows[0]))
}

#[test]
fn seekwise_tries_the_expected_setting_and_keeps_and_confirms_a_multiple() {
    // Readers in order: the arm goes from one to the next after each request, unless the scheduler waits for the next one of the same reader.
    let (decisions, rate) = seekwise("[r0]\nrw=read\nbs=128k\n[r1]\nrw=read\nbs=128k\n[r2]\nrw=read\nbs=128k\n", "sata7200");
    let change = decisions.iter().find(|decision| decision["from"] != decision["to"]).unwrap();
    assert!(change["at_s"].as_f64().unwrap() <= 5.0, "{change}");
    assert!(change["why"].as_str().unwrap().starts_with("trying anticipatory for 3 s: expected "), "{change}");
    let evidence = &change["evidence"];
    assert!(evidence.to_string().contains("kind of device"), "{evidence}");
    let at = |word: &str| {
        let said = decisions.iter().find(|decision| decision["why"].as_str().unwrap().contains(word));
        said.unwrap_or_else(|| panic!("{word}: {decisions:?}"))["at_s"].as_f64().unwrap()
    };
    assert!(at("anticipatory stays for now: each half second was better by half") <= 10.0);
    assert!(at("mq-deadline is far worse than anticipatory in its first moments, as before") <= 20.0);
    assert!(rate > 5.0, "{rate} times mq-deadline's throughput");
}

#[test]
fn seekwise_keeps_the_default_where_nothing_serves_better_and_trials_cost_next_to_nothing() {
    let (decisions, rate) = seekwise("[one]\nrw=randread\nbs=8k\n", "atlas10k");
    let why = |decision: &Value| decision["why"].as_str().unwrap().to_owned();
    assert!(decisions.iter().filter(|decision| why(decision).starts_with("leave mq-deadline alone")).count() >= 3, "{decisions:?}");
    assert!(decisions.iter().all(|decision| !why(decision).contains(" stays: ")), "{decisions:?}");
    let changes = decisions.iter().filter(|decision| decision["from"] != decision["to"]).count();
    assert!(changes <= 2 && (0.99..=1.01).contains(&rate), "{changes} changes, {rate} times mq-deadline's throughput");
}

#[test]
fn seekwise_begins_with_what_served_a_known_load_of_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let (path, base) = (folder.path().join("readers.fio"), folder.path().join("known.db"));
    let readers = "[global]\ndirect=1\nsize=1g\nruntime=60\ntime_based\nrw=read\nbs=128k\n[r0]\n[r1]\n[r2]\n";
    std::fs::write(&path, readers).unwrap();
    let changes = || -> Vec<(f64, String)> {
        let arguments = ["compare", path.to_str().unwrap(), "--disk", "sata7200", "--scheduler", "mq-deadline"];
        let candidates = ["--candidates", "classic;mq-deadline"];
        let more = [&candidates[..], &["--controller", "seekwise", "--kb", base.to_str().unwrap(), "--json"]].concat();
        let output = json(&[&arguments[..], &more].concat());
        let decisions = output["schedulers"][1]["steering"]["decisions"].as_array().unwrap().clone();
        let changes = decisions.iter().filter(|decision| decision["from"] != decision["to"]);
        changes.map(|decision| (decision["at_s"].as_f64().unwrap(), decision["to"].as_str().unwrap().to_owned())).collect()
    };
    let (first, second) = (changes(), changes());
    assert!(first[0].0 > 1.0, "{first:?}");
    // A load is recognised a second after the last of its processes has started.
    assert!(second[0].0 <= 2.0 && second[0].1 == first[0].1, "{first:?}, then {second:?}");
}

#[test]
fn a_mistake_is_named_with_what_would_be_right() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let trace = trace.to_str().unwrap();
    let cases: &[(&[&str], &[&str])] = &[
        (&["--controller", "nonsense"], &["--controller nonsense", "known are fixed, rotate"]),
        (&["--controller", "rotate:window=1"], &["window", "window_ms"]),
        (&["--controller", "rotate:window_ms=0"], &["window_ms=0", "1 to 3600000"]),
        (&["--controller", "fixed", "--controller", "fixed"], &["--controller fixed", "twice"]),
        (&["--controller", "fixed:window_ms=1000", "--controller", "fixed"], &["--controller fixed", "twice"]),
        (&["--controller", "fixed", "--preference", "3,3,3"], &["--preference", "6 or 7"]),
        (&["--preference", "2,2,2"], &["--preference", "no --controller"]),
        (&["--candidates", "all"], &["--candidates", "no --controller"]),
        (&["--controller", "fixed", "--candidates", "noop;nope"], &["--candidates noop;nope", "known are noop", "sets are", "all"]),
        (&["--controller", "fixed", "--candidates", "deadline:fifo=1"], &["--candidates deadline:fifo=1", "fifo_batch"]),
        (&["--controller", "fixed", "--candidates", "noop;"], &["--candidates noop;", "a set or a setting is wanted"]),
        // For a trace only tunables of the queue have an effect.
        (&["--controller", "fixed", "--candidates", "cfq read_ahead_kb=4"], &["--candidates", "read_ahead_kb", "nr_requests"]),
        (&["--controller", "fixed", "--candidates", "cfq nr_requests=3"], &["--candidates", "nr_requests=3", "4 to 2048"]),
        (&["--controller", "fixed", "--explain=some"], &["some", "changes", "all"]),
        (&["--controller", "fixed", "--explain", "--json"], &["--explain", "--json"]),
        (&["--set", "scheduler_switch_ms=10001"], &["scheduler_switch_ms=10001", "0 to 10000"]),
    ];
    for (arguments, words) in cases {
        let message = refused(&[&["compare", trace], *arguments].concat());
        for word in *words {
            assert!(message.contains(word), "{arguments:?}: the message does not name {word}:\n{message}");
        }
    }
    assert!(refused(&["simulate", trace, "--controller", "nonsense"]).contains("known are fixed, rotate"));
}
