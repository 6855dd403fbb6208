//! Estimates a hard disk from service times: rotation, seeks, tracks, cache, queue.
//!
//! Parameters are estimated one after the other, each with a prior: the first are inputs of the next. If the accesses do not show a
//! parameter (sequential reads show no seek, buffered writes only the buffer), the prior is kept, and the finding says so.

mod assumed;
mod memory;
mod queue;
mod specification;
mod tracks;
mod turn;

use std::sync::Arc;

use block::Nanos;
use sim::device::Device;
use sim::device::hdd::Hdd;
use sim::device::hdd::model::HddModel;
use sim::profile::{Profile, ProfileError};

use super::access::Access;
use super::findings::Finding;
use super::refine::{Move, refine, scaled};
use super::seek::{self, Band, Curve, SeekSample, Waits};
pub use assumed::{AssumedDisk, assumed};
use memory::{FromMemory, Hits, Memory};
use queue::Queue;
use tracks::Tracks;
use turn::Turn;
pub use turn::TurnSearch;

/// Minimum number of seeks for a curve. Choice: fewer show neither edge of the band; the prior decides then; not varied.
const MIN_SEEKS: usize = 30;
/// Maximum number of seeks for a curve: more cost much and hardly improve it. Choice: processor time in proportion; not varied.
const MAX_SEEKS: usize = 800;
/// Number of jackknife blocks. Choice: each is another fit; more would narrow the interval by a third at most; not varied.
const BLOCKS: usize = 5;
/// Relative error of the shape of the curve compared with measured ones. Source: the seek tables of `disks/atlas10k.toml`,
/// `disks/barracuda.toml`, `disks/cheetah9LP.toml` and `disks/ibm18es.toml`, measured by DIXtrac.
const OFF_SHAPE: f64 = 0.05;
/// Default settle time that writes add to a seek: data sheets say 0.1 to 1 ms. Choice: within these; `disks/atlas10k.toml` and
/// `disks/cheetah9LP.toml` have 0.46 to 0.49; not varied.
const USUAL_SETTLE_MS: f64 = 0.4;
/// Bounds of the settle time: slightly negative if the curve of the reads is too high. Choice: bounds replays that compensate other errors
/// of the model by it (commit 2976d662); not varied.
const SETTLES_MS: (f64, f64) = (-1.0, 4.0);

/// An access that takes less than its transfer plus this did not move the arm: the shortest seeks take as long, and the rotational latency
/// is rarely 0. Choice: track to track takes 0.2 to 0.8 ms on fast drives (`research/research/src/devices/scsi_2000s.rs`); not varied.
const QUICKEST_ARM_MS: f64 = 0.5;
/// Fastest seek over half the stroke, in ms, overhead included. Source: the average of 3.1 ms of the Ultrastar 15K450 of 15,000 rpm
/// (`research/research/src/devices/scsi_2000s.rs`), which is over a third of the stroke.
const FASTEST_ARM_MS: f64 = 3.0;

/// Minimum agreement of completions with a rotation that is certain. Choice: well above the 0.3 of a line, and below the 0.95 of a drive of
/// 10,500 rpm that sorts its queue; not varied.
const CERTAIN_TURN: f64 = 0.75;

/// Penalty factor on the error of a disk with a faster arm. Choice: a disk must fit twice as well as flash or an array to be believed; not
/// varied.
const UNUSUAL: f64 = 2.0;

/// The parameters of a hard disk, as far as the accesses show them.
#[derive(Clone, Debug)]
pub struct Estimate {
    capacity: u64,
    turn: Turn,
    tracks: Tracks,
    memory: Memory,
    queue: Queue,
    curve: Curve,
    seeks: Seeks,
    settle_ms: f64,
    settled: usize,
}

/// The input of the fit of the seek curve.
#[derive(Clone, Debug)]
struct Seeks {
    samples: Arc<[SeekSample]>,
    rate_error: f64,
    waits: Arc<Waits>,
}

