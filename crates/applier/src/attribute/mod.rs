//! The closed list of attributes that may be set: their files, ranges, order of writing, and peculiarities.
//!
//! Tunables of schedulers, and those that the simulated host also has, are declared in `block`; those that only the kernel has are declared
//! here. Sources: Linux 6.18 `block/blk-sysfs.c`, `block/elevator.c`, `block/blk-wbt.c`, `mm/page-writeback.c`,
//! `Documentation/ABI/stable/sysfs-block`.

mod reset;
mod state;

use std::path::PathBuf;
use std::sync::LazyLock;

use block::{Tunable, Unit};

use crate::sysfs::Sysfs;

pub(crate) use reset::Upheaval;
pub use reset::default_requests;
pub use state::State;

/// Prefix of the names of the machine's attributes.
pub const MACHINE_PREFIX: &str = "vm/";
/// Name of the machine where a device is expected.
pub const MACHINE: &str = "vm";

/// The attribute for the scheduler.
pub const SCHEDULER: &str = "scheduler";
/// The attribute for the maximum number of queued requests.
pub const NR_REQUESTS: &str = "nr_requests";
/// The attribute for the maximum size of a request, in KiB.
pub const MAX_SECTORS: &str = "max_sectors_kb";
/// The attribute for the read-ahead, in KiB.
pub const READ_AHEAD: &str = "read_ahead_kb";
/// The attribute for the target of write-back throttling, in microseconds.
pub const WRITE_BACK_THROTTLE: &str = "wbt_lat_usec";
/// The scheduler `none`: requests go to the driver in order of arrival.
pub const NONE: &str = "none";

/// The owner of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A device's queue.
    Queue,
    /// This scheduler; the attribute exists only while it is active.
    Scheduler(&'static str),
    /// The machine.
    Machine,
}

/// How the kernel rounds a number that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Not at all.
    Exact,
    /// Up to timer ticks of 1 to 10 ms; read in whole milliseconds.
    Ticks,
    /// Down to pages, or to blocks of the device.
    Down,
}

/// An attribute that may be set.
#[derive(Debug)]
pub struct Attribute {
    /// For example `scheduler`, `iosched/read_expire`, `read_ahead_kb`, `vm/swappiness`: the path of the file below the queue, or below
    /// `/proc/sys`.
    pub name: String,
    /// Its owner.
    pub owner: Owner,
    /// Its range and description; `None` for the scheduler, whose value is a word.
    pub tunable: Option<&'static Tunable>,
    /// How the kernel rounds its values.
    pub rounding: Rounding,
}

/// Minimum of a limit in bytes in the kernel.
const TWO_PAGES: i64 = 8_192;

/// Attributes that the kernel has and the simulator does not, in the order of the list.
static OF_THE_KERNEL: &[(Owner, Tunable)] = &[
    (
        Owner::Queue,
        Tunable::new(Unit::Count, 0..=2, 1).named(
            "rq_affinity",
            "Where a request is completed: 0 where the interrupt comes, 1 in the group of processors that asked, 2 on the very processor.",
        ),
    ),
    (
        Owner::Scheduler("bfq"),
        Tunable::new(Unit::Microseconds, 0..=100_000, 8_000)
            .named("slice_idle_us", "As slice_idle, in microseconds; each changes the other."),
    ),
    (
        Owner::Machine,
        Tunable::new(Unit::Count, 0..=1_000, 100)
            .named("vfs_cache_pressure", "How readily names and inodes are forgotten when memory is short; 100 is as readily as file pages."),
    ),
    (
        Owner::Machine,
        Tunable::new(Unit::Count, TWO_PAGES..=1 << 40, 0)
            .named("dirty_bytes", "As dirty_ratio, in bytes; each sets the other to 0. 0 says that dirty_ratio holds."),
    ),
    (
        Owner::Machine,
        Tunable::new(Unit::Count, TWO_PAGES..=1 << 40, 0).named(
            "dirty_background_bytes",
            "As dirty_background_ratio, in bytes; each sets the other to 0. 0 says that dirty_background_ratio holds.",
        ),
    ),
];

/// Tunables of the simulated host that are left out: swap is not touched, and the kernel refuses a limit of 0 bytes, the simulated host's
/// default.
const LEFT_OUT: [&str; 3] = ["page-cluster", "dirty_bytes", "dirty_background_bytes"];

