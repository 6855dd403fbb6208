//! A kernel in memory, with the manners that Linux 6.18 was measured to have, hidden state included; and a disk for the journal.
//!
//! A process that uses it can be killed at any of its writes, can meet an error there, and can have a rival that writes in between.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use applier::sysfs::Files;

const EACCES: i32 = 13;
const EINVAL: i32 = 22;
pub const EIO: i32 = 5;
pub const ENOSPC: i32 = 28;
pub const EROFS: i32 = 30;
const ENOENT: i32 = 2;

/// Duration of a scheduler switch.
pub const SWITCH: Duration = Duration::from_millis(35);

/// How write-back throttling came to be as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Throttle {
    OnDefault,
    OffDefault,
    OnManual,
    OffManual,
}

/// A disk with its queue, and its state that sysfs does not show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    pub scheduler: String,
    pub nr_requests: i64,
    /// How many requests the driver takes at once; sysfs shows it only under `none`, and only the value last written there.
    pub tags_in_use: i64,
    pub tags: i64,
    pub tunables: BTreeMap<String, i64>,
    pub max_sectors_kb: i64,
    /// The value set by hand; 0 for none.
    pub max_user_sectors_kb: i64,
    pub max_hw_sectors_kb: i64,
    pub read_ahead_kb: i64,
    pub nomerges: i64,
    pub rq_affinity: i64,
    pub rotational: bool,
    pub wbt_lat_usec: i64,
    pub throttle: Throttle,
    pub serial: String,
    pub sequence: u64,
    /// Whether media change, as in a loop device; the number of its folder in sysfs.
    pub is_removable: bool,
    pub folder: u64,
}

impl Disk {
    pub fn new(serial: &str, sequence: u64) -> Disk {
        let mut disk = Disk {
            scheduler: "none".to_owned(),
            nr_requests: 64,
            tags_in_use: 64,
            tags: 64,
            tunables: BTreeMap::new(),
            max_sectors_kb: 1280,
            max_user_sectors_kb: 0,
            max_hw_sectors_kb: 1280,
            read_ahead_kb: 2560,
            nomerges: 0,
            rq_affinity: 1,
            rotational: true,
            wbt_lat_usec: 75_000,
            throttle: Throttle::OnDefault,
            serial: serial.to_owned(),
            sequence,
            is_removable: false,
            folder: sequence,
        };
        disk.switch("mq-deadline");
        disk
    }

    fn switch(&mut self, to: &str) {
        if self.scheduler == to {
            return;
        }
        self.scheduler = to.to_owned();
        self.nr_requests = if to == "none" { self.tags } else { 2 * self.tags.min(128) };
        let tunables: &[(&str, i64)] = match to {
            "mq-deadline" => &[
                ("read_expire", 500),
                ("write_expire", 5000),
                ("fifo_batch", 16),
                ("writes_starved", 2),
                ("front_merges", 1),
                ("async_depth", 0),
                ("prio_aging_expire", 10_000),
            ],
            "kyber" => &[("read_lat_nsec", 2_000_000), ("write_lat_nsec", 10_000_000)],
            "bfq" => &[
                ("slice_idle_us", 8000),
                ("low_latency", 1),
                ("timeout_sync", 124),
                ("max_budget", 0),
                ("strict_guarantees", 0),
                ("fifo_expire_sync", 125),
                ("fifo_expire_async", 250),
                ("back_seek_max", 16_384),
                ("back_seek_penalty", 2),
            ],
            _ => &[],
        };
        self.tunables = tunables.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        self.follow();
        self.throttle = match (to, self.throttle) {
            ("bfq", Throttle::OnDefault) => Throttle::OffDefault,
            ("bfq", other) => other,
            (_, Throttle::OffDefault) => Throttle::OnDefault,
            (_, other) => other,
        };
    }

    /// `async_depth` is set to `nr_requests` with it.
    fn follow(&mut self) {
        if let Some(depth) = self.tunables.get_mut("async_depth") {
            *depth = self.nr_requests;
        }
    }

