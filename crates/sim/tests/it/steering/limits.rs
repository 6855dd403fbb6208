//! Limits of tenants in front of the queue (`io.max`).

use block::rates::Rate;
use block::{Nanos, Op, Priority, Roster, Tenant};
use sim::host::{Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Finished, Issue, Server, ServerEvent};

const MIB: u64 = 1 << 20;

/// A disk that two tenants share; the flusher's writes belong to a tenant by their sectors.
fn queue() -> Queue {
    let profile = sim::profile::load("atlas10k").unwrap();
    let scheduler = (block::find("none").unwrap().build)(&block::Limits::default(), &[]);
    let mut queue = Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default());
    let tenants = vec![Tenant::new("limited"), Tenant::new("free")];
    queue.set_roster(&Roster::new(tenants, vec![(0..1_000_000, 0), (1_000_000..2_000_000, 1)], &[], 1).unwrap());
    queue.record_events();
    queue
}

fn write(now: Nanos, lba: u64, token: u64) -> Issue {
    let (op, priority, stream) = (Op::Write, Priority::DEFAULT, sim::streams::FLUSHER);
    Issue { arrival: now, lba, sectors: 128, op, sync: false, stream, priority, token }
}

/// Runs until nothing is left to do, with a change of the limit at a time; returns when each write was done, by token.
fn run(queue: &mut Queue, change: Option<(Nanos, Rate)>) -> Vec<Nanos> {
    let (mut finished, mut change) = (Vec::new(), change);
    queue.dispatch(Nanos::ZERO);
    while let Some(next) = queue.next_event() {
        let now = change.map_or(next, |(at, _)| next.min(at));
        if let Some((_, rate)) = change.take_if(|(at, _)| *at == now) {
            queue.set_io_max(now, 0, [Rate::default(), rate]);
        }
        queue.advance(now, &mut finished);
        queue.dispatch(now);
    }
    let mut done: Vec<(u64, Nanos)> = finished.iter().map(|done: &Finished| (done.token(), done.at())).collect();
    done.sort_unstable();
    done.into_iter().map(|(_, at)| at).collect()
}

#[test]
fn a_limited_tenant_gets_its_rate_and_others_do_not_wait_for_it() {
    let mut queue = queue();
    queue.set_io_max(Nanos::ZERO, 0, [Rate::default(), Rate::bytes_per_s(MIB)]);
    for number in 0..32 {
        queue.admit(Nanos::ZERO, write(Nanos::ZERO, number * 128, number));
        queue.admit(Nanos::ZERO, write(Nanos::ZERO, 1_000_000 + number * 128, 32 + number));
    }
    let mut events = Vec::new();
    queue.take_events(&mut events);
    let entered = events.iter().filter(|event| matches!(event, ServerEvent::Issued(issue) if issue.lba < 1_000_000)).count();
    assert_eq!(entered, 1, "a slice of 100 ms allows 102 KiB");
    let done = run(&mut queue, None);
    assert_eq!(done.len(), 64, "nothing is lost");
    let last = done[31].as_secs_f64();
    assert!((1.9..2.3).contains(&last), "2 MiB at 1 MiB/s: {last} s");
    assert!(done[63] < Nanos::from_millis(500), "{}", done[63]);
    queue.take_events(&mut events);
    let arrivals: Vec<Nanos> = events
        .iter()
        .filter_map(|event| match event {
            ServerEvent::Issued(issue) => Some(issue.arrival),
            _ => None,
        })
        .collect();
    assert!(
        arrivals.is_sorted() && arrivals.last() > Some(&Nanos::from_millis(1_800)),
        "observers see a write when its limit lets it pass"
    );
}

#[test]
fn a_limit_that_is_lifted_lets_go_what_waits() {
    let mut queue = queue();
    queue.set_io_max(Nanos::ZERO, 0, [Rate::default(), Rate::iops(1)]);
    (0..32).for_each(|number| queue.admit(Nanos::ZERO, write(Nanos::ZERO, number * 128, number)));
    let lifted = Nanos::from_millis(300);
    let done = run(&mut queue, Some((lifted, Rate::default())));
    assert_eq!(done.len(), 32);
    assert!(
        done[0] > lifted && done[31] < Nanos::from_millis(900),
        "{} {}: the limit would let one pass at 900 ms",
        done[0],
        done[31]
    );
}
