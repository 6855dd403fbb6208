//! The runs that the parts need, and Tables I, II and V with variations of points that the report leaves open.

use crate::report::paper::{Cell, Figure, Panel, Row, Table, Unit};

use super::cases::{BENCHMARKS, FOUR, FairioCase, MADBENCH2, OTHER_WEIGHTS, every_trial};
use super::cycles::{ADAPTIVE, CYCLES, DEMAND_CYCLES, benchmark_cycles, fixed, printed, read_cycles, strict};
use super::plan::Plan;
use super::results::{Results, Spread};
use super::runs::{Run, Runs, SetUp, UNSHARED, USUAL, demand_run};
use super::shares::{Outcome, WINDOWS};
use super::traces::Places;
use crate::paper::stated::Stated;

/// Parts that can be requested.
pub const PARTS: [(&str, &str); 11] = [
    ("table-1", "Table I: error and throughput by cycle length, Illustration 1"),
    ("table-2", "Table II: error and throughput by cycle length, Illustration 2"),
    ("table-5", "Table V: the heuristic’s cycles, six benchmarks"),
    ("readings", "What the report leaves open: errors of class 1 by reading and set-up"),
    ("weights", "Other weights of the benchmarks"),
    ("demand", "MADbench2 with fewer requests of the heavier classes"),
    ("closed", "The benchmarks with processes that wait for their requests"),
    ("drawn", "Workloads drawn at random: fixed cycles against the adaptive one"),
    ("places", "Disk time of a request by stripe unit and places of data"),
    ("peers", "Errors of shares under other schedulers"),
    ("windows", "Shares in windows, response times and idle disks, adaptive cycle"),
];

/// Other schedulers that provide shares.
const PEERS: [&str; 3] = ["mclock", "io-cost", "bfq"];
/// Name of the report's variant in tables.
const PRINTED: &str = "as printed";

/// The report's scheduler, interpreted such that requests count when dispatched.
fn counted_at_dispatch(ms: u32) -> String {
    printed(ms) + READINGS[1].1
}

/// Interpretations of the report and values of its parameters: name, additional tunables, and stripe unit.
const READINGS: [(&str, &str, u32); 14] = [
    (PRINTED, "", USUAL.stripe_unit_kib),
    ("requests count when dispatched", ",charged=dispatch", USUAL.stripe_unit_kib),
    ("recorded: surplus that others lacked", ",ignored=unneeded", USUAL.stripe_unit_kib),
    ("recorded: all surplus", ",ignored=nothing", USUAL.stripe_unit_kib),
    ("StorageLoad_threshold 1", ",storage_load_threshold=1", USUAL.stripe_unit_kib),
    ("StorageLoad_threshold 4", ",storage_load_threshold=4", USUAL.stripe_unit_kib),
    ("StorageLoad_threshold 8", ",storage_load_threshold=8", USUAL.stripe_unit_kib),
    ("StorageLoad_threshold 32", ",storage_load_threshold=32", USUAL.stripe_unit_kib),
    ("Class_threshold 4", ",class_threshold=4", USUAL.stripe_unit_kib),
    ("r = 1", ",window_cycles=1", USUAL.stripe_unit_kib),
    ("r = 100", ",window_cycles=100", USUAL.stripe_unit_kib),
    ("stripe unit 8 KiB", "", 8),
    ("stripe unit 16 KiB", "", 16),
    ("stripe unit 64 KiB", "", 64),
];

/// Set-ups for the part `places`, the usual one first.
const PLACES: [SetUp; 5] = [
    USUAL,
    SetUp { stripe_unit_kib: 4, ..USUAL },
    SetUp { stripe_unit_kib: 8, ..USUAL },
    SetUp { stripe_unit_kib: 64, ..USUAL },
    SetUp { places: Places::Together, ..USUAL },
];

/// Rates of MADbench2's heavier classes, in percent of the capacity of their shares; the recorded rates are more than twice that.
const DEMANDS: [Option<u32>; 4] = [None, Some(100), Some(80), Some(60)];
/// All weights for the part `weights`.
fn all_weights() -> impl Iterator<Item = [u32; 4]> + Clone {
    std::iter::once(FOUR).chain(OTHER_WEIGHTS)
}

