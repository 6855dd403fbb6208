//! Disk profiles: TOML files that describe a device, and the built-in ones.
//!
//! Each kind of device declares how its profiles are read in a [`DeviceKind`], listed in [`KINDS`]; the result is a
//! [`DeviceProfile`]. This module is common to all kinds: it finds the text, determines the kind, and reports errors with file
//! and line.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use block::did_you_mean;

use crate::device::Device;
use crate::device::hdd::spec::{HddSpecification, QueuePolicy};
use crate::device::limited::spec::LimitsSpecification;
use crate::device::slowed::{Slowed, Speed};

pub use hdd::HddProfile;
use keys::KeyTable;
use limited::LimitedProfile;

mod hdd;
pub mod keys;
pub mod learned;
pub mod limited;
mod raid;
mod ssd;

/// The kinds of devices that a profile can describe. A learned device ([`learned`]) is read from its model's file instead.
pub static KINDS: &[&DeviceKind] = &[&hdd::KIND, &ssd::KIND, &raid::KIND];

/// The built-in profiles: name and text.
pub static BUILT_IN: &[(&str, &str)] = &[
    ("atlas10k", include_str!("../../../disks/atlas10k.toml")),
    ("barracuda", include_str!("../../../disks/barracuda.toml")),
    ("cheetah9LP", include_str!("../../../disks/cheetah9LP.toml")),
    ("cloud-volume", include_str!("../../../disks/cloud-volume.toml")),
    ("hp_c2247a", include_str!("../../../disks/hp_c2247a.toml")),
    ("ibm18es", include_str!("../../../disks/ibm18es.toml")),
    ("nvme-tlc", include_str!("../../../disks/nvme-tlc.toml")),
    ("raid5-5x-sata7200", include_str!("../../../disks/raid5-5x-sata7200.toml")),
    ("sata7200", include_str!("../../../disks/sata7200.toml")),
    ("sd-card", include_str!("../../../disks/sd-card.toml")),
    ("ssd-dftl", include_str!("../../../disks/ssd-dftl.toml")),
];

/// Maximum length of a profile. The complete defect list of a modern disk takes some megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// Maximum nesting of arrays.
const MAX_NESTING: usize = 6;

/// An invalid profile: source, line, problem and remedy.
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

/// Overrides of a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Queue depth, clamped to 1 to 1,024; `None`: as in the profile. Members of an array keep theirs.
    pub queue_depth: Option<u32>,
    /// Queue policy of the disk, or of each member of an array; `None`: as in the profile. Flash devices ignore it.
    pub queue_policy: Option<QueuePolicy>,
}

/// A kind of device and how its profiles are read.
pub struct DeviceKind {
    /// The value of the key `kind` in its profiles. `None` for the one kind whose profiles lack that key.
    pub key: Option<&'static str>,
    /// Its name in the plural, for messages.
    pub name: &'static str,
    /// The schema of its profiles, see [`keys`].
    pub schema: LazyLock<serde_json::Value>,
    /// Reads a profile whose values are within the ranges of their keys, and checks the rest.
    pub parse: fn(&ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError>,
    /// The one-line notation of its profiles; `None` if it has none.
    pub line: Option<OneLine>,
}

impl DeviceKind {
    /// The tables of its profiles and their keys.
    pub fn tables(&self) -> Vec<KeyTable> {
        keys::tables(&self.schema)
    }
}

/// The one-line notation of a kind's profiles, used in place of a name.
pub struct OneLine {
    /// Description with an example, for the error about an unknown name: `an array as in …`.
    pub example: &'static str,
    /// Converts such a line into the text of a profile, or returns an error. `None` for other lines.
    pub to_text: fn(&str) -> Option<Result<String, String>>,
}

/// A checked profile of one kind of device.
///
/// ```
/// use block::Nanos;
/// use block::tenants::ConstantTime;
/// use sim::device::{Device, modelled::Modelled};
/// use sim::profile::{DeviceOptions, DeviceProfile};
///
/// /// A device of 1 GiB that takes 1 ms for each request.
/// #[derive(Debug)]
/// struct Constant;
///
/// impl DeviceProfile for Constant {
///     fn name(&self) -> &str {
///         "constant"
///     }
///
///     fn description(&self) -> &str {
///         "1 ms for each request"
///     }
///
///     fn capacity_sectors(&self) -> u64 {
///         1 << 21
///     }
///
///     fn build(&self, _options: DeviceOptions) -> Box<dyn Device> {
///         let time = ConstantTime { request: Nanos::from_millis(1), sector: Nanos::ZERO };
///         Box::new(Modelled::new(Box::new(time), self.capacity_sectors()))
///     }
/// }
///
/// assert_eq!(Constant.build(DeviceOptions::default()).queue_depth(), 1);
/// ```
pub trait DeviceProfile: fmt::Debug + Send + Sync {
    /// The profile's name.
    fn name(&self) -> &str;

