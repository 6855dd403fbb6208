//! Gaitonde and Sarfare, A Study of Genetic Algorithms for I/O Scheduling: whether and when throughput converges after a workload change.

mod convergence;
mod genes;
mod library;
mod live;
mod pairs;
mod results;

use super::stated::Stated;
use super::{OnKernel, Paper, PaperRequest, Part, Repeated};
use pairs::{DEFAULT, FIGURES, Length, MAIN, OF_DRAWN, OF_PAPER, PRINTED, Pair, Runs, UNDERS, VARIANTS};
use results::Results;
use testbed::pool::Workers;

/// The report.
pub static PAPER: Paper = Paper {
    name: "genetic",
    text: include_str!("../../../../papers/genetic/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: Some(OnKernel { host: &["nr_requests", "read_ahead_kb"], repeat: live::repeat }),
};

/// Parts that can be requested.
const PARTS: [(&str, &str); 12] = [
    ("fig-4", "Fig. 4: meta-data, then random reads"),
    ("fig-5", "Fig. 5: sequential writes, then random reads"),
    ("fig-6", "Fig. 6: meta-data, then sequential writes"),
    ("fig-7", "Fig. 7: sequential writes, then meta-data"),
    ("fig-8", "Fig. 8: direct I/O, then random reads"),
    ("fig-9", "Fig. 9: sequential reads, then random reads"),
    ("convergence", "Section 6: whether and when each workload converges"),
    ("hypotheses", "Hypotheses I to III"),
    ("lengths", "Section 4.1: run lengths of 1, 10, 500 and 1,000 s"),
    ("genes", "What each gene decides"),
    ("direct", "Direct I/O under constant settings"),
    ("pairs", "Convergence time of both workloads, every ordered pair"),
];
/// Parts for which all pairs are run.
const OF_ALL: [&str; 3] = ["convergence", "hypotheses", "pairs"];
/// Sequential writes twice, since they converged once "for prolonged periods of time" (section 5.3.2).
const WRITES_AGAIN: Pair = Pair(3, 3);
/// Pairs that end with random reads: after direct I/O, and after the workload of ours for which one gene is decisive.
const DIRECT: Pair = Pair(4, 1);
const THINKING: Pair = Pair(5, 1);

fn title(id: &str) -> &'static str {
    PARTS.iter().find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

/// Extent of the experiments.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_quick: bool,
    seed: u64,
}

impl Plan {
    /// Duration of each workload of the pairs in the paper's figures.
    fn length(self) -> Length {
        Length { seconds: if self.is_quick { 120 } else { 1_000 }, seed: self.seed }
    }

    /// Duration of each workload of all other pairs. In a full run it is the third of the report's run lengths: five times the longest
    /// convergence time that it states (100 s).
    fn length_of_others(self) -> Length {
        Length { seconds: if self.is_quick { 120 } else { 500 }, ..self.length() }
    }

    /// The run lengths of section 4.1 except [`length`](Plan::length), which is run anyway.
    fn lengths(self) -> Vec<Length> {
        let seconds: &[u64] = if self.is_quick { &[1, 10, 60] } else { &[1, 10, 500] };
        seconds.iter().map(|&seconds| Length { seconds, seed: self.seed }).collect()
    }

    /// Pairs to run, each with an index in [`UNDERS`]: those of requested figures, and those of tables if `is_every` is set.
    fn wanted(self, wants: &dyn Fn(&str) -> bool, is_every: bool) -> Vec<(Pair, usize)> {
        let drawn: Vec<Pair> = FIGURES.iter().filter(|(id, _)| wants(id) || is_every).map(|(_, pair)| *pair).collect();
        let with = |pairs: &[Pair], unders: usize| -> Vec<(Pair, usize)> {
            pairs.iter().flat_map(|&pair| (0..unders).map(move |under| (pair, under))).collect()
        };
        let mut all = with(&drawn, MAIN);
        if is_every {
            all.extend(with(&[WRITES_AGAIN], MAIN));
            if self.is_quick {
                all.extend(with(&[THINKING, DIRECT], VARIANTS));
            } else {
                // Pairs for which a gene is decisive; and direct I/O, for which the scheduler is.
                let decided: Vec<Pair> = Pair::ours().filter(|pair| pair.0 >= OF_PAPER).chain([DIRECT]).collect();
                all.extend(with(&Pair::all().chain(Pair::ours()).collect::<Vec<_>>(), MAIN));
                all.extend(with(&drawn, OF_DRAWN));
                all.extend(with(&decided, UNDERS.len()));
            }
        }
        all
    }
}

