//! Live migration: moves a volume to another store while clients use it.
//!
//! ```text
//! turn 0        turn 1                 turn 2          turn n: writes wait        after
//! wait for   │  copy every extent,  │  copy what was │  copy the rest, flush,  │  wait for reads of the
//! requests   │  note what is        │  written in    │  change the catalog,    │  old store, free its
//! under way  │  written             │  turn 1        │  change the route       │  extents
//! ```
//! Clients read and write on the old store until the cutover, so that a stalled or failed destination delays only the copy. The catalog
//! changes once, after a flush of the destination: before that the volume is complete on the old store, afterwards on the new one.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use crate::store::{Buffer, Buffers, Kind, Piece, Replies, Work};
use block::StreamId;
use serde::{Deserialize, Serialize};

use crate::catalog::EXTENT_BYTES;
use crate::configuration::PACE;
use crate::granules::{Chunk, GRANULE, Granules};
use crate::store_entry::StoreEntry;
use crate::volume::Volume;

/// Chunks copied in parallel: one is written while another is read.
const DEPTH: usize = 4;
/// Maximum size of a chunk in bytes, as for the simulator's copier.
pub(crate) const CHUNK: u64 = 256 << 10;
/// Writes are held back for the cutover if the rest is expected to be copied within this time …
const EXPECTED_HOLD: Duration = Duration::from_millis(250);
/// … and released if that took this long; the copy then continues.
const LONGEST_HOLD: Duration = Duration::from_millis(1000);
/// Interval at which cancellation is checked while chunks are copied.
const LOOKS: Duration = Duration::from_millis(20);
/// Interval at which cancellation is checked while waiting for requests of a turn.
const TURN_LOOKS: Duration = Duration::from_millis(50);

/// The migration of a volume.
pub(crate) struct Move {
    pub volume: Arc<Volume>,
    pub from: Arc<StoreEntry>,
    pub to: Arc<StoreEntry>,
    /// Stream of the copier, on both stores.
    pub stream: StreamId,
    pub bytes_per_second: u64,
    is_cancelled: AtomicBool,
    /// Extents reserved on the destination: place and number.
    extents: Mutex<BTreeMap<u32, u32>>,
    /// Extents on the old store, once the volume is on the new one.
    left_behind: Mutex<Vec<(u32, u32)>>,
    copied: AtomicU64,
    left: AtomicU64,
    turns: AtomicU64,
    began: Instant,
}

/// Progress of a move.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Progress {
    /// Name of the destination store.
    pub to: String,
    /// Maximum copy rate.
    pub bytes_per_second: u64,
    /// Bytes copied so far, including those copied again after a write.
    pub copied_bytes: u64,
    /// Bytes to copy in this round.
    pub left_bytes: u64,
    /// Seconds to copy these at the average rate so far; `None` before anything was copied.
    pub left_seconds: Option<u64>,
    /// Number of further rounds, which copied extents written during the previous one.
    pub rounds: u64,
}

/// Why a move ended early.
pub(crate) enum Ended {
    Cancelled,
    /// The server ends; the move is resumed at the next start.
    Stopped,
    Failed(String),
}

/// The server as seen by a move.
pub(crate) trait Host {
    /// Whether the server ends.
    fn is_stopping(&self) -> bool;

    /// Reserves a free extent on the destination; `None` if it is full.
    fn reserve(&self, moving: &Move) -> Option<u32>;

    /// Updates the destination's extent map after a reservation.
    fn reserved(&self, moving: &Move);

    /// Records the new store and extents in the catalog.
    fn finish(&self, moving: &Move, extents: &[(u32, u32)]) -> anyhow::Result<()>;

    /// Updates the destination's scheduler after the cutover.
    fn arrived(&self, moving: &Move);
}

/// Parameters of a copy.
struct How {
    stream: StreamId,
    is_paced: bool,
    /// Writes are held back until then at most; `None`: they are not.
    held_until: Option<Instant>,
}

struct Answers(mpsc::Sender<(u64, io::Result<()>, Buffers)>);

impl Replies for Answers {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers) {
        // The copier may have ended.
        drop(self.0.send((cookie, result, buffers)));
    }

    fn flush(&self) {}
}

