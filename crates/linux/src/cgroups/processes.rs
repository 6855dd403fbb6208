//! Maps processes that issue requests to units.
//!
//! A process is looked up at its first request, and again if its program has another name, or after 2 s: it may have moved, or its id may
//! have been reused. If it ended before the first lookup its cgroup is unknown, and it is counted as ended, under the name of its program.
//! If it ends later, its remaining requests are still counted for its unit.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use applier::sysfs::Sysfs;
use block::{Nanos, StreamId};
use observe::units::UnitId;

use super::Unit;

/// Time for which a lookup remains valid. A lookup takes some 10 µs: 0.05% of a core for 100 processes.
const KNOWN_FOR: Nanos = Nanos::from_millis(2_000);
/// Maximum number of known processes; beyond it all are looked up again.
const MOST_PROCESSES: usize = 65_536;
/// Maximum number of known units: four times as many as an account distinguishes, so that all of these have names.
const MOST_UNITS: usize = 1_024;
/// Maximum length of a program's name in the kernel.
const NAME: usize = 16;
/// The flag of kernel threads in `/proc/PID/stat` (`PF_KTHREAD` in `include/linux/sched.h`).
const KERNEL_THREAD: u64 = 0x0020_0000;

/// The source of requests that are counted together.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Processes of a unit, or of all units of a slice.
    Unit(Unit),
    /// The kernel itself.
    Kernel(Role),
    /// Programs of this name that ended before their unit was looked up.
    Ended(String),
}

/// Why the kernel issues requests.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Unbound workers: they write back the page cache. Encryption and loop devices use them as well.
    WriteBack,
    /// Other workers: among others, they issue requests that `io.max` held back.
    Worker,
    /// The filesystem's journal: `jbd2` of ext4, `xfsaild` and `xfs-` of XFS.
    Journal,
    /// Pages written to swap. Reads from swap are issued by the process that needs the page.
    Swap,
    /// A thread of this name.
    Thread(String),
}

impl Role {
    fn of(name: &str) -> Role {
        match name {
            _ if name.starts_with("kworker/u") => Role::WriteBack,
            _ if name.starts_with("kworker/") => Role::Worker,
            _ if ["jbd2/", "xfsaild/", "xfs-"].iter().any(|known| name.starts_with(known)) => Role::Journal,
            _ if name.starts_with("kswapd") => Role::Swap,
            // For example `btrfs-transacti`, `f2fs_gc-8:1`, `dmcrypt_write/2`: without the suffix for the device or processor.
            _ => Role::Thread(
                name.split(['/', ':']).next().unwrap_or_default().trim_end_matches(|c: char| c.is_ascii_digit()).to_owned(),
            ),
        }
    }
}

/// Prefixes of the names of kernel threads, to recognise those that ended.
const KERNEL_NAMES: [&str; 8] = ["kworker/", "jbd2/", "xfsaild/", "xfs-", "kswapd", "btrfs-", "f2fs_", "ext4lazyinit"];

impl Source {
    /// The name for display. Names in brackets are not units.
    pub fn name(&self) -> String {
        match self {
            Source::Unit(unit) => unit.name.clone(),
            Source::Kernel(Role::WriteBack) => "[write-back]".to_owned(),
            Source::Kernel(Role::Worker) => "[kernel workers]".to_owned(),
            Source::Kernel(Role::Journal) => "[journal]".to_owned(),
            Source::Kernel(Role::Swap) => "[swap]".to_owned(),
            Source::Kernel(Role::Thread(name)) => format!("[{name}]"),
            Source::Ended(name) => format!("[ended: {name}]"),
        }
    }

    /// The path of the cgroup; `None` if it is not a unit.
    pub fn path(&self) -> Option<&str> {
        match self {
            Source::Unit(unit) => Some(&unit.path),
            Source::Kernel(_) | Source::Ended(_) => None,
        }
    }
}

struct Known {
    unit: UnitId,
    name: [u8; NAME],
    looked: Nanos,
}

/// The units of processes. One per event source is enough for all who charge its requests to units: ids are not reused, so that each may
/// cache its own numbers by them.
pub struct Processes {
    proc: PathBuf,
    by_slice: bool,
    known: HashMap<StreamId, Known>,
    numbers: HashMap<Source, UnitId>,
    sources: HashMap<UnitId, Source>,
    next: UnitId,
}

impl Processes {
    /// The processes of this machine; with `by_slice`, the units of a slice are counted as one.
    pub fn new(sysfs: &Sysfs, by_slice: bool) -> Processes {
        let (proc, known) = (sysfs.proc(), HashMap::new());
        Processes { proc, by_slice, known, numbers: HashMap::new(), sources: HashMap::new(), next: 0 }
    }

