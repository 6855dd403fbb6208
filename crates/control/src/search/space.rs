//! The genes of a target: one for the scheduler, one for each tunable of each scheduler, one for each tunable of the host.
//!
//! Names, ranges and scales are those of the declarations ([`block::Tunable`]); there is no second list of them.

use block::{Scale, SchedulerSpec, Tunable};
use rand::Rng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::setting::Setting;
use crate::target::Target;

/// A point in a space: for each gene a number from 0 to 1, on the scale of its tunable.
pub type Genome = Vec<f64>;

/// Probability that a gene of a random genome has its default: defaults are chosen with care, and settings that differ from all of them are
/// rarely good. Choice: a higher one searches near the defaults only, a lower one far from them; not varied.
const DEFAULT: f64 = 0.5;
/// Probability that a mutated gene is redrawn; otherwise it moves by up to [`STEP`]. Choice: a higher one refines less, a lower one stays
/// in local optima; not varied.
const REDRAWN: f64 = 0.5;
/// Largest move of a mutated gene, as a fraction of its range. Choice: a larger one refines less, a smaller one takes more generations;
/// not varied.
const STEP: f64 = 0.15;

/// The effect of a gene.
#[derive(Clone, Copy, Debug)]
enum Gene {
    /// Selects the scheduler.
    Scheduler,
    /// Indices of a scheduler and of a tunable of it.
    Of(usize, usize),
    /// A tunable of the host.
    Host(&'static Tunable),
}

/// The settings that a search may choose.
#[derive(Clone, Debug)]
pub struct Space {
    schedulers: Vec<&'static SchedulerSpec>,
    genes: Vec<Gene>,
    /// The tunable of each gene with the range to search; `None` for the scheduler's gene.
    tunables: Vec<Option<Tunable>>,
}

impl Space {
    /// The schedulers of `candidates` that the target can run, with all their tunables if `tunes` is set, and those tunables of the host
    /// that the target can set and `is_gene` accepts.
    pub fn of(target: &dyn Target, candidates: &[Setting], tunes: bool, is_gene: impl Fn(&str) -> bool) -> Space {
        let can_run = target.schedulers();
        let is_there = |candidate: &&Setting| can_run.iter().any(|spec| spec.name == candidate.spec.name);
        let candidates: Vec<Setting> = candidates.iter().filter(is_there).cloned().collect();
        Space::new(&candidates, tunes, target.tunables().into_iter().filter(|tunable| is_gene(tunable.name)))
    }

    /// The schedulers of `candidates`, with all their tunables if `tunes` is set, and these tunables of the host.
    pub fn new(candidates: &[Setting], tunes: bool, host: impl Iterator<Item = &'static Tunable>) -> Space {
        let mut schedulers: Vec<&'static SchedulerSpec> = Vec::new();
        for spec in candidates.iter().map(|candidate| candidate.spec) {
            if !schedulers.iter().any(|other| other.name == spec.name) {
                schedulers.push(spec);
            }
        }
        let mut genes = vec![Gene::Scheduler];
        for (number, spec) in schedulers.iter().enumerate().filter(|_| tunes) {
            genes.extend((0..spec.tunables.len()).map(|tunable| Gene::Of(number, tunable)));
        }
        genes.extend(host.map(Gene::Host));
        let declared = |gene: &Gene| match *gene {
            Gene::Scheduler => None,
            Gene::Of(scheduler, tunable) => Some(schedulers[scheduler].tunables[tunable]),
            Gene::Host(tunable) => Some(*tunable),
        };
        let tunables = genes.iter().map(declared).collect();
        Space { schedulers, genes, tunables }
    }

