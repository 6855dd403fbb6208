//! The label of a store: its identity, and which volume has which extent.
//!
//! ```text
//! store's beginning                              store's end
//! ┌───────┬─────────┬────────┐                   ┌─────────┬────────┬───────┐
//! │ label │ volumes │ owners │      extents      │ volumes │ owners │ label │
//! └───────┴─────────┴────────┘                   └─────────┴────────┴───────┘
//!    UUID, size, catalog, last start     a change is durable in front before it is written at the end
//! ```
//! Every change of a store's volumes is a new *generation*: its blocks are written to both copies, then the catalog records the change and the
//! generation. A store that is ahead of the catalog within the same start has a change that a crash kept from the catalog; it is
//! taken over. Any other difference is an exchange, an older copy or another store, and is refused ([`identify`]).

mod block;
mod identify;
mod layout;
mod read;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use anyhow::{Context, ensure};
use serde::{Deserialize, Serialize};

pub use block::Uuid;
pub use identify::{Identified, Known, identify, name_of};
pub use layout::Layout;
pub use read::{Found, Labelled, read};

use crate::record::{EXTENT_BYTES, Record};
use crate::store::Buffer;
use block::{BLOCK_BYTES, PAYLOAD_BYTES, encode};
use layout::{COPIES, Copy, OWNERS_PER_BLOCK};

/// State of a store at a moment: two stores with the same version have the same volumes and extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// The store.
    pub store: Uuid,
    /// Number of changes of its label.
    pub generation: u64,
    /// The start of the server in which it was last changed. Copies that are changed separately have different ones.
    pub start: Uuid,
}

/// Payload of the first block, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Name in the configuration.
    name: String,
    layout: Layout,
    extent_bytes: u64,
    /// The catalog that the store belongs to.
    catalog: String,
    start: String,
    /// The start that the catalog knew when this one was recorded.
    previous_start: String,
    /// The UUID that this one replaces, if the store has changed its catalog.
    former: Option<String>,
}

/// A volume, as recorded in a block of its own, as JSON.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Entry {
    id: u32,
    name: String,
    bytes: u64,
    contract: String,
    /// Number of moves so far. If two stores have the volume, it is on the one with more.
    moves: u32,
    is_thick: bool,
    max_used: Option<u64>,
}

/// Owner of an extent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Owner {
    /// Id of the volume; 0 if the extent is free.
    volume: u32,
    /// Position in the volume, in extents.
    place: u32,
}

/// A change of volumes and owners: blocks with their new values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// The first block is written, though nothing in it changes but the generation.
    is_of_head: bool,
    entries: Vec<(u32, Option<Entry>)>,
    owners: Vec<(u32, Owner)>,
}

/// Writes blocks, as byte offset and data, and makes them durable.
pub type Write<'a> = &'a mut dyn FnMut(Vec<(u64, Buffer)>) -> io::Result<()>;

/// The label of a store in use.
#[derive(Clone, Debug)]
pub struct StoreLabel {
    layout: Layout,
    name: String,
    catalog: Uuid,
    version: Version,
    previous_start: Uuid,
    former: Option<Uuid>,
    entries: BTreeMap<u32, Entry>,
    owners: Vec<Owner>,
    /// Blocks that may differ on the store, because writing them has failed.
    unwritten: BTreeSet<u32>,
    /// Blocks that a copy lacks, or has damaged or in an older generation.
    repairs: Vec<(Copy, u32)>,
}

impl StoreLabel {
    /// A label with a new UUID for a store without volumes, not written yet.
    ///
    /// # Errors
    /// The store is too small, or the kernel gives no random bytes.
    pub fn new(name: &str, bytes: u64, catalog: Uuid) -> anyhow::Result<StoreLabel> {
        let least = Layout::LEAST_MIB;
        let small =
            || format!("holds {bytes} bytes: should be at least {least} MiB, for an extent of 64 MiB and two copies of its label");
        let layout = Layout::new(bytes).with_context(small)?;
        let store = Uuid::random()?;
        let version = Version { store, generation: 0, start: store };
        Ok(StoreLabel::empty(layout, name.to_owned(), catalog, version, store))
    }

    /// A label without volumes.
    fn empty(layout: Layout, name: String, catalog: Uuid, version: Version, previous_start: Uuid) -> StoreLabel {
        let owners = vec![Owner::default(); layout.extents() as usize];
        let (former, entries, unwritten, repairs) = (None, BTreeMap::new(), BTreeSet::new(), Vec::new());
        StoreLabel { layout, name, catalog, version, previous_start, former, entries, owners, unwritten, repairs }
    }

