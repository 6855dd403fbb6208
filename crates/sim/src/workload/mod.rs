//! Workloads: fio job files, whose files are laid out on a device and whose jobs run as processes against a host.
//!
//! ```text
//! text --parse--> Workload --place--> PlacedWorkload --requests--> what each job issues, in order
//!                 (jobs)              (files) \
//!                                              run: processes that think, wait, keep a depth --Call--> Host
//! ```
//! Every option has its meaning in fio 3.33, so the same file drives the simulator and the real fio. Options that are not
//! simulated are errors. Two things that fio does by itself are not simulated: it advises the kernel how a file will be read
//! (`fadvise_hint`), and it creates the files. Before a job starts, its parts of the files are dropped from the page cache
//! (`invalidate`); fio does so whenever it opens a file, here it is done once, not before each of several `loops`.

mod distribution;
mod error;
mod iolog;
mod job;
mod layout;
mod options;
mod pace;
mod place;
mod process;
mod processes;
pub mod random;
mod random_map;
mod requests;
mod sections;
mod table;
mod value;

use std::sync::Arc;

pub use error::WorkloadError;
pub use iolog::Iolog;
pub use job::Job;
pub use options::{
    Amount, BlockSizes, DIRECTIONS, Distribution, Engine, FileService, Kind, Options, Pattern, Sequencer, SyncMode, Zones,
};
pub use place::PlacedWorkload;
pub use processes::{Span, WorkloadRun, run};

/// The jobs of an fio job file.
#[derive(Clone, Debug)]
pub struct Workload {
    source: Arc<str>,
    jobs: Arc<[Job]>,
}

impl Workload {
    /// Parses a job file's text; `source` is its name in errors.
    ///
    /// # Errors
    /// The text is not a job file, or an option is not supported or contradicts another; the error names the line.
    pub fn parse(text: &str, source: &str) -> Result<Workload, WorkloadError> {
        let sections = sections::read(text, source)?;
        Ok(Workload { source: source.into(), jobs: job::jobs(&sections, source)?.into() })
    }

    /// The jobs in file order, one per process.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Lays out the files of all jobs on a device of `capacity_sectors` sectors. `seed` determines the placement of directories
    /// and the random numbers of jobs with `randrepeat=0`.
    ///
    /// # Errors
    /// If the files do not fit, or a job's part of them is empty or unknown.
    pub fn place(&self, capacity_sectors: u64, seed: u64) -> Result<PlacedWorkload, WorkloadError> {
        place::place(self, capacity_sectors, seed)
    }
}
