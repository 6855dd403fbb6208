//! A hard disk derived from a few random figures: the capacity of a surface determines its tracks, these the media rate.
//!
//! The random figures of each family are in the ranges of data sheets. Relations between the others:
//!
//! - *Tracks.* A surface of S sectors has C cylinders of S/C sectors on average. C : S/C, tracks to sectors on a track, grew from some 25
//!   (HP C2247A of 1992: 26) over 35 (Quantum Atlas 10K, 1999) to some 130 (4 TB drives), where published capacities, rates and cylinders
//!   are consistent.
//! - *Zones.* The bit density is the same on inner and outer tracks; the innermost track is about half as long.
//! - *Seeks.* The arm accelerates for short distances (a root) and coasts over long ones (a line), as Ruemmler and Wilkes describe it
//!   (IEEE Computer, March 1994). Root and line meet in value and in slope, so that the curve rises and never bends upwards; it goes
//!   through the single-cylinder seek, and the mean over random seeks is the average. The full stroke follows: 1.9 to 2.2 times the
//!   average without settling, where data sheets have 1.7 (Hitachi 5K320: 12 and 20 ms) to 2.2 (Seagate ST3780A: 12 and 25 ms).
//! - *Skew.* The time of a head switch or a single-cylinder seek, including settling, plus a margin.

use std::ops::RangeInclusive;

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::device::hdd::spec::{
    Bus, CacheSpecification, Geometry, HddQueue, HddSpecification, Mapping, MechanicsSpecification, Overheads, Preseek,
    QueuePolicy, ReadAhead, ReadAheadTrigger, Seek, Sparing, WriteCache, ZoneSpecification,
};
use testbed::chance::{happens, one_of, scaled};

use super::DrawnDevice;

/// Minimum and maximum of a random figure with uniform logarithm.
pub(super) type Range = (f64, f64);

/// Common properties of a kind of drive.
pub(super) struct Class {
    /// Prefix of the names of generated drives.
    pub(super) name: &'static str,
    /// The kind of drive for descriptions.
    pub(super) what: &'static str,
    pub(super) rpm: &'static [f64],
    /// Capacity of the drive, in GB.
    pub(super) capacity_gb: Range,
    pub(super) geometry: GeometryClass,
    /// Read seek of one cylinder.
    pub(super) single_ms: Range,
    /// Average read seek, for the fastest of `rpm`, and for the slowest.
    pub(super) average_ms: (Range, Range),
    /// Additional settling time of writes.
    pub(super) settle_ms: Range,
    pub(super) head_switch_ms: Range,
    pub(super) mappings: &'static [Mapping],
    /// Data rates of possible links, in MB/s; the drive gets one that is faster than its media, if there is one.
    pub(super) links_mb_s: &'static [f64],
    /// Overhead of each command.
    pub(super) overhead_ms: Range,
    pub(super) cache: CacheClass,
    /// Queue depths, and orders of service.
    pub(super) queues: &'static [(u32, QueuePolicy)],
    /// Probability that the drive reads ahead for other requests, accesses sectors as they pass under the head, and transfers hits during seeks.
    pub(super) is_modern: f64,
}

/// Geometry of a kind of drive.
pub(super) struct GeometryClass {
    pub(super) surfaces: &'static [u16],
    /// Capacity of a surface, in GB.
    pub(super) surface_gb: Range,
    /// Ratio of tracks per surface to sectors per track.
    pub(super) tracks_to_sectors: Range,
    pub(super) zones: RangeInclusive<u32>,
}

/// Cache of a kind of drive.
pub(super) struct CacheClass {
    /// Cache size, in KiB.
    pub(super) cache_kib: &'static [u32],
    pub(super) segments: &'static [u32],
    pub(super) write_caches: &'static [WriteCache],
    pub(super) read_ahead: &'static [ReadAhead],
}

