//! Evaluation of controllers by `seekwise-lab`, which prints every controller next to every constant policy.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

mod commands;
mod program;

use program::{refused, succeeds};
use serde_json::Value;

/// A short evaluation with one seed and few controllers.
const SHORT: &[&str] = &["evaluate", "--quick", "--seeds", "1", "--controllers", "two-layer;seekwise;fixed"];

#[test]
fn the_commands_of_the_evaluation_work() {
    commands::try_page("docs/evaluation.md");
}

#[test]
fn an_evaluation_prints_every_controller_next_to_every_constant_for_any_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("evaluation.html");
    let once = |threads: &str| {
        let text = succeeds(&[SHORT, &["--threads", threads, "--html", page.to_str().unwrap()]].concat());
        (text, std::fs::read_to_string(&page).unwrap())
    };
    let one = once("1");
    assert!(one == once("3"), "the number of threads changed something");
    let (table, html) = one;
    for policy in ["none", "mq-deadline", "kyber", "bfq"] {
        assert!(table.contains(&format!("always {policy}")) && html.contains(&format!("always {policy}")), "{policy}:\n{table}");
    }
    for controller in ["two-layer: ", "seekwise: ", "fixed: "] {
        assert!(table.contains(controller), "no verdict on {controller}\n{table}");
    }
    assert!(table.contains("seekwise-lab evaluate --seed 1 --seeds 1"), "{table}");
}

#[test]
fn a_controller_that_does_nothing_scores_as_the_default_does() {
    let json: Value = serde_json::from_str(&succeeds(&[SHORT, &["--json"]].concat())).unwrap();
    let standings = json["standings"].as_array().unwrap();
    let of = |policy: &str| standings.iter().find(|standing| standing["policy"] == policy).unwrap();
    let (fixed, default) = (of("fixed"), of("mq-deadline"));
    for figure in ["correct_percent", "regret_mean_percent", "regret_worst_percent", "worst_p99_ratio", "never_decided", "starves"]
    {
        assert_eq!(fixed[figure], default[figure], "{figure}");
    }
    assert_eq!((&default["over_default_worst_percent"], &default["starves"]), (&Value::from(0.0), &Value::from(0)));
    // The best candidate of each case has no regret, and only a controller that changes settings can be better.
    for question in json["questions"].as_array().unwrap().chunks(standings.len()) {
        let constants = question.iter().zip(standings).filter(|(_, standing)| standing["is_constant"] == true);
        let least = constants.map(|(scores, _)| scores["regret_percent"].as_f64().unwrap()).fold(f64::INFINITY, f64::min);
        assert!(least.abs() < 1e-9, "{question:?}");
    }
}

#[test]
fn among_other_candidates_only_those_are_chosen() {
    let arguments =
        ["evaluate", "--quick", "--seeds", "1", "--controllers", "two-layer;seekwise", "--candidates", "noop;clook", "--json"];
    let json: Value = serde_json::from_str(&succeeds(&arguments)).unwrap();
    let constants = json["standings"].as_array().unwrap().iter().filter(|standing| standing["is_constant"] == true);
    let names: Vec<&str> = constants.map(|standing| standing["policy"].as_str().unwrap()).collect();
    assert_eq!(names, ["noop", "clook", "mq-deadline"], "the default is shown as well");
}

