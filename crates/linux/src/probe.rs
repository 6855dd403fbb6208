//! Probes of a real device. They read the device, and write only to a scratch file, which is unnamed and thus removed with the process,
//! however that ends.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use block::{Nanos, Op};
use experiment::iocost::{Asked, Order, Place, Places, Probe, Prober, Requests, Sample};
use progress::Monitor;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, major, minor, statvfs};
use testbed::chance;

use crate::topology::{self, Device};
use applier::cgroup::Hierarchy;
use applier::sysfs::{RealFiles, Sysfs};

/// Alignment of memory and of requests, accepted by every device for direct I/O.
const ALIGNED: usize = 4_096;
/// Size of the requests that fill the scratch file.
const FILL: usize = 1 << 20;
const SECTOR: u64 = 512;
/// Interval between sequential requests on a rotational disk, so that they reach the kernel in order although each is from another thread:
/// out of order, an emulated 7,200 rpm drive read 1,140 requests of 4 KiB per second, and 22,700 in order from one process (fio).
const PACE: Duration = Duration::from_micros(20);
/// The filesystem must have this many times the size of the scratch file free.
const ROOM: u64 = 2;

/// A device with a scratch file on it.
pub struct RealDevice<'a> {
    name: String,
    is_rotational: bool,
    stat: PathBuf,
    device: File,
    file: File,
    places: Places,
    monitor: &'a dyn Monitor,
    samples: u32,
    /// Data to write: random, so that no controller can compress it.
    data: Vec<u8>,
    /// Sectors transferred by probes, and by the device in total during these.
    sectors: (u64, u64),
    /// The folder of the scratch file.
    pub folder: PathBuf,
}

impl<'a> RealDevice<'a> {
    /// Creates and fills a scratch file of this size in bytes, in the given folder, or on the filesystem of the device with the most free
    /// space.
    ///
    /// # Errors
    /// The device may not be read, the folder is on another device, there is too little space, io.cost is enabled, or it was interrupted.
    pub fn open(
        sysfs: &Sysfs,
        device: &Device,
        folder: Option<&Path>,
        bytes: u64,
        monitor: &'a dyn Monitor,
    ) -> anyhow::Result<RealDevice<'a>> {
        let name = device.name.clone();
        expect_no_iocost(sysfs, device)?;
        let folder = match folder {
            Some(folder) => {
                let about = folder.metadata().with_context(|| folder.display().to_string())?;
                let queue = topology::queue_of(sysfs, (major(about.dev()), minor(about.dev())));
                let queue = queue.map_err(|why| anyhow::anyhow!("{}: {why}", folder.display()))?;
                anyhow::ensure!(queue == name, "{}: is on {queue}, not on {name}", folder.display());
                folder.to_owned()
            }
            None => roomiest(sysfs, &name)?,
        };
        let free = room(&folder)?;
        if free < ROOM * bytes {
            bail!(
                "{}: has {} MiB of room; a scratch file of {} MiB is made only where there is twice as much (--size makes it smaller)",
                folder.display(),
                free >> 20,
                bytes >> 20
            );
        }
        let path = sysfs.dev().join(name.replace('!', "/"));
        let direct = OFlags::DIRECT.bits().cast_signed();
        let opened = OpenOptions::new().read(true).custom_flags(direct).open(&path);
        let opened = opened.with_context(|| format!("{}: cannot be read; probing requires root", path.display()))?;
        let created = tempfile::tempfile_in(&folder).and_then(|file| {
            fcntl_setfl(&file, fcntl_getfl(&file)? | OFlags::DIRECT)?;
            Ok(file)
        });
        let file = created.with_context(|| format!("{}: cannot create a file for direct I/O there", folder.display()))?;
        let mut data = vec![0; FILL];
        chance::fill(&mut chance::source("iocost-data", 0, 0), &mut data);
        let places = Places { device: device.size_sectors, file: bytes / SECTOR };
        let stat = sysfs.block(&name).join("stat");
        let mut real = RealDevice {
            name,
            is_rotational: device.rotational,
            stat,
            device: opened,
            file,
            places,
            monitor,
            samples: 0,
            data,
            sectors: (0, 0),
            folder,
        };
        real.fill(bytes)?;
        Ok(real)
    }

    /// Fills the scratch file: reads of holes would not reach the disk, and writes to them would allocate blocks.
    fn fill(&mut self, bytes: u64) -> anyhow::Result<()> {
        self.monitor.begin(bytes / FILL as u64, "writing the scratch file");
        let mut buffer = Buffer::new(FILL);
        buffer.bytes().copy_from_slice(&self.data);
        for at in 0..bytes / FILL as u64 {
            let written = self.file.write_all_at(buffer.bytes(), at * FILL as u64);
            written.with_context(|| format!("{}: scratch file", self.folder.display()))?;
            self.monitor.progress(at + 1);
            self.monitor.check()?;
        }
        self.file.sync_all()?;
        self.monitor.end();
        Ok(())
    }

    /// Share of the device's transfers during probes that were not from probes, in percent.
    pub fn foreign_percent(&self) -> f64 {
        let (own, all) = self.sectors;
        100.0 * all.saturating_sub(own) as f64 / all.max(1) as f64
    }

    /// Sectors that the device has read and written so far; `None` if unknown.
    fn transferred(&self) -> Option<u64> {
        let text = fs::read_to_string(&self.stat).ok()?;
        let fields: Vec<u64> = text.split_whitespace().map_while(|field| field.parse().ok()).collect();
        Some(fields.get(2)? + fields.get(6)?)
    }

    /// A process that has one request outstanding at a time. Returns the latencies.
    fn ask(&self, probe: &Probe, queue: &Mutex<Queue>) -> io::Result<Vec<Nanos>> {
        let length = probe.sectors as usize * SECTOR as usize;
        let (mut buffer, mut latencies) = (Buffer::new(length), Vec::new());
        buffer.bytes().copy_from_slice(&self.data[..length]);
        let pace = if self.is_rotational && probe.order == Order::Sequential { PACE } else { Duration::ZERO };
        let file = if probe.place == Place::Device { &self.device } else { &self.file };
        while self.monitor.check().is_ok() {
            let Some(asked) = queue.lock().unwrap_or_else(PoisonError::into_inner).take(pace) else { break };
            let (began, at) = (Instant::now(), asked.sector * SECTOR);
            match asked.op {
                Op::Read => file.read_exact_at(buffer.bytes(), at)?,
                _ => self.file.write_all_at(buffer.bytes(), at)?,
            }
            latencies.push(between(began, Instant::now()));
        }
        Ok(latencies)
    }
}

