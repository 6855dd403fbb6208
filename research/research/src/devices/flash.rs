//! A flash device with random parts; the number of blocks follows from its capacity and spare area.
//!
//! Cell times are those of data sheets for one, two and three bits per cell. One: 25 us to read a page, 200 to program it, 1.5 ms
//! to erase a block (Samsung's K9XXG08UXM, in Agrawal and others, Design Tradeoffs for SSD Performance: USENIX 2008). Each further bit
//! makes programming some three to four times slower (Grupp, Davis and Swanson, The Bleak Future of NAND Flash Memory: FAST 2012),
//! less so with stacked cells: 50 to 110 us, 400 to 1,300 us and 3 to 6 ms are typical for two and three.
//!
//! Devices are smaller than those sold: each flash page takes memory in the simulation, and a run touches few of them.

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled};

use super::DrawnDevice;

/// Maximum number of logical pages.
const MOST_PAGES: f64 = 5.0e6;

/// Common properties of a kind of device. Ranges are sampled with uniform logarithm.
pub(super) struct Class {
    /// Prefix of the names of generated devices.
    pub(super) name: &'static str,
    /// The kind of device for descriptions.
    pub(super) what: &'static str,
    pub(super) cells: &'static [Cells],
    pub(super) channels: &'static [u32],
    pub(super) dies_per_channel: &'static [u32],
    pub(super) page_kib: &'static [u32],
    pub(super) pages_per_block: &'static [u32],
    pub(super) channel_mb_s: (f64, f64),
    pub(super) link_mb_s: &'static [f64],
    pub(super) full_duplex: bool,
    pub(super) overhead_us: (f64, f64),
    /// Size of the write buffer in pages.
    pub(super) buffer_pages: &'static [u32],
    pub(super) depths: &'static [u32],
    /// Probability that the map does not fit into the device's memory (DFTL).
    pub(super) caches_map: f64,
}

/// Times of flash with a number of bits per cell, in microseconds.
pub(super) struct Cells {
    pub(super) name: &'static str,
    pub(super) read_us: (f64, f64),
    pub(super) program_us: (f64, f64),
    pub(super) erase_us: (f64, f64),
}

pub(super) const ONE_BIT: Cells =
    Cells { name: "SLC", read_us: (20.0, 35.0), program_us: (150.0, 300.0), erase_us: (1000.0, 2000.0) };
pub(super) const TWO_BITS: Cells =
    Cells { name: "MLC", read_us: (45.0, 80.0), program_us: (500.0, 1300.0), erase_us: (2000.0, 5000.0) };
pub(super) const THREE_BITS: Cells =
    Cells { name: "TLC", read_us: (45.0, 110.0), program_us: (400.0, 1000.0), erase_us: (3000.0, 6000.0) };

/// Generates a device.
pub(super) fn draw(random: &mut Xoshiro256PlusPlus, class: &Class) -> DrawnDevice {
    let cells = &class.cells[random.random_range(0..class.cells.len())];
    let (channels, dies, planes) =
        (one_of(random, class.channels), one_of(random, class.dies_per_channel), one_of(random, &[1, 2, 2, 4]));
    let (page_kib, pages_per_block) = (one_of(random, class.page_kib), one_of(random, class.pages_per_block));
    let all_planes = channels * dies * planes;
    let pages = scaled(random, MOST_PAGES / 2.0, MOST_PAGES) as u64;
    let capacity_sectors = pages * u64::from(page_kib) * 2;
    let low_free = random.random_range(4..=8u32);
    let high_free = low_free + random.random_range(1..=2u32);
    let caches_map = happens(random, class.caches_map);
    let spare = scaled(random, 1.07, 1.3);
    let blocks = blocks(pages as f64 / f64::from(all_planes), pages_per_block, page_kib, high_free, spare);
    let gigabytes = capacity_sectors as f64 * 512.0 / 1e9;
    let name = format!("{}-{}-{gigabytes:.0}gb-{:04x}", class.name, cells.name.to_lowercase(), random.random::<u16>());
    let mut micros = |(least, most): (f64, f64)| (scaled(random, least, most) * 10.0).round() / 10.0;
    let (read_us, program_us, erase_us) = (micros(cells.read_us), micros(cells.program_us), micros(cells.erase_us));
    let (channel_mb_s, overhead_us) = (micros(class.channel_mb_s), micros(class.overhead_us));
    let parallel = happens(random, 0.6);
    let link_mb_s = one_of(random, class.link_mb_s);
    let wear_spread = random.random_range(50..=1000u32);
    let mapping = if caches_map { map(random, pages) } else { String::new() };
    let (buffer, depth) = (one_of(random, class.buffer_pages), one_of(random, class.depths));
    let text = format!(
        "kind = \"ssd\"\nname = \"{name}\"\ndescription = \"{gigabytes:.0} GB, {}, {channels} channels: drawn as {}\"\n\
         capacity_sectors = {capacity_sectors}\ninitial_state = \"sequential\"\n\n\
         [flash]\nchannels = {channels}\ndies_per_channel = {dies}\nplanes_per_die = {planes}\nplanes_in_parallel = {parallel}\n\
         blocks_per_plane = {blocks}\npages_per_block = {pages_per_block}\npage_bytes = {}\nread_us = {read_us:?}\n\
         program_us = {program_us:?}\nerase_us = {erase_us:?}\nchannel_mb_s = {channel_mb_s:?}\n\n\
         [interface]\ntransfer_mb_s = {link_mb_s:?}\nfull_duplex = {}\noverhead_us = {overhead_us:?}\n\n{mapping}\
         [garbage_collection]\nlow_free_blocks = {low_free}\nhigh_free_blocks = {high_free}\nwear_spread = {wear_spread}\n\n\
         [write_buffer]\npages = {buffer}\n\n[queue]\ndepth = {depth}\n",
        cells.name,
        class.what,
        page_kib * 1024,
        class.full_duplex,
    );
    DrawnDevice { name, text, members: Vec::new() }
}

/// Blocks per plane: for data including spare ones, for the map, and those that garbage collection reserves.
fn blocks(pages_per_plane: f64, pages_per_block: u32, page_kib: u32, high_free: u32, spare: f64) -> u32 {
    // A page of the map holds entries of four bytes for this many pages.
    let with_map = pages_per_plane * (1.0 + 1.0 / (f64::from(page_kib) * 256.0)) + 2.0;
    (with_map * spare / f64::from(pages_per_block)).ceil() as u32 + high_free + 6
}

/// A map of which a part is cached: from one entry in 128 to one in 8.
fn map(random: &mut Xoshiro256PlusPlus, pages: u64) -> String {
    let cached = (pages as f64 / scaled(random, 8.0, 128.0)) as u64;
    format!("[mapping]\ncached_entries = {cached}\nentries_per_fetch = {}\n\n", one_of(random, &[1, 8, 64]))
}

/// The device with another content at the start (`initial_state`).
pub(super) fn in_state(drawn: DrawnDevice, state: &str) -> DrawnDevice {
    let text = drawn.text.replace("initial_state = \"sequential\"", &format!("initial_state = \"{state}\""));
    DrawnDevice { text, ..drawn }
}

/// The device behind a provider's limits: the lines of a profile's table `[limits]`.
pub(super) fn limited(drawn: DrawnDevice, limits: &str) -> DrawnDevice {
    DrawnDevice { text: format!("{}\n[limits]\n{limits}", drawn.text), ..drawn }
}
