//! A model of a device, learned from requests and their times.
//!
//! ```text
//! probing ─▶ mechanics (positions of sectors, when they pass, seek times) ──────────┐
//! requests and their times ─────────────────────────────────────────────────────────┴▶ rows of features ─▶ a regression tree
//! ```
//! Zhang, Xu and Jiang ("YouChoose: a performance interface enabling convenient and efficient QoS support for consolidated storage
//! systems", III.A) and before them Wang and others ("Storage device performance prediction with CART models", MASCOTS 2004) train a tree
//! on the request. Here the features include the device's state, as far as it can be inferred from requests.

mod arms;
mod array;
mod attribution;
mod features;
pub mod mechanics;
pub mod probing;
mod stored;
pub mod tracks;

use std::fmt::Write as _;
use std::sync::Arc;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request};
use serde::{Deserialize, Serialize};

pub use array::Array;
pub use attribution::Done;
pub use features::{COUNT, FEATURES, MEANINGS};

use self::features::{Known, SCALES, SCALES_WITHOUT_MECHANICS, State};
use self::mechanics::Mechanics;
use crate::regression::{Examples, Growth, Spread, Tree, TreeError};

/// A learned device. Cheap to clone.
#[derive(Clone, Debug)]
pub struct DeviceModel {
    shared: Arc<Shared>,
}

#[derive(Debug, PartialEq)]
struct Shared {
    name: String,
    known: Known,
    tree: Tree,
    training: Training,
}

/// How a model was trained.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Number of training requests.
    pub requests: usize,
    /// Number of these that are from a sample of a real load.
    pub of_sample: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Trains a model from traces of requests with their times.
///
/// ```
/// use block::tenants::ServiceTime;
/// use block::{Nanos, Op, Priority, Request};
/// use device_model::device::ModelTrainer;
///
/// // Random reads of 4 KiB that take 5 ms each.
/// let mut trainer = ModelTrainer::new("example", (1 << 30, 1), None, None)?;
/// let mut trace = trainer.begin_trace(true);
/// let request = |number: u64| Request {
///     id: 0, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8,
///     lba: number * 7_919_008 % (1 << 30), arrival: Nanos::from_millis(10 * number),
/// };
/// (0..500).for_each(|number| trace.add(request(number).arrival, &request(number), 0, Nanos::from_millis(5)));
/// let model = trainer.learn(1)?;
/// let predicted = model.at_rest().spread(Nanos::ZERO, &request(3), 0);
/// assert!((predicted.mean - 5.0).abs() < 0.1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct ModelTrainer {
    name: String,
    known: Known,
    examples: Examples,
    of_sample: usize,
}

/// A trace to train on. The device was idle before it.
#[derive(Debug)]
pub struct TrainingTrace<'a> {
    trainer: &'a mut ModelTrainer,
    state: State,
    is_sample: bool,
}

impl ModelTrainer {
    /// A device with this capacity and queue depth, and the mechanics of the disk, or of each disk of an array, if they are known.
    ///
    /// # Errors
    /// The array's layout is invalid.
    pub fn new(
        name: &str,
        (capacity_sectors, queue_depth): (u64, u32),
        array: Option<Array>,
        mechanics: Option<Mechanics>,
    ) -> Result<ModelTrainer, String> {
        let array = array.unwrap_or(Array::NONE);
        if let Some(problem) = array.problem() {
            return Err(problem);
        }
        let known = Known { capacity_sectors, queue_depth, array, mechanics, drain_ns: 0.0 };
        Ok(ModelTrainer { name: name.to_owned(), known, examples: Examples::new(COUNT), of_sample: 0 })
    }

    /// Sets the time in which a device without mechanics writes a sector to its media, in nanoseconds.
    pub fn draining(mut self, drain_ns: f64) -> ModelTrainer {
        self.known.drain_ns = drain_ns;
        self
    }

    /// Begins a trace; `is_sample` if it is part of a real load.
    pub fn begin_trace(&mut self, is_sample: bool) -> TrainingTrace<'_> {
        let state = State::new(&self.known.array, true);
        TrainingTrace { state, trainer: self, is_sample }
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.examples.len()
    }

    /// Trains the model.
    ///
    /// # Errors
    /// There are no requests.
    pub fn learn(&self, seed: u64) -> Result<DeviceModel, TreeError> {
        let scales: &[usize] = if self.known.mechanics.is_some() { &SCALES } else { &SCALES_WITHOUT_MECHANICS };
        let tree = Growth { first: Some(features::ALONE), ..Growth::default() }.grow(&self.examples, &FEATURES, scales)?;
        let training = Training { requests: self.examples.len(), of_sample: self.of_sample, seed };
        let shared = Shared { name: self.name.clone(), known: self.known.clone(), tree, training };
        Ok(DeviceModel { shared: Arc::new(shared) })
    }
}

