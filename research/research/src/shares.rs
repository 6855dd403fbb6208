//! Shares by weight under `fairio` for random tenants on random devices: accuracy, and cost in throughput.
//!
//! ```text
//! drawn tenants on a drawn device ─┬─▶ together, without sharing (none) ─▶ disk time, bytes per disk time
//!                                  ├─▶ each alone ───────────────────────▶ the most disk time that it can use
//!                                  ├─▶ together under fairio ────────────▶ shares, throughput
//!                                  └─▶ the same, without disk times from the device
//! ```
//! All tenants are closed loops without think time. A tenant that gets less disk time alone than its share of the unshared total cannot use
//! its share: the remainder is due to the others by weight.

use std::fmt::Write as _;

use anyhow::Context as _;
use block::{Nanos, Tenant};
use control::Setting;
use progress::monitor::Monitor;
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::host::{QueueSettings, RunSummary};
use sim::profile::{DeviceOptions, Profile};
use statistics::Rank;
use testbed::chance::{happens, one_of, source};
use testbed::pool::Workers;
use testbed::synthetic::{Arrival, Pattern, Phase, Places};

use crate::devices;
use crate::stage::{Actor, Stage};
use crate::worlds::Which;

/// Sectors of requests: 4 KiB to 1 MiB.
static SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];
/// Seconds before measurement, in which caches fill and costs are learned.
const SETTLES_S: u64 = 4;
/// Seconds of measurement.
const MEASURED_S: u64 = 16;
/// Divisor of both times for flash, which serves many times as many requests as a disk and takes proportionally longer to simulate.
const FLASH_TIME: u64 = 4;
/// A tenant counts as able to use its share if it gets this multiple of it alone: it also waits for other tenants' requests at the device.
const USABLE: f64 = 1.0;

/// Parameters of the measurement.
#[derive(Clone, Copy, Debug)]
pub struct Shares {
    /// Number of random devices with tenants.
    pub draws: u32,
    /// Number of the first one.
    pub first: u32,
    /// Seed of all random numbers.
    pub seed: u64,
    /// The world whose families of devices are used, also in arrays.
    pub world: Which,
}

/// Results by draw.
#[derive(Clone, Debug)]
pub struct Report {
    draws: Vec<Draw>,
}

/// A random tenant and its results.
#[derive(Clone, Debug)]
struct Share {
    about: String,
    weight: u32,
    /// Disk time in seconds per second when it runs alone.
    alone: f64,
    /// Disk time per second and bytes per second without sharing.
    unshared: (f64, f64),
    /// The same under `fairio`.
    shared: (f64, f64),
    /// The same under `fairio` without disk times from the device.
    inferred: (f64, f64),
}

/// Selects a tenant's results in one of the runs: disk time and bytes per second.
type Got = fn(&Share) -> (f64, f64);

/// A random device with its tenants.
#[derive(Clone, Debug)]
struct Draw {
    number: u32,
    device: String,
    tenants: Vec<Share>,
}

/// Quality of a run.
#[derive(Clone, Copy, Debug)]
struct Quality {
    /// The largest deviation from a due share, in percentage points.
    error: f64,
    /// Bytes per second relative to those without sharing.
    throughput: f64,
    /// Bytes per second relative to the ideal: the tenants' shares of the unshared disk time at their unshared rates per disk time.
    of_ideal: f64,
}

impl Shares {
    /// Runs all draws.
    ///
    /// # Errors
    /// A device cannot be generated, or the work was interrupted.
    pub fn measure(&self, workers: Workers) -> anyhow::Result<Report> {
        let numbers: Vec<u32> = (self.first..self.first + self.draws).collect();
        let draw = |number: &u32| {
            let drawn = self.draw(*number, workers.monitor);
            drawn.with_context(|| format!("draw {number} of seed {}", self.seed))
        };
        Ok(Report { draws: workers.map("shares, draws:", &numbers, draw)? })
    }

