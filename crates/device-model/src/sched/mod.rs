//! The schedulers that learn, one file each, and the list of all schedulers there are. A new one that learns is a file with a `SPEC` and a
//! line in [`LEARNING`]; one that does not belongs in [`block::sched`].
//!
//! They are not in `block` because they need `std`: logarithms, a Fourier transform, a lock around what outlives the scheduler.

use block::SchedulerSpec;

pub mod per_request;

/// Those that learn. The first is the one that is meant where just a learning scheduler is asked for.
pub static LEARNING: &[&SchedulerSpec] = &[&per_request::SPEC];

/// Every scheduler: those of [`block::ALL`], and those that learn.
pub fn all() -> impl Iterator<Item = &'static SchedulerSpec> + Clone {
    block::ALL.iter().chain(LEARNING).copied()
}

/// Those of textbooks and of Linux up to 4.20, and ours, which are tried with them.
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
    fn those_listed_here_learn_the_others_do_not_and_no_two_have_the_same_name() {
        assert!(LEARNING.iter().all(|spec| spec.learns()));
        assert!(block::ALL.iter().all(|spec| !spec.learns()));
        let mut names: Vec<&str> = all().map(|spec| spec.name).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().count());
    }
}
