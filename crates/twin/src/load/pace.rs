//! When a stream issues requests: after completions, or on a clock.
//!
//! The input for each request is the number of its stream's requests in flight when it arrives, and the time of the last completion or
//! arrival. A closed stream issues a request, after some think time, once few enough are in flight; an open one some time after its last
//! request, regardless of completions.
//!
//! The two are distinguished by the variation of the *gap* between requests and of the *thought* (think time) since the last completion.
//! They differ by the time until that completion, which depends on the device. The quantity that the stream controls does not depend on it,
//! so it varies less: the gap of a closed stream varies with the device, and so does the thought of an open one.
//!
//! For a random clock that is too little evidence. But a paced stream is occasionally late: its next request was due before the completion,
//! so it follows at once, and the more often the longer the response was. A process that issues several requests before it thinks also has
//! such requests, but regardless of the response time.

use block::{Nanos, Op, Priority};

use crate::recording::ObservedRequest;

/// A request within this time after a completion was already due: think times are longer. In seconds. Choice: above the tens of
/// microseconds from a completion to the next call, below usual think times; not varied.
const AT_ONCE_S: f64 = 0.2e-3;
/// Fractions of requests below this are ignored. Choice: exceptions such as preempted processes should not decide; not varied.
const RARE: f64 = 0.02;

/// Ratio between the variations of gaps and thoughts from which the smaller one is taken to be the regular one. Choice: a clock that is
/// late at times has far more regular gaps than thoughts (commit f787f355), and a smaller ratio is left to the likelihood; not varied.
const CLEARLY: f64 = 10.0;

/// When a stream issues requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// After completions.
    Closed,
    /// On a clock.
    Open,
    /// On a clock, but never before the completions for which it waited in the recording.
    Paced,
}

/// A request of a stream, independent of the device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Step {
    pub op: Op,
    pub sync: bool,
    pub priority: Priority,
    pub sectors: u32,
    /// Number of the stream's requests in flight just before.
    pub in_flight: u32,
    /// Time since the stream's previous request; for a transfer, since its previous transfer, not counting flushes.
    pub gap: Nanos,
    /// Think time since the completion that it waited for, or since the previous request if that was later; `None` if it waited for no
    /// completion.
    pub thought: Option<Nanos>,
}

/// How a stream restarts after its last step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Again {
    /// Open streams: time from the last step to the restart.
    pub pause: Nanos,
    /// Closed streams: time from the last completion to the restart. It is the idle time before the first step, or, if that is unknown, the
    /// gap before it plus the time after the last completion; at least the idle time at the end of the recording.
    pub thought: Nanos,
    /// Minimum number of requests in flight at which it issued another one.
    pub least_under_way: u32,
}

/// The steps between `from` and `to`, and how the stream restarts. `seen`: its requests in order of arrival.
pub(super) fn steps(seen: &[&ObservedRequest], from: Nanos, to: Nanos) -> (Vec<Step>, Again) {
    let mut completions: Vec<Nanos> = seen.iter().map(|seen| seen.completed).collect();
    completions.sort_unstable();
    let mut before = None;
    // Arrival of the previous request that is not a flush.
    let mut before_transfer = None;
    let mut done = 0;
    let mut end = None;
    // The latest completion before each request, and the number of requests since then.
    let mut since_last = (Nanos::ZERO, 0);
    let mut least_under_way: Option<u32> = None;
    let mut steps: Vec<Step> = Vec::with_capacity(seen.len());
    for (number, seen) in seen.iter().enumerate() {
        let request = &seen.request;
        let arrival = request.arrival;
        done += completions[done..].iter().take_while(|&&at| at <= arrival).count();
        let last: Option<Nanos> = done.checked_sub(1).map(|last| completions[last]);
        since_last = match last {
            Some(last) if last != since_last.0 => (last, 0),
            _ => (since_last.0, since_last.1 + 1),
        };
        if arrival >= from {
            // Merged requests complete together, so it is unknown which of them the stream waited for. A sequential reader needs one
            // completion per request, as that is the purpose of read-ahead; other streams need all of them.
            let reads_on = request.op == Op::Read && end == Some(request.lba);
            let one_by_one = last.filter(|_| reads_on).map(|last| {
                let first = completions[..done].partition_point(|&at| at < last);
                first + since_last.1 + 1
            });
            let needed = one_by_one.map_or(done, |needed| needed.min(done));
            let waited_for = last.filter(|&last| one_by_one == Some(needed) || before.is_none_or(|before| last > before));
            // Of the requests before the window, only those in flight during it are known.
            let in_flight = number.saturating_sub(needed) as u32;
            if last.is_some() {
                least_under_way = Some(least_under_way.map_or(in_flight, |least| least.min(in_flight)));
            }
            let since = if seen.is_flush() { before } else { before_transfer }.unwrap_or(from).max(from);
            steps.push(Step {
                op: request.op,
                sync: request.sync,
                priority: request.priority,
                sectors: request.sectors,
                in_flight,
                gap: arrival - since,
                thought: waited_for.map(|last| arrival - before.map_or(last, |before| last.max(before))),
            });
        }
        before = Some(arrival);
        before_transfer = if seen.is_flush() { before_transfer } else { before };
        end = Some(request.end());
    }
    let first = steps.first().map_or(Nanos::ZERO, |first| first.gap);
    let idle = completions.last().map_or(Nanos::ZERO, |&last| to - last.min(to));
    let again = Again {
        pause: to - before_transfer.unwrap_or(to),
        thought: steps.first().and_then(|first| first.thought).map_or(first + idle, |thought| thought.max(idle)),
        least_under_way: least_under_way.unwrap_or(0),
    };
    (steps, again)
}

