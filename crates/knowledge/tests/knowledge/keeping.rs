//! Rows are read back as written.

use std::sync::Arc;

use block::Nanos;
use control::Window;
use control::{DecisionRecord, Setting};
use knowledge::{DecisionRow, Filter, Knowledge, Row, WindowRow};
use observe::window::{FEATURES, Features, WindowOutcome};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::fixture::{any_rows, contents, decision, expected, filled, model, record, run, window};

proptest! {
    #![proptest_config(crate::fixture::cases(64))]

    #[test]
    fn any_rows_come_out_as_they_went_in(rows in any_rows()) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("kb");
        let mut knowledge = Knowledge::open(&path).unwrap();
        let mut batch = knowledge.batch().unwrap();
        for (run, row) in &rows {
            prop_assert!(batch.row(run, row).unwrap());
        }
        batch.commit().unwrap();
        drop(knowledge);
        let knowledge = Knowledge::open_to_read(&path).unwrap();
        prop_assert_eq!(contents(&knowledge), expected(&rows));
        knowledge.check().unwrap();
    }
}

#[test]
fn a_window_and_a_decision_of_a_controller_are_kept_by_the_names_of_their_features() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    let setting = Arc::new(Setting::parse("cfq nr_requests=64").unwrap());
    let outcome = WindowOutcome { duration: Nanos(9), ..window(1).outcome };
    let mut features = Features([f64::NAN; FEATURES.len()]);
    features.0[0] = 12.5;
    let seen = Window { number: 4, from: Nanos(1), to: Nanos(10), setting: setting.clone(), features, outcome };
    let decided = DecisionRecord::new(Nanos(10), Some(4), setting.clone(), setting);
    let decided = DecisionRecord { why: "it is best".into(), refused: Some("no".into()), ..decided };
    record(&mut knowledge, &run(1), [Row::from(&seen), DecisionRow::new(0, &decided).into()]);
    let kept: WindowRow = knowledge.windows(&Filter::default()).next().unwrap().unwrap().row;
    assert_eq!(kept.feature(FEATURES[0].name), Some(12.5));
    assert!(kept.feature(FEATURES[FEATURES.len() - 1].name).unwrap().is_nan());
    assert_eq!(kept.feature("unheard of"), None);
    assert_eq!((kept.setting.as_str(), kept.outcome.requests), ("cfq nr_requests=64", outcome.requests));
    let kept = knowledge.decisions(&Filter::default()).next().unwrap().unwrap().row;
    assert_eq!((kept.window, kept.refused.as_deref(), kept.to.as_str()), (Some(4), Some("no"), "cfq nr_requests=64"));
}

#[test]
fn windows_are_found_by_plant_device_and_setting() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let mut other = run(2);
    other.device = "barracuda 2".into();
    record(&mut knowledge, &other, (0..5).map(|number| window(number).into()));
    let found = |plant: Option<&str>, device: Option<&str>, setting: Option<&str>| {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let filter = Filter { plant: owned(plant), device: owned(device), setting: owned(setting) };
        knowledge.windows(&filter).map(Result::unwrap).count()
    };
    assert_eq!(found(None, None, None), 25);
    assert_eq!(found(Some("simulator"), None, None), 25);
    assert_eq!(found(Some("linux"), None, None), 0);
    assert_eq!(found(None, Some("barracuda 2"), None), 5);
    assert_eq!(found(Some("simulator"), Some("barracuda"), Some("deadline:read_expire=100")), 7);
}

#[test]
fn thousands_of_windows_are_read_page_by_page_without_loss() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    record(&mut knowledge, &run(1), (0..3000).map(|number| window(number).into()));
    let numbers: Vec<u64> = knowledge.windows(&Filter::default()).map(|stored| stored.unwrap().row.number).collect();
    assert_eq!(numbers, (0..3000).collect::<Vec<_>>());
}

#[test]
fn the_latest_model_of_a_name_is_the_one_trained_last_not_recorded_last() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    record(&mut knowledge, &run(1), [model("tree", 7).into(), model("svm", 99).into()]);
    assert_eq!(knowledge.latest_model("tree").unwrap(), Some(model("tree", 9)));
    assert_eq!(knowledge.latest_model("bayes").unwrap(), None);
    let mut batch = knowledge.batch().unwrap();
    assert!(!batch.model(&model("tree", 7)).unwrap(), "the very same model is kept once");
}

#[test]
fn a_measured_gain_is_added_to_a_decision_and_nothing_else_changes() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let later = DecisionRow { measured_gain: Some(0.125), why: "another reason".into(), ..decision(3) };
    record(&mut knowledge, &run(1), [later.clone().into()]);
    record(&mut knowledge, &run(1), [DecisionRow { measured_gain: Some(5.0), ..later }.into()]);
    let kept = knowledge.decisions(&Filter::default()).nth(3).unwrap().unwrap().row;
    assert_eq!(kept, DecisionRow { measured_gain: Some(0.125), ..decision(3) });
    assert_eq!(knowledge.summary().unwrap().decisions, 20);
}

#[test]
fn a_batch_that_is_not_committed_leaves_nothing_behind() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let before = contents(&knowledge);
    let mut batch = knowledge.batch().unwrap();
    batch.window(&run(9), &window(0)).unwrap();
    drop(batch);
    assert_eq!(contents(&knowledge), before);
    assert_eq!(knowledge.summary().unwrap().runs, 1);
}

#[test]
fn invalid_rows_are_refused_with_the_valid_values() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("kb");
    let mut knowledge = filled(&path);
    let mut refused = |change: &dyn Fn(&mut WindowRow)| {
        let mut row = window(100);
        change(&mut row);
        let message = knowledge.batch().unwrap().window(&run(1), &row).unwrap_err().to_string();
        message.strip_prefix(&format!("{}: ", path.display())).unwrap().to_owned()
    };
    assert_eq!(
        refused(&|row| row.to = Nanos::MAX),
        "to_ns 18446744073709551615 is too large; the largest that is kept is 9223372036854775807"
    );
    assert_eq!(refused(&|row| row.values.push(1.0)), "window 100: 3 features have 4 values");
    assert!(refused(&|row| row.features = vec!["a".into(); 3].into()).contains("feature 'a' is named twice"));
    assert!(refused(&|row| row.features = ["a".into(), String::new(), "b".into()].into()).contains("without a name"));
    let other = knowledge::Run { device: "ssd".into(), ..run(1) };
    let message = knowledge.batch().unwrap().window(&other, &window(100)).unwrap_err().to_string();
    assert!(message.contains("is known as 'workload 1' on simulator 'barracuda'"), "{message}");
    let mut broken = model("tree", 1);
    broken.json = "{".into();
    let message = knowledge.batch().unwrap().model(&broken).unwrap_err().to_string();
    assert!(message.contains("model 'tree' is not JSON"), "{message}");
}
