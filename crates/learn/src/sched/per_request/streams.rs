//! What streams do next: learned from requests that are done.
//!
//! A process that reads one block after the other has its next request ready a moment after the last one is done, and that one takes
//! little or no seek. Whoever serves another one in that moment pays two (deceptive idleness: Iyer and Druschel, Anticipatory
//! scheduling, SOSP 2001). So for each stream is kept how long it thinks, as a distribution, and what its request takes if it comes right
//! after its last one; and for all together what it takes to go to another stream. From that follows how long to wait for a stream:
//!
//! ```text
//! gain(w) = P(thinks at most w) * (cost of the other - cost of this one)  -  E min(thinking, w)        at its largest
//! ```

use block::{Nanos, Op, Request, StreamId};

/// Streams that are remembered; a power of two. Two that fall on the same place push each other out.
const REMEMBERED: usize = 1_024;
/// What the latest sample counts.
const SHARE: f64 = 0.125;
/// Goes on where it ended, but for so many sectors: a file's own blocks of metadata lie between.
const NEARLY: u64 = 64;
/// As near as this, in sectors, its next request should be there sooner than another's.
const NEAR: f64 = 16_384.0;
const FARTHEST: f64 = 1e6;
/// Beside its transfer a request that goes on takes at least this.
const LEAST_NS: f64 = 100e3;
/// What takes as long has sought; where fewer than this share do, nothing seeks. The last one counts as a sixty-fourth.
const SEEK_NS: f64 = 2e6;
const FEW_SEEKS: f64 = 0.02;
const SEEKS_SHARE: f64 = 1.0 / 64.0;
/// What takes less on average comes from the device's memory.
const FROM_MEMORY_NS: f64 = 400e3;
/// Of turns from reads to writes the last one counts as this share, and so much of a whole sample must be known of each kind.
const TURNS_SHARE: f64 = 1.0 / 128.0;
const TURNS_KNOWN: f64 = 0.2;
/// A stream's large requests of one way are kept together for so many times their transfer.
const TOGETHER: f64 = 4.0;
/// A share of what it takes to go elsewhere, hoped for of what is near.
const HOPED: f64 = 0.5;
/// A stream is local if its next request takes at most this share of what it takes to go to another stream.
const LOCAL: f64 = 0.8;
/// Steps of thinking: shorter than 32 microseconds, than 64, and so on; the last step is everything longer than 16 milliseconds.
const STEPS: usize = 11;
const FIRST_STEP_NS: u64 = 32_000;
const LAST_STEP_NS: u64 = FIRST_STEP_NS << (STEPS - 2);
/// So large a share of long thoughts makes a stream that thinks long.
const MOSTLY: f64 = 0.6;
/// Who ever paused in about the last hundred requests pauses at times: who was left behind may have that much to catch up with.
const AT_TIMES: f64 = 0.004;
const PAUSES_SHARE: f64 = 1.0 / 128.0;
/// So small a part of a fair share of the device's time is a modest one.
const MODEST: f64 = 0.4;
/// What all streams did counts as so many samples of one's own.
const OF_ALL: f64 = 0.5;

/// A mean in which the latest samples count most.
#[derive(Clone, Copy, Debug, Default)]
struct Mean {
    value: f64,
    weight: f64,
}

impl Mean {
    fn add(&mut self, sample: f64) {
        self.add_share(SHARE, sample);
    }

    fn add_share(&mut self, share: f64, sample: f64) {
        self.weight += share * (1.0 - self.weight);
        self.value += share / self.weight * (sample - self.value);
    }

    fn get(&self) -> Option<f64> {
        (self.weight > 0.0).then_some(self.value)
    }
}

/// How long streams think, by step: shares of what was seen, the latest counting most.
#[derive(Clone, Copy, Default)]
struct Thinking {
    steps: [f64; STEPS],
    seen: f64,
}

impl Thinking {
    fn add(&mut self, thought: Nanos) {
        let step = (thought.0 / FIRST_STEP_NS).checked_ilog2().map_or(0, |octave| octave as usize + 1).min(STEPS - 1);
        self.seen += SHARE * (1.0 - self.seen);
        for (number, share) in self.steps.iter_mut().enumerate() {
            *share += SHARE * (f64::from(u8::from(number == step)) - *share);
        }
    }
}

