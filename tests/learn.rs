//! End-to-end tests of `seekwise-lab learn`.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn seekwise(args: &[&dyn AsRef<OsStr>]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise-lab"));
    command.arg("learn").args(args.iter().map(|arg| arg.as_ref())).output().unwrap()
}

fn out(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Standard error of a run that fails with invalid input.
fn complaint(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn rows(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../research/tests/it/model/j48/{name}.csv"))
}

#[test]
fn every_learner_is_listed_with_its_hyper_parameters() {
    let text = out(&seekwise(&[&"list"]));
    for word in ["c4.5", "logistic", "naive-bayes", "perceptron", "svm", "confidence", "gamma"] {
        assert!(text.contains(word), "{word} is not in {text}");
    }
}

#[test]
fn a_model_is_trained_evaluated_and_shown() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("iris.json");
    let text = out(&seekwise(&[&"train", &rows("iris-train"), &"--learner", &"all", &"-o", &model]));
    assert!(text.contains("<- best") && text.lines().count() == 7, "{text}");
    let text = out(&seekwise(&[&"evaluate", &model, &rows("iris-test")]));
    assert!(text.contains("45 rows") && text.contains("recall"), "{text}");
    let json: serde_json::Value =
        serde_json::from_str(&out(&seekwise(&[&"evaluate", &model, &rows("iris-test"), &"--json"]))).unwrap();
    assert!(json["accuracy"].as_f64().unwrap() > 0.9, "{json}");
    assert_eq!((json["confusion"].as_array().unwrap().len(), json["classes"][0]["name"].as_str()), (3, Some("c0")));
    assert!(out(&seekwise(&[&"show", &model])).contains("in 5-fold cross-validation"));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left behind");
}

#[test]
fn what_gather_writes_is_what_train_reads() {
    let folder = tempfile::tempdir().unwrap();
    let (experience, model) = (folder.path().join("seen.json.zst"), folder.path().join("model.json"));
    let gather = seekwise(&[
        &"gather",
        &"--random",
        &"8",
        &"--seconds",
        &"2",
        &"--candidate",
        &"noop",
        &"--candidate",
        &"cfq",
        &"-o",
        &experience,
    ]);
    assert_eq!(out(&gather), "");
    assert!(out(&seekwise(&[&"train", &experience, &"--learner", &"naive-bayes", &"-o", &model])).contains("wrote"));
    assert!(out(&seekwise(&[&"evaluate", &model, &experience])).contains("rows"));
    let text = complaint(&seekwise(&[&"train", &experience, &"--label", &"x", &"-o", &model]));
    assert!(text.contains("experience has no columns: leave out --label"), "{text}");
}

#[test]
fn what_is_wrong_is_said_with_file_line_and_column_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let (data, model) = (folder.path().join("rows.csv"), folder.path().join("model.json"));
    let says = |text: &str, args: &[&str]| {
        fs::write(&data, text).unwrap();
        let mut all: Vec<&dyn AsRef<OsStr>> = vec![&"train", &data, &"-o", &model];
        all.extend(args.iter().map(|arg| arg as &dyn AsRef<OsStr>));
        complaint(&seekwise(&all))
    };
    assert!(says("a,class\n1,x\nmany,y\n", &[]).contains("rows.csv:3: column a: 'many' should be a finite number"));
    assert!(says("a,class\n", &[]).contains("rows.csv: the data: no rows"));
    assert!(says("a,class\n1,x\n", &["--label", "kind"]).contains("rows.csv:1: unknown column 'kind'; known: a, class"));
    assert!(says("a,class\n1,x\n", &["--learner", "oracle"]).contains("unknown learner 'oracle'; known: c4.5"));
    assert!(says("a,class\n1,x\n", &["--learner", "svm", "--set", "c=-1"]).contains("svm: c -1 should be a number from"));
    assert!(says("a,class\n1,x\n", &["--set", "c=1"]).contains("--set needs --learner NAME"));
    assert!(!model.exists());
    assert!(complaint(&seekwise(&[&"show", &data])).contains("rows.csv: not a model"));
}

#[test]
fn rows_of_other_features_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("model.json");
    out(&seekwise(&[&"train", &rows("iris-train"), &"--learner", &"naive-bayes", &"-o", &model]));
    let text = complaint(&seekwise(&[&"evaluate", &model, &rows("moons-test")]));
    assert!(
        text.contains("moons-test.csv: the model was trained on other features: there are only 2; feature 3 should be 'f2'"),
        "{text}"
    );
}
