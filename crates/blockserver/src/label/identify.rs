//! Compares the label of a store with the catalog.

use std::collections::BTreeMap;

use anyhow::bail;

use super::{Found, Labelled, Uuid, Version};

/// The stores of the catalog, by name. `None`: a store of a catalog from before stores had labels.
pub type Known = BTreeMap<String, Option<Version>>;

/// A store that may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Identified {
    /// A new store.
    New,
    /// A store that the catalog knows, and that has no label yet.
    Unlabelled,
    /// The store is as the catalog knows it.
    Same,
    /// The store has changes that are not in the catalog.
    Ahead,
}

/// Name of a store in the catalog; `None` if it is not there.
pub fn name_of(known: &Known, store: Uuid) -> Option<&String> {
    known.iter().find(|(_, known)| known.is_some_and(|known| known.store == store)).map(|(name, _)| name)
}

/// Remedy for a store in another's place.
const PUT_BACK: &str = "put the right one at this path";

/// Decides whether the content found at the path of the store `name`, of `bytes` bytes, is the store that the catalog knows.
///
/// # Errors
/// It is another store, an older copy, or none: the message has both identities, and the remedy.
pub fn identify(name: &str, catalog: Uuid, known: &Known, found: &Found, bytes: u64) -> anyhow::Result<Identified> {
    let adopt = format!("`seekwise-serve store adopt {name}`");
    let labelled = match (known.get(name), found) {
        (_, Found::Damaged(why)) => bail!("{why}; bring back a copy of the store, or see what `seekwise-serve store list` finds"),
        (None, Found::Blank) => return Ok(Identified::New),
        (Some(None), Found::Blank | Found::Foreign) => return Ok(Identified::Unlabelled),
        (Some(Some(version)), Found::Blank | Found::Foreign) => {
            let is = if matches!(found, Found::Blank) { "is empty" } else { "holds data that are not of a store" };
            bail!(
                "{is}, and the catalog knows store {} of generation {}: {PUT_BACK}; {adopt} begins an empty one",
                version.store,
                version.generation
            )
        }
        (None, Found::Foreign) => bail!("holds data that are not of a store; {adopt} --overwrite takes it all the same"),
        (_, Found::Labelled(labelled)) => labelled,
    };
    let label = &labelled.label;
    let (version, as_labelled) = (label.version(), label.name());
    if label.layout().bytes > bytes {
        bail!(
            "is truncated: has {bytes} bytes, and store {} had {}; {PUT_BACK}, or make it as large as it was",
            version.store,
            label.layout().bytes
        );
    }
    match (known.get(name).copied().flatten(), name_of(known, version.store)) {
        (_, Some(other)) if other != name => {
            bail!("is store {other} ({}) of this catalog, or a copy of it: {PUT_BACK}, or call it {other}", version.store)
        }
        (Some(known), None) => bail!(
            "is store {as_labelled} ({}, generation {}){}, and the catalog knows store {} of generation {}: {PUT_BACK}; {adopt} takes this one",
            version.store,
            version.generation,
            if label.catalog() == catalog { "" } else { " of another catalog" },
            known.store,
            known.generation
        ),
        // The server was killed before the catalog knew the label.
        (None, _) if label.catalog() == catalog && (known.contains_key(name) || label.volumes().is_empty()) => {
            Ok(Identified::Ahead)
        }
        (None, _) => {
            let whose = if label.catalog() == catalog {
                "a store of this catalog that it does not know"
            } else {
                "a store of another catalog"
            };
            bail!(
                "is {whose}: {as_labelled} ({}, generation {}); {adopt} takes it with its volumes",
                version.store,
                version.generation
            )
        }
        (Some(known), Some(_)) => compare(known, labelled, &adopt),
    }
}

/// Compares two versions of the same store.
fn compare(known: Version, labelled: &Labelled, adopt: &str) -> anyhow::Result<Identified> {
    let version = labelled.label.version();
    if labelled.is_front_overwritten {
        bail!(
            "another program has overwritten its beginning, store {} of generation {}: {adopt} restores the label there",
            version.store,
            version.generation
        );
    }
    let is_of_start = version.start == known.start;
    // The server was killed between the label and the catalog of its start.
    let has_begun = labelled.label.previous_start() == known.start;
    if version == known {
        return Ok(Identified::Same);
    }
    if version.generation > known.generation && (is_of_start || has_begun) {
        return Ok(Identified::Ahead);
    }
    if version.generation > known.generation {
        bail!(
            "is newer than the catalog: generation {}, and the catalog knows {}: bring back the catalog of the same time; \
             `seekwise-serve store recover` makes one from the stores",
            version.generation,
            known.generation
        );
    }
    let what = if version.generation < known.generation { "an older copy" } else { "a copy that went on without this catalog" };
    bail!(
        "is {what} of store {}: generation {}, and the catalog knows {}: {PUT_BACK}; {adopt} takes this one, with its data of then",
        version.store,
        version.generation,
        known.generation
    );
}
