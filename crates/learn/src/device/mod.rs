//! A device learned from what it was asked and how long that took.
//!
//! ```text
//! probing ─▶ mechanics (where sectors are, when they pass, how long the arm takes) ─┐
//! requests and their times ─────────────────────────────────────────────────────────┴▶ rows of features ─▶ a regression tree
//! ```
//! Zhang, Xu and Jiang ("YouChoose: a performance interface enabling convenient and efficient QoS support for consolidated storage
//! systems", III.A) and before them Wang and others ("Storage device performance prediction with CART models", MASCOTS 2004) give a tree
//! the request. Here it gets the device's state as well, as far as requests alone tell it.

mod array;
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
    /// About a device of so many sectors; a disk's mechanics, or those of each disk of an array, if they are known.
    ///
    /// # Errors
    /// There is no such array.
    pub fn new(name: &str, capacity_sectors: u64, array: Option<Array>, mechanics: Option<Mechanics>) -> Result<Lessons, String> {
        let array = array.unwrap_or(Array::NONE);
        if let Some(problem) = array.problem() {
            return Err(problem);
        }
        let known = Known { capacity_sectors, array, mechanics };
        Ok(Lessons { name: name.to_owned(), known, examples: Examples::new(COUNT), of_sample: 0 })
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
        let tree = Growth::default().grow(&self.examples, &FEATURES, scales)?;
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

    /// Shares a time out among requests that were served side by side, in proportion to what each takes by itself; of which it is at
    /// least the part `least`.
    pub fn shares(&self, start: Nanos, requests: &[Request], took: Nanos, least: f64) -> Vec<Nanos> {
        let mut state = self.state.without_pages();
        let mut at = start;
        let mut alone = Vec::with_capacity(requests.len());
        for request in requests {
            let row = state.look(&self.lessons.known, at, request, 0);
            let ms = features::alone_ms(&row);
            state.settle(&self.lessons.known, ms * 1e6);
            at += Nanos::from_millis_f64(ms);
            alone.push(ms);
        }
        let all: f64 = alone.iter().sum();
        alone.iter().map(|ms| Nanos::from_millis_f64(ms * (took.as_millis_f64() / all).max(least))).collect()
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
        let mut text = format!("{name}: {} sectors", known.capacity_sectors);
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
            None => text.push_str("Nothing turns in it, as far as its times tell.\n"),
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
    /// As [`of`](ServiceTime::of), with how it may vary; in ms.
    pub fn spread(&mut self, start: Nanos, request: &Request, waiting: u32) -> Spread {
        let row = self.state.look(&self.model.known, start, request, waiting);
        let spread = self.model.tree.predict_spread(&row);
        self.state.settle(&self.model.known, spread.mean * 1e6);
        spread
    }
}

impl ServiceTime for Running {
    fn of(&mut self, start: Nanos, request: &Request, waiting: u32) -> Nanos {
        let row = self.state.look(&self.model.known, start, request, waiting);
        let took = Nanos::from_millis_f64(self.model.tree.predict(&row));
        self.state.settle(&self.model.known, took.0 as f64);
        took
    }
}