/// The workloads that the requested parts need.
pub fn trials(plan: &Plan, wants: impl Fn(&str) -> bool) -> Vec<FairioCase> {
    let all = wants("peers") || wants("windows") || wants("bars");
    let is_wanted = |trial: &FairioCase| match trial {
        FairioCase::Illustration(1) => all || wants("readings") || wants("table-1"),
        FairioCase::Illustration(_) => all || wants("readings") || wants("table-2"),
        FairioCase::Benchmark(_) => all || wants("closed"),
        &trial @ FairioCase::Trace(_) => {
            let of_all = wants("bars") || ["table-5", "weights", "places"].into_iter().any(&wants);
            of_all || trial == MADBENCH2 && wants("demand")
        }
        FairioCase::Drawn(_) => wants("drawn"),
    };
    let drawn = (0..plan.drawn()).map(FairioCase::Drawn);
    let traces = (0..BENCHMARKS.len()).map(FairioCase::Trace);
    every_trial().chain(traces).chain(drawn).filter(is_wanted).collect()
}

/// The runs without shares, which measure the disk time per request.
pub fn unshared(trials: &[FairioCase], wants: impl Fn(&str) -> bool) -> Vec<Run> {
    let of = |set_up: SetUp| {
        let is_wanted = move |trial: &&FairioCase| set_up == USUAL || matches!(trial, FairioCase::Trace(_));
        trials.iter().filter(is_wanted).map(move |&trial| Run::new(trial, UNSHARED).with(set_up))
    };
    PLACES.into_iter().filter(|set_up| *set_up == USUAL || wants("places")).flat_map(of).collect()
}

/// The runs with shares; the heuristic's cycle is computed from the runs without.
pub fn shared(trials: &[FairioCase], plan: &Plan, runs: &Runs, stated: &Stated, wants: impl Fn(&str) -> bool) -> Vec<Run> {
    let results = Results { plan: *plan, runs, stated };
    let mut wanted = Vec::new();
    for &trial in trials {
        if let FairioCase::Drawn(_) = trial {
            let heuristic = results.heuristic_ms(trial).map(printed);
            let both = read_cycles(plan).iter().flat_map(|&ms| [printed(ms), fixed(ms)]);
            wanted.extend(both.chain(heuristic).chain([ADAPTIVE.to_owned()]).map(|under| Run::new(trial, under)));
            continue;
        }
        let peers = PEERS.iter().filter(|_| !matches!(trial, FairioCase::Trace(_)));
        wanted.extend(peers.chain([&ADAPTIVE]).map(|&under| Run::new(trial, under)));
        if let FairioCase::Illustration(_) = trial {
            for repetition in 0..plan.repetitions() {
                let both = CYCLES.iter().flat_map(|&ms| [printed(ms), fixed(ms)]);
                wanted.extend(both.map(|under| Run::new(trial, under).with(SetUp { repetition, ..USUAL })));
            }
            if wants("readings") {
                let of = |reading| read_cycles(plan).iter().map(move |&ms| reading_run(trial, reading, ms));
                wanted.extend(READINGS.iter().flat_map(of));
            }
            continue;
        }
        let Some(ms) = results.heuristic_ms(trial) else { continue };
        wanted.push(Run::new(trial, printed(ms)));
        if let FairioCase::Benchmark(_) = trial {
            wanted.extend(benchmark_cycles(plan).iter().map(|&ms| Run::new(trial, fixed(ms))));
            continue;
        }
        wanted.push(Run::new(trial, counted_at_dispatch(ms)));
        wanted.extend(results.unstable_ms(trial).map(|ms| Run::new(trial, printed(ms))));
        if wants("weights") {
            let runs = all_weights().map(|weights| SetUp { weights, ..USUAL });
            wanted.extend(
                runs.flat_map(|set_up| [printed(ms), ADAPTIVE.to_owned()].map(|under| Run::new(trial, under).with(set_up))),
            );
        }
        if trial == MADBENCH2 {
            let under = DEMAND_CYCLES.into_iter().chain([ms]).map(printed).chain([strict(ms), ADAPTIVE.to_owned()]);
            wanted.extend(under.flat_map(|under| DEMANDS.map(|demand| demand_run(demand, under.clone()))));
        }
    }
    wanted
}

