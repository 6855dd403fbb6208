//! Reads the label of a store from its two copies.

use std::collections::BTreeMap;
use std::io;

use backing::Backing;

use super::block::{BLOCK_BYTES, Decoded, decode};
use super::layout::{COPIES, Copy, Layout, OWNERS_PER_BLOCK};
use super::{Entry, Head, Owner, StoreLabel, Uuid, Version};
use crate::configuration::is_name;
use crate::record::{EXTENT_BYTES, MOST_BYTES};
use crate::store::Buffer;

/// Bytes at the beginning of a store that must be zeros for it to be blank: partition tables, file systems and volume managers all have
/// something there.
const BLANK_BYTES: usize = 1 << 20;
/// Bytes that are read at once.
const CHUNK_BYTES: u64 = 1 << 20;

/// Content of a store.
#[derive(Debug)]
pub enum Found {
    /// Zeros at the beginning and at the end.
    Blank,
    /// Data of other programs.
    Foreign,
    /// A label that cannot be relied on, with the reason.
    Damaged(String),
    /// A label.
    Labelled(Box<Labelled>),
}

/// A label that was read.
#[derive(Debug)]
pub struct Labelled {
    /// The label.
    pub label: StoreLabel,
    /// Whether another program has overwritten the copy in front.
    pub is_front_overwritten: bool,
}

/// A first block, with its generation.
struct First {
    head: Head,
    store: Uuid,
    generation: u64,
}

impl First {
    /// Whether it was written at the end after the one in front: changes are written in front first, but for a new UUID or size.
    fn replaces(&self, front: &First) -> bool {
        let is_later = self.store == front.store && self.generation > front.generation;
        is_later || self.head.former == Some(front.store.to_string())
    }
}

/// Reads the label of a store of this size.
///
/// # Errors
/// The store cannot be read.
pub fn read(backing: &dyn Backing, bytes: u64) -> io::Result<Found> {
    let last = (bytes / BLOCK_BYTES as u64 * BLOCK_BYTES as u64).saturating_sub(BLOCK_BYTES as u64);
    let [mut front, mut end] = [Buffer::new(BLOCK_BYTES), Buffer::new(BLOCK_BYTES)];
    backing.read(0, &mut front)?;
    backing.read(last, &mut end)?;
    let (in_front, at_end) = (decode(&front, 0), decode(&end, 0));
    let is_ours = |decoded: &Decoded<'_>| matches!(decoded, Decoded::Damaged | Decoded::Intact { .. });
    for decoded in [&in_front, &at_end] {
        if let Decoded::Later(version) = decoded {
            return Ok(Found::Damaged(format!("has a label of version {version}, which is later than this program")));
        }
    }
    let newer = match (first(&in_front), first(&at_end)) {
        (Some(front), Some(end)) => Some(if end.replaces(&front) { end } else { front }),
        (front, end) => front.or(end),
    };
    let Some(first) = newer else {
        if is_ours(&in_front) || is_ours(&at_end) {
            return Ok(Found::Damaged("has a label, and both copies of it are damaged".to_owned()));
        }
        let is_blank = at_end == Decoded::Zeros && is_zero(backing, bytes)?;
        return Ok(if is_blank { Found::Blank } else { Found::Foreign });
    };
    let is_front_overwritten = !is_ours(&in_front);
    labelled(backing, bytes, first, is_front_overwritten)
}

fn is_zero(backing: &dyn Backing, bytes: u64) -> io::Result<bool> {
    let mut begin = Buffer::new(BLANK_BYTES.min(bytes as usize / BLOCK_BYTES * BLOCK_BYTES));
    backing.read(0, &mut begin)?;
    Ok(begin.iter().all(|byte| *byte == 0))
}

/// The label in a first block; `None` if there is none, or it makes no sense.
fn first(decoded: &Decoded<'_>) -> Option<First> {
    let Decoded::Intact { store, generation, payload } = decoded else { return None };
    let head: Head = serde_json::from_slice(payload).ok()?;
    let is_sound = head.layout.is_sound() && head.extent_bytes == EXTENT_BYTES;
    is_sound.then_some(First { head, store: *store, generation: *generation })
}

