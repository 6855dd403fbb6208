//! Random readers of large files, through the page cache or with direct I/O.

use super::Family;
use super::composer::{Composer, Files, GIB, Job, KIB, MIB, compose};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "at-random", about: "random readers of large files", draw: |random, scope| compose(random, scope, add) };

pub(super) fn add(load: &mut Composer) {
    let processes = load.one_of(&[1, 2, 4, 8, 16]);
    let block = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB]);
    let bytes = load.one_of(&[512 * MIB, 2 * GIB, 8 * GIB]);
    let direct = load.chance(0.5);
    load.add(Job::new("at-random", "randread", Files::Own(bytes)).block(block).processes(processes).direct(direct));
}
