//! The units distinguished on a device: those with guarantees, those that may be limited, and all others as one.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use crate::decision::{Promise, Unit};
use linux::cgroups::{CgroupError, Cgroups};

use super::Terms;

/// Number of the member that stands for all remaining processes. Choice: the first number, as it always exists; not varied.
pub(super) const OTHERS: usize = 0;
/// Name of the member that stands for all remaining processes. Choice: names both parts of the remainder; not varied.
const OTHERS_NAME: &str = "other processes and write-back";

/// A unit, identified by its cgroup.
#[derive(Clone, Debug, PartialEq)]
struct Member {
    name: String,
    path: String,
    promise: Option<Promise>,
    is_limitable: bool,
}

/// The units, ordered by number, without [`OTHERS`].
#[derive(Clone, Debug, Default)]
pub(super) struct Members {
    all: Vec<Member>,
}

/// Finds units by their names.
pub(super) struct Lookup {
    cgroups: Cgroups,
    /// The cgroup of this program.
    own: String,
    /// Cgroup paths of named units, because a lookup scans all cgroups.
    paths: BTreeMap<String, String>,
    /// Errors for named units that do not exist, as of the last scan.
    missing: BTreeSet<String>,
}

impl Lookup {
    /// `own` is the cgroup of this program.
    pub(super) fn new(cgroups: Cgroups, own: String) -> Lookup {
        Lookup { cgroups, own, paths: BTreeMap::new(), missing: BTreeSet::new() }
    }

    /// The folder of a cgroup.
    pub(super) fn folder(&self, path: &str) -> PathBuf {
        self.cgroups.folder(path)
    }

    /// Finds the existing units; also returns errors for those that are missing now and were not at the last call.
    pub(super) fn find(&mut self, terms: &Terms) -> (Members, Vec<String>) {
        let Lookup { cgroups, own, paths, .. } = self;
        let mut find = |name: &String| {
            if let Some(path) = paths.get(name).filter(|path| cgroups.folder(path).is_dir()) {
                return Ok(path.clone());
            }
            let path = cgroups.find(name)?.path;
            paths.insert(name.clone(), path.clone());
            Ok::<_, CgroupError>(path)
        };
        let mut members = Members::default();
        let mut missing = BTreeSet::new();
        for (unit, promise) in &terms.promises {
            match find(unit) {
                Ok(path) => members.add(Member { name: unit.clone(), path, promise: Some(promise.clone()), is_limitable: false }),
                Err(error) => drop(missing.insert(error.to_string())),
            }
        }
        let spared: Vec<String> = members.all.iter().map(|member| member.path.clone()).chain([own.to_owned()]).collect();
        for name in &terms.neighbours {
            match find(name) {
                Ok(path) => match members.all.iter_mut().find(|member| member.path == path) {
                    // A unit with a guarantee is limited only if it is named itself.
                    Some(known) => known.is_limitable = true,
                    None => members.add_neighbours(cgroups, &path, &spared),
                },
                Err(error) => drop(missing.insert(error.to_string())),
            }
        }
        let news = missing.difference(&self.missing).cloned().collect();
        self.missing = missing;
        (members, news)
    }
}

impl Members {
    /// Adds a cgroup as one member; if a spared cgroup is below it, adds its children instead.
    fn add_neighbours(&mut self, cgroups: &Cgroups, path: &str, spared: &[String]) {
        if spared.iter().any(|spared| is_below(spared, path) && spared != path) {
            let entries = std::fs::read_dir(cgroups.folder(path)).into_iter().flatten().flatten();
            let folders = entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
            let mut names: Vec<String> = folders.filter_map(|entry| entry.file_name().to_str().map(str::to_owned)).collect();
            names.sort();
            names.iter().for_each(|name| self.add_neighbours(cgroups, &format!("{}/{name}", path.trim_end_matches('/')), spared));
        } else if !self.has(path) && !spared.iter().any(|spared| spared == path) {
            self.add(Member { name: path.to_owned(), path: path.to_owned(), promise: None, is_limitable: true });
        }
    }