fn reading_run(trial: FairioCase, (_, tunables, stripe_unit_kib): &(&str, &str, u32), ms: u32) -> Run {
    Run::new(trial, printed(ms) + tunables).with(SetUp { stripe_unit_kib: *stripe_unit_kib, ..USUAL })
}

/// All tables for which there are results.
pub fn all(results: &Results) -> Vec<Table> {
    let illustrations =
        [(1, "table-1"), (2, "table-2")].map(|(number, id)| illustration(results, FairioCase::Illustration(number), id));
    let others = [benchmarks(results), readings(results), weights(results), demand(results)];
    let more = [closed(results), drawn(results), places(results), windows(results)];
    illustrations.into_iter().chain(others).chain(more).flatten().collect()
}

/// A table; `None` if it has no rows.
fn table(id: &str, corner: &str, method: &str, columns: Vec<(String, bool)>, rows: Vec<Row>) -> Option<Table> {
    let title = PARTS.iter().find(|(part, _)| *part == id).map_or(id, |(_, title)| title);
    (!rows.is_empty()).then(|| Table {
        id: id.to_owned(),
        title: title.to_owned(),
        method: method.to_owned(),
        corner: corner.to_owned(),
        columns: columns.into_iter().map(|(name, has_ratio)| Table::column(&name, has_ratio)).collect(),
        rows,
    })
}

fn columns<const N: usize>(names: [(&str, bool); N]) -> Vec<(String, bool)> {
    names.map(|(name, has_ratio)| (name.to_owned(), has_ratio)).to_vec()
}

fn illustration(results: &Results, trial: FairioCase, id: &str) -> Option<Table> {
    results.get(trial, UNSHARED)?;
    let row = |name: String, as_printed: &[&Outcome], ours: &[&Outcome]| {
        let paper = |column: &str| results.stated.number(id, &name, column);
        let mean = |of: &[&Outcome], value: &dyn Fn(&Outcome) -> f64| Spread::of(of.iter().map(|outcome| value(outcome)));
        let error = mean(as_printed, &|outcome| outcome.errors[0]);
        let cell = |spread: Option<Spread>| Cell::ours(spread.map(|spread| spread.mean));
        let cells = vec![
            cell(error).with_paper(paper("error-1")),
            cell(mean(as_printed, &|outcome| outcome.errors[1])).with_paper(paper("error-2")),
            cell(mean(as_printed, &|outcome| outcome.throughput_mb_s)).with_paper(paper("throughput")),
            Cell::ours(error.map(|error| error.range())),
            cell(mean(ours, &|outcome| outcome.errors[0])),
            cell(mean(ours, &|outcome| outcome.throughput_mb_s)),
        ];
        Row { name, cells }
    };
    let by_cycle = CYCLES
        .iter()
        .map(|&ms| row(ms.to_string(), &results.repetitions(trial, &printed(ms)), &results.repetitions(trial, &fixed(ms))));
    let others = [ADAPTIVE].into_iter().chain(PEERS).chain([UNSHARED]);
    let others = others.filter_map(|under| {
        let name = if under == ADAPTIVE { "adaptive" } else { under };
        Some(row(name.to_owned(), &[], &[results.get(trial, under)?]))
    });
    let method = "Cycle lengths in ms; the report’s scheduler as printed and, at the right, ours with the same cycle; then ours with an adaptive \
                  cycle, and other schedulers. Means of repetitions with other places of requests; range: the largest error less the smallest. \
                  Until the last request arrives, as DiskSim ends a run with its trace.";
    let columns = columns([
        ("error of class 1, points", false),
        ("of class 2", false),
        ("MB/s", true),
        ("range over repetitions", false),
        ("ours: error of class 1", false),
        ("ours: MB/s", false),
    ]);
    table(id, "cycle", method, columns, by_cycle.chain(others).collect())
}

