//! Each tenant is served at least as well as by its reference disk, under any load of the others.

use std::sync::Arc;

use block::rates::{Rate, Rates};
use block::tenants::{ConstantTime, ServiceModel, ServiceTime};
use block::{Limits, Nanos, Op, Priority, Request, Roster, Scheduler, Tenant};
use proptest::prelude::*;

use crate::disk::{Process, Report, run, run_slowed, service_of};
use crate::{insert_all, ms, read, scheduler_with, serve_all, write};

/// The disk of these tests, slower by a factor; it knows the position of its head.
#[derive(Debug)]
struct Slower(u64);

struct Running {
    slowness: u64,
    head: u64,
}

impl ServiceTime for Running {
    fn service_time(&mut self, _start: Nanos, request: &Request, _waiting: u32) -> Nanos {
        let service = service_of(request, self.head);
        self.head = request.end();
        Nanos(service.0 * self.slowness)
    }
}

impl ServiceModel for Slower {
    fn begin(&self) -> Box<dyn ServiceTime> {
        Box::new(Running { slowness: self.0, head: 0 })
    }
}

/// Sectors of a tenant's volume.
pub const VOLUME: u64 = 1 << 40;

fn unmerged(setting: &str) -> Box<dyn Scheduler> {
    scheduler_with(setting, Limits { max_sectors: 0, ..Limits::default() })
}

fn youchoose(tenants: Vec<Tenant>) -> Box<dyn Scheduler> {
    let volumes = (0..tenants.len() as u64).map(|n| (n * VOLUME..(n + 1) * VOLUME, n as usize)).collect();
    let mut scheduler = unmerged("youchoose");
    scheduler.set_roster(&Roster::new(tenants, volumes, &[], 1).unwrap());
    scheduler
}

pub fn guaranteed(slowness: u64) -> Tenant {
    Tenant::new("promised").with_reference(Arc::new(Slower(slowness)))
}

/// A process whose requests all need a seek, in the volume with this number.
pub fn seeker(number: u64, at_once: u32) -> Process {
    // The first request is not at the initial position of the head either.
    let process = Process::sequential_reader(number * VOLUME + 1_000, Nanos::ZERO);
    Process { stride: 1_000, at_once, ..process }
}

fn share(tenants: Vec<Tenant>, processes: &[Process], seconds: u64) -> Report {
    run(&mut *youchoose(tenants), processes, ms(seconds * 1_000))
}

/// How many requests a process alone on a slower disk gets served.
pub fn alone(process: Process, slowness: u64, seconds: u64) -> u64 {
    let process = Process { first_lba: process.first_lba % VOLUME, ..process };
    run_slowed(&mut *unmerged("noop"), &[process], ms(seconds * 1_000), slowness).served[0]
}

#[test]
fn each_volume_is_served_like_its_disk_and_spare_capacity_is_shared_in_proportion() {
    // Half of the disk is owed to the first, a quarter to the second.
    let report = share(vec![guaranteed(2), guaranteed(4)], &[seeker(0, 8), seeker(1, 8)], 40);
    let (first, second) = (report.served[0] as f64, report.served[1] as f64);
    assert!(first >= alone(seeker(0, 8), 2, 40) as f64 && second >= alone(seeker(1, 8), 4, 40) as f64);
    assert!((1.9..2.1).contains(&(first / second)), "{first} to {second}");
    assert!(report.total() >= 4_990, "the disk is never idle, and serves 5,000 in this time: {}", report.total());
}

#[test]
fn an_overcommitted_host_serves_all_volumes_in_proportion() {
    let report = share(vec![guaranteed(1), guaranteed(1), guaranteed(2)], &[seeker(0, 8), seeker(1, 8), seeker(2, 8)], 40);
    let share = |number: usize| report.served[number] as f64 / report.total() as f64;
    for (number, expected) in [0.4, 0.4, 0.2].into_iter().enumerate() {
        assert!((share(number) - expected).abs() < 0.02, "{number}: {}", share(number));
    }
}

