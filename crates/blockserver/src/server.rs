//! The stores and volumes of the server, and the operations on them.

mod moves;
mod reclaim;
pub(crate) mod stores;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use crate::nbd::{Export, Exports};
use anyhow::{Context, bail, ensure};
use block::rates::{Rate, Rates};
use block::{Roster, StreamId, Tenant};
use guarantee::tenants::Contract;
use serde::{Deserialize, Serialize};

use crate::admission::{self, Asked};
use crate::catalog::{At, Catalog, EXTENT_BYTES, MOST_BYTES, Record};
use crate::configuration::{Configuration, is_name};
use crate::label::{Change, StoreLabel};
use crate::migration::Move;
use crate::store_entry::StoreEntry;
use crate::volume::{OpenVolume, Owner, Volume};

/// Stream of the server's own requests: volumes have ids from 1 on.
const NO_STREAM: StreamId = 0;
/// How long the end of the server waits for a store that does not answer. Choice: less than systemd's 90 s; not varied.
const ENDS: Duration = Duration::from_secs(5);

/// ENOSPC.
const FULL: i32 = 28;
/// How long a write waits for trimmed space, and the interval of its checks. Choice: ten times the interval of the reclaimer; not varied.
const RECLAIMS: Duration = Duration::from_secs(1);
const RECLAIM_LOOKS: Duration = Duration::from_millis(10);

/// Mutable state. Never locked while waiting for a store or the catalog.
#[derive(Default)]
struct State {
    volumes: BTreeMap<String, Arc<Volume>>,
    /// Extents that are allocated, about to be, or occupied by the label, by store.
    used: BTreeMap<String, BTreeSet<u32>>,
    /// Tenants as passed to schedulers, by volume id.
    tenants: BTreeMap<StreamId, Tenant>,
    /// Moves in progress, by volume id.
    moves: BTreeMap<StreamId, Arc<Move>>,
    /// Reasons of the last failed moves, by volume id.
    failed_moves: BTreeMap<StreamId, String>,
    /// Admitted contracts that are being recorded, by volume name, with the stores that have to keep them.
    admitted: BTreeMap<String, (Vec<String>, Asked)>,
}

/// An admitted contract, until it is recorded or that has failed.
struct Admitted<'a>(&'a Server, &'a str);

impl Drop for Admitted<'_> {
    fn drop(&mut self) {
        self.0.lock().admitted.remove(self.1);
    }
}

impl State {
    fn free(&mut self, store: &StoreEntry, extents: &[(u32, u32)]) {
        let freed: BTreeSet<u32> = extents.iter().map(|(_, number)| *number).collect();
        freed.iter().for_each(|number| store.places.set(*number, None));
        if let Some(used) = self.used.get_mut(&store.name) {
            used.retain(|number| !freed.contains(number));
        }
    }

    /// Reserves free extents of a store; `None`, without reserving any, if fewer than `count` are free.
    fn reserve(&mut self, store: &StoreEntry, count: usize) -> Option<Vec<u32>> {
        let used = self.used.entry(store.name.clone()).or_default();
        let free: Vec<u32> = (0..store.extents).filter(|number| !used.contains(number)).take(count).collect();
        if free.len() < count {
            return None;
        }
        used.extend(&free);
        Some(free)
    }

    fn free_extents(&self, store: &StoreEntry) -> u64 {
        u64::from(store.extents).saturating_sub(self.used.get(&store.name).map_or(0, BTreeSet::len) as u64)
    }
}

/// Parameters of a new volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewVolume {
    /// Name: see [`is_name`].
    pub name: String,
    /// Name of its store; may be omitted if there is only one.
    pub store: Option<String>,
    /// Size in bytes.
    pub bytes: u64,
    /// Whether all extents are allocated at once, rather than when they are first written.
    pub is_thick: bool,
    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub contract: String,
    /// Skips admission control.
    pub is_unchecked: bool,
    /// Maximum allocated space in bytes; `None`: its size.
    #[serde(default)]
    pub max_used: Option<u64>,
}

