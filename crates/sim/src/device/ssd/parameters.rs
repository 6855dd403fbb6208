//! Parameters of a flash device, in units of the simulation.

use super::spec::InitialState;
use crate::device::reciprocal::Reciprocal32;

/// A profile's parameters in units of the simulation. Times are nanoseconds. A "page" is a unit of the map here and in the
/// translation layer; where it is smaller than the chips' unit of programming, the latter is a "flash page".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// 512-byte sectors the host sees.
    pub capacity_sectors: u64,
    /// Initial content of the flash.
    pub initial_state: InitialState,
    /// Chips and pages.
    pub shape: Shape,
    /// The logical pages and their map.
    pub map: MapShape,
    /// Durations, in nanoseconds unless stated otherwise.
    pub times: Times,
    /// The link to the host and its controller.
    pub link: Link,
    /// Garbage collection.
    pub collection: Collection,
    /// Pages of the write buffer.
    pub buffer_pages: u32,
    /// Maximum number of requests in the device.
    pub depth: u32,
}

/// Chips and pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Channels.
    pub channels: u32,
    /// Units that work in parallel: planes or dies.
    pub units: u32,
    /// Planes of the whole device.
    pub planes: u32,
    /// Erase blocks of a plane.
    pub blocks: u32,
    /// Pages of an erase block.
    pub pages: u32,
    /// 512-byte sectors of a page.
    pub page_sectors: u32,
    /// Binary logarithm of the number of pages in a flash page.
    pub packed_bits: u32,
    /// Divides by [`Shape::planes`].
    pub by_planes: Reciprocal32,
    /// Divides by [`Shape::units`].
    pub by_units: Reciprocal32,
    /// Divides by [`Shape::pages`].
    pub by_pages: Reciprocal32,
}

impl Shape {
    /// The unit of a plane: channels change fastest, then dies, then planes, so it is the remainder.
    #[inline]
    pub fn unit_of(&self, plane: u32) -> u32 {
        plane - self.by_units.quotient(plane) * self.units
    }
}

/// The logical pages and their map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapShape {
    /// Logical pages that live on a plane.
    pub logical: u32,
    /// Translation pages that live on a plane; none if the whole map is in memory.
    pub translation: u32,
    /// Binary logarithm of the number of entries in a translation page.
    pub entries_bits: u32,
    /// Binary logarithm of the number of entries that are loaded and evicted together.
    pub fetch_bits: u32,
    /// Number of groups of entries that fit in memory; `None`: all do.
    pub cached_groups: Option<u32>,
}

/// Durations, in nanoseconds unless stated otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Time from the cells to the register.
    pub read: u64,
    /// Time from the register to the cells.
    pub program: u64,
    /// Time to erase a block.
    pub erase: u64,
    /// Time of a sector on a channel, in picoseconds.
    pub channel_sector_ps: u64,
}

/// The link to the host and its controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Time of a sector on the link to the host, in picoseconds.
    pub sector_ps: u64,
    /// The direction of the link that reads use: other than writes, or the same.
    pub way_out: usize,
    /// Controller overhead of a request.
    pub overhead: u64,
}

/// Garbage collection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collection {
    /// Number of free blocks below which a plane collects.
    pub low_free: u32,
    /// Number of free blocks at which collection stops.
    pub high_free: u32,
    /// See [`super::spec::GarbageCollection::wear_spread`].
    pub wear_spread: Option<u32>,
}
