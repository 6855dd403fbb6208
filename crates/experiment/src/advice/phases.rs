//! Splits a recording into phases where its load changes.
//!
//! ```text
//! seconds    ▁▁▆▆▆▆▆▆▁▁▁▂▂▂▂▂▂▆▆▆▆▁▁   those with too few requests are idle
//! stretches    └─ A ──┘  └─B─┘└A ┘     alike from second to second
//! phases       A: two stretches, B: one
//! ```
//! A stretch ends before two consecutive seconds that differ from it, as in the controller `seekwise`. Similar stretches form a phase; one
//! that is too short for a phase of its own joins the nearest.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::iter::Peekable;
use std::ops::Range;
use std::vec::IntoIter;

use anyhow::Result;
use block::Nanos;
use control::experience::{MIN_REQUESTS, WINDOW};
use observe::description::describe;
use observe::performance::Performance;
use observe::similarity::{ANOTHER, Columns, NOWHERE, Point, approach, load_distance};
use observe::window::{Calls, Extractor, Features, Tally};
use observe::{Event, WindowOutcome};
use progress::Monitor;
use twin::ObservedRequest;

use super::observed::{CHECKED, Observed};

/// Minimum length of a stretch that becomes a phase of its own.
const LEAST_S: u64 = 4;
/// Idle seconds that end a stretch.
const PAUSE_S: u64 = 3;

/// The judged results of one second, kept compact: a recording of days has many.
#[derive(Clone, Debug)]
struct Outcome {
    requests: u64,
    waited_for: u64,
    bytes: u64,
    waited_s: f64,
    fairness: f64,
    calls: Option<Box<Calls>>,
}

impl Outcome {
    fn of(outcome: &WindowOutcome) -> Outcome {
        let WindowOutcome { requests, waited_for, bytes, waited_s, fairness, calls, .. } = *outcome;
        Outcome { requests, waited_for, bytes, waited_s, fairness, calls: calls.map(Box::new) }
    }

    /// Converts to a window. Fields that are not judged are those of an idle window.
    fn window(&self, nothing: &WindowOutcome) -> WindowOutcome {
        let Outcome { requests, waited_for, bytes, waited_s, fairness, ref calls } = *self;
        let calls = calls.as_deref().copied();
        WindowOutcome { requests, waited_for, bytes, waited_s, fairness, calls, ..*nothing }
    }
}

/// The seconds in which anything happened, by their number.
#[derive(Clone, Debug, Default)]
pub struct Seconds {
    /// Numbers of the seconds, ascending.
    numbers: Vec<u64>,
    outcomes: Vec<Outcome>,
}

impl Seconds {
    /// Requests completed in this second.
    pub fn requests(&self, second: u64) -> u64 {
        self.numbers.binary_search(&second).map_or(0, |place| self.outcomes[place].requests)
    }

    /// Requests completed in a stretch.
    fn requests_in(&self, stretch: Stretch) -> u64 {
        self.places(stretch).map(|place| self.outcomes[place].requests).sum()
    }

    fn places(&self, stretch: Stretch) -> Range<usize> {
        let place = |second: u64| self.numbers.partition_point(|number| *number < second);
        place(stretch.from)..place(stretch.to)
    }

    /// Whether any second has enough requests to judge.
    pub fn any_is_busy(&self) -> bool {
        self.outcomes.iter().any(|outcome| outcome.requests >= MIN_REQUESTS)
    }

    /// The performance over all seconds; `None` if no request completed.
    pub fn performance(&self) -> Option<Performance> {
        let nothing = Tally::new().close(WINDOW);
        Performance::of(self.outcomes.iter().map(|outcome| outcome.window(&nothing)))
    }

    /// The performance in these stretches, idle seconds included; `None` if no request completed.
    pub fn performance_in(&self, stretches: &[Stretch]) -> Option<Performance> {
        let nothing = Tally::new().close(WINDOW);
        let seconds = stretches.iter().flat_map(|stretch| {
            let mut places = self.places(*stretch).peekable();
            (stretch.from..stretch.to).map(move |second| {
                let place = places.next_if(|place| self.numbers[*place] == second);
                place.map_or(nothing, |place| self.outcomes[place].window(&nothing))
            })
        });
        Performance::of(seconds)
    }

