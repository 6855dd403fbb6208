//! A multi-layer perceptron: one hidden layer of rectified linear units, then a softmax.
//!
//! Trained with Adam in small batches, first on six sevenths of the rows; the remaining seventh determines the best number of
//! epochs. It is then retrained on all rows for as many epochs.

use std::fmt::Write as _;

use rand::Rng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;
use serde::{Deserialize, Serialize};

use super::calibrate::{HeldOut, log_loss, softmax};
use super::fold::{folds, split};
use super::{Buffers, Classifier, Examples, Learner, ModelError, Names, Parameter, Preparation};

/// Rows per batch.
const BATCH: usize = 32;
/// Maximum number of epochs.
const ROUNDS: usize = 200;
/// Number of epochs without improvement after which training stops.
const PATIENCE: usize = 15;
/// With fewer rows than this none are held out, as too few would be left to judge by.
const FEW: usize = 40;
/// Number of epochs if no rows are held out.
const ROUNDS_OF_FEW: usize = 100;
/// Parameters of Adam; all but the rate are those of "Adam: A Method for Stochastic Optimization" (Kingma and Ba 2015).
const RATE: f64 = 0.003;
const DECAY_OF_MEAN: f64 = 0.9;
const DECAY_OF_SQUARE: f64 = 0.999;
const TINY: f64 = 1e-8;
/// Maximum width of a layer read from a file.
const WIDEST: usize = 4096;

/// The learner. Own implementation: available libraries predict forty times more slowly, or do not support a seed.
pub struct Perceptron;

impl Perceptron {
    /// The name on the command line.
    pub(super) const NAME: &str = "perceptron";
}

impl Learner for Perceptron {
    fn name(&self) -> &'static str {
        Self::NAME
    }

    fn summary(&self) -> &'static str {
        "neural network with one hidden layer, trained by Adam with early stopping on held-out rows"
    }

    fn source(&self) -> &'static str {
        "Goodfellow, Bengio and Courville, Deep Learning, chapters 6 and 8"
    }

    fn parameters(&self) -> &'static [Parameter] {
        &[
            Parameter {
                name: "hidden",
                doc: "Units of the hidden layer.",
                candidates: &[32.0, 64.0],
                min: 1.0,
                max: WIDEST as f64,
                is_whole: true,
            },
            Parameter {
                name: "decay",
                doc: "Weight of half the squares of the weights in the loss.",
                candidates: &[1e-3, 1e-2],
                min: 0.0,
                max: 10.0,
                is_whole: false,
            },
        ]
    }

    fn preparation(&self) -> Preparation {
        Preparation::ScaledAndFilled
    }

    fn fit(&self, examples: &Examples, parameters: &[f64], seed: u64) -> Result<Box<dyn Classifier>, ModelError> {
        let &[hidden, decay] = parameters else {
            return Err(ModelError::Fit { learner: self.name(), message: "expected two hyper-parameters".to_owned() });
        };
        let begin = || Run::new(examples, hidden as usize, decay, seed);
        let (fold_of, parts) = folds(examples, 7, seed);
        let rounds = if examples.rows.len() < FEW || parts < 2 {
            ROUNDS_OF_FEW
        } else {
            let (kept, held_back) = split(&fold_of, 0);
            best_round(begin(), &kept, &examples.subset(&held_back))
        };
        let all: Vec<usize> = (0..examples.rows.len()).collect();
        let mut run = begin();
        (0..rounds).for_each(|_| run.round(&all));
        Ok(Box::new(run.network))
    }

    fn load(&self, body: serde_json::Value, features: usize, classes: usize) -> Result<Box<dyn Classifier>, String> {
        let network: Network = serde_json::from_value(body).map_err(|error| error.to_string())?;
        let [first, second] = &network.layers;
        let hidden = first.biases.len();
        if !(1..=WIDEST).contains(&hidden) {
            return Err(format!("{hidden} hidden units; there should be 1 to {WIDEST}"));
        }
        for (layer, inputs, outputs) in [(first, features, hidden), (second, hidden, classes)] {
            let is_sound = layer.weights.iter().chain(&layer.biases).all(|value| value.abs() < 1e30);
            if layer.biases.len() != outputs || layer.weights.len() != inputs * outputs || !is_sound {
                return Err(format!("a layer should have {} finite weights and {outputs} biases", inputs * outputs));
            }
        }
        Ok(Box::new(network))
    }
}

