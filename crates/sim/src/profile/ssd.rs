//! The profile of a flash device: specification and checked model.

use std::sync::{Arc, LazyLock};

use super::{DeviceKind, DeviceOptions, DeviceProfile, ProfileError, ProfileText, keys};
use crate::device::Device;
use crate::device::ssd::Ssd;
use crate::device::ssd::model::SsdModel;
use crate::device::ssd::spec::SsdSpecification;

/// Flash devices.
pub static KIND: DeviceKind = DeviceKind {
    key: Some("ssd"),
    name: "Flash devices",
    schema: LazyLock::new(keys::schema::<SsdSpecification>),
    parse,
    line: None,
};

#[derive(Debug)]
struct SsdProfile {
    spec: SsdSpecification,
    /// The model shared by all devices of this profile.
    model: Arc<SsdModel>,
}

fn parse(text: &ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
    let spec: SsdSpecification = text.read()?;
    let model = SsdModel::new(&spec).map_err(|error| text.error(error))?;
    let limits = spec.limits.clone();
    text.with_limits(SsdProfile { spec, model: Arc::new(model) }, limits.as_ref())
}

impl DeviceProfile for SsdProfile {
    fn name(&self) -> &str {
        &self.spec.name
    }

    fn description(&self) -> &str {
        &self.spec.description
    }

    fn capacity_sectors(&self) -> u64 {
        self.model.capacity_sectors
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        Box::new(Ssd::new(self.model.clone(), options.queue_depth))
    }
}
