//! Who pays for a change: figures and streams that become worse.

use control::Setting;
use observe::merit;
use report::advice::Verdict;

use super::confirm::ConfirmedRun;
use super::judgement::{Judgement, MOST_STREAMS};
use super::observed::Observed;

/// A stream whose mean response time grows less does not pay.
pub(super) const PAYS: f64 = 1.1;

impl Judgement {
    /// Who pays for the change.
    pub(super) fn cost(
        &self,
        verdict: &Verdict,
        active: &Setting,
        observed: &Observed,
        confirmed: Option<&ConfirmedRun>,
    ) -> Vec<String> {
        let of = |setting: &str| self.overall.iter().find(|promise| promise.setting.to_string() == setting);
        let (Some(to), Some(from)) = (of(&verdict.setting), of(&active.to_string())) else { return Vec::new() };
        let mut cost = Vec::new();
        if to.throughput < 0.99 * from.throughput {
            cost.push(format!("Throughput pays: {:.3} MB/s instead of {:.3}.", to.throughput / 1e6, from.throughput / 1e6));
        }
        if to.response_s > 1.01 * from.response_s {
            cost.push(format!(
                "Response time pays: {:.3} ms in the mean instead of {:.3}.",
                1e3 * to.response_s,
                1e3 * from.response_s
            ));
        }
        if to.p99_by_bound > PAYS * from.p99_by_bound {
            let (to, from) = (to.p99_by_bound, from.p99_by_bound);
            cost.push(format!("The longest p99 response time of a stream rises to {to:.2} of its bound, from {from:.2}."));
        }
        if let Some(confirmed) = confirmed.filter(|confirmed| confirmed.promise.setting == to.setting) {
            cost.extend(streams_that_pay(observed, &confirmed.observed));
        }
        if cost.is_empty() {
            cost.push("No figure gets worse by more than a tenth.".to_owned());
        }
        cost
    }
}

/// The streams whose response time grew most.
pub(super) fn streams_that_pay(before: &Observed, after: &Observed) -> Option<String> {
    let mut grown: Vec<(f64, String)> = Vec::new();
    for (&stream, was) in before.streams.iter().filter(|(_, was)| was.responses.count() >= merit::LEAST_REQUESTS) {
        let Some(is) = after.streams.get(&stream).filter(|is| is.responses.count() > 0) else { continue };
        let (was_ms, is_ms) = (was.responses.mean().as_millis_f64(), is.responses.mean().as_millis_f64());
        if is_ms > PAYS * was_ms {
            grown.push((is_ms / was_ms, format!("{} ({is_ms:.2} ms instead of {was_ms:.2})", before.name(stream))));
        }
    }
    grown.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = if grown.len() > MOST_STREAMS { format!(" and {} more", grown.len() - MOST_STREAMS) } else { String::new() };
    let named: Vec<String> = grown.into_iter().take(MOST_STREAMS).map(|(_, text)| text).collect();
    (!named.is_empty()).then(|| format!("Streams that wait longer: {}{more}.", named.join(", ")))
}
