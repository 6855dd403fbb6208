//! The drive's cache and controller: command overhead, read-ahead, cache segments, write caching.

use std::collections::BTreeMap;

use statistics::Rank;

use crate::device::access::{Access, MIN_COUNT, RECENT};
use crate::device::findings::Finding;
use crate::device::seek::Curve;

use super::tracks::Tracks;
use super::turn::Turn;

/// Default command overhead. Choice: within the 0.1 to 1.1 ms of data sheets and measurements, nearer to those of later drives; not varied.
const USUAL_OVERHEAD_MS: f64 = 0.25;
/// Maximum command overhead. Source: data sheets and measurements (`research/research/src/devices/broad_disk.rs`).
const MAX_OVERHEAD_MS: f64 = 1.1;
/// Overhead of a cache hit, as a fraction of that of a miss. Choice: a hit needs no command to the arm; only the ratio of two defaults; not
/// varied.
const OF_HIT: f64 = 0.6;
/// Default bus rate, as a factor on the media rate. Choice: buses are chosen to be faster than the media, and a faster one hardly shows;
/// not varied.
const BUS_TO_MEDIA: f64 = 1.5;
/// Maximum factor by which the bus is slower than usual media: 5 for a current drive behind USB 2. Reads that all take the same longer time
/// each miss a revolution. Choice: between that and the 17 of a missed revolution with 64 KiB on a 4 TB drive; not varied.
const SLOWEST_BUS_TO_MEDIA: f64 = 6.0;
/// Default number of cache segments. Choice: profiles have 2 to 64 (`disks`); not varied.
const USUAL_SEGMENTS: u32 = 16;
/// Without reads for comparison, a write faster than this counts as buffered; before the mechanics are known, a sequential read counts as a
/// hit if it takes less than this longer than its transfer. In ms. Choice: command and transfer of a buffered write take less, a quarter of
/// a revolution takes more; not varied.
const QUICK_MS: f64 = 1.0;

/// An estimate, and the number of accesses that it is based on.
#[derive(Clone, Copy, Debug)]
pub struct Inferred<T> {
    /// The estimate.
    pub value: T,
    /// Number of accesses; 0 for a default.
    pub accesses: usize,
}

/// Parameters of the drive's cache and controller.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Whether writes are reported before they reach the media.
    pub write_cache: Inferred<bool>,
    /// Whether the drive reads ahead.
    pub reads_ahead: Inferred<bool>,
    /// Number of cache segments.
    pub segments: Inferred<u32>,
    /// Overhead of a command that is served by the media, in ms.
    pub overhead_ms: f64,
    /// Overhead of a command that is served from the cache, in ms.
    pub hit_ms: f64,
    /// Overhead of a write that is reported early, in ms.
    pub early_ms: f64,
    /// Number of accesses that the overheads are based on; 0 for defaults.
    pub timed: usize,
    /// Transfer time of a sector on the bus, in ms.
    pub bus_sector_ms: f64,
    /// The evidence for `bus_sector_ms`; `None` for a default.
    from_memory: Option<FromMemory>,
}

/// Whether the drive has a write cache: at least a fifth of the writes are faster than the mechanics allow. `true` if there are too few
/// writes.
pub fn buffers_writes(accesses: &[Access]) -> Inferred<bool> {
    let far = |access: &&Access| !access.may_hit && access.before.is_some() && access.sectors <= 256;
    let mut reads: Vec<f64> = accesses.iter().filter(far).filter(|access| !access.write).map(Access::service_ms).collect();
    let writes: Vec<f64> = accesses.iter().filter(far).filter(|access| access.write).map(Access::service_ms).collect();
    if writes.len() < MIN_COUNT {
        return Inferred { value: true, accesses: 0 };
    }
    let quick_ms = if reads.len() >= MIN_COUNT { 0.5 * quantile(&mut reads, 0.1) } else { QUICK_MS };
    let quick = writes.iter().filter(|ms| **ms < quick_ms).count();
    Inferred { value: quick * 5 >= writes.len(), accesses: writes.len() }
}

