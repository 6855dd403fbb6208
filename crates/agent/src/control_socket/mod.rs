//! How `seekwise-agent status` and its like ask the daemon: a line of JSON each way over a unix socket. Everybody may look; only root, and
//! whom the daemon runs as, may touch.

mod client;
mod server;

use serde::{Deserialize, Serialize};

use crate::history::Entry;

pub use client::ask;
pub use server::{Asked, Server};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Ask {
    /// What is watched, and how it goes.
    Status,
    /// Attributes whose value differs from the agent's.
    Verify,
    /// What happened.
    History,
    /// Tune a device again on which the agent had stood down.
    Resume {
        /// As in `sda`.
        device: String,
    },
    /// Put everything back, and stand down.
    Restore {
        /// As in `sda`; `None` means all.
        device: Option<String>,
    },
}

/// What comes back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// To [`Ask::Status`].
    Status(Status),
    /// To [`Ask::Verify`].
    Differs(Vec<Differs>),
    /// To [`Ask::History`].
    History(Vec<Entry>),
    /// It was done; the result, in sentences.
    Done(Vec<String>),
    /// It was not done, and why.
    Refused(String),
}

/// The daemon.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Its version.
    pub version: String,
    /// How long it runs.
    pub runs_for_s: f64,
    /// What it watches.
    pub devices: Vec<DeviceStatus>,
    /// What it does not, and why.
    pub left_alone: Vec<(String, String)>,
    /// What it learns, or why it learns nothing; `None` if no scratch file is named.
    #[serde(default)]
    pub learning: Option<String>,
}

/// A device that is watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DeviceStatus {
    /// Its name.
    pub device: String,
    /// `watched`, `tuned`, `learned on` or `stood down`.
    pub state: String,
    /// Why, if it stood down.
    pub why: Option<String>,
    /// The setting before the agent's first change.
    pub found: String,
    /// The active setting.
    pub in_force: String,
    /// What would be set if it were tuned.
    pub advice: Option<PendingAdvice>,
    /// What the controller thought lately, the latest last.
    pub thoughts: Vec<String>,
    /// Requests that were seen.
    pub requests: u64,
    /// Events that the kernel lost.
    pub lost: u64,
    /// Why only counters are to be had; nothing where each request is seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blind: Option<String>,
    /// How it went in the latest window.
    pub latest: Rates,
}

/// Advice that waits for the administrator: the device is only watched.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PendingAdvice {
    /// For `seekwise-agent explain`.
    pub id: String,
    /// The recommended setting.
    pub setting: String,
    /// Why.
    pub why: String,
    /// The predicted gain in percent; `None` if the controller predicts nothing.
    pub gain_percent: Option<f64>,
    /// The standard error of `gain_percent`.
    pub error_percent: Option<f64>,
}

/// How a device performed in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Rates {
    /// Requests per second.
    pub requests_per_s: f64,
    /// 10^6 bytes per second.
    pub mb_per_s: f64,
    /// Mean response time in milliseconds; 0 in an idle window.
    pub response_ms: f64,
    /// p99 response time in milliseconds, 0 in an idle window; `None` where only counters are available.
    pub p99_ms: Option<f64>,
}

impl Rates {
    /// The same with 0 for what is not a number, which JSON does not have: the mean response time of an idle window.
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
    /// What the agent had set.
    pub wanted: String,
    /// What is there.
    pub now: String,
    /// Who on this machine sets it as well, in sentences.
    pub rivals: Vec<String>,
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_window_in_which_nothing_was_done_is_understood() {
        let rates = Rates { response_ms: f64::NAN, p99_ms: Some(f64::NAN), ..Rates::default() }.finite();
        let read: Rates = serde_json::from_str(&serde_json::to_string(&rates).unwrap()).unwrap();
        assert_eq!((read.requests_per_s, read.response_ms), (0.0, 0.0));
    }
}