static ALL: LazyLock<Vec<Attribute>> = LazyLock::new(|| {
    let scheduler = Attribute { name: SCHEDULER.to_owned(), owner: Owner::Queue, tunable: None, rounding: Rounding::Exact };
    let of_schedulers =
        block::of_linux().flat_map(|spec| spec.tunables.iter().map(|tunable| Attribute::new(Owner::Scheduler(spec.name), tunable)));
    let of_host = block::HOST_TUNABLES.iter().filter(|tunable| !LEFT_OUT.contains(&tunable.name)).map(|tunable| {
        let owner = if block::QUEUE_TUNABLES.contains(&tunable.name) { Owner::Queue } else { Owner::Machine };
        Attribute::new(owner, tunable)
    });
    let own = OF_THE_KERNEL.iter().map(|(owner, tunable)| Attribute::new(*owner, tunable));
    let mut all: Vec<Attribute> = std::iter::once(scheduler).chain(of_schedulers).chain(of_host).chain(own).collect();
    all.sort_by_key(Attribute::turn);
    all
});

/// All attributes, in the order in which they must be written.
pub fn all() -> &'static [Attribute] {
    &ALL
}

/// The attribute with this name; `None` if it is not in the list.
pub fn find(name: &str) -> Option<&'static Attribute> {
    all().iter().find(|attribute| attribute.name == name)
}

impl Attribute {
    fn new(owner: Owner, tunable: &'static Tunable) -> Attribute {
        let folder = match owner {
            Owner::Queue => "",
            Owner::Scheduler(_) => "iosched/",
            Owner::Machine => "vm/",
        };
        let rounding = match tunable.name {
            "read_expire" | "write_expire" | "prio_aging_expire" | "timeout_sync" => Rounding::Ticks,
            READ_AHEAD | MAX_SECTORS => Rounding::Down,
            _ => Rounding::Exact,
        };
        Attribute { name: format!("{folder}{}", tunable.name), owner, tunable: Some(tunable), rounding }
    }

    /// Position in the order of writing. A scheduler switch brings other tunables and resets `nr_requests`, which in turn resets
    /// `async_depth`; bfq's `strict_guarantees` may raise `slice_idle`, which is a coarser view of `slice_idle_us`; of bytes and ratios the
    /// one written last applies; most queue settings reset `read_ahead_kb`.
    fn turn(&self) -> u8 {
        match self.tunable.map(|tunable| tunable.name) {
            None => 0,
            Some(NR_REQUESTS) => 1,
            Some("strict_guarantees") => 2,
            Some("slice_idle") => 3,
            Some("slice_idle_us") => 4,
            Some(READ_AHEAD) => 9,
            Some("dirty_bytes" | "dirty_background_bytes") => 11,
            Some(_) => match self.owner {
                Owner::Scheduler(_) => 5,
                Owner::Queue => 6,
                Owner::Machine => 10,
            },
        }
    }

    /// The path of the file.
    pub fn path(&self, sysfs: &Sysfs, device: &str) -> PathBuf {
        match self.name.strip_prefix("vm/") {
            Some(name) => sysfs.vm(name),
            None => sysfs.queue(device).join(&self.name),
        }
    }

