//! Flash with NVMe, since about 2015.
//!
//! Ranges: makers' data sheets of client drives on PCIe 3.0 and 4.0 with four lanes, and two (1,700 to 7,000 MB/s to read, 10,000 to 20,000
//! reads of 4 KiB a second one at a time), such as Samsung's 960 EVO, the reference of the profile nvme-tlc.

use super::Family;
use super::flash::{Class, THREE_BITS, TWO_BITS, draw};

/// See the file's head.
pub static FAMILY: Family = Family {
    name: "nvme-flash",
    about: "flash with NVMe: eight or more channels or dies, deep queues",
    draw: |random| draw(random, &CLASS),
};

const CLASS: Class = Class {
    name: "nvme-flash",
    what: "flash with NVMe",
    cells: &[TWO_BITS, THREE_BITS, THREE_BITS],
    channels: &[4, 8, 8, 16],
    dies_per_channel: &[1, 2, 4],
    page_kib: &[8, 16, 16],
    pages_per_block: &[256, 384, 512],
    channel_mb_s: (400.0, 1200.0),
    link_mb_s: &[1700.0, 3400.0, 3400.0, 6800.0],
    full_duplex: true,
    overhead_us: (5.0, 25.0),
    buffer_pages: &[256, 512, 1024, 4096],
    depths: &[64, 128, 256, 1024],
    caches_map: 0.15,
};
