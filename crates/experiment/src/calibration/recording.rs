//! A recording to fit to, and the distance of a model from it.
//!
//! The distance compares distributions, as the demerit figure does, but class by class: requests with the same operation, the same
//! operation before, and the same kind of arm movement. So an overhead after a write is not mistaken for one after a read. Within a
//! class, the sorted times of model and drive are compared, in units of the drive's own spread there: a tenth of a millisecond says
//! much where all requests take the same time, and little where they wait for the platter. For a shift this is the logarithm of the
//! likelihood.

use std::sync::Arc;

use block::{Nanos, Op};
use rand::Rng as _;
use sim::device::hdd::Hdd;
use sim::device::hdd::model::HddModel;
use sim::device::hdd::spec::HddSpecification;
use sim::validate::{MeasuredRequest, replay};
use statistics::sample::population_variance;
use testbed::chance;

/// Blocks of successive requests that are held out one at a time.
pub const BLOCKS: usize = 10;

/// Replays with random phases of the spindle, if the recording does not keep the phase.
const PHASES: usize = 16;

/// Operation, operation before, and five kinds of arm movement.
const CLASSES: usize = 2 * 2 * 5;

/// Resolution of recordings.
const RESOLUTION_MS: f64 = 1e-3;

/// Groups that are compared: the classes, then all reads and all writes.
const GROUPS: usize = CLASSES + 2;

/// Distances of a model from the recording, in units of the drive's standard deviation, summed over requests.
#[derive(Clone, Debug)]
pub struct Losses {
    /// Over all requests.
    pub all: f64,
    /// By block: without the requests of that block.
    pub without: [f64; BLOCKS],
    /// By block: over the requests of that block alone.
    pub only: [f64; BLOCKS],
}

impl Losses {
    /// The losses of a profile that does not describe a disk.
    fn impossible() -> Losses {
        Losses { all: f64::INFINITY, without: [f64::INFINITY; BLOCKS], only: [f64::INFINITY; BLOCKS] }
    }
}

/// Number of subsets of requests: all, all but one block, one block.
const SUBSETS: usize = 1 + 2 * BLOCKS;

/// The recording that models are fitted to.
pub struct Recording {
    /// Copies of the requests with random pauses, or one unchanged if the recording keeps the phase.
    phases: Vec<Vec<MeasuredRequest>>,
    /// The class of each request.
    class: Vec<usize>,
    /// For each subset and group, the drive's response times in ms, ascending.
    measured: Vec<Vec<f64>>,
    /// For each group: one divided by the standard deviation of the drive's response times in ms.
    weights: [f64; GROUPS],
    /// Whether the recording keeps the phase of the spindle from one request to the next.
    keeps_phase: bool,
}

impl Recording {
    /// Prepares successive requests of a recording for fitting profiles like `spec`.
    pub fn new(requests: &[MeasuredRequest], spec: &HddSpecification, model: &Arc<HddModel>) -> Recording {
        let class = classes(requests, model);
        let mut measured = vec![Vec::new(); SUBSETS * GROUPS];
        for (index, request) in requests.iter().enumerate() {
            for subset in subsets(block(index, requests.len())) {
                for group in groups(class[index]) {
                    measured[subset * GROUPS + group].push(request.response_ms);
                }
            }
        }
        for times in &mut measured {
            times.sort_by(f64::total_cmp);
        }
        let period = 60e9 / spec.mechanics.rotation_rpm;
        let others: Vec<Vec<MeasuredRequest>> = (0..PHASES as u32).map(|number| other_phase(requests, period, number)).collect();
        let error = |requests: &[MeasuredRequest]| mean_error(requests, &respond(model, requests));
        // With a random phase, the mean error is a quarter of a revolution; a recording that keeps the phase is far below.
        let keeps_phase = error(requests) < 0.7 * error(&others[0]);
        let phases = if keeps_phase { vec![requests.to_vec()] } else { others };
        let weights =
            std::array::from_fn(|group| 1.0 / population_variance(&measured[group]).unwrap_or(0.0).sqrt().max(RESOLUTION_MS));
        Recording { phases, class, measured, weights, keeps_phase }
    }

    /// The factor by which the model's random phases increase the variance of a fit.
    pub fn variance_factor(&self) -> f64 {
        if self.keeps_phase { 1.0 } else { 1.0 + 1.0 / self.phases.len() as f64 }
    }