    /// The description.
    pub fn doc(&self) -> &'static str {
        self.tunable.map_or("Which request goes to the device next.", |tunable| tunable.doc)
    }

    /// The scheduler that owns it; `None` for an attribute of the queue or the machine.
    pub fn scheduler(&self) -> Option<&'static str> {
        match self.owner {
            Owner::Scheduler(owner) => Some(owner),
            Owner::Queue | Owner::Machine => None,
        }
    }

    /// The allowed range, before limits of the device; `None` if the value is a word.
    pub fn range(&self) -> Option<(i64, i64)> {
        self.tunable.map(|tunable| (tunable.min, tunable.max))
    }

    /// Whether the kernel may show `read` after `written` was written, given its rounding.
    pub fn may_read(&self, written: &str, read: &str) -> bool {
        let (Ok(wrote), Ok(reads)) = (written.parse::<i64>(), read.parse::<i64>()) else { return written == read };
        match self.rounding {
            _ if wrote == reads => true,
            Rounding::Exact => false,
            // Ticks are at most 10 ms; with ticks of 3⅓ ms the fraction is cut off.
            Rounding::Ticks => (wrote - 1..=wrote + 10).contains(&reads),
            // Pages and blocks are at most 64 KiB.
            Rounding::Down => (wrote - 63..wrote).contains(&reads),
        }
    }

    /// The attribute and value to write in place of this one, under this scheduler. `slice_idle` is a coarser view of `slice_idle_us`, and
    /// would lose precision. The default target of write-back throttling is written as a number, 0 under bfq: -1 would enable it there.
    pub fn written_as(&'static self, value: &str, scheduler: &str, turns: bool) -> (&'static Attribute, String) {
        match (self.name.as_str(), find("iosched/slice_idle_us"), value.parse::<i64>()) {
            ("iosched/slice_idle", Some(finer), Ok(milliseconds)) => (finer, (1_000 * milliseconds).to_string()),
            (WRITE_BACK_THROTTLE, _, Ok(-1)) => (self, default_write_back_target(scheduler, turns).to_string()),
            _ => (self, value.to_owned()),
        }
    }

    /// Whether it is a coarser view of another attribute.
    pub fn is_view(&self) -> bool {
        self.name == "iosched/slice_idle"
    }

    /// Whether it is a limit in bytes, whose counterpart is a ratio.
    pub fn is_in_bytes(&self) -> bool {
        self.name.ends_with("_bytes")
    }

    /// The attribute that the kernel sets to 0 when this one is written; `None` for most.
    pub fn counterpart(&self) -> Option<&'static str> {
        match self.name.as_str() {
            "vm/dirty_ratio" => Some("vm/dirty_bytes"),
            "vm/dirty_bytes" => Some("vm/dirty_ratio"),
            "vm/dirty_background_ratio" => Some("vm/dirty_background_bytes"),
            "vm/dirty_background_bytes" => Some("vm/dirty_background_ratio"),
            _ => None,
        }
    }
}

/// The kernel's default target of write-back throttling in microseconds (`wbt_default_latency_nsec`); 0 is off.
pub fn default_write_back_target(scheduler: &str, turns: bool) -> i64 {
    match scheduler {
        "bfq" => 0,
        _ if turns => 75_000,
        _ => 2_000,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_what_an_administrator_expects_and_nothing_more() {
        let names: Vec<&str> = all().iter().map(|attribute| attribute.name.as_str()).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "a name stands for one attribute");
        for name in
            ["scheduler", "iosched/read_lat_nsec", "iosched/async_depth", "iosched/slice_idle_us", "wbt_lat_usec", "vm/dirty_ratio"]
        {
            assert!(names.contains(&name), "{name}");
        }
        let machine = names.iter().filter(|name| name.starts_with("vm/")).count();
        let queue = all().iter().filter(|attribute| attribute.owner == Owner::Queue).count();
        assert_eq!((machine, queue), (8, 7));
        assert!(find("rotational").is_none() && find("vm/drop_caches").is_none() && find("../../../etc/passwd").is_none());
        assert!(all().iter().all(|attribute| !attribute.doc().is_empty()));
    }

    #[test]
    fn the_order_of_writing_is_the_kernels() {
        let place = |name: &str| all().iter().position(|attribute| attribute.name == name).unwrap();
        let order = [
            "scheduler",
            "nr_requests",
            "iosched/strict_guarantees",
            "iosched/slice_idle",
            "iosched/slice_idle_us",
            "max_sectors_kb",
        ];
        assert!(order.windows(2).all(|pair| place(pair[0]) < place(pair[1])));
        assert!(place("nr_requests") < place("iosched/async_depth"));
        let mut queue = all().iter().filter(|attribute| attribute.owner == Owner::Queue);
        assert_eq!(queue.next_back().unwrap().name, "read_ahead_kb", "the others reset it");
    }

    #[test]
    fn what_is_read_back_may_be_rounded_and_nothing_else() {
        let may = |name: &str, written, read| find(name).unwrap().may_read(written, read);
        assert!(may("iosched/write_expire", "1", "4") && may("iosched/timeout_sync", "10", "12"));
        assert!(!may("iosched/write_expire", "1", "5000") && !may("iosched/fifo_expire_sync", "1", "4"));
        assert!(may("read_ahead_kb", "65", "64") && may("read_ahead_kb", "1", "0") && !may("read_ahead_kb", "64", "128"));
        assert!(may("scheduler", "bfq", "bfq") && !may("scheduler", "bfq", "none"));
    }
}
