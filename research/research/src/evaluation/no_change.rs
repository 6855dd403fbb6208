//! What a controller states as measured where nothing changes: drawn loads on a target that applies no setting and says that it did
//! ([`control::target::Placebo`]), an A/A test. A stated 90% interval should contain 0 in nine of ten comparisons.
//!
//! ```text
//! drawn load on a drawn device ─▶ controller ─▶ settings, none applied
//!                                      └──────▶ verdicts ─▶ by test: share of intervals with 0, false gains
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::Arc;

use block::Nanos;
use control::controller::{ControllerChoice, ControllerInput};
use control::target::Placebo;
use control::{Controller, DecisionRecord, Ruling, Target, Verdict};
use observe::Event;
use progress::monitor::Monitor;
use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Serialize;
use sim::run::Watch;
use statistics::{normal, percent};
use testbed::pool::Workers;

use super::case::{self, EvaluationCase, Extent};
use crate::live::{self, Jobs, LiveDevice};
use crate::worlds::Which;
use experiment::comparison::regime;
use experiment::steered::Steered;

/// The version of the JSON's layout.
const SCHEMA: u32 = 1;

/// Budget of a controller that tries everything, in thousandths of a core: the default of `seekwise`.
const BUDGET_PERMILLE: i64 = 10;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct NoChange {
    /// The first seed; the others follow it.
    pub seed: u64,
    /// Number of seeds.
    pub seeds: u32,
    /// Run time of each load of one phase, in seconds.
    pub seconds: u32,
    /// Controllers, as in `--controller`.
    pub controllers: Vec<String>,
    /// Candidate settings, as in `--candidates`.
    pub candidates: Vec<String>,
    /// Whether `seekwise` tries every setting in turn rather than those that are worth it.
    pub tries_everything: bool,
    /// The world to draw from.
    pub world: Which,
}

/// Results.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The version of this layout.
    pub schema: u32,
    /// The program's version.
    pub seekwise_version: String,
    /// Number of loads, each run once under each controller.
    pub loads: usize,
    /// Results by controller and test.
    pub tests: Vec<TestReport>,
    /// All comparisons.
    pub comparisons: Vec<Stated>,
}

/// Comparisons of a controller by one test.
#[derive(Clone, Debug, Serialize)]
pub struct TestReport {
    /// The controller.
    pub controller: String,
    /// The test, as in [`control::Test::name`].
    pub test: String,
    /// Number of comparisons.
    pub comparisons: usize,
    /// Share whose stated 90% interval contains 0, in percent.
    pub holds_zero_percent: f64,
    /// Share whose interval lies above 0, in percent.
    pub above_percent: f64,
    /// Mean stated gain in percent.
    pub mean_gain_percent: f64,
    /// Number of settings kept for a gain that there was not.
    pub kept: usize,
    /// Of those that were kept, those whose interval contains 0.
    pub kept_with_zero: usize,
}

/// A comparison of a setting with itself.
#[derive(Clone, Debug, Serialize)]
pub struct Stated {
    /// The load on its device.
    pub load: String,
    /// The controller.
    pub controller: String,
    /// The test.
    pub test: String,
    /// Time of the verdict in seconds.
    pub at_s: f64,
    /// The setting that was said to be active.
    pub setting: String,
    /// The setting that it was compared with.
    pub over: String,
    /// Stated gain, a difference of scores.
    pub gain: f64,
    /// Stated standard error.
    pub error: f64,
    /// Number of scores of both.
    pub samples: [u32; 2],
    /// Whether the setting was kept.
    pub is_kept: bool,
    /// The stated reason.
    pub why: String,
}

impl Stated {
    /// Half of the width of the 90% interval.
    fn margin(&self) -> f64 {
        normal::ONE_SIDED_95 * self.error
    }
}

impl NoChange {
    /// Runs the loads.
    ///
    /// # Errors
    /// A parameter is invalid, a run fails, or the work was interrupted.
    pub fn measure(&self, workers: Workers) -> anyhow::Result<Report> {
        let extent = Extent { seconds: self.seconds, ..Extent::new(false, Vec::new()) };
        let cases = case::draw_all(self.world.purpose()?, &extent, self.seed, self.seeds, workers)?;
        let (controllers, brief) = self.chosen()?;
        let runs: Vec<_> = cases.iter().flat_map(|case| controllers.iter().map(move |chosen| (case, chosen))).collect();
        let stated = workers.map("loads without a change:", &runs, |((seed, case), chosen)| {
            let controller = self.build(chosen, &ControllerInput { seed: *seed, ..brief.clone() });
            let decisions = without_effect(case, controller, workers)?;
            Ok(stated(&format!("{} on {}", case.name, case.device), chosen, &decisions))
        })?;
        Ok(Report::of(cases.len(), stated.into_iter().flatten().collect()))
    }

