//! Pairs of consecutive workloads under every controller.

use std::collections::BTreeMap;

use anyhow::Context;
use block::Nanos;
use control::Setting;
use control::controller::{Controller, ControllerInput, Fixed};
use observe::Preference;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::world::Device;
use twin::controller;

use super::convergence::Course;
use super::library::{CHILD, Library, Variant};
use experiment::bench::Bench;

/// Workloads: the name on the page, and the job file. The first [`OF_PAPER`] stand for FFSB's profiles; the others are ours, for which a gene of
/// the library or the scheduler is decisive, or which do not change: their files are in [`OURS`].
pub const WORKLOADS: [(&str, &str); 9] = [
    ("meta-data", "genetic/metadata"),
    ("random reads", "genetic/random-read"),
    ("sequential reads", "genetic/sequential-read"),
    ("sequential writes", "genetic/sequential-write"),
    ("direct I/O", "genetic/direct-io"),
    ("thinking readers", "thinking-readers"),
    ("reads beside writes", "reads-beside-writes"),
    ("direct readers and writers", "direct-readers-and-writers"),
    ("random reads of large files", "random-reads-of-large-files"),
];
const OURS: [(&str, &str); 4] = [
    ("thinking-readers", include_str!("thinking-readers.fio")),
    ("reads-beside-writes", include_str!("reads-beside-writes.fio")),
    ("direct-readers-and-writers", include_str!("direct-readers-and-writers.fio")),
    ("random-reads-of-large-files", include_str!("random-reads-of-large-files.fio")),
];
/// Number of the paper's profiles at the start of [`WORKLOADS`].
pub const OF_PAPER: usize = 5;

const DISK: &str = "sata7200@1";
const SCHEDULERS: [&str; 4] = ["noop", "anticipatory", "deadline", "cfq"];

/// Two consecutive workloads, by index in [`WORKLOADS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pair(pub usize, pub usize);

impl Pair {
    /// Every ordered pair of different profiles of the paper.
    pub fn all() -> impl Iterator<Item = Pair> {
        let seconds = |first| (0..OF_PAPER).filter(move |second| *second != first).map(move |second| Pair(first, second));
        (0..OF_PAPER).flat_map(seconds)
    }

    /// Pairs of each of our workloads with random reads, in both orders.
    pub fn ours() -> impl Iterator<Item = Pair> {
        (OF_PAPER..WORKLOADS.len()).flat_map(|workload| [Pair(workload, 1), Pair(1, workload)])
    }

    /// The name on the page.
    pub fn name(self) -> String {
        format!("{}, then {}", WORKLOADS[self.0].0, WORKLOADS[self.1].0)
    }
}

/// The pairs in the paper's figures.
pub const FIGURES: [(&str, Pair); 6] = [
    ("fig-4", Pair(0, 1)),
    ("fig-5", Pair(3, 1)),
    ("fig-6", Pair(0, 3)),
    ("fig-7", Pair(3, 0)),
    ("fig-8", Pair(4, 1)),
    ("fig-9", Pair(2, 1)),
];

