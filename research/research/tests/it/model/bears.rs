//! What the learners bear: missing values, columns that say nothing, too little of everything, and numbers at the ends of their range.

use research::model::{Dataset, ModelError, learner};

use super::made::{blobs, dataset};
use super::{accuracy, options, trained, try_to_train, with_each};

#[test]
fn missing_values_cost_some_accuracy_and_nothing_else() {
    let holes = |mut data: Dataset| {
        for (number, value) in data.rows.iter_mut().flatten().enumerate() {
            *value = if number % 7 == 3 { f64::NAN } else { *value };
        }
        data
    };
    let (seen, unseen) = (holes(blobs(250, 6, 5, 0.8, 1)), holes(blobs(400, 6, 5, 0.8, 2)));
    with_each(|learner| {
        let model = trained(&seen, learner);
        let found = accuracy(&model, &unseen);
        assert!(found > 0.7, "{}: {found}", learner.name());
        let prediction = model.predict(&[f64::NAN; 6]);
        assert!((prediction.probabilities.iter().sum::<f64>() - 1.0).abs() < 1e-9, "{}: {prediction:?}", learner.name());
    });
}

#[test]
fn constant_and_empty_columns_change_nothing_much() {
    let mut data = blobs(150, 3, 3, 0.8, 1);
    data.features.extend(["constant".to_owned(), "never".to_owned()]);
    data.rows.iter_mut().for_each(|row| row.extend([4096.1, f64::NAN]));
    with_each(|learner| {
        let model = trained(&data, learner);
        assert!(accuracy(&model, &data) > 0.9, "{}", learner.name());
        let elsewhere = model.predict(&[4.0, 0.0, 0.0, -1e9, 1e9]);
        assert_eq!(elsewhere.class, model.predict(&[4.0, 0.0, 0.0, 4096.1, f64::NAN]).class, "{}", learner.name());
    });
}

#[test]
fn of_one_class_that_class_is_learned_and_classes_without_rows_are_left_out() {
    let mut data = blobs(20, 2, 1, 1.0, 1);
    data.classes.insert(0, "nobody".to_owned());
    data.labels.fill(1);
    with_each(|learner| {
        let model = trained(&data, learner);
        assert_eq!(model.classes(), ["c0"], "{}", learner.name());
        let prediction = model.predict(&[0.0, 0.0]);
        assert_eq!((prediction.class, prediction.confidence), (0, 1.0), "{}", learner.name());
        assert!(model.text().contains(learner.name()));
    });
}

#[test]
fn two_rows_are_enough() {
    for labels in [vec![0, 1], vec![0, 0]] {
        let data = dataset(1, 2, vec![vec![0.0], vec![1.0]], labels);
        with_each(|learner| {
            let prediction = trained(&data, learner).predict(&[0.2]);
            assert!(prediction.confidence.is_finite(), "{}: {prediction:?}", learner.name());
        });
    }
    with_each(|learner| {
        let one = trained(&dataset(1, 1, vec![vec![5.0]], vec![0]), learner);
        assert_eq!(one.training().cross_validated_accuracy, None);
    });
}

#[test]
fn huge_tiny_and_infinite_values_give_finite_answers() {
    let ends = [f64::MAX, -f64::MAX, f64::MIN_POSITIVE, 1e300, -1e-300, 0.0];
    let rows = (0..60).map(|row| vec![ends[row % 6], ends[row / 6 % 6], row as f64]).collect();
    let data = dataset(3, 2, rows, (0..60).map(|row| row / 30).collect());
    with_each(|learner| {
        let model = trained(&data, learner);
        for value in ends.into_iter().chain([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]) {
            for row in [vec![value; 3], vec![value, 0.0, 3.0], vec![value], vec![value; 9]] {
                let prediction = model.predict(&row);
                let sum: f64 = prediction.probabilities.iter().sum();
                assert!((sum - 1.0).abs() < 1e-9, "{} at {row:?}: {prediction:?}", learner.name());
            }
        }
    });
}

#[test]
fn what_is_no_data_set_is_refused_with_the_reason() {
    let good = || blobs(10, 2, 2, 1.0, 1);
    let complaint = |break_it: &dyn Fn(&mut Dataset)| {
        let mut data = good();
        break_it(&mut data);
        try_to_train(&data, learner("c4.5").unwrap(), &options()).unwrap_err().to_string()
    };
    for (break_it, words) in [
        (&(|data: &mut Dataset| data.rows.clear()) as &dyn Fn(&mut Dataset), "no rows"),
        (&|data| *data = Dataset { rows: vec![Vec::new()], ..Dataset::default() }, "no features"),
        (&|data| data.features[1] = "f0".to_owned(), "duplicate feature 'f0'"),
        (&|data| data.classes[1] = "c0".to_owned(), "duplicate class 'c0'"),
        (&|data| data.labels.truncate(3), "3 labels for 10 rows"),
        (&|data| data.weights = vec![1.0], "1 weights for 10 rows"),
        (&|data| data.groups = vec![1; 11], "11 groups for 10 rows"),
        (&|data| data.rows[3].truncate(1), "row 4: 1 values for 2 features"),
        (&|data| data.rows[3][1] = f64::INFINITY, "row 4: f1 is inf"),
        (&|data| data.labels[3] = 2, "row 4: class 2 of 2"),
        (&|data| data.weights = vec![-1.0; 10], "row 1: weight -1"),
        (&|data| data.weights = vec![f64::NAN; 10], "row 1: weight NaN"),
        (&|data| data.weights = vec![0.0; 10], "every row has weight 0"),
    ] {
        let found = complaint(break_it);
        assert!(found.contains(words), "{found:?} should say {words:?}");
    }
}

#[test]
fn hyper_parameters_that_a_learner_cannot_have_are_refused() {
    let complaint = |name: &str, value: f64| {
        let options = research::model::Options { fixed: [(name.to_owned(), value)].into(), ..options() };
        try_to_train(&blobs(10, 2, 2, 1.0, 1), learner("c4.5").unwrap(), &options).unwrap_err().to_string()
    };
    assert_eq!(complaint("depth", 3.0), "c4.5: unknown hyper-parameter 'depth'; known: confidence, min_rows");
    assert_eq!(complaint("confidence", 0.7), "c4.5: confidence 0.7 should be a number from 0.001 to 0.5");
    assert_eq!(complaint("min_rows", 2.5), "c4.5: min_rows 2.5 should be a whole number from 1 to 1000000");
    assert!(complaint("confidence", f64::NAN).contains("should be a number"));
    assert_eq!(
        learner("oracle").unwrap_err().to_string(),
        "unknown learner 'oracle'; known: c4.5, logistic, naive-bayes, perceptron, svm"
    );
}

#[test]
fn training_stops_on_request() {
    with_each(|learner| {
        let stopped = research::model::train(&blobs(40, 2, 2, 1.0, 1), learner, &options(), &mut |done, _| done < 1);
        assert_eq!(stopped.unwrap_err(), ModelError::Interrupted);
    });
}
