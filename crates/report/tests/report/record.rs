//! Records as files.

use std::path::Path;

use report::record;

use crate::fixture;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn refusal(dir: &Path, text: &str) -> String {
    let path = dir.join("broken.record.json");
    std::fs::write(&path, text).unwrap();
    let message = record::read(&path).unwrap_err().to_string();
    assert!(message.contains("broken.record.json"), "{message}");
    message
}

#[test]
fn records_come_back_from_their_files_as_they_were() {
    let dir = folder();
    let mut records = fixture::six(50);
    fixture::steer(&mut records[4], 10);
    for record in &records {
        let path = record::write(dir.path(), record).unwrap();
        assert_eq!(record::read(&path).unwrap(), *record);
    }
    std::fs::write(dir.path().join("compare.json"), "{}").unwrap();
    // In the order of the comparison, not of the files' names: mq-deadline is the fourth, not the third.
    assert_eq!(record::read_dir(dir.path()).unwrap(), records);
}

#[test]
fn the_same_run_has_the_same_file_and_the_same_bytes() {
    let dir = folder();
    let record = &fixture::six(50)[3];
    let path = record::write(dir.path(), record).unwrap();
    let first = std::fs::read(&path).unwrap();
    assert_eq!(record::write(dir.path(), record).unwrap(), path);
    assert_eq!(std::fs::read(&path).unwrap(), first);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left behind");
    let name = path.file_name().unwrap().to_str().unwrap();
    assert!(name.starts_with("office-server.vscsi_atlas10k_mq-deadline-read-expire=200_"), "{name}");
    let mut compact = record.clone();
    compact.replay.fit = "compact".to_owned();
    assert_ne!(record::write(dir.path(), &compact).unwrap(), path, "a run that placed the trace otherwise is another run");
    let (mut steered, mut otherwise) = (record.clone(), record.clone());
    fixture::steer(&mut steered, 4);
    fixture::steer(&mut otherwise, 4);
    otherwise.steering.as_mut().unwrap().preference = "1,2,3".to_owned();
    let (steered, otherwise) = (record::write(dir.path(), &steered).unwrap(), record::write(dir.path(), &otherwise).unwrap());
    assert_ne!(steered, otherwise, "a run for another preference is another run");
}

#[test]
fn names_that_others_chose_stay_inside_the_folder_and_apart() {
    let dir = folder();
    let mut record = fixture::six(0).remove(0);
    let labels =
        ["../../etc/passwd", "..", "", "a b", "a/b", "a\u{0}b", "💾", "a\nb", &"x".repeat(1000), &format!("{}y", "x".repeat(999))];
    for label in labels {
        record.scheduler.label = label.to_owned();
        record.trace.name = label.to_owned();
        record.disk.name = label.to_owned();
        let path = record::write(dir.path(), &record).unwrap();
        assert_eq!(path.parent(), Some(dir.path()));
    }
    assert_eq!(record::read_dir(dir.path()).unwrap().len(), labels.len());
}

#[test]
fn numbers_that_are_not_finite_are_null_in_the_file_and_missing_when_read() {
    let dir = folder();
    let mut record = fixture::six(3).remove(0);
    record.figures.iops = f64::NAN;
    record.figures.fairness_jain = Some(f64::INFINITY);
    record.curves.response_cdf[1] = (f64::NEG_INFINITY, 0.5);
    record.curves.throughput_mb_s[2] = f64::NAN;
    let path = record::write(dir.path(), &record).unwrap();
    assert!(std::fs::read_to_string(&path).unwrap().contains("\"iops\": null"));
    let back = record::read(&path).unwrap();
    assert!(back.figures.iops.is_nan());
    assert_eq!(back.figures.fairness_jain, None);
    assert!(back.curves.response_cdf[1].0.is_nan() && back.curves.response_cdf[1].1 == 0.5);
    assert!(back.curves.throughput_mb_s[2].is_nan());
    assert_eq!(back.figures.response, record.figures.response);
}

