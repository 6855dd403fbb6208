//! The contribution of each source of knowledge to a decision, for display: memory, other machines, the twin, trials.

use std::sync::Arc;

use control::ab_test::Estimate;
use control::controller::Evidence;
use control::{Decision, Setting};

use super::TwinController;
use super::trying::counted;

/// A gain with its standard error, in percent.
pub(super) fn gain(estimate: &Estimate) -> String {
    // Avoids -0.
    let percent = statistics::percent(estimate.mean).round() + 0.0;
    format!("{percent:+.0} ± {:.0}%", 100.0 * estimate.error)
}

impl TwinController {
    /// Adds the statements of all sources to a decision that changes the setting, keeps a setting after a trial, or is based on a forecast.
    pub(super) fn with_sources(&self, decision: Decision) -> Decision {
        if decision.setting.is_none() && decision.evidence.is_none() && decision.expected_gain.is_none() {
            return decision;
        }
        let says = [
            ("memory", Some(self.memory_says.clone())),
            ("fleet", self.fleet_says()),
            ("twin", Some(self.twin_says())),
            ("trials", Some(self.trials_say())),
        ];
        let says = says.into_iter().filter_map(|(source, says)| Some((source, says?)));
        let sources = says.map(|(source, says)| (source.to_owned(), says)).collect();
        let evidence = Evidence { sources, ..decision.evidence.as_deref().cloned().unwrap_or_default() };
        Decision { evidence: Some(Arc::new(evidence)), ..decision }
    }

    /// The latest forecast for the arm that becomes active or was active before, or else for the best one.
    fn twin_says(&self) -> String {
        let failed = || self.no_forecast.as_ref().map_or("no forecast yet".to_owned(), |why| format!("no forecast: {why}"));
        let Some(evidence) = &self.trying.evidence else { return failed() };
        let original = &self.arms[self.original].setting;
        let predicted = |setting: &Setting| evidence.candidates.iter().find(|one| one.setting == *setting && setting != original);
        let of_pair = || [self.active, self.previous].into_iter().find_map(|arm| predicted(&self.arms[arm].setting));
        let best = || evidence.candidates.iter().find(|one| one.setting != *original && !one.starves());
        of_pair().or_else(best).map_or("no other setting can be forecast".to_owned(), |one| {
            let starves = if one.starves() { ", and starves a stream" } else { "" };
            format!("{} {}{starves}", one.setting, gain(&Estimate { mean: one.gain, error: one.error }))
        })
    }

    /// The estimated gain of each arm that was tried under the load.
    fn trials_say(&self) -> String {
        if self.trying.tried().next().is_none() {
            return "no turn has ended".to_owned();
        }
        let posterior = self.trying.trials.posterior();
        let tried = self.trying.tried().map(|(arm, turns)| {
            let known = posterior.gain(arm, self.original);
            format!("{} {} in {}", self.arms[arm].setting, gain(&known), counted(turns))
        });
        tried.collect::<Vec<String>>().join("; ")
    }
}