/// Generates a drive.
pub(super) fn draw(random: &mut Xoshiro256PlusPlus, class: &Class) -> DrawnDevice {
    let rpm = one_of(random, class.rpm);
    let (surfaces, sectors_per_surface) = capacity(random, class);
    let ratio = range(random, class.geometry.tracks_to_sectors);
    let sectors_per_track = (sectors_per_surface / ratio).sqrt();
    let cylinders = (sectors_per_surface / sectors_per_track).round() as u32;
    let mechanics = mechanics(random, class, rpm);
    let single_ms = range(random, class.single_ms);
    let average_ms = average(random, class, rpm);
    let seek = seek(random, cylinders, single_ms, average_ms);
    let zones = zones(random, class, cylinders, sectors_per_track, &mechanics, single_ms);
    let media_mb_s = f64::from(zones[0].sectors_per_track) * 512.0 * rpm / 60.0 / 1e6;
    let all: u64 = zones.iter().map(|zone| sectors(zone, surfaces)).sum();
    // The rest are spare sectors.
    let capacity_sectors = (all as f64 * (0.98 + 0.02 * random.random::<f64>())) as u64;
    let gigabytes = capacity_sectors as f64 * 512.0 / 1e9;
    let rounded = if gigabytes < 20.0 { format!("{gigabytes:.1}") } else { format!("{gigabytes:.0}") };
    let name = format!("{}-{}rpm-{rounded}gb-{:04x}", class.name, rpm, random.random::<u16>());
    let (depth, policy) = one_of(random, class.queues);
    let is_modern = happens(random, class.is_modern);
    let preseek =
        if is_modern { Preseek::BeforeCompletion } else { one_of(random, &[Preseek::AfterCompletion, Preseek::DuringCompletion]) };
    let spec = HddSpecification {
        description: format!("{rounded} GB, {rpm} rpm, {surfaces} surfaces: drawn as {}", class.what),
        name: name.clone(),
        geometry: Geometry {
            surfaces,
            cylinders,
            capacity_sectors: Some(capacity_sectors),
            mapping: one_of(random, class.mappings),
            sparing: Sparing::None,
            sparing_range_cylinders: 1,
            skew_in_revolutions: true,
        },
        mechanics,
        seek,
        write_seek: None,
        bus: bus(class, media_mb_s),
        cache: cache(random, class, is_modern),
        overheads: overheads(random, class),
        queue: HddQueue { preseek, ..HddQueue::new(depth, policy) },
        limits: None,
        zones,
    };
    // Numbers and words always serialize; if that failed, the empty text would be rejected as a profile.
    let text = toml::to_string(&spec).unwrap_or_default();
    DrawnDevice { name, text, members: Vec::new() }
}

/// Number of surfaces, and sectors per surface. The number is adjusted if the random one is outside the capacity range.
fn capacity(random: &mut Xoshiro256PlusPlus, class: &Class) -> (u16, f64) {
    let (least, most) = class.capacity_gb;
    let surface = range(random, class.geometry.surface_gb);
    let fits = |surfaces: &&u16| (least..=most).contains(&(f64::from(**surfaces) * surface));
    let fitting: Vec<u16> = class.geometry.surfaces.iter().filter(fits).copied().collect();
    let surfaces = if fitting.is_empty() { one_of(random, class.geometry.surfaces) } else { one_of(random, &fitting) };
    let whole = (f64::from(surfaces) * surface).clamp(least, most);
    (surfaces, whole * 1e9 / 512.0 / f64::from(surfaces))
}

/// Average seek, interpolated between the ranges of the slowest and the fastest spindle: faster drives have faster arms, too.
fn average(random: &mut Xoshiro256PlusPlus, class: &Class, rpm: f64) -> f64 {
    let (slowest, fastest) =
        class.rpm.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), rpm| (least.min(*rpm), most.max(*rpm)));
    let ((fast_least, fast_most), (slow_least, slow_most)) = class.average_ms;
    let share = if fastest > slowest { (rpm - slowest) / (fastest - slowest) } else { 1.0 };
    let between = |slow: f64, fast: f64| slow + share * (fast - slow);
    range(random, (between(slow_least, fast_least), between(slow_most, fast_most)))
}

fn mechanics(random: &mut Xoshiro256PlusPlus, class: &Class, rpm: f64) -> MechanicsSpecification {
    let head_switch = range(random, class.head_switch_ms);
    let settle = range(random, class.settle_ms);
    MechanicsSpecification {
        rotation_rpm: rpm,
        head_switch_ms: rounded(head_switch),
        write_settle_ms: rounded(settle),
        reacquire_ms: rounded(head_switch * random.random::<f64>()),
        minimum_write_seek_ms: 0.0,
    }
}

/// The seek curve whose root becomes a line at a random fraction of the stroke: see the head of this file.
fn seek(random: &mut Xoshiro256PlusPlus, cylinders: u32, single_ms: f64, average_ms: f64) -> Seek {
    let part = 0.25 + 0.35 * random.random::<f64>();
    let root = part.sqrt();
    let stroke = f64::from(cylinders);
    // Means over random seeks, of which (1 - x) are longer than x of the stroke, for a root and a line with factor 1.
    let of_root = 4.0 / 3.0 * part.powf(1.5) - 0.8 * part.powf(2.5);
    let of_line = root / 2.0 * (1.0 - part).powi(2) + (1.0 / 3.0 - part.powi(2) + 2.0 / 3.0 * part.powi(3)) / (2.0 * root);
    // From single = base + factor and average = base + factor * mean, where the factor applies to one cylinder.
    let mean = stroke.sqrt() * (of_root + of_line);
    let factor = (average_ms - single_ms) / (mean - 1.0);
    let base = single_ms - factor;
    let division = (part * stroke).round();
    Seek::Hpl {
        division_cylinders: division as u32,
        short_base_ms: base,
        short_root_ms: factor,
        long_base_ms: base + factor * division.sqrt() / 2.0,
        long_slope_ms: factor / (2.0 * division.sqrt()),
        first_ms: Vec::new(),
    }
}