    fn push(&mut self, number: u64, outcome: &WindowOutcome) {
        self.numbers.push(number);
        self.outcomes.push(Outcome::of(outcome));
    }
}

/// The events observed between these times, ordered by time. At equal times they are in the order of the requests' arrival, followed by
/// flushes and calls.
pub fn events(observed: &Observed, from: Nanos, to: Nanos) -> Events<impl Iterator<Item = Result<ObservedRequest>>> {
    let mut others = Vec::new();
    for flush in observed.flushes.iter().filter(|flush| flush.completed >= from && flush.request.arrival < to) {
        others.push(Event::Flushed { stream: flush.request.stream, asked: flush.request.arrival, at: flush.completed });
    }
    for call in observed.calls.iter().filter(|call| call.returned >= from && call.called < to) {
        others.push(Event::Called { stream: call.stream, at: call.called });
        others.push(Event::Returned {
            stream: call.stream,
            op: call.op,
            bytes: call.bytes,
            called: call.called,
            at: call.returned,
        });
    }
    others.sort_by_key(Event::at);
    let requests = observed.requests.between(from, to);
    let requests = requests.filter(move |seen| seen.as_ref().map_or(true, |seen| seen.completed >= from));
    Events { requests: requests.peekable(), queued: 0, under_way: BTreeMap::new(), others: others.into_iter().peekable() }
}

/// Iterator returned by [`events`].
pub struct Events<R: Iterator<Item = Result<ObservedRequest>>> {
    /// In order of arrival.
    requests: Peekable<R>,
    queued: u64,
    /// By completion, then in order of arrival.
    under_way: BTreeMap<(Nanos, u64), ObservedRequest>,
    others: Peekable<IntoIter<Event>>,
}

impl<R: Iterator<Item = Result<ObservedRequest>>> Iterator for Events<R> {
    type Item = Result<Event>;

    fn next(&mut self) -> Option<Result<Event>> {
        let number = self.queued;
        let arrives = match self.requests.peek() {
            Some(Ok(seen)) => Some((seen.request.arrival, number)),
            Some(Err(_)) => return Some(Err(self.requests.next()?.err()?)),
            None => None,
        };
        let completes = self.under_way.first_key_value().map(|(key, _)| *key);
        let other = self.others.peek().map(|event| (event.at(), u64::MAX));
        let first = [arrives, completes, other].into_iter().flatten().min()?;
        if Some(first) == completes {
            let ((at, _), ObservedRequest { request, dispatched, .. }) = self.under_way.pop_first()?;
            return Some(Ok(Event::Completed { request, dispatched, at }));
        }
        if Some(first) == arrives {
            let seen = self.requests.next()?.ok()?;
            self.under_way.insert((seen.completed, number), seen);
            self.queued += 1;
            return Some(Ok(Event::Queued(seen.request)));
        }
        self.others.next().map(Ok)
    }
}

/// Analyses each second with an event and skips idle ones. Phases are ordered by length, the longest first.
///
/// # Errors
/// The temporary file of the requests cannot be read, or the work was interrupted.
pub fn seconds(observed: &Observed, monitor: &dyn Monitor) -> Result<(Seconds, Vec<Phase>)> {
    let columns = Columns::described();
    let (mut seconds, mut cutter) = (Seconds::default(), Cutter::default());
    let mut extractor = Extractor::new();
    each_second(observed, monitor, Some(&mut extractor), |number, features, outcome| {
        seconds.push(number, &outcome);
        if let Some(features) = features.filter(|_| outcome.requests >= MIN_REQUESTS) {
            let row = describe(&features, &outcome);
            cutter.second(number, columns.point(|column| row.get(column).copied()));
        }
    })?;
    Ok((seconds, phases(cutter.finish())))
}

/// Like [`seconds`], without phases.
///
/// # Errors
/// As for [`seconds`].
pub fn outcomes(observed: &Observed, monitor: &dyn Monitor) -> Result<Seconds> {
    let mut seconds = Seconds::default();
    each_second(observed, monitor, None, |number, _, outcome| seconds.push(number, &outcome))?;
    Ok(seconds)
}

