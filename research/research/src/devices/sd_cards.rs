//! Cards for cameras and single-board computers.
//!
//! Ranges: SD Association, "Application Performance Class" (A1: 1,500 reads and 500 writes of 4 KiB a second, 10 MB/s sustained; A2: 4,000 and
//! 2,000 with a queue of up to 32 commands) and its bus speeds (12.5 to 104 MB/s in one direction at a time); cards without a class have no
//! queue and little memory for writes.

use super::Family;
use super::flash::{Class, THREE_BITS, TWO_BITS, draw};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "sd-cards", about: "SD cards: one channel, one slow controller", draw: |random| draw(random, &CLASS) };

const CLASS: Class = Class {
    name: "sd",
    what: "an SD card",
    cells: &[TWO_BITS, THREE_BITS],
    channels: &[1],
    dies_per_channel: &[1, 2],
    page_kib: &[8, 16],
    pages_per_block: &[256, 512],
    channel_mb_s: (40.0, 200.0),
    link_mb_s: &[12.5, 25.0, 50.0, 104.0],
    full_duplex: false,
    overhead_us: (60.0, 400.0),
    buffer_pages: &[0, 4, 16],
    depths: &[1, 1, 32],
    caches_map: 0.5,
};