/// The traces that were run, with their benchmarks' names.
fn of_traces<'a>(results: &'a Results) -> impl Iterator<Item = (FairioCase, &'static str)> + use<'a> {
    let traces = BENCHMARKS.iter().enumerate().map(|(place, (name, _))| (FairioCase::Trace(place), *name));
    traces.filter(|(trial, _)| results.get(*trial, UNSHARED).is_some())
}

fn benchmarks(results: &Results) -> Option<Table> {
    let id = "table-5";
    let row = |(trial, name): (FairioCase, &str)| {
        let paper = |column: &str| results.stated.number(id, name, column);
        let by_heuristic = results.by_heuristic(trial);
        let by_unstable = results.unstable_ms(trial).and_then(|ms| results.get(trial, &printed(ms)));
        let cells = vec![
            Cell::ours(results.get(trial, UNSHARED).map(|outcome| outcome.service_ms)).with_paper(paper("service")),
            Cell::ours(paper("requests")).with_paper(paper("requests")),
            Cell::ours(results.heuristic_ms(trial).map(f64::from)).with_paper(paper("cycle")),
            Cell::ours(by_heuristic.map(Outcome::error)).with_paper(paper("error")),
            Cell::ours(results.heuristic_ms(trial).and_then(|ms| results.get(trial, &counted_at_dispatch(ms))).map(Outcome::error)),
            Cell::ours(results.unstable_ms(trial).map(f64::from)),
            Cell::ours(by_unstable.map(Outcome::error)),
            Cell::ours(results.get(trial, ADAPTIVE).map(Outcome::error)),
        ];
        Row { name: name.to_owned(), cells }
    };
    let method = "Traces by the clock, as printed. The number of requests in equation 3 is the report’s for each workload; the disk time of a \
                  request is measured without shares, as there. The cycle for 17 requests is that of unstable classes. Ours: adaptive cycle.";
    let columns = columns([
        ("disk time of a request, ms", true),
        ("requests", false),
        ("heuristic’s cycle, ms", true),
        ("error with it, points", false),
        ("requests count when dispatched", false),
        ("cycle for 17 requests, ms", false),
        ("error with it", false),
        ("ours: error", false),
    ]);
    table(id, "workload", method, columns, of_traces(results).map(row).collect())
}

fn demand(results: &Results) -> Option<Table> {
    let ms = results.heuristic_ms(MADBENCH2)?;
    let row = |demand_percent: Option<u32>| {
        let get = |under: String| results.runs.get(&demand_run(demand_percent, under));
        let by_heuristic = get(printed(ms))?;
        let cycles = DEMAND_CYCLES.map(|ms| Cell::ours(get(printed(ms)).map(Outcome::error)));
        let error = |class: usize| Cell::ours(by_heuristic.errors.get(class).copied());
        let throughput = |outcome: Option<&Outcome>| Cell::ours(outcome.map(|outcome| outcome.throughput_mb_s));
        let cells = cycles.into_iter().chain((0..FOUR.len()).map(error)).chain([
            throughput(Some(by_heuristic)),
            Cell::ours(get(strict(ms)).map(Outcome::error)),
            throughput(get(strict(ms))),
            Cell::ours(get(ADAPTIVE.to_owned()).map(Outcome::error)),
            throughput(get(ADAPTIVE.to_owned())),
        ]);
        let name = demand_percent.map_or("as recorded".to_owned(), |percent| format!("{percent}%"));
        Some(Row { name, cells: cells.collect() })
    };
    let of_cycles = DEMAND_CYCLES.map(|ms| (format!("error, {ms} ms"), false));
    let classes = (1..=FOUR.len()).map(|class| (format!("{ms} ms: class {class}"), false));
    let others = columns([
        ("MB/s", false),
        ("strict: error", false),
        ("strict: MB/s", false),
        ("ours: error", false),
        ("ours: MB/s", false),
    ]);
    let columns = of_cycles.into_iter().chain(classes).chain(others).collect();
    let method = "Errors in points by the arrival rate of the two heavier classes, in percent of what their shares take. Section IV requires 100%, evenly over \
                  cycles; this trace comes in bursts. Otherwise the lighter classes get the rest, with any cycle. Strict: no surplus service while the storage has requests.";
    table("demand", "rate", method, columns, DEMANDS.into_iter().filter_map(row).collect())
}

fn closed(results: &Results) -> Option<Table> {
    let row = |(trial, name): (FairioCase, String)| {
        let by_heuristic = results.by_heuristic(trial);
        let best = results.best_fixed(trial);
        let adaptive = results.get(trial, ADAPTIVE);
        let cells = vec![
            Cell::ours(results.get(trial, UNSHARED).map(|outcome| outcome.service_ms)),
            Cell::ours(results.heuristic_ms(trial).map(f64::from)),
            Cell::ours(by_heuristic.map(Outcome::error)),
            Cell::ours(by_heuristic.map(|outcome| outcome.wanting_percent)),
            Cell::ours(best.map(|best| best.1)),
            Cell::ours(best.map(|best| f64::from(best.0))),
            Cell::ours(adaptive.map(Outcome::error)),
            Cell::ours(results.best_together(trial).map(|best| best.1)),
            Cell::ours(adaptive.and_then(Outcome::error_together)),
            Cell::ours(results.against_unshared(trial, ADAPTIVE)),
        ];
        Row { name, cells }
    };
    let method = "Processes side by side, each waiting for its requests: classes have few requests pending, so that surplus service is a larger \
                  part. Wanting: the least part of the time in which a class had a request outstanding. While all want: errors of the times in \
                  which every class had one. Ours: fairio with fixed cycles and with an adaptive one.";
    let columns = columns([
        ("disk time of a request, ms", false),
        ("heuristic’s cycle, ms", false),
        ("as printed: error, points", false),
        ("wanting, %", false),
        ("ours: error, best fixed cycle", false),
        ("which is, ms", false),
        ("ours: adaptive cycle", false),
        ("ours, while all want: best fixed cycle", false),
        ("adaptive cycle", false),
        ("ours: throughput, % of unshared", false),
    ]);
    let trials = results.trials().into_iter().filter(|(trial, _)| matches!(trial, FairioCase::Benchmark(_)));
    table("closed", "workload", method, columns, trials.map(row).collect())
}

fn readings(results: &Results) -> Option<Table> {
    let cycles = read_cycles(&results.plan);
    let trials: Vec<(u8, &str, FairioCase)> =
        [(1, "table-1"), (2, "table-2")].map(|(number, id)| (number, id, FairioCase::Illustration(number))).to_vec();
    let row = |reading: &(&str, &str, u32)| {
        let cell = |&(_, id, trial): &(u8, &str, FairioCase), ms: u32| {
            let outcome = results.runs.get(&reading_run(trial, reading, ms));
            let paper = results.stated.number(id, &ms.to_string(), "error-1").filter(|_| reading.0 == PRINTED);
            Cell::ours(outcome.map(|outcome| outcome.errors[0])).with_paper(paper)
        };
        let cells: Vec<Cell> = trials.iter().flat_map(|trial| cycles.iter().map(move |&ms| cell(trial, ms))).collect();
        Row { name: reading.0.to_owned(), cells }
    };
    let mut rows: Vec<Row> = READINGS.iter().map(row).collect();
    let done = |&(_, _, trial): &(u8, &str, FairioCase)| {
        cycles.iter().map(move |&ms| Cell::ours(results.get(trial, &printed(ms)).map(|outcome| outcome.errors_until_done[0])))
    };
    rows.push(Row { name: "until a class is done".to_owned(), cells: trials.iter().flat_map(done).collect() });
    rows.retain(|row| row.cells.iter().any(|cell| cell.ours.is_some()));
    let columns =
        trials.iter().flat_map(|(number, ..)| cycles.iter().map(move |ms| (format!("{number}: {ms} ms"), false))).collect();
    let method = "Errors of class 1 in points, by illustration and cycle. The first row is the reading closest to the report’s words. Surplus \
                  service keeps StorageLoad_threshold requests at the storage; it is dispatched in order of arrival, whatever the weights, and \
                  a short cycle is hardly more than that: so the error falls with the cycle and grows with the threshold.";
    table("readings", "reading", method, columns, rows)
}

fn weights(results: &Results) -> Option<Table> {
    let row = |(trial, name): (FairioCase, &str)| {
        let ms = results.heuristic_ms(trial)?;
        let cell = |weights: [u32; 4], under: String| {
            let outcome = results.runs.get(&Run::new(trial, under).with(SetUp { weights, ..USUAL }));
            Cell::ours(outcome.map(Outcome::error))
        };
        let cells: Vec<Cell> = all_weights()
            .map(|weights| cell(weights, printed(ms)))
            .chain(all_weights().map(|weights| cell(weights, ADAPTIVE.to_owned())))
            .collect();
        let is_run = cells.iter().all(|cell| cell.ours.is_some());
        is_run.then_some(Row { name: name.to_owned(), cells })
    };
    let names = |who: &'static str| {
        all_weights().map(move |weights| (format!("{who}{}", weights.map(|it| it.to_string()).join(", ")), false))
    };
    let columns = names("weights ").chain(names("ours: ")).collect();
    let method = "Errors in points with the heuristic’s cycle, as printed, and of ours with an adaptive cycle. The report prints no weights; all \
                  of these are together six times the lightest, as its cycles require.";
    table("weights", "workload", method, columns, of_traces(results).filter_map(row).collect())
}

