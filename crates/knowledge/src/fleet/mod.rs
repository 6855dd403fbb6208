//! Outcomes of changes that many machines share over a server.
//!
//! ```text
//! machine: SQLite                                     server: PostgreSQL
//!   outcomes ◀── record ── measured                     machines (id, role)
//!   outbox   ──── deliver ── insert, commit ──────────▶ outcomes (id unique)
//!            ◀─── confirmed: leave the outbox                │
//!   outcomes ◀─────────────────────── pull ──────────────────┘
//! ```
//! An outcome gets its id in the transaction that records it and its place in the outbox, and leaves the outbox after the server has committed it. A
//! server knows an id once. So whichever side is killed when, each outcome is there once.

mod local;
mod rollout;
mod server;

pub use local::{Exchanged, MAX_OUTBOX, WaitingScore};
pub use rollout::{Member, NewRollout, Rollout, RolloutState, Score};
pub use server::Fleet;

use std::collections::BTreeMap;

use control::ab_test::Estimate;
use control::fleet::{DeviceType, FleetOutcome};

use crate::database::{Row, Value, values};
use crate::error::Problem;

/// An outcome before it is recorded, which gives it its id, machine and program.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOutcome {
    /// The day, since 1970.
    pub day: u32,
    /// The device.
    pub device: DeviceType,
    /// The description of the load under the setting before, by name, without missing values.
    pub load: BTreeMap<String, f32>,
    /// What gains are measured by.
    pub preference: String,
    /// The setting before.
    pub from: String,
    /// The setting after.
    pub to: String,
    /// The difference of the scores.
    pub gain: Estimate,
}

/// Columns of an outcome, in the order of [`outcome`].
const COLUMNS: &str =
    "id, machine, writer, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program";

/// The place of a column after them.
const PLACE: usize = 14;

/// An outcome of these columns. What cannot be read as one is damage, or of another version.
fn outcome(row: &Row) -> Result<FleetOutcome, Problem> {
    let load: String = row.get(7)?;
    Ok(FleetOutcome {
        id: row.get(0)?,
        machine: row.get(1)?,
        writer: row.get(2)?,
        day: row.get(3)?,
        device: DeviceType { kind: row.get(4)?, model: row.get(5)?, firmware: row.get(6)? },
        load: serde_json::from_str(&load).map_err(|error| Problem::Damaged(error.to_string()))?,
        preference: row.get(8)?,
        from: row.get(9)?,
        to: row.get(10)?,
        gain: Estimate { mean: row.get(11)?, error: row.get(12)? },
        program: row.get(13)?,
    })
}

/// The values of all columns but the writer's, which comes second to last.
fn cells(outcome: &FleetOutcome) -> Result<Vec<Value>, Problem> {
    let load = serde_json::to_string(&outcome.load).map_err(|error| Problem::Value(error.to_string()))?;
    let DeviceType { kind, model, firmware } = &outcome.device;
    Ok(values![
        outcome.id,
        outcome.machine,
        i64::from(outcome.day),
        kind,
        model,
        firmware,
        load,
        &outcome.preference,
        &outcome.from,
        &outcome.to,
        outcome.gain.mean,
        outcome.gain.error,
        &outcome.program
    ]
    .to_vec())
}

/// A statement that adds an outcome of [`cells`] unless it is there.
const ADD: &str = "INSERT INTO outcomes (id, machine, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO NOTHING";
