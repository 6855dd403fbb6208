//! Measures the coefficients of the kernel's `io.cost` for a device by minutes of probing, each with its error.
//!
//! ```text
//!                          reads of the device, reads and writes of a scratch file
//! learn ──Probe──▶ Prober ─▶ Sample ─┬─ rates of six patterns, in rounds ─▶ io.cost.model
//!        real or simulated           ├─ rates and latencies by depth ─────▶ rlat, wlat of io.cost.qos
//!                                    └─ mixed loads by the model's cost ──▶ min of io.cost.qos
//! ```
//! Semantics of the figures: Linux 6.18 `Documentation/admin-guide/cgroup-v2.rst`, `block/blk-iocost.c` (`calc_lcoefs`,
//! `calc_vtime_cost_builtin`, `ioc_lat_stat`).

mod lines;
pub mod probe;
pub mod recorded;
pub mod simulated;

use block::{Nanos, Op};
use progress::Monitor;
use serde::Serialize;

pub use lines::{hwdb, model, qos};
pub use probe::{Asked, Order, Place, Places, Probe, Prober, Requests, Sample};

/// Samples per pattern. Rounds over all patterns follow each other, so that drift of the device, and places of different speed, show in the
/// error.
pub const ROUNDS: usize = 5;
/// Requests outstanding while rates are measured, as in the kernel's `tools/cgroup/iocost_coef_gen.py`.
const DEPTH: u32 = 64;
/// Requests outstanding for large sequential transfers: more only fill the queue.
const LARGE_DEPTH: u32 = 8;
/// 4 KiB, the page size of the model.
const SMALL: u32 = 8;
/// 512 KiB: about the size into which the kernel splits larger ones (`max_sectors_kb`).
const LARGE: u32 = 1_024;
/// Queue depths among which the latency target is found.
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];
/// The latency target is measured at the lowest depth that reaches this part of the highest throughput.
pub const KNEE: f64 = 0.95;
/// Percentage of requests that should meet the latency target, which is that percentile of latencies.
pub const PERCENT: f64 = 95.0;
/// Mixed loads that determine the lowest rate of the model: percentage of reads, and sectors of each request.
const MIXED: [(u32, u32); 4] = [(50, 8), (100, 128), (0, 128), (50, 512)];
/// The highest rate of the model in percent. Above 100, the kernel lets through all that the device takes, and weights have no effect: with
/// 213% a reader with three times the weight of a sequential neighbour got 0.53 of an emulated cloud volume, with 100% it got 0.73.
const HIGHEST_RATE: f64 = 100.0;
/// The error of a mixed load lowers the rate by at most this part.
const MOST_ERROR: f64 = 0.5;

/// The six figures of the model, in the kernel's order and with its names.
pub const NAMES: [&str; 6] = ["rbps", "rseqiops", "rrandiops", "wbps", "wseqiops", "wrandiops"];

/// A figure with its error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Figure {
    /// In bytes or requests per second, microseconds, or a share.
    pub value: f64,
    /// Half of the 95% interval, in percent of the value; `None` if it was assumed, not measured.
    pub error_percent: Option<f64>,
}

impl Figure {
    fn of(values: &[f64]) -> Figure {
        let (value, half) = statistics::sample::mean_and_margin(values).unwrap_or((f64::NAN, f64::NAN));
        Figure { value, error_percent: Some(100.0 * half / value) }
    }

    /// The error as a part of the value; 1 if it was not measured.
    fn error(&self) -> f64 {
        self.error_percent.unwrap_or(100.0) / 100.0
    }
}

/// The rate of a mixed load in units of model time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Mixed {
    /// Percentage of reads.
    pub read_percent: u32,
    /// Size of each request.
    pub kib: u32,
    /// Model time per second: 1 if the model is exact for this load.
    pub rate: Figure,
}

/// The parameters of `io.cost.qos`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Qos {
    /// Percentage of reads that should take at most `rlat_us`.
    pub rpct: f64,
    /// Latency target of reads in microseconds.
    pub rlat_us: Figure,
    /// Percentage of writes that should take at most `wlat_us`.
    pub wpct: f64,
    /// Latency target of writes in microseconds.
    pub wlat_us: Figure,
    /// Lowest rate of the model in percent.
    pub min: f64,
    /// Highest rate of the model in percent.
    pub max: f64,
}

