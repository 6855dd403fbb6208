//! Figures 6, 8 and 9, and additional checks of them.

use crate::report::paper::{Cell, Curves, Figure, Line, Panel, Plot, Quantity, Row, Table, Unit};
use block::Nanos;
use guarantee::tenants::{ServiceComparison, WINDOWS};
use sim::run::TenantMeasure;

use super::runs::{Alone, OURS, PRINTED, Runs, UNDERS, VARIATIONS, VIRTUAL_CLOCK, VIRTUAL_CLOCK_IOPS, rate};
use super::scenes::{DEPTHS, HOSTS, LOCALITIES, Lengths, REAL_VARIED, Scene};
use super::{PARTS, title};
use crate::paper::stated::Measures;

/// Bin width of figures over time.
const BIN: Nanos = Nanos::from_millis(1_000);

/// Minimum throughput of a volume, in percent of its reference disk's.
pub const THROUGHPUT_PERCENT: f64 = 97.0;
/// Maximum share of one-second windows in violation, in percent.
pub const VIOLATED_PERCENT: f64 = 1.0;
/// Maximum p99 response time, in percent of the reference disk's.
pub const P99_PERCENT: f64 = 110.0;

/// Results from which figures are drawn.
pub struct Results<'a> {
    /// Results of the runs.
    pub runs: &'a Runs,
    /// Durations.
    pub lengths: Lengths,
}

/// Performance of a volume under a scheduler, relative to its reference disk.
pub struct Kept {
    /// Throughput in percent of the reference disk's.
    pub throughput_percent: f64,
    /// The p99 response time in percent of the reference disk's.
    pub p99_percent: f64,
    /// Share of windows in violation in percent, for each of [`WINDOWS`].
    pub violated_percent: [f64; 3],
    /// The lowest throughput in a window in percent of the reference, for each of [`WINDOWS`].
    pub worst_percent: [Option<f64>; 3],
    /// The longest time after a pause until the volume was served at the reference's rate again.
    pub recovery_ms: Option<f64>,
}

impl Kept {
    fn new(here: &TenantMeasure, there: &TenantMeasure) -> Kept {
        let comparison = ServiceComparison::new(here, there);
        let windows = WINDOWS.map(|length| comparison.windows(length));
        let p99 = |volume: &TenantMeasure| volume.p99().as_secs_f64();
        Kept {
            throughput_percent: 100.0 * comparison.throughput_ratio(),
            p99_percent: 100.0 * p99(here) / p99(there).max(1e-9),
            violated_percent: windows.map(|it| 100.0 * it.violated as f64 / it.windows.max(1) as f64),
            worst_percent: windows.map(|it| it.worst.map(|worst| 100.0 * worst)),
            recovery_ms: comparison.recovery().longest.map(Nanos::as_millis_f64),
        }
    }
}

impl Results<'_> {
    /// Performance of every volume of a scene under a scheduler; `None` if not run.
    pub fn kept(&self, scene: Scene, under: usize) -> Option<Vec<Kept>> {
        let (alone, shared) = (self.runs.alone(scene)?, self.runs.shared(scene, under)?);
        Some(shared.volumes.iter().zip(&alone.volumes).map(|(here, there)| Kept::new(here, there)).collect())
    }

    /// The hosts for which figure 6 was run, each with [`Alone::needs`].
    pub fn hosts(&self) -> Vec<(usize, f64)> {
        let needs = |host| Some((host, self.runs.alone(Scene::Localities(host))?.needs));
        (0..HOSTS.len()).filter_map(needs).collect()
    }

    /// The largest throughput loss of a volume when the other one changed, in percent.
    pub fn loss_percent(&self, scene: Scene, under: usize, volume: usize) -> Option<f64> {
        let rates = self.rates_of_parts(&self.runs.shared(scene, under)?.volumes[volume]);
        let least = rates[1].min(rates[2]);
        Some(100.0 * (1.0 - least / rates[0]))
    }

    /// Requests per second in each of the three parts of figures 8 and 9 and after them, excluding the first second of each.
    pub fn rates_of_parts(&self, volume: &TenantMeasure) -> [f64; 4] {
        let parts = self.lengths.parts_s();
        let begins = [0.0, parts[0], parts[1], parts[2]];
        let width = volume.timeline.width().as_secs_f64();
        [0, 1, 2, 3].map(|part| {
            let (from, to) = (((begins[part] + 1.0) / width).ceil() as usize, (parts[part] / width) as usize);
            let bins = volume.timeline.bins().iter().take(to).skip(from);
            bins.map(|served| served.requests).sum::<u64>() as f64 / (width * to.saturating_sub(from).max(1) as f64)
        })
    }

    /// Coefficient of variation (standard deviation / mean) of the throughput per second, averaged over all volumes.
    fn variation(&self, scene: Scene, under: usize) -> Option<f64> {
        let volumes = &self.runs.shared(scene, under)?.volumes;
        Some(volumes.iter().map(|volume| variation(&seconds(volume))).sum::<f64>() / volumes.len() as f64)
    }

    /// Throughput of every volume of a scene in these parts, alone and together.
    fn parts(&self, scene: Scene, under: usize) -> Option<Vec<Parts>> {
        let (alone, shared) = (self.runs.alone(scene)?, self.runs.shared(scene, under)?);
        let both = alone.volumes.iter().zip(&shared.volumes);
        Some(both.map(|(alone, shared)| [alone, shared].map(|volume| self.rates_of_parts(volume))).collect())
    }
}

