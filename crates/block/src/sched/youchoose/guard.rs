//! How long a volume can do without the device, because a request that is there cannot be called back.
//!
//! ```text
//! done      may ask again            response that its reference disk has, at worst
//!  │◀─ think ─▶│◀──────────────────── tail ────────────────────────▶│
//!  │           │◀────── slack ──────▶│◀── its own request here ────▶│
//!  └───────────┴─────────────────────┘ until here others may keep the device
//! ```
//! One in a hundred responses may be later than on the reference disk, so that what counts is the worst that is common there, not what each
//! request takes. Who asks only after a pause, and has always left one so far, is not expected earlier. The worst of two times rarely
//! meet, and caches work on after they have answered: so slack is corrected by whether responses are late. They are if they take longer
//! than the worst, and if they are later than the reference disk's on average: who has two requests under way is otherwise answered late
//! every other time, and asks late.

use crate::Nanos;
use crate::sorted::SortedList;

use super::volume::Volume;
use super::{key, number_of};

/// Who did not ask for so long, after it was expected, is not waited for.
pub(super) const LONGEST_SILENCE: Nanos = Nanos::from_millis(1_000);
/// How many of those who have least slack are looked at, for that must not grow with the number of volumes. If none of them objects, but
/// others follow who have too little slack as well, it is not allowed.
const MOST_LOOKED_AT: usize = 8;

/// Of so many responses, one may be late because others were allowed to keep the device, and one because they did though they were not.
/// One in a hundred may be later than on the reference disk.
const ONE_IN: u64 = 256;
/// In so many steps all slack is lost where others keep the device for too long.
const STEPS: i64 = 8;

/// What is rarely exceeded: it rises to every sample above it at once, and falls by a part of the distance with every one below, so that
/// about as small a part of the samples lie above.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct High(Option<Nanos>);

impl High {
    pub(super) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample >= before { sample } else { before - Nanos((before - sample).0 / ONE_IN) });
    }

    pub(super) fn get(self) -> Option<Nanos> {
        self.0
    }
}

/// What is rarely undercut. Nothing at first.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Low(Option<Nanos>);

impl Low {
    pub(super) fn add(&mut self, sample: Nanos) {
        let before = self.0.unwrap_or(sample);
        self.0 = Some(if sample <= before { sample } else { before + Nanos((sample - before).0 / ONE_IN) });
    }

    pub(super) fn get(self) -> Nanos {
        self.0.unwrap_or(Nanos::ZERO)
    }
}

/// A response, for what can be learned from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Response {
    /// Since it was asked.
    pub(super) took: Nanos,
    /// What it would have taken on the reference disk.
    pub(super) allowed: Nanos,
    /// When the reference disk is done with it, were all that came before answered in time.
    pub(super) reference_done: Nanos,
    /// For how long it kept the device, behind what was there before it.
    pub(super) keeps: Nanos,
    /// Its time at the device, if nothing of others was there before it.
    pub(super) alone: Option<Nanos>,
    /// Others kept the device from it, because they were allowed to.
    pub(super) made_room: bool,
}

/// What is known of one volume.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Guard {
    /// Response on the reference disk.
    tail: High,
    /// Time at this device, with nothing of other volumes there when it came.
    alone: High,
    /// For how long a request keeps the device.
    keeps: High,
    /// By how much more others may keep the device than tail and time alone tell, in nanoseconds. The worst of both rarely meet; on
    /// the other hand there is what others leave to be done in a device's cache.
    learned: i64,
    /// How much earlier its requests were done than on the reference disk, and not yet so much later: as long as there is some left,
    /// they are done as early on average, and who asks again once he is answered gets as much. No more than the worst response.
    credit: Nanos,
    /// The least time that it lately left between an answer and its next request.
    think: Low,
    last_done: Nanos,
    /// Requests done since others last went though they were not allowed to, and which time that was.
    done: u32,
    intrusion: u32,
    /// Its place in the list.
    place: Option<u128>,
}

impl Guard {
    /// It asks for something, and had nothing under way.
    pub(super) fn asks_again(&mut self, now: Nanos) {
        if self.last_done > Nanos::ZERO {
            self.think.add(now - self.last_done);
        }
    }

