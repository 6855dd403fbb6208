//! Zhang and Bhargava, Self-Learning Disk Scheduling: schemes that choose among schedulers, on workloads of section 5.

mod bars;
mod figures;
mod judge;
mod live;
mod measures;
mod plan;
mod printed;
mod runs;
mod schemes;

use crate::report::paper::Table;
use observe::{Preference, starvation};
use testbed::pool::Workers;

use super::stated::Stated;
use super::{OnKernel, Paper, PaperRequest, Repeated};
use figures::{Drawing, World};
use plan::{ONLINE, Plan};
use runs::Store;
use schemes::{FOUND, RESPONSE_TIME, SETTINGS};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "self-learning",
    text: include_str!("../../../../papers/self-learning/paper.toml"),
    parts: || figures::ALL.iter().map(Drawing::part).chain([measures::WORK]).collect(),
    takes_trace: false,
    repeat,
    live: Some(OnKernel { host: &[], repeat: live::repeat }),
};

fn repeat(wanted: &PaperRequest, _: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let drawings: Vec<&Drawing> = figures::ALL.iter().filter(|drawing| wanted.wants(&drawing.part())).collect();
    let mut plan = Plan::new(wanted.is_quick, wanted.seed)?;
    plan.measures_cpu = wanted.measures_cpu;
    let mut store = Store::default();
    let (figures, tables, measures, bars) = loop {
        let world = World { plan: &plan, store: &store };
        let figures: Vec<_> = drawings.iter().map(|drawing| drawing.draw(&world)).collect();
        let tables: Vec<Table> = wanted.wants(&measures::WORK).then(|| world.work_table()).into_iter().collect();
        let measures = measures::all(&world, &figures);
        let bars = if wanted.wants_bars() { bars::all(&world) } else { Vec::new() };
        if !store.fill(&plan, workers)? {
            break (figures, tables, measures, bars);
        }
    };
    Ok(Repeated { setup: setup(&plan), notes: notes(&plan), bars, figures, tables, measures, ..Repeated::default() })
}

fn setup(plan: &Plan) -> Vec<(String, String)> {
    let disks: Vec<&str> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
    let measured = [
        (
            "Disk",
            format!(
                "{}: a drive of 7,200 rpm that takes one request at a time, as the paper’s WD2500JD, which had no command queueing; it is \
                 newer and larger than that one{}",
                disks[0],
                disks.get(1).map_or_else(String::new, |second| format!(". {second} is the same drive with its queue of 32"))
            ),
        ),
        ("Length", plan.length_text()),
        ("Repetitions", format!("Tables 4 and 5 × {}, each with other random draws, on the first disk", plan.repeats)),
        (
            "Correct",
            format!(
                "A decision is correct if its setting, run by itself on the same workload, achieves at least as much as the best of the five \
                 fixed schedulers in the phase in which the decision is made (phases are the jobs between stonewalls). As printed, what is \
                 achieved is the throughput of the jobs’ calls, by which the paper ranks with UP(3,2,2). The paper compares with “the regular \
                 disk I/O scheduler”: taken at its word that is Linux 2.6.13’s default, anticipatory, in a panel of its own. The panel “by \
                 merit” weighs throughput, response time and fairness {}, and a setting that starves a stream (p99 response time above {} \
                 times that under {}, and above {} s) ranks last. Every window’s decision counts, including those that keep the setting. \
                 Results within {}% are equal: without chance, several schedulers often differ by less.",
                Preference::default(),
                starvation::BOUND_FACTOR,
                FOUND,
                starvation::LEAST_BOUND_S,
                100.0 * observe::merit::TOLERANCE
            ),
        ),
    ];
    let setting = [
        (
            "Chosen on",
            "Mechanisms and constants of the per-request scheduler were developed on these disks, and earlier versions with these \
             workloads in view. For loads and devices that nothing was chosen on, see `seekwise-lab evaluate`."
                .to_owned(),
        ),
        (
            "File systems",
            "The simulated host places files as ext4 does (fs/ext4 ialloc.c, mballoc.c: block groups, a directory’s files one after another), \
             reads ahead and writes back by the rules of Linux’s page cache, and empties the disk’s write cache at fsync. It has no journal \
             writes, no metadata writes, and no delayed allocation of XFS: what the paper’s Ext3 writes to its journal is missing, and Ext2, Ext3 \
             and XFS cannot be told apart."
                .to_owned(),
        ),
        ("Cross-validation", format!("{} batches, each similar to a workload of Table 4: {}", plan.batches, plan.batches_text())),
        (
            "Schemes",
            format!(
                "The paper’s choose among its five schedulers, the hybrid also Algorithm 3; seekwise among {}. All start from {}.",
                SETTINGS.iter().filter(|name| **name != RESPONSE_TIME).copied().collect::<Vec<_>>().join(", "),
                FOUND
            ),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    let facts = measured.into_iter().chain(schemes()).chain(setting);
    facts.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The training of the paper's schemes, and ours.
fn schemes() -> [(&'static str, String); 4] {
    [
        (
            "Offline training (TCLO)",
            format!(
                "On the disk that is tested: each workload of Table 3 ({}) under each of the six schedulers, every window of 1 s a row of the \
                 log with the workload features of Table 2. A row’s class is the scheduler with the best mean throughput in the phase. No \
                 workload of Tables 4 and 5.",
                plan::TABLE_3.join(", ")
            ),
        ),
        (
            "Online training (TCLOO)",
            format!(
                "The same, and in place of the paper’s day of further workloads, run ten times each: {}, each once under each scheduler, which \
                 is the exploration. It continues to log while it runs, without exploring, and learns again after 1,000,000 requests, scaled. \
                 A window seen while one scheduler is kept is classed by its own throughput beside that of the five most similar rows under \
                 each other scheduler. The classifier’s choice is always followed.",
                ONLINE.join(", ")
            ),
        ),
        (
            "Algorithm 3",
            "As printed: a classifier over the request features of Table 2 (with three previous requests) estimates each request’s response \
             time at its arrival, and the shortest estimate goes first. Trained with the response times of Table 3’s requests under \
             anticipatory, in five classes of equally many; the estimate is the mean of the class."
                .to_owned(),
        ),
        (
            "Ours",
            "two-layer: the same scheme with the scheduler per-request, which models the disk’s mechanics, in the place of Algorithm 3; it \
             follows its classifier only if that is sure enough, judges each change, and learns one case from each run. seekwise: its twin is \
             fitted to the disk and the load at run time, without training. Beside the paper’s statements stands per-request, kept from \
             beginning to end."
                .to_owned(),
        ),
    ]
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "The schemes of the paper are trained and tested on one disk here, as they were there. That says nothing about other disks: \
         `seekwise-lab evaluate` trains on some devices and families of loads and examines on others."
            .to_owned(),
        "The paper ran Linux 2.6.13 on one real disk of 2004; this is a simulation. Its figures are printed without numbers: only what its \
         text states is compared with ours, and other bars are not given."
            .to_owned(),
    ];
    if plan.repeats == 1 {
        notes.push(
            "A quick run: one disk, runs of less than half the length, each workload once, and windows compared in runs of half a minute. The time \
             that seekwise takes to learn is not shortened with the runs.".to_owned(),
        );
    }
    notes
}
