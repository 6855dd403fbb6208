//! Growing a forest whose trees predict all settings jointly.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use control::gain_model::{GainNode, GainTree, UNITS};
use device_model::grow::{self, Bins, Boundary, Criterion, Draft, Split};
use experiment::chance;
use experiment::pool::Workers;
use rand::Rng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Rows;

/// Number of bins per feature.
const BINS: usize = 64;
/// Maximum depth of a tree.
const MAX_DEPTH: usize = 24;
/// Minimum reduction of the squared error by a split, as a share of the whole sample's.
const LEAST_GAIN: f64 = 1e-5;

/// Parameters of a forest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Growth {
    /// Number of trees.
    pub trees: u32,
    /// Minimum rows on either side of a split.
    pub min_rows: u32,
    /// Share of the features considered at each split.
    pub features: f64,
    /// Seed of the samples.
    pub seed: u64,
}

impl Default for Growth {
    /// Chosen by the error on held-out devices.
    fn default() -> Growth {
        Growth { trees: 100, min_rows: 20, features: 0.4, seed: 1 }
    }
}

/// A trained forest.
pub struct Forest {
    /// The trees.
    pub trees: Vec<GainTree>,
    /// For each tree, the cases in its sample, sorted.
    pub cases: Vec<Vec<u32>>,
}

/// Rows and their gains.
struct Sample<'a> {
    /// By feature, the values of the rows.
    columns: Vec<Vec<f64>>,
    bins: Vec<Bins>,
    gains: &'a [Vec<f32>],
    settings: usize,
}

impl Growth {
    /// Grows a forest from the rows with these indexes. Each tree gets a bootstrap sample of the cases with all their rows, as rows
    /// of a case are similar.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn grow(&self, rows: &Rows, of: &[usize], workers: Workers) -> anyhow::Result<Forest> {
        let gains: Vec<Vec<f32>> = of.iter().map(|&row| rows.rows[row].gains.clone()).collect();
        let all = Sample::new(rows, of, &gains);
        let mut by_case: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        of.iter().enumerate().for_each(|(index, &row)| by_case.entry(rows.rows[row].case).or_default().push(index as u32));
        let cases: Vec<(u32, Vec<u32>)> = by_case.into_iter().collect();
        let numbers: Vec<u32> = (0..self.trees).collect();
        let grown = workers.each(&numbers, |&number| {
            let mut random = chance::source("gain tree", self.seed, number);
            let mut drawn: Vec<usize> = (0..cases.len()).map(|_| random.random_range(0..cases.len())).collect();
            drawn.sort_unstable();
            let sample: Vec<u32> = drawn.iter().flat_map(|&case| cases[case].1.iter().copied()).collect();
            let least = LEAST_GAIN * all.squares(&sample);
            let draft = grow::grow(&mut JointError { all: &all, growth: self, random, least }, &sample, 0);
            let mut tree = GainTree::default();
            all.lay_out(&mut tree, &draft, &sample);
            drawn.dedup();
            Ok((tree, drawn.into_iter().map(|case| cases[case].0).collect()))
        })?;
        let (trees, cases) = grown.into_iter().unzip();
        Ok(Forest { trees, cases })
    }
}

impl<'a> Sample<'a> {
    fn new(rows: &Rows, of: &[usize], gains: &'a [Vec<f32>]) -> Sample<'a> {
        let features = of.first().map_or(0, |&row| rows.rows[row].features.len());
        let column = |feature: usize| of.iter().map(|&row| f64::from(rows.rows[row].features[feature])).collect();
        let columns: Vec<Vec<f64>> = (0..features).map(column).collect();
        let bins = columns.iter().map(|column| Bins::new(column, BINS)).collect();
        Sample { columns, bins, gains, settings: rows.settings.len() }
    }

    fn sums(&self, sample: &[u32]) -> Vec<f64> {
        let mut sums = vec![0.0; self.settings];
        sample.iter().for_each(|&row| self.add(&mut sums, row));
        sums
    }

    fn add(&self, sums: &mut [f64], row: u32) {
        sums.iter_mut().zip(&self.gains[row as usize]).for_each(|(sum, gain)| *sum += f64::from(*gain));
    }

    /// Sum of squared deviations of all gains from their means.
    fn squares(&self, sample: &[u32]) -> f64 {
        let rows = sample.len().max(1) as f64;
        let all: f64 = sample.iter().flat_map(|&row| &self.gains[row as usize]).map(|gain| f64::from(*gain).powi(2)).sum();
        all - self.sums(sample).iter().map(|sum| sum * sum / rows).sum::<f64>()
    }

    /// Adds the subtree of these rows, and returns the reference to its root.
    fn lay_out(&self, tree: &mut GainTree, draft: &Draft, sample: &[u32]) -> i32 {
        let Draft::Split(split, branches) = draft else { return self.leaf(tree, sample) };
        let number = tree.nodes.len();
        tree.nodes.push(GainNode { feature: split.feature as u8, threshold: split.threshold as f32, branches: [0; 2] });
        let is_below = |row: &&u32| self.columns[split.feature][**row as usize] <= split.threshold;
        let (below, above): (Vec<u32>, Vec<u32>) = sample.iter().partition(is_below);
        tree.nodes[number].branches = [self.lay_out(tree, &branches[0], &below), self.lay_out(tree, &branches[1], &above)];
        number as i32
    }

    fn leaf(&self, tree: &mut GainTree, sample: &[u32]) -> i32 {
        let rows = sample.len().max(1) as f64;
        let means: Vec<f64> = self.sums(sample).iter().map(|sum| sum / rows).collect();
        let number = tree.means.len() / self.settings;
        for (setting, mean) in means.into_iter().enumerate() {
            let gain = |row: &u32| f64::from(self.gains[*row as usize][setting]) - mean;
            let variance = sample.iter().map(|row| gain(row).powi(2)).sum::<f64>() / rows;
            tree.means.push((mean * UNITS).round() as i16);
            tree.deviations.push((variance.sqrt() * UNITS).round() as u16);
        }
        !(number as i32)
    }
}

/// The squared error over all settings. Each node tries a random part of the features.
struct JointError<'a> {
    all: &'a Sample<'a>,
    growth: &'a Growth,
    random: Xoshiro256PlusPlus,
    /// Minimum reduction of the squared error by a split.
    least: f64,
}

