//! Every feature reckoned in the plainest way: each request looks through all events before it.

use std::collections::{BTreeMap, BTreeSet};

use block::{Nanos, Op, Request};
use observe::Event;
use observe::window::{Extractor, FEATURES, Features};
use proptest::prelude::*;

use crate::script;

/// A request and its predecessors.
struct Seen {
    request: Request,
    previous: Option<Request>,
    of_stream: Option<Request>,
    open: Vec<Request>,
    answered: Option<Nanos>,
    is_repeat: bool,
}

impl Seen {
    fn new(before: &[Event], request: Request) -> Seen {
        let (mut open, mut answered, mut queued) = (Vec::<Request>::new(), None, Vec::new());
        for event in before {
            match event {
                Event::Queued(request) => {
                    open.push(*request);
                    queued.push(*request);
                }
                Event::Completed { request: done, at, .. } => {
                    open.remove(open.iter().position(|other| other == done).unwrap());
                    if done.stream == request.stream && done.is_sync() {
                        answered = Some(*at);
                    }
                }
                Event::Flushed { .. } | Event::Called { .. } | Event::Returned { .. } => {}
            }
        }
        Seen {
            request,
            previous: queued.last().copied(),
            of_stream: queued.iter().rev().find(|other| other.stream == request.stream).copied(),
            open,
            answered,
            is_repeat: queued.iter().any(|other| other.lba / 8 == request.lba / 8),
        }
    }

    fn is_sequential(&self) -> bool {
        self.of_stream.is_some_and(|other| (0..=64).contains(&(i128::from(self.request.lba) - i128::from(other.end()))))
    }

    fn is_dependent(&self) -> bool {
        self.request.is_sync() && !self.open.iter().any(|other| other.stream == self.request.stream && other.is_sync())
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64).sqrt()
}

fn dispersion(arrivals: &[u64], duration: u64, slot: u64) -> f64 {
    let Some(first) = arrivals.first() else { return f64::NAN };
    let last = (arrivals.last().unwrap() - first) / slot;
    let slots = (duration / slot).max(last);
    if slots < 8 {
        return f64::NAN;
    }
    let mut counts = vec![0.0; slots as usize];
    for arrival in arrivals {
        if let Some(count) = counts.get_mut(((arrival - first) / slot) as usize) {
            *count += 1.0;
        }
    }
    deviation(&counts).powi(2) / mean(&counts)
}

fn hurst(indices: &[f64]) -> f64 {
    let points: Vec<(f64, f64)> = indices
        .iter()
        .enumerate()
        .filter(|(_, index)| **index > 1e-12)
        .map(|(power, index)| (power as f64, index.log2()))
        .collect();
    if points.len() < 3 {
        return f64::NAN;
    }
    let (x, y) = (
        mean(&points.iter().map(|point| point.0).collect::<Vec<_>>()),
        mean(&points.iter().map(|point| point.1).collect::<Vec<_>>()),
    );
    let slope = points.iter().map(|point| (point.0 - x) * (point.1 - y)).sum::<f64>()
        / points.iter().map(|point| (point.0 - x).powi(2)).sum::<f64>();
    ((1.0 + slope) / 2.0).clamp(0.0, 1.0)
}

/// The requests of a window.
struct Sample(Vec<Seen>);

impl Sample {
    fn n(&self) -> f64 {
        self.0.len() as f64
    }

    fn count(&self, of: impl Fn(&Seen) -> bool) -> f64 {
        self.0.iter().filter(|seen| of(seen)).count() as f64
    }

    fn each(&self, of: impl Fn(&Seen) -> Option<f64>) -> Vec<f64> {
        self.0.iter().filter_map(of).collect()
    }