impl Prober for RealDevice<'_> {
    fn run(&mut self, probe: &Probe, count: u64, round: usize) -> anyhow::Result<Sample> {
        let before = self.transferred();
        let began = Instant::now();
        let requests = probe.requests(count, self.places, (0, self.samples), round);
        let queue = Mutex::new(Queue { requests, last: began });
        self.samples += 1;
        let asked = std::thread::scope(|scope| {
            let processes: Vec<_> = (0..probe.depth).map(|_| scope.spawn(|| self.ask(probe, &queue))).collect();
            processes.into_iter().map(|process| process.join().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))).collect()
        });
        let asked: io::Result<Vec<Vec<Nanos>>> = asked;
        self.monitor.check()?;
        let latencies = asked.with_context(|| format!("{}: a request of a probe failed", self.name))?.concat();
        if probe.read_percent < 100 {
            self.file.sync_data().with_context(|| format!("{}: a flush failed", self.name))?;
        }
        let last = queue.into_inner().unwrap_or_else(PoisonError::into_inner).last;
        let mut sample = Sample { latencies, ..Sample::default() };
        sample.close(probe, count, between(began, last), between(began, Instant::now()));
        if let (Some(before), Some(after)) = (before, self.transferred()) {
            self.sectors.0 += count * u64::from(probe.sectors);
            self.sectors.1 += after.saturating_sub(before);
        }
        Ok(sample)
    }
}

fn between(began: Instant, ended: Instant) -> Nanos {
    Nanos(ended.duration_since(began).as_nanos() as u64)
}

/// The requests still to be issued, and the time of the last one.
struct Queue {
    requests: Requests,
    last: Instant,
}

impl Queue {
    /// The next request, at least `pace` after the last one; `None` at the end.
    fn take(&mut self, pace: Duration) -> Option<Asked> {
        let asked = self.requests.next()?;
        while self.last.elapsed() < pace {
            std::hint::spin_loop();
        }
        self.last = Instant::now();
        Some(asked)
    }
}

/// Page-aligned memory.
struct Buffer {
    memory: Vec<u8>,
    begins: usize,
    length: usize,
}

impl Buffer {
    fn new(length: usize) -> Buffer {
        let memory = vec![0; length + ALIGNED];
        let begins = memory.as_ptr().align_offset(ALIGNED).min(ALIGNED);
        Buffer { memory, begins, length }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.begins..self.begins + self.length]
    }
}

/// Free bytes available to this user.
fn room(folder: &Path) -> anyhow::Result<u64> {
    let about = statvfs(folder).with_context(|| folder.display().to_string())?;
    Ok(about.f_bavail.saturating_mul(about.f_frsize))
}

/// The writable folder with the most free space, among the mount points of the filesystems on this device.
fn roomiest(sysfs: &Sysfs, device: &str) -> anyhow::Result<PathBuf> {
    let path = sysfs.proc().join("self/mountinfo");
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let on_it = text.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let (number, place, options) = (fields.get(2)?.split_once(':')?, *fields.get(4)?, *fields.get(5)?);
        let number = (number.0.parse().ok()?, number.1.parse().ok()?);
        let folder = PathBuf::from(unescaped(place));
        let is_usable = options.split(',').any(|option| option == "rw") && folder.is_dir();
        (is_usable && topology::queue_of(sysfs, number).is_ok_and(|queue| queue == device)).then_some(folder)
    });
    let best = on_it.filter_map(|folder| Some((room(&folder).ok()?, folder))).max();
    best.map(|(_, folder)| folder).with_context(|| {
        format!("{device}: no filesystem that may be written to is mounted from it; mount one for the scratch file")
    })
}

/// Decodes a path of `/proc/self/mountinfo`, where spaces and the like are octal.
fn unescaped(place: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(place.to_owned(), |place, (octal, plain)| place.replace(octal, plain))
}

/// Fails if io.cost is enabled, which would slow down probes, so that these would measure its model.
fn expect_no_iocost(sysfs: &Sysfs, device: &Device) -> anyhow::Result<()> {
    let Ok(hierarchy) = Hierarchy::find(&RealFiles, sysfs) else { return Ok(()) };
    let path = hierarchy.mount.join("io.cost.qos");
    let number = format!("{}:{}", device.number.0, device.number.1);
    let is_enabled = |line: &str| line.split(' ').next() == Some(&number) && line.contains(" enable=1");
    if fs::read_to_string(&path).is_ok_and(|text| text.lines().any(is_enabled)) {
        bail!(
            "{}: io.cost is enabled, so that probes would measure its model; disable it meanwhile: echo '{number} enable=0' > {}",
            device.name,
            path.display()
        );
    }
    Ok(())
}
