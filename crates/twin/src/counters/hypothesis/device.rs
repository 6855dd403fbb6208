//! The prior of devices: those on the market, narrowed down by sysfs.

use crate::counters::draws::Reader;
use crate::device::{AssumedDevice, AssumedDisk, AssumedFlash};

use super::Known;

/// Number of coordinates read. Derived: three of any device, nine of a disk, six of flash.
pub const DIMENSIONS: usize = 3 + 9 + 6;

/// Probability that the rotational flag is right: it is set by hand, by drivers without knowledge of the device, and by hypervisors.
/// Choice: a certain flag could never be contradicted by counters; not varied.
const FLAG_IS_RIGHT: f64 = 0.9;
/// Probability that the flag of the write cache is right. Choice: as [`FLAG_IS_RIGHT`].
const CACHE_IS_RIGHT: f64 = 0.9;
/// Prior fraction of arrays behind a controller among devices that look like a disk. Choice: less frequent than single disks, frequent
/// enough to be drawn; not varied.
const ARRAYS: f64 = 0.15;
/// Rotation times in ms, with weights. Derived: from 15,000, 10,000, 7,200 and 5,400 rpm; weights by how common such drives are, not
/// varied.
const TURNS: [(f64, f64); 4] = [(60e3 / 15_000.0, 1.0), (60e3 / 10_000.0, 1.5), (60e3 / 7_200.0, 4.0), (60e3 / 5_400.0, 2.0)];
/// RAID levels and numbers of disks, with weights. Choice: small arrays are the most frequent, and larger ones behave alike; not varied.
const SHAPES: [((u32, usize), f64); 6] =
    [((0, 2), 1.0), ((0, 4), 1.0), ((1, 2), 1.5), ((10, 4), 1.5), ((5, 3), 1.0), ((5, 5), 1.5)];
/// Queue depths if sysfs has none, with weights: no queue, a short one, SATA's, and one that is never full. Choice: weights by the
/// frequency of such devices; the short queue was 8, and 128 was missing, before commit bf924087.
const DEPTHS: [(u32, f64); 4] = [(1, 1.0), (4, 0.5), (32, 2.0), (128, 1.0)];
/// Probability that a disk reorders its queue; cheap drives and controllers may not. Choice: most drives with a queue do; not varied.
const REORDERS: f64 = 0.8;

/// The device at a point. Seeks and times are distributed around those of the priors of a fit (`device::hdd`, `device::flash`).
pub fn at(reader: &mut Reader, known: &Known) -> AssumedDevice {
    let is_disk = reader.happens(match known.rotational {
        Some(true) => FLAG_IS_RIGHT,
        Some(false) => 1.0 - FLAG_IS_RIGHT,
        None => 0.5,
    });
    let write_cache = reader.happens(match known.write_cache {
        Some(true) => CACHE_IS_RIGHT,
        Some(false) => 1.0 - CACHE_IS_RIGHT,
        None => 0.6,
    });
    let drawn_depth = reader.one_of(&DEPTHS).unwrap_or(1);
    let depth = known.depth.unwrap_or(drawn_depth).clamp(1, 1_024);
    let disk = disk(reader, write_cache, depth);
    let flash = flash(reader, write_cache, depth);
    if is_disk { AssumedDevice::Disk(disk) } else { AssumedDevice::Flash(flash) }
}

fn disk(reader: &mut Reader, write_cache: bool, depth: u32) -> AssumedDisk {
    let is_array = reader.happens(ARRAYS);
    let shape = reader.one_of(&SHAPES);
    AssumedDisk {
        array: shape.filter(|_| is_array),
        turn_ms: reader.one_of(&TURNS).unwrap_or(8.33),
        short_ms: reader.about(2.0, 0.4),
        long_ms: reader.about(9.0, 0.3),
        faster: reader.about(1.0, 0.4),
        overhead_ms: reader.scaled(0.05, 0.8),
        segments: reader.scaled(4.0, 64.0).round() as u32,
        reorders: reader.happens(REORDERS),
        write_cache,
        depth,
    }
}

fn flash(reader: &mut Reader, write_cache: bool, depth: u32) -> AssumedFlash {
    let buffer_pages = reader.scaled(64.0, 8_192.0).round() as u32;
    AssumedFlash {
        read_us: reader.scaled(15.0, 200.0),
        program_us: reader.scaled(150.0, 2_500.0),
        overhead_us: reader.scaled(3.0, 150.0),
        dies: reader.scaled(2.0, 64.0).round() as u32,
        buffer_pages: if write_cache { buffer_pages } else { 0 },
        is_on_pcie: reader.happens(0.5),
        depth,
    }
}
