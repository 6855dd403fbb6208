//! Figures 4 to 9, convergence times and the hypotheses.

use crate::report::paper::{Bar, Cell, Curves, Line, Plot, Quantity, Row, Table};

use super::convergence::Settled;
use super::pairs::{AS_THE_PAPERS, DEFAULT, FIGURES, IN_THE_TWIN, Pair, Runs, UNDERS, WORKLOADS};
use super::title;
use crate::paper::aims::at_least;
use crate::paper::stated::Measures;

/// With the twin a workload converges so soon after a change, in seconds.
const SOON_S: f64 = 30.0;

/// What is drawn from.
pub struct Results<'a> {
    /// What was run.
    pub runs: &'a Runs,
}

/// How a workload settled wherever it was run under something.
#[derive(Clone, Debug, Default)]
struct Settling {
    all: Vec<Settled>,
    /// Stable throughput against that of the default in the same run, in percent of it.
    against_default: Vec<f64>,
}

impl Settling {
    /// Seconds, of those that converged, in order.
    fn times(&self) -> Vec<f64> {
        let mut times: Vec<f64> = self.all.iter().filter_map(|one| one.at_s).collect();
        times.sort_by(f64::total_cmp);
        times
    }

    fn share(&self, is_so: impl Fn(&Settled) -> bool) -> Option<f64> {
        let count = self.all.iter().filter(|one| is_so(one)).count();
        (!self.all.is_empty()).then(|| 100.0 * count as f64 / self.all.len() as f64)
    }

    fn is_soon(settled: &Settled) -> bool {
        settled.at_s.is_some_and(|at| at <= SOON_S)
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

impl Results<'_> {
    fn settling(&self, workload: usize, under: usize) -> Settling {
        let mut settling = Settling::default();
        let defaults: Vec<(Pair, Option<Settled>)> =
            self.runs.courses(workload, DEFAULT).map(|(pair, course)| (pair, course.settled())).collect();
        for (pair, course) in self.runs.courses(workload, under) {
            let Some(settled) = course.settled() else { continue };
            settling.all.push(settled);
            let default = defaults.iter().find(|(other, _)| *other == pair).and_then(|(_, settled)| *settled);
            settling.against_default.extend(default.map(|default| 100.0 * (settled.stable_mb_s / default.stable_mb_s - 1.0)));
        }
        settling
    }

    /// The pairs that the paper draws.
    pub fn curves(&self) -> Vec<Curves> {
        FIGURES.iter().filter_map(|(id, pair)| self.figure(id, *pair)).collect()
    }

    fn figure(&self, id: &str, pair: Pair) -> Option<Curves> {
        let line = |under: usize| {
            let ran = self.runs.get(pair, under)?;
            Some(Line { name: UNDERS[under].name.to_owned(), points: ran.throughput.clone() })
        };
        let plot = |name: &str, unders: &[usize]| {
            let lines: Vec<Line> = unders.iter().filter_map(|&under| line(under)).collect();
            (!lines.is_empty()).then(|| Plot { name: name.to_owned(), lines })
        };
        let plots: Vec<Plot> = [
            plot("as the paper’s, and the default", &[AS_THE_PAPERS, DEFAULT]),
            plot("in the twin, and the default", &[IN_THE_TWIN, DEFAULT]),
        ]
        .into_iter()
        .flatten()
        .collect();
        (!plots.is_empty()).then(|| Curves {
            id: id.to_owned(),
            title: title(id).to_owned(),
            method: format!("{}; a point for each window.", pair.name()),
            x: Quantity::Seconds,
            y: Quantity::MegabytesPerSecond,
            plots,
        })
    }

    /// Convergence times of the genetic library as the paper has it.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        let worst = |workload: usize| self.settling(workload, AS_THE_PAPERS).times().last().copied();
        let converging = (0..WORKLOADS.len()).filter(|&workload| {
            let settling = self.settling(workload, AS_THE_PAPERS);
            settling.share(|one| one.at_s.is_some()) == Some(100.0)
        });
        let known = [
            ("meta-data", worst(0)),
            ("random-reads", worst(1)),
            ("converging", self.runs.get(Pair(0, 1), AS_THE_PAPERS).map(|_| converging.count() as f64)),
        ];
        known.into_iter().for_each(|(name, value)| measures.printed(name, value));
        measures
    }

    /// Convergence, hypotheses, pairs.
    pub fn tables(&self) -> Vec<Table> {
        vec![self.convergence(), self.hypotheses(), self.pairs()]
    }

