//! C4.5: a decision tree; each split tests one feature.
//!
//! Quinlan, "C4.5: Programs for Machine Learning" (1993), with the penalty for continuous features of release 8 ("Improved Use of
//! Continuous Attributes in C4.5", 1996). Weka's J48 is the reference: on rows without ties in gain ratio the trees are the same.

mod grow;
mod leaf_error;
mod prune;

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::class::largest;
use super::{Buffers, Classifier, Examples, Learner, ModelError, Names, Parameter, Preparation};

/// Maximum depth of trees that are grown or read from a file: traversal must not exhaust the stack.
const MAX_DEPTH: usize = 500;

/// The learner.
pub struct C45;

impl C45 {
    /// The name on the command line.
    pub(super) const NAME: &str = "c4.5";
}

impl Learner for C45 {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn summary(&self) -> &'static str {
        "decision tree: gain ratio, pessimistic pruning with subtree raising, missing values as fractions of rows"
    }

    fn source(&self) -> &'static str {
        "Quinlan, C4.5: Programs for Machine Learning, 1993; release 8"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "confidence",
                doc: "Confidence level of the error bound for pruning: smaller values prune more.",
                candidates: &[0.25, 0.1, 0.02],
                min: 0.001,
                max: 0.5,
                is_whole: false,
            },
            Parameter {
                name: "min_rows",
                doc: "Minimum rows in at least two branches of a split.",
                candidates: &[2.0, 5.0],
                min: 1.0,
                max: 1e6,
                is_whole: true,
            },
        ]
    }

    fn preparation(&self) -> Preparation {
        Preparation::None
    }

    fn fit(&self, examples: &Examples, parameters: &[f64], _seed: u64) -> Result<Box<dyn Classifier>, ModelError> {
        let &[confidence, min_rows] = parameters else {
            return Err(ModelError::Fit { learner: self.name(), message: "expected two hyper-parameters".to_owned() });
        };
        let rows: grow::Weighted = examples.weights.iter().enumerate().map(|(row, &weight)| (row, weight)).collect();
        let mut root = grow::grow(examples, min_rows, &rows);
        prune::Pruner { examples, confidence }.prune_all(&mut root, &rows);
        Ok(Box::new(Tree { root }))
    }

    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String> {
        let stored: Stored = serde_json::from_value(body).map_err(|error| error.to_string())?;
        let mut nodes = stored.nodes.into_iter();
        let root = Node::load(&mut nodes, 0)?;
        if nodes.next().is_some() {
            return Err("more nodes than the tree has".to_owned());
        }
        root.check(features, classes)?;
        Ok(Box::new(Tree { root }))
    }
}

/// A trained tree.
#[derive(Clone, Debug, PartialEq)]
struct Tree {
    root: Node,
}

/// A split or a leaf.
#[derive(Clone, Debug, PartialEq)]
struct Node {
    /// Weight of the training rows of each class that reach this node.
    counts: Vec<f64>,
    /// The split; `None` at a leaf.
    question: Option<Box<Split>>,
}

/// A test whether a feature is at most a threshold.
#[derive(Clone, Debug, PartialEq)]
struct Split {
    /// Index of the feature.
    feature: usize,
    /// The threshold.
    threshold: f64,
    /// The share of rows with a value that went to the first branch: the fraction of a row without one that goes there.
    share: f64,
    /// For values up to the threshold, and above it.
    branches: [Node; 2],
}

