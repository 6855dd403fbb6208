//! The genetic library for the Linux kernel as published, on the tunables of one scheduler.
//!
//! Moilanen, "Genetic-lib version 0.2", linux-kernel, 15 February 2005 (`lib/genetic.c`, and the genes in `as-iosched.c`); fingerprints as in
//! Moilanen, "I/O Workload Fingerprinting in the Genetic-Library", Linux Symposium 2006, which the report's kernel 2.6.16 has.
//!
//! ```text
//!  every phenotype has its own eight children, over its own genes; child k of all of them together is a setting, active for 2 s
//!
//!  after eight children, for each phenotype:
//!    rank      worst 0 … 3 │ 4 … 7 best
//!    mutation  rate 15% at first; 4 points less if the mean fitness rose, 4 more if it fell; from 10% to 45%
//!    replace   0 and 1 by genes of 4 and 7, 2 and 3 by genes of 5 and 6, each gene from either parent
//!    mutate    children × genes × rate times: any child, the best included, any gene, anywhere in its range
//! ```
//! It never stops, does not exempt any child from mutation, and does not know the defaults.

use std::collections::BTreeMap;

use block::Nanos;
use control::{Controller, Decision, Setting, Target, Window, WindowLength};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Number of children in a generation (`AS_NUM_CHILDREN`).
pub const CHILDREN: usize = 8;
/// Life of a child: the report's "2 seconds, which is equal to one genetic child lifetime" (section 4.1).
pub const CHILD: Nanos = Nanos::from_millis(2_000);
/// Mutation rate in percent of all genes: initial value, range, and change per generation (`genetic.h`).
const MUTATION: i64 = 15;
const MUTATION_RANGE: (i64, i64) = (10, 45);
const MUTATION_CHANGE: i64 = 4;
/// Half-width of a range relative to the default, where the patch has none: it uses a half for every gene of anticipatory.
const HALF_WIDTH: f64 = 0.5;
/// Factor by which our wide ranges extend to either side of the default.
const WIDE: f64 = 10.0;
/// Boundaries of request-size classes in fingerprints, in KiB.
const SIZES_KIB: [f64; 3] = [16.0, 64.0, 256.0];

/// The property that defines fitness.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// Sectors read and written (`disk_calc_fitness`); more is fitter.
    Throughput,
    /// Time in the queue per operation, an alternative in the patch; less is fitter.
    Latency,
}

use Property::{Latency, Throughput};

/// Ranges of the genes of anticipatory in milliseconds (`as_gene_param`, with HZ = 1000: HZ/16 to 3 HZ/16 and so on). Its sixth gene, the cap of
/// recorded think times, is not a tunable here.
const OF_PATCH: [(&str, i64, i64); 5] = [
    ("read_expire", 62, 187),
    ("write_expire", 125, 375),
    ("read_batch_expire", 250, 750),
    ("write_batch_expire", 62, 187),
    ("antic_expire", 3, 10),
];

/// Genes of each scheduler, with the property by which each is selected. The published patch covers anticipatory only; we do not know the
/// assignment of genes to phenotypes in 2.6.16.
const GENES: [(&str, &[(&str, Property)]); 4] = [
    (
        "anticipatory",
        &[
            ("read_expire", Latency),
            ("write_expire", Latency),
            ("read_batch_expire", Throughput),
            ("write_batch_expire", Throughput),
            ("antic_expire", Throughput),
        ],
    ),
    (
        "mq-deadline",
        &[("read_expire", Latency), ("write_expire", Latency), ("fifo_batch", Throughput), ("writes_starved", Latency)],
    ),
    (
        "bfq",
        &[
            ("slice_idle", Throughput),
            ("low_latency", Latency),
            ("timeout_sync", Throughput),
            ("fifo_expire_sync", Latency),
            ("fifo_expire_async", Latency),
            ("back_seek_max", Throughput),
            ("back_seek_penalty", Throughput),
        ],
    ),
    (
        "cfq",
        &[
            ("quantum", Throughput),
            ("fifo_expire_sync", Latency),
            ("fifo_expire_async", Latency),
            ("slice_sync", Throughput),
            ("slice_async", Latency),
            ("slice_async_rq", Latency),
            ("slice_idle", Throughput),
        ],
    ),
];

