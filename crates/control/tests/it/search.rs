//! Searches over the genes of a target: nothing out of range, the papers' rules, the same again for a seed.

use block::{Nanos, SchedulerSpec, Tunable, Unit};
use control::search::ioperf::{Converter, Optimizer, POPULATION, Pattern, fitness, range_of};
use control::search::{Bayes, Genetic, Genome, Ioperf, MAX_MUTATION, Random, Search, Space, Start};
use control::target::{Bounds, Identity};
use control::{Setting, Target, TargetError};
use observe::Preference;
use observe::performance::Performance;
use observe::performance::TrialScore;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

static READ_AHEAD: Tunable = Tunable::new(Unit::Kibibytes, 0..=65_536, 128).logarithmic().named("read_ahead_kb", "");
static SWAPPINESS: Tunable = Tunable::new(Unit::Count, 0..=200, 60).named("swappiness", "");

/// A target that only lists its schedulers and tunables.
struct Offers;

impl Target for Offers {
    fn identity(&self) -> Identity {
        Identity { plant: "test".to_owned(), device: "none".to_owned() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        device_model::sched::all().collect()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        vec![&READ_AHEAD, &SWAPPINESS]
    }

    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: block::Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }

    fn setting(&self) -> Setting {
        Setting::of(block::find("noop").unwrap())
    }

    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::ZERO
    }

    fn apply(&mut self, _now: Nanos, _setting: &Setting) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Every scheduler that there is, with all its tunables and both of the host.
fn space() -> Space {
    let candidates: Vec<Setting> = device_model::sched::all().map(Setting::of).collect();
    Space::of(&Offers, &candidates, true, |_| true)
}

/// The four of the paper, without their tunables.
fn of_the_paper() -> Space {
    let candidates = ["noop", "anticipatory", "deadline", "cfq"].map(|name| Setting::parse(name).unwrap());
    Space::of(&Offers, &candidates, false, |_| true)
}

const PATTERN: Pattern = Pattern { processes: 4, read_percent: 50, random_percent: 50, request_kib: 64 };

fn start(space: &Space, seed: u64) -> Start<'_> {
    let found = space.genome(&Offers.setting()).unwrap();
    Start { space, seeds: vec![found], preference: Preference::default(), pattern: PATTERN, seed }
}

fn searches(space: &Space, seed: u64) -> Vec<Box<dyn Search>> {
    vec![
        Box::new(Genetic::new(start(space, seed), 8)),
        Box::new(Ioperf::new(start(space, seed), 10)),
        Box::new(Random::new(start(space, seed))),
        Box::new(Bayes::new(start(space, seed))),
    ]
}

fn served(throughput: f64) -> TrialScore {
    let served =
        Performance { throughput: throughput as f32, response_s: (1.0 / throughput) as f32, fairness: 1.0, starves: false };
    TrialScore { served, wait_ratio: 0.0 }
}

/// Best far from the defaults: read-ahead near 1,024 KiB, under cfq.
fn throughput(setting: &Setting) -> f64 {
    let read_ahead = setting.host.iter().find(|(name, _)| name == "read_ahead_kb").map_or(128, |(_, value)| *value);
    let octaves_off = ((read_ahead as f64 + 1.0) / 1024.0).log2().abs();
    let of_scheduler = if setting.spec.name == "cfq" { 2.0 } else { 1.0 };
    1e6 * of_scheduler / (1.0 + octaves_off)
}

/// The settings that a search asks for in this many trials, in order.
fn trials(search: &mut dyn Search, space: &Space, trials: usize) -> Vec<Setting> {
    let mut all = Vec::new();
    while all.len() < trials {
        let asked: Vec<Setting> = search.ask().iter().map(|genome| space.setting(genome)).collect();
        let rated: Vec<Option<TrialScore>> = asked.iter().map(|setting| Some(served(throughput(setting)))).collect();
        search.tell(&rated);
        all.extend(asked);
    }
    all
}

fn check(setting: &Setting) {
    for (tunable, value) in setting.spec.tunables.iter().zip(&setting.values) {
        tunable.check(setting.spec.name, *value).unwrap();
    }
    for (name, value) in &setting.host {
        let tunable = [&READ_AHEAD, &SWAPPINESS].into_iter().find(|tunable| tunable.name == name).unwrap();
        tunable.check("host", *value).unwrap();
    }
}

