//! A separate tracefs instance with the events of one device, which does not disturb other tracing.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::OFlags;
use rustix::mount::{MountFlags, mount};

use serde::{Deserialize, Serialize};

/// The usual mount point of tracefs, also for mounting it ourselves.
const USUAL: &str = "/sys/kernel/tracing";

/// Where the kernel lists devices by number.
const DEVICES: &str = "/sys/dev/block";

/// Total size of the buffers of all processors: some 100,000 events.
const BUFFERS_KIB: usize = 8192;
/// Minimum size of the buffer of a processor.
const BUFFER_LEAST_KIB: usize = 256;

/// Maximum length of a page's or event's description.
const FORMAT_BYTES: usize = 16_384;

/// Fill level at which the kernel wakes a reader, in percent; below that, readers poll.
const WAKES_AT_PERCENT: &str = "25";

/// Events of a device with a queue: a request was queued, sent to the driver, completed.
pub const REQUEST_EVENTS: &[&str] = &["block_bio_queue", "block_rq_issue", "block_rq_complete"];
/// Events of a device without a queue, such as a stack or memory.
pub const BIO_EVENTS: &[&str] = &["block_bio_queue", "block_bio_complete"];
/// Calls of fsync or fdatasync, and writes that must be on the media when they return, on an ext4 of the device. Other filesystems have no
/// event for the return.
pub const SYNC_EVENTS: &[&str] = &["ext4_sync_file_enter", "ext4_sync_file_exit"];

/// Maximum number of devices in a filter: more volumes on one disk are rare, and the kernel accepts at most a page of text.
const MAX_FILESYSTEMS: usize = 64;

/// Contents of tracefs's `header_page` and of the events' `format` files. Reading them requires root; other users receive them together
/// with the pipes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Formats {
    /// Contents of `events/header_page`.
    pub header_page: String,
    /// Names of the events, for example `block_rq_issue`, with the contents of their `format` files.
    pub events: Vec<(String, String)>,
}

/// A file of tracefs or sysfs that cannot be read or written.
#[derive(Debug)]
pub struct TraceError {
    /// The file.
    pub path: PathBuf,
    /// The cause.
    pub source: io::Error,
}

impl TraceError {
    fn at(path: &Path, source: io::Error) -> TraceError {
        TraceError { path: path.to_owned(), source }
    }
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.source)
    }
}

impl std::error::Error for TraceError {}

/// Major and minor number of the device with this folder in sysfs.
///
/// # Errors
/// Its file `dev` cannot be read.
pub fn device_number(folder: &Path) -> Result<(u32, u32), TraceError> {
    let path = folder.join("dev");
    let text = fs::read_to_string(&path).map_err(|error| TraceError::at(&path, error))?;
    let parts = text.trim().split_once(':').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
    parts.ok_or_else(|| TraceError::at(&path, io::Error::new(io::ErrorKind::InvalidData, "is not major:minor")))
}

/// The kernel's tracing filesystem.
#[derive(Clone, Debug)]
pub struct Tracefs {
    place: PathBuf,
}

impl Tracefs {
    /// Finds its mount point; if it is not mounted, mounts it at the usual place and leaves it mounted, as other programs may start to use
    /// it.
    ///
    /// # Errors
    /// It cannot be mounted: the kernel lacks it, or the process is not root.
    pub fn find() -> Result<Tracefs, TraceError> {
        if let Some(tracefs) = Tracefs::mounted()? {
            return Ok(tracefs);
        }
        let place = PathBuf::from(USUAL);
        mount("tracefs", &place, "tracefs", MountFlags::empty(), None).map_err(|error| {
            TraceError::at(&place, io::Error::new(io::Error::from(error).kind(), format!("mounting tracefs: {error}")))
        })?;
        Ok(Tracefs { place })
    }

    /// Its mount point; `None` if it is not mounted.
    fn mounted() -> Result<Option<Tracefs>, TraceError> {
        let mounts = Path::new("/proc/self/mounts");
        let text = fs::read_to_string(mounts).map_err(|error| TraceError::at(mounts, error))?;
        let found = text.lines().find_map(|line| {
            let mut words = line.split(' ');
            let place = words.nth(1)?;
            (words.next()? == "tracefs").then(|| PathBuf::from(place))
        });
        Ok(found.map(|place| Tracefs { place }))
    }
}

/// Maximum number of instances of this process, those with pipes that a client still holds included. Choice: twice the applier's
/// connections; bounds the kernel's memory; not varied.
const MAX_INSTANCES: usize = 64;