/// A chunk in flight.
struct Copying {
    chunk: Chunk,
    to: u64,
    is_read: bool,
    begun: Instant,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Move {
    pub(crate) fn new(volume: Arc<Volume>, to: Arc<StoreEntry>, stream: StreamId, bytes_per_second: u64) -> Move {
        let left = AtomicU64::new(volume.extents().len() as u64 * EXTENT_BYTES);
        let from = volume.store();
        let (copied, turns, began) = (AtomicU64::new(0), AtomicU64::new(0), Instant::now());
        Move {
            volume,
            from,
            to,
            stream,
            bytes_per_second: bytes_per_second.max(1),
            is_cancelled: AtomicBool::new(false),
            extents: Mutex::default(),
            left_behind: Mutex::default(),
            copied,
            left,
            turns,
            began,
        }
    }

    /// Guaranteed rate of the copier on each store, in requests per second of up to a chunk each. Without a guarantee it would starve
    /// next to volumes that have one. For smaller requests, which copy extents written meanwhile, it gets more if the store has spare
    /// capacity, up to the rate in bytes/s.
    ///
    /// Limited to the default rate where the performance of the store is unknown: with a higher guarantee than the store can give, the
    /// device would idle for the copier while the copier waits for writes of the volume.
    pub(crate) fn rate(store: &StoreEntry, bytes_per_second: u64) -> u64 {
        let promised = if store.profile.is_some() { bytes_per_second } else { bytes_per_second.min(PACE) };
        (promised / CHUNK).max(1)
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Relaxed);
    }

    /// Extents reserved on the destination: place and number.
    pub(crate) fn extents(&self) -> Vec<(u32, u32)> {
        locked(&self.extents).iter().map(|(place, number)| (*place, *number)).collect()
    }

    /// Extents on the old store; empty before the cutover.
    pub(crate) fn left_behind(&self) -> Vec<(u32, u32)> {
        locked(&self.left_behind).clone()
    }

    pub(crate) fn progress(&self) -> Progress {
        let (copied, left) = (self.copied.load(Ordering::Relaxed), self.left.load(Ordering::Relaxed));
        let took = self.began.elapsed().as_secs_f64();
        Progress {
            to: self.to.name.clone(),
            bytes_per_second: self.bytes_per_second,
            copied_bytes: copied,
            left_bytes: left,
            left_seconds: (copied > 0).then(|| (left as f64 * took / copied as f64).ceil() as u64),
            rounds: self.turns.load(Ordering::Relaxed).saturating_sub(1),
        }
    }

    /// Returns an error if the move is cancelled or the server ends.
    fn look(&self, host: &dyn Host) -> Result<(), Ended> {
        if host.is_stopping() {
            return Err(Ended::Stopped);
        }
        if self.is_cancelled.load(Ordering::Relaxed) { Err(Ended::Cancelled) } else { Ok(()) }
    }

    fn wait_for_turn(&self, host: &dyn Host, turn: usize) -> Result<(), Ended> {
        while !self.volume.wait_for_turn(turn, TURN_LOOKS) {
            self.look(host)?;
        }
        Ok(())
    }

    /// Copies the volume and switches it to the destination.
    pub(crate) fn run(&self, host: &dyn Host) -> Result<(), Ended> {
        let moved = self.copy_and_switch(host);
        if moved.is_err() {
            self.volume.hold(false);
            self.volume.forget_dirty();
        }
        moved
    }

    fn copy_and_switch(&self, host: &dyn Host) -> Result<(), Ended> {
        // Requests of an earlier move may be outstanding, and the counter of the next turn must be zero.
        self.wait_for_turn(host, self.volume.other_turn())?;
        let (before, _) = self.volume.turn();
        self.wait_for_turn(host, before)?;
        let mut set = Granules::default();
        self.volume.extents().iter().for_each(|(place, _)| set.mark_extent(*place));
        let paced = How { stream: self.stream, is_paced: true, held_until: None };
        loop {
            self.turns.fetch_add(1, Ordering::Relaxed);
            let each = self.copy(host, &set, &paced)?.1;
            let is_short = || {
                let chunks = self.volume.dirty_bytes().div_ceil(GRANULE);
                each * u32::try_from(chunks / DEPTH as u64 + 1).unwrap_or(u32::MAX) <= EXPECTED_HOLD
            };
            // An early flush leaves less for the one that writes wait for.
            if is_short() && self.flush(host, None)? && is_short() {
                match self.finish(host)? {
                    None => return Ok(()),
                    Some(rest) => set = rest,
                }
                continue;
            }
            let (before, written) = self.volume.turn();
            self.wait_for_turn(host, before)?;
            set = written;
        }
    }