fn each_second(
    observed: &Observed,
    monitor: &dyn Monitor,
    extractor: Option<&mut Extractor>,
    mut close: impl FnMut(u64, Option<Features>, WindowOutcome),
) -> Result<()> {
    let mut windows = Windows { number: 0, tally: Tally::new(), extractor };
    monitor.begin(2 * observed.requests.len() as u64, "looking at each second");
    for (count, event) in (0..).zip(events(observed, Nanos::ZERO, Nanos::MAX)) {
        let event = event?;
        if count % CHECKED == 0 {
            monitor.check()?;
            monitor.progress(count);
        }
        windows.event(&event, &mut close);
    }
    monitor.end();
    windows.finish(&mut close);
    Ok(())
}

/// Groups events in time order by second.
struct Windows<'a> {
    number: u64,
    tally: Tally,
    extractor: Option<&'a mut Extractor>,
}

impl Windows<'_> {
    /// Adds an event and passes each completed second to `close`.
    fn event(&mut self, event: &Event, close: &mut impl FnMut(u64, Option<Features>, WindowOutcome)) {
        let of_event = event.at().0 / WINDOW.0;
        if of_event > self.number {
            self.finish(close);
            if of_event > self.number + 1 {
                self.tally.close(Nanos(WINDOW.0 * (of_event - self.number - 1)));
            }
            self.number = of_event;
        }
        if let Some(extractor) = &mut self.extractor {
            extractor.event(event);
        }
        self.tally.event(event);
    }

    fn finish(&mut self, close: &mut impl FnMut(u64, Option<Features>, WindowOutcome)) {
        let features = self.extractor.as_mut().map(|extractor| extractor.close(WINDOW));
        close(self.number, features, self.tally.close(WINDOW));
    }
}

/// Records the seconds of a run while it runs. Equivalent to [`outcomes`] of its sorted requests, without storing them.
///
/// A request is passed on once no earlier one can still complete; only requests in flight are held.
pub struct RunSeconds {
    /// Arrivals of requests in flight, in order, with the number of requests at each.
    in_flight: VecDeque<(Nanos, u64)>,
    /// Completed requests behind an earlier arrival that is still in flight.
    done: BinaryHeap<Reverse<Ordered>>,
    sequence: u64,
    /// Requests passed on that complete after the latest arrival.
    under_way: BinaryHeap<Reverse<Ordered>>,
    passed_on: u64,
    last: Nanos,
    windows: Windows<'static>,
    seconds: Seconds,
    lasts: Nanos,
    is_in_order: bool,
}

/// A request keyed by time and number.
struct Ordered {
    key: (Nanos, u64),
    seen: ObservedRequest,
}

impl PartialEq for Ordered {
    fn eq(&self, other: &Ordered) -> bool {
        self.key == other.key
    }
}

impl Eq for Ordered {}

