//! Shares with other machines what changes of settings gained, over a server.
//!
//! ```text
//! daemon: measured ─▶ own knowledge base, outbox       thread: every few minutes
//!            job ───────────────────────────────────────▶ deliver, pull, rollouts ◀──▶ server
//!         beliefs, rollouts ◀──────────────── answer ────┘
//! ```
//! The daemon never waits for the server: a thread of its own connects. Without the server the machine goes on with what it has.

mod link;
mod typed;

use std::collections::BTreeMap;
use std::path::PathBuf;

use control::fleet::{DeviceType, FleetOutcome};
use knowledge::{Fleet, Knowledge, RolloutState, Score};

pub use link::FleetLink;
pub use typed::device_type;

use crate::configuration::FleetSettings;

/// What the server is asked.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// The devices by name.
    pub devices: BTreeMap<String, DeviceJob>,
}

/// What the server is told of a device.
#[derive(Clone, Debug)]
pub struct DeviceJob {
    /// Its type.
    pub device: DeviceType,
    /// Whether it takes part in rollouts.
    pub takes_part: bool,
    /// How its windows scored since the last job; `None` without any.
    pub score: Option<(f64, u64)>,
    /// The rollout whose setting is active; `None` if none is.
    pub active: Option<String>,
    /// Why the setting of a rollout is not active; empty if there is no reason.
    pub note: String,
}

/// What the server said.
#[derive(Clone, Debug, Default)]
pub struct Reply {
    /// The outcomes that are known now, the own ones included.
    pub outcomes: Vec<FleetOutcome>,
    /// The id of this machine.
    pub machine: [u8; 16],
    /// By device: the rollout and the setting that it should have. `None` where the server did not answer, so that nothing changes.
    pub rollouts: Option<BTreeMap<String, (String, String)>>,
    /// What failed, for the log.
    pub trouble: Option<String>,
    /// What was delivered, for the log.
    pub delivered: u64,
}

/// The machine's side: its file, and the server's address.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The machine's knowledge base.
    pub file: PathBuf,
    /// The server.
    pub settings: FleetSettings,
}

impl Exchange {
    /// Does a job. Whatever fails is in the reply; what is known locally is there in any case. `scores` waits for the server.
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