/// Zones of about equal width, with fewer sectors per track towards the inside.
fn zones(
    random: &mut Xoshiro256PlusPlus,
    class: &Class,
    cylinders: u32,
    mean_sectors: f64,
    mechanics: &MechanicsSpecification,
    single_ms: f64,
) -> Vec<ZoneSpecification> {
    let number = random.random_range(class.geometry.zones.clone());
    let inner_to_outer = 0.45 + 0.17 * random.random::<f64>();
    let outer = mean_sectors * 2.0 / (1.0 + inner_to_outer);
    let revolution_ms = 60_000.0 / mechanics.rotation_rpm;
    let spare_ms = scaled(random, 0.05, 0.3);
    let skew = |ms: f64| ((ms + mechanics.write_settle_ms + spare_ms) / revolution_ms * 1e4).ceil() / 1e4;
    let (track_skew, cylinder_skew) = (skew(mechanics.head_switch_ms), skew(single_ms.max(mechanics.head_switch_ms)));
    let mut ends: Vec<u32> = (1..number)
        .map(|zone| ((f64::from(zone) + 0.3 * (random.random::<f64>() - 0.5)) * f64::from(cylinders) / f64::from(number)) as u32)
        .collect();
    ends.push(cylinders);
    let mut first = 0;
    ends.iter()
        .map(|&end| {
            let middle = f64::from(first + end) / 2.0 / f64::from(cylinders);
            let sectors_per_track = (outer * (1.0 - (1.0 - inner_to_outer) * middle)).round().max(2.0) as u32;
            let zone = ZoneSpecification {
                first_cylinder: first,
                last_cylinder: end - 1,
                sectors_per_track,
                first_sector_offset: 0.0,
                reserved_sectors: 0,
                track_skew,
                cylinder_skew,
                spares: 0,
                slips: Vec::new(),
                remaps: Vec::new(),
            };
            first = end;
            zone
        })
        .collect()
}

fn sectors(zone: &ZoneSpecification, surfaces: u16) -> u64 {
    u64::from(zone.last_cylinder + 1 - zone.first_cylinder) * u64::from(zone.sectors_per_track) * u64::from(surfaces)
}

/// The slowest link that is as fast as the outermost tracks, or else the fastest.
fn bus(class: &Class, media_mb_s: f64) -> Bus {
    let fastest = class.links_mb_s.iter().copied().fold(0.0, f64::max);
    let enough = class.links_mb_s.iter().copied().filter(|rate| *rate >= media_mb_s);
    let sector_ms = (512.0 / enough.fold(fastest, f64::min) / 1e3 * 1e6).round() / 1e6;
    Bus { read_sector_ms: sector_ms, write_sector_ms: sector_ms }
}

fn cache(random: &mut Xoshiro256PlusPlus, class: &Class, is_modern: bool) -> CacheSpecification {
    let segments = one_of(random, class.cache.segments);
    let segment_sectors = (one_of(random, class.cache.cache_kib) * 2 / segments).max(64);
    let write_cache = one_of(random, class.cache.write_caches);
    let read_ahead = one_of(random, class.cache.read_ahead);
    CacheSpecification {
        segments,
        segment_sectors,
        write_segments: if is_modern { (segments / 2).max(1) } else { (segments / 3).max(1) },
        dedicated_write_segment: false,
        keeps_data: true,
        read_hits_on_written_data: is_modern || happens(random, 0.5),
        read_ahead,
        read_ahead_trigger: ReadAheadTrigger::EveryRead,
        read_ahead_min_sectors: 0,
        read_ahead_max_sectors: segment_sectors,
        read_ahead_over_requested: is_modern || happens(random, 0.5),
        read_ahead_after_hit: is_modern || happens(random, 0.5),
        joins_read_ahead: is_modern,
        stops_in_sector: false,
        reads_sectors_on_the_way: happens(random, 0.3),
        zero_latency_reads: is_modern || happens(random, 0.3),
        zero_latency_writes: is_modern || happens(random, 0.3),
        write_cache,
        combines_writes: true,
        works_during_media_access: is_modern,
        read_watermark: 0.0,
    }
}

/// Overheads are similar for each kind of command, slightly lower for hits.
fn overheads(random: &mut Xoshiro256PlusPlus, class: &Class) -> Overheads {
    let command = range(random, class.overhead_ms);
    let mut about = |factor: f64| rounded(command * factor * scaled(random, 0.8, 1.25));
    let (hit, miss, early, late) = (about(0.6), about(1.0), about(0.7), about(1.1));
    Overheads {
        read_hit_after_read_ms: hit,
        read_hit_after_write_ms: hit,
        read_miss_after_read_ms: miss,
        read_miss_after_write_ms: miss,
        write_hit_after_read_ms: early,
        write_hit_after_write_ms: early,
        write_miss_after_read_ms: late,
        write_miss_after_write_ms: late,
        ..Overheads::default()
    }
}

fn range(random: &mut Xoshiro256PlusPlus, (least, most): Range) -> f64 {
    scaled(random, least, most)
}

/// Rounds to a microsecond, which is finer than the accuracy of such times.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
