//! The schema of a hard disk's profile, the `disks/*.toml` without `kind`. Key names carry their units; an unknown key is an error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::limited::spec::LimitsSpecification;

/// Maximum length of a seek table: 16 MB.
pub const MAX_CYLINDERS: u32 = 1 << 22;

/// Maximum duration of a movement of the arm, a controller step or a bus transfer: a second.
const MAX_MS: f64 = 1000.0;
/// Maximum skew: more than a revolution holds.
const MAX_SKEW: f64 = 1e6;
/// Maximum segment size: half a terabyte.
const MAX_SEGMENT_SECTORS: u32 = 1 << 30;

/// A hard disk, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HddSpecification {
    /// The profile's name.
    pub name: String,
    /// One line for people: maker, model, class.
    pub description: String,
    /// Platters and how LBAs lie on them.
    pub geometry: Geometry,
    /// Spindle and arm.
    pub mechanics: MechanicsSpecification,
    /// Seek times.
    pub seek: Seek,
    /// Seek times of writes, if measured separately. They include settling: `write_settle_ms` is added only if the arm stays on its
    /// cylinder. If absent, a write takes the time of `seek` plus settling.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_seek: Option<Seek>,
    /// The bus.
    pub bus: Bus,
    /// The drive's memory.
    pub cache: CacheSpecification,
    /// Overheads of the drive's processor.
    #[serde(default)]
    pub overheads: Overheads,
    /// The drive's own queue.
    pub queue: HddQueue,
    /// Rate limits. Requests that exceed them wait before the device, in order of arrival; a flush does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<LimitsSpecification>,
    /// Bands of cylinders with the same number of sectors per track, outermost (LBA 0) first; each has at most 2^40 sectors.
    #[serde(rename = "zone")]
    pub zones: Vec<ZoneSpecification>,
}

/// Platters and how LBAs lie on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Recording surfaces, that is heads.
    #[schemars(range(min = 1, max = 1024))]
    pub surfaces: u16,
    /// Physical cylinders.
    #[schemars(range(min = 1, max = MAX_CYLINDERS))]
    pub cylinders: u32,
    /// Capacity in 512-byte sectors; all of the zones if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub capacity_sectors: Option<u64>,
    /// The order in which LBAs use the surfaces.
    #[serde(default)]
    pub mapping: Mapping,
    /// Where spares are kept.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders that share spares, where `sparing` says so.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    #[schemars(!skip_serializing_if, range(min = 1, max = MAX_CYLINDERS))]
    pub sparing_range_cylinders: u32,
    /// Skews and offsets of the zones are fractions of a revolution instead of sectors.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(!skip_serializing_if)]
    pub skew_in_revolutions: bool,
}

/// The order in which LBAs use the surfaces of successive cylinders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Mapping {
    /// Every cylinder from the first surface to the last.
    #[default]
    Conventional,
    /// Every second cylinder of a zone backwards, so that a change of cylinder keeps the head.
    SerpentinePerZone,
    /// Every odd cylinder of the disk backwards.
    Serpentine,
}

/// Where spare sectors are kept (DiskSim's sparing schemes 0 to 10, in its order).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Sparing {
    /// Nowhere; slips are ignored.
    #[default]
    None,
    /// Whole tracks at the end of each zone; slips are tracks.
    Track,
    /// At the end of each cylinder.
    SectorsPerCylinder,
    /// At the end of each track.
    SectorsPerTrack,
    /// At the end of each cylinder, for later defects only: slips push data towards the end of the zone.
    SectorsPerCylinderSlipToEnd,
    /// At the front of each cylinder.
    SectorsPerCylinderFront,
    /// At the front of each cylinder, for later defects only.
    SectorsPerCylinderFrontSlipToEnd,
    /// At the end of the disk.
    EndOfDisk,
    /// At the end of each range of `sparing_range_cylinders`.
    SectorsPerRange,
    /// At the end of each zone.
    Zone,
    /// At the end of each zone, for later defects only.
    ZoneSlipToEnd,
}

