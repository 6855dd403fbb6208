//! Admission control: whether a guarantee is feasible, judged by the service of its unit alone on the device, measured or forecast.

use std::collections::VecDeque;

use block::Nanos;
use observe::starvation::LEAST_REQUESTS;
use statistics::count::at_least;

use super::{KINDS, Promise, RATES, STEPS};

/// Number of latest response times that are judged; the p99 is then the tenth longest. Choice: more come from an older load, fewer leave
/// too little beyond the p99; not varied.
const RESPONSES: usize = 1_000;
/// Number of latest steps over which rates are judged: ten seconds. Choice: more mix loads, fewer widen the bound; not varied.
const SLOTS: usize = 10 * STEPS;
/// Minimum number of steps for a rate: two seconds. Choice: fewer have too uncertain a variance, more delay the decision; not varied.
const FEW_SLOTS: usize = 2 * STEPS;
/// Probability of refusing a feasible guarantee, per decision: there is one per second, for days. Choice: a lower one refuses later; this
/// one refuses a feasible guarantee once in 11 days; not varied.
const BY_CHANCE: f64 = 1e-6;
/// Standard errors of a mean at that probability: twice the 4.75 of independent steps, as neighbouring steps are correlated. Derived: twice
/// the normal quantile at [`BY_CHANCE`].
const STANDARD_ERRORS: f64 = 9.5;
/// Minimum duration of a refusal, so that limits on neighbours do not oscillate. Choice: a longer one withholds a feasible guarantee after
/// the load has changed; not varied.
const REFUSED: Nanos = Nanos::from_millis(60_000);
/// Age from which a measurement no longer represents the load. Choice: a shorter one forgets a unit that is rarely alone; ten times
/// [`REFUSED`]; not varied.
const FORGOTTEN: Nanos = Nanos::from_millis(600_000);

/// A measurement or forecast with a confidence bound: a lower bound of response times, an upper one of rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// The measured or forecast value.
    pub value: f64,
    /// The confidence bound, in the unit's favour.
    pub bound: f64,
}

/// The service of a unit alone on the device.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alone {
    /// p99 response times in seconds, of reads, synchronous writes and flushes; `None` if unknown.
    pub p99_s: [Option<Figure>; KINDS],
    /// Per second in which the unit has requests: requests, bytes, seconds of device time, seconds of the reference disk's service; `None`
    /// if unknown.
    pub rates: [Option<Figure>; RATES],
    /// Source of the values, for example `measured in 412 requests`.
    pub basis: String,
}

/// Result of admission control.
#[derive(Clone, Debug, PartialEq)]
pub enum Admission {
    /// The service of the unit alone is not known yet.
    OnTrial,
    /// Admitted, for this reason.
    Admitted(String),
    /// Refused, with the value that contradicts it.
    Refused(String),
}

/// A unit's latest response times and rates while it was alone on the device.
#[derive(Clone, Debug, Default)]
struct Measured {
    responses: [VecDeque<Nanos>; KINDS],
    /// For each step and rate, the time in which the rate was demanded, and the amount.
    slots: VecDeque<[(f64, f64); RATES]>,
    /// Kind, arrival and response time of requests since the last step.
    recent: Vec<(usize, Nanos, Nanos)>,
    /// Start of the time alone on the device; `None` while others use it.
    since: Option<Nanos>,
    /// Time of the latest measurement.
    latest: Nanos,
}

/// The admission of one guarantee.
#[derive(Clone, Debug)]
pub(super) struct AdmissionTrial {
    promise: Promise,
    measured: Measured,
    forecast: Option<Alone>,
    pub admission: Admission,
    /// Time of the refusal.
    refused: Nanos,
}

/// The number with three significant digits.
fn digits(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    let decimals = (2 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 6);
    format!("{value:.*}", decimals as usize)
}

