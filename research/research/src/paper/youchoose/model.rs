//! Figures 5 and 7: accuracy of the regression tree for an array, with and without a sample of the workload.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::report::paper::{Bar, Cell, Curves, Line, Plot, Quantity, Row, Table};
use anyhow::Context;
use block::Op;
use rand::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::pool::Workers;
use testbed::synthetic::{Draw, Pattern};

use super::printed::trained;
use super::sharing::table;
use super::title;
use crate::paper::aims::{at_least, at_most};
use crate::paper::stated::Measures;
use experiment::learned_device::errors::{Distribution, Errors, WITHIN};
use experiment::learned_device::page::line;
use experiment::learned_device::{Options, Trained, requests_of, train};

/// The array of section IV.A.
pub const ARRAY: &str = "raid0:disk=barracuda,disks=3";
/// Requests of the stand-in for `WebSearch`; and in a quick run.
const DRAWN: usize = 30_000;
const QUICK_DRAWN: usize = 12_000;
/// Requests of each training trace of a quick run.
const QUICK_REQUESTS: usize = 4_000;
/// Interarrival time of the stand-in in seconds: 9.97 ms, as published for the trace. The results do not depend on it.
const GAP_S: f64 = 0.009_97;

/// Errors of the model on the workload, without and with the sample.
pub struct Accuracy {
    without: Errors,
    with: Errors,
    /// Errors of the paper's model.
    printed: trained::Accuracy,
    /// Description of the workload.
    load: String,
}

/// Trains a model of the array, with a trace of the workload or else the stand-in for `WebSearch`.
///
/// # Errors
/// The trace cannot be used, or the work was interrupted.
pub fn accuracy(is_quick: bool, seed: u64, trace: Option<&Path>, search: &Pattern, workers: Workers) -> anyhow::Result<Accuracy> {
    let folder = tempfile::tempdir().context("cannot create a folder for a trace")?;
    let (path, load) = match trace {
        Some(path) => (path.to_owned(), path.display().to_string()),
        None => (stand_in(folder.path(), search, is_quick, seed)?, "a stand-in for WebSearch".to_owned()),
    };
    let requests = if is_quick { QUICK_REQUESTS } else { Options::default().requests };
    let profile = sim::profile::load(ARRAY)?;
    let workload = requests_of(&path, profile.capacity_sectors(), workers)?;
    let printed = trained::accuracy(&profile, &workload, seed, workers)?;
    let Trained { mut judged, .. } = train(ARRAY, &Options { requests, seed, sample: Some(path), ..Options::default() }, workers)?;
    // The last two were evaluated on the rest of the sample.
    let with = judged.pop().context("no errors with a sample")?.errors;
    let without = judged.pop().context("no errors without a sample")?.errors;
    Ok(Accuracy { without, with, printed, load })
}

/// Writes the stand-in, in the format of the trace that it replaces.
fn stand_in(folder: &Path, pattern: &Pattern, is_quick: bool, seed: u64) -> anyhow::Result<PathBuf> {
    let capacity = sim::profile::load(ARRAY)?.capacity_sectors();
    let mut draw = Draw::new(0..capacity, Xoshiro256PlusPlus::seed_from_u64(seed));
    let mut text = String::new();
    for number in 0..if is_quick { QUICK_DRAWN } else { DRAWN } {
        let drawn = draw.next(pattern);
        let (op, bytes, seconds) = (if drawn.op == Op::Read { 'r' } else { 'w' }, 512 * drawn.sectors, number as f64 * GAP_S);
        writeln!(text, "0,{},{bytes},{op},{seconds:.6}", drawn.lba)?;
    }
    let path = folder.join("web-search.spc");
    std::fs::write(&path, text).context("cannot write a trace")?;
    Ok(path)
}

/// The share of errors within `percent`, in percent; `None` unless `percent` is one of [`WITHIN`].
fn within(distribution: &Distribution, percent: f64) -> Option<f64> {
    let place = WITHIN.iter().position(|within| (100.0 * within - percent).abs() < 1e-6)?;
    Some(100.0 * distribution.within[place])
}

/// The results by which statements about the model are judged.
pub fn measures(accuracy: &Accuracy, measures: &mut Measures) {
    let Accuracy { without, with, printed, .. } = accuracy;
    let of = |with: &Errors, without: &Errors| {
        let [short, long, _] = &with.windows;
        [
            ("request-error", Some(100.0 * with.requests.mean)),
            ("windows-improve", Some(100.0 * (short.mean - long.mean))),
            ("windows-15", within(long, 15.0)),
            ("windows-30", within(&without.windows[1], 30.0)),
            ("sample-improves", Some(100.0 * (without.windows[1].mean - long.mean))),
        ]
    };
    of(&printed.with, &printed.without).into_iter().for_each(|(name, value)| measures.printed(name, value));
    of(with, without).into_iter().for_each(|(name, value)| measures.ours(name, value));
    measures.printed("errors-above", Some(printed.above_percent));
}