/// The file format of a tree: a list of nodes, as nested ones could exceed a JSON parser's depth.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    /// In depth-first order: a split is followed by the nodes of its first branch, then of its second.
    nodes: Vec<StoredNode>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNode {
    counts: Vec<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    asks: Option<StoredSplit>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredSplit {
    feature: usize,
    threshold: f64,
    share: f64,
}

impl Split {
    /// The fraction of a row with this value that goes to each branch.
    fn shares(&self, value: f64) -> [f64; 2] {
        if value.is_nan() {
            [self.share, 1.0 - self.share]
        } else if value <= self.threshold {
            [1.0, 0.0]
        } else {
            [0.0, 1.0]
        }
    }
}

impl Node {
    fn leaf(counts: Vec<f64>) -> Node {
        Node { counts, question: None }
    }

    fn total(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Adds each class's probability at the leaves that this row reaches. If no training row reached a leaf, the parent's counts apply.
    fn add_probabilities(&self, row: &[f64], share: f64, parent: &[f64], probabilities: &mut [f64]) {
        let counts = if self.total() > 0.0 { &self.counts } else { parent };
        let Some(question) = &self.question else {
            // Laplace's estimate: one more row per class. It preserves the order of the classes and excludes none.
            let total: f64 = counts.iter().sum::<f64>() + counts.len() as f64;
            probabilities.iter_mut().zip(counts).for_each(|(sum, count)| *sum += share * (count + 1.0) / total);
            return;
        };
        let value = row.get(question.feature).copied().unwrap_or(f64::NAN);
        for (branch, part) in question.branches.iter().zip(question.shares(value)) {
            if part > 0.0 {
                branch.add_probabilities(row, share * part, counts, probabilities);
            }
        }
    }

    fn store(&self, nodes: &mut Vec<StoredNode>) {
        let asks =
            self.question.as_deref().map(|&Split { feature, threshold, share, .. }| StoredSplit { feature, threshold, share });
        nodes.push(StoredNode { counts: self.counts.clone(), asks });
        self.question.iter().flat_map(|question| &question.branches).for_each(|branch| branch.store(nodes));
    }

    fn load(nodes: &mut impl Iterator<Item = StoredNode>, depth: usize) -> Result<Node, String> {
        if depth > MAX_DEPTH {
            return Err(format!("the tree is deeper than {MAX_DEPTH}"));
        }
        let StoredNode { counts, asks } = nodes.next().ok_or("a branch has no node")?;
        let Some(StoredSplit { feature, threshold, share }) = asks else { return Ok(Node::leaf(counts)) };
        let branches = [Node::load(nodes, depth + 1)?, Node::load(nodes, depth + 1)?];
        Ok(Node { counts, question: Some(Box::new(Split { feature, threshold, share, branches })) })
    }

    fn check(&self, features: usize, classes: usize) -> Result<(), String> {
        let are_counts = self.counts.len() == classes && self.counts.iter().all(|count| *count >= 0.0);
        if !are_counts || !self.total().is_finite() {
            return Err(format!("a node has counts {:?}; there should be {classes}, none negative", self.counts));
        }
        let Some(question) = &self.question else { return Ok(()) };
        if question.feature >= features {
            return Err(format!("a node asks about feature {} of {features}; they count from 0", question.feature));
        }
        if !question.threshold.is_finite() || !(0.0..=1.0).contains(&question.share) {
            return Err(format!("a node has threshold {} and share {}", question.threshold, question.share));
        }
        question.branches.iter().try_for_each(|branch| branch.check(features, classes))
    }

    fn size(&self) -> (usize, usize) {
        let Some(question) = &self.question else { return (1, 1) };
        let [(first, first_leaves), (second, second_leaves)] = question.branches.each_ref().map(Node::size);
        (1 + first + second, first_leaves + second_leaves)
    }

    /// A leaf's class, its rows, and how many of them belong to other classes.
    fn verdict(&self, names: &Names) -> String {
        let best = largest(&self.counts);
        let (total, errors) = (self.total(), self.total() - self.counts[best]);
        let class = names.class(best);
        if errors > 1e-9 { format!("{class} ({total:.1}/{errors:.1})") } else { format!("{class} ({total:.1})") }
    }

    fn describe(&self, names: &Names, depth: usize, text: &mut String) {
        let Some(question) = &self.question else { return };
        for (branch, sign) in question.branches.iter().zip(["<=", ">"]) {
            let indent = "|   ".repeat(depth);
            let asked = format!("{indent}{} {sign} {}", names.feature(question.feature), names.number(question.threshold));
            // Writing to a String cannot fail.
            let _ = match branch.question {
                None => writeln!(text, "{asked}: {}", branch.verdict(names)),
                Some(_) => writeln!(text, "{asked}"),
            };
            branch.describe(names, depth + 1, text);
        }
    }
}

impl Classifier for Tree {
    fn scores(&self, row: &[f64], _buffers: &mut Buffers, scores: &mut [f64]) {
        scores.fill(0.0);
        self.root.add_probabilities(row, 1.0, &self.root.counts, scores);
        scores.iter_mut().for_each(|score| *score = score.ln());
    }

    fn describe(&self, names: &Names, text: &mut String) {
        let (size, leaves) = self.root.size();
        let _ = writeln!(text, "A tree of {size} nodes, {leaves} of them leaves. A leaf: class (training rows/misclassified).");
        let _ = writeln!(text);
        if self.root.question.is_none() {
            let _ = writeln!(text, "{}", self.root.verdict(names));
        }
        self.root.describe(names, 0, text);
    }

    fn body(&self) -> serde_json::Value {
        let mut nodes = Vec::new();
        self.root.store(&mut nodes);
        serde_json::json!(Stored { nodes })
    }
}
