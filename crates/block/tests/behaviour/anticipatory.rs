use block::{Limits, Merges, Nanos, Pick, Request, StreamId};

use crate::disk::{Process, Report, run};
use crate::{insert_all, ms, read, scheduler, scheduler_with, write};

const UNMERGED: Limits = Limits { max_sectors: 0, merges: Merges::All };

fn of(stream: StreamId, request: Request) -> Request {
    Request { stream, ..request }
}

fn two_readers(setting: &str, think: Nanos) -> Report {
    let readers = [Process::sequential_reader(0, think), Process::sequential_reader(1 << 30, think)];
    run(&mut *scheduler_with(setting, UNMERGED), &readers, ms(20_000))
}

#[test]
fn it_waits_for_readers_with_short_think_times_and_saves_seeks() {
    let deadline = two_readers("deadline", ms(1));
    let anticipatory = two_readers("anticipatory", ms(1));
    assert!(deadline.seeks > deadline.total() * 9 / 10, "deceptive idleness: nearly each request is a seek");
    assert!(anticipatory.seeks < anticipatory.total() / 2);
    assert!(anticipatory.total() > 3 * deadline.total());
    assert!(anticipatory.served.iter().all(|&served| served > deadline.total()), "and neither reader starves");
}

#[test]
fn antic_expire_zero_never_waits() {
    let report = two_readers("anticipatory:antic_expire=0", ms(1));
    assert!(report.seeks > report.total() * 9 / 10);
}

#[test]
fn it_does_not_wait_for_processes_with_long_think_times() {
    let deadline = two_readers("deadline", ms(50));
    let anticipatory = two_readers("anticipatory", ms(50));
    // Waiting 6 ms after each request would cost a tenth of the throughput.
    assert!(anticipatory.total() * 100 >= deadline.total() * 98, "{} against {}", anticipatory.total(), deadline.total());
}

/// A process that has issued three requests, with a think time of a millisecond each, the last of which completed at 3 ms.
fn known_process(setting: &str) -> Box<dyn block::Scheduler> {
    let mut anticipatory = scheduler(setting);
    for n in 0..4 {
        let now = ms(n);
        insert_all(&mut *anticipatory, now, [read(0, n * 8)]);
        let Pick::Go(request) = anticipatory.pick(now) else { panic!("nothing goes") };
        anticipatory.completed(now, &request, Nanos::ZERO);
    }
    anticipatory
}

#[test]
fn the_wait_ends_after_antic_expire() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [of(2, read(1, 1 << 30))]);
    assert_eq!(anticipatory.pick(ms(3)), Pick::WaitUntil(ms(9)));
    assert_eq!(anticipatory.pick(ms(5)), Pick::WaitUntil(ms(9)));
    assert!(matches!(anticipatory.pick(ms(9)), Pick::Go(request) if request.stream == 2));
}

#[test]
fn the_next_request_of_the_process_ends_the_wait_and_goes_first() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [of(2, read(1, 1 << 30))]);
    assert_eq!(anticipatory.pick(ms(3)), Pick::WaitUntil(ms(9)));
    insert_all(&mut *anticipatory, ms(4), [read(2, 32)]);
    assert!(matches!(anticipatory.pick(ms(4)), Pick::Go(request) if request.lba == 32));
}

#[test]
fn a_close_request_of_another_process_ends_the_wait() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [of(2, read(1, 1 << 30))]);
    assert_eq!(anticipatory.pick(ms(3)), Pick::WaitUntil(ms(9)));
    insert_all(&mut *anticipatory, ms(4), [of(3, read(2, 4_000))]);
    assert!(matches!(anticipatory.pick(ms(4)), Pick::Go(request) if request.lba == 4_000));
}

#[test]
fn a_write_of_the_awaited_process_ends_the_wait() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [of(2, read(1, 1 << 30))]);
    assert_eq!(anticipatory.pick(ms(3)), Pick::WaitUntil(ms(9)));
    insert_all(&mut *anticipatory, ms(4), [write(2, 1 << 20)]);
    assert!(matches!(anticipatory.pick(ms(4)), Pick::Go(_)));
}

#[test]
fn the_wait_begins_when_the_last_request_of_the_process_at_the_device_is_done() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(4), [read(0, 32)]);
    let Pick::Go(request) = anticipatory.pick(ms(4)) else { panic!("nothing goes") };
    insert_all(&mut *anticipatory, ms(4), [of(2, read(1, 1 << 30))]);
    assert!(matches!(anticipatory.pick(ms(4)), Pick::WaitUntil(_)), "the device has room, but the head is wanted here");
    anticipatory.completed(ms(12), &request, ms(8));
    assert_eq!(anticipatory.pick(ms(12)), Pick::WaitUntil(ms(18)));
}

