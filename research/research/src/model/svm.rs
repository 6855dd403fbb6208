//! A support vector machine with radial basis functions: one machine per pair of classes; the class with the most wins is
//! predicted.
//!
//! Trained by `libsvm-rs`. For prediction the support vectors are stored contiguously in single precision, which is several times
//! as fast as the library's prediction and agrees with it to about six digits.

use std::fmt::Write as _;

use libsvm_rs::train::svm_train;
use libsvm_rs::{SvmModel, SvmNode, SvmParameter, SvmProblem, check_parameter, set_quiet};
use serde::{Deserialize, Serialize};

use super::{Buffers, Classifier, Examples, Learner, ModelError, Names, Parameter, Preparation};

/// Maximum training rows; more are sampled. Training time grows with the square of their number, prediction time linearly.
const MAX_ROWS: usize = 5000;

/// Numbers that are processed in parallel.
const LANES: usize = 8;

/// The learner.
pub struct Svm;

impl Svm {
    /// The name on the command line.
    pub(super) const NAME: &str = "svm";
}

impl Learner for Svm {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn summary(&self) -> &'static str {
        "support vector machine with radial basis functions, one against one"
    }

    fn source(&self) -> &'static str {
        "Chang and Lin, LIBSVM: A Library for Support Vector Machines, 2011"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "c",
                doc: "Cost of a misclassified training row.",
                candidates: &[10.0, 1.0, 100.0],
                min: 1e-4,
                max: 1e6,
                is_whole: false,
            },
            Parameter {
                name: "gamma",
                doc: "Decay of a support vector's influence with distance, times the number of features that are not constant.",
                candidates: &[1.0, 0.3, 0.1, 0.03, 3.0],
                min: 1e-6,
                max: 1e6,
                is_whole: false,
            },
        ]
    }

    fn preparation(&self) -> Preparation {
        Preparation::ScaledAndFilled
    }

    fn fit(&self, examples: &Examples, parameters: &[f64], seed: u64) -> Result<Box<dyn Classifier>, ModelError> {
        let wrong = |message: String| ModelError::Fit { learner: self.name(), message };
        let &[c, gamma] = parameters else { return Err(wrong("expected two hyper-parameters".to_owned())) };
        let varying = (0..examples.features()).filter(|&feature| examples.rows.iter().any(|row| row[feature] != 0.0)).count();
        let gamma = gamma / varying.max(1) as f64;
        if examples.classes < 2 {
            return Ok(Box::new(Machine::new(gamma, &[Vec::new()], Vec::new())));
        }
        let examples = examples.sample(MAX_ROWS, seed);
        let (rows, class_weights) = rows_to_learn_from(&examples);
        let problem = SvmProblem {
            labels: rows.iter().map(|&row| examples.labels[row] as f64).collect(),
            instances: rows.iter().map(|&row| nodes(&examples.rows[row])).collect(),
        };
        let weight = (0..).zip(class_weights).collect();
        let parameter = SvmParameter { c, gamma, weight, ..SvmParameter::default() };
        check_parameter(&problem, &parameter).map_err(|error| wrong(error.to_string()))?;
        set_quiet(true);
        let stored = Stored::of(&svm_train(&problem, &parameter), gamma, examples.features());
        stored.check(examples.features(), examples.classes).map_err(wrong)?;
        Ok(Box::new(Machine::new(gamma, &stored.support, stored.offsets)))
    }

    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String> {
        let stored: Stored = serde_json::from_value(body).map_err(|error| error.to_string())?;
        stored.check(features, classes)?;
        Ok(Box::new(Machine::new(stored.gamma, &stored.support, stored.offsets)))
    }
}

/// Training rows in the order of their classes, and the weight of each class. LIBSVM supports weights of classes, not of rows: if rows of a
/// class have different weights, the same number is drawn at even steps along the weights, so that heavy rows are repeated.
fn rows_to_learn_from(examples: &Examples) -> (Vec<usize>, Vec<f64>) {
    let mut rows = Vec::new();
    let mut class_weights = Vec::new();
    for class in 0..examples.classes {
        let members: Vec<usize> = (0..examples.rows.len()).filter(|&row| examples.labels[row] == class).collect();
        let total: f64 = members.iter().map(|&row| examples.weights[row]).sum();
        let mean = total / members.len().max(1) as f64;
        class_weights.push(mean);
        let (mut passed, mut taken) = (0.0, 0);
        for &row in &members {
            passed += examples.weights[row] / mean;
            // Half a row of slack selects rows of equal weight exactly once each.
            while taken < members.len() && (taken as f64) + 0.5 < passed {
                rows.push(row);
                taken += 1;
            }
        }
    }
    (rows, class_weights)
}

fn nodes(row: &[f64]) -> Vec<SvmNode> {
    row.iter().zip(1..).map(|(&value, index)| SvmNode { index, value }).collect()
}

/// A support vector.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Support {
    vector: Vec<f32>,
    /// Its coefficient against each other class, in order.
    coefficients: Vec<f32>,
}

