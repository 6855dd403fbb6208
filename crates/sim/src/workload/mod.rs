//! Workloads: fio job files. Their files are placed on a device, and their jobs run as processes against a host.
//!
//! ```text
//! text --parse--> Workload --place--> PlacedWorkload --requests--> actions of each job, in order
//!                 (jobs)              (files) \
//!                                              run: one process for each job --Call--> Host
//! ```
//! Every option has its meaning in fio 3.33, so a file can be run by the simulator and by fio. Options that are not simulated are
//! errors. One effect of fio is not simulated: the creation of files, and the filling of those that are read. Before a job starts,
//! its parts of the files are dropped from the page cache (`invalidate`): once, while fio does so whenever it opens a file, as
//! before each of several `loops`.

mod command_line;
mod command_priority;
mod composite;
mod distribution;
mod error;
mod flow;
mod in_flight;
mod iolog;
mod job;
mod layout;
mod lines;
mod options;
mod pace;
mod place;
mod plan;
mod process;
mod processes;
pub mod random;
mod random_map;
mod refused;
mod requests;
mod sections;
mod steady;
mod table;
mod think_time;
mod value;
mod verify;
mod volume;

use std::sync::Arc;

use lines::Lines;

pub use command_line::is_command_line;
pub use error::WorkloadError;
pub use iolog::Iolog;
pub use job::Job;
pub use lines::{Alone, Surroundings};
pub use options::{
    Amount, BlockSizes, Blocks, CommandPriorities, CommandPriority, DIRECTIONS, Distribution, Engine, ExitWhat, FileService, Files,
    Flow, JobKind, Length, Options, Order, Pattern, PriorityOptions, Queue, Rates, Sequencer, Steady, SteadyState, SyncMode, Syncs,
    ThinkTime, Together, Verify, Zones,
};
pub use place::PlacedWorkload;
pub use process::Ending;
pub use processes::{Span, WorkloadRun, run};

/// The jobs of an fio job file.
#[derive(Clone, Debug)]
pub struct Workload {
    source: Arc<str>,
    text: Arc<str>,
    jobs: Arc<[Job]>,
}

impl Workload {
    /// Parses a job file's text, or a [command line](is_command_line) of fio, without includes or variables. `source` is its name
    /// in errors.
    ///
    /// # Errors
    /// The text is not a job file, or an option is not supported or contradicts another; the error names the line.
    pub fn parse(text: &str, source: &str) -> Result<Workload, WorkloadError> {
        Workload::parse_in(text, source, &Alone)
    }

    /// Parses a job file's text, which may include other files and use variables.
    ///
    /// # Errors
    /// As [`parse`](Workload::parse), or a file or variable is missing.
    pub fn parse_in(text: &str, source: &str, surroundings: &dyn Surroundings) -> Result<Workload, WorkloadError> {
        let lines = Lines::read(text, source, surroundings)?;
        let jobs = job::jobs(&sections::read(&lines)?, &lines)?.into();
        let text = lines.text().map_or_else(|| text.into(), Arc::from);
        Ok(Workload { source: source.into(), text, jobs })
    }

    /// The text: as parsed or, if it includes files or uses variables, as a job file with these replaced. Equal texts are equal
    /// workloads.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The jobs in file order, one per process.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Places the files of all jobs on a device of `capacity_sectors` sectors. `seed` determines the location of directories and
    /// the random numbers of jobs with `randrepeat=0`.
    ///
    /// # Errors
    /// The files do not fit, or a job's part of them is empty or undefined.
    pub fn place(&self, capacity_sectors: u64, seed: u64) -> Result<PlacedWorkload, WorkloadError> {
        place::place(self, capacity_sectors, seed)
    }
}
