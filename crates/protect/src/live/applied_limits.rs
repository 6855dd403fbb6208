//! The limits of cgroups that are active, and the cgroups that are left alone.

use std::collections::BTreeMap;

use applier::{ApplierError, ErrorKind};

use super::limiter::Limiter;
use super::{LimitStatus, Told, text};
use crate::decision::Limit;

/// An active limit.
struct Active {
    limit: Limit,
    why: String,
}

/// The limits on one device.
pub(super) struct AppliedLimits {
    /// Name of the device, such as `sda`.
    device: String,
    /// Minimum limit, in bytes per second.
    floor_bytes_per_s: u64,
    limiter: Box<dyn Limiter>,
    /// Active limits by cgroup path.
    active: BTreeMap<String, Active>,
    /// Cgroups that are not limited, with the reason: another program limits them, or they cannot be limited.
    left_alone: BTreeMap<String, String>,
}

impl AppliedLimits {
    pub(super) fn new(device: &str, floor_bytes_per_s: u64, limiter: Box<dyn Limiter>) -> AppliedLimits {
        AppliedLimits {
            device: device.to_owned(),
            floor_bytes_per_s,
            limiter,
            active: BTreeMap::new(),
            left_alone: BTreeMap::new(),
        }
    }

    /// Cgroups that are not limited, with the reason.
    pub(super) fn left_alone(&self) -> &BTreeMap<String, String> {
        &self.left_alone
    }

    /// Paths of the cgroups with a limit.
    pub(super) fn paths(&self) -> impl Iterator<Item = &String> {
        self.active.keys()
    }

    /// Checks that a cgroup which is not left alone may be limited. If not, it is left alone from now on.
    pub(super) fn check(&mut self, path: &str, told: &mut Vec<Told>) {
        if !self.left_alone.contains_key(path)
            && let Err(error) = self.limiter.check(path)
        {
            told.push(Told::Trouble(format!("{path} cannot be limited: {error}")));
            self.left_alone.insert(path.to_owned(), error.to_string());
        }
    }

    /// Applies a limit. Returns false if the cgroup is left alone from now on.
    pub(super) fn apply(&mut self, path: &str, limit: Limit, why: &str, told: &mut Vec<Told>) -> bool {
        let floored = |limit: Option<u64>| limit.map(|bytes| bytes.max(self.floor_bytes_per_s));
        // The controller divides the floor between reads and writes; the applier requires it for each.
        let limit = Limit {
            read_bytes_per_s: floored(limit.read_bytes_per_s),
            write_bytes_per_s: floored(limit.write_bytes_per_s),
            ..limit
        };
        let before = self.active.get(path).map(|active| active.limit);
        match self.limiter.limit(path, &self.device, &limit, why) {
            Ok(()) if limit.is_none() => {
                if self.active.remove(path).is_some() {
                    told.push(Told::Limited(format!("{path} is not limited any more: {why}")));
                }
            }
            Ok(()) => {
                self.active.insert(path.to_owned(), Active { limit, why: why.to_owned() });
                match before {
                    None => told.push(Told::Limited(format!("{path} is limited to {}: {why}", text(&limit)))),
                    Some(before) if before != limit => told.push(Told::Moved(format!("{path}: {} now: {why}", text(&limit)))),
                    Some(_) => {}
                }
            }
            // The cgroup may come back and is limited again then.
            Err(error) if error.kind == ErrorKind::NoDevice && !limit.is_none() => {
                self.active.insert(path.to_owned(), Active { limit, why: why.to_owned() });
            }
            Err(error) if error.kind == ErrorKind::NoDevice => drop(self.active.remove(path)),
            // Retried at the next check.
            Err(error) if matches!(error.kind, ErrorKind::Unreachable | ErrorKind::Journal) => {
                let trouble = Told::Trouble(error.to_string());
                if !told.contains(&trouble) {
                    told.push(trouble);
                }
            }
            Err(error) => {
                told.push(self.refused(path, &error));
                return false;
            }
        }
        true
    }

    /// The active limits, with their reasons.
    pub(super) fn active(&self) -> Vec<(String, Limit, String)> {
        self.active.iter().map(|(path, active)| (path.clone(), active.limit, active.why.clone())).collect()
    }

    fn refused(&mut self, path: &str, error: &ApplierError) -> Told {
        self.active.remove(path);
        self.left_alone.insert(path.to_owned(), error.to_string());
        if matches!(error.kind, ErrorKind::Foreign | ErrorKind::Stale) {
            let released = self.limiter.release(path).err().map_or_else(String::new, |error| format!(" ({error})"));
            Told::Conflict(format!("{path} is left alone until `seekwise-agent resume {path}`: {error}{released}"))
        } else {
            Told::Trouble(format!("{path} cannot be limited: {error}"))
        }
    }

    /// The limit of a cgroup, and the reason for it or for none.
    pub(super) fn status(&self, path: String) -> LimitStatus {
        let active = self.active.get(&path);
        let why = active.map(|active| active.why.clone()).or_else(|| self.left_alone.get(&path).cloned()).unwrap_or_default();
        let limit = active.map(|active| active.limit);
        LimitStatus {
            unit: path,
            limit: limit.map(|limit| text(&limit)),
            bytes_per_s: limit.map_or((None, None), |limit| (limit.read_bytes_per_s, limit.write_bytes_per_s)),
            why,
        }
    }

    /// Resumes limiting a cgroup. Returns false if it was not left alone.
    ///
    /// # Errors
    /// The applier refuses.
    pub(super) fn resume(&mut self, path: &str) -> Result<bool, ApplierError> {
        if !self.left_alone.contains_key(path) {
            return Ok(false);
        }
        self.limiter.resume(path)?;
        self.left_alone.remove(path);
        Ok(true)
    }

    /// Restores all limits.
    pub(super) fn end(&mut self) -> Vec<Told> {
        let paths: Vec<String> = std::mem::take(&mut self.active).into_keys().collect();
        let mut told = Vec::new();
        for path in paths {
            told.push(match self.limiter.restore(&path) {
                Ok(restored) => Told::Limited(format!("{path}: {restored}")),
                Err(error) => Told::Trouble(format!("{path}: its limits could not be put back: {error}")),
            });
        }
        told
    }
}