#[test]
fn it_stops_waiting_for_new_processes_if_they_keep_disappearing() {
    let mut anticipatory = scheduler("anticipatory");
    let mut waits = 0;
    for stream in 1..40 {
        let now = ms(u64::from(stream) * 50);
        insert_all(&mut *anticipatory, now, [of(stream, read(0, u64::from(stream) << 30))]);
        let Pick::Go(request) = anticipatory.pick(now) else { panic!("nothing goes") };
        anticipatory.completed(now, &request, Nanos::ZERO);
        insert_all(&mut *anticipatory, now, [of(1_000, read(1, 0))]);
        if let Pick::WaitUntil(time) = anticipatory.pick(now) {
            waits += 1;
            assert!(matches!(anticipatory.pick(time), Pick::Go(_)));
        }
        let served = Request { arrival: now, ..of(1_000, read(1, 0)) };
        anticipatory.completed(now + ms(6), &served, Nanos::ZERO);
    }
    assert!((1..12).contains(&waits), "{waits} waits");
}

#[test]
fn asynchronous_writes_have_their_batches_next_to_busy_readers() {
    let writer = Process {
        op: block::Op::Write,
        sync: false,
        at_once: 32,
        stride: 10_000,
        ..Process::sequential_reader(1 << 40, Nanos::ZERO)
    };
    let readers = [Process::sequential_reader(0, ms(1)), Process::sequential_reader(1 << 30, ms(1)), writer];
    let report = run(&mut *scheduler_with("anticipatory", UNMERGED), &readers, ms(20_000));
    let write_share = report.served[2] as f64 * 8.0 / 20_000.0;
    assert!((0.1..0.35).contains(&write_share), "about 125 ms in 625 are the writer's; it had {write_share}");
}

#[test]
fn it_does_not_wait_for_a_process_with_queued_requests() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [of(2, read(1, 1 << 30)), read(2, 1 << 31)]);
    assert!(matches!(anticipatory.pick(ms(3)), Pick::Go(request) if request.stream == 2));

    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [read(1, 32), read(2, 100)]);
    assert!((0..2).all(|_| matches!(anticipatory.pick(ms(3)), Pick::Go(_))));
    insert_all(&mut *anticipatory, ms(3), [of(2, read(3, 1 << 30))]);
    assert!(matches!(anticipatory.pick(ms(3)), Pick::Go(request) if request.stream == 2), "two of its requests are at the device");
}

#[test]
fn the_wait_does_not_begin_before_the_last_completion() {
    let mut anticipatory = known_process("anticipatory");
    insert_all(&mut *anticipatory, ms(3), [read(1, 32), read(2, 100)]);
    let Pick::Go(first) = anticipatory.pick(ms(3)) else { panic!("nothing goes") };
    let Pick::Go(second) = anticipatory.pick(ms(3)) else { panic!("nothing goes") };
    anticipatory.completed(ms(5), &first, ms(2));
    insert_all(&mut *anticipatory, ms(5), [of(2, read(3, 1 << 30))]);
    for now in [5, 11, 30] {
        assert!(matches!(anticipatory.pick(ms(now)), Pick::WaitUntil(_)), "at {now} ms the second is still at the device");
    }
    anticipatory.completed(ms(31), &second, ms(28));
    assert_eq!(anticipatory.pick(ms(31)), Pick::WaitUntil(ms(37)));
}

/// A process with requests `stride` apart and this think time, whose last request has just completed.
fn process(think: Nanos, stride: u64) -> (Box<dyn block::Scheduler>, Nanos, u64) {
    let mut anticipatory = scheduler("anticipatory");
    let (mut now, mut lba) = (ms(1), 0);
    for _ in 0..20 {
        now += think;
        lba += stride;
        insert_all(&mut *anticipatory, now, [read(0, lba)]);
        let Pick::Go(request) = anticipatory.pick(now) else { panic!("nothing goes") };
        anticipatory.completed(now, &request, Nanos::ZERO);
    }
    (anticipatory, now, lba)
}

#[test]
fn a_process_that_thinks_longer_than_the_wait_is_not_waited_for() {
    for (think, goes) in [(ms(4), false), (ms(15), true)] {
        let (mut anticipatory, now, _) = process(think, 8);
        insert_all(&mut *anticipatory, now, [of(2, read(1, 1 << 40))]);
        assert_eq!(matches!(anticipatory.pick(now), Pick::Go(_)), goes, "thinking {think}");
    }
}

#[test]
fn a_process_that_seeks_far_is_not_waited_for_when_a_nearer_request_is_there() {
    for (stride, goes) in [(8, false), (1 << 20, true)] {
        let (mut anticipatory, now, lba) = process(ms(1), stride);
        insert_all(&mut *anticipatory, now, [of(2, read(1, lba + (1 << 18)))]);
        assert_eq!(matches!(anticipatory.pick(now), Pick::Go(_)), goes, "seeking {stride} sectors");
    }
}
