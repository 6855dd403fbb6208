//! Draws from a seed: what loads and devices are made of.

use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What number `number` of the draws called `name` is drawn from. Names differ, so that two families' draws of one number do.
pub fn source(name: &str, seed: u64, number: u32) -> Xoshiro256PlusPlus {
    // FNV-1a, over the name and then the numbers' bytes.
    let bytes = name.bytes().chain(seed.to_le_bytes()).chain(number.to_le_bytes());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Xoshiro256PlusPlus::seed_from_u64(digest)
}

/// One of several, each as likely.
///
/// # Panics
/// If there is none.
pub fn one_of<T: Copy>(random: &mut Xoshiro256PlusPlus, choices: &[T]) -> T {
    choices.choose(random).copied().unwrap_or_else(|| choices[0])
}

/// A number whose logarithm is uniform: as often between 1 and 10 as between 10 and 100.
pub fn scaled(random: &mut Xoshiro256PlusPlus, least: f64, most: f64) -> f64 {
    (least.ln() + random.random::<f64>() * (most.ln() - least.ln())).exp()
}

/// Whether something happens that does with this probability.
pub fn happens(random: &mut Xoshiro256PlusPlus, probability: f64) -> bool {
    random.random::<f64>() < probability
}

/// Overwrites bytes with random ones.
pub fn fill(random: &mut Xoshiro256PlusPlus, bytes: &mut [u8]) {
    random.fill(bytes);
}
