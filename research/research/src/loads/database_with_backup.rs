//! A database during a backup: the whole is read sequentially next to the work, and sometimes written elsewhere on the same device.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "database-with-backup",
    about: "database with a concurrent sequential backup",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    super::database::add(load);
    let bytes = load.memories(3.0, 12.0);
    let block = load.one_of(&[64 * KIB, 128 * KIB, 256 * KIB, MIB]);
    let limit = load.chance(0.4).then(|| load.scaled(3.0, 40.0) * MIB as f64 / block as f64);
    let pace = limit.map_or(Pace::Closed, Pace::Rate);
    load.add(Job::new("backup", "read", Files::Own(bytes)).block(block).pace(pace).directory("data"));
    if load.chance(0.4) {
        // As much is written as is read, minus compression.
        let per_second = load.scaled(2.0, 25.0) * MIB as f64 / block as f64;
        load.add(Job::new("copy", "write", Files::Own(bytes / 2)).block(block).pace(Pace::Rate(per_second)).directory("copies"));
    }
}
