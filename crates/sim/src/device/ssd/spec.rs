//! The schema of a flash device's profile, the `disks/*.toml` with `kind = "ssd"`. Key names carry their units; an unknown key is an
//! error.

use serde::Deserialize;

/// A flash device, as its profile describes it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpecification {
    /// `"ssd"`.
    pub kind: String,
    /// The profile's name.
    pub name: String,
    /// One line for people: maker, model, class.
    pub description: String,
    /// 512-byte sectors the host sees. What the flash has more is spare.
    pub capacity_sectors: u64,
    /// What lies on the flash at the beginning.
    pub initial_state: InitialState,
    /// The chips.
    pub flash: Flash,
    /// The way to the host and the controller.
    pub interface: Interface,
    /// Where the controller keeps the map from logical to physical pages.
    #[serde(default)]
    pub mapping: MapSpecification,
    /// When and what it collects.
    pub garbage_collection: GarbageCollection,
    /// Memory that takes writes before the flash does.
    #[serde(default)]
    pub write_buffer: WriteBufferSpecification,
    /// The queue.
    pub queue: SsdQueue,
}

/// What lies on the flash at the beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum InitialState {
    /// Nothing: every block is erased, and reads find nothing to read.
    Fresh,
    /// Every logical page, written once in order.
    Sequential,
    /// Every logical page, overwritten at random for so long that garbage collection is in its steady state. The first such device
    /// of a profile takes some seconds to build, the others share its work.
    Random,
}

/// The chips and how they are wired.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Buses between controller and chips: 1 to 64.
    pub channels: u32,
    /// Dies on each channel: 1 to 64.
    pub dies_per_channel: u32,
    /// Planes of a die: 1 to 16.
    pub planes_per_die: u32,
    /// The planes of a die work at the same time, each on its own page; otherwise a die does one thing at a time.
    #[serde(default)]
    pub planes_in_parallel: bool,
    /// Erase blocks of a plane: 8 to 1,048,576.
    pub blocks_per_plane: u32,
    /// Pages of an erase block: 2 to 4,096.
    pub pages_per_block: u32,
    /// Bytes of a page, which is also the unit of the map: a power of two within 512 to 32,768.
    pub page_bytes: u32,
    /// From the cells to the plane's register, in microseconds.
    pub read_us: f64,
    /// From the register to the cells.
    pub program_us: f64,
    /// Erasing a block.
    pub erase_us: f64,
    /// Speed of a channel in 10^6 bytes a second.
    pub channel_mb_s: f64,
}

/// The way to the host.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Speed of the link in 10^6 bytes a second.
    pub transfer_mb_s: f64,
    /// It carries data both ways at once, as PCIe does; SATA and SAS in one direction at a time (each way has that speed).
    pub full_duplex: bool,
    /// What the controller adds to every request, in microseconds. It delays a request but keeps no other waiting.
    pub overhead_us: f64,
}

/// Where the map is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MapSpecification {
    /// Entries of the map held in memory, DFTL's cached mapping table; the rest is in translation pages on the flash. Absent: all.
    #[serde(default)]
    pub cached_entries: Option<u32>,
    /// Neighbouring entries that are brought in, and thrown out, together: 1 is DFTL as published. A power of two up to 1,024.
    #[serde(default = "one")]
    pub entries_per_fetch: u32,
}

impl Default for MapSpecification {
    fn default() -> MapSpecification {
        MapSpecification { cached_entries: None, entries_per_fetch: 1 }
    }
}

/// When and what garbage collection collects.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GarbageCollection {
    /// A plane with fewer free blocks than this collects: at least 4, which is what a collection itself may need.
    pub low_free_blocks: u32,
    /// Until it has this many.
    pub high_free_blocks: u32,
    /// The least worn block of a plane is collected, regardless of its content, once the most worn has been erased this many times more.
    /// Absent: wear is levelled only by taking the least worn free block.
    #[serde(default)]
    pub wear_spread: Option<u32>,
}

/// Memory that takes writes before the flash does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteBufferSpecification {
    /// Pages it holds: 0 (none: a write is done when it is on the flash) to 65,536.
    pub pages: u32,
}

/// The queue.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdQueue {
    /// Requests the device holds at once: 1 to 1,024.
    pub depth: u32,
}

fn one() -> u32 {
    1
}
