//! Disk profiles: TOML files that describe a device, and those that come with the program.
//!
//! What a profile says differs from one kind of device to the next. Each kind declares how its profiles are read in a
//! [`DeviceKind`], listed in [`KINDS`]; what is read answers through [`DeviceProfile`]. Here is what they all share: finding the text,
//! telling kinds apart, and naming file and line in errors.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use block::did_you_mean;

use crate::device::hdd::spec::QueuePolicy;
use crate::device::{Device, KINDS, hdd, learned};

pub use crate::device::hdd::profile::HddProfile;
use keys::KeyTable;

pub mod keys;

/// The profiles that come with the program, by name.
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

/// No profile is longer: a full list of a modern disk's defects is some megabytes.
const MAX_BYTES: u64 = 64 << 20;

/// Arrays in arrays: no deeper. Each of them has two members at least, so no sensible one is.
const MAX_NESTING: usize = 6;

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

/// What a device takes in place of what its profile says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceOptions {
    /// Requests the device holds at once, 1 to 1,024; other values are moved to the nearest of these. An array's members keep theirs.
    pub queue_depth: Option<u32>,
    /// In which order it, or each member of an array, serves them. A flash device always takes them as they come.
    pub queue_policy: Option<QueuePolicy>,
}

/// A kind of device, as far as profiles are concerned.
pub struct DeviceKind {
    /// The value of the key `kind` in its profiles. `None` for the one kind whose profiles lack that key.
    pub key: Option<&'static str>,
    /// What its devices are called, in the plural.
    pub name: &'static str,
    /// The schema of its profiles, see [`keys`].
    pub schema: LazyLock<serde_json::Value>,
    /// Reads a profile whose values are within the ranges of their keys, and checks the rest.
    pub parse: fn(&ProfileText) -> Result<Arc<dyn DeviceProfile>, ProfileError>,
    /// How a profile is written in one line instead of a file, if it can be.
    pub line: Option<OneLine>,
}

impl DeviceKind {
    /// The tables of its profiles and their keys.
    pub fn tables(&self) -> Vec<KeyTable> {
        keys::tables(&self.schema)
    }
}

/// A profile in one line, as people write it in place of a name.
pub struct OneLine {
    /// What it is, with an example, for the message that follows an unknown name: `an array as in …`.
    pub example: &'static str,
    /// Turns such a line into the text of a profile, or says what is wrong with it. `None` for other lines.
    pub to_text: fn(&str) -> Option<Result<String, String>>,
}

/// What a checked profile says about a device, and how to build one.
pub trait DeviceProfile: fmt::Debug + Send + Sync {
    /// The profile's name.
    fn name(&self) -> &str;

    /// One line for people.
    fn description(&self) -> &str;

    /// All that there is to show of it, if its text is not for people.
    fn page(&self) -> Option<&str> {
        None
    }

    /// 512-byte sectors of the device.
    fn capacity_sectors(&self) -> u64;

    /// A device at rest, in its profile's initial state. A queue depth in `options` is within its range.
    fn build(&self, options: DeviceOptions) -> Box<dyn Device>;

    /// How many disks there are in it.
    fn disks(&self) -> usize {
        1
    }

    /// Whether something turns in it, as Linux asks of a disk (`queue/rotational`); of an array, in its first member.
    fn rotational(&self) -> bool {
        self.hdd().is_some() || self.parts().first().is_some_and(|(_, part)| part.device.rotational())
    }

    /// In which order a device built with these options serves its queue; of an array, its first member.
    fn queue_policy(&self, _options: DeviceOptions) -> QueuePolicy {
        QueuePolicy::Fifo
    }

    /// The profiles it names, each once, by the names it gives them.
    fn parts(&self) -> &[(String, Arc<Profile>)] {
        &[]
    }

    /// What only a hard disk has.
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

/// Loads a profile that comes with the program by its name, one from a file, the model of a device from its file ([`learned`]), or a
/// profile in a line, as in `raid5:disk=atlas10k,disks=5`.
///
/// # Errors
/// There is none of that name, or it is wrong.
pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
    load_from(name_or_path, &Origin::default())
}

/// The same with a further profile that may be named, as a part of an array: under its own name.
///
/// # Errors
/// As [`load`].
pub fn load_with(name_or_path: &str, further: &Profile) -> Result<Profile, ProfileError> {
    let further = (further.name().to_owned(), further.text().to_owned());
    load_from(name_or_path, &Origin { further: Some(further), ..Origin::default() })
}

/// Where a profile is named: its file's folder, and the files that led there.
#[derive(Clone, Debug, Default)]
struct Origin {
    folder: PathBuf,
    files: Vec<PathBuf>,
    nesting: usize,
    /// Name and text of a profile that goes before all others.
    further: Option<(String, String)>,
}