fn drawn(results: &Results) -> Option<Table> {
    let (cycles, together) = (read_cycles(&results.plan), Outcome::error_together);
    let row = |number: u32| {
        let trial = FairioCase::Drawn(number);
        let unshared = results.get(trial, UNSHARED)?;
        let adaptive = results.get(trial, ADAPTIVE)?;
        let heuristic = results.heuristic_ms(trial)?;
        let as_printed = [together(unshared), Some(f64::from(heuristic)), results.by_heuristic(trial).and_then(together)];
        let best_printed = results.best_among(trial, cycles, printed, together).map(|best| best.1);
        let best = results.best_among(trial, cycles, fixed, together).map(|best| best.1);
        let above = |error: Option<f64>| error.zip(best).map(|(error, best)| error - best);
        let by_cycle = cycles.iter().map(|&ms| above(results.get(trial, &fixed(ms)).and_then(together)));
        let shortest = cycles.first().and_then(|&ms| results.against_unshared(trial, &fixed(ms)));
        let ours = [above(together(adaptive)), results.against_unshared(trial, ADAPTIVE), shortest];
        let values = [Some(unshared.errors.len() as f64)].into_iter().chain(as_printed).chain([best_printed, best]);
        let cells = values.chain(by_cycle).chain(ours).map(Cell::ours).collect();
        Some(Row { name: format!("drawn {}", number + 1), cells })
    };
    let mut rows: Vec<Row> = (0..results.plan.drawn()).filter_map(row).collect();
    if let Some(first) = rows.first() {
        let mean = |column: usize| {
            let known: Vec<f64> = rows.iter().filter_map(|row| row.cells[column].ours).collect();
            Cell::ours(Spread::of(known.into_iter()).map(|spread| spread.mean))
        };
        let cells = (0..first.cells.len()).map(mean).collect();
        rows.push(Row { name: "mean".to_owned(), cells });
    }
    let mut names = columns([
        ("classes", false),
        ("error without shares, points", false),
        ("cycle of equation 3, ms", false),
        ("as printed: error with it", false),
        ("as printed: best fixed cycle", false),
        ("ours: best fixed cycle", false),
    ]);
    names.extend(cycles.iter().map(|ms| (format!("above that: {ms} ms"), false)));
    names.extend(columns([
        ("above that: adaptive cycle", false),
        ("throughput with it, % of unshared", false),
        ("throughput with the shortest, %", false),
    ]));
    let method = "Classes, weights, sizes, places and arrival are drawn; half of the classes change them up to five times in 60 s. Errors while all \
                  classes have requests; some have too few at a time for their share of eight disks. The best fixed cycle is known only afterwards: \
                  “above that” is the regret of a cycle. Equation 3 with 85 requests of a stable class and 17 of another.";
    table("drawn", "workload", method, names, rows)
}

