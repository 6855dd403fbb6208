//! How good the learners are.

use research::model::{Evaluation, learner};

use super::made::{blobs, dataset, moons, normal, random, xor};
use super::{accuracy, options, trained, try_to_train, with_each};

#[test]
fn every_learner_tells_clouds_apart() {
    let (seen, unseen) = (blobs(200, 6, 5, 1.0, 1), blobs(500, 6, 5, 1.0, 2));
    with_each(|learner| {
        let found = accuracy(&trained(&seen, learner), &unseen);
        // The tree cuts along one axis at a time: that is worse here.
        let bound = if learner.name() == "c4.5" { 0.80 } else { 0.92 };
        assert!(found >= bound, "{}: {found}", learner.name());
    });
}

#[test]
fn every_learner_follows_half_circles_as_far_as_its_kind_can() {
    let (seen, unseen) = (moons(200, 1), moons(500, 2));
    with_each(|learner| {
        let found = accuracy(&trained(&seen, learner), &unseen);
        let bound = if ["logistic", "naive-bayes"].contains(&learner.name()) { 0.82 } else { 0.94 };
        assert!(found >= bound, "{}: {found}", learner.name());
    });
}

/// No line and no pair of bells can tell these apart; and every single question gains nothing, which is what a greedy tree goes by.
#[test]
fn exclusive_or_is_learned_by_what_is_not_linear() {
    let (seen, unseen) = (xor(200, 1), xor(400, 2));
    for name in ["perceptron", "svm"] {
        let found = accuracy(&trained(&seen, learner(name).unwrap()), &unseen);
        assert!(found >= 0.97, "{name}: {found}");
    }
    let found = accuracy(&trained(&seen, learner("logistic").unwrap()), &unseen);
    assert!((0.3..0.7).contains(&found), "a linear model should be near chance: {found}");
}

#[test]
fn what_spans_orders_of_magnitude_is_learned_too() {
    let mut random = random(3);
    let labels: Vec<usize> = (0..300).map(|row| row % 3).collect();
    let rows = labels.iter().map(|&label| vec![(2.5 * label as f64 + normal(&mut random)).exp() * 1e4, 0.5]).collect();
    let data = dataset(2, 3, rows, labels);
    with_each(|learner| {
        let found = accuracy(&trained(&data, learner), &data);
        assert!(found >= 0.82, "{}: {found}", learner.name());
    });
}

#[test]
fn confidences_are_as_high_as_the_answers_are_right() {
    let (seen, unseen) = (blobs(400, 6, 4, 2.0, 1), blobs(1000, 6, 4, 2.0, 2));
    with_each(|learner| {
        let found = Evaluation::of(&trained(&seen, learner), &unseen).unwrap();
        let gap = (found.accuracy - found.mean_confidence).abs();
        assert!(gap < 0.06, "{}: right {}, sure {}", learner.name(), found.accuracy, found.mean_confidence);
    });
}

#[test]
fn balanced_learning_finds_the_rare_class_more_often() {
    let mut data = blobs(400, 2, 2, 2.5, 1);
    let rare = |row: usize, label: usize| label == 0 || row % 16 == 1;
    let kept: Vec<usize> = (0..400).filter(|&row| rare(row, data.labels[row])).collect();
    data.rows = kept.iter().map(|&row| data.rows[row].clone()).collect();
    data.labels = kept.iter().map(|&row| data.labels[row]).collect();
    let unseen = blobs(600, 2, 2, 2.5, 2);
    with_each(|learner| {
        let recall = |balanced| {
            let model = try_to_train(&data, learner, &research::model::Options { balanced, ..options() }).unwrap();
            Evaluation::of(&model, &unseen).unwrap().classes[1].recall.unwrap()
        };
        let (plain, balanced) = (recall(false), recall(true));
        assert!(balanced > plain + 0.1, "{}: {plain} unbalanced, {balanced} balanced", learner.name());
    });
}

#[test]
fn rows_count_by_their_weight() {
    // The same place is of both classes; the weights say which one counts.
    let mut data = blobs(80, 2, 2, 0.5, 1);
    let opposite: Vec<usize> = data.labels.iter().map(|label| 1 - label).collect();
    data.rows.extend(data.rows.clone());
    data.labels.extend(opposite);
    let truth = blobs(200, 2, 2, 0.5, 2);
    with_each(|learner| {
        for heavy_first in [true, false] {
            data.weights = (0..160).map(|row| if (row < 80) == heavy_first { 9.0 } else { 1.0 }).collect();
            let found = accuracy(&trained(&data, learner), &truth);
            assert_eq!(found > 0.9, heavy_first, "{}: {found}", learner.name());
            assert_eq!(found < 0.1, !heavy_first, "{}: {found}", learner.name());
        }
    });
}

/// Each of eight runs has a place of its own, and neighbours are of different classes: whoever saw other windows of the run knows the
/// class, whoever did not takes it for its neighbour.
#[test]
fn windows_of_one_run_never_judge_a_model_that_saw_the_others() {
    let mut random = random(5);
    let labels: Vec<usize> = (0..240).map(|row| (row / 30) % 2).collect();
    let rows = (0..240).map(|row| vec![(row / 30) as f64 + 0.05 * normal(&mut random)]).collect();
    let mut data = dataset(1, 2, rows, labels);
    let validated = |data: &_| trained(data, learner("c4.5").unwrap()).training().cross_validated_accuracy.unwrap();
    let apart = validated(&data);
    data.groups = (0..240).map(|row| row / 30).collect();
    let together = validated(&data);
    assert!(apart > 0.95 && together < 0.5, "{apart} with leaks, {together} without");
}

#[test]
fn ten_thousand_rows_are_learned_from() {
    let (seen, unseen) = (blobs(10_000, 10, 5, 1.5, 1), blobs(500, 10, 5, 1.5, 2));
    with_each(|learner| {
        let options = research::model::Options { folds: 2, tuning_rows: 100, ..options() };
        let model = try_to_train(&seen, learner, &options).unwrap();
        assert_eq!(model.training().rows, 10_000);
        let found = accuracy(&model, &unseen);
        assert!(found > 0.6, "{}: {found}", learner.name());
    });
}
