//! Verdict on a second of a guarantee, from the requests of that second.

use block::{Nanos, Tenant};
use serde::{Deserialize, Serialize};

use crate::store::Served;

/// Share of a reserved rate that must be reached, in percent. Choice: requests that straddle the end of a second; not varied.
const ENOUGH_PERCENT: u64 = 95;
/// Share of a second's work of the reference disk that must be done, in percent. Choice: its model is right to some percent in the mean of
/// a second's requests; not varied.
const ENOUGH_WORK_PERCENT: u64 = 90;
/// Share of a second for which a request is outstanding if the volume asks for all that it can get, in percent. Choice: as
/// [`ENOUGH_PERCENT`]; not varied.
const BUSY_PERCENT: u64 = 95;
/// A second in nanoseconds.
const SECOND: Nanos = Nanos(1_000_000_000);

/// Verdict on a second.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The guarantee was kept.
    Kept,
    /// Requests of other volumes broke it.
    ByOthers,
    /// The store did, which is slower than the guarantee needs.
    ByStore,
    /// The volume asked for less than it is guaranteed.
    NotAsked,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Verdict; 4] = [Verdict::Kept, Verdict::ByOthers, Verdict::ByStore, Verdict::NotAsked];

    /// Name in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Kept => "kept",
            Verdict::ByOthers => "by_others",
            Verdict::ByStore => "by_store",
            Verdict::NotAsked => "not_asked",
        }
    }
}

/// Whether a tenant has a guarantee that can be broken. Weights and limits cannot.
pub fn has_promise(tenant: &Tenant) -> bool {
    tenant.reference.is_some() || tenant.latency_p99.is_some() || !tenant.rates.reservation.is_none()
}

/// The scheduler's account of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Requests completed.
    pub completed: u64,
    /// Requests that took longer than the worst case on the reference disk because of others.
    pub late_by_others: u64,
    /// Time that the reference disk would have needed for the completed ones; `None` if the scheduler does not know.
    pub reference_work: Option<Nanos>,
}

/// The shortfall of a second, with figures; `None` if there is none.
///
/// * A rate is missed if less than 95% of it was served although a request was outstanding all the time. A volume that pauses asks for
///   less.
/// * A bound of response times is missed if more than 1% of the requests exceed it, and more than one.
/// * A reference disk is missed if as many took longer than the worst case there because of others, or, by a volume with requests
///   outstanding all the time, if it would have done more than was done.
pub fn missed(tenant: &Tenant, served: &Served, account: &Account) -> Option<String> {
    let is_busy = 100 * served.busy.0 >= BUSY_PERCENT * SECOND.0;
    let rate = &tenant.rates.reservation;
    let rates = [
        (rate.iops.map(std::num::NonZeroU64::get), units(tenant, served), 1, "requests/s"),
        (rate.bytes_per_s.map(std::num::NonZeroU64::get), served.bytes, 1_000_000, "MB/s"),
    ];
    for (wanted, got, unit, name) in rates {
        if let Some(wanted) = wanted.filter(|wanted| is_busy && 100 * got < ENOUGH_PERCENT * wanted) {
            return Some(format!("{} of {} {name}", got / unit, wanted / unit));
        }
    }
    if let Some(bound) = tenant.latency_p99 {
        let bound_ms = bound.as_secs_f64() * 1000.0;
        if served.tail_ms > bound_ms {
            return Some(format!("p99 {:.1} ms of {bound_ms:.1}", served.tail_ms));
        }
        // Outstanding for longer than a second.
        if served.requests == 0 && is_busy && bound < SECOND {
            return Some(format!("nothing completed in a second, p99 {bound_ms:.1} ms"));
        }
    }
    tenant.reference.as_ref()?;
    let Account { completed, late_by_others, reference_work } = *account;
    if late_by_others > (completed / 100).max(1) {
        return Some(format!("{late_by_others} of {completed} requests slower than the reference's worst"));
    }
    // Of the requests at both ends of the second one is not counted.
    let with_one_more = |work: Nanos| Nanos(work.0 + work.0 / completed.max(1));
    let work = reference_work.filter(|work| is_busy && 100 * with_one_more(*work).0 < ENOUGH_WORK_PERCENT * SECOND.0)?;
    Some(format!("{:.0}% of the reference's work", 100.0 * work.as_secs_f64()))
}

