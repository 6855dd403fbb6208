//! Comparisons: one load on one disk under several schedulers and controllers, and the records of the runs.

mod minutes;
mod record;
pub mod regime;
#[cfg(feature = "knowledge")]
mod remembered;
#[cfg(not(feature = "knowledge"))]
#[path = "without_knowledge.rs"]
mod remembered;
mod run_history;
mod runs;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use control::Setting;
use control::controller::ControllerInput;
use control::experience::Experience;
use guarantee::tenants::{Contract, Reference};
use observe::Preference;
use report::record::Record;
use sim::device::hdd::spec::QueuePolicy;
use sim::host::HostSettings;
use testbed::load::Load;
use testbed::named::{self, JobOptions};
use testbed::pool::Workers;
use testbed::trace::ReplayOptions;
use testbed::world::World;

pub use minutes::prediction;
pub use record::{figures_of, service};
pub use remembered::Remembered;
pub use run_history::RunHistory;
pub use runs::{RequestObserver, source};

use crate::experience;
use progress::monitor::Monitor;
use regime::Regime;
use runs::Plan;

/// Scheduler for running streams alone, as the baseline of their slowdown: with one stream fairness does not matter.
const ALONE: &str = "noop";

/// A load, the disk to run it on, and how.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// A trace, an fio job file, or the name of a shipped workload.
    pub load: PathBuf,
    /// Replay of a trace.
    pub replay: ReplayOptions,
    /// Seed for the random draws of a job file, in spite of `randrepeat`: each seed is another run, and 1 is fio's own.
    pub seed: u64,
    /// Whether the processes of a job file start one after the other, as on a real machine, rather than all at once.
    pub begin_apart: bool,
    /// Name or file of a profile, or an array as text.
    pub disk: String,
    /// Queue depth of the disk; `None` takes the profile's.
    pub queue_depth: Option<u32>,
    /// Order in which the disk serves its queue; `None` takes the profile's.
    pub queue_policy: Option<QueuePolicy>,
    /// Host tunables, each as `key=value`.
    pub host: Vec<String>,
    /// Settings for controllers to choose from, in the syntax of `--candidates`; empty for the default.
    pub candidates: Vec<String>,
    /// Preference for controllers; `None` for the default.
    pub preference: Option<Preference>,
    /// Experience for controllers; `None` takes the shipped one.
    pub experience: Option<PathBuf>,
    /// Knowledge base to learn from and to add the runs to.
    pub knowledge_base: Option<PathBuf>,
    /// Contract of the tenants that share the disk; `None` takes the comments of the job file, if any.
    pub tenants: Option<PathBuf>,
    /// Folder for a record of each run.
    pub record: Option<PathBuf>,
    /// Whether to measure the CPU time of schedulers and controllers, the only figure that varies from run to run.
    pub measures_cpu: bool,
}

impl Experiment {
    /// The jobs of a file on a disk, with defaults for everything else.
    pub fn of_jobs(file: &Path, disk: &str) -> Experiment {
        Experiment {
            load: file.to_owned(),
            replay: ReplayOptions::default(),
            seed: 1,
            begin_apart: false,
            disk: disk.to_owned(),
            queue_depth: None,
            queue_policy: None,
            host: Vec::new(),
            candidates: Vec::new(),
            preference: None,
            experience: None,
            knowledge_base: None,
            tenants: None,
            record: None,
            measures_cpu: false,
        }
    }

    /// The input of every controller, except its experience.
    fn brief(&self) -> anyhow::Result<ControllerInput> {
        let candidates = self.candidates()?;
        Ok(ControllerInput {
            preference: self.preference.unwrap_or_default(),
            candidates,
            seed: self.seed,
            experience: Arc::default(),
            fleet: Arc::default(),
        })
    }

    /// The settings to choose from.
    ///
    /// # Errors
    /// One of them is malformed.
    pub fn candidates(&self) -> anyhow::Result<Vec<Setting>> {
        regime::candidates(&self.candidates)
    }

    /// Experience for controllers: the named or shipped one, together with that of the knowledge base.
    fn lessons(&self, remembered: Option<&Remembered>) -> anyhow::Result<Arc<Experience>> {
        let experience = experience::load(self.experience.as_deref())?;
        match remembered.and_then(Remembered::experience).filter(|lived| !lived.cases.is_empty() || !lived.pools.is_empty()) {
            Some(lived) => Ok(Arc::new(experience.and(lived))),
            None => Ok(experience),
        }
    }

    /// Rejects options that apply only to controllers.
    fn expect_controller(&self) -> anyhow::Result<()> {
        let given = [
            (!self.candidates.is_empty(), "--candidates"),
            (self.preference.is_some(), "--preference"),
            (self.experience.is_some(), "--experience"),
            (self.knowledge_base.is_some(), "--kb"),
        ];
        let given = given.into_iter().find(|(given, _)| *given);
        given.map_or(Ok(()), |(_, name)| Err(anyhow::anyhow!("{name}: is for controllers, and no --controller is given")))
    }