    /// The name that its store had in the configuration when the label was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The catalog that the store belongs to.
    pub fn catalog(&self) -> Uuid {
        self.catalog
    }

    /// The start of the server that the catalog knew when the last one was recorded.
    pub fn previous_start(&self) -> Uuid {
        self.previous_start
    }

    /// Whether the store is known to have this label: no change of it has failed, or it was written since.
    pub fn is_written(&self) -> bool {
        self.unwritten.is_empty()
    }

    /// Its layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The state of the store that it describes.
    pub fn version(&self) -> Version {
        self.version
    }

    /// The change that adds a volume or changes its size, contract or moves.
    ///
    /// # Errors
    /// The store has no block left for another volume, or its contract is too long for a block.
    pub fn with_volume(&self, volume: &Record) -> anyhow::Result<Change> {
        let Record { id, name, bytes, contract, moves, is_thick, max_used, .. } = volume;
        let (id, bytes, moves, is_thick, max_used) = (*id, *bytes, *moves, *is_thick, *max_used);
        let entry = Entry { id, name: name.clone(), bytes, contract: contract.clone(), moves, is_thick, max_used };
        let known = self.block_of(id);
        let free = || (1..=self.layout.volumes).find(|index| !self.entries.contains_key(index));
        let index = known.or_else(free).with_context(|| {
            format!("volume {name}: store {} has {} volumes, which is its maximum", self.name, self.layout.volumes)
        })?;
        let length = serde_json::to_vec(&entry)?.len();
        ensure!(
            length <= PAYLOAD_BYTES,
            "volume {name}: its contract has {} bytes, {} more than fit in the label of store {}",
            contract.len(),
            length - PAYLOAD_BYTES,
            self.name
        );
        Ok(Change { entries: vec![(index, Some(entry))], ..Change::default() })
    }

    /// The change that removes a volume. Its extents are free then, though it is still recorded as their owner.
    pub fn without_volume(&self, id: u32) -> Change {
        Change { entries: self.block_of(id).map(|index| (index, None)).into_iter().collect(), ..Change::default() }
    }

    /// The change that gives extents, as place and number, to a volume. Extents that an earlier change has left at the same places are freed.
    pub fn gives(&self, id: u32, extents: &[(u32, u32)]) -> Change {
        let places: BTreeSet<u32> = extents.iter().map(|(place, _)| *place).collect();
        self.without_owner(id, |place| places.contains(&place)).and_gives(id, extents)
    }

    /// As [`gives`](StoreLabel::gives), of a volume that gets all of its extents.
    pub fn gives_all(&self, id: u32, extents: &[(u32, u32)]) -> Change {
        self.without_owner(id, |_| true).and_gives(id, extents)
    }

    /// The change that frees extents of a volume, as place and number. Those that it does not have are left alone.
    pub fn frees(&self, id: u32, extents: &[(u32, u32)]) -> Change {
        let is_its = |number: &u32| self.owners.get(*number as usize).is_some_and(|owner| owner.volume == id);
        let numbers = extents.iter().map(|(_, number)| *number).filter(is_its);
        Change { owners: numbers.map(|number| (number, Owner::default())).collect(), ..Change::default() }
    }

    /// The change that frees extents of a volume at some places.
    fn without_owner(&self, id: u32, is_freed: impl Fn(u32) -> bool) -> Change {
        let of_it = (0..).zip(&self.owners).filter(|(_, owner)| owner.volume == id && is_freed(owner.place));
        Change { owners: of_it.map(|(number, _)| (number, Owner::default())).collect(), ..Change::default() }
    }

    fn block_of(&self, id: u32) -> Option<u32> {
        self.entries.iter().find(|(_, entry)| entry.id == id).map(|(index, _)| *index)
    }

    /// The volumes with their extents.
    pub fn volumes(&self) -> Vec<Record> {
        volumes(&self.name, &self.layout, self.entries.values(), &self.owners)
    }

    /// The change after which these are the volumes.
    ///
    /// # Errors
    /// As [`with_volume`](StoreLabel::with_volume).
    pub fn difference(&self, volumes: &[Record]) -> anyhow::Result<Change> {
        let mut after = self.clone();
        let stay: BTreeSet<u32> = volumes.iter().map(|volume| volume.id).collect();
        after.entries.retain(|_, entry| stay.contains(&entry.id));
        after.owners.fill(Owner::default());
        for volume in volumes {
            let change = after.with_volume(volume)?.and_gives(volume.id, &volume.extents);
            after.set(&change);
        }
        let indexes: BTreeSet<u32> = self.entries.keys().chain(after.entries.keys()).copied().collect();
        let entries = indexes.into_iter().filter(|index| self.entries.get(index) != after.entries.get(index));
        let owners = (0..).zip(self.owners.iter().zip(&after.owners)).filter(|(_, (before, after))| before != after);
        Ok(Change {
            is_of_head: false,
            entries: entries.map(|index| (index, after.entries.get(&index).cloned())).collect(),
            owners: owners.map(|(number, (_, after))| (number, *after)).collect(),
        })
    }

