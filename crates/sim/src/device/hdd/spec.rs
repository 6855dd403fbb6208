//! The schema of a hard disk's profile, the `disks/*.toml` without `kind`. Key names carry their units; an unknown key is an error.

use serde::{Deserialize, Serialize};

/// A hard disk, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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
    /// How long the arm takes.
    pub seek: Seek,
    /// How long it takes to a write, where that was measured apart. It holds the settling then: `write_settle_ms` is added to it only
    /// where the arm stays on its cylinder. If absent, a write takes the time of `seek` and settles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write_seek: Option<Seek>,
    /// The way to the host.
    pub bus: Bus,
    /// The drive's memory.
    pub cache: CacheSpecification,
    /// What the drive's processor adds.
    #[serde(default)]
    pub overheads: Overheads,
    /// The drive's own queue.
    pub queue: HddQueue,
    /// Bands of cylinders with the same number of sectors per track, outermost (LBA 0) first.
    #[serde(rename = "zone")]
    pub zones: Vec<ZoneSpecification>,
}

/// Platters and how LBAs lie on them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Recording surfaces, that is heads: 1 to 1024.
    pub surfaces: u16,
    /// Physical cylinders: 1 to 4,194,304.
    pub cylinders: u32,
    /// 512-byte sectors the host sees; all that the zones hold if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity_sectors: Option<u64>,
    /// The order in which LBAs use the surfaces.
    #[serde(default)]
    pub mapping: Mapping,
    /// Where spares are kept.
    #[serde(default)]
    pub sparing: Sparing,
    /// Cylinders that share spares, where `sparing` says so.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub sparing_range_cylinders: u32,
    /// Skews and offsets of the zones are fractions of a revolution instead of sectors.
    #[serde(default, skip_serializing_if = "is_false")]
    pub skew_in_revolutions: bool,
}

/// The order in which LBAs use the surfaces of successive cylinders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpecification {
    /// First cylinder.
    pub first_cylinder: u32,
    /// Last cylinder.
    pub last_cylinder: u32,
    /// Physical sectors on each track.
    pub sectors_per_track: u32,
    /// Where the zone's first sector lies, counted from the index mark of all tracks.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    pub first_sector_offset: f64,
    /// Sectors at the front that hold the drive's own data.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub reserved_sectors: u32,
    /// How far the numbering is turned from one track of a cylinder to the next.
    pub track_skew: f64,
    /// How far it is turned from the last track of a cylinder to the first of the next.
    pub cylinder_skew: f64,
    /// Spares (sectors or tracks) of each region.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spares: u32,
    /// Bad places (sectors or tracks, counted from the zone's start) that the numbering skips.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slips: Vec<u32>,
    /// Bad places and those that stand in for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remaps: Vec<(u32, u32)>,
}

/// Spindle and arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MechanicsSpecification {
    /// Revolutions per minute: 60 to 1,000,000.
    pub rotation_rpm: f64,
    /// Changing the head while data stream over a track boundary.
    pub head_switch_ms: f64,
    /// Added for a write whenever the arm or the head moved. Below zero on drives that write sooner than they read (DEC RZ26,
    /// HP C2490A): never so far that less than nothing is left.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Finding the track again for an access that does not go on where the last one ended, though the arm is on the cylinder.
    #[serde(default)]
    pub reacquire_ms: f64,
    /// A write that does not follow on waits at least this long before it touches the media.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    pub minimum_write_seek_ms: f64,
}

/// How long the arm takes for a distance.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Seek {
    /// Measured points, straight lines between and beyond them.
    Table {
        /// Distance in cylinders and time in ms, distances ascending.
        points: Vec<(u32, f64)>,
    },
    /// The same for every distance.
    Constant {
        /// Time in ms.
        time_ms: f64,
    },
    /// Straight lines through three points: one cylinder, a third of the disk, all of it.
    Linear {
        /// One cylinder.
        single_ms: f64,
        /// A third of the disk, the average of random seeks.
        average_ms: f64,
        /// From edge to edge.
        full_ms: f64,
    },
    /// a·√(d−1) + b·(d−1) + c through the same three points (Lee and Katz 1993).
    Curve {
        /// One cylinder.
        single_ms: f64,
        /// The average of random seeks.
        average_ms: f64,
        /// From edge to edge.
        full_ms: f64,
    },
    /// Ruemmler and Wilkes (IEEE Computer, March 1994): a root for short seeks, a line for long ones.
    Hpl {
        /// From this distance on the line holds.
        division_cylinders: u32,
        /// Constant of the root.
        short_base_ms: f64,
        /// Factor of the root.
        short_root_ms: f64,
        /// Constant of the line.
        long_base_ms: f64,
        /// Factor of the line.
        long_slope_ms: f64,
        /// Measured times of the first distances, which override the root.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        first_ms: Vec<f64>,
    },
}

/// The way to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// One sector to the host.
    pub read_sector_ms: f64,
    /// One sector from the host.
    pub write_sector_ms: f64,
}

/// How far the drive reads on by itself after a read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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

