//! Gains measured on other machines for similar loads and devices ([`control::fleet`]): combined with the local expectation, and available from the
//! first seconds of a load, before any forecast.
//!
//! The fleet decides which arm is tried; the arm stays only after its trial, like every other. A fleet that is not proven on this machine is first
//! compared with the local expectation: if it contradicts that too much over all arms, no trial is spent on it.

use std::sync::Arc;

use control::ab_test::{CRITICAL_VALUE, Estimate};
use control::fleet::{FleetKnowledge, Trust};
use control::trials::{UNKNOWN, stated};
use observe::merit::TOLERANCE;

use super::{TwinController, sources};

/// Standard error of one turn of a trial: the noise of two-second windows is mostly below it. Choice: a smaller error would refute a fleet
/// by the noise of a turn; not varied.
const TURN_ERROR: f64 = 0.1;

/// Fleet knowledge and its accuracy in this run.
#[derive(Debug)]
pub(super) struct Fleet {
    knowledge: Arc<FleetKnowledge>,
    trust: Trust,
    /// The fleet's expectation for each arm under the current load, before the trust weight; empty before the first look-up.
    said: Vec<Option<Estimate>>,
    /// Arms whose expectation was checked by a trial under this load.
    judged: Vec<bool>,
    /// Agreement of the fleet with the local expectation (forecast or model) under this load.
    agreement: Trust,
    /// Whether the fleet was refuted under this load.
    is_refuted: bool,
}

impl Fleet {
    pub fn new(knowledge: Arc<FleetKnowledge>) -> Fleet {
        let trust = knowledge.trust();
        Fleet { knowledge, trust, said: Vec::new(), judged: Vec::new(), agreement: Trust::default(), is_refuted: false }
    }

    /// Replaces the fleet knowledge with newer outcomes and their trust.
    pub fn know(&mut self, knowledge: Arc<FleetKnowledge>) {
        (self.trust, self.knowledge) = (knowledge.trust(), knowledge);
    }

    /// Resets the state at a change of load.
    pub fn begin_load(&mut self) {
        (self.said, self.judged, self.agreement, self.is_refuted) = (Vec::new(), Vec::new(), Trust::default(), false);
    }

    /// The fleet's expectation for an arm, with the trust weight; `None` if there is none, or if the fleet is not trusted or refuted.
    fn believed(&self, arm: usize) -> Option<Estimate> {
        self.trust.with(&self.agreement).weighted(self.said.get(arm)?.as_ref()?).filter(|_| !self.is_refuted)
    }

    /// Sets `agreement` by comparing the fleet's expectations with the local ones, given by arm.
    fn compare(&mut self, own: &[(usize, Estimate)]) {
        self.agreement = Trust::default();
        for (arm, own) in own {
            if let Some(Some(said)) = self.said.get(*arm) {
                let own = stated(own);
                self.agreement.note(&Estimate { error: said.error.hypot(own.error), ..*said }, own.mean);
            }
        }
    }
}

impl TwinController {
    /// Looks up the current load. The trials go by the fleet's expectations until there is a forecast.
    pub(super) fn ask_fleet(&mut self) {
        if self.fleet.knowledge.is_empty() {
            return;
        }
        let (point, original) = (self.present.load.overall_point(), self.arms[self.original].setting.to_string());
        let of = |arm: usize| self.fleet.knowledge.expect(&point, &original, &self.arms[arm].setting.to_string());
        let said: Vec<Option<Estimate>> = (0..self.arms.len()).map(of).collect();
        self.fleet.said = said;
        self.fleet.judged.resize(self.arms.len(), false);
        if self.trying.evidence.is_none() {
            let unknown = (0..self.arms.len()).filter(|arm| *arm != self.original).map(|arm| (arm, UNKNOWN)).collect();
            let gains = self.combined_with_fleet(unknown);
            self.trying.trials.expect(gains);
        }
    }

    /// Combines expected gains over the original arm (from a forecast) with those of the fleet.
    pub(super) fn with_fleet(&mut self, gains: Vec<(usize, Estimate)>) -> Vec<(usize, Estimate)> {
        let others: Vec<(usize, Estimate)> = gains.iter().copied().filter(|(arm, _)| *arm != self.original).collect();
        self.fleet.compare(&others);
        self.combined_with_fleet(gains)
    }

    fn combined_with_fleet(&mut self, mut gains: Vec<(usize, Estimate)>) -> Vec<(usize, Estimate)> {
        for (arm, gain) in gains.iter_mut().filter(|(arm, _)| *arm != self.original) {
            if let Some(believed) = self.fleet.believed(*arm) {
                *gain = gain.combined(&believed);
                self.trying.allow(*arm);
            }
        }
        gains
    }

