//! Rates that determine the order of service.

use block::{Limits, Nanos, Rate, Rates, Roster, Scheduler, Tenant};

use crate::disk::{Process, run};
use crate::{ms, scheduler_with};

const VOLUME: u64 = 1 << 40;

fn virtual_clock(rates: &[Option<u64>]) -> Box<dyn Scheduler> {
    let reserved = |rate: &Option<u64>| Rates { reservation: Rate::iops(rate.unwrap_or(0)), ..Rates::default() };
    let tenants = rates.iter().map(|rate| Tenant::new("tenant").with_rates(reserved(rate)));
    let volumes = (0..rates.len() as u64).map(|n| (n * VOLUME..(n + 1) * VOLUME, n as usize)).collect();
    let mut scheduler = scheduler_with("virtual-clock", Limits { max_sectors: 0, ..Limits::default() });
    scheduler.set_roster(&Roster::new(tenants.collect(), volumes, &[], 1).unwrap());
    scheduler
}

fn process(number: u64, stride: u64) -> Process {
    Process { stride, at_once: 8, ..Process::sequential_reader(number * VOLUME, Nanos::ZERO) }
}

#[test]
fn equal_rates_give_equal_numbers_of_requests_at_any_cost() {
    let report = run(&mut *virtual_clock(&[Some(20), Some(20)]), &[process(0, 0), process(1, 1_000)], ms(20_000));
    assert!(report.served[0].abs_diff(report.served[1]) <= 2, "{:?}", report.served);
}

#[test]
fn three_times_the_rate_gives_three_times_the_requests() {
    let report = run(&mut *virtual_clock(&[Some(60), Some(20)]), &[process(0, 1_000), process(1, 1_000)], ms(40_000));
    let ratio = report.served[0] as f64 / report.served[1] as f64;
    assert!((2.95..3.05).contains(&ratio), "{:?}", report.served);
}

#[test]
fn a_tenant_that_used_spare_capacity_pays_when_others_return() {
    let late = Process { starts: ms(10_000), ..process(1, 1_000) };
    // One with a rate of 10 that gets 125 of the disk's requests per second has its clock far ahead after ten seconds.
    let report = run(&mut *virtual_clock(&[Some(10), Some(10)]), &[process(0, 1_000), late], ms(15_000));
    let after = report.done.iter().filter(|(stream, at, _)| *stream == 1 && *at > ms(10_100)).count();
    assert_eq!(after, 0, "until the other has caught up");
}
