//! Finds the unified hierarchy, and explains missing limits.

use std::io;
use std::path::{Path, PathBuf};

use super::ROOT;
use crate::error::{ApplierError, ErrorKind};
use crate::sysfs::{Files, Sysfs};

/// The unified hierarchy of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hierarchy {
    /// Its mount point.
    pub mount: PathBuf,
    /// Mount point of the `blkio` controller of version 1, if it is in use there; the unified hierarchy then lacks `io`, which is the same
    /// one.
    pub blkio: Option<PathBuf>,
}

/// Checks that a cgroup's path cannot lead out of the hierarchy.
///
/// # Errors
/// [`ErrorKind::NotAllowed`]; the text names the right form.
pub fn checked_path(path: &str) -> Result<&str, ApplierError> {
    let is_plain = |part: &str| !matches!(part, "" | "." | "..") && !part.chars().any(char::is_control);
    match path.strip_prefix('/') {
        Some("") => Ok(path),
        Some(rest) if rest.split('/').all(is_plain) => Ok(path),
        _ => {
            let message = format_args!(
                "{path:?} is no cgroup; it should be a path in the unified hierarchy, as in /system.slice/backup.service"
            );
            Err(ApplierError::new(ErrorKind::NotAllowed, message))
        }
    }
}

impl Hierarchy {
    /// Finds the unified hierarchy.
    ///
    /// # Errors
    /// [`ErrorKind::Forbidden`]: it is not mounted, or the list of mounts cannot be read.
    pub fn find(files: &dyn Files, sysfs: &Sysfs) -> Result<Hierarchy, ApplierError> {
        let path = sysfs.proc().join("self/mountinfo");
        let forbidden =
            |error: &dyn std::fmt::Display| ApplierError::new(ErrorKind::Forbidden, format_args!("{}: {error}", path.display()));
        let text = files.read(&path).map_err(|error| forbidden(&error))?;
        let mounts = || text.lines().filter_map(Mount::of);
        let unified = mounts().find(|mount| mount.kind == "cgroup2");
        let unified = unified.ok_or_else(|| forbidden(&"cgroup2 is not mounted: mount -t cgroup2 none /sys/fs/cgroup"))?;
        let blkio = mounts().find(|mount| mount.kind == "cgroup" && mount.options.split(',').any(|option| option == "blkio"));
        Ok(Hierarchy { mount: sysfs.below(&unified.place), blkio: blkio.map(|mount| mount.place) })
    }

    /// The folder of a [checked](checked_path) path.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// Why an existing cgroup lacks this file, and how to enable it.
    pub(crate) fn why_missing(&self, files: &dyn Files, path: &str, file: &str) -> String {
        let has_io = |folder: &Path, list: &str| {
            files.read(&folder.join(list)).is_ok_and(|text| text.split_whitespace().any(|controller| controller == "io"))
        };
        if !has_io(&self.mount, "cgroup.controllers") {
            return match &self.blkio {
                Some(blkio) => format!(
                    "the controller io belongs to version 1 (blkio, mounted at {}), so no cgroup has {file}; boot with cgroup_no_v1=blkio, or systemd.unified_cgroup_hierarchy=1",
                    blkio.display()
                ),
                None => format!("this kernel offers no controller io in {}, so no cgroup has {file}", self.mount.display()),
            };
        }
        let mut above: Vec<&str> = path.match_indices('/').map(|(at, _)| &path[..at]).collect();
        above.retain(|above| !has_io(&self.folder(above), "cgroup.subtree_control"));
        if path == ROOT || above.is_empty() {
            return format!("this kernel has no {file} there");
        }
        let commands =
            above.iter().map(|above| format!("`echo +io > {}`", self.folder(above).join("cgroup.subtree_control").display()));
        let commands = commands.collect::<Vec<_>>().join(", then ");
        format!("the controller io is not enabled for it; {commands} would do so (with systemd: IOAccounting=yes of the unit)")
    }
}

/// One line of `/proc/self/mountinfo`.
struct Mount<'a> {
    place: PathBuf,
    kind: &'a str,
    options: &'a str,
}

impl Mount<'_> {
    /// Fields: id, parent, device, root, mount point, …, `-`, type, source, options of the superblock.
    fn of(line: &str) -> Option<Mount<'_>> {
        let (before, after) = line.split_once(" - ")?;
        let mut after = after.split(' ');
        let (kind, options) = (after.next()?, after.nth(1)?);
        Some(Mount { place: PathBuf::from(unescaped(before.split(' ').nth(4)?)), kind, options })
    }
}

/// Decodes the kernel's octal escapes of spaces and the like.
fn unescaped(text: &str) -> String {
    ["\\040", "\\011", "\\012", "\\134"]
        .iter()
        .zip([" ", "\t", "\n", "\\"])
        .fold(text.to_owned(), |text, (code, is)| text.replace(code, is))
}

/// The inode number of a cgroup's folder, which is unique until a reboot; `None` if there is no such cgroup.
pub(crate) fn number(files: &dyn Files, hierarchy: &Hierarchy, path: &str) -> Result<Option<u64>, ApplierError> {
    match files.folder_number(&hierarchy.mount, path.trim_start_matches('/')) {
        Ok(number) => Ok(Some(number)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(ApplierError::new(ErrorKind::NotAllowed, format_args!("{path}: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::sysfs::RealFiles;

    #[test]
    fn the_hierarchy_is_found_where_it_is_mounted() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("proc/self")).unwrap();
        let find = |mounts: &str| {
            std::fs::write(root.path().join("proc/self/mountinfo"), mounts).unwrap();
            Hierarchy::find(&RealFiles, &Sysfs::at(root.path()))
        };
        let hybrid = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n38 31 0:35 / /sys/fs/cgroup/blkio rw,relatime shared:9 - cgroup cgroup rw,blkio\n41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw";
        let found = find(hybrid).unwrap();
        assert_eq!(found.mount, root.path().join("sys/fs/cgroup/unified"));
        assert_eq!(found.blkio, Some(PathBuf::from("/sys/fs/cgroup/blkio")));
        assert_eq!(find("41 31 0:38 / /c\\040g rw - cgroup2 none rw").unwrap().mount, root.path().join("c g"));
        let error = find("31 23 0:28 / /sys rw - sysfs sysfs rw").unwrap_err();
        assert!(error.kind == ErrorKind::Forbidden && error.message.contains("cgroup2 is not mounted"), "{error}");
    }

    #[test]
    fn a_link_out_of_the_hierarchy_is_no_cgroup() {
        let root = tempfile::tempdir().unwrap();
        let mount = root.path().join("cgroup");
        std::fs::create_dir_all(mount.join("a/b")).unwrap();
        std::fs::create_dir_all(root.path().join("elsewhere")).unwrap();
        std::os::unix::fs::symlink(root.path().join("elsewhere"), mount.join("link")).unwrap();
        std::os::unix::fs::symlink("a", mount.join("alias")).unwrap();
        let hierarchy = Hierarchy { mount, blkio: None };
        assert!(number(&RealFiles, &hierarchy, "/a/b").unwrap().is_some());
        assert_eq!(number(&RealFiles, &hierarchy, "/a/c").unwrap(), None);
        for link in ["/link", "/alias", "/alias/b"] {
            let error = number(&RealFiles, &hierarchy, link).unwrap_err();
            assert!(error.message.contains("is a link, and a cgroup is not"), "{error}");
        }
    }
}