    /// Keeps only the tunables for which `range` returns the minimum and maximum to try, given the scheduler's name (`None` for the host)
    /// and the tunable's name. Ranges are clamped to the declared ones.
    #[must_use]
    pub fn narrowed(self, range: impl Fn(Option<&str>, &str) -> Option<(i64, i64)>) -> Space {
        let narrow = |(gene, tunable): (Gene, Option<Tunable>)| {
            let Some(tunable) = tunable else { return Some((gene, None)) };
            let scheduler = if let Gene::Of(scheduler, _) = gene { Some(self.schedulers[scheduler].name) } else { None };
            let (min, max) = range(scheduler, tunable.name)?;
            let min = min.clamp(tunable.min, tunable.max);
            Some((gene, Some(Tunable { min, max: max.clamp(min, tunable.max), ..tunable })))
        };
        let (genes, tunables) = self.genes.into_iter().zip(self.tunables).filter_map(narrow).unzip();
        Space { schedulers: self.schedulers, genes, tunables }
    }

    /// The number of genes.
    pub fn len(&self) -> usize {
        self.genes.len()
    }

    /// Whether there is no scheduler.
    pub fn is_empty(&self) -> bool {
        self.schedulers.is_empty()
    }

    /// The number of schedulers.
    pub fn schedulers(&self) -> usize {
        self.schedulers.len()
    }

    /// The index of a genome's scheduler.
    pub fn scheduler(&self, genome: &[f64]) -> usize {
        cell(genome.first().copied().unwrap_or(0.0), self.schedulers.len())
    }

    /// Whether the gene chooses the scheduler.
    pub fn is_scheduler(&self, gene: usize) -> bool {
        matches!(self.genes[gene], Gene::Scheduler)
    }

    /// The host tunable of a gene; `None` for other genes.
    pub fn host(&self, gene: usize) -> Option<&'static Tunable> {
        if let Gene::Host(tunable) = self.genes[gene] { Some(tunable) } else { None }
    }

    /// Whether the gene has an effect in this genome: the tunables of other schedulers have none.
    pub fn is_expressed(&self, gene: usize, genome: &[f64]) -> bool {
        match self.genes[gene] {
            Gene::Of(scheduler, _) => scheduler == self.scheduler(genome),
            Gene::Scheduler | Gene::Host(_) => true,
        }
    }

    /// The name of a gene.
    pub fn name(&self, gene: usize) -> String {
        match self.genes[gene] {
            Gene::Scheduler => "scheduler".to_owned(),
            Gene::Of(scheduler, _) => {
                format!("{}:{}", self.schedulers[scheduler].name, self.tunable(gene).map_or("", |it| it.name))
            }
            Gene::Host(tunable) => tunable.name.to_owned(),
        }
    }

    fn tunable(&self, gene: usize) -> Option<&Tunable> {
        self.tunables[gene].as_ref()
    }

    /// The setting of a genome. A host tunable at its declared default is not part of it.
    ///
    /// # Panics
    /// There is no scheduler.
    pub fn setting(&self, genome: &[f64]) -> Setting {
        let mut setting = Setting::of(self.schedulers[self.scheduler(genome)]);
        for (gene, &place) in genome.iter().enumerate().filter(|&(gene, _)| self.is_expressed(gene, genome)) {
            let Some(tunable) = self.tunable(gene) else { continue };
            let value = value_at(tunable, place);
            match self.genes[gene] {
                Gene::Of(_, number) => setting.values[number] = value,
                Gene::Host(_) if value != tunable.default => setting.host.push((tunable.name.to_owned(), value)),
                Gene::Host(_) | Gene::Scheduler => {}
            }
        }
        setting.host.sort();
        setting
    }

