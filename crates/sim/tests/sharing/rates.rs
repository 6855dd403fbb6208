//! Reservations and limits on simulated disks, second by second.

use block::{Nanos, Rate, Rates};

use crate::tenants::{Asker, Outcome, Pace, Pattern, run};

const END: Nanos = Nanos::from_millis(30_000);

fn anywhere(sectors: u32) -> Pattern {
    Pattern::Random { from: 0, to: 1_000, sectors }
}

fn closed(depth: u32) -> Pace {
    Pace::Closed { depth, think: Nanos::ZERO }
}

fn reserved(iops: u64, depth: u32) -> Asker {
    let rates = Rates { reservation: Rate::iops(iops), ..Rates::default() };
    Asker { rates, ..Asker::reader(1, anywhere(16), closed(depth)) }
}

fn flood(weight: u32) -> Asker {
    Asker::reader(weight, anywhere(16), closed(128))
}

/// How many of 256 KiB a request counts as.
fn units(sectors: u32) -> u64 {
    u64::from(sectors).div_ceil(512)
}

fn per_second(outcome: &Outcome) -> Vec<u64> {
    outcome.tenants[0].per_second(END, units)
}

#[test]
fn mclock_keeps_a_reservation_beside_floods_in_every_second() {
    for (disk, iops, depth, floods) in
        [("sata7200", 40, 4, vec![1]), ("sata7200", 30, 1, vec![1]), ("atlas10k", 60, 4, vec![50; 3])]
    {
        let askers: Vec<Asker> = [reserved(iops, depth)].into_iter().chain(floods.into_iter().map(flood)).collect();
        let seconds = per_second(&run(disk, "mclock", &askers, 1, END));
        let least = seconds.iter().copied().min().unwrap();
        assert!(100 * (least + 1) >= 95 * iops, "{disk}, {iops} a second reserved: {seconds:?}");
    }
}

#[test]
fn limits_hold_in_every_second_and_a_large_request_counts_as_four() {
    for scheduler in ["mclock", "fairio", "io-cost"] {
        for (sectors, iops) in [(8, 40), (2_048, 40)] {
            let rates = Rates { limit: Rate::iops(iops), ..Rates::default() };
            let limited = Asker { rates, ..Asker::reader(1, anywhere(sectors), closed(8)) };
            let seconds = per_second(&run("sata7200", scheduler, &[limited], 1, END));
            // One request more or less that ends in the next second.
            let slack = 2 + units(sectors);
            let fits = |&units: &u64| 100 * units <= 105 * (iops + slack) && 100 * (units + slack) >= 95 * iops;
            assert!(seconds.iter().all(fits), "{scheduler}, {sectors} sectors: {seconds:?}");
        }
    }
}

#[test]
fn under_fairio_a_tenant_at_its_limit_leaves_the_disk_to_others() {
    let rates = Rates { limit: Rate::iops(10), ..Rates::default() };
    let limited = Asker { rates, ..reserved(0, 16) };
    let outcome = run("sata7200", "fairio", &[limited, flood(1)], 1, END);
    let seconds = per_second(&outcome);
    // Dispatched evenly; a completion is as much later as the disk's queue is long.
    assert!(seconds.iter().all(|units| (7..=13).contains(units)), "{seconds:?}");
    let alone = run("sata7200", "fairio", &[flood(1)], 1, END).tenants[0].done.len();
    let beside = outcome.tenants[1].done.len();
    assert!(10 * beside >= 8 * alone, "{beside} requests beside it, {alone} alone");
}
