//! Pruning by rows that were held out: a split goes where a leaf in its place is no worse on them.

use super::grow::{Examples, partition};
use super::leaf;

/// A tree before its leaves are learned.
#[derive(Clone, Debug)]
pub(super) enum Draft {
    /// An answer.
    Leaf,
    /// A question.
    Split {
        /// About which feature.
        feature: usize,
        /// At most so much?
        threshold: f64,
        /// If so, and if not.
        branches: Box<[Draft; 2]>,
    },
}

/// Prunes a tree grown from rows by others (Quinlan, "Simplifying decision trees", 1987: reduced-error pruning).
pub(super) fn prune(draft: &mut Draft, examples: &Examples, scales: &[usize], grown: &[u32], held_out: &[u32]) {
    let (mut grown, mut held_out) = (grown.to_vec(), held_out.to_vec());
    prune_below(draft, examples, scales, &mut grown, &mut held_out);
}

/// Relative errors on the rows held out that come here, after pruning.
fn prune_below(draft: &mut Draft, examples: &Examples, scales: &[usize], grown: &mut [u32], held_out: &mut [u32]) -> f64 {
    let as_leaf = errors(examples, scales, grown, held_out);
    let Draft::Split { feature, threshold, branches } = draft else { return as_leaf };
    let column = &examples.columns[*feature];
    let (at, at_held_out) = (partition(grown, column, *threshold), partition(held_out, column, *threshold));
    let (below, above) = grown.split_at_mut(at);
    let (held_below, held_above) = held_out.split_at_mut(at_held_out);
    let as_split = prune_below(&mut branches[0], examples, scales, below, held_below)
        + prune_below(&mut branches[1], examples, scales, above, held_above);
    if as_leaf <= as_split {
        *draft = Draft::Leaf;
        return as_leaf;
    }
    as_split
}

fn errors(examples: &Examples, scales: &[usize], grown: &[u32], held_out: &[u32]) -> f64 {
    if held_out.is_empty() || grown.is_empty() {
        return 0.0;
    }
    let leaf = leaf::fit(examples, scales, grown);
    let error = |&row: &u32| {
        let target = examples.targets[row as usize];
        (examples.answer(&leaf, row) / target).ln().abs()
    };
    held_out.iter().map(error).sum()
}
