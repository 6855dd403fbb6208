//! The event source without request events: samples of counters, and properties from sysfs.

use std::fs;
use std::os::fd::BorrowedFd;

use block::{Limits, Merges, Nanos, StreamId};
use control::target::Bounds;
use observe::Event;
use observe::counters::Sample;
use twin::counters::Known;

use super::{Counters, EventSource, ObserveError};
use crate::clock::monotonic;
use crate::topology::{Device, DriverKind};
use applier::attribute::{MAX_SECTORS, NR_REQUESTS, State};
use applier::sysfs::{RealFiles, Sysfs};

/// The reason if counters were chosen by the user.
pub const ASKED_FOR: &str = "it is asked for counters alone";
/// Interval between samples.
pub const SAMPLED: Nanos = Nanos(1_000_000_000);
/// The limits of counters, as the end of a sentence.
pub const CANNOT_KNOW: &str =
    "counters tell neither streams, nor their order, nor the slowest requests, so advice rests on hypotheses that count alike";

/// The source of data without request events.
#[derive(Clone, Debug, PartialEq)]
pub struct CountersOnly {
    /// Why there are no events.
    pub why: String,
    /// Properties of the device from sysfs.
    pub known: Known,
}

/// Samples a device's counters; has no request events.
#[derive(Debug)]
pub struct CounterSource {
    blind: CountersOnly,
    counters: Counters,
    fresh: Vec<Sample>,
    next: Nanos,
}

impl CounterSource {
    /// Starts sampling. `why`: the reason that there are no request events.
    ///
    /// # Errors
    /// The counters cannot be read.
    pub fn open(sysfs: &Sysfs, device: &Device, why: String) -> Result<CounterSource, ObserveError> {
        let at = monotonic();
        let counters = Counters::open(sysfs, &device.name, at)?;
        let fresh = vec![*counters.last()];
        Ok(CounterSource { blind: CountersOnly { why, known: known(sysfs, device) }, counters, fresh, next: at + SAMPLED })
    }
}

impl EventSource for CounterSource {
    fn read(&mut self, _out: &mut Vec<Event>) -> Result<(), ObserveError> {
        let at = monotonic();
        if at >= self.next {
            self.next = at + SAMPLED;
            self.counters.read(at)?;
            self.fresh.push(*self.counters.last());
        }
        Ok(())
    }

    fn lost(&self) -> u64 {
        0
    }

    fn name(&self, _stream: StreamId) -> Option<&str> {
        None
    }

    fn fds(&self) -> Vec<BorrowedFd<'_>> {
        Vec::new()
    }

    fn counters_only(&self) -> Option<&CountersOnly> {
        Some(&self.blind)
    }

    fn samples(&mut self, out: &mut Vec<Sample>) {
        out.append(&mut self.fresh);
    }
}

/// The properties of a device from sysfs. For devices in front of something unknown to sysfs, such as a file or a hypervisor, they are
/// unknown.
pub fn known(sysfs: &Sysfs, device: &Device) -> Known {
    let state = State::read(&RealFiles, sysfs, &device.name).unwrap_or_default();
    let merges = match state.number("nomerges") {
        Some(2) => Merges::Never,
        Some(1) => Merges::WithLast,
        _ => Merges::All,
    };
    let says = |file: &str| fs::read_to_string(sysfs.block(&device.name).join(file)).ok().map(|text| text.trim().to_owned());
    let is_front = matches!(device.kind, DriverKind::Virtual | DriverKind::Remote | DriverKind::Loop);
    // The flag is never set on flash, but is missing on many rotational disks.
    let rotational = if is_front {
        device.rotational.then_some(true).filter(|_| device.kind == DriverKind::Loop)
    } else {
        Some(device.rotational)
    };
    let of_driver = says("device/queue_depth").and_then(|text| text.parse().ok());
    let tags = state.tags.and_then(|tags| u32::try_from(tags).ok());
    Known {
        bounds: Bounds {
            capacity_sectors: device.size_sectors,
            limits: Limits { max_sectors: state.count(MAX_SECTORS).map_or(Limits::default().max_sectors, |kib| 2 * kib), merges },
            nr_requests: state.count(NR_REQUESTS).unwrap_or(256),
            // Counters do not show read-ahead.
            read_ahead_kib: None,
        },
        rotational,
        depth: of_driver.into_iter().chain(tags).min().filter(|_| !is_front),
        write_cache: says("queue/write_cache").filter(|_| !is_front).map(|text| text == "write back"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;

    #[test]
    fn what_is_known_of_a_disk_is_what_its_queue_says() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join("sys/block/sda").join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = [
            ("dev", "8:0"),
            ("size", "4096"),
            ("ro", "0"),
            ("stat", "1 2 3 4 5 6 7 8 9 10 11"),
            ("queue/scheduler", "none [mq-deadline]"),
            ("queue/rotational", "1"),
            ("queue/nr_requests", "64"),
            ("queue/max_sectors_kb", "512"),
            ("queue/nomerges", "1"),
            ("queue/write_cache", "write back"),
            ("mq/0/nr_tags", "256"),
            ("device/queue_depth", "32"),
        ];
        files.iter().for_each(|(path, text)| write(path, &format!("{text}\n")));
        let sysfs = Sysfs::at(root.path());
        let device = topology::devices(&sysfs).unwrap().remove(0);
        let found = known(&sysfs, &device);
        assert_eq!((found.rotational, found.depth, found.write_cache), (Some(true), Some(32), Some(true)));
        let bounds = found.bounds;
        assert_eq!((bounds.capacity_sectors, bounds.nr_requests, bounds.limits.max_sectors), (4_096, 64, 1_024));
        assert_eq!(bounds.limits.merges, Merges::WithLast);
        let front = Device { kind: DriverKind::Virtual, ..device.clone() };
        let found = known(&sysfs, &front);
        assert_eq!((found.rotational, found.depth, found.write_cache), (None, None, None));
        let mut source = CounterSource::open(&sysfs, &device, "it is tested".to_owned()).unwrap();
        let (mut events, mut samples) = (Vec::new(), Vec::new());
        source.read(&mut events).unwrap();
        source.samples(&mut samples);
        assert!(events.is_empty() && samples.len() == 1 && samples[0].read.requests == 1, "{samples:?}");
    }
}
