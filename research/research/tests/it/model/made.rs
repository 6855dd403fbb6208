//! Rows made from a seed.

use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use research::model::Dataset;

pub fn random(seed: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed)
}

/// Nearly normal, with standard deviation 1.
pub fn normal(random: &mut impl Rng) -> f64 {
    (0..12).map(|_| random.random_range(0.0..1.0)).sum::<f64>() - 6.0
}

pub fn dataset(features: usize, classes: usize, rows: Vec<Vec<f64>>, labels: Vec<usize>) -> Dataset {
    Dataset {
        features: (0..features).map(|number| format!("f{number}")).collect(),
        classes: (0..classes).map(|number| format!("c{number}")).collect(),
        rows,
        labels,
        ..Dataset::default()
    }
}

/// Clouds around a corner per class, `spread` wide; the corners are 4 apart on an axis each.
pub fn blobs(count: usize, features: usize, classes: usize, spread: f64, seed: u64) -> Dataset {
    let mut random = random(seed);
    let labels: Vec<usize> = (0..count).map(|row| row % classes).collect();
    let row = |&label: &usize| (0..features).map(|f| spread * normal(&mut random) + if f == label { 4.0 } else { 0.0 }).collect();
    let rows = labels.iter().map(row).collect();
    dataset(features, classes, rows, labels)
}

/// Two half circles that reach into each other.
pub fn moons(count: usize, seed: u64) -> Dataset {
    let mut random = random(seed);
    let labels: Vec<usize> = (0..count).map(|row| row % 2).collect();
    let row = |&label: &usize| {
        let angle: f64 = random.random_range(0.0..std::f64::consts::PI);
        let (x, y) = if label == 0 { (angle.cos(), angle.sin()) } else { (1.0 - angle.cos(), 0.5 - angle.sin()) };
        vec![x + 0.15 * normal(&mut random), y + 0.15 * normal(&mut random)]
    };
    let rows = labels.iter().map(row).collect();
    dataset(2, 2, rows, labels)
}

/// Four clouds; opposite ones are of one class.
pub fn xor(count: usize, seed: u64) -> Dataset {
    let mut random = random(seed);
    let rows: Vec<Vec<f64>> =
        (0..count).map(|row| [row % 2, row / 2 % 2].map(|side| 2.0 * side as f64 + 0.3 * normal(&mut random)).to_vec()).collect();
    let labels = (0..count).map(|row| (row % 2) ^ (row / 2 % 2)).collect();
    dataset(2, 2, rows, labels)
}
