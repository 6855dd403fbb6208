//! Export and import of tables as text.

use std::path::Path;

use knowledge::{Form, Knowledge, Row, Table};
use proptest::prelude::*;
use tempfile::tempdir;

use crate::fixture::{any_rows, by_name, contents, expected, filled, record, rows_of, run, window};

/// Never cancels.
fn always(_rows: u64) -> bool {
    true
}

fn export(knowledge: &Knowledge, table: Table, form: Form) -> String {
    let mut text = Vec::new();
    knowledge.export(table, form, &mut text, &mut always).unwrap();
    String::from_utf8(text).unwrap()
}

fn import(knowledge: &mut Knowledge, text: &[u8]) -> Result<knowledge::Imported, String> {
    knowledge.import(Path::new("in.csv"), text, &mut always).map_err(|error| error.to_string())
}

proptest! {
    #![proptest_config(crate::fixture::cases(48))]

    #[test]
    fn any_rows_go_out_and_come_in_the_same_and_go_out_in_the_same_bytes(rows in any_rows()) {
        let folder = tempdir().unwrap();
        let mut ours = Knowledge::open(&folder.path().join("ours")).unwrap();
        for (run, row) in &rows {
            record(&mut ours, run, [row.clone()]);
        }
        let mut theirs = Knowledge::open(&folder.path().join("theirs")).unwrap();
        for table in Table::ALL {
            let text = export(&ours, table, Form::Csv);
            import(&mut theirs, text.as_bytes()).unwrap();
            prop_assert_eq!(export(&theirs, table, Form::Csv), text);
        }
        prop_assert_eq!(expected(&by_name(rows_of(&theirs))), expected(&by_name(rows)));
    }

    #[test]
    fn no_text_makes_it_panic_and_a_bad_one_changes_nothing(text in prop::collection::vec(any::<u8>(), 0..200), cut in 0..2000usize) {
        let folder = tempdir().unwrap();
        let mut knowledge = filled(&folder.path().join("kb"));
        let before = contents(&knowledge);
        let mut damaged = export(&knowledge, Table::Windows, Form::Csv).into_bytes();
        damaged.splice(cut..cut, text.iter().copied());
        for text in [text, damaged] {
            if import(&mut knowledge, &text).is_err() {
                prop_assert_eq!(&contents(&knowledge), &before);
            }
        }
    }
}

#[test]
fn windows_have_a_column_for_each_feature_and_those_that_differ_stay_apart() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    let mut later = window(1);
    later.features = ["read_share".to_owned(), "queue_depth".to_owned()].into();
    later.values = vec![0.5, 1e300];
    record(&mut knowledge, &run(1), [Row::Window(window(0)), later.into()]);
    let text = export(&knowledge, Table::Windows, Form::Csv);
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(",setting,requests_per_s,read_share,seek_sectors,queue_depth,outcome_requests,"), "{}", lines[0]);
    assert!(lines[1].contains(",deadline:read_expire=100,100,0.3333333333333333,NaN,,10,"), "{}", lines[1]);
    assert!(lines[2].contains(",cfq nr_requests=64,,0.5,,1e300,11,"), "{}", lines[2]);
}

#[test]
fn training_data_names_the_best_setting_and_not_the_one_that_was_set() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    let second = |number: u64| {
        let setting = if (4..8).contains(&number) { "cfq" } else { "noop" };
        let mut row = window(number);
        (row.features, row.values) = (["read_share".to_owned()].into(), vec![0.5]);
        let bytes = if setting == "cfq" { 30_000_000 } else { 10_000_000 };
        row.setting = setting.into();
        row.outcome = observe::WindowOutcome { requests: 100, bytes, mean_response_s: 0.01, fairness: 1.0, ..row.outcome };
        Row::Window(row)
    };
    record(&mut knowledge, &run(1), (0..12).map(second));
    let training = export(&knowledge, Table::Windows, Form::Training);
    let lines: Vec<&str> = training.lines().collect();
    assert!(lines[0].starts_with("read_share,") && lines[0].ends_with(",setting"), "{}", lines[0]);
    assert!(lines.len() > 2 && lines[1..].iter().all(|line| line.starts_with("0.5,") && line.ends_with(",cfq")), "{training}");
}