/// Which reads make the drive read on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadAheadTrigger {
    /// Every one.
    #[default]
    EveryRead,
    /// One that begins where a read that is still in memory ended. Until then the drive does not take the reader for sequential, so
    /// that the first read that follows on goes to the media.
    AfterSequence,
}

/// Which writes the drive reports as done before they are on the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpecification {
    /// Segments: 1 to 4,096.
    pub segments: u32,
    /// Size of each.
    pub segment_sectors: u32,
    /// Most segments that may hold data not yet on the media.
    pub write_segments: u32,
    /// One segment is for writes and nothing else.
    #[serde(default, skip_serializing_if = "is_false")]
    pub dedicated_write_segment: bool,
    /// Data stay after they were sent, for later hits.
    #[serde(default = "yes")]
    pub keeps_data: bool,
    /// Reads hit data that a write left.
    #[serde(default)]
    pub read_hits_on_written_data: bool,
    /// How far the drive reads on.
    #[serde(default)]
    pub read_ahead: ReadAhead,
    /// Which reads make it read on.
    #[serde(default, skip_serializing_if = "is_every_read")]
    pub read_ahead_trigger: ReadAheadTrigger,
    /// Sectors it reads on before it turns to another request.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_ahead_min_sectors: u32,
    /// Most sectors it reads on; 0: as the segment allows. With `next-track`, which means whole tracks, a number below the longest
    /// track does not count.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_ahead_max_sectors: u32,
    /// Data already sent to the host make room for read-ahead, which then runs to its maximum.
    #[serde(default)]
    pub read_ahead_over_requested: bool,
    /// A full hit starts reading on again.
    #[serde(default)]
    pub read_ahead_after_hit: bool,
    /// A read of what is about to be read ahead waits for it.
    #[serde(default, skip_serializing_if = "is_false")]
    pub joins_read_ahead: bool,
    /// Sectors that pass before the wanted ones are kept.
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
    pub stops_in_sector: bool,
    /// Part of a read that must be in memory before it is sent: 0 to 1.
    #[serde(default, skip_serializing_if = "is_zero_f64")]
    pub read_watermark: f64,
}

/// What the drive's processor adds, by what it does and what came before.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Overheads {
    /// Every request, on arrival.
    pub request_ms: f64,
    /// A read that finds its data, after a read.
    pub read_hit_after_read_ms: f64,
    /// A read that finds its data, after a write.
    pub read_hit_after_write_ms: f64,
    /// A read that does not, after a read.
    pub read_miss_after_read_ms: f64,
    /// A read that does not, after a write.
    pub read_miss_after_write_ms: f64,
    /// A write reported early, after a read.
    pub write_hit_after_read_ms: f64,
    /// A write reported early, after a write.
    pub write_hit_after_write_ms: f64,
    /// A write reported when it is on the media, after a read.
    pub write_miss_after_read_ms: f64,
    /// A write reported when it is on the media, after a write.
    pub write_miss_after_write_ms: f64,
    /// Reporting a read.
    pub read_completion_ms: f64,
    /// Reporting a write.
    pub write_completion_ms: f64,
    /// Before data go over the bus.
    pub data_preparation_ms: f64,
    /// Returning to the bus for the first time.
    pub first_reselect_ms: f64,
    /// Returning to it again.
    pub other_reselect_ms: f64,
    /// A read that leaves the bus, after a read.
    pub read_disconnect_after_read_ms: f64,
    /// A read that leaves the bus, after a write.
    pub read_disconnect_after_write_ms: f64,
    /// A write that leaves the bus.
    pub write_disconnect_ms: f64,
    /// A drive that leaves the bus between the command of a write and its data.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extra_write_disconnect: Option<ExtraWriteDisconnect>,
}

/// A drive that leaves the bus between the command of a write and its data, if the write comes after another one that it
/// does not follow on (seen on the HP C2247A: Worthington, Ganger, Patt and Wilkes 1995).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExtraWriteDisconnect {
    /// In place of the write overheads.
    pub command_ms: f64,
    /// Leaving the bus the first time.
    pub disconnect_ms: f64,
    /// Until it returns.
    pub gap_ms: f64,
    /// Leaving the bus after the data.
    pub second_disconnect_ms: f64,
    /// From the end of the command to the start of the arm.
    pub seek_delay_ms: f64,
}

/// The order in which the drive serves what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueuePolicy {
    /// As they came.
    #[default]
    Fifo,
    /// The fewest cylinders away.
    Sstf,
    /// The soonest under the head: seek and rotation.
    Sptf,
}

impl QueuePolicy {
    /// What a profile calls it.
    pub fn name(self) -> &'static str {
        match self {
            QueuePolicy::Fifo => "fifo",
            QueuePolicy::Sstf => "sstf",
            QueuePolicy::Sptf => "sptf",
        }
    }
}

/// When the arm may turn to the next request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddQueue {
    /// Requests it holds at once: 1 to 1,024.
    pub depth: u32,
    /// In which order they are served.
    #[serde(default)]
    pub policy: QueuePolicy,
    /// When the arm may turn to the next.
    #[serde(default)]
    pub preseek: Preseek,
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
