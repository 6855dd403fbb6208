//! Devices fitted to requests with known mechanics.

use block::{Nanos, Op, Priority, Request};
use twin::ObservedRequest;

/// Numbers from 0 to 1, the same in each run.
fn numbers() -> impl FnMut() -> f64 {
    let mut number = 1_u64;
    move || {
        number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as f64 / 2_f64.powi(31)
    }
}

/// Reads of 4 KiB anywhere on 1 GiB of a drive of 10,500 rpm with 1,344 sectors per revolution, eight at a time, served in the order in
/// which they come under the head; or at any angle.
fn sorted(turns: bool) -> Vec<ObservedRequest> {
    let (turn_ns, mut now) = (60e9 / 10_500.0, 0.0_f64);
    let mut draw = numbers();
    let mut waiting: Vec<(u64, f64, f64)> = (0..8).map(|_| ((draw() * 262_000.0) as u64 * 8, draw(), 0.0)).collect();
    let serve = |_| {
        let ready = now + 1.2e6;
        let at = |&(lba, chance, _): &(u64, f64, f64)| {
            let angle = if turns { ((lba + 8) as f64 / 1_344.0).fract() } else { (chance + ready / turn_ns).fract() };
            ((ready / turn_ns - angle).ceil() + angle) * turn_ns
        };
        let next = (0..waiting.len()).min_by(|&a, &b| at(&waiting[a]).total_cmp(&at(&waiting[b]))).unwrap_or(0);
        now = at(&waiting[next]);
        let (lba, _, arrival) = std::mem::replace(&mut waiting[next], ((draw() * 262_000.0) as u64 * 8, draw(), now));
        let (op, priority, arrival) = (Op::Read, Priority::DEFAULT, Nanos(arrival as u64));
        let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba, arrival };
        ObservedRequest { request, dispatched: arrival, completed: Nanos(now as u64) }
    };
    (0..1_500).map(serve).collect()
}

#[test]
fn a_small_part_of_a_drive_has_a_fast_arm_and_is_no_flash() {
    let fitted = twin::fit(&sorted(true), Some(1 << 21)).unwrap();
    let value = |name| fitted.findings.iter().find(|finding| finding.name == name).map(|finding| finding.value.clone());
    assert_eq!(value("kind of device").as_deref(), Some("hard disk"), "{:?}", fitted.findings);
    assert!(value("speed").is_some_and(|speed| speed.starts_with("10500")), "{:?}", fitted.findings);
    let unaligned = twin::fit(&sorted(false), Some(1 << 21)).unwrap();
    assert!(unaligned.turn().is_none(), "{:?}", unaligned.findings);
}

/// Random reads of 4 KiB, eight at a time, behind a limit of 250 a second whose timer is up to 6 ms late, and in one of ten cases 30 ms.
fn throttled() -> Vec<ObservedRequest> {
    let mut draw = numbers();
    let mut waiting = std::collections::VecDeque::from([0.0_f64; 8]);
    let (mut due, mut now) = (0.0_f64, 0.0_f64);
    let serve = |id| {
        due += 4e6;
        let late = if draw() < 0.1 { 30e6 } else { 6e6 };
        now = f64::max(now + 100e3, due + late * draw());
        let arrival = Nanos(waiting.pop_front().unwrap_or(0.0) as u64);
        waiting.push_back(now);
        let lba = (draw() * 12e6) as u64 * 8;
        let request = Request { id, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival };
        ObservedRequest { request, dispatched: arrival, completed: Nanos(now as u64) }
    };
    (0..1_500).map(serve).collect()
}

#[test]
fn a_limit_with_late_timers_is_no_slow_flash() {
    let fitted = twin::fit(&throttled(), Some(100_000_000)).unwrap();
    let limit = fitted.findings.iter().find(|finding| finding.name == "limit of operations");
    let rate = limit.and_then(|limit| limit.number);
    assert!(rate.is_some_and(|rate| (240.0..260.0).contains(&rate)), "{:?}", fitted.findings);
}