/// The file format of a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    gamma: f64,
    /// By class.
    support: Vec<Vec<Support>>,
    /// For each pair of classes (0 and 1, 0 and 2, ...): the threshold of its sum.
    offsets: Vec<f64>,
}

impl Stored {
    /// From a trained model whose training rows were in the order of their classes, so that its classes are in the same order.
    fn of(model: &SvmModel, gamma: f64, features: usize) -> Stored {
        let vector = |nodes: &[SvmNode]| {
            let mut vector = vec![0.0; features];
            nodes.iter().for_each(|node| vector[node.index as usize - 1] = node.value as f32);
            vector
        };
        let mut next = 0;
        let support = model.n_sv.iter().map(|&count| {
            let indices = next..next + count;
            next += count;
            let coefficients = |index: usize| model.sv_coef.iter().map(|row| row[index] as f32).collect();
            indices.map(|index| Support { vector: vector(&model.sv[index]), coefficients: coefficients(index) }).collect()
        });
        Stored { gamma, support: support.collect(), offsets: model.rho.clone() }
    }

    fn check(&self, features: usize, classes: usize) -> Result<(), String> {
        if !(self.gamma > 0.0 && self.gamma < 1e9) {
            return Err(format!("gamma {} should be above 0", self.gamma));
        }
        let pairs = classes * (classes - 1) / 2;
        if self.support.len() != classes || self.offsets.len() != pairs || self.offsets.iter().any(|offset| !offset.is_finite()) {
            return Err(format!("there should be support vectors of {classes} classes and {pairs} finite offsets"));
        }
        let right = |values: &[f32], length: usize| values.len() == length && values.iter().all(|value| value.abs() < 1e15);
        let is_sound = |support: &Support| right(&support.vector, features) && right(&support.coefficients, classes - 1);
        if !self.support.iter().flatten().all(is_sound) {
            return Err(format!("a support vector should have {features} finite values and {} coefficients", classes - 1));
        }
        Ok(())
    }
}

/// A machine in the layout for prediction.
///
/// Support vectors are stored in blocks of [`LANES`], each block of one class: all first values, all second values and so on, then the
/// coefficients against the first other class, the second and so on. So a processor handles the vectors of a block in parallel.
#[derive(Clone, Debug)]
struct Machine {
    gamma: f64,
    offsets: Vec<f64>,
    /// Number of support vectors by class.
    counts: Vec<usize>,
    features: usize,
    /// The values of all blocks.
    vectors: Vec<[f32; LANES]>,
    /// The coefficients of all blocks; 0 in unused lanes.
    coefficients: Vec<[f32; LANES]>,
}

impl Machine {
    fn new(gamma: f64, support: &[Vec<Support>], offsets: Vec<f64>) -> Machine {
        let features = support.iter().flatten().next().map_or(0, |support| support.vector.len());
        let others = support.len() - 1;
        let (mut vectors, mut coefficients) = (Vec::new(), Vec::new());
        for block in support.iter().flat_map(|class| class.chunks(LANES)) {
            let lanes = |value: &dyn Fn(&Support) -> f32| std::array::from_fn(|lane| block.get(lane).map_or(0.0, value));
            vectors.extend((0..features).map(|feature| lanes(&|support| support.vector[feature])));
            coefficients.extend((0..others).map(|other| lanes(&|support| support.coefficients[other])));
        }
        Machine { gamma, offsets, counts: support.iter().map(Vec::len).collect(), features, vectors, coefficients }
    }

    fn stored(&self) -> Stored {
        let others = self.counts.len() - 1;
        let mut first_block = 0;
        let support = self.counts.iter().map(|&count| {
            let start = first_block;
            first_block += count.div_ceil(LANES);
            let one = |index: usize| {
                let (block, lane) = (start + index / LANES, index % LANES);
                let of = |values: &[[f32; LANES]], width: usize| {
                    values[block * width..][..width].iter().map(|lanes| lanes[lane]).collect()
                };
                Support { vector: of(&self.vectors, self.features), coefficients: of(&self.coefficients, others) }
            };
            (0..count).map(one).collect()
        });
        Stored { gamma: self.gamma, support: support.collect(), offsets: self.offsets.clone() }
    }

    /// Sums the contributions of each class's support vectors against each other class: a row per class, a value per other class.
    fn add_up(&self, row: &[f32], sums: &mut [f64]) {
        let others = (self.counts.len() - 1).max(1);
        let gamma = self.gamma as f32;
        let mut blocks = self.vectors.chunks_exact(self.features.max(1)).zip(self.coefficients.chunks_exact(others));
        sums.fill(0.0);
        for (&count, sums) in self.counts.iter().zip(sums.chunks_exact_mut(others)) {
            for (vectors, coefficients) in blocks.by_ref().take(count.div_ceil(LANES)) {
                let mut nearness = squared_distances(vectors, row);
                nearness.iter_mut().for_each(|distance| *distance = exp_of_minus(gamma * *distance));
                for (sum, coefficients) in sums.iter_mut().zip(coefficients) {
                    let mut products = *coefficients;
                    products.iter_mut().zip(&nearness).for_each(|(product, nearness)| *product *= nearness);
                    let [a, b, c, d, e, f, g, h] = products;
                    *sum += f64::from(((a + b) + (c + d)) + ((e + f) + (g + h)));
                }
            }
        }
    }
}

