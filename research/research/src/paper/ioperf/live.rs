//! The paper's experiment on a block device of the real kernel: random workloads with fio, and every search tuning the device itself.
//!
//! ```text
//! a workload ─▶ exhaustive search: every setting of a grid, there and back ─▶ the best of it ──┐
//!            ─▶ each search: watches, tries, verifies, ends with a setting ────────────────────┼─▶ in turns, fio's figures
//!            ─▶ the default ───────────────────────────────────────────────────────────────────┘
//! ```
//! The number of workloads is limited by the time.

use std::fmt::Write as _;

use crate::report::paper::{Bar, Cell, Row, Table};
use control::Setting;
use control::controller::ControllerInput;
use control::search::ioperf::Pattern;
use testbed::pool::Workers;
use twin::controller;

use super::super::Repeated;
use super::machine::{Got, pattern, preference};
use super::results::{self, worst};
use super::searches::{Case, Searched};
use super::title;
use crate::live;
use crate::live::{Jobs, LiveDevice, Overall};
use crate::paper::aims::at_least;
use crate::paper::stated::Stated;
use crate::paper::{Clock, OnDevice, PaperRequest};

/// Settings for the exhaustive search: Linux's schedulers, and for those with tunables the main ones at a few values, in all meaningful
/// combinations.
const GRID: [&str; 15] = [
    "none",
    "mq-deadline",
    "mq-deadline:fifo_batch=1",
    "mq-deadline:fifo_batch=64",
    "mq-deadline:writes_starved=8",
    "mq-deadline:fifo_batch=1,writes_starved=8",
    "mq-deadline:fifo_batch=64,writes_starved=8",
    "kyber",
    "kyber:read_lat_nsec=20000000,write_lat_nsec=100000000",
    "bfq",
    "bfq:low_latency=0",
    "bfq:slice_idle=0",
    "bfq:slice_idle=0,low_latency=0",
    "bfq:timeout_sync=500",
    "bfq:low_latency=0,timeout_sync=500",
];

/// Minimum throughput after five trials, in percent of the best of the exhaustive search.
const NEAR: f64 = 95.0;

/// Extent of the experiments per workload.
struct Plan {
    /// Controllers as given on the command line. The first is limited to five trials; bars are judged by it.
    searches: &'static [&'static str],
    grid: &'static [&'static str],
    /// Time limit of a search, in seconds.
    search_s: f64,
    /// Measured seconds of a run, and rounds in which the settings are run in turns.
    seconds: f64,
    rounds: u32,
}

const FULL: Plan = Plan {
    searches: &[
        "bayes:seeds=twin,trials=5,child_ms=4000,turn_ms=3000",
        "bayes:trials=12,turn_ms=3000",
        "genetic:trials=12,turn_ms=3000",
        "genetic:fitness=twin,turn_ms=3000",
        "ioperf:population=6,evaluation_ms=2000,trials=12,turn_ms=3000",
        "random:trials=12,turn_ms=3000",
    ],
    grid: &GRID,
    search_s: 240.0,
    seconds: 3.0,
    rounds: 4,
};

const QUICK: Plan = Plan {
    searches: &["bayes:seeds=twin,trials=5,child_ms=500,turn_ms=600"],
    grid: &["none", "mq-deadline", "kyber", "bfq"],
    search_s: 30.0,
    seconds: 0.5,
    rounds: 2,
};

/// The result of a workload.
struct Ran {
    pattern: Pattern,
    /// The best setting of the grid, and the final setting of each search.
    best: Setting,
    ends: Vec<Setting>,
    /// Duration of the first search in seconds, and whether it completed.
    took_s: f64,
    has_ended: bool,
    /// The first search's explanation.
    why: String,
    /// Measured in turns: under the default, the best of the grid, and the final setting of each search.
    default: Overall,
    of_best: Overall,
    of_ends: Vec<Overall>,
}

impl Ran {
    /// Throughput after five trials, in percent of that under the best of the grid.
    fn near_percent(&self) -> Option<f64> {
        Some(100.0 * self.of_ends.first()?.bytes_per_s / self.of_best.bytes_per_s)
    }
}

