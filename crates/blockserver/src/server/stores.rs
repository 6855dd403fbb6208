//! Opens the stores, and compares their labels with the catalog.
//!
//! ```text
//! catalog ─▶ known versions ─┐
//! store ─▶ label::read ─▶ label::identify ─▶ the volumes: of the catalog, of a store that is ahead the label's
//!                                            └─▶ written to the labels, with a new start, then to the catalog
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use anyhow::{Context, bail, ensure};
use backing::Backing;

use crate::catalog::{Catalog, EXTENT_BYTES, Record, StoreRecord};
use crate::configuration::{Configuration, Store};
use crate::label::{self, Found, Identified, Known, StoreLabel, Uuid};
use crate::store::{Buffer, Extents};
use crate::store_entry::{self, StoreEntry};

/// Bytes copied at once by [`relocate`].
const CHUNK: u64 = 1 << 20;

/// Which differences between stores and catalog are accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Accept<'a> {
    /// None but those that a crash leaves.
    Known,
    /// This store is taken as it is.
    Adopted {
        /// Its name in the configuration.
        store: &'a str,
        /// Data that are not of a store may be overwritten.
        overwrites: bool,
        /// Volumes of the catalog that are not on it may be given up.
        gives_up: bool,
    },
    /// All stores: the catalog is new.
    Stores,
}

/// An opened store with its label.
struct Opened {
    entry: StoreEntry,
    /// `None` for an emulated disk.
    label: Option<StoreLabel>,
    state: Identified,
    /// All of its label has to be written.
    is_rewritten: bool,
    /// It was of another catalog.
    is_foreign: bool,
}

/// Opens the stores of the configuration, updates their labels and the catalog, and returns the stores and the volumes, by name.
///
/// # Errors
/// A store cannot be opened, is not the one that the catalog knows, or disagrees with the catalog about a volume; or a volume is on a store
/// that the configuration does not name.
pub(crate) fn open(
    configuration: &Configuration,
    catalog: &mut Catalog,
    accept: &Accept<'_>,
) -> anyhow::Result<(Vec<Arc<StoreEntry>>, Vec<Record>)> {
    let (uuid, known) = (catalog.uuid()?, catalog.stores()?);
    let mut opened = Vec::new();
    for store in &configuration.stores {
        opened.push(open_store(store, uuid, &known, accept, configuration)?);
    }
    let mut records = catalog.volumes()?;
    let is_configured = |record: &Record| opened.iter().any(|store| store.entry.name == record.store);
    if let Some(record) = records.iter().find(|record| !is_configured(record)) {
        bail!("volume {}: is on store {}, which the configuration does not name", record.name, record.store);
    }
    if relocate(&mut opened, &mut records)? {
        catalog.reconcile(&[], &records)?;
    }
    let volumes = resolve(&mut opened, &records, catalog.next_id()?, accept)?;
    write(&mut opened, catalog, &known, &volumes)?;
    Ok((opened.into_iter().map(Opened::ready).map(Arc::new).collect(), volumes))
}

fn open_store(
    store: &Store,
    catalog: Uuid,
    known: &Known,
    accept: &Accept<'_>,
    configuration: &Configuration,
) -> anyhow::Result<Opened> {
    let entry = store_entry::open(store)?;
    let Some(path) = &store.path else {
        return Ok(Opened { entry, label: None, state: Identified::Same, is_rewritten: false, is_foreign: false });
    };
    let place = || format!("store {}: path: {}", store.name, path.display());
    let found = label::read(&*entry.backing, entry.bytes).with_context(place)?;
    let state = match accept {
        Accept::Adopted { store: name, overwrites, .. } if *name == store.name => {
            adopt(&found, known, *overwrites, configuration, &entry).with_context(place)?
        }
        Accept::Stores => match &found {
            Found::Labelled(_) => Identified::Ahead,
            Found::Damaged(why) => bail!("{}: {why}", place()),
            Found::Blank | Found::Foreign => bail!("{}: has no label, so that nothing can be recovered from it", place()),
        },
        _ => label::identify(&store.name, catalog, known, &found, entry.bytes).with_context(place)?,
    };
    let (mut label, mut is_rewritten) = match found {
        Found::Labelled(found) if state != Identified::New => (found.label, false),
        _ => (StoreLabel::new(&store.name, entry.bytes, catalog).with_context(place)?, true),
    };
    if label.layout().bytes < entry.bytes {
        label.grow(entry.bytes);
        is_rewritten = true;
    }
    let is_foreign = label.catalog() != catalog;
    if is_foreign {
        label.belongs_to(catalog)?;
        is_rewritten = true;
    }
    Ok(Opened { entry, label: Some(label), state, is_rewritten, is_foreign })
}