/// The errors of models with other features, where the paper leaves them open.
pub fn variations(accuracy: &Accuracy) -> Table {
    let Accuracy { without, with, printed, load } = accuracy;
    let row = |name: &str, errors: &Errors| {
        let [short, long, _] = &errors.windows;
        let cells = [
            Some(100.0 * errors.requests.mean),
            Some(100.0 * short.mean),
            Some(100.0 * long.mean),
            within(long, 15.0),
            within(long, 30.0),
        ];
        Row { name: name.to_owned(), cells: cells.into_iter().chain([Some(100.0 * errors.bias)]).map(Cell::ours).collect() }
    };
    let names =
        ["mean error of requests, %", "of 0.04 s", "of 0.08 s", "0.08 s within 15%, %", "within 30%, %", "bias of the sum, %"];
    Table {
        columns: names.iter().map(|name| Table::column(name, false)).collect(),
        rows: vec![
            row("as printed, with a sample", &printed.with),
            row("… of these, requests that go on where the one before ended", &printed.by_locality[0]),
            row("… and the others", &printed.by_locality[1]),
            row("as printed, without", &printed.without),
            row("as printed and the operation, with a sample", &printed.with_operation),
            row(&format!("as printed, leaves of {} requests, with a sample", trained::LARGE), &printed.large_leaves),
            row("ours, with a sample", with),
            row("ours, without", without),
        ],
        ..table(
            "model",
            "model",
            &format!(
                "{ARRAY}, asked one request at a time by {load}. The tree as printed was grown from {} requests and has {} leaves.",
                printed.size.0, printed.size.1
            ),
        )
    }
}

/// Figures 5 and 7.
pub fn figures(accuracy: &Accuracy) -> Vec<Curves> {
    let Accuracy { without, with, printed, load } = accuracy;
    let plot = |name: &str, lines: Vec<Line>| Plot { name: name.to_owned(), lines };
    let curves = |id: &str, method: String, plots| Curves {
        id: id.to_owned(),
        title: title(id).to_owned(),
        method,
        x: Quantity::ErrorPercent,
        y: Quantity::SharePercent,
        plots,
    };
    let each = [("requests", &with.requests), ("windows of 0.04 s", &with.windows[0]), ("windows of 0.08 s", &with.windows[1])];
    let both = [("with a sample", &with.windows[1]), ("without", &without.windows[1])];
    let of_printed = &printed.with;
    let each_printed = [
        ("requests", &of_printed.requests),
        ("windows of 0.04 s", &of_printed.windows[0]),
        ("windows of 0.08 s", &of_printed.windows[1]),
    ];
    let both_printed = [("with a sample", &of_printed.windows[1]), ("without", &printed.without.windows[1])];
    let lines = |all: &[(&str, &Distribution)]| all.iter().map(|(name, errors)| line(name, errors)).collect();
    let load = format!(
        "{ARRAY}, asked one request at a time by {load}; 5,000 of its requests are the sample, the others are what is judged. The share of \
         errors, without their sign, that are no larger."
    );
    vec![
        curves(
            "fig-5",
            format!("With the sample. {load}"),
            vec![plot("as printed", lines(&each_printed)), plot("ours", lines(&each))],
        ),
        curves(
            "fig-7",
            format!("Windows of 0.08 s. {load}"),
            vec![plot("as printed", lines(&both_printed)), plot("ours", lines(&both))],
        ),
    ]
}

/// Targets for the model.
pub fn bars(accuracy: &Accuracy) -> Vec<Bar> {
    let Accuracy { without, with, load, .. } = accuracy;
    let one = |value: Option<f64>| vec![(load.clone(), value)];
    vec![
        at_most(
            "model-request",
            "mean error of the model for a request, with a sample (the paper: 24%)",
            12.0,
            one(Some(100.0 * with.requests.mean)),
            "",
        ),
        at_least(
            "model-sample",
            "windows of 0.08 s within 15%, with a sample (the paper: more than 85%)",
            95.0,
            one(within(&with.windows[1], 15.0)),
            "",
        ),
        at_least(
            "model-without",
            "windows of 0.08 s within 30%, without a sample (the paper: 80%)",
            90.0,
            one(within(&without.windows[1], 30.0)),
            "",
        ),
    ]
}