/// Folders of this process's instances that are being set up or in use. Held while one is set up or ends.
static LIVE: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A trace of one device. Dropping it ends the trace, and removes the instance as soon as its pipes are closed; until then it records
/// nothing and has buffers of minimum size.
#[derive(Debug)]
pub struct Instance {
    folder: PathBuf,
    /// The kernel does not remove the instance while this is open. `None` once it may be removed.
    tracing_on: Option<File>,
    events: Vec<TraceEvent>,
}

/// An event to be recorded.
#[derive(Debug)]
struct TraceEvent {
    /// Name of its folder below `events`.
    system: &'static str,
    name: &'static str,
    filter: String,
}

impl TraceEvent {
    fn folder(&self) -> String {
        format!("events/{}/{}", self.system, self.name)
    }
}

impl Instance {
    /// Creates an instance for the device with this major and minor number, which has a queue or passes requests on. It is not recording
    /// yet. Also removes leftovers of killed processes.
    ///
    /// # Errors
    /// The kernel forbids it: it requires root, and no lockdown in confidentiality mode. There are 64 of this process whose pipes are open.
    pub fn create(tracefs: &Tracefs, number: (u32, u32), has_queue: bool) -> Result<Instance, TraceError> {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        let instances = tracefs.place.join("instances");
        if remove_left(&instances, &live) >= MAX_INSTANCES {
            let open = format!("{MAX_INSTANCES} traces of this process have open pipes; close those of earlier ones");
            return Err(TraceError::at(&instances, io::Error::other(open)));
        }
        let own = std::process::id();
        let own_number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = instances.join(format!("seekwise-{own}-{}-{own_number}", started(own).unwrap_or_default()));
        fs::create_dir(&folder).map_err(|error| TraceError::at(&folder, error))?;
        live.insert(folder.clone());
        // Setting it up takes longer, and dropping it after an error takes the lock.
        drop(live);
        let mut instance = Instance { folder, tracing_on: None, events: Vec::new() };
        instance.choose(number, has_queue);
        let tracing_on = instance.folder.join("tracing_on");
        let opened = OpenOptions::new().write(true).open(&tracing_on).map_err(|error| TraceError::at(&tracing_on, error))?;
        instance.tracing_on = Some(opened);
        instance.set_up()?;
        Ok(instance)
    }

    /// Selects the events: those of requests, and those of fsync if the kernel has them.
    fn choose(&mut self, number: (u32, u32), has_queue: bool) {
        let events = if has_queue { REQUEST_EVENTS } else { BIO_EVENTS };
        let filter = format!("dev == {}", kernel_number(number));
        self.events = events.iter().map(|name| TraceEvent { system: "block", name, filter: filter.clone() }).collect();
        let mut numbers = BTreeSet::new();
        add_filesystems(Path::new(DEVICES), number, &mut numbers);
        let filter: Vec<String> = numbers.into_iter().map(|number| format!("dev == {}", kernel_number(number))).collect();
        let sync = SYNC_EVENTS.iter().map(|name| TraceEvent { system: "ext4", name, filter: filter.join(" || ") });
        let has = |event: &TraceEvent| self.folder.join(event.folder()).is_dir();
        let sync: Vec<TraceEvent> = sync.filter(has).collect();
        self.events.extend(sync);
    }

    fn set_up(&self) -> Result<(), TraceError> {
        self.stop()?;
        // One clock for all processors, to order their events.
        self.write("trace_clock", "mono")?;
        let each = (BUFFERS_KIB / self.processors()?.len().max(1)).max(BUFFER_LEAST_KIB);
        self.write("buffer_size_kb", &each.to_string())?;
        // Without it the kernel wakes readers later, and they poll. In Linux 5.10 root may write this file only with a capability.
        let _ = self.write("buffer_percent", WAKES_AT_PERCENT);
        // Without this, every task switch would be recorded for names that the events already have.
        self.write("trace_options", "norecord-cmd")?;
        for event in &self.events {
            self.write(&format!("{}/filter", event.folder()), &event.filter)?;
            self.write(&format!("{}/enable", event.folder()), "1")?;
        }
        Ok(())
    }

    /// Removes leftovers of killed processes, if tracefs is mounted and they have no reader.
    pub fn remove_left_behind() {
        let live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Ok(Some(tracefs)) = Tracefs::mounted() {
            remove_left(&tracefs.place.join("instances"), &live);
        }
    }

