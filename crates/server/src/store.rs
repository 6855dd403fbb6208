//! A store that is served.

use std::sync::{Arc, Mutex};

use anyhow::{Context, bail, ensure};
use block::{Merges, Nanos};
use serve::backing::{Backing, MemoryBacking};
use serve::store::{Extents, Medium, StoreDevice, StoreHost};
use sim::host::QueueSettings;
use sim::profile::{DeviceOptions, Profile};

use crate::catalog::EXTENT_BYTES;
use crate::configuration::{DEPTH, Store};
use crate::tuning::{Given, Tuning};

/// A store that is served.
pub struct StoreEntry {
    /// What people call it.
    pub name: String,
    /// Its scheduler and queue.
    pub host: StoreHost,
    /// The smallest transfer.
    pub block_bytes: u32,
    /// Whether it turns.
    pub is_rotational: bool,
    /// How many extents it has.
    pub extents: u32,
    /// What it is set to.
    pub tuning: Tuning,
    /// Its data.
    pub backing: Arc<dyn Backing>,
    /// What promises are checked against; `None`: they are not.
    pub profile: Option<Profile>,
    /// Disks below it that serve at the same time.
    pub disks: u32,
    /// Which part of which volume each extent is, for the scheduler.
    pub places: Arc<Extents>,
    /// Held while extents are given away.
    pub allocating: Mutex<()>,
}

/// Opens a store.
///
/// # Errors
/// It is not there, is locked, or is too small.
pub fn open(store: &Store) -> anyhow::Result<StoreEntry> {
    let setting = store.setting()?;
    // The client waits: a request is not merged with what may come.
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
        extents,
        tuning,
        backing,
        disks,
        profile,
        places: Arc::new(Extents::new(extents, EXTENT_BYTES / 512)),
        allocating: Mutex::default(),
    })
}
