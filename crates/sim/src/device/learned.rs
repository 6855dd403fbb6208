//! Learned devices as profiles: the file of a model stands wherever a profile does.
//!
//! What models are made of is not known here (who learns them stands above this crate): whoever knows says once how their files are read.

use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use block::tenants::ServiceModel;

use super::Device;
use super::modelled::Modelled;
use crate::profile::{DeviceKind, DeviceOptions, DeviceProfile, ProfileError, ProfileText};

/// Devices that were learned.
pub static KIND: DeviceKind = DeviceKind {
    key: Some("learned"),
    name: "Learned devices",
    schema: LazyLock::new(|| serde_json::json!({})),
    parse,
    line: None,
};

/// A learned device, as far as a simulated one is made of it.
#[derive(Clone, Debug)]
pub struct Learned {
    /// What it is called.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// All that is known of it, for people.
    pub page: String,
    /// 512-byte sectors.
    pub capacity_sectors: u64,
    /// Requests that it takes at once.
    pub queue_depth: u32,
    /// Whether platters turn in it.
    pub is_rotational: bool,
    /// How many disks are in it.
    pub disks: usize,
    /// How long requests take.
    pub model: Arc<dyn ServiceModel>,
}

/// Reads the text of a model's file, or says what is wrong with it.
pub type Reader = fn(&str) -> Result<Learned, String>;

static READER: OnceLock<Reader> = OnceLock::new();

/// Says how models are read. The first who says it counts: it is the same for the whole program.
pub fn read_with(reader: Reader) {
    READER.get_or_init(|| reader);
}

/// Whether a profile's text is a model's: JSON, as no TOML begins.
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