/// What was counted in this second of the run and in the one before.
#[derive(Clone, Copy, Default)]
struct Lately {
    second: u64,
    counted: [f64; 2],
}

impl Lately {
    fn add(&mut self, at: Nanos, what: f64) {
        self.counted = self.seen_from(at);
        self.second = second(at);
        self.counted[0] += what;
    }

    fn is_current(&self, at: Nanos) -> bool {
        self.second == second(at)
    }

    fn seen_from(&self, at: Nanos) -> [f64; 2] {
        match second(at).saturating_sub(self.second) {
            0 => self.counted,
            1 => [0.0, self.counted[0]],
            _ => [0.0; 2],
        }
    }

    fn sum(&self, at: Nanos) -> f64 {
        let [now, before] = self.seen_from(at);
        now + before
    }

    fn most(&self, at: Nanos) -> f64 {
        let [now, before] = self.seen_from(at);
        now.max(before)
    }
}

fn second(at: Nanos) -> u64 {
    at.0 / 1_000_000_000
}

#[derive(Clone, Copy)]
struct Past {
    stream: StreamId,
    end: u64,
    done: Nanos,
    thinking: Thinking,
    /// Share of long thoughts in the long run.
    pauses: f64,
    goes_on: Mean,
    distance: Mean,
    /// Of a request that no other stream's came before, and of all.
    staying_ns: Mean,
    own_ns: Mean,
    /// Beside its transfer, of a request that goes on and that no other stream's came before.
    running_ns: Mean,
    sectors: Mean,
    /// Time of the device.
    used_ns: Lately,
}

/// What is known of streams.
pub(super) struct Streams {
    pasts: Vec<Option<Past>>,
    /// Whose request was done last, and when.
    last: Option<(StreamId, Nanos)>,
    /// Which way the last one went, and by the last one's way and one's own what a request takes that does not go on in order.
    last_way: Option<usize>,
    turning_ns: [[Mean; 2]; 2],
    /// Of all streams.
    thinking: Thinking,
    /// Of a request that another stream's came before: of those that were alone at the device, and of those that were not.
    switching_ns: [Mean; 2],
    /// Share of those that took as long as a seek, lately.
    seeks: f64,
    /// Time of the device that all used, and how many they were.
    used_ns: Lately,
    active: Lately,
    /// Time of a sector where requests go on, at its best.
    sector_ns: f64,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            pasts: vec![None; REMEMBERED],
            last: None,
            last_way: None,
            turning_ns: [[Mean::default(); 2]; 2],
            thinking: Thinking::default(),
            switching_ns: [Mean::default(); 2],
            seeks: 1.0,
            used_ns: Lately::default(),
            active: Lately::default(),
            sector_ns: f64::INFINITY,
        }
    }
}

