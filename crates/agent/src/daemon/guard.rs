//! Detects harm of a change that controllers do not see: a longer tail of read latencies, a stalled device, errors.
//!
//! The baseline is the time before the change. A controller verifies mean performance; the guard verifies the tail, with any controller.

use std::fs;

use block::{Nanos, Op, Request};
use observe::Event;
use observe::outstanding::Outstanding;
use observe::starvation;
use observe::starvation::{BOUND_FACTOR, LEAST_BOUND_S};
use observe::stream_table::StreamTable;

use applier::sysfs::Sysfs;

/// Buckets of a [`Tail`] per doubling, from 1 ns; eight give an error of at most 9%. Choice: more cost memory, fewer round bounds more;
/// not varied.
const PER_DOUBLING: u32 = 8;
/// Number of buckets of a [`Tail`]. Derived: 64 doublings of 64-bit nanoseconds.
const BUCKETS: usize = 64 * PER_DOUBLING as usize;
/// Seconds after a change in which the change is held responsible; later the load may have changed. Choice: a shorter one misses slow harm,
/// a longer one blames the setting for another load; not varied.
const ANSWERABLE_S: f64 = 60.0;
/// Settling time after a change, not judged: the queue was frozen for the switch, and schedulers with time slices start with short ones
/// (bfq's budgets begin small). Choice: with none, four sequential readers made the guard revert bfq after 2 s; not varied.
const SETTLES: Nanos = Nanos(1_000_000_000);
/// A device with requests in flight that completes none for this long is stalled: three times the longest acceptable wait. Choice: a lower
/// factor takes destaging for a stall; not varied.
const STANDS_STILL_S: f64 = 3.0 * LEAST_BOUND_S;

/// Logarithmic histogram of response times.
#[derive(Clone)]
struct Tail {
    counts: Box<[u32; BUCKETS]>,
    all: u64,
}

impl Tail {
    fn new() -> Tail {
        Tail { counts: Box::new([0; BUCKETS]), all: 0 }
    }

    fn add(&mut self, time: Nanos) {
        self.counts[bucket(time)] += 1;
        self.all += 1;
    }

    fn merge(&mut self, other: &Tail) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(mine, more)| *mine += more);
        self.all += other.all;
    }

    /// The 99th percentile, rounded up to the end of its bucket.
    fn p99(&self) -> Nanos {
        let wanted = self.all - self.all / 100;
        let mut seen = 0;
        let place = self.counts.iter().position(|&count| {
            seen += u64::from(count);
            seen >= wanted
        });
        upper(place.unwrap_or(BUCKETS - 1))
    }
}

/// Index of the bucket: 8 × the doubling + the eighth within it.
fn bucket(time: Nanos) -> usize {
    let time = time.0.max(1);
    let doubling = time.ilog2();
    let eighth = if doubling >= 3 { (time >> (doubling - 3)) as u32 & 7 } else { 0 };
    (doubling * PER_DOUBLING + eighth) as usize
}

/// Upper end of a bucket.
fn upper(bucket: usize) -> Nanos {
    let (doubling, eighth) = (bucket as u32 / PER_DOUBLING, bucket as u64 % u64::from(PER_DOUBLING));
    if doubling < 3 {
        return Nanos((2 << doubling) - 1);
    }
    let next = u128::from(8 + eighth + 1) << (doubling - 3);
    Nanos(u64::try_from(next - 1).unwrap_or(u64::MAX))
}

/// A mostly sequential reader whose mean wait falls to this share or less is better off, and its late reads are not counted: it needs all
/// of its data, so the total wait matters rather than single long waits, as when readers take turns. Choice: four readers that took turns
/// under bfq got five times as much, with 12 of 656 reads late; a higher share excuses harm; not varied.
const BETTER_OFF: f64 = 0.5;

/// Statistics of the reads of one process.
#[derive(Clone, Copy, Default)]
struct Reader {
    reads: u64,
    in_order: u64,
    /// Total response time.
    time: Nanos,
    /// Number of reads above the bound.
    late: u64,
    /// End sector of the last completed read. [`observe::window::History`] has the end of the last request that arrived, of any operation.
    end: u64,
}

impl Reader {
    fn merge(&mut self, other: &Reader) {
        self.reads += other.reads;
        self.in_order += other.in_order;
        self.time += other.time;
        self.late += other.late;
        self.end = other.end;
    }