    fn draw(&self, number: u32, monitor: &dyn Monitor) -> anyhow::Result<Draw> {
        let mut random = source("shares", self.seed, number);
        let profile = self.device(&mut random, number)?;
        let divisor = if profile.device().rotational() { 1 } else { FLASH_TIME };
        let span = [SETTLES_S, SETTLES_S + MEASURED_S].map(|seconds| Nanos::from_millis(1_000 * seconds / divisor));
        let (actors, about) = tenants(&mut random, &profile, span[1]);
        let (queue, device) = (QueueSettings::default(), DeviceOptions::default());
        let stage = Stage { profile, queue, device, actors, seed: self.seed };
        let run =
            |setting: &str| -> anyhow::Result<Vec<(f64, f64)>> { Ok(rates(&stage.run(&Setting::parse(setting)?, monitor)?, span)) };
        let (unshared, shared, inferred) = (run("none")?, run("fairio")?, run("fairio:disk_time=inferred")?);
        let none = Setting::parse("none")?;
        let share = |(tenant, about): (usize, String)| {
            let alone = rates(&stage.run_alone(tenant, (&stage.profile, device), &none, monitor)?, span)[0].0;
            let weight = stage.actors[tenant].tenant.weight;
            Ok(Share { about, weight, alone, unshared: unshared[tenant], shared: shared[tenant], inferred: inferred[tenant] })
        };
        let tenants = about.into_iter().enumerate().map(share).collect::<anyhow::Result<_>>()?;
        Ok(Draw { number, device: stage.profile.name().to_owned(), tenants })
    }

    fn device(&self, random: &mut Xoshiro256PlusPlus, number: u32) -> anyhow::Result<Profile> {
        let families: &[&str] = match self.world {
            Which::Learn => &["broad-disk", "broad-array", "broad-flash", "desktop"],
            _ => &["laptop", "sata-flash"],
        };
        let name = one_of(random, families);
        let family = devices::find(name).with_context(|| format!("{name}: unknown family of devices"))?;
        if happens(random, 0.5) { devices::draw_array(family, self.seed, number) } else { devices::draw(family, self.seed, number) }
    }
}

/// Two to four tenants with equal volumes, and a description of each.
fn tenants(random: &mut Xoshiro256PlusPlus, profile: &Profile, until: Nanos) -> (Vec<Actor>, Vec<String>) {
    let count = random.random_range(2..=4);
    let sectors = profile.capacity_sectors() / count / 2048 * 2048;
    let tenant = |number: u64| {
        let (size, depth, weight) =
            (random.random_range(0..SIZES.len()), one_of(random, &[1, 2, 4, 8, 16, 32, 64]), random.random_range(1..=8));
        let sizes = &SIZES[size..=size];
        let reads = one_of(random, &[100, 100, 100, 67, 0]);
        let (kind, locality) = one_of(random, &[("random", 0.0), ("mixed", 0.5), ("stream", 1.0)]);
        let pattern = Pattern::Local { locality, reads, sizes, places: Places::Uniform };
        let phases = vec![Phase { until, arrival: Arrival::Outstanding(depth), pattern }];
        let about = format!("{kind} {} KiB r{reads} d{depth} w{weight}", sizes[0] / 2);
        (Actor { tenant: Tenant::new(format!("{number}")).with_weight(weight), sectors, phases }, about)
    };
    (0..count).map(tenant).unzip()
}

/// Each tenant's disk time and bytes per second within a span.
fn rates(run: &RunSummary, [from, to]: [Nanos; 2]) -> Vec<(f64, f64)> {
    let (Some(ledger), Some(measured)) = (&run.ledger, run.measure.tenants.as_deref()) else { return Vec::new() };
    let seconds = (to - from).as_secs_f64();
    let tenants = measured.on_roster().iter().zip(ledger.disk_time());
    let rates = tenants.map(|(tenant, disk_time)| {
        let inside = |bin: usize, width: Nanos| (from..to).contains(&Nanos(bin as u64 * width.0));
        let time = disk_time.bins().iter().enumerate().filter(|(bin, _)| inside(*bin, disk_time.width()));
        let bytes = tenant.timeline.bins().iter().enumerate().filter(|(bin, _)| inside(*bin, tenant.timeline.width()));
        let time: u64 = time.map(|(_, time)| *time).sum();
        let bytes: u64 = bytes.map(|(_, served)| served.bytes).sum();
        (time as f64 / 1e9 / seconds, bytes as f64 / seconds)
    });
    rates.collect()
}

fn sum(of: impl Iterator<Item = f64>) -> f64 {
    of.sum()
}

impl Draw {
    /// Whether each tenant can use its share of this total disk time per second; time that others cannot use is distributed by weight.
    fn can_use(&self, total: f64) -> Vec<bool> {
        let mut can = vec![true; self.tenants.len()];
        loop {
            let limited = sum(self.tenants.iter().zip(&can).filter(|(_, can)| !**can).map(|(tenant, _)| tenant.alone));
            let weights = sum(self.tenants.iter().zip(&can).filter(|(_, can)| **can).map(|(tenant, _)| f64::from(tenant.weight)));
            let part = (total - limited).max(0.0) / weights;
            let next: Vec<bool> = self
                .tenants
                .iter()
                .zip(&can)
                .map(|(tenant, can)| *can && tenant.alone >= USABLE * part * f64::from(tenant.weight))
                .collect();
            if next == can || !next.contains(&true) {
                return can;
            }
            can = next;
        }
    }

