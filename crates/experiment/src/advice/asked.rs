//! Forecasts of the twin for each phase, and for all of them together.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{KnowledgeStore, Nanos};
use control::Setting;
use control::controller::Prediction;
use control::experience::WINDOW;
use device_model::sched;
use observe::{Event, Preference};
use sim::profile::DeviceProfile;
use testbed::pool::Workers;
use twin::load::Understood;
use twin::score_buckets::BUCKET;
use twin::trial::Services;
use twin::{Activation, Forecast, ForecastError, ForecastRequest, ObservedRequest, Recording, ScoreBuckets};

use super::observed::Observed;
use super::phases::{Phase, Seconds, Stretch, events};

/// Maximum number of samples of a phase, spread over it: more add hardly any information.
const SAMPLES: usize = 4;
/// Maximum length of a sample: no trial is longer.
const LONGEST_S: u64 = 20;
/// Number of requests after which a sample ends, at the end of that second.
const SAMPLED: u64 = 25_000;
/// Requests to simulate per candidate.
const TRIED: u64 = 20_000;

/// Approximate maximum number of requests of a phase that are judged.
pub const MOST_JUDGED: u64 = SAMPLES as u64 * SAMPLED;

/// A part of a phase that is forecast.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Index of the phase.
    pub phase: usize,
    /// Range of seconds.
    pub stretch: Stretch,
}

/// The parts of a forecast request that all samples share.
pub struct Brain<'a> {
    /// The observed load.
    pub observed: &'a Observed,
    /// The fitted device.
    pub device: &'a Arc<dyn DeviceProfile>,
    /// Time of a revolution, if the device rotates.
    pub turn: Option<Nanos>,
    /// The active setting.
    pub active: &'a Setting,
    /// The settings to choose from.
    pub candidates: &'a [Setting],
    /// Weights for the score.
    pub preference: Preference,
}

/// Forecast for a sample.
#[derive(Clone, Debug)]
pub struct Judged {
    /// Predictions for every candidate.
    pub predictions: Vec<Prediction>,
    /// The inferred load of each stream.
    pub streams: Vec<Understood>,
    /// Service of each stream in the twin, by setting.
    pub services: Vec<(Setting, Services)>,
    /// Replay error: the twin's score under the active setting less the measured one.
    pub off: f64,
}

/// Picks the samples of a phase.
pub fn samples(number: usize, phase: &Phase, seconds: &Seconds) -> Vec<Sample> {
    let (lasts, requests) = (phase.seconds(), phase.requests(seconds));
    let wanted = lasts.div_ceil(LONGEST_S).max(requests.div_ceil(SAMPLED)).max(phase.stretches.len() as u64);
    let wanted = wanted.clamp(1, SAMPLES as u64);
    let mut samples: Vec<Sample> = Vec::new();
    for part in 0..wanted {
        // The middle of each part of the phase's time.
        let mut into = lasts * (2 * part + 1) / (2 * wanted);
        for stretch in &phase.stretches {
            if into < stretch.seconds() {
                let sample = Sample { phase: number, stretch: around(stretch.from + into, *stretch, seconds) };
                if !samples.contains(&sample) {
                    samples.push(sample);
                }
                break;
            }
            into -= stretch.seconds();
        }
    }
    samples
}

/// The part of a stretch around a second that serves as a sample.
fn around(second: u64, stretch: Stretch, seconds: &Seconds) -> Stretch {
    let from = second.saturating_sub(LONGEST_S / 2).min(stretch.to.saturating_sub(LONGEST_S)).max(stretch.from);
    let requests = |second: u64| seconds.requests(second);
    // At high request rates the sample begins at that second.
    let from = if (from..second).map(requests).sum::<u64>() > SAMPLED { second } else { from };
    let (mut to, mut counted) = (from, 0);
    while to < stretch.to && to - from < LONGEST_S && counted < SAMPLED {
        counted += requests(to);
        to += 1;
    }
    Stretch { from, to }
}

