//! `seekwise-lab compare` with controllers of research: their observations are stored in a knowledge base and used by later runs, and they
//! try candidates that their experience lacks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod knowledge_base;
mod program;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use knowledge::{Filter, Knowledge};
use knowledge_base::*;
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::Value;

const JOBS: &str =
    "[global]\nsize=32m\nruntime=3\ntime_based\n[scattered]\nrw=randread\nnumjobs=2\n[writer]\nrw=randwrite\nfsync=32\n";

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
    assert!(decisions.contains("its turn: 2 of 4") && decisions.contains("it learns with every request"));
    let base = Knowledge::open_to_read(Path::new(kb)).unwrap();
    let kept_of = |controller: &str| -> Vec<_> {
        let all = base.decisions(&Filter::default()).map(Result::unwrap);
        all.filter(|stored| stored.run.program.contains(controller)).collect()
    };
    // The gain that is kept is that of the verdict which decided, as in the output; rotating compares nothing.
    for (row, controller) in rows.iter().zip(["rotate", "two-layer", "per-request"]) {
        let (decided, kept) = (row["decisions"].as_array().unwrap(), kept_of(controller));
        assert_eq!(decided.len(), kept.len(), "{controller}");
        for (decision, stored) in decided.iter().zip(kept) {
            let (shown, kept) = (decision["measured_gain_percent"].as_f64(), stored.row.measured_gain);
            assert_eq!(shown.is_some(), kept.is_some(), "{controller}: {decision}");
            assert!(shown.zip(kept).is_none_or(|(shown, kept)| (kept.exp_m1() * 100.0 - shown).abs() < 1e-9), "{decision}");
            assert!(controller != "rotate" || shown.is_none(), "{decision}");
        }
    }
    let kept = kept_of("rotate");
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

#[test]
fn candidates_without_experience_are_explored() {
    let folder = tempfile::tempdir().unwrap();
    let jobs = folder.path().join("mixed.fio");
    fs::write(&jobs, JOBS).unwrap();
    let unknown = "deadline:read_expire=100;deadline:fifo_batch=64;cfq:slice_idle=0";
    for controller in ["round-robin:quantum_ms=300", "feedback:quantum_ms=300", "two-layer:quantum_ms=300"] {
        let simulate = ["simulate", jobs.to_str().unwrap(), "--json", "--controller", controller, "--candidates", unknown];
        let output: Value = serde_json::from_str(&succeeds(&simulate)).unwrap();
        let decisions = output["steering"]["decisions"].as_array().unwrap();
        assert!(decisions.iter().all(|decision| decision["refused"].is_null()), "{decisions:?}");
        let set: BTreeSet<&str> = decisions.iter().map(|decision| decision["to"].as_str().unwrap()).collect();
        assert!(unknown.split(';').all(|setting| set.contains(setting)), "{controller}: {set:?}");
    }
}
