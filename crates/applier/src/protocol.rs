//! The protocol of the applier's socket: one line of JSON per message. File descriptors of pipes are sent with the answer (`SCM_RIGHTS`).
//!
//! A [`Scope`] is named by its field `device`: a device, the machine or a [cgroup](crate::cgroup).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::attribute::MACHINE;
use crate::error::ApplierError;
use crate::journal::{AtExit, Record};
use crate::trace::Formats;

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Request {
    /// Check that this device's attributes can be written and read back.
    Can {
        /// The owner of the attributes.
        #[serde(rename = "device")]
        scope: Scope,
    },
    /// Set attributes, all or none.
    Set(SetRequest),
    /// List the attributes changed externally.
    Foreign {
        /// The owner of the attributes.
        #[serde(rename = "device")]
        scope: Scope,
    },
    /// Stand down on external changes.
    Release {
        /// The owner of the attributes.
        #[serde(rename = "device")]
        scope: Scope,
        /// External changes known to the caller: the name of each attribute, and the value that the agent had or wanted.
        #[serde(default)]
        changed: Vec<(String, String)>,
    },
    /// Accept external changes: the current values count as the originals from now on.
    Resume {
        /// The owner of the attributes.
        #[serde(rename = "device")]
        scope: Scope,
    },
    /// Restore the original values.
    Restore {
        /// The owner of the attributes; `None` for all.
        #[serde(rename = "device")]
        scope: Option<Scope>,
    },
    /// List the original values.
    Originals {
        /// The owner of the attributes; `None` for all.
        #[serde(rename = "device")]
        scope: Option<Scope>,
    },
    /// Set whether a device's settings are restored when the agent ends.
    AtExit {
        /// For example `sda`.
        device: String,
        /// The policy.
        policy: AtExit,
    },
    /// Open the pipes of a trace of this device.
    Tracepoints {
        /// For example `sda`.
        device: String,
    },
}

/// The owner of attributes. In the protocol it is its [name](Scope::name).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Scope {
    /// A disk by its kernel name, for example `sda`.
    Device(String),
    /// The machine.
    Machine,
    /// A [cgroup](crate::cgroup) by its path, for example `/system.slice/backup.service`.
    Cgroup(String),
}

impl Scope {
    /// The name: that of the device, [`MACHINE`], or the path of the cgroup, which is the only one with a slash at its beginning.
    pub fn name(&self) -> &str {
        match self {
            Scope::Device(name) | Scope::Cgroup(name) => name,
            Scope::Machine => MACHINE,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl From<&str> for Scope {
    fn from(name: &str) -> Scope {
        Scope::from(name.to_owned())
    }
}

impl From<String> for Scope {
    fn from(name: String) -> Scope {
        match name {
            name if name == MACHINE => Scope::Machine,
            name if name.starts_with('/') => Scope::Cgroup(name),
            name => Scope::Device(name),
        }
    }
}

impl From<Scope> for String {
    fn from(scope: Scope) -> String {
        scope.name().to_owned()
    }
}

/// A request to set attributes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetRequest {
    /// The owner of the attributes.
    #[serde(rename = "device")]
    pub scope: Scope,
    /// Names and values; for a cgroup such as `io.max sda` and `wbps=5000000`. Any order: they are written in the order that the kernel
    /// needs.
    pub values: Vec<(String, String)>,
    /// Names and values on which the decision is based: if one of them differs now, nothing is set.
    #[serde(default)]
    pub expected: Vec<(String, String)>,
    /// The reason, for the journal.
    pub why: String,
}

/// The value and range of an attribute on this device.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Can {
    /// Its name.
    pub attribute: String,
    /// Its current value.
    pub value: String,
    /// The allowed range of numbers; `None` if the value is a word.
    pub range: Option<(i64, i64)>,
    /// The allowed words; empty if the value is a number.
    pub words: Vec<String>,
    /// Why it cannot be set at present; `None` if it can.
    pub refused: Option<String>,
}

/// A changed attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changed {
    /// The attribute's name.
    pub attribute: String,
    /// Its value before; `None` if it did not exist, like a scheduler's tunables before a switch.
    pub before: Option<String>,
    /// The requested value; `None` if the kernel changed it as a side effect.
    pub wanted: Option<String>,
    /// Its current value; `None` if it no longer exists.
    pub now: Option<String>,
    /// Time that the kernel took to accept it, in microseconds. For a scheduler switch, the time for which the device was idle.
    pub stall_microseconds: u64,
    /// A remark for the user; may be empty.
    pub note: String,
}

/// An attribute that was changed externally.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Foreign {
    /// Its name.
    pub attribute: String,
    /// The value set by the agent.
    pub ours: String,
    /// The current value; `None` if the attribute no longer exists.
    pub now: Option<String>,
    /// Whether the agent has [stood down](Request::Release) because of this change.
    pub released: bool,
}

