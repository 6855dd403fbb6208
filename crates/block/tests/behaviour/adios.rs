//! ADIOS: learned deadlines, and batches that fit a window.

use block::{Nanos, Op, Pick, Request, RequestId, Scheduler};

use crate::{insert_all, ms, pick_all, read, scheduler, serve_all, write};

fn discard(id: RequestId, lba: u64) -> Request {
    Request { op: Op::Discard, ..write(id, lba) }
}

fn sync_write(id: RequestId, lba: u64) -> Request {
    Request { sync: true, ..write(id, lba) }
}

/// Serves requests one at a time, each of which takes `service`; returns when the last one completes.
fn teach(scheduler: &mut dyn Scheduler, mut now: Nanos, requests: impl IntoIterator<Item = (Request, Nanos)>) -> Nanos {
    for (request, service) in requests {
        scheduler.insert(now, Request { arrival: now, ..request });
        let Pick::Go(request) = scheduler.pick(now) else { panic!("{request:?} should have gone") };
        now += service;
        scheduler.completed(now, &request, service);
    }
    now
}

/// ADIOS on a device that needs 1 ms for a read and `write` for a write, and when it is there.
fn taught(setting: &str, write_takes: Nanos) -> (Box<dyn Scheduler>, Nanos) {
    let mut adios = scheduler(setting);
    let reads_and_writes = (0..400).map(|n| if n % 2 == 0 { (read(0, 8 * n), ms(1)) } else { (write(0, 8 * n), write_takes) });
    let now = teach(&mut *adios, Nanos::ZERO, reads_and_writes);
    (adios, now)
}

fn lbas(requests: &[Request]) -> Vec<u64> {
    requests.iter().map(|request| request.lba).collect()
}

#[test]
fn until_reads_and_writes_are_known_requests_leave_in_order_of_arrival() {
    let mut adios = scheduler("adios");
    let now = teach(&mut *adios, Nanos::ZERO, (0..100).map(|n| (read(0, 8 * n), ms(1))));
    insert_all(&mut *adios, now, [write(1, 900), read(2, 100), discard(3, 500), read(4, 50)]);
    assert_eq!(serve_all(&mut *adios, now), [900, 100, 500, 50]);
}

#[test]
fn reads_go_before_writes_of_the_same_age() {
    let (mut adios, now) = taught("adios", ms(1));
    insert_all(&mut *adios, now, [write(1, 900), sync_write(2, 100), read(3, 500), discard(4, 700), read(5, 300)]);
    let order = lbas(&pick_all(&mut *adios, now));
    assert_eq!(order, [500, 300, 100, 900, 700], "reads, then the write without a target, then writes, then discards");
}

#[test]
fn an_operation_of_longer_learned_latency_gets_a_later_deadline() {
    // Both are asynchronous and of one target; only the learned latency tells the larger write from the smaller one.
    let setting = |flags: u8| format!("adios:lat_target_write=0,compliance_flags={flags},global_latency_window=100000000");
    let order = |flags: u8| {
        let mut adios = scheduler(&setting(flags));
        let large = Request { sectors: 1_024, ..write(0, 1 << 20) };
        let lessons = [(read(0, 0), ms(1)), (write(0, 0), ms(1)), (large, ms(20))];
        let now = teach(&mut *adios, Nanos::ZERO, lessons.into_iter().cycle().take(300));
        insert_all(&mut *adios, now, [Request { sectors: 1_024, ..write(1, 900) }, write(2, 5_000)]);
        lbas(&pick_all(&mut *adios, now))
    };
    assert_eq!(order(0), [5_000, 900]);
    assert_eq!(order(1), [900, 5_000], "with fixed order the prediction does not count");
}

#[test]
fn synchronous_writes_go_before_asynchronous_ones() {
    let (mut adios, now) = taught("adios", ms(1));
    insert_all(&mut *adios, now, [write(1, 900), write(2, 1_900)]);
    insert_all(&mut *adios, now + ms(500), [sync_write(3, 100)]);
    assert_eq!(lbas(&pick_all(&mut *adios, now + ms(500))), [100, 900, 1_900]);
}

