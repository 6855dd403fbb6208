//! Growing a forest whose trees predict all settings jointly.

use std::collections::BTreeMap;

use control::gain_model::{GainNode, GainTree, UNITS};
use experiment::chance;
use experiment::pool::Workers;
use rand::Rng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::Rows;

/// Number of bins per feature.
const BINS: usize = 64;
/// Maximum depth of a tree.
const MAX_DEPTH: u32 = 24;
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

/// Rows in bins.
struct Binned<'a> {
    /// By feature: the upper bound of each bin except the last.
    edges: Vec<Vec<f32>>,
    /// By feature, the bin of each row. Missing values are in the last bin.
    bins: Vec<Vec<u8>>,
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
        let binned = Binned::new(rows, of, &gains);
        let mut by_case: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        of.iter().enumerate().for_each(|(index, &row)| by_case.entry(rows.rows[row].case).or_default().push(index as u32));
        let cases: Vec<(u32, Vec<u32>)> = by_case.into_iter().collect();
        let numbers: Vec<u32> = (0..self.trees).collect();
        let grown = workers.each(&numbers, |&number| {
            let mut random = chance::source("gain tree", self.seed, number);
            let mut drawn: Vec<usize> = (0..cases.len()).map(|_| random.random_range(0..cases.len())).collect();
            drawn.sort_unstable();
            let mut sample: Vec<u32> = drawn.iter().flat_map(|&case| cases[case].1.iter().copied()).collect();
            let mut grower = Grower { binned: &binned, growth: self, random, tree: GainTree::default(), least: 0.0 };
            grower.least = LEAST_GAIN * grower.squares(&sample);
            grower.split(&mut sample, 0);
            drawn.dedup();
            Ok((grower.tree, drawn.into_iter().map(|case| cases[case].0).collect()))
        })?;
        let (trees, cases) = grown.into_iter().unzip();
        Ok(Forest { trees, cases })
    }
}

impl<'a> Binned<'a> {
    fn new(rows: &Rows, of: &[usize], gains: &'a [Vec<f32>]) -> Binned<'a> {
        let features = of.first().map_or(0, |&row| rows.rows[row].features.len());
        let column = |feature: usize| of.iter().map(move |&row| rows.rows[row].features[feature]);
        let edges: Vec<Vec<f32>> = (0..features)
            .map(|feature| {
                let mut sorted: Vec<f32> = column(feature).filter(|value| !value.is_nan()).collect();
                sorted.sort_by(f32::total_cmp);
                let mut edges: Vec<f32> = (1..BINS).filter_map(|bin| sorted.get(bin * sorted.len() / BINS).copied()).collect();
                edges.dedup();
                edges
            })
            .collect();
        let bin = |edges: &[f32], value: f32| edges.partition_point(|edge| value.is_nan() || value > *edge) as u8;
        let bins = edges.iter().enumerate().map(|(feature, edges)| column(feature).map(|value| bin(edges, value)).collect());
        Binned { bins: bins.collect(), edges, gains, settings: rows.settings.len() }
    }
}

struct Grower<'a> {
    binned: &'a Binned<'a>,
    growth: &'a Growth,
    random: Xoshiro256PlusPlus,
    tree: GainTree,
    /// Minimum reduction of the squared error by a split.
    least: f64,
}