impl Step {
    pub fn is_read_ahead(&self) -> bool {
        self.op == Op::Read && !self.sync
    }

    pub fn is_flush(&self) -> bool {
        self.sectors == 0
    }
}

impl Pace {
    /// The name for display.
    pub fn name(self) -> &'static str {
        match self {
            Pace::Closed => "closed",
            Pace::Open => "open",
            Pace::Paced => "paced",
        }
    }

    pub(super) fn of(steps: &[Step]) -> Pace {
        // Nothing is known before the first step. A step that follows a request rather than a completion is no evidence.
        let answered = |step: &Step| step.thought.filter(|&thought| thought < step.gap).map(|thought| (step.gap, thought));
        let seconds = |(gap, thought): (Nanos, Nanos)| (gap.as_secs_f64(), thought.as_secs_f64());
        // Nor is a flush: it follows the writes that it makes durable, whatever the pace.
        let transfers = || steps.iter().skip(1).filter(|step| !step.is_flush());
        let answered: Vec<(f64, f64)> = transfers().filter_map(answered).map(seconds).collect();
        if answered.is_empty() {
            return Pace::Open;
        }
        // Requests issued together by one call are no evidence of how calls follow each other.
        let apart = |step: &&Step| step.gap.as_secs_f64() >= AT_ONCE_S;
        let overlapping = steps.iter().filter(apart).filter(|step| step.in_flight > 0).count();
        let overlaps = overlapping as f64 > RARE * steps.len() as f64;
        if !overlaps {
            return if is_paced(&answered) { Pace::Paced } else { Pace::Closed };
        }
        // On a clock, the age of the latest completion at the time of a request is the same as at any other time: half a gap, if
        // completions are a gap apart.
        let mean = |values: &mut dyn Iterator<Item = f64>| values.sum::<f64>() / answered.len() as f64;
        let age = mean(&mut answered.iter().map(|(_, thought)| *thought));
        let gap = mean(&mut answered.iter().map(|(gap, _)| *gap));
        if age <= gap / 4.0 { Pace::Closed } else { Pace::Open }
    }
}

/// Whether a stream with one request in flight is paced. `answered`: gaps and thoughts, in seconds.
fn is_paced(answered: &[(f64, f64)]) -> bool {
    let waits: Vec<(f64, bool)> = answered.iter().map(|(gap, thought)| (gap - thought, *thought < AT_ONCE_S)).collect();
    let at_once = waits.iter().filter(|(_, at_once)| *at_once).count();
    let share = at_once as f64 / waits.len() as f64;
    if share <= RARE {
        let gaps = spread(answered.iter().map(|(gap, _)| *gap).collect());
        let thoughts = spread(answered.iter().map(|(_, thought)| *thought).collect());
        return gaps < thoughts;
    }
    if share >= 1.0 - RARE {
        return false;
    }
    // A regular clock shows in the requests that are not late.
    let in_time = || answered.iter().filter(|(_, thought)| *thought >= AT_ONCE_S);
    let gaps = spread(in_time().map(|(gap, _)| *gap).collect());
    let thoughts = spread(in_time().map(|(_, thought)| *thought).collect());
    if gaps.max(thoughts) > CLEARLY * gaps.min(thoughts) {
        return gaps < thoughts;
    }
    // Log-likelihood ratio of requests that are due at random times to lateness that is independent of the response time.
    let rate = rate_of_being_late(&waits, at_once as f64);
    let likelihood = |(wait_s, at_once): &(f64, bool)| {
        let in_time = (-rate * wait_s).exp().clamp(1e-9, 1.0 - 1e-9);
        if *at_once { ((1.0 - in_time) / share).ln() } else { (in_time / (1.0 - share)).ln() }
    };
    waits.iter().map(likelihood).sum::<f64>() > 0.0
}