impl Brain<'_> {
    /// Forecasts every sample, on all threads.
    ///
    /// # Errors
    /// The work was interrupted.
    pub fn ask(&self, samples: &[Sample], workers: Workers) -> anyhow::Result<Vec<Result<Judged, ForecastError>>> {
        let others = || self.candidates.iter().filter(|&setting| setting != self.active).cloned();
        // The twin tunes only the best of several schedulers. Here every tuning is forecast in every phase, as required to combine the
        // phases.
        let (plain, tuned): (Vec<Setting>, Vec<Setting>) = others().partition(|setting| setting.values == setting.spec.defaults());
        let parts: Vec<Vec<Setting>> = [plain, tuned].into_iter().filter(|part| !part.is_empty()).collect();
        let parts = if parts.is_empty() { vec![Vec::new()] } else { parts };
        let tasks: Vec<(Sample, &[Setting])> =
            samples.iter().flat_map(|sample| parts.iter().map(|part| (*sample, part.as_slice()))).collect();
        let answers =
            workers.map("trying every candidate on the twin", &tasks, |(sample, part)| self.ask_part(sample.stretch, part))?;
        Ok(answers.chunks(parts.len()).map(|of_sample| self.put_together(of_sample)).collect())
    }

    fn put_together(&self, parts: &[Result<Forecast, ForecastError>]) -> Result<Judged, ForecastError> {
        let mut judged: Option<Judged> = None;
        for part in parts {
            let Forecast { predictions, streams, services, replay_error: off, .. } = part.clone()?;
            match &mut judged {
                None => judged = Some(Judged { predictions, streams, services, off }),
                Some(judged) => {
                    judged.predictions.extend(predictions.into_iter().filter(|prediction| prediction.setting != *self.active));
                    judged.services.extend(services.into_iter().filter(|(setting, _)| setting != self.active));
                }
            }
        }
        judged.ok_or(ForecastError::NothingServed)
    }

    fn ask_part(&self, stretch: Stretch, candidates: &[Setting]) -> anyhow::Result<Result<Forecast, ForecastError>> {
        let from = Nanos(stretch.from * WINDOW.0);
        let ends = Nanos(self.observed.lasts().0.div_ceil(BUCKET.0) * BUCKET.0);
        let to = Nanos(stretch.to * WINDOW.0).min(ends);
        let events = events(self.observed, from, to).collect::<anyhow::Result<Vec<Event>>>()?;
        // Shifts the events so that time begins in the second of the first one, not hours earlier.
        let base = events.first().map_or(from, |event| Nanos(event.at().0 / WINDOW.0 * WINDOW.0).min(from));
        let (mut recording, mut slots) = (Recording::new(), ScoreBuckets::new());
        for event in events.iter().map(|event| earlier(event, base)) {
            recording.event(&event);
            slots.event(&event);
        }
        let (from, to) = (from - base, to - base);
        slots.until(to);
        let Some(measured) = slots.served(from.as_secs_f64(), to.as_secs_f64()) else {
            return Ok(Err(ForecastError::NothingServed));
        };
        let mut knowledge = KnowledgeStore::new(sched::all());
        knowledge.set_rotation(self.turn);
        let request = ForecastRequest {
            recording: &recording,
            from,
            to,
            measured,
            device: self.device,
            knowledge: &mut knowledge,
            active: self.active,
            original: self.active,
            candidates,
            bounds: self.observed.bounds,
            preference: self.preference,
            max_requests: TRIED * (candidates.len() as u64 + 2),
            error_scale: 1.0,
            activation: Activation::AtStart,
        };
        Ok(request.run())
    }
}

fn earlier(event: &Event, by: Nanos) -> Event {
    match *event {
        Event::Queued(mut request) => {
            request.arrival = request.arrival - by;
            Event::Queued(request)
        }
        Event::Completed { mut request, dispatched, at } => {
            request.arrival = request.arrival - by;
            Event::Completed { request, dispatched: dispatched - by, at: at - by }
        }
        Event::Flushed { stream, asked, at } => Event::Flushed { stream, asked: asked - by, at: at - by },
        Event::Called { stream, at } => Event::Called { stream, at: at - by },
        Event::Returned { stream, op, bytes, called, at } => {
            Event::Returned { stream, op, bytes, called: called - by, at: at - by }
        }
    }
}

/// The requests to fit a device to: blocks of consecutive requests, spread over the recording, and all flushes.
///
/// # Errors
/// The temporary file of the requests cannot be read.
pub fn fitted_to(observed: &Observed) -> anyhow::Result<Vec<ObservedRequest>> {
    const BLOCKS: usize = 8;
    const BLOCK: usize = 4_000;
    let Observed { requests, flushes, .. } = observed;
    let flushes = flushes.iter().copied().map(Ok);
    if requests.len() <= BLOCKS * BLOCK {
        return requests.from(0).chain(flushes).collect();
    }
    let apart = (requests.len() - BLOCK) / (BLOCKS - 1);
    (0..BLOCKS).flat_map(|block| requests.from(block * apart).take(BLOCK)).chain(flushes).collect()
}

