//! A tenant: the clock of its reference disk, and how long it can wait for the device.
//!
//! ```text
//! arrival                        worst-case response on its reference disk
//!  │◀───────────────────────────────── tail ────────────────────────────────▶│
//!  │◀────────────── room ─────────────▶│◀─ its flush ─▶│◀─ its own request ─▶│
//!  └───────────────────────────────────┘ others may keep the device busy until here
//! ```

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

use crate::cost::Cost;
use crate::credit::Credit;
use crate::promise::{is_same, promised};
use crate::quantile::{High, ONE_IN};
use crate::rates::Limiter;
use crate::tenants::ServiceTime;
use crate::{Nanos, Request, RequestId, Standing, Tenant};

/// A tenant that has issued no request for this time is no longer waited for.
pub(super) const MAX_SILENCE: Nanos = Nanos::from_millis(1_000);
/// Number of steps in which most of the room is lost if others keep the device busy for too long.
const STEPS: u64 = 8;
/// The whole room, as a factor in fixed point.
const WHOLE: u64 = 1 << 16;
/// Tolerance of a guarantee: one part in this many of a request's time on the reference disk. Service times vary; if each early completion
/// were a gift and each late one a debt, all tenants would be owed more than their guarantees. In 120 drawn contracts a tenth kept 2
/// guarantees and 3 contracts fewer: with the variation of the completions, seconds were slower than the reference disk.
const TOLERANCE: u64 = 40;
/// A request is due earlier by one part in this many of its time on the reference disk, as a margin. In 160 drawn contracts a tenth
/// kept 9 guarantees fewer, and no reserve 14.
const RESERVE: u64 = 20;
/// Number of late completions remembered. A tenant with more in flight keeps its reference disk busy, so its issue times hardly matter.
const MAX_ANSWERS: usize = 64;

/// A request, including all merged into it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Charge {
    pub(super) tenant: usize,
    pub(super) is_write: bool,
    /// Its time on the reference disk.
    pub(super) service: Nanos,
    /// Number of requests.
    pub(super) parts: u32,
    pub(super) arrival: Nanos,
    pub(super) dispatched: Option<Nanos>,
    /// Expected media time.
    pub(super) work: Nanos,
    /// Number in flight after the dispatch.
    pub(super) in_flight: u32,
    /// Progress of the ledger at the dispatch.
    pub(super) begin: f64,
    /// Media time that the device had spent on others before the dispatch.
    pub(super) others_done: Nanos,
    /// Completion time on the reference disk.
    pub(super) reference_done: Nanos,
}

impl Charge {
    /// Adds a request that was merged into this one.
    pub(super) fn merge(&mut self, other: &Charge) {
        self.service += other.service;
        self.parts += other.parts;
        self.arrival = self.arrival.min(other.arrival);
        self.reference_done = self.reference_done.max(other.reference_done);
    }
}

/// Its keys in the lists of the scheduler; `None` if it is not in that list.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) due: Option<u128>,
    pub(super) tag: Option<u128>,
    pub(super) wake: Option<u128>,
    pub(super) room: Option<u128>,
    pub(super) flight: Option<u128>,
}

