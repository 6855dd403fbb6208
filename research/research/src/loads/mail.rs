//! A mail server: deliveries are written to many files and synced, clients read, and an index is updated with each delivery.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "mail",
    about: "mail delivered to many synced files, read, and indexed",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let small = load.percent(35..=70);
    let sizes = [(4 * KIB, small), (16 * KIB, 85 - small), (64 * KIB, 12), (256 * KIB, 3)];
    deliveries(load, &sizes);
    let readers = load.scaled(2.0, 20.0) as u32;
    let boxes = load.memories(2.0, 8.0);
    let job = Job::new("read", "randread", Files::Shared("boxes", boxes)).blocks(&sizes).processes(readers);
    let pace = Pace::Think(load.whole(1..=10), load.scaled(20.0, 1500.0));
    load.add(job.pace(pace).set("norandommap", 1).directory("boxes"));
    index(load);
    if load.chance(0.4) {
        // A search or a spam filter reads whole folders.
        let pace = Pace::Think(load.whole(50..=600), load.scaled(500.0, 6000.0));
        load.add(Job::new("search", "read", Files::Shared("boxes", boxes)).block(32 * KIB).pace(pace).directory("boxes"));
    }
}

fn deliveries(load: &mut Composer, sizes: &[(u64, u8)]) {
    let processes = load.scaled(2.0, 24.0) as u32;
    let think_ms = load.scaled(20.0, 1200.0);
    // A file per message, or per mailbox.
    let job = if load.chance(0.5) {
        let files = Files::Many(load.whole(1000..=6000) / processes, 256 * KIB, 320 * KIB);
        Job::new("delivery", "randwrite", files).set("file_service_type", "random").set("sync", 1)
    } else {
        Job::new("delivery", "write", Files::Own(load.mebibytes(16..=128))).set("fsync", 1)
    };
    load.add(job.blocks(sizes).processes(processes).pace(Pace::Think(1, think_ms)).directory("queue"));
}

fn index(load: &mut Composer) {
    let bytes = load.memories(0.3, 2.0);
    let block = load.one_of(&[4 * KIB, 8 * KIB]);
    let job = Job::new("index", "randrw", Files::Shared("index", bytes)).block(block).processes(load.whole(1..=4));
    let pace = Pace::Think(load.whole(1..=6), load.scaled(10.0, 300.0));
    let job = job.mix_read(load.percent(30..=75)).pace(pace).set("fsync", load.whole(1..=16));
    load.add(job.set("random_distribution", "zipf:0.9").directory("index"));
}