/// Figure 6: throughput by locality, alone and together.
pub fn figure_6(results: &Results) -> Option<Figure> {
    let panels: Vec<Panel> = results.hosts().into_iter().map(|(host, needs)| throughputs(results, host, needs)).collect();
    let mut series = vec!["reference disk".to_owned()];
    series.extend(UNDERS[..VARIATIONS].iter().map(|under| under.name.to_owned()));
    let figure = Figure {
        title: title("fig-6").to_owned(),
        method: "Five volumes of 3.5 GiB, each promised two slow disks, ask for 4 KiB with 32 outstanding; the reference disks serve each \
                 alone, in C-LOOK order. (a) of the paper is the first bar, (b) the second, (c) the third. virtual-clock is promised 100 \
                 requests a second for each, as there; mclock the rate of each volume on its reference disk, which has to be known \
                 before; the others are promised nothing."
            .to_owned(),
        unit: Unit::RequestsPerSecond,
        series,
        groups: LOCALITIES.iter().map(|percent| format!("{percent}%")).collect(),
        panels,
        ..Figure::new("fig-6")
    };
    (!figure.panels.is_empty()).then_some(figure)
}

fn throughputs(results: &Results, host: usize, needs: f64) -> Panel {
    let scene = Scene::Localities(host);
    let value = |volume: usize| {
        let alone = results.runs.alone(scene).map(|alone| rate(&alone.volumes[volume]));
        let under = |under| results.runs.shared(scene, under).map(|shared| rate(&shared.volumes[volume]));
        std::iter::once(alone).chain((0..VARIATIONS).map(under)).collect()
    };
    let name = format!("{}: {}, which needs {:.0}% of its time for the guarantees", HOSTS[host].0, HOSTS[host].1, 100.0 * needs);
    Panel { name, values: (0..LOCALITIES.len()).map(value).collect() }
}

/// Each volume of figure 6 under youchoose, relative to its reference disk.
pub fn promises(results: &Results) -> Option<Table> {
    let mut rows = Vec::new();
    for (host, _) in results.hosts() {
        let kept = results.kept(Scene::Localities(host), OURS)?;
        let shared = results.runs.shared(Scene::Localities(host), OURS)?;
        for ((kept, volume), locality) in kept.iter().zip(&shared.volumes).zip(LOCALITIES) {
            rows.push(Row { name: format!("{}, {locality}%", HOSTS[host].0), cells: of_volume(kept, volume) });
        }
    }
    for (scene, name) in [(Scene::Change, "figure 8"), (Scene::Real, "figure 9")] {
        let Some((kept, shared)) = results.kept(scene, OURS).zip(results.runs.shared(scene, OURS)) else { continue };
        for (number, (kept, volume)) in kept.iter().zip(&shared.volumes).enumerate() {
            rows.push(Row { name: format!("{name}, workload {}", number + 1), cells: of_volume(kept, volume) });
        }
    }
    let names = [
        "throughput, % of reference",
        "100 ms windows violated, %",
        "1 s",
        "10 s",
        "worst 100 ms, % of reference",
        "worst 1 s",
        "worst 10 s",
        "p99, % of reference",
        "p50, ms",
        "p99",
        "p99.9",
        "max",
        "recovery, ms",
    ];
    let method = "A window is in violation if less than 95% of what the reference disk does from the same place of the load on was done in \
                  it. Recovery: the longest that it took after a silence until a second was none.";
    (!rows.is_empty()).then(|| Table {
        columns: names.iter().map(|name| Table::column(name, false)).collect(),
        rows,
        ..table("promises", "volume", method)
    })
}

