//! FAIRIO as the report describes it (sections I to IV).
//!
//! ```text
//! unified list, by arrival   a b a a b b a ...   the oldest request of a class with share left is dispatched
//! cycle                      |<- Cycle_length ->|  ends by the clock
//! Service_cycle              Cycle_length * NumDisks, divided by weights and by the history in the window
//! window of observation      [used][used] ... [used]   r cycles, per class
//! ```
//! At the start of a cycle each class gets a `ServiceShare` of `Service_cycle`: `w / W` of the utilization in the window and of the new
//! cycle together, less the use that the window records for the class. Without deviations that is `w / W` of `Service_cycle`. A class whose share is
//! worth less than `Class_threshold` requests is suspended for the cycle. While fewer than `StorageLoad_threshold` requests are at the storage,
//! the oldest request is dispatched even if its class has no share left: surplus service.
//!
//! The report prints no pseudo-code and refers to another paper for details. Open points are tunables here, so that each
//! interpretation can be run: when a request counts against the share (`charged`), and which deviations "did not degrade the service of other
//! classes" (`ignored`). The defaults are closest to its text: a share is disk time, "the disk time utilized by each class during the cycle is
//! recorded", and surplus service is disk time "on top of their allocations".

use std::collections::{BTreeMap, VecDeque};

use block::sched::COMPLETION_BACKSTOP;
use block::tenants::Register;
use block::{Insertion, Limits, Nanos, Pick, Request, RequestId, Roster, Scheduler, SchedulerSpec, Tunable, Unit, tunables, words};

/// The scheduler, with the report's parameters as defaults.
pub static SPEC: SchedulerSpec = SchedulerSpec {
    name: "fairio-report",
    summary: "shares of disk time by weight in cycles by the clock, as the report describes them",
    source: "Arunagiri and others, A Heuristic for Selecting the Cycle Length for FAIRIO, UTEP-CS-11-53, 2011, sections I to IV",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |_limits: &Limits, values| Box::new(Printed::new(values)),
};

tunables! {
    /// The parameters, and the readings of points that the report leaves open.
    #[derive(Clone, Copy)]
    struct Tunables {
        /// Length of a cycle by the clock (`Cycle_length`).
        cycle_ms: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 1_000),
        /// Cycles in the window of observation (r).
        window_cycles: u32 = Tunable::new(Unit::Count, 1..=1_000, 20),
        /// A class whose share is worth fewer requests than this is upheld in the cycle (`Class_threshold`).
        class_threshold: u32 = Tunable::new(Unit::Count, 1..=1_000, 1),
        /// With fewer requests than this at the storage, it is under-loaded (`StorageLoad_threshold`).
        storage_load_threshold: u32 = Tunable::new(Unit::Count, 0..=1_024, 16),
        /// When a request counts against the share of its class.
        charged: Charged = Tunable::one_of(Charged::WORDS, "completion"),
        /// Which deviations the window of observation ignores.
        ignored: Ignored = Tunable::one_of(Ignored::WORDS, "surplus"),
    }
}

words! {
    /// When a request counts against the share of its class.
    enum Charged {
        /// In the cycle of its completion, with its disk time. Until then it counts with the mean of the class's requests (`ServiceRequest`).
        Completion = "completion",
        /// In the cycle of its dispatch, with that mean.
        Dispatch = "dispatch",
    }
}

words! {
    /// Which deviations the window ignores.
    enum Ignored {
        /// Surplus service, which the storage had left over, and share that a class had no requests for.
        Surplus = "surplus",
        /// Use of a class above its weight's part while every class below its own had no requests for more.
        Unneeded = "unneeded",
        /// None.
        Nothing = "nothing",
    }
}

/// Utilization of a class in a cycle, or over all cycles of the window.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Usage {
    /// Utilization recorded for computing shares, in nanoseconds of disk time.
    recorded: f64,
    /// Requests completed, and their disk time in nanoseconds.
    requests: f64,
    time: f64,
}

/// A class of requests.
#[derive(Default)]
struct Class {
    weight: f64,
    /// Pending requests in order of arrival, each with its position in the unified list.
    pending: VecDeque<(u64, Request)>,
    /// Requests at the storage that count against the share.
    at_storage: u32,
    /// `ServiceShare` for this cycle in nanoseconds, and the remainder.
    allotted: f64,
    left: f64,
    /// Whether it ran out of requests while it had share left in this cycle.
    has_run_out: bool,
    /// Usage in this cycle, and over the window.
    current: Usage,
    window: Usage,
    /// Mean disk time of a request (`ServiceRequest`); `None` before the first completion.
    mean: Option<f64>,
}

