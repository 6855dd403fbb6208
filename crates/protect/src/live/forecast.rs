//! Forecasts the performance that a unit with a guarantee would have alone on the device, from its recorded requests, by simulation.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use crate::alone;
use crate::decision::{Alone, Promise};
use block::{Nanos, StreamId};
use observe::Event;
use twin::Recording;
use twin::unit_load::UnitLoad;

/// Memory for recorded requests: about 100,000, half a minute of a busy device. Choice: more memory makes a forecast surer and slower;
/// not varied.
const RECORDED_BYTES: usize = 16 << 20;
/// Delay of the first forecast. Choice: an earlier forecast knows few requests, a later one leaves the guarantee on trial; not varied.
const FIRST: Nanos = Nanos::from_millis(10_000);
/// Maximum delay between forecasts; the delay doubles each time. A forecast takes some tenths of a second of CPU time. Choice: bounds the
/// CPU time below a thousandth of a core; not varied.
const LONGEST: Nanos = Nanos::from_millis(600_000);
/// Maximum processes remembered per unit; beyond that most have ended long ago. Choice: bounds the memory to some hundred KiB a unit;
/// not varied.
const MAX_PROCESSES: usize = 16_384;

/// Runs forecasts one at a time, each in its own thread.
#[derive(Default)]
pub(super) struct Forecasts {
    /// A recording apart from the controller's, which has no fsync calls, is as large as the device's budget, and ends with its controller.
    recording: Option<Recording>,
    /// Processes by member, those included that have ended since.
    streams: BTreeMap<usize, BTreeSet<StreamId>>,
    /// Time of the next forecast by member, and the delay until the one after it.
    due: BTreeMap<usize, (Nanos, Nanos)>,
    running: Option<(usize, Receiver<Result<Alone, String>>)>,
}

impl Forecasts {
    /// Starts forecasting these members.
    pub(super) fn begin(now: Nanos, members: &[usize]) -> Forecasts {
        let mut forecasts = Forecasts::default();
        forecasts.add(now, members);
        forecasts
    }

    /// Adds members; known ones are ignored.
    pub(super) fn add(&mut self, now: Nanos, members: &[usize]) {
        for member in members {
            self.due.entry(*member).or_insert((now + FIRST, FIRST));
        }
    }

    /// Records an event of a member.
    pub(super) fn event(&mut self, member: usize, stream: StreamId, event: &Event) {
        if self.due.is_empty() {
            return;
        }
        self.recording.get_or_insert_with(|| Recording::within(RECORDED_BYTES)).event(event);
        if self.due.contains_key(&member) {
            let streams = self.streams.entry(member).or_default();
            if streams.len() >= MAX_PROCESSES {
                streams.clear();
            }
            streams.insert(stream);
        }
    }

    /// Starts a forecast that is due, and returns a finished one. `promise` returns the guarantee of a member, `None` if it needs no forecast.
    pub(super) fn step(
        &mut self,
        now: Nanos,
        capacity_sectors: u64,
        promise: impl Fn(usize) -> Option<Promise>,
    ) -> Option<(usize, Alone)> {
        if let Some((member, receiver)) = &self.running {
            let member = *member;
            return match receiver.try_recv() {
                Err(TryRecvError::Empty) => None,
                done => {
                    self.running = None;
                    Some((member, done.ok()?.ok()?))
                }
            };
        }
        let member = *self.due.iter().find(|(_, (at, _))| now >= *at)?.0;
        let (at, after) = self.due.get_mut(&member)?;
        (*at, *after) = (now + *after, Nanos(after.0 * 2).min(LONGEST));
        let promise = promise(member)?;
        let (recording, streams) = (self.recording.as_ref()?, self.streams.get(&member)?);
        let load = UnitLoad::infer(recording, now, |stream| streams.contains(&stream)).ok()?;
        let (sender, receiver) = channel();
        let forecast = move || drop(sender.send(alone::forecast(&load, &promise, capacity_sectors)));
        // If no thread can be created, there is no forecast, and the guarantee stays on trial.
        std::thread::Builder::new().name("forecast".to_owned()).spawn(forecast).ok()?;
        self.running = Some((member, receiver));
        None
    }
}
