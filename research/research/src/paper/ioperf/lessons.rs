//! Learning mode, planned in the paper's last section: settings are bred on separate workloads during idle hours, before the tests.
//!
//! ```text
//! patterns of another seed ─▶ every gene by itself ─▶ the best of each together ─▶ a search from there ─▶ the best, compared with the default
//!                             └────────────── each setting on all of them ──────────────┘                     └─▶ Experience
//! ```
//! A setting's fitness is its mean gain over the default on all these workloads: a gain on only one of them is chance.

use std::collections::BTreeMap;

use control::experience::Experience;
use control::search::ioperf::Pattern;
use control::search::{Bayes, Genome, Search, Space, Start};
use control::{Setting, Window};
use observe::Preference;
use observe::description::names;
use observe::merit::TOLERANCE;
use observe::performance::Performance;
use observe::performance::TrialScore;
use testbed::pool::Workers;

use super::Plan;
use super::machine::{self, Kernel, Run, pattern};
use crate::gather::{cases_of, served};
use experiment::bench::{Observed, tails};

/// Settings per scheduler that are remembered for every workload.
const REMEMBERED: usize = 4;
/// Positions in its range at which a gene is varied alone.
const PLACES: [f64; 4] = [0.0, 0.25, 0.75, 1.0];

/// Breeds settings, and records how the best ones performed.
///
/// # Errors
/// The work was interrupted.
pub fn learn(plan: Plan, kernel: &Kernel, workers: Workers) -> anyhow::Result<Experience> {
    let (default, brief) = (kernel.default()?, kernel.brief(plan.seed)?);
    let space = kernel.space(true)?;
    let mut school = School::new(plan, kernel, default.clone(), workers)?;
    let mut seeds: Vec<Genome> = std::iter::once(&default).chain(&brief.candidates).filter_map(|it| space.genome(it)).collect();
    school.rate(&space, &seeds)?;
    // The default's scheduler comes first, within half of the trials.
    for genome in seeds.clone() {
        let alone = alone(&space, &genome);
        if 2 * (school.rated.len() + alone.len()) > plan.bred {
            break;
        }
        school.rate(&space, &alone)?;
        let together = school.together(&space, &genome, &alone);
        school.rate(&space, std::slice::from_ref(&together))?;
        seeds.push(together);
    }
    let start = Start { space: &space, seeds, preference: brief.preference, pattern: school.patterns[0], seed: plan.seed };
    let mut search = Bayes::new(start);
    // Repeated settings cost no trial, so the number of rounds is bounded, too.
    for _ in 0..plan.bred {
        if school.rated.len() >= plan.bred {
            break;
        }
        let genomes = search.ask();
        school.rate(&space, &genomes)?;
        let rated: Vec<Option<TrialScore>> = genomes.iter().map(|genome| school.of(&space.setting(genome))).collect();
        search.tell(&rated);
    }
    school.remember()
}

/// Variants of a genome in which one expressed gene at a time has another value.
fn alone(space: &Space, genome: &Genome) -> Vec<Genome> {
    let genes = (0..space.len()).filter(|&gene| !space.is_scheduler(gene) && space.is_expressed(gene, genome));
    let at = |gene: usize, place: f64| {
        let mut one = genome.clone();
        one[gene] = place;
        one
    };
    genes.flat_map(|gene| PLACES.map(|place| at(gene, place))).collect()
}

/// State of the lessons: workloads, their results under the default, and results of other settings so far.
struct School<'a> {
    plan: Plan,
    kernel: &'a Kernel,
    default: Setting,
    preference: Preference,
    patterns: Vec<Pattern>,
    standard: Vec<Option<Performance>>,
    rated: BTreeMap<String, (Setting, Option<TrialScore>)>,
    workers: Workers<'a>,
}