    fn read(&self, name: &str) -> Option<String> {
        let number = match name {
            "queue/scheduler" => {
                let one = |name: &str| if name == self.scheduler { format!("[{name}]") } else { name.to_owned() };
                return Some(["none", "mq-deadline", "kyber", "bfq"].map(one).join(" "));
            }
            "device/serial" => return Some(self.serial.clone()),
            "queue/nr_requests" => self.nr_requests,
            "queue/max_sectors_kb" => self.max_sectors_kb,
            "queue/max_hw_sectors_kb" => self.max_hw_sectors_kb,
            "queue/read_ahead_kb" => self.read_ahead_kb,
            "queue/nomerges" => self.nomerges,
            "queue/rq_affinity" => self.rq_affinity,
            "queue/rotational" => i64::from(self.rotational),
            "queue/logical_block_size" => 512,
            "queue/optimal_io_size" => 0,
            "removable" => i64::from(self.is_removable),
            "queue/wbt_lat_usec" if self.throttle == Throttle::OffDefault => 0,
            "queue/wbt_lat_usec" => self.wbt_lat_usec,
            "mq/0/nr_tags" => self.tags,
            "size" => 2_097_152,
            "dev" => return Some("8:0".to_owned()),
            "diskseq" => self.sequence as i64,
            "queue/iosched/slice_idle" => self.tunables.get("slice_idle_us")? / 1000,
            _ => *self.tunables.get(name.strip_prefix("queue/iosched/")?)?,
        };
        Some(number.to_string())
    }

    fn write(&mut self, name: &str, value: &str) -> Result<(), i32> {
        if name == "queue/scheduler" {
            let offered = ["none", "mq-deadline", "kyber", "bfq"].contains(&value);
            self.switch(if offered { value } else { return Err(EINVAL) });
            return Ok(());
        }
        let number: i64 = value.parse().map_err(|_| EINVAL)?;
        match name {
            "queue/nr_requests" => self.resize(number)?,
            "queue/max_sectors_kb" => self.limit(number)?,
            "queue/read_ahead_kb" => self.read_ahead_kb = number / 4 * 4,
            "queue/nomerges" => self.nomerges = if number == 2 { 2 } else { number.min(1) },
            "queue/rq_affinity" => self.rq_affinity = if number == 2 { 2 } else { number.min(1) },
            "queue/wbt_lat_usec" => self.throttle(number)?,
            _ => self.tune(name.strip_prefix("queue/iosched/").ok_or(EACCES)?, number)?,
        }
        Ok(())
    }

    fn resize(&mut self, number: i64) -> Result<(), i32> {
        let number = number.max(4);
        if number == self.nr_requests {
            return Ok(());
        }
        if self.scheduler == "none" {
            if number > self.tags {
                return Err(EINVAL);
            }
            self.tags_in_use = number;
        } else if number > 2048 {
            return Err(EINVAL);
        }
        self.nr_requests = number;
        self.follow();
        Ok(())
    }

    fn limit(&mut self, number: i64) -> Result<(), i32> {
        if number != 0 && number < 4 {
            return Err(EINVAL);
        }
        self.max_user_sectors_kb = number;
        self.max_sectors_kb = if number == 0 { self.max_hw_sectors_kb.min(1280) } else { number.min(self.max_hw_sectors_kb) };
        self.read_ahead_kb = if self.rotational { 2 * self.max_hw_sectors_kb } else { 128 };
        Ok(())
    }

    fn throttle(&mut self, number: i64) -> Result<(), i32> {
        let number = match number {
            ..-1 => return Err(EINVAL),
            -1 if self.rotational => 75_000,
            -1 => 2_000,
            other => other,
        };
        if number != self.wbt_lat_usec {
            self.wbt_lat_usec = number;
            self.throttle = if number > 0 { Throttle::OnManual } else { Throttle::OffManual };
        }
        Ok(())
    }

