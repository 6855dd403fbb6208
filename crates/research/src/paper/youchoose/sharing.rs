//! Figures 6, 8 and 9, and what a sceptic asks about them.

use crate::report::paper::{Cell, Curves, Figure, Line, Panel, Plot, Quantity, Row, Table, Unit};
use block::Nanos;
use sim::run::TenantMeasure;

use super::runs::{OURS, Runs, UNDERS, VIRTUAL_CLOCK, rate};
use super::scenes::{HOSTS, LOCALITIES, Lengths, Scene};
use super::{PARTS, title};
use crate::paper::stated::Measures;
use experiment::tenants::{ServiceComparison, WINDOWS};

/// The width of a point in figures over time.
const BIN: Nanos = Nanos::from_millis(1_000);

/// What figures are drawn from.
pub struct Results<'a> {
    /// What was run.
    pub runs: &'a Runs,
    /// How long.
    pub lengths: Lengths,
}

/// A volume under a scheduler, compared with its reference disk.
pub struct Kept {
    /// Throughput in percent of the reference disk's.
    pub throughput_percent: f64,
    /// The p99 response time in percent of the reference disk's.
    pub p99_percent: f64,
    /// Of each of [`WINDOWS`]: how many percent of them are in violation, …
    pub violated_percent: [f64; 3],
    /// … and the least that was done in one, in percent of the reference.
    pub worst_percent: [Option<f64>; 3],
    /// How long it took at most until it was served as well, after a silence.
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
    /// Every volume of a scene under a scheduler.
    pub fn kept(&self, scene: Scene, under: usize) -> Option<Vec<Kept>> {
        let (alone, shared) = (self.runs.alone(scene)?, self.runs.shared(scene, under)?);
        Some(shared.volumes.iter().zip(&alone.volumes).map(|(here, there)| Kept::new(here, there)).collect())
    }

    /// The hosts of figure 6 that were run, with what they need for each second of the reference disks.
    pub fn hosts(&self) -> Vec<(usize, f64)> {
        let needs = |host| Some((host, self.runs.alone(Scene::Localities(host))?.needs));
        (0..HOSTS.len()).filter_map(needs).collect()
    }

    /// By how many percent the throughput of a volume fell at most, when the other one changed.
    pub fn loss_percent(&self, scene: Scene, under: usize, volume: usize) -> Option<f64> {
        let rates = self.rates_of_parts(&self.runs.shared(scene, under)?.volumes[volume]);
        let least = rates[1..].iter().copied().fold(f64::INFINITY, f64::min);
        Some(100.0 * (1.0 - least / rates[0]))
    }

    /// Requests a second in each of the three parts of figures 8 and 9, without the first second of each.
    pub fn rates_of_parts(&self, volume: &TenantMeasure) -> [f64; 3] {
        let parts = self.lengths.parts_s();
        let begins = [0.0, parts[0], parts[1]];
        let width = volume.timeline.width().as_secs_f64();
        [0, 1, 2].map(|part| {
            let (from, to) = (((begins[part] + 1.0) / width).ceil() as usize, (parts[part] / width) as usize);
            let bins = volume.timeline.bins().iter().take(to).skip(from);
            bins.map(|served| served.requests).sum::<u64>() as f64 / (width * to.saturating_sub(from).max(1) as f64)
        })
    }
}

/// Figure 6: throughput by locality, alone and side by side.
pub fn figure_6(results: &Results) -> Option<Figure> {
    let panels: Vec<Panel> = results.hosts().into_iter().map(|(host, needs)| throughputs(results, host, needs)).collect();
    let mut series = vec!["reference disk".to_owned()];
    series.extend(UNDERS.iter().map(|under| under.name.to_owned()));
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
        std::iter::once(alone).chain((0..UNDERS.len()).map(under)).collect()
    };
    let name = format!("{}: {}, which needs {:.0}% of its time for the guarantees", HOSTS[host].0, HOSTS[host].1, 100.0 * needs);
    Panel { name, values: (0..LOCALITIES.len()).map(value).collect() }
}

/// Each volume of figure 6 under youchoose, compared with its reference disk.
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
    let mut cells = vec![bound(kept.throughput_percent, kept.throughput_percent >= super::bars::THROUGHPUT_PERCENT)];
    cells.push(Cell::ours(Some(kept.violated_percent[0])));
    cells.push(bound(kept.violated_percent[1], kept.violated_percent[1] <= super::bars::VIOLATED_PERCENT));
    cells.push(Cell::ours(Some(kept.violated_percent[2])));
    cells.extend(kept.worst_percent.iter().map(|&worst| Cell::ours(worst)));
    cells.push(bound(kept.p99_percent, kept.p99_percent <= super::bars::P99_PERCENT));
    let responses = [0.5, 0.99, 0.999].map(|quantile| volume.responses.quantile(quantile)).into_iter();
    cells.extend(responses.chain([volume.responses.max()]).map(|response| Cell::ours(Some(response.as_millis_f64()))));
    cells.push(Cell::ours(kept.recovery_ms));
    cells
}

/// How every scheduler keeps the promises of figure 6 on the paper's host, the worst volume of each.
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
    let rows: Vec<Row> = UNDERS.iter().enumerate().filter_map(row).collect();
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
    for (number, under) in UNDERS.iter().enumerate() {
        let letter = if number == OURS { "(b) " } else { "" };
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

/// What statements about sharing are judged by.
pub fn measures(results: &Results, measures: &mut Measures) {
    let localities = Scene::Localities(0);
    let least =
        results.kept(localities, OURS).map(|kept| kept.iter().map(|kept| kept.throughput_percent).fold(f64::INFINITY, f64::min));
    measures.ours("youchoose-least", least);
    let ratio = results.runs.shared(localities, VIRTUAL_CLOCK).map(|shared| {
        let rates = || shared.volumes.iter().map(rate);
        rates().fold(0.0, f64::max) / rates().fold(f64::INFINITY, f64::min)
    });
    measures.printed("virtual-clock-ratio", ratio);
    // The volume that does not change.
    measures.ours("change-loss", results.loss_percent(Scene::Change, OURS, 1));
    measures.printed("virtual-clock-loss", results.loss_percent(Scene::Change, VIRTUAL_CLOCK, 1));
    measures.ours("real-loss", results.loss_percent(Scene::Real, OURS, 0));
    let rates = results.runs.shared(Scene::Change, OURS).map(|shared| results.rates_of_parts(&shared.volumes[0]));
    measures.ours("workload-1-75", rates.map(|rates| rates[1]));
    measures.ours("workload-1-0", rates.map(|rates| rates[2]));
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
