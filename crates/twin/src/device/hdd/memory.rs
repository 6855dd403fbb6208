//! The drive's memory and its processor: overhead, what it reads on, which writes it reports early.

use std::collections::BTreeMap;

use crate::device::access::Access;
use crate::device::findings::Finding;
use crate::device::seek::Curve;

use super::tracks::Tracks;
use super::turn::Turn;

/// Accesses that tell a choice, at least.
const FEWEST: usize = 10;
/// Command overhead if nothing tells: makers' and measured figures are 0.1 to 1.1 ms.
const USUAL_OVERHEAD_MS: f64 = 0.25;
/// Of a hit, as a part of that of a miss.
const OF_HIT: f64 = 0.6;
/// A bus is chosen to be faster than the media, by about so much.
const BUS_TO_MEDIA: f64 = 1.5;
/// Segments of a drive's memory if nothing tells.
const USUAL_SEGMENTS: u32 = 16;
/// A write counts as buffered that takes less than this if there are no reads to compare it with; in ms.
const QUICK_MS: f64 = 1.0;

/// A choice, and how many accesses say so.
#[derive(Clone, Copy, Debug)]
pub struct Told<T> {
    /// What was chosen.
    pub value: T,
    /// Accesses; 0: what is usual.
    pub accesses: usize,
}

/// See the file's head.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Writes are reported before they are on the media.
    pub write_cache: Told<bool>,
    /// Reads make the drive read on.
    pub reads_ahead: Told<bool>,
    /// Runs of reads that it keeps apart.
    pub segments: Told<u32>,
    /// Of a command that goes to the media.
    pub overhead_ms: f64,
    /// Of one that is served from memory.
    pub hit_ms: f64,
    /// Of a write that is reported early.
    pub early_ms: f64,
    /// Accesses that tell the overhead.
    pub timed: usize,
    /// One sector on the bus.
    pub bus_sector_ms: f64,
}

/// Writes return faster than the mechanics allow.
pub fn buffers_writes(accesses: &[Access]) -> Told<bool> {
    let far = |access: &&Access| !access.may_hit && access.before.is_some() && access.sectors <= 256;
    let mut reads: Vec<f64> = accesses.iter().filter(far).filter(|access| !access.write).map(Access::service_ms).collect();
    let writes: Vec<f64> = accesses.iter().filter(far).filter(|access| access.write).map(Access::service_ms).collect();
    if writes.len() < FEWEST {
        return Told { value: true, accesses: 0 };
    }
    let quick_ms = if reads.len() >= FEWEST { 0.5 * quantile(&mut reads, 0.1) } else { QUICK_MS };
    let quick = writes.iter().filter(|ms| **ms < quick_ms).count();
    Told { value: quick * 5 >= writes.len(), accesses: writes.len() }
}

/// Times that differ by less are the same: no drive turns in less than 4 ms.
const SAME_MS: f64 = 1.0;

/// Sorts of accesses that go on from another: by how many came in between.
const SORTS: usize = 7;
/// Accesses of a sort come from the media if no more of them are hits.
const RARELY: f64 = 0.1;

/// What limits the rate of reads that go on, if it is slower than the media: the bus, or the way to the drive. In ms a sector.
///
/// What comes from the media waits for its sector, evenly anything up to a turn. Where nine of ten reads of a size that go on take the
/// same time, they came from memory, and that time is what it takes to move them.
pub fn slow_bus(accesses: &[Access], tracks: &Tracks) -> Option<f64> {
    let following = || accesses.iter().filter(|access| !access.write && access.follows.is_some());
    let mut by_size: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    following().for_each(|access| by_size.entry(access.sectors).or_default().push(access.service_ms()));
    let (&sectors, times) = by_size.iter_mut().max_by_key(|(_, times)| times.len())?;
    if times.len() < 2 * FEWEST {
        return None;
    }
    let (low, middle, high) = (quantile(times, 0.05), quantile(times, 0.5), quantile(times, 0.95));
    let a_sector = (middle - USUAL_OVERHEAD_MS * OF_HIT) / sectors as f64;
    (high - low < SAME_MS && a_sector > tracks.transfer_ms(0, 1)).then_some(a_sector)
}

