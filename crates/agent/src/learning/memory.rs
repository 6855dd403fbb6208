//! What was learned, in the agent's knowledge base.

use std::path::{Path, PathBuf};

use block::Nanos;
use control::experience::Experience;
use control::experience::GenePool;
use control::target::Identity;
use control::{DecisionRecord, Window};
use knowledge::ModelRow;
use knowledge::{DecisionRow, Knowledge, KnowledgeError, Pace, Retention, Row, Run, RunId, WindowRow, Writer};
use sha2::Digest as _;

/// The file in the agent's folder.
pub const FILE: &str = "knowledge.sqlite";
/// A load is written as a whole.
const WHOLE: Pace = Pace { rows: usize::MAX, time: Nanos(u64::MAX) };

/// The knowledge base of this machine.
#[derive(Clone, Debug)]
pub struct Memory {
    path: PathBuf,
}

/// What a load was like, and what was tried under it.
pub struct Lived<'a> {
    /// The plant and its device.
    pub identity: Identity,
    /// The load in words.
    pub source: String,
    /// The controller with its tunables.
    pub controller: String,
    /// When it began, in seconds since 1970.
    pub began_s: u64,
    /// Every window of it.
    pub windows: &'a [Window],
    /// Every decision.
    pub decided: &'a [DecisionRecord],
    /// What the search keeps.
    pub pools: &'a [GenePool],
}

impl Memory {
    /// In this folder.
    pub fn below(folder: &Path) -> Memory {
        Memory { path: folder.join(FILE) }
    }

    /// What is known: cases and gene pools. Nothing if there is no knowledge base yet.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn experience(&self) -> Result<Experience, KnowledgeError> {
        Knowledge::open_if_there(&self.path)?.map_or_else(|| Ok(Experience::default()), |knowledge| knowledge.experience())
    }

    /// Keeps what was lived through. The same is not kept twice.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn keep(&self, lived: &Lived) -> Result<(), String> {
        let decisions = lived.decided.iter().enumerate().map(|(number, one)| DecisionRow::new(number as u64, one));
        let windows = lived.windows.iter().map(WindowRow::from);
        let mut rows: Vec<Row> = windows.map(Row::from).chain(decisions.map(Row::from)).collect();
        for pool in lived.pools {
            rows.push(ModelRow::try_from(pool).map_err(|error| error.to_string())?.into());
        }
        let mut writer = Writer::open(&self.path, lived.run(), WHOLE, Retention::default());
        rows.into_iter().for_each(|row| writer.write(Nanos::ZERO, row));
        writer.finish()
    }
}

impl Memory {
    /// Keeps what a search found under real work.
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

impl Lived<'_> {
    /// The run, named by when it was and by its load. It has no seed: a real disk never does the same twice.
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