impl Measured {
    fn close(&mut self, (from, now): (Nanos, Nanos), is_undisturbed: bool, slot: [(f64, f64); RATES]) {
        let recent = std::mem::take(&mut self.recent);
        if !is_undisturbed {
            self.since = None;
            return;
        }
        self.latest = now;
        let is_first = self.since.is_none();
        let since = *self.since.get_or_insert(from);
        for (kind, _, response) in recent.into_iter().filter(|(_, arrival, _)| *arrival >= since) {
            keep(&mut self.responses[kind], response, RESPONSES);
        }
        // Requests that complete in the first step may have waited behind others.
        if !is_first && slot.iter().any(|(time, _)| *time > 0.0) {
            keep(&mut self.slots, slot, SLOTS);
        }
    }

    fn alone(&self) -> Option<Alone> {
        let mut alone = Alone::default();
        let mut requests = 0;
        for (figure, responses) in alone.p99_s.iter_mut().zip(&self.responses) {
            *figure = p99(responses);
            requests += responses.len();
        }
        let mut seconds = 0.0;
        if self.slots.len() >= FEW_SLOTS {
            for (number, figure) in alone.rates.iter_mut().enumerate() {
                *figure = rate(self.slots.iter().map(|slot| slot[number]));
            }
            seconds = self.slots.iter().map(|slot| slot[0].0).sum();
        }
        let is_known = alone.p99_s.iter().any(Option::is_some) || alone.rates.iter().any(Option::is_some);
        alone.basis = match requests {
            0 => format!("measured for {} s", digits(seconds)),
            _ => format!("measured in {requests} requests"),
        };
        is_known.then_some(alone)
    }
}

fn keep<T>(ring: &mut VecDeque<T>, last: T, most: usize) {
    if ring.len() == most {
        ring.pop_front();
    }
    ring.push_back(last);
}

/// The p99 with its lower bound: if the p99 were lower, fewer responses would be as long. `None` with too few responses.
fn p99(responses: &VecDeque<Nanos>) -> Option<Figure> {
    let count = responses.len();
    if (count as u64) < LEAST_REQUESTS {
        return None;
    }
    let mut sorted: Vec<Nanos> = responses.iter().copied().collect();
    sorted.sort_unstable_by(|one, other| other.cmp(one));
    let expected = 0.01 * count as f64;
    let longer = (1..count).find(|&longer| at_least(longer as f64, expected) < BY_CHANCE)?;
    let seconds = |place: usize| sorted.get(place).map_or(0.0, |time| time.as_secs_f64());
    Some(Figure { value: seconds(count / 100), bound: seconds(longer - 1) })
}

/// The mean rate with its upper bound; `None` with less than a second of demand.
fn rate(slots: impl Iterator<Item = (f64, f64)> + Clone) -> Option<Figure> {
    let sums = slots.clone().fold((0.0, 0.0, 0.0), |sum, (time, done)| (sum.0 + time, sum.1 + done, sum.2 + 1.0));
    let (time, done, count) = sums;
    if time < 1.0 {
        return None;
    }
    let (mean, of_slot) = (done / time, time / count);
    let squares: f64 = slots.map(|(time, done)| ((done - mean * time) / of_slot).powi(2)).sum();
    let error = (squares / count).sqrt() / count.sqrt();
    Some(Figure { value: mean, bound: mean + STANDARD_ERRORS * error })
}

impl Alone {
    /// This without the values that are known in `other`.
    fn without(mut self, other: &Alone) -> Alone {
        self.p99_s.iter_mut().zip(&other.p99_s).for_each(|(figure, known)| *figure = figure.filter(|_| known.is_none()));
        self.rates.iter_mut().zip(&other.rates).for_each(|(figure, known)| *figure = figure.filter(|_| known.is_none()));
        self
    }

    /// The guaranteed value that is infeasible, for display; `None` if there is none.
    fn shortfall(&self, promise: &Promise) -> Option<String> {
        let p99s = self.p99_s.iter().zip(promise.p99s()).zip(["reads", "writes", "calls of fsync"]);
        for ((figure, promised), name) in p99s {
            if let (Some(figure), Some(promised)) = (figure, promised)
                && figure.bound > promised.as_secs_f64()
            {
                let (is, promised) = (digits(1e3 * figure.value), digits(promised.as_millis_f64()));
                return Some(format!(
                    "its {name} take {is} ms at the 99th percentile ({}); {promised} ms is not possible",
                    self.basis
                ));
            }
        }
        for (number, (figure, promised)) in self.rates.iter().zip(promise.rates()).enumerate() {
            if let (Some(figure), Some(promised)) = (figure, promised)
                && figure.bound < promised
            {
                let (is, promised) = (promise.rate_text(number, figure.value), promise.rate_text(number, promised));
                return Some(format!("it gets {is} ({}); {promised} is not possible", self.basis));
            }
        }
        None
    }

