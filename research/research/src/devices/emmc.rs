//! Soldered flash of phones and small computers.
//!
//! Ranges: JEDEC's eMMC standards (JESD84-B41 to B51: 52 to 400 MB/s in one direction at a time; a queue of 32 commands since 5.1) and makers'
//! product briefs (2,000 to 10,000 reads of 4 KiB a second).

use super::Family;
use super::flash::{Class, THREE_BITS, TWO_BITS, draw};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "emmc", about: "eMMC: soldered flash of small computers", draw: |random| draw(random, &CLASS) };

const CLASS: Class = Class {
    name: "emmc",
    what: "an eMMC device",
    cells: &[TWO_BITS, THREE_BITS],
    channels: &[1, 2],
    dies_per_channel: &[1, 2],
    page_kib: &[8, 16],
    pages_per_block: &[256, 512],
    channel_mb_s: (80.0, 400.0),
    link_mb_s: &[52.0, 104.0, 200.0, 400.0],
    full_duplex: false,
    overhead_us: (30.0, 150.0),
    buffer_pages: &[0, 16, 64],
    depths: &[1, 32],
    caches_map: 0.4,
};
