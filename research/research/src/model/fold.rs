//! Splits a training set: each group on one side only, classes spread evenly.

use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use super::dataset::Examples;

/// The fold of each row, from 0, and the number of folds, which is lower than `folds` if there are fewer groups. Groups are assigned in seeded
/// random order, the largest first, to the fold where their classes are rarest.
pub fn folds(examples: &Examples, folds: usize, seed: u64) -> (Vec<usize>, usize) {
    let mut rows: Vec<usize> = (0..examples.rows.len()).collect();
    rows.sort_by_key(|&row| examples.groups[row]);
    let mut groups: Vec<&[usize]> = rows.chunk_by(|&a, &b| examples.groups[a] == examples.groups[b]).collect();
    groups.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(seed));
    groups.sort_by_key(|group| std::cmp::Reverse(group.len()));
    let folds = folds.min(groups.len()).max(1);
    let mut counts = vec![vec![0usize; examples.classes]; folds];
    let mut sizes = vec![0usize; folds];
    let totals = examples.class_counts();
    let mut fold_of = vec![0; examples.rows.len()];
    for group in groups {
        let crowd = |fold: usize| -> f64 {
            group.iter().map(|&row| examples.labels[row]).map(|class| counts[fold][class] as f64 / totals[class] as f64).sum()
        };
        let crowds: Vec<f64> = (0..folds).map(crowd).collect();
        let rarest = (0..folds).min_by(|&a, &b| crowds[a].total_cmp(&crowds[b]).then(sizes[a].cmp(&sizes[b]))).unwrap_or(0);
        for &row in group {
            fold_of[row] = rarest;
            counts[rarest][examples.labels[row]] += 1;
        }
        sizes[rarest] += group.len();
    }
    (fold_of, folds)
}

/// The rows outside a fold, and those in it.
pub fn split(fold_of: &[usize], fold: usize) -> (Vec<usize>, Vec<usize>) {
    (0..fold_of.len()).partition(|&row| fold_of[row] != fold)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn examples(labels: Vec<usize>, groups: Vec<u64>) -> Examples {
        let rows = vec![vec![0.0]; labels.len()];
        Examples { weights: vec![1.0; rows.len()], classes: labels.iter().max().unwrap() + 1, rows, labels, groups }
    }

    #[test]
    fn a_group_never_stands_on_both_sides_and_classes_are_spread_evenly() {
        let labels: Vec<usize> = (0..300).map(|row| (row / 10) % 3).collect();
        let groups: Vec<u64> = (0..300).map(|row| row / 10).collect();
        let examples = examples(labels, groups);
        let (fold_of, count) = folds(&examples, 5, 1);
        assert_eq!(count, 5);
        for group in 0..30 {
            assert!((0..10).all(|row| fold_of[group * 10 + row] == fold_of[group * 10]));
        }
        for fold in 0..5 {
            let (_, held_out) = split(&fold_of, fold);
            let of_class = |class| held_out.iter().filter(|&&row| examples.labels[row] == class).count();
            assert_eq!([of_class(0), of_class(1), of_class(2)], [20, 20, 20]);
        }
    }

    #[test]
    fn there_are_no_more_folds_than_groups() {
        assert_eq!(folds(&examples(vec![0, 1, 0, 1], vec![7, 7, 9, 9]), 5, 1).1, 2);
        assert_eq!(folds(&examples(vec![0, 1], vec![7, 7]), 5, 1).1, 1);
    }
}
