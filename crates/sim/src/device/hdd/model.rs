//! Everything about a disk that does not change while it works: checked once, shared by all instances.

use super::layout::HddLayout;
use super::mechanics::{MAX_CYLINDERS, Mechanics, duration};
use super::spec::{CacheSpecification, HddQueue, HddSpecification, ReadAhead};

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
    /// What processor and bus add.
    pub delays: Delays,
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
    /// Checks a profile. Errors name the key, its value and what would be right.
    pub fn new(spec: &HddSpecification) -> Result<HddModel, String> {
        let geometry = &spec.geometry;
        check("geometry.surfaces", u32::from(geometry.surfaces), 1, 1024)?;
        check("geometry.cylinders", geometry.cylinders, 1, MAX_CYLINDERS)?;
        check("geometry.sparing_range_cylinders", geometry.sparing_range_cylinders, 1, geometry.cylinders)?;
        check("queue.depth", spec.queue.depth, 1, 1024)?;
        check_cache(&spec.cache)?;
        for (index, zone) in spec.zones.iter().enumerate() {
            let angles = [
                ("first_sector_offset", zone.first_sector_offset),
                ("track_skew", zone.track_skew),
                ("cylinder_skew", zone.cylinder_skew),
            ];
            if let Some((key, value)) = angles.iter().find(|(_, value)| !(0.0..=1e6).contains(value)) {
                return Err(format!("zone[{index}].{key}: {value} is not within 0 to 1000000"));
            }
        }
        Ok(HddModel {
            layout: HddLayout::new(geometry, &spec.zones)?,
            mechanics: Mechanics::new(&spec.mechanics, &spec.seek, spec.write_seek.as_ref(), geometry)?,
            cache: effective_cache(spec),
            queue: spec.queue.clone(),
            delays: Delays::new(spec)?,
        })
    }
}

fn check(key: &str, value: u32, min: u32, max: u32) -> Result<(), String> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(format!("{key}: {value} is not within {min} to {max}")) }
}

fn check_cache(cache: &CacheSpecification) -> Result<(), String> {
    let least = if cache.dedicated_write_segment { 2 } else { 1 };
    check("cache.segments", cache.segments, least, 4096)?;
    check("cache.segment_sectors", cache.segment_sectors, 1, 1 << 30)?;
    check("cache.write_segments", cache.write_segments, 1, cache.segments)?;
    check("cache.read_ahead_min_sectors", cache.read_ahead_min_sectors, 0, cache.segment_sectors)?;
    check("cache.read_ahead_max_sectors", cache.read_ahead_max_sectors, 0, 1 << 30)?;
    if (0.0..=1.0).contains(&cache.read_watermark) {
        Ok(())
    } else {
        Err(format!("cache.read_watermark: {} is not within 0 to 1", cache.read_watermark))
    }
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
            read_sector: bus_time("bus.read_sector_ms", spec.bus.read_sector_ms)?,
            write_sector: bus_time("bus.write_sector_ms", spec.bus.write_sector_ms)?,
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

fn bus_time(key: &str, millis: f64) -> Result<u64, String> {
    // A bus slower than a second a sector is a mistake in the unit.
    if millis > 1000.0 { Err(format!("{key}: {millis} is not within 0 to 1000")) } else { duration(key, millis) }
}
