//! Invariants that a host cannot observe: counters are consistent and no state leaks.

use alloc::vec::Vec;

use super::io_queue::IoQueue;
use super::service::class_index;
use super::{Bfq, SHARED_QUEUES, SPEC, Tuning};
use crate::{Limits, Nanos, Op, Pick, Priority, PriorityClass, Request, Scheduler};

fn read(id: u32, stream: u32, lba: u64) -> Request {
    Request { id, stream, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: Nanos::ZERO }
}

#[test]
fn a_process_that_ends_is_removed_from_the_queues_of_a_planned_merge() {
    let mut bfq = Bfq::new(&Limits::default(), Tuning::new(&SPEC.defaults()));
    // Two share a queue, a third has its own; then the first moves to the latter, and the second would at its next request.
    let requests = [(1, 0), (2, 100), (2, 30), (3, 1 << 30), (3, 1 << 40), (1, (1 << 30) + 100)];
    for (id, (stream, lba)) in (0..).zip(requests) {
        bfq.insert(Nanos::ZERO, read(id, stream, lba));
    }
    let queue_of = |bfq: &Bfq, stream: u32| bfq.processes.iter().find(|process| process.stream == stream).and_then(|p| p.queue);
    let joined = queue_of(&bfq, 3).unwrap();
    assert_eq!((queue_of(&bfq, 1), bfq.queues[joined].users.count), (Some(joined), 3));
    let second = bfq.processes.iter().position(|process| process.stream == 2).unwrap();
    assert_ne!(bfq.processes[second].queue, Some(joined));
    bfq.end_process(Nanos::ZERO, second);
    assert_eq!(bfq.queues[joined].users.count, 2);
}

/// Advances a xorshift generator (Marsaglia, Xorshift RNGs, 2003); returns a number below `bound`.
fn random(state: &mut u64, bound: u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    (*state >> 20) % bound
}

fn assert_counts_agree(bfq: &Bfq) {
    let busy = |class| bfq.queues.iter().filter(|queue| queue.busy && class_index(queue.origin.class) == class).count();
    let raised = bfq.queues.iter().filter(|queue| queue.busy && queue.is_raised()).count() as i64;
    assert_eq!(bfq.busy.exact(), ([busy(0), busy(1), busy(2)], raised));
    assert_eq!(bfq.device.at_device, bfq.queues.iter().map(|queue| queue.at_device).sum::<u32>());
    assert_eq!(bfq.device.at_device as usize, bfq.device.flights());
    assert!(bfq.turn.queue.is_none_or(|number| bfq.queues[number].busy));
    bfq.schedule.assert_sums_agree();
    for (number, queue) in bfq.queues.iter().enumerate() {
        let waiting = bfq.requests.lane_len(number);
        assert_eq!(queue.next.is_some(), waiting > 0, "queue {number}");
        assert!(queue.busy || waiting == 0, "queue {number}");
        assert!(queue.next.is_none_or(|next| bfq.requests.request(next.slot).id == next.id), "queue {number}");
    }
}