fn of_volume(kept: &Kept, volume: &TenantMeasure) -> Vec<Cell> {
    let bound = |value: f64, met: bool| Cell { ours: Some(value), met: Some(met), ..Cell::default() };
    let mut cells = vec![bound(kept.throughput_percent, kept.throughput_percent >= THROUGHPUT_PERCENT)];
    cells.push(Cell::ours(Some(kept.violated_percent[0])));
    cells.push(bound(kept.violated_percent[1], kept.violated_percent[1] <= VIOLATED_PERCENT));
    cells.push(Cell::ours(Some(kept.violated_percent[2])));
    cells.extend(kept.worst_percent.iter().map(|&worst| Cell::ours(worst)));
    cells.push(bound(kept.p99_percent, kept.p99_percent <= P99_PERCENT));
    let responses = [0.5, 0.99, 0.999].map(|quantile| volume.responses.quantile(quantile)).into_iter();
    cells.extend(responses.chain([volume.responses.max()]).map(|response| Cell::ours(Some(response.as_millis_f64()))));
    cells.push(Cell::ours(kept.recovery_ms));
    cells
}

/// The worst volume under every scheduler, for figure 6 on the paper's host.
pub fn peers(results: &Results) -> Option<Table> {
    let scene = Scene::Localities(0);
    let row = |(under, of): (usize, &super::runs::Under)| {
        let (kept, shared) = (results.kept(scene, under)?, results.runs.shared(scene, under)?);
        let least = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: &dyn Fn(&Kept) -> f64| kept.iter().map(of).fold(0.0, f64::max);
        let cells = [
            least(&|kept| kept.throughput_percent),
            most(&|kept| kept.throughput_percent),
            most(&|kept| kept.violated_percent[1]),
            most(&|kept| kept.p99_percent),
            shared.volumes.iter().map(rate).sum(),
            shared.idle_percent,
            results.loss_percent(Scene::Change, under, 1).unwrap_or(f64::NAN),
        ];
        let cells = cells.map(|value| Cell::ours(Some(value).filter(|value| value.is_finite()))).to_vec();
        Some(Row { name: of.name.to_owned(), cells })
    };
    let rows: Vec<Row> = UNDERS[..VARIATIONS].iter().enumerate().filter_map(row).collect();
    let names = [
        "least throughput, % of reference",
        "most",
        "1 s windows violated, %",
        "p99, % of reference",
        "all volumes, requests/s",
        "idle while requests wait, %",
        "figure 8: loss of workload 2, %",
    ];
    let method = "Figure 6 on the paper’s host: of each scheduler the volume that it serves worst, but for “most” and the sum of all. Only \
                  youchoose was told the disks; mclock was told what the volumes do on them.";
    (!rows.is_empty()).then(|| Table {
        columns: names.iter().map(|name| Table::column(name, false)).collect(),
        rows,
        ..table("peers", "scheduler", method)
    })
}

pub(super) fn table(id: &str, corner: &str, method: &str) -> Table {
    debug_assert!(PARTS.iter().any(|(part, _)| *part == id), "{id} is not listed");
    Table {
        id: id.to_owned(),
        title: title(id).to_owned(),
        method: method.to_owned(),
        corner: corner.to_owned(),
        columns: Vec::new(),
        rows: Vec::new(),
    }
}

