//! Measurements of a device: its rates, and the result of the latest change.

use control::Window;
use control::experience::MIN_REQUESTS;
use observe::merit::Scored;
use observe::window::depth;

use super::{DeviceSession, News, percent};
use crate::control_socket;

/// Windows before and after a change that are compared.
const COMPARED: usize = 8;

/// What is measured of a change.
pub(super) struct Trial {
    pub(super) before: Scored,
    pub(super) after: Vec<Scored>,
}

impl DeviceSession {
    /// Takes in what was counted, where single requests are not seen.
    pub(super) fn count(&mut self, news: &mut Vec<News>) {
        let mut samples = Vec::new();
        self.eyes.samples(&mut samples);
        for sample in &samples {
            self.steering.record_counters(sample);
            let Some(counted) = self.tally.take(sample, &self.settings.preference) else { continue };
            self.requests += counted.requests;
            self.latest = counted.latest;
            if let Some(score) = counted.score {
                self.scored(Scored::plain(score), news);
            }
        }
    }

    pub(super) fn measure(&mut self, window: &Window, news: &mut Vec<News>) {
        if self.eyes.blind().is_some() {
            return;
        }
        let outcome = &window.outcome;
        // A window in which nothing was done has no response time.
        let known = |value: f64| if value.is_finite() { value } else { 0.0 };
        self.latest = control_socket::Rates {
            requests_per_s: known(outcome.rate()),
            mb_per_s: known(outcome.throughput() / 1e6),
            response_ms: known(1e3 * outcome.mean_response_s),
            p99_ms: Some(known(1e3 * outcome.p99_response_s)),
        };
        let score = outcome.score(&self.settings.preference);
        if outcome.requests < MIN_REQUESTS || !score.is_finite() || *window.setting != self.active {
            return;
        }
        let tags = self.tags();
        self.scored(Scored::of(score, depth([outcome]), tags), news);
    }

    /// Requests that the queue takes under the active setting.
    fn tags(&mut self) -> u32 {
        match &self.tags {
            Some((setting, tags)) if *setting == self.active => *tags,
            _ => {
                let tags = self.hands.bounds().nr_requests;
                self.tags = Some((self.active.clone(), tags));
                tags
            }
        }
    }

    /// Takes in the score of a window, or a second, under the active setting.
    fn scored(&mut self, score: Scored, news: &mut Vec<News>) {
        if self.scores.len() >= COMPARED {
            self.scores.pop_front();
        }
        self.scores.push_back(score);
        if let Some(trial) = &mut self.trial {
            trial.after.push(score);
            if trial.after.len() >= COMPARED {
                self.finish_trial(news);
            }
        }
    }

    pub(super) fn finish_trial(&mut self, news: &mut Vec<News>) {
        let Some(Trial { before, after }) = self.trial.take() else { return };
        // In the first window requests are served that were queued under the setting before; one alone is long.
        let settling = usize::from(after.len() > 1);
        if let Some(after) = Scored::mean(after.into_iter().skip(settling)) {
            news.push(News::Measured(percent(after.over(&before, &self.settings.preference))));
        }
    }
}