    fn mean_s(&self) -> f64 {
        self.time.as_secs_f64() / self.reads.max(1) as f64
    }

    fn is_better_off(&self, before: &Reader) -> bool {
        2 * self.in_order >= self.reads && self.mean_s() <= BETTER_OFF * before.mean_s()
    }
}

/// Statistics of reads by process.
struct Readers(StreamTable<Reader>);

impl Readers {
    fn new() -> Readers {
        Readers(StreamTable::new())
    }

    fn add(&mut self, request: &Request, time: Nanos, late: bool) {
        let (reader, _) = self.0.follow(request.stream);
        reader.reads += 1;
        reader.in_order += u64::from(reader.end == request.lba);
        reader.time += time;
        reader.late += u64::from(late);
        reader.end = request.end();
    }

    fn merge(&mut self, other: &Readers) {
        other.0.iter().for_each(|(stream, reader)| self.0.follow(stream).0.merge(reader));
    }
}

/// Reads in an interval.
struct Reads {
    tail: Tail,
    readers: Readers,
}

impl Reads {
    fn new() -> Reads {
        Reads { tail: Tail::new(), readers: Readers::new() }
    }

    fn merge(&mut self, other: &Reads) {
        self.tail.merge(&other.tail);
        self.readers.merge(&other.readers);
    }
}

/// A setting on trial.
struct SettingTrial {
    /// Reads before the change.
    before: Reads,
    /// Bound on the response time of a read.
    bound: Nanos,
    since: Nanos,
}

impl SettingTrial {
    /// Late reads and all reads since the change, of the processes that also read before it.
    fn late(&self, since: &Readers) -> (u64, u64) {
        let before = &self.before.readers;
        let theirs = || since.0.iter().filter_map(|(stream, reader)| Some((reader, before.0.get(stream)?)));
        let reads: u64 = theirs().map(|(reader, _)| reader.reads).sum();
        // New processes may issue other requests, which would take longer under any setting. If the earlier processes have ended, all
        // processes are counted.
        if reads < starvation::LEAST_REQUESTS {
            return since.0.values().fold((0, 0), |(late, all), reader| (late + reader.late, all + reader.reads));
        }
        let late = theirs().filter(|(reader, before)| !reader.is_better_off(before)).map(|(reader, _)| reader.late).sum();
        (late, reads)
    }
}

/// The guard of one device.
pub struct Guard {
    /// Reads under the active setting in the last full minute; `current`: in the present one.
    last: Reads,
    current: Reads,
    turns: Nanos,
    /// The setting on trial; `None` if there is none.
    trial: Option<SettingTrial>,
    /// Error count of the driver at the change; `None` if unknown.
    errors: Option<u64>,
}

/// Interval at which the older half of the statistics is dropped. Choice: a longer one compares with an older load, a shorter one has fewer
/// reads; as [`ANSWERABLE_S`]; not varied.
const TURN: Nanos = Nanos(60_000_000_000);

impl Guard {
    /// A guard that starts without statistics.
    pub fn new(now: Nanos) -> Guard {
        let (last, current) = (Reads::new(), Reads::new());
        Guard { last, current, turns: now + TURN, trial: None, errors: None }
    }

    /// Processes an event.
    pub fn event(&mut self, event: &Event) {
        let Event::Completed { request, at, .. } = event else { return };
        // Requests queued before the change were served under both settings.
        let is_of_now = self.trial.as_ref().is_none_or(|trial| request.arrival >= trial.since + SETTLES);
        if request.op == Op::Read && is_of_now {
            // A larger read-ahead turns the same system calls into longer requests.
            let time = Nanos((*at - request.arrival).0 / u64::from(request.response_weight()));
            self.current.tail.add(time);
            let is_late = self.trial.as_ref().is_some_and(|trial| bucket(time) > bucket(trial.bound));
            self.current.readers.add(request, time, is_late);
        }
    }

    /// Puts a newly applied setting on trial. `errors` is the driver's error count.
    pub fn changed(&mut self, now: Nanos, errors: Option<u64>) {
        let mut before = std::mem::replace(&mut self.last, Reads::new());
        before.merge(&std::mem::replace(&mut self.current, Reads::new()));
        let bound = Nanos((before.tail.p99().0 as f64 * BOUND_FACTOR) as u64);
        self.trial = Some(SettingTrial { before, bound, since: now });
        (self.errors, self.turns) = (errors, now + TURN);
    }