/// Estimates a disk of this capacity in sectors.
pub fn estimate(accesses: &[Access], capacity: u64, search: &mut TurnSearch) -> Estimate {
    let write_cache = memory::buffers_writes(accesses);
    let mut tracks = Tracks::usual(capacity);
    tracks.fit(accesses);
    let from_memory = FromMemory::found(accesses, &tracks);
    let hits = Hits::of(accesses, &tracks, from_memory);
    let media = Media { tracks: &tracks, hits: &hits, bus_sector_ms: from_memory.map_or(0.0, |memory| memory.sector_ms) };
    let reads = media.samples(accesses, write_cache.value, false);
    let writes = if write_cache.value { Vec::new() } else { media.samples(accesses, false, true) };
    let by_writes = reads.len() < MIN_SEEKS && writes.len() >= MIN_SEEKS;
    let told = seek::thin(if by_writes { &writes } else { &reads }, MAX_SEEKS);
    let writes_come_between = write_cache.value && accesses.iter().filter(|access| access.write).count() * 20 > accesses.len();
    let strange = if writes_come_between { seek::STRANGE_BEHIND_WRITES } else { seek::STRANGE };
    // Reads and writes lie in bands of the same height, that of writes slightly higher.
    let settled = writes.iter().map(|sample| SeekSample { ms: sample.ms - USUAL_SETTLE_MS, ..*sample });
    let both: Vec<SeekSample> = reads.iter().copied().chain(settled).collect();
    let turn = turn::find(accesses, &both, (tracks.rate_error(), strange), write_cache.value, search);
    tracks.fit_line(&turn);
    let seeks = Seeks { samples: told.into(), rate_error: tracks.rate_error(), waits: Arc::new(Waits::new(turn.tilt, strange)) };
    let band = seeks.band(&turn);
    let mut curve = seek::fit_shape(&seeks.samples, band);
    let mut settle = (USUAL_SETTLE_MS, 0);
    if by_writes {
        curve.short_ms -= USUAL_SETTLE_MS.min(curve.short_ms / 2.0);
        curve.long_ms -= USUAL_SETTLE_MS;
    } else if writes.len() >= MIN_SEEKS {
        let shift = seek::shift(&seek::thin(&writes, MAX_SEEKS), band, &curve, SETTLES_MS, USUAL_SETTLE_MS);
        settle = (shift, writes.len());
    }
    tracks.slow(curve.slower, seeks.samples.len());
    let memory = Memory::fit(accesses, &tracks, &turn, (&hits, from_memory), write_cache, &curve);
    let queue = Queue::fit(accesses, &hits);
    Estimate { capacity, turn, tracks, memory, queue, curve, seeks, settle_ms: settle.0, settled: settle.1 }
}

/// Parameters refined by replays: times by a fraction of themselves or of a revolution. Not the seek curve, for which a gain only
/// compensates other errors of the model.
pub const MOVES: &[Move<Estimate>] = &[
    |old, step| {
        old.moved(step < 0.0 || old.memory.overhead_ms < old.curve.short_ms / 2.0, |new| {
            new.memory.overhead_ms = scaled(old.memory.overhead_ms, step)
        })
    },
    |old, step| old.moved(true, |new| new.memory.hit_ms = scaled(old.memory.hit_ms, step)),
    |old, step| old.moved(old.memory.write_cache.value, |new| new.memory.early_ms = scaled(old.memory.early_ms, step)),
    |old, step| {
        // A bus slower than the media shows in reads from the cache: it must not explain other long times.
        let sector_ms = scaled(old.memory.bus_sector_ms, step);
        let makes_sense = !old.memory.has_bus_rate_estimate() && sector_ms <= old.tracks.transfer_ms(0, 1);
        old.moved(makes_sense, |new| new.memory.bus_sector_ms = sector_ms)
    },
    |old, step| {
        let settle_ms = old.settle_ms + step * 0.3 * old.turn.ms;
        old.moved((SETTLES_MS.0..=SETTLES_MS.1).contains(&settle_ms), |new| new.settle_ms = settle_ms)
    },
    |old, step| {
        let segments = if step > 0.0 { old.memory.segments.value * 2 } else { old.memory.segments.value / 4 };
        old.moved((1..=64).contains(&segments), |new| new.memory.segments.value = segments)
    },
];

impl Seeks {
    fn band(&self, turn: &Turn) -> Band<'_> {
        Band { turn_ms: turn.ms, rate_error: self.rate_error, waits: &self.waits }
    }

    /// Number of seeks on which the curve is based; 0 if there are too few.
    fn told(&self) -> usize {
        if self.samples.len() < MIN_SEEKS { 0 } else { self.samples.len() }
    }

    /// Errors of the curve for the short and the long seek, in ms: the jackknife's 95% interval, but at least the softness of the band and
    /// the usual deviation from the curve's shape.
    fn errors(&self, turn: &Turn, curve: &Curve) -> (f64, f64) {
        let (mut short, mut long) = (0.0, 0.0);
        let size = self.samples.len().div_ceil(BLOCKS).max(1);
        for block in 0..BLOCKS {
            let others = self.samples.iter().enumerate().filter(|(index, _)| index / size != block);
            let without: Vec<SeekSample> = others.map(|(_, sample)| *sample).collect();
            let other = seek::fit(&without, self.band(turn), curve.division);
            short += (other.short_ms - curve.short_ms).powi(2);
            long += (other.long_ms - curve.long_ms).powi(2);
        }
        let (blocks, student) = (BLOCKS as f64, statistics::student::two_sided_95(BLOCKS - 1));
        let of =
            |squares: f64, ms: f64| (student * (squares * (blocks - 1.0) / blocks).sqrt()).max(0.02 * turn.ms).max(OFF_SHAPE * ms);
        (of(short, curve.short_ms), of(long, curve.long_ms))
    }
}

/// Selects media accesses, and provides their transfer times.
struct Media<'a> {
    tracks: &'a Tracks,
    hits: &'a Hits,
    bus_sector_ms: f64,
}