/// Number of classes of sequential accesses, by the binary logarithm of the number of accesses in between. Derived: up to [`RECENT`] of
/// them.
const SORTS: usize = RECENT.ilog2() as usize + 1;
/// Accesses of a class count as media accesses if the fraction of hits is at most this. Choice: rare hits hardly move the lower edge of the
/// band; not varied.
const RARELY: f64 = 0.1;

/// Times that differ by less count as equal: no drive has a rotation time below 4 ms. Choice: a quarter of that; random waits for the
/// platter differ by more; not varied.
const SAME_MS: f64 = 1.0;

/// Times of reads from the drive's cache, inferred from sequential reads.
///
/// A media access has a rotational latency that is uniform between 0 and a revolution. If most sequential reads of a size take the same
/// time, they were hits. Two sizes separate the command's time from that of a sector. With one size, the sector's is known only if the
/// total is too long for a command and the transfer from the media: then the bus is slower.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FromMemory {
    /// Time of a command, in ms.
    command_ms: f64,
    /// Time per sector on the bus, in ms.
    pub sector_ms: f64,
    /// Error of `sector_ms`, in ms.
    error_ms: f64,
    /// Number of reads that it is based on.
    accesses: usize,
}

impl FromMemory {
    /// `None` if the reads do not show it.
    pub fn found(accesses: &[Access], tracks: &Tracks) -> Option<FromMemory> {
        let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for access in accesses.iter().filter(|access| !access.write && access.follows.is_some()) {
            by_size.entry(access.sectors).or_default().push(access.service_ms());
        }
        by_size.retain(|_, times| times.len() >= MIN_COUNT);
        let (mut sizes, mut accesses) = (Vec::new(), 0);
        for (&sectors, times) in &mut by_size {
            if quantile(times, 0.5) - quantile(times, 0.05) < SAME_MS {
                sizes.push((sectors as f64, quantile(times, 0.2)));
                accesses += times.len();
            }
        }
        if let Some(line) = line(&sizes, accesses) {
            // A longer command would wait for the platter.
            let makes_sense = line.sector_ms > 0.0 && (0.0..=MAX_OVERHEAD_MS).contains(&line.command_ms);
            return makes_sense.then_some(line);
        }
        // The overhead is the smallest fraction for the largest size.
        let (&sectors, times) = by_size.iter_mut().next_back().filter(|(_, times)| times.len() >= 2 * MIN_COUNT)?;
        let (low, middle, high) = (quantile(times, 0.05), quantile(times, 0.5), quantile(times, 0.95));
        let from_media_ms = sectors as f64 * tracks.transfer_ms(0, 1);
        let is_slower = (from_media_ms..from_media_ms * SLOWEST_BUS_TO_MEDIA).contains(&(middle - MAX_OVERHEAD_MS));
        let (command_ms, a_sector) = (USUAL_OVERHEAD_MS * OF_HIT, 1.0 / sectors as f64);
        (is_slower && high - low < SAME_MS).then_some(FromMemory {
            command_ms,
            sector_ms: (middle - command_ms) * a_sector,
            error_ms: (MAX_OVERHEAD_MS - command_ms) * a_sector,
            accesses: times.len(),
        })
    }

    /// Time of a read of this number of sectors, in ms.
    fn ms(&self, sectors: u64) -> f64 {
        self.command_ms + self.sector_ms * sectors as f64
    }
}

