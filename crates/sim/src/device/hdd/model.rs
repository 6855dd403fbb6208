//! The constants of a disk: checked once and shared by all instances.

use super::layout::HddLayout;
use super::mechanics::{Mechanics, duration};
use super::spec::{CacheSpecification, HddQueue, HddSpecification, ReadAhead, Seek};

/// Precomputed constants of a valid profile. All times are in nanoseconds.
#[derive(Debug, PartialEq)]
pub struct HddModel {
    /// Location of sectors.
    pub layout: HddLayout,
    /// Spindle and arm.
    pub mechanics: Mechanics,
    /// The drive's memory.
    pub cache: CacheSpecification,
    /// The drive's queue.
    pub queue: HddQueue,
    /// Overheads of processor and bus.
    pub delays: Delays,
    /// Longest time to position the arm, and the turn of a full write cache before waiting reads. Firmware's thresholds are not published;
    /// our choice makes a turn long enough that positioning takes less than half of it.
    pub longest_access: u64,
    /// [`HddQueue::aging_ms_per_s`] as a ratio, in units of 2⁻³².
    pub aging: u64,
    /// Deviations from DiskSim that match measured drives better.
    pub deviations: Deviations,
}

/// Deviations from DiskSim that match the drives of its validation traces better, in behaviour that no profile describes. Each can
/// be disabled, so that each drive can be evaluated with choices made on the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviations {
    /// A drive with zero-latency reads that keeps the sectors it passes reads the whole track. DiskSim: only the requested sectors.
    pub reads_whole_track: bool,
    /// A write keeps the rest of a segment that it overlaps, if reads may hit written data. DiskSim drops the segment.
    pub keeps_overlapped_segment: bool,
    /// A disconnected drive has reselected by the time enough of a read is in memory. DiskSim: it starts to reselect then.
    pub reselects_in_time: bool,
    /// The minimum delay of a write is counted from the arrival of its data. DiskSim: from the command.
    pub delays_from_data: bool,
}

impl Default for Deviations {
    fn default() -> Deviations {
        Deviations { reads_whole_track: true, keeps_overlapped_segment: true, reselects_in_time: true, delays_from_data: true }
    }
}

/// A delay that depends on the type of the previous request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    read: u64,
    write: u64,
}

impl After {
    /// The delay after a read if `read`, otherwise after a write.
    pub fn after(&self, read: bool) -> u64 {
        if read { self.read } else { self.write }
    }
}

/// [`super::spec::Overheads`] and [`super::spec::Bus`] in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Delays {
    /// Bus time of one sector to the host.
    pub read_sector: u64,
    /// Bus time of one sector from the host.
    pub write_sector: u64,
    /// Overhead of every request on arrival.
    pub request: u64,
    /// Command of a read that hits.
    pub read_hit: After,
    /// Command of a read that misses.
    pub read_miss: After,
    /// Command of a write: as a hit if the drive has a write cache, otherwise as a miss.
    pub write: After,
    /// Reporting a read.
    pub read_completion: u64,
    /// Reporting a write.
    pub write_completion: u64,
    /// Preparation of a data transfer.
    pub data_preparation: u64,
    /// First reselection.
    pub first_reselect: u64,
    /// Later reselections.
    pub other_reselect: u64,
    /// Disconnection of a read.
    pub read_disconnect: After,
    /// Disconnection of a write.
    pub write_disconnect: u64,
    /// See [`super::spec::ExtraWriteDisconnect`].
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// [`super::spec::ExtraWriteDisconnect`] in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// Command of such a write, which replaces the write overheads.
    pub command: u64,
    /// From the command to the return to the bus, including the disconnection.
    pub away: u64,
    /// Disconnection after the data.
    pub second_disconnect: u64,
    /// From the end of the command to the start of the arm.
    pub seek_delay: u64,
}

impl HddModel {
    /// Checks a profile whose values are within the ranges of their keys.
    ///
    /// # Errors
    /// Values contradict each other; the message names the key, its value and the valid range.
    pub fn new(spec: &HddSpecification) -> Result<HddModel, String> {
        let geometry = &spec.geometry;
        check("geometry.sparing_range_cylinders", geometry.sparing_range_cylinders, 1, geometry.cylinders)?;
        check_cache(&spec.cache)?;
        check_seek("seek", &spec.seek)?;
        if let Some(write_seek) = &spec.write_seek {
            check_seek("write_seek", write_seek)?;
        }
        let mechanics = Mechanics::new(&spec.mechanics, &spec.seek, spec.write_seek.as_ref(), geometry)?;
        let gain = spec.queue.aging_ms_per_s / 1e3;
        Ok(HddModel {
            layout: HddLayout::new(geometry, &spec.zones)?,
            longest_access: mechanics.longest_access(),
            mechanics,
            cache: effective_cache(spec),
            queue: spec.queue.clone(),
            delays: Delays::new(spec)?,
            aging: (gain * 2f64.powi(32)).round() as u64,
            deviations: Deviations::default(),
        })
    }