    /// A known value of a guaranteed quantity, for display; `None` if none is known.
    fn text(&self, promise: &Promise) -> Option<String> {
        let names = ["reads", "writes", "calls of fsync"];
        let p99 = self.p99_s.iter().zip(promise.p99s()).zip(names).find_map(|((figure, promised), name)| {
            let value = figure.filter(|_| promised.is_some())?.value;
            Some(format!("its {name} take {} ms at the 99th percentile ({})", digits(1e3 * value), self.basis))
        });
        let rate = || {
            let mut rates = self.rates.iter().zip(promise.rates()).enumerate();
            rates.find_map(|(number, (figure, promised))| {
                let value = figure.filter(|_| promised.is_some())?.value;
                Some(format!("it gets {} ({})", promise.rate_text(number, value), self.basis))
            })
        };
        p99.or_else(rate)
    }
}

impl Promise {
    /// Guaranteed p99 response times, in the order of [`Alone::p99_s`].
    pub(super) fn p99s(&self) -> [Option<Nanos>; KINDS] {
        [self.read_p99, self.write_p99, self.flush_p99]
    }

    /// Guaranteed rates, in the order of [`Alone::rates`].
    pub(super) fn rates(&self) -> [Option<f64>; RATES] {
        [self.least_iops, self.least_bytes_per_s, self.share, self.reference.as_ref().map(|_| 1.0)]
    }

    /// A rate for display.
    pub(super) fn rate_text(&self, number: usize, value: f64) -> String {
        match number {
            0 => format!("{} requests/s", digits(value)),
            1 => format!("{} MB/s", digits(value / 1e6)),
            DEVICE_TIME => format!("{}% of the device's time", digits(100.0 * value)),
            _ => {
                let name = self.reference.as_ref().map_or("the reference disk", |reference| &reference.name);
                format!("{} times the speed of {name}", digits(value))
            }
        }
    }
}

/// Index of the device time in [`Alone::rates`]. Derived: the order of the [`RATES`].
pub(super) const DEVICE_TIME: usize = 2;
/// Index of the reference disk's service in [`Alone::rates`]. Derived: the order of the [`RATES`].
pub(super) const REFERENCE: usize = 3;

impl AdmissionTrial {
    pub fn new(promise: &Promise) -> AdmissionTrial {
        let (measured, admission) = (Measured::default(), Admission::OnTrial);
        AdmissionTrial { promise: promise.clone(), measured, forecast: None, admission, refused: Nanos::ZERO }
    }

    /// Records the response time of a request of this kind, or of a call of fsync.
    pub fn responded(&mut self, kind: usize, arrival: Nanos, response: Nanos) {
        if self.measured.recent.len() < RESPONSES {
            self.measured.recent.push((kind, arrival, response));
        }
    }

    /// Ends a step. `slot`: for each rate, the time in which it was demanded, and the amount. `is_undisturbed`: the unit was alone on the
    /// device.
    pub fn close(&mut self, span: (Nanos, Nanos), is_undisturbed: bool, slot: [(f64, f64); RATES]) {
        self.measured.close(span, is_undisturbed, slot);
    }

    /// The measured service alone on the device; `None` with too few measurements.
    pub fn measured(&self) -> Option<Alone> {
        self.measured.alone()
    }

    /// Adds a forecast of the service alone on the device. Measurements override it.
    pub fn forecast(&mut self, alone: Alone) {
        self.forecast = Some(alone);
    }