/// How many of 40 writes are in the first batch: those that go before a read which arrives once the batch is being served.
fn first_batch(adios: &mut dyn Scheduler, now: Nanos) -> usize {
    insert_all(adios, now, (0..40).map(|n| write(100 + n, 100 * u64::from(n))));
    let Pick::Go(first) = adios.pick(now) else { panic!("a write should have gone") };
    insert_all(adios, now, [read(1, 77)]);
    let order = pick_all(adios, now);
    assert_eq!((first.op, order.len()), (Op::Write, 40), "nothing waits for the device");
    1 + order.iter().position(|request| request.op == Op::Read).unwrap()
}

#[test]
fn a_batch_holds_what_should_complete_within_the_window() {
    for (window, takes, expected) in [(16, 4, 4), (16, 2, 8), (8, 4, 2), (0, 4, 1)] {
        let (mut adios, now) = taught(&format!("adios:global_latency_window={window}000000"), ms(takes));
        assert_eq!(first_batch(&mut *adios, now), expected, "writes of {takes} ms in {window} ms");
    }
}

#[test]
fn a_batch_holds_at_most_its_limit_of_an_operation() {
    for limit in [1, 5] {
        let setting = format!("adios:global_latency_window=10000000000,bq_refill_below_ratio=0,batch_limit_write={limit}");
        let (mut adios, now) = taught(&setting, ms(1));
        assert_eq!(first_batch(&mut *adios, now), limit);
    }
}

#[test]
fn reads_go_before_writes_of_earlier_deadlines_the_longer_the_higher_their_priority() {
    let reads_before_writes = |priority: i64| {
        let (mut adios, now) = taught(&format!("adios:lat_target_write=0,read_priority={priority}"), ms(1));
        // Reads alone use up their allowance to go early; a write alone gives them its millisecond.
        let now = teach(&mut *adios, now, (0..200).map(|n| (read(0, 8 * n), ms(1))));
        let now = teach(&mut *adios, now, [(write(0, 0), ms(1))]);
        insert_all(&mut *adios, now, (0..40).map(|n| write(1_000 + n, 100 * u64::from(n))));
        insert_all(&mut *adios, now + ms(5), (1..200).map(|n| read(n, 100 * u64::from(n))));
        let order = pick_all(&mut *adios, now + ms(5));
        order.iter().position(|request| request.op == Op::Write).unwrap()
    };
    // A read of 1 ms counts 1 ms, 0.17 ms and 0.014 ms.
    let expected = [(0, 1..=1), (8, 5..=6), (19, 72..=74)];
    for (priority, expected) in expected {
        let reads = reads_before_writes(priority);
        assert!(expected.contains(&reads), "at priority {priority}: {reads}");
    }
}

#[test]
fn by_position_a_batch_is_sorted_from_the_end_that_is_nearer() {
    for (head, expected) in [(0, [200, 500, 900]), (2_000, [900, 500, 200])] {
        let (mut adios, now) = taught("adios:batch_order=1", ms(1));
        let now = teach(&mut *adios, now, [(read(0, head), ms(1))]);
        insert_all(&mut *adios, now, [write(1, 500), write(2, 900), write(3, 200)]);
        assert_eq!(lbas(&pick_all(&mut *adios, now)), expected, "from {head}");
    }
}

#[test]
fn a_new_target_makes_it_relearn_an_operation() {
    let (mut adios, now) = taught("adios:lat_target_write=0,global_latency_window=100000000", ms(20));
    assert_eq!(first_batch(&mut *adios, now), 5, "of 20 ms each");
    let (mut adios, now) = taught("adios:lat_target_write=0,global_latency_window=100000000", ms(20));
    let (_, values) = block::parse("adios:lat_target_write=1,global_latency_window=100000000").unwrap();
    adios.retune(&values);
    assert_eq!(first_batch(&mut *adios, now), 1, "one at a time until it knows writes again");
}
