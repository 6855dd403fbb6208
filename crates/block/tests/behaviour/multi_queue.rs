//! The schedulers of the multi-queue block layer: none, mq-deadline, kyber.

use block::{Nanos, Op, Pick, Priority, PriorityClass, Request, Room, Scheduler};

use crate::{insert_all, ms, pick_all, read, scheduler, serve, serve_all, write};

const NOW: Nanos = Nanos::ZERO;

fn of_class(class: PriorityClass, request: Request) -> Request {
    Request { priority: Priority { class, level: 4 }, ..request }
}

fn go(scheduler: &mut dyn Scheduler, now: Nanos) -> Request {
    match scheduler.pick(now) {
        Pick::Go(request) => request,
        other => panic!("a request should have gone, but: {other:?}"),
    }
}

#[test]
fn none_keeps_the_order_and_admits_what_the_device_takes() {
    let mut none = scheduler("none");
    insert_all(&mut *none, NOW, [read(0, 900), write(1, 100), read(2, 500), read(3, 508)]);
    assert_eq!(serve_all(&mut *none, NOW), [900, 100, 500, 508]);
    let tags = |nr_requests| none.tags(&Room { nr_requests, device: 32 }).unwrap().depth;
    assert_eq!(tags(256), 32);
    assert_eq!(tags(4), 4, "nr_requests under none are the driver's tags");
    assert_eq!(none.open_tags(32, &write(0, 0)), 32);
}

#[test]
fn a_batch_of_mq_deadline_begins_where_the_last_of_its_direction_left_off() {
    // The single-queue scheduler would begin at the oldest request, 100.
    let mut scheduler = scheduler("mq-deadline:fifo_batch=2,writes_starved=1");
    insert_all(&mut *scheduler, NOW, [read(0, 5_000), read(1, 6_000)]);
    assert_eq!(serve_all(&mut *scheduler, NOW), [5_000, 6_000]);
    insert_all(&mut *scheduler, NOW, [write(2, 40), write(3, 60)]);
    assert_eq!(serve(&mut *scheduler, NOW), 40);
    insert_all(&mut *scheduler, NOW, [read(4, 100), read(5, 7_000)]);
    assert_eq!(serve_all(&mut *scheduler, NOW), [60, 7_000, 100]);
}

#[test]
fn an_expired_read_is_where_the_next_batch_of_mq_deadline_begins() {
    for (waited, first) in [(499, 7_000), (500, 100)] {
        let mut scheduler = scheduler("mq-deadline:fifo_batch=1");
        insert_all(&mut *scheduler, NOW, [read(0, 6_000)]);
        assert_eq!(serve(&mut *scheduler, NOW), 6_000);
        insert_all(&mut *scheduler, NOW, [read(1, 100), read(2, 7_000)]);
        assert_eq!(serve(&mut *scheduler, ms(waited)), first, "after {waited} ms");
    }
}

#[test]
fn reads_pass_over_writes_at_most_writes_starved_times_with_mq_deadline() {
    let mut scheduler = scheduler("mq-deadline:fifo_batch=2,writes_starved=3");
    insert_all(&mut *scheduler, NOW, (0..40).map(|n| read(n, u64::from(n) * 100)));
    insert_all(&mut *scheduler, NOW, (0..40).map(|n| write(100 + n, 1_000_000 + u64::from(n) * 100)));
    let directions: String = (0..24).map(|_| if serve(&mut *scheduler, ms(1)) < 1_000_000 { 'r' } else { 'w' }).collect();
    // It begins in the direction of writes: the first batch continues with them until it is full.
    assert_eq!(directions, "wwrrrrrrwwrrrrrrwwrrrrrr");
}

#[test]
fn a_less_urgent_class_waits_for_requests_of_a_more_urgent_one_at_the_device() {
    let mut scheduler = scheduler("mq-deadline");
    let urgent = of_class(PriorityClass::RealTime, read(0, 5_000));
    insert_all(&mut *scheduler, NOW, [read(1, 100), urgent, of_class(PriorityClass::Idle, read(2, 300))]);
    let first = go(&mut *scheduler, NOW);
    assert_eq!(first.lba, 5_000);
    assert!(matches!(scheduler.pick(ms(1)), Pick::WaitUntil(_)));
    scheduler.completed(ms(2), &first, ms(2));
    assert_eq!(serve(&mut *scheduler, ms(2)), 100);
    assert_eq!(serve(&mut *scheduler, ms(2)), 300);
}

#[test]
fn a_less_urgent_request_goes_when_it_has_aged() {
    for (waited, first) in [(9_999, 5_000), (10_000, 300)] {
        let mut scheduler = scheduler("mq-deadline");
        insert_all(&mut *scheduler, NOW, [of_class(PriorityClass::Idle, read(0, 300))]);
        insert_all(&mut *scheduler, ms(waited), [of_class(PriorityClass::RealTime, read(1, 5_000))]);
        assert_eq!(serve(&mut *scheduler, ms(waited)), first, "after {waited} ms");
    }
}