    /// Starts recording.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&self) -> Result<(), TraceError> {
        self.switch(b"1")
    }

    /// Stops recording; recorded events can still be read.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&self) -> Result<(), TraceError> {
        self.switch(b"0")
    }

    /// The non-blocking raw pipe of each processor. Reading them needs no further privileges.
    ///
    /// # Errors
    /// A pipe cannot be opened.
    pub fn pipes(&self) -> Result<Vec<OwnedFd>, TraceError> {
        let open = |folder: PathBuf| {
            let path = folder.join("trace_pipe_raw");
            let flags = OFlags::NONBLOCK.bits() as i32;
            let opened = OpenOptions::new().read(true).custom_flags(flags).open(&path);
            Ok(opened.map_err(|error| TraceError::at(&path, error))?.into())
        };
        self.processors()?.into_iter().map(open).collect()
    }

    /// The formats of the events.
    ///
    /// # Errors
    /// A file cannot be read.
    pub fn formats(&self) -> Result<Formats, TraceError> {
        let format = |event: &TraceEvent| Ok((event.name.to_owned(), self.read(&format!("{}/format", event.folder()))?));
        let events = self.events.iter().map(format).collect::<Result<_, TraceError>>()?;
        Ok(Formats { header_page: self.read("events/header_page")?, events })
    }

    /// The folders of all processors.
    fn processors(&self) -> Result<Vec<PathBuf>, TraceError> {
        let folder = self.folder.join("per_cpu");
        let entries = fs::read_dir(&folder).map_err(|error| TraceError::at(&folder, error))?;
        Ok(entries.flatten().map(|entry| entry.path()).collect())
    }

    fn switch(&self, to: &[u8]) -> Result<(), TraceError> {
        let Some(mut file) = self.tracing_on.as_ref() else { return Ok(()) };
        file.write_all(to).map_err(|error| TraceError::at(&self.folder.join("tracing_on"), error))
    }

    fn read(&self, name: &str) -> Result<String, TraceError> {
        let path = self.folder.join(name);
        // `header_page` must be read at once: anything beyond the first read is lost (`show_header` in `kernel/trace/trace_events.c`).
        let mut bytes = vec![0; FORMAT_BYTES];
        let length = File::open(&path).and_then(|mut file| file.read(&mut bytes));
        bytes.truncate(length.map_err(|error| TraceError::at(&path, error))?);
        String::from_utf8(bytes).map_err(|_| TraceError::at(&path, io::Error::new(io::ErrorKind::InvalidData, "is no text")))
    }

    fn write(&self, name: &str, value: &str) -> Result<(), TraceError> {
        let path = self.folder.join(name);
        fs::write(&path, value).map_err(|error| TraceError::at(&path, error))
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        let mut live = LIVE.lock().unwrap_or_else(PoisonError::into_inner);
        self.tracing_on = None;
        live.remove(&self.folder);
        remove_or_shrink(&self.folder);
    }
}

/// Removes an instance that has ended. The kernel refuses while a client has one of its pipes open: then it records nothing and has
/// buffers of minimum size, and is removed when the next one is created.
fn remove_or_shrink(folder: &Path) {
    if fs::remove_dir(folder).is_err() {
        let _ = fs::write(folder.join("events/enable"), "0");
        // The kernel rounds up to two pages for each processor.
        let _ = fs::write(folder.join("buffer_size_kb"), "1");
    }
}

/// The kernel's encoding of a device number: 12 bits of major, 20 of minor.
fn kernel_number((major, minor): (u32, u32)) -> u32 {
    major << 20 | minor
}

/// Adds the numbers of devices that may have a filesystem on this device: itself, its partitions, and devices on top of these (volumes,
/// encryption, arrays). `devices` is a folder such as `/sys/dev/block`.
fn add_filesystems(devices: &Path, number: (u32, u32), numbers: &mut BTreeSet<(u32, u32)>) {
    if numbers.len() >= MAX_FILESYSTEMS || !numbers.insert(number) {
        return;
    }
    let folder = devices.join(format!("{}:{}", number.0, number.1));
    let below = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect::<Vec<_>>();
    let partitions = below(&folder).into_iter().filter(|path| path.join("partition").exists());
    for place in partitions.chain(below(&folder.join("holders"))) {
        if let Ok(number) = device_number(&place) {
            add_filesystems(devices, number, numbers);
        }
    }
}