    /// Whether the units of a slice are counted as one.
    pub fn are_by_slice(&self) -> bool {
        self.by_slice
    }

    /// The id of the unit of a process, or of its last known unit if it has ended. `name`: the name of its program, as reported with the
    /// request.
    pub fn unit(&mut self, process: StreamId, name: Option<&str>, now: Nanos) -> UnitId {
        let name = name.unwrap_or_default();
        let mut short = [0; NAME];
        let length = name.len().min(NAME);
        short[..length].copy_from_slice(&name.as_bytes()[..length]);
        let before = self.known.get_mut(&process);
        if let Some(known) = before.as_deref().filter(|known| known.name == short && now - known.looked < KNOWN_FOR) {
            return known.unit;
        }
        let unit = match (source(&self.proc, process, name), before) {
            (None, Some(known)) if known.name == short => known.unit,
            (None, _) => self.number(ended(name)),
            (Some(source), _) => self.number(source),
        };
        if self.known.len() >= MOST_PROCESSES {
            self.known.clear();
        }
        self.known.insert(process, Known { unit, name: short, looked: now });
        unit
    }

    /// The id of a source; assigned if it is new.
    pub fn number(&mut self, source: Source) -> UnitId {
        let source = match source {
            Source::Unit(unit) if self.by_slice => {
                let slice = unit.slice;
                let name = slice.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/").to_owned();
                Source::Unit(Unit { name, path: slice.clone(), slice })
            }
            other => other,
        };
        if let Some(number) = self.numbers.get(&source) {
            return *number;
        }
        if self.numbers.len() >= MOST_UNITS {
            // Ids are not reused, so that an account never confuses units.
            self.numbers.clear();
            self.sources.clear();
            self.known.clear();
        }
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        self.numbers.insert(source.clone(), number);
        self.sources.insert(number, source);
        number
    }

    /// The source with this id; `None` if it has been dropped.
    pub fn source(&self, unit: UnitId) -> Option<&Source> {
        self.sources.get(&unit)
    }

    /// The id of the kernel in this role; `None` if it has issued nothing in it.
    pub fn kernel(&self, role: Role) -> Option<UnitId> {
        self.numbers.get(&Source::Kernel(role)).copied()
    }
}

fn ended(name: &str) -> Source {
    let is_kernel = KERNEL_NAMES.iter().any(|known| name.starts_with(known));
    if is_kernel { Source::Kernel(Role::of(name)) } else { Source::Ended(name.to_owned()) }
}

/// The source of a process's requests; `None` if the process has ended.
fn source(proc: &std::path::Path, process: StreamId, name: &str) -> Option<Source> {
    let folder = proc.join(process.to_string());
    let text = fs::read(folder.join("cgroup")).ok()?;
    let path = cgroup_path(&String::from_utf8_lossy(&text)).to_owned();
    if path == "/" && fs::read(folder.join("stat")).is_ok_and(|stat| is_kernel_thread(&String::from_utf8_lossy(&stat))) {
        return Some(Source::Kernel(Role::of(name)));
    }
    Some(Source::Unit(Unit::of(&path)))
}

/// The path in a file `/proc/PID/cgroup`: that of version 2; if that is the root, as with hierarchies of version 1, systemd's or that of
/// the block device controller.
fn cgroup_path(text: &str) -> &str {
    let lines = || text.lines().filter_map(|line| line.split_once(':')?.1.split_once(':'));
    let of = |wanted: &str| lines().find(|(names, _)| names.split(',').any(|name| name == wanted)).map(|(_, path)| path);
    ["", "name=systemd", "blkio"].into_iter().filter_map(of).find(|path| *path != "/").unwrap_or("/")
}