/// A request at the storage.
struct Flight {
    class: usize,
    /// Whether it counts against the share of its class.
    counts: bool,
}

struct Printed {
    set: Tunables,
    register: Register,
    classes: Vec<Class>,
    /// Number of requests queued so far, number pending, and requests at the storage.
    arrived: u64,
    pending: usize,
    flights: BTreeMap<RequestId, Flight>,
    /// Mean disk time of all requests, used for classes without completions; 0 before the first.
    mean: f64,
    completed: f64,
    /// Disk time that the storage reported for the next completion.
    reported: Option<Nanos>,
    /// End of this cycle; `None` before the first request.
    ends: Option<Nanos>,
    /// The cycles in the window, oldest first.
    window: VecDeque<Vec<Usage>>,
}

impl Printed {
    fn new(values: &[i64]) -> Printed {
        Printed {
            set: Tunables::of(values),
            register: Register::default(),
            classes: Vec::new(),
            arrived: 0,
            pending: 0,
            flights: BTreeMap::new(),
            mean: 0.0,
            completed: 0.0,
            reported: None,
            ends: None,
            window: VecDeque::new(),
        }
    }

    /// Creates missing classes up to this number.
    fn open(&mut self, number: usize) {
        while self.classes.len() <= number {
            let weight = self.register.weight(self.classes.len()) as f64;
            self.classes.push(Class { weight, ..Class::default() });
        }
    }

    /// Appends a request to the unified list.
    fn append(&mut self, request: Request) {
        let number = self.register.number(&request);
        self.open(number);
        self.classes[number].pending.push_back((self.arrived, request));
        self.arrived += 1;
        self.pending += 1;
    }

    /// Ends the cycles that are over, and begins the one that contains `now`.
    fn advance(&mut self, now: Nanos) {
        let length = self.set.cycle_ms;
        let Some(ends) = self.ends else {
            self.ends = Some(now + length);
            self.begin_cycle();
            return;
        };
        if now < ends {
            return;
        }
        // After a long idle time, cycles beyond the length of the window do not matter.
        let over = ((now - ends).0 / length.0 + 1).min(u64::from(self.set.window_cycles) + 1);
        for _ in 0..over {
            self.end_cycle();
        }
        self.ends = Some(ends + Nanos(((now - ends).0 / length.0 + 1) * length.0));
        self.begin_cycle();
    }

    /// Adds each class's utilization to the window, and removes the oldest cycle.
    fn end_cycle(&mut self) {
        let recorded = self.recorded();
        let mut cycle = Vec::with_capacity(self.classes.len());
        for (class, recorded) in self.classes.iter_mut().zip(recorded) {
            let usage = Usage { recorded, ..core::mem::take(&mut class.current) };
            class.window.recorded += usage.recorded;
            class.window.requests += usage.requests;
            class.window.time += usage.time;
            cycle.push(usage);
        }
        self.window.push_back(cycle);
        while self.window.len() > self.set.window_cycles as usize {
            let Some(oldest) = self.window.pop_front() else { break };
            for (class, usage) in self.classes.iter_mut().zip(oldest) {
                class.window.recorded -= usage.recorded;
                class.window.requests -= usage.requests;
                class.window.time -= usage.time;
            }
        }
    }

    /// The utilization to record for each class in this cycle, without deviations that did not affect other classes.
    fn recorded(&self) -> Vec<f64> {
        let record = |class: &Class| match self.set.ignored {
            Ignored::Nothing => class.current.recorded,
            // Share that was left for lack of requests counts as used.
            Ignored::Surplus if class.has_run_out => class.current.recorded.max(class.allotted),
            Ignored::Surplus => class.current.recorded,
            Ignored::Unneeded => self.needed(class),
        };
        self.classes.iter().map(record).collect()
    }

    /// The utilization of a class in this cycle, where usage above `w / W` counts only to the extent that other classes lacked service.
    fn needed(&self, class: &Class) -> f64 {
        let all: f64 = self.classes.iter().map(|class| class.current.recorded).sum();
        let above = |class: &Class| class.current.recorded - all * class.weight / self.weight();
        let excess: f64 = self.classes.iter().map(|class| above(class).max(0.0)).sum();
        let lacks = |class: &&Class| !class.has_run_out && above(class) < 0.0;
        let lack: f64 = self.classes.iter().filter(lacks).map(|class| -above(class)).sum();
        if lacks(&class) {
            return class.current.recorded;
        }
        class.current.recorded - above(class) + above(class).max(0.0) * (lack / excess.max(1.0)).min(1.0)
    }

