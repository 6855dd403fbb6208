//! Figures 4 to 9, convergence times, the hypotheses, the report's run lengths, and sensitivity to each gene.

use crate::report::paper::{Bar, Cell, Curves, Line, Plot, Quantity, Row, Table};

use super::convergence::{BIN_S, Course, Settled};
use super::genes::{Decides, Direct};
use super::pairs::{DEFAULT, FIGURES, IN_THE_TWIN, Length, OF_PAPER, PRINTED, Pair, Runs, UNDERS, WORKLOADS, default_of};
use super::title;
use crate::paper::aims::at_least;
use crate::paper::stated::Measures;

/// Maximum convergence time after a change with the twin, in seconds.
const SOON_S: f64 = 30.0;

/// Results from which figures and tables are drawn.
pub struct Results<'a> {
    /// Results of pairs.
    pub runs: &'a Runs,
    /// Pairs in the paper's figures, at each of its run lengths.
    pub lengths: &'a [(Length, Runs)],
    /// Sensitivity to single genes.
    pub genes: &'a [Decides],
    /// Direct I/O under constant settings.
    pub direct: &'a [Direct],
}

/// Convergence of a workload in all its runs under a controller.
#[derive(Clone, Debug, Default)]
struct Settling {
    all: Vec<Settled>,
    /// Stable throughput relative to the default's in the same pair, in percent.
    against_default: Vec<f64>,
    /// Delay of convergence relative to the default, in seconds, where known.
    later: Vec<f64>,
    deviations: Vec<f64>,
}

impl Settling {
    /// Sorted convergence times in seconds, of runs that converged.
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

    fn always_converges(&self) -> bool {
        self.share(|one| one.at_s.is_some()) == Some(100.0)
    }

    fn stable(&self) -> Option<f64> {
        mean(&self.all.iter().map(|one| one.stable_mb_s).collect::<Vec<_>>())
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    statistics::mean(values.iter().copied())
}

fn largest(values: impl Iterator<Item = f64>) -> Option<f64> {
    values.max_by(f64::total_cmp)
}

impl Results<'_> {
    fn settling(&self, workload: usize, under: usize) -> Settling {
        let mut settling = Settling::default();
        let default = |pair: Pair, place: usize| self.runs.get(pair, default_of(under))?.courses[place].settled();
        for (pair, course) in self.runs.courses(workload, under) {
            let Some(settled) = course.settled() else { continue };
            settling.all.push(settled);
            settling.deviations.extend(course.deviation_percent);
            let Some(default) = default(pair, usize::from(pair.0 != workload)) else { continue };
            settling.against_default.push(100.0 * (settled.stable_mb_s / default.stable_mb_s - 1.0));
            settling.later.extend(settled.at_s.zip(default.at_s).map(|(at, default)| at - default));
        }
        settling
    }

    /// Convergence of a workload of a pair in the figures, under the library as printed.
    fn drawn(&self, pair: Pair, place: usize) -> Option<Settled> {
        self.runs.get(pair, PRINTED)?.courses[place].settled()
    }

    /// The pairs in the paper's figures.
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
            plot("as printed, and the default", &[PRINTED, DEFAULT]),
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

