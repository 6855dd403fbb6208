//! Bayesian optimisation: a Gaussian process over the trials predicts scores and their uncertainty.
//!
//! Rasmussen and Williams, "Gaussian Processes for Machine Learning", 2006, algorithm 2.1; Srinivas and others, "Gaussian Process
//! Optimization in the Bandit Setting", ICML 2010: the next genome has the highest upper confidence bound. The space is mixed: a
//! scheduler's tunables only count between two settings of that scheduler ([`Space::distance`]).

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Genome, Search, Space, Start};
use observe::performance::TrialScore;
use observe::preference::Preference;

/// Number of random genomes, and of genomes near the best one, among which the one with the highest bound is selected. Choice: more find a
/// higher bound and cost CPU time in proportion; not varied.
const DRAWN: usize = 256;
/// Number of standard errors from the mean to the upper confidence bound. Choice: a higher one explores more, a lower one stays near the
/// best trial; not varied.
const CONFIDENCE: f64 = 2.0;
/// Candidate length scales; the likeliest pair with one of [`NOISES`] is used. Choice: a finer grid costs a fit for each value; from a
/// seventh of the range of a gene to all of it, in steps of 2; not varied.
const LENGTHS: [f64; 4] = [0.15, 0.3, 0.6, 1.2];
/// Candidate noise fractions of the variance of scores. Choice: as [`LENGTHS`]: from nearly exact scores to those of short windows;
/// not varied.
const NOISES: [f64; 3] = [0.01, 0.1, 0.4];
/// Number of random genomes after the seeds, before the first model. Choice: more cost trials, fewer leave the first model without a
/// spread; not varied.
const INITIAL_DRAWS: usize = 4;
/// Probability that a given gene of a genome near the best one differs. Choice: a higher one leaves the neighbourhood of the best, a lower
/// one repeats it; not varied.
const NEAR: f64 = 0.2;

/// A Gaussian process over the trials, which selects the next one.
#[derive(Clone, Debug)]
pub struct Bayes {
    space: Space,
    preference: Preference,
    random: Xoshiro256PlusPlus,
    seeds: Vec<Genome>,
    asked: Vec<Genome>,
    tried: Vec<(Genome, f64)>,
}

impl Bayes {
    /// Starts with the seeds and some random genomes.
    pub fn new(start: Start) -> Bayes {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(start.seed);
        let mut seeds = start.seeds;
        seeds.extend((0..INITIAL_DRAWS).map(|_| start.space.draw(&mut random)));
        let (space, preference) = (start.space.clone(), start.preference);
        Bayes { space, preference, random, seeds, asked: Vec::new(), tried: Vec::new() }
    }

    /// Receives the scores of the last batch, in order; larger is better, in any unit. `None` counts as the worst score.
    pub fn learn(&mut self, scores: &[Option<f64>]) {
        let worst = self.worst(scores.iter().flatten().copied());
        for (genome, score) in std::mem::take(&mut self.asked).into_iter().zip(scores) {
            let score = score.unwrap_or(worst);
            if score.is_finite() {
                self.tried.push((genome, score));
            }
        }
    }

    /// The lowest finite score among these and those so far.
    fn worst(&self, scores: impl Iterator<Item = f64>) -> f64 {
        let known = self.tried.iter().map(|(_, score)| *score);
        known.chain(scores).filter(|score| score.is_finite()).fold(f64::INFINITY, f64::min)
    }

    /// The genomes among which the next one is selected.
    fn places(&mut self) -> Vec<Genome> {
        let best = self.tried.iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(genome, _)| genome.clone());
        let Bayes { space, random, .. } = self;
        let mut places: Vec<Genome> = (0..DRAWN).map(|_| space.draw(random)).collect();
        for _ in 0..best.as_ref().map_or(0, |_| DRAWN) {
            let mut near = best.clone().unwrap_or_default();
            for (gene, place) in near.iter_mut().enumerate() {
                if random.random::<f64>() < NEAR {
                    *place = space.mutated(gene, *place, random);
                }
            }
            places.push(near);
        }
        places
    }
}

impl Search for Bayes {
    fn ask(&mut self) -> Vec<Genome> {
        self.asked = if self.seeds.is_empty() {
            let places = self.places();
            let process = Process::likeliest(&self.space, &self.tried);
            let bound = |place: &Genome| process.as_ref().map_or(0.0, |process| process.bound(&self.space, place));
            let best = places.into_iter().map(|place| (bound(&place), place)).max_by(|a, b| a.0.total_cmp(&b.0));
            best.into_iter().map(|(_, place)| place).collect()
        } else {
            std::mem::take(&mut self.seeds)
        };
        self.asked.clone()
    }

    fn tell(&mut self, rated: &[Option<TrialScore>]) {
        let scores: Vec<Option<f64>> = rated.iter().map(|rated| rated.map(|rated| rated.score(&self.preference))).collect();
        // A starving genome gets the worst score of those that do not starve: a larger penalty would distort the model nearby.
        let fed = rated.iter().flatten().filter(|rated| !rated.starves()).map(|rated| rated.score(&self.preference));
        let worst = self.worst(fed);
        let scores: Vec<Option<f64>> = scores.into_iter().map(|score| Some(score.unwrap_or(worst).max(worst))).collect();
        self.learn(&scores);
    }

