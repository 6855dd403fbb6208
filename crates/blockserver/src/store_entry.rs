//! An open store.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, Mutex};

use crate::store::{Extents, Medium, StoreDevice, StoreHost};
use anyhow::{Context, bail, ensure};
use backing::{Backing, MemoryBacking};
use block::{Merges, Nanos};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};

use crate::catalog::EXTENT_BYTES;
use crate::configuration::{DEPTH, Store};
use crate::label::StoreLabel;
use crate::tuning::{Given, Tuning};

/// An open store: a file, block device or emulated disk with its scheduler.
pub struct StoreEntry {
    /// Name.
    pub name: String,
    /// Scheduler and queue.
    pub host: StoreHost,
    /// Minimum transfer size and alignment in bytes.
    pub block_bytes: u32,
    /// Whether it is a rotational disk.
    pub is_rotational: bool,
    /// Size in bytes.
    pub bytes: u64,
    /// Number of extents, including reserved ones.
    pub extents: u32,
    /// Extents that the label occupies.
    pub reserved: BTreeSet<u32>,
    /// Active settings of the queue, and their tuning.
    pub tuning: Tuning,
    /// Data of the store.
    pub backing: Arc<dyn Backing>,
    /// Performance model for admission control; `None` disables the checks.
    pub profile: Option<Profile>,
    /// Number of disks below it that work in parallel.
    pub disks: u32,
    /// Place of each extent in its volume, for the scheduler.
    pub places: Arc<Extents>,
    /// Number of volumes whose trimmed extents are about to be free.
    pub reclaiming: AtomicUsize,
    /// Which volume has which extent, on the store itself; `None` on an emulated disk. Locked until a change is in the catalog, too: their
    /// generations are in order.
    pub label: Mutex<Option<StoreLabel>>,
}

impl StoreEntry {
    /// Number of extents that volumes can have.
    pub fn usable_extents(&self) -> u64 {
        u64::from(self.extents) - self.reserved.len() as u64
    }
}

/// Opens a store.
///
/// # Errors
/// The store does not exist, is locked or is smaller than an extent, or its settings are invalid.
pub fn open(store: &Store) -> anyhow::Result<StoreEntry> {
    let setting = store.setting()?;
    // No pause when the scheduler is replaced, and no write-back throttling: the server has no page cache above this queue.
    let settings = QueueSettings {
        switch_time: Nanos::ZERO,
        write_back_latency: Some(Nanos::ZERO),
        merges: Merges::All,
        ..QueueSettings::default()
    };
    let (device, backing, block_bytes, is_rotational, bytes, depth) = match (&store.emulated, &store.path) {
        (Some(disk), _) => {
            let model = sim::profile::load(disk)?.build(DeviceOptions::default());
            let backing: Arc<dyn Backing> = Arc::new(MemoryBacking::default());
            let (bytes, is_rotational) = (512 * model.capacity_sectors(), model.is_rotational());
            let depth = model.queue_depth();
            (StoreDevice::emulated(model, backing.clone()), backing, 512, is_rotational, bytes, depth)
        }
        (None, Some(path)) => {
            let medium =
                Medium::open(path, store.direct).with_context(|| format!("store {}: path: {}", store.name, path.display()))?;
            let (bytes, block, is_rotational) = (medium.bytes(), medium.block_bytes(), medium.is_rotational());
            let backing: Arc<dyn Backing> = Arc::new(medium);
            let depth = store.depth.unwrap_or(DEPTH) as usize;
            (StoreDevice::real(backing.clone(), bytes / 512, depth, is_rotational), backing, block, is_rotational, bytes, depth)
        }
        (None, None) => bail!("store {}: path: give either path or emulated", store.name),
    };
    let extents = u32::try_from(bytes / EXTENT_BYTES).unwrap_or(u32::MAX - 1);
    ensure!(extents > 0, "store {}: holds {bytes} bytes, which is less than an extent of 64 MiB", store.name);
    let profile = store.emulated.as_ref().or(store.profile.as_ref()).map(|disk| sim::profile::load(disk)).transpose()?;
    let scheduler = (setting.spec.build)(&settings.limits(), &setting.values);
    let host = StoreHost::start(device, scheduler, settings).with_context(|| format!("store {}", store.name))?;
    let read_ahead_kb = i64::from(store.read_ahead_kb.unwrap_or(0));
    host.set_read_ahead(2 * read_ahead_kb.unsigned_abs(), EXTENT_BYTES / 512);
    let fixed = [store.scheduler.is_some(), store.depth.is_some(), store.read_ahead_kb.is_some()];
    let given = Given { setting, depth, read_ahead_kb, fixed, controller: store.controller()? };
    let (name, disks, tuning) = (store.name.clone(), store.disks, Tuning::new(given, settings));
    Ok(StoreEntry {
        name,
        host,
        block_bytes,
        is_rotational,
        bytes,
        extents,
        reserved: BTreeSet::new(),
        tuning,
        backing,
        disks,
        profile,
        places: Arc::new(Extents::new(extents, EXTENT_BYTES / 512)),
        reclaiming: AtomicUsize::new(0),
        label: Mutex::default(),
    })
}
