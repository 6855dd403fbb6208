//! The paper's question put to every search: what does it end with, on workloads that nothing was tuned on?

use std::collections::BTreeMap;
use std::sync::Arc;

use control::Setting;
use control::experience::Experience;
use control::search::ioperf::Pattern;
use twin::controller;

use super::machine::{Got, Kernel, Run, pattern};
use super::{Plan, lessons};
use experiment::pool::Workers;

/// A search that is compared.
pub struct Contestant {
    /// As a person types it.
    pub typed: &'static str,
    /// It begins with what was learned before.
    pub knows: bool,
}

/// The searches. The first is the one that bars are judged by; `trials` and the length of one are the same for all.
const CONTESTANTS: [Contestant; 5] = [
    OURS,
    knowing_nothing("ioperf:evaluation_ms=2000"),
    knowing_nothing("genetic"),
    knowing_nothing("bayes"),
    knowing_nothing("random"),
];
/// The one that bars are judged by. Its turns are long, for what memory gains comes slowly.
pub const OURS: Contestant = Contestant { typed: "ioperf:evaluation_ms=2000,turn_ms=20000", knows: true };

const fn knowing_nothing(typed: &'static str) -> Contestant {
    Contestant { typed, knows: false }
}

impl Contestant {
    /// What it is called.
    pub fn name(&self) -> String {
        if self.knows { format!("{} after learning", self.typed) } else { self.typed.to_owned() }
    }
}

/// A workload: what each ended with gets, compared with the default.
pub struct Case {
    /// Under the default.
    pub default: Got,
    /// By what is shown: each controller's end, then constant settings.
    pub got: Vec<Got>,
}

/// Every workload under everything.
pub struct Searched {
    /// Of which kernel.
    pub kernel: String,
    /// What is shown: controllers, then constant settings, of which the last is the best of the lessons if that is not the default.
    pub names: Vec<String>,
    /// The place of the best constant setting of the lessons.
    pub best_constant: Option<usize>,
    /// The workloads.
    pub cases: Vec<Case>,
}

impl Searched {
    /// Runs the first `searches` controllers on every workload, and the setting that each ends with as a constant.
    ///
    /// # Errors
    /// It was interrupted.
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
        // What several ended with is run once.
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

    /// The gains in throughput and the changes of latency of what is shown at a place, in percent.
    pub fn against_default(&self, place: usize) -> (Vec<f64>, Vec<f64>) {
        let pairs = || self.cases.iter().filter_map(move |case| Some((case.got.get(place)?, &case.default)));
        let gains = pairs().map(|(got, default)| got.gain_percent(default)).collect();
        (gains, pairs().map(|(got, default)| got.slower_percent(default)).collect())
    }
}