/// The coefficients of a device.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Learned {
    /// In the order of [`NAMES`].
    pub model: [Figure; 6],
    /// Latency targets and limits of the model's rate.
    pub qos: Qos,
    /// Numbers of outstanding random reads, and writes, beyond which throughput does not grow.
    pub knees: [u32; 2],
    /// Rates of mixed loads in model time.
    pub mixed: Vec<Mixed>,
}

fn pattern(op: Op, order: Order, sectors: u32, depth: u32, place: Place) -> Probe {
    let read_percent = if op == Op::Read { 100 } else { 0 };
    Probe { read_percent, order, sectors, depth, place }
}

/// The patterns to measure for one direction: large sequential, small sequential and small random requests.
pub fn patterns(op: Op, place: Place) -> [Probe; 3] {
    [
        pattern(op, Order::Sequential, LARGE, LARGE_DEPTH, place),
        pattern(op, Order::Sequential, SMALL, DEPTH, place),
        pattern(op, Order::Random, SMALL, DEPTH, place),
    ]
}

/// Converts a request rate to the model's unit: bytes per second for large requests, else requests per second.
pub fn coefficient(probe: &Probe, requests_per_s: f64) -> f64 {
    if probe.sectors == LARGE { requests_per_s * f64::from(LARGE) * 512.0 } else { requests_per_s }
}

/// A probe, the number of requests in each of its samples, and the samples.
struct Series {
    probe: Probe,
    requests: u64,
    samples: Vec<Sample>,
}

impl Series {
    /// Determines the number of requests that take `lasts`: doubles it, or more, until they take a quarter of that.
    fn new(probe: Probe, lasts: Nanos, prober: &mut dyn Prober) -> anyhow::Result<Series> {
        let mut requests = u64::from(probe.depth);
        loop {
            let elapsed = prober.run(&probe, requests, 0)?.elapsed;
            if elapsed.0 >= lasts.0 / 4 {
                let requests = (requests as f64 * lasts.0 as f64 / elapsed.0 as f64) as u64;
                return Ok(Series { probe, requests: requests.max(probe.depth.into()), samples: Vec::new() });
            }
            // If this run was slow (the queue was filled first), a linear estimate may be far too high.
            let missing = lasts.0 as f64 / 2.0 / elapsed.0.max(1) as f64;
            requests = (requests as f64 * missing.clamp(2.0, 8.0)) as u64;
        }
    }

    fn measure(&mut self, round: usize, prober: &mut dyn Prober) -> anyhow::Result<()> {
        self.samples.push(prober.run(&self.probe, self.requests, round)?);
        Ok(())
    }

    fn figure(&self, of: impl Fn(&Sample) -> f64) -> Figure {
        Figure::of(&self.samples.iter().map(of).collect::<Vec<_>>())
    }

    /// Requests per second.
    fn rate(&self) -> Figure {
        self.figure(Sample::rate)
    }

    /// The rate as a coefficient of the model.
    fn coefficient(&self) -> Figure {
        let rate = self.rate();
        Figure { value: coefficient(&self.probe, rate.value), ..rate }
    }
}

/// Model time of a request in seconds.
fn cost(model: &[Figure; 6], op: Op, random: bool, sectors: u32) -> f64 {
    let [bps, sequential, scattered] = [0, 1, 2].map(|index| model[index + if op.is_write() { 3 } else { 0 }].value);
    let page = 4_096.0 / bps;
    let operation = (1.0 / if random { scattered } else { sequential } - page).max(0.0);
    operation + page * f64::from(sectors / SMALL)
}

/// Measures probes in rounds, each sample for about `lasts`; calls `step` after each.
fn in_rounds(
    probes: &[Probe],
    lasts: Nanos,
    prober: &mut dyn Prober,
    step: &mut dyn FnMut() -> anyhow::Result<()>,
) -> anyhow::Result<Vec<Series>> {
    let mut all = Vec::new();
    for probe in probes {
        all.push(Series::new(*probe, lasts, prober)?);
        step()?;
    }
    for round in 0..ROUNDS {
        for series in &mut all {
            series.measure(round, prober)?;
            step()?;
        }
    }
    Ok(all)
}

