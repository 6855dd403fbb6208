//! The profile of an array: loads its disks and checks that they form a valid array.

use std::sync::{Arc, LazyLock};

use super::{DeviceKind, DeviceOptions, DeviceProfile, OneLine, Profile, ProfileError, ProfileText, keys};
use crate::device::Device;
use crate::device::hdd::spec::QueuePolicy;
use crate::device::raid::Raid;
use crate::device::raid::layout::{ArrayLayout, MAX_MEMBERS};
use crate::device::raid::spec::{ArraySettings, ArraySpecification};

/// Arrays of devices.
pub static KIND: DeviceKind = DeviceKind {
    key: Some("raid"),
    name: "Arrays",
    schema: LazyLock::new(keys::schema::<ArraySpecification>),
    parse,
    line: Some(OneLine { example: "an array as in raid5:disk=atlas10k,disks=5", to_text }),
};

#[derive(Debug)]
struct RaidProfile {
    name: String,
    description: String,
    settings: ArraySettings,
    layout: ArrayLayout,
    members: Vec<Arc<Profile>>,
    spare: Option<Arc<Profile>>,
    /// The distinct disks, with their names in the profile.
    parts: Vec<(String, Arc<Profile>)>,
    /// Number of disks, including those of nested arrays and the spare.
    disks: usize,
}

fn to_text(line: &str) -> Option<Result<String, String>> {
    if !is_array_line(line) {
        return None;
    }
    Some(ArraySpecification::parse_line(line).and_then(|spec| spec.to_text()))
}

/// Whether this is the one-line notation of an array: `raid` followed by digits, or by any text with a colon.
fn is_array_line(text: &str) -> bool {
    match text.split_once(':') {
        Some((head, _)) => head.starts_with("raid"),
        None => text.strip_prefix("raid").is_some_and(|level| !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit())),
    }
}

fn parse(text: &ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
    let spec: ArraySpecification = text.read()?;
    let settings = spec.check().map_err(|error| text.error(error))?;
    let names = spec.member_names().map_err(|error| text.error(error))?;
    let mut parts = Vec::new();
    let members = names.iter().map(|name| find(text, name, &mut parts)).collect::<Result<Vec<_>, _>>()?;
    let spare = spec.spare.as_deref().map(|name| find(text, name, &mut parts)).transpose()?;
    let disks = members.iter().chain(&spare).map(|member| member.disks()).sum();
    if disks > MAX_MEMBERS {
        return Err(text.error(format_args!("{disks} disks, spares and those of arrays in it counted; {MAX_MEMBERS} is the most")));
    }
    let smallest = members.iter().map(|member| member.capacity_sectors()).min().unwrap_or(0);
    let layout = ArrayLayout::new(settings.level, members.len(), settings.unit, smallest).map_err(|error| text.error(error))?;
    if let Some(spare) = &spare {
        let (has, needs) = (spare.capacity_sectors(), layout.rows * layout.unit);
        if has < needs {
            let name = spare.name();
            return Err(text.error(format_args!("spare: {name} has {has} sectors; it takes {needs} to replace a member")));
        }
    }
    let of = match (&parts[..], members.first()) {
        ([_], Some(member)) => member.name(),
        _ => "different disks",
    };
    let what = format!("RAID {} of {} {of}", settings.level.number(), members.len());
    let description = spec.description.clone().unwrap_or_else(|| describe(what, &settings, spare.as_deref()));
    let name = spec.name.clone().unwrap_or_else(|| text.source().to_owned());
    let profile = RaidProfile { name, description, settings, layout, members, spare, parts, disks };
    text.with_limits(profile, spec.limits.as_ref())
}

/// The profile of that name; each is loaded only once.
fn find(text: &ProfileText, name: &str, parts: &mut Vec<(String, Arc<Profile>)>) -> Result<Arc<Profile>, ProfileError> {
    if let Some((_, profile)) = parts.iter().find(|(known, _)| known == name) {
        return Ok(profile.clone());
    }
    let profile = Arc::new(text.load(name)?);
    parts.push((name.to_owned(), profile.clone()));
    Ok(profile)
}

/// The default description of an array.
fn describe(what: String, settings: &ArraySettings, spare: Option<&Profile>) -> String {
    let unit = match settings.level.has_stripe_units() {
        false => String::new(),
        true => format!(", stripe unit {} KiB", settings.unit as f64 / 2.0),
    };
    let failure = settings.failure.map_or(String::new(), |failure| match failure.at.as_secs_f64() {
        0.0 => format!(", member {} failed", failure.member),
        at => format!(", member {} fails after {at} s", failure.member),
    });
    let spare = spare.map_or(String::new(), |spare| format!(", rebuilt onto {}", spare.name()));
    format!("{what}{unit}{failure}{spare}")
}

impl DeviceProfile for RaidProfile {
    fn name(&self) -> &str {
        &self.name
    }

    fn description(&self) -> &str {
        &self.description
    }

    fn capacity_sectors(&self) -> u64 {
        self.layout.capacity()
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        let of_member = DeviceOptions { queue_depth: None, ..options };
        let members = self.members.iter().map(|member| member.build(of_member)).collect();
        let spare = self.spare.as_ref().map(|spare| spare.build(of_member));
        let ArraySettings { failure, rate, .. } = self.settings;
        Box::new(Raid::new(self.layout, members, options.queue_depth, failure, spare, rate))
    }

    fn disks(&self) -> usize {
        self.disks
    }

    fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.members.first().map_or(QueuePolicy::Fifo, |member| member.queue_policy(options))
    }

    fn parts(&self) -> &[(String, Arc<Profile>)] {
        &self.parts
    }
}