/// A line through times by sectors (Theil-Sen: the median of the slopes between sizes that differ by at least a factor of two). `None`
/// without such a pair.
fn line(sizes: &[(f64, f64)], accesses: usize) -> Option<FromMemory> {
    let pairs = sizes.iter().flat_map(|small| sizes.iter().map(move |large| (small, large)));
    let mut slopes: Vec<f64> = pairs
        .filter(|(small, large)| large.0 >= 2.0 * small.0)
        .map(|(small, large)| (large.1 - small.1) / (large.0 - small.0))
        .collect();
    if slopes.is_empty() {
        return None;
    }
    let sector_ms = quantile(&mut slopes, 0.5);
    let error_ms = (quantile(&mut slopes, 0.9) - quantile(&mut slopes, 0.1)).max(0.02 * sector_ms);
    let mut commands: Vec<f64> = sizes.iter().map(|(sectors, ms)| ms - sectors * sector_ms).collect();
    Some(FromMemory { command_ms: quantile(&mut commands, 0.5), sector_ms, error_ms, accesses })
}

/// Fraction of cache hits among reads of each class; `None` if there are too few reads.
pub struct Hits([Option<f64>; SORTS]);

impl Hits {
    /// Before rotation and seeks are known, a read counts as a hit if it takes hardly longer than its transfer.
    pub fn of(accesses: &[Access], tracks: &Tracks, from_memory: Option<FromMemory>) -> Hits {
        let mut counts = [(0_u32, 0_u32); SORTS];
        for access in accesses.iter().filter(|access| !access.write) {
            if let Some(sort) = access.follows.map(sort) {
                let is_hit = access.service_ms() - hit_ms(access, tracks, from_memory) < QUICK_MS;
                counts[sort] = (counts[sort].0 + 1, counts[sort].1 + u32::from(is_hit));
            }
        }
        let share = |(all, hits): (u32, u32)| (all as usize >= MIN_COUNT).then(|| f64::from(hits) / f64::from(all));
        Hits(counts.map(share))
    }

    /// Whether such a read was almost certainly served from the media.
    pub fn misses(&self, access: &Access) -> bool {
        match access.follows {
            Some(back) => self.0[sort(back)].is_some_and(|hits| hits <= RARELY),
            // Near another access, but not sequential: it may be a hit, or a miss without a seek.
            None => !access.may_hit,
        }
    }
}

/// Time of a sequential read that was read ahead, in ms: as from the cache, but at least as from the media.
fn hit_ms(access: &Access, tracks: &Tracks, from_memory: Option<FromMemory>) -> f64 {
    tracks.transfer_ms(access.lba, access.sectors).max(from_memory.map_or(0.0, |memory| memory.ms(access.sectors)))
}

/// The class of an access that continues one `back` accesses earlier.
fn sort(back: usize) -> usize {
    (back.max(1).ilog2() as usize).min(SORTS - 1)
}

impl Memory {
    /// Estimates all parameters, given tracks, rotation and seek curve.
    pub fn fit(
        accesses: &[Access],
        tracks: &Tracks,
        turn: &Turn,
        (hits, from_memory): (&Hits, Option<FromMemory>),
        write_cache: Inferred<bool>,
        curve: &Curve,
    ) -> Memory {
        let bus_sector_ms = from_memory.map_or(tracks.transfer_ms(0, 1) / BUS_TO_MEDIA, |memory| memory.sector_ms);
        let net = |access: &Access| access.service_ms() - access.sectors as f64 * bus_sector_ms;
        let following: Vec<&Access> = accesses.iter().filter(|access| !access.write && access.follows.is_some()).collect();
        // A sequential miss waits for the rest of a revolution, as its sector has already passed.
        let is_hit = |access: &Access| access.service_ms() - hit_ms(access, tracks, from_memory) < 0.35 * turn.ms;
        let segments = segments(&following, is_hit);
        let mut quick: Vec<f64> =
            following.iter().filter(|access| is_hit(access) && !hits.misses(access)).map(|access| net(access)).collect();
        let mut early: Vec<f64> = accesses
            .iter()
            .filter(|access| write_cache.value && access.write && access.others == 0 && net(access) < 0.35 * turn.ms)
            .map(net)
            .collect();
        let least = curve.ms(0.0);
        let usual = USUAL_OVERHEAD_MS.min(0.4 * least);
        let of = |times: &mut [f64]| (times.len() >= MIN_COUNT).then(|| quantile(times, 0.2).clamp(0.01, 1.5));
        let (by_hits, by_writes) = (of(&mut quick), of(&mut early));
        let hit_ms = by_hits.or(by_writes).unwrap_or(usual * OF_HIT);
        Memory {
            write_cache,
            reads_ahead: reads_ahead(&following, is_hit),
            segments,
            overhead_ms: by_hits.or(by_writes).map_or(usual, |ms| ms / OF_HIT).min(0.7 * least),
            hit_ms,
            early_ms: by_writes.unwrap_or(hit_ms),
            timed: by_hits.map_or(0, |_| quick.len()) + by_writes.map_or(0, |_| early.len()),
            bus_sector_ms,
            from_memory,
        }
    }

