//! End-to-end tests of `seekwise disk`.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use std::fmt::Write as _;
use std::path::Path;

use crate::program::{refused, succeeds};

/// A recording of `requests` requests of one sector: reads take 10 ms, writes 1 ms.
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
fn calibration_refuses_keys_that_it_cannot_fit_and_keeps_the_others() {
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

/// Disks with recordings of real drives: name, rotational speed in rpm, and the maximum demerit of the fit relative to that of the shipped
/// profile, whose cache and overheads were measured with commands that do not occur in a host's load.
const RECORDED: [(&str, f64, f64); 5] = [
    ("atlas10k", 10_025.0, 4.0),
    ("barracuda", 7_200.0, 1.5),
    ("ibm18es", 7_200.0, 1.5),
    ("cheetah9LP", 10_045.0, 1.5),
    ("hp_c2247a", 5_400.0, 6.0),
];

#[test]
fn a_device_is_fitted_to_a_trace_and_its_profile_loads() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv").display().to_string();
    // Sequential random reads of 4 to 20 ms: only a hard disk is this slow.
    let mut text = "time_ms,lba,sectors,op,response_ms\n".to_owned();
    let mut at = 0.0;
    for index in 0..600_u64 {
        let response = 4.0 + (index * 37 % 160) as f64 / 10.0;
        writeln!(text, "{at:.3},{},8,read,{response}", index * 7_919_000 % 16_000_000).unwrap();
        at += response + 2.0;
    }
    std::fs::write(&trace, text).unwrap();
    let new = folder.path().join("mine.toml").display().to_string();
    let table = succeeds(&["disk", "fit", &trace, "-o", &new]);
    assert!(table.contains("kind of device") && table.contains("hard disk") && table.contains("judged on 300 accesses"), "{table}");
    assert!(std::fs::read_to_string(&new).unwrap().starts_with("# Fitted to the times"));
    assert!(succeeds(&["disk", "show", &new]).contains("rotation_rpm"));
    let json: serde_json::Value =
        serde_json::from_str(&succeeds(&["disk", "fit", &trace, "--json", "--beside", "sata7200"])).unwrap();
    assert_eq!(json["beside"]["disk"], "sata7200");
    assert!(json["judged"]["demerit_ms"].as_f64().unwrap() < json["beside"]["judged"]["demerit_ms"].as_f64().unwrap(), "{json}");
    assert!(refused(&["disk", "fit", &trace, "-o", &trace]).contains("is read as well"));
    assert!(refused(&["disk", "fit", &trace, "--device", "7"]).contains("--device 7: there are the devices 0"));
    assert!(refused(&["disk", "fit", &trace, "--capacity-gb", "1"]).contains("beyond the device"));
    std::fs::write(&trace, "time_ms,lba,sectors,op\n0,0,8,read\n").unwrap();
    assert!(refused(&["disk", "fit", &trace]).contains("response times are needed"));
}

#[test]
fn a_volume_with_a_limit_is_fitted_to_a_trace_and_its_profile_keeps_the_limit() {
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace.csv").display().to_string();
    // Eight outstanding random reads; one completes every 5 ms.
    let mut text = "time_ms,lba,sectors,op,response_ms\n".to_owned();
    for index in 0..800_u64 {
        let (begin, end) = (5 * index.saturating_sub(8), 5 * index);
        writeln!(text, "{begin},{},8,read,{}.{}", index * 7_919_000 % 16_000_000, end - begin, 2 + index % 3).unwrap();
    }
    std::fs::write(&trace, text).unwrap();
    let new = folder.path().join("mine.toml").display().to_string();
    let table = succeeds(&["disk", "fit", &trace, "-o", &new]);
    assert!(table.contains("limit of operations") && table.contains("operations/s") && table.contains("flash"), "{table}");
    let shown = succeeds(&["disk", "show", &new]);
    let kept = shown.split("[limits]\noperations_per_second = ").nth(1).and_then(|rest| rest.lines().next()).unwrap();
    assert!((kept.split_whitespace().next().unwrap().parse::<f64>().unwrap() - 200.0).abs() < 0.1, "{shown}");
    let json: serde_json::Value = serde_json::from_str(&succeeds(&["disk", "fit", &trace, "--json"])).unwrap();
    let limit = json["findings"].as_array().unwrap().iter().find(|finding| finding["name"] == "limit of operations").unwrap();
    assert!((limit["number"].as_f64().unwrap() - 200.0).abs() < 1.0 && limit["unit"] == "operations/s", "{limit}");
}

#[test]
fn fits_to_real_drives_come_near_the_profiles_measured_on_them() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data/measured"));
    if !folder.is_dir() {
        return eprintln!("skipped: {} is not there", folder.display());
    }
    for (disk, rpm, times) in RECORDED {
        let trace = folder.join(format!("{disk}.csv")).display().to_string();
        let json: serde_json::Value =
            serde_json::from_str(&succeeds(&["disk", "fit", &trace, "--json", "--beside", disk])).unwrap();
        let findings = json["findings"].as_array().unwrap();
        let speed = findings.iter().find(|finding| finding["name"] == "speed").unwrap();
        let (found, uncertainty) = (speed["number"].as_f64().unwrap(), speed["uncertainty"].as_f64().unwrap());
        assert!((found - rpm).abs() <= uncertainty && uncertainty < 0.01 * rpm, "{disk}: {speed}");
        let demerit = |judged: &serde_json::Value| judged["demerit_ms"].as_f64().unwrap();
        let (fitted, shipped) = (demerit(&json["judged"]), demerit(&json["beside"]["judged"]));
        assert!(fitted <= times * shipped, "{disk}: {fitted} ms fitted, {shipped} ms shipped");
    }
}

#[test]
fn a_disk_of_8_tb_may_have_five_zones() {
    let folder = tempfile::tempdir().unwrap();
    let shown = succeeds(&["disk", "show", "sata7200"]);
    let head = &shown[..shown.find("[[zone]]").unwrap()];
    let mut text: String = head
        .lines()
        .map(|line| match line.split(' ').next() {
            Some("name") => "name = \"large\"\n".to_owned(),
            Some("surfaces") => "surfaces = 20\n".to_owned(),
            Some("capacity_sectors") => "capacity_sectors = 15628053168\n".to_owned(),
            _ => format!("{line}\n"),
        })
        .collect();
    for (zone, sectors) in [2_900, 2_650, 2_450, 2_250, 2_050].iter().enumerate() {
        let (first, last) = (zone * 64_160, (zone + 1) * 64_160 - 1);
        writeln!(text, "[[zone]]\nfirst_cylinder = {first}\nlast_cylinder = {last}\nsectors_per_track = {sectors}\ntrack_skew = 0.1\ncylinder_skew = 0.1").unwrap();
    }
    let path = folder.path().join("large.toml");
    std::fs::write(&path, text).unwrap();
    let table = succeeds(&["simulate", "fairio/illustration-1", "--disk", path.to_str().unwrap()]);
    assert!(table.contains("large"), "{table}");
}
