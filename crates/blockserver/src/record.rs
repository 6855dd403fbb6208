//! Record of a volume, as in the catalog and in the labels of stores.

/// Bytes of an extent.
pub const EXTENT_BYTES: u64 = 64 << 20;

/// Maximum size of a volume in bytes.
pub const MOST_BYTES: u64 = 1 << 56;

/// A volume with its extents, as recorded in the catalog and on its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Unique; not reused after the volume is deleted.
    pub id: u32,
    /// Name.
    pub name: String,
    /// Name of its store.
    pub store: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub contract: String,
    /// Number of moves between stores so far.
    pub moves: u32,
    /// Whether space is kept for all of it: trims do not give it back.
    pub is_thick: bool,
    /// Maximum allocated space in bytes; `None`: its size.
    pub max_used: Option<u64>,
    /// Allocated extents: place in the volume and number on the store.
    pub extents: Vec<(u32, u32)>,
}
