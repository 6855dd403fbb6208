//! Every I/O scheduler, one file each. A new one is a file with a `SPEC` and a line in [`ALL`].

use alloc::vec::Vec;

use crate::Request;
use crate::queue::{Insertion, Limits};
pub use crate::scheduler::COMPLETION_BACKSTOP;
use crate::scheduler::{LiveSwitch, Pick, Scheduler, SchedulerSpec, StarvationBound};
use crate::tags::{Room, Tags, tags_open_to_tenant, wake_batch};

mod adios;
mod anticipatory;
mod bfq;
mod cfq;
mod clook;
mod deadline;
pub mod fairio;
mod guarantee;
mod io_cost;
mod kyber;
mod mclock;
mod mq_deadline;
mod none;
mod noop;
mod scan;
mod sptf;
mod sstf;
mod virtual_clock;
mod youchoose;

/// The schedulers of current Linux (`/sys/block/*/queue/scheduler`).
pub static KERNEL: &[&SchedulerSpec] = &[&none::SPEC, &mq_deadline::SPEC, &kyber::SPEC, &bfq::SPEC];

/// Schedulers of some distributions' kernels that mainline lacks; a device may offer them besides [`KERNEL`].
pub static OUT_OF_TREE: &[&SchedulerSpec] = &[&adios::SPEC];

/// All schedulers that a Linux device may offer, mainline first.
pub fn of_linux() -> impl Iterator<Item = &'static SchedulerSpec> + Clone {
    KERNEL.iter().chain(OUT_OF_TREE).copied()
}

/// The name in current Linux of this scheduler or of its successor; `None` if it has neither. bfq is not cfq's successor but a different
/// scheduler.
pub fn linux_name(name: &str) -> Option<&'static str> {
    match name {
        "noop" => Some(none::SPEC.name),
        "deadline" => Some(mq_deadline::SPEC.name),
        _ => of_linux().map(|spec| spec.name).find(|known| *known == name),
    }
}

/// Textbook schedulers, and those of Linux up to 4.20.
pub static CLASSIC: &[&SchedulerSpec] = &[&noop::SPEC, &sstf::SPEC, &clook::SPEC, &deadline::SPEC, &anticipatory::SPEC, &cfq::SPEC];

/// Schedulers that divide a device among tenants ([`tenants`](crate::tenants)).
pub static SHARING: &[&SchedulerSpec] =
    &[&fairio::SPEC, &io_cost::SPEC, &virtual_clock::SPEC, &youchoose::SPEC, &mclock::SPEC, &guarantee::SPEC];

/// All schedulers that do not learn: the classic ones, an elevator and a bound for comparison, those of current Linux, the out-of-tree
/// ones, and the sharing ones.
pub static ALL: &[&SchedulerSpec] = &[
    &noop::SPEC,
    &sstf::SPEC,
    &clook::SPEC,
    &deadline::SPEC,
    &anticipatory::SPEC,
    &cfq::SPEC,
    &scan::SPEC,
    &sptf::SPEC,
    &none::SPEC,
    &mq_deadline::SPEC,
    &kyber::SPEC,
    &bfq::SPEC,
    &adios::SPEC,
    &fairio::SPEC,
    &io_cost::SPEC,
    &virtual_clock::SPEC,
    &youchoose::SPEC,
    &mclock::SPEC,
    &guarantee::SPEC,
];

/// Redistributes the queued requests of a scheduler for a new roster: drains them, calls `reset` to set the roster, and calls `insert` for
/// each. Merging is off meanwhile, as the host could not be notified of a merge.
fn resort<S: Scheduler>(scheduler: &mut S, limits: Limits, reset: impl FnOnce(&mut S), mut insert: impl FnMut(&mut S, Request)) {
    let mut waiting = Vec::new();
    scheduler.drain(&mut waiting);
    reset(scheduler);
    scheduler.set_limits(&Limits { max_sectors: 0, ..limits });
    for request in waiting {
        insert(scheduler, request);
    }
    scheduler.set_limits(&limits);
}

/// Indexes of asynchronous and synchronous requests.
const ASYNC: usize = 0;
const SYNC: usize = 1;

/// An array indexed by [`ASYNC`] and [`SYNC`].
fn by_kind<T: Copy>(of_async: T, of_sync: T) -> [T; 2] {
    let mut values = [of_async; 2];
    values[SYNC] = of_sync;
    values
}

#[cfg(test)]
mod tests {
    use super::{ALL, CLASSIC, KERNEL, OUT_OF_TREE, SHARING};
    use alloc::vec::Vec;
    use std::string::String;

    #[test]
    fn sets_are_disjoint_and_make_up_the_list_of_all() {
        let names = |set: &[&super::SchedulerSpec]| set.iter().map(|spec| spec.name).collect::<Vec<_>>();
        let of_linux = names(KERNEL).into_iter().chain(names(OUT_OF_TREE));
        let of_sets: Vec<_> = names(CLASSIC).into_iter().chain(["scan", "sptf"]).chain(of_linux).chain(names(SHARING)).collect();
        assert_eq!(names(ALL), of_sets);
    }

    #[test]
    fn every_file_in_the_folder_is_listed_and_every_scheduler_has_its_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sched")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        // The directory named after a scheduler holds its submodules.
        let files = names.filter_map(|name| name.strip_suffix(".rs").map(String::from));
        let mut files: Vec<String> = files.filter(|name| name != "mod").collect();
        let mut listed: Vec<String> = ALL.iter().map(|spec| spec.name.replace('-', "_")).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
    }
}
