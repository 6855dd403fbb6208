//! Compilation of a program: compilers read sources and headers and compute, objects are written, and occasionally a linker reads and writes
//! large amounts.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, MIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "build", about: "compilers, objects and links in bursts", draw: |random, scope| compose(random, scope, add) };

pub(super) fn add(load: &mut Composer) {
    let compilers = load.whole(2..=16);
    let files = load.whole(2000..=12_000) / compilers;
    let sources = Files::Many(files, 4 * KIB, u64::from(load.whole(16..=96)) * KIB);
    let large = load.percent(5..=30);
    let sizes = [(4 * KIB, 100 - large), (16 * KIB, large)];
    let compute = Pace::Think(load.whole(4..=40), load.scaled(20.0, 800.0));
    let job = Job::new("sources", "randread", sources).blocks(&[sizes[0]]).processes(compilers).pace(compute);
    let job = if load.chance(0.5) { job.set("file_service_type", "random") } else { job.set("file_service_type", "sequential") };
    load.add(job.directory("tree"));
    headers(load, compilers, &sizes);
    objects(load, compilers);
    link(load);
}

/// Headers of libraries, shared by all compilers.
fn headers(load: &mut Composer, compilers: u32, sizes: &[(u64, u8)]) {
    let bytes = load.memories(0.3, 2.0);
    let job = Job::new("headers", "randread", Files::Shared("headers", bytes)).blocks(sizes).processes(compilers);
    let compute = Pace::Think(load.whole(10..=60), load.scaled(30.0, 800.0));
    let theta = load.one_of(&["0.6", "0.8", "0.95"]);
    load.add(job.pace(compute).set("random_distribution", format!("zipf:{theta}")).directory("system"));
}

fn objects(load: &mut Composer, compilers: u32) {
    let sizes = [(4 * KIB, load.percent(30..=60)), (16 * KIB, 30), (64 * KIB, 0)];
    let sizes = [sizes[0], sizes[1], (64 * KIB, 100 - sizes[0].1 - sizes[1].1)];
    let bytes = load.mebibytes(16..=96);
    let pace = Pace::Think(load.whole(2..=12), load.scaled(60.0, 900.0));
    let job = Job::new("objects", "write", Files::Own(bytes)).blocks(&sizes).processes(compilers).pace(pace);
    load.add(job.directory("objects"));
}

/// A linker that reads objects and libraries and writes a program, every few seconds.
fn link(load: &mut Composer) {
    let apart_ms = load.lasts_ms() / load.scaled(3.0, 8.0);
    let block = load.one_of(&[32 * KIB, 64 * KIB, 128 * KIB]);
    let mib = load.scaled(8.0, 96.0);
    let blocks = |mib: f64| ((mib * MIB as f64 / block as f64) as u32).max(1);
    let bytes = load.memories(0.5, 2.0);
    let read = Job::new("link-reads", "read", Files::Own(bytes)).block(block).pace(Pace::Think(blocks(mib), apart_ms));
    load.add(read.directory("objects"));
    let write = Job::new("link-writes", "write", Files::Own(bytes / 2)).block(block).pace(Pace::Think(blocks(mib / 3.0), apart_ms));
    load.add(write.directory("programs"));
}
