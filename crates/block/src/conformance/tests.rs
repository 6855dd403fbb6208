use alloc::boxed::Box;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroU64;
use std::panic::catch_unwind;

use super::{assert_conforms, assert_switches};
use crate::tenants::ConstantTime;
use crate::{
    ALL, Insertion, Limits, Nanos, Pick, Rate, Rates, Request, Roster, Scheduler, SchedulerSpec, StarvationBound, Tenant, find,
};

const CASES: u32 = 192;
const CASES_PER_PAIR: u32 = 48;

#[test]
fn every_scheduler_conforms() {
    for spec in ALL {
        assert_conforms(spec, CASES);
    }
}

/// Gives a scheduler a roster: each frequent stream of the scripts belongs to a tenant with different rates and
/// guarantees.
fn with_tenants(mut scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
    let disk = |millis| Arc::new(ConstantTime { request: Nanos::from_millis(millis), sector: Nanos::from_micros(1) });
    // Scripts have requests as large as a disk, and none should wait longer than the script lasts.
    let by_request = Rates { unit_bytes: NonZeroU64::MAX, ..Rates::default() };
    let fast = Rates { reservation: Rate::iops(200), limit: Rate::iops(2_000), ..by_request };
    let slow = Rates { limit: Rate::bytes_per_s(1 << 46), write_limit: Rate::iops(5_000), ..by_request };
    let tenants = vec![
        Tenant::new("fast").with_reference(disk(2)).with_rates(fast),
        Tenant::new("slow").with_reference(disk(300)).with_weight(3).with_rates(slow),
        Tenant::new("no guarantee").with_weight(2),
    ];
    scheduler.set_roster(&Roster::new(tenants, Vec::new(), &[(1, 0), (2, 1), (3, 2)], 2).unwrap());
    scheduler
}

macro_rules! with_tenants {
    ($name:literal) => {{
        let spec = find($name).unwrap();
        let build = |limits: &Limits, values: &[i64]| with_tenants((find($name).unwrap().build)(limits, values));
        let SchedulerSpec { name, summary, source, tunables, work_conserving, .. } = *spec;
        &*Box::leak(Box::new(SchedulerSpec {
            name,
            summary,
            source,
            tunables,
            work_conserving,
            starvation_bound: None,
            knowledge: None,
            build,
        }))
    }};
}

#[test]
fn sharing_schedulers_conform_with_a_roster() {
    for spec in [with_tenants!("virtual-clock"), with_tenants!("youchoose"), with_tenants!("mclock"), with_tenants!("guarantee")] {
        assert_conforms(spec, CASES);
        assert_switches(spec, find("noop").unwrap(), CASES_PER_PAIR);
    }
}

#[test]
fn every_scheduler_can_be_switched_to_from_every_other() {
    for from in ALL {
        for to in ALL {
            assert_switches(from, to, CASES_PER_PAIR);
        }
    }
}

/// A scheduler with an injected fault.
struct Faulty {
    inner: Box<dyn Scheduler>,
    fault: Fault,
    calls: u32,
    last: Option<Request>,
}

#[derive(Clone, Copy)]
enum Fault {
    Loses,
    ServesTwice,
    WaitsForThePast,
    SaysEmpty,
    ShortensRequests,
    HidesMerges,
    LosesWhenDrained,
    WaitsForever,
}

impl Faulty {
    fn wrap(inner: &str, fault: Fault, limits: &Limits) -> Box<dyn Scheduler> {
        let spec = find(inner).unwrap();
        Box::new(Faulty { inner: (spec.build)(limits, &spec.defaults()), fault, calls: 0, last: None })
    }

    fn is_due(&mut self) -> bool {
        self.calls += 1;
        self.calls.is_multiple_of(5)
    }
}

