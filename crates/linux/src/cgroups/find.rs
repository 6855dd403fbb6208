//! Finds a cgroup by a name or path given by the user.

use std::fs;
use std::path::{Path, PathBuf};

use super::unit::container_id;
use super::{CgroupError, Cgroups, Unit};

/// Minimum number of digits of a container id: fewer are likely to be part of a word.
const LEAST_DIGITS: usize = 4;
/// Maximum number of cgroups listed in an error.
const NAMED: usize = 5;

impl Cgroups {
    /// Finds a unit by
    ///
    /// - an absolute path below the root of the hierarchy, as in `/system.slice/postgresql.service`;
    /// - a systemd unit, wherever it is: `postgresql.service`, or `postgresql` for short; `backup.slice`;
    /// - a container, by the beginning of its id or as [`Unit::of`] names it, four digits at least: `4f2a`, `docker-4f2a`,
    ///   `docker-4f2a.scope`.
    ///
    /// # Errors
    /// No unit matches, or several do; the error lists them.
    pub fn find(&self, given: &str) -> Result<Unit, CgroupError> {
        if given.starts_with('/') {
            let trimmed = given.trim_end_matches('/');
            let is_inside = Path::new(trimmed).components().all(|part| !matches!(part, std::path::Component::ParentDir));
            if is_inside && self.folder(trimmed).is_dir() {
                return Ok(self.unit(if trimmed.is_empty() { "/" } else { trimmed }));
            }
            return Err(self.not_found(given, &[]));
        }
        let all = self.all()?;
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let of = |is_meant: &dyn Fn(&str) -> bool| all.iter().filter(|path| is_meant(&last(path))).cloned().collect::<Vec<_>>();
        let service = format!("{given}.service");
        let by_name = [of(&|name| name == given), of(&|name| name == service), of(&|name| is_container(name, given))];
        let mut found = by_name.into_iter().find(|found| !found.is_empty()).unwrap_or_default();
        match found.len() {
            0 => Err(self.not_found(given, &all)),
            1 => Ok(self.unit(&found.swap_remove(0))),
            _ => {
                found.truncate(NAMED);
                Err(CgroupError::Several { given: given.to_owned(), found })
            }
        }
    }

    /// The unit with exactly this path, even if it is a slice or inside another unit.
    fn unit(&self, path: &str) -> Unit {
        let unit = Unit::of(path);
        if unit.path == path { unit } else { Unit { name: path.to_owned(), path: path.to_owned(), slice: unit.slice } }
    }

    /// The folder of a cgroup in the filesystem.
    pub fn folder(&self, path: &str) -> PathBuf {
        self.mount.join(path.trim_start_matches('/'))
    }

    /// The paths of all cgroups, parents before children, otherwise by name.
    ///
    /// # Errors
    /// The hierarchy cannot be read.
    pub fn all(&self) -> Result<Vec<String>, CgroupError> {
        let mut all = Vec::new();
        let mut left = vec![String::new()];
        while let Some(path) = left.pop() {
            let folder = self.folder(&path);
            let entries = match fs::read_dir(&folder) {
                Ok(entries) => entries,
                // It was removed meanwhile.
                Err(_) if !path.is_empty() => continue,
                Err(source) => return Err(CgroupError::Io { path: folder, source }),
            };
            let folders = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let mut below: Vec<String> =
                folders.filter_map(|entry| Some(format!("{path}/{}", entry.file_name().to_str()?))).collect();
            below.sort_by(|one, other| other.cmp(one));
            left.extend(below);
            if !path.is_empty() {
                all.push(path);
            }
        }
        Ok(all)
    }

    fn not_found(&self, given: &str, all: &[String]) -> CgroupError {
        let stem = given.split(['.', '@']).next().unwrap_or_default().to_lowercase();
        let is_similar = |path: &&String| {
            let name = path.rsplit('/').next().unwrap_or_default().to_lowercase();
            !stem.is_empty() && name.contains(&stem)
        };
        let similar = all.iter().filter(is_similar).take(NAMED).cloned().collect();
        CgroupError::NotFound { given: given.to_owned(), mount: self.mount.clone(), similar }
    }
}

/// Whether the cgroup with this name is the container.
fn is_container(name: &str, given: &str) -> bool {
    let Some((runtime, id)) = container_id(name) else { return false };
    let given = given.strip_suffix(".scope").unwrap_or(given);
    let (of, digits) = given.rsplit_once('-').unwrap_or(("", given));
    let is_runtime = of.is_empty() || of == runtime || runtime.is_empty() && matches!(of, "docker" | "container");
    is_runtime && digits.len() >= LEAST_DIGITS && id.starts_with(&digits.to_ascii_lowercase())
}
