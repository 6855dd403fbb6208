//! Results of learning mode in the agent's knowledge base.

use std::path::{Path, PathBuf};

use block::Nanos;
use control::experience::Experience;
use control::experience::GenePool;
use control::target::Identity;
use control::{DecisionRecord, Window};
use knowledge::{DecisionRow, Knowledge, KnowledgeError, Pace, Retention, Row, Run, RunId, WindowRow, Writer};
use knowledge::{ModelRow, NewOutcome};
use sha2::Digest as _;

/// File name in the state directory. Choice: a name for its content and format; not varied.
pub const FILE: &str = "knowledge.sqlite";
/// All rows of a load are written in one batch. Choice: no limit, as a load has few rows; not varied.
const WHOLE: Pace = Pace { rows: usize::MAX, time: Nanos(u64::MAX) };

/// The knowledge base of this machine.
#[derive(Clone, Debug)]
pub struct Memory {
    path: PathBuf,
}

/// Record of a load: its windows and the decisions of the search.
pub struct LoadRecord<'a> {
    /// The plant and its device.
    pub identity: Identity,
    /// The load as text.
    pub source: String,
    /// The controller with its tunables.
    pub controller: String,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// Every window of it.
    pub windows: &'a [Window],
    /// Every decision.
    pub decided: &'a [DecisionRecord],
    /// Gene pools of the search.
    pub pools: &'a [GenePool],
}

impl Memory {
    /// The knowledge base in this folder, which need not exist yet.
    pub fn below(folder: &Path) -> Memory {
        Memory { path: folder.join(FILE) }
    }

    /// The stored cases and gene pools; empty if there is no knowledge base yet.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn experience(&self) -> Result<Experience, KnowledgeError> {
        Knowledge::open_if_there(&self.path)?.map_or_else(|| Ok(Experience::default()), |knowledge| knowledge.experience())
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records the outcome of a change, to be delivered to other machines.
    ///
    /// # Errors
    /// The outcome is invalid; the file cannot be written.
    pub fn record_outcome(&self, outcome: &NewOutcome) -> Result<(), KnowledgeError> {
        Knowledge::open(&self.path)?.record_outcome(outcome)
    }

    /// Stores a load. Storing the same one again changes nothing.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, load: &LoadRecord) -> Result<(), String> {
        let decisions = load.decided.iter().enumerate().map(|(number, one)| DecisionRow::new(number as u64, one));
        let windows = load.windows.iter().map(WindowRow::from);
        let mut rows: Vec<Row> = windows.map(Row::from).chain(decisions.map(Row::from)).collect();
        for pool in load.pools {
            rows.push(ModelRow::try_from(pool).map_err(|error| error.to_string())?.into());
        }
        let mut writer = Writer::open(&self.path, load.run(), WHOLE, Retention::default());
        rows.into_iter().for_each(|row| writer.write(Nanos::ZERO, row));
        writer.finish()
    }
}

impl Memory {
    /// Stores gene pools of a search that ran under the normal workload.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep_pools(&self, pools: &[GenePool]) -> Result<(), String> {
        if pools.is_empty() {
            return Ok(());
        }
        let rows: Result<Vec<_>, _> = pools.iter().map(ModelRow::try_from).collect();
        let rows = rows.map_err(|error| error.to_string())?;
        let written = Knowledge::open(&self.path).and_then(|mut knowledge| {
            let mut batch = knowledge.batch()?;
            for row in &rows {
                batch.model(row)?;
            }
            batch.commit()
        });
        written.map_err(|error| error.to_string())
    }
}

impl LoadRecord<'_> {
    /// The run; its id is a hash of start time and load. It has no seed: a real disk is not deterministic.
    fn run(&self) -> Run {
        let mut run = Run {
            id: RunId([0; 16]),
            began_s: self.began_s.cast_signed(),
            plant: self.identity.plant.clone(),
            device: self.identity.device.clone(),
            source: self.source.clone(),
            seed: None,
            program: format!("seekwise-agent {}, {}", env!("CARGO_PKG_VERSION"), self.controller),
        };
        let first = self.windows.first().map(|window| window.from);
        let digest = sha2::Sha256::digest(format!("{run:?}{first:?}"));
        run.id.0.copy_from_slice(&digest[..16]);
        run
    }
}
