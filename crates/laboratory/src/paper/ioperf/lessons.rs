//! What the plan of the paper's last section calls learning mode: before the tests, in idle hours, settings are bred on workloads of their own.
//!
//! ```text
//! patterns of another seed ─▶ a search over every tunable, each genome on all of them ─▶ the best, beside the default ─▶ Experience
//! ```
//! A genome's fitness is its gain over the default in the mean of all these workloads: what serves one of them and no other is chance.

use learn::description::names;
use learn::experience::{Experience, Served};
use learn::search::ioperf::Pattern;
use learn::search::{Bayes, Rated, Search, Space, Start};
use learn::{Setting, Window};

use super::Plan;
use super::machine::{self, Kernel, observe, pattern};
use crate::bench::{Observed, tails};
use crate::gather::cases_of;
use crate::pool::Crew;

/// The tunables of the host that are genes, as in the paper.
const HOST: [&str; 2] = ["read_ahead_kb", "swappiness"];
/// Settings of each scheduler that are remembered of every workload.
const REMEMBERED: usize = 4;

/// Breeds settings, and remembers how the best of them served.
///
/// # Errors
/// It was interrupted.
pub fn learn(plan: Plan, kernel: &Kernel, crew: Crew) -> anyhow::Result<Experience> {
    let (default, brief) = (kernel.default()?, kernel.brief(plan.seed)?);
    let patterns: Vec<Pattern> = (0..plan.lessons).map(|number| pattern("ioperf lesson", plan.seed, number)).collect();
    let host = sim::host::TUNABLES.iter().filter(|tunable| HOST.contains(&tunable.name));
    let space = Space::new(&brief.candidates, true, host);
    let seeds = std::iter::once(&default).chain(&brief.candidates).filter_map(|setting| space.genome(setting)).collect();
    let mut search =
        Bayes::new(Start { space: &space, seeds, preference: brief.preference, pattern: patterns[0], seed: plan.seed });
    let run = |number: usize, setting: &Setting| {
        observe(&patterns[number], &default, setting, plan.lesson_s, number as u64, crew.monitor)
    };
    let every: Vec<usize> = (0..patterns.len()).collect();
    let standard = crew.map(&format!("learning, {}", kernel.name), &every, |&number| Ok(served(&run(number, &default)?)))?;
    let mut tried: Vec<(Setting, f64)> = Vec::new();
    while tried.len() < plan.bred {
        let settings: Vec<Setting> = search.ask().iter().map(|genome| space.setting(genome)).collect();
        let each: Vec<(usize, &Setting)> =
            settings.iter().flat_map(|setting| every.iter().map(move |&number| (number, setting))).collect();
        let what = format!("learning, {}: {} of {} settings", kernel.name, tried.len(), plan.bred);
        let got = crew.map(&what, &each, |&(number, setting)| {
            let ran = served(&run(number, setting)?);
            Ok(ran.zip(standard[number]).map(|(ran, standard)| relative(&ran, &standard)))
        })?;
        let rated: Vec<Option<Rated>> = got.chunks(every.len()).map(mean).collect();
        search.tell(&rated);
        let score = |rated: &Option<Rated>| rated.map_or(f64::NEG_INFINITY, |rated| rated.score(&brief.preference));
        tried.extend(settings.into_iter().zip(rated.iter().map(score)));
    }
    remembered(&patterns, &default, &best(tried, &default), plan, crew)
}

/// What was got beside what the default got: the score of this is the gain.
fn relative(ran: &Served, standard: &Served) -> Served {
    Served {
        throughput: ran.throughput / standard.throughput,
        response_s: ran.response_s / standard.response_s,
        fairness: ran.fairness / standard.fairness,
        starves: false,
    }
}

/// How a run was served, without its first third, in which caches fill.
fn served(ran: &Observed) -> Option<Served> {
    let windows = ran.steered.steering().windows();
    Served::of(windows[windows.len() / 3..].iter().map(|window| &window.outcome))
}

/// Geometric means; `None` if nothing was done in any of them.
fn mean(all: &[Option<Served>]) -> Option<Rated> {
    let all: Vec<Served> = all.iter().copied().collect::<Option<_>>()?;
    let of = |value: &dyn Fn(&Served) -> f32| {
        let sum: f64 = all.iter().map(|served| f64::from(value(served)).ln()).sum();
        (sum / all.len() as f64).exp() as f32
    };
    let served = Served {
        throughput: of(&|served| served.throughput),
        response_s: of(&|served| served.response_s),
        fairness: of(&|served| served.fairness),
        starves: false,
    };
    Some(Rated { served, by_bound: 0.0 })
}

/// The default, and the best few of each scheduler.
fn best(mut tried: Vec<(Setting, f64)>, default: &Setting) -> Vec<Setting> {
    tried.sort_by(|a, b| b.1.total_cmp(&a.1));
    let mut best = vec![default.clone()];
    for (setting, _) in tried {
        let of_it = best.iter().filter(|other| other.spec.name == setting.spec.name).count();
        if of_it < REMEMBERED && !best.contains(&setting) {
            best.push(setting);
        }
    }
    best
}

/// The setting that served the workloads of the lessons best in the mean; `None` if the default did.
///
/// # Errors
/// Never, for settings that were written by this program.
pub fn best_constant(learned: &Experience) -> anyhow::Result<Option<Setting>> {
    let preference = super::machine::preference()?;
    let total = |place: usize| -> f64 {
        let scores = learned.cases.iter().map(|case| case.ranked(&preference).get(place).copied().flatten());
        scores.map(|score| score.unwrap_or(f64::NEG_INFINITY)).sum()
    };
    let best = (0..learned.settings.len()).max_by(|a, b| total(*a).total_cmp(&total(*b)));
    Ok(best.filter(|best| *best > 0).map(|best| Setting::parse(&learned.settings[best])).transpose()?)
}

/// Every workload under each of these, the first of which is the default.
fn remembered(patterns: &[Pattern], default: &Setting, settings: &[Setting], plan: Plan, crew: Crew) -> anyhow::Result<Experience> {
    let every: Vec<(usize, &Setting)> =
        (0..patterns.len()).flat_map(|number| settings.iter().map(move |setting| (number, setting))).collect();
    let runs = crew.map("learning: what is remembered", &every, |&(number, setting)| {
        // Other requests than those that they were chosen on: what was best of many by chance is not again.
        let seed = (patterns.len() + number) as u64;
        observe(&patterns[number], default, setting, plan.lesson_s, seed, crew.monitor)
    })?;
    let device = machine::device()?;
    let mut experience = Experience::new(names(), settings.iter().map(Setting::to_string).collect());
    for (pattern, runs) in patterns.iter().zip(runs.chunks(settings.len())) {
        let tails: Vec<_> = runs.iter().map(|run| tails(run.outcome.measure.streams.iter())).collect();
        let windows: Vec<&[Window]> = runs.iter().map(|run| run.steered.steering().windows()).collect();
        let runs: Vec<_> = windows.into_iter().zip(&tails).collect();
        let cases = cases_of(&pattern.to_string(), &device, &runs, Some(0));
        experience.cases.extend(cases.into_iter().filter(|case| case.under == 0));
    }
    Ok(experience)
}
