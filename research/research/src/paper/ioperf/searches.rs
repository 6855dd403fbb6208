//! The paper's experiment with every search: performance of the final setting, on workloads that were not used for tuning.

use std::collections::BTreeMap;
use std::sync::Arc;

use control::Setting;
use control::experience::Experience;
use control::search::ioperf::Pattern;
use testbed::pool::Workers;
use twin::controller;

use super::machine::{Got, Kernel, Run, pattern};
use super::{Plan, lessons};

/// A search in the comparison.
pub struct Contestant {
    /// The controller as given on the command line.
    pub typed: &'static str,
    /// Whether it begins with prior experience.
    pub knows: bool,
}

/// The searches. Bars are judged by the first; `trials` and the length of a trial are the same for all.
const CONTESTANTS: [Contestant; 5] = [
    OURS,
    knowing_nothing("ioperf:evaluation_ms=2000"),
    knowing_nothing("genetic"),
    knowing_nothing("bayes"),
    knowing_nothing("random"),
];
/// The search by which bars are judged. Its turns are long because gains from the page cache build up slowly.
pub const OURS: Contestant = Contestant { typed: "ioperf:evaluation_ms=2000,turn_ms=20000", knows: true };

const fn knowing_nothing(typed: &'static str) -> Contestant {
    Contestant { typed, knows: false }
}

impl Contestant {
    /// The name on the page.
    pub fn name(&self) -> String {
        if self.knows { format!("{} after learning", self.typed) } else { self.typed.to_owned() }
    }
}

/// Results of a workload.
pub struct Case {
    /// Result under the default.
    pub default: Got,
    /// Results in the order of [`Searched::names`].
    pub got: Vec<Got>,
}

/// Results of all searches on all workloads.
pub struct Searched {
    /// Name of the kernel.
    pub kernel: String,
    /// Searches, then constant settings; the last of these is the best of the lessons unless that is the default.
    pub names: Vec<String>,
    /// Index in `names` of the best constant setting of the lessons.
    pub best_constant: Option<usize>,
    /// Results by workload.
    pub cases: Vec<Case>,
}

impl Searched {
    /// Runs the first `searches` controllers on every workload, then the final setting of each as a constant.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn run(plan: Plan, kernel: &Kernel, searches: usize, learned: Experience, workers: Workers) -> anyhow::Result<Searched> {
        let contestants = &CONTESTANTS[..searches.min(CONTESTANTS.len())];
        let default = kernel.default()?;
        let best_constant = lessons::best_constant(&learned)?;
        let learned = Arc::new(learned);
        let patterns: Vec<Pattern> = (0..plan.workloads).map(|number| pattern("ioperf search", plan.seed, number)).collect();
        let run = |load: usize, seconds| Run { pattern: &patterns[load], default: &default, seconds, seed: load as u64 };
        let schedulers = kernel.schedulers.iter().filter(|name| **name != kernel.found).map(|name| Setting::parse(name));
        let mut constants: Vec<Setting> = schedulers.collect::<Result<_, _>>()?;
        let is_constant = best_constant.is_some();
        constants.extend(best_constant);
        let steered: Vec<(usize, usize)> =
            (0..patterns.len()).flat_map(|load| (0..contestants.len()).map(move |under| (load, under))).collect();
        let ends = workers.map(&format!("searching, {}", kernel.name), &steered, |&(load, under)| {
            let contestant = &contestants[under];
            let experience = if contestant.knows { learned.clone() } else { Arc::default() };
            let brief = kernel.brief_of(plan.seed.wrapping_add(load as u64), experience)?;
            let chosen = controller::parse(contestant.typed)?.build(&brief);
            run(load, plan.search_s).steer(chosen, workers.monitor)
        })?;
        let fixed = (0..patterns.len()).flat_map(|load| constants.iter().map(move |setting| (load, setting.clone())));
        let ended = steered.iter().map(|(load, _)| *load).zip(ends);
        let every: Vec<(usize, Setting)> =
            ended.chain(fixed).chain((0..patterns.len()).map(|load| (load, default.clone()))).collect();
        // A setting that several searches chose is run once.
        let mut runs: BTreeMap<(usize, String), &Setting> = BTreeMap::new();
        for (load, setting) in &every {
            runs.insert((*load, setting.to_string()), setting);
        }
        let runs: Vec<(&(usize, String), &&Setting)> = runs.iter().collect();
        let got = workers.map(&format!("constant settings, {}", kernel.name), &runs, |((load, _), setting)| {
            run(*load, plan.test_s).simulate(setting, workers.monitor)
        })?;
        let got: BTreeMap<&(usize, String), Got> = runs.into_iter().map(|(key, _)| key).zip(got).collect();
        let of = |load: usize, setting: &Setting| got.get(&(load, setting.to_string())).copied();
        let best_constant = is_constant.then(|| contestants.len() + constants.len() - 1);
        let names: Vec<String> = contestants.iter().map(Contestant::name).chain(constants.iter().map(Setting::to_string)).collect();
        let mut cases = Vec::new();
        for load in 0..patterns.len() {
            let all = every.iter().filter(|(of_load, _)| *of_load == load);
            let mut all: Vec<Got> = all.filter_map(|(load, setting)| of(*load, setting)).collect();
            let Some(default) = all.pop() else { continue };
            cases.push(Case { default, got: all });
        }
        Ok(Searched { kernel: kernel.name.to_owned(), names, best_constant, cases })
    }

    /// Throughput gains and latency increases of an entry of `names`, in percent.
    pub fn against_default(&self, place: usize) -> (Vec<f64>, Vec<f64>) {
        let pairs = || self.cases.iter().filter_map(move |case| Some((case.got.get(place)?, &case.default)));
        let gains = pairs().map(|(got, default)| got.gain_percent(default)).collect();
        (gains, pairs().map(|(got, default)| got.slower_percent(default)).collect())
    }
}
