//! Models in files: the same bytes each time, the same answers after reading, and no panic whatever the file holds.

use proptest::prelude::*;
use research::model::{Model, Scratch};

use super::made::{blobs, moons};
use super::{trained, with_each};

#[test]
fn the_same_rows_and_seed_give_the_same_bytes() {
    let data = moons(120, 1);
    with_each(|learner| {
        let bytes = || trained(&data, learner).to_json().unwrap();
        assert!(bytes() == bytes(), "{}", learner.name());
    });
}

#[test]
fn a_model_read_back_answers_exactly_the_same() {
    let data = blobs(120, 5, 4, 1.5, 1);
    with_each(|learner| {
        let model = trained(&data, learner);
        let text = model.to_json().unwrap();
        let read = Model::from_json(&text).unwrap();
        assert!(read.to_json().unwrap() == text, "{}", learner.name());
        assert_eq!(read.text(), model.text());
        let mut scratch = Scratch::default();
        for row in &data.rows {
            let prediction = model.predict(row);
            assert_eq!(read.predict(row), prediction, "{}", learner.name());
            assert_eq!(read.predict_with(row, &mut scratch), (prediction.class, prediction.confidence));
            assert_eq!(scratch.probabilities(), prediction.probabilities);
        }
    });
}

#[test]
fn other_features_are_refused_with_the_first_difference() {
    with_each(|learner| {
        let model = trained(&blobs(30, 3, 2, 1.0, 1), learner);
        let complaint = |features: &[&str]| model.check_features(features).unwrap_err().to_string();
        assert_eq!(model.check_features(&["f0", "f1", "f2"]), Ok(()));
        assert_eq!(complaint(&["f0", "f2", "f1"]), "the model was trained on other features: feature 2 is 'f2'; it should be 'f1'");
        assert_eq!(complaint(&["f0", "f1"]), "the model was trained on other features: there are only 2; feature 3 should be 'f2'");
        assert_eq!(
            complaint(&["f0", "f1", "f2", "x"]),
            "the model was trained on other features: there is one too many, 'x'; there should be 3"
        );
    });
}

/// Every learner's file, with each value replaced in turn by what should not be there: it is refused, or it still answers.
#[test]
fn a_hostile_file_is_refused_or_answers_but_never_panics() {
    let hostile = ["null", "-1", "1e308", "18446744073709551615", "\"x\"", "[]", "{}", "[[1]]", "true"];
    with_each(|learner| {
        let model = trained(&blobs(24, 3, 3, 1.0, 1), learner);
        let whole: serde_json::Value = serde_json::from_str(&model.to_json().unwrap()).unwrap();
        let mut paths = Vec::new();
        collect(&whole, String::new(), &mut paths);
        let mut refused = 0;
        for path in &paths {
            for value in hostile {
                let mut broken = whole.clone();
                *broken.pointer_mut(path).unwrap() = serde_json::from_str(value).unwrap();
                match Model::from_json(&broken.to_string()) {
                    Err(_) => refused += 1,
                    Ok(model) => {
                        let prediction = model.predict(&[1.0, f64::NAN, -1e9]);
                        let sum: f64 = prediction.probabilities.iter().sum();
                        assert!((sum - 1.0).abs() < 1e-6, "{}: {path} = {value}: {prediction:?}", learner.name());
                        model.text();
                    }
                }
            }
        }
        assert!(refused > paths.len() * 4, "{}: {refused} of {}", learner.name(), paths.len() * hostile.len());
    });
}

/// Pointers to every value, of long lists to the first ones only.
fn collect(value: &serde_json::Value, path: String, paths: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(map) => map.iter().for_each(|(key, value)| collect(value, format!("{path}/{key}"), paths)),
        serde_json::Value::Array(list) => {
            list.iter().enumerate().take(3).for_each(|(index, value)| collect(value, format!("{path}/{index}"), paths));
        }
        _ => {}
    }
    paths.push(path);
}

#[test]
fn a_file_of_another_version_or_none_at_all_is_named_as_such() {
    let complaint = |text: &str| Model::from_json(text).unwrap_err().to_string();
    assert_eq!(
        complaint("{\"schema\": \"seekwise-model 9\"}"),
        "its schema is \"seekwise-model 9\"; this program reads \"seekwise-model 1\""
    );
    for text in ["", "[]", "{}", "seekwise", "{\"schema\": 1}"] {
        assert!(complaint(text).starts_with("not a model: "), "{text}");
    }
    assert!(complaint(&"[".repeat(100_000)).starts_with("not a model: "));
}

#[test]
fn a_tree_that_never_ends_or_has_nodes_too_many_is_refused() {
    let model = trained(&blobs(60, 2, 2, 0.5, 1), research::model::learner("c4.5").unwrap());
    let whole: serde_json::Value = serde_json::from_str(&model.to_json().unwrap()).unwrap();
    let with_nodes = |change: &dyn Fn(&mut Vec<serde_json::Value>)| {
        let mut broken = whole.clone();
        change(broken["body"]["nodes"].as_array_mut().unwrap());
        Model::from_json(&broken.to_string()).unwrap_err().to_string()
    };
    let asking = whole["body"]["nodes"][0].clone();
    assert!(with_nodes(&|nodes| *nodes = vec![asking.clone(); 100_000]).contains("deeper than"));
    assert!(with_nodes(&|nodes| nodes.truncate(1)).contains("a branch has no node"));
    assert!(with_nodes(&|nodes| nodes.push(asking.clone())).contains("more nodes than the tree has"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_text_makes_reading_rows_panic(text in "([a-c0-9.,?eE\"\n -]|inf|nan){0,80}") {
        if let Ok(data) = research::model::read_csv(text.as_bytes(), &research::model::Columns::default()) {
            let _ = data.check();
        }
    }
}
