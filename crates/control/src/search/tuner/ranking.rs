//! The trials of a load, ranked.

use super::Tuner;
use crate::controller::{Evidence, Prediction};
use crate::setting::Setting;
use observe::merit;
use observe::performance::TrialScore;

/// Maximum number of settings listed in the evidence. Choice: bounds the length of a decision; not varied.
const SHOWN: usize = 8;

/// A setting with its trials.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ranked<'a> {
    pub setting: &'a Setting,
    /// Its first trial.
    pub first: TrialScore,
    /// The mean score of its trials, and their number.
    pub score: f64,
    pub trials: usize,
}

impl Tuner {
    /// The settings tried, the best first.
    pub(super) fn ranking(&self) -> Vec<Ranked<'_>> {
        let mut ranking: Vec<Ranked> = Vec::new();
        for (setting, rated) in &self.load.trials {
            let score = rated.score(&self.preference);
            match ranking.iter_mut().find(|known| known.setting == setting) {
                Some(known) => {
                    known.trials += 1;
                    known.score += (score - known.score) / known.trials as f64;
                }
                None => ranking.push(Ranked { setting, first: *rated, score, trials: 1 }),
            }
        }
        ranking.sort_by(|a, b| b.score.total_cmp(&a.score));
        ranking
    }

    pub(super) fn evidence(&self) -> Evidence {
        let ranking = self.ranking();
        let mut seen = vec![("trials".to_owned(), self.load.trials.len().to_string())];
        if let Some(Ranked { setting, trials, .. }) = ranking.first() {
            let plural = if *trials == 1 { "" } else { "s" };
            seen.push(("best chromosome".to_owned(), format!("{setting}, tried {trials} time{plural}")));
        }
        if let Some(baseline) = &self.load.baseline {
            seen.push(("under what was found".to_owned(), format!("{}: {}", self.original, text(&baseline.rated))));
        }
        seen.extend(self.facts.iter().cloned());
        let original = ranking.iter().find(|ranked| *ranked.setting == self.original).map_or(f64::NAN, |ranked| ranked.score);
        let promise = |ranked: &Ranked| Prediction {
            setting: ranked.setting.clone(),
            throughput: ranked.first.served.throughput.into(),
            response_s: ranked.first.served.response_s.into(),
            p99_by_bound: ranked.first.wait_ratio,
            gain: ranked.score - original,
            error: (ranked.trials as f64).sqrt().recip() * merit::TOLERANCE,
        };
        Evidence { seen, candidates: ranking.iter().take(SHOWN).map(promise).collect(), ..Evidence::default() }
    }
}

/// Throughput and response time of a trial, for display.
pub(super) fn text(rated: &TrialScore) -> String {
    let (mb_s, ms) = (f64::from(rated.served.throughput) / 1e6, 1e3 * f64::from(rated.served.response_s));
    let starves = if rated.starves() { ", and a stream starves" } else { "" };
    format!("{mb_s:.2} MB/s at {ms:.2} ms{starves}")
}