/// Choices that the sources leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variant {
    /// One phenotype per [`Property`]; otherwise a single one for all genes, by throughput, as in the patch of anticipatory.
    pub has_phenotypes: bool,
    /// Whether the genes of a workload are saved for its recurrence.
    pub has_fingerprints: bool,
    /// Ranges from a tenth to ten times the default, instead of 0.5 to 1.5 times.
    pub is_wide: bool,
}

impl Variant {
    /// As in the report's kernel.
    pub const PRINTED: Variant = Variant { has_phenotypes: true, has_fingerprints: true, is_wide: false };
    /// Release 0.2: one phenotype, no fingerprints.
    pub const RELEASE_0_2: Variant = Variant { has_phenotypes: false, has_fingerprints: false, is_wide: false };
    /// The report's variant with our wide ranges.
    pub const IN_WIDE_RANGES: Variant = Variant { is_wide: true, ..Variant::PRINTED };
}

/// A gene: the index of a tunable of the scheduler, and its range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Gene {
    tunable: usize,
    min: i64,
    max: i64,
}

/// The values of a child's genes.
type Genes = Vec<i64>;

/// A phenotype: a set of genes and its children.
#[derive(Clone, Debug)]
struct Phenotype {
    property: Property,
    genes: Vec<Gene>,
    children: Vec<Genes>,
    fitness: Vec<f64>,
    /// Mutation rate, in percent of all genes of a generation.
    mutation: i64,
    /// Mean fitness of the previous generation; `None` in the first.
    before: Option<f64>,
}

impl Phenotype {
    /// Initial children, spread over the ranges (`genetic_create_child_spread`).
    fn new(property: Property, genes: Vec<Gene>) -> Phenotype {
        let spread = |child: usize| genes.iter().map(|gene| gene.spread(child as i64)).collect();
        let children = (0..CHILDREN).map(spread).collect();
        Phenotype { property, genes, children, fitness: Vec::new(), mutation: MUTATION, before: None }
    }

    /// Indices of the children by fitness, the worst first; equal ones in order of evaluation (`genetic_split_performers`).
    fn ranking(&self) -> Vec<usize> {
        let mut ranking: Vec<usize> = (0..self.children.len()).collect();
        ranking.sort_by(|&a, &b| self.fitness[a].total_cmp(&self.fitness[b]));
        ranking
    }

    /// The genes of the fitter half, the best last.
    fn better_half(&self) -> Vec<Genes> {
        self.ranking()[CHILDREN / 2..].iter().map(|&child| self.children[child].clone()).collect()
    }

    /// Breeds the next generation. `reintroduced` replaces the worse half, if given, instead of new children.
    fn breed(&mut self, reintroduced: Option<&Vec<Genes>>, random: &mut Xoshiro256PlusPlus) {
        let ranking = self.ranking();
        self.shift_mutation();
        match reintroduced {
            Some(known) => ranking.iter().zip(known).for_each(|(&child, genes)| self.children[child].clone_from(genes)),
            None => self.replace(&ranking, random),
        }
        for _ in 0..self.mutations() {
            let (child, gene) = (random.random_range(0..CHILDREN), random.random_range(0..self.genes.len()));
            self.children[child][gene] = random.random_range(self.genes[gene].min..=self.genes[gene].max);
        }
        self.fitness.clear();
    }

    /// The two worst children get genes of the outer two of the better half, the others those of the inner two (`genetic_ns_top_parents`).
    fn replace(&mut self, ranking: &[usize], random: &mut Xoshiro256PlusPlus) {
        for pair in 0..CHILDREN / 4 {
            let parents = [ranking[CHILDREN / 2 + pair], ranking[CHILDREN - 1 - pair]];
            for child in [ranking[2 * pair], ranking[2 * pair + 1]] {
                for gene in 0..self.genes.len() {
                    self.children[child][gene] = self.children[parents[usize::from(random.random::<bool>())]][gene];
                }
            }
        }
    }

    /// Number of mutations in a generation (`genetic_calc_stats`).
    fn mutations(&self) -> usize {
        CHILDREN * self.genes.len() * self.mutation.unsigned_abs() as usize / 100
    }

