//! Readers with the same hot spots: popularity follows Zipf's law, with some writes to the same places.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "popular",
    about: "reads whose popularity follows Zipf's law",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    let theta = load.one_of(&[0.5, 0.7, 0.8, 0.9, 0.99, 1.1, 1.2]);
    let bytes = load.memories(2.0, 16.0);
    for _ in 0..load.whole(1..=2) {
        let block = load.one_of(&[4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB]);
        let writes = load.chance(0.35);
        let pattern = if writes { "randrw" } else { "randread" };
        let job = Job::new("reader", pattern, Files::Shared("store", bytes)).block(block).processes(load.scaled(2.0, 32.0) as u32);
        let think_ms = load.scaled(1.0, 60.0);
        let job = if load.chance(0.5) { job.pace(Pace::Think(1, think_ms)) } else { job };
        let job = job.mix_read(load.percent(70..=97)).set("random_distribution", format!("zipf:{theta}"));
        load.add(job);
    }
}