impl PartialOrd for Ordered {
    fn partial_cmp(&self, other: &Ordered) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ordered {
    fn cmp(&self, other: &Ordered) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

impl RunSeconds {
    /// For a run that has not started.
    pub fn new() -> RunSeconds {
        RunSeconds {
            in_flight: VecDeque::new(),
            done: BinaryHeap::new(),
            sequence: 0,
            under_way: BinaryHeap::new(),
            passed_on: 0,
            last: Nanos::ZERO,
            windows: Windows { number: 0, tally: Tally::new(), extractor: None },
            seconds: Seconds::default(),
            lasts: Nanos::ZERO,
            is_in_order: true,
        }
    }

    /// Records that a request was issued.
    pub fn issued(&mut self, arrival: Nanos) {
        match self.in_flight.back_mut() {
            Some((last, count)) if *last == arrival => *count += 1,
            Some((last, _)) if *last > arrival => match self.in_flight.binary_search_by_key(&arrival, |(other, _)| *other) {
                Ok(place) => self.in_flight[place].1 += 1,
                Err(place) => self.in_flight.insert(place, (arrival, 1)),
            },
            _ => self.in_flight.push_back((arrival, 1)),
        }
    }

    /// Records that a request completed.
    pub fn completed(&mut self, seen: ObservedRequest) {
        let arrival = seen.request.arrival;
        match self.in_flight.binary_search_by_key(&arrival, |(other, _)| *other) {
            Ok(place) => self.in_flight[place].1 = self.in_flight[place].1.saturating_sub(1),
            Err(_) => self.is_in_order = false,
        }
        while self.in_flight.front().is_some_and(|(_, count)| *count == 0) {
            self.in_flight.pop_front();
        }
        self.sequence += 1;
        self.lasts = self.lasts.max(seen.completed);
        let earliest = self.in_flight.front().map_or(Nanos::MAX, |(arrival, _)| *arrival);
        if self.done.is_empty() && arrival <= earliest {
            return self.pass(seen);
        }
        self.done.push(Reverse(Ordered { key: (arrival, self.sequence), seen }));
        self.pass_on(earliest);
    }

    fn pass_on(&mut self, until: Nanos) {
        while self.done.peek().is_some_and(|Reverse(first)| first.key.0 <= until) {
            let Some(Reverse(Ordered { seen, .. })) = self.done.pop() else { return };
            self.pass(seen);
        }
    }

    fn pass(&mut self, seen: ObservedRequest) {
        self.is_in_order &= seen.request.arrival >= self.last;
        self.last = seen.request.arrival;
        self.complete((seen.request.arrival, self.passed_on));
        self.event(&Event::Queued(seen.request));
        self.under_way.push(Reverse(Ordered { key: (seen.completed, self.passed_on), seen }));
        self.passed_on += 1;
    }

    /// Emits the completions before this time and number.
    fn complete(&mut self, before: (Nanos, u64)) {
        while self.under_way.peek().is_some_and(|Reverse(first)| first.key < before) {
            let Some(Reverse(Ordered { seen, .. })) = self.under_way.pop() else { return };
            let ObservedRequest { request, dispatched, completed } = seen;
            self.event(&Event::Completed { request, dispatched, at: completed });
        }
    }

    fn event(&mut self, event: &Event) {
        let RunSeconds { windows, seconds, .. } = self;
        windows.event(event, &mut |number, _, outcome| seconds.push(number, &outcome));
    }

    /// The seconds and the last completion; `None` if the order of requests did not allow recording.
    pub fn finish(mut self) -> Option<(Seconds, Nanos)> {
        // Requests in flight at the end of a run are not counted.
        self.pass_on(Nanos::MAX);
        self.complete((Nanos::MAX, u64::MAX));
        let RunSeconds { windows, seconds, .. } = &mut self;
        windows.finish(&mut |number, _, outcome| seconds.push(number, &outcome));
        self.is_in_order.then_some((self.seconds, self.lasts))
    }
}

/// A half-open range of seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// First second.
    pub from: u64,
    /// The second after the last.
    pub to: u64,
}

impl Stretch {
    /// Length in seconds.
    pub fn seconds(&self) -> u64 {
        self.to - self.from
    }
}

/// A part of the recording, not necessarily contiguous, with the same load throughout.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Its stretches, ordered by time.
    pub stretches: Vec<Stretch>,
    point: Point,
}

impl Phase {
    /// Total length in seconds.
    pub fn seconds(&self) -> u64 {
        self.stretches.iter().map(Stretch::seconds).sum()
    }

    /// Requests completed in it.
    pub fn requests(&self, seconds: &Seconds) -> u64 {
        self.stretches.iter().map(|stretch| seconds.requests_in(*stretch)).sum()
    }
}

/// Weighted mean of points. Missing values do not count.
#[derive(Clone, Copy)]
struct Mean {
    point: Point,
    count: f64,
}

impl Mean {
    fn new() -> Mean {
        Mean { point: NOWHERE, count: 0.0 }
    }

    fn add(&mut self, point: &Point, weight: f64) {
        self.count += weight;
        approach(&mut self.point, point, weight, self.count);
    }
}

