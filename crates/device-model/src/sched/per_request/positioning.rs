//! Predicts the time of a request, learned from completed requests.
//!
//! ```text
//! sent                    under way: overhead and seek,          turns past       the last sector
//!  |                      at least s(distance)                   the head         is under the head
//!  |--------------------------------------------|----- wait -----|---- transfer ----|
//!  0                                            s                                   at T times (angle + any whole number)
//! ```
//! Two things are learned. First, the minimum time s until the head has arrived at a distance, in steps of half an octave: it is
//! raised when a request took a revolution longer than predicted, and lowered, slowly or by proof, when it did not. Second, when the sectors pass
//! under the head: every request served from the media is a landmark, whose last sector passes again after any number of revolutions, and
//! the line of [`rotation`](crate::rotation) gives the times of those around it. Without a line, half a revolution is expected.
//!
//! A drive with a write cache completes writes at any angle. So the line is searched in reads first, and writes that do not match it are not
//! landmarks; after one of them the head's position is unknown, and the nearest request goes first.
//!
//! On a device without a platter no line is found, and the nearest request goes first.

use std::collections::{BTreeMap, VecDeque};

use block::{Nanos, Op, Request};

use super::REMEMBERED;
use crate::rotation::{End, Finder, MIN_PAIRS};

/// Base-2 logarithm of the size of a region with its own line, in sectors: 1 GiB. Tracks of a region have similar lengths.
const REGION_SHIFT: u32 = 21;
/// Bounds of memory: ends of each region, regions (the least recently used is dropped), and landmarks (the oldest is dropped).
const ENDS: usize = 512;
const REGIONS: usize = 256;
const LANDMARKS: usize = 16_384;
/// Bins of distance, each half an octave wide.
const STEPS: usize = 2 * u64::BITS as usize;
/// Initial assumption for the time of a revolution: the geometric middle of the slowest and the fastest, 120 turns a second.
const ASSUMED_TURN_NS: f64 = 1e9 / 120.0;
/// Standard deviation of predicted ends in revolutions: a drive's other work takes a few tenths of a millisecond.
/// Twice or half of it changes the mean score of random loads by less than 1%; so it is with the two shares below.
const SCATTER: f64 = 0.05;
/// Maximum deviation of a met prediction, in revolutions.
const MET: f64 = 2.5 * SCATTER;
/// Weight of the latest prediction in the share that is met, and the minimum share of a usable line. By chance 2 * MET would be met.
const LATEST: f64 = 1.0 / 32.0;
const MOSTLY: f64 = 0.5;
/// Variances relative to a revolution: of a new speed, which the finder's tests guarantee, and of its drift per request.
const FOUND_VARIANCE: f64 = 1e-4 * 1e-4;
const DRIFT_VARIANCE: f64 = 1e-8 * 1e-8;

/// Knowledge of a device's positioning. Bounded: 16,384 landmarks and 256 regions of 512 ends need 3.5 MiB.
pub struct Positioning {
    finder: Finder,
    turn_ns: Option<f64>,
    /// Whether the device has no platter.
    is_still: bool,
    /// Relative variance of `turn_ns`.
    turn_variance: f64,
    regions: BTreeMap<u64, Region>,
    landmarks: BTreeMap<u64, f64>,
    /// Recent share of predictions that were met, by operation. A drive with a write cache completes writes at any angle.
    met: [f64; 2],
    recent: Vec<u64>,
    /// End and completion time of the last observed request.
    last: Option<(u64, Op, Nanos)>,
    by_age: VecDeque<u64>,
    /// Shortest times in nanoseconds, by operation.
    reach_ns: [[f64; STEPS]; 2],
    /// Incremented whenever earlier predictions may have become wrong.
    generation: u32,
    uses: u64,
}

#[derive(Clone, Copy)]
struct Ended {
    end: End,
    is_write: bool,
}

struct Region {
    ends: Vec<Ended>,
    seen: u64,
    search_at: u64,
    per_sector: Option<f64>,
    /// Recent share of predictions that were met.
    met: f64,
    used: u64,
}

/// When a request's last sector passes under the head, modulo whole revolutions; `None` if unknown.
pub(super) type Anchor = Option<Passing>;

/// See [`Anchor`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    at_ns: f64,
    /// Time in which a sector passes.
    sector_ns: f64,
}

/// The prediction for a dispatched request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreseen {
    distance: u64,
    anchor: Anchor,
    /// The predicted end in nanoseconds, and the rotational latency before it.
    end_ns: f64,
    wait_ns: f64,
}