impl Media<'_> {
    /// The seeks of media reads, or writes. Accesses after a write that may still be in the cache are omitted, as the arm's position is
    /// unknown.
    fn samples(&self, accesses: &[Access], write_cache: bool, of_writes: bool) -> Vec<SeekSample> {
        let mut samples = Vec::new();
        let from_media = |access: &&Access| if of_writes { !access.may_hit } else { self.hits.misses(access) };
        for access in accesses.iter().filter(|access| access.write == of_writes).filter(from_media) {
            let Some((from, _, wrote)) = access.before else { continue };
            if wrote && write_cache {
                continue;
            }
            // Reads stream over the bus while the media transfer: the slower of the two sets the pace. Writes cross the bus before.
            let on_bus_ms = if of_writes { 0.0 } else { self.bus_sector_ms * access.sectors as f64 };
            let transfer_ms = self.tracks.transfer_ms(access.lba, access.sectors).max(on_bus_ms);
            let ms = access.service_ms();
            // A cache hit, possibly of read-ahead.
            if !of_writes && ms - transfer_ms < QUICKEST_ARM_MS {
                continue;
            }
            let part = (self.tracks.part(access.lba) - self.tracks.part(from)).abs();
            samples.push(SeekSample { part, ms, transfer_ms });
        }
        samples
    }
}

impl Estimate {
    /// The estimate refined to the lowest replay error on these accesses, and that error.
    pub fn refined(self, accesses: &[Access]) -> (Estimate, f64) {
        refine(self, MOVES, accesses, |estimate, at_once| estimate.build(Some(at_once)))
    }

    /// The device, idle, with this queue depth.
    pub fn build(&self, at_once: Option<u32>) -> Option<Box<dyn Device>> {
        let model = HddModel::new(&self.specification()).ok()?;
        Some(Box::new(Hdd::new(Arc::new(model), at_once, None)))
    }

    /// This disk with another capacity in sectors and another queue depth.
    pub fn resized(&self, capacity: u64, depth: u32) -> Estimate {
        let queue = Queue { depth, ..self.queue.clone() };
        Estimate { capacity, tracks: self.tracks.resized(capacity), queue, ..self.clone() }
    }

    /// Whether the arm is no faster than those of real drives. If it is faster, several disks served the accesses.
    pub fn is_usual(&self) -> bool {
        self.curve.long_ms >= FASTEST_ARM_MS
    }

    /// Whether it is certainly a hard disk, or several: rotation shows in completion times, and the arm is no faster than real ones, or nearly
    /// all completions agree. On a small part of a drive the arm is as fast as none over the whole.
    pub fn shows_platters(&self) -> bool {
        self.seen_turn().is_some() && self.is_usual() || self.has_one_rotation()
    }

    /// Whether nearly all completions agree with one rotation, so no stripes hide the angles of the sectors.
    pub fn has_one_rotation(&self) -> bool {
        self.seen_turn().is_some() && self.turn.agreement >= CERTAIN_TURN
    }

    /// A replay error for comparison with other kinds of device: an arm that was never sold is evidence against a disk, however well it
    /// fits.
    pub fn weighed(&self, distance: f64) -> f64 {
        if self.is_usual() { distance } else { UNUSUAL * distance }
    }

    /// The rotation time, if it shows in completion times; `None` if it does not.
    pub fn seen_turn(&self) -> Option<Nanos> {
        self.turn.line.map(|_| Nanos::from_secs_f64(self.turn.ms / 1e3))
    }

    /// Queue depth.
    pub fn depth(&self) -> u32 {
        self.queue.depth
    }

    /// Capacity in sectors.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// The changed estimate; `None` unless `makes_sense`.
    fn moved(&self, makes_sense: bool, change: impl FnOnce(&mut Estimate)) -> Option<Estimate> {
        makes_sense.then(|| {
            let mut new = self.clone();
            change(&mut new);
            new
        })
    }

    /// The profile of the device.
    pub fn profile(&self) -> Result<Profile, ProfileError> {
        Profile::from_hdd(&self.specification(), "fitted")
    }

    /// All estimated parameters.
    pub fn findings(&self) -> Vec<Finding> {
        let (short_error, long_error) = self.seeks.errors(&self.turn, &self.curve);
        let overhead = self.memory.overhead_ms;
        let mut all = Vec::new();
        all.extend(self.turn.findings());
        all.push(Finding::number(
            "short seek (0.5% of the stroke)",
            (self.curve.short_ms - overhead).max(0.0),
            "ms",
            short_error,
            self.seeks.told(),
        ));
        all.push(Finding::number(
            "long seek (half of the stroke)",
            (self.curve.long_ms - overhead).max(0.0),
            "ms",
            long_error,
            self.seeks.told(),
        ));
        all.push(Finding::number("settling of writes", self.settle_ms, "ms", 0.1 * self.turn.ms, self.settled));
        all.extend(self.tracks.findings());
        all.extend(self.memory.findings());
        all.extend(self.queue.findings());
        all
    }
}
