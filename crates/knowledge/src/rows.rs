//! The rows of a knowledge base.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock};

use block::{Nanos, Op};

use control::Window;
use control::control_loop::DecisionRecord;
use observe::window::{FEATURES, WindowOutcome};

/// Identifies a run in every file that contains it. Generated when the run begins: at random, or from everything that distinguishes runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunId(pub [u8; 16]);

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for RunId {
    type Err = String;

    fn from_str(text: &str) -> Result<RunId, String> {
        let wrong = || format!("'{text}' should be 32 hexadecimal digits");
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        u128::from_str_radix(text, 16).map(|number| RunId(number.to_be_bytes())).map_err(|_| wrong())
    }
}

/// A run: one period in which a device was observed or controlled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// Start time in seconds since 1970; a simulated run may have 0.
    pub began_s: i64,
    /// The kind of target (see [`Identity`](control::target::Identity)).
    pub plant: String,
    /// The device's name or model.
    pub device: String,
    /// The workload or trace.
    pub source: String,
    /// The seed of its random numbers.
    pub seed: Option<u64>,
    /// The program, with its version.
    pub program: String,
}

/// A stored window. Each run and number is stored once, as first recorded.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowRow {
    /// Counts up from 0 in its run.
    pub number: u64,
    /// Its start.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
    /// The active setting, as text.
    pub setting: String,
    /// The features' names, each once.
    pub features: Arc<[String]>,
    /// One for each name; NaN if there is no value.
    pub values: Vec<f64>,
    /// Its performance. The duration is that from `from` to `to`.
    pub outcome: WindowOutcome,
}

impl WindowRow {
    /// The feature of this name; `None` if the window has no such feature.
    pub fn feature(&self, name: &str) -> Option<f64> {
        self.features.iter().position(|known| known == name).map(|index| self.values[index])
    }
}

/// The names of a window's features: one list for all of them.
fn names() -> Arc<[String]> {
    static NAMES: LazyLock<Arc<[String]>> = LazyLock::new(|| FEATURES.iter().map(|feature| feature.name.to_owned()).collect());
    NAMES.clone()
}

impl From<&Window> for WindowRow {
    fn from(window: &Window) -> WindowRow {
        WindowRow {
            number: window.number,
            from: window.from,
            to: window.to,
            setting: window.setting.to_string(),
            features: names(),
            values: window.features.0.to_vec(),
            outcome: WindowOutcome { duration: window.duration(), ..window.outcome },
        }
    }
}

/// A stored decision. Each run and number is stored once; recording it again can only add its measured gain.
#[derive(Clone, Debug, PartialEq)]
pub struct DecisionRow {
    /// Counts up from 0 in its run.
    pub number: u64,
    /// Time of the decision.
    pub at: Nanos,
    /// Number of the window on which it was based, and with which it is deleted; `None` for a decision without a window.
    pub window: Option<u64>,
    /// The setting before, as text.
    pub from: String,
    /// The setting after, as text.
    pub to: String,
    /// The reason, for display.
    pub why: String,
    /// Expected improvement, as a difference of scores.
    pub expected_gain: Option<f64>,
    /// Measured improvement of `to`, by the comparison that decided; `None` if none was measured.
    pub measured_gain: Option<f64>,
    /// Why it could not be applied; `None` if it was applied.
    pub refused: Option<String>,
}

impl DecisionRow {
    /// The `number`th decision of its run.
    pub fn new(number: u64, decided: &DecisionRecord) -> DecisionRow {
        DecisionRow {
            number,
            at: decided.at,
            window: decided.window,
            from: decided.from.to_string(),
            to: decided.to.to_string(),
            why: decided.why.clone(),
            expected_gain: decided.expected_gain,
            measured_gain: decided.measured_gain().map(|gain| gain.mean),
            refused: decided.refused.clone(),
        }
    }
}

/// A stored request, for learning per request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestRow {
    /// Counts up from 0 in its run.
    pub number: u64,
    /// Read, write or discard.
    pub op: Op,
    /// The first 512-byte sector.
    pub lba: u64,
    /// Number of 512-byte sectors.
    pub sectors: u32,
    /// Whether a process waited for it.
    pub sync: bool,
    /// Sectors from the end of the previously dispatched request to the start of this one; negative means backwards.
    pub distance: i64,
    /// Time at which it was queued.
    pub queued: Nanos,
    /// Time of dispatch.
    pub dispatched: Nanos,
    /// Time of completion.
    pub done: Nanos,
}

/// The letter by which an operation is stored, as blkparse prints it.
pub(crate) fn letter(op: Op) -> &'static str {
    match op {
        Op::Read => "R",
        Op::Write => "W",
        Op::Discard => "D",
    }
}

/// The operation that [`letter`] stores as this text; `None` if there is none.
pub(crate) fn op(letter: &str) -> Option<Op> {
    [Op::Read, Op::Write, Op::Discard].into_iter().find(|op| self::letter(*op) == letter)
}

/// A stored model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelRow {
    /// Its name, for look-up.
    pub name: String,
    /// The learner.
    pub kind: String,
    /// The whole model as JSON.
    pub json: String,
    /// Time of training in seconds since 1970, as reported by its trainer.
    pub trained_s: i64,
    /// Its features, in order.
    pub features: Vec<String>,
}

/// A row and its run.
#[derive(Clone, Debug, PartialEq)]
pub struct Stored<T> {
    /// The run.
    pub run: Arc<Run>,
    /// The row.
    pub row: T,
}

/// A row of any table.
#[derive(Clone, Debug, PartialEq)]
pub enum Row {
    /// A window.
    Window(WindowRow),
    /// A decision.
    Decision(DecisionRow),
    /// A request.
    Request(RequestRow),
    /// A model.
    Model(ModelRow),
}

impl From<&Window> for Row {
    fn from(window: &Window) -> Row {
        Row::Window(window.into())
    }
}

impl From<WindowRow> for Row {
    fn from(row: WindowRow) -> Row {
        Row::Window(row)
    }
}

impl From<DecisionRow> for Row {
    fn from(row: DecisionRow) -> Row {
        Row::Decision(row)
    }
}

impl From<RequestRow> for Row {
    fn from(row: RequestRow) -> Row {
        Row::Request(row)
    }
}

impl From<ModelRow> for Row {
    fn from(row: ModelRow) -> Row {
        Row::Model(row)
    }
}
