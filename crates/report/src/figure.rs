//! The figures of a comparison, each declared once: key, heading, direction and meaning.

use crate::number;
use crate::record::Record;

/// Which direction of a figure is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// Neither: the figure explains the others. A share of the duration falls when the arm works less, which is good, but also
    /// when the scheduler idles the disk, which may not be, so no row is marked best.
    Neither,
}

/// One figure of the comparison.
pub struct Figure {
    /// Its name in the machine output, with its unit.
    pub key: &'static str,
    /// The two lines of its heading; the second holds the unit.
    pub heading: [&'static str; 2],
    /// Which way is better.
    pub better: Better,
    /// Its meaning, on one line.
    pub meaning: &'static str,
    get: fn(&Record) -> Option<f64>,
}

impl Figure {
    /// The record's value in the heading's unit; `None` if it has none or it is not finite.
    pub fn value(&self, record: &Record) -> Option<f64> {
        (self.get)(record).filter(|value| value.is_finite())
    }

    /// The value as shown in tables and pages.
    pub fn text(&self, record: &Record) -> String {
        self.value(record).map_or_else(|| number::MISSING.to_owned(), number::three_digits)
    }
}

/// 10^6 bytes a second.
pub static THROUGHPUT: Figure = Figure {
    key: "throughput_mb_s",
    heading: ["throughput", "MB/s"],
    better: Better::Higher,
    meaning: "10⁶ bytes completed per second, from the first arrival to the last completion",
    get: |r| Some(r.figures.throughput_mb_s),
};

/// Mean response time: it alone decides the winner on response time, because it counts every request once; a percentile ignores
/// everything beyond it.
pub static MEAN_RESPONSE: Figure = Figure {
    key: "response_mean_ms",
    heading: ["response", "mean ms"],
    better: Better::Lower,
    meaning: "mean response time of all requests, from arrival to completion",
    get: |r| Some(r.figures.response.mean_ms),
};

/// 99th percentile of the response time.
pub static P99_RESPONSE: Figure = Figure {
    key: "response_p99_ms",
    heading: ["p99", "ms"],
    better: Better::Lower,
    meaning: "99 of 100 requests completed within this time",
    get: |r| Some(r.figures.response.p99_ms),
};

/// Jain's fairness index (Jain, Chiu, Hawe: A Quantitative Measure of Fairness, DEC-TR-301, 1984).
pub static FAIRNESS: Figure = Figure {
    key: "fairness_jain",
    heading: ["fairness", "Jain"],
    better: Better::Higher,
    meaning: "Jain's index of the streams' progress: 1 if all are slowed down equally, 1/n if one of n gets everything",
    get: |r| r.figures.fairness_jain,
};

/// Every figure, in the order of the columns.
pub static ALL: &[&Figure] = &[
    &THROUGHPUT,
    &Figure {
        key: "iops",
        heading: ["requests", "1/s"],
        better: Better::Higher,
        meaning: "requests of the trace completed per second (IOPS)",
        get: |r| Some(r.figures.iops),
    },
    &MEAN_RESPONSE,
    &Figure {
        key: "response_stdev_ms",
        heading: ["std dev", "ms"],
        better: Better::Lower,
        meaning: "standard deviation of the response time",
        get: |r| Some(r.figures.response.stdev_ms),
    },
    &Figure {
        key: "response_p50_ms",
        heading: ["p50", "ms"],
        better: Better::Lower,
        meaning: "median response time",
        get: |r| Some(r.figures.response.p50_ms),
    },
    &Figure {
        key: "response_p95_ms",
        heading: ["p95", "ms"],
        better: Better::Lower,
        meaning: "95 of 100 requests completed within this time",
        get: |r| Some(r.figures.response.p95_ms),
    },
    &P99_RESPONSE,
    &Figure {
        key: "response_p999_ms",
        heading: ["p99.9", "ms"],
        better: Better::Lower,
        meaning: "999 of 1,000 requests completed within this time",
        get: |r| Some(r.figures.response.p999_ms),
    },
    &Figure {
        key: "response_max_ms",
        heading: ["max", "ms"],
        better: Better::Lower,
        meaning: "longest response time",
        get: |r| Some(r.figures.response.max_ms),
    },
    &Figure {
        key: "fsync_mean_ms",
        heading: ["fsync", "mean ms"],
        better: Better::Lower,
        meaning: "mean time of the calls of fsync, which count in no other column: for databases, the wait of a commit",
        get: |r| r.figures.sync_response.as_ref().map(|response| response.mean_ms),
    },
    &Figure {
        key: "fsync_p99_ms",
        heading: ["fsync", "p99 ms"],
        better: Better::Lower,
        meaning: "99 of 100 calls of fsync returned within this time",
        get: |r| r.figures.sync_response.as_ref().map(|response| response.p99_ms),
    },
    &FAIRNESS,
    &Figure {
        key: "worst_slowdown",
        heading: ["worst", "slowdown"],
        better: Better::Lower,
        meaning: "slowdown of the worst-treated stream: its mean response time over the one it has alone on the disk",
        get: |r| r.figures.worst_slowdown,
    },
    &Figure {
        key: "queue_size_mean",
        heading: ["queue", "mean"],
        better: Better::Neither,
        meaning: "mean number of requests in the queue and at the disk (iostat’s aqu-sz); no best is marked, since processes that get \
                  answers sooner also ask for more",
        get: |r| Some(r.figures.queue_size_mean),
    },
    &Figure {
        key: "disk_utilisation_percent",
        heading: ["disk", "busy %"],
        better: Better::Neither,
        meaning: "share of the duration in which the disk was busy; no best is marked, since idling on purpose lowers it too",
        get: |r| Some(r.figures.disk_utilisation * 100.0),
    },
    &Figure {
        key: "mean_seek_cylinders",
        heading: ["seek", "cylinders"],
        better: Better::Lower,
        meaning: "mean distance the arm moved per request that needed mechanical access",
        get: |r| r.figures.mean_seek_cylinders,
    },
    &Figure {
        key: "seek_time_percent",
        heading: ["seek", "time %"],
        better: Better::Neither,
        meaning: "share of the duration in which the arm moved (of an array: mean over its disks); no best is marked, since idling on purpose lowers it too",
        get: |r| r.figures.seek_time_share.map(|share| share * 100.0),
    },
    &Figure {
        key: "page_cache_hit_percent",
        heading: ["memory", "hits %"],
        better: Better::Higher,
        meaning: "page cache hit ratio: share of the pages of buffered reads and writes found in the cache",
        get: |r| r.figures.memory.as_ref()?.page_cache_hit_ratio.map(|ratio| ratio * 100.0),
    },
    &Figure {
        key: "write_amplification",
        heading: ["flash", "written ×"],
        better: Better::Lower,
        meaning: "write amplification: bytes the flash device programmed per byte written to it",
        get: |r| r.figures.flash.as_ref()?.write_amplification,
    },
    &Figure {
        key: "flash_mapping_hit_percent",
        heading: ["flash map", "hits %"],
        better: Better::Higher,
        meaning: "hit ratio of the flash device's cached mapping table",
        get: |r| r.figures.flash.as_ref()?.mapping_hit_ratio.map(|ratio| ratio * 100.0),
    },
    &Figure {
        key: "flash_collection_s",
        heading: ["flash", "GC s"],
        better: Better::Lower,
        meaning: "total time the flash device's dies spent on garbage collection",
        get: |r| r.figures.flash.as_ref().map(|flash| flash.collection_s),
    },
    &Figure {
        key: "scheduler_cpu_ns_per_request",
        heading: ["CPU", "ns/req"],
        better: Better::Lower,
        meaning: "processor time of the scheduler, and of the controller if there is one, per request, on the machine that ran it",
        get: |r| r.figures.scheduler_cpu_ns_per_request,
    },
];
