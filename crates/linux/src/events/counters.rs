//! The kernel's counters of a device, for use without events (Linux `Documentation/block/stat.rst`).

use std::fs;
use std::path::{Path, PathBuf};

use block::Nanos;
use observe::counters::{Done, Rates, Sample};

use super::ObserveError;
use applier::sysfs::Sysfs;

/// The counters of one device.
#[derive(Debug)]
pub struct Counters {
    device: String,
    stat: PathBuf,
    diskstats: PathBuf,
    last: Sample,
}

impl Counters {
    /// Starts counting for a device, or for a partition such as `sda/sda1`.
    ///
    /// # Errors
    /// There is no such device, or its counters are disabled.
    pub fn open(sysfs: &Sysfs, device: &str, now: Nanos) -> Result<Counters, ObserveError> {
        let folder = sysfs.block(device);
        let switch = folder.join("queue/iostats");
        if fs::read_to_string(&switch).is_ok_and(|text| text.trim() == "0") {
            return Err(ObserveError::unknown(&switch, "is 0: the kernel does not count this device's requests; write 1 to it"));
        }
        let diskstats = sysfs.proc().join("diskstats");
        let mut counters = Counters { device: device.to_owned(), stat: folder.join("stat"), diskstats, last: Sample::default() };
        counters.last = counters.sample(now)?;
        Ok(counters)
    }

    /// The rates since the last call.
    ///
    /// # Errors
    /// The device is gone.
    pub fn read(&mut self, now: Nanos) -> Result<Rates, ObserveError> {
        let sample = self.sample(now)?;
        Ok(sample.since(&std::mem::replace(&mut self.last, sample)))
    }

    /// The latest sample.
    pub fn last(&self) -> &Sample {
        &self.last
    }

    fn sample(&self, now: Nanos) -> Result<Sample, ObserveError> {
        let (path, text) = match fs::read_to_string(&self.stat) {
            Ok(text) => (&self.stat, Some(text)),
            Err(_) => (&self.diskstats, self.line_of_diskstats()?),
        };
        let Some(text) = text else { return Err(ObserveError::Gone { device: self.device.clone() }) };
        parsed(&text, now).ok_or_else(|| ObserveError::unknown(path, format!("is {}, not 11 numbers or more", text.trim())))
    }

    /// The same counters from `/proc/diskstats`, if sysfs is hidden: after major, minor and name. `None` if the device is missing.
    fn line_of_diskstats(&self) -> Result<Option<String>, ObserveError> {
        let path: &Path = &self.diskstats;
        let text = fs::read_to_string(path).map_err(|error| ObserveError::io(path, error))?;
        let name = self.device.rsplit('/').next();
        Ok(text.lines().find_map(|line| {
            let mut words = line.split_whitespace();
            (words.nth(2) == name).then(|| words.collect::<Vec<_>>().join(" "))
        }))
    }
}

