//! Tables I, II and V, and the same loads under other schedulers.

use crate::report::paper::{Cell, Figure, Panel, Row, Table, Unit};
use block::Nanos;
use block::sched::fairio::{CycleClass, cycle_length};

use super::array::DISKS;
use super::bars::ABLE_PERCENT;
use super::runs::{BENCHMARKS, Plan, Runs, Trial};
use super::shares::{Outcome, WINDOWS};
use crate::paper::stated::{Measures, Stated};

/// What can be asked for.
pub const PARTS: [(&str, &str); 5] = [
    ("table-1", "Table I: error and throughput by cycle length, Illustration 1"),
    ("table-2", "Table II: error and throughput by cycle length, Illustration 2"),
    ("table-5", "Table V: the heuristic’s cycles, six benchmarks"),
    ("peers", "Errors of shares under other schedulers"),
    ("windows", "Shares in windows, response times and idle disks, adaptive cycle"),
];

/// The report’s cycle lengths in ms.
const CYCLES: [u32; 14] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1500, 2000, 2500, 3000];
/// Those of a quick run.
const QUICK: [u32; 5] = [100, 500, 900, 2000, 3000];

/// The scheduler that shares nothing: in order of arrival, as the report’s driver without FAIRIO.
pub const UNSHARED: &str = "noop";
/// Ours, which chooses the cycle itself.
pub const ADAPTIVE: &str = "fairio";
/// What else shares disks out.
const PEERS: [&str; 3] = ["mclock", "io-cost", "bfq"];

/// The report's cycle of this many ms.
fn fixed(ms: u32) -> String {
    format!("fairio:cycle_ms={ms}")
}

/// What came out.
pub struct Results<'a> {
    /// What was run.
    pub plan: Plan,
    /// Each run.
    pub runs: &'a Runs,
    /// The report.
    pub stated: &'a Stated,
}

/// The loads that what is wanted is about.
pub fn trials(wants: impl Fn(&str) -> bool) -> Vec<Trial> {
    let all = wants("peers") || wants("windows") || wants("bars");
    let illustrations = [("table-1", 1), ("table-2", 2)].into_iter().filter(|(id, _)| all || wants(id));
    let illustrations = illustrations.map(|(_, number)| Trial::Illustration(number));
    let benchmarks = (0..BENCHMARKS.len()).filter(|_| all || wants("table-5")).map(Trial::Benchmark);
    illustrations.chain(benchmarks).collect()
}

/// The runs that tell what a request costs.
pub fn unshared(trials: &[Trial]) -> Vec<(Trial, String)> {
    trials.iter().map(|&trial| (trial, UNSHARED.to_owned())).collect()
}

/// The runs that share, the heuristic's cycle known from those that do not.
pub fn shared(trials: &[Trial], plan: &Plan, runs: &Runs, stated: &Stated) -> Vec<(Trial, String)> {
    let results = Results { plan: *plan, runs, stated };
    let of = |&trial: &Trial| {
        let cycles = results.cycles().iter().map(|&ms| fixed(ms));
        let heuristic = results.heuristic_ms(trial).map(fixed);
        let others = PEERS.iter().chain([&ADAPTIVE]).map(|&name| name.to_owned());
        cycles.chain(heuristic).chain(others).map(move |under| (trial, under)).collect::<Vec<_>>()
    };
    trials.iter().flat_map(of).collect()
}

