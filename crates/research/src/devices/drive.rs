//! A hard disk whose figures follow from a few that are drawn: from what one surface holds follow its tracks, from them the media rate.
//!
//! What is drawn for each family lies in the ranges of data sheets. How the rest hangs together:
//!
//! - *Tracks.* A surface of S sectors has C cylinders of S/C sectors on average. C : S/C, tracks to sectors on a track, grew from some 25
//!   (HP C2247A of 1992: 26) over 35 (Quantum Atlas 10K, 1999) to some 130 (4 TB drives), as far as capacities, rates and cylinders that
//!   makers publish go together.
//! - *Zones.* Bits lie as densely on inner tracks as on outer ones; the innermost track is about half as long.
//! - *Seeks.* The arm accelerates for short distances (a root) and coasts over long ones (a line), as Ruemmler and Wilkes describe it
//!   (IEEE Computer, March 1994). Root and line meet in value and in slope, so that the curve rises and never bends upwards; it goes
//!   through the single-cylinder seek, and the mean over random seeks is the average. The full stroke follows: 1.9 to 2.2 times the
//!   average without settling, where data sheets have 1.7 (Hitachi 5K320: 12 and 20 ms) to 2.2 (Seagate ST3780A: 12 and 25 ms).
//! - *Skew.* As long as head switch or a single-cylinder seek take, with settling and something to spare.

use std::ops::RangeInclusive;

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::device::hdd::spec::{
    Bus, CacheSpecification, Geometry, HddQueue, HddSpecification, Mapping, MechanicsSpecification, Overheads, Preseek,
    QueuePolicy, ReadAhead, ReadAheadTrigger, Seek, Sparing, WriteCache, ZoneSpecification,
};

use super::DrawnDevice;
use experiment::chance::{happens, one_of, scaled};

/// Least and most; drawn with a uniform logarithm.
pub(super) type Range = (f64, f64);

/// What drives of one kind have in common.
pub(super) struct Class {
    /// What a drawn drive's name begins with.
    pub(super) name: &'static str,
    /// What its description says it is.
    pub(super) what: &'static str,
    pub(super) rpm: &'static [f64],
    /// Of the whole drive, in GB.
    pub(super) capacity_gb: Range,
    pub(super) surfaces: &'static [u16],
    /// What one surface holds at least and most, in GB.
    pub(super) surface_gb: Range,
    /// Tracks of a surface to sectors of a track.
    pub(super) tracks_to_sectors: Range,
    pub(super) zones: RangeInclusive<u32>,
    /// Seek of one cylinder to read.
    pub(super) single_ms: Range,
    /// Average of random seeks to read, for the fastest of `rpm`, and for the slowest.
    pub(super) average_ms: (Range, Range),
    /// What writing adds to settle.
    pub(super) settle_ms: Range,
    pub(super) head_switch_ms: Range,
    pub(super) mappings: &'static [Mapping],
    /// What links carry of data, in MB/s; the drive has one that is faster than its media, if there is one.
    pub(super) links_mb_s: &'static [f64],
    /// Of each command.
    pub(super) overhead_ms: Range,
    /// Memory for data, in KiB.
    pub(super) cache_kib: &'static [u32],
    pub(super) segments: &'static [u32],
    pub(super) write_caches: &'static [WriteCache],
    pub(super) read_ahead: &'static [ReadAhead],
    /// How many requests the drive holds, and the order in which it serves them.
    pub(super) queues: &'static [(u32, QueuePolicy)],
    /// How often the drive reads on for those who follow, takes what comes under the head first, and sends hits while it seeks.
    pub(super) is_modern: f64,
}

