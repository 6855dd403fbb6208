//! Starting, resuming, cancelling and planning moves between stores.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use block::StreamId;

use super::{Server, State};
use crate::admission::Asked;
use crate::catalog::{Catalog, Record};
use crate::configuration::Moves;
use crate::migration::{Ended, Host, Move, Progress};
use crate::planner::{self, Advice, Place, Placed, World};
use crate::store_entry::StoreEntry;
use crate::volume::Volume;

/// Base of the copiers' stream numbers: the copier of a volume has this plus the volume's id.
const COPIERS: StreamId = 1 << 30;

/// How long a cancel command waits for the copier to end: a stalled store may delay it further.
const CANCELS: Duration = Duration::from_secs(5);

/// Interval of the check for automatic moves.
const LOOKS: Duration = Duration::from_secs(1);
const DAY: Duration = Duration::from_secs(86_400);

impl Server {
    /// Starts to move a volume to another store. Returns a note for its owner, if any.
    ///
    /// # Errors
    /// There is no such volume or store, the volume is being moved already, the destination lacks space, or, unless `is_unchecked`, a store
    /// could not keep its guarantees.
    pub fn begin_move(
        self: &Arc<Self>,
        name: &str,
        to: &str,
        bytes_per_second: u64,
        is_unchecked: bool,
    ) -> anyhow::Result<Option<String>> {
        let to = self.store(Some(to))?;
        let volume = Server::settled(&self.lock(), name)?;
        let from = volume.store();
        let _alone = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        self.check_move(&volume, &to)?;
        let note = if is_unchecked { None } else { self.admit_move(&volume, &to, bytes_per_second)? };
        let catalog = self.catalog();
        let volume = Server::settled(&self.lock(), name)?;
        ensure!(volume.is_on(&from), "volume {name}: was changed at the same time; try again");
        catalog.begin_move(volume.id, &to.name, bytes_per_second)?;
        drop(catalog);
        self.spawn_move(volume, to, bytes_per_second)?;
        Ok(note)
    }

    /// Admission control for a move: destination and source must keep their guarantees, that of the copier included.
    fn admit_move(&self, volume: &Volume, to: &StoreEntry, bytes_per_second: u64) -> anyhow::Result<Option<String>> {
        let (name, bytes, contract) = (&volume.name, volume.bytes(), volume.contract());
        let way_out = "with a copier at this pace (--pace asks for less, --unchecked for no check)";
        let note = self.admit_with(to, name, bytes, &contract, Some(bytes_per_second)).context(way_out)?;
        let from = volume.store();
        let Err(error) = self.admit_with(&from, name, bytes, &contract, Some(bytes_per_second)) else { return Ok(note) };
        // A source that breaks its guarantees anyway does not forbid a move that may help.
        if self.admit(&from, name, bytes, &contract).is_ok() {
            return Err(error.context(way_out));
        }
        Ok(note)
    }

    /// Checks that the destination is another store, has space, and supports the block size of the volume's clients.
    fn check_move(&self, volume: &Volume, to: &Arc<StoreEntry>) -> anyhow::Result<()> {
        let (name, from) = (&volume.name, volume.store());
        ensure!(!Arc::ptr_eq(&from, to), "volume {name}: is on store {} already", to.name);
        ensure!(
            to.block_bytes <= from.block_bytes,
            "volume {name}: its clients may write {} bytes, and store {} takes {} at least",
            from.block_bytes,
            to.name,
            to.block_bytes
        );
        let (needed, free) = (volume.extents().len() as u64, self.free(to));
        ensure!(needed <= free, "volume {name}: has {needed} extents of 64 MiB, and store {} has {free} free", to.name);
        Ok(())
    }

    /// Resumes a move that was interrupted by the end of the server, or cancels it if it is no longer possible.
    pub(super) fn resume_move(self: &Arc<Self>, id: StreamId, to: &str, bytes_per_second: u64) -> anyhow::Result<()> {
        let volume = self.lock().volumes.values().find(|volume| volume.id == id).cloned();
        let volume = volume.context("catalog: a volume is being moved that is not there")?;
        let found = self.store(Some(to)).and_then(|to| self.check_move(&volume, &to).map(|()| to));
        match found {
            Ok(to) => {
                tracing::info!(volume = volume.name, to = to.name, "the move is begun again");
                self.spawn_move(volume, to, bytes_per_second)
            }
            Err(error) => {
                tracing::warn!(volume = volume.name, to, error = format!("{error:#}"), "the move is cancelled");
                self.lock().failed_moves.insert(id, format!("{error:#}"));
                self.catalog().cancel_move(id)
            }
        }
    }

