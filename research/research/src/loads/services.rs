//! Two to four unrelated services: each reads or writes in its own pattern, continuously, at a rate, or in bursts with pauses of
//! seconds.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "services",
    about: "unrelated services, each with its own pattern: steady, paced, or in bursts",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    for _ in 0..load.whole(2..=4) {
        match load.whole(0..=4) {
            0 => lookups(load),
            1 => transfers(load),
            2 => log(load),
            3 => store(load),
            _ => copies(load),
        }
    }
}

/// Continuous, at a random rate, or a burst of many I/Os followed by a pause.
fn pace(load: &mut Composer, per_second: f64) -> Pace {
    match load.whole(0..=2) {
        0 => Pace::Closed,
        1 => Pace::Rate(load.scaled(per_second / 10.0, per_second)),
        _ => {
            let seconds = load.scaled(0.3, 10.0);
            Pace::Think((per_second * seconds).ceil() as u32, load.scaled(500.0, 20_000.0))
        }
    }
}

/// Random reads of small records.
fn lookups(load: &mut Composer) {
    let (block, bytes) = (load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB]), load.memories(0.5, 8.0));
    let pace = pace(load, 60.0);
    let (processes, is_direct) = (load.scaled(1.0, 16.0) as u32, load.chance(0.5));
    let job = Job::new("lookup", "randread", Files::Shared("records", bytes)).block(block).processes(processes).pace(pace);
    load.add(job.set("norandommap", 1).direct(is_direct).directory("lookups"));
}

/// Sequential reads or writes of whole files.
fn transfers(load: &mut Composer) {
    let pattern = load.one_of(&["read", "read", "write"]);
    let (block, bytes) = (load.one_of(&[64 * KIB, 256 * KIB, MIB]), load.memories(0.5, 4.0));
    let pace = pace(load, 40.0);
    let job = Job::new("transfer", pattern, Files::Own(bytes)).block(block).processes(load.whole(1..=3)).pace(pace);
    load.add(job.directory("transfers"));
}

/// Small appends, each synced.
fn log(load: &mut Composer) {
    let (block, bytes) = (load.one_of(&[4 * KIB, 8 * KIB, 32 * KIB]), load.mebibytes(16..=256));
    let pace = pace(load, 50.0);
    let job = Job::new("log", "write", Files::Own(bytes)).block(block).processes(load.whole(1..=4)).pace(pace);
    let synced = load.one_of(&[1, 1, 4]);
    load.add(job.set("fdatasync", synced).directory("logs"));
}

/// Random reads and writes of a table, with direct I/O or occasional syncs.
fn store(load: &mut Composer) {
    let (block, bytes) = (load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB]), load.memories(0.5, 6.0));
    let pace = pace(load, 50.0);
    let job = Job::new("store", "randrw", Files::Shared("table", bytes)).block(block).mix_read(load.percent(20..=90));
    let job = job.processes(load.scaled(1.0, 12.0) as u32).pace(pace).set("norandommap", 1);
    let job = if load.chance(0.6) { job.direct(true) } else { job.set("fsync", load.whole(8..=128)) };
    load.add(job.directory("store"));
}

/// A copy: one process reads and another writes through the page cache.
fn copies(load: &mut Composer) {
    let (block, bytes) = (load.one_of(&[128 * KIB, 512 * KIB]), load.memories(0.5, 3.0));
    let pace = pace(load, 40.0);
    load.add(Job::new("copy-from", "read", Files::Own(bytes)).block(block).pace(pace).directory("originals"));
    load.add(Job::new("copy-to", "write", Files::Own(bytes)).block(block).pace(pace).directory("copies"));
}
