//! One process with several random reads and writes in flight.

use super::Family;
use super::composer::{Composer, Files, GIB, Job, KIB, MIB, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "asynchronous",
    about: "several outstanding random reads and writes",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let (mix, depth) = (load.one_of(&[50, 67, 80, 100]), load.one_of(&[4, 8, 32, 128]));
    let block = load.one_of(&[2 * KIB, 4 * KIB, 16 * KIB, 128 * KIB]);
    let bytes = load.one_of(&[256 * MIB, GIB, 3 * GIB]);
    load.add(Job::new("asynchronous", "randrw", Files::Own(bytes)).mix_read(mix).block(block).depth(depth));
}