    /// Penalty in nanoseconds for a request that arrived at `arrived`, added to its positioning time: [`HddQueue::aging_ms_per_s`]
    /// for each second. Counted from time zero, it need not be recomputed for each comparison.
    #[inline]
    pub fn handicap(&self, arrived: u64) -> u64 {
        ((u128::from(arrived) * u128::from(self.aging)) >> 32) as u64
    }
}

fn check(key: &str, value: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{key}: {value} is not within {min} to {max}")) }
}

fn check_cache(cache: &CacheSpecification) -> Result<(), String> {
    let least = if cache.dedicated_write_segment { 2 } else { 1 };
    check("cache.segments", cache.segments, least, 4096)?;
    check("cache.write_segments", cache.write_segments, 1, cache.segments)?;
    check("cache.read_ahead_min_sectors", cache.read_ahead_min_sectors, 0, cache.segment_sectors)
}

/// Seek times must not decrease with the distance.
fn check_seek(name: &str, seek: &Seek) -> Result<(), String> {
    let (Seek::Linear { single_ms, average_ms, full_ms } | Seek::Curve { single_ms, average_ms, full_ms }) = seek else {
        return Ok(());
    };
    for (key, value, shorter, least) in
        [("average_ms", average_ms, "single_ms", single_ms), ("full_ms", full_ms, "average_ms", average_ms)]
    {
        if value < least {
            return Err(format!("{name}.{key}: {value} should be at least {shorter}, which is {least} ms"));
        }
    }
    Ok(())
}

/// The cache, without a read-ahead maximum that contradicts its mode: with `next-track` whole tracks are read, so a maximum below
/// the longest track is ignored (DiskSim ignores any maximum in this mode, `disk_buffer_get_max_readahead`).
fn effective_cache(spec: &HddSpecification) -> CacheSpecification {
    let mut cache = spec.cache.clone();
    let longest_track = spec.zones.iter().map(|zone| zone.sectors_per_track).max().unwrap_or(0);
    if cache.read_ahead == ReadAhead::NextTrack && cache.read_ahead_max_sectors < longest_track {
        cache.read_ahead_max_sectors = 0;
    }
    cache
}

impl Delays {
    fn new(spec: &HddSpecification) -> Result<Delays, String> {
        let overheads = &spec.overheads;
        let overhead = |key: &str, millis| duration(&format!("overheads.{key}"), millis);
        let after = |key: &str, read, write| -> Result<After, String> {
            Ok(After {
                read: overhead(&format!("{key}_after_read_ms"), read)?,
                write: overhead(&format!("{key}_after_write_ms"), write)?,
            })
        };
        let early = after("write_hit", overheads.write_hit_after_read_ms, overheads.write_hit_after_write_ms)?;
        let late = after("write_miss", overheads.write_miss_after_read_ms, overheads.write_miss_after_write_ms)?;
        let extra_disconnect = match &overheads.extra_write_disconnect {
            None => None,
            Some(extra) => {
                let delay = |key: &str, millis| overhead(&format!("extra_write_disconnect.{key}"), millis);
                Some(ExtraDisconnect {
                    command: delay("command_ms", extra.command_ms)?,
                    away: delay("disconnect_ms", extra.disconnect_ms)? + delay("gap_ms", extra.gap_ms)?,
                    second_disconnect: delay("second_disconnect_ms", extra.second_disconnect_ms)?,
                    seek_delay: delay("seek_delay_ms", extra.seek_delay_ms)?,
                })
            }
        };
        Ok(Delays {
            read_sector: duration("bus.read_sector_ms", spec.bus.read_sector_ms)?,
            write_sector: duration("bus.write_sector_ms", spec.bus.write_sector_ms)?,
            request: overhead("request_ms", overheads.request_ms)?,
            read_hit: after("read_hit", overheads.read_hit_after_read_ms, overheads.read_hit_after_write_ms)?,
            read_miss: after("read_miss", overheads.read_miss_after_read_ms, overheads.read_miss_after_write_ms)?,
            write: if spec.cache.write_cache == super::spec::WriteCache::Off { late } else { early },
            read_completion: overhead("read_completion_ms", overheads.read_completion_ms)?,
            write_completion: overhead("write_completion_ms", overheads.write_completion_ms)?,
            data_preparation: overhead("data_preparation_ms", overheads.data_preparation_ms)?,
            first_reselect: overhead("first_reselect_ms", overheads.first_reselect_ms)?,
            other_reselect: overhead("other_reselect_ms", overheads.other_reselect_ms)?,
            read_disconnect: after(
                "read_disconnect",
                overheads.read_disconnect_after_read_ms,
                overheads.read_disconnect_after_write_ms,
            )?,
            write_disconnect: overhead("write_disconnect_ms", overheads.write_disconnect_ms)?,
            extra_disconnect,
        })
    }
}
