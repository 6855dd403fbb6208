//! Flash with SATA, since about 2008: from small devices that cache only a part of their map to common client drives.
//!
//! Ranges: makers' data sheets (250 to 560 MB/s to read, 8,000 to 12,000 reads of 4 KiB a second one at a time), four to ten channels.

use super::Family;
use super::flash::{Class, ONE_BIT, THREE_BITS, TWO_BITS, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "sata-flash",
    about: "flash with SATA: four to ten channels, sometimes a part of the map in memory",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "sata-flash",
    what: "flash with SATA",
    cells: &[ONE_BIT, TWO_BITS, TWO_BITS, THREE_BITS],
    channels: &[4, 4, 8, 8, 10],
    dies_per_channel: &[1, 2, 4],
    page_kib: &[4, 8, 8, 16],
    pages_per_block: &[64, 128, 256],
    channel_mb_s: (40.0, 400.0),
    link_mb_s: &[260.0, 540.0],
    full_duplex: false,
    overhead_us: (15.0, 60.0),
    buffer_pages: &[0, 64, 256, 1024, 2048],
    depths: &[32],
    caches_map: 0.4,
};
