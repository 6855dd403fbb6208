//! Classes' shares of disk time, and their deviations from the weights.

use anyhow::{Context, ensure};
use block::Nanos;
use guarantee::tenants::judge;
use sim::host::{Ledger, RunSummary};
use sim::run::{BIN, Served, TenantMeasure, Tenants, Timeline};

use statistics::Rank;

/// Window lengths for share errors; the shortest is the resolution of the queue's accounting.
pub const WINDOWS: [Nanos; 3] = [BIN, Nanos::from_millis(1_000), Nanos::from_millis(10_000)];

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Error of each class in percentage points: its share of the disk time minus its share of the weights (section II, `Error_i`). Measured until
    /// the last arrival if requests arrive by the clock, else until the first class is done.
    pub errors: Vec<f64>,
    /// The same, until the first class has completed almost all its requests.
    pub errors_until_done: Vec<f64>,
    /// The same over the times in which all classes had requests outstanding, so that share left by an idle class does not count; `None` if these
    /// times are too short.
    pub errors_together: Option<Vec<f64>>,
    /// Share of the time in which a class had requests outstanding, in percent: the minimum over all classes.
    pub wanting_percent: f64,
    /// Throughput of all classes in MB/s, until the last arrival if requests arrive by the clock, else over the whole run.
    pub throughput_mb_s: f64,
    /// Throughput over the whole run in MB/s, in which every scheduler serves the same requests.
    pub whole_mb_s: f64,
    /// Mean disk time per request of the array in ms, summed over the disks.
    pub service_ms: f64,
    /// The same by class, for requests of its processes.
    pub services_ms: Vec<f64>,
    /// Response times in ms: median, p99, p99.9 and maximum, each of the class for which it is largest.
    pub responses_ms: [f64; 4],
    /// For each of [`WINDOWS`]: the p99 over windows of the largest error of a class, in percentage points.
    pub window_errors: [Option<f64>; 3],
    /// Share of the time in which disks were idle although requests were queued, in percent.
    pub idle_percent: f64,
}

impl Outcome {
    /// The largest error of a class, in percentage points.
    pub fn error(&self) -> f64 {
        largest(&self.errors)
    }

    /// The largest error over the times in which all classes had requests outstanding.
    pub fn error_together(&self) -> Option<f64> {
        self.errors_together.as_deref().map(largest)
    }

    /// Results of a run of classes with these weights. `arrivals`: the last arrival, if requests arrive by the clock; measurement ends there, as
    /// `DiskSim` ends a run with its trace (`getnextevent` in disksim.c).
    ///
    /// # Errors
    /// The device does not account its time by tenant.
    pub fn of(run: &RunSummary, weights: &[u32], arrivals: Option<Nanos>) -> anyhow::Result<Outcome> {
        let measured = run.measure.tenants.as_deref().context("no measurement of tenants")?;
        let ledger = run.ledger.as_ref().context("no ledger of tenants")?;
        let work: Vec<Timeline<u64>> = ledger.disk_time()[..weights.len()].to_vec();
        let done = contested(measured);
        let end = arrivals.unwrap_or(done);
        let times_until = |end| work.iter().map(|work| until(work, end)).collect::<Vec<f64>>();
        let times = times_until(end);
        ensure!(times.iter().sum::<f64>() > 0.0, "the device does not account its time by tenant");
        let longest = |of: &dyn Fn(&sim::run::Responses) -> Nanos| {
            measured.on_roster().iter().map(|tenant| of(&tenant.responses).as_millis_f64()).fold(0.0, f64::max)
        };
        let measure = &run.measure;
        let served: Vec<Served> = measured.on_roster().iter().map(|tenant| served_until(tenant, end)).collect();
        let rate = |bytes: u64, time: Nanos| bytes as f64 / 1e6 / time.as_secs_f64();
        let whole_mb_s = rate(measure.read_bytes + measure.written_bytes, measure.duration());
        let all_work: u64 = work.iter().flat_map(Timeline::bins).sum();
        let mean_ms = |time: f64, requests: u64| time / 1e6 / requests.max(1) as f64;
        let together = judge::shares(measured, ledger, end);
        Ok(Outcome {
            errors: errors(&times, weights),
            errors_until_done: errors(&times_until(done), weights),
            errors_together: together.map(|shares| errors(&shares, weights)),
            wanting_percent: wanting(measured, end),
            throughput_mb_s: arrivals.map_or(whole_mb_s, |end| rate(served.iter().map(|served| served.bytes).sum(), end)),
            whole_mb_s,
            service_ms: mean_ms(all_work as f64, run.tally.requests),
            services_ms: times.iter().zip(&served).map(|(time, served)| mean_ms(*time, served.requests)).collect(),
            responses_ms: [
                longest(&|responses| responses.quantile(0.5)),
                longest(&|responses| responses.quantile(0.99)),
                longest(&|responses| responses.quantile(0.999)),
                longest(&|responses| responses.max()),
            ],
            window_errors: WINDOWS.map(|window| window_error(&work, weights, end, window)),
            idle_percent: 100.0 * idle(ledger) / measure.duration().as_secs_f64(),
        })
    }
}

