//! The knowledge base of a comparison (`--kb`): controllers learn from earlier runs in it, and the runs of now are added to it.

use std::path::Path;

use anyhow::Context;
use block::Nanos;
use control::experience::Experience;
use knowledge::{
    DecisionRow, Knowledge, KnowledgeError, ModelRow, Pace, Problem, RequestRow, Retention, Row, Run, RunId, WindowRow, Writer,
};
use sha2::Digest;

use super::run_history::RunHistory;
use crate::request_log::RequestLog;
use crate::steered::Steered;
use progress::monitor::{Interrupted, Monitor};

/// A run is one transaction: it is stored completely or not at all, even if the program is killed.
const WHOLE_RUNS: Pace = Pace { rows: usize::MAX, time: Nanos(u64::MAX) };

/// An open knowledge base.
pub struct Remembered<'a> {
    path: &'a Path,
    /// Experience of earlier runs; `None` if it could not be read.
    lived: Option<Experience>,
}

impl<'a> Remembered<'a> {
    /// Reads the experience of earlier runs. If the file is locked, full or damaged, it warns and goes on without the knowledge base.
    ///
    /// # Errors
    /// The file is no knowledge base, has a later version, or can never be written.
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

    /// Experience of earlier runs; `None` if it could not be read.
    pub fn experience(&self) -> Option<&Experience> {
        self.lived.as_ref()
    }

    /// Stores the runs in order and deletes expired ones. Only warns if this fails.
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

/// Whether a comparison can do without the knowledge base. Other errors, such as a file of another kind, are reported.
fn is_passing(error: &KnowledgeError) -> bool {
    matches!(error.problem, Problem::Busy | Problem::Full(_) | Problem::Damaged(_) | Problem::Sqlite(_))
}

fn warn(monitor: &dyn Monitor, reason: &str, so: &str) {
    monitor.warn(&format!("warning: --kb {reason}; {so}"));
}

impl RunHistory<'_> {
    /// Adds the run to the knowledge base, and creates the file if there is none.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let steering = self.steered.steering();
        let (decided, windows) = (steering.decisions(), steering.windows());
        let decisions = decided.iter().enumerate().map(|(number, one)| DecisionRow::new(number as u64, one));
        let rows: Vec<Row> = windows.iter().map(|window| WindowRow::from(window).into()).chain(decisions.map(Row::from)).collect();
        let run = self.run(&rows);
        let models: Vec<ModelRow> = self.model(&run).into_iter().chain(self.pools(&run)?).collect();
        let mut writer = Writer::open(path, run, WHOLE_RUNS, Retention::default());
        let requests = kept_requests(self.steered).into_iter().map(Row::from);
        rows.into_iter().chain(requests).chain(models.into_iter().map(Row::from)).for_each(|row| writer.write(Nanos::ZERO, row));
        writer.finish()
    }

    /// The run. Its id is a hash of all its rows, so that an identical run is not stored twice.
    fn run(&self, rows: &[Row]) -> Run {
        let identity = self.steered.identity();
        let mut run = Run {
            id: RunId([0; 16]),
            // No timestamps: identical runs must give identical bytes.
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

    /// Gene pools of a genetic search for the loads it has met.
    fn pools(&self, run: &Run) -> Result<Vec<ModelRow>, String> {
        let pools = self.steered.steering().controller().gene_pools(&run.device);
        pools.iter().map(|pool| ModelRow::try_from(pool).map_err(|error| error.to_string())).collect()
    }

    /// The controller's model at the end of the run.
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

/// The recorded requests of the run; empty if none were recorded.
fn kept_requests(steered: &Steered) -> Vec<RequestRow> {
    steered.kept_requests().map_or_else(Vec::new, RequestLog::rows)
}
