//! Profiles of learned devices: the file of a model can be used in place of a profile.
//!
//! This crate does not define models (they are learned in crates above it): the program registers a reader for their files once,
//! with [`read_with`].

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use block::tenants::ServiceModel;

use super::{DeviceKind, DeviceOptions, DeviceProfile, ProfileError, ProfileText};
use crate::device::Device;
use crate::device::modelled::Modelled;

/// Learned devices.
pub static KIND: DeviceKind = DeviceKind {
    key: Some("learned"),
    name: "Learned devices",
    schema: LazyLock::new(|| serde_json::json!({})),
    parse,
    line: None,
};

/// The parameters of a learned device.
#[derive(Clone, Debug)]
pub struct Learned {
    /// Its name.
    pub name: String,
    /// A one-line description.
    pub description: String,
    /// The page shown instead of its text.
    pub page: String,
    /// Capacity in 512-byte sectors.
    pub capacity_sectors: u64,
    /// Queue depth.
    pub queue_depth: u32,
    /// Whether it is rotational.
    pub is_rotational: bool,
    /// Number of disks.
    pub disks: usize,
    /// The model of service times.
    pub model: Arc<dyn ServiceModel>,
}

/// Parses the text of a model's file.
pub type Reader = fn(&str) -> Result<Learned, String>;

static READER: OnceLock<Reader> = OnceLock::new();

/// Registers the reader for model files, for the whole program. Later calls have no effect.
pub fn read_with(reader: Reader) {
    READER.get_or_init(|| reader);
}

/// Whether a text is the file of a model: JSON, which begins with `{`, unlike TOML.
pub(crate) fn is_model(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

fn parse(text: &ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
    let reader = READER.get().ok_or_else(|| text.error("is the model of a device, which this program does not read"))?;
    let learned = reader(text.text()).map_err(|error| text.error(error))?;
    Ok(Arc::new(LearnedProfile(learned)))
}

struct LearnedProfile(Learned);

impl fmt::Debug for LearnedProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LearnedProfile").field(&self.0.name).finish()
    }
}

impl DeviceProfile for LearnedProfile {
    fn name(&self) -> &str {
        &self.0.name
    }

    fn description(&self) -> &str {
        &self.0.description
    }

    fn page(&self) -> Option<&str> {
        Some(&self.0.page)
    }

    fn capacity_sectors(&self) -> u64 {
        self.0.capacity_sectors
    }

    fn disks(&self) -> usize {
        self.0.disks
    }

    fn rotational(&self) -> bool {
        self.0.is_rotational
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        let queue_depth = options.queue_depth.unwrap_or(self.0.queue_depth) as usize;
        let device = Modelled::new(self.0.model.begin(), self.0.capacity_sectors);
        Box::new(device.with_queue(queue_depth).rotational(self.0.is_rotational))
    }
}