    /// A one-line description.
    fn description(&self) -> &str;

    /// A page to show instead of its text; `None` to show the text.
    fn page(&self) -> Option<&str> {
        None
    }

    /// Capacity in 512-byte sectors.
    fn capacity_sectors(&self) -> u64;

    /// Builds an idle device in its profile's initial state. The queue depth in `options` is already clamped.
    fn build(&self, options: DeviceOptions) -> Box<dyn Device>;

    /// Number of physical disks.
    fn disks(&self) -> usize {
        1
    }

    /// Whether it is rotational (`queue/rotational`); for an array, whether its first member is.
    fn rotational(&self) -> bool {
        self.hdd().is_some() || self.parts().first().is_some_and(|(_, part)| part.device.rotational())
    }

    /// The queue policy of a device built with these options; for an array, of its first member.
    fn queue_policy(&self, _options: DeviceOptions) -> QueuePolicy {
        QueuePolicy::Fifo
    }

    /// The profiles that it refers to, each once, with their names in its text.
    fn parts(&self) -> &[(String, Arc<Profile>)] {
        &[]
    }

    /// The details of a hard disk; `None` for other kinds.
    fn hdd(&self) -> Option<&HddProfile> {
        None
    }
}

/// A checked disk profile.
#[derive(Clone)]
pub struct Profile {
    text: String,
    device: Arc<dyn DeviceProfile>,
    kind: &'static DeviceKind,
}

/// Loads a profile: a built-in one by name, one from a file, the model of a device from its file ([`learned`]), or one in one-line
/// notation, as in `raid5:disk=atlas10k,disks=5`. A text of several lines is a profile itself.
///
/// # Errors
/// There is no such profile, or it is invalid.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let array = sim::profile::load("raid5:disk=atlas10k,disks=5")?;
/// assert_eq!(array.disks(), 5);
/// let error = sim::profile::load("atlas10").unwrap_err();
/// assert!(error.to_string().contains("atlas10k"));
/// # Ok(())
/// # }
/// ```
pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
    load_from(name_or_path, &Origin::default())
}

/// As [`load`], with a further profile that may be referred to by its own name, for instance as the member of an array.
///
/// # Errors
/// As [`load`].
pub fn load_with(name_or_path: &str, further: &Profile) -> Result<Profile, ProfileError> {
    let further = (further.name().to_owned(), further.text().to_owned());
    load_from(name_or_path, &Origin { further: Some(further), ..Origin::default() })
}

/// The location of a profile: its file's folder, and the chain of files that refer to it.
#[derive(Clone, Debug, Default)]
struct Origin {
    folder: PathBuf,
    files: Vec<PathBuf>,
    nesting: usize,
    /// Name and text of a profile that takes precedence over all others.
    further: Option<(String, String)>,
}

fn load_from(name_or_path: &str, origin: &Origin) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = origin.further.as_ref().filter(|(name, _)| name == name_or_path) {
        return ProfileText { text, source: name, origin, has_lines: true }.parse();
    }
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return ProfileText { text, source: name, origin, has_lines: true }.parse();
    }
    if name_or_path.contains('\n') {
        return ProfileText { text: name_or_path, source: "the profile's text", origin, has_lines: true }.parse();
    }
    let path = origin.folder.join(name_or_path);
    let source = path.to_string_lossy();
    let error = match read_text(&path) {
        Ok(text) => {
            // Detects cycles of files; other cycles are ended by the nesting limit.
            let file = path.canonicalize().unwrap_or_else(|_| path.clone());
            if origin.files.contains(&file) {
                return Err(ProfileError(format!("{source}: an array must not be its own member; name a disk or another array")));
            }
            let mut inside = origin.clone();
            inside.folder = path.parent().map(Path::to_owned).unwrap_or_default();
            inside.files.push(file);
            return ProfileText { text: &text, source: &source, origin: &inside, has_lines: true }.parse();
        }
        Err(error) => error,
    };
    // A long line may not even be a valid file name, so the one-line notation is tried after any error.
    if let Some(text) = KINDS.iter().filter_map(|kind| kind.line.as_ref()).find_map(|line| (line.to_text)(name_or_path)) {
        let text = text.map_err(|error| ProfileError(format!("{name_or_path}: {error}")))?;
        return ProfileText { text: &text, source: name_or_path, origin, has_lines: false }.parse();
    }
    if error.kind() != std::io::ErrorKind::NotFound {
        return Err(ProfileError(format!("{source}: {error}")));
    }
    let names = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let lines: String = KINDS.iter().filter_map(|kind| kind.line.as_ref()).map(|line| format!(", nor {}", line.example)).collect();
    let meant = match did_you_mean(&source, BUILT_IN.iter().map(|(name, _)| *name)) {
        near if near.is_empty() => named_like(&source),
        near => near,
    };
    Err(ProfileError(format!("{source}: neither a file, nor one of the built-in disks ({names}){lines}{meant}")))
}