/// Figures 8 and 9: throughput over time, alone and under every scheduler.
pub fn over_time(results: &Results, scene: Scene) -> Option<Curves> {
    let (alone, id) = (results.runs.alone(scene)?, if scene == Scene::Change { "fig-8" } else { "fig-9" });
    let mut plots = vec![plot("(a) each alone on the reference disk", &alone.volumes)];
    for (number, under) in UNDERS[..VARIATIONS].iter().enumerate() {
        let letter = if number == PRINTED { "(b) " } else { "" };
        plots.push(plot(&format!("{letter}{}", under.name), &results.runs.shared(scene, number)?.volumes));
    }
    let method = if scene == Scene::Change {
        "Workload 1 is 100%, then 75%, then 0% local, workload 2 always 75%; both on three fast disks, each promised two slow ones. Times \
         are the paper’s, in a quick run a fifth of them."
    } else {
        "Workload 1 is like WebSearch; workload 2 like OpenMail, then WebSearch, then Financial, whose requests come 7.5 times a second \
         while those of the others saturate. All are drawn, by the figures of the job files youchoose/…: the traces cannot be had."
    };
    Some(Curves {
        id: id.to_owned(),
        title: title(id).to_owned(),
        method: method.to_owned(),
        x: Quantity::Seconds,
        y: Quantity::RequestsPerSecond,
        plots,
    })
}

/// Results for statements about sharing.
pub fn measures(results: &Results, measures: &mut Measures) {
    under(results, PRINTED).into_iter().for_each(|(name, value)| measures.printed(name, value));
    under(results, OURS).into_iter().for_each(|(name, value)| measures.ours(name, value));
    of_reference(results).into_iter().for_each(|(name, value)| measures.printed(name, value));
    of_virtual_clock(results).into_iter().for_each(|(name, value)| measures.printed(name, value));
}

/// Requests per second in the parts of figures 8 and 9, alone on the reference disk and together on the host.
type Parts = [[f64; 4]; 2];

