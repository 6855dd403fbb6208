//! What a promised unit would get with nothing else there, forecast by the twin from what was seen of it beside others.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use block::{Nanos, StreamId};
use control::protect::{Alone, Promise};
use observe::Event;
use twin::Recording;
use twin::alone::Seen;

/// Memory of the recording: 100,000 requests, half a minute of a busy device.
const RECORDED_BYTES: usize = 16 << 20;
/// Time from the start until the first forecast; …
const FIRST: Nanos = Nanos::from_millis(10_000);
/// … each next one comes after twice the time. Each costs some tenths of a second of processor time.
const LONGEST: Nanos = Nanos::from_millis(600_000);
/// Processes of a unit that are known at most: more have ended long ago.
const MAX_PROCESSES: usize = 16_384;

/// Forecasts, one at a time, each in a thread of its own.
#[derive(Default)]
pub(super) struct Forecasts {
    recording: Option<Recording>,
    /// By member, its processes.
    streams: BTreeMap<usize, BTreeSet<StreamId>>,
    /// By member, when it is next due, and the time after that.
    due: BTreeMap<usize, (Nanos, Nanos)>,
    running: Option<(usize, Receiver<Result<Alone, String>>)>,
}

impl Forecasts {
    /// Forecasts of these members from now on.
    pub(super) fn begin(now: Nanos, members: &[usize]) -> Forecasts {
        let mut forecasts = Forecasts::default();
        forecasts.add(now, members);
        forecasts
    }

    /// Forecasts these members as well, if they are new.
    pub(super) fn add(&mut self, now: Nanos, members: &[usize]) {
        for member in members {
            self.due.entry(*member).or_insert((now + FIRST, FIRST));
        }
    }

    /// Takes an event of a member in.
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

    /// Begins a forecast that is due, and returns one that is done. `promise`: of a member; `None` if it needs no forecast.
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
        let seen = Seen::new(recording, now, |stream| streams.contains(&stream)).ok()?;
        let (sender, receiver) = channel();
        let forecast = move || drop(sender.send(seen.alone(&promise, capacity_sectors)));
        // Without a thread there is no forecast, and the promise stays on trial.
        std::thread::Builder::new().name("forecast".to_owned()).spawn(forecast).ok()?;
        self.running = Some((member, receiver));
        None
    }
}