    /// Whether the fleet recommends another arm, so that a trial need not wait for more samples. A fleet that is not
    /// proven yet waits for the first forecast, or until it is known that there is none.
    pub(super) fn fleet_recommends(&self) -> bool {
        let may_be_compared = self.trying.knows_of_forecast() || self.fleet.trust.is_proven();
        may_be_compared
            && (0..self.arms.len())
                .any(|arm| arm != self.active && self.fleet.believed(arm).is_some_and(|gain| gain.mean > TOLERANCE))
    }

    /// Whether results of other machines are believed for this arm.
    pub(super) fn fleet_knows(&self, arm: usize) -> bool {
        self.fleet.believed(arm).is_some()
    }

    /// Whether the active arm is on trial on an unconfirmed recommendation of the fleet.
    pub(super) fn is_tried_for_fleet(&self) -> bool {
        let is_judged = self.fleet.judged.get(self.active).copied().unwrap_or(true);
        !is_judged && self.fleet.believed(self.active).is_some_and(|gain| gain.mean > TOLERANCE)
    }

    /// Checks the fleet's expectation against the measured gain of `arm` over `from`, once per arm and load, if `from` is the
    /// original arm.
    pub(super) fn judge_fleet(&mut self, arm: usize, from: usize, measured: Option<f64>) {
        let is_judged = self.fleet.judged.get(arm).copied().unwrap_or(true);
        if from != self.original || is_judged {
            return;
        }
        if let (Some(Some(expected)), Some(measured)) = (self.fleet.said.get(arm), measured) {
            let expected = Estimate { error: expected.error.hypot(TURN_ERROR), ..*expected };
            self.fleet.trust.note(&expected, measured);
            self.fleet.judged[arm] = true;
            // A gain significantly below its expectation refutes the fleet for all arms under this load.
            if measured < expected.mean - CRITICAL_VALUE * expected.error {
                self.fleet.is_refuted = true;
                // The current expectations include the fleet's, so forecast again.
                self.timeline.next_forecast = self.timeline.next_forecast.min(self.timeline.measured_from);
            }
        }
    }

    /// The setting that the fleet expects to gain most, with this gain, for display; `None` without fleet knowledge.
    pub(super) fn fleet_says(&self) -> Option<String> {
        if self.fleet.knowledge.is_empty() {
            return None;
        }
        let known = (0..self.arms.len())
            .filter(|arm| *arm != self.original)
            .filter_map(|arm| Some((arm, self.fleet.said.get(arm)?.as_ref()?)));
        let best = known.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        let trusted = if self.fleet.trust.weighted(&UNKNOWN).is_none() {
            ", not believed: it was wrong here before"
        } else if self.fleet.trust.with(&self.fleet.agreement).weighted(&UNKNOWN).is_none() {
            ", not believed: it contradicts the forecast"
        } else {
            ""
        };
        Some(best.map_or("no like load on a like device".to_owned(), |(arm, gain)| {
            format!("{} {}{trusted}", self.arms[arm].setting, sources::gain(gain))
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gain(mean: f64, error: f64) -> Estimate {
        Estimate { mean, error }
    }

    /// The weighted expectation for arm 1, given the fleet's for arms 1 to 3 and a forecast of small gains for each.
    fn believed(said: [f64; 3], trust: Trust) -> Option<Estimate> {
        let said = std::iter::once(None).chain(said.map(|mean| Some(gain(mean, 0.1)))).collect();
        let mut fleet = Fleet { said, trust, ..Fleet::new(Arc::default()) };
        fleet.compare(&[(1, gain(-0.2, 0.15)), (2, gain(0.0, 0.05)), (3, gain(-0.1, 0.1))]);
        fleet.believed(1)
    }

    #[test]
    fn others_that_contradict_the_forecast_are_not_believed_before_they_were_right_here() {
        assert_eq!(believed([1.0, -1.0, -1.0], Trust::default()), None);
        assert!(believed([0.2, 0.0, 0.0], Trust::default()).is_some(), "one that gains more than forecast is worth a trial");
        assert!(believed([-0.2, 0.0, -0.1], Trust::default()).is_some());
        let mut proven = Trust::default();
        assert!(!proven.is_proven());
        (0..20).for_each(|_| proven.note(&gain(0.3, 0.1), 0.3));
        assert!(proven.is_proven() && believed([1.0, -1.0, -1.0], proven).is_some(), "the forecast may be the one that is wrong");
        let mut fleet = Fleet { agreement: proven, ..Fleet::new(Arc::default()) };
        fleet.begin_load();
        assert_eq!(fleet.agreement, Trust::default(), "another load is another comparison");
    }
}
