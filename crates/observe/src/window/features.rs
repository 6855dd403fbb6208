//! The features of a window: "Self-Learning Disk Scheduling", Table 2, right column and section 4.3, and others that distinguish
//! workloads.

use block::{Nanos, Op};

use super::sums::Sums;
use super::table::{Feature, LOAD, SERVICE, described, feature};
use crate::event::SECTOR_BYTES;

/// Every feature of a window, in the order of [`Features`].
pub static FEATURES: &[Feature; TABLE.len()] = &described(TABLE);

/// A window's features, in the order of [`FEATURES`] and in their units, never infinite; NaN for missing values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Features(pub [f64; FEATURES.len()]);

impl Features {
    /// The feature of this name; `None` if none has it.
    pub fn get(&self, name: &str) -> Option<f64> {
        FEATURES.iter().position(|feature| feature.name == name).map(|index| self.0[index])
    }

    /// The features of the sums over a window of this length.
    pub(super) fn of(sums: &Sums, duration: Nanos) -> Features {
        Features(std::array::from_fn(|index| {
            let value = TABLE[index].1(sums, duration);
            if value.is_finite() { value } else { f64::NAN }
        }))
    }
}

/// Nanoseconds per second. Derived: 10⁹ nanoseconds.
const NANOS_PER_S: f64 = 1e9;

type Row = (Feature, fn(&Sums, Nanos) -> f64);

fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all as f64
}