/// Repeats the experiment on a device.
///
/// # Errors
/// fio fails, the device cannot be set or observed, or the work was interrupted.
pub fn repeat(
    wanted: &PaperRequest,
    on: &OnDevice,
    stated: &Stated,
    live: &mut dyn LiveDevice,
    workers: Workers,
) -> anyhow::Result<Repeated> {
    let plan = if wanted.is_quick { &QUICK } else { &FULL };
    let mut clock = Clock::new(on.minutes, live.now(), workers.monitor);
    let found = live.plant().setting();
    let mut all: Vec<Ran> = Vec::new();
    let most = if wanted.is_quick { 1 } else { usize::MAX };
    while all.len() < most && clock.has_time_for_another(live.now()) {
        let pattern = pattern("ioperf live", wanted.seed, all.len());
        let came = run_one(&pattern, plan, wanted.seed.wrapping_add(all.len() as u64), live, &clock, workers);
        all.extend(clock.one_more(live.now(), came)?);
    }
    workers.monitor.end();
    let searched = searched(&all, plan, &found);
    let table = Table { id: "live".to_owned(), ..results::compared("live", &searched) };
    let table = with_the_papers(table, stated);
    Ok(Repeated {
        setup: setup(plan, &found, on, live, all.len(), wanted.seed),
        notes: notes(&all).into_iter().chain(clock.failed()).collect(),
        bars: bars(&searched, &all),
        tables: vec![table, near(&all)],
        ..Repeated::default()
    })
}

