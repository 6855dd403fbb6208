//! Serialised form of a tree.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::examples::{Examples, MOST_SCALES};
use super::{IS_LEAF, Leaf, MAX_DEPTH, Node, Tree};

/// Header of a tree, with the version of the format.
const SCHEMA: &str = "seekwise-regression-tree 1";

/// Why a tree could not be read or grown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeError(String);

impl fmt::Display for TreeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TreeError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: String,
    features: Vec<String>,
    scales: Vec<usize>,
    nodes: Vec<Node>,
    leaves: Vec<Leaf>,
    influence: Vec<f64>,
}

impl Serialize for Tree {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Tree { features, scales, nodes, leaves, influence } = self.clone();
        Stored { schema: SCHEMA.to_owned(), features, scales, nodes, leaves, influence }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Tree, D::Error> {
        let Stored { schema, features, scales, nodes, leaves, influence } = Stored::deserialize(deserializer)?;
        let wrong = |message: String| <D::Error as serde::de::Error>::custom(format!("this is no regression tree: {message}"));
        if schema != SCHEMA {
            return Err(wrong(format!("its schema is {schema:?}; this program reads {SCHEMA:?}")));
        }
        let tree = Tree { features, scales, nodes, leaves, influence };
        tree.check().map_err(wrong)?;
        Ok(tree)
    }
}

/// Checks that examples are valid.
pub(super) fn check_examples(examples: &Examples, features: &[&str], scales: &[usize]) -> Result<(), TreeError> {
    let wrong = |message: String| Err(TreeError(message));
    let rows = examples.len();
    if rows == 0 || rows >= IS_LEAF as usize {
        return wrong(format!("{rows} rows to learn from; there should be 1 to 2,147,483,647"));
    }
    if examples.columns.len() != features.len() || features.is_empty() {
        return wrong(format!("{} columns of {} features", examples.columns.len(), features.len()));
    }
    if let Some(length) = examples.columns.iter().map(Vec::len).find(|length| *length != rows) {
        return wrong(format!("a column has {length} values; there are {rows} rows"));
    }
    check_scales(scales, features.len()).or_else(wrong)
}

fn check_scales(scales: &[usize], features: usize) -> Result<(), String> {
    match scales.iter().find(|scale| **scale >= features) {
        Some(scale) => Err(format!("scale {scale} is none of the {features} features; they count from 0")),
        None if scales.len() > MOST_SCALES => Err(format!("there are {} scales; {MOST_SCALES} is the most", scales.len())),
        None => Ok(()),
    }
}

impl Tree {
    /// Checks the invariants of predictions: branches lead to later nodes, which guarantees termination, and to existing leaves.
    fn check(&self) -> Result<(), String> {
        check_scales(&self.scales, self.features.len())?;
        if self.leaves.len() != self.nodes.len() + 1 {
            return Err(format!(
                "{} nodes and {} leaves; a tree has one leaf more than nodes",
                self.nodes.len(),
                self.leaves.len()
            ));
        }
        if self.influence.len() != self.features.len() || self.influence.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return Err("there should be an influence of 0 to 1 for each feature".to_owned());
        }
        let mut depths = vec![None; self.nodes.len()];
        if let Some(root) = depths.first_mut() {
            *root = Some(0);
        }
        let mut is_reached = vec![self.nodes.is_empty(); self.leaves.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            let depth = depths[number].filter(|depth| *depth < MAX_DEPTH);
            let depth = depth.ok_or_else(|| format!("node {number} is not reached within {MAX_DEPTH} questions"))?;
            self.check_node(number, node)?;
            for branch in node.branches {
                match branch & IS_LEAF {
                    0 => depths[branch as usize] = Some(depth + 1),
                    _ => is_reached[(branch & !IS_LEAF) as usize] = true,
                }
            }
        }
        if let Some(number) = is_reached.iter().position(|reached| !reached) {
            return Err(format!("leaf {number} is not reached"));
        }
        self.leaves.iter().enumerate().try_for_each(|(number, leaf)| self.check_leaf(number, leaf))
    }

    fn check_node(&self, number: usize, node: &Node) -> Result<(), String> {
        if node.feature as usize >= self.features.len() || node.threshold.is_nan() {
            return Err(format!("node {number} asks about feature {} and {}", node.feature, node.threshold));
        }
        let is_there = |branch: u32| match branch & IS_LEAF {
            0 => (branch as usize) > number && (branch as usize) < self.nodes.len(),
            _ => ((branch & !IS_LEAF) as usize) < self.leaves.len(),
        };
        match node.branches.iter().find(|branch| !is_there(**branch)) {
            Some(branch) => Err(format!("node {number} leads to {branch}, which is no later node and no leaf")),
            None => Ok(()),
        }
    }

    fn check_leaf(&self, number: usize, leaf: &Leaf) -> Result<(), String> {
        let Leaf { base, slope, least, most, quantiles, .. } = *leaf;
        let are_numbers = [base, slope].iter().chain(&quantiles).all(|value| value.is_finite());
        let is_there = slope == 0.0 || (leaf.feature as usize) < self.features.len();
        if !(are_numbers && is_there && least > 0.0 && least <= most && most.is_finite()) {
            return Err(format!("leaf {number} says {base} + {slope} × feature {}, within {least} to {most}", leaf.feature));
        }
        Ok(())
    }
}