    /// Sets the values of a change in memory, and returns the change that undoes it.
    fn set(&mut self, change: &Change) -> Change {
        let mut inverse = Change::default();
        for (index, entry) in &change.entries {
            let before = match entry {
                Some(entry) => self.entries.insert(*index, entry.clone()),
                None => self.entries.remove(index),
            };
            inverse.entries.push((*index, before));
        }
        for (number, owner) in &change.owners {
            if let Some(known) = self.owners.get_mut(*number as usize) {
                inverse.owners.push((*number, std::mem::replace(known, *owner)));
            }
        }
        inverse
    }

    /// Indexes of the blocks that a change is in.
    fn blocks_of(&self, change: &Change) -> BTreeSet<u32> {
        let head = change.is_of_head.then_some(0);
        let owners = change.owners.iter().map(|(number, _)| self.layout.owner_block(*number).0);
        head.into_iter().chain(change.entries.iter().map(|(index, _)| *index)).chain(owners).collect()
    }

    /// Makes a change durable, and returns the one that undoes it. Blocks whose writing has failed before are written, too.
    ///
    /// # Errors
    /// The store failed. The change is not in effect; whether it is on the store is unknown until blocks can be written.
    pub fn apply(&mut self, change: &Change, write: Write<'_>) -> io::Result<Change> {
        let blocks = self.blocks_of(change);
        if blocks.is_empty() && self.unwritten.is_empty() {
            return Ok(Change::default());
        }
        let inverse = self.set(change);
        self.version.generation += 1;
        self.unwritten.extend(blocks);
        let indexes: Vec<u32> = self.unwritten.iter().copied().collect();
        if let Err(error) = self.write(&indexes, write) {
            self.set(&inverse);
            return Err(error);
        }
        self.unwritten.clear();
        Ok(inverse)
    }

    /// Undoes a change with the one that [`apply`](StoreLabel::apply) returned, or, with an empty one, writes blocks that may not have been written.
    /// In memory that always succeeds; blocks that cannot be written are written with the next change.
    ///
    /// # Errors
    /// The store failed, and may have the change that is undone.
    pub fn undo(&mut self, inverse: &Change, write: Write<'_>) -> io::Result<()> {
        self.unwritten.extend(self.blocks_of(inverse));
        self.set(inverse);
        self.apply(&Change::default(), write).map(drop)
    }

    /// Records a start of the server under this name, and a change at the same time. `known` is the start in the catalog.
    ///
    /// # Errors
    /// As [`apply`](StoreLabel::apply).
    pub fn begin(&mut self, name: &str, start: Uuid, known: Uuid, change: &Change, write: Write<'_>) -> io::Result<()> {
        name.clone_into(&mut self.name);
        // Before the copy is changed that has them intact.
        let repairs = std::mem::take(&mut self.repairs);
        if !repairs.is_empty() {
            write(repairs.iter().map(|(copy, index)| self.encoded(*copy, *index)).collect())?;
        }
        (self.version.start, self.previous_start, self.former) = (start, known, None);
        self.unwritten.insert(0);
        self.apply(change, write).map(drop)
    }

    /// As [`begin`](StoreLabel::begin), and writes all blocks: of a new store, or with a new UUID or size. Blocks of a former UUID are void
    /// then; a crash leaves either one.
    ///
    /// # Errors
    /// The store failed.
    pub fn begin_whole(&mut self, name: &str, start: Uuid, known: Uuid, change: &Change, write: Write<'_>) -> io::Result<()> {
        name.clone_into(&mut self.name);
        (self.version.start, self.previous_start) = (start, known);
        self.version.generation += 1;
        self.unwritten.extend(self.blocks_of(change));
        self.set(change);
        let owned =
            (0..).zip(&self.owners).filter(|(_, owner)| owner.volume != 0).map(|(number, _)| self.layout.owner_block(number).0);
        let mut indexes: BTreeSet<u32> = owned.chain(self.entries.keys().copied()).collect();
        indexes.extend(&self.unwritten);
        indexes.remove(&0);
        // The end first, and its label last: until then the former label in front is in effect.
        for copy in [Copy::End, Copy::Front] {
            write(indexes.iter().map(|index| self.encoded(copy, *index)).collect())?;
            write(vec![self.encoded(copy, 0)])?;
        }
        self.unwritten.clear();
        Ok(())
    }

