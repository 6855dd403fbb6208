//! Generated loads: fio job files from a seed, by families of loads.
//!
//! Families form three disjoint groups, so that controllers are never judged by what they are trained on:
//!
//! | group | families |
//! |---|---|
//! | simple mixes, for training | [`SIMPLE`] |
//! | other shapes, for design choices during development | [`SHAPES`] |
//! | realistic compositions, for reported results only | [`COMPOSITIONS`] |

mod appends;
mod arrivals;
mod asynchronous;
mod at_random;
mod build;
mod composer;
mod database;
mod database_with_backup;
mod in_order;
mod log_structured;
mod mail;
pub mod mix;
mod pairs;
mod phases;
mod popular;
mod scan;
mod services;
mod small_files;
mod streams;
mod video_recorder;
mod virtual_machines;
mod web_cache;
mod writing;

use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance;
use testbed::world::World;

/// The machine for which a load is generated, and its duration.
#[derive(Clone, Copy, Debug)]
pub struct Scope {
    /// Capacity of the device. Files take less than 70% of it.
    pub capacity_bytes: u64,
    /// Memory of the host, most of which is page cache.
    pub memory_bytes: u64,
    /// Duration of the load; a load of several phases may take longer.
    pub seconds: u32,
    /// Whether the device is flash, without seeks or rotation. Limited to some 5,000 requests per second to keep simulations short.
    pub is_flash: bool,
}

impl Scope {
    /// The scope of a load with this duration in a world.
    pub fn of(world: &World, seconds: u32) -> Scope {
        Scope {
            capacity_bytes: world.profile.capacity_sectors() * 512,
            memory_bytes: world.host.memory_mib.unsigned_abs() << 20,
            seconds,
            is_flash: world.profile.build(world.device).flash().is_some(),
        }
    }
}

/// A generated load.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawn {
    /// An fio job file.
    pub text: String,
    /// End of each phase in seconds, ascending; the last is the end of the load.
    pub phase_ends_s: Vec<f64>,
}

/// A family of loads.
pub struct Family {
    /// The name on the command line.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Generates a load.
    pub draw: fn(&mut Xoshiro256PlusPlus, &Scope) -> Drawn,
}

/// Simple mixes, for training. None of them resembles a load that a paper reports, or one of the other groups.
pub static SIMPLE: &[&Family] =
    &[&in_order::FAMILY, &at_random::FAMILY, &asynchronous::FAMILY, &writing::FAMILY, &small_files::FAMILY, &pairs::FAMILY];

/// Other shapes, for design choices during development.
pub static SHAPES: &[&Family] =
    &[&streams::FAMILY, &appends::FAMILY, &scan::FAMILY, &arrivals::FAMILY, &popular::FAMILY, &services::FAMILY];

/// Realistic compositions, for reported results only.
pub static COMPOSITIONS: &[&Family] = &[
    &database::FAMILY,
    &database_with_backup::FAMILY,
    &build::FAMILY,
    &video_recorder::FAMILY,
    &mail::FAMILY,
    &log_structured::FAMILY,
    &web_cache::FAMILY,
    &virtual_machines::FAMILY,
    &phases::FAMILY,
];

/// Every family, one file each.
pub fn all() -> impl Iterator<Item = &'static Family> {
    [SIMPLE, SHAPES, COMPOSITIONS].into_iter().flatten().copied()
}

/// The family of this name.
pub fn find(name: &str) -> Option<&'static Family> {
    all().find(|family| family.name == name)
}

/// Generates load `number` of a family. Deterministic: equal arguments give equal text.
pub fn draw(family: &Family, seed: u64, number: u32, scope: &Scope) -> Drawn {
    (family.draw)(&mut chance::source(family.name, seed, number), scope)
}

