//! Kinds of tenants' loads, as sections of a job file. All may hold a guarantee but writers through the page cache that never sync.

use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use testbed::chance::{happens, one_of, scaled};

/// Whether a tenant with such a load may hold a guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Promise {
    /// It may.
    May,
    /// It may, unless another tenant writes through the page cache without syncing: the host holds up all writers of its page cache when it
    /// is full of dirty pages, under any scheduler.
    MayAlone,
    /// It may not. A write into the page cache is done when it is in memory, which such a tenant has to itself on its reference disk and
    /// shares here: next to another writer it got 70% of the throughput with nearly no requests at the disk. The judge counts calls, so it
    /// cannot tell the disk's part from the memory's.
    Never,
}

/// A kind of load.
pub struct LoadKind {
    /// The name.
    pub name: &'static str,
    draw: fn(&mut Xoshiro256PlusPlus) -> Section,
    /// Whether it requests as much as possible, at a depth of 128.
    pub is_flood: bool,
    /// Whether each of its operations waits for the medium: logs, commits and O_SYNC writers.
    pub is_sync: bool,
    /// Whether it may hold a guarantee.
    pub promise: Promise,
}

impl LoadKind {
    /// Generates such a load.
    pub fn draw(&self, random: &mut Xoshiro256PlusPlus) -> Section {
        (self.draw)(random)
    }
}

/// The options of a job, without its name and the size of its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// Pattern, sizes, depth and syncs.
    pub options: String,
    /// Think times and rates; empty for a closed loop.
    pub pace: String,
    /// `numjobs`.
    pub jobs: u32,
    /// Whether its requests arrive by the clock (`rate_iops`).
    pub is_clocked: bool,
}

impl Section {
    fn new(options: String) -> Section {
        Section { options, pace: String::new(), jobs: 1, is_clocked: false }
    }

    /// The options as lines, with files of `size_mib` in total.
    pub fn text(&self, size_mib: u64) -> String {
        format!("{}{}{}", self.options, self.pace, self.of_jobs(size_mib))
    }

    /// The same requests without pauses and at random places in files of `size_mib` in total.
    pub fn at_random(&self, size_mib: u64) -> String {
        let options = self.options.replace("rw=read\n", "rw=randread\n").replace("rw=write\n", "rw=randwrite\n");
        format!("{options}{}", self.of_jobs(size_mib))
    }

    fn of_jobs(&self, size_mib: u64) -> String {
        let jobs = if self.jobs > 1 { format!("numjobs={}\n", self.jobs) } else { String::new() };
        format!("{jobs}size={}m\n", (size_mib / u64::from(self.jobs)).max(8))
    }
}

pub(super) const DIRECT: &str = "ioengine=libaio\ndirect=1\n";
const CALLS: &str = "ioengine=psync\ndirect=1\n";
const CACHED: &str = "ioengine=psync\ndirect=0\n";

pub(super) fn depth(random: &mut Xoshiro256PlusPlus, most: f64) -> u32 {
    scaled(random, 1.0, most).round() as u32
}

/// Half of the logs pause between two commits.
fn think(random: &mut Xoshiro256PlusPlus) -> String {
    if happens(random, 0.5) { String::new() } else { format!("thinktime={}ms\n", one_of(random, &[1, 2, 5, 10, 20])) }
}

const fn kind(name: &'static str, draw: fn(&mut Xoshiro256PlusPlus) -> Section) -> LoadKind {
    LoadKind { name, draw, is_flood: false, is_sync: false, promise: Promise::May }
}