/// Results by name.
type Named = Vec<(&'static str, Option<f64>)>;

/// Results under youchoose, as printed or ours.
fn under(results: &Results, under: usize) -> Named {
    let localities = Scene::Localities(0);
    let kept = results.kept(localities, under);
    let percent = |of: &dyn Fn(f64, f64) -> f64| {
        let percents = kept.as_ref()?.iter().map(|kept| kept.throughput_percent);
        percents.reduce(of)
    };
    let farther = |one: f64, other: f64| if (one - 100.0).abs() >= (other - 100.0).abs() { one } else { other };
    let order = results.runs.shared(localities, under).map(|shared| steps_up(&shared.volumes));
    let change = results.parts(Scene::Change, under);
    let of_change = |of: &dyn Fn(&Parts) -> f64| change.as_ref().map(|parts| of(&parts[0]));
    let real = results.parts(Scene::Real, under);
    let of_real = |of: &dyn Fn(&[Parts]) -> f64| real.as_ref().map(|parts| of(parts));
    let violated = |scene| {
        let kept = results.kept(scene, under)?;
        kept.iter().map(|kept| kept.violated_percent[1]).reduce(f64::max)
    };
    let above = |parts: &[Parts]| {
        let each = parts.iter().flat_map(|[alone, shared]| (0..3).map(move |part| 100.0 * shared[part] / alone[part]));
        each.fold(f64::INFINITY, f64::min)
    };
    vec![
        ("least", percent(&f64::min)),
        ("farthest", percent(&farther)),
        ("locality-order", order),
        ("workload-1-75", of_change(&|[_, shared]| shared[1])),
        ("workload-1-0", of_change(&|[_, shared]| shared[2])),
        ("change-trend", of_change(&|[_, shared]| falls(&shared[..3]))),
        ("change-loss", results.loss_percent(Scene::Change, under, 1)),
        ("change-released", of_change(&|[_, shared]| 100.0 * (shared[3] / shared[2] - 1.0))),
        ("change-violated", violated(Scene::Change)),
        ("real-trend", of_real(&|parts| same_way(&parts[1]))),
        ("real-above", of_real(&above)),
        ("real-proportion", of_real(&|parts| (parts[0][1][0] / parts[0][0][0]) / (parts[1][1][0] / parts[1][0][0]))),
        ("real-larger", of_real(&|parts| (parts[0][1][0] - parts[0][0][0]) / (parts[1][1][0] - parts[1][0][0]))),
        ("real-loss", results.loss_percent(Scene::Real, under, 0)),
        ("real-released", of_real(&|parts| 100.0 * (parts[0][1][2] / parts[0][1][1] - 1.0))),
        ("real-violated", violated(Scene::Real)),
    ]
}

/// Results of volumes alone on their reference disks.
fn of_reference(results: &Results) -> Named {
    let localities = results.runs.alone(Scene::Localities(0));
    let real = results.runs.alone(Scene::Real).map(|alone| results.rates_of_parts(&alone.volumes[1]));
    vec![
        ("alone-order", localities.map(|alone| steps_up(&alone.volumes))),
        ("real-alone-rises", real.map(|rates| 100.0 * (rates[1] / rates[0] - 1.0))),
        ("real-alone-falls", real.map(|rates| rates[1] / rates[2])),
    ]
}

/// Results under the paper's baseline.
fn of_virtual_clock(results: &Results) -> Named {
    let localities = Scene::Localities(0);
    let shared = results.runs.shared(localities, VIRTUAL_CLOCK);
    let rates: Option<Vec<f64>> = shared.map(|shared| shared.volumes.iter().map(rate).collect());
    let alone = results.runs.alone(localities).map(Alone::rates);
    // Service received, in seconds of the reference disk.
    let service = rates.as_ref().zip(alone).map(|(rates, alone)| {
        let service: Vec<f64> = rates.iter().zip(&alone).map(|(rate, alone)| rate / alone).collect();
        service[0] / service[service.len() - 1]
    });
    let meets = |volume: &TenantMeasure| {
        let seconds = seconds(volume);
        100.0 * seconds.iter().filter(|rate| **rate >= VIRTUAL_CLOCK_IOPS).count() as f64 / seconds.len().max(1) as f64
    };
    let varies = |under| results.variation(localities, under);
    let change = results.parts(Scene::Change, VIRTUAL_CLOCK);
    let least_loss = |parts: &Vec<Parts>| {
        let rates = parts[1][1];
        100.0 * (1.0 - rates[1] / rates[0]).min(1.0 - rates[2] / rates[1])
    };
    let most_apart = |parts: &Vec<Parts>| {
        (0..3)
            .map(|part| parts[0][1][part] / parts[1][1][part])
            .fold(1.0, |worst: f64, ratio| if ratio.ln().abs() > worst.ln().abs() { ratio } else { worst })
    };
    vec![
        (
            "virtual-clock-ratio",
            rates.map(|rates| rates.iter().copied().fold(0.0, f64::max) / rates.iter().copied().fold(f64::INFINITY, f64::min)),
        ),
        ("virtual-clock-meets", shared.map(|shared| shared.volumes.iter().map(meets).fold(0.0, f64::max))),
        ("virtual-clock-service", service),
        (
            "virtual-clock-variation",
            varies(VIRTUAL_CLOCK).zip(varies(PRINTED)).map(|(virtual_clock, printed)| virtual_clock / printed),
        ),
        ("virtual-clock-loss", change.as_ref().map(least_loss)),
        ("virtual-clock-equal", change.as_ref().map(most_apart)),
    ]
}

/// The number of steps in locality at which the throughput rises.
fn steps_up(volumes: &[TenantMeasure]) -> f64 {
    let mut rates: Vec<f64> = volumes.iter().map(rate).collect();
    rates.reverse();
    falls(&rates)
}

/// The number of values that are lower than their predecessor.
fn falls(rates: &[f64]) -> f64 {
    rates.windows(2).filter(|pair| pair[1] < pair[0]).count() as f64
}

/// For how many of the two changes the throughput on the host moves in the same direction as alone.
fn same_way([alone, shared]: &Parts) -> f64 {
    [1, 2].iter().filter(|&&part| (alone[part] < alone[part - 1]) == (shared[part] < shared[part - 1])).count() as f64
}

/// Requests in each whole second.
fn seconds(volume: &TenantMeasure) -> Vec<f64> {
    let mut timeline = volume.timeline.clone();
    timeline.widen_to(BIN);
    let whole = timeline.bins().len().saturating_sub(1);
    let width = timeline.width().as_secs_f64();
    timeline.bins()[..whole].iter().map(|served| served.requests as f64 / width).collect()
}

/// The coefficient of variation: standard deviation / mean.
fn variation(values: &[f64]) -> f64 {
    statistics::sample::variation(values).unwrap_or(f64::NAN)
}

/// The scenes of figures 6, 8 and 9 for a row of the variations.
struct Varied {
    localities: Option<Scene>,
    change: Option<Scene>,
    real: Option<Scene>,
}

/// Variations of points that the paper leaves open: variants of the printed scheduler, queue depths, hosts with more disks, and the parts of figure 9.
pub fn variations(results: &Results) -> Option<Table> {
    let of_paper = || Varied { localities: Some(Scene::Localities(0)), change: Some(Scene::Change), real: Some(Scene::Real) };
    let ways = [PRINTED].into_iter().chain(VARIATIONS..UNDERS.len()).chain([OURS, VIRTUAL_CLOCK]);
    let mut rows: Vec<Row> =
        ways.filter_map(|under| variation_row(results, UNDERS[under].name.to_owned(), &of_paper(), under)).collect();
    for under in [PRINTED, OURS, VIRTUAL_CLOCK] {
        let named = |name: &str| format!("{}, {name}", UNDERS[under].name);
        for (number, depths) in DEPTHS.iter().enumerate() {
            let (localities, change) = (Some(Scene::LocalitiesIn(number)), Some(Scene::ChangeIn(number)));
            rows.extend(variation_row(results, named(depths.name), &Varied { localities, change, real: None }, under));
        }
        for (number, (name, ..)) in REAL_VARIED.iter().enumerate() {
            let real = Some(Scene::RealIn(number));
            rows.extend(variation_row(results, named(name), &Varied { localities: None, change: None, real }, under));
        }
    }
    let names = [
        "fig. 6: least, % of reference",
        "most",
        "random volume, IOPS",
        "variation from second to second, %",
        "fig. 8: workload 1 at 75%, IOPS on the reference",
        "on the host",
        "at 0%, on the reference",
        "on the host",
        "loss of workload 2, %",
        "1 s windows violated, worst, %",
        "fig. 9: needs of the host’s time, %",
        "workload 1, 1 s windows violated, %",
        "workload 2",
    ];
    let method = "The scheduler as printed in section III.B with the model of section III.A, on the paper’s hosts, and each thing that the paper \
                  leaves open in another way; 32 requests outstanding where nothing else is said. Needs: for how long in a second the host \
                  must work to do what both reference disks do.";
    (!rows.is_empty()).then(|| Table {
        columns: names.iter().map(|name| Table::column(name, false)).collect(),
        rows,
        ..table("variations", "variant", method)
    })
}

fn variation_row(results: &Results, name: String, varied: &Varied, under: usize) -> Option<Row> {
    let localities = varied.localities.and_then(|scene| results.kept(scene, under));
    let percent = |of: fn(f64, f64) -> f64| localities.as_ref()?.iter().map(|kept| kept.throughput_percent).reduce(of);
    let random = varied.localities.and_then(|scene| results.runs.shared(scene, under)).map(|shared| rate(&shared.volumes[0]));
    let varies = varied.localities.and_then(|scene| results.variation(scene, under)).map(|variation| 100.0 * variation);
    let parts = varied.change.and_then(|scene| results.parts(scene, under));
    let workload_1 = |of_host: usize, part: usize| parts.as_ref().map(|parts| parts[0][of_host][part]);
    let worst = varied.change.and_then(|scene| results.kept(scene, under));
    let real = varied.real.and_then(|scene| results.kept(scene, under));
    let of_real = |volume: usize| real.as_ref().map(|kept| kept[volume].violated_percent[1]);
    let cells = [
        percent(f64::min),
        percent(f64::max),
        random,
        varies,
        workload_1(0, 1),
        workload_1(1, 1),
        workload_1(0, 2),
        workload_1(1, 2),
        varied.change.and_then(|scene| results.loss_percent(scene, under, 1)),
        worst.and_then(|kept| kept.iter().map(|kept| kept.violated_percent[1]).reduce(f64::max)),
        varied.real.and_then(|scene| results.runs.alone(scene)).map(|alone| 100.0 * alone.needs),
        of_real(0),
        of_real(1),
    ];
    cells.iter().any(Option::is_some).then(|| Row { name, cells: cells.map(Cell::ours).to_vec() })
}

fn plot(name: &str, volumes: &[TenantMeasure]) -> Plot {
    let line = |(number, volume): (usize, &TenantMeasure)| {
        let mut timeline = volume.timeline.clone();
        // The last bin is not full.
        timeline.widen_to(BIN);
        let width = timeline.width().as_secs_f64();
        let whole = timeline.bins().len().saturating_sub(1);
        let point = |(bin, served): (usize, &sim::run::Served)| ((bin as f64 + 0.5) * width, served.requests as f64 / width);
        Line { name: format!("workload {}", number + 1), points: timeline.bins()[..whole].iter().enumerate().map(point).collect() }
    };
    Plot { name: name.to_owned(), lines: volumes.iter().enumerate().map(line).collect() }
}