#[test]
fn async_depth_leaves_tags_to_readers() {
    let open = |setting: &str, op, sync| scheduler(setting).open_tags(256, &Request { op, sync, ..read(0, 0) });
    assert_eq!(open("mq-deadline", Op::Write, false), 256);
    assert_eq!(open("mq-deadline:async_depth=64", Op::Write, false), 64);
    assert_eq!(open("mq-deadline:async_depth=64", Op::Write, true), 64, "synchronous writes are limited, too");
    assert_eq!(open("mq-deadline:async_depth=64", Op::Read, true), 256);
    assert_eq!(open("kyber", Op::Write, false), 192);
    assert_eq!(open("kyber", Op::Write, true), 256);
}

#[test]
fn kyber_serves_each_kind_in_order_and_by_batches() {
    let mut kyber = scheduler("kyber");
    insert_all(&mut *kyber, NOW, (0..40).map(|n| read(n, 10_000 - u64::from(n) * 100)));
    insert_all(&mut *kyber, NOW, (0..40).map(|n| write(100 + n, 1_000_000 + u64::from(n) * 100)));
    let order: Vec<u64> = (0..48).map(|_| serve(&mut *kyber, NOW)).collect();
    let directions: String = order.iter().map(|&lba| if lba < 1_000_000 { 'r' } else { 'w' }).collect();
    assert_eq!(directions, format!("{}{}", "r".repeat(16) + &"w".repeat(8), "r".repeat(16) + &"w".repeat(8)));
    assert!(order[..16].is_sorted_by(|before, after| before > after), "first come, first served: {order:?}");
}

/// Gives kyber 200 times 128 reads and 128 writes at once, with this `service` time at the device (reads, writes). Returns how many writes
/// may be there after that.
fn writes_at_the_device(kyber: &mut dyn Scheduler, service: [Nanos; 2]) -> usize {
    let (mut now, mut left) = (NOW, Vec::new());
    for round in 0..200 {
        let ids = (0..128).map(|n| round * 256 + n);
        insert_all(kyber, now, ids.clone().map(|id| read(id, u64::from(id) * 100)));
        insert_all(kyber, now, ids.map(|id| write(id + 128, (1 << 32) + u64::from(id) * 100)));
        let taken = pick_all(kyber, now);
        let mut done: Vec<_> = taken.iter().map(|request| (service[usize::from(request.op == Op::Write)], request)).collect();
        done.sort_by_key(|(took, _)| *took);
        for &(took, request) in &done {
            kyber.completed(now + took, request, took);
        }
        now += service[0].max(service[1]);
        kyber.drain(&mut left);
    }
    insert_all(kyber, now, (0..256).map(|n| write(n, u64::from(n) * 100)));
    pick_all(kyber, now).len()
}

#[test]
fn writes_that_meet_their_target_give_up_tokens_while_reads_miss_theirs() {
    let mut kyber = scheduler("kyber");
    let few = writes_at_the_device(&mut *kyber, [ms(8), ms(1)]);
    assert!(few <= 8, "{few}, where reads take four times their target of 2 ms");
    let mut calm = scheduler("kyber");
    assert_eq!(writes_at_the_device(&mut *calm, [ms(1), ms(1)]), 128, "no target is missed");
    let mut patient = scheduler("kyber:read_lat_nsec=10000000");
    assert_eq!(writes_at_the_device(&mut *patient, [ms(8), ms(1)]), 128, "8 ms are within the target");
}

#[test]
fn an_elevator_turns_at_the_last_request_of_each_way() {
    let mut scan = scheduler("scan");
    insert_all(&mut *scan, NOW, [read(0, 500), read(1, 900)]);
    assert_eq!(serve(&mut *scan, NOW), 500);
    insert_all(&mut *scan, NOW, [read(2, 100), read(3, 300), read(4, 700)]);
    assert_eq!(serve_all(&mut *scan, NOW), [700, 900, 300, 100]);
    insert_all(&mut *scan, NOW, [read(5, 50), read(6, 200)]);
    assert_eq!(serve_all(&mut *scan, NOW), [50, 200]);
}

#[test]
fn wake_batches_follow_from_the_least_number_of_open_tags() {
    let batch = |name: &str, nr_requests, device| scheduler(name).tags(&Room { nr_requests, device }).map(|tags| tags.wake_batch);
    assert_eq!([1, 7, 8, 32, 63, 64, 1024].map(|device| batch("none", 1024, device)), [1, 1, 1, 4, 7, 8, 8].map(Some));
    assert_eq!(batch("none", 32, 1024), Some(4));
    assert_eq!([4, 42, 43, 256].map(|tags| batch("kyber", tags, 1)), [1, 3, 4, 8].map(Some));
    assert_eq!([batch("mq-deadline", 256, 32), batch("bfq", 256, 32)], [Some(1); 2]);
    for name in ["noop", "sstf", "clook", "deadline", "anticipatory", "cfq", "scan", "sptf"] {
        assert_eq!(batch(name, 256, 32), None, "{name}");
    }
}