impl Results<'_> {
    fn cycles(&self) -> &'static [u32] {
        if self.plan.is_quick { &QUICK } else { &CYCLES }
    }

    fn get(&self, trial: Trial, under: &str) -> Option<&Outcome> {
        self.runs.get(&(trial, under.to_owned()))
    }

    /// The loads that were run, with their names.
    pub fn trials(&self) -> Vec<(Trial, String)> {
        let name = |trial: Trial| match trial {
            Trial::Illustration(number) => format!("Illustration {number}"),
            Trial::Benchmark(place) => BENCHMARKS[place].0.to_owned(),
        };
        let known = trials(|_| true).into_iter().filter(|trial| self.get(*trial, UNSHARED).is_some());
        known.map(|trial| (trial, name(trial))).collect()
    }

    /// The cycle that equation 3 gives for a benchmark, with the number of requests that the report takes for it.
    fn heuristic_ms(&self, trial: Trial) -> Option<u32> {
        let Trial::Benchmark(place) = trial else { return None };
        let requests = self.stated.number("table-5", BENCHMARKS[place].0, "requests")?;
        let service = self.get(trial, UNSHARED)?.service_ms;
        let class = |&weight: &u32| CycleClass { weight, request: Nanos((service * 1e6) as u64), requests: requests as u32 };
        let classes: Vec<CycleClass> = trial.weights().iter().map(class).collect();
        Some((cycle_length(&classes, DISKS).as_millis_f64()) as u32)
    }

    /// The fixed cycle of the least error, and its error.
    pub fn best_fixed(&self, trial: Trial) -> Option<(u32, f64)> {
        self.best_by(trial, |outcome| Some(outcome.error()))
    }

    /// The same of the times in which all classes wanted something.
    pub fn best_together(&self, trial: Trial) -> Option<(u32, f64)> {
        self.best_by(trial, Outcome::error_together)
    }

    /// What statements are judged by.
    pub fn measures(&self) -> Measures {
        let mut measures = Measures::default();
        for (number, [spread, best]) in [(1, ["spread-1", "best-cycle-1"]), (2, ["spread-2", "best-cycle-2"])] {
            let trial = Trial::Illustration(number);
            let throughputs = self.cycles().iter().filter_map(|&ms| Some(self.get(trial, &fixed(ms))?.throughput_mb_s));
            let (least, most) = throughputs.fold((f64::INFINITY, 0.0_f64), |(least, most), it| (least.min(it), most.max(it)));
            measures.ours(spread, (most > 0.0).then(|| 100.0 * (most / least - 1.0)));
            measures.ours(best, self.best_fixed(trial).map(|(ms, _)| f64::from(ms)));
        }
        let by_heuristic = |(trial, _): (Trial, String)| self.get(trial, &fixed(self.heuristic_ms(trial)?));
        let able = self.trials().into_iter().filter_map(by_heuristic).filter(|outcome| outcome.wanting_percent >= ABLE_PERCENT);
        measures.ours("worst-able", able.map(Outcome::error).max_by(f64::total_cmp));
        measures
    }

    fn best_by(&self, trial: Trial, error: impl Fn(&Outcome) -> Option<f64>) -> Option<(u32, f64)> {
        let errors = self.cycles().iter().filter_map(|&ms| Some((ms, error(self.get(trial, &fixed(ms))?)?)));
        errors.min_by(|a, b| a.1.total_cmp(&b.1))
    }

    /// What comes out with the cycle that fairio chooses.
    pub fn adaptive(&self, trial: Trial) -> Option<&Outcome> {
        self.get(trial, ADAPTIVE)
    }

    /// Throughput under a scheduler as a part of that without shares, in percent.
    pub fn against_unshared(&self, trial: Trial, under: &str) -> Option<f64> {
        Some(100.0 * self.get(trial, under)?.throughput_mb_s / self.get(trial, UNSHARED)?.throughput_mb_s)
    }
}

/// Every table that there are runs for.
pub fn all(results: &Results) -> Vec<Table> {
    let mut tables = Vec::new();
    for (number, id) in [(1, "table-1"), (2, "table-2")] {
        tables.extend(illustration(results, Trial::Illustration(number), id));
    }
    tables.extend(benchmarks(results));
    tables.extend(windows(results));
    tables
}

fn table(id: &str, corner: &str, method: &str) -> Table {
    let title = PARTS.iter().find(|(part, _)| *part == id).map_or(id, |(_, title)| title);
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        method: method.to_owned(),
        corner: corner.to_owned(),
        columns: Vec::new(),
        rows: Vec::new(),
    }
}

fn illustration(results: &Results, trial: Trial, id: &str) -> Option<Table> {
    results.get(trial, UNSHARED)?;
    let fixed_cycles = results.cycles().iter().map(|&ms| (ms.to_string(), fixed(ms)));
    let others = [ADAPTIVE].into_iter().chain(PEERS).chain([UNSHARED]);
    let others = others.map(|name| (if name == ADAPTIVE { "adaptive" } else { name }.to_owned(), name.to_owned()));
    let row = |(name, under): (String, String)| {
        let outcome = results.get(trial, &under);
        let cell = |column: &str, ours: Option<f64>| Cell::ours(ours).with_paper(results.stated.number(id, &name, column));
        let error = |class: usize| outcome.map(|outcome| outcome.errors[class]);
        let cells = vec![
            cell("error-1", error(0)),
            cell("error-2", error(1)),
            cell("throughput", outcome.map(|outcome| outcome.throughput_mb_s)),
        ];
        Row { name, cells }
    };
    let rows: Vec<Row> = fixed_cycles.chain(others).map(row).collect();
    let method = "Cycle lengths in ms as the report’s, then the cycle that fairio chooses, and other schedulers. The report’s and ours differ in \
                  what a cycle is: there it ends by the clock, here when its disk time is used.";
    Some(Table {
        columns: vec![
            Table::column("error of class 1, points", false),
            Table::column("of class 2", false),
            Table::column("MB/s", true),
        ],
        rows,
        ..table(id, "cycle", method)
    })
}

/// The benchmarks that were run.
fn of_benchmarks(results: &Results) -> Vec<(Trial, String)> {
    results.trials().into_iter().filter(|(trial, _)| matches!(trial, Trial::Benchmark(_))).collect()
}

