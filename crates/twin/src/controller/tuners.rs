//! The search controllers: `genetic`, `ioperf`, `random`, `bayes`. Settings are scored on the target or in the twin. If they are scored on
//! the target, the twin can rank the first ones.

use block::{Nanos, Tunable, Unit, tunables};
use control::Controller;
use control::controller::{ControllerInput, ControllerSpec};
use control::search::{Bayes, Genetic, Ioperf, Random, Rehearsal, RehearsalUse, Search, SearchOptions, Start, Tuner, ioperf};

use super::rehearsal::Twin;

/// The genetic library.
pub static GENETIC: ControllerSpec = ControllerSpec {
    name: "genetic",
    summary: "breeds settings: each lives for a window, the worse half is replaced, and the best settings of a load are kept for its return",
    source: "Moilanen and Williams, Using Genetic Algorithms to Autonomically Tune the Kernel; Gaitonde and Sarfare, A Study of Genetic \
             Algorithms for I/O Scheduling",
    tunables: OfGenetic::TUNABLES,
    build: |brief, values| {
        let set = OfGenetic::of(values);
        let children = set.children;
        let rules = rules(GENETIC.name, &set.common(), move |start| Box::new(Genetic::new(start, children as usize)));
        build(brief, rules, (set.fitness, set.seeds))
    },
};

/// The genetic algorithm of `IOPerf`.
pub static IOPERF: ControllerSpec = ControllerSpec {
    name: "ioperf",
    summary: "breeds settings as bits for the pattern of access that it sees, by the equations of IOPerf",
    source: "Santos, Romero, Taibo and Rodriguez, Self-Tuning of Disk Input-Output in Operating Systems",
    tunables: OfIoperf::TUNABLES,
    build: |brief, values| {
        let set = OfIoperf::of(values);
        let population = set.population;
        let make = move |start: Start| Box::new(Ioperf::new(start, population as usize)) as Box<dyn Search>;
        let rules = SearchOptions {
            name: IOPERF.name,
            child: set.evaluation_ms,
            trials: set.trials,
            tunes: set.scheduler_tunables,
            host: if set.swappiness { &["read_ahead_kb", "swappiness"] } else { &["read_ahead_kb"] },
            turn: set.turn_ms,
            rehearsal_use: asks(set.fitness),
            make: Box::new(make),
        };
        build(brief, rules, (set.fitness, set.seeds))
    },
};

/// Random search.
pub static RANDOM: ControllerSpec = ControllerSpec {
    name: "random",
    summary: "tries settings at random and keeps the best: the baseline of other searches with the same budget",
    source: "Bergstra and Bengio, Random Search for Hyper-Parameter Optimization",
    tunables: Common::TUNABLES,
    build: |brief, values| {
        let set = Common::of(values);
        let rules = rules(RANDOM.name, &set, |start| Box::new(Random::new(start)));
        build(brief, rules, (set.fitness, set.seeds))
    },
};

/// Bayesian optimisation.
pub static BAYES: ControllerSpec = ControllerSpec {
    name: "bayes",
    summary: "models the results of trials as a Gaussian process and tries settings that may be better",
    source: "Srinivas and others, Gaussian Process Optimization in the Bandit Setting",
    tunables: Common::TUNABLES,
    build: |brief, values| {
        let set = Common::of(values);
        let rules = rules(BAYES.name, &set, |start| Box::new(Bayes::new(start)));
        build(brief, rules, (set.fitness, set.seeds))
    },
};

block::words! {
    /// Where a setting is scored.
    pub enum Fitness {
        /// On the target, a window for each.
        Live = "live",
        /// In the twin.
        Twin = "twin",
    }
}

block::words! {
    /// The initial settings of a search on the target, after the original setting.
    pub enum Seeds {
        /// The settings known to be good for such a load, then the candidates in their given order.
        Candidates = "candidates",
        /// The settings that the twin ranks best, among those and the results of a search in the twin.
        Twin = "twin",
    }
}

/// Queue tunables that are genes. Those of memory management affect every disk, so a search on one disk does not change them.
const HOST: &[&str] = &["nr_requests", "read_ahead_kb"];

