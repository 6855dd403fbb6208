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
use knowledge::{Fleet, Knowledge, Problem, RolloutState, Score};

pub use link::FleetLink;
pub use typed::device_type;

use crate::configuration::FleetSettings;

/// Input of an exchange with the server.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// Devices by kernel name.
    pub devices: BTreeMap<String, DeviceJob>,
    /// Current time in seconds since 1970.
    pub unix_seconds: u64,
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
    /// File with the host's unique id; normally [`MACHINE_ID`].
    pub machine_id: PathBuf,
}

/// The host's unique id, drawn at installation and regenerated in machines correctly created from an image. Source: `machine-id(5)`.
pub const MACHINE_ID: &str = "/etc/machine-id";

impl Exchange {
    /// Runs one exchange. Errors are reported in the reply, which has the local outcomes if the file can be read. Scores are queued in the file.
    pub fn run(&self, job: &Job) -> Reply {
        let mut reply = Reply::default();
        let opened = Knowledge::open(&self.file).map_err(text);
        let done = opened.and_then(|mut local| {
            let exchanged = self.exchange(job, &mut local, &mut reply);
            (reply.machine, reply.outcomes) = (local.machine().map_err(text)?, local.outcomes().map_err(text)?);
            exchanged
        });
        if let Err(reason) = done {
            reply.trouble = Some(reason);
        }
        reply
    }

    fn exchange(&self, job: &Job, local: &mut Knowledge, reply: &mut Reply) -> Result<(), String> {
        let Some(server) = &self.settings.server else { return Ok(()) };
        if let Ok(host) = std::fs::read_to_string(&self.machine_id)
            && !host.trim().is_empty()
            && local.claim(host.trim()).map_err(text)?
        {
            let file = self.file.display();
            reply.trouble = Some(format!("{file} is a copy of another machine's: this machine goes on under an id of its own"));
        }
        let now_s = job.unix_seconds;
        self.keep_scores(job, local, now_s)?;
        let mut fleet = Fleet::connect_with_password(server, self.settings.password()?.as_deref()).map_err(text)?;
        let mut types: Vec<DeviceType> = job.devices.values().map(|one| one.device.clone()).collect();
        types.sort();
        types.dedup();
        let exchanged = local.exchange(&mut fleet, &types).map_err(text)?;
        reply.delivered = exchanged.delivered;
        if let Some(reason) = exchanged.reason {
            reply.trouble = Some(format!("{} outcomes were refused: {reason}", exchanged.refused));
        }
        reply.rollouts = Some(self.rollouts(job, local, &mut fleet, now_s)?);
        Ok(())
    }

    /// Queues scores of devices for the rollouts in which they were enrolled at the last exchange.
    fn keep_scores(&self, job: &Job, local: &mut Knowledge, now_s: u64) -> Result<(), String> {
        if !self.settings.rollouts {
            return Ok(());
        }
        let known = local.taking_part().map_err(text)?;
        for (name, one) in &job.devices {
            let device = local.device_id(name).map_err(text)?;
            for (rollout, _) in known.iter().filter(|(_, of)| *of == device) {
                keep_score(local, rollout, &device, one, now_s)?;
            }
        }
        Ok(())
    }

    fn rollouts(
        &self,
        job: &Job,
        local: &mut Knowledge,
        fleet: &mut Fleet,
        now_s: u64,
    ) -> Result<BTreeMap<String, (String, String)>, String> {
        let mut wanted = BTreeMap::new();
        if !self.settings.rollouts {
            return Ok(wanted);
        }
        let machine = local.machine().map_err(text)?;
        let before = local.taking_part().map_err(text)?;
        let mut taking_part = Vec::new();
        let rollouts = fleet.rollouts().map_err(text)?;
        for rollout in rollouts.iter().filter(|rollout| rollout.state != RolloutState::Aborted) {
            let is_meant =
                |one: &DeviceJob| one.takes_part && one.device.kind == rollout.what.kind && one.device.model == rollout.what.model;
            for (name, one) in job.devices.iter().filter(|(_, one)| is_meant(one)) {
                let device = local.device_id(name).map_err(text)?;
                if fleet.take_part(rollout, &machine, &device).map_err(text)? {
                    wanted.insert(name.clone(), (rollout.what.name.clone(), rollout.what.setting.clone()));
                }
                if rollout.state != RolloutState::Done {
                    let part = (rollout.what.name.clone(), device);
                    if !before.contains(&part) {
                        keep_score(local, &part.0, &device, one, now_s)?;
                    }
                    taking_part.push(part);
                }
            }
        }
        taking_part.sort();
        local.take_part(&taking_part).map_err(text)?;
        for waiting in local.waiting_scores(now_s).map_err(text)? {
            let Some(rollout) = rollouts.iter().find(|rollout| rollout.what.name == waiting.rollout) else { continue };
            match fleet.report_scores(rollout, &waiting.device, std::slice::from_ref(&waiting.score)) {
                Ok(()) => {}
                // The server rejects it permanently.
                Err(error) if matches!(error.problem, Problem::Value(_)) => {}
                Err(error) => return Err(error.to_string()),
            }
            local.forget_score(&waiting.score.id).map_err(text)?;
        }
        Ok(wanted)
    }
}

/// Queues the score of a device; no effect without one.
fn keep_score(local: &mut Knowledge, rollout: &str, device: &[u8; 16], one: &DeviceJob, now_s: u64) -> Result<(), String> {
    let Some((score, windows)) = one.score.filter(|(score, _)| score.is_finite()) else { return Ok(()) };
    let is_treated = one.active.as_deref() == Some(rollout);
    let id = local.draw_id().map_err(text)?;
    let score = Score { id, is_treated, score, windows, note: one.note.clone(), age_s: 0.0 };
    local.keep_score(rollout, device, &score, now_s).map_err(text)
}

fn text(error: knowledge::KnowledgeError) -> String {
    error.to_string()
}