    /// Features of the requests' operations and times.
    fn loads(&self, duration: Nanos) -> BTreeMap<&'static str, f64> {
        let n = self.n();
        let (reads, writes) = (self.count(is(Op::Read)), self.count(is(Op::Write)));
        let gaps = self.each(|seen| seen.previous.map(|previous| (seen.request.arrival - previous.arrival).as_secs_f64()));
        let arrivals: Vec<u64> = self.0.iter().map(|seen| seen.request.arrival.0).collect();
        let indices: Vec<f64> = (0..6).map(|power| dispersion(&arrivals, duration.0, 10_000_000 << power)).collect();
        let depths = self.each(|seen| Some(seen.open.len() as f64));
        BTreeMap::from([
            ("reads", reads),
            ("writes", writes),
            ("read_write_ratio", (reads + 1.0) / (writes + 1.0)),
            ("read_share", reads / n),
            ("discard_share", self.count(is(Op::Discard)) / n),
            ("sync_share", self.count(|seen| seen.request.is_sync()) / n),
            ("write_back_share", self.count(|seen| is(Op::Write)(seen) && !seen.request.sync) / n),
            ("requests_per_s", n / duration.as_secs_f64()),
            ("gap_mean_s", mean(&gaps)),
            ("gap_variation", deviation(&gaps) / mean(&gaps)),
            ("dispersion_10_ms", indices[0]),
            ("dispersion_320_ms", indices[5]),
            ("hurst", hurst(&indices)),
            ("depth_mean", mean(&depths)),
            ("depth_max", depths.iter().copied().reduce(f64::max).unwrap_or(f64::NAN)),
            ("idle_arrival_share", self.count(|seen| seen.open.is_empty()) / n),
        ])
    }

    /// Features of streams, and of requests that depend on others.
    fn streams(&self) -> BTreeMap<&'static str, f64> {
        let n = self.n();
        let mut streams = BTreeMap::<u32, f64>::new();
        for seen in &self.0 {
            *streams.entry(seen.request.stream).or_default() += 1.0;
        }
        let thinks = self.each(|seen| {
            seen.answered.filter(|_| seen.is_dependent()).map(|answered| (seen.request.arrival - answered).as_secs_f64())
        });
        let own = |seen: &Seen| seen.open.iter().filter(|other| other.stream == seen.request.stream).count() as f64;
        let switches = self.count(|seen| seen.previous.is_some_and(|other| other.stream != seen.request.stream));
        BTreeMap::from([
            ("streams", streams.len() as f64),
            ("streams_effective", n * n / streams.values().map(|requests| requests * requests).sum::<f64>()),
            ("stream_switch_share", switches / self.count(|seen| seen.previous.is_some())),
            ("dependent_share", self.count(Seen::is_dependent) / n),
            ("think_mean_s", mean(&thinks)),
            ("think_variation", deviation(&thinks) / mean(&thinks)),
            ("stream_depth_mean", mean(&self.each(|seen| Some(own(seen))))),
        ])
    }

    /// Features of sizes and places.
    fn places(&self) -> BTreeMap<&'static str, f64> {
        let n = self.n();
        let size = |seen: &Seen| f64::from(seen.request.sectors) * 512.0;
        let sizes = self.each(|seen| Some(size(seen)));
        let size_of = |op: Op| mean(&self.each(|seen| is(op)(seen).then(|| size(seen))));
        let log2 = |seen: &Seen, other: Request| (1.0 + seen.request.lba.abs_diff(other.end()) as f64).log2();
        let distances = self.each(|seen| seen.previous.map(|previous| log2(seen, previous)));
        let stream_distances = self.each(|seen| seen.of_stream.map(|previous| log2(seen, previous)));
        let mut streams = BTreeSet::new();
        let starts = |seen: &&Seen| streams.insert(seen.request.stream) || !seen.is_sequential();
        let runs = self.0.iter().filter(starts).count() as f64;
        let regions: BTreeSet<u64> =
            self.0.iter().flat_map(|seen| [seen.request.lba / 2048, seen.request.end().saturating_sub(1) / 2048]).collect();
        let lowest = self.0.iter().map(|seen| seen.request.lba).min();
        let highest = self.0.iter().map(|seen| seen.request.end()).max();
        let mut sorted = sizes.clone();
        sorted.sort_by(f64::total_cmp);
        let sequential_overall = |seen: &Seen| {
            seen.previous.is_some_and(|other| (0..=64).contains(&(i128::from(seen.request.lba) - i128::from(other.end()))))
        };
        let sequential_of = |op: Op| self.count(|seen| is(op)(seen) && seen.is_sequential()) / self.count(is(op));
        BTreeMap::from([
            ("sequential_share", self.count(Seen::is_sequential) / n),
            ("sequential_overall_share", self.count(sequential_overall) / n),
            ("sequential_read_share", sequential_of(Op::Read)),
            ("sequential_write_share", sequential_of(Op::Write)),
            ("run_mean_bytes", sizes.iter().sum::<f64>() / runs),
            ("size_mean_bytes", mean(&sizes)),
            ("size_variation", deviation(&sizes) / mean(&sizes)),
            ("size_p95_bytes", sorted.get(((0.95 * n).ceil() as usize).saturating_sub(1)).copied().unwrap_or(f64::NAN)),
            ("read_size_mean_bytes", size_of(Op::Read)),
            ("write_size_mean_bytes", size_of(Op::Write)),
            ("aligned_share", self.count(|seen| seen.request.lba % 8 == 0 && seen.request.sectors % 8 == 0) / n),
            ("distance_mean_log2", mean(&distances)),
            ("distance_deviation_log2", deviation(&distances)),
            ("stream_distance_mean_log2", mean(&stream_distances)),
            ("stream_distance_deviation_log2", deviation(&stream_distances)),
            ("span_bytes", lowest.zip(highest).map_or(f64::NAN, |(lowest, highest)| (highest - lowest) as f64 * 512.0)),
            ("footprint_bytes", regions.len() as f64 * 1_048_576.0),
            ("repeat_share", self.count(|seen| seen.is_repeat) / n),
        ])
    }
}

