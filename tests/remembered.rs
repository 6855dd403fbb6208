//! `--kb`: observations of controllers are stored, are used by later runs, and never make a run fail.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use knowledge::{Filter, Knowledge};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

fn seekwise(arguments: &[&str]) -> Command {
    let mut command = Command::new(crate::program::for_controllers(arguments));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn run(arguments: &[&str]) -> Output {
    seekwise(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// Standard output of a run without warnings.
fn succeeds(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

fn refused(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output.stderr));
    assert!(output.stdout.is_empty(), "{arguments:?} printed figures");
    text(&output.stderr)
}

/// A random reader and a random writer that overload the disk for 20 s.
fn trace(folder: &Path) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,sync\n");
    for n in 0..4000u64 {
        let (op, sync) = if n % 3 == 0 { ("W", 0) } else { ("R", 1) };
        writeln!(lines, "{},{},{op},{},16,{sync}", n * 5_000, n % 3, (n * 104_729_000) % 1_000_000_000).unwrap();
    }
    let path = folder.join("mixed.csv");
    fs::write(&path, lines).unwrap();
    path
}

/// `compare` with a knowledge base under these controllers.
fn compare<'a>(trace: &'a str, kb: &'a str, controllers: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["compare", trace, "--kb", kb, "--scheduler", "deadline"];
    controllers.iter().for_each(|controller| arguments.extend(["--controller", controller]));
    arguments.extend(more);
    arguments
}

fn info(kb: &str) -> Value {
    serde_json::from_str(&succeeds(&["kb", "info", kb, "--check", "--json"])).unwrap()
}

const TABLES: [&str; 4] = ["windows", "decisions", "requests", "models"];

fn export(kb: &str, table: &str) -> String {
    succeeds(&["kb", "export", kb, "--table", table])
}

#[test]
fn the_gene_pool_of_a_load_is_kept_and_the_next_search_for_it_begins_with_that() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, kb) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    let search = || succeeds(&compare(trace, kb, &["genetic:children=4,child_ms=500,trials=8"], &[]));
    search();
    let models = info(kb)["models"].clone();
    let is_pool = |model: &Value| model["name"].as_str().unwrap().starts_with("gene pool on sata7200: ");
    assert!(models.as_array().unwrap().iter().any(is_pool), "{models}");
    assert!(!export(kb, "decisions").contains("re-introduced"));
    search();
    assert!(export(kb, "decisions").contains("of its gene pool are re-introduced"));
}

#[test]
fn everything_that_controllers_live_through_is_kept_once() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, kb) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    let controllers = ["rotate:window_ms=1500", "two-layer", "per-request"];
    let output: Value = serde_json::from_str(&succeeds(&compare(trace, kb, &controllers, &["--json"]))).unwrap();
    let steering = |row: &Value| row["steering"].clone();
    let rows: Vec<Value> = output["schedulers"].as_array().unwrap().iter().map(steering).filter(|it| !it.is_null()).collect();
    assert_eq!(rows.len(), 3);
    let sum = |name: &str| rows.iter().map(|row| row[name].as_u64().unwrap()).sum::<u64>();
    let found = info(kb);
    // The rest are one-second windows of the run under mq-deadline.
    let under_deadline = found["windows"].as_u64().unwrap() - sum("windows");
    assert!((19..40).contains(&under_deadline), "{under_deadline}");
    assert_eq!((&found["runs"], &found["decisions"]), (&4.into(), &(sum("windows") + under_deadline + 4).into()));
    assert_eq!(found["models"][0]["name"], "two-layer on sata7200");
    // All 4000 requests ran under per-request in its own run, and some or all in the other two; the first one of each stretch
    // has no distance.
    let requests = found["requests"].as_u64().unwrap();
    assert!((3999..=3 * 4000).contains(&requests), "{requests}");
    let decisions = export(kb, "decisions");
    let decided = rows[0]["decisions"].as_array().unwrap();
    assert!(decisions.contains("its turn: 2 of 4") && decisions.contains("it learns with every request"));
    let gain = decided[1]["measured_gain_percent"].as_f64().unwrap();
    let kept = Knowledge::open_to_read(Path::new(kb)).unwrap();
    let kept = kept.decisions(&Filter::default()).map(Result::unwrap);
    let kept: Vec<_> = kept.filter(|stored| stored.run.program.contains("rotate")).collect();
    assert!((kept[1].row.measured_gain.unwrap().exp_m1() * 100.0 - gain).abs() < 1e-9);
    let run = &kept[1].run;
    assert_eq!((run.plant.as_str(), run.device.as_str(), run.seed), ("simulator", "sata7200", Some(1)));
    let digest = output["trace"]["sha256"].as_str().unwrap();
    assert_eq!(run.source, format!("mixed.csv {} open speed=1 fit=exact", &digest[..8]));
    assert_eq!(run.program, format!("seekwise {}, rotate:window_ms=1500", env!("CARGO_PKG_VERSION")));
    // These two do not learn from other runs: they repeat, and their rows exist already.
    succeeds(&compare(trace, kb, &["rotate:window_ms=1500", "per-request"], &[]));
    assert_eq!(TABLES.map(|table| info(kb)[table].clone()), TABLES.map(|table| found[table].clone()));
    succeeds(&["simulate", trace, "--controller", "rotate:window_ms=900", "--kb", kb]);
    assert_eq!(info(kb)["runs"], 5);
    // The same trace on a disk with another queue is a different case.
    succeeds(&["simulate", trace, "--controller", "fixed", "--kb", kb, "--queue-depth", "1", "--closed"]);
    assert!(export(kb, "windows").contains(",sata7200@1,"));
}

