//! The unit that a cgroup belongs to: a systemd service or scope, a container, or the cgroup itself.

/// Length of a container id in the names of cgroups, in hexadecimal digits.
const ID: usize = 64;
/// Length of the short form of the id, as `docker ps` and `podman ps` print it.
const SHORT_ID: usize = 12;
/// Suffixes of systemd units that have processes of their own.
const UNITS: [&str; 5] = [".service", ".scope", ".socket", ".mount", ".swap"];
/// Suffix that the kernel adds to the path of a removed cgroup.
const DELETED: &str = " (deleted)";

/// A unit of accounting: its requests are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Unit {
    /// Name for display: `postgresql.service`, `docker-4f2a1b2c3d4e`, or the path of a cgroup that is neither a systemd unit nor a
    /// container. It may contain any character except a line break, and `/` only in a path.
    pub name: String,
    /// Path below the root of the hierarchy, starting with `/`.
    pub path: String,
    /// Path of its slice, or, outside of slices, of the parent cgroup.
    pub slice: String,
}

impl Unit {
    /// The unit of a process whose cgroup has this path, as in `/proc/PID/cgroup`:
    ///
    /// 1. the outermost container, including all cgroups inside it: `docker-ID.scope`, `libpod-ID.scope`, `cri-containerd-ID.scope`,
    ///    `crio-ID.scope`, `…:cri-containerd:ID`, or a cgroup whose name is the id of 64 hexadecimal digits; named after the runtime and the
    ///    first twelve digits;
    /// 2. else the innermost systemd unit, including all cgroups below it;
    /// 3. else the cgroup itself.
    ///
    /// ```
    /// use linux::cgroups::Unit;
    ///
    /// let unit = Unit::of("/user.slice/user-1000.slice/user@1000.service/app.slice/backup.service/worker");
    /// assert_eq!((unit.name.as_str(), unit.slice.rsplit('/').next()), ("backup.service", Some("app.slice")));
    /// ```
    pub fn of(path: &str) -> Unit {
        let path = path.strip_suffix(DELETED).unwrap_or(path);
        let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
        let container = (0..parts.len()).find_map(|at| Some((at, container_name(&parts[..=at])?)));
        let (last, name) = match container {
            Some(found) => found,
            None => match parts.iter().rposition(|part| UNITS.iter().any(|ending| part.ends_with(ending))) {
                Some(at) => (at, parts[at].to_owned()),
                None => return Unit { name: joined(&parts), path: joined(&parts), slice: slice_of(&parts, parts.len()) },
            },
        };
        Unit { name, path: joined(&parts[..=last]), slice: slice_of(&parts, last) }
    }
}

/// The innermost slice among the first `length` parts; without one, their parent.
fn slice_of(parts: &[&str], length: usize) -> String {
    let end = parts[..length].iter().rposition(|part| part.ends_with(".slice"));
    match end {
        Some(end) => joined(&parts[..=end]),
        None => joined(&parts[..length.min(parts.len().saturating_sub(1))]),
    }
}

fn joined(parts: &[&str]) -> String {
    format!("/{}", parts.join("/"))
}

/// The name of the container with this cgroup; `None` if it is none.
fn container_name(parts: &[&str]) -> Option<String> {
    let (last, above) = parts.split_last()?;
    let (runtime, id) = container_id(last)?;
    let runtime = match runtime {
        // The runtime created the cgroup itself, and named its parent.
        "" if above.last() == Some(&"docker") => "docker",
        "" => "container",
        runtime => runtime,
    };
    Some(format!("{runtime}-{}", &id[..SHORT_ID]))
}