fn run_one(
    pattern: &Pattern,
    plan: &Plan,
    seed: u64,
    live: &mut dyn LiveDevice,
    clock: &Clock,
    workers: Workers,
) -> anyhow::Result<Ran> {
    let found = live.plant().setting();
    let jobs = Jobs::of_pattern(pattern, live.size_bytes(), plan.seconds);
    let offered = live.plant().schedulers();
    let grid = plan.grid.iter().map(|text| Setting::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let grid: Vec<Setting> = grid.into_iter().filter(|setting| offered.iter().any(|spec| spec.name == setting.spec.name)).collect();
    let tried = live::in_turns(live, &grid, 2, &jobs, workers.monitor)?;
    let of_grid = grid.into_iter().zip(tried.iter().map(|runs| live::mean(runs).map_or(0.0, |got| got.bytes_per_s)));
    let best = of_grid.max_by(|a, b| a.1.total_cmp(&b.1)).map_or_else(|| found.clone(), |(setting, _)| setting);
    clock.show(live.now());
    let (mut ends, mut first) = (Vec::new(), None);
    for name in plan.searches {
        let brief = ControllerInput { preference: preference()?, seed, ..ControllerInput::default() };
        let chosen = controller::parse(name)?.build(&brief);
        let run = jobs.lasting(plan.search_s).on(&live.path());
        let steered = live::steer(live, chosen, &[run], true, workers.monitor)?;
        first = first.or(Some((steered.took_s, steered.has_ended, steered.why)));
        ends.push(steered.ends_with);
        clock.show(live.now());
    }
    let every = [vec![found.clone(), best.clone()], ends.clone()].concat();
    // A setting that several searches chose is run once.
    let mut distinct: Vec<Setting> = Vec::new();
    every.iter().for_each(|setting| {
        if !distinct.contains(setting) {
            distinct.push(setting.clone());
        }
    });
    let got = live::in_turns(live, &distinct, plan.rounds, &jobs, workers.monitor)?;
    let of = |setting: &Setting| {
        let runs = distinct.iter().position(|one| one == setting).and_then(|place| got.get(place));
        runs.and_then(|runs| live::mean(runs)).unwrap_or(Overall { bytes_per_s: 0.0, response_s: f64::INFINITY })
    };
    let (took_s, has_ended, why) = first.unwrap_or_default();
    let (default, of_best, of_ends) = (of(&found), of(&best), ends.iter().map(of).collect());
    Ok(Ran { pattern: *pattern, best, ends, took_s, has_ended, why, default, of_best, of_ends })
}

/// The results in the form of the simulator's searches.
fn searched(all: &[Ran], plan: &Plan, found: &Setting) -> Searched {
    let got = |got: &Overall| Got {
        bytes_per_s: got.bytes_per_s,
        latency_s: got.response_s,
        read_s: None,
        write_s: None,
        positioning: None,
    };
    let case = |ran: &Ran| Case { default: got(&ran.default), got: ran.of_ends.iter().chain([&ran.of_best]).map(got).collect() };
    let names = plan.searches.iter().map(|name| (*name).to_owned()).chain(["best of the exhaustive search".to_owned()]);
    Searched {
        kernel: format!("the real kernel, {found}"),
        names: names.collect(),
        best_constant: None,
        cases: all.iter().map(case).collect(),
    }
}

/// Adds the paper's numbers of section 6 to the row of the search by which bars are judged.
fn with_the_papers(mut table: Table, stated: &Stated) -> Table {
    let columns = ["improved", "improvement", "faster", "reduction"];
    if let Some(row) = table.rows.first_mut() {
        for (cell, column) in row.cells.iter_mut().zip(columns) {
            *cell = cell.with_paper(stated.number("section-6", "all", column));
        }
    }
    table.method = "What each ended with after it steered the device itself, in turns with the default: the real fio’s figures. The last row is \
                    the best of the exhaustive search, measured again. The paper’s numbers are next to the search that bars are judged by."
        .to_owned();
    table
}

/// Throughput after five trials relative to the best of the exhaustive search.
fn near(all: &[Ran]) -> Table {
    let row = |ran: &Ran| {
        let mb_s = |got: &Overall| Some(got.bytes_per_s / 1e6);
        let five = ran.of_ends.first();
        let cells = [mb_s(&ran.default), mb_s(&ran.of_best), five.and_then(mb_s), ran.near_percent(), Some(ran.took_s)];
        Row { name: ran.pattern.to_string(), cells: cells.map(Cell::ours).to_vec() }
    };
    let names = ["default, MB/s", "best of the grid, MB/s", "five trials, MB/s", "of the best, %", "search, s"];
    Table {
        id: "five-trials".to_owned(),
        title: title("five-trials").to_owned(),
        method: "Five settings were tried on the device, the first of which is what was found; the others are what the twin ranked best. The best \
                 of them was verified in turns. Both that and the best of the exhaustive search were then measured in the same turns."
            .to_owned(),
        corner: "workload".to_owned(),
        columns: names.map(|name| Table::column(name, false)).to_vec(),
        rows: all.iter().map(row).collect(),
    }
}

fn bars(searched: &Searched, all: &[Ran]) -> Vec<Bar> {
    let near: Vec<f64> = all.iter().filter_map(Ran::near_percent).collect();
    let count = format!(", {} workloads; the mean is {:.1}%", near.len(), near.iter().sum::<f64>() / near.len().max(1) as f64);
    let value = vec![("five trials".to_owned(), worst(&near))];
    let about = "five live trials: throughput against the best of the exhaustive search, worst workload";
    let mut bars = results::bars("-live", Some(searched));
    bars.push(at_least("five-trials", about, NEAR, value, &count));
    bars
}

fn setup(plan: &Plan, found: &Setting, on: &OnDevice, live: &dyn LiveDevice, workloads: usize, seed: u64) -> Vec<(String, String)> {
    let facts = [
        (
            "Workloads",
            format!(
                "{workloads} workloads, drawn as in Table 1, as many as {} minutes allow; by the real fio past the page cache (direct=1), for \
                 buffered it would be this machine’s memory that is measured. So read_ahead_kb and swappiness decide nothing here and are no genes.",
                on.minutes
            ),
        ),
        ("Default", format!("{found}, which was active.")),
        (
            "Exhaustive search",
            format!("{} settings, {} s each, there and back: {}.", plan.grid.len(), plan.seconds, plan.grid.join("; ")),
        ),
        (
            "Searches",
            format!(
                "Each steers the device itself while the workload runs, for at most {} s: it watches, tries, and verifies its best in turns with the \
                 default. One that comes to no end by then ends with the default.",
                plan.search_s
            ),
        ),
        (
            "In turns",
            format!("{} rounds of {} s for each setting, every second one in the other order.", plan.rounds, plan.seconds),
        ),
        ("Seed", format!("{seed}; runs are real and not reproducible.")),
    ];
    let facts = facts.into_iter().map(|(name, value)| (name.to_owned(), value));
    live.facts().into_iter().chain(facts).collect()
}

/// The settings chosen for each workload.
fn notes(all: &[Ran]) -> Vec<String> {
    let note = |ran: &Ran| {
        let mut text = format!("{}: the best of the exhaustive search is {}", ran.pattern, ran.best);
        if let Some(first) = ran.ends.first() {
            let end = if ran.has_ended { "" } else { ", at the time limit" };
            let _ = write!(text, "; five trials end with {first}{end} ({})", ran.why);
        }
        text + "."
    };
    all.iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn every_setting_of_the_grid_and_every_search_can_be_read() {
        for plan in [&FULL, &QUICK] {
            plan.grid.iter().for_each(|text| assert_eq!(Setting::parse(text).unwrap().to_string(), *text));
            plan.searches.iter().for_each(|name| drop(controller::parse(name).unwrap()));
        }
    }

    #[test]
    fn five_trials_are_judged_by_the_worst_workload() {
        let got = |bytes_per_s| Overall { bytes_per_s, response_s: 0.01 };
        let ran = |five: f64| Ran {
            pattern: Pattern { processes: 1, read_percent: 0, random_percent: 0, request_kib: 4 },
            best: Setting::parse("bfq").unwrap(),
            ends: vec![Setting::parse("kyber").unwrap()],
            took_s: 30.0,
            has_ended: true,
            why: String::new(),
            default: got(1e6),
            of_best: got(2e6),
            of_ends: vec![got(five)],
        };
        let all = [ran(1.98e6), ran(1.5e6)];
        let bars = bars(&searched(&all, &QUICK, &Setting::parse("none").unwrap()), &all);
        let five = bars.iter().find(|bar| bar.id == "five-trials").unwrap();
        assert_eq!((five.percent, five.met), (Some(75.0), Some(false)));
        assert!(five.detail.contains("the mean is 87.0%"), "{}", five.detail);
        assert_eq!(near(&all).rows.len(), 2);
    }
}
