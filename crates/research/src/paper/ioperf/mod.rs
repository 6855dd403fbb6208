//! Santos, Romero, Taibo and Rodriguez, Self-Tuning of Disk Input-Output in Operating Systems: settings bred for patterns of access.

mod evolution;
mod lessons;
mod live;
mod machine;
mod results;
mod searches;

use control::search::ioperf::{EVALUATION_S, POPULATION};

use super::stated::Stated;
use super::{OnKernel, Paper, PaperRequest, Part, Repeated};
use evolution::Evolution;
use experiment::pool::Workers;
use machine::Kernel;
use results::Results;
use searches::Searched;

/// The paper.
pub static PAPER: Paper = Paper {
    name: "ioperf",
    text: include_str!("../../../../../papers/ioperf/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: Some(OnKernel { host: &["nr_requests"], repeat: live::repeat }),
};

/// What can be asked for.
const PARTS: [(&str, &str); 7] = [
    ("fig-1", "Fig. 1: mean productivity per process"),
    ("fig-2", "Fig. 2: mean latency per request"),
    ("fig-3", "Fig. 3: evolution, improvement of the mean productivity per process"),
    ("fig-4", "Fig. 4: evolution, change of the mean latency per request"),
    ("section-6", "Section 6: how many workloads are improved, and by how much"),
    ("searches", "Other searches, constant settings and ours, on the paper’s kernel"),
    ("today", "The same on today’s kernel"),
];
/// Results of the populations, without the searches.
const EVOLVED: [&str; 5] = ["fig-1", "fig-2", "fig-3", "fig-4", "section-6"];

/// What is shown of a device of the real kernel.
const LIVE: [(&str, &str); 2] = [
    ("live", "Section 6 on the real kernel: results of searches on a block device"),
    ("five-trials", "Five live trials and an exhaustive search"),
];

fn title(id: &str) -> &'static str {
    PARTS.iter().chain(&LIVE).find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

/// How much is run.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_quick: bool,
    /// Generations that are bred and tested.
    generations: usize,
    /// Workloads of each test.
    tests: usize,
    /// How long an individual is evaluated, and how long a test is; in seconds.
    evaluation_s: u64,
    test_s: u64,
    /// Workloads that are learned from before searches are compared, how long each runs under a setting, in seconds, and the number of settings.
    lessons: usize,
    lesson_s: u64,
    bred: usize,
    /// Workloads that searches are compared on.
    workloads: usize,
    /// How long a search may take, with all that it verifies, in seconds.
    search_s: u64,
    seed: u64,
}

impl Plan {
    /// As in the paper, or less of it.
    fn new(is_quick: bool, seed: u64) -> Plan {
        let full = Plan {
            is_quick,
            generations: 8,
            tests: 20,
            evaluation_s: EVALUATION_S,
            test_s: 300,
            lessons: 24,
            lesson_s: 60,
            bred: 240,
            workloads: 100,
            search_s: 600,
            seed,
        };
        if is_quick {
            Plan { generations: 3, tests: 8, test_s: 60, lessons: 4, lesson_s: 60, bred: 80, workloads: 6, search_s: 480, ..full }
        } else {
            full
        }
    }
}

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan::new(wanted.is_quick, wanted.seed);
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let is_evolved = EVOLVED.iter().any(|id| wants(id));
    let evolution = is_evolved.then(|| Evolution::run(plan, workers)).transpose()?;
    let searched = |id: &str, kernel: &Kernel| {
        let is_wanted = wants(id) || wanted.wants_bars();
        is_wanted.then(|| Searched::run(plan, kernel, workers)).transpose()
    };
    let (then, today) = (searched("searches", &Kernel::OF_THE_PAPER)?, searched("today", &Kernel::OF_TODAY)?);
    let results = Results { evolution: evolution.as_ref(), then: then.as_ref(), today: today.as_ref(), stated };
    let curves = results.curves().into_iter().filter(|curves| wants(&curves.id)).collect();
    let tables = results.tables().into_iter().filter(|table| wants(&table.id)).collect();
    let bars = if wanted.wants_bars() { results.bars() } else { Vec::new() };
    let measures = results.measures();
    Ok(Repeated { setup: setup(plan), notes: notes(plan, &results), bars, tables, curves, measures, ..Repeated::default() })
}

fn setup(plan: Plan) -> Vec<(String, String)> {
    let Plan { generations, tests, .. } = plan;
    let facts = [
        (
            "Machine",
            "sata7200 with one request at a time: 7,200 rpm as the paper’s ST340014A, which had no command queueing; newer and faster. \
             512 MiB of memory, 1 GiB of swap as in the paper, and 128 MiB of other processes’ pages, so that swappiness has something to \
             decide."
                .to_owned(),
        ),
        (
            "Workloads",
            "Drawn as in Table 1: 1 to 8 processes, reads and access at random from 0 to 100%, requests of 1 to 2,047 KiB. Each process has \
             1 GiB of one file to itself: with less the host’s memory would be measured and not the disk, as tiobench’s manual warns. \
             The kernel gets no advice on how files will be read, for IOzone and tiobench give none."
                .to_owned(),
        ),
        (
            "Kernel of the paper",
            "Linux 2.6.29 with anticipatory, which the paper calls the default, among noop, anticipatory, deadline and CFQ; \
             read_ahead_kb 128, swappiness 60."
                .to_owned(),
        ),
        ("Kernel of today", "mq-deadline, among none, mq-deadline, kyber and bfq.".to_owned()),
        (
            "Generations",
            format!(
                "{generations} of {} individuals, each evaluated for 30 s; each generation is tested on {tests} workloads of {} s, drawn from \
                 another seed than those that it was bred on.",
                POPULATION,
                plan.test_s
            ),
        ),
        (
            "Searches",
            format!(
                "{} workloads, other ones again. A controller starts from the default and has 64 trials of 2 s, or 64 trials in the twin; then \
                 it verifies its best and keeps it or goes back. The setting active after {} s is then run as a constant for {} s, as is the default \
                 on the same workload.",
                plan.workloads,
                plan.search_s,
                plan.test_s
            ),
        ),
        (
            "Judged",
            format!(
                "Bars are of {}, the only one with prior knowledge.",
                searches::OURS.name()
            ),
        ),
        (
            "Learning",
            format!(
                "Before the searches, as in the learning mode that the paper plans: {} workloads of their own, {} settings on each for {} s; every \
                 gene by itself, the best of each together, and a Bayesian search from there. The best four of each scheduler are remembered beside \
                 the default. What served these loads better than the default, the nearer the \
                 more it counts, is verified in turns with it before anything else is tried.",
                plan.lessons, plan.bred, plan.lesson_s
            ),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: Plan, results: &Results) -> Vec<String> {
    let mut notes = vec![
        "Equation 2 as printed favours reads and access in order, although the text wants to make up for what these gain anyway; it is \
         taken as printed, and only the ranges keep other patterns in the population. The clearance factors are taken as weights in the \
         distance between patterns: the table gives 1.0 where the text wants the least deviation."
            .to_owned(),
        "A closed loop of processes asks as much more as it is served faster, so that throughput and mean latency say the same of a \
         workload, up to what is cached."
            .to_owned(),
    ];
    notes.extend(results.ceilings());
    if plan.is_quick {
        notes.push("A quick run: 3 generations in place of 8, fewer and shorter tests, 6 workloads in place of 100.".to_owned());
    }
    notes
}
