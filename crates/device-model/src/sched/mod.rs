//! The learning schedulers, one file each, and the list of all schedulers. A new learning scheduler is a file with a `SPEC` and a line in
//! [`LEARNING`]; others belong in [`block::sched`].
//!
//! They are not in `block` because they need `std`: logarithms, a Fourier transform, a lock around shared knowledge.

use std::sync::{Mutex, PoisonError};

use block::SchedulerSpec;

pub mod per_request;

/// The learning schedulers; the first is the default.
pub static LEARNING: &[&SchedulerSpec] = &[&per_request::SPEC];

/// Schedulers of the program's user.
static ADDED: Mutex<Vec<&SchedulerSpec>> = Mutex::new(Vec::new());

/// Adds a scheduler to [`all`] for the lifetime of the process; one that was added before is not added again.
///
/// # Errors
/// Another scheduler has its name.
pub fn add(spec: &'static SchedulerSpec) -> Result<(), String> {
    match all().find(|known| known.name == spec.name) {
        Some(known) if std::ptr::eq(known, spec) => {}
        Some(_) => return Err(format!("there is a scheduler {} already; choose another name", spec.name)),
        None => ADDED.lock().unwrap_or_else(PoisonError::into_inner).push(spec),
    }
    Ok(())
}

/// Every scheduler: those of [`block::ALL`], those that learn, and those [added](add).
pub fn all() -> impl Iterator<Item = &'static SchedulerSpec> + Clone {
    let added = ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone();
    block::ALL.iter().chain(LEARNING).copied().chain(added)
}

/// The schedulers of textbooks and of Linux up to 4.20, and the learning ones.
pub fn classic() -> impl Iterator<Item = &'static SchedulerSpec> + Clone {
    block::CLASSIC.iter().chain(LEARNING).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_in_the_folder_is_listed_and_every_scheduler_has_its_file() {
        let folder = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/sched")).unwrap();
        let names = folder.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let files = names.filter_map(|name| name.strip_suffix(".rs").map(str::to_owned));
        let mut files: Vec<String> = files.filter(|name| name != "mod").collect();
        let mut listed: Vec<String> = LEARNING.iter().map(|spec| spec.name.replace('-', "_")).collect();
        files.sort();
        listed.sort();
        assert_eq!(files, listed);
    }

    #[test]
    fn only_the_listed_schedulers_learn_and_names_are_unique() {
        assert!(LEARNING.iter().all(|spec| spec.learns()));
        assert!(block::ALL.iter().all(|spec| !spec.learns()));
        let mut names: Vec<&str> = all().map(|spec| spec.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }

    #[test]
    fn a_scheduler_is_added_once_and_not_under_the_name_of_another() {
        let count = all().count();
        assert_eq!((add(&per_request::SPEC), all().count()), (Ok(()), count));
        let SchedulerSpec { name, summary, source, tunables, work_conserving, starvation_bound, knowledge, build } =
            per_request::SPEC;
        let other = SchedulerSpec { name, summary, source, tunables, work_conserving, starvation_bound, knowledge, build };
        assert!(add(Box::leak(Box::new(other))).unwrap_err().contains("per-request") && all().count() == count);
    }
}
