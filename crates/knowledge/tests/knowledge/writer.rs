//! The writer of a running controller never blocks or stops it.

use std::process::Command;

use block::Nanos;
use knowledge::{Knowledge, Pace, Retention, Writer};
use tempfile::tempdir;

use crate::fixture::{contents, filled, request, run, window};
use crate::helper;

#[test]
fn rows_are_committed_when_there_are_enough_or_the_first_has_waited_long_enough() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let pace = Pace { rows: 3, time: Nanos::from_millis(1000) };
    let mut writer = Writer::open(&path, run(1), pace, Retention::default());
    let reader = Knowledge::open_to_read(&path).unwrap();
    let there = || reader.summary().unwrap().windows;
    writer.write(Nanos::from_millis(5000), window(0));
    writer.write(Nanos::from_millis(5001), window(1));
    assert_eq!((there(), writer.committed()), (0, 0));
    writer.write(Nanos::from_millis(5002), window(2));
    assert_eq!((there(), writer.committed()), (3, 3));
    writer.write(Nanos::from_millis(6000), window(3));
    writer.tick(Nanos::from_millis(6999));
    assert_eq!(there(), 3);
    writer.tick(Nanos::from_millis(7000));
    assert_eq!(there(), 4);
    writer.write(Nanos::from_millis(7001), window(4));
    drop(writer);
    assert_eq!(there(), 5);
}

#[test]
fn a_writer_that_cannot_open_its_file_is_disabled_and_gives_the_reason() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("missing").join("kb");
    let mut writer = Writer::open(&path, run(1), Pace::default(), Retention::default());
    assert_eq!(
        writer.failed().unwrap(),
        format!("{}: there is no folder {} to put it into", path.display(), path.parent().unwrap().display())
    );
    for number in 0..5000 {
        writer.write(Nanos(number), window(number));
    }
    assert_eq!(writer.committed(), 0);
    assert!(writer.finish().unwrap_err().contains("there is no folder"));
}

#[test]
fn a_row_that_cannot_be_stored_disables_the_writer_with_one_reason() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut writer = Writer::open(&path, run(1), Pace { rows: 1, time: Nanos::MAX }, Retention::default());
    writer.write(Nanos(0), window(0));
    let mut endless = window(1);
    endless.to = Nanos::MAX;
    writer.write(Nanos(1), endless);
    assert!(writer.failed().unwrap().ends_with("is kept is 9223372036854775807"), "{:?}", writer.failed());
    writer.write(Nanos(2), window(2));
    assert_eq!(writer.committed(), 1);
    assert_eq!(Knowledge::open(&path).unwrap().summary().unwrap().windows, 1);
}

#[test]
fn rows_wait_while_another_program_holds_the_lock() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut writer = Writer::open(&path, run(1), Pace { rows: 2, time: Nanos::MAX }, Retention::default());
    let mut other = Knowledge::open(&path).unwrap();
    let held = other.batch().unwrap();
    for number in 0..6 {
        writer.write(Nanos(number), window(number));
    }
    assert_eq!((writer.committed(), writer.failed()), (0, None));
    drop(held);
    writer.write(Nanos(6), window(6));
    assert_eq!(writer.committed(), 7);
}

#[test]
fn a_lock_held_for_too_long_disables_the_writer() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut writer = Writer::open(&path, run(1), Pace { rows: 1, time: Nanos::MAX }, Retention::default());
    let mut other = Knowledge::open(&path).unwrap();
    let held = other.batch().unwrap();
    for number in 0..20 {
        writer.write(Nanos(number), window(number));
    }
    assert!(writer.failed().unwrap().contains("another program keeps it locked"), "{:?}", writer.failed());
    drop(held);
    assert_eq!(writer.committed(), 0);
}

#[test]
fn the_writer_applies_the_retention_rule() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let retention = Retention { windows: 50, requests: 1000, models: 1, max_mib: 1 };
    let mut writer = Writer::open(&path, run(1), Pace { rows: 100, time: Nanos::MAX }, retention);
    for number in 0..20_000 {
        writer.write(Nanos(number), window(number));
        writer.write(Nanos(number), request(number));
    }
    writer.finish().unwrap();
    let knowledge = Knowledge::open_to_read(&path).unwrap();
    let summary = knowledge.summary().unwrap();
    // Pruning happens every 4096 rows.
    assert!((100..=4196).contains(&summary.windows) && (1000..=5096).contains(&summary.requests), "{summary:?}");
    let bytes = std::fs::metadata(&path).unwrap().len();
    assert!(bytes < 2 << 20, "{bytes} bytes are more than a MiB and a batch");
}

#[test]
fn a_file_that_may_not_grow_disables_the_writer_and_committed_rows_stay() {
    let folder = tempdir().unwrap();
    // ulimit counts blocks of 512 or 1024 bytes, depending on the shell; a program that ignores the signal gets an error instead.
    let limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 3000; exec \"$0\" \"$@\""];
    let output = helper::command(&limited, "fill the disk", &folder.path().join("kb"), 1).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("kb: SQLite says: disk I/O error") && said.contains("there are many"), "{said}");
}

#[test]
fn a_full_disk_disables_the_writer_and_committed_rows_stay() {
    let folder = tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=2m none '{}'", folder.path().display());
    let may_mount = Command::new("unshare").args(["-rm", "sh", "-c", &mount]).output().is_ok_and(|output| output.status.success());
    if !may_mount {
        eprintln!("skipped: no file system of its own may be mounted here");
        return;
    }
    let run = format!("{mount} && exec \"$0\" \"$@\"");
    let output =
        helper::command(&["unshare", "-rm", "sh", "-c", &run], "fill the disk", &folder.path().join("kb"), 1).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("kb: the disk is full") && said.contains("there are many"), "{said}");
}

#[test]
fn a_reader_keeps_its_snapshot_and_does_not_block_writers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let before = contents(&filled(&path));
    let reader = Knowledge::open_to_read(&path).unwrap();
    let mut rows = reader.windows(&knowledge::Filter::default());
    rows.next().unwrap().unwrap();
    let mut writer = Writer::open(&path, run(2), Pace { rows: 1, time: Nanos::MAX }, Retention::default());
    writer.write(Nanos(0), window(0));
    assert_eq!((writer.committed(), writer.failed()), (1, None));
    drop(rows);
    assert_eq!(contents(&reader).len(), before.len() + 1);
}
