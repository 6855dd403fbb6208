//! Random loads of cached writes with reads and syncs, on random hard disks with a write cache: neither model nor host can be tuned to them.
//!
//! A load has a log with syncs and random readers, mostly a writer of large requests, and sometimes a copy through the page cache and a
//! sequential reader. Each has a region of its own, because fio gives all jobs the same device.

use std::io::Write as _;

use anyhow::Context as _;
use control::Setting;
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::profile::Profile;
use tempfile::NamedTempFile;
use testbed::chance::{happens, one_of, scaled, source};

use super::Model;
use super::workloads::Workload;
use crate::devices::{DrawnDevice, Family, find};

/// Number of loads on each disk.
pub const LOADS_PER_DISK: u32 = 6;

/// Families of disks that all have a write cache.
const FAMILIES: [&str; 2] = ["desktop", "laptop"];

/// Minimum depth of a queue in Linux. A drive without NCQ is emulated and simulated as one that serves this many in order.
const MIN_DEPTH: u32 = 4;

/// Load `number` and the scheduler under which it runs. Deterministic: equal arguments give equal loads.
///
/// # Errors
/// The scheduler is unknown, which is a defect.
pub fn load(seed: u64, number: u32) -> anyhow::Result<Workload> {
    let random = &mut source("validation-load", seed, number);
    let mut jobs = log(random);
    jobs += &readers(random);
    if happens(random, 0.7) {
        jobs += &writer(random);
    }
    let copies = happens(random, 0.2);
    if copies {
        let kib = one_of(random, &[64, 256]);
        jobs += &format!("[copy]\ndirect=0\nioengine=psync\nrw=write\nbs={kib}k\noffset=5g\nsize=1g\n");
    }
    if happens(random, 0.3) {
        let (kib, depth) = (one_of(random, &[64, 128, 256]), one_of(random, &[1, 2, 4]));
        jobs += &format!("[scan]\nrw=read\nbs={kib}k\niodepth={depth}\noffset=6g\nsize=1g\n");
    }
    let scheduler = one_of(random, &["none", "mq-deadline", "bfq"]);
    // The page cache is too large to be filled within seconds.
    let host = if copies { vec![("dirty_ratio".to_owned(), 2)] } else { Vec::new() };
    let is_shown = |line: &&str| !["offset=", "size=", "ioengine="].iter().any(|key| line.starts_with(key));
    let shown: Vec<&str> = jobs.lines().filter(is_shown).collect();
    Ok(Workload {
        name: format!("{number}: {}", shown.join(" ")),
        jobs,
        host,
        tuned: &[],
        only_under: Some(Setting::parse(scheduler).with_context(|| scheduler.to_owned())?),
    })
}

/// A log: small sequential writes, each or every few of them followed by a sync. Not with libaio: fio 3.33 counts the times of its syncs from
/// the submission of the write before.
fn log(random: &mut Xoshiro256PlusPlus) -> String {
    let kib = one_of(random, &[4, 8, 16]);
    let pause_us = scaled(random, 500.0, 20_000.0).round();
    let how = match random.random_range(0..4) {
        0 => format!("direct=0\n{}=1\n", one_of(random, &["fdatasync", "sync"])),
        1 => format!("fsync={}\n", one_of(random, &[1, 4, 16])),
        _ => format!("fdatasync={}\n", one_of(random, &[1, 1, 4])),
    };
    format!("[log]\nrw=write\nbs={kib}k\nthinktime={pause_us}us\n{how}ioengine=psync\noffset=7g\nsize=1g\n")
}

fn readers(random: &mut Xoshiro256PlusPlus) -> String {
    let (number, kib) = (random.random_range(1..=8), one_of(random, &[4, 8, 16, 32, 64]));
    let pause_us = one_of(random, &[0, 1000, 2000, 5000]);
    format!("[readers]\nrw=randread\nbs={kib}k\nnumjobs={number}\nthinktime={pause_us}us\nsize=4g\n")
}

