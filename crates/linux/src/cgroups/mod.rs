//! Maps requests to units: systemd services and scopes, containers, and other cgroups of version 2.
//!
//! ```text
//! request: process ─▶ Processes: /proc/PID/cgroup ─▶ Unit::of: postgresql.service, docker-4f2a1b2c3d4e, /batch
//!          by the kernel ─▶ UnitCounters: io.stat ─▶ the unit on whose behalf
//!          name: postgresql, 4f2a ─▶ Cgroups::find ─▶ /system.slice/postgresql.service
//! ```
//! This module only reads.

mod counters;
mod find;
mod processes;
mod unit;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use applier::sysfs::Sysfs;

pub use counters::{Transferred, UnitCounters};
pub use processes::{Processes, Role, Source};
pub use unit::Unit;

/// The cgroup hierarchy of version 2.
#[derive(Clone, Debug)]
pub struct Cgroups {
    mount: PathBuf,
}

impl Cgroups {
    /// The hierarchy where this machine has it mounted: `/sys/fs/cgroup`, or `/sys/fs/cgroup/unified` next to hierarchies of version 1.
    ///
    /// # Errors
    /// It is not mounted.
    pub fn mounted(sysfs: &Sysfs) -> Result<Cgroups, CgroupError> {
        let mounts = sysfs.proc().join("self/mounts");
        let text = fs::read_to_string(&mounts).map_err(|source| CgroupError::Io { path: mounts, source })?;
        let place = text.lines().find_map(|line| {
            let mut words = line.split(' ');
            let place = words.nth(1)?;
            (words.next()? == "cgroup2").then(|| PathBuf::from(place))
        });
        place.map(|mount| Cgroups { mount }).ok_or(CgroupError::NoHierarchy)
    }

    /// The hierarchy in this folder.
    pub fn at(mount: &Path) -> Cgroups {
        Cgroups { mount: mount.to_owned() }
    }
}

/// Why a cgroup could not be determined.
#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    /// Cgroups of version 2 are not mounted.
    #[error("cgroups of version 2 are not mounted (mount -t cgroup2 none /sys/fs/cgroup)")]
    NoHierarchy,
    /// No cgroup has this name.
    #[error("{given}: no such unit, container or cgroup below {}{}", mount.display(), listed("; similar: ", similar))]
    NotFound {
        /// The name.
        given: String,
        /// Mount point of the searched hierarchy.
        mount: PathBuf,
        /// Paths of cgroups with similar names.
        similar: Vec<String>,
    },
    /// Several cgroups have this name.
    #[error("{given}: there are several{}; give the path of one", listed(": ", found))]
    Several {
        /// The name.
        given: String,
        /// Paths of some of them.
        found: Vec<String>,
    },
    /// The hierarchy cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

fn listed(before: &str, paths: &[String]) -> String {
    if paths.is_empty() { String::new() } else { format!("{before}{}", paths.join(", ")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hierarchy with these cgroups.
    fn hierarchy(paths: &[&str]) -> (tempfile::TempDir, Cgroups) {
        let root = tempfile::tempdir().unwrap();
        paths.iter().for_each(|path| fs::create_dir_all(root.path().join(path)).unwrap());
        let cgroups = Cgroups::at(root.path());
        (root, cgroups)
    }

    fn docker(digits: &str) -> String {
        format!("system.slice/docker-{digits}{}.scope", "0".repeat(64 - digits.len()))
    }

    #[test]
    fn a_unit_is_found_by_name_wherever_it_is() {
        let (one, other) = (docker("4f2a1b2c3d4e"), docker("4f2b"));
        let (_root, cgroups) = hierarchy(&[
            "system.slice/postgresql.service/walwriter",
            "system.slice/system-pg.slice/pg@16-main.service",
            "backup.slice/nightly.service",
            "batch/4f2c",
            &one,
            &other,
        ]);
        let path = |given: &str| cgroups.find(given).map(|unit| unit.path).map_err(|error| error.to_string());
        for (given, expected) in [
            ("postgresql.service", "/system.slice/postgresql.service"),
            ("postgresql", "/system.slice/postgresql.service"),
            ("pg@16-main", "/system.slice/system-pg.slice/pg@16-main.service"),
            ("backup.slice", "/backup.slice"),
            ("/backup.slice/", "/backup.slice"),
            ("/batch", "/batch"),
            ("batch", "/batch"),
            ("/", "/"),
            ("4F2A", &format!("/{one}")),
            ("docker-4f2a.scope", &format!("/{one}")),
            ("docker-4f2a1b2c3d4e", &format!("/{one}")),
            ("docker-4f2b", &format!("/{other}")),
        ] {
            assert_eq!(path(given).as_deref(), Ok(expected), "{given}");
        }
        let named = cgroups.find("4f2a").unwrap();
        assert_eq!((named.name.as_str(), named.slice.as_str()), ("docker-4f2a1b2c3d4e", "/system.slice"));
        // And back: the name in a row finds the same unit.
        for given in cgroups.all().unwrap() {
            let unit = Unit::of(&given);
            assert_eq!(cgroups.find(&unit.name).unwrap().path, unit.path, "{given}");
        }
    }

    #[test]
    fn what_is_not_there_or_is_not_one_unit_says_so() {
        let (one, other) = (docker("4f2a1"), docker("4f2a2"));
        let (root, cgroups) = hierarchy(&["a/job.service", "b/job.service", "system.slice/postgresql@16.service", &one, &other]);
        let error = |given: &str| cgroups.find(given).unwrap_err().to_string();
        let place = root.path().display();
        assert_eq!(error("job"), "job: there are several: /a/job.service, /b/job.service; give the path of one");
        assert!(error("4f2a").contains(&format!("/{one}, /{other}")), "{}", error("4f2a"));
        assert_eq!(
            error("postgresql.service"),
            format!(
                "postgresql.service: no such unit, container or cgroup below {place}; similar: /system.slice/postgresql@16.service"
            )
        );
        // Too short for a container, of another runtime, outside of the hierarchy, empty.
        for given in ["4f2", "libpod-4f2a", "/../etc", "/a/../b", "", ".service"] {
            assert!(error(given).starts_with(&format!("{given}: no such unit")), "{}", error(given));
        }
        let missing = Cgroups::at(Path::new("/nowhere")).find("job").unwrap_err().to_string();
        assert!(missing.starts_with("/nowhere"), "{missing}");
    }

    #[test]
    fn the_hierarchy_is_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let write = |text: &str| fs::write(root.path().join("proc/self/mounts"), text).unwrap();
        let sysfs = Sysfs::at(root.path());
        write("cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n");
        assert_eq!(Cgroups::mounted(&sysfs).unwrap().mount, Path::new("/sys/fs/cgroup/unified"));
        write("cgroup /sys/fs/cgroup/blkio cgroup rw,blkio 0 0\n");
        assert!(matches!(Cgroups::mounted(&sysfs), Err(CgroupError::NoHierarchy)));
    }
}