    /// Runs this number of drawn loads on a device of the real kernel, whose settings are not touched.
    ///
    /// # Errors
    /// As [`measure`](Self::measure); fio fails, or the device cannot be observed.
    pub fn measure_live(&self, device: &mut dyn LiveDevice, monitor: &dyn Monitor) -> anyhow::Result<Report> {
        let placebo = Placebo::of(device.plant());
        let mut device = Unchanged { device, placebo: placebo.clone() };
        let (controllers, brief) = self.chosen()?;
        let mut comparisons = Vec::new();
        let mut ran = 0;
        monitor.begin(u64::from(self.seeds) * controllers.len() as u64, "loads without a change:");
        for number in 0..self.seeds {
            let seed = self.seed + u64::from(number);
            let jobs = drawn_jobs(seed, f64::from(self.seconds), device.size_bytes());
            for chosen in &controllers {
                let controller = self.build(chosen, &ControllerInput { seed, ..brief.clone() });
                device.placebo = placebo.clone();
                let run = jobs.on(&device.path());
                let steered = live::steer(&mut device, controller, &[run], false, monitor)?;
                comparisons.extend(stated(&format!("load {seed}"), chosen, &steered.decisions));
                ran += 1;
                monitor.progress(ran);
            }
        }
        monitor.end();
        Ok(Report::of(self.seeds as usize, comparisons))
    }

    /// The controllers, and their input without a seed.
    fn chosen(&self) -> anyhow::Result<(Vec<ControllerChoice>, ControllerInput)> {
        let research: Vec<_> = crate::controller::all().collect();
        let controllers = self.controllers.iter().map(|name| regime::controller(name, &research)).collect::<anyhow::Result<_>>()?;
        Ok((controllers, ControllerInput { candidates: regime::candidates(&self.candidates)?, ..ControllerInput::default() }))
    }

    fn build(&self, chosen: &ControllerChoice, input: &ControllerInput) -> Box<dyn Controller> {
        match self.tries_everything {
            true => Box::new(twin::TwinController::new(input, BUDGET_PERMILLE).trying_everything()),
            false => chosen.build(input),
        }
    }
}

/// Runs a load under a controller whose settings are not applied; returns its decisions.
fn without_effect(
    case: &EvaluationCase,
    controller: Box<dyn control::Controller>,
    workers: Workers,
) -> anyhow::Result<Vec<DecisionRecord>> {
    let found = regime::scheduler(regime::FOUND)?;
    let world = &case.world.under(&found);
    let mut steered = Steered::new(controller, &found, &world.device(), None).without_learning().without_effect();
    let watch = Watch { stop: Some(workers.monitor.stop()), ..Watch::default() };
    let ran = case.load.run(world.queue(world.scheduler(&found)), world.host, &watch, Some(&mut steered));
    workers.monitor.check()?;
    ran?;
    Ok(steered.steering().decisions().to_vec())
}

/// Drawn fio jobs: steady, paced, in bursts or thinking; small or large, at random or in order, direct or through the page cache.
fn drawn_jobs(seed: u64, seconds: f64, size_bytes: u64) -> Jobs {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xaa);
    let mut one = |lines: &[&str]| lines.choose(&mut random).map_or(String::new(), |line| (*line).to_owned());
    let mut sections = String::new();
    let processes = 3;
    for number in 0..processes {
        let pattern = one(&[
            "rw=read\nbs=128k",
            "rw=randread\nbs=4k",
            "rw=randread\nbs=16k",
            "rw=write\nbs=128k",
            "rw=randwrite\nbs=8k",
            "rw=randrw\nbs=4k",
        ]);
        let pace = one(&["", "", "rate_iops=40", "thinktime=2000", "thinktime=1500000\nthinktime_blocks=200"]);
        let cached = one(&["direct=1", "direct=1", "direct=0"]);
        sections += &format!("[job{number}]\n{pattern}\n{pace}\n{cached}\n");
    }
    let part_bytes = live::part(size_bytes, processes);
    Jobs { sections, seconds, seed: random.random_range(1..1 << 31), part_bytes, call_bytes: None, logs: false }
}

/// A live device of which only the requests are observed.
struct Unchanged<'a> {
    device: &'a mut dyn LiveDevice,
    placebo: Placebo,
}