#[test]
fn every_genome_is_a_setting_within_the_declared_ranges_and_reads_back_as_that_setting() {
    let space = space();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    let mut schedulers = std::collections::BTreeSet::new();
    let corners = [vec![0.0; space.len()], vec![1.0; space.len()]];
    for genome in corners.into_iter().chain((0..2_000).map(|_| space.draw(&mut random))) {
        let setting = space.setting(&genome);
        check(&setting);
        schedulers.insert(setting.spec.name);
        let again = space.genome(&setting).unwrap();
        assert_eq!(space.setting(&again), setting);
        assert!(space.distance(&genome, &genome) == 0.0);
    }
    assert_eq!(schedulers.len(), device_model::sched::all().count());
}

#[test]
fn a_host_tunable_at_its_default_is_left_unchanged() {
    let space = of_the_paper();
    for text in ["cfq", "noop read_ahead_kb=512", "deadline read_ahead_kb=4 swappiness=100"] {
        let setting = Setting::parse(text).unwrap();
        assert_eq!(space.setting(&space.genome(&setting).unwrap()).to_string(), text);
    }
    for text in ["bfq", "cfq nr_requests=8"] {
        assert!(space.genome(&Setting::parse(text).unwrap()).is_none(), "{text}");
    }
}

#[test]
fn every_search_stays_in_range_begins_with_the_original_setting_and_is_reproducible() {
    for space in [space(), of_the_paper()] {
        let pairs = searches(&space, 7).into_iter().zip(searches(&space, 7)).zip(searches(&space, 8));
        for ((mut one, mut same), mut other) in pairs {
            let settings = trials(&mut *one, &space, 60);
            settings.iter().for_each(check);
            assert_eq!(settings[0].spec.name, "noop", "the original setting");
            assert_eq!(settings, trials(&mut *same, &space, 60));
            assert_ne!(settings, trials(&mut *other, &space, 60));
        }
    }
}

#[test]
fn learning_searches_improve_and_random_search_does_not() {
    let space = of_the_paper();
    let mean = |settings: &[Setting]| settings.iter().map(throughput).sum::<f64>() / settings.len() as f64;
    let mut gains = [0.0; 4];
    for seed in 0..4 {
        for (gain, mut search) in gains.iter_mut().zip(searches(&space, seed)) {
            let settings = trials(&mut *search, &space, 120);
            *gain += mean(&settings[60..]) / mean(&settings[..60]) / 4.0;
        }
    }
    let [genetic, ioperf, random, bayes] = gains;
    assert!(genetic > 1.2 && ioperf > 1.1 && bayes > 1.2 && random < 1.1, "{gains:?}");
}

#[test]
fn the_mutation_rate_rises_while_generations_do_worse_up_to_45_percent_and_falls_when_they_do_better() {
    let space = of_the_paper();
    let mut genetic = Genetic::new(start(&space, 1), 8);
    let generation = |throughput: f64, genetic: &mut Genetic| {
        let children = genetic.ask().len();
        genetic.tell(&vec![Some(served(throughput)); children]);
        genetic.mutation()
    };
    let first = generation(1e6, &mut genetic);
    let worse: Vec<f64> = (1..=10).map(|number| generation(1e6 / f64::from(number + 1), &mut genetic)).collect();
    assert!(worse[0] > first && worse.is_sorted() && worse.iter().all(|rate| *rate <= MAX_MUTATION), "{worse:?}");
    assert!((worse[9] - MAX_MUTATION).abs() < 1e-12 && (MAX_MUTATION - 0.45).abs() < 1e-12);
    assert!(generation(2e6, &mut genetic) < MAX_MUTATION);
}

#[test]
fn the_better_half_of_a_generation_and_the_original_setting_survive() {
    let space = of_the_paper();
    let mut genetic = Genetic::new(start(&space, 1), 8);
    let before = genetic.ask();
    // The later the better, so that what was found is the worst of all; a stream starves under the last.
    let mut rated: Vec<Option<TrialScore>> = (0..8).map(|number| Some(served(1e6 * f64::from(number + 1)))).collect();
    rated[7] = rated[7].map(|rated| TrialScore { wait_ratio: 1.5, ..rated });
    genetic.tell(&rated);
    let after = genetic.ask();
    assert_eq!(before[0], after[0]);
    assert_eq!(before[3..7], after[3..7]);
    let is_child =
        |genome: &Genome| genome.iter().enumerate().any(|(gene, place)| before[3..7].iter().any(|it| it[gene] == *place));
    assert!(before[7] != after[7] && is_child(&after[7]), "the one that starves was replaced by a child of better ones");
}