    fn tune(&mut self, name: &str, number: i64) -> Result<(), i32> {
        if name == "slice_idle" {
            return self.tune("slice_idle_us", 1000 * number);
        }
        let before = *self.tunables.get(name).ok_or(ENOENT)?;
        let number = match name {
            "read_expire" | "write_expire" | "prio_aging_expire" | "timeout_sync" => (number + 3) / 4 * 4,
            "low_latency" | "strict_guarantees" | "front_merges" => number.min(1),
            "back_seek_penalty" => number.max(1),
            _ => number,
        };
        if name == "strict_guarantees" && before == 0 && number == 1 && self.tunables["slice_idle_us"] < 8000 {
            self.tunables.insert("slice_idle_us".to_owned(), 8000);
        }
        self.tunables.insert(name.to_owned(), number);
        Ok(())
    }
}

/// A cgroup with a controller `io`; only lines that differ from the kernel's defaults are there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cgroup {
    pub inode: u64,
    /// By the file's name and the device's number.
    pub lines: BTreeMap<(&'static str, String), String>,
    /// `io` in `cgroup.subtree_control`, without which those below have no such files.
    pub enables_io: bool,
}

/// The mount of the unified hierarchy.
const CGROUPS: &str = "/sys/fs/cgroup";
/// The files of a cgroup, with whether it is the root's, and the value without a line.
const CGROUP_FILES: [(&str, bool, &str); 4] = [
    ("io.max", false, "rbps=max wbps=max riops=max wiops=max"),
    ("io.weight", false, "default"),
    ("io.bfq.weight", false, "default"),
    ("io.cost.qos", true, "enable=0 ctrl=auto rpct=0.00 rlat=250000 wpct=0.00 wlat=250000 min=1.00 max=10000.00"),
];

impl Cgroup {
    fn read(&self, file: &str, is_root: bool, has_io: bool) -> Option<String> {
        if file == "cgroup.controllers" || file == "cgroup.subtree_control" {
            let io = if file == "cgroup.controllers" { has_io } else { self.enables_io };
            return Some(if io { "cpu io memory".to_owned() } else { "cpu memory".to_owned() });
        }
        CGROUP_FILES.iter().find(|(name, of_root, _)| *name == file && *of_root == is_root && has_io)?;
        let head = file.ends_with("weight").then(|| "default 100".to_owned());
        let lines = self.lines.iter().filter(|((name, _), _)| *name == file).map(|((_, number), line)| format!("{number} {line}"));
        Some(head.into_iter().chain(lines).collect::<Vec<_>>().join("\n"))
    }

    fn write(&mut self, file: &str, text: &str) -> Result<(), i32> {
        let (name, _, default) = *CGROUP_FILES.iter().find(|(name, _, _)| *name == file).ok_or(EACCES)?;
        let (number, given) = text.split_once(' ').ok_or(EINVAL)?;
        let key = (name, number.to_owned());
        let now = self.lines.get(&key).map_or(default, String::as_str);
        let value = match given.split_once('=') {
            None => given.to_owned(),
            // Keys that are not given stay; a choice of one's own is one by hand.
            Some(_) => {
                let pair = |word: &str| {
                    let (key, _) = word.split_once('=').unwrap();
                    let of_key = given.split(' ').rfind(|word| word.split_once('=').is_some_and(|(name, _)| name == key));
                    of_key.unwrap_or(word).to_owned()
                };
                now.split(' ').map(pair).collect::<Vec<_>>().join(" ")
            }
        };
        // What is as without a line has none, except for io.cost, which stays once it was there.
        if value == default && !name.starts_with("io.cost") {
            self.lines.remove(&key)
        } else {
            self.lines.insert(key, value)
        };
        Ok(())
    }
}