/// Kinds of tenants' loads.
pub static KINDS: &[LoadKind] = &[
    kind("random-reader", |random| {
        Section::new(format!("{DIRECT}rw=randread\nbs={}k\niodepth={}\n", one_of(random, &[4, 8, 16, 64]), depth(random, 32.0)))
    }),
    kind("mixed", |random| {
        let (read, kib) = (random.random_range(30..=90), one_of(random, &[4, 8, 16]));
        Section::new(format!("{DIRECT}rw=randrw\nrwmixread={read}\nbs={kib}k\niodepth={}\n", depth(random, 32.0)))
    }),
    kind("random-writer", |random| {
        Section::new(format!("{DIRECT}rw=randwrite\nbs={}k\niodepth={}\n", one_of(random, &[4, 16, 64]), depth(random, 16.0)))
    }),
    kind("stream", |random| {
        let (pattern, kib) = (one_of(random, &["read", "read", "write"]), one_of(random, &[4, 64, 256, 1024]));
        Section::new(format!("{DIRECT}rw={pattern}\nbs={kib}k\niodepth={}\n", depth(random, 16.0)))
    }),
    LoadKind {
        is_sync: true,
        ..kind("sync-log", |random| {
            let options = format!("{CALLS}rw=write\nbs={}k\nfdatasync=1\n", one_of(random, &[4, 8, 16]));
            Section { pace: think(random), ..Section::new(options) }
        })
    },
    LoadKind {
        is_sync: true,
        ..kind("group-commit", |random| {
            let sync = one_of(random, &["fdatasync=1", "fdatasync=1", "fsync=2", "fsync=4", "fsync=8"]);
            let options = format!("{CALLS}rw=write\nbs={}k\n{sync}\n", one_of(random, &[4, 8, 16]));
            Section { pace: think(random), jobs: random.random_range(2..=8), ..Section::new(options) }
        })
    },
    LoadKind {
        is_sync: true,
        promise: Promise::MayAlone,
        ..kind("sync-writer", |random| {
            // fio's sync=1 is O_SYNC. The simulator has it for writes through the page cache.
            let (sync, pattern) = (one_of(random, &["1", "dsync"]), one_of(random, &["write", "write", "randwrite"]));
            let options = format!("{CACHED}rw={pattern}\nbs={}k\nsync={sync}\n", one_of(random, &[4, 16, 64]));
            Section { pace: think(random), ..Section::new(options) }
        })
    },
    LoadKind {
        is_sync: true,
        promise: Promise::MayAlone,
        ..kind("syncing-cache-writer", |random| {
            let (pattern, every) = (one_of(random, &["write", "randwrite"]), one_of(random, &[1, 4, 16, 32]));
            let options = format!("{CACHED}rw={pattern}\nbs={}k\nfsync={every}\n", one_of(random, &[4, 16, 64]));
            Section { pace: think(random), ..Section::new(options) }
        })
    },
    LoadKind {
        promise: Promise::Never,
        ..kind("cache-writer", |random| {
            let (pattern, kib) = (one_of(random, &["write", "randwrite"]), one_of(random, &[16, 64, 1024]));
            Section::new(format!("{CACHED}rw={pattern}\nbs={kib}k\n"))
        })
    },
    kind("bursts", |random| {
        let (blocks, ms) = (one_of(random, &[1, 20, 200]), one_of(random, &[20, 500, 2000]));
        let options = format!("{CALLS}rw=randread\nbs={}k\n", one_of(random, &[4, 8, 64]));
        Section { pace: format!("thinktime={ms}ms\nthinktime_blocks={blocks}\n"), ..Section::new(options) }
    }),
    kind("steady", |random| {
        let (rate, kib) = (depth(random, 100.0), one_of(random, &[4, 16, 128]));
        let options = format!("{DIRECT}rw=randread\nbs={kib}k\niodepth=16\n");
        Section { pace: format!("rate_iops={rate}\nrate_process=poisson\n"), is_clocked: true, ..Section::new(options) }
    }),
    LoadKind {
        is_flood: true,
        ..kind("flood", |random| {
            let pattern = one_of(random, &["randread", "randread", "randwrite", "randrw"]);
            Section::new(format!("{DIRECT}rw={pattern}\nbs={}k\niodepth=128\n", one_of(random, &[4, 64, 1024])))
        })
    },
];
