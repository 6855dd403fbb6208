//! Arunagiri, Kwok, Teller, Portillo and Seelam, A Heuristic for Selecting the Cycle Length for FAIRIO: shares of an array's disk time, by
//! the length of a cycle.

mod array;
mod bars;
mod runs;
mod shares;
mod tables;

use super::stated::Stated;
use super::{Paper, PaperRequest, Part, Repeated};
use experiment::pool::Workers;
use runs::{Plan, Runs};
use tables::Results;

/// The report.
pub static PAPER: Paper = Paper {
    name: "fairio",
    text: include_str!("../../../../../papers/fairio/paper.toml"),
    parts: || tables::PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: None,
};

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan { is_quick: wanted.is_quick, seed: wanted.seed };
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let trials = tables::trials(|id| wants(id) || wanted.wants_bars());
    let mut runs = Runs::new();
    plan.run(tables::unshared(&trials), &mut runs, workers)?;
    plan.run(tables::shared(&trials, &plan, &runs, stated), &mut runs, workers)?;
    let results = Results { plan, runs: &runs, stated };
    let tables = tables::all(&results).into_iter().filter(|table| wants(&table.id)).collect();
    let figures = tables::peers(&results).into_iter().filter(|figure| wants(&figure.id)).collect();
    let bars = if wanted.wants_bars() { bars::all(&results) } else { Vec::new() };
    let measures = results.measures();
    Ok(Repeated { setup: setup(&plan), notes: notes(&plan), bars, figures, tables, measures, ..Repeated::default() })
}

fn setup(plan: &Plan) -> Vec<(String, String)> {
    let facts = [
        (
            "Array",
            "Eight ibm18es in RAID 0; each disk has an SSTF queue of 16 and no cache but a segment for what is on its way. The report says \
             so much; it does not say the stripe unit. 8 KiB is ours: the printed disk time of a request, 70 ms, is 9 ms on each of eight \
             disks, so that a request of 64 KiB must lie on all of them."
                .to_owned(),
        ),
        (
            "Illustrations",
            "As in section II: a request of each class every 10 ms, whether or not the ones before are done; class 1 reads 64 KiB at \
             random, or as equations (i) and (ii) say; class 2 reads 64 KiB in order; weights 1 and 2."
                .to_owned(),
        ),
        (
            "Benchmarks",
            "Rebuilt from Table IV as job files (`seekwise workload list`), each with four classes; every request to the array is of at \
             most 64 KiB, as its disk time says. The report’s traces cannot be had, and were replayed by the clock; here the processes \
             wait for what they asked for."
                .to_owned(),
        ),
        (
            "Weights of the benchmarks",
            "1, 1, 2 and 2. The report does not print them. With the printed disk times and numbers of requests, equation 3 gives the \
             printed cycles if all classes together weigh 6 times as much as the lightest, in all six rows; and it says that two classes \
             had the higher weights."
                .to_owned(),
        ),
        (
            "Error",
            "Of a class: its part of the time that the disks worked for any class, less its weight’s part of all weights, in points, from \
             the beginning until the first class has 98% of its requests done. Of a workload: that of the class with the largest."
                .to_owned(),
        ),
        (
            "Parameters",
            "r = 20, Class_threshold = 1, StorageLoad_threshold = 16, as in the report. Adaptive: fairio chooses its cycle from the requests; \
             nothing was told to it."
                .to_owned(),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "The benchmarks are built from a table’s descriptions: that they are as stable, and as demanding, as the report’s traces nobody \
         knows. Errors can be compared, workload by workload only with care; throughput only among the schedulers here."
            .to_owned(),
        "A workload whose classes are silent for a part of the time cannot use its shares; what the others then take of them is no fault of \
         a scheduler’s that leaves no disk idle. The report says so of MADbench2. Bars count those whose classes want something in at least \
         99% of the time."
            .to_owned(),
    ];
    if plan.is_quick {
        notes.push("A quick run: a quarter of the requests and of the time, and five of the fourteen cycle lengths.".to_owned());
    }
    notes
}