    fn spawn_move(self: &Arc<Self>, volume: Arc<Volume>, to: Arc<StoreEntry>, bytes_per_second: u64) -> anyhow::Result<()> {
        let stream = COPIERS + volume.id;
        let moving = Arc::new(Move::new(volume, to, stream, bytes_per_second));
        {
            // Not while trimmed extents are taken out.
            let _changing = moving.volume.changing.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.lock();
            state.failed_moves.remove(&moving.volume.id);
            state.moves.insert(moving.volume.id, moving.clone());
            self.tell(&state, &moving.from)?;
            self.tell(&state, &moving.to)?;
        }
        let server = Arc::downgrade(self);
        let of_thread = moving.clone();
        let started = thread::Builder::new().name("copier".to_owned()).spawn(move || {
            if let Some(server) = server.upgrade() {
                let ended = of_thread.run(&*server);
                server.end_move(&of_thread, ended);
            }
        });
        started.map(drop).or_else(|error| {
            self.end_move(&moving, Err(Ended::Cancelled));
            Err(error).context("the copier cannot be started")
        })
    }

    /// Cleans up after a copier: updates the catalog, the extents in use, and both schedulers.
    fn end_move(&self, moving: &Move, ended: Result<(), Ended>) {
        let (volume, to) = (moving.volume.name.as_str(), moving.to.name.as_str());
        let failure = match &ended {
            Ok(()) => {
                tracing::info!(volume, to, "moved");
                None
            }
            // The catalog keeps the move, which is resumed at the next start.
            Err(Ended::Stopped) => return,
            Err(Ended::Cancelled) => {
                tracing::info!(volume, to, "the move is cancelled");
                None
            }
            Err(Ended::Failed(reason)) => {
                tracing::error!(volume, to, reason, "the move failed, and the volume stays where it is");
                Some(reason.clone())
            }
        };
        if ended.is_err()
            && let Err(error) = self.catalog().cancel_move(moving.volume.id)
        {
            // Harmless: the move is resumed at the next start.
            tracing::error!(volume, error = format!("{error:#}"), "the catalog cannot be written");
        }
        let mut state = self.lock();
        state.moves.remove(&moving.volume.id);
        if ended.is_ok() {
            state.free(&moving.from, &moving.left_behind());
        } else {
            state.free(&moving.to, &moving.extents());
        }
        drop(state);
        if ended.is_ok() {
            self.forget_left_behind(moving);
        }
        let mut state = self.lock();
        state.failed_moves.extend(failure.map(|reason| (moving.volume.id, reason)));
        for store in [&moving.from, &moving.to] {
            if let Err(error) = self.tell(&state, store) {
                tracing::error!(store = store.name, error = format!("{error:#}"), "the scheduler's tenants");
            }
        }
        self.move_ended.notify_all();
    }

    /// Removes a moved volume from the label of the store that it was on. If that fails, the next start does it: the other store has more moves.
    fn forget_left_behind(&self, moving: &Move) {
        let id = moving.volume.id;
        let forgotten = self.record(&moving.from, id, |label| Ok(label.without_volume(id)), Catalog::advance);
        if let Err(error) = forgotten {
            tracing::warn!(store = moving.from.name, error = format!("{error:#}"), "the label has a volume that was moved");
        }
    }

    /// Cancels a move, after which the volume stays on its store. Returns a note if that takes long or the volume has already been moved.
    ///
    /// # Errors
    /// There is no such volume, or it is not being moved.
    pub fn cancel_move(&self, name: &str) -> anyhow::Result<Option<String>> {
        let mut state = self.lock();
        let volume = Server::volume(&state, name)?;
        let moving = state.moves.get(&volume.id).cloned().with_context(|| format!("volume {name}: is not being moved"))?;
        moving.cancel();
        let is_under_way = |state: &mut State| state.moves.get(&volume.id).is_some_and(|there| Arc::ptr_eq(there, &moving));
        state = self.move_ended.wait_timeout_while(state, CANCELS, is_under_way).unwrap_or_else(PoisonError::into_inner).0;
        if is_under_way(&mut state) {
            let (from, to) = (&moving.from.name, &moving.to.name);
            return Ok(Some(format!("volume {name}: the move ends when store {from} or {to} has answered, which takes long")));
        }
        let is_moved = volume.is_on(&moving.to);
        Ok(is_moved.then(|| format!("volume {name}: was on store {} already", moving.to.name)))
    }

    /// Progress of the move of a volume, and the reason why its last move failed.
    pub fn progress(&self, volume: &Volume) -> (Option<Progress>, Option<String>) {
        let state = self.lock();
        (state.moves.get(&volume.id).map(|moving| moving.progress()), state.failed_moves.get(&volume.id).cloned())
    }

    /// The stores and volumes as they will be after the current moves.
    fn world(&self) -> World {
        let volumes = self.volumes();
        let place = |store: &Arc<StoreEntry>| Place {
            name: store.name.clone(),
            profile: store.profile.clone(),
            free_extents: self.free(store),
            block_bytes: store.block_bytes,
        };
        let state = self.lock();
        let placed = |volume: &Arc<Volume>| {
            let moving = state.moves.get(&volume.id);
            let store = moving.map_or_else(|| volume.store(), |moving| moving.to.clone());
            let [reads, writes, read, written] = volume.counts();
            let requests = reads + writes;
            Some(Placed {
                asked: Asked { name: volume.name.clone(), bytes: volume.bytes(), contract: volume.contract() },
                on: self.stores.iter().position(|there| Arc::ptr_eq(there, &store))?,
                extents: volume.extents().len() as u64,
                is_moving: moving.is_some(),
                asks: (requests > 0).then(|| ((100 * reads / requests) as u32, ((read + written) / requests).div_ceil(1024))),
            })
        };
        let volumes = volumes.iter().filter_map(placed).collect();
        drop(state);
        World { places: self.stores.iter().map(place).collect(), volumes }
    }

