//! What a request will take: learned from requests that are done.
//!
//! ```text
//! sent                    under way: overhead and seek,          turns past       the last sector
//!  |                      at least s(distance)                   the head         is under the head
//!  |--------------------------------------------|----- wait -----|---- transfer ----|
//!  0                                            s                                   at T times (angle + any whole number)
//! ```
//! Two things are learned. The shortest time s after which the head can be at work at a distance, in steps of half an octave: it is
//! raised when a request took a turn longer than foreseen, and lowered, slowly or by proof, when it did not. And when the sectors pass
//! under the head: every request that came from the media is a landmark, whose last sector passes again after any number of turns, and
//! the line of [`rotation`](super::rotation) tells when those around it do. Where no line is known half a turn is expected.
//!
//! A drive with a write cache ends writes when it pleases. The line is looked for in reads first, and writes that do not end where it says
//! are no landmarks; after one of them it is not known either when the head is free, and the shortest way goes first.
//!
//! On a device where nothing turns no line is ever found, and the shortest way goes first.

use std::collections::{BTreeMap, VecDeque};

use block::{Nanos, Op, Request};

use super::rotation::{End, Finder};

/// Lines are learned for regions of this many sectors (a power of two): 1 GiB. Tracks of a region are about as long.
const REGION_SHIFT: u32 = 21;
/// Ends that are kept of each region, and regions that are followed: the one that was used longest ago goes.
const ENDS: usize = 512;
const REGIONS: usize = 256;
/// The line of a region is looked for when so many ends are there, and whenever twice as many are.
const FIRST_SEARCH: u64 = 48;
/// Landmarks that are kept; the oldest goes.
const LANDMARKS: usize = 16_384;
/// A landmark tells nothing of sectors farther away: the line is not exact enough, or another zone begins.
const REACH: u64 = 1 << 17;
/// What ends sooner after it was sent came from the drive's memory, or went there: so much, and so much for each sector, as SATA carries it.
const FROM_MEMORY: Nanos = Nanos::from_micros(400);
const BUS_NS: u64 = 1_000;
/// Ends of the last requests that are remembered, to know what goes on where another ended.
const RECENT: usize = 1_024;
/// Steps of half an octave.
const STEPS: usize = 128;
/// Time of half a turn where the speed is not known: of 7,200 rpm.
const HALF_TURN_NS: f64 = 4.17e6;
/// A foreseen end is met if it comes this close, in turns.
const MET: f64 = 0.12;
/// Of what is foreseen at least this share comes about; by chance 2 * MET would.
const MOSTLY_MET: f64 = 0.4;
/// What the latest end counts in that, and how many writes must have been foreseen to judge them all.
const MET_SHARE: f64 = 0.04;
const FEWEST_JUDGED: usize = 8;
/// Variances, in turns and as shares of a turn: of a foreseen end, of a speed just found, and of its drift from one request to the next.
const END_VARIANCE: f64 = 0.05 * 0.05;
const FOUND_VARIANCE: f64 = 1e-4 * 1e-4;
const DRIFT_VARIANCE: f64 = 1e-8 * 1e-8;
/// Waits shorter than this many turns may be missed.
const MARGIN: f64 = 0.06;

/// What is known of a device. Bounded: 16,384 landmarks and 256 regions of 512 ends need 3.5 MiB.
pub struct Positioning {
    finder: Finder,
    turn_ns: Option<f64>,
    /// How far off that may be, as the variance of a share of it.
    turn_variance: f64,
    regions: BTreeMap<u64, Region>,
    landmarks: BTreeMap<u64, f64>,
    /// By operation: the share of foreseen ends that came about, lately. A drive with a write cache ends writes when it pleases.
    met: [f64; 2],
    recent: Vec<u64>,
    /// Where the request ended that was done last, and when, of those that are only watched.
    last: Option<(u64, Op, Nanos)>,
    by_age: VecDeque<u64>,
    /// By operation: the shortest times, in nanoseconds.
    reach_ns: [[f64; STEPS]; 2],
    /// Grows whenever what was foreseen before may be wrong now.
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
    /// Share of foreseen ends that came about, lately.
    met: f64,
    used: u64,
}

/// When a request's last sector passes under the head, give or take whole turns; `None` where that is not known.
pub(super) type Anchor = Option<Passing>;

/// See [`Anchor`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    at_ns: f64,
    /// Time in which a sector passes.
    sector_ns: f64,
}

/// What was foreseen of a request that is sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Foreseen {
    distance: u64,
    anchor: Anchor,
    /// When it should end, in nanoseconds, and how long it waits for the platter before.
    end_ns: f64,
    wait_ns: f64,
}

impl Default for Positioning {
    fn default() -> Positioning {
        Positioning::new()
    }
}

