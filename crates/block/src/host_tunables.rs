//! The tunables of a Linux host besides the scheduler, under Linux's names: `/sys/block/*/queue`, then `/proc/sys/vm`. Settings of the
//! simulated host, which the agent also applies to a real one; range and meaning are declared here for both.

use crate::{Tunable, Unit};

/// Names of the tunables below `/sys/block/*/queue`, which belong to a device; the others belong to the machine.
pub const QUEUE_TUNABLES: [&str; 5] = [NR_REQUESTS.name, MAX_SECTORS_KB.name, NOMERGES.name, WBT_LAT_USEC.name, READ_AHEAD_KB.name];

/// All host tunables, in the order in which they are listed.
pub static HOST_TUNABLES: &[Tunable] = &[
    NR_REQUESTS,
    MAX_SECTORS_KB,
    NOMERGES,
    WBT_LAT_USEC,
    READ_AHEAD_KB,
    DIRTY_RATIO,
    DIRTY_BACKGROUND_RATIO,
    DIRTY_BYTES,
    DIRTY_BACKGROUND_BYTES,
    DIRTY_EXPIRE_CENTISECS,
    DIRTY_WRITEBACK_CENTISECS,
    SWAPPINESS,
    PAGE_CLUSTER,
];

/// `nr_requests`.
pub const NR_REQUESTS: Tunable = Tunable::new(Unit::Count, 4..=2048, 256).logarithmic().named(
    "nr_requests",
    "Requests that may be queued or at the device at once, synchronous and asynchronous ones each. More let the scheduler sort \
     and merge better; fewer keep waiting times short.",
);

/// `max_sectors_kb`.
pub const MAX_SECTORS_KB: Tunable = Tunable::new(Unit::Kibibytes, 4..=32_768, 1280)
    .logarithmic()
    .named("max_sectors_kb", "The largest request. Larger ones are split, and merging stops there.");

/// `nomerges`.
pub const NOMERGES: Tunable = Tunable::new(Unit::Count, 0..=2, 0).named(
    "nomerges",
    "Which requests that touch are merged: 0 all, 1 only with the request that was queued or grew last, 2 none.",
);

/// `wbt_lat_usec`.
pub const WBT_LAT_USEC: Tunable = Tunable::new(Unit::Microseconds, -1..=10_000_000, -1).named(
    "wbt_lat_usec",
    "The time that reads may take at the device before write-back throttling lets fewer buffered writes to it; 0 \
     throttles nothing. -1 asks for the default: 75,000 for disks that turn and 2,000 for others under none, mq-deadline and \
     kyber, off under bfq and schedulers from before Linux 4.10.",
);

/// `read_ahead_kb`.
pub const READ_AHEAD_KB: Tunable = Tunable::new(Unit::Kibibytes, 0..=65_536, 128)
    .logarithmic()
    .named("read_ahead_kb", "How far the kernel reads ahead of a process that reads a file in order. 0 reads one page at a time.");

/// `dirty_ratio`.
pub const DIRTY_RATIO: Tunable = Tunable::new(Unit::Percent, 1..=100, 20).named(
    "dirty_ratio",
    "Share of the memory that could hold file pages which may be written and not yet on the device. Writers are slowed down \
     from half way between dirty_background_ratio and here.",
);

/// `dirty_background_ratio`.
pub const DIRTY_BACKGROUND_RATIO: Tunable = Tunable::new(Unit::Percent, 0..=100, 10).named(
    "dirty_background_ratio",
    "From this share of written pages on, the kernel writes them back in the background. Not below dirty_ratio, half of that is \
     taken.",
);

/// Maximum limit of dirty pages in bytes: 1 TiB, the maximum memory of a simulated host.
const MOST_DIRTY_BYTES: i64 = 1 << 40;

/// `dirty_bytes`. The kernel rejects less than two pages, except 0 at boot (`dirty_bytes_min` in `mm/page-writeback.c`).
pub const DIRTY_BYTES: Tunable = Tunable::new(Unit::Count, 0..=MOST_DIRTY_BYTES, 0).logarithmic().named(
    "dirty_bytes",
    "As dirty_ratio, in bytes, rounded up to whole pages; 0 leaves it to dirty_ratio. Of the two the one that was set last holds.",
);

/// `dirty_background_bytes`.
pub const DIRTY_BACKGROUND_BYTES: Tunable = Tunable::new(Unit::Count, 0..=MOST_DIRTY_BYTES, 0).logarithmic().named(
    "dirty_background_bytes",
    "As dirty_background_ratio, in bytes, rounded up to whole pages; 0 leaves it to dirty_background_ratio. Of the two the one that \
     was set last holds.",
);

/// `dirty_expire_centisecs`.
pub const DIRTY_EXPIRE_CENTISECS: Tunable = Tunable::new(Unit::Centiseconds, 0..=360_000, 3000)
    .logarithmic()
    .named("dirty_expire_centisecs", "A written page this old is written back when the kernel next looks.");

/// `dirty_writeback_centisecs`.
pub const DIRTY_WRITEBACK_CENTISECS: Tunable = Tunable::new(Unit::Centiseconds, 0..=360_000, 500)
    .logarithmic()
    .named("dirty_writeback_centisecs", "How often the kernel looks for old written pages; 0 never.");

/// `swappiness`.
pub const SWAPPINESS: Tunable = Tunable::new(Unit::Count, 0..=200, 60).named(
    "swappiness",
    "How cheap swapping is against reading files again when memory is short: 100 says equal, 0 swaps only where nothing else is \
     left.",
);

/// `page-cluster`.
pub const PAGE_CLUSTER: Tunable =
    Tunable::new(Unit::Count, 0..=10, 3).named("page-cluster", "Swapped pages read at once, as a power of two: 3 reads eight.");
