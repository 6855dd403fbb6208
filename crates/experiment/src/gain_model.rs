//! The model of the gains of settings: shipped with the program, or from a file.
//!
//! The shipped model was trained only on the training world (`research/research/worlds.toml`); docs/reference/gain-model.md describes how.

use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context;
use control::gain_model::GainModel;

use crate::experience::{compressed, unpacked};

/// The shipped model, compressed.
static SHIPPED: &[u8] = include_bytes!("gain-model.json.zst");

/// Loads the model in this file; without a path, the shipped model.
///
/// # Errors
/// The file cannot be read or does not hold a model.
pub fn load(path: Option<&Path>) -> anyhow::Result<Arc<GainModel>> {
    let Some(path) = path else { return shipped() };
    let name = path.display().to_string();
    let bytes = std::fs::read(path).with_context(|| format!("model of gains {name}"))?;
    Ok(Arc::new(GainModel::from_json(&unpacked(&bytes, &name)?, &name)?))
}

fn shipped() -> anyhow::Result<Arc<GainModel>> {
    static READ: OnceLock<Arc<GainModel>> = OnceLock::new();
    if let Some(model) = READ.get() {
        return Ok(model.clone());
    }
    let name = "the model of gains that comes with the program";
    let model = Arc::new(GainModel::from_json(&unpacked(SHIPPED, name)?, name)?);
    Ok(READ.get_or_init(|| model).clone())
}

/// Serializes a model for a file of this name: compressed if the name ends in `.zst`.
///
/// # Errors
/// It cannot be serialized or compressed.
pub fn encode(path: &Path, model: &GainModel) -> anyhow::Result<Vec<u8>> {
    compressed(path, model.to_json()?)
}