    fn add(&mut self, member: Member) {
        match self.all.iter_mut().find(|known| known.path == member.path) {
            // Two names of one unit: both guarantees hold.
            Some(known) => known.promise = known.promise.take().zip(member.promise).map(|(one, other)| both(one, other)),
            None => self.all.push(member),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Merges a scan: numbers are kept and new members appended. A unit that is gone is kept, because it may come back. A unit that exists but is
    /// not in the scan has been split into its children and may not be limited any more. Returns the members whose limitability changed, with the
    /// new value; `None` if a guarantee has changed.
    pub(super) fn take_over(&mut self, found: &Members, is_there: impl Fn(&str) -> bool) -> Option<Vec<(usize, bool)>> {
        let mut limitable = Vec::new();
        for (at, known) in self.all.iter_mut().enumerate() {
            let same_name = |member: &&Member| known.promise.is_some() && member.name == known.name;
            let now = found.all.iter().find(|member| member.path == known.path).or_else(|| found.all.iter().find(same_name));
            let is_limitable = match now {
                Some(now) if now.promise != known.promise => return None,
                Some(now) => {
                    // A recreated container has another path.
                    known.path.clone_from(&now.path);
                    now.is_limitable
                }
                None => known.is_limitable && !is_there(&known.path),
            };
            if is_limitable != known.is_limitable {
                known.is_limitable = is_limitable;
                limitable.push((at + 1, is_limitable));
            }
        }
        let added: Vec<Member> = found.all.iter().filter(|member| !self.has(&member.path)).cloned().collect();
        self.all.extend(added);
        Some(limitable)
    }

    pub(super) fn has(&self, path: &str) -> bool {
        self.all.iter().any(|member| member.path == path)
    }

    /// Paths of the members that may be limited.
    pub(super) fn limitable(&self) -> Vec<String> {
        self.all.iter().filter(|member| member.is_limitable).map(|member| member.path.clone()).collect()
    }

    pub(super) fn leave_alone(&mut self, left_alone: &BTreeMap<String, String>) {
        self.all.iter_mut().for_each(|member| member.is_limitable &= !left_alone.contains_key(&member.path));
    }

    /// Number of the innermost member that contains a cgroup.
    pub(super) fn of(&self, cgroup: &str) -> usize {
        let inside = self.all.iter().enumerate().filter(|(_, member)| is_below(cgroup, &member.path));
        inside.max_by_key(|(_, member)| member.path.len()).map_or(OTHERS, |(at, _)| at + 1)
    }

    fn get(&self, number: usize) -> Option<&Member> {
        self.all.get(number.checked_sub(1)?)
    }

    pub(super) fn number(&self, path: &str) -> Option<usize> {
        self.all.iter().position(|member| member.path == path).map(|at| at + 1)
    }

    pub(super) fn path(&self, number: usize) -> Option<String> {
        self.get(number).map(|member| member.path.clone())
    }

    pub(super) fn name(&self, number: usize) -> String {
        self.get(number).map_or_else(|| OTHERS_NAME.to_owned(), |member| member.name.clone())
    }

    pub(super) fn promise(&self, number: usize) -> Option<Promise> {
        self.get(number).and_then(|member| member.promise.clone())
    }

    /// Numbers of the members with guarantees.
    pub(super) fn promised(&self) -> Vec<usize> {
        (0..=self.all.len()).filter(|&number| self.promise(number).is_some()).collect()
    }

    /// The members as input of the controller.
    pub(super) fn units(&self, terms: &Terms) -> Vec<Unit> {
        let floor_bytes_per_s = terms.floor_bytes_per_s;
        let others = Unit { name: OTHERS_NAME.to_owned(), promise: None, is_limitable: false, floor_bytes_per_s };
        let unit = |member: &Member| Unit {
            name: member.name.clone(),
            promise: member.promise.clone(),
            is_limitable: member.is_limitable,
            floor_bytes_per_s,
        };
        std::iter::once(others).chain(self.all.iter().map(unit)).collect()
    }
}

/// Whether a cgroup is equal to or below another.
fn is_below(cgroup: &str, path: &str) -> bool {
    path == "/" || cgroup.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Combines two guarantees: the stricter of each bound. Reference disks cannot be ordered, so the first one is taken.
fn both(one: Promise, other: Promise) -> Promise {
    let sooner = |one: Option<block::Nanos>, other: Option<block::Nanos>| one.into_iter().chain(other).min();
    let more = |one: Option<f64>, other: Option<f64>| one.into_iter().chain(other).reduce(f64::max);
    Promise {
        read_p99: sooner(one.read_p99, other.read_p99),
        write_p99: sooner(one.write_p99, other.write_p99),
        flush_p99: sooner(one.flush_p99, other.flush_p99),
        least_iops: more(one.least_iops, other.least_iops),
        least_bytes_per_s: more(one.least_bytes_per_s, other.least_bytes_per_s),
        share: more(one.share, other.share),
        reference: one.reference.or(other.reference),
    }
}
