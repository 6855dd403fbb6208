//! A comparison: one load on one disk under schedulers and controllers, and the records that come of it.

mod jobs;
mod minutes;
mod record;
pub mod regime;
mod remembered;
mod runs;
mod trace;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use control::Setting;
use control::controller::ControllerInput;
use control::experience::Experience;
use observe::Preference;
use report::record::Record;
use sim::device::hdd::spec::QueuePolicy;
use sim::host::HostSettings;

pub use trace::{LONGEST_REPLAY_S, OF_THE_QUEUE, ReplayOptions, SPEEDS, SurveyedTrace, TraceLoad};

pub use crate::load::Load;
pub use jobs::JobsLoad;
pub use minutes::{percent, promise};
pub use record::{figures_of, service};
pub use remembered::{Remembered, RunHistory};
pub use runs::{RequestObserver, source};

use crate::experience;
use crate::gain_model;
use crate::pool::Workers;
use crate::shipped;
use crate::tenants::{Contract, Reference};
use crate::world::World;
use progress::monitor::Monitor;
use regime::Regime;
use runs::Plan;

/// Under this scheduler each stream has the disk to itself when its slowdown is measured: with one stream there is none to be
/// fair to.
const ALONE: &str = "noop";

/// What is run, and on what.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// A trace, an fio job file, or the name of a workload that comes with the program.
    pub load: PathBuf,
    /// How a trace is replayed.
    pub replay: ReplayOptions,
    /// What the jobs of a job file draw from.
    pub seed: u64,
    /// The processes of a job file begin one after the other, as on a real machine, and not all at once.
    pub begin_apart: bool,
    /// A profile's name or file, or an array in a line.
    pub disk: String,
    /// Requests the disk takes at once; `None` leaves the profile's.
    pub queue_depth: Option<u32>,
    /// The order in which the disk serves them; `None` leaves the profile's.
    pub queue_policy: Option<QueuePolicy>,
    /// Tunables of the host, each as `key=value`.
    pub host: Vec<String>,
    /// What controllers choose among, as `--candidates` says it; empty for the default.
    pub candidates: Vec<String>,
    /// What a controller shall care for.
    pub preference: Option<Preference>,
    /// What controllers learn from; `None` is what comes with the program.
    pub experience: Option<PathBuf>,
    /// A knowledge base to learn from and to add to.
    pub knowledge_base: Option<PathBuf>,
    /// Who shares the disk, and what each was promised; `None`: whom the job file's comments name, if any.
    pub tenants: Option<PathBuf>,
    /// A folder that gets a record of each run.
    pub record: Option<PathBuf>,
    /// Whether the processor time of schedulers and controllers is measured, the one figure that differs from run to run.
    pub measures_cpu: bool,
}

impl Experiment {
    /// The jobs of a file on a disk, with everything as usual.
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

    /// The input of every controller but its experience.
    fn brief(&self) -> anyhow::Result<ControllerInput> {
        let candidates = self.candidates()?;
        Ok(ControllerInput {
            preference: self.preference.unwrap_or_default(),
            candidates,
            seed: self.seed,
            experience: Arc::default(),
            gains: Arc::default(),
            fleet: Arc::default(),
        })
    }

    /// What there is to choose from.
    ///
    /// # Errors
    /// One of them is no setting.
    pub fn candidates(&self) -> anyhow::Result<Vec<Setting>> {
        regime::candidates(&self.candidates)
    }

    /// What controllers are to learn from: what is shipped or named, and what the knowledge base has seen.
    fn lessons(&self, remembered: Option<&Remembered>) -> anyhow::Result<Arc<Experience>> {
        let experience = experience::load(self.experience.as_deref())?;
        match remembered.and_then(Remembered::experience).filter(|lived| !lived.cases.is_empty() || !lived.pools.is_empty()) {
            Some(lived) => Ok(Arc::new(experience.and(lived))),
            None => Ok(experience),
        }
    }

    /// Refuses what only controllers heed.
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

    /// Runs the load under each of the regimes; `alone` also runs its streams one by one, so that slowdown and fairness can be told.
    /// Writes the records if a folder for them is named.
    ///
    /// # Errors
    /// Something of the input is wrong, a file cannot be read or written, or the work was interrupted.
    pub fn records(&self, regimes: Vec<Regime>, alone: bool, workers: Workers) -> anyhow::Result<Vec<Record>> {
        self.records_observed(regimes, alone, workers, None)
    }

    /// As [`records`](Experiment::records); each request of the runs under the regimes is shown to the observer when it completes.
    ///
    /// # Errors
    /// As of that.
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
            brief.gains = gain_model::load(None)?;
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
        let settable: Vec<String> = load.replay(&world).host.into_iter().map(|(name, _)| name).collect();
        let candidates = brief.candidates.iter().map(|setting| ("--candidates", setting));
        let compared = regimes.iter().map(|regime| ("--scheduler or --vary:", regime.begins_with()));
        candidates.chain(compared).try_for_each(|(given, setting)| regime::expect_settable(given, setting, &settable))?;
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

    /// The tenants that share the disk, if a contract names them.
    ///
    /// # Errors
    /// What says so is not as it should be.
    pub fn contract(&self) -> anyhow::Result<Option<Contract>> {
        if let Some(path) = &self.tenants {
            return Contract::read(path).map(Some).context("--tenants");
        }
        match self.job_text()? {
            Some((text, source)) => Contract::of_job_file(&text, &source),
            None => Ok(None),
        }
    }

    /// The text of the load's job file and its name in messages; `None` for a trace.
    ///
    /// # Errors
    /// There is no such load, or it cannot be read.
    pub fn job_text(&self) -> anyhow::Result<Option<(String, String)>> {
        if self.replay.memory.is_some() { Ok(None) } else { shipped::job_text(&self.load) }
    }

    /// On what it is run.
    ///
    /// # Errors
    /// There is no such disk, or a tunable of the host is wrong.
    pub fn world(&self) -> anyhow::Result<World> {
        let mut world = World::new(&self.disk, self.queue_depth, self.queue_policy)?;
        world.host = HostSettings::parse(&self.host.join(",")).context("--set")?;
        Ok(world)
    }

    /// What is run on it.
    ///
    /// # Errors
    /// It cannot be read, or does not fit on the disk.
    pub fn load(&self, world: &World, monitor: &dyn Monitor) -> anyhow::Result<Box<dyn Load>> {
        Ok(match self.job_text()? {
            Some((text, source)) => {
                if let Some(argument) = self.replay.given() {
                    anyhow::bail!("{argument}: is for traces; {source} is a job file, which says itself how its jobs run");
                }
                let load = JobsLoad::new(&text, &source, self.seed, world)?;
                Box::new(if self.begin_apart { load.with_staggered_starts() } else { load })
            }
            None => Box::new(TraceLoad::new(&self.load, &self.replay, world, monitor)?),
        })
    }
}

/// Refuses a folder that records could not be written into, before any work is done for them.
fn check_folder(folder: &Path) -> anyhow::Result<()> {
    let existing = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
    ensure!(existing.is_dir(), "{} is a file; a folder is wanted", existing.display());
    report::record::check_replaceable(&existing.join("record"))?;
    Ok(())
}