pub(super) struct Client {
    /// State of the reference disk; `None`: no guarantee.
    reference: Option<Box<dyn ServiceTime>>,
    /// Bound of the response time, in addition to that of the reference disk.
    bound: Option<Nanos>,
    pub(super) limiter: Option<Limiter>,
    pub(super) weight: u64,
    /// Whether the reference disk has reported response times; until then its service times are summed up.
    reports: bool,
    /// When the reference disk would have completed all requests so far.
    clock: Nanos,
    /// Requests that are queued or in flight, merged ones counted each; and their time on the reference disk.
    pub(super) open: u32,
    open_time: Nanos,
    /// Queued requests, and their time on the reference disk.
    pub(super) waiting: u32,
    waiting_time: Nanos,
    /// Last arrival or completion.
    last: Nanos,
    /// For recent completions that were not yet followed by another request: lateness compared to the reference disk.
    answers: VecDeque<Nanos>,
    /// Worst-case response on the reference disk; worst-case times of its reads and writes at this device without the work of others.
    tail: High,
    own: [High; 2],
    /// Worst-case service time on the reference disk.
    longest: High,
    /// Worst-case flush, and the usual one.
    flush: High,
    usual_flush: Cost,
    /// Whether its requests are in time on average.
    credit: Credit,
    /// The last time on the reference disk.
    service: Nanos,
    /// The part of its room that others may use, learned from whether requests are late because of others; and the time of the last
    /// reduction. Requests from before that carry no information about it.
    patience: u64,
    reduced: Nanos,
    /// Expected media time of its requests in flight; on a single disk, each of them with its due time.
    pub(super) flying: Nanos,
    pub(super) flights: Vec<(RequestId, Nanos)>,
    /// Media time spent on it so far.
    pub(super) done: Nanos,
    /// Time for which its reads and writes keep the device busy, by size; and their media time as the device tells it, for shares.
    pub(super) costs: [Cost; 2],
    pub(super) disk_time: Cost,
    /// Cost of its next request, the time of that request on the reference disk, and its latest start.
    pub(super) next_cost: Nanos,
    pub(super) next_service: Nanos,
    pub(super) latest_start: Nanos,
    /// Increases as it uses spare capacity.
    pub(super) tag: u64,
    pub(super) places: Places,
    /// Requests completed, late ones, and those late because of others.
    counts: [u64; 3],
    /// Service times on the reference disk of the requests completed.
    reference_work: Nanos,
}

impl Client {
    pub(super) fn new(tenant: Option<&Tenant>, weight: u64) -> Client {
        Client {
            reference: tenant.and_then(promised),
            bound: tenant.and_then(|tenant| tenant.latency_p99),
            limiter: tenant.and_then(|tenant| Limiter::new(&tenant.rates)),
            weight: weight.max(1),
            reports: false,
            clock: Nanos::ZERO,
            open: 0,
            open_time: Nanos::ZERO,
            waiting: 0,
            waiting_time: Nanos::ZERO,
            last: Nanos::ZERO,
            answers: VecDeque::new(),
            tail: High::default(),
            own: Default::default(),
            longest: High::default(),
            flush: High::default(),
            usual_flush: Cost::default(),
            credit: Credit::default(),
            service: Nanos::ZERO,
            patience: WHOLE,
            reduced: Nanos::ZERO,
            flying: Nanos::ZERO,
            flights: Vec::new(),
            done: Nanos::ZERO,
            costs: Default::default(),
            disk_time: Cost::default(),
            next_cost: Nanos::ZERO,
            next_service: Nanos::ZERO,
            latest_start: Nanos::ZERO,
            tag: 0,
            places: Places::default(),
            counts: [0; 3],
            reference_work: Nanos::ZERO,
        }
    }

    /// For a new roster, with no requests queued. A changed guarantee begins now; costs on this device are kept.
    pub(super) fn with_promise(self, now: Nanos, before: &Tenant, after: &Tenant) -> Client {
        let weight = u64::from(after.weight).max(1);
        if is_same(before, after) {
            return Client { weight, ..self };
        }
        let limiter = if before.rates == after.rates { self.limiter } else { Limiter::new(&after.rates) };
        let Client { reference, bound, tail, patience, counts, reports, .. } = Client::new(Some(after), weight);
        Client { reference, bound, limiter, weight, tail, patience, counts, reports, clock: self.clock.max(now), ..self }
    }

    /// Takes over a request in flight whose tenant is no longer on the roster.
    pub(super) fn adopt(&mut self, charge: &Charge) {
        self.open += charge.parts;
        self.open_time += charge.service;
        self.flying += charge.work;
    }

    pub(super) fn is_promised(&self) -> bool {
        self.reference.is_some()
    }

