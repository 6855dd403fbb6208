//! Random training loads, each of one of the simple families.

use testbed::chance;

use super::{SIMPLE, Scope};

/// The machine for which they are generated: a disk of 250 GB, with the host's default memory. Files of tens of gigabytes fit on it.
const MACHINE: Scope = Scope { capacity_bytes: 250_000_000_000, memory_bytes: 1 << 30, seconds: 0, is_flash: false };

/// The job file with this number.
pub fn text(seed: u64, number: u32, seconds: u32) -> String {
    let mut random = chance::source("mix", seed, number);
    let family = chance::one_of(&mut random, SIMPLE);
    (family.draw)(&mut random, &Scope { seconds, ..MACHINE }).text
}
