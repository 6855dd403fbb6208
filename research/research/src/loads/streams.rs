//! Streams with their own fixed rates, like players and recorders: one to four kinds of them, mostly readers.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "streams",
    about: "streams with different fixed rates, mostly readers",
    draw: |random, scope| compose(random, scope, add),
};

pub(super) fn add(load: &mut Composer) {
    for kind in 0..load.whole(1..=4) {
        let writes = load.chance(0.25);
        let block = load.one_of(&[16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 256 * KIB]);
        let processes = load.scaled(1.0, 24.0) as u32;
        let bytes_per_second = load.scaled(24.0, 3000.0) * KIB as f64;
        let bytes = load.memories(0.3, 1.5);
        let pattern = if writes { "write" } else { "read" };
        let job = Job::new("stream", pattern, Files::Own(bytes)).block(block).processes(processes);
        load.add(job.pace(Pace::Rate(bytes_per_second / block as f64)).directory(format!("streams-{kind}")));
    }
}