/// Cylinders with the same number of sectors per track.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpecification {
    /// First cylinder.
    #[schemars(range(min = 0, max = MAX_CYLINDERS - 1))]
    pub first_cylinder: u32,
    /// Last cylinder.
    #[schemars(range(min = 0, max = MAX_CYLINDERS - 1))]
    pub last_cylinder: u32,
    /// Physical sectors on each track.
    #[schemars(range(min = 1, max = MAX_SEGMENT_SECTORS), extend("x-unit" = "sectors"))]
    pub sectors_per_track: u32,
    /// Where the zone's first sector lies, counted from the index mark of all tracks.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    #[schemars(!skip_serializing_if, range(min = 0.0, max = MAX_SKEW), extend("x-unit" = "sectors or revolutions"))]
    pub first_sector_offset: f64,
    /// Sectors at the front that hold the drive's own data.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if)]
    pub reserved_sectors: u32,
    /// How far the numbering is turned from one track of a cylinder to the next.
    #[schemars(range(min = 0.0, max = MAX_SKEW), extend("x-unit" = "sectors or revolutions"))]
    pub track_skew: f64,
    /// How far it is turned from the last track of a cylinder to the first of the next.
    #[schemars(range(min = 0.0, max = MAX_SKEW), extend("x-unit" = "sectors or revolutions"))]
    pub cylinder_skew: f64,
    /// Spares (sectors or tracks) of each region.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if, extend("x-unit" = "sectors or tracks"))]
    pub spares: u32,
    /// Bad places (sectors or tracks, counted from the zone's start) that the numbering skips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-unit" = "sectors or tracks"))]
    pub slips: Vec<u32>,
    /// Bad places and their replacements.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(!skip_serializing_if, extend("x-unit" = "sectors or tracks"))]
    pub remaps: Vec<(u32, u32)>,
}

/// Spindle and arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MechanicsSpecification {
    /// Speed of the spindle.
    #[schemars(range(min = 60.0, max = 1e6))]
    pub rotation_rpm: f64,
    /// Changing the head while data stream over a track boundary.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub head_switch_ms: f64,
    /// Added for a write whenever the arm or the head moved. Negative on drives that write sooner than they read (DEC RZ26, HP
    /// C2490A); the sum is never negative.
    #[serde(default)]
    #[schemars(range(min = -MAX_MS, max = MAX_MS))]
    pub write_settle_ms: f64,
    /// Reacquiring the track for an access that does not continue the last one, although the arm is on the cylinder.
    #[serde(default)]
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub reacquire_ms: f64,
    /// Minimum delay before a non-sequential write touches the media.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    #[schemars(!skip_serializing_if, range(min = 0.0, max = MAX_MS))]
    pub minimum_write_seek_ms: f64,
}

/// Seek time by distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Seek {
    /// Measured points, straight lines between and beyond them.
    Table {
        /// Pairs of distance in cylinders and time in ms, distances ascending.
        #[schemars(with = "Vec<SeekPoint>", extend("x-unit" = "[cylinders, ms]"))]
        points: Vec<(u32, f64)>,
    },
    /// The same for every distance.
    Constant {
        /// Time in ms.
        #[schemars(range(min = 0.0, max = MAX_MS))]
        time_ms: f64,
    },
    /// Straight lines through three points: one cylinder, a third of the disk, all of it.
    Linear {
        /// One cylinder.
        #[schemars(range(min = 0.0, max = MAX_MS))]
        single_ms: f64,
        /// A third of the disk, the average of random seeks.
        #[schemars(range(min = 0.0, max = MAX_MS))]
        average_ms: f64,
        /// From edge to edge.
        #[schemars(range(min = 0.001, max = MAX_MS))]
        full_ms: f64,
    },
    /// a·√(d−1) + b·(d−1) + c through the same three points (Lee and Katz 1993).
    Curve {
        /// One cylinder.
        #[schemars(range(min = 0.0, max = MAX_MS))]
        single_ms: f64,
        /// The average of random seeks.
        #[schemars(range(min = 0.0, max = MAX_MS))]
        average_ms: f64,
        /// From edge to edge.
        #[schemars(range(min = 0.001, max = MAX_MS))]
        full_ms: f64,
    },
    /// Ruemmler and Wilkes (IEEE Computer, March 1994): a root for short seeks, a line for long ones.
    Hpl {
        /// From this distance on the line holds.
        #[schemars(range(min = 0, max = MAX_CYLINDERS))]
        division_cylinders: u32,
        /// Constant of the root.
        #[schemars(range(min = -MAX_MS, max = MAX_MS))]
        short_base_ms: f64,
        /// Factor of the root.
        #[schemars(range(min = -MAX_MS, max = MAX_MS))]
        short_root_ms: f64,
        /// Constant of the line.
        #[schemars(range(min = -MAX_MS, max = MAX_MS))]
        long_base_ms: f64,
        /// Factor of the line.
        #[schemars(range(min = -MAX_MS, max = MAX_MS))]
        long_slope_ms: f64,
        /// Measured times of the first distances, which override the root.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        #[schemars(!skip_serializing_if, inner(range(min = 0.0, max = MAX_MS)))]
        first_ms: Vec<f64>,
    },
}