fn labelled(backing: &dyn Backing, bytes: u64, first: First, is_front_overwritten: bool) -> io::Result<Found> {
    let First { head: Head { name, layout, catalog, start, previous_start, .. }, store, generation } = first;
    let (Ok(catalog), Ok(start), Ok(previous_start)) = (catalog.parse(), start.parse(), previous_start.parse()) else {
        return Ok(Found::Damaged("has a label whose UUIDs are no UUIDs".to_owned()));
    };
    let version = Version { store, generation, start };
    let mut label = StoreLabel::empty(layout, name, catalog, version, previous_start);
    let mut blocks = BTreeMap::new();
    if layout.bytes <= bytes {
        let [front, end] = COPIES.map(|copy| blocks_of(backing, &layout, copy, store));
        let [front, end] = [front?, end?];
        for index in 0..layout.blocks() {
            let pair = (front.get(&index), end.get(&index));
            let newer = match pair {
                (Some(Ok(front)), Some(Ok(end))) => Some(if front.0 >= end.0 { front } else { end }),
                (Some(Ok(intact)), _) | (_, Some(Ok(intact))) => Some(intact),
                (None, None) => None,
                _ => return Ok(Found::Damaged(format!("has a label whose block {index} is damaged in both copies"))),
            };
            let is_bad =
                |there: Option<&Content>| newer.is_some_and(|newer| there.and_then(|there| there.as_ref().ok()) != Some(newer));
            label.repairs.extend(
                [(Copy::Front, pair.0), (Copy::End, pair.1)]
                    .iter()
                    .filter(|(_, there)| is_bad(*there))
                    .map(|(copy, _)| (*copy, index)),
            );
            blocks.extend(newer.map(|newer| (index, newer.clone())));
        }
    }
    for (index, (generation, payload)) in blocks.into_iter().filter(|(index, _)| *index > 0) {
        label.version.generation = label.version.generation.max(generation);
        if enter(&mut label, index, &payload).is_none() {
            return Ok(Found::Damaged(format!("has a label whose block {index} makes no sense")));
        }
    }
    Ok(Found::Labelled(Box::new(Labelled { label, is_front_overwritten })))
}

/// Generation and payload of a block; an error if it is damaged.
type Content = Result<(u64, Vec<u8>), ()>;

/// The blocks of a copy that belong to this store.
fn blocks_of(backing: &dyn Backing, layout: &Layout, copy: Copy, store: Uuid) -> io::Result<BTreeMap<u32, Content>> {
    let mut found = BTreeMap::new();
    let per_chunk = (CHUNK_BYTES / BLOCK_BYTES as u64) as u32;
    let begins = std::iter::once(0).chain((1..layout.blocks()).step_by(per_chunk as usize));
    for begin in begins {
        // The first is apart from the others in the copy at the end.
        let count = if begin == 0 { 1 } else { per_chunk.min(layout.blocks() - begin) };
        let mut chunk = Buffer::new(count as usize * BLOCK_BYTES);
        backing.read(layout.offset(copy, begin), &mut chunk)?;
        for (index, block) in (begin..).zip(chunk.chunks(BLOCK_BYTES)) {
            match decode(block, index) {
                Decoded::Intact { store: of, generation, payload } if of == store => {
                    found.insert(index, Ok((generation, payload.to_vec())));
                }
                Decoded::Damaged | Decoded::Later(_) => drop(found.insert(index, Err(()))),
                // Blocks of the store's former UUID are void.
                Decoded::Zeros | Decoded::Foreign | Decoded::Intact { .. } => {}
            }
        }
    }
    Ok(found)
}

/// Enters the payload of a block; `None` if it makes no sense.
fn enter(label: &mut StoreLabel, index: u32, payload: &[u8]) -> Option<()> {
    if index <= label.layout.volumes {
        if payload.is_empty() {
            return Some(());
        }
        let entry: Entry = serde_json::from_slice(payload).ok()?;
        let is_sound = entry.id > 0 && is_name(&entry.name) && (1..=MOST_BYTES).contains(&entry.bytes);
        return is_sound.then(|| drop(label.entries.insert(index, entry)));
    }
    let begin = ((index - 1 - label.layout.volumes) * OWNERS_PER_BLOCK) as usize;
    for (owner, bytes) in label.owners.iter_mut().skip(begin).zip(payload.chunks_exact(8)) {
        let number = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        *owner = Owner { volume: number(0), place: number(4) };
    }
    Some(())
}