    /// Registers an arrival. Returns its time on the reference disk.
    ///
    /// An idle reference disk waits, so its clock catches up with the present; but not while requests are in flight, as these are late here
    /// and their successors would have arrived earlier. For the same reason a request that follows a late completion counts as issued
    /// earlier by that lateness.
    pub(super) fn arrived(&mut self, now: Nanos, request: &Request) -> Nanos {
        let lateness = self.answers.pop_front().unwrap_or(Nanos::ZERO);
        if self.open == 0 {
            self.clock = self.clock.max(now - lateness);
        }
        self.last = now;
        self.open += 1;
        let Some(reference) = &mut self.reference else { return Nanos::ZERO };
        // At least 1 ns: a request without cost would be due at once.
        let service = reference.service_time(self.clock, request, self.open - 1).max(Nanos(1));
        let (tail, reports) = (&mut self.tail, &mut self.reports);
        reference.take_responses(&mut |response| {
            tail.add(response);
            *reports = true;
        });
        if !*reports {
            self.tail.add(self.open_time + service);
        }
        self.service = service;
        self.longest.add(service);
        self.clock += service;
        self.open_time += service;
        self.waiting_time += service;
        service
    }

    /// Forgives lateness of the next request beyond a maximum, so that a guarantee that no device can keep does not take it from others.
    pub(super) fn forgive(&mut self, now: Nanos, debt: Nanos) {
        self.clock = self.clock.max(now + (self.waiting_time - self.next_service) - debt);
    }

    /// The charge of a request that has just arrived.
    pub(super) fn charge(&self, tenant: usize, is_write: bool, service: Nanos, now: Nanos) -> Charge {
        Charge {
            tenant,
            is_write,
            service,
            parts: 1,
            arrival: now,
            dispatched: None,
            work: Nanos::ZERO,
            in_flight: 0,
            begin: 0.0,
            others_done: Nanos::ZERO,
            reference_done: self.clock,
        }
    }

    /// When a queued request has to be done: when the reference disk would complete it and the usual flush, and within its worst case with the
    /// longest flush; less a reserve.
    pub(super) fn due(&self, charge: &Charge) -> Nanos {
        let (by_clock, by_tail) = self.dues(charge);
        by_clock.min(by_tail)
    }

    fn dues(&self, charge: &Charge) -> (Nanos, Nanos) {
        let by_clock = self.clock - (self.waiting_time - charge.service);
        let reserve = Nanos(charge.service.0 / RESERVE);
        let worst = if charge.is_write { self.flush.get() } else { Nanos::ZERO };
        (by_clock - (self.flush_after(charge) + reserve), charge.arrival + self.tail() - (worst + reserve))
    }

    /// When a queued request of this cost has to be sent. Its worst case is kept with its worst time at this device, and its pace on a single
    /// disk with the cost: otherwise a tenant would get twice its promise, as the worst case of a disk is more than twice the mean. The
    /// time that parallel units take varies more than the cost says.
    pub(super) fn latest_start(&self, charge: &Charge, cost: Nanos, has_one_arm: bool) -> Nanos {
        let (by_clock, by_tail) = self.dues(charge);
        let worst = self.own[usize::from(charge.is_write)].get().max(cost);
        (by_clock - if has_one_arm { cost } else { worst }).min(by_tail - worst)
    }

    /// The usual flush that may follow a request: it is part of the response to a write that is synced.
    fn flush_after(&self, charge: &Charge) -> Nanos {
        let usual = self.usual_flush.mean().filter(|_| charge.is_write);
        Nanos(usual.unwrap_or(0.0) as u64)
    }

    /// When a request has to be done once it is in flight: when it is due, with the worst-case service time instead of its own. A tenant
    /// with many requests queued has a worst-case response of seconds, which would let others overtake each of them.
    pub(super) fn due_in_flight(&self, charge: &Charge) -> Nanos {
        (charge.arrival + self.tail()).min(self.due(charge) + (self.longest.get() - charge.service))
    }

    /// Records the dispatch of a request with this time on the reference disk and this expected media time.
    pub(super) fn sent(&mut self, service: Nanos, work: Nanos) {
        self.waiting -= 1;
        self.waiting_time = self.waiting_time - service;
        self.flying += work;
    }

    /// Worst-case response on the reference disk, or the bound if that is lower.
    pub(super) fn tail(&self) -> Nanos {
        self.bound.map_or(self.tail.get(), |bound| bound.min(self.tail.get()))
    }