    /// Ends the trial: the setting was reverted or confirmed.
    pub fn settled(&mut self) {
        self.trial = None;
    }

    /// Why the active setting must be reverted; `None` if it may stay. `outstanding`: the device's requests in flight.
    pub fn objection(&mut self, now: Nanos, errors: Option<u64>, outstanding: &Outstanding) -> Option<String> {
        // Judge before rotating: `current` holds all reads since the change.
        let objection = self.judge(now, errors, outstanding);
        if now >= self.turns {
            self.last = std::mem::replace(&mut self.current, Reads::new());
            self.turns = now + TURN;
        }
        objection
    }

    fn judge(&mut self, now: Nanos, errors: Option<u64>, outstanding: &Outstanding) -> Option<String> {
        let trial = self.trial.as_ref()?;
        if let (Some(then), Some(now)) = (self.errors, errors)
            && now > then
        {
            return Some(format!("the driver counted {} errors of the device", now - then));
        }
        // The time before the change is no fault of the setting.
        let stands_s = (now - outstanding.last_progress().max(trial.since)).as_secs_f64();
        if outstanding.requests() > 0 && stands_s > STANDS_STILL_S {
            return Some(format!("{} requests wait, and none was answered for {stands_s:.1} s", outstanding.requests()));
        }
        if (now - trial.since).as_secs_f64() > ANSWERABLE_S {
            self.trial = None;
            return None;
        }
        let (late, all) = trial.late(&self.current.readers);
        if trial.before.tail.all < starvation::LEAST_REQUESTS || all < starvation::LEAST_REQUESTS {
            return None;
        }
        starvation::are_too_many(late, all).then(|| {
            format!(
                "{late} of {all} reads took longer than {:.1} ms, {BOUND_FACTOR:.0} times the p99 before the change",
                trial.bound.as_millis_f64()
            )
        })
    }
}

/// Errors counted by the device's driver; `None` if it does not count them (SCSI does: `ioerr_cnt`).
pub fn errors(sysfs: &Sysfs, device: &str) -> Option<u64> {
    let text = fs::read_to_string(sysfs.block(device).join("device/ioerr_cnt")).ok()?;
    u64::from_str_radix(text.trim().trim_start_matches("0x"), 16).ok()
}

#[cfg(test)]
mod tests {
    use block::{Priority, StreamId};

    use super::*;

    fn ms(milliseconds: u64) -> Nanos {
        Nanos::from_millis(milliseconds)
    }

    /// Sequential reads, each taking this many milliseconds; returns when the last completed.
    fn reads(guard: &mut Guard, at: Nanos, times_ms: impl Iterator<Item = u64>) -> Nanos {
        reads_of(1, guard, at, times_ms)
    }

    /// Sequential reads of one of several streams.
    fn reads_of(stream: StreamId, guard: &mut Guard, mut at: Nanos, times_ms: impl Iterator<Item = u64>) -> Nanos {
        for time in times_ms {
            let request =
                Request { id: 0, stream, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba: 64, arrival: at };
            at += ms(time);
            guard.event(&Event::Completed { request, dispatched: request.arrival, at });
        }
        at
    }

    /// Changes the setting; returns the end of the settling time.
    fn changed(guard: &mut Guard, now: Nanos) -> Nanos {
        guard.changed(now, None);
        now + SETTLES
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
        let now = changed(&mut guard, now);
        let now = reads(&mut guard, now, (0..300).map(|number| if number % 20 == 0 { 40 } else { 2 }));
        let objection = guard.objection(now, None, &Outstanding::default()).unwrap_or_default();
        assert!(objection.starts_with("15 of 300 reads took longer than 2"), "{objection}");
    }

