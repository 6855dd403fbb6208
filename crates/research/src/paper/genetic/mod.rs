//! Gaitonde and Sarfare, A Study of Genetic Algorithms for I/O Scheduling: does throughput settle after a change of workload, and when?

mod convergence;
mod live;
mod pairs;
mod results;

use super::stated::Stated;
use super::{OnKernel, Paper, PaperRequest, Part, Repeated};
use experiment::pool::Workers;
use pairs::{FIGURES, Pair, Runs, UNDERS};
use results::Results;

/// The report.
pub static PAPER: Paper = Paper {
    name: "genetic",
    text: include_str!("../../../../../papers/genetic/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: Some(OnKernel { host: &["nr_requests", "read_ahead_kb"], repeat: live::repeat }),
};

/// What can be asked for.
const PARTS: [(&str, &str); 9] = [
    ("fig-4", "Fig. 4: meta-data, then random reads"),
    ("fig-5", "Fig. 5: sequential writes, then random reads"),
    ("fig-6", "Fig. 6: meta-data, then sequential writes"),
    ("fig-7", "Fig. 7: sequential writes, then meta-data"),
    ("fig-8", "Fig. 8: direct I/O, then random reads"),
    ("fig-9", "Fig. 9: sequential reads, then random reads"),
    ("convergence", "Section 6: whether and when each workload converges"),
    ("hypotheses", "Hypotheses I to III"),
    ("pairs", "Convergence time of both workloads, every ordered pair"),
];

fn title(id: &str) -> &'static str {
    PARTS.iter().find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

/// How much is run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_quick: bool,
    seed: u64,
}

impl Plan {
    /// How long each of the two workloads of a pair is, in seconds; 1,000 in the paper.
    fn length_s(self) -> u64 {
        if self.is_quick { 120 } else { 400 }
    }
}

fn repeat(wanted: &PaperRequest, _: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan { is_quick: wanted.is_quick, seed: wanted.seed };
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let drawn = FIGURES.iter().filter(|(id, _)| wants(id)).map(|(_, pair)| *pair);
    let is_every = wanted.wants_bars() || ["convergence", "hypotheses", "pairs"].iter().any(|id| wants(id));
    let mut wanted_runs: Vec<(Pair, usize)> = drawn.flat_map(|pair| (0..UNDERS.len()).map(move |under| (pair, under))).collect();
    if is_every {
        // A quick run has the peers only where they are drawn.
        let unders = if plan.is_quick { pairs::MAIN } else { UNDERS.len() };
        wanted_runs.extend(Pair::all().flat_map(|pair| (0..unders).map(move |under| (pair, under))));
    }
    let runs = Runs::run(wanted_runs, plan, workers)?;
    let results = Results { runs: &runs };
    let curves = results.curves().into_iter().filter(|curves| wants(&curves.id)).collect();
    let tables = results.tables().into_iter().filter(|table| wants(&table.id)).collect();
    let bars = if wanted.wants_bars() { results.bars() } else { Vec::new() };
    let measures = results.measures();
    Ok(Repeated { setup: setup(plan), notes: notes(plan), bars, tables, curves, measures, ..Repeated::default() })
}

fn setup(plan: Plan) -> Vec<(String, String)> {
    let facts = [
        (
            "Machine",
            "sata7200 with one request at a time: 7,200 rpm, as the paper’s ATA drive of 80 GB, but newer and faster; 1 GiB of memory."
                .to_owned(),
        ),
        (
            "Workloads",
            "Job files that stand for FFSB’s profiles (`seekwise workload list`): meta-data, random reads, sequential reads, sequential \
             writes, direct I/O. The paper changed their sizes and does not say to what."
                .to_owned(),
        ),
        (
            "Length",
            format!("{} s for each of the two workloads of a pair; 1,000 s in the paper.", plan.length_s()),
        ),
        (
            "As the paper’s",
            "The genetic library on the anticipatory scheduler’s tunables, for ever, children of 2 s, as the paper has it; with read-ahead and \
             the length of the queue among the genes."
                .to_owned(),
        ),
        (
            "The others",
            "Start from anticipatory and choose among noop, anticipatory, deadline and CFQ and their tunables; 64 trials for a load, then \
             the best is verified and kept or given up."
                .to_owned(),
        ),
        (
            "Converged",
            format!(
                "A workload has converged where from then on 19 of 20 bins of {} s are within 5% of its stable throughput, the mean of its \
                 last quarter. Throughput is that of the calls of processes, as FFSB’s.",
                convergence::BIN_S
            ),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: Plan) -> Vec<String> {
    let mut notes = vec![
        "A workload is not constant by itself: buffered writes come in bursts, random reads become faster as more of the files is in memory. \
         What the default’s constant setting shows by itself is shown next to the searches; no search can converge sooner than the \
         workload does."
            .to_owned(),
        "The paper calls hypothesis I, that convergence times are not consistent, verified, and says of the same results that all workloads have \
         a consistent time to convergence. Ours are given as they are."
            .to_owned(),
    ];
    if plan.is_quick {
        notes.push("A quick run: 120 s a workload in place of 400, and the other searches only for the drawn figures.".to_owned());
    }
    notes
}