    /// The cache of an assumed drive. `sector_ms`: media transfer time per sector.
    pub fn assumed((write_cache, segments): (bool, u32), overhead_ms: f64, sector_ms: f64) -> Memory {
        let hit_ms = overhead_ms * OF_HIT;
        Memory {
            write_cache: Inferred { value: write_cache, accesses: 0 },
            reads_ahead: Inferred { value: true, accesses: 0 },
            segments: Inferred { value: segments, accesses: 0 },
            overhead_ms,
            hit_ms,
            early_ms: hit_ms,
            timed: 0,
            bus_sector_ms: sector_ms / BUS_TO_MEDIA,
            from_memory: None,
        }
    }

    /// Whether reads showed the bus rate.
    pub fn has_bus_rate_estimate(&self) -> bool {
        self.from_memory.is_some()
    }

    /// The parameters as findings for display.
    pub fn findings(&self) -> Vec<Finding> {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        let mb_s = |sector_ms: f64| 0.512 / sector_ms;
        let (error, told) = self.from_memory.map_or((0.0, 0), |memory| (memory.error_ms / memory.sector_ms, memory.accesses));
        vec![
            Finding::number("rate of the bus", mb_s(self.bus_sector_ms), "MB/s", error * mb_s(self.bus_sector_ms), told),
            Finding::number("overhead of a command", self.overhead_ms, "ms", 0.5 * self.overhead_ms, self.timed),
            Finding::choice("reports writes early", word(self.write_cache.value), self.write_cache.accesses),
            Finding::choice("reads ahead", word(self.reads_ahead.value), self.reads_ahead.accesses),
            Finding::choice("cache segments", &self.segments.value.to_string(), self.segments.accesses),
        ]
    }
}

/// Whether sequential reads are hits of read-ahead. Only a read that continues the access right before it proves that a drive does not read
/// ahead: with others in between, its segment may have been reused.
fn reads_ahead(following: &[&Access], is_hit: impl Fn(&Access) -> bool) -> Inferred<bool> {
    let at_once: Vec<bool> = following.iter().filter(|access| access.follows == Some(1)).map(|access| is_hit(access)).collect();
    let hits = |all: &[bool]| all.iter().filter(|hit| **hit).count();
    if at_once.len() >= MIN_COUNT {
        return Inferred { value: 2 * hits(&at_once) >= at_once.len(), accesses: at_once.len() };
    }
    let all: Vec<bool> = following.iter().map(|access| is_hit(access)).collect();
    let is_told = all.len() >= MIN_COUNT && 2 * hits(&all) >= all.len();
    Inferred { value: true, accesses: if is_told { all.len() } else { 0 } }
}

/// Number of cache segments: the maximum number of accesses in between with which most sequential reads are still hits.
fn segments(following: &[&Access], is_hit: impl Fn(&Access) -> bool) -> Inferred<u32> {
    let (mut most, mut told) = (0, 0);
    for size in [2, 4, 8, 16, 32, 64] {
        let between: Vec<bool> = following
            .iter()
            .filter(|access| access.follows.is_some_and(|back| back > size / 2 && back <= size))
            .map(|access| is_hit(access))
            .collect();
        if between.len() < MIN_COUNT {
            continue;
        }
        told += between.len();
        let hits = between.iter().filter(|hit| **hit).count();
        if 2 * hits < between.len() {
            // If no smaller number had hits, any number below is possible.
            let value = if most > 0 { most } else { USUAL_SEGMENTS.min(size as u32 / 2) };
            return Inferred { value, accesses: told };
        }
        most = size as u32;
    }
    Inferred { value: most.max(USUAL_SEGMENTS), accesses: if most >= USUAL_SEGMENTS { told } else { 0 } }
}

