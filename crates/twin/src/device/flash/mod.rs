//! Estimates a flash device from response times: page read and program times, parallelism, write buffer.

mod assumed;
mod folded;

use std::fmt::Write as _;
use std::sync::Arc;

use sim::profile::{DeviceOptions, DeviceProfile, Profile, ProfileError};

pub use assumed::{AssumedFlash, SMALL_FLASH, assumed};
use folded::Folded;
use statistics::Rank;

use super::access::{Access, MIN_COUNT};
use super::findings::Finding;
use super::limits::SLOWEST_ALONE_A_SECOND;
use super::refine::{Move, refine, scaled};

/// Requests of up to this number of sectors are one or two pages. Derived: [`USUAL_PAGE`] in sectors.
const SMALL: u64 = USUAL_PAGE / 512;
/// Default page size in bytes; 4 to 16 KiB were sold. Choice: the middle of these; not varied.
const USUAL_PAGE: u64 = 8_192;
/// Maximum number of pages, which take memory of the model: beyond it pages are larger instead, up to [`LARGEST_PAGE`]. Choice: 64 MB of
/// maps; not varied.
const MAX_PAGES: u64 = 1 << 23;
/// Maximum size of a page of a profile, in bytes. Source: `page_bytes` in `crates/sim/src/device/ssd/spec.rs`.
const LARGEST_PAGE: u64 = 32_768;
/// Number of pages of an erase block. Choice: within the 64 to 256 of SATA drives (`research/research/src/devices/sata_flash.rs`), as no
/// response time shows it; not varied.
const PAGES_PER_BLOCK: u64 = 128;
/// Size of the model for replays, in sectors: 32 GiB. Choice: memory and time to build against collisions of addresses; not varied.
const FOLDED: u64 = 1 << 26;
/// Maximum size of a profile, in sectors: 2 TiB. Source: `MAX_DEVICE_SECTORS` in `crates/sim/src/device/ssd/spec.rs`.
const LARGEST: u64 = 1 << 32;
/// Read time of flash with two or three bits per cell, in microseconds. Derived: about the geometric mean of the 45 to 110 of data sheets
/// (`research/research/src/devices/flash.rs`).
const USUAL_READ_US: f64 = 70.0;
/// Program time of such flash, in microseconds. Derived: about the geometric mean of the 400 to 1,300 there.
const USUAL_PROGRAM_US: f64 = 700.0;
/// Erase time of such flash, in microseconds. Derived: about the geometric mean of the 2,000 to 6,000 there.
const ERASE_US: f64 = 3_500.0;
/// Default overhead of the controller, in microseconds. Choice: within the 15 to 60 of SATA drives and the 5 to 25 of NVMe drives
/// (`research/research/src/devices`); not varied.
const USUAL_OVERHEAD_US: f64 = 20.0;
/// Transfer rate of a channel, in MB/s. Choice: that of the fastest channels of SATA drives and of the slowest of NVMe drives
/// (`research/research/src/devices`); not varied.
const CHANNEL_MB_S: f64 = 400.0;
/// Rate of SATA at 6 Gb/s. Choice: 600 MB/s less the overhead of frames; drives are sold with up to 560; not varied.
const SATA_MB_S: f64 = 540.0;
/// Rate of the next faster link, PCIe 3 with four lanes. Source: sequential reads of the 960 EVO (`disks/nvme-tlc.toml`).
const PCIE_MB_S: f64 = 3_200.0;
/// Default number of dies. Choice: a drive of 250 GB has 16 dies of 128 Gbit (`disks/nvme-tlc.toml`); not varied.
const USUAL_DIES: f64 = 16.0;
/// Default size of the write buffer in pages, if there is one. Choice: 4 MiB, within the 64 to 4,096 pages of generated drives
/// (`research/research/src/devices`); not varied.
const USUAL_BUFFER: f64 = 512.0;
/// Time in microseconds below which a write went to a buffer. Choice: below the 150 of fast cells with one bit
/// (`research/research/src/devices/flash.rs`); the papers' device (`disks/ssd-dftl.toml`) takes 126 and counts as buffered; not varied.
const QUICKEST_PROGRAM_US: f64 = 130.0;
/// Ratio of the flash, including over-provisioning, to the capacity. Choice: drives are sold with 7 to 28%; not varied.
const SPARE: f64 = 1.15;

/// The parameters of a flash device, as far as accesses show them.
#[derive(Clone, Debug)]
pub struct Estimate {
    capacity: u64,
    read_us: f64,
    reads: usize,
    program_us: f64,
    programs: usize,
    overhead_us: f64,
    dies: f64,
    queued: usize,
    buffer_pages: f64,
    writes: usize,
    link_mb_s: f64,
    depth: u32,
}

/// Estimates a flash device of this capacity in sectors.
pub fn estimate(accesses: &[Access], capacity: u64) -> Estimate {
    estimate_with_distance(accesses, capacity).0
}

