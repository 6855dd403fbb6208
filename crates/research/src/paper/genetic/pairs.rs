//! Two workloads one after the other, under every controller.

use std::collections::BTreeMap;

use anyhow::Context;
use block::Nanos;
use control::Setting;
use control::controller::{Controller, ControllerInput, Fixed};
use control::experience::WINDOW;
use observe::Preference;
use twin::controller;

use super::Plan;
use super::convergence::Course;
use experiment::bench::Bench;
use experiment::pool::Workers;
use experiment::shipped;
use experiment::world::Device;

/// FFSB's profiles, as the page calls them, and the job files that stand for them.
pub const WORKLOADS: [(&str, &str); 5] = [
    ("meta-data", "genetic/metadata"),
    ("random reads", "genetic/random-read"),
    ("sequential reads", "genetic/sequential-read"),
    ("sequential writes", "genetic/sequential-write"),
    ("direct I/O", "genetic/direct-io"),
];

const DISK: &str = "sata7200@1";
/// The original setting.
const FOUND: &str = "anticipatory";
const SCHEDULERS: [&str; 4] = ["noop", "anticipatory", "deadline", "cfq"];

/// One workload after another, by their places in [`WORKLOADS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub usize, pub usize);

impl Pair {
    /// Every ordered pair of different ones.
    pub fn all() -> impl Iterator<Item = Pair> {
        let seconds = |first| (0..WORKLOADS.len()).filter(move |second| *second != first).map(move |second| Pair(first, second));
        (0..WORKLOADS.len()).flat_map(seconds)
    }

    /// As the page calls it.
    pub fn name(self) -> String {
        format!("{}, then {}", WORKLOADS[self.0].0, WORKLOADS[self.1].0)
    }
}

/// The pairs that the paper draws.
pub const FIGURES: [(&str, Pair); 6] = [
    ("fig-4", Pair(0, 1)),
    ("fig-5", Pair(3, 1)),
    ("fig-6", Pair(0, 3)),
    ("fig-7", Pair(3, 0)),
    ("fig-8", Pair(4, 1)),
    ("fig-9", Pair(2, 1)),
];

/// Under what a pair is run.
pub struct Under {
    /// As the page calls it.
    pub name: &'static str,
    /// A controller as a person types it; `None` keeps a setting.
    pub controller: Option<&'static str>,
    /// What it may choose among; of a constant setting that.
    schedulers: &'static [&'static str],
}

/// The first [`MAIN`] are run on every pair however quick a run is.
pub const UNDERS: [Under; 10] = [
    Under { name: "default", controller: None, schedulers: &[FOUND] },
    Under { name: "genetic, as the paper’s", controller: Some("genetic:trials=0"), schedulers: &[FOUND] },
    Under { name: "genetic in the twin", controller: Some("genetic:fitness=twin"), schedulers: &SCHEDULERS },
    Under { name: "genetic with an end", controller: Some("genetic"), schedulers: &SCHEDULERS },
    Under { name: "ioperf in the twin", controller: Some("ioperf:fitness=twin"), schedulers: &SCHEDULERS },
    Under { name: "random", controller: Some("random"), schedulers: &SCHEDULERS },
    Under { name: "bayes", controller: Some("bayes"), schedulers: &SCHEDULERS },
    Under { name: "bayes in the twin", controller: Some("bayes:fitness=twin"), schedulers: &SCHEDULERS },
    Under { name: "deadline", controller: None, schedulers: &["deadline"] },
    Under { name: "cfq", controller: None, schedulers: &["cfq"] },
];
/// See [`UNDERS`].
pub const MAIN: usize = 3;
/// Places in [`UNDERS`].
pub const DEFAULT: usize = 0;
pub const AS_THE_PAPERS: usize = 1;
pub const IN_THE_TWIN: usize = 2;

/// How both workloads of a pair went.
pub struct Ran {
    /// The first and the second.
    pub courses: [Course; 2],
    /// Windows' ends in seconds, and the megabytes a second in them.
    pub throughput: Vec<(f64, f64)>,
}

/// What was run.
#[derive(Default)]
pub struct Runs(BTreeMap<(Pair, usize), Ran>);

impl Runs {
    /// Runs pairs under places of [`UNDERS`].
    ///
    /// # Errors
    /// It was interrupted.
    pub fn run(mut wanted: Vec<(Pair, usize)>, plan: Plan, workers: Workers) -> anyhow::Result<Runs> {
        wanted.sort_unstable();
        wanted.dedup();
        let ran = workers.map("workloads in pairs", &wanted, |&(pair, under)| run_one(pair, &UNDERS[under], plan, workers))?;
        Ok(Runs(wanted.into_iter().zip(ran).collect()))
    }

