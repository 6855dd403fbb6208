//! Limits and weights of cgroups: which cgroups may be set, and their attributes.
//!
//! A cgroup is named by its path in the unified hierarchy, which starts with a slash, for example `/system.slice/backup.service`, in place
//! of a device. An attribute is named with its device, for example `io.max sda`: its file has a line per device, and only that line is
//! written, read back and restored. Nothing is set unless the administrator's configuration names the cgroup, or a slice above it. Sources:
//! Linux 6.18 `Documentation/admin-guide/cgroup-v2.rst`, `block/blk-throttle.c`, `block/blk-iocost.c`, `block/bfq-cgroup.c`.

pub(crate) mod attribute;
pub(crate) mod hierarchy;

pub use attribute::names as attribute_names;
pub use hierarchy::{Hierarchy, checked_path};

/// Name of the journal's page for all cgroups, in place of a device's name.
pub(crate) const PAGE: &str = "cgroup";
/// The root of the hierarchy.
pub(crate) const ROOT: &str = "/";

/// Whether a name is that of a cgroup, by its path, or of all cgroups in the journal.
pub(crate) fn is_cgroup(name: &str) -> bool {
    name.starts_with('/') || name == PAGE
}

/// The cgroups that may be set according to the administrator's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    /// Units, for example `backup.service`, and paths, for example `/machine/vm1`. A slice includes all cgroups below it.
    pub names: Vec<String>,
    /// Whether `io.cost.qos` and `io.cost.model` of the root may be set.
    pub io_cost: bool,
    /// Minimum limit of reading or writing, in bytes per second.
    pub floor_bytes_per_s: u64,
}

/// Types of units with a cgroup.
const UNITS: [&str; 6] = [".service", ".scope", ".slice", ".socket", ".mount", ".swap"];
const SLICE: &str = ".slice";

impl Allowed {
    /// Checks a name in the configuration.
    ///
    /// # Errors
    /// The text names the right form.
    pub fn check(name: &str) -> Result<(), String> {
        let is_unit = !name.contains('/') && UNITS.iter().any(|ending| name.len() > ending.len() && name.ends_with(ending));
        let is_path = name.len() > ROOT.len() && checked_path(name).is_ok();
        if is_path || (is_unit && checked_path(&format!("/{name}")).is_ok()) {
            return Ok(());
        }
        Err("should be a unit, as in \"backup.service\" or \"user.slice\", or a cgroup's path, as in \"/machine/vm1\"".to_owned())
    }

    /// Whether a cgroup may be set.
    pub(crate) fn allows(&self, path: &str) -> bool {
        if path == ROOT {
            return self.io_cost;
        }
        self.names.iter().any(|name| match name.strip_prefix('/') {
            Some(_) => path == name || (name.ends_with(SLICE) && path.strip_prefix(name).is_some_and(|rest| rest.starts_with('/'))),
            None => {
                let mut parts = path.rsplit('/');
                parts.next() == Some(name) || (name.ends_with(SLICE) && parts.any(|part| part == name))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_one_cgroup_and_a_slice_for_all_below_it() {
        let names = ["backup.service", "user.slice", "/machine/vm1", "/pods.slice"].map(str::to_owned).to_vec();
        let allowed = Allowed { names, ..Allowed::default() };
        let may = |path: &str| allowed.allows(path);
        assert!(may("/system.slice/backup.service") && may("/user.slice") && may("/user.slice/user-1000.slice/session-2.scope"));
        assert!(may("/machine/vm1") && may("/pods.slice") && may("/pods.slice/a/b"));
        assert!(!may("/system.slice") && !may("/system.slice/backup.service/below") && !may("/system.slice/other-backup.service"));
        assert!(
            !may("/machine") && !may("/machine/vm1/below") && !may("/machine/vm10") && !may("/other/pods.slice/a") && !may("/")
        );
        assert!(Allowed { io_cost: true, ..Allowed::default() }.allows("/"));
    }

    #[test]
    fn names_that_leave_the_hierarchy_or_name_no_cgroup_are_refused() {
        for good in ["backup.service", "user.slice", "docker-4f2a.scope", "/machine/vm1", "a\\x2db.service"] {
            assert_eq!(Allowed::check(good), Ok(()), "{good}");
        }
        for bad in [
            "",
            "/",
            ".service",
            "backup",
            "../a.service",
            "/a/../b",
            "/a//b",
            "/a/",
            "a/b.service",
            "/a/./b",
            "/a\nb",
            "backup.timer",
        ] {
            assert!(Allowed::check(bad).is_err(), "{bad:?}");
        }
    }
}
