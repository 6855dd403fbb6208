//! Regression trees: learning, and the validation of files.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use device_model::regression::{Examples, Growth, Tree};
use proptest::prelude::*;

const FEATURES: [&str; 2] = ["kind", "size"];

/// Two kinds: one takes a time that grows with the size, the other always the same, give or take a tenth.
fn examples() -> Examples {
    let mut examples = Examples::new(2);
    for number in 0..4000u32 {
        let (kind, size) = (f64::from(number % 2), f64::from(1 + number * 37 % 500));
        // Not a remainder of the number: it would repeat with the sizes, and could be learned.
        let mixed = number.wrapping_mul(0x9e37_79b9) ^ number.wrapping_mul(0x85eb_ca6b) >> 13;
        let noise = 0.9 + 0.2 * f64::from(mixed.wrapping_mul(0xc2b2_ae35) >> 16) / 65_536.0;
        let time = if kind == 0.0 { 2.0 + 0.1 * size } else { 5.0 };
        examples.push(&[kind, size], time * noise);
    }
    examples
}

fn tree() -> Tree {
    Growth::default().grow(&examples(), &FEATURES, &[1]).unwrap()
}

#[test]
fn a_tree_separates_kinds_and_follows_slopes() {
    let tree = tree();
    for size in [3.0, 77.0, 400.0] {
        let grows = tree.predict(&[0.0, size]) / (2.0 + 0.1 * size);
        assert!((grows - 1.0).abs() < 0.05, "{grows} times the right answer for a size of {size}");
        let constant = tree.predict(&[1.0, size]) / 5.0;
        assert!((constant - 1.0).abs() < 0.05, "{constant} times the right answer");
    }
    assert!(tree.leaves() < 40, "{} leaves: noise was learned", tree.leaves());
}

#[test]
fn predictions_add_up_to_the_targets() {
    let (tree, examples) = (tree(), examples());
    let row = |number: usize| [examples.columns[0][number], examples.columns[1][number]];
    let answered: f64 = (0..examples.len()).map(|number| tree.predict(&row(number))).sum();
    let learned: f64 = examples.targets.iter().sum();
    assert!((answered / learned - 1.0).abs() < 0.002, "{answered} of {learned}");
}

#[test]
fn eight_of_ten_are_between_the_outer_quantiles() {
    let (tree, examples) = (tree(), examples());
    let within = (0..examples.len()).filter(|&number| {
        let spread = tree.predict_spread(&[examples.columns[0][number], examples.columns[1][number]]);
        (spread.p10..=spread.p90).contains(&examples.targets[number])
    });
    let share = within.count() as f64 / examples.len() as f64;
    assert!((0.75..0.85).contains(&share), "{share}");
}

#[test]
fn a_tree_reads_back_as_the_same_and_prints_its_questions() {
    let tree = tree();
    let text = serde_json::to_string(&tree).unwrap();
    assert_eq!(serde_json::from_str::<Tree>(&text).unwrap(), tree);
    assert!(tree.text().contains("kind <= 0"), "{}", tree.text());
    assert!(tree.text().contains("× size"), "{}", tree.text());
}

#[test]
fn a_tree_needs_rows() {
    assert!(Growth::default().grow(&Examples::new(2), &FEATURES, &[]).is_err());
    assert!(Growth::default().grow(&examples(), &FEATURES, &[2]).is_err(), "there is no third feature");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Numbers of a file are changed at random: a tree that is accepted predicts for any row.
    #[test]
    fn what_is_read_answers_every_row(at in any::<prop::sample::Index>(), digit in "[0-9]{1,10}", row in prop::array::uniform2(any::<f64>())) {
        let text = serde_json::to_string(&tree_of_few()).unwrap();
        let digits: Vec<usize> = text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(at, _)| at).collect();
        let at = digits[at.index(digits.len())];
        let changed = format!("{}{digit}{}", &text[..at], &text[at + 1..]);
        if let Ok(tree) = serde_json::from_str::<Tree>(&changed) {
            prop_assert!(tree.predict(&row) > 0.0);
            tree.text();
        }
    }
}

fn tree_of_few() -> Tree {
    let mut few = Examples::new(2);
    let all = examples();
    (0..200).for_each(|number| few.push(&[all.columns[0][number], all.columns[1][number]], all.targets[number]));
    Growth::default().grow(&few, &FEATURES, &[1]).unwrap()
}
