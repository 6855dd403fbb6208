//! Cross-validation of learners: devices, or families of loads, are held out of their training data.

use std::collections::BTreeMap;

use crate::model;
use crate::model::dataset_among;
use crate::model::{Learner, Options, train};
use crate::report::evaluation::CrossValidation;
use anyhow::Context;
use control::Setting;
use control::experience::{Case, Experience};
use observe::Preference;
use observe::merit::TOLERANCE;
use testbed::pool::Workers;

/// Maximum number of training rows, and of rows for tuning hyper-parameters.
const ROWS: usize = 600;
const TUNING_ROWS: usize = 120;
const FOLDS: usize = 2;

/// A group of held-out cases.
struct Fold<'a> {
    held_out: &'static str,
    /// Held-out cases.
    inside: Vec<&'a Case>,
    /// Training cases.
    outside: Vec<&'a Case>,
}

/// Results of a policy in a fold.
#[derive(Clone, Copy, Default)]
struct Sum {
    cases: u64,
    correct: u64,
    regret: f64,
}

/// The group of a generated device or load: its name without the number.
fn group(name: &str) -> &str {
    name.split('/').next().unwrap_or(name)
}

/// Results of each learner and each constant policy, with devices held out and with families of loads held out.
///
/// # Errors
/// A learner fails, or the work was interrupted.
pub fn tables(
    experience: &Experience,
    candidates: &[Setting],
    preference: &Preference,
    workers: Workers,
) -> anyhow::Result<Vec<CrossValidation>> {
    let texts: Vec<String> = candidates.iter().map(Setting::to_string).collect();
    let among: Vec<usize> = (0..experience.settings.len()).filter(|&number| texts.contains(&experience.settings[number])).collect();
    if among.len() < 2 {
        return Ok(Vec::new());
    }
    let folds: Vec<Fold> = folds(experience, "devices", |case| &case.device)
        .into_iter()
        .chain(folds(experience, "families of loads", |case| &case.workload))
        .collect();
    let work: Vec<(&Fold, &'static dyn Learner)> =
        folds.iter().flat_map(|fold| model::ALL.iter().map(move |learner| (fold, *learner))).collect();
    let sums = workers.map("cross-validating, models:", &work, |(fold, learner)| {
        learned(experience, fold, *learner, &among, preference).with_context(|| learner.name())
    })?;
    let mut table: BTreeMap<(&str, usize, String), Sum> = BTreeMap::new();
    for ((fold, learner), sum) in work.iter().zip(sums) {
        let place = table.entry((fold.held_out, 0, learner.name().to_owned())).or_default();
        *place = place.and(sum);
    }
    for fold in &folds {
        for &setting in &among {
            let place = table.entry((fold.held_out, 1, format!("always {}", experience.settings[setting]))).or_default();
            *place = fold.inside.iter().fold(*place, |sum, case| sum.decide(case, Some(setting), &among, preference));
        }
    }
    let groups = |held_out: &str| folds.iter().filter(|fold| fold.held_out == held_out).count() as u64;
    let row = |((held_out, _, policy), sum): ((&str, usize, String), Sum)| CrossValidation {
        held_out: held_out.to_owned(),
        groups: groups(held_out),
        policy,
        cases: sum.cases,
        correct_percent: 100.0 * sum.correct as f64 / sum.cases.max(1) as f64,
        regret_percent: 100.0 * sum.regret / sum.cases.max(1) as f64,
    };
    Ok(table.into_iter().map(row).collect())
}

fn folds<'a>(experience: &'a Experience, held_out: &'static str, of: fn(&Case) -> &String) -> Vec<Fold<'a>> {
    let mut names: Vec<&str> = experience.cases.iter().map(|case| group(of(case))).collect();
    names.sort_unstable();
    names.dedup();
    let fold = |name: &&str| {
        let (inside, outside) = experience.cases.iter().partition(|case| group(of(case)) == *name);
        Fold { held_out, inside, outside }
    };
    names.iter().map(fold).filter(|fold| !fold.inside.is_empty() && !fold.outside.is_empty()).collect()
}

fn learned(
    experience: &Experience,
    fold: &Fold,
    learner: &'static dyn Learner,
    among: &[usize],
    preference: &Preference,
) -> anyhow::Result<Sum> {
    let mut outside = Experience::new(experience.features.clone(), experience.settings.clone());
    let step = fold.outside.len().div_ceil(ROWS).max(1);
    outside.cases = fold.outside.iter().step_by(step).map(|case| (*case).clone()).collect();
    let rows = dataset_among(&outside, preference, among);
    if rows.rows.is_empty() {
        return Ok(Sum::default());
    }
    let options = Options { folds: FOLDS, tuning_rows: TUNING_ROWS, ..Options::default() };
    let model = train(&rows, learner, &options, &mut |_, _| true)?;
    let decided = fold.inside.iter().fold(Sum::default(), |sum, case| {
        let row: Vec<f64> = case.features.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect();
        let class = &model.classes()[model.predict(&row).class];
        let setting = experience.settings.iter().position(|setting| setting == class);
        sum.decide(case, setting, among, preference)
    });
    Ok(decided)
}

impl Sum {
    fn and(self, other: Sum) -> Sum {
        Sum { cases: self.cases + other.cases, correct: self.correct + other.correct, regret: self.regret + other.regret }
    }

    /// Adds a case in which `setting` was chosen.
    fn decide(self, case: &Case, setting: Option<usize>, among: &[usize], preference: &Preference) -> Sum {
        let ranked = case.ranked(preference);
        let best = among.iter().filter_map(|&setting| ranked[setting]).filter(|score| score.is_finite()).reduce(f64::max);
        let chosen = setting.and_then(|setting| ranked[setting]);
        let Some((best, chosen)) = best.zip(chosen) else { return self };
        let lost = 1.0 - (chosen - best).exp();
        self.and(Sum { cases: 1, correct: u64::from(lost <= TOLERANCE), regret: lost })
    }
}
