//! A volume: a size, extents of a store, and what is done with it.

use std::io;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::Duration;

use block::StreamId;
use serve::nbd::{Ask, Export, pieces};
use serve::store::{Batch, Buffer, Buffers, Kind, Piece, Replies, Work};
use smallvec::SmallVec;

use crate::catalog::EXTENT_BYTES;
use crate::store::StoreEntry;

/// A place of a volume that has no extent.
const NONE: u32 = u32::MAX;

/// Who has the volumes, and gives them extents.
pub trait Owner: Send + Sync {
    /// A client begins to use a volume; false if the volume has gone. No volume goes while a client uses it.
    fn opens(&self, volume: &Volume) -> bool;

    /// Gives extents to the places of a range that have none. They read as zeros: what another volume left there is gone, and that is on the
    /// medium before the catalog says whose they are.
    ///
    /// # Errors
    /// The store has no room, or it or the catalog fails.
    fn allocate(&self, volume: &Volume, offset: u64, bytes: u64) -> io::Result<()>;
}

/// A volume that can be opened.
pub struct Volume {
    /// Its number in the catalog, and its stream at the store.
    pub id: StreamId,
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub store: Arc<StoreEntry>,
    bytes: AtomicU64,
    contract: Mutex<String>,
    /// By place in the volume: the number of the extent, or [`NONE`].
    extents: RwLock<Vec<u32>>,
    /// Clients that have it open.
    clients: AtomicUsize,
    /// Requests and bytes so far, read and written.
    counts: [AtomicU64; 4],
    /// For how long clients were not read from, in nanoseconds.
    held_back_ns: AtomicU64,
    owner: Weak<dyn Owner>,
}

impl Volume {
    /// A volume as the catalog has it.
    pub(crate) fn new(record: crate::catalog::Record, store: Arc<StoreEntry>, owner: Weak<dyn Owner>) -> Volume {
        let mut extents = vec![NONE; record.bytes.div_ceil(EXTENT_BYTES) as usize];
        for (place, number) in record.extents {
            if let Some(extent) = extents.get_mut(place as usize) {
                *extent = number;
            }
        }
        Volume {
            id: record.id,
            name: record.name,
            store,
            bytes: AtomicU64::new(record.bytes),
            contract: Mutex::new(record.contract),
            extents: RwLock::new(extents),
            clients: AtomicUsize::new(0),
            counts: Default::default(),
            held_back_ns: AtomicU64::new(0),
            owner,
        }
    }

