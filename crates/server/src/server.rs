//! The stores and volumes that are served, and what can be done with them.

mod moves;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};

use anyhow::{Context, bail, ensure};
use block::rates::{Rate, Rates};
use block::{Roster, StreamId, Tenant};
use experiment::tenants::Contract;
use serde::{Deserialize, Serialize};
use serve::nbd::{Export, Exports};

use crate::admission::{self, Asked};
use crate::catalog::{Catalog, EXTENT_BYTES, Record};
use crate::configuration::{Configuration, is_name};
use crate::migration::Move;
use crate::store::{self, StoreEntry};
use crate::volume::{OpenVolume, Owner, Volume};

/// The largest volume: what the numbers of extents reach.
const MOST_BYTES: u64 = 1 << 56;

/// What changes. It is never locked while a store or the catalog's file is waited for.
#[derive(Default)]
struct State {
    volumes: BTreeMap<String, Arc<Volume>>,
    /// By store: extents in use.
    used: BTreeMap<String, BTreeSet<u32>>,
    /// By id: what schedulers know of a volume.
    tenants: BTreeMap<StreamId, Tenant>,
    /// By id: volumes that are being moved.
    moves: BTreeMap<StreamId, Arc<Move>>,
    /// By id: why the last move failed.
    failed_moves: BTreeMap<StreamId, String>,
}

impl State {
    fn free(&mut self, store: &StoreEntry, extents: &[(u32, u32)]) {
        let freed: BTreeSet<u32> = extents.iter().map(|(_, number)| *number).collect();
        freed.iter().for_each(|number| store.places.set(*number, None));
        if let Some(used) = self.used.get_mut(&store.name) {
            used.retain(|number| !freed.contains(number));
        }
    }

    /// Extents of a store that nothing uses, which are used from now on; `None` if there are not enough.
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

/// A volume that is to be made.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NewVolume {
    /// What people call it.
    pub name: String,
    /// Where; needed if there are several stores.
    pub store: Option<String>,
    /// Its size.
    pub bytes: u64,
    /// Whether it has all of its extents from the beginning.
    pub is_thick: bool,
    /// What it is promised: keys of a tenant in TOML.
    pub contract: String,
    /// Whether a promise is given that the store may not keep.
    pub is_unchecked: bool,
}

/// The stores and their volumes.
pub struct Server {
    stores: Vec<Arc<StoreEntry>>,
    /// Locked while its file is written, before the state.
    catalog: Mutex<Catalog>,
    state: Mutex<State>,
    /// Held from the check of a promise until it is given: two that fit one at a time may not fit together.
    giving: Mutex<()>,
    /// A move has ended.
    move_ended: Condvar,
    is_stopping: AtomicBool,
}