fn benchmarks(results: &Results) -> Option<Table> {
    let id = "table-5";
    let mut rows = Vec::new();
    for (trial, name) in of_benchmarks(results) {
        let paper = |column: &str| results.stated.number(id, &name, column);
        let heuristic = results.heuristic_ms(trial);
        let by_heuristic = heuristic.and_then(|ms| results.get(trial, &fixed(ms)));
        let best = results.best_fixed(trial);
        let adaptive = results.adaptive(trial);
        let cells = vec![
            Cell::ours(results.get(trial, UNSHARED).map(|outcome| outcome.service_ms)).with_paper(paper("service")),
            Cell::ours(heuristic.map(f64::from)).with_paper(paper("cycle")),
            Cell::ours(by_heuristic.map(Outcome::error)).with_paper(paper("error")),
            Cell::ours(best.map(|best| best.1)),
            Cell::ours(best.map(|best| f64::from(best.0))),
            Cell::ours(adaptive.map(Outcome::error)),
            Cell::ours(results.best_together(trial).map(|best| best.1)),
            Cell::ours(adaptive.and_then(Outcome::error_together)),
            Cell::ours(results.against_unshared(trial, ADAPTIVE)),
            Cell::ours(adaptive.map(|outcome| outcome.wanting_percent)),
        ];
        rows.push(Row { name, cells });
    }
    let method = "The number of requests in equation 3 is the report’s for each workload; the disk time of a request is ours, measured \
                  without shares as there. Wanting: the least part of the time in which a class had a request outstanding. While all want: errors \
                  of the times in which every class had one.";
    (!rows.is_empty()).then(|| Table {
        columns: vec![
            Table::column("disk time of a request, ms", true),
            Table::column("heuristic’s cycle, ms", true),
            Table::column("error with it, points", false),
            Table::column("of the best fixed cycle", false),
            Table::column("which is, ms", false),
            Table::column("of the adaptive cycle", false),
            Table::column("while all are busy: best fixed cycle", false),
            Table::column("adaptive cycle", false),
            Table::column("its throughput, % of unshared", false),
            Table::column("wanting, %", false),
        ],
        rows,
        ..table(id, "workload", method)
    })
}

fn windows(results: &Results) -> Option<Table> {
    let row = |(trial, name): (Trial, String)| {
        let outcome = results.adaptive(trial)?;
        let windows = outcome.window_errors.iter().map(|&error| Cell::ours(error));
        let responses = outcome.responses_ms.iter().map(|&ms| Cell::ours(Some(ms)));
        let cells = windows.chain(responses).chain([Cell::ours(Some(outcome.idle_percent))]).collect();
        Some(Row { name, cells })
    };
    let rows: Vec<Row> = results.trials().into_iter().filter_map(row).collect();
    let names = [
        &format!("p99 error in {} ms, points", WINDOWS[0].as_millis_f64()),
        "in 1 s",
        "in 10 s",
        "p50 response, ms",
        "p99",
        "p99.9",
        "max",
        "idle while requests wait, %",
    ];
    let method = "Of windows one after the other, the largest error of a class that 99% of them do not exceed. Response times are those of the \
                  class with the longest; the illustrations ask for more than the disks can do, so that theirs grow with the run.";
    (!rows.is_empty()).then(|| Table {
        columns: names.iter().map(|name| Table::column(name, false)).collect(),
        rows,
        ..table("windows", "workload", method)
    })
}

/// Errors under every scheduler that shares, and under the one that does not; the second panel is throughput.
pub fn peers(results: &Results) -> Vec<Figure> {
    let schedulers: Vec<&str> = [ADAPTIVE].into_iter().chain(PEERS).chain([UNSHARED]).collect();
    let trials = results.trials();
    let values = |of: &dyn Fn(Trial, &str) -> Option<f64>| {
        trials.iter().map(|(trial, _)| schedulers.iter().map(|under| of(*trial, under)).collect()).collect()
    };
    let error = |trial, under: &str| results.get(trial, under).map(Outcome::error);
    let throughput = |trial, under: &str| results.get(trial, under).map(|outcome| outcome.throughput_mb_s);
    let panel = |name: &str, values| Panel { name: name.to_owned(), values };
    if trials.is_empty() {
        return Vec::new();
    }
    vec![Figure {
        title: PARTS[3].1.to_owned(),
        method: "The same runs under other schedulers that share: mclock by requests, io-cost by a linear model of what they cost, bfq by \
                 sectors; noop shares nothing. None of them promises disk time, so that this says what the promise is worth, not how good \
                 they are at theirs."
            .to_owned(),
        unit: Unit::ShareErrorPercent,
        series: schedulers.iter().map(|&name| name.to_owned()).collect(),
        groups: trials.iter().map(|(_, name)| name.clone()).collect(),
        panels: vec![panel("error, points", values(&error)), panel("throughput, MB/s", values(&throughput))],
        ..Figure::new("peers")
    }]
}
