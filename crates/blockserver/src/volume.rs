//! A volume: its size, its extents on a store, and the requests to it.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};
use std::time::Duration;

use crate::nbd::{Ask, Export, pieces};
use crate::store::{Batch, Buffer, Buffers, Kind, Piece, Replies, Work};
use block::StreamId;
use smallvec::SmallVec;

use crate::catalog::{EXTENT_BYTES, Record};
use crate::granules::{GRANULE, Granules};
use crate::health::Health;
use crate::store_entry::StoreEntry;

/// Marks a place without an extent.
pub(crate) const NONE: u32 = u32::MAX;
/// Marks a volume that may use as much space as its size.
const NO_LIMIT: u64 = u64::MAX;
/// Maximum number of ranges in a reply about allocation. Choice: 32 KiB on the wire; not varied.
const MOST_RANGES: usize = 4096;

/// The owner of all volumes, which allocates their extents.
pub trait Owner: Send + Sync {
    /// Registers a client; false if the volume has been deleted. A volume with clients is not deleted.
    fn opens(&self, volume: &Volume) -> bool;

    /// Allocates extents for the places of a range that have none. They read as zeros: old contents are erased durably before the catalog
    /// records the new owner.
    ///
    /// # Errors
    /// The store is full (ENOSPC), or the store or the catalog fails.
    fn allocate(&self, volume: &Volume, offset: u64, bytes: u64) -> io::Result<()>;
}

/// The mapping of a volume to its store.
struct Route {
    store: Arc<StoreEntry>,
    /// Extent number by place in the volume, or [`NONE`].
    extents: Vec<u32>,
    /// Index of the counter for new requests: see [`Volume::turn`].
    turn: usize,
    /// During a move: ranges written since the current turn began.
    dirty: Option<Mutex<Granules>>,
    /// Writes, trims and zeroes are held back.
    is_held: bool,
    /// Writes, trims and zeroes fail with EIO.
    is_failed: bool,
}

/// Outstanding requests, counted by the turn in which they were admitted.
#[derive(Default)]
struct UnderWay {
    counts: [AtomicUsize; 2],
    /// Requests completed.
    answered: AtomicU64,
    /// Whether a thread waits for a counter to reach zero.
    is_awaited: AtomicBool,
    lock: Mutex<()>,
    changed: Condvar,
}

