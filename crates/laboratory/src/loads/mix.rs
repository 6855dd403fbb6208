//! Loads drawn at random to learn from, each of one of the simple families.

use rand::seq::IndexedRandom as _;

use super::{SIMPLE, Scope, source};

/// The machine that these are drawn for: a disk of 250 GB, and the host's default memory. Files of tens of gigabytes fit it.
const MACHINE: Scope = Scope { capacity_bytes: 250_000_000_000, memory_bytes: 1 << 30, seconds: 0, is_flash: false };

/// The job file of this number.
pub fn text(seed: u64, number: u32, seconds: u32) -> String {
    let mut random = source("mix", seed, number);
    // The list is not empty.
    let family = SIMPLE.choose(&mut random).copied().unwrap_or(SIMPLE[0]);
    (family.draw)(&mut random, &Scope { seconds, ..MACHINE }).text
}