    /// Results by which statements are judged.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        let is_run = |under: usize| (0..OF_PAPER).all(|workload| self.runs.courses(workload, under).next().is_some());
        for (under, is_printed) in [(PRINTED, true), (IN_THE_TWIN, false)] {
            let of: Vec<Settling> = (0..OF_PAPER).map(|workload| self.settling(workload, under)).collect();
            let slowest = |workload: usize| of[workload].times().last().copied();
            let variation = of.iter().flat_map(|of| &of.all).filter_map(|one| one.variation_percent);
            let ratio = |a: usize, b: usize| Some(of[a].stable()? / of[b].stable()?);
            let known = [
                ("meta-data", slowest(0)),
                ("random-reads", slowest(1)),
                ("converging", is_run(under).then(|| of.iter().filter(|of| of.always_converges()).count() as f64)),
                ("variation", largest(variation)),
                ("random-by-sequential", ratio(1, 2)),
                ("write-lengths", self.lengths_that_converge(under)),
            ];
            for (name, value) in known {
                if is_printed { measures.printed(name, value) } else { measures.ours(name, value) }
            }
        }
        for (name, workload) in [("meta-data", 0), ("random-reads", 1)] {
            let of = self.settling(workload, PRINTED);
            if !of.all.is_empty() && !of.always_converges() {
                let not = of.all.len() - of.times().len();
                measures.printed_words(name, format!("does not converge in {not} of {} runs", of.all.len()), false);
            }
        }
        self.words(&mut measures);
        measures
    }

    /// Whether a workload of each pair in the figures converges as the paper says.
    fn words(&self, measures: &mut Measures) {
        let stated = [
            ("fig-4-meta-data", Pair(0, 1), 0, true),
            ("fig-4-random", Pair(0, 1), 1, true),
            ("fig-5-writes", Pair(3, 1), 0, false),
            ("fig-5-random", Pair(3, 1), 1, true),
            ("fig-6-meta-data", Pair(0, 3), 0, true),
            ("fig-6-writes", Pair(0, 3), 1, false),
            ("fig-7-writes", Pair(3, 0), 0, false),
            ("fig-7-meta-data", Pair(3, 0), 1, true),
            ("fig-8-direct", Pair(4, 1), 0, false),
            ("fig-8-random", Pair(4, 1), 1, true),
            ("fig-9-reads", Pair(2, 1), 0, false),
            ("writes-again", Pair(3, 3), 1, true),
        ];
        for (name, pair, place, converges) in stated {
            let Some(settled) = self.drawn(pair, place) else { continue };
            let text = settled.at_s.map_or("does not converge".to_owned(), |at| format!("converges after {at:.0} s"));
            measures.printed_words(name, text, settled.at_s.is_some() == converges);
        }
        let spreads = (0..OF_PAPER).map(|workload| self.settling(workload, PRINTED)).filter(Settling::always_converges);
        let spread = largest(spreads.filter_map(|of| Some(of.times().last()? - of.times().first()?)));
        if let Some(spread) = spread {
            measures.printed_words("consistent", format!("within {spread:.0} s of each other"), spread <= BIN_S);
        }
    }

    /// Number of run lengths at which sequential writes converge in some pair; `None` if they were not run.
    fn lengths_that_converge(&self, under: usize) -> Option<f64> {
        let converges = |runs: &Runs| runs.courses(3, under).any(|(_, course)| settles(course).is_some());
        let is_run = self.lengths.iter().any(|(_, runs)| runs.courses(3, under).next().is_some());
        is_run.then(|| self.lengths.iter().filter(|(_, runs)| converges(runs)).count() as f64)
    }

    /// All tables: convergence, hypotheses, lengths, genes, direct I/O, pairs.
    pub fn tables(&self) -> Vec<Table> {
        vec![self.convergence(), self.hypotheses(), self.lengths(), self.genes(), self.direct(), self.pairs()]
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
                let cells = [
                    Some(count as f64),
                    settling.share(|one| one.at_s.is_some()),
                    settling.share(Settling::is_soon),
                    times.get(times.len() / 2).copied(),
                    times.last().copied(),
                    mean(&settling.later),
                    mean(&settling.deviations),
                    settling.stable(),
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
            "later than the default, s",
            "deviation of windows, %",
            "stable, MB/s",
            "against the default, %",
            "worst of these, %",
        ];
        Table {
            id: "convergence".to_owned(),
            title: title("convergence").to_owned(),
            method: "All runs of a workload, first or second of a pair. Times are of the runs that converged; later than the default of the same \
                     scheduler where that converges, too. A search has made a workload converge only where the default’s deviation is larger, or \
                     its time later."
                .to_owned(),
            corner: "workload".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows,
        }
    }

    /// Tests of the hypotheses for the library as printed, in the twin, and for the default alone.
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
        let of = |workload| [DEFAULT, PRINTED, IN_THE_TWIN].map(|under| (workload, under));
        let was_run = |workload: &usize| self.runs.courses(*workload, PRINTED).next().is_some();
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
                     paper’s limit is the length of a workload. The default searches nothing: what it shows is the workload’s own."
                .to_owned(),
            corner: "workload".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: (0..WORKLOADS.len()).filter(was_run).flat_map(of).map(row).collect(),
        }
    }

    fn lengths(&self) -> Table {
        let row = |(length, runs, workload): (u64, &Runs, usize)| {
            let of = |under: usize| {
                let courses: Vec<&Course> = runs.courses(workload, under).map(|(_, course)| course).collect();
                let converged = courses.iter().filter(|course| settles(course).is_some()).count();
                let rate = mean(&courses.iter().map(|course| course.mean_mb_s).collect::<Vec<_>>());
                (rate, (!courses.is_empty()).then(|| 100.0 * converged as f64 / courses.len() as f64))
            };
            let (default, printed) = (of(DEFAULT), of(PRINTED));
            let gain = printed.0.zip(default.0).map(|(printed, default)| 100.0 * (printed / default - 1.0));
            let cells = [default.0, printed.0, gain, default.1, printed.1].map(Cell::ours).to_vec();
            Row { name: format!("{}, {length} s", WORKLOADS[workload].0), cells }
        };
        let names = ["default, MB/s", "as printed, MB/s", "gain, %", "default converged, %", "as printed converged, %"];
        let rows =
            (0..OF_PAPER).flat_map(|workload| self.lengths.iter().map(move |(length, runs)| (length.seconds, runs, workload)));
        Table {
            id: "lengths".to_owned(),
            title: title("lengths").to_owned(),
            method: "Mean throughput of the pairs that the paper draws, from the beginning of a workload to its end. A generation of eight children \
                     takes 16 s, so that nothing is bred in 1 and in 10 s; fewer than four bins of 10 s show no convergence."
                .to_owned(),
            corner: "workload".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: rows.map(row).collect(),
        }
    }

    fn genes(&self) -> Table {
        let row = |decides: &Decides| {
            let gain = |rate: f64| Some(100.0 * (rate / decides.default_mb_s - 1.0));
            let cells = [Some(decides.default_mb_s), gain(decides.least_mb_s), gain(decides.most_mb_s)].map(Cell::ours).to_vec();
            Row { name: format!("{}, {}", WORKLOADS[decides.workload].0, decides.gene), cells }
        };
        let names = ["default, MB/s", "least of its range, %", "greatest of its range, %"];
        Table {
            id: "genes".to_owned(),
            title: title("genes").to_owned(),
            method: "Each gene of the library by itself at both ends of its range, constant, against the default. Where no gene moves throughput by \
                     more than 5%, no child can keep it from converging."
                .to_owned(),
            corner: "workload and gene".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: self.genes.iter().map(row).collect(),
        }
    }

    fn direct(&self) -> Table {
        let row = |direct: &Direct| {
            let bins = &direct.course.bins;
            let least = bins.iter().copied().min_by(f64::total_cmp);
            let (mean, most) = (Some(direct.course.mean_mb_s), largest(bins.iter().copied()));
            let cells = [mean, bins.first().copied(), least, most, direct.course.deviation_percent].map(Cell::ours).to_vec();
            Row { name: format!("{}, {}", WORKLOADS[direct.workload].0, direct.scheduler), cells }
        };
        let names = ["mean, MB/s", "first 10 s", "least 10 s", "most 10 s", "deviation of windows, %"];
        Table {
            id: "direct".to_owned(),
            title: title("direct").to_owned(),
            method: "Constant settings. A job that reads and writes one file in order has two places in it, and the nearer they are the faster it \
                     is: by that, not by what a search found, one run has several times the throughput of another at the same time. Readers and \
                     writers of files of their own are steady, and schedulers differ."
                .to_owned(),
            corner: "workload and scheduler".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: self.direct.iter().map(row).collect(),
        }
    }

    fn pairs(&self) -> Table {
        let row = |pair: Pair| {
            let at = |under: usize, place: usize| {
                Cell::ours(self.runs.get(pair, under).and_then(|ran| ran.courses[place].settled()?.at_s))
            };
            let unders = [DEFAULT, PRINTED, IN_THE_TWIN];
            Row { name: pair.name(), cells: unders.into_iter().flat_map(|under| [at(under, 0), at(under, 1)]).collect() }
        };
        let names = ["default: first, s", "second, s", "as printed: first, s", "second, s", "in the twin: first, s", "second, s"];
        Table {
            id: "pairs".to_owned(),
            title: title("pairs").to_owned(),
            method: "Seconds after the start of a workload; none if it did not converge.".to_owned(),
            corner: "workloads".to_owned(),
            columns: names.map(|name| Table::column(name, false)).to_vec(),
            rows: Pair::all().filter(|pair| self.runs.get(*pair, DEFAULT).is_some()).map(row).collect(),
        }
    }

    /// Our targets.
    pub fn bars(&self) -> Vec<Bar> {
        let every = || (0..OF_PAPER).map(|workload| (WORKLOADS[workload].0.to_owned(), self.settling(workload, IN_THE_TWIN)));
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

/// Convergence time in seconds; `None` if there are fewer than four bins, which is too short to tell.
fn settles(course: &Course) -> Option<f64> {
    course.settled().filter(|_| course.bins.len() >= 4)?.at_s
}
