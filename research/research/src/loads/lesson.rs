//! Training loads for models of gains: one or two phases, each of one to three programs of the simple families, or of a program that is
//! generated more broadly.
//!
//! The simple families choose among few values, so that a model could memorize them. A broad program mixes reads and writes, sequential
//! and random, of any size, in a closed loop or paced, through the page cache or with direct I/O. It excludes the characteristics of the
//! validation world's families: skewed popularity, independent arrivals, appends with `fsync`, unequal streams.

use rand_xoshiro::Xoshiro256PlusPlus;

use super::composer::{Add, Composer, Files, GIB, Job, KIB, MIB, Pace};
use super::{Drawn, Scope};
use super::{asynchronous, at_random, in_order, pairs, small_files, writing};

/// Kinds of programs, with their names.
const PROGRAMS: &[(&str, Add)] = &[
    ("in-order", in_order::add),
    ("at-random", at_random::add),
    ("asynchronous", asynchronous::add),
    ("writing", writing::add),
    ("small-files", small_files::add),
    ("pairs", pairs::add),
    ("broad", broad),
    ("broad", broad),
    ("broad", broad),
];

/// Numbers of phases, and of programs per phase; uniform.
const PHASES: &[u32] = &[1, 1, 2];
const PROGRAMS_OF_PHASE: &[u32] = &[1, 1, 1, 2, 2, 3];

/// Generates a load, with the names of each phase's programs.
pub fn draw(random: &mut Xoshiro256PlusPlus, scope: &Scope) -> (Drawn, Vec<String>) {
    let mut load = Composer::new(random, scope);
    let phases = load.one_of(PHASES);
    let lasts_ms = u64::from(scope.seconds.max(1)) * 1000 / u64::from(phases);
    let mut names = Vec::new();
    for _ in 0..phases {
        let number = load.one_of(PROGRAMS_OF_PHASE);
        let mut programs: Vec<(&str, Add)> = (0..number).map(|_| load.one_of(PROGRAMS)).collect();
        programs.sort_by_key(|(name, _)| *name);
        load.phase(lasts_ms, |load| programs.iter().for_each(|(_, add)| load.program(*add)));
        programs.dedup_by_key(|(name, _)| *name);
        names.push(programs.iter().map(|(name, _)| *name).collect::<Vec<_>>().join("+"));
    }
    (load.finish(), names)
}

fn broad(load: &mut Composer) {
    let pattern = load.one_of(&["read", "write", "rw", "randread", "randwrite", "randrw", "randrw"]);
    let block = load.one_of(&[4 * KIB, 4 * KIB, 8 * KIB, 16 * KIB, 32 * KIB, 64 * KIB, 128 * KIB, 512 * KIB]);
    let processes = load.one_of(&[1, 1, 2, 3, 4, 6, 8, 12, 24]);
    let mix = load.percent(10..=95);
    // Data that fit in memory are served from there, which says nothing about the device and takes long to simulate.
    let (depth, is_direct) = (load.one_of(&[0, 0, 0, 0, 2, 4, 8, 16, 32, 64]), load.chance(0.35));
    let bytes = if depth > 0 || is_direct {
        load.scaled(16.0 * MIB as f64, 4.0 * GIB as f64) as u64 / MIB * MIB
    } else {
        load.memories(1.0, 4.0)
    };
    let files = if load.chance(0.3) { Files::Shared("shared", bytes) } else { Files::Own(bytes) };
    let job = Job::new("broad", pattern, files).block(block).processes(processes).mix_read(mix);
    let job = match load.whole(0..=3) {
        0 => job.pace(Pace::Rate(load.scaled(2.0, 400.0))),
        1 => job.pace(Pace::Think(load.one_of(&[1, 1, 4, 16, 64]), load.scaled(0.5, 200.0))),
        _ => job,
    };
    load.add(if depth > 0 { job.depth(depth) } else { job.direct(is_direct) });
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use sim::workload::Workload;

    use super::*;
    use experiment::chance;

    #[test]
    fn every_lesson_is_a_job_file_and_names_what_is_in_it() {
        for is_flash in [false, true] {
            let scope = Scope { capacity_bytes: 20_000_000_000, memory_bytes: 1 << 30, seconds: 20, is_flash };
            for number in 0..200 {
                let draw = || draw(&mut chance::source("test", 1, number), &scope);
                let (drawn, names) = draw();
                assert_eq!((drawn.clone(), names.clone()), draw());
                let workload = Workload::parse(&drawn.text, "drawn").unwrap_or_else(|error| panic!("{error}\n{}", drawn.text));
                workload.place(scope.capacity_bytes / 512, 1).unwrap();
                assert_eq!((names.len(), drawn.phase_ends_s.last()), (drawn.phase_ends_s.len(), Some(&20.0)));
            }
        }
    }
}