/// The stores and their volumes.
pub struct Server {
    stores: Vec<Arc<StoreEntry>>,
    /// Locked while the file is written. Lock order: labels of stores, catalog, state.
    catalog: Mutex<Catalog>,
    state: Mutex<State>,
    /// Held during an admission check until the contract is among those admitted: two that fit one at a time may not fit together.
    giving: Mutex<()>,
    /// Id of the next volume.
    next_id: AtomicU32,
    /// Signals the end of a move.
    move_ended: Condvar,
    is_stopping: AtomicBool,
}

impl Server {
    /// Opens the stores and the catalog, and resumes moves.
    ///
    /// # Errors
    /// A store or the catalog cannot be opened, or the catalog refers to stores or extents that do not exist.
    pub fn start(configuration: &Configuration) -> anyhow::Result<Arc<Server>> {
        let path = &configuration.catalog;
        let mut catalog = Catalog::open(path).with_context(|| format!("catalog: {}", path.display()))?;
        let (stores, records) = stores::open(configuration, &mut catalog, &stores::Accept::Known)?;
        let mut used: BTreeMap<String, BTreeSet<u32>> =
            stores.iter().map(|store| (store.name.clone(), store.reserved.clone())).collect();
        let mut tenants = BTreeMap::new();
        for record in &records {
            used.entry(record.store.clone()).or_default().extend(record.extents.iter().map(|(_, number)| *number));
            let tenant = tenant(&record.name, &record.contract).with_context(|| format!("volume {}", record.name))?;
            tenants.insert(record.id, tenant);
        }
        let moves = catalog.moves()?;
        let server = Arc::new(Server {
            stores,
            giving: Mutex::default(),
            next_id: AtomicU32::new(catalog.next_id()?),
            catalog: Mutex::new(catalog),
            state: Mutex::new(State { used, tenants, ..State::default() }),
            move_ended: Condvar::new(),
            is_stopping: AtomicBool::new(false),
        });
        for record in records {
            server.enter(&mut server.lock(), record);
        }
        for store in &server.stores {
            server.tell(&server.lock(), store)?;
        }
        for (id, (store, bytes_per_second)) in moves {
            server.resume_move(id, &store, bytes_per_second)?;
        }
        Ok(server)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn catalog(&self) -> MutexGuard<'_, Catalog> {
        self.catalog.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a change of a store's volumes: on the store, as a request of `stream`, then in the catalog. If the catalog fails, it is undone
    /// on the store.
    ///
    /// # Errors
    /// The store or the catalog cannot be written, or the change is not possible. The state of the store is unknown if
    /// [`is_known`](Server::is_known) says so.
    fn record(
        &self,
        store: &StoreEntry,
        stream: StreamId,
        change: impl FnOnce(&StoreLabel) -> anyhow::Result<Change>,
        enter: impl FnOnce(&mut Catalog, At<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let mut label = store.label.lock().unwrap_or_else(PoisonError::into_inner);
        let mut write = |blocks| store.host.write_durably(stream, blocks);
        let mut inverse = Change::default();
        if let Some(label) = &mut *label {
            let change = change(label)?;
            inverse = match label.apply(&change, &mut write) {
                Ok(inverse) => inverse,
                Err(error) => {
                    // The state of the store is known again, if this succeeds.
                    drop(label.undo(&Change::default(), &mut write));
                    return Err(error).with_context(|| format!("store {}: its label", store.name));
                }
            };
        }
        let generation = label.as_ref().map(|label| label.version().generation);
        let entered = enter(&mut self.catalog(), At { store: &store.name, generation });
        if let (Err(_), Some(label)) = (&entered, &mut *label)
            && let Err(error) = label.undo(&inverse, &mut write)
        {
            tracing::error!(store = store.name, error = format!("{error}"), "a change cannot be undone");
        }
        entered
    }

    /// Records the end of the server in the labels and the catalog: a copy of a store from before is older. A store that does not answer is
    /// left out.
    pub fn end(self: &Arc<Self>) {
        let (sender, ended) = mpsc::channel();
        for store in &self.stores {
            let (server, store, sender) = (self.clone(), store.clone(), sender.clone());
            thread::spawn(move || {
                if let Err(error) = server.record(&store, NO_STREAM, |_| Ok(Change::of_head()), Catalog::advance) {
                    tracing::error!(store = store.name, error = format!("{error:#}"), "the end is not recorded");
                }
                drop(sender);
            });
        }
        drop(sender);
        // Disconnected when all threads have ended.
        let _: Result<(), _> = ended.recv_timeout(ENDS);
    }

    /// Whether the label of a store is known to be as it is in memory.
    fn is_known(store: &StoreEntry) -> bool {
        store.label.lock().unwrap_or_else(PoisonError::into_inner).as_ref().is_none_or(StoreLabel::is_written)
    }

    /// Adds the volume of a catalog record to the state.
    fn enter(self: &Arc<Self>, state: &mut State, record: Record) {
        if let Some(store) = self.stores.iter().find(|store| store.name == record.store) {
            let owner: Weak<Server> = Arc::downgrade(self);
            record.extents.iter().for_each(|(place, number)| store.places.set(*number, Some(*place)));
            let volume = Volume::new(record, store.clone(), owner);
            state.volumes.insert(volume.name.clone(), Arc::new(volume));
        }
    }

    /// Updates a store's scheduler with its tenants and their streams: volumes on the store, by name, volumes that are being moved to it,
    /// and copiers. Not needed after an allocation: schedulers look sectors up in the store's `places`.
    fn tell(&self, state: &State, store: &Arc<StoreEntry>) -> anyhow::Result<()> {
        let here = state.volumes.values().filter(|volume| volume.is_on(store)).cloned();
        let is_coming = |moving: &&Arc<Move>| Arc::ptr_eq(&moving.to, store) && !moving.volume.is_on(store);
        let coming = state.moves.values().filter(is_coming).map(|moving| moving.volume.clone());
        let (mut tenants, mut streams, mut has_contracts) = (Vec::new(), Vec::new(), false);
        for (number, volume) in here.chain(coming).enumerate() {
            has_contracts |= !volume.contract().trim().is_empty();
            tenants.extend(state.tenants.get(&volume.id).cloned());
            streams.push((volume.id, number));
        }
        let mut copiers = Vec::new();
        for moving in state.moves.values().filter(|moving| [&moving.from, &moving.to].into_iter().any(|at| Arc::ptr_eq(at, store)))
        {
            copiers.push((moving.stream, tenants.len()));
            let reservation = Rate::iops(Move::rate(store, moving.bytes_per_second));
            let limit = Rate::bytes_per_s(moving.bytes_per_second);
            let copier = Tenant::new(format!("copy of {}", moving.volume.name));
            tenants.push(copier.with_rates(Rates { limit, reservation, ..Rates::default() }));
        }
        let roster = Roster::new(tenants, Vec::new(), &streams, store.disks)?.with_rotational(store.is_rotational);
        let has_promises = has_contracts || !copiers.is_empty();
        store.tuning.promises(&store.host, has_promises);
        store.host.set_roster(roster.with_places(store.places.clone()).with_roaming(&copiers), &streams);
        Ok(())
    }

    /// Admission control for a volume with a contract: an error if the store could not keep all its guarantees. Returns a note if the store
    /// has no profile and was not checked. Takes seconds, during which requests are served as usual.
    fn admit(&self, store: &StoreEntry, name: &str, bytes: u64, contract: &str) -> anyhow::Result<Option<String>> {
        self.admit_with(store, name, bytes, contract, None)
    }

    /// As [`admit`](Server::admit), counting the copiers active at the store and, with `copies`, another one with this copy rate in
    /// bytes/s.
    fn admit_with(
        &self,
        store: &StoreEntry,
        name: &str,
        bytes: u64,
        contract: &str,
        copies: Option<u64>,
    ) -> anyhow::Result<Option<String>> {
        let volumes = self.promised(store);
        let admitted = self.lock().admitted.clone();
        let others = volumes.iter().filter(|volume| volume.name != name && !admitted.contains_key(&volume.name));
        let others = others.map(|volume| Asked { name: volume.name.clone(), bytes: volume.bytes(), contract: volume.contract() });
        let others =
            others.chain(admitted.values().filter(|(stores, _)| stores.contains(&store.name)).map(|(_, asked)| asked.clone()));
        let asked = Asked { name: name.to_owned(), bytes, contract: contract.to_owned() };
        let copying = {
            let state = self.lock();
            let here = |moving: &&Arc<Move>| moving.from.name == store.name || moving.to.name == store.name;
            let here = state.moves.values().filter(here);
            here.map(|moving| (moving.volume.bytes(), moving.bytes_per_second))
                .chain(copies.map(|pace| (bytes, pace)))
                .collect::<Vec<_>>()
        };
        let copiers = copying.into_iter().enumerate().map(|(number, (bytes, pace))| Asked {
            // Not a valid name of a volume: cannot collide with one.
            name: format!(".copy-{number}"),
            bytes,
            contract: format!("reservation_iops = {}\nlimit_mb_s = {:.3}", Move::rate(store, pace), pace as f64 / 1e6),
        });
        let all: Vec<Asked> = others.chain([asked]).chain(copiers).collect();
        if all.iter().all(|asked| asked.contract.trim().is_empty()) {
            return Ok(None);
        }
        let Some(profile) = &store.profile else {
            let why = "the configuration names no profile that it is like";
            return Ok(Some(format!("the promises of store {} were not checked: {why}", store.name)));
        };
        admission::check(profile, &all)
            .with_context(|| format!("volume {name}: store {} cannot keep its promises then", store.name))?;
        Ok(None)
    }

    /// Volumes on a store, and those being moved to it.
    fn promised(&self, store: &StoreEntry) -> Vec<Arc<Volume>> {
        let state = self.lock();
        let is_coming = |volume: &Volume| state.moves.get(&volume.id).is_some_and(|moving| moving.to.name == store.name);
        state.volumes.values().filter(|volume| volume.store().name == store.name || is_coming(volume)).cloned().collect()
    }

    /// All stores, in the order of the configuration.
    pub fn stores(&self) -> &[Arc<StoreEntry>] {
        &self.stores
    }

    /// All volumes, ordered by name.
    pub fn volumes(&self) -> Vec<Arc<Volume>> {
        self.lock().volumes.values().cloned().collect()
    }

    /// The guarantee of a volume, by its id.
    pub fn tenant(&self, id: StreamId) -> Option<Tenant> {
        self.lock().tenants.get(&id).cloned()
    }

    /// Number of free extents of a store.
    pub fn free(&self, store: &StoreEntry) -> u64 {
        self.lock().free_extents(store)
    }

    /// Space that the volumes of a store may use in total, in bytes.
    pub fn promised_bytes(&self, store: &StoreEntry) -> u64 {
        let of_it = |volume: &&Arc<Volume>| volume.store().name == store.name;
        let extents = |bytes: u64| bytes.div_ceil(EXTENT_BYTES) * EXTENT_BYTES;
        let most = |volume: &Arc<Volume>| extents(volume.bytes()).min(volume.max_used().unwrap_or(u64::MAX));
        self.lock().volumes.values().filter(of_it).map(most).sum()
    }

    /// Creates a volume, which reads as zeros. Returns a note for its owner, if any.
    ///
    /// # Errors
    /// The name is taken or invalid, the size or contract is invalid, or the store lacks space or could not keep its guarantees.
    pub fn create(self: &Arc<Self>, new: &NewVolume) -> anyhow::Result<Option<String>> {
        let NewVolume { name, store, bytes, is_thick, contract, is_unchecked, max_used } = new;
        let (bytes, contract) = (*bytes, contract.as_str());
        ensure!(is_name(name), "volume {name:?}: letters, digits, '.', '_' and '-' are right, at most 64");
        let store = self.store(store.as_deref())?;
        check_size(name, bytes, &store)?;
        let tenant = tenant(name, contract).with_context(|| format!("volume {name}"))?;
        ensure!(!*is_thick || max_used.is_none(), "volume {name}: has all of its space, and cannot have a maximum");
        let (note, volume) = {
            let (note, _admitted) = self.admit_alone(name, bytes, contract, std::slice::from_ref(&store), || {
                ensure!(!self.lock().volumes.contains_key(name), "volume {name}: there is one of this name already");
                if *is_unchecked { Ok(None) } else { self.admit(&store, name, bytes, contract) }
            })?;
            let (needed, free) = (bytes.div_ceil(EXTENT_BYTES), self.free(&store));
            ensure!(
                !*is_thick || needed <= free,
                "volume {name}: needs {needed} extents of 64 MiB, and store {} has {free} free",
                store.name
            );
            let id = self.next_id.fetch_add(1, Ordering::Relaxed);
            let (on, contract) = (store.name.clone(), contract.to_owned());
            let (is_thick, max_used, extents) = (*is_thick, *max_used, Vec::new());
            let record = Record { id, name: name.to_owned(), store: on, bytes, contract, moves: 0, is_thick, max_used, extents };
            self.record(&store, id, |label| label.with_volume(&record), |catalog, at| catalog.create(&record, at))?;
            let mut state = self.lock();
            state.tenants.insert(id, tenant);
            self.enter(&mut state, record);
            (note, state.volumes.get(name).cloned().context("the volume has gone")?)
        };
        if *is_thick && let Err(error) = self.allocate(&volume, 0, bytes) {
            self.delete(name)?;
            return Err(error).with_context(|| format!("volume {name}"));
        }
        let state = self.lock();
        self.tell(&state, &store)?;
        Ok(note)
    }

    /// Admits a contract, one at a time, and counts it until the returned guard is dropped. Returns the note of `check`.
    fn admit_alone<'a>(
        &'a self,
        name: &'a str,
        bytes: u64,
        contract: &str,
        stores: &[Arc<StoreEntry>],
        check: impl FnOnce() -> anyhow::Result<Option<String>>,
    ) -> anyhow::Result<(Option<String>, Admitted<'a>)> {
        let _alone = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        ensure!(!self.lock().admitted.contains_key(name), "volume {name}: is being changed by another command; try again");
        let note = check()?;
        let asked = Asked { name: name.to_owned(), bytes, contract: contract.to_owned() };
        let stores = stores.iter().map(|store| store.name.clone()).collect();
        self.lock().admitted.insert(name.to_owned(), (stores, asked));
        Ok((note, Admitted(self, name)))
    }

    fn store(&self, name: Option<&str>) -> anyhow::Result<Arc<StoreEntry>> {
        let names = || self.stores.iter().map(|store| store.name.as_str()).collect::<Vec<_>>().join(", ");
        let found = match name {
            Some(name) => self.stores.iter().find(|store| store.name == name),
            None if self.stores.len() == 1 => self.stores.first(),
            None => bail!("store: there are several; name one of {}", names()),
        };
        found.cloned().with_context(|| format!("store {}: there is none; there are {}", name.unwrap_or_default(), names()))
    }

    fn volume(state: &State, name: &str) -> anyhow::Result<Arc<Volume>> {
        let near = block::did_you_mean(name, state.volumes.keys().map(String::as_str));
        state.volumes.get(name).cloned().with_context(|| format!("volume {name}: there is none{near}"))
    }

    /// The volume of this name; an error if it is being moved.
    fn settled(state: &State, name: &str) -> anyhow::Result<Arc<Volume>> {
        let volume = Server::volume(state, name)?;
        let moving = state.moves.get(&volume.id);
        let to = moving.map_or("", |moving| moving.to.name.as_str());
        ensure!(moving.is_none(), "volume {name}: is being moved to store {to}; wait, or cancel it (volume move --cancel)");
        Ok(volume)
    }

    /// Changes the size of a volume, which clients see when they reconnect, and its maximum space; `None` leaves it. A maximum of 0 removes it.
    ///
    /// # Errors
    /// There is no such volume, it is being moved, the size is invalid, or it would shrink while it is open or without `may_shrink`.
    pub fn resize(&self, name: &str, bytes: Option<u64>, may_shrink: bool, max_used: Option<u64>) -> anyhow::Result<()> {
        let volume = Server::settled(&self.lock(), name)?;
        let bytes = bytes.unwrap_or_else(|| volume.bytes());
        ensure!(!volume.is_thick() || max_used.is_none(), "volume {name}: has all of its space, and cannot have a maximum");
        let (store, _counted) = volume.begin_allocation();
        check_size(name, bytes, &store)?;
        let _alone = volume.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = volume.bytes();
        if bytes > before
            && let Some(extent) = volume.extent((before / EXTENT_BYTES) as u32)
        {
            // The last extent may still hold data from when the volume was larger.
            let tail = before % EXTENT_BYTES;
            store.host.zero(volume.id, [(u64::from(extent) * EXTENT_BYTES + tail, EXTENT_BYTES - tail)])?;
        }
        let state = self.lock();
        let volume = Server::settled(&state, name)?;
        ensure!(volume.bytes() == before && volume.is_on(&store), "volume {name}: was changed at the same time; try again");
        if bytes < before {
            ensure!(
                may_shrink,
                "volume {name}: {bytes} bytes are less than it has; data beyond them would be lost (--shrink allows it)"
            );
            ensure!(volume.clients() == 0, "volume {name}: is open, and cannot become smaller");
        }
        let places = bytes.div_ceil(EXTENT_BYTES);
        let freed: Vec<_> = volume.extents().into_iter().filter(|(place, _)| u64::from(*place) >= places).collect();
        let recorded = volume.record();
        let max_used = max_used.map_or(recorded.max_used, |most| Some(most).filter(|most| *most > 0));
        let record = Record { bytes, max_used, ..recorded };
        if bytes < before {
            // Before it is recorded: a client that opens the volume now does not use extents that are about to be freed.
            volume.resize(bytes);
        }
        drop(state);
        let entered = self.record(
            &store,
            volume.id,
            |label| Ok(label.with_volume(&record)?.and_frees(&freed)),
            |catalog, at| catalog.resize(&record, at),
        );
        let mut state = self.lock();
        if let Err(error) = entered {
            volume.resize(before);
            volume.place(&freed);
            drop(state);
            if !Server::is_known(&store) {
                volume.fail();
            }
            return Err(error);
        }
        volume.resize(bytes);
        volume.set_max_used(max_used);
        state.free(&store, &freed);
        self.tell(&state, &store)
    }

    /// Changes the contract of a volume. Returns a note for its owner, if any.
    ///
    /// # Errors
    /// There is no such volume, the contract is invalid, or, unless `is_unchecked`, a store could not keep its guarantees.
    pub fn promise(&self, name: &str, contract: &str, is_unchecked: bool) -> anyhow::Result<Option<String>> {
        let tenant = tenant(name, contract).with_context(|| format!("volume {name}"))?;
        let (volume, stores) = self.places_of(name)?;
        let (note, _admitted) = self.admit_alone(name, volume.bytes(), contract, &stores, || {
            let mut note = None;
            for store in stores.iter().filter(|_| !is_unchecked) {
                note = self.admit(store, name, volume.bytes(), contract)?;
            }
            Ok(note)
        })?;
        let _changing = volume.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let (now, at_now) = self.places_of(name)?;
        let is_same = Arc::ptr_eq(&now, &volume) && at_now.iter().all(|store| stores.iter().any(|known| Arc::ptr_eq(known, store)));
        ensure!(is_same, "volume {name}: was changed at the same time; try again");
        let store = volume.store();
        let record = Record { contract: contract.to_owned(), ..volume.record() };
        self.record(&store, volume.id, |label| label.with_volume(&record), |catalog, at| catalog.promise(volume.id, contract, at))?;
        let mut state = self.lock();
        volume.set_contract(contract);
        state.tenants.insert(volume.id, tenant);
        for store in &stores {
            self.tell(&state, store)?;
        }
        Ok(note)
    }

    /// A volume, and the stores that keep its guarantee: its own, and the one that it is being moved to.
    fn places_of(&self, name: &str) -> anyhow::Result<(Arc<Volume>, Vec<Arc<StoreEntry>>)> {
        let state = self.lock();
        let volume = Server::volume(&state, name)?;
        let to = state.moves.get(&volume.id).map(|moving| moving.to.clone());
        let stores = to.into_iter().chain([volume.store()]).collect();
        Ok((volume, stores))
    }

    /// Deletes a volume and its data.
    ///
    /// # Errors
    /// There is no such volume, it is open, or it is being moved.
    pub fn delete(&self, name: &str) -> anyhow::Result<()> {
        let volume = {
            let mut state = self.lock();
            let volume = Server::settled(&state, name)?;
            ensure!(volume.clients() == 0, "volume {name}: is open ({} clients)", volume.clients());
            // Clients can no longer open it.
            state.volumes.remove(name);
            volume
        };
        let store = volume.store();
        let deleted = self.record(
            &store,
            volume.id,
            |label| Ok(label.without_volume(volume.id)),
            |catalog, at| catalog.delete(volume.id, at),
        );
        if let Err(error) = deleted {
            if !Server::is_known(&store) {
                volume.fail();
            }
            self.lock().volumes.insert(name.to_owned(), volume);
            return Err(error);
        }
        let mut state = self.lock();
        state.tenants.remove(&volume.id);
        state.failed_moves.remove(&volume.id);
        state.free(&store, &volume.extents());
        self.tell(&state, &store)
    }
}

impl Owner for Server {
    fn opens(&self, volume: &Volume) -> bool {
        let state = self.lock();
        let is_there = state.volumes.get(&volume.name).is_some_and(|there| there.id == volume.id);
        if is_there {
            volume.opened();
        }
        is_there
    }