/// Draws a drive.
pub(super) fn draw(random: &mut Xoshiro256PlusPlus, class: &Class) -> DrawnDevice {
    let rpm = one_of(random, class.rpm);
    let (surfaces, sectors_per_surface) = capacity(random, class);
    let ratio = range(random, class.tracks_to_sectors);
    let sectors_per_track = (sectors_per_surface / ratio).sqrt();
    let cylinders = (sectors_per_surface / sectors_per_track).round() as u32;
    let mechanics = mechanics(random, class, rpm);
    let single_ms = range(random, class.single_ms);
    let average_ms = average(random, class, rpm);
    let seek = seek(random, cylinders, single_ms, average_ms);
    let zones = zones(random, class, cylinders, sectors_per_track, &mechanics, single_ms);
    let media_mb_s = f64::from(zones[0].sectors_per_track) * 512.0 * rpm / 60.0 / 1e6;
    let all: u64 = zones.iter().map(|zone| sectors(zone, surfaces)).sum();
    // The rest are spares.
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
    // A description of numbers and words can be written; if it could not, the empty text would be no profile.
    let text = toml::to_string(&spec).unwrap_or_default();
    DrawnDevice { name, text, members: Vec::new() }
}

/// Surfaces, and the sectors of each: as many surfaces as drawn, fewer or more where they would hold too much or too little.
fn capacity(random: &mut Xoshiro256PlusPlus, class: &Class) -> (u16, f64) {
    let (least, most) = class.capacity_gb;
    let surface = range(random, class.surface_gb);
    let fits = |surfaces: &&u16| (least..=most).contains(&(f64::from(**surfaces) * surface));
    let fitting: Vec<u16> = class.surfaces.iter().filter(fits).copied().collect();
    let surfaces = if fitting.is_empty() { one_of(random, class.surfaces) } else { one_of(random, &fitting) };
    let whole = (f64::from(surfaces) * surface).clamp(least, most);
    (surfaces, whole * 1e9 / 512.0 / f64::from(surfaces))
}

/// Between the ranges of the slowest and of the fastest spindle: faster drives have faster arms, too.
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

/// The curve whose root becomes a line at a drawn part of the stroke: see the file's head.
fn seek(random: &mut Xoshiro256PlusPlus, cylinders: u32, single_ms: f64, average_ms: f64) -> Seek {
    let part = 0.25 + 0.35 * random.random::<f64>();
    let root = part.sqrt();
    let stroke = f64::from(cylinders);
    // Means over random seeks, of which (1 - x) are longer than x of the stroke, of root and line for the factor 1.
    let of_root = 4.0 / 3.0 * part.powf(1.5) - 0.8 * part.powf(2.5);
    let of_line = root / 2.0 * (1.0 - part).powi(2) + (1.0 / 3.0 - part.powi(2) + 2.0 / 3.0 * part.powi(3)) / (2.0 * root);
    // From single = base + factor and average = base + factor * mean, the factor being that of one cylinder.
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

/// Zones of about the same width, with fewer sectors on each track towards the inside.
fn zones(
    random: &mut Xoshiro256PlusPlus,
    class: &Class,
    cylinders: u32,
    mean_sectors: f64,
    mechanics: &MechanicsSpecification,
    single_ms: f64,
) -> Vec<ZoneSpecification> {
    let number = random.random_range(class.zones.clone());
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

/// The slowest link that keeps up with the outermost tracks, or the fastest that there is.
fn bus(class: &Class, media_mb_s: f64) -> Bus {
    let fastest = class.links_mb_s.iter().copied().fold(0.0, f64::max);
    let enough = class.links_mb_s.iter().copied().filter(|rate| *rate >= media_mb_s);
    let sector_ms = (512.0 / enough.fold(fastest, f64::min) / 1e3 * 1e6).round() / 1e6;
    Bus { read_sector_ms: sector_ms, write_sector_ms: sector_ms }
}

fn cache(random: &mut Xoshiro256PlusPlus, class: &Class, is_modern: bool) -> CacheSpecification {
    let segments = one_of(random, class.segments);
    let segment_sectors = (one_of(random, class.cache_kib) * 2 / segments).max(64);
    let write_cache = one_of(random, class.write_caches);
    let read_ahead = one_of(random, class.read_ahead);
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

/// Of each kind of command about the same, hits a little less.
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

/// To a microsecond: finer than anything that is known of such times.
fn rounded(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