/// The nearest value to the quantile at this share; 0 without values.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    Rank::Nearest.of(values, share).unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ObservedRequest;
    use crate::device::access;
    use block::Nanos;

    /// Two alternating sequential readers of 64 KiB, and occasionally of `other_sectors`, with this service time in ms.
    fn in_turn(other_sectors: u32, service_ms: impl Fn(u64, u32) -> f64) -> Vec<Access> {
        let mut now = Nanos::ZERO;
        let mut next = [0, 4_000_000];
        let seen: Vec<ObservedRequest> = (0..60)
            .map(|number| {
                let stream = number as usize % 2;
                let sectors = if number % 5 < 2 { other_sectors } else { 128 };
                let lba = next[stream];
                next[stream] += u64::from(sectors);
                let arrival = now;
                now += Nanos::from_secs_f64(service_ms(number, sectors) / 1e3);
                ObservedRequest::read(stream as u32, (lba, sectors), arrival, now)
            })
            .collect();
        access::accesses(&seen)
    }

    #[test]
    fn sequential_reads_of_equal_time_are_limited_by_the_bus() {
        let tracks = Tracks::usual(1 << 24);
        let accesses = in_turn(128, |number, _| 12.8 + 0.001 * (number % 7) as f64);
        let from_memory = FromMemory::found(&accesses, &tracks);
        assert!(from_memory.is_some_and(|memory| (0.095..=0.1).contains(&memory.sector_ms)), "{from_memory:?}");
        let hits = Hits::of(&accesses, &tracks, from_memory);
        assert!(!accesses.iter().skip(2).any(|access| hits.misses(access)));
    }

    #[test]
    fn reads_that_lose_a_turn_each_on_a_large_disk_are_not_limited_by_the_bus() {
        // A 4 TB drive transfers 64 KiB in half a millisecond; a revolution at 7,200 rpm plus the transfer is 8.8 ms.
        let tracks = Tracks::usual(7_814_037_168);
        let accesses = in_turn(128, |number, _| 8.8 + 0.001 * (number % 7) as f64);
        assert_eq!(FromMemory::found(&accesses, &tracks), None);
        // Behind USB 2 the reads take 2 ms.
        let accesses = in_turn(128, |number, _| 2.1 + 0.001 * (number % 7) as f64);
        assert!(FromMemory::found(&accesses, &tracks).is_some());
    }

    #[test]
    fn reads_of_two_sizes_separate_the_bus_from_the_command() {
        let tracks = Tracks::usual(1 << 24);
        let found = |command_ms: f64| {
            let took = |number: u64, sectors: u32| command_ms + f64::from(sectors) * 0.02 + 0.001 * (number % 3) as f64;
            FromMemory::found(&in_turn(16, took), &tracks)
        };
        let memory = found(0.9).unwrap();
        assert!((0.0195..=0.0205).contains(&memory.sector_ms) && (0.88..=0.92).contains(&memory.command_ms), "{memory:?}");
        // No command is that long: these reads wait for the platter.
        assert_eq!(found(6.0), None);
    }

    #[test]
    fn sequential_reads_that_wait_for_the_platter_come_from_the_media() {
        let tracks = Tracks::usual(1 << 24);
        let accesses = in_turn(128, |number, _| 8.0 + (number * 7 % 60) as f64 / 10.0);
        assert_eq!(FromMemory::found(&accesses, &tracks), None);
        let hits = Hits::of(&accesses, &tracks, None);
        assert!(accesses.iter().all(|access| hits.misses(access)));
    }
}