/// State of a store to adopt.
fn adopt(
    found: &Found,
    known: &Known,
    overwrites: bool,
    configuration: &Configuration,
    entry: &StoreEntry,
) -> anyhow::Result<Identified> {
    let labelled = match found {
        Found::Blank => return Ok(Identified::New),
        Found::Foreign | Found::Damaged(_) if overwrites => return Ok(Identified::New),
        Found::Foreign => bail!("holds data that are not of a store; --overwrite gives them up"),
        Found::Damaged(why) => bail!("{why}; --overwrite begins an empty store"),
        Found::Labelled(labelled) => labelled,
    };
    let (version, bytes) = (labelled.label.version(), labelled.label.layout().bytes);
    ensure!(bytes <= entry.bytes, "is truncated: has {} bytes, and store {} had {bytes}", entry.bytes, version.store);
    if let Some(other) = label::name_of(known, version.store).filter(|other| **other != entry.name) {
        let is_configured = configuration.stores.iter().any(|store| store.name == *other);
        ensure!(!is_configured, "is store {other} ({}), or a copy of it", version.store);
    }
    Ok(Identified::Ahead)
}

/// Moves volumes out of extents that the label of a store from before labels is to occupy. Returns whether there were any.
fn relocate(opened: &mut [Opened], records: &mut [Record]) -> anyhow::Result<bool> {
    let mut is_moved = false;
    for store in opened.iter_mut().filter(|store| store.state == Identified::Unlabelled) {
        let Some(label) = &store.label else { continue };
        let layout = label.layout();
        let here = || records.iter().filter(|record| record.store == store.entry.name);
        let used: BTreeSet<u32> = here().flat_map(|record| record.extents.iter().map(|(_, number)| *number)).collect();
        let mut free = (0..layout.extents()).filter(|number| !layout.is_reserved(*number) && !used.contains(number));
        let name = &store.entry.name;
        for record in records.iter_mut().filter(|record| record.store == *name) {
            for (_, number) in record.extents.iter_mut().filter(|(_, number)| layout.is_reserved(*number)) {
                let to = free.next().with_context(|| {
                    format!("store {name}: is full, and needs two extents of 64 MiB for its label: make it larger, or delete a volume with the version before")
                })?;
                copy(&*store.entry.backing, *number, to).with_context(|| format!("store {name}"))?;
                (*number, is_moved) = (to, true);
            }
        }
    }
    Ok(is_moved)
}

fn copy(backing: &dyn Backing, from: u32, to: u32) -> io::Result<()> {
    let mut buffer = Buffer::new(CHUNK as usize);
    for at in (0..EXTENT_BYTES).step_by(CHUNK as usize) {
        backing.read(u64::from(from) * EXTENT_BYTES + at, &mut buffer)?;
        backing.write(u64::from(to) * EXTENT_BYTES + at, &buffer)?;
    }
    backing.flush()
}

/// The volumes: those of the catalog, but of a store that is ahead those in its label. A volume that moved is on the store with more moves.
fn resolve(opened: &mut [Opened], records: &[Record], mut next_id: u32, accept: &Accept<'_>) -> anyhow::Result<Vec<Record>> {
    // A new store has no volumes, though the catalog may have some there.
    let is_ahead = |name: &str| {
        opened.iter().any(|store| store.entry.name == name && matches!(store.state, Identified::Ahead | Identified::New))
    };
    let mut volumes: BTreeMap<u32, Record> =
        records.iter().filter(|record| !is_ahead(&record.store)).map(|record| (record.id, record.clone())).collect();
    let is_adopted = |name: &str| matches!(accept, Accept::Adopted { store, .. } if *store == name);
    for store in opened.iter_mut() {
        let (name, Some(label)) = (&store.entry.name, &mut store.label) else { continue };
        let labelled: Vec<Record> = label.volumes().into_iter().map(|record| Record { store: name.clone(), ..record }).collect();
        match store.state {
            Identified::Ahead => {
                for mut record in labelled {
                    // In another catalog, or before the catalog was lost, the id may have been another volume's.
                    let known = records.iter().find(|known| known.id == record.id);
                    if is_adopted(name) && (store.is_foreign || known.is_some_and(|known| known.name != record.name)) {
                        record.id = next_id;
                        next_id += 1;
                        // Volumes and owners change together: blocks of the former UUID are void.
                        label.belongs_to(label.catalog())?;
                        store.is_rewritten = true;
                    }
                    let is_later = volumes.get(&record.id).is_none_or(|other| other.moves < record.moves || other.store == *name);
                    if is_later {
                        volumes.insert(record.id, record);
                    }
                }
            }
            Identified::Same => agree(name, records, &labelled)?,
            Identified::New | Identified::Unlabelled => {}
        }
    }
    let mut names = BTreeMap::new();
    for record in volumes.values() {
        if let Some(other) = names.insert(&record.name, record) {
            bail!("volume {}: is on store {} and, another one of this name, on store {}", record.name, other.store, record.store);
        }
    }
    let lost: Vec<&str> =
        records.iter().filter(|record| !volumes.contains_key(&record.id)).map(|record| record.name.as_str()).collect();
    if let Accept::Adopted { store, gives_up: false, .. } = accept {
        ensure!(lost.is_empty(), "store {store}: volumes {} are not on it; --give-up removes them", lost.join(", "));
    }
    let mut volumes: Vec<Record> = volumes.into_values().collect();
    volumes.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(volumes)
}

