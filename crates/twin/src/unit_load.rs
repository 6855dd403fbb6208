//! The load of one unit's processes, replayed alone on the fitted device.

use block::{Limits, Nanos, StreamId};
use control::Setting;
use control::target::Bounds;
use observe::Event;
use sim::profile::DeviceProfile;

use crate::device::{self, MAX_FITTED};
use crate::forecast::{MAX_TRIAL, TrialRig};
use crate::load::Load;
use crate::recording::{ObservedRequest, Recording};
use crate::trial::TrialLength;

/// Minimum number of requests of the unit, and of the device, for a replay. Choice: three requests beyond the p99; not varied.
pub const MIN_REQUESTS: usize = 300;
/// Maximum number of requests of a replay: two seconds of a fast solid-state drive, some tenths of a second of simulation. Choice: accuracy
/// of the p99 against 0.2 s of processor time; not varied.
const MAX_REQUESTS: u64 = 100_000;
/// The scheduler of the replay: with a single unit there is nothing to arbitrate.
const SCHEDULER: &str = "none";
/// Queue size: Linux's default with a scheduler. Source: `blk_mq_init_sched` in `block/blk-mq-sched.c`, twice `BLKDEV_DEFAULT_RQ`.
const NR_REQUESTS: u32 = 2 * 128;

/// The load of some processes, and a sample of requests to fit the device to.
pub struct UnitLoad {
    load: Load,
    sample: Vec<ObservedRequest>,
}

impl UnitLoad {
    /// Infers the load of these processes until now.
    ///
    /// # Errors
    /// Too few requests; the text contains the number.
    pub fn infer(recording: &Recording, now: Nanos, is_of: impl Fn(StreamId) -> bool) -> Result<UnitLoad, String> {
        let skipped = recording.seen().len().saturating_sub(MAX_FITTED);
        let sample: Vec<ObservedRequest> = recording.seen().skip(skipped).chain(recording.flushes()).copied().collect();
        let waiting: Vec<ObservedRequest> = recording.in_flight().collect();
        let asked = recording.seen().chain(recording.flushes()).chain(&waiting).filter(|seen| is_of(seen.request.stream));
        let load = Load::infer(asked, recording.known_from(), now);
        match load.requests() {
            requests if requests < MIN_REQUESTS => Err(format!("{requests} requests are too few")),
            _ => Ok(UnitLoad { load, sample }),
        }
    }

    /// The number of requests that the load was inferred from.
    pub fn requests(&self) -> usize {
        self.load.requests()
    }

    /// Fits the device, and replays the load on it. `capacity_sectors`: the device's capacity. `on_event` receives the replay's events.
    ///
    /// # Errors
    /// No device can be fitted, or nothing is served.
    pub fn replay(&self, capacity_sectors: u64, on_event: &mut dyn FnMut(&Event)) -> Result<(), String> {
        let fitted = device::fit(&self.sample, Some(capacity_sectors)).map_err(|error| error.to_string())?;
        self.replay_on(&*fitted.profile(), capacity_sectors, on_event)
    }

    fn replay_on(&self, device: &dyn DeviceProfile, capacity_sectors: u64, on_event: &mut dyn FnMut(&Event)) -> Result<(), String> {
        let bounds = Bounds { capacity_sectors, limits: Limits::default(), nr_requests: NR_REQUESTS, read_ahead_kib: None };
        let length = TrialLength::new(MAX_TRIAL, MAX_REQUESTS);
        let rig = TrialRig { device, bounds, load: &self.load, call_model: None, length };
        let setting = Setting::parse(SCHEDULER).map_err(|error| error.to_string())?;
        let build = |setting: &Setting, limits: &Limits| (setting.spec.build)(limits, &setting.values);
        rig.run_for((&setting, None), &build, length, on_event).ok_or("nothing can be served")?;
        Ok(())
    }
}
