//! Random workloads on which fixed cycles are compared with the adaptive one.
//!
//! Each class has phases, each with an access pattern, a request size and an arrival process. A class with one phase is stable (the report's
//! type 2); others are not (type 1).

use block::{Nanos, Tenant};
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled, source};
use testbed::synthetic::{Arrival, Pattern, Phase, Places};

use crate::stage::Actor;

/// Length of a run: sixty cycles of a second.
pub const LENGTH: Nanos = Nanos::from_millis(60_000);

/// Number of classes in a workload: minimum and maximum.
const CLASSES: [u32; 2] = [2, 5];
/// Weights, equally likely.
const WEIGHTS: [u32; 6] = [1, 2, 3, 4, 6, 8];
/// Sectors per class volume: 4 GiB.
const VOLUME: u64 = 8 << 20;
/// Request sizes in sectors: fixed, or mixed.
const SIZES: [&[u32]; 8] = [&[8], &[16], &[32], &[64], &[128], &[256], &[8, 128], &[16, 64, 256]];
/// Outstanding requests of a closed-loop class: minimum and maximum.
const OUTSTANDING: [f64; 2] = [4.0, 64.0];
/// Interarrival time of an open-loop class in ms: minimum and maximum. The array serves a request in about 9 ms.
const GAP_MS: [f64; 2] = [5.0, 40.0];
/// Maximum number of phases of an unstable class.
const PHASES: u32 = 6;

/// The classes of workload `number`.
pub fn draw(seed: u64, number: u32) -> Vec<Actor> {
    let mut random = source("fairio", seed, number);
    let classes = random.random_range(CLASSES[0]..=CLASSES[1]);
    (1..=classes).map(|class| actor(&mut random, class)).collect()
}

fn actor(random: &mut Xoshiro256PlusPlus, class: u32) -> Actor {
    let phases = if happens(random, 0.5) { 1 } else { random.random_range(2..=PHASES) };
    let phase = |number: u32| Phase {
        until: Nanos(LENGTH.0 * u64::from(number) / u64::from(phases)),
        arrival: arrival(random),
        pattern: pattern(random),
    };
    let phases = (1..=phases).map(phase).collect();
    let tenant = Tenant::new(format!("class-{class}"));
    let weight = one_of(random, &WEIGHTS);
    Actor { tenant: tenant.with_weight(weight), sectors: VOLUME, phases }
}

fn arrival(random: &mut Xoshiro256PlusPlus) -> Arrival {
    let gap = Nanos((scaled(random, GAP_MS[0], GAP_MS[1]) * 1e6) as u64);
    match random.random_range(0..4) {
        0 => Arrival::Every(gap),
        1 => Arrival::AtRandom(gap),
        _ => Arrival::Outstanding(scaled(random, OUTSTANDING[0], OUTSTANDING[1]).round() as u32),
    }
}

fn pattern(random: &mut Xoshiro256PlusPlus) -> Pattern {
    let places = one_of(random, &[Places::Uniform, Places::Zipf]);
    let locality = one_of(random, &[0.0, 0.0, 0.5, 0.9]);
    Pattern::Local { locality, reads: one_of(random, &[0, 50, 100]), sizes: one_of(random, &SIZES), places }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_repeatable_and_differ_in_classes_weights_and_stability() {
        let drawn: Vec<Vec<Actor>> = (0..20).map(|number| draw(1, number)).collect();
        assert_eq!(format!("{:?}", draw(1, 3)), format!("{:?}", drawn[3]));
        assert_ne!(format!("{:?}", draw(2, 3)), format!("{:?}", drawn[3]));
        let counts: std::collections::BTreeSet<usize> = drawn.iter().map(Vec::len).collect();
        assert_eq!(counts.into_iter().collect::<Vec<_>>(), [2, 3, 4, 5]);
        let actors = || drawn.iter().flatten();
        let stable = actors().filter(|actor| actor.phases.len() == 1).count();
        assert!(stable * 4 > actors().count() && stable * 4 < 3 * actors().count(), "{stable} of {}", actors().count());
        assert!(actors().all(|actor| actor.phases.last().is_some_and(|phase| phase.until == LENGTH)));
        assert!(WEIGHTS.iter().all(|weight| actors().any(|actor| actor.tenant.weight == *weight)));
    }
}
