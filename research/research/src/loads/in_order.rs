//! Sequential readers, each of a large file.

use super::Family;
use super::composer::{Composer, Files, GIB, Job, KIB, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "in-order",
    about: "sequential readers, each of a large file",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let processes = load.one_of(&[1, 2, 3, 4, 8, 16, 30]);
    let block = load.one_of(&[16 * KIB, 64 * KIB, 256 * KIB]);
    load.add(Job::new("in-order", "read", Files::Own(2 * GIB)).block(block).processes(processes));
}