#[test]
fn the_same_is_written_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let once = |threads: &str| {
        let kb = folder.path().join(threads);
        let arguments = ["--threads", threads, "--explain=all"];
        let controllers = ["seekwise", "two-layer", "round-robin", "per-request"];
        let arguments = compare(trace.to_str().unwrap(), kb.to_str().unwrap(), &controllers, &arguments);
        // The second run learns from the first.
        let printed = [succeeds(&arguments), succeeds(&arguments)];
        (printed, TABLES.map(|table| export(kb.to_str().unwrap(), table)))
    };
    let (one, four) = (once("1"), once("4"));
    assert!(one == four);
    assert_ne!(one.0[0], one.0[1], "the second has learned nothing");
}

#[test]
fn later_runs_learn_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, kb) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    // There is no other data, so the classifier's result comes from there.
    let nothing = folder.path().join("nothing.json");
    fs::write(&nothing, r#"{"schema":2,"features":[],"settings":[],"cases":[]}"#).unwrap();
    let begin = |kb: &str| {
        // A comparison with a single setting gives nothing to learn.
        let arguments = ["--experience", nothing.to_str().unwrap(), "--json"];
        let output: Value =
            serde_json::from_str(&succeeds(&compare(trace, kb, &["two-layer:training=offline"], &arguments))).unwrap();
        output["schedulers"][1]["steering"]["decisions"][0]["why"].as_str().unwrap().to_owned()
    };
    succeeds(&compare(trace, kb, &["rotate:window_ms=1000"], &[]));
    let why = begin(kb);
    assert!(why.starts_with("svm trained with "), "{why}");
    let other = folder.path().join("other.kb");
    assert!(begin(other.to_str().unwrap()).starts_with("no training data"));
}

#[test]
fn what_is_clearly_no_knowledge_base_is_refused_before_anything_runs() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, path) = (trace(folder.path()), |name: &str| folder.path().join(name).to_str().unwrap().to_owned());
    fs::create_dir(path("folder")).unwrap();
    fs::write(path("text"), "not a database\n".repeat(100)).unwrap();
    drop(Knowledge::open(Path::new(&path("later"))).unwrap());
    let mut later = fs::read(path("later")).unwrap();
    // The header's user_version.
    later[60..64].copy_from_slice(&7_u32.to_be_bytes());
    fs::write(path("later"), later).unwrap();
    let cases = [
        ("folder", "is a folder; a knowledge base is a file"),
        ("text", "is no database"),
        ("later", "has schema version 7, this seekwise knows those up to 3"),
        ("missing/a.kb", "there is no folder"),
    ];
    for (name, words) in cases {
        let before = fs::read(path(name)).ok();
        for command in ["compare", "simulate"] {
            let message = refused(&[command, trace.to_str().unwrap(), "--controller", "fixed", "--kb", &path(name)]);
            assert!(message.contains("--kb") && message.contains(name) && message.contains(words), "{name}: {message}");
        }
        assert_eq!(fs::read(path(name)).ok(), before, "{name} was changed");
    }
    let alone = refused(&["compare", trace.to_str().unwrap(), "--kb", &path("new")]);
    assert!(alone.contains("--kb: is for controllers, and no --controller is given"), "{alone}");
    refused(&["compare", &path("no trace"), "--kb", &path("new"), "--controller", "fixed"]);
    assert!(!Path::new(&path("new")).exists(), "it was created though nothing was run");
}