/// The ranges of a point of a seek table: cylinders and ms.
#[derive(JsonSchema)]
#[expect(dead_code, reason = "only its schema is used")]
struct SeekPoint(#[schemars(range(min = 0, max = MAX_CYLINDERS))] u32, #[schemars(range(min = 0.0, max = MAX_MS))] f64);

/// The bus.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// One sector to the host.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_sector_ms: f64,
    /// One sector from the host.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_sector_ms: f64,
}

/// The extent of read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAhead {
    /// Not at all.
    None,
    /// To the end of the track.
    Track,
    /// To the end of the cylinder.
    Cylinder,
    /// Until the segment is full.
    #[default]
    Segment,
    /// To the end of the track, and of the next one for a reader that came from the track before.
    NextTrack,
}

/// The reads that trigger read-ahead.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadTrigger {
    /// Every one.
    #[default]
    EveryRead,
    /// A read that begins where a read still in memory ended. Until then the drive does not consider the reader sequential, so that
    /// the first sequential read goes to the media.
    AfterSequence,
}

/// Which writes the drive reports as done before they are on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteCache {
    /// None.
    Off,
    /// Those that meet no other request in the drive.
    Sequential,
    /// All that find room.
    #[default]
    On,
}

/// The drive's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CacheSpecification {
    /// How many segments it has.
    #[schemars(range(min = 1, max = 4096))]
    pub segments: u32,
    /// Size of each.
    #[schemars(range(min = 1, max = MAX_SEGMENT_SECTORS))]
    pub segment_sectors: u32,
    /// Maximum number of segments with data not yet on the media.
    #[schemars(range(min = 1, max = 4096))]
    pub write_segments: u32,
    /// One segment is for writes and nothing else.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(!skip_serializing_if)]
    pub dedicated_write_segment: bool,
    /// Data stay after they were sent, for later hits.
    #[serde(default = "yes")]
    pub keeps_data: bool,
    /// Reads hit data that a write left.
    #[serde(default)]
    pub read_hits_on_written_data: bool,
    /// The extent of read-ahead.
    #[serde(default)]
    pub read_ahead: ReadAhead,
    /// The reads that trigger read-ahead.
    #[serde(default, skip_serializing_if = "is_every_read")]
    #[schemars(!skip_serializing_if)]
    pub read_ahead_trigger: ReadAheadTrigger,
    /// Minimum read-ahead in sectors before it serves another request.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if, range(min = 0, max = MAX_SEGMENT_SECTORS))]
    pub read_ahead_min_sectors: u32,
    /// Maximum read-ahead in sectors; 0: as the segment allows. With `next-track`, which means whole tracks, a number below the
    /// longest track is ignored.
    #[serde(default, skip_serializing_if = "is_zero")]
    #[schemars(!skip_serializing_if, range(min = 0, max = MAX_SEGMENT_SECTORS))]
    pub read_ahead_max_sectors: u32,
    /// Whether data already sent to the host make room for read-ahead, which then runs to its maximum.
    #[serde(default)]
    pub read_ahead_over_requested: bool,
    /// Whether a full hit restarts read-ahead.
    #[serde(default)]
    pub read_ahead_after_hit: bool,
    /// Whether a read waits for sectors that are about to be read ahead.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(!skip_serializing_if)]
    pub joins_read_ahead: bool,
    /// Whether sectors that pass before the requested ones are kept.
    #[serde(default)]
    pub reads_sectors_on_the_way: bool,
    /// Reads take sectors in the order they pass.
    #[serde(default)]
    pub zero_latency_reads: bool,
    /// Writes take sectors in the order they pass.
    #[serde(default)]
    pub zero_latency_writes: bool,
    /// Which writes are reported early.
    #[serde(default)]
    pub write_cache: WriteCache,
    /// A write that follows on joins the one before.
    #[serde(default)]
    pub combines_writes: bool,
    /// Hits are sent and writes taken while the arm serves another request.
    #[serde(default)]
    pub works_during_media_access: bool,
    /// Read-ahead may be stopped within a sector.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(!skip_serializing_if)]
    pub stops_in_sector: bool,
    /// Part of a read that must be in memory before it is sent.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    #[schemars(!skip_serializing_if, range(min = 0.0, max = 1.0))]
    pub read_watermark: f64,
}