    /// Runs the load under each regime. With `alone`, also runs its streams one by one, which slowdown and fairness require. Writes the
    /// records if `record` names a folder.
    ///
    /// # Errors
    /// Part of the input is invalid, a file cannot be read or written, or the work was interrupted.
    pub fn records(&self, regimes: Vec<Regime>, alone: bool, workers: Workers) -> anyhow::Result<Vec<Record>> {
        self.records_observed(regimes, alone, workers, None)
    }

    /// As [`records`](Experiment::records); passes each completed request of the runs under the regimes to the observer.
    ///
    /// # Errors
    /// As for `records`.
    pub fn records_observed(
        &self,
        regimes: Vec<Regime>,
        alone: bool,
        workers: Workers,
        observer: Option<RequestObserver>,
    ) -> anyhow::Result<Vec<Record>> {
        if let Some(folder) = &self.record {
            check_folder(folder).with_context(|| format!("--record {}", folder.display()))?;
        }
        let steered = regimes.iter().any(Regime::is_steered);
        if !steered {
            self.expect_controller()?;
        }
        let remembered = self.knowledge_base.as_deref().map(|path| Remembered::open(path, workers.monitor)).transpose()?;
        let mut brief = self.brief()?;
        if steered {
            brief.experience = self.lessons(remembered.as_ref())?;
        }
        regime::expect_different(&regimes)?;
        let plan = Plan { observer, ..self.plan(regimes, brief, alone, workers)? };
        let results = plan.run(workers)?;
        if let Some(remembered) = &remembered {
            plan.keep(&results, remembered, workers.monitor);
        }
        let records = plan.records(&results);
        if let Some(folder) = &self.record {
            std::fs::create_dir_all(folder).with_context(|| format!("--record {}", folder.display()))?;
            for record in &records {
                report::record::write(folder, record)?;
            }
        }
        Ok(records)
    }

    fn plan(&self, regimes: Vec<Regime>, brief: ControllerInput, alone: bool, workers: Workers) -> anyhow::Result<Plan> {
        let mut world = self.world()?;
        let load = self.load(&world, workers.monitor)?;
        let contract = self.contract()?;
        if let Some(contract) = &contract {
            world.roster = Some(contract.roster(&*load, &world, &Reference::model)?);
        }
        let candidates = brief.candidates.iter().map(|setting| ("--candidates", setting));
        let compared = regimes.iter().map(|regime| ("--scheduler or --vary", regime.begins_with()));
        candidates.chain(compared).try_for_each(|(given, setting)| regime::expect_settable_for(given, setting, &*load, &world))?;
        let alone: Option<Setting> = if alone { Some(regime::scheduler(ALONE)?) } else { None };
        let (remembers, threads) = (self.knowledge_base.is_some(), workers.threads);
        Ok(Plan {
            load,
            world,
            contract,
            regimes,
            brief,
            remembers,
            alone,
            measures_cpu: self.measures_cpu,
            threads,
            observer: None,
        })
    }

    /// Contract of the tenants that share the disk; `None` without one.
    ///
    /// # Errors
    /// The contract is invalid or cannot be read.
    pub fn contract(&self) -> anyhow::Result<Option<Contract>> {
        if let Some(path) = &self.tenants {
            return Contract::read(path).map(Some).context("--tenants");
        }
        match self.job_text()? {
            Some((text, source)) => Contract::of_job_file(&text, &source),
            None => Ok(None),
        }
    }

    /// Text of the load's job file, with its name for messages; `None` for a trace.
    ///
    /// # Errors
    /// There is no such load, or it cannot be read.
    pub fn job_text(&self) -> anyhow::Result<Option<(String, String)>> {
        named::job_text(&self.load, &self.replay)
    }

    /// The disk and host to run on.
    ///
    /// # Errors
    /// There is no such disk, or a host tunable is invalid.
    pub fn world(&self) -> anyhow::Result<World> {
        let mut world = World::new(&self.disk, self.queue_depth, self.queue_policy)?;
        world.host = HostSettings::parse(&self.host.join(",")).context("--set")?;
        Ok(world)
    }

    /// The load, placed on the disk.
    ///
    /// # Errors
    /// It cannot be read, or does not fit the disk.
    pub fn load(&self, world: &World, monitor: &dyn Monitor) -> anyhow::Result<Box<dyn Load>> {
        let jobs = JobOptions { seed: self.seed, begin_apart: self.begin_apart };
        named::open(&self.load, &self.replay, jobs, world, monitor)
    }
}

/// Checks, before any work is done, that records can be written to a folder.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    ensure!(existing.is_dir(), "{} is a file; a folder is wanted", existing.display());
    report::record::check_replaceable(&existing.join("record"))?;
    Ok(())
}