impl Streams {
    /// Learns from a request that is done. Requests are told in the order in which they were done.
    pub fn done(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        let last = self.last.replace((request.stream, at));
        if !request.is_sync() {
            return;
        }
        // While others were served it waited; that time is theirs.
        let began = last.map_or(dispatched, |(_, done)| done.max(dispatched));
        let own_ns = (at - began).0 as f64;
        let way = usize::from(request.op == Op::Write);
        let last_way = self.last_way.replace(way);
        let stays = last.is_some_and(|(stream, _)| stream == request.stream);
        if let Some((_, done)) = last
            && !stays
        {
            self.switching_ns[usize::from(dispatched < done)].add(own_ns);
            self.seeks += SEEKS_SHARE * (f64::from(u8::from(own_ns > SEEK_NS)) - self.seeks);
        }
        self.used_ns.add(at, own_ns);
        let place = &mut self.pasts[request.stream as usize % REMEMBERED];
        if place.as_ref().is_none_or(|past| past.stream != request.stream || !past.used_ns.is_current(at)) {
            self.active.add(at, 1.0);
        }
        let Some(past) = place.as_mut().filter(|past| past.stream == request.stream) else {
            let nothing = Mean::default();
            let mut sectors = nothing;
            sectors.add(f64::from(request.sectors));
            let mut used_ns = Lately::default();
            used_ns.add(at, own_ns);
            *place = Some(Past {
                stream: request.stream,
                end: request.end(),
                done: at,
                thinking: Thinking::default(),
                pauses: 0.0,
                goes_on: nothing,
                distance: nothing,
                staying_ns: nothing,
                own_ns: nothing,
                running_ns: nothing,
                sectors,
                used_ns,
            });
            return;
        };
        let goes_on = past.is_next(request);
        if let Some(last_way) = last_way.filter(|_| !goes_on) {
            self.turning_ns[last_way][way].add_share(TURNS_SHARE, own_ns);
        }
        past.goes_on.add(f64::from(u8::from(goes_on)));
        past.distance.add((past.end.abs_diff(request.lba) as f64).min(FARTHEST));
        past.sectors.add(f64::from(request.sectors));
        // One that was asked for before the last was done needed no thinking.
        let thought = if request.arrival > past.done { request.arrival - past.done } else { Nanos::ZERO };
        past.own_ns.add(own_ns);
        past.used_ns.add(at, own_ns);
        past.thinking.add(thought);
        past.pauses += PAUSES_SHARE * (f64::from(u8::from(thought.0 >= LAST_STEP_NS)) - past.pauses);
        self.thinking.add(thought);
        if stays {
            past.staying_ns.add(own_ns);
        }
        if goes_on && stays && self.sector_ns.is_finite() {
            past.running_ns.add((own_ns - f64::from(request.sectors) * self.sector_ns).max(0.0));
        }
        if goes_on {
            let sector_ns = own_ns / f64::from(request.sectors.max(1));
            self.sector_ns = if sector_ns < self.sector_ns { sector_ns } else { self.sector_ns * 1.002 };
        }
        (past.end, past.done) = (request.end(), at);
    }

    fn past(&self, stream: StreamId) -> Option<&Past> {
        self.pasts[stream as usize % REMEMBERED].as_ref().filter(|past| past.stream == stream)
    }

    /// A process did not come back in the time that it was waited for.
    pub fn stayed_away(&mut self, stream: StreamId) {
        if let Some(past) = self.pasts[stream as usize % REMEMBERED].as_mut().filter(|past| past.stream == stream) {
            past.thinking.add(Nanos(u64::MAX));
            self.thinking.add(Nanos(u64::MAX));
        }
    }

    /// What this stream's next request takes if it comes right after its last one; `None` if nothing is known.
    pub fn staying_ns(&self, stream: StreamId) -> Option<f64> {
        let past = self.past(stream)?;
        // What was not seen yet is hoped to be as good as can be: trying tells.
        past.staying_ns.get().or_else(|| {
            if past.goes_on.get()? > 0.5 {
                return Some(LEAST_NS + if self.sector_ns.is_finite() { past.sectors.value * self.sector_ns } else { 0.0 });
            }
            (past.distance.get()? < NEAR).then_some(HOPED * self.switching_ns()?)
        })
    }

    /// Its requests mostly go on where the last one ended, as far as is known.
    pub fn may_go_on(&self, stream: StreamId) -> bool {
        self.past(stream).and_then(|past| past.goes_on.get()).is_none_or(|on| on > 0.5)
    }

    /// It asks for little of the device's time, however soon it is served: it mostly thinks for long, or it does so at times and has used
    /// much less than a fair share.
    pub fn asks_for_little(&self, stream: StreamId, now: Nanos) -> bool {
        self.past(stream).is_some_and(|past| {
            // A device that takes several at once sees to the few by itself.
            let is_modest =
                || !self.takes_several() && past.used_ns.sum(now) * self.active.most(now) < MODEST * self.used_ns.sum(now);
            past.thinking.steps[STEPS - 1] > MOSTLY || past.pauses > AT_TIMES && is_modest()
        })
    }

    /// What turning from reads to writes, or back, costs before this request, if the last one was of stream `last`: what it took more than
    /// to go on as before, both ways; and in a stream of large ones what is lost because those that go at once do not wait for those that
    /// they would merge with.
    pub fn turning_ns(&self, request: &Request, last: StreamId) -> f64 {
        let stays = last == request.stream && self.sector_ns.is_finite();
        let transfer_ns = if stays { f64::from(request.sectors) * self.sector_ns } else { 0.0 };
        self.round_trip_ns() + TOGETHER * transfer_ns
    }

