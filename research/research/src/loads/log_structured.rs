//! A store based on a log-structured merge tree: a synced log, tables flushed from memory in bursts, background compaction, and
//! point reads.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "log-structured",
    about: "a merge tree: log, flushes, compaction, point reads",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let bytes = load.memories(2.0, 10.0);
    point_reads(load, bytes);
    write_ahead_log(load);
    flushes(load);
    compaction(load, bytes);
}

fn point_reads(load: &mut Composer, bytes: u64) {
    let block = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB]);
    let job = Job::new("get", "randread", Files::Shared("tables", bytes)).block(block).processes(load.scaled(2.0, 32.0) as u32);
    let think_ms = load.scaled(1.0, 80.0);
    let job = if load.chance(0.5) { job.pace(Pace::Think(1, think_ms)) } else { job };
    let job = match load.chance(0.5) {
        true => job.set("random_distribution", format!("zipf:0.{}", load.whole(50..=99))),
        false => job.set("norandommap", 1),
    };
    let direct = load.chance(0.3);
    load.add(job.direct(direct).directory("tables"));
}

fn write_ahead_log(load: &mut Composer) {
    let block = load.one_of(&[KIB, 4 * KIB, 8 * KIB, 32 * KIB]);
    let bytes = load.mebibytes(32..=256);
    let job = Job::new("log", "write", Files::Own(bytes)).block(block).pace(Pace::Rate(load.scaled(10.0, 300.0)));
    // Each commit by itself, or group commits.
    let group = load.one_of(&[1, 1, 4, 16, 64]);
    load.add(job.set("fdatasync", group).directory("log"));
}

/// Every few seconds the table in memory is full and written sequentially.
fn flushes(load: &mut Composer) {
    let apart_ms = load.lasts_ms() / load.scaled(4.0, 14.0);
    let block = load.one_of(&[64 * KIB, 256 * KIB, MIB]);
    let blocks = (load.scaled(4.0, 64.0) * MIB as f64 / block as f64).ceil() as u32;
    let bytes = load.memories(0.5, 2.0);
    let job = Job::new("flush", "write", Files::Own(bytes)).block(block).pace(Pace::Think(blocks, apart_ms));
    load.add(job.set("fsync", blocks).directory("tables"));
}

/// Reads tables sequentially and writes the merged ones: continuously at a rate, or as fast as possible.
fn compaction(load: &mut Composer, bytes: u64) {
    let workers = load.whole(1..=3);
    let block = load.one_of(&[32 * KIB, 64 * KIB, 256 * KIB, MIB]);
    let limit = load.chance(0.7).then(|| load.scaled(2.0, 24.0) * MIB as f64 / block as f64 / f64::from(workers));
    let pace = limit.map_or(Pace::Closed, Pace::Rate);
    let files = Files::Own(bytes / u64::from(workers * 2));
    load.add(Job::new("merge-reads", "read", files).block(block).processes(workers).pace(pace).directory("tables"));
    let job = Job::new("merge-writes", "write", files).block(block).processes(workers).pace(pace);
    let job = job.set("fsync", load.whole(32..=256)).directory("tables");
    load.add(job);
}