fn places(results: &Results) -> Option<Table> {
    let row = |(trial, name): (FairioCase, &str)| {
        let cell = |set_up: SetUp| {
            let outcome = results.runs.get(&Run::new(trial, UNSHARED).with(set_up));
            Cell::ours(outcome.map(|outcome| outcome.service_ms)).with_paper(results.stated.number("table-5", name, "service"))
        };
        let cells = PLACES.map(cell).to_vec();
        let is_run = cells.iter().all(|cell| cell.ours.is_some());
        is_run.then_some(Row { name: name.to_owned(), cells })
    };
    let name = |set_up: SetUp| match set_up.places {
        Places::Extents => format!("{} KiB, ms", set_up.stripe_unit_kib),
        Places::Together => format!("{} KiB, files together, ms", set_up.stripe_unit_kib),
    };
    let columns = PLACES.map(|set_up| (name(set_up), true)).to_vec();
    let method = "Disk time of a request, summed over the eight disks, without shares, by stripe unit; data in extents of 1 MiB all over a quarter of \
                  the array, or one file after the other. The report prints 69 to 74 ms for all six: in varmail, whose requests are of 16 KiB, they \
                  have to be on all eight disks, and in sequential ones data have to be all over.";
    table("places", "workload", method, columns, of_traces(results).filter_map(row).collect())
}

