//! Groups of identical streams that together match the counters.
//!
//! Some parameters follow from the counters rather than from a prior: the number of requests in flight is rate times response time
//! (Little's law), and equals the number of busy closed streams. If a hypothesis has more streams, the others think meanwhile, for the time
//! with which the rate matches.

use block::{Nanos, Op};

use crate::counters::counted::{Counted, Side};
use crate::counters::draws::{Random, Reader};
use crate::load::{AssumedRequest, AssumedStream, Pace};

/// Coordinates read: for reads and for writes, a mix and two groups each; and some for writes only. Derived: five of a mix, six of a group,
/// and four for writes.
pub const DIMENSIONS: usize = 2 * (5 + 2 * 6) + 4;

/// Maximum number of streams of a group; more would behave alike. Choice: bounds the size of a load; not varied.
const MAX_STREAMS: u32 = 48;
/// Maximum number of streams per busy stream. Choice: as [`MAX_STREAMS`].
const MAX_IDLE: f64 = 48.0;
/// A direction with at most this fraction of the requests is omitted. Choice: such requests hardly change the counters; not varied.
const RARE: f64 = 0.01;
/// Alignment of requests, in sectors. Derived: a page of 4 KiB in sectors of 512 bytes.
const BLOCK: u64 = 4_096 / 512;
/// Maximum size of a request, in bytes. Choice: three times the usual `max_sectors_kb` of 1,280; not varied.
const LARGEST: f64 = 4.0 * 1024.0 * 1024.0;
/// Standard deviation of the logarithm of the rate, among the streams of a group. Choice: streams of a group differ by a factor of two; not
/// varied.
const DIFFER: f64 = 0.7;
/// Maximum number of requests in a burst. Choice: the pages of a chunk of write-back (`MIN_WRITEBACK_PAGES` in `fs/fs-writeback.c`, 4 MiB);
/// not varied.
const MAX_IN_BURST: f64 = 1_024.0;
/// Time between two requests of a burst, in seconds. Choice: the order of the time in which the kernel issues a request; not varied.
const IN_BURST_S: f64 = 20e-6;

/// A group of identical streams.
#[derive(Clone, Debug)]
pub struct Group {
    /// Number of streams.
    pub streams: u32,
    /// Queue depth of each stream.
    pub depth: u32,
    /// When they issue requests.
    pub pace: Pace,
    /// Requests per second of all streams together.
    pub per_s: f64,
    /// Requests of a sequential run; 1 for random access.
    pub run: u32,
    /// Mean time between requests of an open stream, or think time after a completion, in seconds.
    after_s: f64,
    /// Requests per burst; `after_s` is then the time between bursts.
    burst: u32,
    /// Fraction of reads; sizes of reads and of writes, in bytes.
    reads: f64,
    bytes: (f64, f64),
    /// Whether its writes are synchronous.
    sync: bool,
    /// Writes per flush; 0 for no flushes.
    flush_after: u32,
    /// Area on the device: start and length in sectors.
    begin: u64,
    area: u64,
}

/// Division of one direction into sequential and random streams.
struct Mix {
    in_order: f64,
    run: u32,
    /// Size of random requests relative to sequential ones; response time of sequential requests relative to random ones.
    smaller: f64,
    quicker: f64,
}

/// Drawn parameters of a group.
struct Manner {
    is_open: bool,
    /// Streams per request in flight, including idle streams.
    more: f64,
    /// Whether the other streams wait for room in the queue, which no counter shows, rather than think.
    waits: bool,
    depth: f64,
    begin: f64,
    area: f64,
}

impl Mix {
    fn at(reader: &mut Reader) -> Mix {
        let (kind, share, run) = (reader.unit(), reader.unit(), reader.unit());
        Mix {
            in_order: if kind < 0.35 {
                0.0
            } else if kind < 0.65 {
                1.0
            } else {
                share
            },
            // Whole files, or runs of some requests.
            run: if run < 0.6 { u32::MAX } else { (8.0 * 64f64.powf((run - 0.6) / 0.4)) as u32 },
            smaller: reader.scaled(1.0 / 128.0, 1.0),
            quicker: reader.scaled(1.0 / 20.0, 4.0),
        }
    }
}