/// The index of a pair of classes; `first` must be the smaller.
fn pair(first: usize, second: usize, classes: usize) -> usize {
    first * (2 * classes - first - 1) / 2 + second - first - 1
}

fn squared_distances(vectors: &[[f32; LANES]], row: &[f32]) -> [f32; LANES] {
    let mut sums = [0.0f32; LANES];
    for (values, value) in vectors.iter().zip(row) {
        for (sum, support) in sums.iter_mut().zip(values) {
            let difference = support - value;
            *sum += difference * difference;
        }
    }
    sums
}

/// e^-x to six digits for 0 to 80 (e^-80 beyond): 2 to the integer part by the bits of the number, 2 to the fraction by a polynomial. Unlike the
/// library's it has no branch, so that a block is computed in parallel.
fn exp_of_minus(x: f32) -> f32 {
    /// Added to a small number, it leaves the nearest integer in the low bits.
    const ROUND: f32 = 12_582_912.0;
    let power = x.min(80.0) * -std::f32::consts::LOG2_E;
    let rounded = power + ROUND;
    let rest = power - (rounded - ROUND);
    let series = [0.001_339_887_4, 0.009_618_437, 0.055_503_324, 0.240_226_46, std::f32::consts::LN_2, 1.0];
    let fraction = series.iter().fold(0.0, |sum, factor| sum * rest + factor);
    let whole = f32::from_bits(rounded.to_bits().wrapping_add(127).wrapping_shl(23));
    fraction * whole
}

impl Classifier for Machine {
    /// A class's score is minus the sum of its losses against other classes: 0 for one that wins each of its pairs, as in voting. With
    /// two classes the difference of the scores is the value of their pair, so that the softmax of [`super::calibrate`] is Platt's sigmoid
    /// without offset. (Sums of logarithms of sigmoids let a class with narrow losses win by its confident pairs: one point of accuracy
    /// worse.)
    fn scores(&self, row: &[f64], buffers: &mut Buffers, scores: &mut [f64]) {
        let classes = self.counts.len();
        buffers.narrow.clear();
        buffers.narrow.extend(row.iter().map(|value| *value as f32));
        buffers.wide.resize(classes * (classes - 1), 0.0);
        self.add_up(&buffers.narrow, &mut buffers.wide);
        scores.fill(0.0);
        for first in 0..classes {
            for second in first + 1..classes {
                let sums = buffers.wide[first * (classes - 1) + second - 1] + buffers.wide[second * (classes - 1) + first];
                let value = sums - self.offsets[pair(first, second, classes)];
                scores[first] += value.min(0.0);
                scores[second] -= value.max(0.0);
            }
        }
    }

    fn describe(&self, names: &Names, text: &mut String) {
        let all: usize = self.counts.iter().sum();
        let _ = writeln!(text, "{all} support vectors, gamma {}:", names.number(self.gamma));
        for (class, count) in self.counts.iter().enumerate() {
            let _ = writeln!(text, "  {count:6}  {}", names.class(class));
        }
    }

    fn body(&self) -> serde_json::Value {
        serde_json::json!(self.stored())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavy_rows_are_there_several_times_and_equal_ones_once() {
        let weighted = |weights: Vec<f64>| Examples {
            rows: vec![vec![0.0]; weights.len()],
            labels: vec![0; weights.len()],
            groups: vec![0; weights.len()],
            weights,
            classes: 1,
        };
        assert_eq!(rows_to_learn_from(&weighted(vec![0.7; 5])).0, [0, 1, 2, 3, 4]);
        let (rows, class_weights) = rows_to_learn_from(&weighted(vec![1.0, 3.0, 0.0, 0.0]));
        assert_eq!((rows, class_weights), (vec![0, 1, 1, 1], vec![1.0]));
    }

    #[test]
    fn the_quick_exponential_is_right_to_six_digits() {
        for step in 0..8000 {
            let x = step as f32 * 0.01;
            let right = (-f64::from(x)).exp();
            assert!((f64::from(exp_of_minus(x)) / right - 1.0).abs() < 1e-5, "{x}");
        }
        assert!(exp_of_minus(1e30) < 1e-30 && exp_of_minus(f32::INFINITY) < 1e-30);
    }

    #[test]
    fn pairs_of_classes_are_numbered_without_a_gap() {
        let numbers: Vec<usize> = (0..5).flat_map(|first| (first + 1..5).map(move |second| pair(first, second, 5))).collect();
        assert_eq!(numbers, (0..10).collect::<Vec<_>>());
    }
}