impl Server {
    /// Opens the stores and the catalog.
    ///
    /// # Errors
    /// A store or the catalog cannot be opened, or they do not belong together.
    pub fn start(configuration: &Configuration) -> anyhow::Result<Arc<Server>> {
        let catalog = &configuration.catalog;
        let catalog = Catalog::open(catalog).with_context(|| format!("catalog: {}", catalog.display()))?;
        let stores =
            configuration.stores.iter().map(|store| store::open(store).map(Arc::new)).collect::<anyhow::Result<Vec<_>>>()?;
        for store in &stores {
            catalog.add_store(&store.name, store.extents)?;
        }
        let records = catalog.volumes()?;
        let (mut used, mut tenants) = (BTreeMap::<String, BTreeSet<u32>>::new(), BTreeMap::new());
        for record in &records {
            let there = stores.iter().any(|store| store.name == record.store);
            ensure!(there, "volume {}: is on store {}, which the configuration does not name", record.name, record.store);
            used.entry(record.store.clone()).or_default().extend(record.extents.iter().map(|(_, number)| *number));
            let tenant = tenant(&record.name, &record.contract).with_context(|| format!("volume {}", record.name))?;
            tenants.insert(record.id, tenant);
        }
        let moves = catalog.moves()?;
        let server = Arc::new(Server {
            stores,
            catalog: Mutex::new(catalog),
            state: Mutex::new(State { used, tenants, ..State::default() }),
            giving: Mutex::default(),
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

    /// Makes a volume of a record known.
    fn enter(self: &Arc<Self>, state: &mut State, record: Record) {
        if let Some(store) = self.stores.iter().find(|store| store.name == record.store) {
            let owner: Weak<Server> = Arc::downgrade(self);
            record.extents.iter().for_each(|(place, number)| store.places.set(*number, Some(*place)));
            let volume = Volume::new(record, store.clone(), owner);
            state.volumes.insert(volume.name.clone(), Arc::new(volume));
        }
    }

    /// Sets the tenants of a store's scheduler, with their streams: the volumes that are here, by name, those that are coming, and those who
    /// copy. Not needed when a volume gets an extent: where its sectors lie, the store's places say.
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

    /// Refuses a volume, or a promise to one, with which a store cannot keep all that it has promised, and says if that cannot be known. Takes
    /// seconds, in which requests are served as before.
    fn admit(&self, store: &StoreEntry, name: &str, bytes: u64, contract: &str) -> anyhow::Result<Option<String>> {
        self.admit_with(store, name, bytes, contract, None)
    }

    /// The same with a copier that is promised so many bytes a second; or with those that copy already.
    fn admit_with(
        &self,
        store: &StoreEntry,
        name: &str,
        bytes: u64,
        contract: &str,
        copies: Option<u64>,
    ) -> anyhow::Result<Option<String>> {
        let volumes = self.promised(store);
        let others = volumes.iter().filter(|volume| volume.name != name);
        let others = others.map(|volume| Asked { name: volume.name.clone(), bytes: volume.bytes(), contract: volume.contract() });
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
            // No volume has such a name.
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

    /// Volumes that a store has, or will have.
    fn promised(&self, store: &StoreEntry) -> Vec<Arc<Volume>> {
        let state = self.lock();
        let is_coming = |volume: &Volume| state.moves.get(&volume.id).is_some_and(|moving| moving.to.name == store.name);
        state.volumes.values().filter(|volume| volume.store().name == store.name || is_coming(volume)).cloned().collect()
    }

    /// The stores.
    pub fn stores(&self) -> &[Arc<StoreEntry>] {
        &self.stores
    }

    /// The volumes, by name.
    pub fn volumes(&self) -> Vec<Arc<Volume>> {
        self.lock().volumes.values().cloned().collect()
    }

    /// Free extents of a store.
    pub fn free(&self, store: &StoreEntry) -> u64 {
        self.lock().free_extents(store)
    }

    /// Makes a volume. It is empty: reads are of zeros. Returns what its owner should know.
    ///
    /// # Errors
    /// The name is taken or cannot be one, the size or the contract is wrong, or the store has not enough room or cannot keep the promise.
    pub fn create(self: &Arc<Self>, new: &NewVolume) -> anyhow::Result<Option<String>> {
        let NewVolume { name, store, bytes, is_thick, contract, is_unchecked } = new;
        let (bytes, contract) = (*bytes, contract.as_str());
        ensure!(is_name(name), "volume {name:?}: letters, digits, '.', '_' and '-' are right, at most 64");
        let store = self.store(store.as_deref())?;
        check_size(name, bytes, &store)?;
        let tenant = tenant(name, contract).with_context(|| format!("volume {name}"))?;
        let (note, volume) = {
            let _alone = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
            ensure!(!self.lock().volumes.contains_key(name), "volume {name}: there is one of this name already");
            let note = if *is_unchecked { None } else { self.admit(&store, name, bytes, contract)? };
            let (needed, free) = (bytes.div_ceil(EXTENT_BYTES), self.free(&store));
            ensure!(
                !*is_thick || needed <= free,
                "volume {name}: needs {needed} extents of 64 MiB, and store {} has {free} free",
                store.name
            );
            let id = self.catalog().create(name, &store.name, bytes, contract)?;
            let mut state = self.lock();
            state.tenants.insert(id, tenant);
            let (store, contract) = (store.name.clone(), contract.to_owned());
            self.enter(&mut state, Record { id, name: name.to_owned(), store, bytes, contract, extents: Vec::new() });
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

    /// A volume that is not being moved.
    fn settled(state: &State, name: &str) -> anyhow::Result<Arc<Volume>> {
        let volume = Server::volume(state, name)?;
        let moving = state.moves.get(&volume.id);
        let to = moving.map_or("", |moving| moving.to.name.as_str());
        ensure!(moving.is_none(), "volume {name}: is being moved to store {to}; wait, or cancel it (volume move --cancel)");
        Ok(volume)
    }

    /// Changes the size of a volume. Clients see it when they connect again.
    ///
    /// # Errors
    /// There is no such volume, it is being moved, the size is wrong, or it would become smaller while it is open or without `may_shrink`.
    pub fn resize(&self, name: &str, bytes: u64, may_shrink: bool) -> anyhow::Result<()> {
        let volume = Server::settled(&self.lock(), name)?;
        let (store, _counted) = volume.begin_allocation();
        check_size(name, bytes, &store)?;
        // Of this store only: another one may stall.
        let _alone = store.allocating.lock().unwrap_or_else(PoisonError::into_inner);
        let before = volume.bytes();
        if bytes > before
            && let Some(extent) = volume.extent((before / EXTENT_BYTES) as u32)
        {
            // What a larger size before it left there.
            let tail = before % EXTENT_BYTES;
            store.host.zero(volume.id, [(u64::from(extent) * EXTENT_BYTES + tail, EXTENT_BYTES - tail)])?;
        }
        let mut catalog = self.catalog();
        let state = self.lock();
        let volume = Server::settled(&state, name)?;
        ensure!(volume.bytes() == before && volume.is_on(&store), "volume {name}: was changed at the same time; try again");
        if bytes < before {
            ensure!(
                may_shrink,
                "volume {name}: {bytes} bytes are less than it has; what is behind would be lost (--shrink allows it)"
            );
            ensure!(volume.clients() == 0, "volume {name}: is open, and cannot become smaller");
        }
        let places = bytes.div_ceil(EXTENT_BYTES);
        let freed: Vec<_> = volume.extents().into_iter().filter(|(place, _)| u64::from(*place) >= places).collect();
        if bytes < before {
            // Before the catalog: a client that opens it now uses no extent that will be free.
            volume.resize(bytes);
        }
        drop(state);
        let entered = catalog.resize(volume.id, bytes);
        drop(catalog);
        let mut state = self.lock();
        if let Err(error) = entered {
            volume.resize(before);
            volume.place(&freed);
            return Err(error);
        }
        volume.resize(bytes);
        state.free(&store, &freed);
        self.tell(&state, &store)
    }

    /// Changes what a volume is promised.
    ///
    /// # Errors
    /// There is no such volume, the contract is wrong, or a store cannot keep it and it `is_unchecked` not.
    pub fn promise(&self, name: &str, contract: &str, is_unchecked: bool) -> anyhow::Result<Option<String>> {
        let tenant = tenant(name, contract).with_context(|| format!("volume {name}"))?;
        let _alone = self.giving.lock().unwrap_or_else(PoisonError::into_inner);
        let (volume, stores) = {
            let state = self.lock();
            let volume = Server::volume(&state, name)?;
            let to = state.moves.get(&volume.id).map(|moving| moving.to.clone());
            (volume.clone(), to.into_iter().chain([volume.store()]).collect::<Vec<_>>())
        };
        let mut note = None;
        for store in stores.iter().filter(|_| !is_unchecked) {
            note = self.admit(store, name, volume.bytes(), contract)?;
        }
        let mut catalog = self.catalog();
        let volume = Server::volume(&self.lock(), name)?;
        catalog.promise(volume.id, contract)?;
        drop(catalog);
        let mut state = self.lock();
        volume.set_contract(contract);
        state.tenants.insert(volume.id, tenant);
        for store in &stores {
            self.tell(&state, store)?;
        }
        Ok(note)
    }

    /// Deletes a volume and what is in it.
    ///
    /// # Errors
    /// There is no such volume, it is open, or it is being moved.
    pub fn delete(&self, name: &str) -> anyhow::Result<()> {
        let catalog = self.catalog();
        let volume = {
            let mut state = self.lock();
            let volume = Server::settled(&state, name)?;
            ensure!(volume.clients() == 0, "volume {name}: is open ({} clients)", volume.clients());
            // No client opens it from now on.
            state.volumes.remove(name);
            volume
        };
        let deleted = catalog.delete(volume.id);
        drop(catalog);
        let mut state = self.lock();
        if let Err(error) = deleted {
            state.volumes.insert(name.to_owned(), volume);
            return Err(error);
        }
        state.tenants.remove(&volume.id);
        state.failed_moves.remove(&volume.id);
        let store = volume.store();
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
        let (store, _counted) = volume.begin_allocation();
        // A store that stalls holds up its own volumes only.
        let _alone = store.allocating.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = volume.missing(offset, bytes);
        if missing.is_empty() {
            return Ok(());
        }
        let full = || io::Error::from_raw_os_error(28);
        let free = self.lock().reserve(&store, missing.len()).ok_or_else(full)?;
        let given: Vec<(u32, u32)> = missing.into_iter().zip(free).collect();
        let ranges = given.iter().map(|(_, number)| (u64::from(*number) * EXTENT_BYTES, EXTENT_BYTES));
        let zeroed = store.host.zero(volume.id, ranges);
        let entered = zeroed.and_then(|()| self.catalog().allocate(volume.id, &store.name, &given).map_err(io::Error::other));
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
        // The default export is the only volume, if there is one only.
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

/// A volume with this contract, the keys of a tenant in TOML, as schedulers know it.
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
        reference: promise.reference.as_ref().map(experiment::tenants::Reference::model).transpose()?,
        rates: promise.rates,
        latency_p99: promise.latency_p99,
    })
}