/// Groups stretches into phases, the longest first.
fn phases(mut stretches: Vec<(Stretch, Point)>) -> Vec<Phase> {
    // Long stretches first: they form the phases, which the short ones join.
    stretches.sort_by_key(|(stretch, _)| (Reverse(stretch.seconds()), stretch.from));
    let mut phases: Vec<(Phase, f64)> = Vec::new();
    for (stretch, point) in stretches {
        let weight = stretch.seconds() as f64;
        let apart = phases.iter().enumerate().map(|(number, (phase, _))| (number, load_distance(&phase.point, &point)));
        let nearest = apart.min_by(|a, b| a.1.total_cmp(&b.1));
        match nearest {
            Some((number, apart)) if apart < ANOTHER || stretch.seconds() < LEAST_S => {
                let (phase, count) = &mut phases[number];
                let mut mean = Mean { point: phase.point, count: *count };
                mean.add(&point, weight);
                (phase.point, *count) = (mean.point, mean.count);
                phase.stretches.push(stretch);
            }
            _ => phases.push((Phase { stretches: vec![stretch], point }, weight)),
        }
    }
    let mut phases: Vec<Phase> = phases.into_iter().map(|(phase, _)| phase).collect();
    phases.iter_mut().for_each(|phase| phase.stretches.sort_by_key(|stretch| stretch.from));
    phases.sort_by_key(|phase| (Reverse(phase.seconds()), phase.stretches.first().map(|stretch| stretch.from)));
    phases
}

/// Splits busy seconds into stretches, online.
#[derive(Default)]
struct Cutter {
    done: Vec<(Stretch, Point)>,
    current: Option<(Stretch, Mean)>,
    /// A second that differs from the stretch; the next one decides whether a new stretch has begun.
    strange: Option<(u64, Point)>,
}

impl Cutter {
    fn second(&mut self, number: u64, point: Point) {
        let Cutter { done, current, strange } = self;
        let Some((stretch, mean)) = current else {
            *current = Some(begun(number, &point));
            return;
        };
        if number >= stretch.to + PAUSE_S {
            // A differing second at the end of a stretch belongs to it.
            *strange = None;
            done.push((*stretch, mean.point));
            *current = Some(begun(number, &point));
            return;
        }
        let is_strange = mean.count > 1.0 && load_distance(&mean.point, &point) >= ANOTHER;
        match strange.take() {
            Some((from, first)) if is_strange => {
                stretch.to = from;
                done.push((*stretch, mean.point));
                let (begun, mut mean) = begun(from, &first);
                mean.add(&point, 1.0);
                *current = Some((Stretch { to: number + 1, ..begun }, mean));
            }
            _ => {
                if is_strange {
                    *strange = Some((number, point));
                } else {
                    mean.add(&point, 1.0);
                }
                stretch.to = number + 1;
            }
        }
    }

    fn finish(self) -> Vec<(Stretch, Point)> {
        let Cutter { mut done, current, .. } = self;
        done.extend(current.map(|(stretch, mean)| (stretch, mean.point)));
        done.retain(|(stretch, _)| stretch.seconds() > 0);
        done
    }
}

fn begun(number: u64, point: &Point) -> (Stretch, Mean) {
    let mut mean = Mean::new();
    mean.add(point, 1.0);
    (Stretch { from: number, to: number + 1 }, mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A different load for each letter; a dot is an idle second.
    fn cut(letters: &str) -> Vec<Vec<(u64, u64)>> {
        let mut cutter = Cutter::default();
        for (number, letter) in letters.chars().enumerate().filter(|(_, letter)| *letter != '.') {
            let mut point = [0.0; NOWHERE.len()];
            point[0] = 3.0 * f64::from(letter as u32);
            cutter.second(number as u64, point);
        }
        let phases = phases(cutter.finish());
        phases.iter().map(|phase| phase.stretches.iter().map(|stretch| (stretch.from, stretch.to)).collect()).collect()
    }

    #[test]
    fn loads_that_are_alike_are_one_phase_wherever_they_are() {
        assert_eq!(cut("aaaaaabbbbbaaaa"), [vec![(0, 6), (11, 15)], vec![(6, 11)]]);
        assert_eq!(cut("aaaa....aaaaaa"), [vec![(0, 4), (8, 14)]]);
    }

    #[test]
    fn one_strange_second_and_a_short_pause_change_nothing() {
        assert_eq!(cut("aaaabaaa"), [vec![(0, 8)]]);
        assert_eq!(cut("aaaa..aaa"), [vec![(0, 9)]]);
    }

    #[test]
    fn what_is_too_short_to_be_a_phase_goes_to_the_nearest() {
        assert_eq!(cut("aaaaaabbbzzzzz"), [vec![(0, 6), (6, 9)], vec![(9, 14)]]);
        assert_eq!(cut("b"), [vec![(0, 1)]], "unless there is no other");
        assert!(cut("...").is_empty());
    }
}