/// The fault.
#[derive(Clone, Debug, Default)]
pub enum Fault {
    #[default]
    Nothing,
    /// The process is killed just before this write takes effect.
    KilledBefore(usize),
    /// The process is killed in this write: a file is written in half, everything else takes effect.
    KilledIn(usize),
    /// This write fails, once.
    Fails(usize, i32),
    /// From this write on there is no room for a file's content.
    Full(usize),
    /// The kernel's settings cannot be written.
    Forbidden(i32),
    /// The disk itself cannot be opened.
    Unreadable(i32),
    /// The disk is pulled out before this operation.
    Unplugged(usize),
    /// Before this operation, reading included, an external program writes this value to this file of the disk `sda`; of a cgroup, if the name
    /// begins with a slash.
    Rival(usize, &'static str, &'static str),
    /// Before this operation this cgroup is removed.
    CgroupRemoved(usize, &'static str),
}

#[derive(Default)]
struct Inner {
    boot: u32,
    disks: BTreeMap<String, Disk>,
    vm: BTreeMap<String, i64>,
    cgroups: BTreeMap<String, Cgroup>,
    /// Cgroups that were made so far.
    inodes: u64,
    files: BTreeMap<PathBuf, Vec<u8>>,
    folders: BTreeSet<PathBuf>,
    /// Files whose content is not yet on the disk.
    unsynced: BTreeSet<PathBuf>,
    /// The contents after a power failure.
    durable: BTreeMap<PathBuf, Vec<u8>>,
    /// Attributes written before their originals were on disk.
    too_early: Vec<String>,
    /// Devices of which pages were read at once, by how many.
    read: Vec<(PathBuf, u32)>,
}

/// The machine: the state that survives the death of a process.
#[derive(Clone, Default)]
pub struct Machine(Arc<Mutex<Inner>>);

impl Machine {
    /// With the disk `sda`.
    pub fn new() -> Machine {
        let machine = Machine::default();
        let vm = [
            ("swappiness", 60),
            ("vfs_cache_pressure", 100),
            ("dirty_ratio", 20),
            ("dirty_bytes", 0),
            ("dirty_background_ratio", 10),
            ("dirty_background_bytes", 0),
            ("dirty_expire_centisecs", 3000),
            ("dirty_writeback_centisecs", 500),
        ];
        machine.inner().vm = vm.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
        machine.inner().disks.insert("sda".to_owned(), Disk::new("S1", 1));
        machine
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    pub fn disk(&self) -> Disk {
        self.inner().disks["sda"].clone()
    }

    pub fn vm(&self) -> BTreeMap<String, i64> {
        self.inner().vm.clone()
    }

    /// An administrator's write in a shell.
    pub fn echo(&self, value: &str, name: &str) {
        if let Some((cgroup, file)) = name.strip_prefix('/').and_then(|_| name.rsplit_once('/')) {
            self.inner().cgroups.get_mut(of_root(cgroup)).unwrap().write(file, value).unwrap();
            return;
        }
        match name.strip_prefix("vm/") {
            Some(name) => set_vm(&mut self.inner().vm, name, value).unwrap(),
            None => self.inner().disks.get_mut("sda").unwrap().write(&format!("queue/{name}"), value).unwrap(),
        }
    }

    /// Whether the kernel takes it.
    pub fn try_echo(&self, value: &str, name: &str) -> bool {
        self.inner().disks.get_mut("sda").unwrap().write(&format!("queue/{name}"), value).is_ok()
    }

    pub fn cat(&self, name: &str) -> String {
        self.disk().read(&format!("queue/{name}")).unwrap()
    }

    /// All settings are the kernel's defaults; files stay.
    pub fn reboot(&self) {
        let fresh = Machine::new();
        let mut inner = self.inner();
        inner.boot += 1;
        inner.vm = fresh.vm();
        inner.disks = BTreeMap::from([("sda".to_owned(), fresh.disk())]);
        inner.cgroups.clear();
    }

    /// Makes a cgroup, and those above it, with the controller `io`, as service managers do.
    pub fn make_cgroup(&self, path: &str) {
        let mut inner = self.inner();
        let above = path.match_indices('/').map(|(at, _)| of_root(&path[..at]).to_owned()).chain([path.to_owned()]);
        for path in above {
            inner.inodes += 1;
            let inode = inner.inodes;
            inner.cgroups.entry(path).or_insert_with(|| Cgroup { inode, enables_io: true, ..Cgroup::default() });
        }
    }

    pub fn remove_cgroup(&self, path: &str) {
        self.inner().cgroups.remove(path);
    }

    /// Whether the cgroups below this one have the controller.
    pub fn enable_io(&self, path: &str, is_enabled: bool) {
        self.inner().cgroups.get_mut(path).unwrap().enables_io = is_enabled;
    }

    pub fn cgroups(&self) -> BTreeMap<String, Cgroup> {
        self.inner().cgroups.clone()
    }

    pub fn unplug(&self) {
        self.inner().disks.clear();
    }

    pub fn plug(&self, disk: Disk) {
        self.inner().disks.insert("sda".to_owned(), disk);
    }

    /// The journal's files, by name.
    pub fn journal(&self) -> BTreeMap<String, Vec<u8>> {
        let name = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        self.inner().files.iter().map(|(path, bytes)| (name(path), bytes.clone())).collect()
    }

    pub fn damage(&self, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
        change(self.inner().files.iter_mut().find(|(path, _)| path.ends_with(name)).unwrap().1);
    }

    /// Attributes written before their originals were on disk.
    pub fn too_early(&self) -> Vec<String> {
        self.inner().too_early.clone()
    }

    /// Devices of which pages were read at once, and by how many.
    pub fn read(&self) -> Vec<(PathBuf, u32)> {
        self.inner().read.clone()
    }

    /// The files as a process sees them to which this happens; and how many writes and operations it has made.
    pub fn process(&self, fault: Fault) -> (Process, Count) {
        let count = Count::default();
        (Process { machine: self.clone(), fault, count: count.clone() }, count)
    }
}

/// How many writes, and how many operations in all.
#[derive(Clone, Default)]
pub struct Count(Arc<Mutex<(usize, usize)>>);

impl Count {
    pub fn writes(&self) -> usize {
        self.0.lock().unwrap().0
    }