/// The runtime (empty if not in the name) and the container id of a cgroup with this name; `None` if it is no container.
pub(super) fn container_id(name: &str) -> Option<(&str, &str)> {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    let (before, id) = name.split_at_checked(name.len().checked_sub(ID)?)?;
    if !id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    match before.chars().next_back() {
        None => Some(("", id)),
        Some('-') => Some((&before[..before.len() - 1], id)),
        // `kubepods-burstable-podUID.slice:cri-containerd:ID`
        Some(':') => Some((before[..before.len() - 1].rsplit(':').next()?, id)),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The id of a container.
    fn id() -> String {
        "4f2a1b2c3d4e".to_owned() + &"0".repeat(ID - SHORT_ID)
    }

    #[test]
    fn services_and_scopes_have_their_names_with_any_cgroups_below() {
        for (path, name, unit, slice) in [
            ("/system.slice/postgresql.service", "postgresql.service", "/system.slice/postgresql.service", "/system.slice"),
            (
                "/system.slice/system-postgresql.slice/postgresql@16-main.service/walwriter",
                "postgresql@16-main.service",
                "/system.slice/system-postgresql.slice/postgresql@16-main.service",
                "/system.slice/system-postgresql.slice",
            ),
            ("/init.scope", "init.scope", "/init.scope", "/"),
            ("/system.slice/old.service (deleted)", "old.service", "/system.slice/old.service", "/system.slice"),
            (
                "/machine.slice/machine-qemu\\x2d1.scope/emulator",
                "machine-qemu\\x2d1.scope",
                "/machine.slice/machine-qemu\\x2d1.scope",
                "/machine.slice",
            ),
        ] {
            let expected = Unit { name: name.to_owned(), path: unit.to_owned(), slice: slice.to_owned() };
            assert_eq!(Unit::of(path), expected, "{path}");
        }
    }

    #[test]
    fn containers_have_the_short_id_as_their_runtimes_print_it() {
        let pod = "kubepods-burstable-pod12ab.slice";
        for (path, name) in [
            (format!("/system.slice/docker-{}.scope", id()), "docker-4f2a1b2c3d4e"),
            (format!("/docker/{}", id()), "docker-4f2a1b2c3d4e"),
            (format!("/docker/{}/system.slice/nginx.service", id()), "docker-4f2a1b2c3d4e"),
            (format!("/machine.slice/libpod-{}.scope/container", id()), "libpod-4f2a1b2c3d4e"),
            (format!("/machine.slice/libpod-conmon-{}.scope", id()), "libpod-conmon-4f2a1b2c3d4e"),
            (format!("/kubepods.slice/{pod}/cri-containerd-{}.scope", id()), "cri-containerd-4f2a1b2c3d4e"),
            (format!("/kubepods.slice/{pod}/crio-{}.scope", id()), "crio-4f2a1b2c3d4e"),
            (format!("/system.slice/containerd.service/{pod}:cri-containerd:{}", id()), "cri-containerd-4f2a1b2c3d4e"),
            (format!("/kubepods/burstable/pod12ab/{}", id()), "container-4f2a1b2c3d4e"),
        ] {
            let unit = Unit::of(&path);
            assert_eq!(unit.name, name, "{path}");
            assert!(path.starts_with(&unit.path) && unit.path.contains(&id()), "{path}: {}", unit.path);
            assert!(!unit.slice.contains(&id()), "{path}: {}", unit.slice);
        }
    }

    #[test]
    fn other_cgroups_have_their_paths() {
        for (path, slice) in
            [("/", "/"), ("/batch", "/"), ("/batch/night", "/batch"), ("/user.slice", "/user.slice"), ("/a.slice/b", "/a.slice")]
        {
            let unit = Unit::of(path);
            assert_eq!((unit.name.as_str(), unit.path.as_str(), unit.slice.as_str()), (path, path, slice));
        }
        // Invalid container ids: too short, not hexadecimal, or split within a character.
        for name in ["0".repeat(ID - 1), "g".repeat(ID), format!("ä{}", "0".repeat(ID - 1)), format!("x{}", id())] {
            assert_eq!(Unit::of(&format!("/{name}")).name, format!("/{name}"));
        }
    }
}