impl Default for Positioning {
    fn default() -> Positioning {
        Positioning::new()
    }
}

impl Positioning {
    /// Positioning without knowledge.
    pub fn new() -> Positioning {
        let mut reach_ns = [[0.0; STEPS]; 2];
        for (step, reach) in reach_ns.iter_mut().flat_map(|of_one| of_one.iter_mut().enumerate()) {
            // Initial values, growing with the root of the distance to 6.5 ms for 4 TB; too short, so that the first misses are informative.
            *reach = 0.5e6 + 6e6 * 2f64.powf((step as f64 / 2.0 - 33.0) / 2.0).min(1.0);
        }
        Positioning {
            finder: Finder::new(),
            turn_ns: None,
            is_still: false,
            turn_variance: FOUND_VARIANCE,
            regions: BTreeMap::new(),
            landmarks: BTreeMap::new(),
            met: [1.0; 2],
            recent: vec![u64::MAX; REMEMBERED],
            last: None,
            by_age: VecDeque::new(),
            reach_ns,
            generation: 0,
            uses: 0,
        }
    }

    /// Number of regions with a known track length.
    fn known_regions(&self) -> usize {
        self.regions.values().filter(|region| region.per_sector.is_some()).count()
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    fn per_sector(&self, lba: u64) -> Option<f64> {
        self.regions.get(&(lba >> REGION_SHIFT))?.per_sector
    }

    /// When `end`, the sector after a request, passes.
    pub(super) fn anchor(&self, end: u64) -> Anchor {
        let turn_ns = self.turn_ns?;
        let per_sector = self.per_sector(end)?;
        let below = self.landmarks.range(..=end).next_back().map(|(&lba, &at)| (lba, at));
        let above = self.landmarks.range(end..).next().map(|(&lba, &at)| (lba, at));
        let nearest = [below, above].into_iter().flatten().min_by_key(|(lba, _)| lba.abs_diff(end));
        // The line is valid only within its region.
        let (lba, at) = nearest.filter(|(lba, _)| lba >> REGION_SHIFT == end >> REGION_SHIFT)?;
        let angle = (end as f64 - lba as f64) * per_sector;
        Some(Passing { at_ns: at + angle * turn_ns, sector_ns: per_sector * turn_ns })
    }

    /// Predicts the end of a request dispatched now, with the head at `head`; and the time until then, including the expected cost of
    /// missing it.
    #[inline]
    pub(super) fn foresee(&self, now: Nanos, (head, op): (u64, Op), request: &Request, anchor: Anchor) -> (Foreseen, f64) {
        let distance = head.abs_diff(request.lba);
        // For writes to a cache only the seek counts, as for reads.
        let is_foreseen = self.is_foreseen(request.op.is_write());
        // After a write to a cache, the head's position is unknown.
        let anchor = anchor.filter(|_| is_foreseen && self.is_foreseen(op.is_write()));
        let reach = self.reach_ns[usize::from(request.op.is_write() && is_foreseen)][step(distance)];
        let now_ns = now.0 as f64;
        match (anchor, self.turn_ns) {
            (Some(passing), Some(turn_ns)) => {
                let ready = now_ns + reach + f64::from(request.sectors) * passing.sector_ns;
                let turns = (passing.at_ns - ready) / turn_ns;
                let wait = (turns - turns.floor()) * turn_ns;
                // A sector that must be reached without any slack is missed half of the time.
                let danger = (1.0 - wait / (SCATTER * turn_ns)).max(0.0) / 2.0;
                let end_ns = ready + wait;
                // A merged request serves several at once: compare only the time to reach it.
                let transfer = f64::from(request.sectors) * passing.sector_ns;
                (Foreseen { distance, anchor, end_ns, wait_ns: wait }, end_ns - now_ns - transfer + danger * turn_ns)
            }
            _ => {
                let half = self.turn_ns.unwrap_or(ASSUMED_TURN_NS) / 2.0;
                let end_ns = now_ns + reach + half;
                (Foreseen { distance, anchor: None, end_ns, wait_ns: half }, reach + half)
            }
        }
    }

    /// Learns from a request of another scheduler. If it was dispatched after the previous one completed, the head's position is known.
    pub(super) fn watch(&mut self, request: &Request, dispatched: Nanos, at: Nanos, is_from_memory: bool) {
        let alone = self.last.filter(|&(_, _, done)| dispatched >= done);
        let foreseen = alone.map(|(head, op, _)| self.foresee(dispatched, (head, op), request, self.anchor(request.end())).0);
        self.learn(request, dispatched, at, foreseen, is_from_memory);
        self.last = Some((request.end(), request.op, at));
    }

    /// Learns from a completed request. `foreseen` must be set only if it was alone at the device, so that its whole time was its own. Requests
    /// served by the drive's cache are not informative.
    pub(super) fn learn(
        &mut self,
        request: &Request,
        dispatched: Nanos,
        at: Nanos,
        foreseen: Option<Foreseen>,
        is_from_memory: bool,
    ) {
        let place = |lba: u64| (lba / 8) as usize % REMEMBERED;
        // A sequential request was read ahead by the drive, or passes at the media's rate at any speed.
        let goes_on = self.recent[place(request.lba)] == request.lba;
        self.recent[place(request.end())] = request.end();
        if request.op == Op::Discard || goes_on || is_from_memory {
            return;
        }
        if let Some(foreseen) = foreseen {
            self.learn_reach(request, dispatched, at, &foreseen);
        }
        self.learn_turning(request, at);
    }

    fn learn_reach(&mut self, request: &Request, dispatched: Nanos, at: Nanos, foreseen: &Foreseen) {
        let turn_ns = self.turn_ns.unwrap_or(ASSUMED_TURN_NS);
        let transfer = f64::from(request.sectors) * turn_ns * self.per_sector(request.end()).unwrap_or(0.0);
        let reach = &mut self.reach_ns[usize::from(request.op.is_write())][step(foreseen.distance)];
        let service = (at - dispatched).0 as f64;
        if foreseen.anchor.is_some() || self.met.iter().all(|&met| met >= MOSTLY) {
            *reach = reach.min((service - transfer).max(0.0));
        }
        if foreseen.anchor.is_none() {
            return;
        }
        let late = (at.0 as f64 - foreseen.end_ns) / turn_ns;
        let is_tight = foreseen.wait_ns < 3.0 * SCATTER * turn_ns;
        // A miss costs a revolution and a hit saves little: raise quickly, and lower slowly where the slack was small.
        if (late - 1.0).abs() < MET {
            *reach += SCATTER / 2.0 * turn_ns;
        } else if late.abs() < MET && is_tight {
            *reach -= SCATTER / 16.0 * turn_ns;
        }
        *reach = reach.max(0.0);
    }

    fn learn_turning(&mut self, request: &Request, at: Nanos) {
        let end = End { lba: request.end(), at_ns: at.0 as f64 };
        let is_write = request.op.is_write();
        self.uses += 1;
        if let (Some(turn_ns), Some(passing)) = (self.turn_ns, self.anchor(end.lba)) {
            self.follow(end, is_write, passing.at_ns, turn_ns);
        }
        if !self.is_foreseen(is_write) {
            return;
        }
        self.mark(end);
        let region = self.region(end.lba);
        let slot = (region.seen % ENDS as u64) as usize;
        match region.ends.get_mut(slot) {
            Some(place) => *place = Ended { end, is_write },
            None => region.ends.push(Ended { end, is_write }),
        }
        region.seen += 1;
        if region.seen >= region.search_at {
            region.search_at = region.seen.saturating_mul(2);
            self.search(end.lba >> REGION_SHIFT);
        }
    }

    /// Whether reads, or writes, complete as predicted.
    fn is_foreseen(&self, is_write: bool) -> bool {
        self.met[usize::from(is_write)] >= MOSTLY
    }

    /// Distance of the difference from a whole number of revolutions.
    fn off(&self, at_ns: f64, anchor_ns: f64) -> f64 {
        let turns = (at_ns - anchor_ns) / self.turn_ns.unwrap_or(ASSUMED_TURN_NS);
        turns - turns.round()
    }

    /// Tracks the platter: a small share of each deviation corrects the time of a revolution, on which old landmarks depend.
    fn follow(&mut self, end: End, is_write: bool, anchor_ns: f64, turn_ns: f64) {
        let off = self.off(end.at_ns, anchor_ns);
        let is_met = off.abs() < MET;
        weigh(&mut self.met[usize::from(is_write)], is_met);
        if !self.is_foreseen(is_write) && self.is_foreseen(!is_write) {
            return;
        }
        if is_met {
            let turns = (end.at_ns - anchor_ns) / turn_ns;
            // Kalman filter for a single unknown: a deviation's information on the time of a revolution grows with the number of revolutions.
            let gain = self.turn_variance * turns / (turns * turns * self.turn_variance + SCATTER * SCATTER);
            self.turn_ns = Some(turn_ns * (1.0 + gain * off));
            self.turn_variance = (1.0 - gain * turns) * self.turn_variance + DRIFT_VARIANCE;
        }
        let region = self.region(end.lba);
        weigh(&mut region.met, is_met);
        if region.met < MOSTLY {
            // The line was wrong.
            region.per_sector = None;
            region.search_at = region.seen + MIN_PAIRS as u64;
            region.met = 1.0;
            self.generation = self.generation.wrapping_add(1);
            if self.known_regions() == 0 {
                self.turn_ns = None;
                self.turn_variance = FOUND_VARIANCE;
                self.met = [1.0; 2];
            }
        }
    }

    fn mark(&mut self, end: End) {
        if self.landmarks.insert(end.lba, end.at_ns).is_none() {
            self.by_age.push_back(end.lba);
            if self.by_age.len() > LANDMARKS
                && let Some(oldest) = self.by_age.pop_front()
            {
                self.landmarks.remove(&oldest);
            }
        }
    }

    fn region(&mut self, lba: u64) -> &mut Region {
        let number = lba >> REGION_SHIFT;
        if !self.regions.contains_key(&number) && self.regions.len() >= REGIONS {
            let oldest = self.regions.iter().min_by_key(|(_, region)| region.used).map(|(&number, _)| number);
            oldest.map(|number| self.regions.remove(&number));
        }
        let used = self.uses;
        let fresh = || Region { ends: Vec::new(), seen: 0, search_at: MIN_PAIRS as u64, per_sector: None, met: 1.0, used };
        let region = self.regions.entry(number).or_insert_with(fresh);
        region.used = used;
        region
    }

    /// Sets the time of a revolution; `None` if the device has no platter.
    pub fn turns(&mut self, turn: Option<Nanos>) {
        (self.turn_ns, self.is_still) = (turn.map(|turn| turn.0 as f64), turn.is_none());
    }

    /// Searches a region's line: in the ends of its reads, or of all requests if reads do not suffice.
    fn search(&mut self, number: u64) {
        let Some(region) = self.regions.get(&number).filter(|_| !self.is_still) else { return };
        let of = |writes: bool| region.ends.iter().filter(move |of_one| of_one.is_write == writes).map(|of_one| of_one.end);
        let (reads, writes): (Vec<End>, Vec<End>) = (of(false).collect(), of(true).collect());
        let by_reads = if writes.is_empty() { None } else { self.finder.find(&reads, self.turn_ns) };
        let by_all = || [&reads[..], &writes].concat();
        let Some(line) = by_reads.or_else(|| self.finder.find(&by_all(), self.turn_ns)) else { return };
        if let Some(region) = self.regions.get_mut(&number) {
            region.per_sector = Some(line.per_sector);
            region.met = 1.0;
        }
        self.turn_ns = Some(line.turn_ns);
        self.generation = self.generation.wrapping_add(1);
        if by_reads.is_some() {
            self.judge_writes(number, &reads, &writes);
        }
    }

    /// Determines whether writes match the line of reads. Discards landmarks of writes.
    fn judge_writes(&mut self, number: u64, reads: &[End], writes: &[End]) {
        let first = number << REGION_SHIFT;
        let last = first | ((1 << REGION_SHIFT) - 1);
        let marked: Vec<u64> = self.landmarks.range(first..=last).map(|(&lba, _)| lba).collect();
        for lba in marked {
            self.landmarks.remove(&lba);
        }
        for &end in reads {
            self.mark(end);
        }
        let mut met = 1.0;
        for end in writes {
            if let Some(passing) = self.anchor(end.lba) {
                weigh(&mut met, self.off(end.at_ns, passing.at_ns).abs() < MET);
            }
        }
        self.met[usize::from(true)] = met;
    }
}

/// Updates the exponentially weighted share of met predictions.
fn weigh(share: &mut f64, is_met: bool) {
    *share += LATEST * (f64::from(u8::from(is_met)) - *share);
}

/// The bin of a distance.
#[inline]
fn step(distance: u64) -> usize {
    if distance == 0 {
        return 0;
    }
    let octave = distance.ilog2();
    let half = if octave == 0 { 0 } else { (distance >> (octave - 1)) & 1 };
    (2 * octave as usize + half as usize).min(STEPS - 1)
}