#[test]
fn json_has_the_same_names_and_null_for_missing_values() {
    let folder = tempdir().unwrap();
    let knowledge = filled(&folder.path().join("kb"));
    let windows: serde_json::Value = serde_json::from_str(&export(&knowledge, Table::Windows, Form::Json)).unwrap();
    assert_eq!(windows.as_array().unwrap().len(), 20);
    assert_eq!((&windows[3]["number"], &windows[3]["requests_per_s"]), (&3.into(), &103.0.into()));
    assert!(windows[3]["seek_sectors"].is_null() && windows[3]["outcome_mean_service_s"].is_null());
    let models: serde_json::Value = serde_json::from_str(&export(&knowledge, Table::Models, Form::Json)).unwrap();
    assert_eq!(models[1]["model"]["leaf"], "cfq");
    let nothing = Knowledge::open(&folder.path().join("nothing")).unwrap();
    assert_eq!(export(&nothing, Table::Requests, Form::Json), "[]\n");
}

#[test]
fn errors_of_a_table_name_line_and_column() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let requests = export(&knowledge, Table::Requests, Form::Csv);
    let mut message = |from: &str, to: &str| {
        let text = requests.replacen(from, to, 1);
        assert_ne!(text, requests, "{from} is not in the table");
        import(&mut knowledge, text.as_bytes()).unwrap_err()
    };
    assert_eq!(message(",1,W,8,8,", ",1,W,x,8,"), "in.csv: line 3, column 10 (lba): 'x' should be a whole number, 0 or more");
    assert_eq!(message(",1,W,8,8,", ",1,X,8,8,"), "in.csv: line 3, column 9 (op): 'X' should be R, W or D");
    assert_eq!(message(",1,W,8,8,0,", ",1,W,8,8,yes,"), "in.csv: line 3, column 12 (sync): 'yes' should be 0 or 1");
    assert_eq!(message(",1,W,8,8,", ",1,W,8,"), "in.csv: line 3: 15 cells should be 16, as in the first line");
    assert_eq!(
        message(",lba,", ",LBA,"),
        "in.csv: line 1: names no columns of a knowledge base; `seekwise kb export` writes tables that can be imported"
    );
    assert_eq!(message(",op,", ",lba,"), "in.csv: line 1, column 10 (lba): is there twice");
    assert_eq!(message(",op,", ",operation,"), "in.csv: line 1: there is no column op, which requests have");
    assert!(message("run,", "run2,run,").contains("line 1, column 1 (run2): requests have no such column"));
    assert!(message("barracuda", "ssd").starts_with("in.csv: line 2: run 01000000000000000707070707070707 is known as"));
    assert!(message("0100000000000000", "01").contains("column 1 (run): '010707070707070707' should be 32 hexadecimal digits"));
    let windows = export(&knowledge, Table::Windows, Form::Csv).replacen(",101,", ",fast,", 1);
    let message = import(&mut knowledge, windows.as_bytes()).unwrap_err();
    assert_eq!(message, "in.csv: line 3, column 12 (requests_per_s): 'fast' should be a number or NaN");
    assert!(import(&mut knowledge, b"\xff\xfe,run\n").unwrap_err().starts_with("in.csv: line 1, column 1"));
    assert!(import(&mut knowledge, b"").unwrap_err().contains("names no columns"));
}

#[test]
fn columns_may_stand_in_any_order() {
    let folder = tempdir().unwrap();
    let mut knowledge = filled(&folder.path().join("kb"));
    let text = export(&knowledge, Table::Models, Form::Csv);
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut turned = csv::Writer::from_writer(Vec::new());
    let header = reader.headers().unwrap().clone();
    for record in [Ok(header)].into_iter().chain(reader.records()) {
        turned.write_record(record.unwrap().iter().rev()).unwrap();
    }
    let imported = import(&mut knowledge, &turned.into_inner().unwrap()).unwrap();
    assert_eq!((imported.table, imported.new, imported.known), (Table::Models, 0, 2));
}

#[test]
fn a_feature_called_like_a_column_does_not_go_out() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    let mut odd = window(0);
    odd.features = ["seed".to_owned()].into();
    odd.values = vec![1.0];
    record(&mut knowledge, &run(1), [odd.into()]);
    let error = knowledge.export(Table::Windows, Form::Csv, std::io::sink(), &mut always).unwrap_err().to_string();
    assert_eq!(error, "feature 'seed' has the name of another column: windows with it cannot be written as a table");
}

#[test]
fn every_feature_is_exported() {
    let folder = tempdir().unwrap();
    let mut knowledge = Knowledge::open(&folder.path().join("kb")).unwrap();
    let mut all = window(0);
    all.features = observe::window::FEATURES.iter().map(|feature| feature.name.to_owned()).collect();
    all.values = vec![0.0; all.features.len()];
    record(&mut knowledge, &run(1), [all.into()]);
    for form in [Form::Csv, Form::Json, Form::Training] {
        assert!(!export(&knowledge, Table::Windows, form).is_empty());
    }
}
