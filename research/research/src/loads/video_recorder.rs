//! A video recorder: cameras or channels recorded at constant rates, and players that read at their rates and sometimes skip.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "video-recorder",
    about: "recordings at constant rates, players that sometimes skip",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let block = load.one_of(&[32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB]);
    let channels = load.whole(2..=16);
    // From a surveillance camera to a high-definition broadcast: 1 to 20 Mbit/s.
    let bytes_per_second = load.scaled(0.125e6, 2.5e6);
    let bytes = load.memories(0.4, 2.0);
    let pace = Pace::Rate(bytes_per_second / block as f64);
    let job = Job::new("channel", "write", Files::Own(bytes)).block(block).processes(channels).pace(pace).directory("recordings");
    // A recorder that must not lose a minute syncs occasionally.
    let job = if load.chance(0.4) { job.set("fsync", load.whole(32..=256)) } else { job };
    load.add(job);
    for _ in 0..load.whole(1..=2) {
        player(load, bytes_per_second);
    }
    if load.chance(0.5) {
        index(load);
    }
}

/// Plays a recording, skips in it, or fast-forwards: then it reads a little, skips according to the speed, and so on.
fn player(load: &mut Composer, bytes_per_second: f64) {
    let block = load.one_of(&[64 * KIB, 128 * KIB, 256 * KIB]);
    let bytes = load.memories(2.0, 8.0);
    let pattern = load.one_of(&["read", "read", "randread:24", "randread:96"]);
    let job = Job::new("player", pattern, Files::Own(bytes)).block(block).pace(Pace::Rate(bytes_per_second / block as f64));
    let (speed, zone) = (u64::from(load.whole(2..=12)), u64::from(load.whole(1..=8)) * block);
    let job = match pattern {
        "read" if load.chance(0.4) => job.set("zonemode", "strided").set("zonesize", zone).set("zoneskip", zone * (speed - 1)),
        "read" => job,
        _ => job.set("norandommap", 1),
    };
    load.add(job.directory("recordings"));
}

/// The index of recordings: small writes that are synced.
fn index(load: &mut Composer) {
    let bytes = load.mebibytes(8..=128);
    let pace = Pace::Think(load.whole(1..=4), load.scaled(300.0, 4000.0));
    load.add(Job::new("index", "randwrite", Files::Own(bytes)).pace(pace).set("fdatasync", 1).directory("index"));
}
