//! Which settings are tried: every combination of a grid, points of the Sobol sequence, or those that a search asks for.

use anyhow::ensure;
use block::Tunable;
use control::Setting;
use control::search::ioperf::Pattern;
use control::search::{Bayes, Genome, Search, Space, Start};
use observe::Preference;

/// Dimensions of the Sobol sequence.
const DIMENSIONS: usize = 256;
/// The seed by which the Sobol sequence is scrambled and a search draws: of no meaning, but the same everywhere.
const SEED: u32 = 1;
/// Points looked at for each one that is new: schedulers without tunables come again and again.
const ATTEMPTS: usize = 64;

/// What is tried of a tunable.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The scheduler's name; `None`: it is the host's.
    pub scheduler: Option<&'static str>,
    /// The tunable.
    pub tunable: &'static Tunable,
    /// These values; empty: any of the range.
    pub values: Vec<i64>,
    /// The least and the largest.
    pub range: (i64, i64),
}

impl Choice {
    /// The whole range.
    pub fn whole(scheduler: Option<&'static str>, tunable: &'static Tunable) -> Choice {
        Choice { scheduler, tunable, values: Vec::new(), range: (tunable.min, tunable.max) }
    }

    /// The name of its gene ([`Space::name`]), and of its column.
    fn gene(&self) -> String {
        match self.scheduler {
            Some(scheduler) => format!("{scheduler}:{}", self.tunable.name),
            None => self.tunable.name.to_owned(),
        }
    }
}

/// Where settings are looked for.
#[derive(Clone, Debug)]
pub struct Searched {
    bases: Vec<Setting>,
    default: Setting,
    choices: Vec<Choice>,
    points: usize,
    space: Space,
}

impl Searched {
    /// The schedulers of `bases` with what is tried of their tunables and of the host's; beside them `default`.
    ///
    /// # Errors
    /// A tunable is set for a scheduler and tried as well, or two bases are of one scheduler and its tunables are tried.
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

    /// The schedulers with what is set of them.
    pub fn bases(&self) -> &[Setting] {
        &self.bases
    }

    /// What is tried of tunables.
    pub fn choices(&self) -> &[Choice] {
        &self.choices
    }

    /// The default, then every combination.
    ///
    /// # Errors
    /// There are more than `most`.
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

    /// The default, then as many different points as are wanted, or as there are.
    ///
    /// # Errors
    /// There are more tunables than the sequence has dimensions, or two of the schedulers are the same.
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

    /// A search that begins with the default, if it is one of the settings that may be tried.
    ///
    /// # Errors
    /// Two of the schedulers are the same.
    pub fn begin(&self) -> anyhow::Result<Bayes> {
        self.expect_one_of_each()?;
        let genome = self.space.genome(&self.default).filter(|genome| self.setting(genome) == self.default);
        let (space, preference) = (&self.space, Preference::default());
        // The load's pattern counts only for searches that begin with rules.
        let pattern = Pattern { processes: 1, read_percent: 50, random_percent: 50, request_kib: 4 };
        Ok(Bayes::new(Start { space, seeds: genome.into_iter().collect(), preference, pattern, seed: SEED.into() }))
    }

    /// The settings of a batch that a search asks for.
    pub fn asked(&self, search: &mut Bayes) -> Vec<Setting> {
        search.ask().iter().map(|genome| self.setting(genome)).collect()
    }

    /// A genome chooses the scheduler once: what is set for two of a kind could not be told apart.
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

    /// The setting of a genome: what the plan sets for its scheduler, and what is tried.
    fn setting(&self, genome: &[f64]) -> Setting {
        let drawn = self.space.setting(genome);
        let base = self.bases.iter().find(|base| base.spec.name == drawn.spec.name);
        let mut setting = base.cloned().unwrap_or_else(|| Setting::of(drawn.spec));
        for gene in (0..self.space.len()).filter(|&gene| self.space.is_expressed(gene, genome)) {
            let name = self.space.name(gene);
            let Some(choice) = self.choices.iter().find(|choice| choice.gene() == name) else { continue };
            // Of a list every value has an equal share of the places.
            let listed = choice
                .values
                .get(((genome[gene] * choice.values.len() as f64) as usize).min(choice.values.len().saturating_sub(1)));
            let value = listed.copied().unwrap_or_else(|| value_of(&drawn, choice));
            setting = with(&setting, choice, value);
        }
        setting
    }
}

/// The value that a setting has of a tunable.
pub fn value_of(setting: &Setting, choice: &Choice) -> i64 {
    let name = choice.tunable.name;
    match choice.scheduler {
        Some(_) => setting.spec.tunables.iter().position(|tunable| tunable.name == name).map(|number| setting.values[number]),
        None => setting.host.iter().find(|(host, _)| host == name).map(|(_, value)| *value),
    }
    .unwrap_or(choice.tunable.default)
}

/// The setting with a value of a tunable; the same if it is of another scheduler.
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
            // As it is without being named.
            if value != choice.tunable.default {
                setting.host.push((name.to_owned(), value));
                setting.host.sort();
            }
        }
    }
    setting
}

/// Each once, at its first place.
fn distinct(settings: Vec<Setting>) -> Vec<Setting> {
    let mut seen = std::collections::BTreeSet::new();
    settings.into_iter().filter(|setting| seen.insert(setting.to_string())).collect()
}