    /// Something is done, after so many intrusions of others.
    pub(super) fn done(&mut self, now: Nanos, response: &Response, intrusions: u32) {
        self.done = if self.intrusion == intrusions { self.done.saturating_add(1) } else { 1 };
        self.intrusion = intrusions;
        self.last_done = now;
        self.tail.add(response.allowed);
        self.keeps.add(response.keeps);
        if let Some(alone) = response.alone {
            self.alone.add(alone);
        }
        let tail = self.tail().0.cast_signed();
        // What the host takes for the request itself is not the fault of others.
        let allowed = response.reference_done.max(now - response.took + response.keeps);
        self.credit = (self.credit + (allowed - now)).min(self.tail());
        let debit = now - allowed;
        let is_overdrawn = debit > self.credit;
        // Each time, what is given up has to show before more is.
        self.credit = if is_overdrawn { self.tail() } else { self.credit - debit };
        // Whether more can be allowed shows only where it is tried.
        let change = match response.took > self.tail() || is_overdrawn {
            true if response.made_room => -tail / STEPS,
            true => 0,
            false => tail / STEPS / ONE_IN.cast_signed(),
        };
        self.learned = self.learned.saturating_add(change).clamp(-tail, tail);
    }

    /// For how long a request of it keeps the device, at worst. `None` as long as nobody knows.
    pub(super) fn keeps(&self) -> Option<Nanos> {
        self.keeps.get()
    }

    /// Time of a request at the device at worst, with nothing of others there when it came. `None` as long as nobody knows.
    pub(super) fn alone(&self) -> Option<Nanos> {
        self.alone.get()
    }

    /// Its response on the reference disk, at worst.
    pub(super) fn tail(&self) -> Nanos {
        self.tail.get().unwrap_or(Nanos::ZERO)
    }

    fn slack(&self) -> Nanos {
        let slack = (self.tail() - self.alone.get().unwrap_or(Nanos::ZERO)).0.saturating_add_signed(self.learned);
        Nanos(slack).min(self.tail())
    }

    /// By when a request must go to the device that is asked at `from`; or a pause after that.
    pub(super) fn can_wait_until(&self, from: Nanos, pauses: bool) -> Nanos {
        from + if pauses { self.think.get() } else { Nanos::ZERO } + self.slack()
    }

    /// When its next request comes at the earliest, if it has none under way.
    pub(super) fn next_at(&self) -> Nanos {
        self.last_done + self.think.get()
    }

    /// Whether others may go who keep the device for too long: so seldom, with so many requests under way, that it is late less often than
    /// one in a hundred times; and as soon after an answer as they can.
    pub(super) fn bears_intrusion(&self, now: Nanos, open: u32, is_served: bool, intrusions: u32) -> bool {
        let is_seldom = self.intrusion == intrusions && u64::from(self.done) >= ONE_IN * u64::from(open.max(1));
        is_seldom && (is_served || now <= self.last_done + Nanos(self.think.get().0 / 4))
    }
}

/// A volume would keep the device, with a request that takes so long, until then.
pub(super) struct Kept {
    pub(super) number: usize,
    pub(super) keeps: Nanos,
    pub(super) until: Nanos,
}

impl Kept {
    /// Whether another volume can object. What both take, both wait for, if both were promised a disk.
    fn concerns(&self, other: usize, volumes: &[Volume]) -> bool {
        let volume = &volumes[self.number];
        other != self.number && (!volume.is_promised() || volume.is_long_beside(self.keeps, &volumes[other]))
    }
}

/// All volumes that are about to ask, by slack.
#[derive(Default)]
pub(super) struct Guards {
    by_slack: SortedList,
}

impl Guards {
    /// A volume has asked, or has another slack than before.
    pub(super) fn line_up(&mut self, number: usize, guard: &mut Guard) {
        let slack = guard.slack().0;
        // What hardly changes is not sorted anew.
        if guard.place.is_some_and(|place| number_of(place).abs_diff(slack) <= slack / 32) {
            return;
        }
        guard.place.inspect(|&place| self.by_slack.remove(place));
        let place = key(slack, number);
        self.by_slack.insert(place, number as u32);
        guard.place = Some(place);
    }

    /// For whose sake the device may not be kept for so long; `None` if it may. Of those that wait already, `first` is due first.
    pub(super) fn refuses(&mut self, now: Nanos, kept: &Kept, first: Option<usize>, volumes: &mut [Volume]) -> Option<usize> {
        let is_too_long_for = |volume: &Volume| volume.can_wait_until(now) < kept.until;
        if let Some(first) = first.filter(|&first| kept.concerns(first, volumes) && is_too_long_for(&volumes[first])) {
            return Some(first);
        }
        let mut next = self.by_slack.first();
        let mut last = None;
        for _ in 0..MOST_LOOKED_AT {
            let (place, other) = next.filter(|&(place, _)| now + Nanos(number_of(place)) < kept.until)?;
            let number = other as usize;
            let is_concerned = kept.concerns(number, volumes);
            let volume = &mut volumes[number];
            if volume.expected_until().is_some_and(|until| until <= now) {
                self.by_slack.remove(place);
                volume.guard.place = None;
            } else if is_concerned && is_too_long_for(volume) {
                return Some(number);
            }
            last = is_concerned.then_some(number).or(last);
            next = self.by_slack.at_or_after(place + 1);
        }
        last
    }
}