/// The suggestion of the built-in disks in whose names `word` stands, those that begin with it first; empty if there is none.
fn named_like(word: &str) -> String {
    const LEAST_LETTERS: usize = 2;
    let word = word.to_ascii_lowercase();
    let mut near: Vec<&str> = BUILT_IN.iter().map(|(name, _)| *name).filter(|name| name.contains(&word)).collect();
    near.sort_by_key(|name| !name.starts_with(&word));
    match near.is_empty() || word.len() < LEAST_LETTERS {
        true => String::new(),
        false => format!("; did you mean {}?", near.join(" or ")),
    }
}

/// Reads a text file of at most [`MAX_BYTES`].
pub(crate) fn read_text(path: &Path) -> std::io::Result<String> {
    use std::io::{Error, ErrorKind, Read};
    let mut text = String::new();
    std::fs::File::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(Error::new(ErrorKind::InvalidData, format!("longer than {MAX_BYTES} bytes: not a disk profile")));
    }
    Ok(text)
}

/// The text of a profile, for a [`DeviceKind`] to read.
pub struct ProfileText<'a> {
    text: &'a str,
    source: &'a str,
    origin: &'a Origin,
    /// Whether errors name its lines; `false` for generated text.
    has_lines: bool,
}

impl ProfileText<'_> {
    /// The whole text.
    pub fn text(&self) -> &str {
        self.text
    }

    /// Its name in errors: a file, or the line itself.
    pub fn source(&self) -> &str {
        self.source
    }

    /// Deserialises it by the schema of its kind.
    ///
    /// # Errors
    /// Violations of the schema, with their line.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error_at(at, error.message().trim().replace('\n', " "))
        })
    }

    /// The profile `inner`, behind the limits of this text if it has any.
    fn with_limits(
        &self,
        inner: impl DeviceProfile + 'static,
        limits: Option<&LimitsSpecification>,
    ) -> Result<Arc<dyn DeviceProfile>, ProfileError> {
        match limits.map(LimitsSpecification::check).transpose().map_err(|error| self.error(error))? {
            Some(limits) => Ok(Arc::new(LimitedProfile::new(Arc::new(inner), limits))),
            None => Ok(Arc::new(inner)),
        }
    }

    /// An error about the whole profile.
    pub fn error(&self, message: impl fmt::Display) -> ProfileError {
        ProfileError(format!("{}: {message}", self.source))
    }

    /// An error at this byte offset.
    fn error_at(&self, byte: usize, message: impl fmt::Display) -> ProfileError {
        if !self.has_lines {
            return self.error(message);
        }
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        ProfileError(format!("{}:{line}: {message}", self.source))
    }

    /// Loads a profile that this one refers to. Files are relative to the folder of this one's file.
    ///
    /// # Errors
    /// As [`load`], or the profiles refer to each other in a cycle.
    pub fn load(&self, name: &str) -> Result<Profile, ProfileError> {
        let nesting = self.origin.nesting + 1;
        if nesting > MAX_NESTING {
            return Err(self.error(format_args!("arrays in arrays, {nesting} deep; {MAX_NESTING} is the most")));
        }
        load_from(name, &Origin { nesting, ..self.origin.clone() }).map_err(|error| self.error(error))
    }

    /// Parses and checks the profile.
    fn parse(&self) -> Result<Profile, ProfileError> {
        if learned::is_model(self.text) {
            let kind = &learned::KIND;
            return Ok(Profile { text: self.text.to_owned(), device: (kind.parse)(self)?, kind });
        }
        let kind = self.kind()?;
        keys::check(&kind.schema, self.text).map_err(|error| self.error_at(error.at, error.message))?;
        let device = (kind.parse)(self)?;
        // A digest of the text must change with the text of any part; as comments, the parts keep it a valid profile.
        let mut text = self.text.to_owned();
        for (name, part) in device.parts() {
            text.push_str(&format!("\n# ---- {name} ----\n"));
            text.extend(part.text.lines().flat_map(|line| ["# ", line, "\n"]));
        }
        Ok(Profile { text, device, kind })
    }

    /// The kind of device that it describes.
    fn kind(&self) -> Result<&'static DeviceKind, ProfileError> {
        /// All other keys are read by the kind's own schema.
        #[derive(serde::Deserialize)]
        struct KindKey {
            kind: Option<toml::Spanned<toml::Value>>,
        }
        let key = self.read::<KindKey>()?.kind;
        let word = key.as_ref().map(|key| key.get_ref().as_str());
        let found = KINDS.iter().find(|kind| kind.key.map(Some) == word);
        found.copied().ok_or_else(|| {
            let (at, value) = key.map_or((0, String::new()), |key| (key.span().start, key.into_inner().to_string()));
            let known: Vec<&str> = KINDS.iter().filter_map(|kind| kind.key).collect();
            let meant = did_you_mean(value.trim_matches('"'), known.iter().copied());
            self.error_at(at, format_args!("kind: {value} is none of {}; a hard disk has no such key{meant}", known.join(", ")))
        })
    }
}

