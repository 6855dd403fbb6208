//! Many processes that each append small records to a file and sync every record before the next, next to readers of other
//! files.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "appends",
    about: "many small synced appends and a few readers",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let kinds = load.whole(1..=3);
    for kind in 0..kinds {
        let block = load.one_of(&[KIB, 2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB]);
        let bytes = load.mebibytes(8..=64);
        let job =
            Job::new("append", "write", Files::Own(bytes)).block(block).processes(load.scaled(2.0, 40.0 / f64::from(kinds)) as u32);
        let think_ms = load.scaled(5.0, 500.0);
        let job = if load.chance(0.8) { job.pace(Pace::Think(1, think_ms)) } else { job };
        load.add(job.set("fsync", 1).directory(format!("boxes-{kind}")));
    }
    let block = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB]);
    let bytes = load.memories(1.5, 6.0);
    let think_ms = load.scaled(2.0, 200.0);
    let job = Job::new("look-up", "randread", Files::Shared("folders", bytes)).block(block).processes(load.whole(1..=6));
    load.add(job.pace(Pace::Think(1, think_ms)).set("norandommap", 1).directory("folders"));
}
