//! Seeded random numbers for loads and devices.

use rand::seq::IndexedRandom as _;
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The generator for draw `number` of the family `name`. Different names give independent generators for the same number.
pub fn source(name: &str, seed: u64, number: u32) -> Xoshiro256PlusPlus {
    // FNV-1a, over the name and then the numbers' bytes.
    let bytes = name.bytes().chain(seed.to_le_bytes()).chain(number.to_le_bytes());
    let digest = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |digest, byte| (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    Xoshiro256PlusPlus::seed_from_u64(digest)
}

/// One of several values, with equal probability.
///
/// # Panics
/// If `choices` is empty.
pub fn one_of<T: Copy>(random: &mut Xoshiro256PlusPlus, choices: &[T]) -> T {
    choices.choose(random).copied().unwrap_or_else(|| choices[0])
}

/// A random number with a uniform logarithm: as likely between 1 and 10 as between 10 and 100.
pub fn scaled(random: &mut Xoshiro256PlusPlus, least: f64, most: f64) -> f64 {
    (least.ln() + random.random::<f64>() * (most.ln() - least.ln())).exp()
}

/// Returns `true` with this probability.
pub fn happens(random: &mut Xoshiro256PlusPlus, probability: f64) -> bool {
    random.random::<f64>() < probability
}

/// Overwrites bytes with random ones.
pub fn fill(random: &mut Xoshiro256PlusPlus, bytes: &mut [u8]) {
    random.fill(bytes);
}