impl LiveDevice for Unchanged<'_> {
    fn path(&self) -> String {
        self.device.path()
    }

    fn size_bytes(&self) -> u64 {
        self.device.size_bytes()
    }

    fn facts(&self) -> Vec<(String, String)> {
        self.device.facts()
    }

    fn plant(&mut self) -> &mut dyn Target {
        &mut self.placebo
    }

    fn now(&self) -> Nanos {
        self.device.now()
    }

    fn watch(&mut self, longest: Nanos, out: &mut Vec<Event>) -> anyhow::Result<()> {
        self.device.watch(longest, out)
    }

    fn lost(&self) -> u64 {
        self.device.lost()
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        self.device.settle()
    }

    fn mount(&mut self, file_system: &str) -> anyhow::Result<PathBuf> {
        self.device.mount(file_system)
    }

    fn unmount(&mut self) -> anyhow::Result<()> {
        self.device.unmount()
    }
}

/// The measured comparisons of a run, each once.
fn stated(load: &str, chosen: &ControllerChoice, decisions: &[DecisionRecord]) -> Vec<Stated> {
    let all = decisions.iter().enumerate().filter_map(|(place, one)| {
        let verdict = one.verdict.as_ref().filter(|verdict| verdict.is_measured())?;
        // A change made for a trial has the verdict of the trial's end, which the record of that end has too.
        let is_repeated = |later: &DecisionRecord| later.verdict.as_ref().is_some_and(|same| Arc::ptr_eq(same, verdict));
        (!decisions[place + 1..].iter().any(is_repeated)).then(|| of(load, chosen, one, verdict))
    });
    all.collect()
}

fn of(load: &str, chosen: &ControllerChoice, decision: &DecisionRecord, verdict: &Verdict) -> Stated {
    Stated {
        load: load.to_owned(),
        controller: chosen.label(),
        test: verdict.by.name().to_owned(),
        at_s: decision.at.as_secs_f64(),
        setting: verdict.setting.to_string(),
        over: verdict.over.to_string(),
        gain: verdict.gain.mean,
        error: verdict.gain.error,
        samples: verdict.samples,
        is_kept: verdict.ruling == Ruling::Kept,
        why: decision.why.clone(),
    }
}

fn summary(controller: &str, test: &str, stated: &[&Stated]) -> TestReport {
    let share = |is: &dyn Fn(&Stated) -> bool| 100.0 * stated.iter().filter(|one| is(one)).count() as f64 / stated.len() as f64;
    let kept = || stated.iter().filter(|one| one.is_kept);
    TestReport {
        controller: controller.to_owned(),
        test: test.to_owned(),
        comparisons: stated.len(),
        holds_zero_percent: share(&|one| one.gain.abs() <= one.margin()),
        above_percent: share(&|one| one.gain > one.margin()),
        mean_gain_percent: percent(statistics::mean(stated.iter().map(|one| one.gain)).unwrap_or(0.0)),
        kept: kept().count(),
        kept_with_zero: kept().filter(|one| one.gain <= one.margin()).count(),
    }
}

impl Report {
    fn of(loads: usize, comparisons: Vec<Stated>) -> Report {
        let mut by_test: BTreeMap<(&str, &str), Vec<&Stated>> = BTreeMap::new();
        for one in &comparisons {
            by_test.entry((&one.controller, &one.test)).or_default().push(one);
        }
        let tests = by_test.into_iter().map(|((controller, test), stated)| summary(controller, test, &stated)).collect();
        Report { schema: SCHEMA, seekwise_version: env!("CARGO_PKG_VERSION").to_owned(), loads, tests, comparisons }
    }

    /// The results as a table.
    pub fn text(&self) -> String {
        let mut text = format!("{} loads; no setting was applied.\n\n", self.loads);
        let head = ["controller", "test", "comparisons", "0 in 90% interval", "above 0", "mean gain", "kept"];
        let _ = writeln!(
            text,
            "{:24} {:18} {:>12} {:>18} {:>9} {:>10} {:>5}",
            head[0], head[1], head[2], head[3], head[4], head[5], head[6]
        );
        for one in &self.tests {
            let _ = writeln!(
                text,
                "{:24} {:18} {:>12} {:>17.1}% {:>8.1}% {:>+9.1}% {:>5}",
                one.controller,
                one.test,
                one.comparisons,
                one.holds_zero_percent,
                one.above_percent,
                one.mean_gain_percent,
                one.kept
            );
        }
        text
    }

    /// As JSON.
    ///
    /// # Errors
    /// Never: the report can be written as JSON.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
