//! The profile of a hard disk: specification and checked model.

use std::sync::{Arc, LazyLock};

use super::{DeviceKind, DeviceOptions, DeviceProfile, ProfileError, ProfileText, keys};
use crate::device::Device;
use crate::device::hdd::Hdd;
use crate::device::hdd::model::HddModel;
use crate::device::hdd::spec::{HddSpecification, QueuePolicy};

/// Hard disks. Their profiles have no `kind`, so that files written before other kinds existed remain valid.
pub static KIND: DeviceKind =
    DeviceKind { key: None, name: "Hard disks", schema: LazyLock::new(keys::schema::<HddSpecification>), parse, line: None };

/// The profile of a hard disk.
#[derive(Clone, Debug)]
pub struct HddProfile {
    /// The specification.
    pub specification: HddSpecification,
    /// The precomputed model, shared by all devices of this profile.
    pub model: Arc<HddModel>,
}

fn parse(text: &ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
    let specification: HddSpecification = text.read()?;
    let model = HddModel::new(&specification).map_err(|error| text.error(error))?;
    let limits = specification.limits.clone();
    text.with_limits(HddProfile { specification, model: Arc::new(model) }, limits.as_ref())
}

impl DeviceProfile for HddProfile {
    fn name(&self) -> &str {
        &self.specification.name
    }

    fn description(&self) -> &str {
        &self.specification.description
    }

    fn capacity_sectors(&self) -> u64 {
        self.model.layout.capacity_sectors
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        Box::new(Hdd::new(self.model.clone(), options.queue_depth, options.queue_policy))
    }

    fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        options.queue_policy.unwrap_or(self.specification.queue.policy)
    }

    fn hdd(&self) -> Option<&HddProfile> {
        Some(self)
    }
}

/// Writes a specification as the text of a profile.
pub(crate) fn to_text(spec: &HddSpecification) -> Result<String, toml::ser::Error> {
    toml::to_string(spec).map(|text| wrap(&text))
}

/// Breaks long lists into lines of at most `WIDTH` bytes.
fn wrap(text: &str) -> String {
    const WIDTH: usize = 120;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        if line.len() <= WIDTH || !line.ends_with(']') {
            out.push_str(line);
            out.push('\n');
            continue;
        }
        let mut width = 0;
        for piece in line.split_inclusive(", ") {
            // Pairs are not split.
            let splits_pair = piece.starts_with(|c: char| c.is_ascii_digit()) && piece.trim_end_matches([' ', ',']).ends_with(']');
            if width > 0 && width + piece.len() > WIDTH && !splits_pair {
                while out.ends_with(' ') {
                    out.pop();
                }
                out.push_str("\n  ");
                width = 2;
            }
            out.push_str(piece);
            width += piece.len();
        }
        out.push('\n');
    }
    out
}
