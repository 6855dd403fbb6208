//! JSON printed by `simulate`, `compare` and `advise` conforms to `seekwise schema`, key by key.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::program::{refused, succeeds};
use jsonschema::Validator;
use serde_json::Value;

fn schema(of: &[&str]) -> Value {
    serde_json::from_str(&succeeds(&[&["schema"], of].concat())).unwrap()
}

/// Schema of all documents, and schema of one kind.
struct Schemas {
    all: Validator,
    one: [(&'static str, Validator); 3],
}

impl Schemas {
    fn new() -> Schemas {
        let validator = |of: &[&str]| jsonschema::draft202012::new(&schema(of)).unwrap();
        let one = ["simulate", "compare", "advise"].map(|kind| (kind, validator(&[kind])));
        Schemas { all: validator(&[]), one }
    }

    /// Checks a document of this command.
    fn check(&self, what: &str, document: &Value) {
        let kind = document["kind"].as_str().unwrap();
        for (name, validator) in &self.one {
            let wrong: Vec<String> =
                validator.iter_errors(document).map(|error| format!("{}: {error}", error.instance_path())).take(5).collect();
            assert_eq!(wrong.is_empty(), *name == kind, "{what} by the schema of {name}: {wrong:#?}");
        }
        assert!(self.all.is_valid(document), "{what}");
        assert_eq!(document["schema"], 4, "{what}");
    }

    /// Runs a command and checks its output.
    fn prints(&self, command: &[&str]) -> Value {
        let document: Value = serde_json::from_str(&succeeds(&[command, &["--json"]].concat())).unwrap();
        assert_eq!(document["kind"], command[0], "{command:?}");
        self.check(&command.join(" "), &document);
        document
    }
}

/// Two jobs in two groups, with buffered I/O and fsync calls.
fn jobs(folder: &Path) -> PathBuf {
    let path = folder.join("jobs.fio");
    let text = "[global]\nsize=16m\nruntime=4\ntime_based\n\
                [scan]\nrw=read\nbs=64k\n\
                [points]\nrw=randread\nbs=4k\ndirect=1\nnumjobs=2\nnew_group\n\
                [commits]\nrw=randwrite\nbs=8k\nfsync=4\nrandrepeat=0\n";
    std::fs::write(&path, text).unwrap();
    path
}

/// A recording of two streams with completion times.
fn recording(folder: &Path) -> PathBuf {
    let mut lines = String::from("time_us,stream,op,lba,sectors,response_us\n");
    for n in 0..3_000_u64 {
        let (stream, op) = (n % 2 + 1, if n % 3 == 0 { 'W' } else { 'R' });
        writeln!(lines, "{},{stream},{op},{},8,{}", n * 4_000, (n * 104_729_000) % 300_000_000, 3_000 + n % 7 * 900).unwrap();
    }
    let path = folder.join("recorded.csv");
    std::fs::write(&path, lines).unwrap();
    path
}

#[test]
fn printed_json_has_the_keys_of_the_schema_and_no_others() {
    let (schemas, folder) = (Schemas::new(), tempfile::tempdir().unwrap());
    let (jobs, trace) = (jobs(folder.path()), recording(folder.path()));
    let (jobs, trace) = (jobs.to_str().unwrap(), trace.to_str().unwrap());
    let records = folder.path().join("records");
    let record = records.to_str().unwrap();
    schemas.prints(&["simulate", jobs, "--seed", "7", "--set", "read_ahead_kb=512"]);
    schemas.prints(&["simulate", trace, "--disk", "ssd-dftl", "--fit", "compact", "--closed", "--cpu-time"]);
    let steered = schemas.prints(&["simulate", trace, "--controller", "seekwise", "--candidates", "kernel"]);
    assert!(steered["steering"].is_object());
    schemas.prints(&["compare", jobs, "--vary", "read_ahead_kb=128,1024", "--scheduler", "mq-deadline", "--scheduler", "bfq"]);
    schemas.prints(&["compare", trace, "--scheduler", "none", "--controller", "fixed", "--record", record, "--speed", "4"]);
    let shared = schemas.prints(&["compare", "tenants/noisy-neighbour", "--scheduler", "youchoose"]);
    assert!(shared["schedulers"][0]["tenants"].is_object());
    let judged = schemas.prints(&["advise", trace, "--protect", "1:read:mean=5ms"]);
    assert!(!judged["candidates"].as_array().unwrap().is_empty() && !judged["device"].as_array().unwrap().is_empty());
    let aim = "commits:fsync:p99=10ms";
    let run =
        ["advise", jobs, "--candidates", "mq-deadline;bfq", "--vary", "read_ahead_kb=128,1024", "--protect", aim, "--seed", "2"];
    let run = schemas.prints(&run);
    assert!(run["aims"].as_array().is_some_and(|aims| aims.len() == 1) && !run["measured"].as_array().unwrap().is_empty());
    for written in std::fs::read_dir(records).unwrap() {
        let path = written.unwrap().path();
        let document: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        assert_eq!(document["kind"], "simulate");
        schemas.check(&path.display().to_string(), &document);
    }
}

#[test]
fn advice_from_counters_has_the_keys_of_the_schema() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("iostat.txt");
    let text = "Device r/s rkB/s rrqm/s %rrqm r_await rareq-sz w/s wkB/s wrqm/s %wrqm w_await wareq-sz f/s f_await aqu-sz %util\n\
                sda 160.0 640.0 0.0 0.0 100.0 4.0 1.0 4.0 0.0 0.0 2.0 4.0 0.0 0.0 16.0 99.0\n";
    std::fs::write(&path, text).unwrap();
    Schemas::new().prints(&["advise", path.to_str().unwrap()]);
}

#[test]
fn a_key_that_is_missing_unknown_or_of_another_type_does_not_match() {
    let (schemas, folder) = (Schemas::new(), tempfile::tempdir().unwrap());
    let document = schemas.prints(&["compare", recording(folder.path()).to_str().unwrap(), "--scheduler", "none"]);
    let matches = |change: fn(&mut Value)| {
        let mut changed = document.clone();
        change(&mut changed);
        schemas.all.is_valid(&changed)
    };
    assert!(matches(|_| ()));
    assert!(!matches(|document| document["disk"]["weight_kg"] = 1.into()));
    assert!(!matches(|document| document["schedulers"][0]["figures"]["iops"] = "many".into()));
    assert!(!matches(|document| document["schedulers"][0]["streams"][0]["service"]["all"]["nines"] = 1.into()));
    assert!(!matches(|document| document["kind"] = "simulate".into()));
    assert!(!matches(|document| drop(document["replay"].as_object_mut().unwrap().remove("speed"))));
}

/// Calls `see` with each key of the schema and its value.
fn keys(schema: &Value, see: &mut dyn FnMut(&str, &Value)) {
    for (name, value) in schema.as_object().into_iter().flatten() {
        for (key, value) in value.as_object().filter(|_| name == "properties").into_iter().flatten() {
            see(key, value);
        }
        keys(value, see);
    }
    schema.as_array().into_iter().flatten().for_each(|value| keys(value, see));
}

#[test]
fn every_key_is_documented_and_parts_are_shared() {
    let all = schema(&[]);
    let mut count = 0;
    keys(&all, &mut |key, value| {
        count += 1;
        let meaning = value["description"].as_str().unwrap_or_default();
        assert!(!meaning.is_empty() && !meaning.contains("None"), "{key}: {value}");
        let is_time = ["_ms", "_s", "_percent", "_mb_s"].iter().any(|end| key.ends_with(end));
        assert!(!is_time || value["x-unit"].is_string(), "{key}: {value}");
    });
    assert!(count > 150, "{count} keys");
    assert_eq!(all["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let parts = |of: &str| schema(&[of])["$defs"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    for (part, documents) in [("ResponseFigures", ["simulate", "compare"]), ("PredictionFigures", ["simulate", "advise"])] {
        assert!(documents.iter().all(|of| parts(of).contains(&part.to_owned())), "{part}");
    }
    assert!(refused(&["schema", "place"]).contains("[possible values: simulate, compare, advise, manual]"));
}