fn largest(errors: &[f64]) -> f64 {
    errors.iter().fold(0.0, |worst, error| error.abs().max(worst))
}

fn idle(ledger: &Ledger) -> f64 {
    ledger.idle_while_waiting().as_secs_f64()
}

/// Fraction of a class's requests after which it counts as done: a disk with an SSTF queue may delay the last ones as long as there are nearer
/// ones, and a class that waits for a single request does not compete.
const DONE: f64 = 0.98;

/// When the first class was done: the end of contention.
fn contested(measured: &Tenants) -> Nanos {
    let done = |tenant: &TenantMeasure| {
        let enough = DONE * tenant.served.requests as f64;
        let mut sum = 0;
        let is_enough = |served: &Served| {
            sum += served.requests;
            sum as f64 >= enough
        };
        let bin = tenant.timeline.bins().iter().position(is_enough).unwrap_or(0);
        Nanos(bin as u64 * tenant.timeline.width().0)
    };
    measured.on_roster().iter().map(done).min().unwrap_or_default()
}

/// Service that a class received in the bins that end by `end`.
fn served_until(tenant: &TenantMeasure, end: Nanos) -> Served {
    let bins = tenant.timeline.bins().iter().take((end.0 / tenant.timeline.width().0) as usize);
    bins.fold(Served::default(), |sum, bin| Served { requests: sum.requests + bin.requests, bytes: sum.bytes + bin.bytes, ..sum })
}

/// The sum of the bins that end by `end`.
fn until(line: &Timeline<u64>, end: Nanos) -> f64 {
    line.bins().iter().take((end.0 / line.width().0) as usize).sum::<u64>() as f64
}

fn errors(times: &[f64], weights: &[u32]) -> Vec<f64> {
    let (all, weight) = (times.iter().sum::<f64>(), f64::from(weights.iter().sum::<u32>()));
    times.iter().zip(weights).map(|(time, &own)| 100.0 * (time / all - f64::from(own) / weight)).collect()
}

fn wanting(measured: &Tenants, end: Nanos) -> f64 {
    let part = |wanting: &Timeline<u64>| 100.0 * until(wanting, end) / end.0.max(1) as f64;
    measured.on_roster().iter().map(|tenant| part(&tenant.wanting)).fold(100.0, f64::min)
}

fn window_error(work: &[Timeline<u64>], weights: &[u32], end: Nanos, window: Nanos) -> Option<f64> {
    let width = work.iter().map(Timeline::width).max()?;
    let bins = (window.0 / width.0) as usize;
    let whole = (end.0 / width.0) as usize;
    let mut worst: Vec<f64> = (0..whole)
        .step_by(bins.max(1))
        .filter(|begin| bins > 0 && begin + bins <= whole)
        .map(|begin| {
            let of = |work: &Timeline<u64>| work.bins().iter().skip(begin).take(bins).sum::<u64>() as f64;
            let times: Vec<f64> = work.iter().map(of).collect();
            if times.iter().sum::<f64>() > 0.0 { largest(&errors(&times, weights)) } else { 0.0 }
        })
        .collect();
    Rank::Inverse.of(&mut worst, 0.99)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_part_that_a_class_got_less_the_part_that_it_should() {
        let errors = errors(&[40.0, 60.0], &[1, 2]);
        assert!((errors[0] - 6.667).abs() < 1e-3 && (errors[1] + 6.667).abs() < 1e-3, "{errors:?}");
    }

    #[test]
    fn windows_are_judged_one_by_one() {
        let mut work = [Timeline::new(Nanos::from_millis(100)), Timeline::new(Nanos::from_millis(100))];
        for second in 0..10 {
            // The classes have the disk alternately.
            work[second % 2].add(Nanos::from_millis(1_000 * second as u64 + 50), 1);
        }
        let error = |window| window_error(&work, &[1, 1], Nanos::from_millis(10_000), Nanos::from_millis(window));
        assert_eq!((error(1_000), error(10_000), error(20_000)), (Some(50.0), Some(0.0), None));
    }
}