    /// The distance of a profile from the drive.
    pub fn losses(&self, spec: &HddSpecification) -> Losses {
        let Ok(model) = HddModel::new(spec) else { return Losses::impossible() };
        let model = Arc::new(model);
        let mut times: Vec<(f64, u32)> = Vec::with_capacity(self.phases.len() * self.class.len());
        for requests in &self.phases {
            times.extend(respond(&model, requests).into_iter().zip(0..));
        }
        // Ties in request order, so that the sum does not depend on the sort's algorithm.
        times.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
        self.compare(&times)
    }

    /// Compares the model's times, ascending and with the index of their request, with those of the drive.
    fn compare(&self, times: &[(f64, u32)]) -> Losses {
        let mut sums = vec![(0u32, 0.0); SUBSETS * GROUPS];
        let replays = self.phases.len();
        for &(time, request) in times {
            let request = request as usize;
            for subset in subsets(block(request, self.class.len())) {
                for group in groups(self.class[request]) {
                    let at = subset * GROUPS + group;
                    let (count, sum) = &mut sums[at];
                    let difference = time - self.measured[at][*count as usize / replays];
                    *sum += difference.abs();
                    *count += 1;
                }
            }
        }
        let loss = |subset: usize| {
            let sums = &sums[subset * GROUPS..][..GROUPS];
            let weighted: f64 = sums.iter().zip(&self.weights).map(|((_, sum), weight): (&(u32, f64), _)| sum * weight).sum();
            weighted / replays as f64
        };
        let each = |from: usize| std::array::from_fn(|block| loss(from + block));
        Losses { all: loss(0), without: each(1), only: each(1 + BLOCKS) }
    }
}

/// The block that a request belongs to.
fn block(index: usize, requests: usize) -> usize {
    index * BLOCKS / requests
}

/// The subsets that keep the requests of a block.
fn subsets(block: usize) -> impl Iterator<Item = usize> {
    let without = (0..BLOCKS).filter(move |&other| other != block).map(|other| 1 + other);
    [0, 1 + BLOCKS + block].into_iter().chain(without)
}

/// The groups that a request of a class belongs to: the operation is the class's lowest bit.
fn groups(class: usize) -> [usize; 2] {
    [class, CLASSES + class % 2]
}

/// The class of each request, determined from the requests alone.
fn classes(requests: &[MeasuredRequest], model: &HddModel) -> Vec<usize> {
    let layout = &model.layout;
    let stroke = layout.locate(layout.capacity_sectors - 1).cylinder.max(1);
    let (mut end, mut arm, mut before, mut followed) = (u64::MAX, 0, 0, false);
    let mut classes = Vec::with_capacity(requests.len());
    for request in requests {
        let op = usize::from(request.op == Op::Write);
        let cylinder = layout.locate(request.lba).cylinder;
        let distance = cylinder.abs_diff(arm);
        let follows = request.lba == end;
        let way = match (follows, distance) {
            // The first sequential request is a class of its own: a drive may detect a sequence by it.
            (true, _) if followed => 0,
            (true, _) => 1,
            (false, 0) => 2,
            (false, distance) if distance < stroke / 8 => 3,
            _ => 4,
        };
        classes.push(op + 2 * (before + 2 * way));
        end = request.lba + u64::from(request.sectors);
        (arm, before, followed) = (layout.locate(end - 1).cylinder, op, follows);
    }
    classes
}

/// A copy of the requests whose pauses are longer or shorter by up to half a revolution, at random.
fn other_phase(requests: &[MeasuredRequest], period_ns: f64, number: u32) -> Vec<MeasuredRequest> {
    let mut random = chance::source("calibration", 0, number);
    let moved = |request: &MeasuredRequest| {
        let think = request.think.0 as f64 + (random.random::<f64>() - 0.5) * period_ns;
        MeasuredRequest { think: Nanos(if think < 0.0 { think + period_ns } else { think } as u64), ..*request }
    };
    requests.iter().map(moved).collect()
}

/// The model's response times in ms.
pub fn respond(model: &Arc<HddModel>, requests: &[MeasuredRequest]) -> Vec<f64> {
    let mut device = Hdd::new(model.clone(), None, None);
    // The replay is never stopped, and a disk with a request always has a next event, so it cannot fail.
    replay(&mut device, requests, |_| false).unwrap_or_default()
}

fn mean_error(requests: &[MeasuredRequest], responses: &[f64]) -> f64 {
    let errors = requests.iter().zip(responses).map(|(request, response)| (request.response_ms - response).abs());
    statistics::mean(errors).unwrap_or(0.0)
}