    /// The sum of all weights (W).
    fn weight(&self) -> f64 {
        self.classes.iter().map(|class| class.weight).sum()
    }

    /// Divides `Service_cycle` among the classes.
    fn begin_cycle(&mut self) {
        let service = self.set.cycle_ms.0 as f64 * f64::from(self.register.roster().disks());
        let used: f64 = self.classes.iter().map(|class| class.window.recorded).sum();
        let weight = self.weight();
        let owed = |class: &Class| (class.weight / weight * (used + service) - class.window.recorded).max(0.0);
        let all: f64 = self.classes.iter().map(owed).sum();
        for class in &mut self.classes {
            class.allotted = service * owed(class) / all;
            class.left = class.allotted;
            class.has_run_out = false;
        }
    }

    /// Whether a class has share left for a request. Always false before the first completion, as the cost of a request is unknown.
    fn has_share(&self, class: &Class) -> bool {
        let mean = class.mean.unwrap_or(self.mean);
        if mean == 0.0 {
            return false;
        }
        let is_upheld = class.allotted < f64::from(self.set.class_threshold) * mean;
        let at_storage = match self.set.charged {
            Charged::Completion => f64::from(class.at_storage) * mean,
            Charged::Dispatch => 0.0,
        };
        !is_upheld && class.left - at_storage >= mean
    }

    /// The class with the oldest pending request among those for which `passes` is true.
    fn oldest(&self, passes: impl Fn(&Class) -> bool) -> Option<usize> {
        let classes = self.classes.iter().enumerate().filter(|(_, class)| passes(class));
        classes.filter_map(|(number, class)| Some((class.pending.front()?.0, number))).min().map(|(_, number)| number)
    }

    /// Whether a request counts against the share of its class and is recorded in the window.
    fn counts(&self, is_surplus: bool) -> bool {
        !is_surplus || self.set.ignored != Ignored::Surplus
    }

    fn dispatch(&mut self, number: usize, is_surplus: bool) -> Option<Request> {
        let (counts, mean) = (self.counts(is_surplus), self.mean);
        let class = &mut self.classes[number];
        let (_, request) = class.pending.pop_front()?;
        class.at_storage += u32::from(counts);
        if counts && self.set.charged == Charged::Dispatch {
            class.left -= class.mean.unwrap_or(mean);
        }
        self.pending -= 1;
        self.flights.insert(request.id, Flight { class: number, counts });
        Some(request)
    }
}