    /// Raises the generation to at least this one.
    pub fn passes(&mut self, generation: u64) {
        self.version.generation = self.version.generation.max(generation);
    }

    /// Takes over the size of the store, if it has grown.
    pub fn grow(&mut self, bytes: u64) {
        self.layout.bytes = bytes;
        self.owners.resize(self.layout.extents() as usize, Owner::default());
    }

    /// Gives it a new UUID and another catalog, as which it has to be written whole.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn belongs_to(&mut self, catalog: Uuid) -> io::Result<()> {
        // Of several changes the UUID that is on the store.
        self.former.get_or_insert(self.version.store);
        (self.version.store, self.catalog) = (Uuid::random()?, catalog);
        Ok(())
    }

    fn write(&self, indexes: &[u32], write: Write<'_>) -> io::Result<()> {
        COPIES.iter().try_for_each(|copy| write(indexes.iter().map(|index| self.encoded(*copy, *index)).collect()))
    }

    /// A block as it is written.
    fn encoded(&self, copy: Copy, index: u32) -> (u64, Buffer) {
        let payload = match index {
            0 => {
                let (start, previous_start) = (self.version.start.to_string(), self.previous_start.to_string());
                let (name, catalog) = (self.name.clone(), self.catalog.to_string());
                let former = self.former.map(|former| former.to_string());
                let head = Head { name, layout: self.layout, extent_bytes: EXTENT_BYTES, catalog, start, previous_start, former };
                serde_json::to_vec(&head).unwrap_or_default()
            }
            index if index <= self.layout.volumes => {
                self.entries.get(&index).and_then(|entry| serde_json::to_vec(entry).ok()).unwrap_or_default()
            }
            index => {
                let first = ((index - 1 - self.layout.volumes) * OWNERS_PER_BLOCK) as usize;
                let here = self.owners.iter().skip(first).take(OWNERS_PER_BLOCK as usize);
                here.flat_map(|owner| [owner.volume.to_le_bytes(), owner.place.to_le_bytes()].concat()).collect()
            }
        };
        let mut buffer = Buffer::new(BLOCK_BYTES);
        encode(&mut buffer, index, self.version.generation, self.version.store, &payload);
        (self.layout.offset(copy, index), buffer)
    }
}

impl Change {
    /// A new generation, and nothing else.
    pub fn of_head() -> Change {
        Change { is_of_head: true, ..Change::default() }
    }

    fn and_gives(mut self, id: u32, extents: &[(u32, u32)]) -> Change {
        self.owners.extend(extents.iter().map(|(place, number)| (*number, Owner { volume: id, place: *place })));
        self
    }

    /// Adds extents, as place and number, that are freed.
    #[must_use]
    pub fn and_frees(mut self, extents: &[(u32, u32)]) -> Change {
        self.owners.extend(extents.iter().map(|(_, number)| (*number, Owner::default())));
        self
    }
}

/// Volumes with their extents. Owners that are no volumes, or of places beyond a volume's end, are left over from earlier changes.
fn volumes<'a>(store: &str, layout: &Layout, entries: impl Iterator<Item = &'a Entry>, owners: &[Owner]) -> Vec<Record> {
    let mut extents = BTreeMap::<u32, BTreeMap<u32, u32>>::new();
    for (number, owner) in (0..).zip(owners).filter(|(number, owner)| owner.volume != 0 && !layout.is_reserved(*number)) {
        extents.entry(owner.volume).or_default().entry(owner.place).or_insert(number);
    }
    let mut found = BTreeMap::<u32, Record>::new();
    for Entry { id, name, bytes, contract, moves, is_thick, max_used } in entries {
        let (id, bytes, moves, is_thick, max_used, extents) = (*id, *bytes, *moves, *is_thick, *max_used, Vec::new());
        let (name, store, contract) = (name.clone(), store.to_owned(), contract.clone());
        found.entry(id).or_insert(Record { id, name, store, bytes, contract, moves, is_thick, max_used, extents });
    }
    for record in found.values_mut() {
        let places = u32::try_from(record.bytes.div_ceil(EXTENT_BYTES)).unwrap_or(u32::MAX);
        let of_it = extents.get(&record.id).into_iter().flat_map(|places| places.iter());
        record.extents = of_it.filter(|(place, _)| **place < places).map(|(place, number)| (*place, *number)).collect();
    }
    found.into_values().collect()
}