impl fmt::Debug for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Profile").field(&self.device).finish()
    }
}

impl Profile {
    /// Reads a profile's text. `source` names it in errors. Files that an array refers to are relative to the current folder.
    ///
    /// # Errors
    /// The profile is invalid; the message names source, line and key.
    pub fn parse(text: &str, source: &str) -> Result<Profile, ProfileError> {
        ProfileText { text, source, origin: &Origin::default(), has_lines: true }.parse()
    }

    /// Checks a hard disk's description and writes its text.
    ///
    /// # Errors
    /// The description is invalid; the message names source and key.
    pub fn from_hdd(description: &HddSpecification, source: &str) -> Result<Profile, ProfileError> {
        let text = hdd::to_text(description).map_err(|error| ProfileError(format!("{source}: {error}")))?;
        // The written text must read back as the same description.
        let profile = ProfileText { text: &text, source, origin: &Origin::default(), has_lines: false }.parse()?;
        debug_assert_eq!(profile.hdd().map(|hdd| &hdd.specification), Some(description));
        Ok(profile)
    }

    /// The whole text, for display and digests.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with units and ranges as comments, still a valid profile; for a learned device, the page of its model.
    pub fn annotated(&self) -> String {
        self.device.page().map_or_else(|| self.with_units(), str::to_owned)
    }

    fn with_units(&self) -> String {
        keys::annotated(&self.kind.schema, &self.text)
    }

    /// The checked profile, for building many devices.
    pub fn device(&self) -> Arc<dyn DeviceProfile> {
        self.device.clone()
    }

    /// The profile's name.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// A one-line description.
    pub fn description(&self) -> &str {
        self.device.description()
    }

    /// The details of a hard disk; `None` for other kinds.
    pub fn hdd(&self) -> Option<&HddProfile> {
        self.device.hdd()
    }

    /// Number of physical disks.
    pub fn disks(&self) -> usize {
        self.device.disks()
    }

    /// The queue policy of a device built with these options; for an array, of its first member.
    pub fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.device.queue_policy(options)
    }

    /// Capacity in 512-byte sectors.
    pub fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    /// The same device at a fraction of its speed. The text remains that of the original device.
    #[must_use]
    pub fn at_speed(&self, speed: Speed) -> Profile {
        Profile { device: Arc::new(AtSpeed { device: self.device.clone(), speed }), ..self.clone() }
    }

    /// Builds an idle device in its profile's initial state. Devices of one profile share its tables.
    pub fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        let queue_depth = options.queue_depth.map(|depth| depth.clamp(1, 1024));
        self.device.build(DeviceOptions { queue_depth, ..options })
    }
}

/// The device of [`Profile::at_speed`].
#[derive(Debug)]
struct AtSpeed {
    device: Arc<dyn DeviceProfile>,
    speed: Speed,
}

impl DeviceProfile for AtSpeed {
    fn name(&self) -> &str {
        self.device.name()
    }

    fn description(&self) -> &str {
        self.device.description()
    }

    fn page(&self) -> Option<&str> {
        self.device.page()
    }

    fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        Box::new(Slowed::new(self.device.build(options), self.speed))
    }

    fn disks(&self) -> usize {
        self.device.disks()
    }

    fn rotational(&self) -> bool {
        self.device.rotational()
    }

    fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.device.queue_policy(options)
    }

    fn parts(&self) -> &[(String, Arc<Profile>)] {
        self.device.parts()
    }

    fn hdd(&self) -> Option<&HddProfile> {
        self.device.hdd()
    }
}