    /// The cutover: holds back writes, copies the rest and switches the store. `Some`: it took too long and writes continue; the set is to
    /// be copied again.
    fn finish(&self, host: &dyn Host) -> Result<Option<Granules>, Ended> {
        let until = Instant::now() + LONGEST_HOLD;
        self.volume.hold(true);
        let (before, rest) = self.volume.turn();
        if !self.volume.wait_for_turn(before, LONGEST_HOLD) {
            self.volume.hold(false);
            self.wait_for_turn(host, before)?;
            return Ok(Some(rest));
        }
        // As the volume itself and without a rate limit, since clients wait for it.
        let how = How { stream: self.volume.id, is_paced: false, held_until: Some(until) };
        let (is_in_time, _) = self.copy(host, &rest, &how)?;
        if !is_in_time || !self.flush(host, Some(until))? {
            let (before, mut written) = self.volume.turn();
            self.wait_for_turn(host, before)?;
            written.merge(&rest);
            return Ok(Some(written));
        }
        let extents = self.extents();
        let changing = locked(&self.volume.changing);
        host.finish(self, &extents).map_err(|error| Ended::Failed(format!("{error:#}")))?;
        *locked(&self.left_behind) = self.volume.extents();
        let before = self.volume.switch(&self.to, &extents);
        drop(changing);
        self.volume.hold(false);
        host.arrived(self);
        // The old extents must not be freed while they are read. Cancelling is no longer possible.
        while !self.volume.wait_for_turn(before, TURN_LOOKS) && !host.is_stopping() {}
        Ok(None)
    }

    /// First sector of a chunk on the destination. Reserves its extent if there is none.
    fn destination(&self, host: &dyn Host, chunk: Chunk) -> Result<u64, Ended> {
        let known = locked(&self.extents).get(&chunk.place).copied();
        let number = match known {
            Some(number) => number,
            None => {
                let full = || Ended::Failed(format!("store {} has no room for another extent", self.to.name));
                let number = host.reserve(self).ok_or_else(full)?;
                locked(&self.extents).insert(chunk.place, number);
                host.reserved(self);
                number
            }
        };
        Ok((u64::from(number) * EXTENT_BYTES + chunk.offset) / 512)
    }

