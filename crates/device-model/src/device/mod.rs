//! A device learned from what it was asked and how long that took.
//!
//! ```text
//! probing ─▶ mechanics (where sectors are, when they pass, how long the arm takes) ─┐
//! requests and their times ─────────────────────────────────────────────────────────┴▶ rows of features ─▶ a regression tree
//! ```
//! Zhang, Xu and Jiang ("YouChoose: a performance interface enabling convenient and efficient QoS support for consolidated storage
//! systems", III.A) and before them Wang and others ("Storage device performance prediction with CART models", MASCOTS 2004) give a tree
//! the request. Here it gets the device's state as well, as far as requests alone tell it.

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

/// How a model came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Training {
    /// Requests that it was learned from.
    pub requests: usize,
    /// Of them, those of a sample of real load.
    pub of_sample: usize,
    /// Of everything that was drawn.
    pub seed: u64,
}

/// Learns a device: it is told requests with their times, trace by trace.
#[derive(Clone, Debug)]
pub struct Lessons {
    name: String,
    known: Known,
    examples: Examples,
    of_sample: usize,
}

/// A trace that lessons are taken from. The device was at rest before it.
#[derive(Debug)]
pub struct Lesson<'a> {
    lessons: &'a mut Lessons,
    state: State,
    is_sample: bool,
}

impl Lessons {
    /// About a device of so many sectors that takes so many requests at once; a disk's mechanics, or those of each disk of an array, if
    /// they are known.
    ///
    /// # Errors
    /// There is no such array.
    pub fn new(
        name: &str,
        (capacity_sectors, queue_depth): (u64, u32),
        array: Option<Array>,
        mechanics: Option<Mechanics>,
    ) -> Result<Lessons, String> {
        let array = array.unwrap_or(Array::NONE);
        if let Some(problem) = array.problem() {
            return Err(problem);
        }
        let known = Known { capacity_sectors, queue_depth, array, mechanics, drain_ns: 0.0 };
        Ok(Lessons { name: name.to_owned(), known, examples: Examples::new(COUNT), of_sample: 0 })
    }

    /// The same, of a device without mechanics that gets a written sector onto its media in so many nanoseconds.
    pub fn draining(mut self, drain_ns: f64) -> Lessons {
        self.known.drain_ns = drain_ns;
        self
    }

    /// Begins with a trace.
    pub fn lesson(&mut self, is_sample: bool) -> Lesson<'_> {
        let state = State::new(&self.known.array, true);
        Lesson { state, lessons: self, is_sample }
    }

    /// Requests so far.
    pub fn requests(&self) -> usize {
        self.examples.len()
    }

    /// Learns.
    ///
    /// # Errors
    /// There was nothing to learn from.
    pub fn learn(&self, seed: u64) -> Result<DeviceModel, TreeError> {
        let scales: &[usize] = if self.known.mechanics.is_some() { &SCALES } else { &SCALES_WITHOUT_MECHANICS };
        let tree = Growth { first: Some(features::ALONE), ..Growth::default() }.grow(&self.examples, &FEATURES, scales)?;
        let training = Training { requests: self.examples.len(), of_sample: self.of_sample, seed };
        let shared = Shared { name: self.name.clone(), known: self.known.clone(), tree, training };
        Ok(DeviceModel { shared: Arc::new(shared) })
    }
}

impl Lesson<'_> {
    /// A request that began at `start`, behind those told before, and for which the device was busy for so much longer.
    pub fn tell(&mut self, start: Nanos, request: &Request, waiting: u32, took: Nanos) {
        let row = self.state.look(&self.lessons.known, start, request, waiting);
        self.lessons.examples.push(&row, took.as_millis_f64());
        self.lessons.of_sample += usize::from(self.is_sample);
        self.state.settle(&self.lessons.known, took.0 as f64);
    }

    /// A request that is not learned from: the device is left as it leaves it.
    pub fn pass(&mut self, start: Nanos, request: &Request, waiting: u32, took: Nanos) {
        self.state.look(&self.lessons.known, start, request, waiting);
        self.state.settle(&self.lessons.known, took.0 as f64);
    }
}

impl DeviceModel {
    /// What the device is called.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// How many sectors it has.
    pub fn capacity_sectors(&self) -> u64 {
        self.shared.known.capacity_sectors
    }

    /// How many requests it takes at once.
    pub fn queue_depth(&self) -> u32 {
        self.shared.known.queue_depth
    }

    /// How many disks are in it, as far as it was told.
    pub fn disks(&self) -> usize {
        self.shared.known.array.disks
    }

    /// Whether something turns in it.
    pub fn is_rotational(&self) -> bool {
        self.shared.known.mechanics.is_some()
    }

    /// How it came to be.
    pub fn training(&self) -> &Training {
        &self.shared.training
    }

    /// Its tree.
    pub fn tree(&self) -> &Tree {
        &self.shared.tree
    }

    /// The device at rest, as [`begin`](ServiceModel::begin) gives it, without a box.
    pub fn at_rest(&self) -> Running {
        let with_pages = features::wants_pages(self.shared.tree.influence());
        Running { state: State::new(&self.shared.known.array, with_pages), model: self.shared.clone() }
    }

    /// As a page that a person reads.
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
        text.push_str("\nTimes are ms. What the tree asks about:\n");
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

/// A learned device at work.
#[derive(Debug)]
pub struct Running {
    model: Arc<Shared>,
    state: State,
}

impl Running {
    /// As [`service_time`](ServiceTime::service_time), with how it may vary; in ms.
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