    fn quality(&self, got: Got) -> (Quality, Vec<bool>) {
        let total = |of: &dyn Fn(&Share) -> f64| sum(self.tenants.iter().map(of));
        let time = total(&|tenant| got(tenant).0);
        let can = self.can_use(total(&|tenant| tenant.unshared.0));
        let of_able =
            |of: &dyn Fn(&Share) -> f64| sum(self.tenants.iter().zip(&can).filter(|(_, can)| **can).map(|(tenant, _)| of(tenant)));
        let (weights, able) = (of_able(&|tenant| f64::from(tenant.weight)), of_able(&|tenant| got(tenant).0));
        let errors = self.tenants.iter().zip(&can).filter(|(_, can)| **can);
        let errors = errors.map(|(tenant, _)| 100.0 * (got(tenant).0 - able * f64::from(tenant.weight) / weights).abs() / time);
        let unshared_time = total(&|tenant| tenant.unshared.0);
        let ideal = total(&|tenant| match tenant.unshared {
            (before, bytes) if before > 0.0 => unshared_time * got(tenant).0 / time * bytes / before,
            _ => got(tenant).1,
        });
        let bytes = total(&|tenant| got(tenant).1);
        let throughput = bytes / total(&|tenant| tenant.unshared.1);
        (Quality { error: errors.fold(0.0, f64::max), throughput, of_ideal: bytes / ideal }, can)
    }
}

impl Report {
    /// A line for each draw, and a summary.
    pub fn text(&self) -> String {
        let mut text = String::new();
        let mut qualities: [Vec<Quality>; 2] = Default::default();
        for draw in &self.draws {
            let kinds: [(&str, Got); 2] = [("fairio", |share| share.shared), ("inferred", |share| share.inferred)];
            let _ = writeln!(text, "{} {}", draw.number, draw.device);
            for ((name, got), qualities) in kinds.into_iter().zip(&mut qualities) {
                let (quality, can) = draw.quality(got);
                qualities.push(quality);
                let Quality { error, throughput, of_ideal } = quality;
                let _ = writeln!(
                    text,
                    "  {name}: error {error:.2} points, throughput {:.0}% of unshared, {:.0}% of the shares' ideal",
                    100.0 * throughput,
                    100.0 * of_ideal
                );
                let time = sum(draw.tenants.iter().map(|tenant| got(tenant).0));
                let weights = sum(draw.tenants.iter().map(|tenant| f64::from(tenant.weight)));
                for (tenant, can) in draw.tenants.iter().zip(can) {
                    let _ = writeln!(
                        text,
                        "    {:<32} due {:5.1}%{} got {:5.1}%; disk time {:6.3} s/s, unshared {:6.3}, alone {:6.3}; {:7.2} MB/s, unshared {:7.2}",
                        tenant.about,
                        100.0 * f64::from(tenant.weight) / weights,
                        if can { " " } else { "*" },
                        100.0 * got(tenant).0 / time,
                        got(tenant).0,
                        tenant.unshared.0,
                        tenant.alone,
                        got(tenant).1 / 1e6,
                        tenant.unshared.1 / 1e6,
                    );
                }
            }
        }
        for (name, qualities) in ["fairio", "inferred"].into_iter().zip(&qualities) {
            let _ = writeln!(text, "{name}: {}", summary(qualities));
        }
        text
    }
}

fn summary(qualities: &[Quality]) -> String {
    let count = |of: &dyn Fn(&Quality) -> bool| qualities.iter().filter(|quality| of(quality)).count();
    let sorted = |of: &dyn Fn(&Quality) -> f64| {
        let mut values: Vec<f64> = qualities.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        let at = |part: f64| Rank::Lower.of_sorted(&values, part).unwrap_or(f64::NAN);
        (at(0.1), at(0.5), at(0.9), at(1.0))
    };
    let (errors, throughput, ideal) = (sorted(&|q| q.error), sorted(&|q| 100.0 * q.throughput), sorted(&|q| 100.0 * q.of_ideal));
    format!(
        "{} of {} within a point, median {:.2}, p90 {:.2}, worst {:.2}; throughput median {:.0}% of unshared, p10 {:.0}%; median {:.0}% of the \
         shares' ideal, p10 {:.0}%; {} at least 95% of either",
        count(&|quality| quality.error <= 1.0),
        qualities.len(),
        errors.1,
        errors.2,
        errors.3,
        throughput.1,
        throughput.0,
        ideal.1,
        ideal.0,
        count(&|quality| quality.throughput.max(quality.of_ideal) >= 0.95),
    )
}
