//! How long a regression tree takes to predict: a thousand leaves, 23 features. The bar is 100 ns.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "the macros of criterion write undocumented items; a benchmark that cannot run should fail"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use device_model::regression::{Examples, Growth};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const FEATURES: usize = 23;

fn predict(criterion: &mut Criterion) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let names: Vec<String> = (0..FEATURES).map(|number| format!("f{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut examples = Examples::new(FEATURES);
    let rows: Vec<Vec<f64>> = (0..20_000).map(|_| (0..FEATURES).map(|_| random.random_range(0.1..1.0)).collect()).collect();
    for row in &rows {
        let (a, b, c): (f64, f64, f64) = (row[0], row[1], row[2]);
        examples.push(row, 1.0 + (20.0 * a).sin() * (20.0 * b).cos() * 0.5 + (9.0 * c).floor());
    }
    let tree = Growth { held_out: 0, ..Growth::default() }.grow(&examples, &names, &[18]).unwrap();
    assert!(tree.leaves() > 1000, "{} leaves", tree.leaves());
    let mut next = 0;
    criterion.bench_function("regression tree", |bencher| {
        bencher.iter(|| {
            next = (next + 1) % rows.len();
            tree.predict(&rows[next])
        })
    });
}

criterion_group!(benches, predict);
criterion_main!(benches);
