//! `seekwise protect export`: limits from a recording, their cost, and valid systemd drop-ins.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::program::{refused, succeeds};
use serde_json::Value;

/// A database with occasional single-block reads, and a backup that floods the disk for a third of the time.
const LOAD: &str = "[global]\ndirect=1\nsize=1g\ntime_based\n[postgresql.service]\nioengine=psync\nrw=randread\nbs=8k\nrate_iops=25\n\
                    runtime=90\n[backup.service]\nioengine=libaio\nrw=randwrite\nbs=1m\niodepth=16\nstartdelay=30\nruntime=30\n";

/// Simulates the load and returns the recording.
fn recording(folder: &Path) -> String {
    let (job, day) = (folder.join("load.fio"), folder.join("day.csv"));
    fs::write(&job, LOAD).unwrap();
    let day = day.display().to_string();
    succeeds(&["simulate", job.to_str().unwrap(), "--disk", "sata7200", "--scheduler", "mq-deadline", "--requests", &day]);
    day
}

#[test]
fn a_promise_in_a_recording_becomes_drop_ins_that_systemd_takes() {
    let folder = tempfile::tempdir().unwrap();
    let day = recording(folder.path());
    let units = folder.path().join("units");
    let promise = ["--unit", "postgresql.service", "--read-p99", "40ms", "--limit", "backup.service", "--on", "/dev/sda"];
    let json: Value = serde_json::from_str(&succeeds(&[&["protect", "export", &day], &promise[..], &["--json"]].concat())).unwrap();
    let (limit, hour) = (&json["found"]["limits"][0], &json["found"]["hours"][0]);
    println!("{json:#}");
    let figure = |of: &Value| of.as_f64().unwrap();
    assert!(figure(&hour["kept_before_percent"]) < 80.0 && figure(&hour["kept_percent"]) >= 95.0, "{hour}");
    assert!(figure(&hour["demand_mb_s"][0]) > 10.0 && figure(&hour["held_back_percent"][0]) > 5.0, "{hour}");
    assert!((2e6..1.5e8).contains(&figure(&limit["bytes_per_s"])) && limit["iops"][0].is_null(), "large requests: {limit}");

    let table = succeeds(&[&["protect", "export", &day], &promise[..], &["--output", units.to_str().unwrap()]].concat());
    assert!(table.contains("kept in 95% of the time of each hour") && table.contains("% held"), "{table}");
    let drop_in = fs::read_to_string(units.join("backup.service.d/50-seekwise.conf")).unwrap();
    assert!(drop_in.contains("[Service]\nIOAccounting=yes\nIOReadBandwidthMax=/dev/sda "), "{drop_in}");
    fs::write(units.join("backup.service"), "[Service]\nExecStart=/bin/true\n").unwrap();
    let verify = Command::new("systemd-analyze").arg("verify").arg(units.join("backup.service")).output();
    let Ok(verified) = verify else { return eprintln!("systemd-analyze is missing: drop-ins are not checked by it") };
    let said = crate::program::text(&verified.stderr);
    assert!(!said.contains("50-seekwise.conf") && !said.contains("backup.service"), "{said}");
}

#[test]
fn a_promise_that_holds_needs_no_limit_and_one_out_of_reach_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let day = recording(folder.path());
    let export = |promise: &str| {
        crate::program::run(&[
            "protect",
            "export",
            &day,
            "--unit",
            "postgresql.service",
            "--read-p99",
            promise,
            "--limit",
            "backup.service",
            "--on",
            "/dev/sda",
        ])
    };
    let easy = export("60s");
    assert!(crate::program::text(&easy.stdout).contains("kept in every hour without limits"), "{easy:?}");
    let hard = export("1us");
    assert_eq!(hard.status.code(), Some(1), "{hard:?}");
    assert!(crate::program::text(&hard.stderr).contains("is not kept in every hour even with 2 MB/s"), "{hard:?}");
}

#[test]
fn what_cannot_be_exported_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let day = recording(folder.path());
    let unit = ["--unit", "postgresql.service"];
    for (arguments, reason) in [
        (&["--limit", "backup.service"][..], "nothing is promised"),
        (&["--limit", "backup.service", "--read-p99", "fast"], "give a time such as"),
        (&["--limit", "backup.service", "--at-least", "9"], "give a rate such as 200iops"),
        (&["--limit", "postgresql.service", "--at-least", "9iops"], "cannot be limited"),
        (&["--limit", "docker-4f2a", "--at-least", "9iops"], "is no unit of systemd"),
        (&["--limit", "no.service", "--at-least", "9iops"], "has no stream no.service; it has backup.service, postgresql.service"),
        (&["--at-least", "9iops"], "--limit"),
        (&["--limit", "backup.service", "--at-least", "9iops", "--floor", "0"], "10^6 bytes per second"),
        (&["--limit", "backup.service", "--read-p99", "40ms", "--on", "sda"], "should be an absolute path"),
    ] {
        let said = refused(&[&["protect", "export", &day], &unit[..], arguments].concat());
        assert!(said.contains(reason), "{arguments:?}: {said}");
    }
}