/// Whether a file `/proc/PID/stat` is that of a kernel thread.
fn is_kernel_thread(stat: &str) -> bool {
    // The fields after the program's name in parentheses, which may contain anything: state, parent, group, session, terminal, its group,
    // flags.
    let flags = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(6)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & KERNEL_THREAD != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with these processes: number, cgroup, flags.
    struct Machine {
        root: tempfile::TempDir,
    }

    impl Machine {
        fn new() -> Machine {
            Machine { root: tempfile::tempdir().unwrap() }
        }

        fn begins(&self, process: u32, cgroup: &str, flags: u64) {
            let folder = self.root.path().join(format!("proc/{process}"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("cgroup"), cgroup).unwrap();
            fs::write(folder.join("stat"), format!("{process} (a) b) S 1 1 1 0 -1 {flags} 0 0")).unwrap();
        }

        fn ends(&self, process: u32) {
            fs::remove_dir_all(self.root.path().join(format!("proc/{process}"))).unwrap();
        }

        fn processes(&self, by_slice: bool) -> Processes {
            Processes::new(&Sysfs::at(self.root.path()), by_slice)
        }
    }

    fn name(processes: &mut Processes, process: u32, program: &str, at_ms: u64) -> String {
        let unit = processes.unit(process, Some(program), Nanos::from_millis(at_ms));
        processes.source(unit).unwrap().name()
    }

    #[test]
    fn a_process_is_looked_up_once_and_again_when_it_may_be_another() {
        let machine = Machine::new();
        let mut processes = machine.processes(false);
        machine.begins(7, "0::/system.slice/postgresql.service\n", 0);
        assert_eq!(name(&mut processes, 7, "postgres", 0), "postgresql.service");
        machine.begins(7, "0::/system.slice/backup.service\n", 0);
        assert_eq!(name(&mut processes, 7, "postgres", 1_999), "postgresql.service", "it is remembered");
        assert_eq!(name(&mut processes, 7, "postgres", 2_000), "backup.service", "it has moved");
        machine.begins(7, "0::/batch\n", 0);
        assert_eq!(name(&mut processes, 7, "tar", 2_001), "/batch", "it runs another program");
        machine.ends(7);
        assert_eq!(name(&mut processes, 7, "tar", 9_000), "/batch", "requests of a process that ended are still its unit's");
        assert_eq!(name(&mut processes, 7, "cp", 9_000), "[ended: cp]", "another process that ended before it was looked up");
        machine.begins(7, "0::/batch (deleted)\n", 0);
        assert_eq!(name(&mut processes, 7, "cp", 12_000), "/batch", "a cgroup that was removed under its last process");
    }

    #[test]
    fn what_the_kernel_sends_has_rows_of_its_own() {
        let machine = Machine::new();
        let mut processes = machine.processes(false);
        let roles = [
            ("kworker/u8:3", "[write-back]"),
            ("kworker/1:1H", "[kernel workers]"),
            ("jbd2/sda1-8", "[journal]"),
            ("xfsaild/sda1", "[journal]"),
            ("kswapd0", "[swap]"),
            ("btrfs-transacti", "[btrfs-transacti]"),
            ("loop12", "[loop]"),
        ];
        for (process, (program, row)) in (10..).zip(roles) {
            machine.begins(process, "0::/\n", KERNEL_THREAD | 0x40);
            assert_eq!(name(&mut processes, process, program, 0), row);
        }
        assert!(processes.kernel(Role::WriteBack).is_some());
        // A program may have any name: while it exists, only the kernel's flag counts.
        machine.begins(50, "0::/\n", 0x40);
        assert_eq!(name(&mut processes, 50, "kworker/u8:3", 0), "/");
        assert_eq!(name(&mut processes, 51, "kworker/u8:4", 0), "[write-back]", "it ended");
    }

    #[test]
    fn next_to_version_1_systemds_hierarchy_names_the_unit() {
        for (text, path) in [
            ("0::/system.slice/a.service\n", "/system.slice/a.service"),
            ("5:name=systemd:/b.scope\n1:cpu,cpuacct:/x\n0::/\n", "/b.scope"),
            ("5:name=systemd:/b.scope\n0::/c\n", "/c"),
            ("9:name=systemd:/\n7:devices,blkio:/docker/d:e\n0::/\n", "/docker/d:e"),
            ("9:name=systemd:/\n0::/\n", "/"),
            ("nonsense\n", "/"),
            ("", "/"),
        ] {
            assert_eq!(cgroup_path(text), path, "{text}");
        }
    }

    #[test]
    fn by_slice_all_units_of_a_slice_are_one() {
        let machine = Machine::new();
        machine.begins(1, "0::/init.scope\n", 0);
        machine.begins(2, "0::/system.slice/a.service\n", 0);
        machine.begins(3, "0::/system.slice/b.service\n", 0);
        machine.begins(4, "0::/user.slice/user-0.slice/session-1.scope\n", 0);
        let mut processes = machine.processes(true);
        let names = [1, 2, 3, 4].map(|process| name(&mut processes, process, "x", 0));
        assert_eq!(names, ["/", "system.slice", "system.slice", "user-0.slice"]);
    }

    #[test]
    fn ten_thousand_short_processes_take_bounded_memory() {
        let machine = Machine::new();
        let mut processes = machine.processes(false);
        for process in 0..10_000 {
            assert_eq!(name(&mut processes, process, "cc1", u64::from(process)), "[ended: cc1]");
        }
        assert_eq!(processes.sources.len(), 1);
        for process in 0..200_000 {
            // Names with line breaks, truncated within a character, and empty.
            let program = ["a\nb".to_owned(), "ä".repeat(9), String::new(), format!("job{process}")][process as usize % 4].clone();
            processes.unit(process, Some(&program), Nanos(1));
        }
        assert!(processes.known.len() <= MOST_PROCESSES && processes.sources.len() <= MOST_UNITS);
    }
}