    fn shift_mutation(&mut self) {
        let mean = self.fitness.iter().sum::<f64>() / self.fitness.len().max(1) as f64;
        if let Some(before) = self.before {
            let change = if mean > before {
                -MUTATION_CHANGE
            } else if mean < before {
                MUTATION_CHANGE
            } else {
                0
            };
            self.mutation = (self.mutation + change).clamp(MUTATION_RANGE.0, MUTATION_RANGE.1);
        }
        self.before = Some(mean);
    }
}

impl Gene {
    /// The initial value for a child. Clamped to the range, which the patch leaves if it is narrow.
    fn spread(&self, child: i64) -> i64 {
        let (children, width) = (CHILDREN as i64, self.max - self.min + 1);
        let step = width / children;
        (self.min + if step > 0 { step * child } else { child / (children / width) }).min(self.max)
    }
}

/// A workload's characteristics: quarters of the read share and of the sequential share, and the class of request sizes. The abstract of the
/// paper names only "many small pieces of information"; these three are our choice.
type Fingerprint = [u8; 3];

fn fingerprint(windows: &[Window]) -> Fingerprint {
    let mean = |name: &str| {
        let known = windows.iter().filter_map(|window| window.features.get(name)).filter(|value| value.is_finite());
        let (sum, count) = known.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    };
    let quarter = |share: f64| (4.0 * share).floor().clamp(0.0, 3.0) as u8;
    let size_kib = mean("size_mean_bytes") / 1024.0;
    let class = SIZES_KIB.iter().filter(|&&from| size_kib >= from).count() as u8;
    [quarter(mean("read_share")), quarter(mean("sequential_share")), class]
}

/// The genetic library tuning a scheduler.
pub struct Library {
    variant: Variant,
    found: Setting,
    phenotypes: Vec<Phenotype>,
    /// Index of the active child.
    child: usize,
    /// Windows of the current generation.
    windows: Vec<Window>,
    load: Option<Fingerprint>,
    /// The most recent better half of each phenotype, by workload.
    known: BTreeMap<Fingerprint, Vec<Vec<Genes>>>,
    random: Xoshiro256PlusPlus,
}

impl Library {
    /// Tunes the scheduler of `found`; without genes its setting never changes.
    pub fn new(found: &Setting, variant: Variant, seed: u64) -> Library {
        let phenotypes = phenotypes(found, variant);
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (windows, known) = (Vec::new(), BTreeMap::new());
        Library { variant, found: found.clone(), phenotypes, child: 0, windows, load: None, known, random }
    }

    /// The setting of the active child.
    fn setting(&self) -> Setting {
        let mut setting = self.found.clone();
        for phenotype in &self.phenotypes {
            for (gene, value) in phenotype.genes.iter().zip(&phenotype.children[self.child]) {
                setting.values[gene.tunable] = *value;
            }
        }
        setting
    }

    fn new_generation(&mut self) {
        let load = fingerprint(&std::mem::take(&mut self.windows));
        let is_return = self.variant.has_fingerprints && self.load.is_some_and(|before| before != load);
        let reintroduced = if is_return { self.known.get(&load).cloned() } else { None };
        if self.variant.has_fingerprints {
            self.known.insert(load, self.phenotypes.iter().map(Phenotype::better_half).collect());
            self.load = Some(load);
        }
        for (place, phenotype) in self.phenotypes.iter_mut().enumerate() {
            phenotype.breed(reintroduced.as_ref().and_then(|known| known.get(place)), &mut self.random);
        }
    }
}

fn phenotypes(found: &Setting, variant: Variant) -> Vec<Phenotype> {
    let genes = GENES.iter().find(|(name, _)| *name == found.spec.name).map_or(&[][..], |(_, genes)| genes);
    let of = |property: Option<Property>| {
        let genes = genes.iter().filter(|(_, of)| property.is_none_or(|property| property == *of));
        let genes: Vec<Gene> = genes.filter_map(|(name, _)| gene(found, name, variant.is_wide)).collect();
        (!genes.is_empty()).then(|| Phenotype::new(property.unwrap_or(Throughput), genes))
    };
    let wanted: &[Option<Property>] = if variant.has_phenotypes { &[Some(Throughput), Some(Latency)] } else { &[None] };
    wanted.iter().filter_map(|property| of(*property)).collect()
}