#[test]
fn a_scheduler_says_how_each_guarantee_stands() {
    let at_end = |tenants: Vec<Tenant>, seconds: u64| {
        let mut scheduler = youchoose(tenants);
        let processes = [seeker(0, 8), seeker(1, 8), seeker(2, 128)];
        let report = run(&mut *scheduler, &processes, ms(seconds * 1_000));
        let standings = [0, 1, 2, 3].map(|tenant| scheduler.standing(ms(seconds * 1_000), tenant));
        (report, standings)
    };
    let (report, standings) = at_end(vec![guaranteed(4), guaranteed(4), Tenant::new("flood")], 20);
    assert_eq!(standings[2..], [None, None], "a tenant without a guarantee, and none at all");
    for (number, standing) in standings[..2].iter().enumerate() {
        let standing = standing.unwrap();
        assert_eq!(standing.completed, report.served[number]);
        assert!(standing.late * 100 <= standing.completed && standing.late_by_others <= standing.late, "{standing:?}");
        assert!(standing.behind <= ms(32), "one request there: {standing:?}");
    }
    // Twice the disk's capacity: neither is in time, because of the other.
    let (_, standings) = at_end(vec![guaranteed(1), guaranteed(1), Tenant::new("flood")], 20);
    for standing in &standings[..2] {
        let standing = standing.unwrap();
        assert!(2 * standing.late_by_others > standing.completed && standing.behind > ms(100), "{standing:?}");
    }
}

#[test]
fn a_constant_model_guarantees_plain_throughput() {
    let often = Tenant::new("often").with_reference(Arc::new(ConstantTime { request: ms(20), sector: Nanos::ZERO }));
    let report = share(vec![often, guaranteed(2)], &[seeker(0, 1), seeker(1, 64)], 40);
    assert!(report.served[0] >= 1_990, "50 a second are promised: {}", report.served[0]);
}

#[test]
fn tenants_without_a_guarantee_share_spare_capacity_by_weight() {
    let tenants = vec![guaranteed(2), Tenant::new("light"), Tenant::new("weighty").with_weight(3)];
    let report = share(tenants, &[seeker(0, 8), seeker(1, 8), seeker(2, 8)], 40);
    assert!(report.served[0] as f64 >= 0.99 * alone(seeker(0, 8), 2, 40) as f64);
    let ratio = report.served[2] as f64 / report.served[1] as f64;
    assert!((2.7..3.3).contains(&ratio), "{:?}", report.served);
}

#[test]
fn a_tenant_without_a_guarantee_is_not_starved_without_spare_capacity() {
    let report = share(vec![guaranteed(1), Tenant::new("best effort")], &[seeker(0, 8), seeker(1, 8)], 20);
    assert!((15..=25).contains(&report.served[1]), "once a second: {:?}", report.served);
}

#[test]
fn a_volume_that_used_spare_capacity_is_still_served_in_time_when_others_return() {
    let late = Process { starts: ms(10_000), ..seeker(1, 8) };
    let report = share(vec![guaranteed(2), guaranteed(2)], &[seeker(0, 8), late], 20);
    let after: Vec<_> = report.done.iter().filter(|(_, at, _)| *at >= ms(10_000)).collect();
    let first = after.iter().find(|(stream, ..)| *stream == 2).unwrap();
    assert!(first.2 <= ms(2 * 8 + 8), "the newcomer is served in time: {}", first.2);
    let each_second = (10..20).map(|second| {
        let is_in = |at: Nanos| at >= ms(second * 1_000) && at < ms(second * 1_000 + 1_000);
        after.iter().filter(|(stream, at, _)| *stream == 1 && is_in(*at)).count()
    });
    assert!(each_second.clone().all(|count| count >= 59), "{:?}", each_second.collect::<Vec<_>>());
}

#[test]
fn requests_of_a_slot_go_in_the_configured_order() {
    let order_of = |setting: &str, others: &[Request]| {
        let mut scheduler = unmerged(setting);
        let volumes = vec![(0..VOLUME, 0), (VOLUME..2 * VOLUME, 1)];
        scheduler.set_roster(&Roster::new(vec![guaranteed(1), guaranteed(100)], volumes, &[], 1).unwrap());
        let own = [read(0, 900), read(1, 100), read(2, 500)];
        crate::insert_all(&mut *scheduler, Nanos::ZERO, own.iter().chain(others).copied());
        let mut order = crate::serve_all(&mut *scheduler, Nanos::ZERO);
        order.retain(|&lba| lba < VOLUME);
        order
    };
    assert_eq!(order_of("youchoose:slot_ms=40", &[]), [900, 100, 500], "as without a scheduler");
    let order_of = |setting: &str| order_of(setting, &[read(3, VOLUME)]);
    assert_eq!(order_of("youchoose:slot_ms=40,order=clook"), [100, 500, 900]);
    assert_eq!(order_of("youchoose:slot_ms=40,order=noop"), [900, 100, 500]);
    assert_eq!(order_of("youchoose:slot_ms=1,order=clook"), [900, 100, 500], "a slot for each");
}