/// Parses a device's file `stat`; `None` if it is malformed.
fn parsed(text: &str, at: Nanos) -> Option<Sample> {
    let mut numbers = [0; 17];
    let mut found = 0;
    for (number, word) in numbers.iter_mut().zip(text.split_whitespace()) {
        *number = word.parse().ok()?;
        found += 1;
    }
    let done = |from: usize| {
        let [requests, merged, sectors, waited_ms] = [0, 1, 2, 3].map(|place| numbers[from + place]);
        Done { requests, merged, sectors, waited: Nanos::from_millis(waited_ms) }
    };
    let flush = Done { requests: numbers[15], waited: Nanos::from_millis(numbers[16]), ..Done::default() };
    let (under_way, busy) = (numbers[8], Nanos::from_millis(numbers[9]));
    (found >= 11).then(|| Sample { at, read: done(0), write: done(4), discard: done(11), flush, under_way, busy })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with one disk that has these counters.
    fn machine(stat: &str) -> (tempfile::TempDir, Sysfs) {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("sys/block/sda/queue")).unwrap();
        fs::create_dir_all(root.path().join("proc")).unwrap();
        fs::write(root.path().join("sys/block/sda/stat"), stat).unwrap();
        fs::write(root.path().join("proc/diskstats"), "").unwrap();
        let sysfs = Sysfs::at(root.path());
        (root, sysfs)
    }

    const BEFORE: &str = "100 10 2000 300 50 0 400 1000 0 900 1300 0 0 0 0 5 20\n";
    const AFTER: &str = "300 110 6000 900 150 0 1200 3000 4 1400 3900 2 0 64 10 7 50\n";

    #[test]
    fn rates_and_means_are_of_the_time_between_two_looks() {
        let (root, sysfs) = machine(BEFORE);
        let mut counters = Counters::open(&sysfs, "sda", Nanos::from_millis(1_000)).unwrap();
        fs::write(root.path().join("sys/block/sda/stat"), AFTER).unwrap();
        let rates = counters.read(Nanos::from_millis(3_000)).unwrap();
        assert_eq!(rates.read.requests_per_s, 100.0);
        assert_eq!(rates.read.mb_per_s, 4_000.0 * 512.0 / 2.0 / 1e6);
        assert_eq!(rates.read.merged_share, 100.0 / 300.0);
        assert_eq!(rates.read.mean_bytes, Some(20.0 * 512.0));
        assert_eq!(rates.read.mean_response, Some(Nanos::from_millis(3)));
        assert_eq!(rates.write.mean_response, Some(Nanos::from_millis(20)));
        assert_eq!((rates.discard.requests_per_s, rates.flush.mean_response), (1.0, Some(Nanos::from_millis(15))));
        // 600 + 2000 + 10 + 30 ms of waiting in 2 s.
        assert_eq!((rates.mean_under_way, rates.busy_share), (1.32, 0.25));
        assert_eq!(counters.last().under_way, 4);
    }

    #[test]
    fn an_old_kernel_counts_neither_discards_nor_flushes() {
        let (_root, sysfs) = machine("1 2 3 4 5 6 7 8 9 10 11\n");
        let counters = Counters::open(&sysfs, "sda", Nanos::ZERO).unwrap();
        assert_eq!(
            (counters.last().write.requests, counters.last().discard, counters.last().flush),
            (5, Done::default(), Done::default())
        );
    }

    #[test]
    fn where_sysfs_is_hidden_diskstats_says_the_same() {
        let (root, sysfs) = machine(BEFORE);
        let there = Counters::open(&sysfs, "sda", Nanos::ZERO).unwrap();
        fs::remove_file(root.path().join("sys/block/sda/stat")).unwrap();
        fs::write(root.path().join("proc/diskstats"), format!("   7  0 loop0 1 2 3 4 5 6 7 8 9 10 11\n   8  0 sda {BEFORE}"))
            .unwrap();
        let mut hidden = Counters::open(&sysfs, "sda", Nanos::ZERO).unwrap();
        assert_eq!(there.last(), hidden.last());
        fs::write(root.path().join("proc/diskstats"), "").unwrap();
        assert_eq!(hidden.read(Nanos(1)).unwrap_err().to_string(), "sda is gone");
    }

    #[test]
    fn counters_that_were_switched_off_or_are_none_say_so() {
        let (root, sysfs) = machine("7 of 9\n");
        let error = Counters::open(&sysfs, "sda", Nanos::ZERO).unwrap_err().to_string();
        assert!(error.ends_with("sda/stat: is 7 of 9, not 11 numbers or more"), "{error}");
        fs::write(root.path().join("sys/block/sda/queue/iostats"), "0\n").unwrap();
        let error = Counters::open(&sysfs, "sda", Nanos::ZERO).unwrap_err().to_string();
        assert!(error.contains("queue/iostats: is 0: the kernel does not count"), "{error}");
    }
}
