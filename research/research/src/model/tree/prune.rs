//! Pruning: replaces a subtree by a leaf or by its largest branch unless its expected error is lower.

use super::super::Examples;
use super::super::class::largest;
use super::grow::{counts, share, split};
use super::leaf_error::additional_errors;
use super::{Node, Split};

/// Minimum improvement of a subtree over its replacement, in rows (Weka's margin).
const MARGIN: f64 = 0.1;

/// Prunes a tree by the training rows.
pub struct Pruner<'a> {
    pub examples: &'a Examples,
    /// Confidence of the upper limit of the error estimate.
    pub confidence: f64,
}

impl Pruner<'_> {
    /// Removes branches that do not improve the training error, then those that are not expected to reduce the error on unseen rows.
    pub fn prune_all(&self, root: &mut Node, rows: &[(usize, f64)]) {
        collapse(root);
        self.prune(root, rows);
    }

    fn prune(&self, node: &mut Node, rows: &[(usize, f64)]) {
        let Some(question) = &mut node.question else { return };
        let parts = split(self.examples, rows, question);
        for (branch, part) in question.branches.iter_mut().zip(&parts) {
            self.prune(branch, part);
        }
        let biggest = usize::from(question.branches[1].total() >= question.branches[0].total());
        let raised = self.errors_with(&question.branches[biggest], rows);
        let leaf = self.errors_of_counts(&node.counts);
        let tree = self.errors(node);
        if leaf <= tree + MARGIN && leaf <= raised + MARGIN {
            node.question = None;
        } else if raised <= tree + MARGIN
            && let Some(question) = node.question.take()
        {
            let [first, second] = question.branches;
            *node = if biggest == 0 { first } else { second };
            self.redistribute(node, rows);
            self.prune(node, rows);
        }
    }

    /// Expected errors of a subtree on its training rows.
    fn errors(&self, node: &Node) -> f64 {
        match &node.question {
            None => self.errors_of_counts(&node.counts),
            Some(question) => question.branches.iter().map(|branch| self.errors(branch)).sum(),
        }
    }

    /// Expected errors of a subtree on these rows.
    fn errors_with(&self, node: &Node, rows: &[(usize, f64)]) -> f64 {
        let Some(question) = &node.question else { return self.errors_of_counts(&counts(self.examples, rows)) };
        let parts = split(self.examples, rows, &self.reshared(question, rows));
        question.branches.iter().zip(&parts).map(|(branch, part)| self.errors_with(branch, part)).sum()
    }

    fn errors_of_counts(&self, counts: &[f64]) -> f64 {
        let total: f64 = counts.iter().sum();
        if total <= 0.0 {
            return 0.0;
        }
        // Rounding errors of sums of fractions are not classification errors.
        let errors = total - counts[largest(counts)];
        let errors = if errors < 1e-9 * total { 0.0 } else { errors };
        errors + additional_errors(total, errors, self.confidence)
    }

    /// Moves these rows to a subtree from another place in the tree.
    fn redistribute(&self, node: &mut Node, rows: &[(usize, f64)]) {
        node.counts = counts(self.examples, rows);
        let Some(question) = &mut node.question else { return };
        question.share = share(self.examples, rows, question.feature, question.threshold);
        let parts = split(self.examples, rows, question);
        for (branch, part) in question.branches.iter_mut().zip(&parts) {
            self.redistribute(branch, part);
        }
    }

    /// A copy of the split without its subtrees, with the share of its first branch among these rows.
    fn reshared(&self, question: &Split, rows: &[(usize, f64)]) -> Split {
        let share = share(self.examples, rows, question.feature, question.threshold);
        let branches = [Node::leaf(Vec::new()), Node::leaf(Vec::new())];
        Split { feature: question.feature, threshold: question.threshold, share, branches }
    }
}

/// Replaces subtrees by leaves if they do not improve the training error.
fn collapse(node: &mut Node) {
    let (leaf, tree) = (errors_here(&node.counts), training_errors(node));
    if node.question.is_some() && tree >= leaf - 1e-3 {
        node.question = None;
    } else if let Some(question) = &mut node.question {
        question.branches.iter_mut().for_each(collapse);
    }
}

fn errors_here(counts: &[f64]) -> f64 {
    counts.iter().sum::<f64>() - counts[largest(counts)]
}

fn training_errors(node: &Node) -> f64 {
    match &node.question {
        None => errors_here(&node.counts),
        Some(question) => question.branches.iter().map(training_errors).sum(),
    }
}