    fn round_trip_ns(&self) -> f64 {
        let [[reads, to_write], [to_read, writes]] = &self.turning_ns;
        if [reads, to_write, to_read, writes].iter().any(|mean| mean.weight < TURNS_KNOWN) {
            return 0.0;
        }
        (to_write.value + to_read.value - reads.value - writes.value).max(0.0)
    }

    /// What it takes besides its transfer if it goes on.
    pub fn running_ns(&self, stream: StreamId) -> f64 {
        self.past(stream).and_then(|past| past.running_ns.get()).unwrap_or(LEAST_NS)
    }

    /// How long to wait for this stream's next request, though another could be sent that costs `other_ns`; zero if not at all.
    pub fn wait_ns(&self, stream: StreamId, other_ns: f64) -> f64 {
        let Some((past, staying_ns)) = self.past(stream).zip(self.staying_ns(stream)) else { return 0.0 };
        let saved_ns = other_ns - staying_ns;
        if saved_ns <= 0.0 || self.is_found_by_device(past) {
            return 0.0;
        }
        let weight = past.thinking.seen + OF_ALL * SHARE;
        let share = |step: usize| {
            let of_all = if self.thinking.seen > 0.0 { self.thinking.steps[step] / self.thinking.seen } else { 0.0 };
            (past.thinking.steps[step] + OF_ALL * SHARE * of_all) / weight
        };
        let (mut best, mut best_gain) = (0.0, 0.0);
        let (mut comes, mut thinks, mut longest) = (0.0, 0.0, FIRST_STEP_NS as f64);
        for step in 0..STEPS - 1 {
            let share = share(step);
            comes += share;
            thinks += share * 0.75 * longest;
            let gain = comes * saved_ns - thinks - (1.0 - comes) * longest;
            if gain > best_gain {
                (best, best_gain) = (longest, gain);
            }
            longest *= 2.0;
        }
        best
    }

    /// Its next request should take less than to go to another stream.
    pub fn is_local(&self, stream: StreamId) -> bool {
        let Some((past, staying_ns)) = self.past(stream).zip(self.staying_ns(stream)) else { return false };
        !self.is_found_by_device(past) && self.switching_ns().is_some_and(|switching_ns| staying_ns < LOCAL * switching_ns)
    }

    /// The device was seen to work at several at once.
    fn takes_several(&self) -> bool {
        self.switching_ns[1].get().is_some()
    }

    /// A device that takes several at once finds by itself what is near; what goes on in order it may still leave for another.
    fn is_found_by_device(&self, past: &Past) -> bool {
        self.takes_several() && past.goes_on.value < 0.5
    }

    /// Whether a request goes on where its stream's last one ended.
    pub fn is_next(&self, request: &Request) -> bool {
        self.past(request.stream).is_some_and(|past| past.is_next(request))
    }

    /// The device serves streams far apart as quickly as one alone.
    pub fn nothing_seeks(&self) -> bool {
        self.seeks < FEW_SEEKS
    }

    /// What this stream's requests take if the device has them in its memory, as it mostly had; `None` if not.
    pub fn memory_ns(&self, stream: StreamId) -> Option<f64> {
        self.past(stream)?.own_ns.get().filter(|&own_ns| own_ns < FROM_MEMORY_NS)
    }

    /// What a request takes after another stream's; `None` if none was seen. On a device that takes several at once, as it is there.
    pub fn switching_ns(&self) -> Option<f64> {
        let [alone, in_company] = self.switching_ns;
        in_company.get().or(alone.get())
    }
}