    fn allocate(&self, volume: &Volume, offset: u64, bytes: u64) -> io::Result<()> {
        let begun = Instant::now();
        loop {
            let allocated = self.try_to_allocate(volume, offset, bytes);
            let is_full = allocated.as_ref().is_err_and(|error| error.raw_os_error() == Some(FULL));
            if !is_full || begun.elapsed() > RECLAIMS || !self.is_reclaiming(&volume.store()) {
                return allocated;
            }
            thread::sleep(RECLAIM_LOOKS);
        }
    }
}

impl Server {
    fn try_to_allocate(&self, volume: &Volume, offset: u64, bytes: u64) -> io::Result<()> {
        let (store, _counted) = volume.begin_allocation();
        let _alone = volume.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = volume.missing(offset, bytes);
        if missing.is_empty() {
            return Ok(());
        }
        let full = || io::Error::from_raw_os_error(FULL);
        if !volume.may_use(missing.len()) {
            return Err(full());
        }
        let free = self.lock().reserve(&store, missing.len()).ok_or_else(full)?;
        let given: Vec<(u32, u32)> = missing.into_iter().zip(free).collect();
        let ranges = given.iter().map(|(_, number)| (u64::from(*number) * EXTENT_BYTES, EXTENT_BYTES));
        let zeroed = store.host.zero(volume.id, ranges);
        let entered = zeroed.and_then(|()| {
            let change = |label: &StoreLabel| Ok(label.gives(volume.id, &given));
            self.record(&store, volume.id, change, |catalog, at| catalog.allocate(volume.id, &given, at)).map_err(io::Error::other)
        });
        if let Err(error) = entered {
            self.lock().free(&store, &given);
            return Err(error);
        }
        volume.place(&given);
        given.iter().for_each(|(place, number)| store.places.set(*number, Some(*place)));
        Ok(())
    }
}

impl Exports for Server {
    fn list(&self) -> Vec<(String, String)> {
        self.volumes().iter().map(|volume| (volume.name.clone(), volume.description())).collect()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Export>, String> {
        let state = self.lock();
        // The empty name stands for the only volume.
        let found = match name {
            "" if state.volumes.len() == 1 => state.volumes.values().next(),
            name => state.volumes.get(name),
        };
        found
            .map(|volume| Arc::new(OpenVolume::new(volume.clone())) as Arc<dyn Export>)
            .ok_or_else(|| "there is no volume of this name".to_owned())
    }
}

fn check_size(name: &str, bytes: u64, store: &StoreEntry) -> anyhow::Result<()> {
    let block = u64::from(store.block_bytes);
    ensure!((block..=MOST_BYTES).contains(&bytes), "volume {name}: {bytes} bytes: should be {block} to {MOST_BYTES}");
    ensure!(bytes.is_multiple_of(block), "volume {name}: {bytes} bytes: should be a multiple of {block}");
    Ok(())
}

/// The tenant for a volume with this contract, the keys of a tenant in TOML.
fn tenant(name: &str, contract: &str) -> anyhow::Result<Tenant> {
    if contract.trim().is_empty() {
        return Ok(Tenant::new(name));
    }
    let text = format!("[[tenant]]\nname = \"{name}\"\njobs = [\"{name}\"]\n{contract}\n");
    let parsed = Contract::parse(&text, "contract")?;
    let [promise] = parsed.promises.as_slice() else { bail!("contract: should be the keys of one tenant") };
    Ok(Tenant {
        name: name.to_owned(),
        weight: promise.weight,
        reference: promise.reference.as_ref().map(guarantee::tenants::Reference::model).transpose()?,
        rates: promise.rates,
        latency_p99: promise.latency_p99,
    })
}