fn writer(random: &mut Xoshiro256PlusPlus) -> String {
    let order = one_of(random, &["write", "randwrite"]);
    let (kib, depth) = (one_of(random, &[64, 128, 256, 512, 1024]), one_of(random, &[1, 2, 4, 8]));
    format!("[writer]\nrw={order}\nbs={kib}k\niodepth={depth}\noffset=4g\nsize=1g\n")
}

/// Disk `number`: its model, and the file of its profile, which has to be kept as long as the model is used.
///
/// # Errors
/// The family's profile is invalid, which is a defect; or it cannot be stored in a temporary file.
pub fn disk(seed: u64, number: u32) -> anyhow::Result<(Model, NamedTempFile)> {
    let drawn = drawn_disk(seed, number)?;
    let profile = Profile::parse(&drawn.text, &drawn.name)?;
    let depth = profile.build(sim::profile::DeviceOptions::default()).queue_depth();
    let mut file = tempfile::Builder::new().suffix(".toml").tempfile().context("cannot store a drawn profile")?;
    file.write_all(drawn.text.as_bytes()).context("cannot store a drawn profile")?;
    let queue_depth = (depth < MIN_DEPTH as usize).then_some(MIN_DEPTH);
    let model = Model { name: drawn.name, disk: file.path().display().to_string(), queue_depth, queue_policy: None };
    Ok((model, file))
}

fn drawn_disk(seed: u64, number: u32) -> anyhow::Result<DrawnDevice> {
    let random = &mut source("validation-disk", seed, number);
    let name = one_of(random, &FAMILIES);
    let family: &Family = find(name).with_context(|| format!("{name}: unknown family of devices"))?;
    Ok((family.draw)(random))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::collections::BTreeSet;

    use sim::device::hdd::spec::WriteCache;

    use super::*;
    use crate::validation::jobs;

    #[test]
    fn equal_seeds_give_equal_loads_and_disks() {
        for number in 0..6 {
            assert_eq!(load(1, number).unwrap(), load(1, number).unwrap());
            assert_ne!(load(1, number).unwrap().jobs, load(2, number).unwrap().jobs);
            assert_eq!(drawn_disk(1, number).unwrap(), drawn_disk(1, number).unwrap());
        }
    }

    #[test]
    fn loads_can_be_simulated_and_are_of_every_kind() {
        let loads: Vec<Workload> = (0..60).map(|number| load(1, number).unwrap()).collect();
        for load in &loads {
            testbed::shipped::parse(&jobs("/dev/loop0", load, 3.0, 0, 1.0).unwrap(), &load.name).unwrap();
            assert!(load.jobs.contains("sync="), "a log without syncs: {}", load.jobs);
        }
        let have = |text: &str| loads.iter().filter(|load| load.jobs.contains(text)).count();
        for kind in ["[writer]", "[copy]", "[scan]", "\nfsync=", "\nfdatasync=", "\nsync=1", "rw=write\nbs=1024k", "rw=randwrite"] {
            assert!((1..60).contains(&have(kind)), "{} of 60 have {kind}", have(kind));
        }
        let schedulers: BTreeSet<String> = loads.iter().map(|load| load.only_under.as_ref().unwrap().to_string()).collect();
        assert_eq!(schedulers, ["bfq", "mq-deadline", "none"].map(str::to_owned).into());
    }

    #[test]
    fn disks_cache_writes_and_their_queues_are_possible_under_linux() {
        let mut depths = BTreeSet::new();
        for number in 0..10 {
            let (model, file) = disk(1, number).unwrap();
            let text = std::fs::read_to_string(file.path()).unwrap();
            let spec: sim::device::hdd::spec::HddSpecification = toml::from_str(&text).unwrap();
            assert_eq!(spec.cache.write_cache, WriteCache::On, "{}", model.name);
            depths.insert(model.queue_depth.unwrap_or(spec.queue.depth));
        }
        assert_eq!(depths, [MIN_DEPTH, 32].into());
    }
}
