//! A cache of web pages: popular objects are read repeatedly, missing ones are fetched and written, and every access is logged.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "web-cache",
    about: "web cache: reads of popular objects, writes of missing ones, access log",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let bytes = load.memories(2.0, 12.0);
    let store = Files::Shared("store", bytes);
    let small = load.percent(30..=60);
    let sizes = [(4 * KIB, small), (16 * KIB, 90 - small), (128 * KIB, 10)];
    let theta = format!("zipf:0.{}", load.whole(55..=95));
    let workers = load.scaled(4.0, 40.0) as u32;
    let job = Job::new("hit", "randread", store).blocks(&sizes).processes(workers);
    let pace = Pace::Think(load.whole(1..=4), load.scaled(5.0, 250.0));
    let job = if load.chance(0.75) { job.pace(pace) } else { job };
    load.add(job.set("random_distribution", &theta).directory("store"));
    misses(load, store, &sizes, workers);
    if load.chance(0.5) {
        objects_in_files(load);
    }
    let bytes = load.mebibytes(64..=256);
    let job = Job::new("access-log", "write", Files::Own(bytes)).block(load.one_of(&[4 * KIB, 16 * KIB, 64 * KIB]));
    let job = job.pace(Pace::Rate(load.scaled(0.5, 20.0))).directory("log");
    load.add(job);
}

/// Objects replace the oldest ones: all over the store, or in a ring.
fn misses(load: &mut Composer, store: Files, sizes: &[(u64, u8)], workers: u32) {
    let pattern = load.one_of(&["randwrite", "write"]);
    let per_second = load.scaled(2.0, 60.0);
    let writers = load.whole(1..=workers.clamp(1, 4));
    let job = Job::new("miss", pattern, store).blocks(sizes).processes(writers).pace(Pace::Rate(per_second / f64::from(writers)));
    let job = if pattern == "randwrite" { job.set("norandommap", 1) } else { job };
    load.add(job.directory("store"));
}

/// Objects that are stored as individual files.
fn objects_in_files(load: &mut Composer) {
    let processes = load.whole(2..=8);
    let files = Files::Many(load.whole(2000..=8000) / processes, 16 * KIB, u64::from(load.whole(32..=128)) * KIB);
    let pace = Pace::Think(load.whole(1..=6), load.scaled(10.0, 300.0));
    let job = Job::new("file", "read", files).block(16 * KIB).processes(processes).pace(pace);
    load.add(job.set("file_service_type", "random:2").directory("files"));
}
