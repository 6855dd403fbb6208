//! The constants of a disk: checked once, shared by all instances.

use super::layout::HddLayout;
use super::mechanics::{Mechanics, duration};
use super::spec::{CacheSpecification, HddQueue, HddSpecification, ReadAhead, Seek};

/// A checked profile, ready for arithmetic. All times are nanoseconds.
#[derive(Debug, PartialEq)]
pub struct HddModel {
    /// Where sectors lie.
    pub layout: HddLayout,
    /// Spindle and arm.
    pub mechanics: Mechanics,
    /// The drive's memory.
    pub cache: CacheSpecification,
    /// The drive's queue.
    pub queue: HddQueue,
    /// Overheads of processor and bus.
    pub delays: Delays,
    /// Age above which a request is preferred to any later one; `None`: a drive without ageing.
    pub overdue_after: Option<u64>,
    /// [`HddQueue::aging_ms_per_s`] as a part of the time that goes by, in units of 2⁻³².
    pub aging: u64,
    /// Deviations from DiskSim in favour of the measured drives.
    pub deviations: Deviations,
}

/// Deviations from DiskSim in favour of the drives of the validation traces, in behaviour that no profile describes. Each can be
/// disabled, so that each drive can be evaluated with the choices made for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviations {
    /// A drive that takes sectors in any order and keeps those on the way reads the whole track. DiskSim: only the requested
    /// sectors.
    pub reads_whole_track: bool,
    /// A write leaves the rest of a segment that it overlaps, if reads may hit written data. DiskSim drops the segment.
    pub keeps_overlapped_segment: bool,
    /// A drive that left the bus is back on it when enough of a read has come. DiskSim: a reselection later.
    pub reselects_in_time: bool,
    /// The least delay of a write runs from when its data are there. DiskSim: from the command.
    pub delays_from_data: bool,
}

impl Default for Deviations {
    fn default() -> Deviations {
        Deviations { reads_whole_track: true, keeps_overlapped_segment: true, reselects_in_time: true, delays_from_data: true }
    }
}

/// A delay that depends on what the drive did before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct After {
    read: u64,
    write: u64,
}

impl After {
    /// The delay after a read or after a write.
    pub fn after(&self, read: bool) -> u64 {
        if read { self.read } else { self.write }
    }
}

/// [`super::spec::Overheads`] and [`super::spec::Bus`] in nanoseconds.
#[derive(Debug, PartialEq, Eq)]
pub struct Delays {
    /// One sector to the host.
    pub read_sector: u64,
    /// One sector from the host.
    pub write_sector: u64,
    /// Every request.
    pub request: u64,
    /// Command of a read that hits.
    pub read_hit: After,
    /// Command of a read that misses.
    pub read_miss: After,
    /// Command of a write, early or not as the write cache says.
    pub write: After,
    /// Reporting a read.
    pub read_completion: u64,
    /// Reporting a write.
    pub write_completion: u64,
    /// Before data.
    pub data_preparation: u64,
    /// First return to the bus.
    pub first_reselect: u64,
    /// Later ones.
    pub other_reselect: u64,
    /// A read leaves the bus.
    pub read_disconnect: After,
    /// A write leaves the bus.
    pub write_disconnect: u64,
    /// See [`super::spec::ExtraWriteDisconnect`].
    pub extra_disconnect: Option<ExtraDisconnect>,
}

/// [`super::spec::ExtraWriteDisconnect`] in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraDisconnect {
    /// In place of the write overheads.
    pub command: u64,
    /// Leaving the bus, and until the drive returns.
    pub away: u64,
    /// Leaving the bus after the data.
    pub second_disconnect: u64,
    /// From the end of the command to the start of the arm.
    pub seek_delay: u64,
}

impl HddModel {
    /// Checks a profile whose values are within the ranges of their keys. Errors name the key, its value and what would be right.
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
        let overdue_after = (gain > 0.0).then(|| (mechanics.longest_access() as f64 / gain) as u64);
        Ok(HddModel {
            layout: HddLayout::new(geometry, &spec.zones)?,
            mechanics,
            cache: effective_cache(spec),
            queue: spec.queue.clone(),
            delays: Delays::new(spec)?,
            overdue_after,
            aging: (gain * 2f64.powi(32)).round() as u64,
            deviations: Deviations::default(),
        })
    }

    /// Penalty added to the access time of a request when it is compared with others: each second of later arrival costs
    /// [`HddQueue::aging_ms_per_s`]. Counted from time zero, it need not be recomputed for each comparison.
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

/// The cache, without a maximum of read-ahead that would contradict its mode: whole tracks are not read where the maximum is shorter
/// than a track (DiskSim, `disk_buffer_get_max_readahead`, looks at no maximum in this mode).
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