impl<'a> School<'a> {
    fn new(plan: Plan, kernel: &'a Kernel, default: Setting, workers: Workers<'a>) -> anyhow::Result<School<'a>> {
        let patterns: Vec<Pattern> = (0..plan.lessons).map(|number| pattern("ioperf lesson", plan.seed, number)).collect();
        let mut school = School {
            plan,
            kernel,
            default,
            preference: machine::preference()?,
            patterns,
            standard: Vec::new(),
            rated: BTreeMap::new(),
            workers,
        };
        let every: Vec<usize> = (0..plan.lessons).collect();
        school.standard = workers.map(&school.says(), &every, |&number| school.served(number, &school.default))?;
        Ok(school)
    }

    fn says(&self) -> String {
        format!("learning, {}: {} of {} settings", self.kernel.name, self.rated.len(), self.plan.bred)
    }

    fn run(&self, number: usize, seed: usize, setting: &Setting) -> anyhow::Result<Observed> {
        let (pattern, seconds) = (&self.patterns[number], self.plan.lesson_s);
        Run { pattern, default: &self.default, seconds, seed: seed as u64 }.observe(setting, self.workers.monitor)
    }

    /// Performance of a workload under a setting.
    fn served(&self, number: usize, setting: &Setting) -> anyhow::Result<Option<Performance>> {
        Ok(served(self.run(number, number, setting)?.steered.steering().windows()))
    }

    /// Runs settings that have not been run before.
    fn rate(&mut self, space: &Space, genomes: &[Genome]) -> anyhow::Result<()> {
        let mut new: BTreeMap<String, Setting> = BTreeMap::new();
        for setting in genomes.iter().map(|genome| space.setting(genome)) {
            let name = setting.to_string();
            if !self.rated.contains_key(&name) {
                new.insert(name, setting);
            }
        }
        let count = self.patterns.len();
        let each: Vec<(usize, &Setting)> =
            new.values().flat_map(|setting| (0..count).map(move |number| (number, setting))).collect();
        let got = self.workers.map(&self.says(), &each, |&(number, setting)| {
            Ok(self.served(number, setting)?.zip(self.standard[number]).map(|(ran, standard)| relative(&ran, &standard)))
        })?;
        let rated: Vec<Option<TrialScore>> = got.chunks(count).map(mean).collect();
        self.rated.extend(new.into_iter().zip(rated).map(|((name, setting), rated)| (name, (setting, rated))));
        Ok(())
    }

    fn of(&self, setting: &Setting) -> Option<TrialScore> {
        self.rated.get(&setting.to_string()).and_then(|(_, rated)| *rated)
    }

    fn score(&self, setting: &Setting) -> f64 {
        self.of(setting).map_or(f64::NEG_INFINITY, |rated| rated.score(&self.preference))
    }

    /// A genome with the best value of each gene varied alone, where that improves the score by more than the tolerance.
    fn together(&self, space: &Space, genome: &Genome, alone: &[Genome]) -> Genome {
        let score = |genome: &Genome| self.score(&space.setting(genome));
        let mut together = genome.clone();
        for (gene, place) in together.iter_mut().enumerate() {
            let of_it = alone.iter().filter(|other| other[gene] != genome[gene] && score(other) > score(genome) + TOLERANCE);
            let best = of_it.max_by(|a, b| score(a).total_cmp(&score(b)));
            *place = best.map_or(*place, |best| best[gene]);
        }
        together
    }

    /// The default, and the best few settings of each scheduler.
    fn best(&self) -> Vec<&Setting> {
        let mut all: Vec<&Setting> = self.rated.values().map(|(setting, _)| setting).collect();
        all.sort_by(|a, b| self.score(b).total_cmp(&self.score(a)));
        let mut best = vec![&self.default];
        for setting in all {
            let of_it = best.iter().filter(|other| other.spec.name == setting.spec.name).count();
            if of_it < REMEMBERED && !best.contains(&setting) {
                best.push(setting);
            }
        }
        best
    }

    /// Runs every workload under each of the best settings.
    fn remember(&self) -> anyhow::Result<Experience> {
        let settings = self.best();
        let every: Vec<(usize, &Setting)> =
            (0..self.patterns.len()).flat_map(|number| settings.iter().map(move |setting| (number, *setting))).collect();
        let runs =
            self.workers.map(&format!("learning, {}: remembered settings", self.kernel.name), &every, |&(number, setting)| {
                // Different requests than those used for selection, so that settings that were best by chance do not keep their advantage.
                self.run(number, self.patterns.len() + number, setting)
            })?;
        let device = machine::device()?;
        let mut experience = Experience::new(names(), settings.iter().map(|setting| setting.to_string()).collect());
        for (pattern, runs) in self.patterns.iter().zip(runs.chunks(settings.len())) {
            let tails: Vec<_> = runs.iter().map(|run| tails(run.outcome.measure.streams.iter())).collect();
            let windows: Vec<&[Window]> = runs.iter().map(|run| run.steered.steering().windows()).collect();
            let runs: Vec<_> = windows.into_iter().zip(&tails).collect();
            let cases = cases_of(&pattern.to_string(), &device, &runs, Some(0));
            experience.cases.extend(cases.into_iter().filter(|case| case.under == 0));
        }
        Ok(experience)
    }
}

/// Performance relative to the default's, so that its score is the gain.
fn relative(ran: &Performance, standard: &Performance) -> Performance {
    Performance {
        throughput: ran.throughput / standard.throughput,
        response_s: ran.response_s / standard.response_s,
        fairness: ran.fairness / standard.fairness,
        starves: false,
    }
}

/// Geometric means; `None` if a workload has no result.
fn mean(all: &[Option<Performance>]) -> Option<TrialScore> {
    let all: Vec<Performance> = all.iter().copied().collect::<Option<_>>()?;
    let of = |value: &dyn Fn(&Performance) -> f32| {
        let sum: f64 = all.iter().map(|served| f64::from(value(served)).ln()).sum();
        (sum / all.len() as f64).exp() as f32
    };
    let served = Performance {
        throughput: of(&|served| served.throughput),
        response_s: of(&|served| served.response_s),
        fairness: of(&|served| served.fairness),
        starves: false,
    };
    Some(TrialScore { served, wait_ratio: 0.0 })
}

/// The setting with the best mean over the workloads of the lessons; `None` if that is the default.
///
/// # Errors
/// None for settings written by this program.
pub fn best_constant(learned: &Experience) -> anyhow::Result<Option<Setting>> {
    let preference = machine::preference()?;
    let mut totals = vec![0.0; learned.settings.len()];
    for case in &learned.cases {
        let scores = case.ranked(&preference).into_iter().map(|score| score.unwrap_or(f64::NEG_INFINITY));
        totals.iter_mut().zip(scores).for_each(|(total, score)| *total += score);
    }
    let best = (0..totals.len()).max_by(|a, b| totals[*a].total_cmp(&totals[*b]));
    Ok(best.filter(|best| *best > 0).map(|best| Setting::parse(&learned.settings[best])).transpose()?)
}