/// How often accesses of each sort are served from memory, as far as their times tell; `None` of too few.
pub struct Hits([Option<f64>; SORTS]);

impl Hits {
    /// Of reads. Before the speed and the seeks are known, one that takes hardly longer than its transfer is a hit.
    pub fn of(accesses: &[Access], tracks: &Tracks, slow_bus: Option<f64>) -> Hits {
        let mut counts = [(0_u32, 0_u32); SORTS];
        for access in accesses.iter().filter(|access| !access.write) {
            if let Some(sort) = access.follows.map(sort) {
                let moving_ms = slow_bus.map_or(0.0, |a_sector| a_sector * access.sectors as f64);
                let moving_ms = tracks.transfer_ms(access.lba, access.sectors).max(moving_ms);
                let is_hit = access.service_ms() - moving_ms < QUICK_MS;
                counts[sort] = (counts[sort].0 + 1, counts[sort].1 + u32::from(is_hit));
            }
        }
        let share = |(all, hits): (u32, u32)| (all as usize >= FEWEST).then(|| f64::from(hits) / f64::from(all));
        Hits(counts.map(share))
    }

    /// Whether such a read came from the media, almost certainly.
    pub fn misses(&self, access: &Access) -> bool {
        match access.follows {
            Some(back) => self.0[sort(back)].is_some_and(|hits| hits <= RARELY),
            // Near another, but not where it ends: as likely to need no seek as to be a hit.
            None => !access.may_hit,
        }
    }
}

/// The sort of an access that goes on from one so many before.
fn sort(back: usize) -> usize {
    (back.max(1).ilog2() as usize).min(SORTS - 1)
}

impl Memory {
    /// What follows on, and how fast.
    pub fn fit(
        accesses: &[Access],
        tracks: &Tracks,
        turn: &Turn,
        (hits, slow_bus): (&Hits, Option<f64>),
        write_cache: Told<bool>,
        curve: &Curve,
    ) -> Memory {
        let bus_sector_ms = slow_bus.unwrap_or(tracks.transfer_ms(0, 1) / BUS_TO_MEDIA);
        let net = |access: &Access| access.service_ms() - access.sectors as f64 * bus_sector_ms;
        let following: Vec<&Access> = accesses.iter().filter(|access| !access.write && access.follows.is_some()).collect();
        // A miss that follows on waits for the rest of a turn: by then the sector has passed.
        let moving_ms =
            |access: &Access| tracks.transfer_ms(access.lba, access.sectors).max(access.sectors as f64 * slow_bus.unwrap_or(0.0));
        let is_hit = |access: &Access| access.service_ms() - moving_ms(access) < 0.35 * turn.ms;
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
        let of = |times: &mut [f64]| (times.len() >= FEWEST).then(|| quantile(times, 0.2).clamp(0.01, 1.5));
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
        }
    }

    /// As people want it.
    pub fn findings(&self) -> Vec<Finding> {
        let word = |yes: bool| if yes { "yes" } else { "no" };
        vec![
            Finding::number("overhead of a command", self.overhead_ms, "ms", 0.5 * self.overhead_ms, self.timed),
            Finding::choice("reports writes early", word(self.write_cache.value), self.write_cache.accesses),
            Finding::choice("reads ahead", word(self.reads_ahead.value), self.reads_ahead.accesses),
            Finding::choice("cache segments", &self.segments.value.to_string(), self.segments.accesses),
        ]
    }
}

