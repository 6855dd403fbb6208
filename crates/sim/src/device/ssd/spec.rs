//! The schema of a flash device's profile, the `disks/*.toml` with `kind = "ssd"`. Key names carry their units; an unknown key is an
//! error.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::device::limited::spec::LimitsSpecification;

/// Maximum capacity: 2 TiB.
const MAX_DEVICE_SECTORS: u64 = 1 << 32;

/// Maximum duration of a flash operation: a second.
const MAX_US: f64 = 1e6;

/// A flash device, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdSpecification {
    /// `"ssd"`.
    pub kind: String,
    /// The profile's name.
    pub name: String,
    /// One line for people: maker, model, class.
    pub description: String,
    /// Capacity in 512-byte sectors; the rest of the flash is spare.
    #[schemars(range(min = 1, max = MAX_DEVICE_SECTORS))]
    pub capacity_sectors: u64,
    /// Initial content of the flash.
    pub initial_state: InitialState,
    /// The chips.
    pub flash: Flash,
    /// The link to the host and the controller.
    pub interface: Interface,
    /// The map from logical to physical pages.
    #[serde(default)]
    pub mapping: MapSpecification,
    /// Garbage collection.
    pub garbage_collection: GarbageCollection,
    /// The write buffer.
    #[serde(default)]
    pub write_buffer: WriteBufferSpecification,
    /// The queue.
    pub queue: SsdQueue,
    /// Rate limits. Requests that exceed them wait before the device, in order of arrival; a flush does not.
    #[serde(default)]
    pub limits: Option<LimitsSpecification>,
}

/// Initial content of the flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum InitialState {
    /// Nothing: every block is erased, and reads find nothing to read.
    Fresh,
    /// Every logical page, written once in order.
    Sequential,
    /// Every logical page, overwritten at random until garbage collection is in its steady state. The first such device of a
    /// profile takes some seconds to build, the others share its work.
    Random,
}

/// The chips and how they are wired.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Buses between controller and chips.
    #[schemars(range(min = 1, max = 64))]
    pub channels: u32,
    /// Dies on each channel.
    #[schemars(range(min = 1, max = 64))]
    pub dies_per_channel: u32,
    /// Planes of a die.
    #[schemars(range(min = 1, max = 16))]
    pub planes_per_die: u32,
    /// Whether the planes of a die work in parallel, each on its own page; otherwise a die does one operation at a time.
    #[serde(default)]
    pub planes_in_parallel: bool,
    /// Erase blocks of a plane.
    #[schemars(range(min = 8, max = 1 << 20))]
    pub blocks_per_plane: u32,
    /// Pages of an erase block.
    #[schemars(range(min = 2, max = 4096))]
    pub pages_per_block: u32,
    /// Bytes of a page, the unit of reads and programming.
    #[schemars(range(min = 512, max = 32768), extend("x-power-of-two" = true))]
    pub page_bytes: u32,
    /// From the cells to the plane's register, in microseconds.
    #[schemars(range(min = 0.0, max = MAX_US))]
    pub read_us: f64,
    /// From the register to the cells.
    #[schemars(range(min = 0.0, max = MAX_US))]
    pub program_us: f64,
    /// Erasing a block.
    #[schemars(range(min = 0.0, max = MAX_US))]
    pub erase_us: f64,
    /// Speed of a channel in 10^6 bytes a second.
    #[schemars(range(min = 0.1, max = 1e6))]
    pub channel_mb_s: f64,
}

/// The link to the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Speed of the link in 10^6 bytes a second.
    #[schemars(range(min = 0.1, max = 1e6))]
    pub transfer_mb_s: f64,
    /// Whether it is full duplex, as PCIe is (each direction has that speed); SATA and SAS are half duplex.
    pub full_duplex: bool,
    /// Controller overhead of every request, in microseconds. It delays the request only, not others.
    #[schemars(range(min = 0.0, max = MAX_US))]
    pub overhead_us: f64,
}

/// The map.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct MapSpecification {
    /// Unit of the map in bytes, at most a page. Smaller units share a page and are packed into it as they leave the write buffer;
    /// this requires a write buffer and the whole map in memory. Absent: a page.
    #[serde(default)]
    #[schemars(range(min = 512, max = 32768), extend("x-power-of-two" = true))]
    pub unit_bytes: Option<u32>,
    /// Entries of the map held in memory, DFTL's cached mapping table; the rest is in translation pages on the flash. Absent: all.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1 << 30))]
    pub cached_entries: Option<u32>,
    /// Neighbouring entries that are loaded and evicted together; 1 is DFTL as published.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 1024), extend("x-power-of-two" = true))]
    pub entries_per_fetch: u32,
}

impl Default for MapSpecification {
    fn default() -> MapSpecification {
        MapSpecification { unit_bytes: None, cached_entries: None, entries_per_fetch: 1 }
    }
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct GarbageCollection {
    /// A plane with fewer free blocks than this starts to collect; a collection itself may need 4.
    #[schemars(range(min = 4, max = 1 << 20))]
    pub low_free_blocks: u32,
    /// Free blocks of a plane at which collection stops.
    #[schemars(range(min = 4, max = 1 << 20))]
    pub high_free_blocks: u32,
    /// The least worn block of a plane is collected, regardless of its content, once the most worn has been erased this many times more.
    /// Absent: wear is levelled only by taking the least worn free block.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1000000))]
    pub wear_spread: Option<u32>,
}

/// The write buffer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferSpecification {
    /// Pages it holds (0: a write is done when it is on the flash).
    #[schemars(range(min = 0, max = 65536))]
    pub pages: u32,
}

/// The queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SsdQueue {
    /// Requests the device holds at once.
    #[schemars(range(min = 1, max = 1024))]
    pub depth: u32,
}

fn one() -> u32 {
    1
}
