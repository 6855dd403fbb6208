//! Candidate settings: a full grid, points of the Sobol sequence, or those requested by a search.

use anyhow::ensure;
use block::Tunable;
use control::Setting;
use control::search::ioperf::Pattern;
use control::search::{Bayes, Genome, Search, Space, Start};
use observe::Preference;

/// Maximum number of dimensions of the Sobol sequence.
const DIMENSIONS: usize = 256;
/// Fixed seed of Sobol scrambling and of searches, so that every machine gets the same points.
const SEED: u32 = 1;
/// Maximum number of Sobol points drawn per requested setting: those of schedulers without tunables repeat often.
const ATTEMPTS: usize = 64;

/// The candidate values of a tunable.
#[derive(Clone, Debug)]
pub struct Choice {
    /// Scheduler name; `None` for a tunable of the host.
    pub scheduler: Option<&'static str>,
    /// The tunable.
    pub tunable: &'static Tunable,
    /// Candidate values; empty means any in `range`.
    pub values: Vec<i64>,
    /// Minimum and maximum of the values.
    pub range: (i64, i64),
}

impl Choice {
    /// Allows any value in the tunable's range.
    pub fn whole(scheduler: Option<&'static str>, tunable: &'static Tunable) -> Choice {
        Choice { scheduler, tunable, values: Vec::new(), range: (tunable.min, tunable.max) }
    }

    /// Name of the gene in [`Space::name`].
    fn gene(&self) -> String {
        match self.scheduler {
            Some(scheduler) => format!("{scheduler}:{}", self.tunable.name),
            None => self.tunable.name.to_owned(),
        }
    }
}

/// The search space of settings.
#[derive(Clone, Debug)]
pub struct Searched {
    bases: Vec<Setting>,
    default: Setting,
    choices: Vec<Choice>,
    points: usize,
    space: Space,
}

impl Searched {
    /// A space of the schedulers in `bases` and the candidate values of their tunables and the host's, plus `default`.
    ///
    /// # Errors
    /// A tunable is both set by a base and varied.
    pub fn new(bases: &[Setting], default: &Setting, choices: Vec<Choice>, points: usize) -> anyhow::Result<Searched> {
        for base in bases {
            for choice in &choices {
                let name = choice.tunable.name;
                let number = base.spec.tunables.iter().position(|tunable| tunable.name == name);
                let is_set = match choice.scheduler {
                    Some(scheduler) if scheduler == base.spec.name => {
                        number.is_some_and(|number| base.values[number] != choice.tunable.default)
                    }
                    Some(_) => false,
                    None => base.host.iter().any(|(host, _)| host == name),
                };
                ensure!(!is_set, "schedulers: {base} sets {name}, and different values of it are tried; one of the two is right");
            }
        }
        let host = choices.iter().filter(|choice| choice.scheduler.is_none()).map(|choice| choice.tunable);
        let of = |scheduler: Option<&str>, name: &str| {
            choices.iter().find(|choice| choice.scheduler == scheduler && choice.tunable.name == name).map(|choice| choice.range)
        };
        let space = Space::new(bases, true, host).narrowed(of);
        Ok(Searched { bases: bases.to_vec(), default: default.clone(), choices, points, space })
    }

    /// The schedulers with their fixed tunables.
    pub fn bases(&self) -> &[Setting] {
        &self.bases
    }

    /// The varied tunables and their candidate values.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// The default, then every combination, without duplicates.
    ///
    /// # Errors
    /// One of the bases has more than `most` combinations.
    pub fn grid(&self, most: usize) -> anyhow::Result<Vec<Setting>> {
        let mut settings = vec![self.default.clone()];
        for base in &self.bases {
            let mut combined = vec![base.clone()];
            for choice in &self.choices {
                if choice.scheduler.is_some_and(|scheduler| scheduler != base.spec.name) {
                    continue;
                }
                let with = |setting: &Setting, value: &i64| with(setting, choice, *value);
                combined =
                    combined.iter().flat_map(|setting| choice.values.iter().map(move |value| with(setting, value))).collect();
                ensure!(combined.len() <= most, "the grid has more than {most} settings; give fewer values, or method = \"sobol\"");
            }
            settings.extend(combined);
        }
        Ok(distinct(settings))
    }