impl Positioning {
    /// Knows nothing.
    pub fn new() -> Positioning {
        let mut reach_ns = [[0.0; STEPS]; 2];
        for (step, reach) in reach_ns.iter_mut().flat_map(|of_one| of_one.iter_mut().enumerate()) {
            // Something to begin with; too short, so that the first misses say more.
            *reach = 0.5e6 + 6e6 * 2f64.powf((step as f64 / 2.0 - 33.0) / 2.0).min(1.0);
        }
        Positioning {
            finder: Finder::new(),
            turn_ns: None,
            turn_variance: FOUND_VARIANCE,
            regions: BTreeMap::new(),
            landmarks: BTreeMap::new(),
            met: [1.0; 2],
            recent: vec![u64::MAX; RECENT],
            last: None,
            by_age: VecDeque::new(),
            reach_ns,
            generation: 0,
            uses: 0,
        }
    }

    /// Regions whose tracks' length is known.
    fn known_regions(&self) -> usize {
        self.regions.values().filter(|region| region.per_sector.is_some()).count()
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    fn per_sector(&self, lba: u64) -> Option<f64> {
        self.regions.get(&(lba >> REGION_SHIFT))?.per_sector
    }

    /// When `end`, the sector behind a request, passes.
    pub(super) fn anchor(&self, end: u64) -> Anchor {
        let turn_ns = self.turn_ns?;
        let per_sector = self.per_sector(end)?;
        let below = self.landmarks.range(..=end).next_back().map(|(&lba, &at)| (lba, at));
        let above = self.landmarks.range(end..).next().map(|(&lba, &at)| (lba, at));
        let nearest = [below, above].into_iter().flatten().min_by_key(|(lba, _)| lba.abs_diff(end));
        let (lba, at) = nearest.filter(|(lba, _)| lba.abs_diff(end) <= REACH)?;
        let angle = (end as f64 - lba as f64) * per_sector;
        Some(Passing { at_ns: at + angle * turn_ns, sector_ns: per_sector * turn_ns })
    }

    /// Foresees when a request ends that is sent now, with the head at `head`; and the time until then with the danger counted in that
    /// it is missed.
    #[inline]
    pub(super) fn foresee(&self, now: Nanos, (head, op): (u64, Op), request: &Request, anchor: Anchor) -> (Foreseen, f64) {
        let distance = head.abs_diff(request.lba);
        // Of writes that the drive ends when it pleases the way there counts, as it does for reads.
        let is_foreseen = self.is_foreseen(request.op.is_write());
        // After one of them nobody knows when the head is free.
        let anchor = anchor.filter(|_| is_foreseen && self.is_foreseen(op.is_write()));
        let reach = self.reach_ns[usize::from(request.op.is_write() && is_foreseen)][step(distance)];
        let now_ns = now.0 as f64;
        match (anchor, self.turn_ns) {
            (Some(passing), Some(turn_ns)) => {
                let ready = now_ns + reach + f64::from(request.sectors) * passing.sector_ns;
                let turns = (passing.at_ns - ready) / turn_ns;
                let wait = (turns - turns.floor()) * turn_ns;
                let danger = (1.0 - wait / (MARGIN * turn_ns)).max(0.0) * 0.5;
                let end_ns = ready + wait;
                // What is merged of several requests serves them all: only the way there tells which goes first.
                let transfer = f64::from(request.sectors) * passing.sector_ns;
                (Foreseen { distance, anchor, end_ns, wait_ns: wait }, end_ns - now_ns - transfer + danger * turn_ns)
            }
            _ => {
                let half = self.turn_ns.map_or(HALF_TURN_NS, |turn_ns| turn_ns / 2.0);
                let end_ns = now_ns + reach + half;
                (Foreseen { distance, anchor: None, end_ns, wait_ns: half }, reach + half)
            }
        }
    }

    /// Learns from a request that somebody else sent. If it was sent after the one before was done, the head was there.
    pub(super) fn watch(&mut self, request: &Request, dispatched: Nanos, at: Nanos) {
        let alone = self.last.filter(|&(_, _, done)| dispatched >= done);
        let foreseen = alone.map(|(head, op, _)| self.foresee(dispatched, (head, op), request, self.anchor(request.end())).0);
        self.learn(request, dispatched, at, foreseen);
        self.last = Some((request.end(), request.op, at));
    }

    /// Learns from a request that is done. `foreseen` if it was alone at the device, and so its whole time was its own.
    pub(super) fn learn(&mut self, request: &Request, dispatched: Nanos, at: Nanos, foreseen: Option<Foreseen>) {
        let place = |lba: u64| (lba / 8) as usize % RECENT;
        // What goes on where another ended was read ahead by the drive, or passes at the media's rate, whatever the speed.
        let goes_on = self.recent[place(request.lba)] == request.lba;
        self.recent[place(request.end())] = request.end();
        let from_memory = FROM_MEMORY + Nanos(u64::from(request.sectors) * BUS_NS);
        if request.op == Op::Discard || goes_on || at - dispatched < from_memory {
            return;
        }
        if let Some(foreseen) = foreseen {
            self.learn_reach(request, dispatched, at, &foreseen);
        }
        self.learn_turning(request, at);
    }

    fn learn_reach(&mut self, request: &Request, dispatched: Nanos, at: Nanos, foreseen: &Foreseen) {
        let turn_ns = self.turn_ns.unwrap_or(2.0 * HALF_TURN_NS);
        let transfer = f64::from(request.sectors) * turn_ns * self.per_sector(request.end()).unwrap_or(0.0);
        let reach = &mut self.reach_ns[usize::from(request.op.is_write())][step(foreseen.distance)];
        let service = (at - dispatched).0 as f64;
        if foreseen.anchor.is_some() || self.met.iter().all(|&met| met >= MOSTLY_MET) {
            *reach = reach.min((service - transfer).max(0.0));
        }
        if foreseen.anchor.is_none() {
            return;
        }
        let late = (at.0 as f64 - foreseen.end_ns) / turn_ns;
        let is_tight = foreseen.wait_ns < 0.15 * turn_ns;
        if (late - 1.0).abs() < MET {
            *reach += 0.03 * turn_ns;
        } else if late.abs() < MET {
            *reach -= turn_ns * if is_tight { 0.004 } else { 0.0005 };
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

    /// Ends of reads, or of writes, come about as foreseen.
    fn is_foreseen(&self, is_write: bool) -> bool {
        self.met[usize::from(is_write)] >= MOSTLY_MET
    }

    /// How far from a whole number of turns lie between, in turns.
    fn off(&self, at_ns: f64, anchor_ns: f64) -> f64 {
        let turns = (at_ns - anchor_ns) / self.turn_ns.unwrap_or(2.0 * HALF_TURN_NS);
        turns - turns.round()
    }

    /// Keeps step with the platter: a small part of each difference goes into the time of a turn, which ages landmarks well.
    fn follow(&mut self, end: End, is_write: bool, anchor_ns: f64, turn_ns: f64) {
        let off = self.off(end.at_ns, anchor_ns);
        let is_met = off.abs() < MET;
        let met = &mut self.met[usize::from(is_write)];
        *met += MET_SHARE * (f64::from(u8::from(is_met)) - *met);
        if !self.is_foreseen(is_write) && self.is_foreseen(!is_write) {
            return;
        }
        if is_met {
            let turns = (end.at_ns - anchor_ns) / turn_ns;
            // Kalman's filter for the one unknown: what a difference says of the time of a turn grows with the turns it took to come about.
            let gain = self.turn_variance * turns / (turns * turns * self.turn_variance + END_VARIANCE);
            self.turn_ns = Some(turn_ns * (1.0 + gain * off));
            self.turn_variance = (1.0 - gain * turns) * self.turn_variance + DRIFT_VARIANCE;
        }
        let region = self.region(end.lba);
        region.met += MET_SHARE / 2.0 * (f64::from(u8::from(is_met)) - region.met);
        if region.met < MOSTLY_MET {
            // Chance alone meets 2 * MET of all: this line is none.
            region.per_sector = None;
            region.search_at = region.seen + FIRST_SEARCH;
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
        let fresh = || Region { ends: Vec::new(), seen: 0, search_at: FIRST_SEARCH, per_sector: None, met: 1.0, used };
        let region = self.regions.entry(number).or_insert_with(fresh);
        region.used = used;
        region
    }

    /// Looks for a region's line: in the ends of its reads, or of all if they do not suffice.
    fn search(&mut self, number: u64) {
        let Some(region) = self.regions.get(&number) else { return };
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

    /// Whether writes end where the line of reads says. What they have marked is forgotten.
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
        let off = |end: &End| Some(self.off(end.at_ns, self.anchor(end.lba)?.at_ns).abs());
        let judged: Vec<f64> = writes.iter().filter_map(off).collect();
        if judged.len() >= FEWEST_JUDGED {
            let met = judged.iter().filter(|&&off| off < MET).count();
            self.met[usize::from(true)] = met as f64 / judged.len() as f64;
        }
    }
}

/// The step of a distance.
#[inline]
fn step(distance: u64) -> usize {
    if distance == 0 {
        return 0;
    }
    let octave = distance.ilog2();
    let half = if octave == 0 { 0 } else { (distance >> (octave - 1)) & 1 };
    (2 * octave as usize + half as usize).min(STEPS - 1)
}
