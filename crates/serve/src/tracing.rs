//! Recording what a block device is asked, with the kernel's block tracepoints.
//!
//! An instance of tracefs of its own, so that nobody else's tracing is disturbed; taken down at the end, as is the mount if there was none.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::attach::AttachError;

/// Who asked, when the device got it, and when it was done.
const EVENTS: [&str; 3] = ["block_bio_queue", "block_rq_issue", "block_rq_complete"];

/// Of each processor: some 200,000 events.
const BUFFER_KIB: u32 = 32_768;

/// Records one device's requests between [`start`](Recorder::start) and [`stop`](Recorder::stop).
#[derive(Debug)]
pub struct Recorder {
    instance: PathBuf,
    mounted: Option<PathBuf>,
}

impl Recorder {
    /// Gets ready to record this device, as in `loop0`.
    ///
    /// # Errors
    /// There is no such device, or this kernel has no tracefs or forbids it: it wants root.
    pub fn of(device: &str) -> Result<Recorder, AttachError> {
        let number = read(&Path::new("/sys/block").join(device).join("dev"))?;
        let (major, minor) = number.trim().split_once(':').unwrap_or_default();
        let (Ok(major), Ok(minor)) = (major.parse::<u32>(), minor.parse::<u32>()) else {
            return Err(AttachError::new(format_args!("/sys/block/{device}/dev: is {number}, not major:minor")));
        };
        let mounts = read(Path::new("/proc/mounts"))?;
        let found = mounts.lines().find_map(|line| {
            let mut words = line.split(' ');
            let place = words.nth(1)?;
            (words.next()? == "tracefs").then(|| PathBuf::from(place))
        });
        let (tracefs, mounted) = match found {
            Some(tracefs) => (tracefs, None),
            None => {
                let place = std::env::temp_dir().join(format!("seekwise-tracefs-{}", std::process::id()));
                fs::create_dir(&place).map_err(|error| at(&place, &error))?;
                if let Err(error) = mount("tracefs", &place, "tracefs", MountFlags::empty(), None) {
                    // It is empty.
                    let _ = fs::remove_dir(&place);
                    return Err(AttachError::new(format_args!("tracefs cannot be mounted: {error}")));
                }
                (place.clone(), Some(place))
            }
        };
        let instance = tracefs.join("instances").join(format!("seekwise-{}", std::process::id()));
        let made = fs::create_dir(&instance);
        let recorder = Recorder { instance, mounted };
        made.map_err(|error| at(&recorder.instance, &error))?;
        recorder.write("tracing_on", "0")?;
        // One clock for all processors: the requests are put in order by it.
        recorder.write("trace_clock", "mono")?;
        recorder.write("buffer_size_kb", &BUFFER_KIB.to_string())?;
        for event in EVENTS {
            // The kernel's own number: 12 bits of major, 20 of minor.
            recorder.write(&format!("events/block/{event}/filter"), &format!("dev == {}", major << 20 | minor))?;
            recorder.write(&format!("events/block/{event}/enable"), "1")?;
        }
        Ok(recorder)
    }

    /// Forgets what was recorded before, and records.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn start(&self) -> Result<(), AttachError> {
        self.write("trace", "")?;
        self.write("tracing_on", "1")
    }

    /// Stops, and writes what was recorded to a file, in the kernel's text (the trace format `tracefs`).
    ///
    /// # Errors
    /// The file cannot be written, or more happened than the kernel kept.
    pub fn stop(&self, file: &Path) -> Result<(), AttachError> {
        self.write("tracing_on", "0")?;
        let lost = fs::read_dir(self.instance.join("per_cpu")).map_err(|error| at(&self.instance, &error))?;
        for processor in lost.flatten() {
            let stats = read(&processor.path().join("stats"))?;
            let overrun = stats.lines().find_map(|line| line.strip_prefix("overrun: ")).unwrap_or("0");
            if overrun.trim() != "0" {
                return Err(AttachError::new(format_args!("the kernel lost {overrun} events: too much happened at once")));
            }
        }
        let trace = self.instance.join("trace");
        fs::copy(&trace, file).map_err(|error| at(file, &error))?;
        Ok(())
    }

    fn write(&self, name: &str, value: &str) -> Result<(), AttachError> {
        let path = self.instance.join(name);
        fs::write(&path, value).map_err(|error| at(&path, &error))
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // What cannot be taken down stays; nobody is there to be told.
        let _ = fs::remove_dir(&self.instance);
        if let Some(place) = &self.mounted {
            let _ = unmount(place, UnmountFlags::empty());
            let _ = fs::remove_dir(place);
        }
    }
}

fn read(path: &Path) -> Result<String, AttachError> {
    fs::read_to_string(path).map_err(|error| at(path, &error))
}

fn at(path: &Path, error: &std::io::Error) -> AttachError {
    AttachError::new(format_args!("{}: {error}", path.display()))
}