/// The result of restoring an original value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restored {
    /// The owner of the attribute.
    #[serde(rename = "device")]
    pub scope: Scope,
    /// The attribute's name; empty for the whole device.
    pub attribute: String,
    /// The original value; `None` if unknown.
    pub original: Option<String>,
    /// The result.
    pub outcome: Outcome,
}

/// A description without the device.
impl fmt::Display for Restored {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let Restored { attribute, original, outcome, .. } = self;
        let original = original.as_deref().unwrap_or("the original");
        let attribute = if attribute.is_empty() { "all of it" } else { attribute };
        match outcome {
            Outcome::Back { instead_of } => write!(f, "{attribute} is {original} again, not {instead_of}"),
            Outcome::AlreadyThere => write!(f, "{attribute} was {original} already"),
            Outcome::Foreign { now: Some(now) } => write!(f, "{attribute} stays {now}: changed externally"),
            Outcome::Foreign { now: None } => write!(f, "{attribute} is not there any more"),
            Outcome::EarlierBoot => write!(f, "{attribute}: the machine was restarted, which put it back"),
            Outcome::Gone if matches!(self.scope, Scope::Cgroup(_)) => write!(f, "{attribute}: the cgroup is gone, or its device"),
            Outcome::Gone => write!(f, "{attribute}: the device is gone"),
            Outcome::Failed { reason } => write!(f, "{attribute} could not be put back: {reason}"),
        }
    }
}

/// The result of restoring an original value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was restored.
    Back {
        /// The value that it replaced.
        instead_of: String,
    },
    /// It was already active.
    AlreadyThere,
    /// The attribute was changed externally, and that value stays.
    Foreign {
        /// The current value; `None` if the attribute does not exist now.
        now: Option<String>,
    },
    /// The machine has been rebooted since, which resets the kernel's settings.
    EarlierBoot,
    /// The device was removed or replaced, which resets its settings.
    Gone,
    /// It could not be restored, and stays in the journal.
    Failed {
        /// The cause.
        reason: String,
    },
}

/// An original value in the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Original {
    /// The owner of the attribute.
    #[serde(rename = "device")]
    pub scope: Scope,
    /// The attribute's name.
    pub attribute: String,
    /// The value before the agent's first change.
    pub original: String,
    /// The value last set by the agent; `None` if the attribute was only changed by the kernel as a side effect.
    pub ours: Option<String>,
    /// Reason of the last change.
    pub why: String,
    /// Time of the last change, in seconds since 1970.
    pub unix_seconds: u64,
    /// Whether it is restored when the agent ends.
    pub at_exit: AtExit,
}

impl Original {
    /// Converts a record of the journal; `None` if it has no original value.
    pub(crate) fn of(record: Record) -> Option<Original> {
        let Record { device, attribute, original, ours, why, unix_seconds, at_exit, .. } = record;
        Some(Original { scope: device.name.into(), attribute, original: original?, ours, why, unix_seconds, at_exit })
    }
}

/// An answer.
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
    /// To [`Request::Tracepoints`]; this many pipes are sent with it.
    Tracepoints {
        /// Number of pipes.
        pipes: usize,
        /// The formats of the events in the pipes.
        formats: Formats,
    },
    /// The request failed.
    Error(ApplierError),
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_scope_is_its_name_in_the_protocol() {
        let scopes = [Scope::Device("sda".to_owned()), Scope::Machine, Scope::Cgroup("/system.slice/backup.service".to_owned())];
        for (scope, name) in scopes.into_iter().zip(["sda", "vm", "/system.slice/backup.service"]) {
            let request = Request::Set(SetRequest { scope, values: Vec::new(), expected: Vec::new(), why: String::new() });
            let line = format!(r#"{{"set":{{"device":"{name}","values":[],"expected":[],"why":""}}}}"#);
            assert_eq!(serde_json::to_string(&request).unwrap(), line);
            assert_eq!(serde_json::from_str::<Request>(&line).unwrap(), request);
        }
        for (line, request) in [
            (r#"{"can":{"device":"sda"}}"#, Request::Can { scope: "sda".into() }),
            (r#"{"restore":{"device":"/a.slice"}}"#, Request::Restore { scope: Some("/a.slice".into()) }),
            (r#"{"originals":{"device":null}}"#, Request::Originals { scope: None }),
        ] {
            assert_eq!((serde_json::to_string(&request).unwrap(), serde_json::from_str(line).unwrap()), (line.to_owned(), request));
        }
        let restored = Restored { scope: Scope::Machine, attribute: "x".to_owned(), original: None, outcome: Outcome::Gone };
        let line = r#"{"device":"vm","attribute":"x","original":null,"outcome":"gone"}"#;
        assert_eq!((serde_json::to_string(&restored).unwrap(), serde_json::from_str(line).unwrap()), (line.to_owned(), restored));
    }
}
