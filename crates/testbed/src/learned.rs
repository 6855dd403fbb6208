//! Learned devices (`seekwise disk learn`) by file.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use device_model::device::{DeviceModel, Training};
use sim::profile::learned::{self, Learned};

/// Maximum size of a model's file.
const MOST_BYTES: u64 = 64 << 20;

/// Reads a model from a file.
///
/// # Errors
/// The file cannot be read, or does not hold a model.
pub fn load(path: &Path) -> anyhow::Result<DeviceModel> {
    let name = path.display();
    let length = std::fs::metadata(path).with_context(|| name.to_string())?.len();
    ensure!(length <= MOST_BYTES, "{name}: has {length} bytes; a model of a device has at most {MOST_BYTES}");
    let text = std::fs::read_to_string(path).with_context(|| name.to_string())?;
    DeviceModel::from_json(&text).with_context(|| name.to_string())
}

/// Registers learned models as devices: a model's file can then be given in place of a profile.
pub fn register_learned_devices() {
    learned::read_with(|text| {
        let model = DeviceModel::from_json(text).map_err(|error| error.to_string())?;
        let Training { requests, .. } = *model.training();
        Ok(Learned {
            name: model.name().to_owned(),
            description: format!("learned from {requests} requests"),
            page: model.text(),
            capacity_sectors: model.capacity_sectors(),
            queue_depth: model.queue_depth(),
            is_rotational: model.is_rotational(),
            disks: model.disks(),
            model: Arc::new(model),
        })
    });
}