impl Manner {
    fn at(reader: &mut Reader) -> Manner {
        let (pace, idle, depth) = (reader.unit(), reader.unit(), reader.unit());
        Manner {
            is_open: pace < 0.25,
            more: if idle < 0.3 { 1.0 } else { MAX_IDLE.powf((idle - 0.3) / 0.7) },
            depth: if depth < 0.6 { 1.0 } else { 64f64.powf((depth - 0.6) / 0.4) },
            waits: reader.happens(0.25),
            begin: reader.unit(),
            area: reader.scaled(1e-4, 1.0),
        }
    }
}

/// The groups at a point.
pub fn at(reader: &mut Reader, counted: &Counted, capacity_sectors: u64) -> Vec<Group> {
    let [of_reads, of_writes] = [(); 2].map(|()| (Mix::at(reader), [Manner::at(reader), Manner::at(reader)]));
    let (mixed, buffered) = (reader.happens(0.4), reader.happens(0.5));
    let (bursts, period_s) = (reader.happens(0.5), reader.scaled(0.05, 5.0));
    let is_there = |side: &Side| side.requests_per_s > RARE * counted.requests_per_s();
    let Counted { read, write, flushes_per_s, .. } = counted;
    let flush_after = (write.asked_per_s() / flushes_per_s.max(1e-9)).round();
    let flush_after = if flush_after > 1e4 { 0 } else { (flush_after as u32).max(1) };
    if is_there(read) && is_there(write) && mixed {
        // The same streams read and write, at random positions.
        let all = Side {
            requests_per_s: counted.requests_per_s(),
            response_s: counted.in_flight() / counted.requests_per_s(),
            ..Side::default()
        };
        let [manner, _] = &of_reads.1;
        let mut group = group(&all, manner, 1, capacity_sectors);
        group.reads = read.asked_per_s() / (read.asked_per_s() + write.asked_per_s());
        group.per_s = read.asked_per_s() + write.asked_per_s();
        group.bytes = (read.asked_bytes(), write.asked_bytes());
        group.flush_after = flush_after;
        return vec![group];
    }
    let mut groups = Vec::new();
    if is_there(read) {
        groups.extend(parts(read, &of_reads.0, &of_reads.1, capacity_sectors));
    }
    if is_there(write) {
        let mut writes = parts(write, &of_writes.0, &of_writes.1, capacity_sectors);
        for group in &mut writes {
            (group.reads, group.flush_after) = (0.0, flush_after);
            group.sync = !buffered || flush_after > 0;
            // Write-back comes in bursts: the kernel writes back all expired dirty pages at once.
            if buffered && bursts && flush_after == 0 {
                let many = (group.per_s * period_s).clamp(1.0, MAX_IN_BURST);
                group.burst = many as u32;
                (group.pace, group.streams, group.after_s) = (Pace::Open, 1, many / group.per_s);
            }
        }
        groups.extend(writes);
    }
    groups
}

/// One direction as one or two groups.
fn parts(side: &Side, mix: &Mix, manners: &[Manner; 2], capacity_sectors: u64) -> Vec<Group> {
    let (per_s, bytes) = (side.asked_per_s(), side.asked_bytes());
    let part = |share: f64, response: f64, bytes: f64, run: u32, manner: &Manner| {
        let part = Side { requests_per_s: share * per_s, response_s: response, ..Side::default() };
        let mut group = group(&part, manner, run, capacity_sectors);
        group.bytes = (bytes.min(LARGEST), bytes.min(LARGEST));
        group
    };
    // Parameters of both parts, such that their means match the counters.
    let at_random = 1.0 - mix.in_order;
    let large = bytes / (mix.in_order + at_random * mix.smaller);
    let long = side.response_s / (mix.in_order * mix.quicker + at_random);
    let mut parts = Vec::new();
    if mix.in_order > 0.0 {
        parts.push(part(mix.in_order, long * mix.quicker, large, mix.run, &manners[0]));
    }
    if at_random > 0.0 {
        let (bytes, response) = if mix.in_order > 0.0 { (large * mix.smaller, long) } else { (bytes, side.response_s) };
        parts.push(part(at_random, response, bytes, 1, &manners[1]));
    }
    parts
}