#[test]
fn the_effect_of_a_knowledge_base_does_not_depend_on_the_number_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let page = folder.path().join("evaluation.html");
    let short =
        ["evaluate", "--quick", "--seeds", "1", "--build-world", "--controllers", "fixed;seekwise", "--candidates", "noop;cfq"];
    let json = succeeds(&[&short[..], &["--memory", "--json", "--threads", "1", "--html", page.to_str().unwrap()]].concat());
    assert!(json == succeeds(&[&short[..], &["--memory", "--json", "--threads", "3"]].concat()));
    let report: Value = serde_json::from_str(&json).unwrap();
    assert!(report["command"].as_str().unwrap().ends_with("--build-world --quick --memory"), "{}", report["command"]);
    let (memory, count) =
        (&report["memory"], report["questions"].as_array().unwrap().len() / report["standings"].as_array().unwrap().len());
    assert_eq!(memory["controller"], "seekwise");
    let of = |list: &str| memory[list].as_array().unwrap().clone();
    assert_eq!((of("bars").len(), of("bases").len(), of("questions").len()), (2, 4, 4 * count));
    let text = std::fs::read_to_string(&page).unwrap();
    for (base, name) in of("bases").iter().zip(["its first run", "every scheduler", "every scheduler, inverted", "other loads"]) {
        let scores: Vec<Value> = of("questions").into_iter().filter(|scores| scores["base"] == name).collect();
        assert_eq!((&base["base"], &base["questions"], scores.len()), (&Value::from(name), &Value::from(count), count));
        let gains = scores.iter().map(|scores| scores["gain_percent"].as_f64().unwrap());
        assert_eq!(base["worst_percent"].as_f64().unwrap(), gains.clone().fold(f64::INFINITY, f64::min));
        assert_eq!(base["worse"], gains.filter(|gain| *gain < -2.0).count());
        assert!(text.contains(name), "{name} is not on the page");
    }
    // Runs of every candidate on the same load always give cases and a best setting; other loads give no best setting for this one.
    let known = |scores: &Value| (scores["cases"].as_u64().unwrap() > 0, scores["served_best"].is_string());
    for scores in of("questions") {
        match scores["base"].as_str().unwrap() {
            "every scheduler" => assert_eq!(known(&scores), (true, true), "{scores}"),
            "every scheduler, inverted" => assert_eq!(known(&scores), (true, false), "{scores}"),
            "other loads" => assert_eq!((known(&scores).1, &scores["begins_with_best"]), (false, &Value::Null), "{scores}"),
            _ => assert!(known(&scores).1, "{scores}"),
        }
    }
    let without: Value = serde_json::from_str(&succeeds(&[&short[..], &["--json"]].concat())).unwrap();
    assert_eq!((&without["memory"], &without["standings"]), (&Value::Null, &report["standings"]));
}

#[test]
fn the_twins_predictions_are_next_to_real_runs_for_any_number_of_threads() {
    let asked = |more: &[&str]| {
        succeeds(&[&["twin", "--quick", "--seeds", "1", "--seed", "26", "--build-world", "--candidates", "classic"], more].concat())
    };
    let json = asked(&["--json", "--threads", "1"]);
    assert_eq!(json, asked(&["--json", "--threads", "3"]));
    let report: Value = serde_json::from_str(&json).unwrap();
    let loads = report["loads"].as_array().unwrap();
    let sum = |key: &str| loads.iter().map(|load| load["by_requests"][key].as_u64().unwrap()).sum::<u64>();
    assert!(sum("differ") > 20 && 10 * sum("alike") >= 9 * sum("differ"), "{} of {}", sum("alike"), sum("differ"));
    for setting in loads.iter().flat_map(|load| load["settings"].as_array().unwrap()).filter(|it| it["setting"] == "mq-deadline") {
        // Recorded under mq-deadline, which the replay must reproduce.
        let of = |what: &str| setting[what]["mb_s"].as_f64().unwrap();
        assert!((of("requests_promised") / of("requests_measured") - 1.0).abs() < 0.05, "{setting}");
    }
    let table = asked(&[]);
    assert!(
        table.contains("Pairs in the same order: by requests ")
            && table.contains("seekwise-lab twin --seed 26 --seeds 1 --build-world --quick"),
        "{table}"
    );
}

#[test]
fn the_worlds_are_listed() {
    let list = succeeds(&["worlds"]);
    for word in ["learn:", "build:", "report:", "drawn:", "shipped:self-learning", "phases"] {
        assert!(list.contains(word), "{word} is not in {list}");
    }
}

#[test]
fn what_is_wrong_is_said_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone").join("page.html");
    assert!(refused(&["evaluate", "--controllers", "nonsense"]).contains("there is no controller 'nonsense'; known are"));
    assert!(refused(&["evaluate", "--memory", "--controllers", "fixed"]).contains("add it to --controllers"));
    assert!(refused(&["evaluate", "--candidates", "nope"]).contains("nope"));
    assert!(refused(&["evaluate", "--html", gone.to_str().unwrap()]).contains("there is no folder"));
    assert!(refused(&["evaluate", "--quick", "--trace", "/no/such/trace"]).contains("/no/such/trace"));
    assert!(refused(&["evaluate", "--experience", "/no/such/file"]).contains("--experience /no/such/file"));
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn the_page_of_controllers_for_research_is_current() {
    let kept =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/research-controllers.md")).unwrap();
    let page = "docs/reference/research-controllers.md";
    assert!(kept == succeeds(&["controller", "manual"]), "{page} is out of date: run `seekwise-lab controller manual >{page}`");
}

#[test]
fn the_product_refers_to_this_program_for_every_controller_of_research() {
    let names: Vec<&str> = research::controller::ALL.iter().map(|spec| spec.name).collect();
    assert_eq!(seekwise::moved::CONTROLLERS.as_slice(), names);
}
