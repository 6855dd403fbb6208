//! Zhang and Bhargava, Self-Learning Disk Scheduling: schemes that choose among schedulers, on workloads of section 5.

mod bars;
mod figures;
mod judge;
mod plan;
mod runs;
mod schemes;

use observe::{Preference, merit};

use super::stated::Stated;
use super::{Paper, PaperRequest, Repeated};
use experiment::pool::Workers;
use figures::{Drawing, World};
use plan::{ONLINE, Plan};
use runs::Store;
use schemes::{FOUND, SETTINGS};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "self-learning",
    text: include_str!("../../../../../papers/self-learning/paper.toml"),
    parts: || figures::ALL.iter().map(Drawing::part).collect(),
    takes_trace: false,
    repeat,
    live: None,
};

fn repeat(wanted: &PaperRequest, _: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let drawings: Vec<&Drawing> = figures::ALL.iter().filter(|drawing| wanted.wants(&drawing.part())).collect();
    let mut plan = Plan::new(wanted.is_quick, wanted.seed)?;
    plan.measures_cpu = wanted.measures_cpu;
    let mut store = Store::default();
    let (figures, measures, bars) = loop {
        let world = World { plan: &plan, store: &store };
        let figures: Vec<_> = drawings.iter().map(|drawing| drawing.draw(&world)).collect();
        let measures = world.measures(&figures);
        let bars = if wanted.wants_bars() { bars::all(&world) } else { Vec::new() };
        if !store.fill(&plan, workers)? {
            break (figures, measures, bars);
        }
    };
    Ok(Repeated { setup: setup(&plan), notes: notes(&plan), bars, figures, measures, ..Repeated::default() })
}

fn setup(plan: &Plan) -> Vec<(String, String)> {
    let disks: Vec<&str> = plan.disks.iter().map(|disk| disk.name.as_str()).collect();
    let facts = [
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
        ("Repetitions", format!("Tables 4 and 5 × {}, each with other random draws", plan.repeats)),
        (
            "Correct",
            format!(
                "A decision is correct if its setting, run by itself on the same workload, ranks at least as high as the best of the five \
                 fixed schedulers in the phase in which the decision is made (phases are the jobs between stonewalls). The rank is merit: \
                 throughput, response time and fairness weighted {}, and a setting that starves a stream (p99 response time above {} times \
                 that under {}, and above {} s) ranks last. Throughput and response time are those of the jobs’ own calls; panels named “by \
                 the block layer” use requests to the disk instead, which is what the paper’s schemes log. Every window’s decision counts, \
                 including those that keep the setting. Results within {}% are equal: without chance, several schedulers often differ by \
                 less.",
                Preference::default(),
                merit::BOUND_FACTOR,
                FOUND,
                merit::LEAST_BOUND_S,
                100.0 * observe::merit::TOLERANCE
            ),
        ),
        (
            "Offline training (TCLO)",
            format!(
                "As in the paper, on the disk that is tested: the workloads of Table 3 under each setting ({}), one case from each run. \
                 No workload of Tables 4 and 5.",
                plan::TABLE_3.join(", ")
            ),
        ),
        (
            "Online training (TCLOO)",
            format!(
                "The same, and in place of the paper’s day of further workloads: {}. It continues to learn while it runs.",
                ONLINE.join(", ")
            ),
        ),
        ("Training of seekwise", "None: its twin is fitted to the disk and the load at run time.".to_owned()),
        (
            "Chosen on",
            "Mechanisms and constants of the per-request scheduler were developed on these disks, and earlier versions with these \
             workloads in view. For loads and devices that nothing was chosen on, see `seekwise-lab evaluate`."
                .to_owned(),
        ),
        ("Cross-validation", format!("{} batches, each similar to a workload of Table 4: {}", plan.batches, plan.batches_text())),
        (
            "Schemes",
            format!(
                "The paper’s choose among its five schedulers, the hybrid also the one that learns request by request; seekwise among \
                 {}. All start from {}.",
                SETTINGS.join(", "),
                FOUND
            ),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
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
            "A quick run: one disk, each workload once, half of the batches, and windows compared in runs of a minute.".to_owned(),
        );
    }
    notes
}
