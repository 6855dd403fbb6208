//! Disk profiles: TOML files that describe a disk, and those that come with the program.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::device::Device;
use crate::device::hdd::Hdd;
use crate::device::hdd::model::Model;
use crate::device::hdd::spec::{QueuePolicy, Spec};
use crate::device::raid::layout::{Layout, Level, MAX_MEMBERS};
use crate::device::raid::{self, Raid};
use crate::device::ssd::{self, Ssd};

/// The profiles that come with the program, by name.
pub static BUILT_IN: &[(&str, &str)] = &[
    ("atlas10k", include_str!("../../../disks/atlas10k.toml")),
    ("barracuda", include_str!("../../../disks/barracuda.toml")),
    ("cheetah9LP", include_str!("../../../disks/cheetah9LP.toml")),
    ("hp_c2247a", include_str!("../../../disks/hp_c2247a.toml")),
    ("ibm18es", include_str!("../../../disks/ibm18es.toml")),
    ("nvme-tlc", include_str!("../../../disks/nvme-tlc.toml")),
    ("raid5-5x-sata7200", include_str!("../../../disks/raid5-5x-sata7200.toml")),
    ("sata7200", include_str!("../../../disks/sata7200.toml")),
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
    Raid(Box<RaidProfile>),
}

/// What is particular to the profile of an array.
#[derive(Clone, Debug)]
struct RaidProfile {
    name: String,
    description: String,
    settings: raid::spec::Settings,
    layout: Layout,
    members: Vec<Arc<Profile>>,
    spare: Option<Arc<Profile>>,
    /// Disks in it, those of arrays in it each, and the spare.
    disks: usize,
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
    /// Requests the device holds at once: 1 to 1,024; the nearest of these is taken for others. An array's members keep theirs.
    pub queue_depth: Option<u32>,
    /// In which order it, or each member of an array, serves them. A flash device takes them as they come, whatever stands here.
    pub queue_policy: Option<QueuePolicy>,
}

/// Loads a profile that comes with the program by its name, one from a file, or an array of them in one line, as in
/// `raid5:disk=atlas10k,disks=5`.
pub fn load(name_or_path: &str) -> Result<Profile, ProfileError> {
    load_in(name_or_path, &Place::default())
}

/// Where a profile is named: its file's folder, and the files that led there.
#[derive(Clone, Debug, Default)]
struct Place {
    folder: PathBuf,
    files: Vec<PathBuf>,
    nesting: usize,
}

fn load_in(name_or_path: &str, place: &Place) -> Result<Profile, ProfileError> {
    if let Some((name, text)) = BUILT_IN.iter().find(|(name, _)| *name == name_or_path) {
        return Profile::parse_in(text, name, place);
    }
    let path = place.folder.join(name_or_path);
    let source = path.to_string_lossy();
    match read_text(&path) {
        Ok(text) => {
            // A file that was just read has a name; if it has none, depth is bounded all the same.
            let file = path.canonicalize().unwrap_or_else(|_| path.clone());
            if place.files.contains(&file) {
                return Err(ProfileError(format!("{source}: an array that is its own member; a disk or another array is right")));
            }
            let mut inside = place.clone();
            inside.folder = path.parent().map(Path::to_owned).unwrap_or_default();
            inside.files.push(file);
            Profile::parse_in(&text, &source, &inside)
        }
        // A long line may not even be possible as a file's name: any error will do.
        Err(_) if says_array(name_or_path) => {
            let failed = |error| ProfileError(format!("{name_or_path}: {error}"));
            let spec = raid::spec::Spec::parse_line(name_or_path).map_err(failed)?;
            let text = toml::to_string(&spec).map_err(|error| failed(error.to_string()))?;
            Profile::array(&spec, &text, name_or_path, place)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let names = BUILT_IN.iter().map(|(name, _)| *name).collect::<Vec<_>>().join(", ");
            Err(ProfileError(format!(
                "{source}: neither a file, nor one of the built-in disks ({names}), nor an array as in raid5:disk=atlas10k,disks=5"
            )))
        }
        Err(error) => Err(ProfileError(format!("{source}: {error}"))),
    }
}

