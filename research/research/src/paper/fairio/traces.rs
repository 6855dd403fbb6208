//! Traces of the benchmarks, recorded from each class alone and replayed by the clock, as the report's simulator is trace-driven (section IV).

use std::collections::BTreeMap;

use anyhow::{Context, ensure};
use block::{Nanos, Roster, Tenant};
use control::Setting;
use progress::monitor::Monitor;
use sim::host::{Queue, RunSummary};
use sim::profile::DeviceOptions;
use sim::run::{Finished, Issue, Measure, Owner, Pilot, RunError, ServerEvent, Source, Watch};
use testbed::jobs::JobsLoad;
use testbed::load::Load;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::world::World;

use super::array;
use super::cases::{BENCHMARKS, FOUR};
use super::plan::Plan;

/// Number of classes in a trace.
const CLASSES: usize = 4;

/// The requests of a benchmark in order of arrival; the stream of each is its class, from 0.
pub type Trace = Vec<Issue>;

/// Data layout of a class in its quarter of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Places {
    /// In extents of [`EXTENT`] spread over the quarter. The report does not specify the layout; but requests take 69 to 74 ms in all six
    /// benchmarks, even sequential ones, which is about as long as random requests over the array: only spread data reproduce that.
    Extents,
    /// As recorded: files are contiguous.
    Together,
}

/// Sectors of an extent: 1 MiB.
const EXTENT: u64 = 2048;
/// Distance on the array between consecutive extents of a file, in extents; prime, so that the mapping has no collisions.
const APART: u64 = 7_919;

/// Traces by the index of the benchmark in [`BENCHMARKS`] and the layout.
pub type Traces = BTreeMap<(usize, Places), Trace>;

/// Records requests as they arrive.
#[derive(Default)]
struct Recorder(Vec<Issue>);

impl Pilot for Recorder {
    fn events(&mut self, noted: &[ServerEvent]) {
        self.0.extend(noted.iter().filter_map(|event| match event {
            ServerEvent::Issued(issue) => Some(*issue),
            _ => None,
        }));
    }
}

/// Records traces of these benchmarks.
///
/// # Errors
/// The work was interrupted.
pub fn record(plan: &Plan, places: &[usize], workers: Workers) -> anyhow::Result<Traces> {
    let done = workers.map("recording traces", places, |place| trace(plan, BENCHMARKS[*place].1, workers.monitor))?;
    let quarter = quarter()?;
    let both = |(place, trace): (usize, Trace)| {
        let extents = trace.iter().map(|issue| scattered(*issue, quarter)).collect();
        [((place, Places::Together), trace), ((place, Places::Extents), extents)]
    };
    Ok(places.iter().copied().zip(done).flat_map(both).collect())
}

/// Sectors in a quarter of the array, in whole extents.
fn quarter() -> anyhow::Result<u64> {
    let capacity = array::array(array::STRIPE_UNIT_KIB)?.capacity_sectors();
    Ok(capacity / CLASSES as u64 / EXTENT * EXTENT)
}

/// Moves a request to its location under [`Places::Extents`].
fn scattered(issue: Issue, quarter: u64) -> Issue {
    let (class, place) = (issue.lba / quarter, issue.lba % quarter);
    let extent = place / EXTENT * APART % (quarter / EXTENT);
    let lba = class * quarter + extent * EXTENT + place % EXTENT;
    // A request in the last extent must not reach into the next quarter.
    Issue { lba: lba.min((class + 1) * quarter - u64::from(issue.sectors)), ..issue }
}

/// Records each class alone on the array, in order of arrival. Its data are moved to its own quarter of the array.
fn trace(plan: &Plan, name: &str, monitor: &dyn Monitor) -> anyhow::Result<Trace> {
    let (text, source) = shipped::find(name).with_context(|| format!("{name}: not a built-in workload"))?;
    let profile = array::array(array::STRIPE_UNIT_KIB)?;
    let quarter = quarter()?;
    let world = World { profile, device: DeviceOptions::default(), host: array::host(), roster: None };
    let load = JobsLoad::new(&plan.shortened(&text), &source, plan.seed, &world)?;
    let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
    let mut trace = Trace::new();
    for class in 0..CLASSES {
        let prefix = format!("class-{}", class + 1);
        let names = load.names().into_iter().filter(|name| *name == prefix || name.starts_with(&format!("{prefix}.")));
        let mut streams: Vec<u32> = names.flat_map(|name| load.streams_of(&name)).collect();
        streams.sort_unstable();
        streams.dedup();
        ensure!(!streams.is_empty(), "{source}: has no {prefix}");
        let mut recorder = Recorder::default();
        let queue = world.queue(world.scheduler(&Setting::parse("noop")?));
        let run = load.run_streams(&streams, queue, world.host, &watch, Some(&mut recorder));
        monitor.check()?;
        run?;
        let first = recorder.0.iter().map(|issue| issue.lba).min().unwrap_or_default();
        let last = recorder.0.iter().map(|issue| issue.lba + u64::from(issue.sectors)).max().unwrap_or_default();
        ensure!(last - first <= quarter, "{source}: {prefix} does not fit on a quarter of the array");
        let moved = |issue: Issue| Issue { lba: issue.lba - first + class as u64 * quarter, stream: class as u32, ..issue };
        trace.extend(recorder.0.into_iter().map(moved).flat_map(split));
    }
    trace.retain(|issue| issue.arrival <= plan.longest_trace());
    trace.sort_by_key(|issue| (issue.arrival, issue.stream));
    Ok(trace)
}

/// Splits requests that exceed the array's maximum size, as the host does.
fn split(issue: Issue) -> impl Iterator<Item = Issue> {
    let largest = array::LARGEST_KIB as u32 * 2;
    let pieces = issue.sectors.div_ceil(largest);
    (0..pieces).map(move |piece| {
        let done = piece * largest;
        Issue { lba: issue.lba + u64::from(done), sectors: largest.min(issue.sectors - done), ..issue }
    })
}