#[test]
fn a_record_of_another_version_is_refused_with_what_would_be_right() {
    let message = refusal(folder().path(), r#"{"schema": 9, "from_the_future": true}"#);
    assert!(
        message.ends_with("schema: version 9 cannot be read, only 4; run the load again with this version of seekwise"),
        "{message}"
    );
}

#[test]
fn what_is_not_a_record_is_refused_with_its_line_and_key() {
    let dir = folder();
    let path = record::write(dir.path(), &fixture::six(0)[0]).unwrap();
    let good = std::fs::read_to_string(path).unwrap();
    let half = good[..good.len() / 2].trim_end();
    let lines = half.lines().count();
    let cases = [
        (String::new(), "line 1, column 0: EOF while parsing".to_owned()),
        ("[1, 2]".to_owned(), "line 1".to_owned()),
        ("{}".to_owned(), "missing field `schema`".to_owned()),
        (half.to_owned(), format!("line {lines}, column")),
        (good.replace("\"iops\"", "\"iopz\""), "unknown field `iopz`".to_owned()),
        (good.replace("\"queue_depth\": 1", "\"queue_depth\": \"one\""), "invalid type: string \"one\", expected u32".to_owned()),
        (good.replace("\"queue_depth\": 1", "\"queue_depth\": -1"), "invalid value: integer `-1`, expected u32".to_owned()),
    ];
    for (text, expected) in cases {
        let message = refusal(dir.path(), &text);
        assert!(message.contains(&expected) && message.contains("line "), "{expected}: {message}");
    }
    let line = 1 + good.lines().position(|line| line.contains("queue_depth")).unwrap();
    let message = refusal(dir.path(), &good.replace("\"queue_depth\": 1", "\"queue_depth\": -1"));
    assert!(message.contains(&format!("broken.record.json: line {line}, column")), "{message}");
}

#[test]
fn folders_without_records_and_missing_ones_are_named() {
    let dir = folder();
    let message = record::read_dir(dir.path()).unwrap_err().to_string();
    assert!(message.ends_with("no record in this folder; a record's file name ends with .record.json"), "{message}");
    let missing = dir.path().join("missing");
    for message in [
        record::read_dir(&missing).unwrap_err().to_string(),
        record::read(&missing).unwrap_err().to_string(),
        record::write(&missing, &fixture::six(0)[0]).unwrap_err().to_string(),
    ] {
        assert!(message.contains("missing") && message.contains("No such file"), "{message}");
    }
}

#[cfg(unix)]
#[test]
fn files_have_the_permissions_of_any_other_new_file() {
    use std::os::unix::fs::PermissionsExt;
    let dir = folder();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let path = record::write(dir.path(), &fixture::six(0)[0]).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode();
    assert_eq!(mode(&path), mode(&plain));
}

#[cfg(unix)]
#[test]
fn a_link_that_leads_to_no_file_yet_stays_a_link() {
    let dir = folder();
    std::fs::create_dir(dir.path().join("deep")).unwrap();
    let link = dir.path().join("link");
    std::os::unix::fs::symlink("deep/page", &link).unwrap();
    for text in ["new", "again"] {
        record::check_replaceable(&link).unwrap();
        record::replace(&link, text.as_bytes()).unwrap();
        assert!(link.is_symlink());
        assert_eq!(std::fs::read_to_string(dir.path().join("deep/page")).unwrap(), text);
    }
    let circle = dir.path().join("circle");
    std::os::unix::fs::symlink("circle", &circle).unwrap();
    assert!(record::replace(&circle, b"lost").unwrap_err().to_string().contains("symbolic links"));
    let nowhere = dir.path().join("nowhere");
    std::os::unix::fs::symlink("no folder/page", &nowhere).unwrap();
    record::check_replaceable(&nowhere).unwrap_err();
    record::replace(&nowhere, b"lost").unwrap_err();
    assert!(nowhere.is_symlink());
}