/// Checks that a label and the catalog have the same volumes for a store.
fn agree(store: &str, records: &[Record], labelled: &[Record]) -> anyhow::Result<()> {
    let known: BTreeMap<u32, &Record> = records.iter().map(|record| (record.id, record)).collect();
    // A volume that has moved elsewhere may be left over in the label.
    let stays = |record: &&Record| known.get(&record.id).is_none_or(|known| known.moves <= record.moves);
    let in_label: BTreeMap<u32, &Record> = labelled.iter().filter(stays).map(|record| (record.id, record)).collect();
    let here = records.iter().filter(|record| record.store == store).map(|record| record.id);
    for id in here.chain(in_label.keys().copied()) {
        let (catalog, label) = (known.get(&id), in_label.get(&id));
        let name = catalog.or(label).map_or("", |record| record.name.as_str());
        ensure!(
            catalog == label,
            "volume {name}: the catalog and the label of store {store} disagree about it, at the same generation; \
             `seekwise-serve store adopt {store}` takes the label's word"
        );
    }
    Ok(())
}

/// Writes the volumes to the labels, with a new start, and to the catalog.
fn write(opened: &mut [Opened], catalog: &mut Catalog, known: &Known, volumes: &[Record]) -> anyhow::Result<()> {
    let start = Uuid::random()?;
    let mut stores = Vec::new();
    for Opened { entry, label, is_rewritten, .. } in opened.iter_mut() {
        let name = entry.name.as_str();
        let of_it: Vec<Record> = volumes.iter().filter(|record| record.store == name).cloned().collect();
        let extents = label.as_ref().map_or(entry.extents, |label| label.layout().extents());
        let is_reserved = |number: u32| label.as_ref().is_some_and(|label| label.layout().is_reserved(number));
        for (record, number) in of_it.iter().flat_map(|record| record.extents.iter().map(move |(_, number)| (record, *number))) {
            ensure!(
                number < extents && !is_reserved(number),
                "store {name}: has {extents} extents of 64 MiB, and volume {} has extent {number}: it has become smaller",
                record.name
            );
        }
        if let Some(label) = label {
            let before = known.get(name).copied().flatten();
            let known_start = before.map_or(start, |before| before.start);
            // Older copies of an adopted store have generations up to that of the catalog.
            label.passes(before.map_or(0, |before| before.generation));
            let change = label.difference(&of_it)?;
            let mut to_backing = |blocks: Vec<(u64, Buffer)>| {
                blocks.iter().try_for_each(|(offset, data)| entry.backing.write(*offset, data))?;
                entry.backing.flush()
            };
            let written = if *is_rewritten {
                label.begin_whole(name, start, known_start, &change, &mut to_backing)
            } else {
                label.begin(name, start, known_start, &change, &mut to_backing)
            };
            written.with_context(|| format!("store {name}: its label cannot be written"))?;
        }
        stores.push(StoreRecord { name: name.to_owned(), extents, version: label.as_ref().map(StoreLabel::version) });
    }
    let changed = catalog.reconcile(&stores, volumes)?;
    if !changed.is_empty() {
        let volumes = changed.into_iter().collect::<Vec<_>>().join(", ");
        tracing::warn!(volumes, "taken over from the labels of their stores, which were ahead of the catalog");
    }
    Ok(())
}

impl Opened {
    fn ready(self) -> StoreEntry {
        let Opened { mut entry, label, .. } = self;
        if let Some(layout) = label.as_ref().map(StoreLabel::layout) {
            entry.extents = layout.extents();
            entry.reserved = (0..layout.extents()).filter(|number| layout.is_reserved(*number)).collect();
            entry.places = Arc::new(Extents::new(layout.extents(), EXTENT_BYTES / 512));
        }
        entry.label = label.into();
        entry
    }
}
