//! Kernel counters of units, which include requests that the kernel issues on their behalf.
//!
//! With the `io` controller, `io.stat` of a cgroup counts everything transferred on its behalf: by its processes, by write-back of pages
//! that they dirtied (cgroup write-back, which ext4, XFS, btrfs and f2fs support with the `memory` controller), and by the kernel when
//! `io.max` releases requests. The excess over the requests of a unit's own processes was issued by the kernel for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{Cgroups, Unit};

/// Bytes transferred in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Transferred {
    /// Bytes read.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
}

impl Transferred {
    /// The counters of a device (`8:0`) in the text of `io.stat`; `None` if it is missing.
    pub fn of(text: &str, device: &str) -> Option<Transferred> {
        let line = text.lines().find_map(|line| line.strip_prefix(device)?.strip_prefix(' '))?;
        let number = |key: &str| line.split(' ').find_map(|word| word.strip_prefix(key)?.parse().ok());
        Some(Transferred { read: number("rbytes=")?, written: number("wbytes=")? })
    }
}

/// Counters of all units on one device.
pub struct UnitCounters {
    cgroups: Cgroups,
    /// The device in the format of `io.stat`: `8:0`.
    device: String,
    last: BTreeMap<String, Transferred>,
}

impl UnitCounters {
    /// Counters for the device with this major and minor number, starting now.
    pub fn new(cgroups: Cgroups, (major, minor): (u32, u32)) -> UnitCounters {
        let mut counters = UnitCounters { cgroups, device: format!("{major}:{minor}"), last: BTreeMap::new() };
        counters.last = counters.read();
        counters
    }

    /// The bytes transferred for each unit since the last call, without units that have no traffic. Empty without the `io` controller.
    pub fn since(&mut self) -> Vec<(Unit, Transferred)> {
        let now = self.read();
        let last = std::mem::take(&mut self.last);
        // A new unit starts at 0, as do the counters of one that was recreated.
        let since = |path: &String, now: &Transferred| {
            let last = last.get(path).copied().unwrap_or_default();
            let (read, written) = (now.read.saturating_sub(last.read), now.written.saturating_sub(last.written));
            (read + written > 0).then(|| (Unit::of(path), Transferred { read, written }))
        };
        let all = now.iter().filter_map(|(path, now)| since(path, now)).collect();
        self.last = now;
        all
    }

    fn read(&self) -> BTreeMap<String, Transferred> {
        let all = self.cgroups.all().unwrap_or_default();
        // Processes are in leaf cgroups; their units are counted.
        let mut innermost: BTreeSet<&str> = all.iter().map(String::as_str).collect();
        for (above, _) in all.iter().filter_map(|path| path.rsplit_once('/')) {
            innermost.remove(above);
        }
        let units: BTreeSet<String> = innermost.into_iter().map(|path| Unit::of(path).path).collect();
        units.into_iter().filter_map(|path| Some((path.clone(), self.of(&path)?))).collect()
    }

    fn of(&self, path: &str) -> Option<Transferred> {
        let text = fs::read_to_string(self.cgroups.folder(path).join("io.stat")).ok()?;
        Transferred::of(&text, &self.device)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_of_units_with_all_cgroups_below_them() {
        let root = tempfile::tempdir().unwrap();
        let write = |unit: &str, text: &str| {
            let folder = root.path().join(unit);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("io.stat"), text).unwrap();
        };
        let stat = |read: u64, written: u64| {
            format!("254:0 rbytes=1 wbytes=9 rios=1 wios=1\n8:0 rbytes={read} wbytes={written} rios=0 wios=0 dbytes=0 dios=0\n")
        };
        write("system.slice/db.service/worker", &stat(1, 1));
        write("system.slice/db.service", &stat(5, 1_000));
        write("system.slice/idle.service", "");
        write("system.slice/odd.service", "8:0\n8:0 rbytes=x wbytes=1\nnonsense");
        write("system.slice", &stat(0, 9_999));
        let mut counters = UnitCounters::new(Cgroups::at(root.path()), (8, 0));
        let mut since = || counters.since().into_iter().map(|(unit, sum)| (unit.name, sum.read, sum.written)).collect::<Vec<_>>();
        assert_eq!(since(), []);
        write("system.slice/db.service", &stat(7, 1_900));
        write("backup", &stat(0, 200));
        assert_eq!(since(), [("/backup".to_owned(), 0, 200), ("db.service".to_owned(), 2, 900)]);
        write("backup", &stat(0, 100));
        fs::remove_dir_all(root.path().join("system.slice/db.service")).unwrap();
        assert_eq!(since(), []);
    }
}