#[test]
fn a_new_roster_in_the_middle_of_a_run_applies_to_queued_requests() {
    let mut scheduler = unmerged("youchoose");
    crate::insert_all(&mut *scheduler, Nanos::ZERO, [read(0, 900), read(1, VOLUME), read(2, 500)]);
    let tenants = vec![Tenant::new("best effort"), guaranteed(1)];
    scheduler.set_roster(&Roster::new(tenants, vec![(0..VOLUME, 0), (VOLUME..2 * VOLUME, 1)], &[], 1).unwrap());
    let mut order = crate::serve_all(&mut *scheduler, ms(20));
    assert_eq!(order.remove(0), VOLUME, "it is owed");
    order.sort_unstable();
    assert_eq!(order, [500, 900]);
}

#[test]
fn a_guaranteed_neighbour_with_long_requests_does_not_break_a_guarantee() {
    // Each of its requests occupies the disk for 33 ms. The reader must be served within 24 ms, and issues the next request at once.
    let long = Process { sectors: 500, ..seeker(1, 100) };
    let report = share(vec![guaranteed(3), guaranteed(3)], &[seeker(0, 1), long], 20);
    assert!(report.served[0] >= alone(seeker(0, 1), 3, 20), "{:?}", report.served);
    assert!(report.served[1] >= alone(long, 3, 20), "{:?}", report.served);
}

#[test]
fn a_volume_with_two_requests_in_flight_is_not_late_every_other_time() {
    // Whenever both are issued at nearly the same time, the first is allowed less than the second.
    let neighbour = Process { op: Op::Write, sync: false, sectors: 278, starts: ms(232), ..seeker(1, 8) };
    let two = Process { think: ms(21), ..seeker(0, 2) };
    let report = share(vec![guaranteed(3), Tenant::new("best effort").with_weight(9)], &[two, neighbour], 20);
    assert!(report.served[0] as f64 >= 0.97 * alone(two, 3, 20) as f64, "{:?}", report.served);
}

/// The 99th percentile of a process's response times.
fn p99(report: &Report, stream: u32) -> Nanos {
    let mut responses: Vec<_> = report.done.iter().filter(|done| done.0 == stream).map(|done| done.2).collect();
    responses.sort();
    responses[responses.len() * 99 / 100]
}

#[test]
fn a_long_request_goes_during_think_time_and_not_right_before_the_next_request() {
    // It occupies the disk for 23 ms. The reader issues a request 15 ms after a completion and then has 16 ms to spare.
    let long = Process { sectors: 308, ..seeker(1, 4) };
    let thinks = Process { think: ms(15), ..seeker(0, 1) };
    let report = share(vec![guaranteed(3), Tenant::new("best effort")], &[thinks, long], 40);
    assert!(p99(&report, 1) <= ms(24), "{}", p99(&report, 1));
    assert!(report.served[0] as f64 >= 0.97 * alone(thinks, 3, 40) as f64);
    assert!(report.served[1] as f64 >= 0.8 * report.served[0] as f64, "one after each answer: {:?}", report.served);
}

#[test]
fn a_request_that_is_always_too_long_goes_so_rarely_that_at_most_one_in_a_hundred_is_late() {
    let long = Process { sectors: 1_000, ..seeker(1, 4) };
    let report = share(vec![guaranteed(3), Tenant::new("best effort")], &[seeker(0, 2), long], 60);
    assert!(p99(&report, 1) <= ms(48), "{}", p99(&report, 1));
    assert!((6..=30).contains(&report.served[1]), "{:?}", report.served);
}