/// Upper bound on the rate of due requests, per second. Choice: a request per microsecond, above the rate of any stream; ends the search
/// where all requests are late; not varied.
const HIGHEST_RATE: f64 = 1e6;

/// The rate per second of a random clock at which `late` requests are due before these completions. Newton's method from below: the
/// expected number is concave in the rate, so no step overshoots, and a handful of steps reach full precision.
fn rate_of_being_late(waits: &[(f64, bool)], late: f64) -> f64 {
    let mut rate = 0.0;
    for _ in 0..60 {
        let (in_time, slope) = waits.iter().fold((0.0, 0.0), |(in_time, slope), (wait_s, _)| {
            let one = (-rate * wait_s).exp();
            (in_time + one, slope + wait_s * one)
        });
        let step = (late - (waits.len() as f64 - in_time)) / slope;
        rate += step;
        if rate.is_nan() || rate >= HIGHEST_RATE {
            return HIGHEST_RATE;
        }
        if step <= 1e-12 * rate {
            break;
        }
    }
    rate
}

/// Sum of squared deviations from the mean, with the outer 5% of the values on each side clamped, as a few long pauses must not hide the
/// rest.
fn spread(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let cut = values.len() / 20;
    let (low, high) = (values[cut], values[values.len() - 1 - cut]);
    let clamped = || values.iter().map(|value| value.clamp(low, high));
    let mean = clamped().sum::<f64>() / values.len() as f64;
    clamped().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_the_one_at_which_this_number_is_late() {
        // Linearly and logarithmically spaced waits; the latter from a nanosecond to a quarter of an hour.
        let alike: Vec<f64> = (1..=1_000).map(|number| 1e-5 * f64::from(number)).collect();
        let all_sizes: Vec<f64> = (0..120).map(|tenths| 1e-9 * 10f64.powf(f64::from(tenths) / 10.0)).collect();
        for (waits, rate) in [(&alike, 3.0), (&alike, 2_500.0), (&all_sizes, 0.7), (&all_sizes, 80_000.0)] {
            let late = waits.iter().map(|wait_s| 1.0 - (-rate * wait_s).exp()).sum::<f64>();
            let waits: Vec<(f64, bool)> = waits.iter().map(|&wait_s| (wait_s, true)).collect();
            let found = rate_of_being_late(&waits, late);
            assert!((found / rate - 1.0).abs() < 1e-9, "{found} and not {rate}");
        }
    }

    #[test]
    fn a_clock_that_catches_up_after_a_stall_is_recognised_by_its_ticks() {
        let step = |gap_us: u64, thought_us: u64| Step {
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 8,
            in_flight: 0,
            gap: Nanos(gap_us * 1_000),
            thought: Some(Nanos(thought_us * 1_000)),
        };
        // A clock with ticks of a millisecond. When the device stalls, overdue requests follow one another as they complete, each quickly.
        let stall = || std::iter::once(step(20_000, 0)).chain((0..19).map(|_| step(230, 0)));
        let steps: Vec<Step> = (0..20).flat_map(|_| (0..80).map(|tick| step(1_000, 600 + tick % 7 * 40)).chain(stall())).collect();
        assert_eq!(Pace::of(&steps), Pace::Paced);
        // Constant think time, with several requests at once now and then.
        let steps: Vec<Step> = (0..20).flat_map(|_| (0..80).map(|tick| step(1_000 + tick % 7 * 40, 700)).chain(stall())).collect();
        assert_eq!(Pace::of(&steps), Pace::Closed);
    }
}