fn windows(results: &Results) -> Option<Table> {
    let row = |(trial, name): (FairioCase, String)| {
        let outcome = results.get(trial, ADAPTIVE)?;
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
    let method = "Of consecutive windows, the largest error of a class that 99% of them do not exceed. Response times are those of the \
                  class with the longest; the illustrations have more requests than the disks can serve, so that theirs grow with the run.";
    table("windows", "workload", method, columns(names.map(|name| (name, false))), rows)
}

/// Errors under every scheduler with shares, and under the one without; the second panel shows throughput.
pub fn peers(results: &Results) -> Vec<Figure> {
    let schedulers: Vec<&str> = [PRINTED, ADAPTIVE].into_iter().chain(PEERS).chain([UNSHARED]).collect();
    let trials = results.trials();
    let values = |of: &dyn Fn(Option<&Outcome>) -> Option<f64>| {
        let outcome = |trial, under: &str| if under == PRINTED { results.by_heuristic(trial) } else { results.get(trial, under) };
        trials.iter().map(|(trial, _)| schedulers.iter().map(|under| of(outcome(*trial, under))).collect()).collect()
    };
    let panel = |name: &str, values| Panel { name: name.to_owned(), values };
    if trials.is_empty() {
        return Vec::new();
    }
    let title = PARTS.iter().find(|(part, _)| *part == "peers").map_or("", |(_, title)| title);
    vec![Figure {
        title: title.to_owned(),
        method: "The same runs under other schedulers that share: mclock by requests, io-cost by a linear model of their cost, bfq by \
                 sectors; noop does not share. None of them guarantees disk time: the figure shows what that guarantee is worth, not how good \
                 they are at theirs. As printed: with the report’s best cycle of an illustration, and the heuristic’s of a benchmark."
            .to_owned(),
        unit: Unit::ShareErrorPercent,
        series: schedulers.iter().map(|&under| if under == ADAPTIVE { "fairio" } else { under }.to_owned()).collect(),
        groups: trials.iter().map(|(_, name)| name.clone()).collect(),
        panels: vec![
            panel("error, points", values(&|outcome| outcome.map(Outcome::error))),
            panel("throughput, MB/s", values(&|outcome| outcome.map(|outcome| outcome.throughput_mb_s))),
        ],
        ..Figure::new("peers")
    }]
}