    /// Plans moves with which every store can keep its guarantees. Takes seconds, during which requests are served as usual.
    ///
    /// # Errors
    /// A profile or contract cannot be simulated.
    pub fn plan(&self) -> anyhow::Result<Advice> {
        planner::plan(&self.world())
    }

    /// Starts the moves of a plan. Adds those that could not be started to its notes.
    pub fn apply(self: &Arc<Self>, advice: &mut Advice, bytes_per_second: u64) {
        for proposal in &advice.moves {
            if let Err(error) = self.begin_move(&proposal.volume, &proposal.to, bytes_per_second, false) {
                advice.notes.push(format!("{error:#}; plan again after the moves"));
            }
        }
    }

    /// Starts a thread that plans and makes moves within limits, whenever volumes or contracts have changed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn plan_automatically(self: &Arc<Self>, limits: &Moves) -> std::io::Result<()> {
        let (server, limits) = (Arc::downgrade(self), limits.clone());
        thread::Builder::new().name("planner".to_owned()).spawn(move || {
            let mut planned = String::new();
            let mut begun: Vec<Instant> = Vec::new();
            while let Some(server) = server.upgrade().filter(|server| !server.is_stopping()) {
                begun.retain(|at| at.elapsed() < DAY);
                let is_idle = server.lock().moves.is_empty();
                if is_idle && begun.len() < limits.most_per_day as usize {
                    server.plan_once(&limits, &mut planned, &mut begun);
                }
                drop(server);
                thread::sleep(LOOKS);
            }
        })?;
        Ok(())
    }

    /// Starts the first move of a plan if volumes, contracts or placement have changed since the last plan.
    fn plan_once(self: &Arc<Self>, limits: &Moves, planned: &mut String, begun: &mut Vec<Instant>) {
        let world = self.world();
        let asked = world.volumes.iter().map(|volume| (&volume.asked, volume.on));
        let now = format!("{:?}", asked.collect::<Vec<_>>());
        if now == *planned {
            return;
        }
        *planned = now;
        let advice = planner::plan(&world);
        let advice = advice.inspect_err(|error| tracing::error!(error = format!("{error:#}"), "no plan"));
        // One move at a time: the next one is planned after this one.
        let Some(proposal) = advice.ok().and_then(|advice| advice.moves.into_iter().next()) else { return };
        let (volume, to, reason) = (&proposal.volume, &proposal.to, &proposal.reason);
        if proposal.bytes > limits.most_bytes() {
            tracing::warn!(volume, to, reason, "should move, and is larger than most_gib allows");
            return;
        }
        match self.begin_move(volume, to, limits.bytes_per_second(), false) {
            Ok(_) => {
                tracing::info!(volume, to, reason, "moves");
                begun.push(Instant::now());
            }
            Err(error) => tracing::warn!(volume, to, error = format!("{error:#}"), "cannot be moved"),
        }
    }

    /// Stops the copiers. Their moves are resumed at the next start.
    pub fn stop(&self) {
        self.is_stopping.store(true, Ordering::Relaxed);
    }
}

impl Host for Server {
    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Relaxed)
    }

    fn reserve(&self, moving: &Move) -> Option<u32> {
        self.lock().reserve(&moving.to, 1).and_then(|free| free.first().copied())
    }

    fn reserved(&self, moving: &Move) {
        moving.extents().iter().for_each(|(place, number)| moving.to.places.set(*number, Some(*place)));
    }

    fn finish(&self, moving: &Move, extents: &[(u32, u32)]) -> anyhow::Result<()> {
        let (id, to, before) = (moving.volume.id, &moving.to, moving.volume.record());
        let record = Record { store: to.name.clone(), moves: before.moves + 1, extents: extents.to_vec(), ..before };
        // Owners first: a volume in the label has all of its extents.
        self.record(to, id, |label| Ok(label.gives_all(id, extents)), Catalog::advance)?;
        let finished = self.record(to, id, |label| label.with_volume(&record), |catalog, at| catalog.finish_move(id, extents, at));
        let Err(error) = finished else { return Ok(()) };
        let catalog = self.catalog();
        // A failed commit may still be durable. Another successful commit rules that out; otherwise the state of the volume is unknown.
        let is_unknown = catalog.cancel_move(id).is_err();
        drop(catalog);
        if is_unknown || !Server::is_known(to) {
            moving.volume.fail();
        }
        Err(error)
    }

    fn arrived(&self, moving: &Move) {
        if let Err(error) = self.tell(&self.lock(), &moving.to) {
            tracing::error!(store = moving.to.name, error = format!("{error:#}"), "the scheduler's tenants");
        }
    }
}