/// Measures a device: about [`ROUNDS`] times 20 samples of this length, after a calibration of about a fifth of that time.
///
/// # Errors
/// The device cannot be probed, or it was interrupted.
pub fn learn(prober: &mut dyn Prober, sample: Nanos, monitor: &dyn Monitor) -> anyhow::Result<Learned> {
    let of_model = [patterns(Op::Read, Place::Device), patterns(Op::Read, Place::File), patterns(Op::Write, Place::File)];
    let mixed = MIXED.map(|(read_percent, sectors)| Probe {
        read_percent,
        order: Order::Random,
        sectors,
        depth: DEPTH,
        place: Place::File,
    });
    let probes = [of_model.as_flattened(), &mixed].concat();
    monitor.begin(((probes.len() + 2 * DEPTHS.len()) * (1 + ROUNDS)) as u64, "probing");
    let mut done = 0;
    let mut step = || {
        done += 1;
        monitor.progress(done);
        Ok(monitor.check()?)
    };
    let rates = in_rounds(&probes, sample, prober, &mut step)?;
    let figures = |from: usize| [0, 1, 2].map(|index| rates[from + index].coefficient());
    let (device, file, writes) = (figures(0), figures(3), figures(6));
    let of_file: [Figure; 6] = [file, writes].as_flattened().try_into().unwrap_or_default();
    // If random requests within the file are faster, the distance between requests matters, as on disks that turn. If they are not, parts
    // of the device may hold no data (trimmed, thinly provisioned) and are read without access to a medium.
    let is_positioned = device[2].value < file[2].value * (1.0 - device[2].error().hypot(file[2].error()));
    let (place, model) = if is_positioned {
        let scaled = [0, 1, 2].map(|index| scaled(writes[index], file[index], device[index]));
        (Place::Device, [device, scaled].as_flattened().try_into().unwrap_or_default())
    } else {
        (Place::File, of_file)
    };
    let by_depth = [(Op::Read, place), (Op::Write, Place::File)]
        .map(|(op, place)| DEPTHS.map(|depth| pattern(op, Order::Random, SMALL, depth, place)));
    let depths = in_rounds(by_depth.as_flattened(), Nanos(sample.0 / 2), prober, &mut step)?;
    monitor.end();
    let (reads, writes) = depths.split_at(DEPTHS.len());
    let mixed: Vec<Mixed> = rates[of_model.as_flattened().len()..].iter().map(|series| of_mixed(&of_file, series)).collect();
    let ((read_depth, rlat_us), (write_depth, wlat_us)) = (knee(reads), knee(writes));
    let qos = Qos { rpct: PERCENT, rlat_us, wpct: PERCENT, wlat_us, min: lowest_rate(&mixed), max: HIGHEST_RATE };
    Ok(Learned { model, qos, knees: [read_depth, write_depth], mixed })
}

/// The lowest rate of the model in percent at which a mixed load was served, less its error; from 1 to 100.
fn lowest_rate(mixed: &[Mixed]) -> f64 {
    let lowest = mixed.iter().map(|mixed| mixed.rate.value * (1.0 - mixed.rate.error().min(MOST_ERROR))).fold(1.0, f64::min);
    // The kernel accepts hundredths, and at least 1% (`VRATE_MIN_PPM`).
    (lowest * 1e4).round().max(100.0) / 100.0
}

/// Estimates the rate of writes on the whole device: scales that in the file by the ratio for reads.
fn scaled(writes: Figure, reads_of_file: Figure, reads_of_device: Figure) -> Figure {
    let error = reads_of_device.error().hypot(reads_of_file.error());
    let value = writes.value * reads_of_device.value / reads_of_file.value;
    Figure { value, error_percent: Some(100.0 * writes.error().hypot(error)) }
}

fn of_mixed(model: &[Figure; 6], series: &Series) -> Mixed {
    let Probe { read_percent, sectors, .. } = series.probe;
    let costs = [(Op::Read, read_percent), (Op::Write, 100 - read_percent)];
    let mean: f64 = costs.iter().map(|&(op, percent)| cost(model, op, true, sectors) * f64::from(percent) / 100.0).sum();
    let rate = series.rate();
    Mixed { read_percent, kib: sectors / 2, rate: Figure { value: rate.value * mean, ..rate } }
}

