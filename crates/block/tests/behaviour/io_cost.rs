//! Shares by a cost model, and limits.

use block::{Insertion, Nanos, Op, Pick, Rate, Rates, Request, Roster, Scheduler, Tenant};

use crate::{insert_all, ms, read, scheduler};

/// A device of which only the model is known: 1,000 operations per second of any kind, 100 MB/s.
const MODEL: &str = "rbps=100000000,rseqiops=1000,rrandiops=1000,wbps=100000000,wseqiops=1000,wrandiops=1000";

/// Tenants with a million sectors each.
fn roster(tenants: Vec<Tenant>) -> Roster {
    let volumes = (0..tenants.len()).map(|n| (n as u64 * 1_000_000..(n as u64 + 1) * 1_000_000, n)).collect();
    Roster::new(tenants, volumes, &[], 1).unwrap()
}

fn with_weight(weights: &[u32]) -> Vec<Tenant> {
    weights.iter().map(|&weight| Tenant::new("").with_weight(weight)).collect()
}

/// Requests of each tenant in ten seconds, from the tenth on, with completions at once; `active` selects the tenants that issue the next
/// request.
fn served(setting: &str, tenants: Vec<Tenant>, wants: impl Fn(usize) -> bool) -> Vec<u64> {
    let mut io_cost = scheduler(setting);
    let count = tenants.len();
    io_cost.set_roster(&roster(tenants));
    let (mut now, mut served) = (Nanos::ZERO, vec![0; count]);
    let ask = |io_cost: &mut dyn Scheduler, now, number: usize, id| {
        // Far from the last one, without a neighbour to merge with.
        let lba = number as u64 * 1_000_000 + u64::from(id) * 7_919 % 900_000;
        assert_eq!(io_cost.insert(now, Request { arrival: now, ..read(id, lba) }), Insertion::Queued);
    };
    for number in (0..count).filter(|&number| wants(number)) {
        (0..3).for_each(|n| ask(&mut *io_cost, now, number, (number * 3 + n) as u32));
    }
    while now < ms(20_000) {
        match io_cost.pick(now) {
            Pick::Go(request) => {
                let number = (request.lba / 1_000_000) as usize;
                served[number] += u64::from(now >= ms(10_000));
                io_cost.completed(now, &request, Nanos::ZERO);
                ask(&mut *io_cost, now, number, request.id);
            }
            Pick::WaitUntil(time) => now = time,
            Pick::Empty => panic!("every tenant has a request"),
        }
    }
    served
}

/// Fixes the clock to the rate of the model.
fn at_model_speed() -> String {
    format!("io-cost:{MODEL},max=100")
}

#[test]
fn the_modelled_device_is_shared_by_weight() {
    let served = served(&at_model_speed(), with_weight(&[1, 2, 5]), |_| true);
    for (served, expected) in served.iter().zip([1_250, 2_500, 6_250]) {
        assert!(served.abs_diff(expected) < 40, "{served} requests, {expected} expected");
    }
}

#[test]
fn an_idle_tenant_leaves_its_share_to_others() {
    let served = served(&at_model_speed(), with_weight(&[1, 3, 8]), |number| number != 2);
    assert!(served[0].abs_diff(2_500) < 40 && served[1].abs_diff(7_500) < 40, "{served:?}");
}

#[test]
fn the_clock_speeds_up_while_requests_wait_and_latencies_are_met() {
    let served = served(&format!("io-cost:{MODEL},max=300,rlat=5000,wlat=5000"), with_weight(&[1]), |_| true);
    assert!((29_000..31_000).contains(&served[0]), "{served:?}");
}

#[test]
fn limits_hold_even_on_an_idle_device() {
    let limited = vec![
        Tenant::new("operations").with_rates(Rates { limit: Rate::iops(50), ..Rates::default() }),
        Tenant::new("bytes").with_rates(Rates { limit: Rate::bytes_per_s(409_600), ..Rates::default() }),
        Tenant::new("free"),
    ];
    let served = served(&at_model_speed(), limited, |_| true);
    assert!(served[0].abs_diff(500) <= 1 && served[1].abs_diff(1_000) <= 1, "{served:?}");
    assert!(served[2] > 8_000, "the others have the rest: {served:?}");
}

#[test]
fn missed_latencies_slow_the_clock_down() {
    let mut io_cost = scheduler(&format!("io-cost:{MODEL},rpct=95,rlat=2000,wlat=1000"));
    let mut now = ms(0);
    insert_all(&mut *io_cost, now, (0..4).map(|n| read(n, u64::from(n) * 1_000)));
    let mut waits = Vec::new();
    for n in 4..4_000_u32 {
        let began = now;
        let request = loop {
            match io_cost.pick(now) {
                Pick::Go(request) => break request,
                Pick::WaitUntil(time) => now = time,
                Pick::Empty => panic!("something waits"),
            }
        };
        waits.push(now - began);
        io_cost.completed(now, &request, ms(30));
        insert_all(&mut *io_cost, now, [Request { id: request.id, ..read(0, u64::from(n) * 1_000) }]);
    }
    let mean = |waits: &[Nanos]| waits.iter().map(|wait| wait.0).sum::<u64>() / waits.len() as u64;
    let (first, last) = (mean(&waits[8..16]), mean(&waits[3_000..]));
    assert!(last > 3 * first, "{first} ns and later {last} ns between requests that miss their latency");
}

#[test]
fn a_random_request_costs_what_rrandiops_says_and_a_large_one_its_transfer() {
    // 1 MiB/s, 256 pages a second: 3.9 ms a page; a random read takes 100 ms.
    let setting = "io-cost:rbps=1048576,rseqiops=256,rrandiops=10,max=100";
    let second_goes_at = |second: Request| {
        let mut io_cost = scheduler(setting);
        // It begins with half a period's budget, which the first one uses up.
        insert_all(&mut *io_cost, ms(0), [Request { sectors: 2_048, ..read(0, 1_000) }, second]);
        let mut now = ms(0);
        let mut went = Vec::new();
        while went.len() < 2 {
            match io_cost.pick(now) {
                Pick::Go(request) => went.push((request.lba, now)),
                Pick::WaitUntil(time) => now = time,
                Pick::Empty => panic!("something waits"),
            }
        }
        (went[1].1 - went[0].1).0 / 1_000_000
    };
    assert_eq!(second_goes_at(read(1, 4_000)), 3, "near to where the last one ended");
    assert_eq!(second_goes_at(read(1, 10_000_000)), 100);
    assert_eq!(second_goes_at(Request { sectors: 80, ..read(1, 4_000) }), 39);
    assert_eq!(second_goes_at(Request { op: Op::Discard, sync: true, ..read(1, 4_000) }), 0, "a discard is free");
}