    /// Those that were run in another way: pairs under places of [`UNDERS`].
    pub fn of(runs: BTreeMap<(Pair, usize), Ran>) -> Runs {
        Runs(runs)
    }

    /// A pair under a place of [`UNDERS`].
    pub fn get(&self, pair: Pair, under: usize) -> Option<&Ran> {
        self.0.get(&(pair, under))
    }

    /// How a workload went wherever it was run, first or second.
    pub fn courses(&self, workload: usize, under: usize) -> impl Iterator<Item = (Pair, &Course)> {
        let place = move |pair: &Pair| [pair.0, pair.1].iter().position(|one| *one == workload);
        let of = self.0.iter().filter(move |((_, by), _)| *by == under);
        of.filter_map(move |((pair, _), ran)| Some((*pair, &ran.courses[place(pair)?])))
    }
}

fn run_one(pair: Pair, under: &Under, plan: Plan, workers: Workers) -> anyhow::Result<Ran> {
    let (first, second) = (WORKLOADS[pair.0].1, WORKLOADS[pair.1].1);
    let text = one_after_the_other(first, second, plan.length_s())?;
    let bench = Bench::new(&text, &pair.name(), Device::parse(DISK)?.world()?, plan.seed)?;
    let candidates = under.schedulers.iter().map(|name| Setting::parse(name)).collect::<Result<Vec<_>, _>>()?;
    let (found, controller): (Setting, Box<dyn Controller>) = match under.controller {
        Some(name) => {
            let preference = Preference::new(3, 2, 1)?;
            let brief = ControllerInput { preference, candidates, seed: plan.seed, ..ControllerInput::default() };
            (Setting::parse(FOUND)?, controller::parse(name)?.build(&brief))
        }
        None => {
            let setting = candidates.first().cloned().context("a constant setting is named")?;
            (setting.clone(), Box::new(Fixed::new(setting, WINDOW)))
        }
    };
    let observed = bench.run(&found, controller, false, workers.monitor)?;
    let (mut begins, mut ends) = ([f64::INFINITY; 2], [0.0_f64; 2]);
    for (job, span) in bench.placed().jobs().iter().zip(&observed.spans) {
        let (place, Some(span)) = ((job.phase() as usize).min(1), span) else { continue };
        begins[place] = begins[place].min(span.started.as_secs_f64());
        ends[place] = ends[place].max(span.ended.as_secs_f64());
    }
    let windows = observed.steered.steering().windows();
    let length_s = plan.length_s() as f64;
    let courses = [0, 1].map(|place| Course::of(windows, begins[place], ends[place].min(begins[place] + length_s)));
    let throughput = windows.iter().filter(|window| window.duration() > Nanos::ZERO);
    let throughput = throughput.map(|window| (window.to.as_secs_f64(), window.outcome.judged().0 / 1e6)).collect();
    Ok(Ran { courses, throughput })
}

/// Both job files in one, the second waiting for the first to end, each for this many seconds.
fn one_after_the_other(first: &str, second: &str, seconds: u64) -> anyhow::Result<String> {
    Ok(format!("{}\n{}", sections(first, seconds, "")?, sections(second, seconds, "stonewall\n")?))
}

/// The sections of a job file that comes with the program, each with what is in `[global]`; `first` goes into the first of them.
fn sections(name: &str, seconds: u64, first: &str) -> anyhow::Result<String> {
    let (text, _) = shipped::find(name).with_context(|| format!("{name}: not a built-in workload"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    let (mut global, mut out, mut once, mut is_global) = (String::new(), String::new(), first, false);
    for line in lines {
        if line.starts_with('[') {
            is_global = line == "[global]";
            if !is_global {
                out.push_str(&format!("{line}\n{global}{once}"));
                once = "";
            }
            continue;
        }
        let line = if line.starts_with("runtime=") { format!("runtime={seconds}") } else { line.to_owned() };
        let into = if is_global { &mut global } else { &mut out };
        into.push_str(&format!("{line}\n"));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn every_pair_is_two_job_files_the_second_of_which_waits_for_the_first() {
        assert_eq!(Pair::all().count(), 20);
        for pair in Pair::all() {
            let (first, second) = (WORKLOADS[pair.0].1, WORKLOADS[pair.1].1);
            let text = one_after_the_other(first, second, 7).unwrap();
            let bench = Bench::new(&text, "pair", Device::parse(DISK).unwrap().world().unwrap(), 1).unwrap();
            let phases: Vec<u32> = bench.placed().jobs().iter().map(|job| job.phase()).collect();
            assert!(phases.is_sorted() && phases.contains(&0) && phases.contains(&1) && !phases.contains(&2), "{text}");
            assert!(bench.placed().jobs().iter().all(|job| job.options().runtime == Some(Nanos::from_millis(7_000))));
        }
    }
}
