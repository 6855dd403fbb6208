//! Labels: the best setting of each case of an [`Experience`] is its class.

use control::experience::{Case, Experience};
use observe::Preference;

use super::Dataset;

/// Settings whose scores differ by at most this are equally good: results are stored with four digits.
const EQUAL: f64 = 1e-3;

/// Weight of a case in which all settings are equally good: close to zero.
const LEAST_STAKE: f64 = 0.05;

/// The cases as rows for the learners of [`model`](crate::model), each with the best of the settings `among` (as indices) as its class.
/// Cases in which only one of them was measured are skipped. Ties go to the setting that is best most often, so that equal settings do
/// not split a class. The cases of a workload form a group.
pub fn dataset_among(experience: &Experience, preference: &Preference, among: &[usize]) -> Dataset {
    let scored = experience.cases.iter().map(|case| (case, Scores::of(case, preference, among)));
    let compared: Vec<(&Case, Scores)> = scored.filter(|(_, scores)| scores.0.len() > 1).collect();
    let mut wins = vec![0_usize; experience.settings.len()];
    compared.iter().flat_map(|(_, scores)| scores.best()).for_each(|setting| wins[setting] += 1);
    let mut dataset = Dataset { features: experience.features.clone(), classes: experience.settings.clone(), ..Dataset::default() };
    let mut workloads: Vec<&str> = experience.cases.iter().map(|case| case.workload.as_str()).collect();
    workloads.sort_unstable();
    workloads.dedup();
    for (case, mut scores) in compared {
        scores.0.sort_by_key(|&(setting, _)| (std::cmp::Reverse(wins[setting]), setting));
        if let Some(best) = scores.best().next() {
            dataset.groups.push(workloads.partition_point(|workload| *workload < case.workload.as_str()) as u64);
            dataset.rows.push(case.features.iter().map(|value| value.map_or(f64::NAN, f64::from)).collect());
            dataset.labels.push(best);
            dataset.weights.push(scores.stake());
        }
    }
    dataset
}

/// Measured scores of settings (as indices) in a case.
struct Scores(Vec<(usize, f64)>);

impl Scores {
    fn of(case: &Case, preference: &Preference, among: &[usize]) -> Scores {
        let ranked = case.ranked(preference);
        Scores(among.iter().filter_map(|&setting| Some((setting, ranked[setting]?))).collect())
    }

    fn highest(&self) -> f64 {
        self.0.iter().fold(f64::NEG_INFINITY, |highest, (_, score)| highest.max(*score))
    }

    /// The best settings in order: several if they are [equal](EQUAL).
    fn best(&self) -> impl Iterator<Item = usize> + '_ {
        let least = self.highest() - EQUAL;
        self.0.iter().filter(move |(_, score)| *score >= least).map(|(setting, _)| *setting)
    }

    /// How much the choice matters: the mean loss with a setting other than the best, at most 1.
    fn stake(&self) -> f64 {
        let highest = self.highest();
        let lost: f64 = self.0.iter().fold(0.0, |lost, (_, score)| lost + 1.0 - (score - highest).exp());
        LEAST_STAKE + lost / self.0.len().max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use observe::performance::Performance;

    use super::*;

    fn experience() -> Experience {
        let mut experience = Experience::new(vec!["a".into(), "b".into()], vec!["noop".into(), "cfq".into(), "sstf".into()]);
        let served = |throughput| Some(Performance { throughput, response_s: 0.01, fairness: 1.0, starves: false });
        let case = |throughputs: [f32; 3]| Case {
            workload: "w".into(),
            device: "d".into(),
            under: 0,
            features: vec![Some(1.0), None],
            results: throughputs.map(served).to_vec(),
        };
        experience.cases =
            vec![case([100.0, 200.0, 100.0]), case([100.0, 100.1, 50.0]), case([100.0, 10.0, 120.0]), case([100.0, 99.9, 20.0])];
        experience
    }

    /// With all settings available.
    fn dataset(experience: &Experience) -> Dataset {
        let all: Vec<usize> = (0..experience.settings.len()).collect();
        dataset_among(experience, &Preference::default(), &all)
    }

    #[test]
    fn of_equals_the_setting_that_wins_more_often_is_the_class() {
        let dataset = dataset(&experience());
        // cfq is among the best three times, noop twice, so ties go to cfq.
        assert_eq!(dataset.labels, [1, 1, 2, 1]);
        assert!(dataset.rows[0][1].is_nan());
    }

    #[test]
    fn a_setting_that_starves_is_no_winner() {
        let mut experience = experience();
        for served in experience.cases[0].results.iter_mut().skip(1).flatten() {
            served.starves = true;
        }
        assert_eq!(dataset(&experience).labels[0], 0);
    }

    #[test]
    fn of_some_settings_the_best_of_these_is_the_class() {
        let dataset = dataset_among(&experience(), &Preference::default(), &[0, 2]);
        assert_eq!(dataset.labels, [0, 0, 2, 0]);
    }

    #[test]
    fn a_case_in_which_only_one_was_measured_has_no_class() {
        let mut experience = experience();
        experience.cases[0].results = vec![experience.cases[0].results[0], None, None];
        assert_eq!(dataset(&experience).labels, [0, 2, 0], "nor does it count as a win");
        assert!(dataset_among(&experience, &Preference::default(), &[0]).labels.is_empty(), "there is nothing to compare with");
    }
}
