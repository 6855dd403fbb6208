//! One process that reads or copies everything sequentially as fast as it can, and a few random readers with think time.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "scan",
    about: "one long scan and a few random readers with think time",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let block = load.one_of(&[64 * KIB, 128 * KIB, 512 * KIB, MIB]);
    let bytes = load.memories(4.0, 32.0);
    let job = Job::new("scan", "read", Files::Own(bytes)).block(block).directory("archive");
    // Some scans use direct I/O, as a copy of a whole volume does.
    let direct = load.chance(0.4);
    load.add(job.direct(direct));
    let bytes = load.memories(1.5, 8.0);
    for _ in 0..load.whole(1..=3) {
        let block = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB]);
        let think_ms = load.scaled(1.0, 100.0);
        let job = Job::new("look-up", "randread", Files::Shared("records", bytes)).block(block).processes(load.whole(1..=4));
        let job = job.pace(Pace::Think(load.whole(1..=4), think_ms)).set("norandommap", 1).directory("records");
        load.add(job);
    }
}
