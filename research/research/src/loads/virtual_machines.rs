//! Several virtual machines, each with its own disk image and workload, which bypasses the host's page cache.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "virtual-machines",
    about: "several guests with different workloads, each on its own image",
    draw: |random, scope| compose(random, scope, add),
};

/// Adds a guest's workload on its image, in its directory.
type Guest = fn(&mut Composer, Files, &str);

const GUESTS: &[Guest] = &[starts_up, serves_a_database, serves_files, is_copied, logs, builds];

/// Names of the guests' files, which must be `'static`.
const IMAGES: &[&str] = &["image-a", "image-b", "image-c", "image-d", "image-e", "image-f"];

pub(super) fn add(load: &mut Composer) {
    let guests = load.whole(3..=6) as usize;
    let mut left = GUESTS.to_vec();
    for &image in &IMAGES[..guests] {
        let files = Files::Shared(image, load.memories(1.0, 5.0));
        let guest = left.remove(load.whole(0..=left.len() as u32 - 1) as usize);
        guest(load, files, image);
    }
}

fn starts_up(load: &mut Composer, image: Files, directory: &str) {
    let sizes = [(4 * KIB, 45), (16 * KIB, 25), (64 * KIB, 20), (128 * KIB, 10)];
    let job = Job::new("starts-up", "randread", image).blocks(&sizes).depth(load.whole(1..=4));
    let pace = Pace::Think(load.whole(20..=300), load.scaled(100.0, 3000.0));
    let job = job.pace(pace).set("percentage_random", load.percent(40..=90)).set("norandommap", 1);
    load.add(job.directory(directory));
}

fn serves_a_database(load: &mut Composer, image: Files, directory: &str) {
    let page = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB]);
    let job = Job::new("database", "randrw", image).block(page).depth(load.one_of(&[1, 2, 4, 8, 16]));
    let think_ms = load.scaled(5.0, 100.0);
    let job = if load.chance(0.4) { job.pace(Pace::Think(load.whole(4..=32), think_ms)) } else { job };
    let job = job.mix_read(load.percent(55..=95)).set("norandommap", 1);
    let job = if load.chance(0.6) { job.set("fsync", load.whole(4..=64)) } else { job };
    load.add(job.directory(directory));
}

fn serves_files(load: &mut Composer, image: Files, directory: &str) {
    let sizes = [(16 * KIB, load.percent(20..=50)), (64 * KIB, 50)];
    let sizes = [sizes[0], (64 * KIB, 100 - sizes[0].1)];
    let job = Job::new("files", "randrw", image).blocks(&sizes).processes(load.whole(1..=4)).direct(true);
    let job = job.mix_read(load.percent(60..=95)).set("percentage_random", load.percent(10..=50)).set("norandommap", 1);
    let pace = Pace::Think(load.whole(8..=64), load.scaled(20.0, 600.0));
    load.add(job.pace(pace).directory(directory));
}

/// The image is read sequentially as a whole, as for a backup.
fn is_copied(load: &mut Composer, image: Files, directory: &str) {
    let block = load.one_of(&[64 * KIB, 128 * KIB, 512 * KIB, MIB]);
    let limit = load.chance(0.5).then(|| load.scaled(2.0, 30.0) * MIB as f64 / block as f64);
    let job = Job::new("copy", "read", image).block(block).direct(true);
    load.add(job.pace(limit.map_or(Pace::Closed, Pace::Rate)).directory(directory));
}

/// Only writes its logs.
fn logs(load: &mut Composer, image: Files, directory: &str) {
    let pace = Pace::Think(load.whole(1..=8), load.scaled(50.0, 2500.0));
    let job = Job::new("logs", "write", image).block(load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB])).direct(true);
    let job = job.pace(pace).set("fsync", load.whole(1..=4)).directory(directory);
    load.add(job);
}

fn builds(load: &mut Composer, image: Files, directory: &str) {
    let sizes = [(4 * KIB, 70), (32 * KIB, 30)];
    let reads = Job::new("sources", "randread", image).blocks(&sizes).processes(load.whole(1..=4)).direct(true);
    let pace = Pace::Think(load.whole(4..=30), load.scaled(30.0, 500.0));
    load.add(reads.pace(pace).set("norandommap", 1).directory(directory));
    // The guest's own kernel writes dirty pages back in batches.
    let pace = Pace::Think(load.whole(16..=200), load.scaled(800.0, 5000.0));
    let writes = Job::new("objects", "randwrite", image).block(16 * KIB).depth(load.whole(2..=16));
    load.add(writes.pace(pace).set("norandommap", 1).directory(directory));
}