fn neighbours() -> impl Strategy<Value = Process> {
    let at_once = prop_oneof![1..4u32, 4..200u32];
    let sectors = prop_oneof![3 => Just(8u32), 1 => 8..1_000u32];
    let think = prop_oneof![2 => Just(0u64), 1 => 1..200u64];
    (at_once, sectors, think, any::<bool>(), any::<bool>(), 0..6_000u64).prop_map(
        |(at_once, sectors, think, writes, seeks, starts)| {
            let op = if writes { Op::Write } else { Op::Read };
            let (sync, stride) = (!writes, if seeks { 1_000 } else { 0 });
            let (first_lba, priority) = (VOLUME, Priority::DEFAULT);
            Process { op, sync, priority, first_lba, sectors, stride, think: ms(think), at_once, starts: ms(starts) }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_neighbour_breaks_a_guarantee(
        at_once in 1..24u32,
        think in prop_oneof![Just(0u64), 1..40u64],
        starts in 0..3_000u64,
        slowness in 3..6u64,
        neighbour in neighbours(),
        neighbour_is_promised in any::<bool>(),
    ) {
        let victim = Process { think: ms(think), starts: ms(starts), ..seeker(0, at_once) };
        // A third of the disk each at most: there is room for both, even though no request can be preempted.
        let other = if neighbour_is_promised { guaranteed(slowness) } else { Tenant::new("neighbour").with_weight(9) };
        let report = share(vec![guaranteed(slowness), other], &[victim, neighbour], 20);
        let expected = alone(victim, slowness, 20);
        let least = (expected as f64 * 0.97) as u64 - 2;
        prop_assert!(report.served[0] >= least, "{} of {expected} next to {neighbour:?}", report.served[0]);
        // A process that issues the next request at once is waited for if a request of the neighbour would delay it too long.
        if neighbour.sectors <= 8 {
            prop_assert_eq!(report.idle_while_waiting, Nanos::ZERO);
        }
    }
}

/// How many requests of a stream completed in each second.
fn by_second(report: &Report, stream: u32, seconds: u64) -> Vec<usize> {
    let of = |second: u64| report.done.iter().filter(|done| done.0 == stream && done.1.0 / 1_000_000_000 == second).count();
    (0..seconds).map(of).collect()
}

#[test]
fn limits_and_reservations_hold_in_every_second() {
    // The disk serves 125 requests per second.
    let limited = Tenant::new("limited").with_rates(Rates { limit: Rate::iops(40), ..Rates::default() });
    let reserved = Tenant::new("reserved").with_rates(Rates { reservation: Rate::iops(60), ..Rates::default() });
    let report =
        share(vec![limited, reserved, Tenant::new("flood").with_weight(50)], &[seeker(0, 8), seeker(1, 4), seeker(2, 128)], 30);
    let (limited, reserved, flood) = (by_second(&report, 1, 30), by_second(&report, 2, 30), by_second(&report, 3, 30));
    assert!(limited.iter().all(|&count| count <= 42), "{limited:?}");
    assert!(reserved.iter().all(|&count| count >= 57), "{reserved:?}");
    assert!(flood.iter().sum::<usize>() > 30, "{flood:?}");
    let alone = Tenant::new("limited").with_rates(Rates { limit: Rate::iops(40), ..Rates::default() });
    let report = share(vec![alone], &[seeker(0, 8)], 10);
    assert!(by_second(&report, 1, 10).iter().skip(1).all(|count| (38..=42).contains(count)), "{:?}", by_second(&report, 1, 10));
}

#[test]
fn a_tenant_that_its_limit_releases_soon_is_waited_for() {
    // It reads 4 KiB in 0.4 ms, and its limit lets the next go 0.1 ms later; a request of another would cost it 16 ms.
    let rates = Rates { reservation: Rate::iops(1_200), limit: Rate::iops(2_000), burst: Some(Nanos::ZERO), ..Rates::default() };
    let reader = Process::sequential_reader(1_000, Nanos::ZERO);
    let report = share(vec![Tenant::new("reserved").with_rates(rates), Tenant::new("flood")], &[reader, seeker(1, 128)], 20);
    let reserved = by_second(&report, 1, 20);
    assert!(reserved.iter().skip(1).all(|count| (1_140..=2_001).contains(count)), "{reserved:?}");
    assert!(report.served[1] >= 19, "the other is served at least once a second: {}", report.served[1]);
}

#[test]
fn a_large_request_counts_as_several_for_its_limit() {
    let limited = || Tenant::new("limited").with_rates(Rates { limit: Rate::iops(40), ..Rates::default() });
    let report = share(vec![limited()], &[Process { sectors: 2_048, stride: 0, ..seeker(0, 4) }], 20);
    let counts = by_second(&report, 1, 20);
    assert!(counts.iter().skip(1).all(|count| (9..=11).contains(count)), "1 MiB counts as four of 256 KiB: {counts:?}");
}

#[test]
fn a_bound_of_the_response_time_is_kept_next_to_a_flood() {
    let bounded = Tenant { latency_p99: Some(ms(30)), ..Tenant::new("bounded") };
    let polite = Process { think: ms(20), ..seeker(0, 1) };
    let report = share(vec![bounded, Tenant::new("flood").with_weight(50)], &[polite, seeker(1, 128)], 30);
    assert!(p99(&report, 1) <= ms(30), "{}", p99(&report, 1));
    assert!(report.served[1] > 30 * 60, "the rest is the flood's: {:?}", report.served);
}

#[test]
fn a_tenant_that_stays_keeps_its_clock_and_its_limit_when_others_come_and_go() {
    let model: Arc<dyn ServiceModel> = Arc::new(ConstantTime { request: ms(50), sector: Nanos::ZERO });
    let stays =
        || Tenant::new("stays").with_rates(Rates { limit: Rate::iops(10), ..Rates::default() }).with_reference(model.clone());
    let roster = |tenants: Vec<Tenant>| {
        let volumes = (0..tenants.len()).map(|n| (n as u64 * VOLUME..(n as u64 + 1) * VOLUME, n)).collect();
        Roster::new(tenants, volumes, &[], 1).unwrap()
    };
    let mut scheduler = unmerged("youchoose");
    scheduler.set_roster(&roster(vec![stays()]));
    crate::insert_all(&mut *scheduler, Nanos::ZERO, [read(0, 900), read(1, 100), read(2, 500)]);
    let block::Pick::Go(first) = scheduler.pick(Nanos::ZERO) else { panic!("the first request is within the limit") };
    assert!(matches!(scheduler.pick(ms(1)), block::Pick::WaitUntil(until) if until == ms(100)), "the next one is not");
    scheduler.set_roster(&roster(vec![stays(), Tenant::new("comes")]));
    assert!(matches!(scheduler.pick(ms(2)), block::Pick::WaitUntil(until) if until == ms(100)), "nor next to another tenant");
    scheduler.completed(ms(5), &first, ms(5));
    let mut rest = Vec::new();
    for now in [100, 200] {
        let block::Pick::Go(request) = scheduler.pick(ms(now)) else { panic!("{now} ms: within its limit") };
        scheduler.completed(ms(now + 5), &request, ms(5));
        rest.push(request.lba);
    }
    rest.sort_unstable();
    assert_eq!((rest, scheduler.pick(ms(300))), (vec![100, 500], block::Pick::Empty));
    crate::insert_all(&mut *scheduler, ms(300), [read(3, 900), read(4, 100)]);
    assert!(matches!(scheduler.pick(ms(300)), block::Pick::Go(_)));
    scheduler.set_roster(&roster(vec![Tenant::new("comes")]));
    assert!(matches!(scheduler.pick(ms(301)), block::Pick::Go(_)), "its limit went with it");
}

#[test]
fn reads_do_not_wait_behind_a_write_at_its_limit() {
    let rates = Rates { write_limit: Rate::iops(10), burst: Some(Nanos::ZERO), ..Rates::default() };
    let mut scheduler = youchoose(vec![Tenant::new("limited").with_rates(rates), Tenant::new("other")]);
    let requests = [write(1, 0), write(2, 1_000), read(3, 2_000), read(4, 3_000), read(5, VOLUME)];
    insert_all(&mut *scheduler, Nanos::ZERO, requests);
    let mut order = serve_all(&mut *scheduler, Nanos::ZERO);
    order.sort_unstable();
    assert_eq!(order, [0, 2_000, 3_000, VOLUME], "one write in a tenth of a second");
    assert_eq!(serve_all(&mut *scheduler, ms(100)), [1_000]);
}
