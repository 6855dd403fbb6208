//! The file format of a device model.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::features::{COUNT, FEATURES, Known};
use super::mechanics::Mechanics;
use super::{Array, DeviceModel, Shared, Training};
use crate::regression::Tree;

/// Header of a model's file, with the version of the format.
const SCHEMA: &str = "seekwise-device-model 2";

/// Why a file is not a valid model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredError(String);

impl fmt::Display for StoredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for StoredError {}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    schema: String,
    name: String,
    capacity_sectors: u64,
    queue_depth: u32,
    training: Training,
    array: Array,
    mechanics: Option<Mechanics>,
    drain_ns: f64,
    tree: Tree,
}

impl DeviceModel {
    /// The model in its file format. Deterministic: equal models give equal bytes.
    ///
    /// # Errors
    /// A number is not finite, which is a defect of the learner.
    pub fn to_json(&self) -> Result<String, StoredError> {
        let Shared { name, known, tree, training } = &*self.shared;
        let stored = Stored {
            schema: SCHEMA.to_owned(),
            name: name.clone(),
            capacity_sectors: known.capacity_sectors,
            queue_depth: known.queue_depth,
            training: *training,
            array: known.array,
            mechanics: known.mechanics.clone(),
            drain_ns: known.drain_ns,
            tree: tree.clone(),
        };
        let text = serde_json::to_string(&stored).map_err(|error| StoredError(error.to_string()))?;
        Ok(text + "\n")
    }

    /// Parses and validates the output of [`to_json`](DeviceModel::to_json).
    ///
    /// # Errors
    /// The text is not a model, has another version, or is damaged.
    pub fn from_json(text: &str) -> Result<DeviceModel, StoredError> {
        let wrong = |message: String| StoredError(format!("this is no model of a device: {message}"));
        check_schema(text)?;
        let stored: Stored = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if let Some(problem) = stored.array.problem() {
            return Err(wrong(problem));
        }
        if !(1..1 << 55).contains(&stored.capacity_sectors) {
            return Err(wrong(format!("it has {} sectors", stored.capacity_sectors)));
        }
        if !(1..=1 << 16).contains(&stored.queue_depth) {
            return Err(wrong(format!("it takes {} requests at once; 1 to 65536 are right", stored.queue_depth)));
        }
        if !(0.0..=1e9).contains(&stored.drain_ns) {
            return Err(wrong(format!("a written sector is on its media after {} ns; 0 to 1e9 are right", stored.drain_ns)));
        }
        stored.mechanics.as_ref().map_or(Ok(()), Mechanics::check).map_err(wrong)?;
        if stored.tree.features() != FEATURES {
            return Err(wrong(format!("its tree does not ask about the {COUNT} features that this program knows")));
        }
        let Stored { name, capacity_sectors, queue_depth, training, array, mechanics, drain_ns, tree, .. } = stored;
        let shared = Shared { name, known: Known { capacity_sectors, queue_depth, array, mechanics, drain_ns }, tree, training };
        Ok(DeviceModel { shared: Arc::new(shared) })
    }
}

/// Checks the version first, so that another one is reported as such and not as an unknown key.
fn check_schema(text: &str) -> Result<(), StoredError> {
    #[derive(Deserialize)]
    struct Head {
        schema: String,
    }
    match serde_json::from_str::<Head>(text) {
        Ok(head) if head.schema == SCHEMA => Ok(()),
        Ok(head) => Err(StoredError(format!("its schema is {:?}; this program reads {SCHEMA:?}", head.schema))),
        Err(error) => Err(StoredError(format!("this is no model of a device: {error}"))),
    }
}
