//! Converts an estimate to a profile.

use sim::device::hdd::spec::{
    Bus, CacheSpecification, Geometry, HddQueue, HddSpecification, MAX_CYLINDERS, Mapping, MechanicsSpecification, Overheads,
    Preseek, ReadAhead, ReadAheadTrigger, Seek, Sparing, WriteCache, ZoneSpecification,
};

use super::Estimate;
use super::tracks::SKEW_MS;

/// Usual number of zones. Choice: generated drives have 8 to 30 (`research/research/src/devices/broad_disk.rs`); not varied.
const ZONES: u32 = 16;
/// Maximum number of sectors of a zone. Choice: a quarter of the range of sector numbers in 32 bits, which leaves room for rounding; not
/// varied.
const MAX_IN_ZONE: u64 = 1 << 30;
/// Maximum number of cylinders: more cost a model much time and memory, and do not make seeks more accurate. Tracks are distributed over
/// more surfaces instead. Choice: the seek table then takes 256 KiB; not varied.
const MOST_CYLINDERS: u32 = 1 << 16;
/// Maximum number of surfaces of a model. Choice: a few times the 20 of real drives, to hold the tracks of large ones; not varied.
const MAX_SURFACES: u16 = 64;
/// Distances of the seek table, as fractions of the stroke: close together where the curve bends. Choice: a few points per octave; not
/// varied.
const PARTS: [f64; 16] = [0.0, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.04, 0.07, 0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.0];
/// Head switch time, as a fraction of the skew. Choice: the rest of the skew is settling and a margin; not varied.
const SWITCH_OF_SKEW: f64 = 0.6;
/// Default size of a segment, in tracks. Choice: a drive reads ahead for about a revolution; not varied.
const TRACKS_IN_SEGMENT: f64 = 1.5;

impl Estimate {
    /// The specification of the profile.
    pub fn specification(&self) -> HddSpecification {
        let (surfaces, cylinders, zones) = self.geometry();
        let turn_ms = self.turn.ms;
        let longest = zones.first().map_or(1, |zone| zone.sectors_per_track);
        let switch_ms = SWITCH_OF_SKEW * SKEW_MS.min(0.15 * turn_ms);
        HddSpecification {
            name: "fitted".to_owned(),
            description: format!("{:.0} rpm hard disk, fitted to times of requests", 60e3 / turn_ms),
            geometry: Geometry {
                surfaces,
                cylinders,
                capacity_sectors: Some(self.capacity),
                mapping: Mapping::Conventional,
                sparing: Sparing::None,
                sparing_range_cylinders: 1,
                skew_in_revolutions: true,
            },
            mechanics: MechanicsSpecification {
                rotation_rpm: rounded(60e3 / turn_ms, 1e2),
                head_switch_ms: rounded(switch_ms, 1e3),
                write_settle_ms: rounded(self.settle_ms, 1e3),
                reacquire_ms: rounded(0.5 * switch_ms, 1e3),
                minimum_write_seek_ms: 0.0,
            },
            seek: self.seek(cylinders),
            write_seek: None,
            bus: Bus {
                read_sector_ms: rounded(self.memory.bus_sector_ms, 1e6),
                write_sector_ms: rounded(self.memory.bus_sector_ms, 1e6),
            },
            cache: self.cache(longest),
            overheads: self.overheads(),
            queue: HddQueue { preseek: Preseek::DuringCompletion, ..HddQueue::new(self.queue.depth, self.queue.policy) },
            limits: None,
            zones,
        }
    }

    /// Surfaces, cylinders and zones with at least the capacity.
    fn geometry(&self) -> (u16, u32, Vec<ZoneSpecification>) {
        let (outer, inner) = self.tracks.outermost(self.turn.ms);
        let mean = (outer * (1.0 + inner) / 2.0).max(2.0);
        let all = self.capacity as f64 / (mean * f64::from(MOST_CYLINDERS));
        let surfaces = self.tracks.surfaces(mean).max((all.ceil() as u16).min(MAX_SURFACES));
        let wanted = self.capacity as f64 / (mean * f64::from(surfaces));
        let mut cylinders = (wanted.ceil() as u32 + 1).clamp(1, MAX_CYLINDERS);
        let mut stretched = 1.0;
        loop {
            let zones = self.zones(cylinders, outer * stretched, inner);
            let holds: u64 = zones
                .iter()
                .map(|zone| {
                    u64::from(zone.last_cylinder + 1 - zone.first_cylinder)
                        * u64::from(zone.sectors_per_track)
                        * u64::from(surfaces)
                })
                .sum();
            if holds >= self.capacity {
                return (surfaces, cylinders, zones);
            }
            if cylinders < MAX_CYLINDERS {
                cylinders = (cylinders + cylinders / 200 + 1).min(MAX_CYLINDERS);
            } else {
                stretched *= 1.1;
            }
        }
    }

