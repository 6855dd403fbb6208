use alloc::vec::Vec;

use proptest::prelude::*;

use super::*;
use crate::{Op, Priority};

const HOUR: u64 = 3_600 * SECOND;

fn request(op: Op, sectors: u32, arrival: Nanos) -> Request {
    Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba: 0, arrival }
}

fn read(sectors: u32) -> Request {
    request(Op::Read, sectors, Nanos::ZERO)
}

fn limiter(rates: Rates) -> Limiter {
    Limiter::new(&rates).unwrap()
}

fn limited(limit: Rate) -> Rates {
    Rates { limit, ..Rates::default() }
}

#[test]
fn the_slower_of_both_limits_spaces_requests() {
    let limit = Rate { bytes_per_s: NonZeroU64::new(512_000), ..Rate::iops(100) };
    let mut limiter = limiter(Rates { burst: Some(Nanos::ZERO), ..limited(limit) });
    let passed = [1, 8, 20, 1].map(|sectors| {
        let at = limiter.ready_at(Nanos::ZERO, &read(sectors));
        limiter.charge(at, &read(sectors));
        at.0 / 1_000_000
    });
    assert_eq!(passed, [0, 10, 20, 40], "a hundred a second, and twenty sectors in 20 ms");
}

#[test]
fn a_tenant_without_limits_has_no_limiter_and_one_without_reservation_none() {
    let reserved = Rates { reservation: Rate::iops(5), ..Rates::default() };
    assert!(Limiter::new(&reserved).is_none());
    assert!(Reservation::new(&limited(Rate::iops(5))).is_none());
}

#[test]
fn an_unused_limit_is_saved_up_for_the_burst_only() {
    for (burst, at_once) in [(None, 2), (Some(Nanos::ZERO), 1), (Some(Nanos::from_millis(1_000)), 11)] {
        let mut limiter = limiter(Rates { burst, ..limited(Rate::iops(10)) });
        let now = Nanos::from_millis(5_000);
        let mut passed = 0;
        while limiter.ready_at(now, &read(8)) <= now {
            limiter.charge(now, &read(8));
            passed += 1;
        }
        assert_eq!(passed, at_once, "{burst:?}");
    }
}

#[test]
fn a_large_request_counts_as_several_and_a_discard_as_one_without_bytes() {
    let after = |rates: Rates, op, sectors| {
        let mut limiter = limiter(rates);
        limiter.charge(Nanos::ZERO, &request(op, sectors, Nanos::ZERO));
        limiter.any_ready_at(Nanos::ZERO).0 / 1_000_000
    };
    let by_requests = limited(Rate::iops(100));
    let units = [1, 512, 513, 2_048].map(|sectors| after(by_requests, Op::Read, sectors));
    assert_eq!(units, [10, 10, 20, 40], "1 MiB counts as four of 256 KiB");
    let small = Rates { unit_bytes: NonZeroU64::new(4_096).unwrap(), ..by_requests };
    assert_eq!(after(small, Op::Write, 512), 640);
    assert_eq!(after(by_requests, Op::Discard, 1 << 20), 10);
    assert_eq!(after(limited(Rate::bytes_per_s(1)), Op::Discard, 1 << 20), 0);
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let mut limiter = limiter(Rates { read_limit: Rate::iops(10), write_limit: Rate::bytes_per_s(409_600), ..Rates::default() });
    let write = request(Op::Write, 8, Nanos::ZERO);
    limiter.charge(Nanos::ZERO, &read(8));
    assert_eq!(limiter.ready_at(Nanos::ZERO, &read(8)), Nanos::from_millis(100));
    assert_eq!(limiter.ready_at(Nanos::ZERO, &write), Nanos::ZERO);
    assert_eq!(limiter.any_ready_at(Nanos::ZERO), Nanos::ZERO);
    limiter.charge(Nanos::ZERO, &write);
    assert_eq!(limiter.any_ready_at(Nanos::ZERO), Nanos::from_millis(10));
    assert!(limiter.is_by_direction());
}

#[test]
fn no_time_is_lost_or_gained_in_an_hour() {
    // None of these divides a second.
    for rate in [7, 60, 9_973] {
        let mut limiter = limiter(limited(Rate::iops(rate)));
        for _ in 0..3_600 * rate {
            let at = limiter.ready_at(Nanos::ZERO, &read(8));
            limiter.charge(at, &read(8));
        }
        assert_eq!(limiter.ready_at(Nanos::ZERO, &read(8)), Nanos(HOUR), "{rate} a second");
    }
}

#[test]
fn a_request_is_due_when_the_reserved_rate_pays_for_it() {
    let reserved = Rates { reservation: Rate { bytes_per_s: NonZeroU64::new(40_960_000), ..Rate::iops(100) }, ..Rates::default() };
    let mut reservation = Reservation::new(&reserved).unwrap();
    let due = [(8, 0), (8, 0), (4_096, 0), (8, 500), (8, 0)].map(|(sectors, arrival_ms)| {
        let request = request(Op::Read, sectors, Nanos::from_millis(arrival_ms));
        let due = reservation.due_at(&request);
        reservation.charge(&request);
        due.0 / 100_000
    });
    // For 2 MiB, which counts as eight requests, bytes are paid for in 51.2 ms and requests in 80.
    assert_eq!(due, [0, 1, 2, 5_000, 5_001]);
    assert_eq!(reservation.span(&read(4_096)), Nanos(51_200_000));
}

proptest! {
    /// No window has more than the rate, the burst and one request; and if a request always waits, none has less than the rate.
    #[test]
    fn every_window_has_the_rate(
        rate in 1_u64..5_000,
        burst_ms in prop::option::of(0_u64..500),
        unit_kib in prop::sample::select(alloc::vec![4_u64, 256]),
        asks in prop::collection::vec((0_u64..40_000_000, 1_u32..2_048), 1..150),
        is_saturated in any::<bool>(),
    ) {
        let burst = burst_ms.map(Nanos::from_millis);
        let rates = Rates { burst, unit_bytes: NonZeroU64::new(unit_kib << 10).unwrap(), ..limited(Rate::iops(rate)) };
        let mut limiter = limiter(rates);
        let mut now = Nanos::from_millis(1_000);
        let mut passed: Vec<(Nanos, u64)> = Vec::new();
        for (pause, sectors) in asks {
            if !is_saturated {
                now += Nanos(pause);
            }
            now = limiter.ready_at(now, &read(sectors));
            limiter.charge(now, &read(sectors));
            passed.push((now, rates.units(512 * u64::from(sectors))));
        }
        let saved = burst.map_or(1_000_000_000_u64.div_ceil(rate), |burst| burst.0);
        for first in 0..passed.len() {
            let mut units = 0;
            for last in first..passed.len() {
                let window = (passed[last].0 - passed[first].0).0;
                // Without the last one: it may exceed the rate by itself.
                let most = u128::from(rate) * u128::from(window + saved) / u128::from(SECOND) + 1;
                prop_assert!(u128::from(units) <= most, "{units} units in {window} ns at {rate} a second");
                units += passed[last].1;
                if is_saturated {
                    let least = u128::from(rate) * u128::from(window) / u128::from(SECOND);
                    prop_assert!(u128::from(units) >= least, "{units} units in {window} ns at {rate} a second");
                }
            }
        }
    }
}