/// A group with this request rate and response time.
fn group(side: &Side, manner: &Manner, run: u32, capacity_sectors: u64) -> Group {
    let (per_s, response_s) = (side.requests_per_s.max(1e-3), side.response_s);
    // Open streams may have nothing in flight.
    let least = if manner.is_open { 0.0 } else { side.in_flight() };
    let slots = (least.max(1.0) * manner.more).max(1.0);
    let depth = manner.depth.min(slots).round().max(1.0);
    let streams = (slots / depth).round().clamp(1.0, MAX_STREAMS.into());
    let after_s = if manner.waits && !manner.is_open {
        0.0
    } else if manner.is_open || (depth > 1.0 && manner.more > 1.0) {
        streams / per_s
    } else if depth > 1.0 {
        0.0
    } else {
        (streams / per_s - response_s).max(0.0)
    };
    let area = ((capacity_sectors as f64 * manner.area) as u64).max(64 * BLOCK).min(capacity_sectors);
    Group {
        streams: streams as u32,
        depth: depth as u32,
        pace: if manner.is_open { Pace::Open } else { Pace::Closed },
        per_s,
        run,
        after_s,
        burst: 1,
        reads: 1.0,
        bytes: (0.0, 0.0),
        sync: true,
        flush_after: 0,
        begin: ((capacity_sectors - area) as f64 * manner.begin) as u64 / BLOCK * BLOCK,
        area,
    }
}

impl Group {
    /// Its streams, with this number of requests each.
    pub fn made(&self, requests: usize, random: &mut Random) -> Vec<AssumedStream> {
        (0..self.streams).map(|number| self.stream(number, requests.max(2 * self.burst as usize), random)).collect()
    }

    fn stream(&self, number: u32, requests: usize, random: &mut Random) -> AssumedStream {
        // Each sequential stream has a part of the area; random ones share it.
        let apart = self.area / u64::from(self.streams.max(1));
        let mut place = self.begin + u64::from(number) * apart / BLOCK * BLOCK;
        let mut left = self.run;
        // Rates vary among the streams; their mean is as counted.
        let slower = if self.streams > 1 { (DIFFER * random.normal() + DIFFER * DIFFER / 2.0).exp() } else { 1.0 };
        let mut made = Vec::with_capacity(requests);
        let mut written = 0;
        for count in 0..requests as u32 {
            let op = if random.unit() < self.reads { Op::Read } else { Op::Write };
            let bytes = if op == Op::Read { self.bytes.0 } else { self.bytes.1 };
            let sectors = sectors(bytes, random);
            if left == 0 || self.run == 1 {
                let room = self.area.saturating_sub(u64::from(sectors)).max(BLOCK);
                place = self.begin + (random.unit() * room as f64) as u64 / BLOCK * BLOCK;
                left = self.run;
            }
            left -= 1;
            made.push(AssumedRequest {
                op,
                sync: op == Op::Read || self.sync,
                sectors,
                lba: place,
                after: self.after(count, slower, random),
            });
            place += u64::from(sectors);
            written += u32::from(op == Op::Write);
            if self.flush_after > 0 && written == self.flush_after {
                written = 0;
                made.push(AssumedRequest { op: Op::Write, sync: true, sectors: 0, lba: 0, after: Nanos::ZERO });
            }
        }
        AssumedStream { pace: self.pace, depth: self.depth, requests: made }
    }

    fn after(&self, count: u32, slower: f64, random: &mut Random) -> Nanos {
        let seconds = if self.burst > 1 && !count.is_multiple_of(self.burst) {
            IN_BURST_S
        } else if self.burst > 1 {
            self.after_s
        } else {
            random.exponential(slower * self.after_s)
        };
        Nanos::from_secs_f64(seconds)
    }
}

/// A random whole number of blocks with this mean size in bytes, in sectors.
fn sectors(bytes: f64, random: &mut Random) -> u32 {
    let blocks = bytes / (BLOCK as f64 * 512.0);
    if blocks < 1.0 {
        return ((bytes / 512.0).round() as u32).max(1);
    }
    let whole = blocks.floor();
    let more = u64::from(random.unit() < blocks - whole);
    ((whole as u64 + more) * BLOCK) as u32
}
