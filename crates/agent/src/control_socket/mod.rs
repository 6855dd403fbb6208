//! The control socket of the daemon, used by `seekwise-agent status` and similar commands: one line of JSON as request and one as reply
//! over a unix socket. Every user may read the state; only root and the daemon's own user may change it.

mod client;
mod server;

use applier::Scope;
use control::{Ruling, Verdict};
use protect::live::{LimitStatus, PromiseStatus};
use serde::{Deserialize, Serialize};

use crate::history::{Entry, Measured};
use crate::units::UnitTable;

use std::ffi::OsString;
use std::path::{Path, PathBuf};

pub use client::ask;
pub use server::{Asked, Server};

/// The socket of root and of the daemon's own user, next to that of everybody: a flood there leaves this one's queue empty.
fn privileged(socket: &Path) -> PathBuf {
    let mut path = OsString::from(socket);
    path.push(".root");
    PathBuf::from(path)
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// The state of the daemon and of its devices.
    Status,
    /// Attributes whose value differs from the agent's.
    Verify,
    /// The history.
    History,
    /// Resume tuning of a device on which the agent has stood down.
    Resume {
        /// The device, or a cgroup that is left alone.
        #[serde(rename = "device")]
        scope: Scope,
    },
    /// Restore the original settings and stop tuning.
    Restore {
        /// Kernel name, such as `sda`; `None`: all devices.
        device: Option<String>,
    },
}

/// A reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// Reply to [`Ask::Status`].
    Status(Status),
    /// Reply to [`Ask::Verify`].
    Differs(Vec<Differs>),
    /// Reply to [`Ask::History`], oldest entry first.
    History(Vec<Entry>),
    /// Success: the results as sentences.
    Done(Vec<String>),
    /// Failure: the reason.
    Refused(String),
}

/// State of the daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Version of the program.
    pub version: String,
    /// Uptime in seconds.
    pub runs_for_s: f64,
    /// The monitored devices.
    pub devices: Vec<DeviceStatus>,
    /// Ignored devices, each with the reason.
    pub left_alone: Vec<(String, String)>,
    /// State of learning mode as a sentence; `None` if no scratch file is configured.
    #[serde(default)]
    pub learning: Option<String>,
}

/// State of a monitored device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Kernel name, such as `sda`.
    pub device: String,
    /// `watched`, `tuned`, `learned on` or `stood down`.
    pub state: String,
    /// Why tuning was stopped; `None` if it was not.
    pub why: Option<String>,
    /// The setting before the agent's first change.
    pub found: String,
    /// The active setting.
    pub in_force: String,
    /// The pending recommendation of a device that is only monitored; `None` if the active setting is best.
    pub advice: Option<PendingAdvice>,
    /// The comparison by which the latest change was kept or taken back; `None` before one was measured. Trials that were not adopted are not
    /// shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictStatus>,
    /// Recent decisions of the controller as sentences, the latest last.
    pub thoughts: Vec<String>,
    /// Requests observed so far.
    pub requests: u64,
    /// Trace events lost so far.
    pub lost: u64,
    /// Why only counters are available; `None` if requests are traced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind: Option<String>,
    /// Rates in the latest window.
    pub latest: Rates,
    /// Promises to units on this device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub promises: Vec<PromiseStatus>,
    /// Units that may be limited for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<LimitStatus>,
    /// The units that used it in the latest interval; `None` before one has ended, and where only counters are available.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub units: Option<UnitTable>,
}

/// A recommendation that is not applied because the device is only monitored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingAdvice {
    /// Id for `seekwise-agent explain`.
    pub id: String,
    /// The recommended setting.
    pub setting: String,
    /// The reason.
    pub why: String,
    /// The predicted gain in percent; `None` if the controller predicts nothing.
    pub gain_percent: Option<f64>,
    /// The standard error of `gain_percent`; `None` where that is.
    pub error_percent: Option<f64>,
}

/// The comparison that decided about a setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VerdictStatus {
    /// The setting that was judged.
    pub setting: String,
    /// The setting that it was compared with.
    pub over: String,
    /// Whether it stays; otherwise it was taken back.
    pub stays: bool,
    /// The measured gain in percent.
    pub gain_percent: f64,
    /// The standard error of `gain_percent`; `None` if it is not known.
    pub error_percent: Option<f64>,
    /// Both ends of the interval on which the decision rests, in percent.
    pub interval_percent: [f64; 2],
    /// Number of scores of `setting` and of `over`.
    pub samples: [u32; 2],
    /// The test: `trial`, `A/B test`, `before and after` or `counters`.
    pub test: String,
}

impl VerdictStatus {
    /// The verdict in the units of output; `None` if nothing was measured.
    pub fn of(verdict: &Verdict) -> Option<VerdictStatus> {
        let Measured { gain_percent, error_percent } = Measured::of(verdict)?;
        Some(VerdictStatus {
            setting: verdict.setting.to_string(),
            over: verdict.over.to_string(),
            stays: verdict.ruling == Ruling::Kept,
            gain_percent,
            error_percent,
            interval_percent: verdict.interval().map(statistics::percent),
            samples: verdict.samples,
            test: verdict.by.name().to_owned(),
        })
    }
}

/// Performance of a device in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Requests per second.
    pub requests_per_s: f64,
    /// Throughput in 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean response time in milliseconds; 0 in an idle window.
    pub response_ms: f64,
    /// p99 response time in milliseconds, 0 in an idle window; `None` where only counters are available.
    pub p99_ms: Option<f64>,
}

impl Rates {
    /// Replaces non-finite values, such as the mean response time of an idle window, by 0: JSON cannot represent them.
    pub fn finite(self) -> Rates {
        let finite = |value: f64| if value.is_finite() { value } else { 0.0 };
        Rates {
            requests_per_s: finite(self.requests_per_s),
            mb_per_s: finite(self.mb_per_s),
            response_ms: finite(self.response_ms),
            p99_ms: self.p99_ms.map(finite),
        }
    }
}

/// An attribute whose value differs from the agent's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differs {
    /// The device.
    pub device: String,
    /// The attribute.
    pub attribute: String,
    /// The value that the agent set.
    pub wanted: String,
    /// The actual value.
    pub now: String,
    /// Other tools on this machine that set it, as sentences.
    pub rivals: Vec<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn an_idle_window_is_valid_json() {
        let rates = Rates { response_ms: f64::NAN, p99_ms: Some(f64::NAN), ..Rates::default() }.finite();
        let read: Rates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!((read.requests_per_s, read.response_ms), (0.0, 0.0));
    }
}