/// Whether reads that go on find what was read ahead. Only one that goes on from the very access before tells that a drive does not
/// read ahead: with others in between, what it had read may have made room for theirs.
fn reads_ahead(following: &[&Access], is_hit: impl Fn(&Access) -> bool) -> Told<bool> {
    let at_once: Vec<bool> = following.iter().filter(|access| access.follows == Some(1)).map(|access| is_hit(access)).collect();
    let hits = |all: &[bool]| all.iter().filter(|hit| **hit).count();
    if at_once.len() >= FEWEST {
        return Told { value: 2 * hits(&at_once) >= at_once.len(), accesses: at_once.len() };
    }
    let all: Vec<bool> = following.iter().map(|access| is_hit(access)).collect();
    let is_told = all.len() >= FEWEST && 2 * hits(&all) >= all.len();
    Told { value: true, accesses: if is_told { all.len() } else { 0 } }
}

/// Runs of reads that go on from memory with so many others in between.
fn segments(following: &[&Access], is_hit: impl Fn(&Access) -> bool) -> Told<u32> {
    let (mut most, mut told) = (0, 0);
    for size in [2, 4, 8, 16, 32, 64] {
        let between: Vec<bool> = following
            .iter()
            .filter(|access| access.follows.is_some_and(|back| back > size / 2 && back <= size))
            .map(|access| is_hit(access))
            .collect();
        if between.len() < FEWEST {
            continue;
        }
        told += between.len();
        let hits = between.iter().filter(|hit| **hit).count();
        if 2 * hits < between.len() {
            // With nothing seen to hit before, there may be any number below.
            let value = if most > 0 { most } else { USUAL_SEGMENTS.min(size as u32 / 2) };
            return Told { value, accesses: told };
        }
        most = size as u32;
    }
    Told { value: most.max(USUAL_SEGMENTS), accesses: if most >= USUAL_SEGMENTS { told } else { 0 } }
}

/// The value below which this share lies; 0 of none.
pub fn quantile(values: &mut [f64], share: f64) -> f64 {
    if values.is_empty() {
        return 0.0;
    }
    let at = (share * (values.len() - 1) as f64).round() as usize;
    *values.select_nth_unstable_by(at, f64::total_cmp).1
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seen;
    use crate::device::access;
    use block::{Nanos, Op, Priority, Request};

    /// Two streams that read 64 KiB each in turn and in order, each read served in this time in ms.
    fn in_turn(service_ms: impl Fn(u64) -> f64) -> Vec<Access> {
        let mut now = Nanos::ZERO;
        let seen: Vec<Seen> = (0..60)
            .map(|number| {
                let (stream, lba) = ((number % 2) as u32, number % 2 * 4_000_000 + number / 2 * 128);
                let (op, sync, priority) = (Op::Read, true, Priority::DEFAULT);
                let request = Request { id: 0, stream, op, sync, priority, sectors: 128, lba, arrival: now };
                let dispatched = now;
                now += Nanos::from_secs_f64(service_ms(number) / 1e3);
                Seen { request, dispatched, completed: now }
            })
            .collect();
        access::accesses(&seen)
    }

    #[test]
    fn reads_that_go_on_and_take_the_same_time_are_limited_by_the_bus() {
        let tracks = Tracks::usual(1 << 24);
        let accesses = in_turn(|number| 12.8 + 0.001 * (number % 7) as f64);
        let a_sector = slow_bus(&accesses, &tracks);
        assert!(a_sector.is_some_and(|ms| (0.095..=0.1).contains(&ms)), "{a_sector:?}");
        let hits = Hits::of(&accesses, &tracks, a_sector);
        assert!(!accesses.iter().skip(2).any(|access| hits.misses(access)));
    }

    #[test]
    fn reads_that_go_on_and_wait_for_the_platter_come_from_the_media() {
        let tracks = Tracks::usual(1 << 24);
        let accesses = in_turn(|number| 8.0 + (number * 7 % 60) as f64 / 10.0);
        assert_eq!(slow_bus(&accesses, &tracks), None);
        let hits = Hits::of(&accesses, &tracks, None);
        assert!(accesses.iter().all(|access| hits.misses(access)));
    }
}
