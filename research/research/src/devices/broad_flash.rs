//! Training data: flash of every kind and fill level, some of it behind a cloud provider's limits.
//!
//! Ranges cover those of the families of SATA and NVMe flash, which name their sources, and of simple cards. Limits are those of cloud
//! providers (Amazon's "Amazon EBS volume types": 100 to 16,000 operations a second, 125 to 1,000 MB/s).

use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled};

use super::flash::{Class, ONE_BIT, THREE_BITS, TWO_BITS, draw as draw_flash};
use super::{DrawnDevice, Family};

/// See the file's head.
pub static FAMILY: Family =
    Family { name: "broad-flash", about: "flash of every kind and filling, some behind limits, to train on", draw };

/// Probability that a provider limits the device, and that it is empty at the start.
const IS_LIMITED: f64 = 0.25;
const IS_FRESH: f64 = 0.2;

const CLASS: Class = Class {
    name: "broad-flash",
    what: "flash, to train on",
    cells: &[ONE_BIT, TWO_BITS, THREE_BITS],
    channels: &[1, 2, 4, 8, 16],
    dies_per_channel: &[1, 2, 4],
    page_kib: &[4, 8, 16],
    pages_per_block: &[64, 128, 256, 512],
    channel_mb_s: (40.0, 1200.0),
    link_mb_s: &[90.0, 260.0, 540.0, 1700.0, 3400.0],
    full_duplex: false,
    overhead_us: (5.0, 500.0),
    buffer_pages: &[0, 64, 256, 1024, 4096],
    depths: &[1, 32, 64, 256],
    caches_map: 0.3,
};

fn draw(random: &mut Xoshiro256PlusPlus) -> DrawnDevice {
    let mut drawn = draw_flash(random, &CLASS);
    if happens(random, IS_FRESH) {
        drawn.text = drawn.text.replace("initial_state = \"sequential\"", "initial_state = \"fresh\"");
    }
    if happens(random, IS_LIMITED) {
        let operations = scaled(random, 100.0, 16_000.0).round();
        let mb_s = one_of(random, &[125.0, 250.0, 1000.0]);
        drawn.text += &format!("\n[limits]\noperations_per_second = {operations:?}\noperation_kib = 256\nmb_s = {mb_s:?}\n");
    }
    drawn
}
