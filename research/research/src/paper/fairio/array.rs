//! The report's device and its queue, as far as the report specifies them.

use anyhow::Context;
use block::{Merges, Nanos};
use sim::device::hdd::spec::{HddSpecification, QueuePolicy, ReadAhead, WriteCache};
use sim::host::{HostSettings, QueueSettings};
use sim::profile::{DeviceOptions, Profile, load, load_with};

/// The report's disk.
const DISK: &str = "ibm18es";
/// Name of our variant of the disk.
const NAME: &str = "ibm18es-sstf";
/// "an SSTF-scheduled request queue that can hold up to 16 requests" (section IV).
const QUEUE: u32 = 16;
/// "An 8-disk RAID-0 configuration" (section IV).
pub const DISKS: u32 = 8;
/// The report does not print the stripe unit. In its Table V a request takes about 70 ms of disk time, summed over the eight disks, both in
/// varmail with files of 16 KiB and in IOR with 64 KiB: so each is on all disks, which implies a unit of at most 2 KiB. Larger ones are varied.
pub const STRIPE_UNIT_KIB: u32 = 2;
/// The largest request: larger ones would take longer than those in Table V.
pub const LARGEST_KIB: i64 = 64;

/// Eight disks with "a cache of minimal size": one segment, which holds the data in transfer.
pub fn array(stripe_unit_kib: u32) -> anyhow::Result<Profile> {
    let disk = load(DISK)?;
    let mut disk = disk.hdd().map(|hdd| hdd.specification.clone()).with_context(|| format!("{DISK} is no hard disk"))?;
    minimal(&mut disk);
    let disk = Profile::from_hdd(&disk, NAME)?;
    Ok(load_with(&format!("raid0:disk={NAME},disks={DISKS},stripe_unit_kib={stripe_unit_kib}"), &disk)?)
}

fn minimal(disk: &mut HddSpecification) {
    disk.name = NAME.to_owned();
    disk.queue.depth = QUEUE;
    disk.queue.policy = QueuePolicy::Sstf;
    let cache = &mut disk.cache;
    (cache.segments, cache.write_segments, cache.dedicated_write_segment) = (1, 1, false);
    (cache.read_ahead, cache.keeps_data, cache.write_cache) = (ReadAhead::None, false, WriteCache::Off);
    (cache.read_ahead_min_sectors, cache.read_ahead_max_sectors) = (0, 0);
}

/// Options for the scheduler as printed, whose controller queue is "of infinite length" (section IV).
pub fn infinite() -> DeviceOptions {
    DeviceOptions { queue_depth: Some(1 << 16), ..DeviceOptions::default() }
}

/// The driver's queue, which holds all requests and merges none.
pub fn queue() -> QueueSettings {
    QueueSettings {
        nr_requests: 1 << 20,
        max_sectors: 1 << 20,
        merges: Merges::Never,
        write_back_latency: Some(Nanos::ZERO),
        ..QueueSettings::default()
    }
}

/// The host of the benchmarks.
pub fn host() -> HostSettings {
    HostSettings { nr_requests: 2048, max_sectors_kb: LARGEST_KIB, nomerges: 2, wbt_lat_usec: 0, ..HostSettings::default() }
}
