//! Prunes by held-out rows: a split stays if it is significantly better on them than a leaf.

use super::examples::Examples;
use super::leaf;
use crate::grow::Draft;

/// Prunes a tree by rows that it was not grown from (Quinlan, "Simplifying decision trees", 1987: reduced-error pruning). The gain of a split
/// must exceed its standard error (as in Breiman et al., "Classification and Regression Trees", section 3.4.3), as half of the splits on
/// noise gain something by chance.
pub(super) fn prune(draft: &mut Draft, examples: &Examples, scales: &[usize], grown: &[u32], held_out: &[u32]) {
    let (mut grown, mut held_out) = (grown.to_vec(), held_out.to_vec());
    prune_below(draft, examples, scales, &mut grown, &mut held_out);
}

/// Prunes a subtree; returns the error of each held-out row that reaches it afterwards, in the order in which the rows are left.
fn prune_below(draft: &mut Draft, examples: &Examples, scales: &[usize], grown: &mut [u32], held_out: &mut [u32]) -> Vec<f64> {
    let Draft::Split(split, branches) = draft else { return errors(examples, scales, grown, held_out) };
    let split_rows = |rows: &mut [u32]| examples.partition(rows, split.feature, split.threshold);
    let (at, at_held_out) = (split_rows(grown), split_rows(held_out));
    let (below, above) = grown.split_at_mut(at);
    let (held_below, held_above) = held_out.split_at_mut(at_held_out);
    let mut as_split = prune_below(&mut branches[0], examples, scales, below, held_below);
    as_split.extend(prune_below(&mut branches[1], examples, scales, above, held_above));
    let as_leaf = errors(examples, scales, grown, held_out);
    let (mut gain, mut variance) = (0.0, 0.0);
    for (leaf, split) in as_leaf.iter().zip(&as_split) {
        gain += leaf - split;
        variance += (leaf - split) * (leaf - split);
    }
    if gain > f64::sqrt(variance) {
        return as_split;
    }
    *draft = Draft::Leaf;
    as_leaf
}

/// Error of each held-out row, in logarithms.
fn errors(examples: &Examples, scales: &[usize], grown: &[u32], held_out: &[u32]) -> Vec<f64> {
    if grown.is_empty() {
        return vec![0.0; held_out.len()];
    }
    let leaf = leaf::fit(examples, scales, grown);
    let error = |&row: &u32| {
        let target = examples.targets[row as usize];
        (examples.answer(&leaf, row) / target).ln().abs()
    };
    held_out.iter().map(error).collect()
}