impl Scheduler for Printed {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.append(request);
        self.advance(now);
        Insertion::Queued
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        if self.pending == 0 {
            return Pick::Empty;
        }
        self.advance(now);
        for number in 0..self.classes.len() {
            let class = &self.classes[number];
            if class.pending.is_empty() && self.has_share(class) {
                self.classes[number].has_run_out = true;
            }
        }
        // An idle storage counts as under-loaded for any threshold.
        let is_under_loaded = self.flights.len() < self.set.storage_load_threshold.max(1) as usize;
        let within_share = self.oldest(|class| self.has_share(class)).map(|number| (number, false));
        let next = within_share.or_else(|| Some((self.oldest(|_| is_under_loaded)?, true)));
        if let Some(request) = next.and_then(|(number, is_surplus)| self.dispatch(number, is_surplus)) {
            return Pick::Go(request);
        }
        Pick::WaitUntil(self.ends.unwrap_or(Nanos::MAX).min(now + COMPLETION_BACKSTOP))
    }

    fn record_disk_time(&mut self, _request: &Request, disk_time: Nanos) {
        self.reported = Some(disk_time);
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        let took = self.reported.take().unwrap_or(service).0 as f64;
        let Some(Flight { class: number, counts }) = self.flights.remove(&request.id) else { return };
        self.advance(now);
        self.completed += 1.0;
        self.mean += (took - self.mean) / self.completed;
        let class = &mut self.classes[number];
        class.current.requests += 1.0;
        class.current.time += took;
        class.mean = Some((class.window.time + class.current.time) / (class.window.requests + class.current.requests));
        if counts {
            class.at_storage -= 1;
            class.current.recorded += took;
            if self.set.charged == Charged::Completion {
                class.left -= took;
            }
        }
    }

    fn retune(&mut self, values: &[i64]) {
        self.set = Tunables::of(values);
    }

    /// Creates a class for each tenant of the roster, expected to have requests from the start. Discards all history.
    fn set_roster(&mut self, roster: &Roster) {
        let mut waiting = Vec::new();
        self.drain(&mut waiting);
        self.register = Register::new(roster);
        if let Some(last) = roster.tenants().len().checked_sub(1) {
            self.open(last);
        }
        waiting.into_iter().for_each(|request| self.append(request));
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let mut all: Vec<(u64, Request)> = self.classes.drain(..).flat_map(|class| class.pending).collect();
        all.sort_by_key(|(place, _)| *place);
        out.extend(all.into_iter().map(|(_, request)| request));
        (self.pending, self.ends) = (0, None);
        self.window.clear();
        self.flights.clear();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Op, Priority, Tenant};

    use super::*;

    const MS: f64 = 1e6;

    fn at(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    /// Two classes with weights 1 and 2, at sectors 0 and 1000, on one disk.
    fn two(text: &str) -> Printed {
        let (_, values) = block::parse_among(std::iter::once(&SPEC), text).unwrap();
        let mut printed = Printed::new(&values);
        let tenants = vec![Tenant::new("a"), Tenant::new("b").with_weight(2)];
        printed.set_roster(&Roster::new(tenants, vec![(0..1_000, 0), (1_000..2_000, 1)], &[], 1).unwrap());
        printed
    }

    /// Inserts requests in this order; their index is their id.
    fn insert(printed: &mut Printed, now: Nanos, classes: &str) {
        for class in classes.bytes() {
            let (id, lba) = (printed.arrived as RequestId, if class == b'a' { 8 } else { 1_008 });
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let request = Request { id, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival: now };
            assert_eq!(printed.insert(now, request), Insertion::Queued);
        }
    }

    /// The classes of the requests that are dispatched immediately.
    fn dispatched(printed: &mut Printed, now: Nanos) -> (String, Pick) {
        let mut classes = String::new();
        loop {
            match printed.pick(now) {
                Pick::Go(request) => classes.push(if request.lba < 1_000 { 'a' } else { 'b' }),
                other => return (classes, other),
            }
        }
    }

    /// Completes the oldest request of a class at the storage, with this disk time.
    fn complete(printed: &mut Printed, now: Nanos, class: usize, took: Nanos) {
        let id = *printed.flights.iter().find(|(_, flight)| flight.class == class).unwrap().0;
        let (op, priority, lba) = (Op::Read, Priority::DEFAULT, 8);
        let request = Request { id, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival: now };
        printed.record_disk_time(&request, took);
        printed.completed(now, &request, took);
    }

    fn shares(printed: &Printed) -> Vec<f64> {
        printed.classes.iter().map(|class| class.allotted / MS).collect()
    }

    #[test]
    fn shares_follow_the_weights_and_what_deviated_from_them_in_the_window() {
        // Service_cycle = 30 ms * 1 disk.
        let mut printed = two("fairio-report:cycle_ms=30,window_cycles=2,ignored=nothing");
        insert(&mut printed, at(0), "ab");
        // Equation 2 with no history: 30 / 3 and 30 * 2 / 3.
        assert_eq!(shares(&printed), [10.0, 20.0]);
        // In the first cycle, a uses 18 ms and b 12 ms: (30 + 30) / 3 - 18 = 2, (30 + 30) * 2 / 3 - 12 = 28.
        dispatched(&mut printed, at(0));
        complete(&mut printed, at(10), 0, at(18));
        complete(&mut printed, at(20), 1, at(12));
        printed.advance(at(30));
        assert_eq!(shares(&printed), [2.0, 28.0]);
        // In the second, each uses its share: (60 + 30) / 3 - 20 = 10.
        (printed.classes[0].current.recorded, printed.classes[1].current.recorded) = (2.0 * MS, 28.0 * MS);
        printed.advance(at(60));
        assert_eq!(shares(&printed), [10.0, 20.0]);
        // In the third nothing is used, and the window of two cycles forgets the first: (30 + 30) / 3 - 2 = 18.
        printed.advance(at(90));
        assert_eq!(shares(&printed), [18.0, 12.0]);
    }

    #[test]
    fn the_oldest_request_of_a_class_with_share_goes_until_the_cycle_ends_by_the_clock() {
        let mut printed = two("fairio-report:cycle_ms=60,storage_load_threshold=2");
        insert(&mut printed, at(0), "abaaabbbb");
        // No request has completed, so the cost of a request is unknown: two make the storage loaded.
        assert_eq!(dispatched(&mut printed, at(0)), ("ab".to_owned(), Pick::WaitUntil(at(60))));
        complete(&mut printed, at(1), 0, at(10));
        complete(&mut printed, at(2), 1, at(10));
        // Surplus did not count. Of 60 ms a has 20, two requests of 10 ms, and b 40, four. In order of arrival: a a, (a) is delayed, b b b b.
        let (classes, next) = dispatched(&mut printed, at(2));
        assert_eq!((classes.as_str(), next), ("aabbbb", Pick::WaitUntil(at(60))));
        // They complete, the storage is under-loaded, and the third of a is dispatched as surplus.
        for class in [0, 0, 1, 1, 1, 1] {
            complete(&mut printed, at(50), class, at(10));
        }
        assert_eq!(dispatched(&mut printed, at(50)), ("a".to_owned(), Pick::Empty));
    }

    #[test]
    fn a_request_counts_when_it_is_done_or_when_it_is_dispatched() {
        let next = |charged: &str, ms: u64| {
            let mut printed = two(&format!("fairio-report:cycle_ms=60,storage_load_threshold=1,charged={charged}"));
            insert(&mut printed, at(0), "aaaaaa");
            // The first, as surplus, takes 10 ms.
            dispatched(&mut printed, at(0));
            complete(&mut printed, at(10), 0, at(10));
            insert(&mut printed, at(10), "b");
            // 20 ms of share: two of a are dispatched under both interpretations. The one of b keeps the storage loaded.
            assert_eq!(dispatched(&mut printed, at(10)).0, "aab", "{charged}");
            complete(&mut printed, at(20), 0, at(ms));
            complete(&mut printed, at(20), 0, at(ms));
            dispatched(&mut printed, at(20)).0
        };
        // With 5 ms each, 20 - 5 - 5 = 10 ms are left, which is one request by the mean of 10, 5 and 5. With 10 ms each, none is.
        assert_eq!([next("completion", 5), next("completion", 10)], ["a", ""]);
        // At dispatch, each counted with 10 ms.
        assert_eq!(next("dispatch", 5), "");
    }

    #[test]
    fn a_class_with_a_share_of_less_than_class_threshold_requests_is_upheld() {
        let next = |threshold: u32| {
            let mut printed = two(&format!("fairio-report:cycle_ms=60,storage_load_threshold=1,class_threshold={threshold}"));
            insert(&mut printed, at(0), "aaaa");
            dispatched(&mut printed, at(0));
            complete(&mut printed, at(10), 0, at(10));
            insert(&mut printed, at(10), "b");
            dispatched(&mut printed, at(10)).0
        };
        // The share of a, 20 ms, is worth two requests; with a threshold of 3 it is suspended. That of b, 40 ms, is worth four by the overall mean.
        assert_eq!([next(2), next(3)], ["aab", "b"]);
    }

    #[test]
    fn deviations_that_cost_others_nothing_are_not_recorded() {
        let recorded = |ignored: &str, has_run_out: bool| {
            let mut printed = two(&format!("fairio-report:cycle_ms=30,ignored={ignored}"));
            insert(&mut printed, at(0), "a");
            let [a, b] = &mut printed.classes[..] else { panic!("two classes") };
            (a.current.recorded, b.current.recorded, b.has_run_out) = (24.0 * MS, 6.0 * MS, has_run_out);
            printed.recorded().iter().map(|ns| (ns / MS).round()).collect::<Vec<_>>()
        };
        // Without further requests, b leaves the rest of its share of 20 ms; a's usage beyond 10 ms cost it nothing.
        assert_eq!(recorded("surplus", true), [24.0, 20.0]);
        assert_eq!(recorded("unneeded", true), [10.0, 20.0]);
        // With requests, b lacks 20 - 6 = 14 of the 30 ms, which a had beyond its 10.
        assert_eq!(recorded("surplus", false), [24.0, 6.0]);
        assert_eq!(recorded("unneeded", false), [24.0, 6.0]);
        assert_eq!(recorded("nothing", true), [24.0, 6.0]);
    }

    #[test]
    fn it_keeps_the_rules_of_every_scheduler_and_gives_and_takes_requests() {
        block::conformance::assert_conforms(&SPEC, 32);
        let deadline = block::find("deadline").unwrap();
        block::conformance::assert_switches(&SPEC, deadline, 16);
        block::conformance::assert_switches(deadline, &SPEC, 16);
    }
}
