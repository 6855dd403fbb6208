//! The knowledge base beside a comparison (`--kb`): controllers learn from what earlier runs left in it, and what is lived through now
//! goes into it.

use std::collections::VecDeque;
use std::path::Path;

use anyhow::Context;
use block::{Nanos, Request};
use control::experience::Experience;
use knowledge::{
    DecisionRow, Knowledge, KnowledgeError, ModelRow, Pace, Problem, RequestRow, Retention, Row, Run, RunId, WindowRow, Writer,
};
use observe::Preference;
use sha2::Digest;

use super::minutes;
use crate::steered::Steered;
use progress::monitor::Monitor;

/// All of a run is one transaction: it is there wholly or not at all, whenever the program is killed.
const WHOLE_RUNS: Pace = Pace { rows: usize::MAX, time: Nanos(u64::MAX) };

/// Requests kept of a run, the newest: a tenth of what a knowledge base keeps in all.
const MOST_REQUESTS: usize = 100_000;

/// What `--kb` names.
pub struct Remembered<'a> {
    path: &'a Path,
    /// `None` once it could not be read or written.
    lived: Option<Experience>,
}

/// A run, to be kept.
pub struct Lived<'a> {
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
            Err(error) => Err(error).context("--kb"),
        }
    }

    /// What was lived through before.
    pub fn experience(&self) -> Option<&Experience> {
        self.lived.as_ref()
    }

    /// Writes the runs in their order and forgets what is too old. If that fails it says so, and nobody is stopped.
    pub fn keep<'b>(&self, runs: impl IntoIterator<Item = Lived<'b>>, monitor: &dyn Monitor) {
        if self.lived.is_none() {
            return;
        }
        let kept = runs.into_iter().try_for_each(|lived| lived.write(self.path));
        let pruned = kept.and_then(|()| {
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

impl Lived<'_> {
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
        let requests = self.steered.requests().into_iter().map(Row::from);
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

/// The requests that were done under a scheduler that learns: the newest of them, so that a long run takes no more memory.
#[derive(Debug, Default)]
pub struct Requests {
    done: VecDeque<Done>,
    /// Counts up whenever another scheduler has sent a request.
    stretch: u64,
    forgotten: u64,
}

#[derive(Debug)]
struct Done {
    stretch: u64,
    request: Request,
    dispatched: Nanos,
    at: Nanos,
}

impl Requests {
    /// A request that it sent is done.
    pub fn done(&mut self, request: Request, dispatched: Nanos, at: Nanos) {
        if self.done.len() == MOST_REQUESTS {
            self.done.pop_front();
            self.forgotten += 1;
        }
        self.done.push_back(Done { stretch: self.stretch, request, dispatched, at });
    }

    /// Another scheduler sent one: where the head was before the next is not known.
    pub fn interrupt(&mut self) {
        if self.done.back().is_some_and(|last| last.stretch == self.stretch) {
            self.stretch += 1;
        }
    }

    /// In the order in which they went to the device. The first of each stretch is left out: its distance is not known.
    fn rows(&self) -> Vec<RequestRow> {
        let mut sent: Vec<&Done> = self.done.iter().collect();
        // Parts of one merged request went at the same time, in the order of their places.
        sent.sort_by_key(|done| (done.stretch, done.dispatched, done.request.lba));
        let row = |(number, pair): (usize, &[&Done])| {
            let (before, Done { stretch, request, dispatched, at }) = (pair[0], pair[1]);
            (before.stretch == *stretch).then(|| RequestRow {
                number: self.forgotten + number as u64,
                op: request.op,
                lba: request.lba,
                sectors: request.sectors,
                sync: request.sync,
                distance: request.lba.wrapping_sub(before.request.end()).cast_signed(),
                queued: request.arrival,
                dispatched: *dispatched,
                done: *at,
            })
        };
        sent.windows(2).enumerate().filter_map(row).collect()
    }
}

impl Steered {
    /// The requests that are kept of the run.
    fn requests(&self) -> Vec<RequestRow> {
        self.kept_requests().map_or_else(Vec::new, Requests::rows)
    }
}

#[cfg(test)]
mod tests {
    use block::{Op, Priority};

    use super::*;

    fn done(requests: &mut Requests, lba: u64, dispatched: u64) {
        let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos(dispatched - 1));
        let request = Request { id: 0, stream: 0, op, sync: true, priority, sectors: 8, lba, arrival };
        requests.done(request, Nanos(dispatched), Nanos(dispatched + 5));
    }

    fn distances(requests: &Requests) -> Vec<(u64, u64, i64)> {
        requests.rows().iter().map(|row| (row.number, row.lba, row.distance)).collect()
    }

    #[test]
    fn distances_go_by_the_order_in_which_requests_went_to_the_device() {
        let mut requests = Requests::default();
        assert_eq!(distances(&requests), []);
        // The second was done first; the third and fourth were merged.
        for (lba, dispatched) in [(1000, 20), (100, 10), (3008, 30), (3000, 30)] {
            done(&mut requests, lba, dispatched);
        }
        assert_eq!(distances(&requests), [(0, 1000, 892), (1, 3000, 1992), (2, 3008, 0)]);
        let row = requests.rows()[0];
        assert_eq!((row.queued, row.dispatched, row.done), (Nanos(19), Nanos(20), Nanos(25)));
    }

    #[test]
    fn after_another_scheduler_the_first_distance_is_not_known() {
        let mut requests = Requests::default();
        requests.interrupt();
        for (number, lba) in [5000, 100, 200, 300].into_iter().enumerate() {
            if number == 2 {
                requests.interrupt();
                requests.interrupt();
            }
            done(&mut requests, lba, 10 + number as u64);
        }
        assert_eq!(distances(&requests), [(0, 100, -4908), (2, 300, 92)]);
    }

    #[test]
    fn the_newest_are_kept_and_keep_their_numbers() {
        let mut requests = Requests::default();
        for number in 0..=MOST_REQUESTS as u64 {
            done(&mut requests, 8 * number, 10 + number);
        }
        let rows = requests.rows();
        assert_eq!((rows.len(), rows[0].number, rows[0].lba), (MOST_REQUESTS - 1, 1, 16));
    }
}
