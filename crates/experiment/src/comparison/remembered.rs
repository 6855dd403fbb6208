//! The knowledge base of a comparison (`--kb`): controllers learn from earlier runs in it, and the runs of now are added to it.

use std::path::Path;

use anyhow::Context;
use block::Nanos;
use control::experience::Experience;
use knowledge::{
    DecisionRow, Knowledge, KnowledgeError, ModelRow, Pace, Problem, RequestRow, Retention, Row, Run, RunId, WindowRow, Writer,
};
use observe::Preference;
use sha2::Digest;

use super::minutes;
use crate::request_log::RequestLog;
use crate::steered::Steered;
use progress::monitor::{Interrupted, Monitor};

/// All of a run is one transaction: it is there wholly or not at all, whenever the program is killed.
const WHOLE_RUNS: Pace = Pace { rows: usize::MAX, time: Nanos(u64::MAX) };

/// What `--kb` names.
pub struct Remembered<'a> {
    path: &'a Path,
    /// `None` once it could not be read or written.
    lived: Option<Experience>,
}

/// A run, to be kept.
pub struct RunHistory<'a> {
    /// The workload or trace: what is called the same is the same.
    pub source: &'a str,
    /// What was drawn from.
    pub seed: u64,
    /// The scheduler or controller with its tunables.
    pub under: String,
    /// What gains are measured by.
    pub preference: &'a Preference,
    /// Windows, decisions and requests.
    pub steered: &'a Steered,
}

impl<'a> Remembered<'a> {
    /// Reads what was lived through before. What only stands in the way for now is a warning, and the knowledge base is done without.
    ///
    /// # Errors
    /// It is no knowledge base, or one of a later version, or can never be written.
    pub fn open(path: &'a Path, monitor: &dyn Monitor) -> anyhow::Result<Remembered<'a>> {
        let opened = Knowledge::open_if_there(path);
        let lived = opened.and_then(|knowledge| knowledge.map_or_else(|| Ok(Experience::default()), |it| it.experience()));
        match lived {
            Ok(lived) => Ok(Remembered { path, lived: Some(lived) }),
            Err(error) if is_passing(&error) => {
                warn(monitor, &error.to_string(), "the runs go on without it");
                Ok(Remembered { path, lived: None })
            }
            Err(KnowledgeError { problem: Problem::Interrupted, .. }) => Err(Interrupted.into()),
            Err(error) => Err(error).context("--kb"),
        }
    }

    /// What was lived through before.
    pub fn experience(&self) -> Option<&Experience> {
        self.lived.as_ref()
    }

    /// Writes the runs in their order and forgets what is too old. A failure is a warning; the comparison goes on.
    pub fn keep<'b>(&self, runs: impl IntoIterator<Item = RunHistory<'b>>, monitor: &dyn Monitor) {
        if self.lived.is_none() {
            return;
        }
        let kept = runs.into_iter().try_for_each(|lived| lived.write(self.path));
        let pruned = kept.and_then(|()| {
            if Knowledge::is_server(self.path) {
                // A shared database is pruned manually.
                return Ok(());
            }
            let pruned = Knowledge::open_existing(self.path).and_then(|mut knowledge| knowledge.prune(&Retention::default()));
            pruned.map(drop).map_err(|error| error.to_string())
        });
        if let Err(reason) = pruned {
            warn(monitor, &reason, "not all that was lived through is kept");
        }
    }
}

/// Who runs a comparison may do without the knowledge base, but not without noticing that another file was named.
fn is_passing(error: &KnowledgeError) -> bool {
    matches!(error.problem, Problem::Busy | Problem::Full(_) | Problem::Damaged(_) | Problem::Sqlite(_))
}

fn warn(monitor: &dyn Monitor, reason: &str, so: &str) {
    monitor.warn(&format!("warning: --kb {reason}; {so}"));
}

impl RunHistory<'_> {
    /// Adds it to the knowledge base in this file, which need not be there yet.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let steering = self.steered.steering();
        let (decided, windows) = (steering.decisions(), steering.windows());
        let decisions = decided.iter().enumerate().map(|(number, one)| DecisionRow {
            measured_gain: minutes::measured_gain(decided, number, windows, self.preference),
            ..DecisionRow::new(number as u64, one)
        });
        let rows: Vec<Row> = windows.iter().map(|window| WindowRow::from(window).into()).chain(decisions.map(Row::from)).collect();
        let run = self.run(&rows);
        let models: Vec<ModelRow> = self.model(&run).into_iter().chain(self.pools(&run)?).collect();
        let mut writer = Writer::open(path, run, WHOLE_RUNS, Retention::default());
        let requests = kept_requests(self.steered).into_iter().map(Row::from);
        rows.into_iter().chain(requests).chain(models.into_iter().map(Row::from)).for_each(|row| writer.write(Nanos::ZERO, row));
        writer.finish()
    }

    /// The run. Its name comes from all that happened in it: the same again is known already, and not kept twice.
    fn run(&self, rows: &[Row]) -> Run {
        let identity = self.steered.identity();
        let mut run = Run {
            id: RunId([0; 16]),
            // By no clock: the same runs shall leave the same bytes.
            began_s: 0,
            plant: identity.plant,
            device: identity.device,
            source: self.source.to_owned(),
            seed: Some(self.seed),
            program: format!("seekwise {}, {}", env!("CARGO_PKG_VERSION"), self.under),
        };
        let mut hasher = sha2::Sha256::new();
        hasher.update(format!("{run:?}{:?}", self.preference));
        rows.iter().for_each(|row| hasher.update(format!("{row:?}")));
        run.id.0.copy_from_slice(&hasher.finalize()[..16]);
        run
    }

    /// What a genetic search keeps of the loads that it met.
    fn pools(&self, run: &Run) -> Result<Vec<ModelRow>, String> {
        let pools = self.steered.steering().controller().gene_pools(&run.device);
        pools.iter().map(|pool| ModelRow::try_from(pool).map_err(|error| error.to_string())).collect()
    }

    /// The model that the controller went by in the end.
    fn model(&self, run: &Run) -> Option<ModelRow> {
        let model = self.steered.steering().controller().model()?;
        Some(ModelRow {
            name: format!("{} on {}", self.under, run.device),
            kind: model.learner.to_owned(),
            json: model.json,
            trained_s: run.began_s,
            features: model.features,
        })
    }
}

/// The requests that are kept of the run.
fn kept_requests(steered: &Steered) -> Vec<RequestRow> {
    steered.kept_requests().map_or_else(Vec::new, RequestLog::rows)
}
