//! What a controller cannot see of the harm that a setting does: reads that wait far longer, a device that answers nobody, errors.
//!
//! It compares with what was before the change. The controller's own verification is about the mean of what was wanted; this is about the
//! few that pay for it, and holds whatever controller decides.

use std::collections::BTreeSet;
use std::fs;

use block::{Nanos, Op, StreamId};
use learn::Event;
use learn::merit::{self, BOUND_FACTOR, LEAST_BOUND_S};

use crate::sysfs::Sysfs;

/// Buckets of a [`Tail`]: eight to each doubling, from 1 ns on, so that a bound is right to 9%.
const PER_DOUBLING: u32 = 8;
const BUCKETS: usize = 64 * PER_DOUBLING as usize;
/// With fewer reads there is no 99th percentile worth the name.
const LEAST_READS: u64 = merit::LEAST_REQUESTS;
/// A change is answerable for what comes within so many seconds; later the load may be another one.
const ANSWERABLE_S: f64 = 60.0;
/// A device that has requests and answers none for so long stands still: three times what anybody should wait.
const STANDS_STILL_S: f64 = 3.0 * LEAST_BOUND_S;

/// Response times, coarsely.
#[derive(Clone)]
struct Tail {
    counts: Box<[u32; BUCKETS]>,
    all: u64,
}

impl Tail {
    fn new() -> Tail {
        Tail { counts: Box::new([0; BUCKETS]), all: 0 }
    }

    fn clear(&mut self) {
        self.counts.fill(0);
        self.all = 0;
    }

    fn add(&mut self, time: Nanos) {
        self.counts[bucket(time)] += 1;
        self.all += 1;
    }

    fn merge(&mut self, other: &Tail) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(mine, more)| *mine += more);
        self.all += other.all;
    }

    /// 99 of 100 took at most this long.
    fn p99(&self) -> Nanos {
        let wanted = self.all - self.all / 100;
        let mut seen = 0;
        let place = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        });
        upper(place.unwrap_or(BUCKETS - 1))
    }

    /// How many took longer.
    fn above(&self, time: Nanos) -> u64 {
        self.counts[bucket(time) + 1..].iter().map(|&count| u64::from(count)).sum()
    }
}

/// The doubling in the high digits, an eighth of it in the low ones.
fn bucket(time: Nanos) -> usize {
    let time = time.0.max(1);
    let doubling = time.ilog2();
    let eighth = if doubling >= 3 { (time >> (doubling - 3)) as u32 & 7 } else { 0 };
    (doubling * PER_DOUBLING + eighth) as usize
}

/// The longest time in a bucket.
fn upper(bucket: usize) -> Nanos {
    let (doubling, eighth) = (bucket as u32 / PER_DOUBLING, bucket as u64 % u64::from(PER_DOUBLING));
    if doubling < 3 {
        return Nanos((2 << doubling) - 1);
    }
    let next = u128::from(8 + eighth + 1) << (doubling - 3);
    Nanos(u64::try_from(next - 1).unwrap_or(u64::MAX))
}

/// Readers of which it is known that they were there before a change.
const MOST_READERS: usize = 1 << 12;

/// Readers that are looked at before the set of all: the same few ask most of the time.
const LATELY: usize = 64;

/// What was read in some time.
struct Reads {
    tail: Tail,
    readers: BTreeSet<StreamId>,
    lately: [Option<StreamId>; LATELY],
}

impl Reads {
    fn new() -> Reads {
        Reads { tail: Tail::new(), readers: BTreeSet::new(), lately: [None; LATELY] }
    }

    fn add(&mut self, stream: StreamId, time: Nanos) {
        self.tail.add(time);
        let lately = &mut self.lately[stream as usize % LATELY];
        if lately.replace(stream) != Some(stream) && self.readers.len() < MOST_READERS {
            self.readers.insert(stream);
        }
    }

    fn merge(&mut self, other: &Reads) {
        self.tail.merge(&other.tail);
        self.readers.extend(&other.readers);
    }

    fn clear(&mut self) {
        self.tail.clear();
        self.readers.clear();
        self.lately = [None; LATELY];
    }
}

/// What is on trial.
struct Trial {
    /// Reads before the change.
    before: Reads,
    since: Nanos,
    /// Reads since then of those that read before.
    of_theirs: Tail,
}

