//! Sequential writers, each of a large file.

use super::Family;
use super::composer::{Composer, Files, GIB, Job, KIB, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "writing",
    about: "sequential writers, each of a large file",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let (processes, block) = (load.one_of(&[1, 2, 4, 10]), load.one_of(&[64 * KIB, 256 * KIB]));
    load.add(Job::new("writing", "write", Files::Own(GIB)).block(block).processes(processes));
}
