//! Cost of a change: figures of the whole load that get worse.

use control::Setting;
use report::advice::Verdict;

use super::judgement::Judgement;

/// Factor by which the longest p99 response time must grow to count as a cost.
const PAYS: f64 = 1.1;

impl Judgement {
    /// The figures that get worse with the change, as sentences; one that says so if there are none.
    pub(super) fn cost(&self, verdict: &Verdict, active: &Setting) -> Vec<String> {
        let of = |setting: &str| self.overall.iter().find(|prediction| prediction.setting.to_string() == setting);
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
        if cost.is_empty() {
            cost.push("No figure of the whole load gets worse by more than a tenth.".to_owned());
        }
        cost
    }
}