    fn convergence(&self) -> Table {
        let mut rows = Vec::new();
        for (workload, (name, _)) in WORKLOADS.iter().enumerate() {
            for (under, by) in UNDERS.iter().enumerate() {
                let settling = self.settling(workload, under);
                let (times, count) = (settling.times(), settling.all.len());
                if count == 0 {
                    continue;
                }
                let stable: Vec<f64> = settling.all.iter().map(|one| one.stable_mb_s).collect();
                let cells = [
                    Some(count as f64),
                    settling.share(|one| one.at_s.is_some()),
                    settling.share(Settling::is_soon),
                    times.get(times.len() / 2).copied(),
                    times.last().copied(),
                    mean(&stable),
                    mean(&settling.against_default),
                    settling.against_default.iter().copied().min_by(f64::total_cmp),
                ];
                rows.push(Row { name: format!("{name}, {}", by.name), cells: cells.map(Cell::ours).to_vec() });
            }
        }
        let names = [
            "runs",
            "converged, %",
            "within 30 s, %",
            "median, s",
            "slowest, s",
            "stable, MB/s",
            "against the default, %",
            "worst of these, %",
        ];
        Table {
            id: "convergence".to_owned(),
            title: title("convergence").to_owned(),
            method: "All runs of a workload, first or second of a pair. Times are of the runs that converged.".to_owned(),
            corner: "workload".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows,
        }
    }

    /// Of the genetic library as the paper has it, and in the twin.
    fn hypotheses(&self) -> Table {
        let row = |(workload, under): (usize, usize)| {
            let settling = self.settling(workload, under);
            let times = settling.times();
            let spread = times.first().zip(times.last()).map(|(first, last)| last - first);
            let kept = settling.all.iter().filter_map(|one| one.variation_percent).filter(|variation| *variation <= 5.0).count();
            let converged = times.len();
            let cells = [
                times.first().copied(),
                times.last().copied(),
                spread,
                (converged > 0).then(|| 100.0 * kept as f64 / converged.max(1) as f64),
                settling.share(|one| one.at_s.is_some()),
            ];
            Row { name: format!("{}, {}", WORKLOADS[workload].0, UNDERS[under].name), cells: cells.map(Cell::ours).to_vec() }
        };
        let of = |workload| [AS_THE_PAPERS, IN_THE_TWIN].map(|under| (workload, under));
        let was_run = |workload: &usize| self.runs.courses(*workload, AS_THE_PAPERS).next().is_some();
        let names = [
            "I: soonest, s",
            "latest, s",
            "spread, s",
            "II: never beyond 5% after it, % of runs",
            "III: converged in time, % of runs",
        ];
        Table {
            id: "hypotheses".to_owned(),
            title: title("hypotheses").to_owned(),
            method: "I: convergence time is not consistent. II: throughput then varies within 5%. III: convergence time is acceptable; the \
                     paper’s limit is the length of a workload."
                .to_owned(),
            corner: "workload".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: (0..WORKLOADS.len()).filter(was_run).flat_map(of).map(row).collect(),
        }
    }

    fn pairs(&self) -> Table {
        let row = |pair: Pair| {
            let at = |under: usize, place: usize| {
                Cell::ours(self.runs.get(pair, under).and_then(|ran| ran.courses[place].settled()?.at_s))
            };
            let unders = [DEFAULT, AS_THE_PAPERS, IN_THE_TWIN];
            Row { name: pair.name(), cells: unders.into_iter().flat_map(|under| [at(under, 0), at(under, 1)]).collect() }
        };
        let names =
            ["default: first, s", "second, s", "as the paper’s: first, s", "second, s", "in the twin: first, s", "second, s"];
        Table {
            id: "pairs".to_owned(),
            title: title("pairs").to_owned(),
            method: "Seconds after the start of a workload; none if it did not converge.".to_owned(),
            corner: "workloads".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: Pair::all().filter(|pair| self.runs.get(*pair, DEFAULT).is_some()).map(row).collect(),
        }
    }

    /// What is aimed at.
    pub fn bars(&self) -> Vec<Bar> {
        let every =
            || (0..WORKLOADS.len()).map(|workload| (WORKLOADS[workload].0.to_owned(), self.settling(workload, IN_THE_TWIN)));
        let soon = every().map(|(name, settling)| (name, settling.share(Settling::is_soon))).collect();
        let ever = every().map(|(name, settling)| (name, settling.share(|one| one.at_s.is_some()))).collect();
        let stable = every().map(|(name, settling)| (name, mean(&settling.against_default))).collect();
        vec![
            at_least(
                "converge",
                "runs that converge with the twin, worst of five workloads (the paper: two of five converge)",
                100.0,
                ever,
                "",
            ),
            at_least("soon", "runs that converge within 30 s of a change with the twin, worst of five workloads", 100.0, soon, ""),
            at_least(
                "stable",
                "stable throughput against the default’s with the twin, mean of the worst workload",
                -2.0,
                stable,
                "",
            ),
        ]
    }
}
