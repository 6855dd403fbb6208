//! Gives extents that were trimmed as a whole back to their store.
//!
//! ```text
//! trim ─▶ noted by granules ─▶ extent trimmed as a whole: taken out of the volume ─▶ wait for earlier requests ─▶ label, catalog ─▶ free
//! ```

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::Duration;

use super::Server;
use crate::store_entry::StoreEntry;
use crate::volume::Volume;

/// Interval of the checks. Choice: a client that trims and writes again does not wait long for the space; not varied.
const LOOKS: Duration = Duration::from_millis(100);
/// A store is reported when less than this share is free, in percent. Choice: that of df's usual alarms; not varied.
const SCARCE_PERCENT: u64 = 10;

/// Extents that were taken out of a volume, and may still be used by its requests of a turn.
struct Detached {
    volume: Arc<Volume>,
    store: Arc<StoreEntry>,
    turn: usize,
    extents: Vec<(u32, u32)>,
}

impl Server {
    /// Starts a thread for each store that gives trimmed extents back, until the server is dropped.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn reclaim(self: &Arc<Self>) -> io::Result<()> {
        for store in self.stores() {
            let (server, store) = (Arc::downgrade(self), store.clone());
            thread::Builder::new().name("reclaim".to_owned()).spawn(move || {
                let (mut waiting, mut is_scarce) = (Vec::<Detached>::new(), false);
                while let Some(server) = server.upgrade() {
                    store.reclaiming.store(waiting.len() + 1, Ordering::SeqCst);
                    for volume in server.volumes().iter().filter(|volume| volume.is_on(&store)) {
                        if !waiting.iter().any(|detached| Arc::ptr_eq(&detached.volume, volume)) {
                            waiting.extend(server.detach(volume));
                        }
                    }
                    waiting.retain(|detached| !server.frees(detached));
                    store.reclaiming.store(waiting.len(), Ordering::SeqCst);
                    is_scarce = server.warns_of_scarcity(&store, is_scarce);
                    drop(server);
                    thread::sleep(LOOKS);
                }
            })?;
        }
        Ok(())
    }

    /// Whether trimmed extents of a store are about to be free.
    pub(super) fn is_reclaiming(&self, store: &Arc<StoreEntry>) -> bool {
        let trimmed = |volume: &Arc<Volume>| volume.is_on(store) && volume.has_trimmed_extents();
        store.reclaiming.load(Ordering::SeqCst) > 0 || self.volumes().iter().any(trimmed)
    }

    fn detach(&self, volume: &Arc<Volume>) -> Option<Detached> {
        // Its holder may wait for a store that does not answer.
        let _changing = volume.changing.try_lock().ok()?;
        // The copier reads the extents, and counts requests by the same turns.
        if self.lock().moves.contains_key(&volume.id) {
            return None;
        }
        let (turn, extents) = volume.detach_trimmed()?;
        Some(Detached { volume: volume.clone(), store: volume.store(), turn, extents })
    }

    /// Frees extents; false if requests may still use them, or the volume is being changed.
    fn frees(&self, detached: &Detached) -> bool {
        let Detached { volume, store, turn, extents } = detached;
        if !volume.wait_for_turn(*turn, Duration::ZERO) {
            return false;
        }
        let Ok(_changing) = volume.changing.try_lock() else { return false };
        let freed = self.record(
            store,
            volume.id,
            |label| Ok(label.frees(volume.id, extents)),
            |catalog, at| catalog.free(volume.id, extents, at),
        );
        match freed {
            Ok(()) => self.lock().free(store, extents),
            // They are allocated until the next start, when the volume has them again, as zeros.
            Err(error) => tracing::warn!(store = store.name, error = format!("{error:#}"), "trimmed space is not given back"),
        }
        true
    }

    /// Logs that space becomes scarce, once; returns whether it is.
    fn warns_of_scarcity(&self, store: &StoreEntry, was_scarce: bool) -> bool {
        let (free, all) = (self.free(store), store.usable_extents());
        let is_scarce = 100 * free < SCARCE_PERCENT * all;
        if is_scarce && !was_scarce {
            tracing::warn!(store = store.name, free_mib = free << 6, "less than a tenth of the space is free");
        }
        is_scarce
    }
}
