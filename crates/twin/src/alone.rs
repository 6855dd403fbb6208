//! Predicts the performance of a unit alone on a device by replaying its processes' requests on the fitted device.

use block::{Limits, Nanos, StreamId};
use control::Setting;
use control::protect::{Alone, Figure, PERIOD, Promise, Protector, Unit};
use control::target::Bounds;
use sim::profile::DeviceProfile;

use crate::device::{self, MAX_FITTED};
use crate::forecast::{MAX_TRIAL, TrialRig};
use crate::load::Load;
use crate::recording::{ObservedRequest, Recording};
use crate::trial::TrialLength;

/// Minimum number of requests of the unit, and of the device, for a forecast.
pub const MIN_REQUESTS: usize = 300;
/// A p99 guarantee is rejected only if the forecast exceeds it by this factor: the forecast for a solid-state drive with occasional writes
/// was 2.5 times the measured p99, for disks at most 1.3 times (`seekwise-lab protect`, the first eight draws of seed 5 of the training
/// world).
const P99_FACTOR: f64 = 3.0;
/// A rate guarantee is rejected only if it exceeds the forecast by this fraction: forecasts were 0.95 to 1.06 times the measured rates.
const ERROR: f64 = 0.3;
/// Maximum number of requests of a trial: two seconds of a fast solid-state drive, some tenths of a second of simulation.
const MAX_REQUESTS: u64 = 100_000;
/// The scheduler of the forecast: with a single unit there is nothing to arbitrate.
const SCHEDULER: &str = "none";
/// Queue size, Linux's default with a scheduler (twice `BLKDEV_DEFAULT_RQ`).
const NR_REQUESTS: u32 = 256;

/// The load of some processes, and a sample of requests to fit the device to.
pub struct Seen {
    load: Load,
    sample: Vec<ObservedRequest>,
}

impl Seen {
    /// Infers the load of these processes until now.
    ///
    /// # Errors
    /// Too few requests; the text contains the number.
    pub fn new(recording: &Recording, now: Nanos, is_of: impl Fn(StreamId) -> bool) -> Result<Seen, String> {
        let skipped = recording.seen().len().saturating_sub(MAX_FITTED);
        let sample: Vec<ObservedRequest> = recording.seen().skip(skipped).chain(recording.flushes()).copied().collect();
        let waiting: Vec<ObservedRequest> = recording.in_flight().collect();
        let asked = recording.seen().chain(recording.flushes()).chain(&waiting).filter(|seen| is_of(seen.request.stream));
        let load = Load::infer(asked, recording.known_from(), now);
        match load.requests() {
            requests if requests < MIN_REQUESTS => Err(format!("{requests} requests are too few")),
            _ => Ok(Seen { load, sample }),
        }
    }

    /// Fits the device, and replays the load on it. `capacity_sectors`: the device's capacity.
    ///
    /// # Errors
    /// No device can be fitted, or nothing is served.
    pub fn alone(self, promise: &Promise, capacity_sectors: u64) -> Result<Alone, String> {
        let fitted = device::fit(&self.sample, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        on(&*fitted.profile(), &self.load, promise, capacity_sectors)
    }
}

fn on(device: &dyn DeviceProfile, load: &Load, promise: &Promise, capacity_sectors: u64) -> Result<Alone, String> {
    let bounds = Bounds { capacity_sectors, limits: Limits::default(), nr_requests: NR_REQUESTS, read_ahead_kib: None };
    let length = TrialLength::new(MAX_TRIAL, MAX_REQUESTS);
    let rig = TrialRig { device, bounds, load, call_model: None, length };
    let unit = Unit { name: String::new(), promise: Some(promise.clone()), is_limitable: false, floor_bytes_per_s: 0 };
    let mut protector = Protector::new(vec![unit]);
    let mut next = PERIOD;
    let setting = Setting::parse(SCHEDULER).map_err(|error| error.to_string())?;
    let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
    let result = rig.run_for((&setting, None), &build, length, &mut |event| {
        while event.at() >= next {
            protector.step(next);
            next += PERIOD;
        }
        protector.event(0, event);
    });
    result.ok_or("nothing can be served")?;
    let mut alone = protector.alone(0).ok_or("too little was served")?;
    let beyond = |figure: Option<Figure>, by: f64| figure.map(|Figure { value, .. }| Figure { value, bound: value * by });
    alone.p99_s = alone.p99_s.map(|figure| beyond(figure, 1.0 / P99_FACTOR));
    alone.rates = alone.rates.map(|figure| beyond(figure, 1.0 + ERROR));
    alone.basis = format!("forecast from {} requests", load.requests());
    Ok(alone)
}
