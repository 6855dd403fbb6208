//! Four to six loads in sequence, each for half a minute to a minute.
//!
//! A phase begins by the clock (`startdelay`) and its jobs stop by the clock, so that its boundaries are the same under every scheduler.
//! With `stonewall` the next phase would begin when the last I/O of the previous one completes, which may differ by seconds between
//! schedulers.

use super::composer::{Add, Composer};
use super::{Drawn, Family, Scope};
use super::{asynchronous, at_random, build, database, database_with_backup, in_order, log_structured, mail, pairs, small_files};
use super::{video_recorder, virtual_machines, web_cache, writing};
use rand_xoshiro::Xoshiro256PlusPlus;

/// See the file's head.
pub static FAMILY: Family = Family { name: "phases", about: "four to six loads in sequence, each for 30 to 60 seconds", draw };

/// The loads that a phase may have; compositions are listed twice.
const PHASES: &[Add] = &[
    in_order::add,
    at_random::add,
    asynchronous::add,
    writing::add,
    small_files::add,
    pairs::add,
    database::add,
    database_with_backup::add,
    build::add,
    video_recorder::add,
    mail::add,
    log_structured::add,
    web_cache::add,
    virtual_machines::add,
];

fn draw(random: &mut Xoshiro256PlusPlus, scope: &Scope) -> Drawn {
    let mut load = Composer::new(random, scope);
    let mut left = PHASES.to_vec();
    for _ in 0..load.whole(4..=6) {
        let index = load.whole(0..=left.len() as u32 - 1) as usize;
        let lasts_ms = phase_ms(&mut load);
        let add = left.remove(index);
        load.phase(lasts_ms, |load| load.program(add));
    }
    load.finish()
}

/// Half a minute to a minute; a quarter of the scope's duration if a run must be short.
fn phase_ms(load: &mut Composer) -> u64 {
    let seconds = load.scope.seconds.max(1);
    if load.scope.is_flash || seconds < 60 { u64::from(seconds) * 250 } else { u64::from(load.whole(30..=60)) * 1000 }
}
