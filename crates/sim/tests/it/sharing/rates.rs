//! Reservations and limits on simulated disks, second by second.

use block::{Nanos, Op, Rate, Rates};

use crate::sharing::tenants::{Asker, Outcome, Pace, Pattern, run};

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

/// Requests of the first stream done in each second.
fn done(outcome: &Outcome) -> Vec<u64> {
    outcome.tenants[0].done_per_second(END, units)
}

#[test]
fn mclock_keeps_a_reservation_next_to_floods_in_every_second() {
    for (disk, iops, depth, floods) in
        [("sata7200", 40, 4, vec![1]), ("sata7200", 30, 1, vec![1]), ("atlas10k", 60, 4, vec![50; 3])]
    {
        let askers: Vec<Asker> = [reserved(iops, depth)].into_iter().chain(floods.into_iter().map(flood)).collect();
        let seconds = done(&run(disk, "mclock", &askers, 1, END));
        let least = seconds.iter().copied().min().unwrap();
        assert!(100 * (least + 1) >= 95 * iops, "{disk}, {iops} a second reserved: {seconds:?}");
    }
}

#[test]
fn mclock_starves_no_tenant_for_a_reservation_that_the_disk_cannot_serve() {
    for (iops, depth) in [(2_000, 1), (2_000, 4), (2_000, 128), (300, 4)] {
        let outcome = run("sata7200", "mclock", &[reserved(iops, depth), flood(1)], 1, END);
        let (first, others) = (done(&outcome), outcome.tenants[1].done_per_second(END, units));
        // Alone, it gets 68, 124 or 259 a second.
        assert!(first.iter().all(|&count| count >= 40), "{iops} a second reserved at depth {depth}: {first:?}");
        assert!(others.iter().all(|&count| count >= 25), "next to {iops} a second reserved at depth {depth}: {others:?}");
    }
}

#[test]
fn mclock_keeps_a_reservation_next_to_one_that_the_disk_cannot_serve() {
    let outcome = run("sata7200", "mclock", &[reserved(20, 2), reserved(2_000, 16), flood(1)], 1, END);
    let seconds = done(&outcome);
    // The disk needs some seconds to tell them apart.
    let missed = seconds[5..].iter().filter(|&&count| count < 18).count();
    assert!(missed <= 1, "{seconds:?}");
    assert!(outcome.tenants[2].done.len() >= 300, "{}", outcome.tenants[2].done.len());
}

/// Whether each second has the rate of a limit: within 5%, and one request more or less at either end.
fn is_at(seconds: &[u64], limit: u64, request: u64) -> bool {
    seconds.iter().all(|&count| 100 * count <= 105 * limit + 100 * request && 100 * (count + request) >= 95 * limit)
}

/// A limit is on requests that reach the device. Completions vary by the time that requests spend there.
#[test]
fn limits_hold_in_every_second_and_a_large_request_counts_as_four() {
    for scheduler in ["mclock", "fairio", "io-cost"] {
        for (sectors, iops) in [(8, 40), (2_048, 40)] {
            let rates = Rates { limit: Rate::iops(iops), ..Rates::default() };
            let limited = Asker { rates, ..Asker::reader(1, anywhere(sectors), closed(8)) };
            let seconds = run("sata7200", scheduler, &[limited], 1, END).tenants[0].dispatched_per_second(END, units);
            assert!(is_at(&seconds, iops, units(sectors)), "{scheduler}, {sectors} sectors: {seconds:?}");
        }
    }
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let rates = Rates { read_limit: Rate::iops(15), write_limit: Rate::bytes_per_s(25 * 8_192), ..Rates::default() };
    let reader = Asker { rates, ..Asker::reader(1, anywhere(16), closed(8)) };
    let writer = Asker { op: Op::Write, is_same: true, ..reader };
    for scheduler in ["mclock", "fairio"] {
        let outcome = run("sata7200", scheduler, &[reader, writer], 1, END);
        let [reads, writes] = [0, 1].map(|stream: usize| outcome.tenants[stream].dispatched_per_second(END, units));
        assert!(is_at(&reads, 15, 1), "{scheduler}: {reads:?}");
        assert!(is_at(&writes, 25, 1), "{scheduler}: {writes:?}");
    }
}

#[test]
fn under_fairio_a_tenant_at_its_limit_leaves_the_disk_to_others() {
    let rates = Rates { limit: Rate::iops(10), ..Rates::default() };
    let limited = Asker { rates, ..reserved(0, 16) };
    let outcome = run("sata7200", "fairio", &[limited, flood(1)], 1, END);
    let seconds = outcome.tenants[0].dispatched_per_second(END, units);
    assert!(is_at(&seconds, 10, 1), "{seconds:?}");
    let alone = run("sata7200", "fairio", &[flood(1)], 1, END).tenants[0].done.len();
    let shared = outcome.tenants[1].done.len();
    assert!(10 * shared >= 8 * alone, "{shared} requests next to it, {alone} alone");
}