/// Overheads of the drive's processor, by its task and the previous request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// Every request, on arrival.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub request_ms: f64,
    /// A read that finds its data, after a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_hit_after_read_ms: f64,
    /// A read that finds its data, after a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_hit_after_write_ms: f64,
    /// A read that does not, after a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_miss_after_read_ms: f64,
    /// A read that does not, after a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_miss_after_write_ms: f64,
    /// A write reported early, after a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_hit_after_read_ms: f64,
    /// A write reported early, after a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_hit_after_write_ms: f64,
    /// A write reported when it is on the media, after a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_miss_after_read_ms: f64,
    /// A write reported when it is on the media, after a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_miss_after_write_ms: f64,
    /// Reporting a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_completion_ms: f64,
    /// Reporting a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_completion_ms: f64,
    /// Before data go over the bus.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub data_preparation_ms: f64,
    /// Returning to the bus for the first time.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub first_reselect_ms: f64,
    /// Returning to it again.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub other_reselect_ms: f64,
    /// A read that leaves the bus, after a read.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_disconnect_after_read_ms: f64,
    /// A read that leaves the bus, after a write.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub read_disconnect_after_write_ms: f64,
    /// A write that leaves the bus.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub write_disconnect_ms: f64,
    /// A drive that leaves the bus between the command of a write and its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraWriteDisconnect>,
}

/// A drive that leaves the bus between the command of a write and its data, if the write comes after another one that it
/// does not follow on (seen on the HP C2247A: Worthington, Ganger, Patt and Wilkes 1995).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtraWriteDisconnect {
    /// In place of the write overheads.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub command_ms: f64,
    /// Leaving the bus the first time.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub disconnect_ms: f64,
    /// Until it returns.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub gap_ms: f64,
    /// Leaving the bus after the data.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub second_disconnect_ms: f64,
    /// From the end of the command to the start of the arm.
    #[schemars(range(min = 0.0, max = MAX_MS))]
    pub seek_delay_ms: f64,
}

/// The order in which the drive serves its requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueuePolicy {
    /// First come, first served.
    #[default]
    Fifo,
    /// Shortest seek first.
    Sstf,
    /// Shortest positioning time first: seek and rotation.
    Sptf,
}

impl QueuePolicy {
    /// Its name in profiles.
    pub fn name(self) -> &'static str {
        match self {
            QueuePolicy::Fifo => "fifo",
            QueuePolicy::Sstf => "sstf",
            QueuePolicy::Sptf => "sptf",
        }
    }
}

/// When the arm may turn to the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Preseek {
    /// When the last one is reported done.
    #[default]
    AfterCompletion,
    /// When its data are sent, while it is reported.
    DuringCompletion,
    /// When its data are off the media, while they are sent.
    BeforeCompletion,
}

/// The drive's own queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HddQueue {
    /// Requests it holds at once.
    #[schemars(range(min = 1, max = 1024))]
    pub depth: u32,
    /// The order of service.
    #[serde(default)]
    pub policy: QueuePolicy,
    /// With `sptf`, the bonus of a request per second of waiting, subtracted from its positioning time (Jacobson and Wilkes 1991,
    /// ASATF; Worthington, Ganger and Patt 1994, ASPTF). With 0 a request may starve.
    #[serde(default = "aging", skip_serializing_if = "is_default_aging")]
    #[schemars(!skip_serializing_if, range(min = 0.0, max = MAX_MS), extend("x-unit" = "ms/s"))]
    pub aging_ms_per_s: f64,
    /// When the arm may turn to the next.
    #[serde(default)]
    pub preseek: Preseek,
}

/// The default of `aging_ms_per_s`. Manufacturers do not publish how their drives age requests, so the weight is our choice, in the
/// unit of DiskSim's `Timeout time/weight`. With the profile sata7200 and 32 random reads in flight, 6 ms/s reduce the maximum
/// response time from 2.1 to 0.8 s and the throughput by 0.1 to 0.3%; 12 cost 3%, 30 cost 14%. No request waits longer than about 4
/// s plus the service of a full queue, far less than the 30 s after which Linux times out.
fn aging() -> f64 {
    6.0
}

fn is_default_aging(aging_ms_per_s: &f64) -> bool {
    *aging_ms_per_s == aging()
}

impl HddQueue {
    /// A queue with the default ageing; the arm starts the next request after completion of the last one.
    pub fn new(depth: u32, policy: QueuePolicy) -> HddQueue {
        HddQueue { depth, policy, aging_ms_per_s: aging(), preseek: Preseek::AfterCompletion }
    }
}

fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn is_one(value: &u32) -> bool {
    *value == 1
}
fn is_every_read(value: &ReadAheadTrigger) -> bool {
    *value == ReadAheadTrigger::EveryRead
}
fn is_zero(value: &u32) -> bool {
    *value == 0
}
fn is_zero_f64(value: &f64) -> bool {
    *value == 0.0
}
fn is_false(value: &bool) -> bool {
    !*value
}
