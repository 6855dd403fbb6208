//! A paper's experiments repeated: all of its figures are drawn, and each aim is printed as met or missed.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod program;

use std::path::Path;

use serde_json::Value;

/// What is aimed at; whether it is met is printed.
const BARS: [&str; 6] = [
    "two-layer-accuracy",
    "seekwise-accuracy",
    "two-layer-mixed-2-gain",
    "seekwise-mixed-2-gain",
    "seekwise-near-the-best",
    "seekwise-never-worse",
];

/// The arguments of this command.
fn of<'a>(arguments: &[&'a str]) -> Vec<&'a str> {
    [&["paper"], arguments].concat()
}

fn succeeds(arguments: &[&str]) -> String {
    program::succeeds(&of(arguments))
}

fn refused(arguments: &[&str]) -> String {
    program::refused(&of(arguments))
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

#[test]
fn a_quick_run_draws_every_figure_and_says_of_every_bar_whether_it_is_met() {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("paper.json"), folder.path().join("paper.html"));
    let files = ["--json", json.to_str().unwrap(), "-o", page.to_str().unwrap()];
    let table = succeeds(&[&["run", "self-learning", "--quick", "--cpu-time"], &files[..]].concat());
    let replication = read(&json);
    let bars = replication["bars"].as_array().unwrap();
    assert_eq!(bars.iter().map(|bar| bar["id"].as_str().unwrap()).collect::<Vec<_>>(), BARS);
    for (bar, id) in bars.iter().zip(BARS) {
        // What is missed is printed as missed.
        let verdict = if bar["met"].as_bool().unwrap() { "met " } else { "missed " };
        let line = table.lines().find(|line| line.contains(bar["about"].as_str().unwrap()));
        assert!(line.is_some_and(|line| line.starts_with(verdict)), "{id}: {line:?}");
    }
    let figures = replication["figures"].as_array().unwrap();
    let drawn: Vec<&str> = figures.iter().map(|figure| figure["id"].as_str().unwrap()).collect();
    let wanted: Vec<String> = (2..=14).map(|number| format!("fig-{number}")).collect();
    assert_eq!(drawn[..13], wanted);
    let html = std::fs::read_to_string(&page).unwrap();
    for figure in figures {
        let values = figure["panels"][0]["values"].as_array().unwrap();
        assert!(!values.is_empty(), "{} is empty", figure["id"]);
        // Of phases too short to be judged there are no performance data.
        let is_complete = values.iter().flat_map(|group| group.as_array().unwrap()).all(Value::is_number);
        assert!(is_complete || figure["id"] == "data", "{figure}");
        assert!(html.contains(&format!("id=\"{}\"", figure["id"].as_str().unwrap())), "{} is not in the page", figure["id"]);
    }
    // A scheme's accuracy is worth something beside that of a scheduler which is never changed.
    for figure in figures.iter().filter(|figure| figure["unit"] == "accuracy_percent") {
        assert!(figure["series"].as_array().unwrap().contains(&"always per-request".into()), "{}", figure["id"]);
    }
    assert!(bars[0]["detail"].as_str().unwrap().contains("; always "), "{}", bars[0]);
    assert!(html.contains("achieving an accuracy of 89 percent") && html.contains("prefers-color-scheme: dark"));
    let svm = figures[4]["statements"].as_array().unwrap().iter().find(|statement| statement["paper"] == "89%").unwrap();
    assert!(svm["ours"].is_string() && svm["mark"].is_array(), "{svm}");
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_number_of_threads_and_another_seed_others() {
    let folder = tempfile::tempdir().unwrap();
    let once = |threads: &str, seed: &str| {
        let (json, page) = (folder.path().join("paper.json"), folder.path().join("paper.html"));
        let what = ["run", "self-learning", "--quick", "--only", "data", "--threads", threads, "--seed", seed];
        let text = succeeds(&[&what[..], &["--json", json.to_str().unwrap(), "-o", page.to_str().unwrap()]].concat());
        (text, std::fs::read(json).unwrap(), std::fs::read(page).unwrap())
    };
    let one = once("1", "7");
    assert!(one == once("4", "7"));
    assert_ne!(one.1, once("2", "8").1);
}

#[test]
fn papers_and_figures_are_listed() {
    let list = succeeds(&["list"]);
    for word in ["self-learning", "Zhang", "bars", "fig-2 ", "fig-14 "] {
        assert!(list.contains(word), "{word} is not in {list}");
    }
}

#[test]
fn what_is_wrong_is_said_before_anything_is_run_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone").join("page.html");
    assert!(refused(&["run", "genetic"]).contains("genetic: there is no such paper; known is self-learning"));
    assert!(
        refused(&["run", "self-learning", "--only", "fig-1"])
            .contains("--only fig-1: there is no such figure; known are bars, fig-2")
    );
    assert!(refused(&["run", "self-learning", "-o", gone.to_str().unwrap()]).contains("there is no folder"));
    assert!(refused(&["run", "self-learning", "--json", folder.path().to_str().unwrap()]).contains("is a folder"));
    assert!(refused(&["run", "self-learning", "--only", "fig-3"]).contains("needs --cpu-time"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}
