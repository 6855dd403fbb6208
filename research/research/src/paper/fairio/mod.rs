//! Arunagiri, Kwok, Teller, Portillo and Seelam, A Heuristic for Selecting the Cycle Length for FAIRIO: weighted shares of an array's disk
//! time, and how they depend on the cycle length.

mod array;
mod bars;
mod cases;
mod cycles;
mod drawn;
mod plan;
mod printed;
mod results;
mod runs;
mod shares;
mod tables;
mod traces;

use super::stated::Stated;
use super::{Paper, PaperRequest, Part, Repeated};
use cases::FairioCase;
use plan::Plan;
use results::Results;
use runs::Runs;
use testbed::pool::Workers;

/// The report.
pub static PAPER: Paper = Paper {
    name: "fairio",
    text: include_str!("../../../../papers/fairio/paper.toml"),
    parts: || tables::PARTS.iter().map(|&(id, title)| Part { id, title, is_cpu: false }).collect(),
    takes_trace: false,
    repeat,
    live: None,
};

fn repeat(wanted: &PaperRequest, stated: &Stated, workers: Workers) -> anyhow::Result<Repeated> {
    let plan = Plan { is_quick: wanted.is_quick, seed: wanted.seed };
    let wants = |id: &str| wanted.only.is_empty() || wanted.only.iter().any(|only| only == id);
    let wants_or_bars = |id: &str| wants(id) || wanted.wants_bars();
    let trials = tables::trials(&plan, wants_or_bars);
    let place = |trial: &FairioCase| if let FairioCase::Trace(place) = trial { Some(*place) } else { None };
    let traces = traces::record(&plan, &trials.iter().filter_map(place).collect::<Vec<_>>(), workers)?;
    let mut runs = Runs::new();
    plan.run(tables::unshared(&trials, wants_or_bars), &traces, &mut runs, workers)?;
    plan.run(tables::shared(&trials, &plan, &runs, stated, wants_or_bars), &traces, &mut runs, workers)?;
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
            "As printed",
            "The report’s FAIRIO (sections I to IV): cycles by the clock, a window of r = 20 cycles, Class_threshold = 1, StorageLoad_threshold = \
             16, dispatch from a unified list in order of arrival, a controller with a queue without end. The report has no pseudo-code: the \
             table “readings” varies what it leaves open."
                .to_owned(),
        ),
        (
            "Ours",
            "The scheduler fairio: a cycle ends when its disk time is used, accounts are exact over all cycles, and the cycle is adaptive \
             (cycle_ms=0) unless one is given."
                .to_owned(),
        ),
        (
            "Array",
            "Eight ibm18es in RAID 0; each disk has an SSTF queue of 16 and no cache but a segment for the data in transfer. The report prints no \
             stripe unit: 2 KiB is inferred. Its disk time of a request is about 70 ms, 9 ms on each of eight disks, in all six benchmarks, \
             and varmail’s requests are of 16 KiB."
                .to_owned(),
        ),
        (
            "Illustrations",
            "As in section II: a request of each class every 10 ms, whether or not earlier ones are done; class 1 reads 64 KiB at \
             random, or as equations (i) and (ii) say; class 2 reads 64 KiB in order; weights 1 and 2."
                .to_owned(),
        ),
        (
            "Benchmarks",
            "Rebuilt from Table IV as job files (`seekwise workload list`), each with four classes; requests to the array are of at most 64 KiB, \
             as their disk time says. The report’s traces are not available. As in the report, a trace is recorded of each class alone, here on \
             this array, and all four are replayed by the clock, each on a quarter of the array, in extents of 1 MiB all over it (inferred from the printed disk times; see “places”). The \
             table “closed” has the same processes side by \
             side, where they wait for their requests."
                .to_owned(),
        ),
        (
            "Weights of the benchmarks",
            "1, 1, 2 and 2, inferred. With the printed disk times and numbers of requests, equation 3 gives the printed cycles if all weights \
             together are 6 times the lightest, in all six rows; and two classes had the higher weights. The table “weights” has others."
                .to_owned(),
        ),
        (
            "Error",
            "Of a class: its share of the disk time less its share of the weights, in points. In the illustrations until the last request arrives, \
             and in traces too, where DiskSim ends a run; with processes until the first class has 98% of its requests done. Of a workload: \
             that of the class with the largest."
                .to_owned(),
        ),
        ("Seed", plan.seed.to_string()),
    ];
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

fn notes(plan: &Plan) -> Vec<String> {
    let mut notes = vec![
        "Why the error falls with the cycle: surplus service keeps 16 requests at the storage, is dispatched in order of arrival, and is not \
         counted against shares. A cycle of 100 ms has room for 11 requests, so that nearly all are surplus and class 1 gets what it gets \
         without shares; a cycle of 3,000 ms has room for 340. With another StorageLoad_threshold the error changes in proportion (“readings”)."
            .to_owned(),
        "The benchmarks are built from descriptions in a table; whether they are as stable and as demanding as the report’s traces is unknown. \
         Compare errors workload by workload only with care, and throughput only among the schedulers here."
            .to_owned(),
        "A workload whose classes have no requests for part of the time cannot use its shares, and others use the rest unless disks are left \
         idle. The report says so of MADbench2. Bars count workloads whose classes have requests in at least 99% of the time."
            .to_owned(),
    ];
    if plan.is_quick {
        notes.push(
            "A quick run: two repetitions of the illustrations in place of five, and three cycles of each reading in place of five; a quarter of the \
             benchmarks’ time, five of their fourteen fixed cycles, and traces of 20 s at most, a few cycles, whose errors are larger; five drawn workloads of twenty."
                .to_owned(),
        );
    }
    notes
}
