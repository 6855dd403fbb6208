//! Santos, Romero, Taibo and Rodriguez, Self-Tuning of Disk Input-Output in Operating Systems: settings bred for access patterns.

mod evolution;
mod lessons;
mod live;
mod machine;
mod results;
mod searches;

use control::search::ioperf::{EVALUATION_S, POPULATION};
use testbed::pool::Workers;

use super::stated::Stated;
use super::{OnKernel, Paper, PaperRequest, Part, Repeated};
use evolution::{Base, Evolution, Variant};
use machine::Kernel;
use results::{Evolved, Results};
use searches::Searched;

/// The paper.
pub static PAPER: Paper = Paper {
    name: "ioperf",
    text: include_str!("../../../../papers/ioperf/paper.toml"),
    parts: || PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: Some(OnKernel { host: &["nr_requests"], repeat: live::repeat }),
};

/// Parts that can be requested.
const PARTS: [(&str, &str); 9] = [
    ("fig-1", "Fig. 1: mean productivity per process"),
    ("fig-2", "Fig. 2: mean latency per request"),
    ("fig-3", "Fig. 3: evolution, improvement of the mean productivity per process"),
    ("fig-4", "Fig. 4: evolution, change of the mean latency per request"),
    ("section-6", "Section 6: how many workloads are improved, and by how much"),
    ("variants", "What the paper leaves open, and settings drawn at random"),
    ("lengths", "Tests of 300 s as in the paper beside shorter ones"),
    ("searches", "Other searches, constant settings and ours, on the paper’s kernel"),
    ("today", "The same on today’s kernel"),
];
/// Parts that need all tests of the populations, and parts that need only the first.
const OF_ALL_TESTS: [&str; 5] = ["fig-1", "fig-2", "fig-3", "fig-4", "section-6"];
const OF_FIRST_TESTS: [&str; 2] = ["variants", "lengths"];
/// The paper's length of a test, in seconds.
const TEST_S: u64 = 300;

/// Parts that are shown for a block device of the real kernel.
const LIVE: [(&str, &str); 2] = [
    ("live", "Section 6 on the real kernel: results of searches on a block device"),
    ("five-trials", "Five live trials and an exhaustive search"),
];

fn title(id: &str) -> &'static str {
    PARTS.iter().chain(&LIVE).find(|(part, _)| *part == id).map_or("", |(_, title)| title)
}

/// Extent of the experiments.
#[derive(Clone, Copy, Debug)]
struct Plan {
    is_quick: bool,
    /// Generations bred and tested: as printed, and of each variant.
    generations: usize,
    variant_generations: usize,
    /// Number of workloads per test of a generation.
    tests: usize,
    /// Duration of an individual's evaluation, and of a test, in seconds.
    evaluation_s: u64,
    test_s: u64,
    /// Tests repeated at the paper's duration; and tests repeated under the best constant setting of the lessons.
    long_tests: usize,
    constant_tests: usize,
    /// Lessons before searches are compared: number of workloads, seconds of each under a setting, and number of settings.
    lessons: usize,
    lesson_s: u64,
    bred: usize,
    /// Workloads on which searches are compared.
    workloads: usize,
    /// Number of searches compared, on the paper's kernel and on today's.
    searches: [usize; 2],
    /// Duration of a search including verification, in seconds.
    search_s: u64,
    seed: u64,
}

impl Plan {
    /// The paper's plan except for the duration of tests, or a smaller one.
    fn new(is_quick: bool, seed: u64) -> Plan {
        let full = Plan {
            is_quick,
            // A thousand tests, and a new generation after every twenty.
            generations: 50,
            variant_generations: 8,
            tests: 20,
            evaluation_s: EVALUATION_S,
            // A full run must take at most 20 minutes on two processors, and its cost is simulated seconds. Tests are as long as evaluations; the
            // part `lengths` shows the effect of ten times as long.
            test_s: EVALUATION_S,
            long_tests: 12,
            constant_tests: 400,
            lessons: 12,
            lesson_s: 20,
            bred: 96,
            workloads: 12,
            searches: [5, 1],
            search_s: 480,
            seed,
        };
        if is_quick {
            Plan {
                generations: 3,
                variant_generations: 1,
                tests: 6,
                evaluation_s: 8,
                test_s: 24,
                long_tests: 1,
                constant_tests: usize::MAX,
                lessons: 3,
                lesson_s: 15,
                bred: 24,
                workloads: 2,
                searches: [2, 1],
                search_s: 240,
                ..full
            }
        } else {
            full
        }
    }
}

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan::new(wanted.is_quick, wanted.seed);
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let is_all = OF_ALL_TESTS.iter().any(|id| wants(id));
    let is_evolved = is_all || OF_FIRST_TESTS.iter().any(|id| wants(id));
    let is_searched = wants("searches") || wanted.wants_bars();
    // The constant setting with which populations are compared comes from lessons that searches need anyway.
    let then = Kernel::OF_THE_PAPER;
    let learned = is_searched.then(|| lessons::learn(plan, &then, workers)).transpose()?;
    let constant = learned.as_ref().map(lessons::best_constant).transpose()?.flatten();
    let mut evolved = Evolved::default();
    if is_evolved {
        let all = if is_all { plan.generations } else { plan.variant_generations };
        let bases = Base::run(all * plan.tests, constant.as_ref(), plan, workers)?;
        let variants: &[Variant] = if wants("variants") { &Variant::ALL } else { &[Variant::Printed] };
        for &variant in variants {
            let generations = if variant == Variant::Printed { all } else { plan.variant_generations };
            evolved.variants.push((variant, Evolution::run(variant, &bases[..generations * plan.tests], plan, workers)?));
        }
        if wants("lengths") {
            evolved.long = evolution::longer(&evolved.variants[0].1, plan, workers)?;
        }
    }
    let then = learned.map(|learned| Searched::run(plan, &then, plan.searches[0], learned, workers)).transpose()?;
    let today = (wants("today") || wanted.wants_bars()).then(|| {
        let kernel = Kernel::OF_TODAY;
        let learned = lessons::learn(plan, &kernel, workers)?;
        Searched::run(plan, &kernel, plan.searches[1], learned, workers)
    });
    let today = today.transpose()?;
    let results = Results { evolved: &evolved, then: then.as_ref(), today: today.as_ref(), stated };
    let curves = results.curves().into_iter().filter(|curves| wants(&curves.id)).collect();
    let tables = results.tables().into_iter().filter(|table| wants(&table.id)).collect();
    let bars = if wanted.wants_bars() { results.bars() } else { Vec::new() };
    let measures = results.measures();
    Ok(Repeated { setup: setup(plan), notes: notes(plan, &results), bars, tables, curves, measures, ..Repeated::default() })
}

fn setup(plan: Plan) -> Vec<(String, String)> {
    let Plan { generations, tests, evaluation_s, test_s, .. } = plan;
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
                "{generations} of {POPULATION} individuals, each evaluated for {evaluation_s} s (the paper: {EVALUATION_S} s); each generation is \
                 tested on {tests} workloads of {test_s} s, the first {} s of which are not judged (the paper: {TEST_S} s; what that changes is in the \
                 part `lengths`), drawn from another seed than those that it was bred on.",
                machine::SETTLES_S.min(test_s / 3),
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
        let Plan { generations, tests, evaluation_s, workloads, .. } = plan;
        notes.push(format!(
            "A quick run: {} tests in place of 1,000, evaluations of {evaluation_s} s, and {workloads} workloads for the searches in place of 12.",
            generations * tests
        ));
    }
    notes
}
