//! Fleet learning: machines share the measured outcomes of setting changes over a PostgreSQL server.
//!
//! ```text
//! machine: SQLite                                     server: PostgreSQL
//!   outcomes ◀── record ── measured                     machines (id, role)
//!   outbox   ──── deliver ── insert, commit ──────────▶ outcomes (id unique)
//!            ◀─── confirmed: leave the outbox                │
//!   outcomes ◀─────────────────────── pull ──────────────────┘
//! ```
//! Delivery is exactly-once. An outcome and its outbox entry are written in one transaction, which also assigns the id; the entry is
//! deleted only after the server has committed the outcome; the server ignores an id that it already has. A crash of either side loses or
//! duplicates nothing.

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

/// An outcome to be recorded. Recording assigns its id, machine and program.
#[derive(Clone, Debug, PartialEq)]
pub struct NewOutcome {
    /// Day of the measurement, in days since 1970-01-01.
    pub day: u32,
    /// Type of the device.
    pub device: DeviceType,
    /// Features of the load under the previous setting, by name; features without a value are absent.
    pub load: BTreeMap<String, f32>,
    /// Weights of the merit in which `gain` is measured.
    pub preference: String,
    /// Previous setting.
    pub from: String,
    /// New setting.
    pub to: String,
    /// Difference of the scores (log of the ratio of merits) with its standard error.
    pub gain: Estimate,
}

/// Columns of an outcome, in the order that [`outcome`] expects.
const COLUMNS: &str =
    "id, machine, writer, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program";

/// Index of the first column after [`COLUMNS`].
const PLACE: usize = 14;

/// Parses an outcome from [`COLUMNS`]. Fails on a damaged row and on one of another version.
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

/// Parameters of [`ADD`]: all columns except `writer`.
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

/// Inserts an outcome, with the parameters of [`cells`]; no effect if its id exists.
const ADD: &str = "INSERT INTO outcomes (id, machine, day, kind, model, firmware, load, preference, from_setting, to_setting, gain, error, program)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13) ON CONFLICT (id) DO NOTHING";
