//! Fleet learning: shares measured outcomes of setting changes with other machines, over a PostgreSQL server.
//!
//! ```text
//! daemon: measured ─▶ own knowledge base, outbox       thread: every few minutes
//!            job ───────────────────────────────────────▶ deliver, pull, rollouts ◀──▶ server
//!         beliefs, rollouts ◀──────────────── answer ────┘
//! ```
//! A separate thread talks to the server, so the daemon never blocks on it. While the server is unreachable, the daemon uses its local data.

mod link;
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;

use control::fleet::{DeviceType, FleetOutcome};
use knowledge::{Fleet, Knowledge, RolloutState, Score};

pub use link::FleetLink;
pub use typed::device_type;

use crate::configuration::FleetSettings;

/// Input of an exchange with the server.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Devices by kernel name.
    pub devices: BTreeMap<String, DeviceJob>,
}

/// State of a device that is reported to the server.
#[derive(Clone, Debug)]
pub struct DeviceJob {
    /// Type of the device.
    pub device: DeviceType,
    /// Whether it is eligible for rollouts.
    pub takes_part: bool,
    /// Mean score and number of windows since the last job; `None` without windows.
    pub score: Option<(f64, u64)>,
    /// Name of the rollout whose setting is active; `None` if none is.
    pub active: Option<String>,
    /// Why the setting of a rollout is not active; empty if it is, or without a rollout.
    pub note: String,
}

/// Result of an exchange with the server.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// All outcomes stored locally, including this machine's own.
    pub outcomes: Vec<FleetOutcome>,
    /// Id of this machine.
    pub machine: [u8; 16],
    /// Rollout and setting by device. `None` if the server did not answer; settings then stay as they are.
    pub rollouts: Option<BTreeMap<String, (String, String)>>,
    /// Error for the log; `None` on success.
    pub trouble: Option<String>,
    /// Number of outcomes delivered, for the log.
    pub delivered: u64,
}

/// Runs exchanges between the local knowledge base and the server.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// Path of the machine's knowledge base.
    pub file: PathBuf,
    /// Address and options of the server.
    pub settings: FleetSettings,
}

impl Exchange {
    /// Runs one exchange. Errors are reported in the reply, which always has the local outcomes. `scores` queues scores until they are delivered.
    pub fn run(&self, job: &Job, scores: &mut Vec<(String, String, Score)>) -> Reply {
        let mut reply = Reply::default();
        if let Err(reason) = self.exchange(job, scores, &mut reply) {
            reply.trouble = Some(reason);
        }
        let known = Knowledge::open(&self.file).and_then(|local| Ok((local.machine()?, local.outcomes()?)));
        match known {
            Ok((machine, outcomes)) => (reply.machine, reply.outcomes) = (machine, outcomes),
            Err(error) => reply.trouble = Some(error.to_string()),
        }
        reply
    }

    fn exchange(&self, job: &Job, scores: &mut Vec<(String, String, Score)>, reply: &mut Reply) -> Result<(), String> {
        let Some(server) = &self.settings.server else { return Ok(()) };
        let text = |error: knowledge::KnowledgeError| error.to_string();
        let mut local = Knowledge::open(&self.file).map_err(text)?;
        let mut fleet = Fleet::connect_with_password(server, self.settings.password()?.as_deref()).map_err(text)?;
        let mut types: Vec<DeviceType> = job.devices.values().map(|one| one.device.clone()).collect();
        types.sort();
        types.dedup();
        let exchanged = local.exchange(&mut fleet, &types).map_err(text)?;
        reply.delivered = exchanged.delivered;
        if let Some(reason) = exchanged.reason {
            reply.trouble = Some(format!("{} outcomes were refused: {reason}", exchanged.refused));
        }
        reply.rollouts = Some(self.rollouts(job, &mut local, &mut fleet, scores)?);
        Ok(())
    }

    fn rollouts(
        &self,
        job: &Job,
        local: &mut Knowledge,
        fleet: &mut Fleet,
        scores: &mut Vec<(String, String, Score)>,
    ) -> Result<BTreeMap<String, (String, String)>, String> {
        let text = |error: knowledge::KnowledgeError| error.to_string();
        let mut wanted = BTreeMap::new();
        if !self.settings.rollouts {
            return Ok(wanted);
        }
        let machine = local.machine().map_err(text)?;
        for rollout in fleet.rollouts().map_err(text)? {
            if rollout.state == RolloutState::Aborted {
                continue;
            }
            let is_meant =
                |one: &DeviceJob| one.takes_part && one.device.kind == rollout.what.kind && one.device.model == rollout.what.model;
            for (name, one) in job.devices.iter().filter(|(_, one)| is_meant(one)) {
                let device = local.device_id(name).map_err(text)?;
                if fleet.take_part(&rollout, &machine, &device).map_err(text)? {
                    wanted.insert(name.clone(), (rollout.what.name.clone(), rollout.what.setting.clone()));
                }
                if let Some((score, windows)) = one.score.filter(|_| rollout.state != RolloutState::Done) {
                    let is_treated = one.active.as_ref() == Some(&rollout.what.name);
                    let score = Score { id: local.draw_id().map_err(text)?, is_treated, score, windows, note: one.note.clone() };
                    scores.push((rollout.what.name.clone(), name.clone(), score));
                }
            }
            let (due, rest): (Vec<_>, Vec<_>) = std::mem::take(scores).into_iter().partition(|(of, ..)| *of == rollout.what.name);
            *scores = rest;
            for (_, name, score) in &due {
                let device = local.device_id(name).map_err(text)?;
                if let Err(error) = fleet.report_scores(&rollout, &device, std::slice::from_ref(score)) {
                    scores.extend(due);
                    return Err(error.to_string());
                }
            }
        }
        Ok(wanted)
    }
}