fn repeat(wanted: &PaperRequest, _: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan { is_quick: wanted.is_quick, seed: wanted.seed };
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let is_every = wanted.wants_bars() || OF_ALL.iter().any(|id| wants(id));
    let is_drawn = |pair: &Pair| FIGURES.iter().any(|(_, drawn)| drawn == pair);
    let (drawn, others) = plan.wanted(&wants, is_every).into_iter().partition(|(pair, _)| is_drawn(pair));
    let runs = Runs::run(drawn, plan.length(), workers)?.and(Runs::run(others, plan.length_of_others(), workers)?);
    let mut lengths = Vec::new();
    if wants("lengths") {
        let drawn: Vec<(Pair, usize)> = FIGURES.iter().flat_map(|(_, pair)| [(*pair, DEFAULT), (*pair, PRINTED)]).collect();
        for length in plan.lengths() {
            lengths.push((length, Runs::run(drawn.clone(), length, workers)?));
        }
        let longest = if is_every { runs.only(&drawn) } else { Runs::run(drawn, plan.length(), workers)? };
        lengths.push((plan.length(), longest));
    }
    let genes = if wants("genes") {
        genes::run(Length { seconds: if plan.is_quick { 30 } else { 120 }, ..plan.length() }, workers)?
    } else {
        Vec::new()
    };
    let direct = if wants("direct") { genes::direct(plan.length(), workers)? } else { Vec::new() };
    let results = Results { runs: &runs, lengths: &lengths, genes: &genes, direct: &direct };
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
             writes, direct I/O. The paper changed their sizes and does not say to what. Four more are ours. For three a gene or the \
             scheduler decides: four readers that think for 5 ms, two readers beside two buffered writers, and the same with O_DIRECT. And random reads of \
             files of 32 GiB, of which memory holds next to nothing."
                .to_owned(),
        ),
        (
            "Length",
            format!(
                "{} s for each of the two workloads of a pair that the paper draws, {} s of the others; 1,000 s in the paper, whose longest time to \
                 convergence is 100 s.",
                plan.length().seconds,
                plan.length_of_others().seconds
            ),
        ),
        (
            "As printed",
            "The genetic library as published (version 0.2) on the tunables of anticipatory: eight children of 2 s, spread over ranges of half to one \
             and a half times the default; the worse half replaced after each generation; mutation of 10 to 45% of all genes, those of the \
             best children included. With phenotypes for throughput and for latency, and fingerprints, which the paper’s kernel 2.6.16 had; \
             the variant of one phenotype has neither. The same on today’s mq-deadline and bfq."
                .to_owned(),
        ),
        (
            "The others",
            "Start from anticipatory and choose among noop, anticipatory, deadline and CFQ, their tunables, read-ahead and the length of the queue; \
             64 trials for a workload, then the best is verified and kept or given up."
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
         So every result stands next to that of the default, which searches nothing; no search can converge sooner than the workload does."
            .to_owned(),
        "The paper calls hypothesis I, that convergence times are not consistent, verified, and says of the same results that all workloads have \
         a consistent time to convergence. Ours are given as they are."
            .to_owned(),
    ];
    if plan.is_quick {
        notes.push(
            "A quick run: 120 s a workload in place of 1,000, the pairs that the paper draws in place of all twenty, and no other searches."
                .to_owned(),
        );
    }
    notes
}