#[test]
fn counts_agree_with_the_queues_after_any_step() {
    for round in 0..40_u64 {
        let mut state = 88_172_645_463_325_252 + round;
        let mut values: Vec<i64> = SPEC.defaults();
        let mut bfq = Bfq::new(&Limits::default(), Tuning::new(&values));
        let (mut now, mut flights) = (Nanos::ZERO, Vec::new());
        let fast = round % 3 == 0;
        for id in 0..4_000_u32 {
            now += match random(&mut state, 40) {
                0 => Nanos::from_millis(random(&mut state, 3_000)),
                1..10 => Nanos::from_millis(random(&mut state, 12)),
                _ => Nanos::from_micros(random(&mut state, if fast { 50 } else { 4_000 })),
            };
            if id == 3_990 {
                now = Nanos(u64::MAX - 1_000);
            }
            match random(&mut state, 8) {
                0..3 => {
                    let class = [PriorityClass::BestEffort, PriorityClass::RealTime, PriorityClass::Idle]
                        [(random(&mut state, 24) / 11) as usize];
                    let level = if random(&mut state, 3) > 0 { 4 } else { random(&mut state, 256) as u8 };
                    let op = [Op::Read, Op::Read, Op::Read, Op::Write, Op::Discard][random(&mut state, 5) as usize];
                    let sectors = [8, 8, 64, 2_000, u32::MAX][(random(&mut state, 401) / 100) as usize];
                    let far = [0, 1 << 13, 1 << 40, u64::MAX - 10][(random(&mut state, 301) / 100) as usize];
                    let stream = random(&mut state, 9) as u32;
                    let lba = far.saturating_add(random(&mut state, 64) * 8);
                    let priority = Priority { class, level };
                    let arrival = now;
                    bfq.insert(
                        now,
                        Request { op, sync: random(&mut state, 2) > 0, priority, sectors, arrival, ..read(id, stream, lba) },
                    );
                }
                3..6 => {
                    if let Pick::Go(request) = bfq.pick(now) {
                        flights.push(request);
                    }
                }
                6 if random(&mut state, 300) == 0 => {
                    for (value, tunable) in values.iter_mut().zip(SPEC.tunables) {
                        *value = [tunable.min, tunable.default, tunable.default, tunable.max][random(&mut state, 4) as usize];
                    }
                    bfq.retune(&values);
                }
                _ if !flights.is_empty() => {
                    let request = flights.swap_remove(random(&mut state, flights.len() as u64) as usize);
                    bfq.completed(now, &request, Nanos::ZERO);
                }
                _ => {}
            }
            assert_counts_agree(&bfq);
        }
    }
}

#[test]
fn queues_of_ended_processes_are_reused() {
    let mut bfq = Bfq::new(&Limits::default(), Tuning::new(&SPEC.defaults()));
    for id in 0..40_000 {
        let now = Nanos::from_micros(u64::from(id) * 3_000);
        // Groups of sixteen, every other group close to each other; some processes issue a second request.
        let stream = if id % 5 == 4 { id - 3 } else { id };
        let apart = if id / 16 % 2 == 0 { 7 } else { 24 };
        let lba = u64::from(id / 16) << 30 | u64::from(id % 16) << apart;
        let priority = Priority { level: (id % 7 / 3) as u8 + 4, ..Priority::DEFAULT };
        let request = Request { priority, arrival: now, ..read(id, stream, lba) };
        bfq.insert(now, request);
        if id % 16 == 15 {
            for wait in 0..200 {
                if let Pick::Go(request) = bfq.pick(now + Nanos::from_millis(wait)) {
                    bfq.completed(now + Nanos::from_millis(wait), &request, Nanos::ZERO);
                }
            }
            assert!(bfq.requests.is_empty() && bfq.device.flights() == 0);
        }
    }
    // The directory keeps 4,096.
    let most = SHARED_QUEUES + 4096 + 32;
    assert!(bfq.queues.len() > 1_000, "many were merged or none arrived: {}", bfq.queues.len());
    assert!(
        bfq.queues.len() <= most && bfq.processes.iter().count() <= most,
        "{} {}",
        bfq.queues.len(),
        bfq.processes.iter().count()
    );
    let users = |number: usize| bfq.processes.iter().filter(|process| process.queue == Some(number)).count() as u32;
    let planned = |number: usize| {
        let aims = |queue: &&IoQueue| queue.users.count > 0 && queue.users.merges_into.is_some_and(|into| into.number == number);
        bfq.queues.iter().filter(aims).map(|queue| queue.users.count).sum::<u32>()
    };
    for number in SHARED_QUEUES..bfq.queues.len() {
        assert_eq!(bfq.queues[number].users.count, users(number) + planned(number), "queue {number}");
    }
    assert_counts_agree(&bfq);
    assert!(bfq.burst_members() <= 16 && bfq.queues.left() < 32);
}