    pub fn operations(&self) -> usize {
        self.0.lock().unwrap().1
    }
}

/// A process's view of the machine.
pub struct Process {
    machine: Machine,
    fault: Fault,
    count: Count,
}

/// The result of a write.
enum Fate {
    Done,
    Half,
}

fn error(number: i32) -> io::Error {
    io::Error::from_raw_os_error(number)
}

impl Process {
    /// Every operation goes through here.
    fn operation(&self) -> io::Result<()> {
        let mut count = self.count.0.lock().unwrap();
        count.1 += 1;
        match self.fault {
            Fault::KilledBefore(at) | Fault::KilledIn(at) if count.0 >= at => Err(io::Error::other("killed")),
            Fault::Unplugged(at) if count.1 == at => {
                self.machine.unplug();
                Ok(())
            }
            Fault::Rival(at, name, value) if count.1 == at => {
                self.machine.echo(value, name);
                Ok(())
            }
            Fault::CgroupRemoved(at, path) if count.1 == at => {
                self.machine.remove_cgroup(path);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Every write goes through here.
    fn write_operation(&self) -> io::Result<Fate> {
        self.operation()?;
        let mut count = self.count.0.lock().unwrap();
        count.0 += 1;
        match self.fault {
            Fault::KilledBefore(at) if count.0 == at => Err(io::Error::other("killed")),
            Fault::KilledIn(at) if count.0 == at => Ok(Fate::Half),
            Fault::Fails(at, number) if count.0 == at => Err(error(number)),
            _ => Ok(Fate::Done),
        }
    }
}

/// The device's name and the path below it.
fn of_disk(path: &Path) -> Option<(&str, &str)> {
    let text = path.strip_prefix("/sys/block").ok()?.to_str()?;
    Some(text.split_once('/').unwrap_or((text, "")))
}

/// The path of a cgroup, of which that of the root is a slash.
fn of_root(path: &str) -> &str {
    if path.is_empty() { "/" } else { path }
}

/// The cgroup's path and the file in it.
fn of_cgroup(path: &Path) -> Option<(String, String)> {
    let file = path.file_name()?.to_str()?.to_owned();
    let folder = path.parent()?.strip_prefix(CGROUPS).ok()?.to_str()?;
    Some((format!("/{folder}"), file))
}

impl Inner {
    /// Whether the cgroup above it gives it the controller.
    fn has_io(&self, path: &str) -> bool {
        let mut above = path.match_indices('/').map(|(at, _)| of_root(&path[..at]));
        path == "/" || above.all(|above| self.cgroups.get(above).is_some_and(|above| above.enables_io))
    }
}

fn of_vm(path: &Path) -> Option<&str> {
    path.strip_prefix("/proc/sys/vm").ok()?.to_str()
}

fn set_vm(vm: &mut BTreeMap<String, i64>, name: &str, value: &str) -> Result<(), i32> {
    let number: i64 = value.parse().map_err(|_| EINVAL)?;
    if name.ends_with("_bytes") && number < 8192 {
        return Err(EINVAL);
    }
    let counterpart = match name {
        "dirty_ratio" if vm[name] == number => None,
        "dirty_ratio" => Some("dirty_bytes"),
        "dirty_bytes" => Some("dirty_ratio"),
        "dirty_background_ratio" => Some("dirty_background_bytes"),
        "dirty_background_bytes" => Some("dirty_background_ratio"),
        _ => None,
    };
    vm.extend(counterpart.map(|name| (name.to_owned(), 0)));
    *vm.get_mut(name).ok_or(ENOENT)? = number;
    Ok(())
}

impl Files for Process {
    fn read(&self, path: &Path) -> io::Result<String> {
        self.operation()?;
        let inner = self.machine.inner();
        if path.ends_with("boot_id") {
            return Ok(format!("boot-{}", inner.boot));
        }
        if let Some(name) = of_vm(path) {
            return inner.vm.get(name).map(i64::to_string).ok_or_else(|| error(ENOENT));
        }
        if path.ends_with("self/mountinfo") {
            return Ok(format!("41 31 0:38 / {CGROUPS} rw,relatime - cgroup2 cgroup2 rw"));
        }
        if path.ends_with("self/cgroup") {
            return Ok("0::/system.slice/seekwise-applier.service".to_owned());
        }
        if let Some((cgroup, file)) = of_cgroup(path) {
            let read = inner.cgroups.get(&cgroup).and_then(|found| found.read(&file, cgroup == "/", inner.has_io(&cgroup)));
            return read.ok_or_else(|| error(ENOENT));
        }
        let (device, name) = of_disk(path).ok_or_else(|| error(ENOENT))?;
        inner.disks.get(device).and_then(|disk| disk.read(name)).ok_or_else(|| error(ENOENT))
    }

    fn bytes(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.operation()?;
        self.machine.inner().files.get(path).cloned().ok_or_else(|| error(ENOENT))
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        self.operation()?;
        let inner = self.machine.inner();
        if let Some((device, _)) = of_disk(folder) {
            return inner.disks.get(device).map(|_| vec!["queue".to_owned()]).ok_or_else(|| error(ENOENT));
        }
        if !inner.folders.contains(folder) {
            return Err(error(ENOENT));
        }
        let names = inner.files.keys().filter(|path| path.parent() == Some(folder));
        Ok(names.map(|path| path.file_name().unwrap().to_str().unwrap().to_owned()).collect())
    }

    fn make_folder(&mut self, folder: &Path) -> io::Result<()> {
        self.write_operation()?;
        self.machine.inner().folders.insert(folder.to_owned());
        Ok(())
    }

    fn write(&mut self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let fate = self.write_operation()?;
        if matches!(self.fault, Fault::Full(at) if self.count.writes() >= at) {
            return Err(error(ENOSPC));
        }
        let kept = if matches!(fate, Fate::Half) { bytes.len() / 2 } else { bytes.len() };
        let mut inner = self.machine.inner();
        inner.files.insert(path.to_owned(), bytes[..kept].to_vec());
        inner.unsynced.insert(path.to_owned());
        Ok(())
    }

    fn sync(&mut self, path: &Path) -> io::Result<()> {
        self.write_operation()?;
        let mut inner = self.machine.inner();
        inner.unsynced.remove(path);
        // A folder's names, each with as much of its content as is there.
        if inner.folders.contains(path) {
            let there: Vec<_> = inner.files.iter().filter(|(file, _)| file.parent() == Some(path)).collect();
            let there = there.into_iter().map(|(file, bytes)| (file.clone(), bytes.clone()));
            inner.durable = there.filter(|(file, _)| !inner.unsynced.contains(file)).collect();
        }
        Ok(())
    }

    fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        self.write_operation()?;
        let mut inner = self.machine.inner();
        let bytes = inner.files.remove(from).ok_or_else(|| error(ENOENT))?;
        if inner.unsynced.remove(from) {
            inner.unsynced.insert(to.to_owned());
        } else {
            inner.unsynced.remove(to);
        }
        inner.files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn remove(&mut self, path: &Path) -> io::Result<()> {
        self.write_operation()?;
        let mut inner = self.machine.inner();
        inner.files.remove(path).ok_or_else(|| error(ENOENT))?;
        Ok(())
    }

    fn set(&mut self, path: &Path, value: &str) -> io::Result<Duration> {
        if let Fault::Forbidden(number) = self.fault {
            return Err(error(number));
        }
        self.write_operation()?;
        let mut inner = self.machine.inner();
        let attribute = path.strip_prefix("/proc/sys").ok().or_else(|| path.strip_prefix("/sys/block/sda/queue").ok());
        let of_cgroup = of_cgroup(path);
        let record = match (&of_cgroup, attribute) {
            (Some((_, file)), _) => format!("\"attribute\":\"{file} sda\""),
            (None, attribute) => format!("\"attribute\":\"{}\"", attribute.unwrap().display()),
        };
        if !inner.durable.values().any(|bytes| String::from_utf8_lossy(bytes).contains(&record)) {
            inner.too_early.push(record);
        }
        if let Some((cgroup, file)) = of_cgroup {
            let has_io = inner.has_io(&cgroup);
            let found = inner.cgroups.get_mut(&cgroup).filter(|found| found.read(&file, cgroup == "/", has_io).is_some());
            return found.ok_or_else(|| error(ENOENT))?.write(&file, value).map(|()| Duration::ZERO).map_err(error);
        }
        if let Some(name) = of_vm(path) {
            return set_vm(&mut inner.vm, name, value).map(|()| Duration::ZERO).map_err(error);
        }
        let (device, name) = of_disk(path).ok_or_else(|| error(ENOENT))?;
        let disk = inner.disks.get_mut(device).ok_or_else(|| error(ENOENT))?;
        disk.read(name).ok_or_else(|| error(ENOENT))?;
        disk.write(name, value).map_err(error)?;
        Ok(if name == "queue/scheduler" { SWITCH } else { Duration::from_micros(20) })
    }

    fn folder_number(&self, root: &Path, below: &str) -> io::Result<u64> {
        self.operation()?;
        if let Some((device, _)) = of_disk(root) {
            return self.machine.inner().disks.get(device).map(|disk| disk.folder).ok_or_else(|| error(ENOENT));
        }
        self.machine.inner().cgroups.get(&format!("/{below}")).map(|found| found.inode).ok_or_else(|| error(ENOENT))
    }

    fn may_set(&self, path: &Path) -> io::Result<()> {
        match self.fault {
            Fault::Forbidden(number) => Err(error(number)),
            _ => self.read(path).map(drop),
        }
    }

    fn read_at_once(&self, device: &Path, readers: u32, _wait: Duration) -> io::Result<()> {
        self.operation()?;
        if let Fault::Unreadable(number) = self.fault {
            return Err(error(number));
        }
        self.machine.inner().read.push((device.to_owned(), readers));
        Ok(())
    }
}
