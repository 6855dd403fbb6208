//! Random reads and writes with independent arrivals (Poisson), at a random share of the device's capacity.

use super::Family;
use super::composer::{Composer, Files, Job, KIB, Pace, compose};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "arrivals",
    about: "independent arrivals of random reads and writes, from idle to overload",
    draw: |random, scope| compose(random, scope, add),
};

/// Random I/Os per second of a hard disk, and those assumed for flash; the share refers to these.
const DISK_PER_SECOND: f64 = 120.0;
const FLASH_PER_SECOND: f64 = 4_500.0;

pub(super) fn add(load: &mut Composer) {
    let able = if load.scope.is_flash { FLASH_PER_SECOND } else { DISK_PER_SECOND };
    let per_second = able * load.scaled(0.25, 1.25);
    let bytes = load.memories(2.0, 12.0);
    let kinds = load.whole(1..=3);
    for _ in 0..kinds {
        let block = load.one_of(&[2 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 64 * KIB]);
        let pattern = load.one_of(&["randread", "randrw", "randrw", "randwrite"]);
        // Each process waits for its own I/O: with enough processes, arrivals are rarely delayed.
        let most = (per_second / f64::from(kinds) / 4.0).clamp(1.0, 24.0);
        let processes = load.scaled(most / 3.0, most).ceil() as u32;
        let pace = Pace::Poisson(per_second / f64::from(kinds * processes));
        let job = Job::new("arrival", pattern, Files::Shared("volume", bytes)).block(block).processes(processes).pace(pace);
        let job = job.mix_read(load.percent(30..=90)).direct(true).set("norandommap", 1);
        load.add(job);
    }
}
