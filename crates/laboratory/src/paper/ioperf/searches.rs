//! The paper's question put to every search: what does it end with, on workloads that nothing was tuned on?

use std::collections::BTreeMap;

use learn::Setting;
use learn::search::ioperf::Pattern;
use twin::controller;

use super::Plan;
use super::machine::{Got, Kernel, pattern, simulate, steer};
use crate::pool::Crew;

/// Controllers, as a person types them. The first is the one that bars are judged by; `trials` and the length of one are the same for all.
pub const CONTROLLERS: [&str; 9] = [
    OURS,
    "bayes:seeds=twin",
    "bayes:fitness=twin",
    "genetic",
    "genetic:fitness=twin",
    "ioperf:evaluation_ms=2000",
    "ioperf:fitness=twin",
    "random",
    "random:fitness=twin",
];
/// The one that bars are judged by: that which did best on workloads of another seed than the default one.
pub const OURS: &str = "bayes";

/// A workload: what each ended with gets, beside the default.
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
    /// What is shown: controllers, then constant settings.
    pub names: Vec<String>,
    /// The workloads.
    pub cases: Vec<Case>,
}

impl Searched {
    /// Runs every controller on every workload, and what it ends with by itself.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn run(plan: Plan, kernel: &Kernel, crew: Crew) -> anyhow::Result<Searched> {
        let default = kernel.default()?;
        let patterns: Vec<Pattern> = (0..plan.workloads).map(|number| pattern("ioperf search", plan.seed, number)).collect();
        let constants: Vec<&str> = kernel.schedulers.iter().copied().filter(|name| *name != kernel.found).collect();
        let steered: Vec<(usize, usize)> =
            (0..patterns.len()).flat_map(|load| (0..CONTROLLERS.len()).map(move |under| (load, under))).collect();
        let ends = crew.map(&format!("searching, {}", kernel.name), &steered, |&(load, under)| {
            let brief = kernel.brief(plan.seed.wrapping_add(load as u64))?;
            let chosen = controller::parse(CONTROLLERS[under])?.build(&brief);
            steer(&patterns[load], &default, chosen, plan.search_s, load as u64, crew.monitor)
        })?;
        let fixed = (0..patterns.len()).flat_map(|load| constants.iter().map(move |name| (load, Setting::parse(name))));
        let fixed = fixed.map(|(load, setting)| Ok((load, setting?))).collect::<anyhow::Result<Vec<_>>>()?;
        let ended = steered.iter().map(|(load, _)| *load).zip(ends);
        let every: Vec<(usize, Setting)> =
            ended.chain(fixed).chain((0..patterns.len()).map(|load| (load, default.clone()))).collect();
        // What several ended with is run once.
        let mut runs: BTreeMap<(usize, String), &Setting> = BTreeMap::new();
        for (load, setting) in &every {
            runs.insert((*load, setting.to_string()), setting);
        }
        let runs: Vec<(&(usize, String), &&Setting)> = runs.iter().collect();
        let got = crew.map(&format!("settings by themselves, {}", kernel.name), &runs, |((load, _), setting)| {
            simulate(&patterns[*load], &default, setting, plan.test_s, *load as u64, crew.monitor)
        })?;
        let got: BTreeMap<&(usize, String), Got> = runs.into_iter().map(|(key, _)| key).zip(got).collect();
        let of = |load: usize, setting: &Setting| got.get(&(load, setting.to_string())).copied();
        let names = CONTROLLERS.iter().chain(&constants).map(|name| (*name).to_owned()).collect();
        let mut cases = Vec::new();
        for load in 0..patterns.len() {
            let all = every.iter().filter(|(of_load, _)| *of_load == load);
            let mut all: Vec<Got> = all.filter_map(|(load, setting)| of(*load, setting)).collect();
            let Some(default) = all.pop() else { continue };
            cases.push(Case { default, got: all });
        }
        Ok(Searched { kernel: kernel.name.to_owned(), names, cases })
    }

    /// The gains in throughput and the changes of latency of what is shown at a place, in percent.
    pub fn against_default(&self, place: usize) -> (Vec<f64>, Vec<f64>) {
        let pairs = || self.cases.iter().filter_map(move |case| Some((case.got.get(place)?, &case.default)));
        let gains = pairs().map(|(got, default)| got.gain_percent(default)).collect();
        (gains, pairs().map(|(got, default)| got.slower_percent(default)).collect())
    }
}