    fn zones(&self, cylinders: u32, outer: f64, inner: f64) -> Vec<ZoneSpecification> {
        let needed = u32::try_from(self.capacity.div_ceil(MAX_IN_ZONE)).unwrap_or(u32::MAX);
        let number = ZONES.max(2 * needed).min(cylinders);
        let skew = rounded(SKEW_MS.min(0.15 * self.turn.ms) / self.turn.ms, 1e4);
        let first = |zone: u32| (u64::from(zone) * u64::from(cylinders) / u64::from(number)) as u32;
        (0..number)
            .map(|zone| {
                let middle = (f64::from(zone) + 0.5) / f64::from(number);
                ZoneSpecification {
                    first_cylinder: first(zone),
                    last_cylinder: first(zone + 1) - 1,
                    sectors_per_track: (outer * (1.0 - (1.0 - inner) * middle)).round().max(2.0) as u32,
                    first_sector_offset: 0.0,
                    reserved_sectors: 0,
                    track_skew: skew,
                    cylinder_skew: skew,
                    spares: 0,
                    slips: Vec::new(),
                    remaps: Vec::new(),
                }
            })
            .collect()
    }

    /// The seek curve without the overhead, which is a separate parameter.
    fn seek(&self, cylinders: u32) -> Seek {
        let stroke = f64::from(cylinders.max(2) - 1);
        let mut points: Vec<(u32, f64)> = Vec::new();
        for part in PARTS {
            let distance = ((part * stroke).round() as u32).max(1);
            if points.last().is_none_or(|last| last.0 < distance) {
                let ms = self.curve.ms(f64::from(distance) / stroke) - self.memory.overhead_ms;
                points.push((distance, rounded(ms.max(0.05), 1e3)));
            }
        }
        Seek::Table { points }
    }

    fn cache(&self, longest_track: u32) -> CacheSpecification {
        let memory = &self.memory;
        let segment_sectors = (f64::from(longest_track) * TRACKS_IN_SEGMENT).ceil().max(64.0) as u32;
        CacheSpecification {
            segments: memory.segments.value,
            segment_sectors,
            write_segments: (memory.segments.value / 2).max(1),
            dedicated_write_segment: false,
            keeps_data: true,
            read_hits_on_written_data: true,
            read_ahead: if memory.reads_ahead.value { ReadAhead::Segment } else { ReadAhead::None },
            read_ahead_trigger: ReadAheadTrigger::EveryRead,
            read_ahead_min_sectors: 0,
            read_ahead_max_sectors: segment_sectors,
            read_ahead_over_requested: true,
            read_ahead_after_hit: true,
            joins_read_ahead: true,
            reads_sectors_on_the_way: false,
            zero_latency_reads: false,
            zero_latency_writes: false,
            write_cache: if memory.write_cache.value { WriteCache::On } else { WriteCache::Off },
            combines_writes: true,
            works_during_media_access: true,
            stops_in_sector: false,
            read_watermark: 0.0,
        }
    }

    fn overheads(&self) -> Overheads {
        let of = |ms: f64| rounded(ms, 1e3);
        let (miss, hit, early) = (of(self.memory.overhead_ms), of(self.memory.hit_ms), of(self.memory.early_ms));
        Overheads {
            read_hit_after_read_ms: hit,
            read_hit_after_write_ms: hit,
            read_miss_after_read_ms: miss,
            read_miss_after_write_ms: miss,
            write_hit_after_read_ms: early,
            write_hit_after_write_ms: early,
            write_miss_after_read_ms: miss,
            write_miss_after_write_ms: miss,
            ..Overheads::default()
        }
    }
}

/// The value rounded to a multiple of `1 / parts`.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