#[test]
fn each_of_the_25_ranges_holds_two_individuals_at_first_and_after_generations_of_breeding() {
    let mut optimizer = Optimizer::new(Converter::new(of_the_paper()), POPULATION, 5);
    for generation in 0..6 {
        let fitness: Vec<f64> = optimizer
            .unrated()
            .map(|(pattern, genome)| fitness(&pattern, throughput(&of_the_paper().setting(&genome)), 0.01))
            .collect();
        optimizer.rate(&fitness);
        let mut held = [0; 25];
        optimizer.population().iter().for_each(|one| held[range_of(&one.pattern)] += 1);
        assert!(held.iter().all(|held| *held >= 2), "generation {generation}: {held:?}");
        assert_eq!(optimizer.population().len(), POPULATION);
        optimizer.breed();
    }
}

#[test]
fn crossover_falls_from_90_to_70_percent_and_mutation_rises_from_10_to_25() {
    let mut optimizer = Optimizer::new(Converter::new(of_the_paper()), POPULATION, 5);
    let mut rates = vec![optimizer.rates()];
    for _ in 0..20 {
        let unrated = optimizer.unrated().count();
        optimizer.rate(&vec![1.0; unrated]);
        optimizer.breed();
        rates.push(optimizer.rates());
    }
    assert_eq!(rates[0], (0.9, 0.1));
    assert!((rates[20].0 - 0.7).abs() < 1e-12 && (rates[20].1 - 0.25).abs() < 1e-12, "{rates:?}");
    assert!(rates.windows(2).all(|pair| pair[1].0 <= pair[0].0 && pair[1].1 >= pair[0].1));
}

#[test]
fn the_chromosome_is_that_of_table_1_and_stays_within_its_ranges() {
    let converter = Converter::new(of_the_paper());
    assert_eq!(converter.bits(), 3 + 7 + 7 + 11 + 2 + 10 + 7);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    for _ in 0..2_000 {
        let chromosome = converter.draw(&mut random);
        let Pattern { processes, read_percent, random_percent, request_kib } = converter.pattern(&chromosome);
        assert!((1..=8).contains(&processes) && read_percent <= 100 && random_percent <= 100 && request_kib <= 2047);
        let setting = converter.space().setting(&converter.genome(&chromosome));
        check(&setting);
        let host = |name: &str| setting.host.iter().find(|(other, _)| other == name).map(|(_, value)| *value);
        assert!(host("read_ahead_kb").is_none_or(|value| (4..=1023).contains(&value)), "{setting}");
        assert!(host("swappiness").is_none_or(|value| (0..=100).contains(&value)), "{setting}");
        let again = converter.encode(&converter.pattern(&chromosome), &converter.genome(&chromosome));
        assert_eq!(converter.genome(&again), converter.genome(&chromosome));
    }
}

#[test]
fn a_workload_gets_the_solution_of_the_most_similar_pattern_and_fitness_follows_the_equations() {
    let mut optimizer = Optimizer::new(Converter::new(of_the_paper()), POPULATION, 9);
    assert!(optimizer.solution(&PATTERN).is_none(), "nothing was evaluated yet");
    optimizer.rate(&vec![1.0; POPULATION]);
    let (nearest, pattern) = (optimizer.solution(&PATTERN).unwrap(), PATTERN);
    let distances = optimizer.population().iter().map(|one| one.pattern.distance(&pattern));
    assert_eq!(nearest.pattern.distance(&pattern), distances.fold(f64::INFINITY, f64::min));
    // One percent of reads more is as far as one percent at random, and farther than a hundredth of the largest request.
    let with = |read_percent, request_kib| Pattern { read_percent, request_kib, ..PATTERN };
    assert!(PATTERN.distance(&with(51, 64)) > PATTERN.distance(&with(50, 84)));
    let expected = 5e6 / 0.02 * (0.51 * 0.51) * (0.51 * 0.51) / 4.0;
    assert!((fitness(&PATTERN, 5e6, 0.02) / expected - 1.0).abs() < 1e-12);
}