    /// Time for which others may keep the device from its next request; `None` if none is expected.
    pub(super) fn room(&self, now: Nanos) -> Option<Nanos> {
        let is_expected = self.open > 0 || now < self.silent_from();
        let is_active = self.is_promised() && self.tail() > Nanos::ZERO && is_expected;
        is_active.then(|| self.slack())
    }

    /// The time from which no request is expected.
    pub(super) fn silent_from(&self) -> Nanos {
        self.last + MAX_SILENCE
    }

    fn slack(&self) -> Nanos {
        let [reads, writes] = self.own.map(High::get);
        let whole = self.tail() - reads.max(writes + self.flush.get());
        Nanos((u128::from(whole.0) * u128::from(self.patience) / u128::from(WHOLE)) as u64)
    }

    /// Registers the completion of a request; `others_done` is the device's time for others so far. Returns whether the device alone made it
    /// late, because of others; `None` without a guarantee.
    ///
    /// If it was earlier than on the reference disk, the guarantee restarts here: open requests are due when the reference disk would
    /// complete them if it started now, or later by at most `credit`.
    pub(super) fn completed(
        &mut self,
        now: Nanos,
        charge: &Charge,
        others_done: Nanos,
        debt: Nanos,
        credit: Nanos,
    ) -> Option<bool> {
        self.open = self.open.saturating_sub(charge.parts);
        self.open_time = self.open_time - charge.service;
        self.last = now;
        let dispatched = charge.dispatched.filter(|_| self.is_promised())?;
        self.clock =
            self.clock.min(now + self.flush_after(charge) + self.open_time + Nanos(charge.service.0 / TOLERANCE).max(credit));
        if self.answers.len() < MAX_ANSWERS {
            self.answers.push_back((now - charge.reference_done).min(debt));
        }
        let at_device = now - dispatched;
        let own = (at_device - (others_done - charge.others_done)).max(charge.work.min(at_device));
        self.own[usize::from(charge.is_write)].add(own);
        self.reference_work += charge.service;
        let is_late = now - charge.arrival > self.tail();
        let is_late_by_others = is_late && own <= self.tail();
        for (count, is_one) in self.counts.iter_mut().zip([true, is_late, is_late_by_others]) {
            *count += u64::from(is_one);
        }
        let allowed = charge.reference_done.max(charge.arrival + own);
        let is_late_on_average = self.credit.is_overdrawn(now, allowed, self.tail());
        if (is_late_by_others || is_late_on_average) && charge.arrival >= self.reduced {
            self.reduced = now;
            self.patience -= self.patience / STEPS;
        } else if !is_late {
            self.patience = (self.patience + WHOLE / STEPS / ONE_IN).min(WHOLE);
        }
        Some(own <= self.tail() && at_device > self.tail())
    }

    /// Registers a flush that was requested at `since`. A request that follows a late one counts as issued earlier.
    pub(super) fn flushed(&mut self, now: Nanos, since: Nanos, debt: Nanos) {
        self.flush.add(now - since);
        self.usual_flush.learn(0, (now - since).0);
        self.last = now;
        if self.is_promised() && self.open == 0 {
            self.answers.clear();
            self.answers.push_back((now - self.clock).min(debt));
            self.clock = self.clock.min(now + Nanos(self.service.0 / TOLERANCE));
        }
    }

    /// Reverts the arrival of a queued request, which was drained.
    pub(super) fn withdrawn(&mut self, charge: &Charge) {
        self.waiting -= 1;
        self.open = self.open.saturating_sub(charge.parts);
        self.clock = self.clock - charge.service;
        self.waiting_time = self.waiting_time - charge.service;
        self.open_time = self.open_time - charge.service;
    }

    /// The state of its guarantee; `None` if it has none.
    pub(super) fn standing(&self, now: Nanos) -> Option<Standing> {
        self.reference.as_ref()?;
        let [completed, late, late_by_others] = self.counts;
        let mean = Nanos(self.open_time.0.checked_div(u64::from(self.open)).unwrap_or(0));
        let behind = if self.open == 0 { Nanos::ZERO } else { now - (self.clock - self.open_time + mean) };
        let reference_work = self.reference_work;
        Some(Standing { completed, late, late_by_others, reference_work, behind, slack: self.slack() })
    }
}