/// The features of a window. Source: Table 2 of "Self-Learning Disk Scheduling", right column; all further rows are choices.
const TABLE: &[Row] = &[
    // Kinds of requests.
    (feature("reads", "requests", SERVICE, "Reads queued."), |sums, _| sums.kind(Op::Read).requests as f64),
    (feature("writes", "requests", SERVICE, "Writes queued, discards not counted."), |sums, _| {
        sums.kind(Op::Write).requests as f64
    }),
    (
        feature(
            "read_write_ratio",
            "",
            LOAD,
            "Reads and one by writes and one; the ones keep it finite where there are only reads.",
        ),
        |sums, _| ratio(sums.kind(Op::Read).requests + 1, sums.kind(Op::Write).requests + 1),
    ),
    (feature("read_share", "", LOAD, "Reads among the requests."), |sums, _| ratio(sums.kind(Op::Read).requests, sums.requests)),
    (feature("discard_share", "", LOAD, "Discards among the requests."), |sums, _| {
        ratio(sums.kind(Op::Discard).requests, sums.requests)
    }),
    (feature("sync_share", "", LOAD, "Synchronous requests: reads, and writes flagged as such."), |sums, _| {
        ratio(sums.sync(), sums.requests)
    }),
    (feature("write_back_share", "", LOAD, "Asynchronous writes among the requests."), |sums, _| {
        ratio(sums.kind(Op::Write).requests - sums.kind(Op::Write).sync, sums.requests)
    }),
    // Times of arrival.
    (feature("requests_per_s", "1/s", SERVICE, "Requests queued in a second."), |sums, duration| {
        sums.requests as f64 / duration.as_secs_f64()
    }),
    (feature("gap_mean_s", "s", SERVICE, "Between an arrival and the one before, mean."), |sums, _| {
        sums.followers.gap_ns.mean() / NANOS_PER_S
    }),
    (
        feature(
            "gap_variation",
            "",
            SERVICE,
            "Standard deviation of these gaps by their mean: 0 of a clock, 1 of independent arrivals.",
        ),
        |sums, _| sums.followers.gap_ns.variation(),
    ),
    (
        feature(
            "dispersion_10_ms",
            "",
            SERVICE,
            "Burstiness: variance by mean of the arrivals in 10 ms; 1 of independent arrivals.",
        ),
        |sums, duration| sums.bursts.dispersion(duration)[0],
    ),
    (feature("dispersion_320_ms", "", SERVICE, "The same in 320 ms."), |sums, duration| sums.bursts.dispersion(duration)[5]),
    (
        feature(
            "hurst",
            "",
            SERVICE,
            "Self-similarity, the Hurst parameter over 10 to 320 ms: 0.5 of independent arrivals, 1 of bursts of bursts.",
        ),
        |sums, duration| sums.bursts.hurst(duration),
    ),
    // Streams.
    (feature("streams", "streams", LOAD, "Streams (processes) that queued requests."), |sums, _| sums.streams.streams as f64),
    (
        feature(
            "streams_effective",
            "streams",
            SERVICE,
            "Number of streams with equal shares that would be as mixed (inverse Simpson index).",
        ),
        |sums, _| (sums.requests as f64).powi(2) / sums.streams.squares as f64,
    ),
    (feature("stream_switch_share", "", SERVICE, "Requests from another stream than the request before."), |sums, _| {
        ratio(sums.followers.switches, sums.followers.count)
    }),
    (
        feature("dependent_share", "", SERVICE, "Synchronous requests that are the only one of their stream: one at a time."),
        |sums, _| ratio(sums.streams.dependent, sums.requests),
    ),
    (
        feature("think_mean_s", "s", LOAD, "Of those, from the end of the stream's request before to the arrival, mean."),
        |sums, _| sums.streams.think_ns.mean() / NANOS_PER_S,
    ),
    (feature("think_variation", "", LOAD, "Standard deviation of these think times by their mean."), |sums, _| {
        sums.streams.think_ns.variation()
    }),
    // Order.
    (
        feature("sequential_share", "", LOAD, "Requests that begin where their stream's last one ended, or up to 32 KiB behind."),
        |sums, _| ratio(sums.sequential(), sums.requests),
    ),
    (
        feature("sequential_overall_share", "", SERVICE, "Requests that so follow the request before, whosever it was."),
        |sums, _| ratio(sums.places.sequential_overall, sums.requests),
    ),
    (feature("sequential_read_share", "", LOAD, "Sequential in their stream, among the reads."), |sums, _| {
        ratio(sums.kind(Op::Read).sequential, sums.kind(Op::Read).requests)
    }),
    (feature("sequential_write_share", "", LOAD, "Sequential in their stream, among the writes."), |sums, _| {
        ratio(sums.kind(Op::Write).sequential, sums.kind(Op::Write).requests)
    }),
    (
        feature("run_mean_bytes", "bytes", SERVICE, "Asked for in one sequential run of a stream within the window, mean."),
        |sums, _| sums.sizes.sectors.mean() * f64::from(SECTOR_BYTES) * ratio(sums.requests, sums.streams.runs),
    ),
    // Sizes.
    (feature("size_mean_bytes", "bytes", LOAD, "A request's size, mean."), |sums, _| {
        sums.sizes.sectors.mean() * f64::from(SECTOR_BYTES)
    }),
    (feature("size_variation", "", LOAD, "Standard deviation of the sizes by their mean."), |sums, _| {
        sums.sizes.sectors.variation()
    }),
    (
        feature("size_p95_bytes", "bytes", LOAD, "19 of 20 requests are at most so large; up to a sixteenth too small."),
        |sums, _| sums.sizes.p95_sectors * f64::from(SECTOR_BYTES),
    ),
    (feature("read_size_mean_bytes", "bytes", LOAD, "A read's size, mean."), |sums, _| {
        ratio(sums.kind(Op::Read).sectors, sums.kind(Op::Read).requests) * f64::from(SECTOR_BYTES)
    }),
    (feature("write_size_mean_bytes", "bytes", LOAD, "A write's size, mean."), |sums, _| {
        ratio(sums.kind(Op::Write).sectors, sums.kind(Op::Write).requests) * f64::from(SECTOR_BYTES)
    }),
    (feature("aligned_share", "", LOAD, "Requests that begin and end at multiples of 4 KiB."), |sums, _| {
        ratio(sums.sizes.aligned, sums.requests)
    }),
    // Positions.
    (
        feature(
            "distance_mean_log2",
            "log2 sectors",
            SERVICE,
            "From the end of the request before to this one's beginning, mean of log2(1 + sectors).",
        ),
        |sums, _| sums.followers.distance_log2.mean(),
    ),
    (feature("distance_deviation_log2", "log2 sectors", SERVICE, "Standard deviation of these logarithms."), |sums, _| {
        sums.followers.distance_log2.deviation()
    }),
    (feature("stream_distance_mean_log2", "log2 sectors", LOAD, "The same distance within a stream, mean."), |sums, _| {
        sums.streams.distance_log2.mean()
    }),
    (feature("stream_distance_deviation_log2", "log2 sectors", LOAD, "Standard deviation of these logarithms."), |sums, _| {
        sums.streams.distance_log2.deviation()
    }),
    (feature("span_bytes", "bytes", SERVICE, "From the lowest sector asked for to the highest."), |sums, _| {
        sums.places.span_sectors() * f64::from(SECTOR_BYTES)
    }),
    (
        feature("footprint_bytes", "bytes", SERVICE, "How much is touched, in regions of 1 MiB: an estimate, good up to 10 GiB."),
        |sums, _| sums.places.footprint.bytes(),
    ),
    (
        feature("repeat_share", "", LOAD, "Requests in whose first 4 KiB another began, among the last thousand or so places."),
        |sums, _| ratio(sums.repeats, sums.requests),
    ),
    // Concurrency.
    (feature("depth_mean", "requests", SERVICE, "Requests queued and not done that a request meets, mean."), |sums, _| {
        ratio(sums.depths.sum, sums.requests)
    }),
    (feature("depth_max", "requests", SERVICE, "The most that one meets."), |sums, _| {
        if sums.requests == 0 { f64::NAN } else { sums.depths.max as f64 }
    }),
    (feature("stream_depth_mean", "requests", SERVICE, "Those of its own stream, mean."), |sums, _| {
        ratio(sums.depths.in_stream, sums.requests)
    }),
    (feature("idle_arrival_share", "", SERVICE, "Requests that meet none: they reach an idle disk."), |sums, _| {
        ratio(sums.depths.idle_arrivals, sums.requests)
    }),
];
