//! Settings known from earlier loads: the initial population of a search, and challengers to verify before it.

use super::{MAX_CHALLENGERS, Tuner};
use crate::ab_test::{Challenger, Estimate, MIN_GAIN};
use crate::search::{Genome, Space};
use crate::setting::Setting;
use observe::merit;
use observe::similarity::{ANOTHER, Columns, NOWHERE, Point, load_distance};

/// Maximum number of settings from a gene pool, or from known loads, in the initial population. Choice: more leave fewer trials for new
/// settings; half of the default generation; not varied.
const MAX_SEEDS: usize = 4;

/// A case of the device, compared with the current load.
struct KnownCase {
    /// Squared distance between the loads.
    distance: f64,
    /// Index of the setting under which its load was recorded.
    under: usize,
    /// The gain of each setting over that one; `None` if not measured.
    gains: Vec<Option<f64>>,
}

impl Tuner {
    /// The initial genomes of a search: the original setting, those of similar known loads, the candidates; and a remark if a gene pool is
    /// included.
    pub(super) fn seeds(&self, space: &Space, device: &str) -> (Vec<Genome>, Option<String>) {
        let mut seeds: Vec<Genome> = space.genome(&self.original).into_iter().collect();
        let mut add = |setting: &Setting| {
            let genome = space.genome(setting).filter(|genome| !seeds.contains(genome));
            let is_new = genome.is_some();
            seeds.extend(genome);
            is_new
        };
        let point = self.load.baseline.as_ref().map_or(NOWHERE, |baseline| baseline.point);
        let pools = self.pools.iter().chain(&self.experience.pools);
        let distances = pools.filter_map(|pool| Some((pool.distance(device, &self.original, &point)?, pool)));
        let nearest = distances.filter(|(distance, _)| *distance < ANOTHER).min_by(|a, b| a.0.total_cmp(&b.0));
        let mut remark = None;
        if let Some((_, pool)) = nearest {
            let count = pool.settings().filter(|setting| add(setting)).take(MAX_SEEDS).count();
            remark = Some(format!("similar to a known load: {count} settings of its gene pool are re-introduced"));
        }
        let among_cases = self.load.baseline.as_ref().map_or(NOWHERE, |baseline| baseline.among_cases);
        let best = self.best_of_similar_cases(device, &among_cases);
        best.iter().filter(|setting| add(setting)).take(MAX_SEEDS).for_each(drop);
        self.candidates.iter().for_each(|setting| {
            add(setting);
        });
        (seeds, remark)
    }

    fn cases(&self, device: &str, point: &Point) -> impl Iterator<Item = KnownCase> {
        let columns = Columns::of(&self.experience.features);
        self.experience.cases.iter().filter(move |case| case.device == device).filter_map(move |case| {
            let theirs = columns.point(|column| case.features.get(column).copied().flatten().map(f64::from));
            let ranked = case.ranked(&self.preference);
            let under = ranked.get(case.under).copied().flatten()?;
            let gains = ranked.into_iter().map(|score| Some(score? - under)).collect();
            Some(KnownCase { distance: load_distance(&theirs, point), under: case.under, gains })
        })
    }

    /// The settings with the largest gains in similar cases of this device, the best first.
    fn best_of_similar_cases(&self, device: &str, point: &Point) -> Vec<Setting> {
        let mut known: Vec<(f64, &String)> = Vec::new();
        for case in self.cases(device, point).filter(|case| case.distance < ANOTHER) {
            let named = self.experience.settings.iter().zip(case.gains).filter_map(|(name, gain)| Some((gain?, name)));
            known.extend(named.filter(|(gain, _)| *gain > merit::TOLERANCE));
        }
        known.sort_by(|a, b| b.0.total_cmp(&a.0));
        known.into_iter().filter_map(|(_, name)| Setting::parse(name).ok()).collect()
    }

    /// The settings with a predicted gain over the original one, from known loads of this device: the best of each scheduler first. All
    /// loads count, weighted by similarity.
    pub(super) fn predicted_challengers(&self, device: &str, point: &Point) -> Vec<Challenger> {
        let original = self.original.to_string();
        let mut known: Vec<Vec<(f64, f64)>> = vec![Vec::new(); self.experience.settings.len()];
        for case in self.cases(device, point) {
            if self.experience.settings.get(case.under) == Some(&original) {
                let weight = (1.0 + case.distance / ANOTHER).recip();
                known.iter_mut().zip(case.gains).for_each(|(known, gain)| known.extend(gain.map(|gain| (weight, gain))));
            }
        }
        let named = self.experience.settings.iter().zip(&known).filter(|(name, _)| **name != original);
        let expected = named.filter_map(|(name, known)| Some((Setting::parse(name).ok()?, Estimate::expected(known)?)));
        let mut better: Vec<(Setting, Estimate)> = expected.filter(|(_, gain)| gain.mean > MIN_GAIN).collect();
        better.sort_by(|a, b| b.1.mean.total_cmp(&a.1.mean));
        let ranking: Vec<Setting> = better.iter().map(|(setting, _)| setting.clone()).collect();
        let gain = |setting: &Setting| better.iter().find(|(other, _)| other == setting).map(|(_, gain)| *gain);
        let first = best_of_each_scheduler_first(&ranking).take(MAX_CHALLENGERS);
        first.map(|setting| Challenger { setting: setting.clone(), expected: gain(setting) }).collect()
    }
}

/// Reorders a ranking: the best of each scheduler, then the second best of each, and so on. A twin's errors are larger between schedulers
/// than between tunings of one, so the top of its ranking often consists of variations of one setting.
pub(super) fn best_of_each_scheduler_first(ranking: &[Setting]) -> impl Iterator<Item = &Setting> {
    let place = |number: usize| ranking[..number].iter().filter(|one| one.spec.name == ranking[number].spec.name).count();
    let mut order: Vec<usize> = (0..ranking.len()).collect();
    order.sort_by_key(|&number| (place(number), number));
    order.into_iter().map(|number| &ranking[number])
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn the_first_of_a_ranking_are_the_best_of_each_scheduler() {
        let ranking = ["bfq:slice_idle=0", "bfq", "kyber", "bfq:low_latency=0", "none"].map(|text| Setting::parse(text).unwrap());
        let order: Vec<String> = best_of_each_scheduler_first(&ranking).map(Setting::to_string).collect();
        assert_eq!(order, ["bfq:slice_idle=0", "kyber", "none", "bfq", "bfq:low_latency=0"]);
    }
}
