//! Merging several knowledge bases.

use knowledge::{DecisionRow, Knowledge, Merged};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::fixture::{any_rows, contents, decision, expected, filled, record, run, window};

/// Never cancels.
fn always(_rows: u64) -> bool {
    true
}

#[test]
fn merging_is_idempotent_and_complete() {
    let folder = tempdir().unwrap();
    let mut ours = filled(&folder.path().join("ours"));
    let theirs = folder.path().join("theirs");
    let mut other = filled(&theirs);
    record(&mut other, &run(2), (0..3).map(|number| window(number).into()));
    let measured = DecisionRow { measured_gain: Some(0.5), ..decision(7) };
    record(&mut other, &run(1), [measured.clone().into()]);
    let merged = ours.merge(&[other], &mut always).unwrap();
    assert_eq!(merged, Merged { new: 3, known: 92 });
    let once = contents(&ours);
    assert_eq!(once.iter().filter(|line| line.contains("workload 2")).count(), 3);
    assert!(once.contains(&expected(&[(run(1), measured.into())])[0]), "measurements from elsewhere are known here");
    let again = ours.merge(&[Knowledge::open_to_read(&theirs).unwrap()], &mut always).unwrap();
    assert_eq!(again, Merged { new: 0, known: 95 });
    assert_eq!(contents(&ours), once);
    ours.check().unwrap();
}

proptest! {
    #![proptest_config(crate::fixture::cases(32))]

    #[test]
    fn merging_any_rows_into_nothing_gives_the_same_rows(rows in any_rows()) {
        let folder = tempdir().unwrap();
        let mut theirs = Knowledge::open(&folder.path().join("theirs")).unwrap();
        for (run, row) in &rows {
            record(&mut theirs, run, [row.clone()]);
        }
        let mut ours = Knowledge::open(&folder.path().join("ours")).unwrap();
        ours.merge(&[theirs], &mut always).unwrap();
        prop_assert_eq!(contents(&ours), expected(&rows));
    }
}

#[test]
fn a_file_is_not_merged_into_itself_even_by_another_name() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut ours = filled(&path);
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let message = ours.merge(&[Knowledge::open_to_read(&link).unwrap()], &mut always).unwrap_err().to_string();
    assert_eq!(message, format!("{}: cannot be merged into itself", link.display()));
}

#[test]
fn an_interrupted_merge_changes_nothing() {
    let folder = tempdir().unwrap();
    let mut other = Knowledge::open(&folder.path().join("theirs")).unwrap();
    record(&mut other, &run(2), (0..3000).map(|number| window(number).into()));
    let mut ours = filled(&folder.path().join("ours"));
    let before = contents(&ours);
    let error = ours.merge(&[other], &mut |rows| rows < 2000).unwrap_err();
    assert!(matches!(error.problem, knowledge::Problem::Interrupted));
    assert_eq!(contents(&ours), before);
}

#[test]
fn two_runs_with_one_id_are_refused() {
    let folder = tempdir().unwrap();
    let mut ours = filled(&folder.path().join("ours"));
    let mut other = Knowledge::open(&folder.path().join("theirs")).unwrap();
    let mut impostor = run(1);
    impostor.device = "ssd".into();
    record(&mut other, &impostor, [window(100).into()]);
    let message = ours.merge(&[other], &mut always).unwrap_err().to_string();
    assert!(message.contains("two runs should not have one id"), "{message}");
}