/// Watches over a device.
pub struct Guard {
    /// Reads under what is in force: of the last minute that ended, and of this one.
    last: Reads,
    current: Reads,
    turns: Nanos,
    /// `None` while nothing is on trial.
    trial: Option<Trial>,
    under_way: u64,
    /// When something was done last, or came to an idle device.
    moved: Nanos,
    /// Errors that the driver had counted at the change.
    errors: Option<u64>,
}

/// How often the older half of what is known is forgotten.
const TURN: Nanos = Nanos(60_000_000_000);

impl Guard {
    /// From now on.
    pub fn new(now: Nanos) -> Guard {
        let (last, current) = (Reads::new(), Reads::new());
        Guard { last, current, turns: now + TURN, trial: None, under_way: 0, moved: now, errors: None }
    }

    /// Takes an event in.
    pub fn event(&mut self, event: &Event) {
        match event {
            Event::Queued(request) => {
                if self.under_way == 0 {
                    self.moved = request.arrival;
                }
                self.under_way += 1;
            }
            Event::Completed { request, at, .. } => {
                self.under_way = self.under_way.saturating_sub(1);
                self.moved = *at;
                // Those that had been queued before the change were served by two settings.
                let is_of_now = self.trial.as_ref().is_none_or(|trial| request.arrival >= trial.since);
                if request.op == Op::Read && is_of_now {
                    // A larger read-ahead makes longer requests of the same calls.
                    let time = Nanos((*at - request.arrival).0 / u64::from(request.counts_as()));
                    self.current.add(request.stream, time);
                    if let Some(trial) = self.trial.as_mut().filter(|trial| trial.before.readers.contains(&request.stream)) {
                        trial.of_theirs.add(time);
                    }
                }
            }
            _ => {}
        }
    }

    /// Events were lost: what is under way is not known any more.
    pub fn lost(&mut self, now: Nanos) {
        (self.under_way, self.moved) = (0, now);
    }

    /// Another setting is in force; `errors` are those that the driver counted so far.
    pub fn changed(&mut self, now: Nanos, errors: Option<u64>) {
        let mut before = std::mem::replace(&mut self.last, Reads::new());
        before.merge(&self.current);
        self.current.clear();
        self.trial = Some(Trial { before, since: now, of_theirs: Tail::new() });
        (self.errors, self.turns, self.moved) = (errors, now + TURN, now);
    }

    /// What was there before is in force again, or what is in force has proved itself: nothing is on trial.
    pub fn settled(&mut self) {
        self.trial = None;
    }

    /// Why what is in force must go, if it must.
    pub fn objection(&mut self, now: Nanos, errors: Option<u64>) -> Option<String> {
        if now >= self.turns {
            self.last = std::mem::replace(&mut self.current, Reads::new());
            self.turns = now + TURN;
        }
        let trial = self.trial.as_ref()?;
        if let (Some(then), Some(now)) = (self.errors, errors)
            && now > then
        {
            return Some(format!("the driver counted {} errors of the device", now - then));
        }
        let stands_s = (now - self.moved).as_secs_f64();
        if self.under_way > 0 && stands_s > STANDS_STILL_S {
            return Some(format!("{} requests wait, and none was answered for {stands_s:.1} s", self.under_way));
        }
        if (now - trial.since).as_secs_f64() > ANSWERABLE_S {
            self.trial = None;
            return None;
        }
        // Who comes later may ask for something else, and wait longer for it under any setting. But where processes live so shortly that
        // those from before are gone, those that came instead are what there is.
        let before = &trial.before.tail;
        let after = if trial.of_theirs.all >= LEAST_READS { &trial.of_theirs } else { &self.current.tail };
        if before.all < LEAST_READS || after.all < LEAST_READS {
            return None;
        }
        let bound = Nanos((before.p99().0 as f64 * BOUND_FACTOR) as u64);
        let (late, all) = (after.above(bound), after.all);
        merit::are_too_many(late, all).then(|| {
            format!(
                "{late} of {all} reads took longer than {:.1} ms, {BOUND_FACTOR:.0} times the p99 before the change",
                bound.as_millis_f64()
            )
        })
    }
}