impl UnderWay {
    fn ended(&self, turn: usize) {
        self.answered.fetch_add(1, Ordering::Relaxed);
        if self.counts[turn].fetch_sub(1, Ordering::SeqCst) == 1 && self.is_awaited.load(Ordering::SeqCst) {
            drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }

    /// Waits until no request of a turn is outstanding; false after the timeout `most`.
    fn wait(&self, turn: usize, most: Duration) -> bool {
        self.is_awaited.store(true, Ordering::SeqCst);
        let locked = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(locked, most, |_| self.counts[turn].load(Ordering::SeqCst) > 0);
        drop(waited);
        self.is_awaited.store(false, Ordering::SeqCst);
        self.counts[turn].load(Ordering::SeqCst) == 0
    }
}

/// Rules for the space of a volume, and its trims.
struct Space {
    /// Whether space is kept for all of it.
    is_thick: bool,
    /// Maximum allocated space in bytes; [`NO_LIMIT`]: its size.
    max_used: AtomicU64,
    /// Granules that were trimmed and not written since, and whether there are any.
    trimmed: Mutex<Granules>,
    has_trimmed: AtomicBool,
}

/// A volume that clients can open.
pub struct Volume {
    /// Id in the catalog, and stream at the store.
    pub id: StreamId,
    /// Name.
    pub name: String,
    bytes: AtomicU64,
    contract: Mutex<String>,
    route: RwLock<Route>,
    under_way: Arc<UnderWay>,
    /// Errors and stalls.
    pub(crate) health: Health,
    /// Whether writes are held back, as in [`Route::is_held`], and the signal that they are released.
    held: (Mutex<bool>, Condvar),
    /// Number of clients that have it open.
    clients: AtomicUsize,
    /// Reads, writes, bytes read and bytes written.
    counts: [AtomicU64; 4],
    /// Time during which clients were throttled, in nanoseconds.
    held_back_ns: AtomicU64,
    /// Number of moves so far.
    moves: AtomicU32,
    space: Space,
    /// Held while its size, extents, contract or store change.
    pub(crate) changing: Mutex<()>,
    owner: Weak<dyn Owner>,
}

impl Volume {
    /// A volume from its catalog record.
    pub(crate) fn new(record: Record, store: Arc<StoreEntry>, owner: Weak<dyn Owner>) -> Volume {
        let mut extents = vec![NONE; record.bytes.div_ceil(EXTENT_BYTES) as usize];
        for (place, number) in record.extents {
            if let Some(extent) = extents.get_mut(place as usize) {
                *extent = number;
            }
        }
        Volume {
            id: record.id,
            name: record.name,
            bytes: AtomicU64::new(record.bytes),
            contract: Mutex::new(record.contract),
            route: RwLock::new(Route { store, extents, turn: 0, dirty: None, is_held: false, is_failed: false }),
            under_way: Arc::default(),
            health: Health::default(),
            held: Default::default(),
            clients: AtomicUsize::new(0),
            counts: Default::default(),
            held_back_ns: AtomicU64::new(0),
            moves: AtomicU32::new(record.moves),
            space: Space {
                is_thick: record.is_thick,
                max_used: AtomicU64::new(record.max_used.unwrap_or(NO_LIMIT)),
                trimmed: Mutex::default(),
                has_trimmed: AtomicBool::new(false),
            },
            changing: Mutex::default(),
            owner,
        }
    }

    fn route(&self) -> RwLockReadGuard<'_, Route> {
        self.route.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_route(&self) -> RwLockWriteGuard<'_, Route> {
        self.route.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The store that holds it.
    pub fn store(&self) -> Arc<StoreEntry> {
        self.route().store.clone()
    }