fn load_from(name_or_path: &str, origin: &Origin) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = origin.further.as_ref().filter(|(name, _)| name == name_or_path) {
        return ProfileText { text, source: name, origin, has_lines: true }.parse();
    }
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return ProfileText { text, source: name, origin, has_lines: true }.parse();
    }
    let path = origin.folder.join(name_or_path);
    let source = path.to_string_lossy();
    let error = match read_text(&path) {
        Ok(text) => {
            // A file that was just read has a name; if it has none, depth is bounded all the same.
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
    // A long line may not even be possible as a file's name, so it is tried after any error.
    if let Some(text) = KINDS.iter().filter_map(|kind| kind.line.as_ref()).find_map(|line| (line.to_text)(name_or_path)) {
        let text = text.map_err(|error| ProfileError(format!("{name_or_path}: {error}")))?;
        return ProfileText { text: &text, source: name_or_path, origin, has_lines: false }.parse();
    }
    if error.kind() != std::io::ErrorKind::NotFound {
        return Err(ProfileError(format!("{source}: {error}")));
    }
    let names = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
    let lines: String = KINDS.iter().filter_map(|kind| kind.line.as_ref()).map(|line| format!(", nor {}", line.example)).collect();
    let meant = did_you_mean(&source, BUILT_IN.iter().map(|(name, _)| *name));
    Err(ProfileError(format!("{source}: neither a file, nor one of the built-in disks ({names}){lines}{meant}")))
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

/// The text of a profile, for a [`DeviceKind`] to read.
pub struct ProfileText<'a> {
    text: &'a str,
    source: &'a str,
    origin: &'a Origin,
    /// Whether people wrote it, so that its lines mean something to them.
    has_lines: bool,
}

impl ProfileText<'_> {
    /// All of it.
    pub fn text(&self) -> &str {
        self.text
    }

    /// What people call it: a file, or the line itself.
    pub fn source(&self) -> &str {
        self.source
    }

    /// Reads it by a kind's schema.
    ///
    /// # Errors
    /// What the schema does not allow, with its line.
    pub fn read<T: serde::de::DeserializeOwned>(&self) -> Result<T, ProfileError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error_at(at, error.message().trim().replace('\n', " "))
        })
    }

    /// An error about the whole profile.
    pub fn error(&self, message: impl fmt::Display) -> ProfileError {
        ProfileError(format!("{}: {message}", self.source))
    }

    /// An error about what stands at this byte.
    fn error_at(&self, byte: usize, message: impl fmt::Display) -> ProfileError {
        if !self.has_lines {
            return self.error(message);
        }
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        ProfileError(format!("{}:{line}: {message}", self.source))
    }

    /// Loads a profile that this one names. Files are looked for beside the file of this one.
    ///
    /// # Errors
    /// As [`load`], or the profiles name each other without end.
    pub fn load(&self, name: &str) -> Result<Profile, ProfileError> {
        let nesting = self.origin.nesting + 1;
        if nesting > MAX_NESTING {
            return Err(self.error(format_args!("arrays in arrays, {nesting} deep; {MAX_NESTING} is the most")));
        }
        load_from(name, &Origin { nesting, ..self.origin.clone() }).map_err(|error| self.error(error))
    }

    /// Reads and checks it.
    fn parse(&self) -> Result<Profile, ProfileError> {
        if learned::is_model(self.text) {
            let kind = &learned::KIND;
            return Ok(Profile { text: self.text.to_owned(), device: (kind.parse)(self)?, kind });
        }
        let kind = self.kind()?;
        keys::check(&kind.schema, self.text).map_err(|error| self.error_at(error.at, error.message))?;
        let device = (kind.parse)(self)?;
        // A digest of the text must change with the text of a part; as comments the parts leave it a profile that loads.
        let mut text = self.text.to_owned();
        for (name, part) in device.parts() {
            text.push_str(&format!("\n# ---- {name} ----\n"));
            text.extend(part.text.lines().flat_map(|line| ["# ", line, "\n"]));
        }
        Ok(Profile { text, device, kind })
    }

    /// The kind of device that it describes.
    fn kind(&self) -> Result<&'static DeviceKind, ProfileError> {
        /// Everything else in a profile is read by its kind's own schema.
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
    /// Reads a profile's text. `source` names it in errors. Files that an array names are looked for in the current folder.
    ///
    /// # Errors
    /// What is wrong, by source, line and key.
    pub fn parse(text: &str, source: &str) -> Result<Profile, ProfileError> {
        ProfileText { text, source, origin: &Origin::default(), has_lines: true }.parse()
    }

    /// Checks a hard disk's description and writes its text.
    ///
    /// # Errors
    /// What is wrong, by source and key.
    pub fn from_hdd(description: &hdd::spec::HddSpecification, source: &str) -> Result<Profile, ProfileError> {
        let text = hdd::profile::to_text(description).map_err(|error| ProfileError(format!("{source}: {error}")))?;
        // What was written must read back as the same: the text is what people keep.
        let profile = ProfileText { text: &text, source, origin: &Origin::default(), has_lines: false }.parse()?;
        debug_assert_eq!(profile.hdd().map(|hdd| &hdd.specification), Some(description));
        Ok(profile)
    }

    /// The whole text, for showing and for digests.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The text with units and ranges behind the values, still a profile; of a learned device what its model has to say.
    pub fn annotated(&self) -> String {
        self.device.page().map_or_else(|| self.with_units(), str::to_owned)
    }

    fn with_units(&self) -> String {
        keys::annotated(&self.kind.schema, &self.text)
    }

    /// What was read and checked, for those who build many devices of it.
    pub fn device(&self) -> Arc<dyn DeviceProfile> {
        self.device.clone()
    }

    /// The profile's name.
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// One line for people.
    pub fn description(&self) -> &str {
        self.device.description()
    }

    /// What only a hard disk has.
    pub fn hdd(&self) -> Option<&HddProfile> {
        self.device.hdd()
    }

    /// How many disks there are in it.
    pub fn disks(&self) -> usize {
        self.device.disks()
    }

    /// In which order a device built with these options serves its queue; of an array, its first member.
    pub fn queue_policy(&self, options: DeviceOptions) -> QueuePolicy {
        self.device.queue_policy(options)
    }

    /// 512-byte sectors of the disk.
    pub fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    /// A device at rest, in its profile's initial state. Devices of one profile share its tables.
    pub fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        let queue_depth = options.queue_depth.map(|depth| depth.clamp(1, 1024));
        self.device.build(DeviceOptions { queue_depth, ..options })
    }
}