/// Index and range of every gene of a scheduler.
pub fn ranges(found: &Setting, variant: Variant) -> Vec<(usize, i64, i64)> {
    let of = phenotypes(found, Variant { has_phenotypes: false, ..variant });
    of.iter().flat_map(|phenotype| &phenotype.genes).map(|gene| (gene.tunable, gene.min, gene.max)).collect()
}

fn gene(found: &Setting, name: &str, is_wide: bool) -> Option<Gene> {
    let place = found.spec.tunables.iter().position(|tunable| tunable.name == name)?;
    let tunable = &found.spec.tunables[place];
    let default = tunable.default as f64;
    let printed = OF_PATCH.iter().find(|(of, ..)| *of == name && found.spec.name == GENES[0].0);
    let (min, max) = match (printed, is_wide) {
        // A flag.
        _ if tunable.max == 1 => (0, 1),
        (Some(&(_, min, max)), false) => (min, max),
        (None, false) => ((default * (1.0 - HALF_WIDTH)).floor() as i64, (default * (1.0 + HALF_WIDTH)).ceil() as i64),
        (_, true) => ((default / WIDE).floor() as i64, (default * WIDE).ceil() as i64),
    };
    Some(Gene { tunable: place, min: min.max(tunable.min), max: max.min(tunable.max) })
}

/// A child's fitness in a window.
fn fitness(property: Property, window: &Window) -> f64 {
    let outcome = &window.outcome;
    match property {
        Throughput => outcome.throughput(),
        // Zero if nothing waited, which is the maximum fitness.
        Latency => -outcome.waited_s.max(0.0),
    }
}