/// When the last request arrives.
pub fn last_arrival(trace: &Trace) -> Nanos {
    trace.last().map_or(Nanos::ZERO, |issue| issue.arrival)
}

/// A trace whose two heavier classes issue `percent` of the requests that their shares of an array with `service_ms` disk time per request can
/// serve: section IV requires at least 100. Excess requests are dropped.
pub fn with_demand(trace: &Trace, percent: u32, service_ms: f64) -> Trace {
    let lightest = FOUR.iter().copied().min().unwrap_or(1);
    let all_weights: u32 = FOUR.iter().sum();
    let part = |class: usize| {
        if FOUR[class] == lightest {
            return 1.0;
        }
        let recorded = trace.iter().filter(|issue| issue.stream == class as u32).count() as f64 / last_arrival(trace).as_secs_f64();
        let of_array = 1e3 * f64::from(array::DISKS) / service_ms;
        f64::from(percent) / 100.0 * of_array * f64::from(FOUR[class]) / f64::from(all_weights) / recorded
    };
    let parts: [f64; CLASSES] = std::array::from_fn(part);
    let mut seen = [0.0; CLASSES];
    let is_kept = |issue: &&Issue| {
        let class = issue.stream as usize;
        let before = seen[class];
        seen[class] += parts[class].min(1.0);
        f64::floor(seen[class]) > f64::floor(before)
    };
    trace.iter().filter(is_kept).copied().collect()
}

/// Replays a trace by its clock, independently of completions.
struct ByClock<'a> {
    issues: std::slice::Iter<'a, Issue>,
    issued: u64,
}

impl Source for ByClock<'_> {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok(self.issues.as_slice().first().map(|issue| issue.arrival))
    }

    fn take(&mut self, _now: Nanos) -> Result<Option<Issue>, RunError> {
        self.issued += 1;
        Ok(self.issues.next().map(|issue| Issue { token: self.issued, ..*issue }))
    }

    fn completed(&mut self, _finished: &Finished) {}
}

/// Replays a trace under a scheduler, with these weights of its classes.
///
/// # Errors
/// The work was interrupted.
pub fn replay(
    trace: &Trace,
    weights: &[u32; CLASSES],
    (stripe_unit_kib, device): (u32, DeviceOptions),
    scheduler: &Setting,
    monitor: &dyn Monitor,
) -> anyhow::Result<RunSummary> {
    let profile = array::array(stripe_unit_kib)?;
    let tenant = |(class, &weight): (usize, &u32)| Tenant::new(format!("class-{}", class + 1)).with_weight(weight);
    let streams: Vec<(u32, usize)> = (0..CLASSES).map(|class| (class as u32, class)).collect();
    let roster = Roster::new(weights.iter().enumerate().map(tenant).collect(), Vec::new(), &streams, profile.disks() as u32)?;
    let scheduler = (scheduler.spec.build)(&array::queue().limits(), &scheduler.values);
    let mut queue = Queue::new(scheduler, profile.build(device), array::queue());
    queue.set_roster(&roster);
    let measure = Measure::new([]).by_tenant(Some(&roster), Owner::Stream);
    let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
    let measure = sim::run::run(ByClock { issues: trace.iter(), issued: 0 }, &mut queue, measure, &watch, None);
    monitor.check()?;
    Ok(RunSummary::new(measure?, &queue))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;

    #[test]
    fn a_trace_has_every_class_alone_on_a_quarter_of_the_array() {
        let plan = Plan { is_quick: true, seed: 1 };
        let trace = trace(&plan, "fairio/ior3", &Quiet::default()).unwrap();
        let quarter = quarter().unwrap();
        assert!(trace.is_sorted_by_key(|issue| issue.arrival));
        assert!(trace.iter().all(|issue| issue.lba / quarter == u64::from(issue.stream) && issue.sectors <= 128));
        for class in 0..4 {
            let count = trace.iter().filter(|issue| issue.stream == class).count();
            // Alone, a class has the whole array: some 110 requests a second in 15 s.
            assert!(count > 1_000, "{class}: {count}");
        }
        // By the clock, requests arrive as recorded, although the array serves only a quarter of them in that time.
        let setting = Setting::parse("noop").unwrap();
        let moved: Trace = trace.iter().map(|issue| scattered(*issue, quarter)).collect();
        assert!(moved.iter().zip(&trace).all(|(moved, issue)| moved.lba / quarter == issue.lba / quarter));
        let extents = |trace: &Trace| trace.iter().map(|issue| issue.lba / EXTENT).collect::<std::collections::BTreeSet<_>>().len();
        assert_eq!(extents(&moved), extents(&trace), "each extent has a place of its own");
        let run = replay(&trace, &[1, 1, 2, 2], (array::STRIPE_UNIT_KIB, array::infinite()), &setting, &Quiet::default()).unwrap();
        assert!(run.measure.duration() > Nanos(2 * last_arrival(&trace).0), "{:?}", run.measure.duration());
        assert_eq!(run.tally.requests, trace.len() as u64);
        // At 70 ms the array serves 8,000 / 70 = 114 requests a second, a third of them of each heavier class: 38, and half of that is 19.
        let slower = with_demand(&trace, 50, 70.0);
        let rates: Vec<f64> = (0..4)
            .map(|class| slower.iter().filter(|issue| issue.stream == class).count() as f64 / last_arrival(&trace).as_secs_f64())
            .collect();
        assert!(rates[0] > 70.0 && (18.5..19.5).contains(&rates[2]) && (18.5..19.5).contains(&rates[3]), "{rates:?}");
    }
}