    #[test]
    fn what_a_change_does_at_first_is_not_what_the_setting_does() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        let judged_from = changed(&mut guard, now);
        let settled = reads(&mut guard, now, std::iter::repeat_n(40, 25));
        assert!(settled <= judged_from);
        let now = reads(&mut guard, judged_from, std::iter::repeat_n(5, 200));
        assert_eq!(guard.objection(now, None, &Outstanding::default()), None);
    }

    /// 128 KiB reads of several streams that take turns; each read takes `fast` except the first of a turn.
    fn in_turns(guard: &mut Guard, mut at: Nanos, (turns, of): (u64, u64), fast: Nanos, first: Nanos, in_order: bool) -> Nanos {
        for read in 0..turns * of {
            let (stream, number) = ((read / of % 4) as StreamId, read / of / 4 * of + read % of);
            let lba = if in_order { 256 * number } else { number * 7_919 % 10_007 * 1_024 };
            let (sync, priority) = (true, Priority::DEFAULT);
            let request = Request { id: 0, stream, op: Op::Read, sync, priority, sectors: 256, lba, arrival: at };
            let done = at + if read % of == 0 { first } else { fast };
            guard.event(&Event::Completed { request, dispatched: at, at: done });
            at += fast;
        }
        at
    }

    #[test]
    fn bunched_waits_of_a_sequential_reader_with_far_more_throughput_are_no_harm() {
        let objection = |fast_ms: u64, in_order: bool| {
            let mut guard = Guard::new(Nanos::ZERO);
            let now = in_turns(&mut guard, Nanos::ZERO, (200, 1), ms(25), ms(25), in_order);
            let now = changed(&mut guard, now);
            let now = in_turns(&mut guard, now, (12, 40), ms(fast_ms), ms(170), in_order);
            guard.objection(now, None, &Outstanding::default())
        };
        assert_eq!(objection(1, true), None);
        assert!(objection(1, false).is_some(), "whose reads are apart waits for each by itself");
        assert!(objection(20, true).is_some(), "who gets no more in the mean has only lost");
    }

    #[test]
    fn a_few_slow_reads_are_chance_and_a_faster_mean_is_no_harm() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        let now = changed(&mut guard, now);
        let now = reads(&mut guard, now, (0..300).map(|number| if number % 100 == 0 { 40 } else { 5 }));
        assert_eq!(guard.objection(now, None, &Outstanding::default()), None);
    }

    #[test]
    fn later_streams_are_no_evidence_while_earlier_ones_remain() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, std::iter::repeat_n(5, 300));
        let now = changed(&mut guard, now);
        let now = reads(&mut guard, now, std::iter::repeat_n(5, 300));
        let now = reads_of(2, &mut guard, now, std::iter::repeat_n(200, 100));
        assert_eq!(guard.objection(now, None, &Outstanding::default()), None, "another load");
        let mut guard = Guard::new(Nanos::ZERO);
        let now = (0..300).fold(Nanos::ZERO, |now, stream| reads_of(stream, &mut guard, now, std::iter::once(5)));
        let now = changed(&mut guard, now);
        let now = (300..400).fold(now, |now, stream| reads_of(stream, &mut guard, now, std::iter::once(200)));
        assert!(guard.objection(now, None, &Outstanding::default()).is_some(), "a process for each request");
    }

    #[test]
    fn without_a_change_nothing_is_on_trial_and_an_old_change_is_not_answerable() {
        let mut guard = Guard::new(Nanos::ZERO);
        let now = reads(&mut guard, Nanos::ZERO, (0..300).map(|number| 1 + number));
        assert_eq!(guard.objection(now, None, &Outstanding::default()), None);
        guard.changed(now, None);
        let later = now + Nanos::from_millis(61_000);
        assert_eq!(guard.objection(later, None, &Outstanding::default()), None);
        let later = reads(&mut guard, later, std::iter::repeat_n(2_000, 200));
        assert_eq!(guard.objection(later, None, &Outstanding::default()), None, "it was settled");
    }

    #[test]
    fn errors_and_a_device_that_stands_still_are_objected_to() {
        let mut guard = Guard::new(Nanos::ZERO);
        let mut outstanding = Outstanding::new(Nanos::ZERO);
        guard.changed(ms(1), Some(3));
        assert_eq!(guard.objection(ms(2), Some(3), &outstanding), None);
        assert!(guard.objection(ms(2), Some(5), &outstanding).is_some_and(|text| text.contains("2 errors")));
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
        outstanding.event(&Event::Queued(request));
        assert_eq!(guard.objection(ms(2_000), Some(3), &outstanding), None);
        assert!(guard.objection(ms(4_000), Some(3), &outstanding).is_some_and(|text| text.contains("none was answered for 4.0 s")));
        outstanding.forget(ms(4_000));
        assert_eq!(guard.objection(ms(4_000), Some(3), &outstanding), None, "requests in flight are unknown");
    }
}