impl Controller for Library {
    fn name(&self) -> &'static str {
        "genetic library"
    }

    fn begin(&mut self, _now: Nanos, target: &dyn Target) -> Decision {
        self.found = Setting { host: target.setting().host, ..self.found.clone() };
        Decision::set(self.setting(), "the first child")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(CHILD), requests: None }
    }

    fn decide(&mut self, window: &Window, _target: &dyn Target) -> Decision {
        for phenotype in &mut self.phenotypes {
            phenotype.fitness.push(fitness(phenotype.property, window));
        }
        self.windows.push(window.clone());
        self.child += 1;
        if self.child == CHILDREN {
            self.new_generation();
            self.child = 0;
        }
        Decision::set(self.setting(), "the next child")
    }

    fn is_searching(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn genes(ranges: &[(i64, i64)]) -> Vec<Gene> {
        ranges.iter().enumerate().map(|(tunable, &(min, max))| Gene { tunable, min, max }).collect()
    }

    fn random() -> Xoshiro256PlusPlus {
        Xoshiro256PlusPlus::seed_from_u64(1)
    }

    #[test]
    fn the_genes_of_anticipatory_have_the_patchs_ranges_and_children_are_spread_over_them() {
        // as_gene_param with HZ = 1000: HZ/16 = 62 to 3 HZ/16 = 187, HZ/8 to 3 HZ/8, HZ/4 to 3 HZ/4, HZ/16 to 3 HZ/16, HZ/300 = 3 to HZ/100 = 10.
        let found = Setting::parse("anticipatory").unwrap();
        let one = &phenotypes(&found, Variant::RELEASE_0_2)[0];
        let ranges: Vec<(&str, i64, i64)> =
            one.genes.iter().map(|gene| (found.spec.tunables[gene.tunable].name, gene.min, gene.max)).collect();
        assert_eq!(
            ranges,
            [
                ("read_expire", 62, 187),
                ("write_expire", 125, 375),
                ("read_batch_expire", 250, 750),
                ("write_batch_expire", 62, 187),
                ("antic_expire", 3, 10)
            ]
        );
        // The range 250 to 750 has a width of 501, 501 / 8 = 62: child 3 has 250 + 3 × 62 = 436. 3 to 10 has 8, 8 / 8 = 1: child 7 has 10.
        assert_eq!((one.children[3][2], one.children[3][4], one.children[7][4]), (436, 6, 10));
        // A flag has a width of 2, less than 8 children, and 8 / 2 = 4: the first four children have 0, the others 1.
        let flag = Gene { tunable: 0, min: 0, max: 1 };
        assert_eq!((0..8).map(|child| flag.spread(child)).collect::<Vec<_>>(), [0, 0, 0, 0, 1, 1, 1, 1]);
        let two = phenotypes(&found, Variant::PRINTED);
        assert_eq!(two.iter().map(|of| (of.property, of.genes.len())).collect::<Vec<_>>(), [(Throughput, 3), (Latency, 2)]);
    }

    #[test]
    fn the_worse_half_is_replaced_by_children_of_outer_and_inner_pairs_of_the_better_half() {
        let mut phenotype = Phenotype::new(Throughput, genes(&[(0, 1_000)]));
        // Child c has gene 10 c. Fitness makes the ranking 6 0 2 4 │ 1 3 5 7, the worst first.
        phenotype.children = (0..8).map(|child| vec![10 * child]).collect();
        phenotype.fitness = vec![2.0, 5.0, 3.0, 6.0, 4.0, 7.0, 1.0, 8.0];
        let ranking = phenotype.ranking();
        assert_eq!(ranking, [6, 0, 2, 4, 1, 3, 5, 7]);
        assert_eq!(phenotype.better_half(), [[10], [30], [50], [70]]);
        phenotype.replace(&ranking, &mut random());
        let gene = |child: usize| phenotype.children[child][0];
        // Ranks 0 and 1, children 6 and 0, have genes of ranks 4 and 7, children 1 and 7; ranks 2 and 3 of ranks 5 and 6, children 3 and 5.
        assert!([6, 0].iter().all(|&child| [10, 70].contains(&gene(child))), "{:?}", phenotype.children);
        assert!([2, 4].iter().all(|&child| [30, 50].contains(&gene(child))), "{:?}", phenotype.children);
        assert_eq!([1, 3, 5, 7].map(gene), [10, 30, 50, 70]);
    }

    #[test]
    fn the_mutation_rate_moves_by_four_points_from_ten_to_forty_five_percent() {
        let mut phenotype = Phenotype::new(Throughput, genes(&[(0, 9); 6]));
        let mut shifted = |fitness: f64| {
            phenotype.fitness = vec![fitness; CHILDREN];
            phenotype.shift_mutation();
            (phenotype.mutation, phenotype.mutations())
        };
        // Eight children of six genes are 48 genes: 15% of them are 7.2 mutations, cut to 7. The first generation shifts nothing.
        assert_eq!(shifted(100.0), (15, 7));
        // Better: 11%, 5.28. Better again: 7%, held at 10%, 4.8. The same: no change. Worse: 14%, 6.72.
        assert_eq!([110.0, 120.0, 120.0, 90.0].map(&mut shifted), [(11, 5), (10, 4), (10, 4), (14, 6)]);
        // Eight times worse, from 14% by 4 each: 18, 22, 26, 30, 34, 38, 42, and held at 45%, 21.6.
        assert_eq!((1..=8).map(|step| shifted(90.0 - f64::from(step))).last(), Some((45, 21)));
    }

    #[test]
    fn the_best_child_is_not_safe_from_mutation_and_known_genes_take_the_place_of_the_worst() {
        let mut phenotype = Phenotype::new(Throughput, genes(&[(0, 1_000_000)]));
        phenotype.mutation = 45;
        let mut random = random();
        let mut lost = 0;
        for _ in 0..100 {
            phenotype.children = (0..8).map(|child| vec![child]).collect();
            phenotype.fitness = (0..8).map(f64::from).collect();
            phenotype.breed(None, &mut random);
            lost += usize::from(phenotype.children[7] != [7]);
        }
        // 8 genes × 45% are 3 mutations, any of 8 children each: the best survives one in (7/8)³ = 67%.
        assert!((20..=46).contains(&lost), "{lost} of 100");
        let known: Vec<Genes> = [900, 901, 902, 903].map(|gene| vec![gene]).to_vec();
        phenotype.children = (0..8).map(|child| vec![child]).collect();
        phenotype.fitness = (0..8).map(f64::from).collect();
        phenotype.mutation = 0;
        phenotype.before = None;
        phenotype.breed(Some(&known), &mut random);
        assert_eq!(phenotype.children.iter().map(|genes| genes[0]).collect::<Vec<_>>(), [900, 901, 902, 903, 4, 5, 6, 7]);
    }
}