/// Whether somebody who wrote this meant an array: `raid5`, or `raid` and whatever before a colon.
fn says_array(text: &str) -> bool {
    match text.split_once(':') {
        Some((head, _)) => head.starts_with("raid"),
        None => text.strip_prefix("raid").is_some_and(|level| !level.is_empty() && level.bytes().all(|byte| byte.is_ascii_digit())),
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
    /// Reads a profile's text. `source` names it in errors. Files that an array names are looked for in the current folder.
    pub fn parse(text: &str, source: &str) -> Result<Profile, ProfileError> {
        Profile::parse_in(text, source, &Place::default())
    }

    fn parse_in(text: &str, source: &str, place: &Place) -> Result<Profile, ProfileError> {
        // A hard disk's profile has no kind: files from before there were others stay good.
        let kind = from_toml::<KindOnly>(text, source)?.kind;
        let disk = if kind.as_ref().and_then(toml::Value::as_str) == Some("raid") {
            return Profile::array(&from_toml(text, source)?, text, source, place);
        } else if kind.is_some() {
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

    /// Finds the disks of an array and checks whether they make one.
    fn array(spec: &raid::spec::Spec, own_text: &str, source: &str, place: &Place) -> Result<Profile, ProfileError> {
        let failed = |error: String| ProfileError(format!("{source}: {error}"));
        let settings = spec.check().map_err(failed)?;
        if place.nesting >= MAX_NESTING {
            return Err(failed(format!("arrays in arrays, {} deep; {MAX_NESTING} is the most", place.nesting + 1)));
        }
        let inside = Place { nesting: place.nesting + 1, ..place.clone() };
        let mut known: Vec<(&str, Arc<Profile>)> = Vec::new();
        let mut find = |name| -> Result<Arc<Profile>, ProfileError> {
            if let Some((_, profile)) = known.iter().find(|(known, _)| *known == name) {
                return Ok(profile.clone());
            }
            let profile = load_in(name, &inside).map_err(|error| failed(error.0))?;
            known.push((name, Arc::new(profile)));
            Ok(known[known.len() - 1].1.clone())
        };
        let members = spec.member_names().map_err(failed)?.into_iter().map(&mut find).collect::<Result<Vec<_>, _>>()?;
        let spare = spec.spare.as_deref().map(&mut find).transpose()?;
        let disks = members.iter().chain(&spare).map(|member| member.disks()).sum();
        if disks > MAX_MEMBERS {
            return Err(failed(format!("{disks} disks, spares and those of arrays in it counted; {MAX_MEMBERS} is the most")));
        }
        let smallest = members.iter().map(|member| member.capacity_sectors()).min().unwrap_or(0);
        let layout = Layout::new(settings.level, members.len(), settings.unit, smallest).map_err(failed)?;
        if let Some(spare) = &spare
            && spare.capacity_sectors() < layout.rows * layout.unit
        {
            let (has, needs) = (spare.capacity_sectors(), layout.rows * layout.unit);
            return Err(failed(format!("spare: {} has {has} sectors; it takes {needs} to replace a member", spare.name())));
        }
        let mixed = known.len() > 1;
        let of = if mixed { "different disks".to_owned() } else { members.first().map_or("", |member| member.name()).to_owned() };
        let what = format!("RAID {} of {} {of}", settings.level.number(), members.len());
        let name = spec.name.clone().unwrap_or_else(|| source.to_owned());
        let description = spec.description.clone().unwrap_or_else(|| describe(what, &settings, spare.as_deref()));
        // A digest of the text must change with a member's text; as comments they leave it a profile that loads.
        let mut text = own_text.to_owned();
        for (name, profile) in &known {
            text.push_str(&format!("\n# ---- {name} ----\n"));
            text.extend(profile.text.lines().flat_map(|line| ["# ", line, "\n"]));
        }
        let disk = Disk::Raid(Box::new(RaidProfile { name, description, settings, layout, members, spare, disks }));
        Ok(Profile { text, disk })
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
            Disk::Raid(raid) => &raid.name,
        }
    }

    /// One line for people.
    pub fn description(&self) -> &str {
        match &self.disk {
            Disk::Hdd(hdd) => &hdd.spec.description,
            Disk::Ssd { spec, .. } => &spec.description,
            Disk::Raid(raid) => &raid.description,
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
            Disk::Ssd { .. } | Disk::Raid(_) => None,
        }
    }

    /// How many disks there are in it.
    pub fn disks(&self) -> usize {
        match &self.disk {
            Disk::Raid(raid) => raid.disks,
            Disk::Hdd(_) | Disk::Ssd { .. } => 1,
        }
    }

    /// In which order a device built with these options serves its queue; of an array, its first member.
    pub fn queue_policy(&self, options: BuildOptions) -> QueuePolicy {
        match &self.disk {
            Disk::Hdd(hdd) => options.queue_policy.unwrap_or(hdd.spec.queue.policy),
            Disk::Ssd { .. } => QueuePolicy::Fifo,
            Disk::Raid(raid) => raid.members.first().map_or(QueuePolicy::Fifo, |member| member.queue_policy(options)),
        }
    }

    /// 512-byte sectors of the disk.
    pub fn capacity_sectors(&self) -> u64 {
        match &self.disk {
            Disk::Hdd(hdd) => hdd.model.layout.capacity_sectors,
            Disk::Ssd { model, .. } => model.capacity_sectors,
            Disk::Raid(raid) => raid.layout.capacity(),
        }
    }

    /// A device at rest, in its profile's initial state. Devices of one profile share its tables.
    pub fn build(&self, options: BuildOptions) -> Box<dyn Device> {
        let queue_depth = options.queue_depth.map(|depth| depth.clamp(1, 1024));
        match &self.disk {
            Disk::Hdd(hdd) => Box::new(Hdd::new(hdd.model.clone(), queue_depth, options.queue_policy)),
            Disk::Ssd { model, .. } => Box::new(Ssd::new(model.clone(), queue_depth)),
            Disk::Raid(raid) => {
                let of_member = BuildOptions { queue_depth: None, ..options };
                let members = raid.members.iter().map(|member| member.build(of_member)).collect();
                let spare = raid.spare.as_ref().map(|spare| spare.build(of_member));
                let raid::spec::Settings { failure, rate, .. } = raid.settings;
                Box::new(Raid::new(raid.layout, members, queue_depth, failure, spare, rate))
            }
        }
    }
}

/// One line about an array whose profile has none.
fn describe(what: String, settings: &raid::spec::Settings, spare: Option<&Profile>) -> String {
    let unit = match settings.level {
        Level::Raid1 => String::new(),
        _ => format!(", stripe unit {} KiB", settings.unit as f64 / 2.0),
    };
    let failure = settings.failure.map_or(String::new(), |failure| match failure.at.as_secs_f64() {
        0.0 => format!(", member {} failed", failure.member),
        at => format!(", member {} fails after {at} s", failure.member),
    });
    let spare = spare.map_or(String::new(), |spare| format!(", rebuilt onto {}", spare.name()));
    format!("{what}{unit}{failure}{spare}")
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