    /// Copies chunks. Returns whether this was done while writes were still held back, and the mean time for a chunk.
    fn copy(&self, host: &dyn Host, set: &Granules, how: &How) -> Result<(bool, Duration), Ended> {
        let most = [&self.from, &self.to].map(|store| 512 * u64::from(store.host.most_sectors())).into_iter().fold(CHUNK, u64::min);
        let (sender, answers) = mpsc::channel();
        let replies: Arc<dyn Replies> = Arc::new(Answers(sender));
        let mut chunks = set.chunks(most / GRANULE * GRANULE).peekable();
        let mut under_way: BTreeMap<u64, Copying> = BTreeMap::new();
        let (mut number, mut due, mut is_in_time, mut ended) = (0, Instant::now(), true, None);
        let (mut took, mut done) = (Duration::ZERO, 0_u32);
        self.left.store(set.bytes(), Ordering::Relaxed);
        loop {
            if ended.is_none() {
                ended = self.look(host).err();
            }
            // The process ends: no need to wait for chunks in flight.
            if matches!(ended, Some(Ended::Stopped)) {
                return Err(Ended::Stopped);
            }
            if is_in_time && how.held_until.is_some_and(|until| Instant::now() > until) {
                is_in_time = false;
                self.volume.hold(false);
            }
            let is_due = !how.is_paced && is_in_time || due <= Instant::now();
            if ended.is_none()
                && is_due
                && under_way.len() < DEPTH
                && let Some(chunk) = chunks.next()
            {
                let Some(extent) = self.volume.extent(chunk.place) else { continue };
                match self.destination(host, chunk) {
                    Ok(to) => {
                        number += 1;
                        let lba = (u64::from(extent) * EXTENT_BYTES + chunk.offset) / 512;
                        let buffer = Some(Buffer::new(chunk.bytes as usize));
                        self.from.host.submit(work((how.stream, Kind::Read), (lba, chunk.bytes), buffer, number, &replies));
                        under_way.insert(number, Copying { chunk, to, is_read: false, begun: Instant::now() });
                        let pause = Duration::from_secs_f64(chunk.bytes as f64 / self.bytes_per_second as f64);
                        // Time lost to a slow store is not caught up, beyond one interval.
                        due = due.max(Instant::now() - LOOKS) + pause;
                    }
                    Err(error) => ended = Some(error),
                }
                continue;
            }
            if under_way.is_empty() && (ended.is_some() || chunks.peek().is_none()) {
                break;
            }
            let wait = if under_way.len() < DEPTH { due.saturating_duration_since(Instant::now()).min(LOOKS) } else { LOOKS };
            let Ok((cookie, result, mut buffers)) = answers.recv_timeout(wait.max(Duration::from_micros(50))) else { continue };
            let Some(copying) = under_way.get_mut(&cookie) else { continue };
            let Copying { chunk, to, is_read, begun } = copying;
            let failed = result.err().map(|error| {
                let (verb, store) = if *is_read { ("writing", &self.to) } else { ("reading", &self.from) };
                let at = u64::from(chunk.place) * EXTENT_BYTES + chunk.offset;
                Ended::Failed(format!("{verb} {} bytes at {at} of the volume on store {}: {error}", chunk.bytes, store.name))
            });
            if failed.is_some() || *is_read || ended.is_some() {
                took += begun.elapsed();
                done += 1;
                self.copied.fetch_add(chunk.bytes, Ordering::Relaxed);
                self.left.fetch_sub(chunk.bytes, Ordering::Relaxed);
                under_way.remove(&cookie);
                ended = ended.or(failed);
                continue;
            }
            *is_read = true;
            // Zeros are trimmed rather than written, so that a thin volume stays thin.
            let buffer = buffers.pop().filter(|buffer| buffer.iter().any(|byte| *byte != 0));
            let kind = if buffer.is_some() { Kind::Write } else { Kind::Trim };
            self.to.host.submit(work((how.stream, kind), (*to, chunk.bytes), buffer, cookie, &replies));
        }
        ended.map_or(Ok((is_in_time, took / done.max(1))), Err)
    }

    /// Flushes the destination. False if it took longer than writes may be held back; they are released then.
    fn flush(&self, host: &dyn Host, held_until: Option<Instant>) -> Result<bool, Ended> {
        let (sender, answers) = mpsc::channel();
        let (stream, replies) = (self.stream, Arc::new(Answers(sender)));
        self.to.host.submit(Work {
            stream,
            kind: Kind::Flush,
            pieces: [].into_iter().collect(),
            is_durable: false,
            replies,
            cookie: 0,
        });
        let mut is_in_time = true;
        loop {
            if let Ok((_, result, _)) = answers.recv_timeout(LOOKS) {
                let failed = |error| Ended::Failed(format!("flushing store {}: {error}", self.to.name));
                return result.map(|()| is_in_time).map_err(failed);
            }
            self.look(host)?;
            if is_in_time && held_until.is_some_and(|until| Instant::now() > until) {
                is_in_time = false;
                self.volume.hold(false);
            }
        }
    }
}

/// A request for one range.
fn work(
    (stream, kind): (StreamId, Kind),
    (lba, bytes): (u64, u64),
    buffer: Option<Buffer>,
    cookie: u64,
    replies: &Arc<dyn Replies>,
) -> Work {
    let pieces = [Piece { lba: Some(lba), sectors: (bytes / 512) as u32, buffer }].into();
    Work { stream, kind, pieces, is_durable: false, replies: replies.clone(), cookie }
}