impl TrainingTrace<'_> {
    /// Adds a request that began at `start` after the previous ones; `took` is the time for which it kept the device busy.
    pub fn add(&mut self, start: Nanos, request: &Request, waiting: u32, took: Nanos) {
        let row = self.state.look(&self.trainer.known, start, request, waiting);
        self.trainer.examples.push(&row, took.as_millis_f64());
        self.trainer.of_sample += usize::from(self.is_sample);
        self.state.settle(&self.trainer.known, took.0 as f64);
    }

    /// Adds a request that is not a training example, but affects the state of the device.
    pub fn add_untrained(&mut self, start: Nanos, request: &Request, waiting: u32, took: Nanos) {
        self.state.look(&self.trainer.known, start, request, waiting);
        self.state.settle(&self.trainer.known, took.0 as f64);
    }
}

impl DeviceModel {
    /// The name of the device.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Capacity in sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.shared.known.capacity_sectors
    }

    /// Queue depth.
    pub fn queue_depth(&self) -> u32 {
        self.shared.known.queue_depth
    }

    /// Number of disks in the declared array; 1 without an array.
    pub fn disks(&self) -> usize {
        self.shared.known.array.disks
    }

    /// Whether it has a rotating platter.
    pub fn is_rotational(&self) -> bool {
        self.shared.known.mechanics.is_some()
    }

    /// How it was trained.
    pub fn training(&self) -> &Training {
        &self.shared.training
    }

    /// Its regression tree.
    pub fn tree(&self) -> &Tree {
        &self.shared.tree
    }

    /// The idle device, as [`begin`](ServiceModel::begin) returns it, but not boxed.
    pub fn at_rest(&self) -> Running {
        let with_pages = features::wants_pages(self.shared.tree.influence());
        Running { state: State::new(&self.shared.known.array, with_pages), model: self.shared.clone() }
    }

    /// The model as text for display.
    pub fn text(&self) -> String {
        let Shared { name, known, tree, training } = &*self.shared;
        let mut text = format!("{name}: {} sectors, {} requests at once", known.capacity_sectors, known.queue_depth);
        // Writing to a String cannot fail.
        if known.array != Array::NONE {
            let Array { level, disks, unit } = known.array;
            let _ = write!(text, ", RAID {level} of {disks} disks");
            if level != 1 {
                let _ = write!(text, " in units of {} KiB", unit as f64 / 2.0);
            }
        }
        let _ = writeln!(
            text,
            "\nlearned from {} requests, {} of them of a real load; seed {}",
            training.requests, training.of_sample, training.seed
        );
        match &known.mechanics {
            Some(mechanics) => mechanics.describe(&mut text),
            None => {
                text.push_str("Nothing turns in it, as far as its times tell.");
                if known.drain_ns > 0.0 {
                    let _ = write!(text, " It writes {:.0} MB/s for long.", 512e3 / known.drain_ns);
                }
                text.push('\n');
            }
        }
        text.push_str("\nTimes are ms. Features of the tree:\n");
        for (name, meaning) in FEATURES.iter().zip(MEANINGS) {
            let _ = writeln!(text, "  {name:18} {meaning}");
        }
        text.push('\n');
        text + &tree.text()
    }
}

impl ServiceModel for DeviceModel {
    fn begin(&self) -> Box<dyn ServiceTime> {
        Box::new(self.at_rest())
    }
}

/// A simulation with a device model.
#[derive(Debug)]
pub struct Running {
    model: Arc<Shared>,
    state: State,
}

impl Running {
    /// The service time with its quantiles, in ms.
    pub fn spread(&mut self, start: Nanos, request: &Request, waiting: u32) -> Spread {
        let row = self.state.look(&self.model.known, start, request, waiting);
        let spread = self.model.tree.predict_spread(&row);
        self.state.settle(&self.model.known, spread.mean * 1e6);
        spread
    }
}

impl ServiceTime for Running {
    fn service_time(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos {
        let row = self.state.look(&self.model.known, start, request, waiting);
        let took = Nanos::from_millis_f64(self.model.tree.predict(&row));
        self.state.settle(&self.model.known, took.0 as f64);
        took
    }
}
