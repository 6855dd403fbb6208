//! How long one decision takes: five classes, forty features, trained on 2,000 rows. The bar is 50 µs.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "the macros of criterion write undocumented items; a benchmark that cannot run should fail"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use research::model::{ALL, Dataset, Options, Scratch, train};

/// Overlapping clouds, so that there are many support vectors.
fn rows() -> Dataset {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let labels: Vec<usize> = (0..2000).map(|row| row % 5).collect();
    let value = |random: &mut Xoshiro256PlusPlus, feature: usize, label: usize| {
        (0..4).map(|_| random.random_range(-1.0..1.0)).sum::<f64>() + if feature % 5 == label { 0.6 } else { 0.0 }
    };
    Dataset {
        features: (0..40).map(|feature| format!("f{feature}")).collect(),
        classes: (0..5).map(|class| format!("c{class}")).collect(),
        rows: labels.iter().map(|&label| (0..40).map(|feature| value(&mut random, feature, label)).collect()).collect(),
        labels,
        ..Dataset::default()
    }
}

fn decide(criterion: &mut Criterion) {
    let data = rows();
    let options = Options { folds: 2, tuning_rows: 300, ..Options::default() };
    for learner in ALL {
        let model = train(&data, *learner, &options, &mut |_, _| true).unwrap();
        let mut scratch = Scratch::default();
        let mut next = 0;
        criterion.bench_function(learner.name(), |bencher| {
            bencher.iter(|| {
                next = (next + 1) % data.rows.len();
                model.predict_with(&data.rows[next], &mut scratch)
            })
        });
    }
}

criterion_group!(benches, decide);
criterion_main!(benches);