/// The job file with every `runtime` replaced.
pub fn with_runtime(text: &str, seconds: u32) -> String {
    let line = |line: &str| match line.split_once('=') {
        Some((key, _)) if key.trim() == "runtime" => format!("runtime={seconds}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// The job file of another machine that runs the same programs: with 0.7 to 1.4 times the pace and half to all of the data, by factors
/// that hold for all jobs. Values that are not whole numbers with a unit stay, as do sizes below 1 MiB.
pub fn varied(text: &str, seed: u64) -> String {
    const MIB: f64 = 1_048_576.0;
    let mut random = chance::source("varied", seed, 0);
    let (pace, data) = (chance::scaled(&mut random, 0.7, 1.4), chance::scaled(&mut random, 0.5, 1.0));
    let times = |number: f64, unit: &str, factor: f64| Some(format!("{}{unit}", (number * factor).round().max(1.0)));
    let fewer_bytes = |number: f64, unit: &str| {
        let bytes = number * [("", 1.0), ("k", 1024.0), ("m", MIB), ("g", 1024.0 * MIB)].iter().find(|one| one.0 == unit)?.1;
        // A multiple of 64 KiB, so that blocks still fit.
        Some(if bytes < MIB { bytes } else { (bytes * data / 65_536.0).floor() * 65_536.0 }.to_string())
    };
    let line = |line: &str| {
        let (key, value) = line.split_once('=')?;
        let value = match key {
            "rate" | "rate_iops" => each_quantity(value, ',', |number, unit| times(number, unit, pace)),
            "thinktime" => each_quantity(value, ',', |number, unit| times(number, unit, 1.0 / pace)),
            "size" | "filesize" => each_quantity(value, '-', fewer_bytes),
            _ => None,
        };
        Some(format!("{key}={}\n", value?))
    };
    text.lines().map(|text| line(text).unwrap_or_else(|| format!("{text}\n"))).collect()
}

/// Applies `change` to the number and unit of each of several quantities; `None` if one is no whole number with a unit, or cannot be changed.
fn each_quantity(text: &str, separator: char, change: impl Fn(f64, &str) -> Option<String>) -> Option<String> {
    let one = |text: &str| {
        let (number, unit) = text.split_at(text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len()));
        change(number.parse().ok()?, unit)
    };
    let all: Option<Vec<String>> = text.split(separator).map(one).collect();
    Some(all?.join(&separator.to_string()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::BTreeSet;

    use block::Nanos;
    use sim::workload::Workload;

    use super::*;
    use experiment::bench::Bench;
    use progress::monitor::Quiet;
    use testbed::world::World;

    #[test]
    fn every_runtime_is_replaced_and_nothing_else() {
        assert_eq!(with_runtime("[a]\nruntime=60\nrw=read\n runtime = 5m", 7), "[a]\nruntime=7\nrw=read\nruntime=7\n");
    }

    #[test]
    fn another_machine_has_another_pace_and_less_data_and_the_same_programs() {
        let text = "[a]\nrw=randrw\nsize=4g\nrate=300k,200k\nbs=4k\n[b]\nfilesize=64k-2m\nthinktime=1000us\nthinktime_blocks=8\nsize=30%\n";
        let other = varied(text, 3);
        assert_eq!(other, varied(text, 3));
        assert_ne!(other, varied(text, 4));
        let value = |key: &str| {
            let line = other.lines().find(|line| line.starts_with(key)).unwrap();
            line[key.len()..].split(['-', ',', 'k', 'u']).filter_map(|part| part.parse::<f64>().ok()).collect::<Vec<f64>>()
        };
        let pace = value("rate=")[0] / 300.0;
        assert!((0.7..=1.4).contains(&pace) && (value("rate=")[1] / 200.0 - pace).abs() < 0.01, "{other}");
        assert!((value("thinktime=")[0] * pace / 1000.0 - 1.0).abs() < 0.01, "{other}");
        let (size, file_size) = (value("size=")[0], value("filesize="));
        assert!((0.5..=1.0).contains(&(size / 4_294_967_296.0)) && size % 65_536.0 == 0.0, "{other}");
        assert!(file_size[0] == 65_536.0 && file_size[1] <= 2_097_152.0, "{other}");
        let kept = ["rw=randrw", "bs=4k", "thinktime_blocks=8", "size=30%"];
        assert!(kept.iter().all(|line| other.lines().any(|other| other == *line)), "{other}");
    }

    const MIB: u64 = 1 << 20;

    /// A small old disk with little memory, one of the papers', a new one, flash.
    const SCOPES: [Scope; 4] = [
        Scope { capacity_bytes: 1_000_000_000, memory_bytes: 64 * MIB, seconds: 20, is_flash: false },
        Scope { capacity_bytes: 9_000_000_000, memory_bytes: 1024 * MIB, seconds: 60, is_flash: false },
        Scope { capacity_bytes: 4_000_000_000_000, memory_bytes: 1024 * MIB, seconds: 60, is_flash: false },
        Scope { capacity_bytes: 64_000_000_000, memory_bytes: 1024 * MIB, seconds: 60, is_flash: true },
    ];

    fn parsed(drawn: &Drawn) -> Workload {
        Workload::parse(&drawn.text, "drawn").unwrap_or_else(|error| panic!("{error}\n{}", drawn.text))
    }

    #[test]
    fn every_family_is_in_one_group_and_has_a_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/loads")).unwrap();
        let files = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap().replace('_', "-").replace(".rs", ""));
        let mut files: Vec<String> = files.filter(|file| !["mod", "mix", "composer"].contains(&file.as_str())).collect();
        files.sort_unstable();
        let mut names: Vec<&str> = all().map(|family| family.name).collect();
        names.sort_unstable();
        assert_eq!(names, files);
        assert!(names.iter().all(|name| find(name).is_some_and(|family| family.name == *name)) && find("mix").is_none());
    }

    #[test]
    fn what_is_drawn_parses_is_the_same_again_and_differs_between_seeds() {
        for family in all() {
            for scope in &SCOPES {
                let mut texts = BTreeSet::new();
                for seed in 0..50 {
                    let drawn = draw(family, seed, 3, scope);
                    parsed(&drawn);
                    assert_eq!(drawn, draw(family, seed, 3, scope));
                    texts.insert(drawn.text);
                }
                // The simple ones choose among few values, so they repeat.
                let least = if SIMPLE.iter().any(|simple| simple.name == family.name) { 6 } else { 50 };
                assert!(texts.len() >= least, "{}: {} different ones of 50", family.name, texts.len());
                assert_ne!(draw(family, 1, 1, scope).text, draw(family, 1, 4, scope).text, "{}", family.name);
            }
        }
    }

    #[test]
    fn files_fit_the_device() {
        for family in all() {
            for scope in &SCOPES {
                for seed in 0..50 {
                    let drawn = draw(family, seed, 0, scope);
                    let placed = parsed(&drawn).place(scope.capacity_bytes / 512, 1);
                    let placed = placed.unwrap_or_else(|error| panic!("{}: {error}\n{}", family.name, drawn.text));
                    let bytes: u64 = placed.files().iter().map(|file| file.bytes.next_multiple_of(4096)).sum();
                    assert!(bytes * 10 < scope.capacity_bytes * 7, "{}: {bytes} bytes\n{}", family.name, drawn.text);
                }
            }
        }
    }

    #[test]
    fn phases_end_one_after_another_and_the_last_one_with_the_jobs() {
        for family in all() {
            for scope in &SCOPES {
                for seed in 0..50 {
                    let drawn = draw(family, seed, 0, scope);
                    assert!(drawn.phase_ends_s.is_sorted_by(|a, b| a < b), "{:?}", drawn.phase_ends_s);
                    assert!(
                        drawn.phase_ends_s.len() == if family.name == "phases" { drawn.phase_ends_s.len().clamp(4, 6) } else { 1 }
                    );
                    let workload = parsed(&drawn);
                    let ends = workload.jobs().iter().map(|job| {
                        let options = job.options();
                        assert!(options.length.time_based && options.together.start_delay.0 == options.together.start_delay.1);
                        (options.together.start_delay.0 + options.length.runtime.unwrap()).as_secs_f64()
                    });
                    let ends: Vec<f64> = ends.collect();
                    assert!(ends.iter().all(|end| drawn.phase_ends_s.contains(end)), "{ends:?} {:?}", drawn.phase_ends_s);
                    assert_eq!(ends.iter().copied().reduce(f64::max), drawn.phase_ends_s.last().copied());
                    assert!(family.name == "phases" || ends[0] == f64::from(scope.seconds));
                }
            }
        }
    }

    #[test]
    fn flash_is_asked_for_few_requests() {
        for family in all() {
            for seed in 0..50 {
                let workload = parsed(&draw(family, seed, 0, &SCOPES[3]));
                for job in workload.jobs() {
                    let options = job.options();
                    let paced = options.think.span > Nanos::ZERO
                        || options.rate.bytes.iter().chain(&options.rate.ios).any(|&rate| rate > 0);
                    assert!(paced, "{}: {}", family.name, job.name());
                }
            }
        }
    }

    #[test]
    fn what_is_learned_from_is_a_job_file_and_the_same_again() {
        for number in 0..300 {
            let text = mix::text(1, number, 5);
            assert_eq!(text, mix::text(1, number, 5));
            Workload::parse(&text, "drawn").unwrap_or_else(|error| panic!("{error}\n{text}"));
        }
    }

    /// Every family runs and causes device I/O.
    #[test]
    fn every_family_reaches_the_device() {
        let setting = control::Setting::parse("deadline").unwrap();
        for family in all() {
            let mut world = World::new("barracuda", None, None).unwrap();
            world.host.memory_mib = 64;
            let scope = Scope {
                capacity_bytes: world.profile.capacity_sectors() * 512,
                memory_bytes: 64 * MIB,
                seconds: 5,
                is_flash: false,
            };
            let drawn = draw(family, 1, 0, &scope);
            let bench = Bench::new(&drawn.text, family.name, world, 1).unwrap();
            let fixed = control::controller::Fixed::new(setting.clone(), Nanos::from_millis(1000));
            let observed = bench.run(&setting, Box::new(fixed), false, &Quiet::default()).unwrap();
            let requests = observed.outcome.tally.requests;
            assert!(requests > 10, "{}: {requests} requests", family.name);
        }
    }
}
