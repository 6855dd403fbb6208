//! Disk profiles: TOML files that describe a disk, and those that come with the program.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use crate::device::Device;
use crate::device::hdd::Hdd;
use crate::device::hdd::model::Model;
use crate::device::hdd::spec::{QueuePolicy, Spec};
use crate::device::ssd::{self, Ssd};

/// The profiles that come with the program, by name.
pub static BUILT_IN: &[(&str, &str)] = &[
    ("atlas10k", include_str!("../../../disks/atlas10k.toml")),
    ("barracuda", include_str!("../../../disks/barracuda.toml")),
    ("cheetah9LP", include_str!("../../../disks/cheetah9LP.toml")),
    ("hp_c2247a", include_str!("../../../disks/hp_c2247a.toml")),
    ("ibm18es", include_str!("../../../disks/ibm18es.toml")),
    ("nvme-tlc", include_str!("../../../disks/nvme-tlc.toml")),
    ("sata7200", include_str!("../../../disks/sata7200.toml")),
    ("ssd-dftl", include_str!("../../../disks/ssd-dftl.toml")),
];

/// No profile is longer: a full list of a modern disk's defects is some megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// A profile that cannot be used: which, where, what is wrong and what would be right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProfileError(String);

impl fmt::Display for ProfileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ProfileError {}

impl ProfileError {
    pub(crate) fn new(message: String) -> ProfileError {
        ProfileError(message)
    }
}

/// A checked disk profile.
#[derive(Clone, Debug)]
pub struct Profile {
    text: String,
    disk: Disk,
}

#[derive(Clone, Debug)]
enum Disk {
    Hdd(Box<HddProfile>),
    Ssd { spec: Box<ssd::spec::Spec>, model: Arc<ssd::model::Model> },
}

/// What is particular to the profile of a hard disk.
#[derive(Clone, Debug)]
pub struct HddProfile {
    /// What it says.
    pub spec: Spec,
    /// The checked tables that all devices of this profile share.
    pub model: Arc<Model>,
}

/// What a device takes in place of what its profile says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BuildOptions {
    /// Requests the device holds at once: 1 to 1,024; the nearest of these is taken for others.
    pub queue_depth: Option<u32>,
    /// In which order it serves them. A flash device takes them as they come, whatever stands here.
    pub queue_policy: Option<QueuePolicy>,
}

/// Loads a profile that comes with the program by its name, or one from a file.
pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return Profile::parse(text, name);
    }
    let path = Path::new(name_or_path);
    match read_text(path) {
        Ok(text) => Profile::parse(&text, name_or_path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(ProfileError(format!("{name_or_path}: neither a file nor one of the built-in disks ({names})")))
        }
        Err(error) => Err(ProfileError(format!("{name_or_path}: {error}"))),
    }
}

/// Reads a text file of bounded size.
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read};
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::new(ErrorKind::InvalidData, format!("longer than {MAX_BYTES} bytes: not a disk profile")));
    }
    Ok(text)
}

impl Profile {
    /// Reads a profile's text. `source` names it in errors.
    pub fn parse(text: &str, source: &str) -> Result<Profile, ProfileError> {
        // A hard disk's profile has no kind: files from before there were others stay good.
        let disk = if from_toml::<KindOnly>(text, source)?.kind.is_some() {
            let spec: ssd::spec::Spec = from_toml(text, source)?;
            let model = ssd::model::Model::new(&spec).map_err(|error| ProfileError(format!("{source}: {error}")))?;
            Disk::Ssd { spec: Box::new(spec), model: Arc::new(model) }
        } else {
            let spec: Spec = from_toml(text, source)?;
            let model = Model::new(&spec).map_err(|error| ProfileError(format!("{source}: {error}")))?;
            Disk::Hdd(Box::new(HddProfile { spec, model: Arc::new(model) }))
        };
        Ok(Profile { text: text.to_owned(), disk })
    }

    /// Checks a description and writes its text.
    pub fn from_spec(spec: Spec, source: &str) -> Result<Profile, ProfileError> {
        let text = toml::to_string(&spec).map_err(|error| ProfileError(format!("{source}: {error}")))?;
        let text = wrap(&text);
        // What was written must read back as the same: the text is what people keep.
        let profile = Profile::parse(&text, source)?;
        debug_assert_eq!(profile.hdd().map(|hdd| &hdd.spec), Some(&spec));
        Ok(profile)
    }

    /// The profile's name.
    pub fn name(&self) -> &str {
        match &self.disk {
            Disk::Hdd(hdd) => &hdd.spec.name,
            Disk::Ssd { spec, .. } => &spec.name,
        }
    }

    /// One line for people.
    pub fn description(&self) -> &str {
        match &self.disk {
            Disk::Hdd(hdd) => &hdd.spec.description,
            Disk::Ssd { spec, .. } => &spec.description,
        }
    }

    /// The whole text, for showing and for digests.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What only a hard disk has.
    pub fn hdd(&self) -> Option<&HddProfile> {
        match &self.disk {
            Disk::Hdd(hdd) => Some(hdd),
            Disk::Ssd { .. } => None,
        }
    }

    /// In which order a device built with these options serves its queue.
    pub fn queue_policy(&self, options: BuildOptions) -> QueuePolicy {
        match &self.disk {
            Disk::Hdd(hdd) => options.queue_policy.unwrap_or(hdd.spec.queue.policy),
            Disk::Ssd { .. } => QueuePolicy::Fifo,
        }
    }

    /// 512-byte sectors of the disk.
    pub fn capacity_sectors(&self) -> u64 {
        match &self.disk {
            Disk::Hdd(hdd) => hdd.model.layout.capacity_sectors,
            Disk::Ssd { model, .. } => model.capacity_sectors,
        }
    }

    /// A device at rest, in its profile's initial state. Devices of one profile share its tables.
    pub fn build(&self, options: BuildOptions) -> Box<dyn Device> {
        let queue_depth = options.queue_depth.map(|depth| depth.clamp(1, 1024));
        match &self.disk {
            Disk::Hdd(hdd) => Box::new(Hdd::new(hdd.model.clone(), queue_depth, options.queue_policy)),
            Disk::Ssd { model, .. } => Box::new(Ssd::new(model.clone(), queue_depth)),
        }
    }
}

/// Tells hard disks from other devices; everything else in a profile is read by its own schema.
#[derive(serde::Deserialize)]
struct KindOnly {
    kind: Option<toml::Value>,
}

fn from_toml<T: serde::de::DeserializeOwned>(text: &str, source: &str) -> Result<T, ProfileError> {
    toml::from_str(text).map_err(|error| {
        let line = error
            .span()
            .map_or(1, |span| text.as_bytes()[..span.start.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1);
        ProfileError(format!("{source}:{line}: {}", error.message().trim().replace('\n', " ")))
    })
}

/// Breaks long lists into lines of a readable length.
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
            // A pair stays together.
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