#[test]
fn what_stands_in_the_way_is_a_warning_and_the_run_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, kb) = (trace(folder.path()), folder.path().join("a.kb"));
    let (trace, name) = (trace.to_str().unwrap(), kb.to_str().unwrap());
    let controllers = ["rotate", "fixed"];
    let expected = succeeds(&compare(trace, name, &controllers, &[]));
    let warns = |words: &str| {
        let output = run(&compare(trace, name, &controllers, &[]));
        let warning = text(&output.stderr);
        assert!(output.status.success() && text(&output.stdout) == expected, "{warning}");
        assert!(warning.starts_with("seekwise: warning: --kb ") && warning.contains(name), "{warning}");
        assert!(warning.contains(words) && warning.lines().count() == 1, "{warning}");
    };
    let mut locked = Knowledge::open(&kb).unwrap();
    let batch = locked.batch().unwrap();
    warns("another program keeps it locked; try again when that is done; not all that was lived through is kept");
    drop(batch);
    drop(locked);
    let mut bytes = fs::read(&kb).unwrap();
    bytes[8192..].fill(0x5a);
    fs::write(&kb, &bytes).unwrap();
    warns("the runs go on without it");
    assert_eq!(fs::read(&kb).unwrap(), bytes, "a damaged file is left as it is");
}

#[test]
fn an_interrupt_leaves_nothing_half_written() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let kb = folder.path().join("a.kb");
    let arguments = compare(trace.to_str().unwrap(), kb.to_str().unwrap(), &["two-layer"], &["--closed", "--speed", "0.001"]);
    let mut child = seekwise(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(150));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let code = child.wait().unwrap().code();
    // If it had finished, the file exists.
    assert!(code == Some(130) && !kb.exists() || code == Some(0) && kb.exists(), "{code:?}");
}

#[test]
fn killed_at_any_moment_it_leaves_whole_runs_or_none() {
    let folder = tempfile::tempdir().unwrap();
    let trace = trace(folder.path());
    let kb = folder.path().join("a.kb");
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2008);
    let mut killed = 0;
    for round in 0..20 {
        // Each is a different run; existing rows are not written again.
        let rotate = format!("rotate:window_ms={}", 100 + round);
        let arguments = compare(trace.to_str().unwrap(), kb.to_str().unwrap(), &[&rotate, "per-request", "fixed"], &[]);
        let mut child = seekwise(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(random.random_range(0..400_000)));
        child.kill().unwrap();
        killed += u32::from(child.wait().unwrap().code().is_none());
        if !kb.exists() {
            continue;
        }
        // If it was killed during creation, the file is empty.
        let knowledge = Knowledge::open(&kb).unwrap();
        knowledge.check().unwrap();
        let (windows, decisions) = (knowledge.windows(&Filter::default()), knowledge.decisions(&Filter::default()));
        let runs: Vec<_> = windows.map(|stored| stored.unwrap().run.id).collect();
        let decided: Vec<_> = decisions.map(|stored| stored.unwrap().run.id).collect();
        for run in decided.chunk_by(|a, b| a == b) {
            assert_eq!(runs.iter().filter(|id| **id == run[0]).count() + 1, run.len(), "a run is there wholly or not at all");
        }
        drop(knowledge);
        info(kb.to_str().unwrap());
    }
    assert!(killed > 3, "only {killed} were killed before they were done");
    succeeds(&compare(trace.to_str().unwrap(), kb.to_str().unwrap(), &["rotate"], &[]));
}
