//! Effects of settings on single streams: measured where they were run, else forecast by the twin.

use block::{Op, StreamId};
use control::Setting;
use observe::starvation;
use report::effects::{Effect, EffectFigures};
use report::record::{DirectionFigures, ServiceFigures};

use super::aim::{Aim, Kind, ResolvedAim};
use super::confirm::ConfirmedRun;
use super::judgement::Judgement;
use super::observed::Observed;

/// Factors by which a setting changes the service of reads or of writes, according to the twin.
#[derive(Clone, Copy, Debug)]
struct Factors {
    mean: f64,
    p99: f64,
    throughput: f64,
}

impl Judgement {
    /// From all samples, weighted by requests; `None` if the twin served no such request under one of the settings.
    fn factors(&self, setting: &Setting, active: &Setting, streams: &[StreamId], op: Op) -> Option<Factors> {
        let (mut is, mut was) = ([0.0; 4], [0.0; 4]);
        for judged in self.answers.iter().flatten() {
            let add = |sums: &mut [f64; 4], of: &Setting| {
                let services = judged.services.iter().find(|(setting, _)| setting == of).map(|(_, services)| services);
                for one in streams.iter().filter_map(|stream| services?.get(&(*stream, op))) {
                    let requests = one.requests as f64;
                    let parts = [requests, requests * one.mean_s, requests * one.p99_s, one.bytes_per_s];
                    sums.iter_mut().zip(parts).for_each(|(sum, part)| *sum += part);
                }
            };
            add(&mut is, setting);
            add(&mut was, active);
        }
        let mean = |sums: [f64; 4], part: usize| sums[part] / sums[0];
        let ratio = |part: usize| mean(is, part) / mean(was, part);
        let factors = Factors { mean: ratio(1), p99: ratio(2), throughput: is[3] / was[3] };
        [factors.mean, factors.p99, factors.throughput].iter().all(|factor| factor.is_finite()).then_some(factors)
    }

    /// Forecast service of these streams under a setting: the observed one, scaled as in the twin. `None` without a forecast.
    pub(super) fn forecast(
        &self,
        setting: &Setting,
        active: &Setting,
        streams: &[StreamId],
        got: &ServiceFigures,
    ) -> Option<ServiceFigures> {
        let of = |figures: Option<&DirectionFigures>, op: Op| {
            let Some(figures) = figures else { return Some(None) };
            let factors = self.factors(setting, active, streams, op)?;
            let mut figures = figures.clone();
            figures.throughput_mb_s *= factors.throughput;
            figures.iops *= factors.throughput;
            figures.response.mean_ms *= factors.mean;
            figures.response.p99_ms *= factors.p99;
            Some(Some(figures))
        };
        let (reads, writes) = (of(got.reads.as_ref(), Op::Read)?, of(got.writes.as_ref(), Op::Write)?);
        let all = together(&got.all, [reads.as_ref(), writes.as_ref()]);
        Some(ServiceFigures { all, reads, writes, syncs: None, ..got.clone() })
    }
}

/// Reads and writes together: sums and means of both, and the longer p99.
fn together(got: &DirectionFigures, parts: [Option<&DirectionFigures>; 2]) -> DirectionFigures {
    let mut all = got.clone();
    let sum = |of: &dyn Fn(&DirectionFigures) -> f64| parts.iter().flatten().map(|part| of(part)).sum::<f64>();
    let requests = sum(&|part| part.response.requests as f64);
    all.throughput_mb_s = sum(&|part| part.throughput_mb_s);
    all.iops = sum(&|part| part.iops);
    all.response.mean_ms = sum(&|part| part.response.requests as f64 * part.response.mean_ms) / requests.max(1.0);
    all.response.p99_ms = parts.iter().flatten().map(|part| part.response.p99_ms).fold(0.0, f64::max);
    all
}

fn figures(one: &DirectionFigures) -> EffectFigures {
    EffectFigures { throughput_mb_s: one.throughput_mb_s, mean_ms: one.response.mean_ms, p99_ms: one.response.p99_ms }
}

/// Effect of the recommended setting on each stream and kind of request, and the run with the shortest mean response time if that is
/// another.
pub(super) fn effects(
    observed: &Observed,
    judgement: &Judgement,
    runs: &[ConfirmedRun],
    (active, recommended): (&Setting, &Setting),
) -> Vec<Effect> {
    let mut effects = Vec::new();
    for (name, streams) in &observed.rows {
        let was = observed.service(streams);
        let run = runs.iter().find(|run| run.setting == *recommended);
        let (is, is_predicted) = match run {
            _ if recommended == active => (Some(was.clone()), false),
            Some(run) => (Some(run.service(streams)), false),
            None => (judgement.forecast(recommended, active, streams, &was), true),
        };
        let Some(is) = is else { continue };
        let others: Vec<(&Setting, ServiceFigures)> =
            runs.iter().filter(|run| run.p99_by_bound <= 1.0).map(|run| (&run.setting, run.service(streams))).collect();
        for kind in Kind::ALL {
            let (Some(was), Some(is)) = (kind.of(&was), kind.of(&is)) else { continue };
            // Times of few reads or writes are random; but a single fsync may block a user.
            if kind != Kind::Fsync && was.response.requests < starvation::LEAST_REQUESTS {
                continue;
            }
            let served = others.iter().filter_map(|(setting, service)| Some((*setting, kind.of(service)?)));
            let best = served.min_by(|a, b| a.1.response.mean_ms.total_cmp(&b.1.response.mean_ms));
            let best = best.filter(|(setting, best)| {
                *setting != recommended && best.response.mean_ms < is.response.mean_ms.min(was.response.mean_ms)
            });
            effects.push(Effect {
                stream: name.clone(),
                kind: kind.name().to_owned(),
                is_predicted,
                active: figures(was),
                recommended: figures(is),
                best: best.map(|(setting, best)| (setting.to_string(), figures(best))),
            });
        }
    }
    effects
}

impl ResolvedAim<'_> {
    /// The value under the active setting, as observed.
    pub(super) fn observed(&self, observed: &Observed) -> f64 {
        self.aim.value(&observed.service(&self.streams))
    }

    /// The value in a full run.
    pub(super) fn in_run(&self, run: &ConfirmedRun) -> f64 {
        self.aim.value(&run.service(&self.streams))
    }

    /// The value that the twin forecasts; `None` without a forecast.
    pub(super) fn forecast(&self, judgement: &Judgement, setting: &Setting, active: &Setting, observed: &Observed) -> Option<f64> {
        let got = observed.service(&self.streams);
        Some(self.aim.value(&judgement.forecast(setting, active, &self.streams, &got)?))
    }
}

/// Sum of the shortfalls of all aims; 0 if every one is met.
pub(super) fn shortfall<'a>(values: impl IntoIterator<Item = (&'a Aim, f64)>) -> f64 {
    values.into_iter().map(|(aim, value)| aim.shortfall(value).max(0.0)).sum()
}