const FITNESS: Tunable = Tunable::one_of(Fitness::WORDS, "live")
    .named("", "Where a setting is scored: on the target, a window for each, or in the twin.");
const SEEDS: Tunable = Tunable::one_of(Seeds::WORDS, "candidates").named(
    "",
    "With fitness live, the first trials: candidates as they are given, or the best by the twin, the best of each scheduler first.",
);
const CHILD: Tunable = Tunable::new(Unit::Milliseconds, 100..=3_600_000, 2_000)
    .logarithmic()
    .named("", "How long each setting is tried on the target.");
const TURN: Tunable = Tunable::new(Unit::Milliseconds, 300..=3_600_000, 6_000).logarithmic().named(
    "",
    "How long a turn of a verification is judged. A change settles for two thirds of that, at most for 4 s, before it is: where buffered \
     writes fill memory first, less tells of memory.",
);
const TRIALS: Tunable = Tunable::new(Unit::Count, 0..=100_000, 64).logarithmic().named(
    "",
    "Settings that are tried for a load, before the best is verified. With fitness live, 0 tries for ever and verifies nothing.",
);

tunables! {
    /// The tunables of every search.
    struct Common {
        child_ms: Nanos = CHILD,
        trials: u32 = TRIALS,
        turn_ms: Nanos = TURN,
        fitness: Fitness = FITNESS,
        seeds: Seeds = SEEDS,
    }
}

tunables! {
    /// The tunables of the genetic library.
    struct OfGenetic {
        /// Children of a generation, which live one after the other.
        children: u32 = Tunable::new(Unit::Count, 4..=256, 8).logarithmic(),
        child_ms: Nanos = CHILD,
        trials: u32 = TRIALS,
        turn_ms: Nanos = TURN,
        fitness: Fitness = FITNESS,
        seeds: Seeds = SEEDS,
    }
}

impl OfGenetic {
    fn common(&self) -> Common {
        Common { child_ms: self.child_ms, trials: self.trials, turn_ms: self.turn_ms, fitness: self.fitness, seeds: self.seeds }
    }
}

tunables! {
    /// The tunables of `IOPerf`.
    struct OfIoperf {
        /// Individuals that survive a generation.
        population: u32 = Tunable::new(Unit::Count, 4..=1_000, ioperf::POPULATION as i64).logarithmic(),
        /// How long each individual is evaluated on the target.
        evaluation_ms: Nanos = Tunable::new(Unit::Milliseconds, 100..=3_600_000, 1_000 * ioperf::EVALUATION_S as i64).logarithmic(),
        trials: u32 = TRIALS,
        turn_ms: Nanos = TURN,
        fitness: Fitness = FITNESS,
        seeds: Seeds = SEEDS,
        /// Whether the tunables of schedulers are in the chromosome, which the paper says that it lacks.
        scheduler_tunables: bool = Tunable::flag(true),
        /// Whether swappiness is in the chromosome, as in the paper. It is the whole machine's, not the disk's.
        swappiness: bool = Tunable::flag(true),
    }
}

fn rules(name: &'static str, set: &Common, make: impl Fn(Start) -> Box<dyn Search> + Send + 'static) -> SearchOptions {
    let Common { child_ms: child, trials, turn_ms: turn, .. } = *set;
    SearchOptions { name, child, trials, tunes: true, host: HOST, turn, rehearsal_use: asks(set.fitness), make: Box::new(make) }
}

fn asks(fitness: Fitness) -> RehearsalUse {
    if fitness == Fitness::Twin { RehearsalUse::Fitness } else { RehearsalUse::Ranking }
}

fn build(brief: &ControllerInput, rules: SearchOptions, (fitness, seeds): (Fitness, Seeds)) -> Box<dyn Controller> {
    let is_rehearsed = fitness == Fitness::Twin || seeds == Seeds::Twin;
    let rehearsal = is_rehearsed.then(|| Box::new(Twin::new(brief.preference)) as Box<dyn Rehearsal>);
    Box::new(Tuner::new(brief, rules, rehearsal))
}