/// The errors that a device's driver counted since it is there; `None` where it does not count (SCSI does: `ioerr_cnt`).
pub fn errors(sysfs: &Sysfs, device: &str) -> Option<u64> {
    let text = fs::read_to_string(sysfs.block(device).join("device/ioerr_cnt")).ok()?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use block::{Priority, Request};

    use super::*;

    fn ms(milliseconds: u64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    /// Reads that come one after the other, each taking so many milliseconds; returns when the last was done.
    fn reads(guard: &mut Guard, at: Nanos, times_ms: impl Iterator<Item = u64>) -> Nanos {
        reads_of(1, guard, at, times_ms)
    }

    /// The same of one of several streams.
    fn reads_of(stream: StreamId, guard: &mut Guard, mut at: Nanos, times_ms: impl Iterator<Item = u64>) -> Nanos {
        for time in times_ms {
            let request =
                Request { id: 0, stream, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 64, arrival: at };
            guard.event(&Event::Queued(request));
            at += ms(time);
            guard.event(&Event::Completed { request, dispatched: request.arrival, at });
        }
        at
    }

    #[test]
    fn a_bucket_holds_what_is_up_to_an_eighth_apart() {
        for time in [1, 2, 3, 7, 8, 9, 1_000, 123_456_789, u64::MAX] {
            let (place, longest) = (bucket(Nanos(time)), upper(bucket(Nanos(time))));
            assert!(longest.0 >= time && bucket(longest) == place, "{time} {longest:?}");
            assert!(longest.0 as f64 <= 1.13 * time as f64 || time < 8, "{time} {longest:?}");
        }
    }

    #[test]
    fn reads_that_wait_far_longer_than_before_are_objected_to() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        guard.changed(now, None);
        let now = reads(&mut guard, now, (0..300).map(|number| if number % 20 == 0 { 40 } else { 2 }));
        let objection = guard.objection(now, None).unwrap_or_default();
        assert!(objection.starts_with("15 of 300 reads took longer than 2"), "{objection}");
    }

    #[test]
    fn a_few_slow_reads_are_chance_and_a_faster_mean_is_no_harm() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        guard.changed(now, None);
        let now = reads(&mut guard, now, (0..300).map(|number| if number % 100 == 0 { 40 } else { 5 }));
        assert_eq!(guard.objection(now, None), None);
    }

    #[test]
    fn who_comes_later_is_no_evidence_unless_nobody_from_before_is_left() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        guard.changed(now, None);
        let now = reads(&mut guard, now, std::iter::repeat_n(5, 300));
        let now = reads_of(2, &mut guard, now, std::iter::repeat_n(200, 100));
        assert_eq!(guard.objection(now, None), None, "another load");
        let mut guard = Guard::new(Nanos::ZERO);
        let now = (0..300).fold(Nanos::ZERO, |now, stream| reads_of(stream, &mut guard, now, std::iter::once(5)));
        guard.changed(now, None);
        let now = (300..400).fold(now, |now, stream| reads_of(stream, &mut guard, now, std::iter::once(200)));
        assert!(guard.objection(now, None).is_some(), "a process for each request");
    }

    #[test]
    fn without_a_change_nothing_is_on_trial_and_an_old_change_is_not_answerable() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, (0..300).map(|number| 1 + number));
        assert_eq!(guard.objection(now, None), None);
        guard.changed(now, None);
        let later = now + Nanos::from_millis(61_000);
        assert_eq!(guard.objection(later, None), None);
        let later = reads(&mut guard, later, std::iter::repeat_n(2_000, 200));
        assert_eq!(guard.objection(later, None), None, "it was settled");
    }

    #[test]
    fn errors_and_a_device_that_stands_still_are_objected_to() {
        let mut guard = Guard::new(Nanos::ZERO);
        guard.changed(ms(1), Some(3));
        assert_eq!(guard.objection(ms(2), Some(3)), None);
        assert!(guard.objection(ms(2), Some(5)).is_some_and(|text| text.contains("2 errors")));
        let request = Request {
            id: 0,
            stream: 1,
            op: Op::Write,
            sync: false,
            priority: Priority::DEFAULT,
            sectors: 8,
            lba: 0,
            arrival: ms(10),
        };
        guard.event(&Event::Queued(request));
        assert_eq!(guard.objection(ms(2_000), Some(3)), None);
        assert!(guard.objection(ms(4_000), Some(3)).is_some_and(|text| text.contains("none was answered for 4.0 s")));
        guard.lost(ms(4_000));
        assert_eq!(guard.objection(ms(4_000), Some(3)), None, "what is under way is not known");
    }
}
