//! Reservations, limits and weights.

use block::{Limits, Nanos, Pick, Rate, Rates, Roster, Scheduler, Tenant};

use crate::disk::{Process, Report, run};
use crate::{insert_all, ms, read, scheduler_with};

const VOLUME: u64 = 1 << 40;

/// Reservation, limit and weight.
type Terms = (u64, u64, u32);

fn mclock(tenants: Vec<Tenant>) -> Box<dyn Scheduler> {
    let volumes = (0..tenants.len() as u64).map(|n| (n * VOLUME..(n + 1) * VOLUME, n as usize)).collect();
    let mut scheduler = scheduler_with("mclock", Limits { max_sectors: 0, ..Limits::default() });
    scheduler.set_roster(&Roster::new(tenants, volumes, &[], 1).unwrap());
    scheduler
}

fn tenant((reservation, limit, weight): Terms) -> Tenant {
    let rates = Rates { reservation: Rate::iops(reservation), limit: Rate::iops(limit), ..Rates::default() };
    Tenant::new("tenant").with_weight(weight).with_rates(rates)
}

/// A process whose every request needs a seek: the disk serves 125 per second.
fn process(number: u64) -> Process {
    Process { stride: 1_000, at_once: 8, ..Process::sequential_reader(number * VOLUME, Nanos::ZERO) }
}

fn share(terms: &[Terms], processes: &[Process], seconds: u64) -> Report {
    let tenants = terms.iter().map(|&terms| tenant(terms)).collect();
    run(&mut *mclock(tenants), processes, ms(seconds * 1_000))
}

fn rates(report: &Report, seconds: u64) -> Vec<u64> {
    report.served.iter().map(|served| (served + seconds / 2) / seconds).collect()
}

#[test]
fn weights_share_what_is_not_reserved_or_limited() {
    let report = share(&[(0, 0, 1), (0, 0, 4)], &[process(0), process(1)], 20);
    assert_eq!(rates(&report, 20), [25, 100]);
}

#[test]
fn a_reservation_is_met_for_every_weight() {
    let report = share(&[(60, 0, 1), (0, 0, 99)], &[process(0), process(1)], 20);
    assert_eq!(rates(&report, 20), [60, 65]);
}

#[test]
fn service_by_weight_does_not_count_towards_the_reservation() {
    // For ten seconds the first has the disk to itself; then its reservation holds from the first second on.
    let late = Process { starts: ms(10_000), ..process(1) };
    let report = share(&[(60, 0, 1), (0, 0, 99)], &[process(0), late], 20);
    let in_second = |second: u64| {
        let is_in = |at: Nanos| at >= ms(second * 1_000) && at < ms(second * 1_000 + 1_000);
        report.done.iter().filter(|(stream, at, _)| *stream == 1 && is_in(*at)).count()
    };
    assert!((10..20).all(|second| in_second(second) >= 59), "{:?}", (9..20).map(in_second).collect::<Vec<_>>());
}

#[test]
fn a_limit_holds_even_on_an_idle_disk() {
    let report = share(&[(0, 30, 1)], &[process(0)], 20);
    assert_eq!(rates(&report, 20), [30]);
}

#[test]
fn a_byte_limit_counts_transferred_bytes() {
    let limited = Tenant::new("tenant").with_rates(Rates { limit: Rate::bytes_per_s(40 * 4_096), ..Rates::default() });
    let report = run(&mut *mclock(vec![limited]), &[process(0)], ms(20_000));
    assert_eq!(rates(&report, 20), [40]);
}

#[test]
fn idle_time_neither_saves_up_nor_costs_a_share() {
    let late = Process { starts: ms(10_000), ..process(1) };
    let report = share(&[(0, 0, 1), (0, 0, 1)], &[process(0), late], 20);
    let after = |stream| report.done.iter().filter(|(s, at, _)| *s == stream && *at > ms(10_000)).count();
    assert!(after(1).abs_diff(after(2)) <= 2, "{} and {}", after(1), after(2));
}

#[test]
fn it_waits_until_the_limit_allows_the_next_request() {
    let mut scheduler = mclock(vec![tenant((0, 10, 1))]);
    insert_all(&mut *scheduler, Nanos::ZERO, [read(0, 8), read(1, 800)]);
    assert!(matches!(scheduler.pick(Nanos::ZERO), Pick::Go(_)));
    assert_eq!(scheduler.pick(ms(1)), Pick::WaitUntil(ms(100)));
    assert!(matches!(scheduler.pick(ms(100)), Pick::Go(_)));
}
