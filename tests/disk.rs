//! `seekwise disk`, as a person runs it.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::fmt::Write as _;
use std::path::Path;

use program::{refused, succeeds};

/// A recording of so many requests: reads of one sector take 10 ms, writes 1 ms.
fn recording(folder: &Path, requests: u64) -> String {
    let mut text = "lba,size_blocks,is_read,measured_response_ms,think_after_ms\n".to_owned();
    for index in 0..requests {
        let is_read = u64::from(index % 3 != 0);
        writeln!(text, "{},1,{is_read},{},20", index * 7919 % 2_000_000, 1 + 9 * is_read).unwrap();
    }
    let path = folder.join("measured.csv");
    std::fs::write(&path, text).unwrap();
    path.display().to_string()
}

#[test]
fn validation_judges_by_the_worse_of_reads_and_writes() {
    let folder = tempfile::tempdir().unwrap();
    let measured = recording(folder.path(), 300);
    let table = succeeds(&["disk", "validate", "hp_c2247a", &measured]);
    assert!(table.contains("error of the mean") && table.contains("judged by the worse of the two: writes, demerit"), "{table}");
    let json: serde_json::Value = serde_json::from_str(&succeeds(&["disk", "validate", "hp_c2247a", &measured, "--json"])).unwrap();
    assert_eq!(json["worse"]["of"], "writes");
    assert_eq!(json["worse"]["demerit_ms"], json["writes"]["demerit_ms"]);
    assert!(json["writes"]["mean_error_ms"].as_f64().unwrap() > 1.0, "the HP has no write cache: {json}");
}

#[test]
fn calibration_prints_before_and_after_and_writes_a_profile_that_loads() {
    let folder = tempfile::tempdir().unwrap();
    let measured = recording(folder.path(), 1200);
    let new = folder.path().join("mine.toml").display().to_string();
    let table = succeeds(&["disk", "calibrate", "cheetah9LP", &measured, "-o", &new]);
    for expected in ["fitted to the first 600 requests", "demerit before", "demerit after", "left as it was"] {
        assert!(table.contains(expected), "{expected}: {table}");
    }
    let text = std::fs::read_to_string(&new).unwrap();
    assert!(text.contains("# cheetah9LP, fitted by `seekwise disk calibrate`") && text.contains("name = \"mine\""), "{text}");
    succeeds(&["disk", "validate", &new, &measured]);
}

#[test]
fn calibration_refuses_what_it_cannot_fit_and_keeps_what_it_reads() {
    let folder = tempfile::tempdir().unwrap();
    let measured = recording(folder.path(), 1200);
    let error = refused(&["disk", "calibrate", "cheetah9LP", &measured, "-o", &measured]);
    assert!(error.contains("is read as well"), "{error}");
    let error = refused(&["disk", "calibrate", "ssd-dftl", &measured]);
    assert!(error.contains("ssd-dftl: is no hard disk"), "{error}");
    let short = recording(folder.path(), 500);
    let error = refused(&["disk", "calibrate", "cheetah9LP", &short]);
    assert!(error.contains("500 requests; at least 1000"), "{error}");
}