    fn facts(&self) -> Vec<(String, String)> {
        let process = Process::likeliest(&self.space, &self.tried);
        let model = process.map_or("none yet".to_owned(), |process| {
            format!("length {}, {:.0}% noise, over {} trials", process.length, 100.0 * process.noise, self.tried.len())
        });
        vec![("Gaussian process".to_owned(), model)]
    }
}

/// A Gaussian process over scores normalised to mean 0 and variance 1.
struct Process {
    length: f64,
    noise: f64,
    mean: f64,
    deviation: f64,
    at: Vec<Genome>,
    /// The lower triangle of the covariance matrix's Cholesky factor, by rows.
    factor: Vec<Vec<f64>>,
    /// The inverse covariance matrix times the scores.
    weights: Vec<f64>,
    likelihood: f64,
}

impl Process {
    /// The process with the likeliest length and noise; `None` with fewer than two trials.
    fn likeliest(space: &Space, tried: &[(Genome, f64)]) -> Option<Process> {
        let kinds = LENGTHS.iter().flat_map(|length| NOISES.iter().map(move |noise| (*length, *noise)));
        let processes = kinds.filter_map(|(length, noise)| Process::new(space, tried, length, noise));
        processes.max_by(|a, b| a.likelihood.total_cmp(&b.likelihood))
    }

    fn new(space: &Space, tried: &[(Genome, f64)], length: f64, noise: f64) -> Option<Process> {
        let count = tried.len() as f64;
        let mean = tried.iter().map(|(_, score)| score).sum::<f64>() / count;
        let variance = tried.iter().map(|(_, score)| (score - mean).powi(2)).sum::<f64>() / count;
        let deviation = variance.sqrt();
        if tried.len() < 2 || deviation <= 0.0 {
            return None;
        }
        let scores: Vec<f64> = tried.iter().map(|(_, score)| (score - mean) / deviation).collect();
        let at: Vec<Genome> = tried.iter().map(|(genome, _)| genome.clone()).collect();
        let covariance = |i: usize, j: usize| {
            let shared = (1.0 - noise) * covariance(space.distance(&at[i], &at[j]), length);
            if i == j { shared + noise } else { shared }
        };
        let factor = cholesky(at.len(), covariance)?;
        let half = forward(&factor, &scores);
        let weights = backward(&factor, &half);
        let fit: f64 = half.iter().map(|value| value * value).sum();
        let volume: f64 = factor.iter().enumerate().map(|(i, row)| row[i].ln()).sum();
        Some(Process { length, noise, mean, deviation, factor, weights, likelihood: -0.5 * fit - volume, at })
    }

    /// The upper confidence bound of the score of a genome.
    fn bound(&self, space: &Space, place: &Genome) -> f64 {
        let near: Vec<f64> =
            self.at.iter().map(|at| (1.0 - self.noise) * covariance(space.distance(at, place), self.length)).collect();
        let mean: f64 = near.iter().zip(&self.weights).map(|(near, weight)| near * weight).sum();
        let known: f64 = forward(&self.factor, &near).iter().map(|value| value * value).sum();
        let error = (1.0 - self.noise - known).max(0.0).sqrt();
        self.mean + self.deviation * (mean + CONFIDENCE * error)
    }
}

/// Matérn covariance with parameter 5/2, given the squared distance.
fn covariance(squared: f64, length: f64) -> f64 {
    let apart = (5.0 * squared).sqrt() / length;
    (1.0 + apart + apart * apart / 3.0) * (-apart).exp()
}

fn cholesky(size: usize, covariance: impl Fn(usize, usize) -> f64) -> Option<Vec<Vec<f64>>> {
    let mut factor: Vec<Vec<f64>> = Vec::with_capacity(size);
    for i in 0..size {
        let mut row: Vec<f64> = Vec::with_capacity(i + 1);
        for (j, above) in factor.iter().enumerate() {
            let known: f64 = row.iter().zip(above).map(|(a, b)| a * b).sum();
            row.push((covariance(i, j) - known) / above[j]);
        }
        let known: f64 = row.iter().map(|value| value * value).sum();
        row.push(Some(covariance(i, i) - known).filter(|rest| *rest > 0.0)?.sqrt());
        factor.push(row);
    }
    Some(factor)
}

fn forward(factor: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let mut out: Vec<f64> = Vec::with_capacity(values.len());
    for (i, row) in factor.iter().enumerate() {
        let known: f64 = row.iter().zip(&out).map(|(a, b)| a * b).sum();
        out.push((values[i] - known) / row[i]);
    }
    out
}

fn backward(factor: &[Vec<f64>], values: &[f64]) -> Vec<f64> {
    let mut out = vec![0.0; values.len()];
    for i in (0..values.len()).rev() {
        let known: f64 = (i + 1..values.len()).map(|j| factor[j][i] * out[j]).sum();
        out[i] = (values[i] - known) / factor[i][i];
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cholesky_factor_solves_its_matrix() {
        let matrix = [[4.0, 2.0, 0.6], [2.0, 5.0, 1.5], [0.6, 1.5, 3.0]];
        let factor = cholesky(3, |i, j| matrix[i][j]).unwrap();
        let solved = backward(&factor, &forward(&factor, &[1.0, -2.0, 3.0]));
        for (row, expected) in matrix.iter().zip([1.0, -2.0, 3.0]) {
            let value: f64 = row.iter().zip(&solved).map(|(a, b)| a * b).sum();
            assert!((value - expected).abs() < 1e-12);
        }
        assert!(cholesky(2, |_, _| 1.0).is_none(), "it has no inverse");
    }
}