/// Requests, by the unit of the contract. Of a unit other than the default the upper bound.
fn units(tenant: &Tenant, served: &Served) -> u64 {
    let unit = tenant.rates.unit_bytes;
    if unit == block::rates::UNIT_BYTES { served.units } else { served.requests + served.bytes / unit }
}

/// Whether a second without a miss shows that the guarantee is kept: the volume used it.
pub fn is_asked(tenant: &Tenant, served: &Served) -> bool {
    let rate = &tenant.rates.reservation;
    let is_only_rate = tenant.reference.is_none() && tenant.latency_p99.is_none();
    let reached =
        |wanted: Option<std::num::NonZeroU64>, got: u64| wanted.is_some_and(|wanted| 100 * got >= ENOUGH_PERCENT * wanted.get());
    if is_only_rate {
        return reached(rate.iops, units(tenant, served)) || reached(rate.bytes_per_s, served.bytes);
    }
    served.requests > 0
}

#[cfg(test)]
mod tests {
    use block::rates::{Rate, Rates};

    use super::*;

    fn served(requests: u64, tail_ms: f64, busy_ms: u64) -> Served {
        Served {
            requests,
            units: requests,
            bytes: 4096 * requests,
            tail_ms,
            busy: Nanos::from_millis(busy_ms),
            ..Served::default()
        }
    }

    #[test]
    fn a_rate_is_missed_by_a_volume_that_asks_all_the_time_and_not_asked_by_one_that_pauses() {
        let rates = Rates { reservation: Rate::iops(200), ..Rates::default() };
        let tenant = Tenant::new("a").with_rates(rates);
        assert_eq!(missed(&tenant, &served(56, 10.0, 1000), &Account::default()).as_deref(), Some("56 of 200 requests/s"));
        assert_eq!(missed(&tenant, &served(56, 10.0, 500), &Account::default()), None);
        assert!(!is_asked(&tenant, &served(56, 10.0, 500)) && is_asked(&tenant, &served(195, 10.0, 1000)));
        assert_eq!(missed(&tenant, &served(195, 10.0, 1000), &Account::default()), None);
        assert_eq!(missed(&tenant, &served(0, 0.0, 1000), &Account::default()).as_deref(), Some("0 of 200 requests/s"));
    }

    #[test]
    fn a_reference_is_missed_by_requests_that_others_delay_and_by_work_that_is_not_done() {
        let reference = std::sync::Arc::new(block::tenants::ConstantTime { request: Nanos::from_millis(1), sector: Nanos::ZERO });
        let tenant = Tenant { reference: Some(reference), ..Tenant::new("a") };
        let account =
            |late_by_others, work_ms| Account { completed: 100, late_by_others, reference_work: Some(Nanos::from_millis(work_ms)) };
        let missed = |busy_ms, account: Account| missed(&tenant, &served(100, 10.0, busy_ms), &account);
        assert_eq!((missed(1000, account(1, 1000)), missed(500, account(0, 100))), (None, None));
        assert_eq!(missed(500, account(2, 500)).as_deref(), Some("2 of 100 requests slower than the reference's worst"));
        assert_eq!(missed(1000, account(0, 100)).as_deref(), Some("10% of the reference's work"));
        assert_eq!(missed(1000, Account { reference_work: None, ..account(0, 0) }), None, "the scheduler does not know");
    }

    #[test]
    fn a_bound_is_missed_by_its_tail_and_by_a_second_without_an_answer() {
        let tenant = Tenant { latency_p99: Some(Nanos::from_millis(1)), ..Tenant::new("a") };
        assert_eq!(missed(&tenant, &served(10, 192.0, 900), &Account::default()).as_deref(), Some("p99 192.0 ms of 1.0"));
        assert!(missed(&tenant, &served(0, 0.0, 1000), &Account::default()).is_some());
        assert_eq!(
            (missed(&tenant, &served(10, 0.9, 10), &Account::default()), missed(&tenant, &served(0, 0.0, 0), &Account::default())),
            (None, None)
        );
        assert!(!is_asked(&tenant, &served(0, 0.0, 0)) && is_asked(&tenant, &served(1, 0.9, 10)));
        assert!(!has_promise(&Tenant::new("b").with_weight(3)));
    }
}
