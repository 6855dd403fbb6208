//! A tree as text for display.

use std::fmt::Write as _;

use super::{IS_LEAF, Leaf, Tree};

impl Tree {
    /// Splits with their predictions, indented by depth: the mean, in brackets the 10th and 90th percentile, and
    /// the number of rows.
    pub fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "A tree of {} questions and {} leaves, {} deep. A leaf: mean (p10 to p90, as times the mean; rows).",
            self.nodes.len(),
            self.leaves.len(),
            self.depth()
        );
        match self.nodes.is_empty() {
            true => self.leaves.iter().for_each(|leaf| _ = writeln!(text, "{}", self.leaf_text(leaf))),
            false => self.branch_text(0, 0, &mut text),
        }
        self.influence_text(&mut text);
        text
    }

    fn branch_text(&self, number: u32, depth: usize, text: &mut String) {
        let node = &self.nodes[number as usize];
        for (branch, sign) in node.branches.into_iter().zip(["<=", ">"]) {
            let indent = "|   ".repeat(depth);
            let _ = write!(text, "{indent}{} {sign} {}", self.features[node.feature as usize], digits(node.threshold));
            if branch & IS_LEAF == 0 {
                let _ = writeln!(text);
                self.branch_text(branch, depth + 1, text);
            } else {
                let _ = writeln!(text, ": {}", self.leaf_text(&self.leaves[(branch & !IS_LEAF) as usize]));
            }
        }
    }

    fn leaf_text(&self, leaf: &Leaf) -> String {
        let Leaf { base, slope, rows, quantiles: [p10, _, p90], .. } = *leaf;
        let line = match self.features.get(leaf.feature as usize).filter(|_| slope != 0.0) {
            Some(name) if base == 0.0 => format!("{} × {name}", digits(slope)),
            Some(name) => format!("{} + {} × {name}", digits(base), digits(slope)),
            None => digits(base),
        };
        format!("{line} ({p10:.2} to {p90:.2}; {rows})")
    }

    fn influence_text(&self, text: &mut String) {
        let mut order: Vec<usize> = (0..self.features.len()).filter(|&feature| self.influence[feature] > 0.0005).collect();
        order.sort_by(|&a, &b| self.influence[b].total_cmp(&self.influence[a]));
        if !order.is_empty() {
            let _ = writeln!(text, "\nWhat questions tell, in percent of all that they tell");
        }
        for feature in order {
            let _ = writeln!(text, "  {:5.1}  {}", self.influence[feature] * 100.0, self.features[feature]);
        }
    }
}

/// A number with four significant digits.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor();
    if !(-5.0..=15.0).contains(&magnitude) {
        return format!("{value:.3e}");
    }
    let decimals = (3.0 - magnitude).max(0.0) as usize;
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}