/// The controller that changes settings during a run.
#[derive(Clone, Copy, Debug)]
pub enum By {
    /// None: the default stays active.
    Constant,
    /// The library as published, tuning the scheduler.
    Library(Variant),
    /// A controller as given on the command line, choosing among these schedulers.
    Search(&'static str, &'static [&'static str]),
}

/// A controller and the initial setting.
pub struct Under {
    /// The name on the page.
    pub name: &'static str,
    /// The initial scheduler, with default tunables.
    pub scheduler: &'static str,
    /// The controller.
    pub by: By,
}

const fn under(name: &'static str, scheduler: &'static str, by: By) -> Under {
    Under { name, scheduler, by }
}

/// The first [`MAIN`] are run on every pair, those up to [`OF_DRAWN`] on the pairs in the paper's figures, the others where a gene is decisive.
pub const UNDERS: [Under; 16] = [
    under("default", "anticipatory", By::Constant),
    under("library as printed", "anticipatory", By::Library(Variant::PRINTED)),
    under("genetic in the twin", "anticipatory", By::Search("genetic:fitness=twin", &SCHEDULERS)),
    under("mq-deadline", "mq-deadline", By::Constant),
    under("library on mq-deadline", "mq-deadline", By::Library(Variant::PRINTED)),
    under("bfq", "bfq", By::Constant),
    under("library on bfq", "bfq", By::Library(Variant::PRINTED)),
    under("library, one phenotype (0.2)", "anticipatory", By::Library(Variant::RELEASE_0_2)),
    under("library, wide ranges", "anticipatory", By::Library(Variant::IN_WIDE_RANGES)),
    under("genetic with an end", "anticipatory", By::Search("genetic", &SCHEDULERS)),
    under("ioperf in the twin", "anticipatory", By::Search("ioperf:fitness=twin", &SCHEDULERS)),
    under("random", "anticipatory", By::Search("random", &SCHEDULERS)),
    under("bayes", "anticipatory", By::Search("bayes", &SCHEDULERS)),
    under("bayes in the twin", "anticipatory", By::Search("bayes:fitness=twin", &SCHEDULERS)),
    under("deadline", "deadline", By::Constant),
    under("cfq", "cfq", By::Constant),
];
/// See [`UNDERS`].
pub const MAIN: usize = 3;
/// The first this many are run in a full run on the pairs in the paper's figures: other schedulers, not variants of the library.
pub const OF_DRAWN: usize = 7;
pub const VARIANTS: usize = 9;
/// Indices in [`UNDERS`].
pub const DEFAULT: usize = 0;
pub const PRINTED: usize = 1;
pub const IN_THE_TWIN: usize = 2;

/// Index in [`UNDERS`] of the constant default with the same initial scheduler.
pub fn default_of(under: usize) -> usize {
    let is_default = |one: &Under| matches!(one.by, By::Constant) && one.scheduler == UNDERS[under].scheduler;
    UNDERS.iter().position(is_default).unwrap_or(DEFAULT)
}

/// Results of a pair.
#[derive(Clone)]
pub struct Ran {
    /// Throughput of the first and of the second workload.
    pub courses: [Course; 2],
    /// The end of each window in seconds, and the throughput in it in megabytes per second.
    pub throughput: Vec<(f64, f64)>,
}

/// Results by pair and index in [`UNDERS`].
#[derive(Default)]
pub struct Runs(BTreeMap<(Pair, usize), Ran>);

/// Duration and seed of each workload of a pair.
#[derive(Clone, Copy, Debug)]
pub struct Length {
    /// Duration of each workload in seconds.
    pub seconds: u64,
    /// Seed of requests and of the genetic search.
    pub seed: u64,
}

impl Runs {
    /// Runs pairs, each with an index in [`UNDERS`].
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn run(mut wanted: Vec<(Pair, usize)>, length: Length, workers: Workers) -> anyhow::Result<Runs> {
        wanted.sort_unstable();
        wanted.dedup();
        let what = format!("pairs of workloads, {} s each", length.seconds);
        let ran = workers.map(&what, &wanted, |&(pair, under)| run_one(pair, &UNDERS[under], length, workers))?;
        Ok(Runs(wanted.into_iter().zip(ran).collect()))
    }

    /// Results that were measured elsewhere, by pair and index in [`UNDERS`].
    pub fn of(runs: BTreeMap<(Pair, usize), Ran>) -> Runs {
        Runs(runs)
    }

    /// Adds other results, which replace existing ones.
    pub fn and(mut self, others: Runs) -> Runs {
        self.0.extend(others.0);
        self
    }

    /// Results of a pair under a controller, by index in [`UNDERS`]; `None` if it was not run.
    pub fn get(&self, pair: Pair, under: usize) -> Option<&Ran> {
        self.0.get(&(pair, under))
    }

    /// The subset for these keys; those without results are omitted.
    pub fn only(&self, wanted: &[(Pair, usize)]) -> Runs {
        Runs(wanted.iter().filter_map(|key| Some((*key, self.0.get(key)?.clone()))).collect())
    }

    /// Throughput of a workload in every pair that contains it.
    pub fn courses(&self, workload: usize, under: usize) -> impl Iterator<Item = (Pair, &Course)> {
        let place = move |pair: &Pair| [pair.0, pair.1].iter().position(|one| *one == workload);
        let of = self.0.iter().filter(move |((_, by), _)| *by == under);
        of.filter_map(move |((pair, _), ran)| Some((*pair, &ran.courses[place(pair)?])))
    }
}

fn run_one(pair: Pair, under: &Under, length: Length, workers: Workers) -> anyhow::Result<Ran> {
    let found = Setting::parse(under.scheduler)?;
    let controller: Box<dyn Controller> = match under.by {
        By::Constant => Box::new(Fixed::new(found.clone(), CHILD)),
        By::Library(variant) => Box::new(Library::new(&found, variant, length.seed)),
        By::Search(name, schedulers) => {
            let candidates = schedulers.iter().map(|name| Setting::parse(name)).collect::<Result<_, _>>()?;
            let preference = Preference::new(3, 2, 1)?;
            let input = ControllerInput { preference, candidates, seed: length.seed, ..ControllerInput::default() };
            controller::parse(name)?.build(&input)
        }
    };
    let text = one_after_the_other(WORKLOADS[pair.0].1, WORKLOADS[pair.1].1, length.seconds)?;
    let bench = Bench::new(&text, &pair.name(), Device::parse(DISK)?.world()?, length.seed)?.without_learning();
    let observed = bench.run(&found, controller, false, workers.monitor)?;
    let (mut begins, mut ends) = ([f64::INFINITY; 2], [0.0_f64; 2]);
    for (job, span) in bench.placed().jobs().iter().zip(&observed.spans) {
        let (place, Some(span)) = ((job.phase() as usize).min(1), span) else { continue };
        begins[place] = begins[place].min(span.started.as_secs_f64());
        ends[place] = ends[place].max(span.ended.as_secs_f64());
    }
    let windows = observed.steered.steering().windows();
    let courses = [0, 1].map(|place| Course::of(windows, begins[place], ends[place].min(begins[place] + length.seconds as f64)));
    let throughput = windows.iter().filter(|window| window.duration() > Nanos::ZERO);
    let throughput = throughput.map(|window| (window.to.as_secs_f64(), window.outcome.judged().0 / 1e6)).collect();
    Ok(Ran { courses, throughput })
}

/// Throughput of a single workload under a constant setting.
///
/// # Errors
/// The work was interrupted.
pub fn constant(workload: usize, setting: &Setting, length: Length, workers: Workers) -> anyhow::Result<Course> {
    let text = sections(WORKLOADS[workload].1, length.seconds, "")?;
    let bench = Bench::new(&text, WORKLOADS[workload].0, Device::parse(DISK)?.world()?, length.seed)?.without_learning();
    let observed = bench.run(setting, Box::new(Fixed::new(setting.clone(), CHILD)), false, workers.monitor)?;
    Ok(Course::of(observed.steered.steering().windows(), 0.0, length.seconds as f64))
}

/// A job file of both workloads, where the second waits for the first to end; each takes this many seconds.
fn one_after_the_other(first: &str, second: &str, seconds: u64) -> anyhow::Result<String> {
    Ok(format!("{}\n{}", sections(first, seconds, "")?, sections(second, seconds, "stonewall\n")?))
}

/// The sections of a built-in job file, each with the options of `[global]`; the first one also with `first`.
fn sections(name: &str, seconds: u64, first: &str) -> anyhow::Result<String> {
    let ours = || OURS.iter().find(|(ours, _)| *ours == name).map(|(_, text)| (*text).to_owned());
    let text =
        shipped::find(name).map(|(text, _)| text).or_else(ours).with_context(|| format!("{name}: not a built-in workload"))?;
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
        for pair in Pair::all().chain(Pair::ours()) {
            let (first, second) = (WORKLOADS[pair.0].1, WORKLOADS[pair.1].1);
            let text = one_after_the_other(first, second, 7).unwrap();
            let bench = Bench::new(&text, "pair", Device::parse(DISK).unwrap().world().unwrap(), 1).unwrap();
            let phases: Vec<u32> = bench.placed().jobs().iter().map(|job| job.phase()).collect();
            assert!(phases.is_sorted() && phases.contains(&0) && phases.contains(&1) && !phases.contains(&2), "{text}");
            assert!(bench.placed().jobs().iter().all(|job| job.options().length.runtime == Some(Nanos::from_millis(7_000))));
        }
    }
}