/// Whether a request has this operation.
fn is(op: Op) -> impl Fn(&Seen) -> bool {
    move |seen| seen.request.op == op
}

/// The features of the events from `from` on, by name.
fn reckoned(events: &[Event], from: usize, duration: Nanos) -> BTreeMap<&'static str, f64> {
    let queued = |index: usize| match &events[index] {
        Event::Queued(request) => Some(Seen::new(&events[..index], *request)),
        _ => None,
    };
    let sample = Sample((from..events.len()).filter_map(queued).collect());
    let mut features = sample.loads(duration);
    features.extend(sample.streams());
    features.extend(sample.places());
    features
}

/// Whether a feature equals the reckoned value, or is as near as its documentation says.
fn is_near(name: &str, value: f64, reckoned: f64) -> bool {
    if reckoned.is_nan() || value.is_nan() {
        // A logarithm of next to nothing may be missed on either side.
        return reckoned.is_nan() == value.is_nan();
    }
    let difference = value - reckoned;
    match name {
        "size_p95_bytes" => value <= reckoned && value >= reckoned * 15.0 / 16.0,
        "footprint_bytes" => difference.abs() <= 0.05 * reckoned + 2.0 * 1_048_576.0,
        "repeat_share" => (-0.2..=1e-9).contains(&difference),
        name if name.ends_with("log2") => difference.abs() < 1e-3,
        _ => difference.abs() <= 1e-6 * reckoned.abs() + 1e-9,
    }
}

fn check(features: &Features, reckoned: &BTreeMap<&'static str, f64>) -> Result<(), TestCaseError> {
    prop_assert_eq!(reckoned.len(), FEATURES.len());
    for feature in FEATURES {
        let (value, reckoned) = (features.get(feature.name).unwrap(), reckoned[feature.name]);
        prop_assert!(is_near(feature.name, value, reckoned), "{}: {value}, reckoned {reckoned}", feature.name);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_feature_of_every_window_is_what_a_plain_reckoning_says(windows in script::windows()) {
        let (mut extractor, mut so_far) = (Extractor::new(), Vec::new());
        for (events, duration) in script::played(&windows) {
            events.iter().for_each(|event| extractor.event(event));
            let from = so_far.len();
            so_far.extend(events);
            let requests = so_far[from..].iter().filter(|event| matches!(event, Event::Queued(_))).count();
            prop_assert_eq!(extractor.requests(), requests as u64);
            check(&extractor.close(duration), &reckoned(&so_far, from, duration))?;
        }
    }

    #[test]
    fn the_counts_of_windows_add_up_wherever_they_are_cut(windows in script::windows(), cut in any::<prop::sample::Index>()) {
        let events: Vec<Event> = script::played(&windows).into_iter().flat_map(|(events, _)| events).collect();
        let counts = |cuts: &[&[Event]]| {
            let mut extractor = Extractor::new();
            let mut sums = [0.0; 9];
            for events in cuts {
                events.iter().for_each(|event| extractor.event(event));
                let n = extractor.requests() as f64;
                let features = extractor.close(Nanos::from_millis(1000));
                if n > 0.0 {
                    let get = |name| features.get(name).unwrap();
                    let shares = ["discard_share", "sync_share", "sequential_share", "sequential_overall_share", "dependent_share",
                        "repeat_share", "idle_arrival_share"];
                    sums[0] += get("reads");
                    sums[1] += get("writes");
                    shares.iter().zip(&mut sums[2..]).for_each(|(name, sum)| *sum += get(name) * n);
                }
            }
            sums.map(f64::round)
        };
        let (left, right) = events.split_at(if events.is_empty() { 0 } else { cut.index(events.len()) });
        prop_assert_eq!(counts(&[&events]), counts(&[left, right]));
    }
}