    /// The default, then distinct Sobol points: `points` settings in all, fewer if 64 times as many points do not give enough.
    ///
    /// # Errors
    /// There are more tunables than Sobol dimensions, or a scheduler is listed twice.
    pub fn sobol(&self) -> anyhow::Result<Vec<Setting>> {
        self.expect_one_of_each()?;
        ensure!(
            self.space.len() <= DIMENSIONS,
            "{} tunables are tried; the Sobol sequence has {DIMENSIONS} dimensions",
            self.space.len()
        );
        let mut settings = vec![self.default.clone()];
        for number in 0..self.points * ATTEMPTS {
            let place = |gene: usize| f64::from(sobol_burley::sample(number as u32, gene as u32, SEED));
            let setting = self.setting(&(0..self.space.len()).map(place).collect::<Genome>());
            if !settings.contains(&setting) {
                settings.push(setting);
            }
            if settings.len() >= self.points {
                break;
            }
        }
        Ok(settings)
    }

    /// A Bayesian search that starts at the default if the default is in the space.
    ///
    /// # Errors
    /// A scheduler is listed twice.
    pub fn begin(&self) -> anyhow::Result<Bayes> {
        self.expect_one_of_each()?;
        let genome = self.space.genome(&self.default).filter(|genome| self.setting(genome) == self.default);
        let (space, preference) = (&self.space, Preference::default());
        // A placeholder: only searches that start from rules use the load's pattern.
        let pattern = Pattern { processes: 1, read_percent: 50, random_percent: 50, request_kib: 4 };
        Ok(Bayes::new(Start { space, seeds: genome.into_iter().collect(), preference, pattern, seed: SEED.into() }))
    }

    /// The next batch of settings requested by a search.
    pub fn asked(&self, search: &mut Bayes) -> Vec<Setting> {
        search.ask().iter().map(|genome| self.setting(genome)).collect()
    }

    /// Rejects duplicate schedulers: a genome encodes the scheduler only, so it could not tell two bases of one scheduler apart.
    fn expect_one_of_each(&self) -> anyhow::Result<()> {
        for (number, base) in self.bases.iter().enumerate() {
            let other = self.bases[..number].iter().find(|other| other.spec.name == base.spec.name);
            if let Some(other) = other {
                anyhow::bail!(
                    "schedulers: {other} and {base} are of one scheduler; a search takes each once, with tunables to try"
                );
            }
        }
        Ok(())
    }

    /// Decodes a genome: the fixed tunables of its scheduler and the varied ones.
    fn setting(&self, genome: &[f64]) -> Setting {
        let drawn = self.space.setting(genome);
        let base = self.bases.iter().find(|base| base.spec.name == drawn.spec.name);
        let mut setting = base.cloned().unwrap_or_else(|| Setting::of(drawn.spec));
        for gene in (0..self.space.len()).filter(|&gene| self.space.is_expressed(gene, genome)) {
            let name = self.space.name(gene);
            let Some(choice) = self.choices.iter().find(|choice| choice.gene() == name) else { continue };
            // Listed values share the range equally.
            let listed = choice
                .values
                .get(((genome[gene] * choice.values.len() as f64) as usize).min(choice.values.len().saturating_sub(1)));
            let value = listed.copied().unwrap_or_else(|| value_of(&drawn, choice));
            setting = with(&setting, choice, value);
        }
        setting
    }
}

/// The value of a tunable in a setting; its default if the setting does not have it.
pub fn value_of(setting: &Setting, choice: &Choice) -> i64 {
    let name = choice.tunable.name;
    match choice.scheduler {
        Some(_) => setting.spec.tunables.iter().position(|tunable| tunable.name == name).map(|number| setting.values[number]),
        None => setting.host.iter().find(|(host, _)| host == name).map(|(_, value)| *value),
    }
    .unwrap_or(choice.tunable.default)
}

/// Sets a tunable. A setting whose scheduler has no tunable of this name is returned unchanged.
fn with(setting: &Setting, choice: &Choice, value: i64) -> Setting {
    let mut setting = setting.clone();
    let name = choice.tunable.name;
    match choice.scheduler {
        Some(_) => {
            let number = setting.spec.tunables.iter().position(|tunable| tunable.name == name);
            if let Some(one) = number.and_then(|number| setting.values.get_mut(number)) {
                *one = value;
            }
        }
        None => {
            setting.host.retain(|(host, _)| host != name);
            // The default is left implicit.
            if value != choice.tunable.default {
                setting.host.push((name.to_owned(), value));
                setting.host.sort();
            }
        }
    }
    setting
}

/// Removes duplicates, keeping first occurrences.
fn distinct(settings: Vec<Setting>) -> Vec<Setting> {
    let mut seen = std::collections::BTreeSet::new();
    settings.into_iter().filter(|setting| seen.insert(setting.to_string())).collect()
}