/// The number of epochs after which the loss on held-out rows is smallest.
fn best_round(mut run: Run, kept: &[usize], held_back: &Examples) -> usize {
    let (mut best, mut best_loss) = (1, f64::INFINITY);
    for round in 1..=ROUNDS {
        run.round(kept);
        let loss = run.network.loss(held_back);
        if loss < best_loss {
            (best, best_loss) = (round, loss);
        } else if round - best >= PATIENCE {
            break;
        }
    }
    best
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Layer {
    /// Unit by unit: one weight per input.
    weights: Vec<f64>,
    /// One per unit.
    biases: Vec<f64>,
}

impl Layer {
    /// Small random weights (He et al. 2015), zero biases.
    fn random(inputs: usize, units: usize, random: &mut impl Rng) -> Layer {
        let bound = (6.0 / inputs.max(1) as f64).sqrt();
        Layer { weights: (0..inputs * units).map(|_| random.random_range(-bound..bound)).collect(), biases: vec![0.0; units] }
    }

    fn zeros(&self) -> Layer {
        Layer { weights: vec![0.0; self.weights.len()], biases: vec![0.0; self.biases.len()] }
    }

    fn forward(&self, inputs: &[f64], outputs: &mut [f64]) {
        let rows = self.weights.chunks_exact(inputs.len().max(1));
        for ((output, bias), weights) in outputs.iter_mut().zip(&self.biases).zip(rows) {
            *output = bias + weights.iter().zip(inputs).map(|(weight, input)| weight * input).sum::<f64>();
        }
    }

    /// Adds a row's contribution to this layer of gradients.
    fn add(&mut self, inputs: &[f64], errors: &[f64]) {
        for ((bias, slots), error) in self.biases.iter_mut().zip(self.weights.chunks_exact_mut(inputs.len().max(1))).zip(errors) {
            if *error != 0.0 {
                *bias += error;
                slots.iter_mut().zip(inputs).for_each(|(slot, input)| *slot += error * input);
            }
        }
    }

    fn values_mut(&mut self) -> impl Iterator<Item = &mut f64> {
        self.weights.iter_mut().chain(&mut self.biases)
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    layers: [Layer; 2],
}

impl Network {
    /// Computes `hidden` and `scores`.
    fn forward(&self, row: &[f64], hidden: &mut [f64], scores: &mut [f64]) {
        self.layers[0].forward(row, hidden);
        hidden.iter_mut().for_each(|value| *value = value.max(0.0));
        self.layers[1].forward(hidden, scores);
    }

    fn loss(&self, examples: &Examples) -> f64 {
        let mut hidden = vec![0.0; self.layers[0].biases.len()];
        let rows = examples.rows.iter().zip(&examples.labels).zip(&examples.weights).map(|((row, &class), &weight)| {
            let mut scores = vec![0.0; examples.classes];
            self.forward(row, &mut hidden, &mut scores);
            HeldOut { scores, class, weight }
        });
        log_loss(&rows.collect::<Vec<_>>(), 1.0)
    }
}

impl Classifier for Network {
    fn scores(&self, row: &[f64], buffers: &mut Buffers, scores: &mut [f64]) {
        buffers.wide.resize(self.layers[0].biases.len(), 0.0);
        self.forward(row, &mut buffers.wide, scores);
    }

    fn describe(&self, names: &Names, text: &mut String) {
        let [first, second] = &self.layers;
        let (hidden, classes) = (first.biases.len(), second.biases.len());
        let inputs = first.weights.len() / hidden;
        let weights = first.weights.len() + second.weights.len() + hidden + classes;
        let _ = writeln!(text, "{inputs} inputs, {hidden} rectified linear units, {classes} outputs: {weights} weights.");
        let _ = writeln!(text, "\nInfluence of each input: mean absolute weight");
        let pull =
            |input: usize| first.weights.chunks_exact(inputs.max(1)).map(|unit| unit[input].abs()).sum::<f64>() / hidden as f64;
        let mut pulls: Vec<(usize, f64)> = (0..inputs).map(|input| (input, pull(input))).collect();
        pulls.sort_by(|a, b| b.1.total_cmp(&a.1));
        for (input, pull) in pulls {
            let _ = writeln!(text, "  {pull:8.3}  {}", names.feature(input));
        }
    }

    fn body(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

/// State of training.
struct Run<'a> {
    examples: &'a Examples,
    network: Network,
    gradients: [Layer; 2],
    means: [Layer; 2],
    squares: [Layer; 2],
    steps: i32,
    decay: f64,
    random: Xoshiro256PlusPlus,
    /// Buffers for one row: hidden units, their errors, scores.
    hidden: Vec<f64>,
    hidden_errors: Vec<f64>,
    scores: Vec<f64>,
}

impl<'a> Run<'a> {
    fn new(examples: &'a Examples, hidden: usize, decay: f64, seed: u64) -> Run<'a> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let layers =
            [Layer::random(examples.features(), hidden, &mut random), Layer::random(hidden, examples.classes, &mut random)];
        let zeros = || layers.each_ref().map(Layer::zeros);
        Run {
            examples,
            gradients: zeros(),
            means: zeros(),
            squares: zeros(),
            network: Network { layers },
            steps: 0,
            decay,
            random,
            hidden: vec![0.0; hidden],
            hidden_errors: vec![0.0; hidden],
            scores: vec![0.0; examples.classes],
        }
    }

    /// One epoch: trains with each of these rows once, in random order.
    fn round(&mut self, rows: &[usize]) {
        let mut order = rows.to_vec();
        order.shuffle(&mut self.random);
        for batch in order.chunks(BATCH) {
            self.gradients.iter_mut().flat_map(Layer::values_mut).for_each(|slot| *slot = 0.0);
            batch.iter().for_each(|&row| self.add_gradient(row, 1.0 / batch.len() as f64));
            self.step();
        }
    }

    fn add_gradient(&mut self, row: usize, factor: f64) {
        let inputs = &self.examples.rows[row];
        self.network.forward(inputs, &mut self.hidden, &mut self.scores);
        softmax(&mut self.scores, 1.0);
        self.scores[self.examples.labels[row]] -= 1.0;
        let factor = factor * self.examples.weights[row];
        self.scores.iter_mut().for_each(|error| *error *= factor);
        self.hidden_errors.fill(0.0);
        for (weights, error) in self.network.layers[1].weights.chunks_exact(self.hidden.len()).zip(&self.scores) {
            self.hidden_errors.iter_mut().zip(weights).for_each(|(slot, weight)| *slot += error * weight);
        }
        for (error, value) in self.hidden_errors.iter_mut().zip(&self.hidden) {
            *error = if *value > 0.0 { *error } else { 0.0 };
        }
        self.gradients[1].add(&self.hidden, &self.scores);
        self.gradients[0].add(inputs, &self.hidden_errors);
    }

    fn step(&mut self) {
        self.steps = self.steps.saturating_add(1);
        let rate = RATE * (1.0 - DECAY_OF_SQUARE.powi(self.steps)).sqrt() / (1.0 - DECAY_OF_MEAN.powi(self.steps));
        let layers = self.network.layers.iter_mut().zip(&mut self.gradients).zip(&mut self.means).zip(&mut self.squares);
        for (((layer, gradient), mean), square) in layers {
            let weights = layer.weights.len();
            let slots = layer.values_mut().zip(gradient.values_mut()).zip(mean.values_mut()).zip(square.values_mut());
            for (number, (((value, gradient), mean), square)) in slots.enumerate() {
                // No weight decay for biases.
                let gradient = *gradient + if number < weights { self.decay * *value } else { 0.0 };
                *mean += (1.0 - DECAY_OF_MEAN) * (gradient - *mean);
                *square += (1.0 - DECAY_OF_SQUARE) * (gradient * gradient - *square);
                *value -= rate * *mean / (square.sqrt() + TINY);
            }
        }
    }
}