/// Like [`estimate`], with the replay error.
pub fn estimate_with_distance(accesses: &[Access], capacity: u64) -> (Estimate, f64) {
    let page_us = page_bytes(capacity) as f64 / CHANNEL_MB_S;
    let small = |write: bool| accesses.iter().filter(move |access| access.write == write && access.sectors <= SMALL);
    let alone = |write: bool| quantile(small(write).filter(|access| access.others == 0).map(us).collect(), 0.5);
    let quickest = |write: bool| quantile(small(write).map(us).collect(), 0.1);
    let (read, reads) = alone(false).or_else(|| quickest(false)).unwrap_or((USUAL_READ_US + page_us, 0));
    let overhead_us = USUAL_OVERHEAD_US.min(0.25 * read);
    let read_us = (read - overhead_us - page_us).max(0.2 * read);
    let write = alone(true).or_else(|| quickest(true));
    let is_buffered = write.is_none_or(|(us, _)| us < QUICKEST_PROGRAM_US);
    let (dies, queued) = dies(accesses, read_us + page_us);
    // A flush programs the buffered data: at least a page.
    let flushes: Vec<f64> = accesses.iter().filter_map(|access| access.flush).map(|flush| 1e3 * flush.response_ms()).collect();
    let flushed = quantile(flushes.into_iter().filter(|us| *us >= QUICKEST_PROGRAM_US).collect(), 0.1);
    let told = if is_buffered { flushed } else { write };
    let program = told.map_or((USUAL_PROGRAM_US, 0), |(us, number)| ((us - overhead_us - page_us).max(0.3 * us), number));
    let fastest = fastest_mb_s(accesses);
    let estimate = Estimate {
        capacity,
        read_us,
        reads,
        program_us: program.0,
        programs: program.1,
        overhead_us,
        dies,
        queued,
        buffer_pages: if is_buffered { USUAL_BUFFER } else { 0.0 },
        writes: write.map_or(0, |(_, writes)| writes),
        link_mb_s: if fastest > SATA_MB_S { PCIE_MB_S.max(1.05 * fastest) } else { SATA_MB_S },
        depth: accesses.iter().map(|access| access.others + 1).max().unwrap_or(1).clamp(32, 1_024),
    };
    refine(estimate, MOVES, accesses, |estimate, at_once| {
        Some(estimate.folded().ok()?.build(DeviceOptions { queue_depth: Some(at_once), queue_policy: None }))
    })
}

/// Parameters refined by replays: times and rates by a fraction, counts by a factor.
const MOVES: &[Move<Estimate>] = &[
    |old, step| Some(Estimate { dies: (old.dies * if step > 0.0 { 2.0 } else { 0.5 }).clamp(1.0, 256.0), ..old.clone() }),
    |old, step| Some(Estimate { read_us: scaled(old.read_us, step), ..old.clone() }),
    |old, step| Some(Estimate { program_us: scaled(old.program_us, step), ..old.clone() }),
    |old, step| Some(Estimate { overhead_us: scaled(old.overhead_us, step), ..old.clone() }),
    |old, step| {
        (old.buffer_pages > 0.0).then(|| Estimate {
            buffer_pages: (old.buffer_pages * if step > 0.0 { 4.0 } else { 0.25 }).clamp(16.0, 65_536.0),
            ..old.clone()
        })
    },
    |old, step| Some(Estimate { link_mb_s: scaled(old.link_mb_s, step), ..old.clone() }),
];

impl Estimate {
    /// Whether flash can be this slow.
    pub fn is_possible(&self) -> bool {
        self.reads == 0 || self.read_us * SLOWEST_ALONE_A_SECOND <= 1e6
    }
}

fn us(access: &Access) -> f64 {
    access.response_ms() * 1e3
}

/// The quantile at this fraction, and the number of values; `None` with too few values.
fn quantile(mut values: Vec<f64>, share: f64) -> Option<(f64, usize)> {
    if values.len() < MIN_COUNT {
        return None;
    }
    Rank::Lower.of(&mut values, share).map(|value| (value, values.len()))
}

/// Number of dies, and the number of accesses that it is based on; 0 for a default. Of n random requests on p dies, n p / (n + p - 1) are
/// served in parallel.
fn dies(accesses: &[Access], service_us: f64) -> (f64, usize) {
    let (mut gaps, mut there, mut number) = (0.0, 0.0, 0);
    for access in accesses.iter().filter(|access| !access.write && access.others >= 3 && access.sectors <= SMALL) {
        let Some((_, before, false)) = access.before else { continue };
        gaps += (access.completed - before) as f64 / 1e3;
        there += f64::from(access.others + 1);
        number += 1;
    }
    if number < MIN_COUNT {
        return (USUAL_DIES, 0);
    }
    let there = there / f64::from(number as u32);
    let at_once = service_us * f64::from(number as u32) / gaps.max(1e-3);
    let dies = if at_once < 0.95 * there { (there - 1.0) * at_once / (there - at_once) } else { USUAL_DIES.max(2.0 * there) };
    (dies.clamp(1.0, 256.0), number)
}