    /// What it was promised: keys of a tenant in TOML.
    pub fn contract(&self) -> String {
        self.contract.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_contract(&self, contract: &str) {
        contract.clone_into(&mut self.contract.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Clients that have it open.
    pub fn clients(&self) -> usize {
        self.clients.load(Ordering::Relaxed)
    }

    /// A client opens it.
    pub(crate) fn opened(&self) {
        self.clients.fetch_add(1, Ordering::Relaxed);
    }

    /// Requests read and written, and bytes read and written.
    pub fn counts(&self) -> [u64; 4] {
        [0, 1, 2, 3].map(|number: usize| self.counts[number].load(Ordering::Relaxed))
    }

    /// For how long clients were not read from because too much of theirs was under way.
    pub fn held_back(&self) -> Duration {
        Duration::from_nanos(self.held_back_ns.load(Ordering::Relaxed))
    }

    /// Extents that it has: place and number.
    pub fn extents(&self) -> Vec<(u32, u32)> {
        let extents = self.extents.read().unwrap_or_else(PoisonError::into_inner);
        let places = (0_u32..).zip(extents.iter().copied());
        places.filter(|(_, number)| *number != NONE).collect()
    }

    /// Changes the size. What is behind a smaller one is gone.
    pub(crate) fn resize(&self, bytes: u64) {
        let mut extents = self.extents.write().unwrap_or_else(PoisonError::into_inner);
        extents.resize(bytes.div_ceil(EXTENT_BYTES) as usize, NONE);
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Places of a range that have no extent.
    pub(crate) fn missing(&self, offset: u64, bytes: u64) -> Vec<u32> {
        if bytes == 0 {
            return Vec::new();
        }
        let extents = self.extents.read().unwrap_or_else(PoisonError::into_inner);
        let places = offset / EXTENT_BYTES..=(offset + bytes - 1) / EXTENT_BYTES;
        places.filter(|place| extents.get(*place as usize) == Some(&NONE)).map(|place| place as u32).collect()
    }

    /// Places that were given extents.
    pub(crate) fn place(&self, given: &[(u32, u32)]) {
        let mut extents = self.extents.write().unwrap_or_else(PoisonError::into_inner);
        for (place, number) in given {
            if let Some(extent) = extents.get_mut(*place as usize) {
                *extent = *number;
            }
        }
    }

    /// The sector of the store at an offset; `None` if there is no extent.
    fn lba(&self, extents: &[u32], offset: u64) -> Option<u64> {
        let number = extents.get((offset / EXTENT_BYTES) as usize).copied().filter(|number| *number != NONE)?;
        Some((u64::from(number) * EXTENT_BYTES + offset % EXTENT_BYTES) / 512)
    }

    fn work(&self, ask: Ask, replies: Arc<dyn Replies>) -> Work {
        let Ask { cookie, kind, offset, bytes, is_durable, data } = ask;
        let moves_data = matches!(kind, Kind::Read | Kind::Write);
        let most = if moves_data { self.cuts().1 } else { EXTENT_BYTES };
        let extents = self.extents.read().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut data) = (offset, data.into_iter());
        let mut places = SmallVec::new();
        for length in pieces(offset, bytes, EXTENT_BYTES, most) {
            let lba = self.lba(&extents, at);
            at += length;
            let buffer = match kind {
                // Overwritten whole, or filled with zeros by the store where there is no extent.
                Kind::Read => Some(Buffer::dirty(length as usize)),
                _ => data.next(),
            };
            // What has no extent reads as zeros already.
            if lba.is_some() || moves_data {
                places.push(Piece { lba, sectors: (length / 512) as u32, buffer });
            }
        }
        Work { stream: self.id, kind, pieces: places, is_durable, replies, cookie }
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
}

impl Export for Volume {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn description(&self) -> String {
        format!("volume of store {}", self.store.name)
    }

    fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn block_bytes(&self) -> [u32; 3] {
        [self.store.block_bytes, 4096, serve::nbd::wire::MAX_PAYLOAD]
    }

    fn cuts(&self) -> (u64, u64) {
        (EXTENT_BYTES, 512 * u64::from(self.store.host.most_sectors()))
    }

    fn is_read_only(&self) -> bool {
        false
    }

    fn is_rotational(&self) -> bool {
        self.store.is_rotational
    }

    fn put(&self, ask: Ask, replies: Arc<dyn Replies>, batch: &mut Batch) {
        self.count(ask.kind, ask.bytes);
        if matches!(ask.kind, Kind::Write | Kind::Zero) {
            let missing = self.missing(ask.offset, ask.bytes);
            if !missing.is_empty() {
                // Takes time, in which what came before is not to wait.
                batch.run();
                let given = match self.owner.upgrade() {
                    Some(owner) => owner.allocate(self, ask.offset, ask.bytes),
                    None => Err(io::Error::other("the server ends")),
                };
                if let Err(error) = given {
                    tracing::error!(volume = self.name, %error, "no extent");
                    replies.done(ask.cookie, Err(error), Buffers::new());
                    replies.flush();
                    return;
                }
            }
        }
        self.store.host.put(self.work(ask, replies), batch);
    }

    fn status(&self, offset: u64, bytes: u64) -> Vec<(u64, bool)> {
        let extents = self.extents.read().unwrap_or_else(PoisonError::into_inner);
        let mut found: Vec<(u64, bool)> = Vec::new();
        let mut at = offset;
        for length in pieces(offset, bytes, EXTENT_BYTES, EXTENT_BYTES) {
            let is_hole = self.lba(&extents, at).is_none();
            at += length;
            match found.last_mut() {
                Some((before, was_hole)) if *was_hole == is_hole => *before += length,
                _ => found.push((length, is_hole)),
            }
        }
        found
    }

    fn begins(&self) -> bool {
        self.owner.upgrade().is_some_and(|owner| owner.opens(self))
    }

    fn held_back(&self, time: Duration) {
        self.held_back_ns.fetch_add(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn ends(&self) {
        self.clients.fetch_sub(1, Ordering::Relaxed);
    }
}