impl Past {
    fn is_next(&self, request: &Request) -> bool {
        request.lba >= self.end && request.lba - self.end <= NEARLY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::Priority;

    const MICRO: u64 = 1_000;
    const MILLI: u64 = 1_000_000;

    /// Streams whose requests are served one after the other.
    struct Served {
        streams: Streams,
        now: u64,
        ends: [u64; 8],
        way: Op,
    }

    impl Served {
        fn new() -> Served {
            let ends = std::array::from_fn(|stream| stream as u64 * 1_000_000_000);
            Served { streams: Streams::default(), now: 0, ends, way: Op::Read }
        }

        /// A request that came `thought` after the stream's last was done and took `service`; it begins `away` behind its end.
        fn serve(&mut self, stream: u32, thought: u64, service: u64, away: u64) {
            let lba = self.ends[stream as usize] + away;
            let arrival = Nanos(self.now + thought);
            let request =
                Request { id: 0, stream, op: self.way, sync: true, priority: Priority::DEFAULT, sectors: 256, lba, arrival };
            self.now += thought + service;
            self.ends[stream as usize] = request.end();
            self.streams.done(&request, arrival, Nanos(self.now));
        }
    }

    #[test]
    fn a_stream_that_is_back_at_once_is_waited_for_about_as_long_as_it_thinks() {
        let mut served = Served::new();
        for _ in 0..20 {
            for stream in [1, 2] {
                served.serve(stream, 0, 9 * MILLI, 0);
                (0..10).for_each(|_| served.serve(stream, 200 * MICRO, MILLI, 0));
            }
        }
        let wait = |other_ns: f64| served.streams.wait_ns(1, other_ns);
        assert!((200e3..=600e3).contains(&wait(8e6)), "{}", wait(8e6));
        assert_eq!(wait(0.9e6), 0.0, "what waits is done sooner");
        assert!(served.streams.is_local(1));
    }

    #[test]
    fn nobody_waits_for_a_stream_that_thinks_for_long_or_is_not_known() {
        let mut served = Served::new();
        (0..50).for_each(|_| served.serve(1, 30 * MILLI, MILLI, 0));
        assert_eq!(served.streams.wait_ns(1, 8e6), 0.0);
        assert!(served.streams.asks_for_little(1, Nanos(served.now)));
        assert_eq!(served.streams.wait_ns(7, 8e6), 0.0);
        assert!(!served.streams.asks_for_little(7, Nanos(served.now)) && !served.streams.is_local(7));
    }

    #[test]
    fn who_pauses_at_times_asks_for_little_unless_it_uses_a_fair_share() {
        let little = |requests_of_others: usize| {
            let mut served = Served::new();
            for _ in 0..40 {
                // Two after a pause of 20 ms, and five that had to wait.
                (0..7).for_each(|number| served.serve(1, if number < 2 { 20 * MILLI } else { 0 }, 4 * MILLI, 900));
                (0..requests_of_others).for_each(|_| served.serve(2, 0, 4 * MILLI, 0));
            }
            (1..=2).map(|stream| served.streams.asks_for_little(stream, Nanos(served.now))).collect::<Vec<_>>()
        };
        assert_eq!(little(100), [true, false]);
        assert_eq!(little(10), [false, false]);
    }

    #[test]
    fn a_stream_that_did_not_come_back_is_waited_for_no_longer() {
        let mut served = Served::new();
        (0..20).for_each(|_| served.serve(1, 200 * MICRO, MILLI, 0));
        assert!(served.streams.wait_ns(1, 8e6) > 0.0);
        (0..60).for_each(|_| served.streams.stayed_away(1));
        assert_eq!(served.streams.wait_ns(1, 8e6), 0.0);
    }

    #[test]
    fn the_price_of_turning_is_what_reads_and_writes_cost_more_in_turn_than_among_their_own() {
        let price = |to_read: u64| {
            let mut served = Served::new();
            for number in 0..400 {
                let is_first = number % 4 == 0;
                served.way = if number / 4 % 2 == 0 { Op::Read } else { Op::Write };
                let service = match served.way {
                    Op::Write => 100 * MICRO,
                    _ if is_first => to_read,
                    _ => 5 * MILLI,
                };
                served.serve(1, 0, service, 10_000);
            }
            served.streams.round_trip_ns()
        };
        assert!((price(8 * MILLI) - 3e6).abs() < 1e3, "{}", price(8 * MILLI));
        assert_eq!(price(4 * MILLI), 0.0);
    }

    #[test]
    fn it_is_noticed_that_nothing_seeks_and_that_something_does_again() {
        let mut served = Served::new();
        assert!(!served.streams.nothing_seeks());
        (0..400).for_each(|number| served.serve(number % 4, 0, 80 * MICRO, 0));
        assert!(served.streams.nothing_seeks());
        (0..8).for_each(|number| served.serve(number % 4, 0, 9 * MILLI, 0));
        assert!(!served.streams.nothing_seeks());
    }
}