    /// Decides on admission. `taken`: the share of the device's time that is already guaranteed to others. Returns the share that this unit
    /// needs.
    pub fn decide(&mut self, now: Nanos, taken: f64) -> f64 {
        if now - self.measured.latest >= FORGOTTEN {
            self.measured = Measured { latest: now, ..Measured::default() };
        }
        let measured = self.measured.alone();
        // Measurements override the forecast.
        let forecast = self.forecast.clone().map(|forecast| measured.iter().fold(forecast, Alone::without));
        let known: Vec<Alone> = measured.iter().cloned().chain(forecast).collect();
        let need = self.need(&known);
        let is_refused = matches!(self.admission, Admission::Refused(_));
        if !(is_refused && now - self.refused < REFUSED) {
            self.admission = self.admitted(&known, need, taken);
            if matches!(self.admission, Admission::Refused(_)) && !is_refused {
                self.refused = now;
            }
        }
        if matches!(self.admission, Admission::Refused(_)) { 0.0 } else { need.unwrap_or(0.0) }
    }

    fn admitted(&self, known: &[Alone], need: Option<f64>, taken: f64) -> Admission {
        if let Some(why) = known.iter().find_map(|alone| alone.shortfall(&self.promise)) {
            return Admission::Refused(format!("with nothing else there {why}"));
        }
        if let Some(need) = need.filter(|need| need + taken > 1.0 + 1e-9) {
            let (need, taken) = (digits(100.0 * need), digits(100.0 * taken));
            return Admission::Refused(format!("it needs at least {need}% of the device's time, and promises before it {taken}%"));
        }
        let figure = known.iter().find_map(|alone| alone.text(&self.promise));
        figure.map_or(Admission::OnTrial, |figure| Admission::Admitted(format!("with nothing else there {figure}")))
    }

    /// Minimum share of the device's time for the guaranteed rates; `None` if it is unknown, or if no rate is guaranteed.
    fn need(&self, known: &[Alone]) -> Option<f64> {
        let promised = self.promise.rates();
        let needs = promised.iter().enumerate().filter_map(|(number, promised)| {
            let promised = (*promised)?;
            if number == DEVICE_TIME {
                return Some(promised);
            }
            let rates = |number: usize| known.iter().find_map(|alone| alone.rates[number]);
            rates(DEVICE_TIME).zip(rates(number)).map(|(time, rate)| promised * time.value / rate.bound.max(1e-9))
        });
        needs.reduce(f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(seconds: u64) -> Nanos {
        Nanos::from_millis(1_000 * seconds)
    }

    /// Ten seconds with 20 responses each, one in `one_in` of 30 ms and the others of 8 ms.
    fn measured(promise: &Promise, one_in: u64) -> AdmissionTrial {
        let mut trial = AdmissionTrial::new(promise);
        let step = |number: u64| Nanos::from_millis(100 * number);
        for number in 0..100 {
            for response in 2 * number..2 * number + 2 {
                let takes = Nanos::from_millis(if response % one_in == 0 { 30 } else { 8 });
                trial.responded(0, step(number), takes);
            }
            trial.close((step(number), step(number + 1)), true, [(0.1, 2.0); RATES]);
        }
        trial
    }

    #[test]
    fn what_a_few_late_responses_may_be_by_chance_is_not_refused() {
        let promise = Promise { read_p99: Some(Nanos::from_millis(20)), ..Promise::default() };
        for (one_in, is_refused) in [(1_000, false), (50, false), (12, true)] {
            let mut trial = measured(&promise, one_in);
            trial.decide(seconds(10), 0.0);
            let (refused, admission) = (matches!(trial.admission, Admission::Refused(_)), &trial.admission);
            assert_eq!(refused, is_refused, "one in {one_in}: {admission:?}");
        }
    }

    #[test]
    fn a_refusal_is_forgotten_with_its_measurement() {
        let promise = Promise { read_p99: Some(Nanos::from_millis(5)), ..Promise::default() };
        let mut trial = measured(&promise, 1_000);
        let mut at = |second| {
            trial.decide(seconds(second), 0.0);
            trial.admission.clone()
        };
        assert!(matches!(at(10), Admission::Refused(_)) && matches!(at(600), Admission::Refused(_)));
        assert_eq!(at(611), Admission::OnTrial);
    }

    #[test]
    fn figures_have_three_digits() {
        assert_eq!(digits(0.0), "0");
        assert_eq!([0.000_123, 1.0, 12.34, 999.4, 1_000.0].map(digits), ["0.000123", "1.00", "12.3", "999", "1000"]);
    }
}
