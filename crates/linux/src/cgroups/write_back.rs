//! Who dirtied the pages that the kernel writes back, as far as it counts that.
//!
//! With the `io` controller `io.stat` of a cgroup counts all that was written on its behalf, by its processes or for them (cgroup
//! write-back, which ext4, XFS, btrfs and f2fs support with the `memory` controller). What it counts beyond the writes of the unit's own
//! processes was written for it.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use super::{Cgroups, Unit};

/// Counters of units on one device.
pub struct WriteBack {
    cgroups: Cgroups,
    /// As `io.stat` names the device: `8:0`.
    device: String,
    written: BTreeMap<String, u64>,
    is_known: bool,
}

/// For whom something was written back, and how much.
pub type Shares = Vec<(Unit, f64)>;

impl WriteBack {
    /// Of the device of this major and minor number.
    pub fn new(cgroups: Cgroups, (major, minor): (u32, u32)) -> WriteBack {
        WriteBack { cgroups, device: format!("{major}:{minor}"), written: BTreeMap::new(), is_known: false }
    }

    /// The share of each unit in what was written back since the last call, in total `bytes`. `own` says what a unit's own processes wrote.
    /// The sum is at most 1; what is missing is not known. Empty at the first call, and without the `io` controller.
    pub fn shares(&mut self, bytes: u64, own: impl Fn(&Unit) -> u64) -> Shares {
        let written = self.read();
        let was_known = std::mem::replace(&mut self.is_known, true);
        let mut beyond: Vec<(Unit, f64)> = Vec::new();
        for (path, now) in &written {
            // A unit that came in between has written nothing before.
            let since = now.saturating_sub(self.written.get(path).copied().unwrap_or(0));
            let unit = Unit::of(path);
            let others = since.saturating_sub(own(&unit));
            if others > 0 {
                beyond.push((unit, others as f64));
            }
        }
        self.written = written;
        if !was_known || bytes == 0 {
            return Vec::new();
        }
        let sum: f64 = beyond.iter().map(|(_, written)| written).sum();
        let all = sum.max(bytes as f64);
        beyond.into_iter().map(|(unit, written)| (unit, written / all)).collect()
    }

    /// What each unit has written so far.
    fn read(&self) -> BTreeMap<String, u64> {
        let all = self.cgroups.all().unwrap_or_default();
        // Processes are in cgroups that have none below; their units are what has rows.
        let mut innermost: BTreeSet<&str> = all.iter().map(String::as_str).collect();
        for (above, _) in all.iter().filter_map(|path| path.rsplit_once('/')) {
            innermost.remove(above);
        }
        let units: BTreeSet<String> = innermost.into_iter().map(|path| Unit::of(path).path).collect();
        units.into_iter().filter_map(|path| Some((path.clone(), self.written(&path)?))).collect()
    }

    fn written(&self, path: &str) -> Option<u64> {
        let text = fs::read_to_string(self.cgroups.folder(path).join("io.stat")).ok()?;
        let line = text.lines().find_map(|line| line.strip_prefix(&self.device)?.strip_prefix(' '))?;
        line.split(' ').find_map(|word| word.strip_prefix("wbytes=")?.parse().ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_cgroup_wrote_beyond_its_processes_was_written_for_it() {
        let root = tempfile::tempdir().unwrap();
        let write = |unit: &str, text: &str| {
            let folder = root.path().join(unit);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("io.stat"), text).unwrap();
        };
        let stat = |written: u64| format!("254:0 rbytes=1 wbytes=9 rios=1 wios=1\n8:0 rbytes=5 wbytes={written} rios=0 wios=0\n");
        write("system.slice/db.service/worker", &stat(1));
        write("system.slice/db.service", &stat(1_000));
        write("system.slice/idle.service", "");
        write("system.slice", &stat(9_999));
        let mut counted = WriteBack::new(Cgroups::at(root.path()), (8, 0));
        let own = |unit: &Unit| if unit.name == "db.service" { 300 } else { 0 };
        assert_eq!(counted.shares(1_000, own), [], "nothing to compare with");
        write("system.slice/db.service", &stat(1_900));
        write("backup", &stat(200));
        let shares = |shares: Shares| shares.into_iter().map(|(unit, share)| (unit.name, share)).collect::<Vec<_>>();
        let expected = [("/backup".to_owned(), 0.2), ("db.service".to_owned(), 0.6)];
        assert_eq!(shares(counted.shares(1_000, own)), expected, "for whom the rest was is not known");
        write("system.slice/db.service", &stat(2_500));
        write("backup", &stat(100));
        let expected = [("db.service".to_owned(), 1.0)];
        assert_eq!(shares(counted.shares(100, own)), expected, "counters that began again, and more than was seen");
        fs::remove_dir_all(root.path().join("backup")).unwrap();
        assert_eq!(counted.shares(100, own), []);
    }
}
