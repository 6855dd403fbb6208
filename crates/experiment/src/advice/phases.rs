//! A recording cut where its load changes.
//!
//! ```text
//! seconds    ▁▁▆▆▆▆▆▆▁▁▁▂▂▂▂▂▂▆▆▆▆▁▁   those with too few requests are idle
//! stretches    └─ A ──┘  └─B─┘└A ┘     alike from second to second
//! phases       A: two stretches, B: one
//! ```
//! Two seconds in a row that are not like the stretch begin another one, as for the controller `seekwise`. Stretches that are alike are
//! one phase; one too short to be judged by itself goes to the phase that is nearest.

use std::collections::BTreeMap;
use std::iter::Peekable;
use std::vec::IntoIter;

use anyhow::Result;
use block::Nanos;
use control::experience::{MIN_REQUESTS, WINDOW};
use observe::description::describe;
use observe::similarity::{ANOTHER, Columns, NOWHERE, Point, approach, load_distance};
use observe::window::{Extractor, Tally};
use observe::{Event, WindowOutcome};
use progress::Monitor;
use twin::ObservedRequest;

use super::observed::{CHECKED, Observed};

/// A stretch of fewer seconds is no phase by itself.
const LEAST_S: u64 = 4;
/// Idle seconds that end a stretch.
const PAUSE_S: u64 = 3;

/// A second in which something was done.
#[derive(Clone, Copy, Debug)]
pub struct Second {
    /// Where it is compared.
    pub point: Point,
    /// How it was served.
    pub outcome: WindowOutcome,
}

impl Second {
    /// Whether there is enough in it to judge by.
    pub fn is_busy(&self) -> bool {
        self.outcome.requests >= MIN_REQUESTS
    }
}

/// The seconds in which anything happened, by their number.
pub type Seconds = BTreeMap<u64, Second>;

/// The events of what was observed between these times, in order of time; at the same time in the order of the requests' arrival, flushes
/// and calls last.
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

/// See [`events`].
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

/// Looks at each second in which there is an event; those without any are passed over.
///
/// # Errors
/// Requests that did not fit into memory cannot be read, or the work was interrupted.
pub fn seconds(observed: &Observed, monitor: &dyn Monitor) -> Result<Seconds> {
    let columns = Columns::described();
    let (mut extractor, mut tally) = (Extractor::new(), Tally::new());
    let mut seconds = Seconds::new();
    let mut number = 0;
    let mut close = |number: u64, extractor: &mut Extractor, tally: &mut Tally| {
        let (features, outcome) = (extractor.close(WINDOW), tally.close(WINDOW));
        let row = describe(&features, &outcome);
        seconds.insert(number, Second { point: columns.point(|column| row.get(column).copied()), outcome });
    };
    monitor.begin(2 * observed.requests.len() as u64, "looking at each second");
    for (count, event) in (0..).zip(events(observed, Nanos::ZERO, Nanos::MAX)) {
        let event = event?;
        if count % CHECKED == 0 {
            monitor.check()?;
            monitor.progress(count);
        }
        let of_event = event.at().0 / WINDOW.0;
        if of_event > number {
            close(number, &mut extractor, &mut tally);
            if of_event > number + 1 {
                tally.close(Nanos(WINDOW.0 * (of_event - number - 1)));
            }
            number = of_event;
        }
        extractor.event(&event);
        tally.event(&event);
    }
    monitor.end();
    close(number, &mut extractor, &mut tally);
    Ok(seconds)
}

/// Seconds in a row, from one to before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stretch {
    /// The first second.
    pub from: u64,
    /// The one behind the last.
    pub to: u64,
}

impl Stretch {
    /// How long it is.
    pub fn seconds(&self) -> u64 {
        self.to - self.from
    }
}

/// A load that is the same throughout.
#[derive(Clone, Debug)]
pub struct Phase {
    /// Where it is found, in order of time.
    pub stretches: Vec<Stretch>,
    point: Point,
}

impl Phase {
    /// How long it lasts in all.
    pub fn seconds(&self) -> u64 {
        self.stretches.iter().map(Stretch::seconds).sum()
    }

    /// Requests done in it.
    pub fn requests(&self, seconds: &Seconds) -> u64 {
        self.stretches.iter().flat_map(|stretch| seconds.range(stretch.from..stretch.to)).map(|(_, one)| one.outcome.requests).sum()
    }
}

/// A mean of points, value by value as far as there are any.
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

/// The phases, the longest first.
pub fn phases(seconds: &Seconds) -> Vec<Phase> {
    let mut stretches = stretches(seconds);
    // The long ones make the phases; the short ones join them.
    stretches.sort_by_key(|(stretch, _)| (std::cmp::Reverse(stretch.seconds()), stretch.from));
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
    phases.sort_by_key(|phase| (std::cmp::Reverse(phase.seconds()), phase.stretches.first().map(|stretch| stretch.from)));
    phases
}

fn stretches(seconds: &Seconds) -> Vec<(Stretch, Point)> {
    let mut done: Vec<(Stretch, Point)> = Vec::new();
    let mut current: Option<(Stretch, Mean)> = None;
    // A second that is not like the stretch; the next one says whether another has begun.
    let mut strange: Option<(u64, Point)> = None;
    for (&number, second) in seconds.iter().filter(|(_, second)| second.is_busy()) {
        let Some((stretch, mean)) = &mut current else {
            current = Some(begun(number, &second.point));
            continue;
        };
        if number >= stretch.to + PAUSE_S {
            // What was strange at the end of a stretch is its end.
            strange = None;
            done.push((*stretch, mean.point));
            current = Some(begun(number, &second.point));
            continue;
        }
        let is_strange = mean.count > 1.0 && load_distance(&mean.point, &second.point) >= ANOTHER;
        match strange.take() {
            Some((from, point)) if is_strange => {
                stretch.to = from;
                done.push((*stretch, mean.point));
                let (begun, mut mean) = begun(from, &point);
                mean.add(&second.point, 1.0);
                current = Some((Stretch { to: number + 1, ..begun }, mean));
            }
            _ => {
                if is_strange {
                    strange = Some((number, second.point));
                } else {
                    mean.add(&second.point, 1.0);
                }
                stretch.to = number + 1;
            }
        }
    }
    done.extend(current.map(|(stretch, mean)| (stretch, mean.point)));
    done.retain(|(stretch, _)| stretch.seconds() > 0);
    done
}

fn begun(number: u64, point: &Point) -> (Stretch, Mean) {
    let mut mean = Mean::new();
    mean.add(point, 1.0);
    (Stretch { from: number, to: number + 1 }, mean)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A load of its own for each letter, idle where there is a dot.
    fn seconds(letters: &str) -> Seconds {
        let second = |(number, letter): (usize, char)| {
            let mut point = [0.0; NOWHERE.len()];
            point[0] = 3.0 * f64::from(letter as u32);
            let outcome = WindowOutcome { requests: if letter == '.' { 0 } else { MIN_REQUESTS }, ..Tally::new().close(WINDOW) };
            (number as u64, Second { point, outcome })
        };
        letters.chars().enumerate().map(second).collect()
    }

    fn cut(letters: &str) -> Vec<Vec<(u64, u64)>> {
        let phases = phases(&seconds(letters));
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