/// The lowest depth beyond which throughput does not grow, and the [`PERCENT`] percentile of latencies there in microseconds.
fn knee(by_depth: &[Series]) -> (u32, Figure) {
    let highest = by_depth.iter().map(|series| series.rate().value).fold(0.0, f64::max);
    let found = by_depth.iter().find(|series| series.rate().value >= KNEE * highest);
    found.map_or((1, Figure::default()), |series| (series.probe.depth, series.figure(|sample| sample.latency_us(PERCENT / 100.0))))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use progress::monitor::Quiet;

    use super::*;
    use testbed::world::Device;

    /// Serves at fixed rates: 1,000 random requests, 10,000 sequential ones or 100 MB per second at any depth; outside of its file only a
    /// part of the random ones.
    struct Fixed {
        probes: Vec<Probe>,
        outside: f64,
    }

    impl Prober for Fixed {
        fn run(&mut self, probe: &Probe, requests: u64, _round: usize) -> anyhow::Result<Sample> {
            self.probes.push(*probe);
            let each = match (probe.order, probe.place) {
                (Order::Random, Place::Device) => 1e-3 / self.outside,
                (Order::Random, Place::File) => 1e-3,
                (Order::Sequential, _) => 1e-4,
            };
            let each = each + f64::from(probe.sectors - SMALL) * 512.0 / 1e8;
            let elapsed = Nanos::from_secs_f64(each * requests as f64);
            let latency = Nanos::from_secs_f64(each * f64::from(probe.depth));
            Ok(Sample { elapsed, done: requests, latencies: vec![latency; 100] })
        }
    }

    #[test]
    fn coefficients_are_the_rates_and_writes_are_scaled_to_the_whole_device() {
        let mut fixed = Fixed { probes: Vec::new(), outside: 0.5 };
        let learned = learn(&mut fixed, Nanos::from_secs_f64(1.0), &Quiet::default()).unwrap();
        let near = |index: usize, value: f64| {
            let figure = learned.model[index];
            assert!((figure.value / value - 1.0).abs() < 0.01, "{}: {figure:?}, not {value}", NAMES[index]);
            assert!(figure.error_percent.unwrap() < 0.1, "{figure:?}");
        };
        let large = 524_288.0 / (1e-4 + 1016.0 * 512.0 / 1e8);
        [large, 10_000.0, 500.0, large, 10_000.0, 500.0].into_iter().enumerate().for_each(|(index, value)| near(index, value));
        // Throughput does not depend on the depth: the target is the latency of a single request.
        assert_eq!(learned.knees, [1, 1]);
        assert!((learned.qos.rlat_us.value - 2_000.0).abs() < 1.0, "{learned:?}");
        // The device is linear, so every load has the rate 1.
        assert!((98.0..=100.0).contains(&learned.qos.min) && learned.qos.max == 100.0, "{learned:?}");
        assert_eq!(
            fixed.probes.iter().filter(|probe| probe.read_percent < 100 && probe.place == Place::Device).count(),
            0,
            "no write"
        );
    }

    #[test]
    fn a_device_that_is_faster_outside_of_the_file_has_the_figures_of_the_file() {
        let mut fixed = Fixed { probes: Vec::new(), outside: 3.0 };
        let learned = learn(&mut fixed, Nanos::from_secs_f64(1.0), &Quiet::default()).unwrap();
        assert!([2, 5].iter().all(|&index| (learned.model[index].value - 1_000.0).abs() < 1.0), "{learned:?}");
    }

    #[test]
    fn errors_grow_with_the_spread_of_the_rounds() {
        assert_eq!(Figure::of(&[5.0; 5]).error_percent, Some(0.0));
        let wide = Figure::of(&[90.0, 95.0, 100.0, 105.0, 110.0]);
        assert!((wide.value - 100.0).abs() < 1e-9 && (wide.error_percent.unwrap() - 9.81).abs() < 0.01, "{wide:?}");
    }

    #[test]
    fn a_simulated_disk_is_learned_the_same_in_every_run() {
        let world = Device::parse("sata7200").unwrap().world().unwrap();
        let learned = || {
            let mut prober = simulated::Simulated::new(&world, 1 << 21, 7);
            learn(&mut prober, Nanos::from_millis(500), &Quiet::default()).unwrap()
        };
        let first = learned();
        assert_eq!(first, learned());
        let [rbps, rseqiops, rrandiops, ..] = first.model.map(|figure| figure.value);
        assert!((5e7..4e8).contains(&rbps) && rseqiops > 5_000.0 && (80.0..600.0).contains(&rrandiops), "{first:?}");
        assert!(first.qos.rlat_us.value > 10_000.0, "{first:?}");
    }
}