/// Combines the predictions of the samples of a phase: means over settings predicted in every sample, with an error that combines the
/// samples' errors and their spread. Sorted by [`Prediction::surest_first`].
pub fn of_phase(samples: &[&Judged], active: &Setting) -> Vec<Prediction> {
    let count = samples.len() as f64;
    let predictions = |setting: &Setting| -> Option<Vec<&Prediction>> {
        samples.iter().map(|sample| sample.predictions.iter().find(|prediction| prediction.setting == *setting)).collect()
    };
    let one = |prediction: &Prediction| {
        let all = predictions(&prediction.setting)?;
        let mean = |of: fn(&Prediction) -> f64| statistics::mean(all.iter().map(|prediction| of(prediction))).unwrap_or(f64::NAN);
        let gain = mean(|prediction| prediction.gain);
        let spread = all.iter().map(|prediction| (prediction.gain - gain).powi(2)).sum::<f64>() / (count - 1.0).max(1.0) / count;
        let error = (mean(|prediction| prediction.error.powi(2)) + spread).sqrt();
        Some(Prediction {
            setting: prediction.setting.clone(),
            throughput: mean(|prediction| prediction.throughput),
            response_s: mean(|prediction| prediction.response_s),
            p99_by_bound: all.iter().map(|prediction| prediction.p99_by_bound).fold(0.0, f64::max),
            gain,
            // By definition: the active setting is compared with itself.
            error: if prediction.setting == *active { 0.0 } else { error },
        })
    };
    let mut phase: Vec<Prediction> = samples.first().map_or(Vec::new(), |first| first.predictions.iter().filter_map(one).collect());
    phase.sort_by(Prediction::surest_first);
    phase
}

/// Combines the predictions of phases, each weighted by its length, for settings predicted in every phase. Errors are averaged, not
/// reduced: all come from the same device model and method. Sorted by [`Prediction::surest_first`].
pub fn of_all(phases: &[(f64, &[Prediction])]) -> Vec<Prediction> {
    let whole: f64 = phases.iter().map(|(share, _)| share).sum();
    let mut found: BTreeMap<String, (usize, Prediction)> = BTreeMap::new();
    for (share, predictions) in phases {
        let share = share / whole;
        for prediction in *predictions {
            let nothing =
                Prediction { throughput: 0.0, response_s: 0.0, p99_by_bound: 0.0, gain: 0.0, error: 0.0, ..prediction.clone() };
            let (count, sum) = found.entry(prediction.setting.to_string()).or_insert((0, nothing));
            *count += 1;
            sum.throughput += share * prediction.throughput;
            sum.response_s += share * prediction.response_s;
            sum.gain += share * prediction.gain;
            sum.error += share * prediction.error;
            sum.p99_by_bound = sum.p99_by_bound.max(prediction.p99_by_bound);
        }
    }
    let everywhere = found.into_values().filter(|(count, _)| *count == phases.len());
    let mut all: Vec<Prediction> = everywhere.map(|(_, prediction)| prediction).collect();
    all.sort_by(Prediction::surest_first);
    all
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn prediction(setting: &str, gain: f64, error: f64, p99_by_bound: f64) -> Prediction {
        Prediction { setting: Setting::parse(setting).unwrap(), throughput: 1e6, response_s: 0.01, p99_by_bound, gain, error }
    }

    fn gains(predictions: &[Prediction]) -> Vec<(String, f64, f64)> {
        let thousandths = |value: f64| (value * 1000.0).round() / 1000.0;
        predictions.iter().map(|one| (one.setting.to_string(), thousandths(one.gain), thousandths(one.error))).collect()
    }

    #[test]
    fn samples_that_disagree_widen_the_error_and_what_was_not_tried_in_all_is_left_out() {
        let judged = |predictions| Judged { predictions, streams: Vec::new(), services: Vec::new(), off: 0.0 };
        let (one, two) = (
            judged(vec![
                prediction("deadline", 0.0, 0.02, 0.2),
                prediction("cfq", 0.3, 0.03, 0.5),
                prediction("noop", 1.0, 0.1, 0.1),
            ]),
            judged(vec![prediction("deadline", 0.0, 0.02, 0.2), prediction("cfq", 0.1, 0.03, 0.7)]),
        );
        let active = Setting::parse("deadline").unwrap();
        let both = of_phase(&[&one, &two], &active);
        assert_eq!(gains(&both), [("cfq".to_owned(), 0.2, 0.104), ("deadline".to_owned(), 0.0, 0.0)]);
        assert_eq!(both[0].p99_by_bound, 0.7);
    }

    #[test]
    fn phases_count_by_their_time_and_a_setting_that_starves_a_stream_in_one_is_last() {
        let first = [prediction("cfq", 0.4, 0.1, 0.5), prediction("noop", 0.9, 0.1, 1.5), prediction("sstf", 0.1, 0.0, 0.5)];
        let second = [prediction("cfq", 0.0, 0.02, 0.5), prediction("noop", 0.9, 0.1, 0.5), prediction("sstf", 0.1, 0.0, 0.5)];
        let all = of_all(&[(30.0, &first), (10.0, &second)]);
        let expected = [("cfq".to_owned(), 0.3, 0.08), ("sstf".to_owned(), 0.1, 0.0), ("noop".to_owned(), 0.9, 0.1)];
        assert_eq!(gains(&all), expected);
    }
}