/// Maximum throughput over a stretch of accesses, in MB/s.
fn fastest_mb_s(accesses: &[Access]) -> f64 {
    /// Number of accesses over which throughput is averaged. Choice: a burst from the buffer against changes of the load; not varied.
    const STRETCH: usize = 64;
    let rate = |stretch: &[Access]| {
        let (first, last) = (&stretch[0], &stretch[stretch.len() - 1]);
        let bytes = stretch[1..].iter().map(|access| access.sectors).sum::<u64>() as f64 * 512.0;
        bytes / ((last.completed - first.completed) as f64 / 1e3).max(1.0)
    };
    accesses.chunks(STRETCH).filter(|stretch| stretch.len() > 1).map(rate).fold(0.0, f64::max)
}

fn page_bytes(capacity: u64) -> u64 {
    let mut page = USUAL_PAGE;
    while page < LARGEST_PAGE && capacity * 512 / page > MAX_PAGES {
        page *= 2;
    }
    page
}

impl Estimate {
    /// This device with at least this queue depth.
    pub fn holding(self, requests: u32) -> Estimate {
        Estimate { depth: requests.clamp(self.depth, 1_024), ..self }
    }

    /// The profile of the device, with its capacity limited to the maximum of a profile.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        Profile::parse(&self.text(), "fitted")
    }

    /// The device for replays: a large one is folded, to save memory.
    pub fn folded(&self) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        self.folded_to(FOLDED)
    }

    /// Like [`folded`](Self::folded), to this number of sectors.
    pub fn folded_to(&self, sectors: u64) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        if self.capacity <= sectors {
            return Ok(self.profile()?.device());
        }
        let inner = Estimate { capacity: sectors, ..self.clone() }.profile()?.device();
        Ok(Arc::new(Folded { inner, capacity: self.capacity }))
    }

    fn text(&self) -> String {
        let capacity = self.capacity.min(LARGEST);
        let page = page_bytes(capacity);
        let dies = (self.dies.round() as u64).max(1);
        // One channel per four dies, so that requests wait for cells rather than for the channel.
        let channels = dies.div_ceil(4).next_power_of_two().min(64);
        let per_channel = dies.div_ceil(channels);
        let pages = (capacity * 512).div_ceil(page) as f64 / (channels * per_channel) as f64;
        let blocks = (pages * SPARE / PAGES_PER_BLOCK as f64).ceil() as u64 + 16;
        let mut text = format!(
            "kind = \"ssd\"\nname = \"fitted\"\ndescription = \"flash, fitted to times of requests\"\ncapacity_sectors = {}\n\
             initial_state = \"sequential\"\n\n[flash]\nchannels = {channels}\ndies_per_channel = {per_channel}\n\
             planes_per_die = 1\nblocks_per_plane = {blocks}\npages_per_block = {PAGES_PER_BLOCK}\npage_bytes = {page}\n",
            capacity
        );
        let _ = write!(
            text,
            "read_us = {:.1}\nprogram_us = {:.1}\nerase_us = {ERASE_US:.1}\nchannel_mb_s = {CHANNEL_MB_S:.1}\n\n\
             [interface]\ntransfer_mb_s = {:.1}\nfull_duplex = {}\noverhead_us = {:.1}\n\n\
             [garbage_collection]\nlow_free_blocks = 6\nhigh_free_blocks = 8\n\n\
             [write_buffer]\npages = {:.0}\n\n[queue]\ndepth = {}\n",
            self.read_us,
            self.program_us,
            self.link_mb_s,
            self.link_mb_s > 1.5 * SATA_MB_S,
            self.overhead_us,
            self.buffer_pages,
            self.depth
        );
        text
    }

    /// All estimated parameters.
    pub fn findings(&self) -> Vec<Finding> {
        let part = |value: f64| 0.3 * value;
        vec![
            Finding::number("reading a page", self.read_us, "us", part(self.read_us), self.reads),
            Finding::number("programming a page", self.program_us, "us", part(self.program_us), self.programs),
            Finding::number("overhead of a command", self.overhead_us, "us", self.overhead_us, 0),
            Finding::number("dies at work at once", self.dies.round(), "", self.dies, self.queued),
            Finding::choice("reports writes early", if self.buffer_pages > 0.0 { "yes" } else { "no" }, self.writes),
            Finding::number("write buffer", self.buffer_pages, "pages", self.buffer_pages, 0),
            Finding::number("link", self.link_mb_s, "MB/s", self.link_mb_s, 0),
        ]
    }
}