impl Scheduler for Faulty {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        let fault = self.fault;
        match fault {
            Fault::Loses if self.is_due() => Insertion::Queued,
            Fault::HidesMerges => {
                self.inner.insert(now, request);
                Insertion::Queued
            }
            _ => self.inner.insert(now, request),
        }
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        match (self.fault, self.last) {
            (Fault::ServesTwice, Some(request)) if self.is_due() => return Pick::Go(request),
            (Fault::SaysEmpty, _) if self.is_due() => return Pick::Empty,
            (Fault::WaitsForThePast, _) if self.is_due() => return Pick::WaitUntil(now),
            (Fault::WaitsForever, _) if self.is_due() => return Pick::WaitUntil(Nanos::MAX),
            _ => {}
        }
        let mut pick = self.inner.pick(now);
        if let Pick::Go(request) = &mut pick {
            self.last = Some(*request);
            if matches!(self.fault, Fault::ShortensRequests) && request.sectors > 8 {
                request.sectors -= 1;
            }
        }
        pick
    }

    fn completed(&mut self, now: Nanos, request: &Request, service: Nanos) {
        self.inner.completed(now, request, service);
    }

    fn retune(&mut self, _values: &[i64]) {}

    fn drain(&mut self, out: &mut Vec<Request>) {
        self.inner.drain(out);
        if matches!(self.fault, Fault::LosesWhenDrained) {
            out.pop();
        }
    }
}

macro_rules! faulty {
    ($inner:literal, $fault:expr, work_conserving: $conserving:literal, starvation_bound: $starvation_bound:expr) => {{
        static SPEC: SchedulerSpec = SchedulerSpec {
            name: "faulty",
            summary: "has a fault",
            source: "this test",
            tunables: &[],
            work_conserving: $conserving,
            starvation_bound: $starvation_bound,
            knowledge: None,
            build: |limits, _| Faulty::wrap($inner, $fault, limits),
        };
        &SPEC
    }};
}

fn complaint(judge: impl FnOnce() + std::panic::UnwindSafe) -> String {
    let panic = catch_unwind(judge).expect_err("the kit should have complained");
    panic.downcast_ref::<String>().expect("a message").to_string()
}

#[test]
fn the_kit_finds_lost_doubled_shortened_and_hidden_requests() {
    let cases = [
        (faulty!("noop", Fault::Loses, work_conserving: true, starvation_bound: None), "while"),
        (faulty!("noop", Fault::ServesTwice, work_conserving: true, starvation_bound: None), "was picked but does not wait"),
        (faulty!("noop", Fault::SaysEmpty, work_conserving: true, starvation_bound: None), "answered Empty while"),
        (faulty!("noop", Fault::ShortensRequests, work_conserving: true, starvation_bound: None), "was picked;"),
        (faulty!("noop", Fault::HidesMerges, work_conserving: true, starvation_bound: None), ""),
    ];
    for (spec, words) in cases {
        let complaint = complaint(|| assert_conforms(spec, 64));
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn the_kit_finds_invalid_waits() {
    let cases = [
        (faulty!("noop", Fault::WaitsForThePast, work_conserving: false, starvation_bound: None), "should be in the near future"),
        (faulty!("noop", Fault::WaitsForever, work_conserving: false, starvation_bound: None), "should be in the near future"),
        (faulty!("noop", Fault::WaitsForever, work_conserving: true, starvation_bound: None), "declared work-conserving"),
    ];
    for (spec, words) in cases {
        let complaint = complaint(|| assert_conforms(spec, 64));
        assert!(complaint.contains(words), "{complaint}");
    }
}

#[test]
fn the_kit_finds_violations_of_a_starvation_bound() {
    static NEAREST_FIRST: SchedulerSpec = SchedulerSpec {
        name: "faulty",
        summary: "declares a bound that it does not keep",
        source: "this test",
        tunables: &[],
        work_conserving: true,
        starvation_bound: Some(|_| StarvationBound { expires: Nanos::ZERO, picks: 1 }),
        knowledge: None,
        build: |limits, values| (find("sstf").unwrap().build)(limits, values),
    };
    assert!(complaint(|| assert_conforms(&NEAREST_FIRST, 64)).contains("starves in spite of its starvation bound"));
}

#[test]
fn the_kit_finds_requests_lost_in_a_switch() {
    let spec = faulty!("clook", Fault::LosesWhenDrained, work_conserving: true, starvation_bound: None);
    assert!(complaint(|| assert_switches(spec, find("noop").unwrap(), 64)).contains("should be all queued requests"));
}