    /// A genome of the setting; `None` if its scheduler or one of its host tunables is not in the space.
    pub fn genome(&self, setting: &Setting) -> Option<Genome> {
        let scheduler = self.schedulers.iter().position(|spec| spec.name == setting.spec.name)?;
        let is_known = |name: &String| self.genes.iter().any(|gene| matches!(gene, Gene::Host(tunable) if tunable.name == *name));
        if !setting.host.iter().all(|(name, _)| is_known(name)) {
            return None;
        }
        let place = |gene: usize| match self.genes[gene] {
            Gene::Scheduler => (scheduler as f64 + 0.5) / self.schedulers.len() as f64,
            Gene::Of(of, number) if of == scheduler => {
                self.tunable(gene).map_or(0.0, |tunable| place_of(tunable, setting.values[number]))
            }
            Gene::Of(..) => self.default_place(gene),
            Gene::Host(tunable) => {
                let named = setting.host.iter().find(|(name, _)| name == tunable.name);
                place_of(tunable, named.map_or(tunable.default, |(_, value)| *value))
            }
        };
        Some((0..self.len()).map(place).collect())
    }

    fn default_place(&self, gene: usize) -> f64 {
        self.tunable(gene).map_or(0.5, |tunable| place_of(tunable, tunable.default))
    }

    /// A random genome: any scheduler, and about half of the tunables at their defaults.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Genome {
        let mut place = |gene: usize| {
            let drawn = random.random::<f64>();
            if random.random::<f64>() < DEFAULT && !self.is_scheduler(gene) { self.default_place(gene) } else { drawn }
        };
        (0..self.len()).map(&mut place).collect()
    }

    /// The value of a gene after a mutation: near the old one, or random.
    pub fn mutated(&self, gene: usize, place: f64, random: &mut Xoshiro256PlusPlus) -> f64 {
        let is_redrawn = self.is_scheduler(gene) || random.random::<f64>() < REDRAWN;
        let drawn = random.random::<f64>();
        if is_redrawn { drawn } else { (place + STEP * (2.0 * drawn - 1.0)).clamp(0.0, 1.0) }
    }

    /// Squared distance of two genomes over the genes that are expressed in both, plus 1 for different schedulers; 0 for the same setting.
    pub fn distance(&self, one: &[f64], other: &[f64]) -> f64 {
        let is_other = self.scheduler(one) != self.scheduler(other);
        let in_both = |gene: &usize| self.is_expressed(*gene, one) && self.is_expressed(*gene, other) && !self.is_scheduler(*gene);
        let apart = (0..self.len()).filter(in_both).map(|gene| (one[gene] - other[gene]).powi(2)).sum::<f64>();
        apart + f64::from(u8::from(is_other))
    }
}

/// The index of the cell that contains this place, of `count` equal cells from 0 to 1.
fn cell(place: f64, count: usize) -> usize {
    ((place * count as f64) as usize).min(count.saturating_sub(1))
}

/// Offset of the values of a logarithmic tunable, so that all have a logarithm.
fn shift(tunable: &Tunable) -> f64 {
    (1.0 - tunable.min as f64).max(0.0)
}

/// The tunable's value at a place from 0 to 1; always in its range.
pub(super) fn value_at(tunable: &Tunable, place: f64) -> i64 {
    let (min, max) = (tunable.min as f64, tunable.max as f64);
    let value = match tunable.scale {
        Scale::Linear => min + (place * (max - min + 1.0)).floor(),
        Scale::Logarithmic => {
            let (least, most) = ((min + shift(tunable)).ln(), (max + shift(tunable) + 1.0).ln());
            (least + place * (most - least)).exp().floor() - shift(tunable)
        }
    };
    (value as i64).clamp(tunable.min, tunable.max)
}

/// The center of the interval of places that map to a value.
pub(super) fn place_of(tunable: &Tunable, value: i64) -> f64 {
    let (min, max, value) = (tunable.min as f64, tunable.max as f64, value as f64);
    let place = match tunable.scale {
        Scale::Linear => (value - min + 0.5) / (max - min + 1.0),
        Scale::Logarithmic => {
            let (least, most) = ((min + shift(tunable)).ln(), (max + shift(tunable) + 1.0).ln());
            ((value + shift(tunable) + 0.5).ln() - least) / (most - least)
        }
    };
    place.clamp(0.0, 1.0)
}