impl Grower<'_> {
    fn sums(&self, sample: &[u32]) -> Vec<f64> {
        let mut sums = vec![0.0; self.binned.settings];
        for &row in sample {
            sums.iter_mut().zip(&self.binned.gains[row as usize]).for_each(|(sum, gain)| *sum += f64::from(*gain));
        }
        sums
    }

    /// Sum of squared deviations of all gains from their means.
    fn squares(&self, sample: &[u32]) -> f64 {
        let rows = sample.len().max(1) as f64;
        let all: f64 = sample.iter().flat_map(|&row| &self.binned.gains[row as usize]).map(|gain| f64::from(*gain).powi(2)).sum();
        all - self.sums(sample).iter().map(|sum| sum * sum / rows).sum::<f64>()
    }

    /// Adds the subtree of this sample, and returns the reference to its root.
    fn split(&mut self, sample: &mut [u32], depth: u32) -> i32 {
        let best = if depth < MAX_DEPTH { self.best(sample) } else { None };
        let Some((feature, bin)) = best else { return self.leaf(sample) };
        let number = self.tree.nodes.len();
        let threshold = self.binned.edges[feature][bin];
        self.tree.nodes.push(GainNode { feature: feature as u8, threshold, branches: [0; 2] });
        let bins = &self.binned.bins[feature];
        let (below, above): (Vec<u32>, Vec<u32>) = sample.iter().partition(|&&row| usize::from(bins[row as usize]) <= bin);
        sample[..below.len()].copy_from_slice(&below);
        sample[below.len()..].copy_from_slice(&above);
        let (below, above) = sample.split_at_mut(below.len());
        self.tree.nodes[number].branches = [self.split(below, depth + 1), self.split(above, depth + 1)];
        number as i32
    }

    fn leaf(&mut self, sample: &[u32]) -> i32 {
        let rows = sample.len().max(1) as f64;
        let means: Vec<f64> = self.sums(sample).iter().map(|sum| sum / rows).collect();
        let number = self.tree.means.len() / self.binned.settings;
        for (setting, mean) in means.into_iter().enumerate() {
            let gain = |row: &u32| f64::from(self.binned.gains[*row as usize][setting]) - mean;
            let variance = sample.iter().map(|row| gain(row).powi(2)).sum::<f64>() / rows;
            self.tree.means.push((mean * UNITS).round() as i16);
            self.tree.deviations.push((variance.sqrt() * UNITS).round() as u16);
        }
        !(number as i32)
    }

    /// The split with the largest reduction of the squared error over all settings: feature and bin.
    fn best(&mut self, sample: &[u32]) -> Option<(usize, usize)> {
        let least_rows = self.growth.min_rows as f64;
        if (sample.len() as f64) < 2.0 * least_rows {
            return None;
        }
        let settings = self.binned.settings;
        let mut features: Vec<usize> = (0..self.binned.edges.len()).collect();
        features.shuffle(&mut self.random);
        features.truncate(((features.len() as f64 * self.growth.features).ceil() as usize).max(1));
        let all = self.sums(sample);
        let rows = sample.len() as f64;
        let whole: f64 = all.iter().map(|sum| sum * sum / rows).sum();
        let mut best: Option<(f64, usize, usize)> = None;
        let mut sums = vec![0.0; BINS * settings];
        for feature in features {
            let (bins, edges) = (&self.binned.bins[feature], &self.binned.edges[feature]);
            let mut counts = [0.0; BINS];
            sums.fill(0.0);
            for &row in sample {
                let bin = usize::from(bins[row as usize]);
                counts[bin] += 1.0;
                let of_bin = &mut sums[bin * settings..(bin + 1) * settings];
                of_bin.iter_mut().zip(&self.binned.gains[row as usize]).for_each(|(sum, gain)| *sum += f64::from(*gain));
            }
            let mut count = 0.0;
            let mut below = vec![0.0; settings];
            for bin in 0..edges.len() {
                count += counts[bin];
                below.iter_mut().zip(&sums[bin * settings..]).for_each(|(below, sum)| *below += sum);
                if counts[bin] == 0.0 || count < least_rows || rows - count < least_rows {
                    continue;
                }
                let parts =
                    below.iter().zip(&all).map(|(below, all)| below * below / count + (all - below).powi(2) / (rows - count));
                let gain = parts.sum::<f64>() - whole;
                if gain > self.least && best.is_none_or(|(most, ..)| gain > most) {
                    best = Some((gain, feature, bin));
                }
            }
        }
        best.map(|(_, feature, bin)| (feature, bin))
    }
}
