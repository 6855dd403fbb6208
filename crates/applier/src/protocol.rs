//! The protocol of the applier's socket: a line of JSON each way. Opened pipes come with the answer's line (`SCM_RIGHTS`).
//!
//! Where a device is named, the path of a [cgroup](crate::cgroup) may stand, except for a trace and for what becomes of it at the end.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::ApplierError;
use crate::journal::{AtExit, Record};
use crate::trace::Formats;

/// What is wanted.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Prove that this device's attributes can be written and read back.
    Can {
        /// As in `sda`, or [`MACHINE`](crate::attribute::MACHINE).
        device: String,
    },
    /// Set attributes, all or none.
    Set(SetRequest),
    /// Say what is not as it was last put.
    Foreign {
        /// As in `sda`.
        device: String,
    },
    /// Stand down on external changes.
    Release {
        /// As in `sda`.
        device: String,
        /// External changes that the caller knows of: each attribute's name, and its value as the agent knew or wanted it.
        #[serde(default)]
        changed: Vec<(String, String)>,
    },
    /// Accept external changes: these values count as the originals from now on.
    Resume {
        /// As in `sda`.
        device: String,
    },
    /// Put everything back.
    Restore {
        /// As in `sda`; `None` means all devices and the machine.
        device: Option<String>,
    },
    /// List the values before the agent's.
    Originals {
        /// As in `sda`; `None` means all devices and the machine.
        device: Option<String>,
    },
    /// Set whether a device's settings are restored when the agent ends.
    AtExit {
        /// As in `sda`.
        device: String,
        /// What.
        policy: AtExit,
    },
    /// Open the pipes of a trace of this device.
    Tracepoints {
        /// As in `sda`.
        device: String,
    },
}

/// Attributes to be set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// As in `sda`, or [`MACHINE`](crate::attribute::MACHINE), or a [cgroup](crate::cgroup) as in `/system.slice/backup.service`.
    pub device: String,
    /// Names and values; of a cgroup as in `io.max sda` and `wbps=5000000`. The order does not matter: they are written in the one that the kernel needs.
    pub values: Vec<(String, String)>,
    /// Names and the values that the decision rests on: where one of them is different now, nothing is set.
    #[serde(default)]
    pub expected: Vec<(String, String)>,
    /// Why, for the journal.
    pub why: String,
}

/// What an attribute is and may be here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Can {
    /// Its name.
    pub attribute: String,
    /// Its value now.
    pub value: String,
    /// The smallest and largest number allowed here; `None` if it is a word.
    pub range: Option<(i64, i64)>,
    /// The words that are allowed here, if it is one.
    pub words: Vec<String>,
    /// Why it cannot be set as things are; `None` if it can.
    pub refused: Option<String>,
}

/// What was changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The attribute's name.
    pub attribute: String,
    /// Its value before; `None` if it was not there, as a scheduler's tunables before a switch.
    pub before: Option<String>,
    /// What was asked for; `None` if the kernel changed it by itself.
    pub wanted: Option<String>,
    /// What is read now; `None` if it is no longer there.
    pub now: Option<String>,
    /// How long the kernel took to accept it, in microseconds. For a scheduler that is the time for which the device stood idle.
    pub stall_microseconds: u64,
    /// What is to be known about it; empty if nothing.
    pub note: String,
}

/// An attribute that was changed externally.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Its name.
    pub attribute: String,
    /// What the agent had put there.
    pub ours: String,
    /// What is there now; `None` if it is no longer there.
    pub now: Option<String>,
    /// Whether the agent has [stood down](Request::Release) because of it.
    pub released: bool,
}

/// The outcome for an original value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// Its device, or [`MACHINE`](crate::attribute::MACHINE).
    pub device: String,
    /// The attribute's name; empty if the whole device is meant.
    pub attribute: String,
    /// The value before the agent's, if it is known.
    pub original: Option<String>,
    /// The outcome.
    pub outcome: Outcome,
}

/// In words, without the device.
impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Restored { attribute, original, outcome, .. } = self;
        let original = original.as_deref().unwrap_or("what it was");
        let attribute = if attribute.is_empty() { "all of it" } else { attribute };
        match outcome {
            Outcome::Back { instead_of } => write!(f, "{attribute} is {original} again, not {instead_of}"),
            Outcome::AlreadyThere => write!(f, "{attribute} was {original} already"),
            Outcome::Foreign { now: Some(now) } => write!(f, "{attribute} stays {now}: changed externally"),
            Outcome::Foreign { now: None } => write!(f, "{attribute} is not there any more"),
            Outcome::EarlierBoot => write!(f, "{attribute}: the machine was restarted, which put it back"),
            Outcome::Gone if self.device.starts_with('/') => write!(f, "{attribute}: the cgroup is gone, or its device"),
            Outcome::Gone => write!(f, "{attribute}: the device is gone"),
            Outcome::Failed { reason } => write!(f, "{attribute} could not be put back: {reason}"),
        }
    }
}

/// The outcome for an original value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It is active again.
    Back {
        /// What was active instead.
        instead_of: String,
    },
    /// It was active already.
    AlreadyThere,
    /// It was changed externally since, which stays.
    Foreign {
        /// The current value; `None` if the attribute is missing now.
        now: Option<String>,
    },
    /// The machine was restarted since, and the kernel remembers no settings.
    EarlierBoot,
    /// The device is gone or another one has its name, and the kernel remembers no settings.
    Gone,
    /// It could not be put back, and stays in the journal.
    Failed {
        /// Why.
        reason: String,
    },
}

/// A value before the agent's, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// Its device, or [`MACHINE`](crate::attribute::MACHINE).
    pub device: String,
    /// The attribute's name.
    pub attribute: String,
    /// The value before the agent's.
    pub original: String,
    /// What the agent put there last; `None` if it was only changed by the kernel in passing.
    pub ours: Option<String>,
    /// Why it was changed last.
    pub why: String,
    /// When, in seconds since 1970.
    pub unix_seconds: u64,
    /// Whether it is restored when the agent ends.
    pub at_exit: AtExit,
}

impl Original {
    /// What a record of the journal has; `None` if it has no value from before.
    pub(crate) fn of(record: Record) -> Option<Original> {
        let Record { device, attribute, original, ours, why, unix_seconds, at_exit, .. } = record;
        Some(Original { device: device.name, attribute, original: original?, ours, why, unix_seconds, at_exit })
    }
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Request::Can`].
    Can(Vec<Can>),
    /// To [`Request::Set`].
    Changed(Vec<Changed>),
    /// To [`Request::Foreign`].
    Foreign(Vec<Foreign>),
    /// To [`Request::Restore`].
    Restored(Vec<Restored>),
    /// To [`Request::Originals`].
    Originals(Vec<Original>),
    /// To [`Request::Release`], [`Request::Resume`] and [`Request::AtExit`].
    Done,
    /// To [`Request::Tracepoints`]; this many pipes come with it.
    Tracepoints {
        /// The pipes.
        pipes: usize,
        /// How what comes out of them is to be understood.
        formats: Formats,
    },
    /// It could not be done.
    Error(ApplierError),
}