/// Removes instances that have ended, of this process and of killed ones. `live`: those of this process that are in use. Returns the number
/// of instances of this process that are there afterwards.
fn remove_left(instances: &Path, live: &BTreeSet<PathBuf>) -> usize {
    let mut stay = 0;
    for entry in fs::read_dir(instances).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(maker) = name.to_str().and_then(|name| name.strip_prefix("seekwise-")) else { continue };
        let mut numbers = maker.split('-').map(str::parse::<u64>);
        let (Some(Ok(process)), Some(Ok(began))) = (numbers.next(), numbers.next()) else { continue };
        let is_own = process == u64::from(std::process::id());
        let runs = u32::try_from(process).ok().and_then(started) == Some(began);
        let folder = entry.path();
        if !live.contains(&folder) && (is_own || !runs) {
            remove_or_shrink(&folder);
        }
        stay += usize::from(is_own && folder.exists());
    }
    stay
}

/// Start time of a process in ticks since boot, which identifies it together with its id. `None` if there is no such process.
fn started(process: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The program's name in parentheses may contain anything. Of the fields after it, `S 1 …`, this is the 20th.
    text.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn filesystems_on_a_device_are_those_of_its_partitions_and_of_what_is_built_on_them() {
        let root = tempfile::tempdir().unwrap();
        let devices = root.path();
        let make = |place: &str, number: &str| {
            fs::create_dir_all(devices.join(place)).unwrap();
            fs::write(devices.join(place).join("dev"), format!("{number}\n")).unwrap();
        };
        // A disk with two partitions; on the second a volume, on that an encrypted one. The kernel's entries are links to the same folders.
        for (place, number) in
            [("8:0/sda1", "8:1"), ("8:0/sda2", "8:2"), ("8:2/holders/dm-0", "253:0"), ("253:0/holders/dm-1", "253:1")]
        {
            make(place, number);
        }
        for partition in ["sda1", "sda2"] {
            fs::write(devices.join("8:0").join(partition).join("partition"), "1\n").unwrap();
        }
        make("8:0/queue", "9:9");
        make("8:16", "8:16");
        let mut numbers = BTreeSet::new();
        add_filesystems(devices, (8, 0), &mut numbers);
        assert_eq!(numbers.into_iter().collect::<Vec<_>>(), [(8, 0), (8, 1), (8, 2), (253, 0), (253, 1)]);
        assert_eq!(kernel_number((8, 1)), 8 << 20 | 1);
    }

    /// The folders and pipes of traces that have ended while a client holds their pipes.
    fn held(tracefs: &Tracefs, count: usize) -> Vec<(PathBuf, Vec<OwnedFd>)> {
        let hold = |_| {
            let instance = Instance::create(tracefs, (1, 0), true).unwrap();
            let pipes = instance.pipes().unwrap();
            instance.start().unwrap();
            (instance.folder.clone(), pipes)
        };
        (0..count).map(hold).collect()
    }

    #[test]
    fn a_client_that_keeps_the_pipes_of_ended_traces_takes_little_memory() {
        let tracefs = match Tracefs::find() {
            Ok(tracefs) if fs::create_dir(tracefs.place.join("instances/seekwise-test")).is_ok() => tracefs,
            _ => return eprintln!("skipped: needs root and tracefs"),
        };
        fs::remove_dir(tracefs.place.join("instances/seekwise-test")).unwrap();
        let held = held(&tracefs, 3);
        for (folder, pipes) in &held {
            let processors = pipes.len() as u64;
            let kib: u64 = fs::read_to_string(folder.join("buffer_total_size_kb")).unwrap().trim().parse().unwrap();
            assert!(kib <= 16 * processors, "{kib} KiB of buffers for {processors} processors");
            assert_eq!(fs::read_to_string(folder.join("events/enable")).unwrap().trim(), "0", "it records no more");
        }
        let folders: Vec<PathBuf> = held.iter().map(|(folder, _)| folder.clone()).collect();
        drop(held);
        Instance::remove_left_behind();
        assert!(!folders.iter().any(|folder| folder.exists()), "removed once the pipes are closed");
    }

    #[test]
    fn the_number_of_traces_with_open_pipes_is_limited() {
        let root = tempfile::tempdir().unwrap();
        let tracefs = Tracefs { place: root.path().to_owned() };
        let own = std::process::id();
        for number in 0..MAX_INSTANCES {
            // The kernel refuses to remove one with open pipes, as a filesystem does one with files.
            let folder = root.path().join(format!("instances/seekwise-{own}-{}-{number}", started(own).unwrap()));
            fs::create_dir_all(folder.join("events")).unwrap();
        }
        let error = Instance::create(&tracefs, (1, 0), true).unwrap_err().to_string();
        assert!(error.contains("64 traces of this process have open pipes"), "{error}");
    }
}