    /// Whether it is held by this store.
    pub fn is_on(&self, store: &Arc<StoreEntry>) -> bool {
        Arc::ptr_eq(&self.route().store, store)
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub fn contract(&self) -> String {
        self.contract.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_contract(&self, contract: &str) {
        contract.clone_into(&mut self.contract.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// As the catalog records it.
    pub(crate) fn record(&self) -> Record {
        let (id, name, store, bytes) = (self.id, self.name.clone(), self.store().name.clone(), self.bytes());
        let (contract, moves) = (self.contract(), self.moves.load(Ordering::Relaxed));
        let (is_thick, max_used) = (self.space.is_thick, self.max_used());
        Record { id, name, store, bytes, contract, moves, is_thick, max_used, extents: self.extents() }
    }

    /// Whether space is kept for all of it.
    pub fn is_thick(&self) -> bool {
        self.space.is_thick
    }

    /// Maximum allocated space in bytes; `None`: its size.
    pub fn max_used(&self) -> Option<u64> {
        Some(self.space.max_used.load(Ordering::Relaxed)).filter(|bytes| *bytes != NO_LIMIT)
    }

    pub(crate) fn set_max_used(&self, bytes: Option<u64>) {
        self.space.max_used.store(bytes.unwrap_or(NO_LIMIT), Ordering::Relaxed);
    }

    /// Whether it may have this many more extents.
    pub(crate) fn may_use(&self, extents: usize) -> bool {
        self.max_used().is_none_or(|most| (self.extents().len() + extents) as u64 * EXTENT_BYTES <= most)
    }

    /// Whether there are extents that were trimmed as a whole.
    pub(crate) fn has_trimmed_extents(&self) -> bool {
        let has_trimmed = !self.space.is_thick && self.space.has_trimmed.load(Ordering::SeqCst);
        let whole = || self.space.trimmed.lock().unwrap_or_else(PoisonError::into_inner).whole();
        has_trimmed && whole().into_iter().any(|place| self.extent(place).is_some())
    }

    /// Takes extents that were trimmed as a whole out of the volume, as place and number, and begins a turn. The extents can be freed once
    /// [`wait_for_turn`](Volume::wait_for_turn) has returned true for the returned turn, whose requests may still use them. `None` if there
    /// are none, or requests of the turn before are outstanding.
    pub(crate) fn detach_trimmed(&self) -> Option<(usize, Vec<(u32, u32)>)> {
        if self.space.is_thick || !self.space.has_trimmed.load(Ordering::SeqCst) {
            return None;
        }
        let mut route = self.change_route();
        let mut trimmed = self.space.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        if self.under_way.counts[route.turn ^ 1].load(Ordering::SeqCst) > 0 {
            return None;
        }
        let mut detached = Vec::new();
        for place in trimmed.whole() {
            trimmed.forget(place);
            if let Some(extent) = route.extents.get_mut(place as usize).filter(|extent| **extent != NONE) {
                detached.push((place, std::mem::replace(extent, NONE)));
            }
        }
        self.space.has_trimmed.store(trimmed.bytes() > 0, Ordering::SeqCst);
        if detached.is_empty() {
            return None;
        }
        let before = route.next_turn();
        Some((before, detached))
    }

    /// Notes a trim, or a write to trimmed granules.
    fn note_trims(&self, ask: &Ask) {
        let trimmed = || self.space.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        match ask.kind {
            Kind::Trim if !self.space.is_thick => {
                let end = ask.offset + ask.bytes;
                // Behind its end there is nothing to keep.
                let end = if end == self.bytes() { end.next_multiple_of(EXTENT_BYTES) } else { end };
                trimmed().mark_inside(ask.offset, end - ask.offset);
                self.space.has_trimmed.store(true, Ordering::SeqCst);
            }
            Kind::Write | Kind::Zero if self.space.has_trimmed.load(Ordering::SeqCst) => trimmed().unmark(ask.offset, ask.bytes),
            _ => {}
        }
    }

    /// Number of clients that have it open.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// Counts a client that opens it.
    pub(crate) fn opened(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Reads, writes, bytes read and bytes written.
    pub fn counts(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|number: usize| self.counts[number].load(Ordering::Relaxed))
    }

    /// Time during which clients were not read from because they had too much outstanding.
    pub fn held_back(&self) -> Duration {
        Duration::from_nanos(self.held_back_ns.load(Ordering::Relaxed))
    }

    /// Allocated extents: place in the volume and number on the store.
    pub fn extents(&self) -> Vec<(u32, u32)> {
        let route = self.route();
        let places = (0_u32..).zip(route.extents.iter().copied());
        places.filter(|(_, number)| *number != NONE).collect()
    }

    /// Sets the size. Extents beyond the new end are dropped.
    pub(crate) fn resize(&self, bytes: u64) {
        let mut route = self.change_route();
        route.extents.resize(bytes.div_ceil(EXTENT_BYTES) as usize, NONE);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Places of a range that have no extent.
    pub(crate) fn missing(&self, offset: u64, bytes: u64) -> Vec<u32> {
        self.route().missing(offset, bytes)
    }

    /// Maps places to extents, and marks them dirty during a move.
    pub(crate) fn place(&self, given: &[(u32, u32)]) {
        let mut route = self.change_route();
        for (place, number) in given {
            if let Some(extent) = route.extents.get_mut(*place as usize) {
                *extent = *number;
            }
            if let Some(dirty) = &mut route.dirty {
                dirty.get_mut().unwrap_or_else(PoisonError::into_inner).mark_extent(*place);
            }
        }
    }

    /// Begins a turn, with a request counter and a dirty set of its own, and returns the previous turn with its dirty set. That data is on
    /// the store once [`wait_for_turn`](Volume::wait_for_turn) has returned true for the turn. There are only two counters: the turn before
    /// the returned one must have been waited for.
    pub(crate) fn turn(&self) -> (usize, Granules) {
        let mut route = self.change_route();
        let before = route.next_turn();
        let dirty = route.dirty.replace(Mutex::default());
        (before, dirty.map(|dirty| dirty.into_inner().unwrap_or_else(PoisonError::into_inner)).unwrap_or_default())
    }

    /// The turn whose counter is not in use.
    pub(crate) fn other_turn(&self) -> usize {
        self.route().turn ^ 1
    }

    /// Waits until no request of a turn is outstanding; false after the timeout `most`.
    pub(crate) fn wait_for_turn(&self, turn: usize, most: Duration) -> bool {
        self.under_way.wait(turn, most)
    }

    /// Holds back writes, trims and zeroes, or releases them.
    pub(crate) fn hold(&self, is_held: bool) {
        *self.held.0.lock().unwrap_or_else(PoisonError::into_inner) = is_held;
        self.change_route().is_held = is_held;
        if !is_held {
            self.held.1.notify_all();
        }
    }

    /// Stops tracking writes.
    pub(crate) fn forget_dirty(&self) {
        self.change_route().dirty = None;
    }

    /// Redirects requests to another store. Returns the turn that ends: its requests may still read from the old store.
    pub(crate) fn switch(&self, store: &Arc<StoreEntry>, extents: &[(u32, u32)]) -> usize {
        let mut route = self.change_route();
        let before = route.next_turn();
        route.dirty = None;
        route.store = store.clone();
        self.moves.fetch_add(1, Ordering::Relaxed);
        route.extents.fill(NONE);
        for (place, number) in extents {
            if let Some(extent) = route.extents.get_mut(*place as usize) {
                *extent = *number;
            }
        }
        before
    }

    fn count(&self, kind: Kind, bytes: u64) {
        let place = match kind {
            Kind::Read => 0,
            Kind::Write => 1,
            _ => return,
        };
        self.counts[place].fetch_add(1, Ordering::Relaxed);
        self.counts[2 + place].fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the store for an allocation. Counted as an outstanding request until the guard is dropped, so that the volume is not moved
    /// meanwhile.
    pub(crate) fn begin_allocation(&self) -> (Arc<StoreEntry>, impl Drop) {
        struct Guard(Arc<UnderWay>, usize);
        impl Drop for Guard {
            fn drop(&mut self) {
                self.0.ended(self.1);
            }
        }
        loop {
            let route = self.route();
            if !route.is_held {
                self.under_way.counts[route.turn].fetch_add(1, Ordering::SeqCst);
                return (route.store.clone(), Guard(self.under_way.clone(), route.turn));
            }
            drop(route);
            self.wait_while_held();
        }
    }

    /// Number of outstanding requests, and of completed ones since the server started.
    pub(crate) fn under_way(&self) -> (usize, u64) {
        let counts = self.under_way.counts.each_ref().map(|count| count.load(Ordering::SeqCst));
        (counts.iter().sum(), self.under_way.answered.load(Ordering::Relaxed))
    }

    /// Size of the dirty set of the current turn in bytes, in whole granules.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        let route = self.route();
        route.dirty.as_ref().map_or(0, |dirty| dirty.lock().unwrap_or_else(PoisonError::into_inner).bytes())
    }

    /// The extent at a place; `None` if there is none.
    pub(crate) fn extent(&self, place: u32) -> Option<u32> {
        self.route().extents.get(place as usize).copied().filter(|number| *number != NONE)
    }

    /// Makes writes, trims and zeroes fail from now on, because the state of the volume in the catalog is unknown.
    pub(crate) fn fail(&self) {
        self.change_route().is_failed = true;
    }

    /// Allocates extents for a write; false if that failed and the request was answered with the error.
    fn has_extents(&self, ask: &Ask, replies: &Arc<dyn Replies>) -> bool {
        let given = match self.owner.upgrade() {
            Some(owner) => owner.allocate(self, ask.offset, ask.bytes),
            None => Err(io::Error::other("the server ends")),
        };
        given
            .inspect_err(|error| self.health.failed(&self.name, &self.store().name, error))
            .map_err(|error| {
                replies.done(ask.cookie, Err(error), Buffers::new());
                replies.flush();
            })
            .is_ok()
    }

    fn wait_while_held(&self) {
        let held = self.held.0.lock().unwrap_or_else(PoisonError::into_inner);
        drop(self.held.1.wait_while(held, |held| *held));
    }

    /// Admits a request: waits while writes are held, allocates missing extents, marks writes dirty during a move, and counts the request
    /// in the current turn. `None` if it was answered with an error. Runs the batch before it blocks, because it may be waiting for a
    /// request of the batch.
    fn admit(&self, ask: &Ask, replies: &Arc<dyn Replies>, batch: &mut Batch) -> Option<(RwLockReadGuard<'_, Route>, usize)> {
        let changes = matches!(ask.kind, Kind::Write | Kind::Zero | Kind::Trim);
        loop {
            let route = self.route();
            if changes && route.is_held {
                drop(route);
                batch.run();
                self.wait_while_held();
                continue;
            }
            if changes && route.is_failed {
                drop(route);
                replies.done(ask.cookie, Err(io::Error::from_raw_os_error(5)), Buffers::new());
                replies.flush();
                return None;
            }
            if matches!(ask.kind, Kind::Write | Kind::Zero) && route.misses(ask.offset, ask.bytes) {
                drop(route);
                batch.run();
                if !self.has_extents(ask, replies) {
                    return None;
                }
                continue;
            }
            if changes && let Some(dirty) = &route.dirty {
                dirty.lock().unwrap_or_else(PoisonError::into_inner).mark(ask.offset, ask.bytes);
            }
            if changes {
                self.note_trims(ask);
            }
            let turn = route.turn;
            self.under_way.counts[turn].fetch_add(1, Ordering::SeqCst);
            return Some((route, turn));
        }
    }
}

impl Route {
    /// Begins a turn, and returns the one before.
    fn next_turn(&mut self) -> usize {
        let before = self.turn;
        self.turn ^= 1;
        before
    }

    fn places(offset: u64, bytes: u64) -> std::ops::Range<usize> {
        (offset / EXTENT_BYTES) as usize..(offset + bytes).div_ceil(EXTENT_BYTES) as usize
    }

    fn misses(&self, offset: u64, bytes: u64) -> bool {
        Route::places(offset, bytes).any(|place| self.extents.get(place) == Some(&NONE))
    }

    fn missing(&self, offset: u64, bytes: u64) -> Vec<u32> {
        if bytes == 0 {
            return Vec::new();
        }
        let places = Route::places(offset, bytes).filter(|place| self.extents.get(*place) == Some(&NONE));
        places.map(|place| place as u32).collect()
    }

    /// The first sector of an offset on the store; `None` without an extent.
    fn lba(&self, offset: u64) -> Option<u64> {
        let number = self.extents.get((offset / EXTENT_BYTES) as usize).copied().filter(|number| *number != NONE)?;
        Some((u64::from(number) * EXTENT_BYTES + offset % EXTENT_BYTES) / 512)
    }

    fn cuts(&self) -> (u64, u64) {
        (EXTENT_BYTES, 512 * u64::from(self.store.host.most_sectors()))
    }

    fn work(&self, stream: StreamId, ask: Ask, replies: Arc<dyn Replies>) -> Work {
        let Ask { cookie, kind, offset, bytes, is_durable, data } = ask;
        let moves_data = matches!(kind, Kind::Read | Kind::Write);
        let most = if moves_data { self.cuts().1 } else { EXTENT_BYTES };
        let (mut at, mut data) = (offset, data.into_iter());
        let mut places = SmallVec::new();
        for length in pieces(offset, bytes, EXTENT_BYTES, most) {
            let lba = self.lba(at);
            at += length;
            let buffer = match kind {
                // Not zeroed: reads overwrite all of it, and the store zero-fills pieces without an extent.
                Kind::Read => Some(Buffer::dirty(length as usize)),
                _ => data.next(),
            };
            // Trims and zeroes need nothing where there is no extent.
            if lba.is_some() || moves_data {
                places.push(Piece { lba, sectors: (length / 512) as u32, buffer });
            }
        }
        Work { stream, kind, pieces: places, is_durable, replies, cookie }
    }
}

/// Forwards replies, and counts requests as completed.
struct Counted {
    volume: Arc<Volume>,
    turn: usize,
    replies: Arc<dyn Replies>,
}

impl Replies for Counted {
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Buffers) {
        // Before the reply: a client that has its answer may rely on the request being counted as completed.
        if let Err(error) = &result {
            self.volume.health.failed(&self.volume.name, &self.volume.store().name, error);
        }
        self.volume.under_way.ended(self.turn);
        self.replies.done(cookie, result, buffers);
    }

    fn flush(&self) {
        self.replies.flush();
    }
}

/// A volume opened by a client.
pub struct OpenVolume {
    volume: Arc<Volume>,
    /// By turn. Cached, because a connection passes the same `replies` with every request.
    counted: [OnceLock<Arc<Counted>>; 2],
}

impl OpenVolume {
    pub(crate) fn new(volume: Arc<Volume>) -> OpenVolume {
        OpenVolume { volume, counted: Default::default() }
    }

    fn counted(&self, turn: usize, replies: Arc<dyn Replies>) -> Arc<Counted> {
        let new = |replies| Arc::new(Counted { volume: self.volume.clone(), turn, replies });
        let known = self.counted[turn].get_or_init(|| new(replies.clone()));
        if Arc::ptr_eq(&known.replies, &replies) { known.clone() } else { new(replies) }
    }
}

impl Export for OpenVolume {
    fn name(&self) -> String {
        self.volume.name.clone()
    }

    fn description(&self) -> String {
        self.volume.description()
    }

    fn bytes(&self) -> u64 {
        self.volume.bytes()
    }

    fn block_bytes(&self) -> [u32; 3] {
        [self.volume.route().store.block_bytes, 4096, crate::nbd::wire::MAX_PAYLOAD]
    }

    fn cuts(&self) -> (u64, u64) {
        self.volume.route().cuts()
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn is_rotational(&self) -> bool {
        self.volume.route().store.is_rotational
    }

    fn put(&self, ask: Ask, replies: Arc<dyn Replies>, batch: &mut Batch) {
        let volume = &*self.volume;
        volume.count(ask.kind, ask.bytes);
        let Some((route, turn)) = volume.admit(&ask, &replies, batch) else { return };
        let work = route.work(volume.id, ask, self.counted(turn, replies));
        let store = route.store.clone();
        drop(route);
        store.host.put(work, batch);
    }

    fn status(&self, offset: u64, bytes: u64) -> Vec<(u64, bool)> {
        let route = self.volume.route();
        let mut found: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        let trimmed = self.volume.space.trimmed.lock().unwrap_or_else(PoisonError::into_inner);
        let has_trimmed = trimmed.bytes() > 0;
        let step = if has_trimmed { GRANULE } else { EXTENT_BYTES };
        for length in pieces(offset, bytes, step, step) {
            let is_hole = route.lba(at).is_none() || has_trimmed && trimmed.contains(at);
            at += length;
            if found.len() == MOST_RANGES && found.last().is_some_and(|(_, was_hole)| *was_hole != is_hole) {
                break;
            }
            match found.last_mut() {
                Some((before, was_hole)) if *was_hole == is_hole => *before += length,
                _ => found.push((length, is_hole)),
            }
        }
        found
    }

    fn begins(&self) -> bool {
        self.volume.owner.upgrade().is_some_and(|owner| owner.opens(&self.volume))
    }

    fn held_back(&self, time: Duration) {
        self.volume.held_back_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn ends(&self) {
        self.volume.clients.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Volume {
    /// Description for lists of exports.
    pub fn description(&self) -> String {
        format!("volume of store {}", self.store().name)
    }
}
