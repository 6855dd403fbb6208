//! Retention keeps the file within its limits.

use knowledge::{Filter, Knowledge, Retention, Row};
use tempfile::tempdir;

use crate::fixture::{decision, filled, model, record, request, run, window};

fn unbounded() -> Retention {
    Retention { windows: u64::MAX, requests: u64::MAX, models: u64::MAX, max_mib: u64::MAX }
}

fn numbers(knowledge: &Knowledge) -> Vec<u64> {
    knowledge.windows(&Filter::default()).map(|stored| stored.unwrap().row.number).collect()
}

#[test]
fn the_newest_windows_of_each_setting_stay_and_decisions_go_with_theirs() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let pruned = knowledge.prune(&Retention { windows: 2, ..unbounded() }).unwrap();
    // Every third window has another setting.
    assert_eq!(numbers(&knowledge), [15, 17, 18, 19]);
    let decisions: Vec<u64> = knowledge.decisions(&Filter::default()).map(|stored| stored.unwrap().row.window.unwrap()).collect();
    assert_eq!(decisions, [15, 17, 18, 19]);
    assert_eq!((pruned.windows, pruned.decisions, pruned.requests, pruned.models), (16, 16, 0, 0));
    knowledge.check().unwrap();
}

#[test]
fn each_device_keeps_its_own() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let mut other = run(2);
    other.device = "ssd".into();
    record(&mut knowledge, &other, (0..6).map(|number| window(number).into()));
    knowledge.prune(&Retention { windows: 1, ..unbounded() }).unwrap();
    assert_eq!(numbers(&knowledge), [18, 19, 3, 5]);
}

#[test]
fn the_newest_requests_and_models_stay() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let pruned = knowledge.prune(&Retention { requests: 10, models: 1, ..unbounded() }).unwrap();
    assert_eq!((pruned.windows, pruned.requests, pruned.models), (0, 40, 1));
    let first = knowledge.requests(&Filter::default()).next().unwrap().unwrap();
    assert_eq!(first.row, request(40));
    assert_eq!(knowledge.models().unwrap(), [model("tree", 9)]);
}

#[test]
fn unreferenced_entries_are_deleted() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    knowledge.prune(&Retention { windows: 0, requests: 0, models: 0, ..unbounded() }).unwrap();
    let summary = knowledge.summary().unwrap();
    assert_eq!((summary.runs, summary.windows, summary.decisions, summary.requests, summary.models.len()), (0, 0, 0, 0, 0));
    knowledge.check().unwrap();
}

#[test]
fn a_file_that_is_too_large_shrinks_below_its_bound_and_keeps_something_of_everything() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut knowledge = Knowledge::open(&path).unwrap();
    let rows = (0..15_000).flat_map(|number| [Row::Window(window(number)), decision(number).into(), request(number).into()]);
    record(&mut knowledge, &run(1), rows);
    let mut rare = window(20_000);
    rare.setting = "noop".into();
    record(&mut knowledge, &run(1), [rare.into()]);
    let pruned = knowledge.prune(&Retention { max_mib: 2, ..unbounded() }).unwrap();
    assert!(pruned.bytes_before > 4 << 20 && pruned.bytes <= 2 << 20, "{pruned:?}");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), pruned.bytes);
    let summary = knowledge.summary().unwrap();
    assert!(summary.windows > 1000 && summary.requests > 1000, "{summary:?}");
    assert!(summary.settings.iter().any(|setting| setting.setting == "noop"), "rare rows are not pushed out");
    assert_eq!(numbers(&knowledge).iter().rev().nth(1), Some(&14_999));
    knowledge.check().unwrap();
}

#[test]
fn a_bound_that_cannot_be_held_ends_with_one_window_per_setting_and_the_last_models() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    knowledge.prune(&Retention { max_mib: 0, ..unbounded() }).unwrap();
    let summary = knowledge.summary().unwrap();
    assert_eq!((summary.windows, summary.requests, summary.models.len()), (2, 0, 1));
}

#[test]
fn a_run_deleted_while_it_is_written_is_recorded_again_with_its_next_row() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut knowledge = filled(&path);
    Knowledge::open(&path).unwrap().prune(&Retention { windows: 0, requests: 0, models: 0, max_mib: 1 }).unwrap();
    record(&mut knowledge, &run(1), [window(50).into()]);
    assert_eq!(numbers(&knowledge), [50]);
}