/// Number of rows, and the sum of their gains by setting.
#[derive(Clone)]
struct Sums {
    count: f64,
    gains: Vec<f64>,
}

/// The rows of a node.
struct Whole {
    sums: Sums,
    /// Sum over settings of the squared sum of the gains, by row.
    squares: f64,
}

/// A split and its reduction of the squared error.
struct Candidate {
    split: Split,
    gain: f64,
}

impl Criterion for JointError<'_> {
    type Row = u32;
    type Node = Whole;
    type Sums = Sums;
    type Candidate = Candidate;

    const MISSING_IS_LARGEST: bool = true;

    fn node(&mut self, rows: &[u32], depth: usize) -> Option<Whole> {
        let count = rows.len() as f64;
        if depth >= MAX_DEPTH || count < 2.0 * f64::from(self.growth.min_rows) {
            return None;
        }
        let gains = self.all.sums(rows);
        let squares = gains.iter().map(|sum| sum * sum / count).sum();
        Some(Whole { sums: Sums { count, gains }, squares })
    }

    fn features(&mut self) -> Vec<usize> {
        let mut features: Vec<usize> = (0..self.all.columns.len()).collect();
        features.shuffle(&mut self.random);
        features.truncate(((features.len() as f64 * self.growth.features).ceil() as usize).max(1));
        features
    }

    fn value(&self, row: u32, feature: usize) -> f64 {
        self.all.columns[feature][row as usize]
    }

    fn bins(&self, _node: &Whole, feature: usize) -> Option<&Bins> {
        Some(&self.all.bins[feature])
    }

    fn index(&self, row: u32) -> usize {
        row as usize
    }

    fn begin(&self, _node: &Whole, _sorted: &[(f64, u32)]) -> Option<Sums> {
        Some(Sums { count: 0.0, gains: vec![0.0; self.all.settings] })
    }

    fn add(&self, sums: &mut Sums, row: u32) {
        sums.count += 1.0;
        self.all.add(&mut sums.gains, row);
    }

    fn join(&self, sums: &mut Sums, others: &Sums) {
        sums.count += others.count;
        sums.gains.iter_mut().zip(&others.gains).for_each(|(sum, other)| *sum += other);
    }

    fn judge(&self, node: &Whole, at: Boundary, below: &mut Sums, best: &mut Option<Candidate>) -> ControlFlow<()> {
        let (count, others) = (below.count, node.sums.count - below.count);
        let least_rows = f64::from(self.growth.min_rows);
        if count < least_rows || others < least_rows {
            return ControlFlow::Continue(());
        }
        let sums = below.gains.iter().zip(&node.sums.gains);
        let parts = sums.map(|(below, all)| below * below / count + (all - below).powi(2) / others);
        let gain = parts.sum::<f64>() - node.squares;
        if gain > self.least && best.as_ref().is_none_or(|best| gain > best.gain) {
            *best = Some(Candidate { split: Split { feature: at.feature, threshold: at.below }, gain });
        }
        ControlFlow::Continue(())
    }

    fn choose(&mut self, _node: &Whole, candidates: Vec<Candidate>) -> Option<Split> {
        let mut best: Option<Candidate> = None;
        for candidate in candidates {
            if best.as_ref().is_none_or(|best| candidate.gain > best.gain) {
                best = Some(candidate);
            }
        }
        best.map(|best| best.split)
    }
}
