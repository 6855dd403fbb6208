use block::{Limits, Merges, Nanos, Op, Pick, PriorityClass, Request};

use crate::disk::{Process, Report, run};
use crate::{insert_all, ms, read, scheduler, scheduler_with, write};

const UNMERGED: Limits = Limits { max_sectors: 0, merges: Merges::All };

fn reader(number: u64) -> Process {
    Process::sequential_reader(number << 30, Nanos::from_micros(300))
}

fn run_cfq(setting: &str, processes: &[Process]) -> Report {
    run(&mut *scheduler_with(setting, UNMERGED), processes, ms(20_000))
}

#[test]
fn equal_processes_get_equal_shares_with_few_seeks() {
    let report = run_cfq("cfq", &[reader(0), reader(1), reader(2)]);
    let (least, most) = (report.served.iter().min().unwrap(), report.served.iter().max().unwrap());
    assert!(least * 100 > most * 93, "{:?}", report.served);
    assert!(report.seeks < report.total() / 50);
}

#[test]
fn shares_follow_the_priority_levels() {
    // Two queues take turns of 180 ms at level 0, 100 at level 4 and 40 at level 7.
    for (better, worse, expected) in [(0, 4, 1.8), (4, 7, 2.5), (0, 7, 4.5)] {
        let readers = [better, worse].map(|level| reader(u64::from(level)).with_priority(PriorityClass::BestEffort, level));
        let served = run_cfq("cfq:low_latency=0", &readers).served;
        let ratio = served[0] as f64 / served[1] as f64;
        assert!((expected * 0.9..expected * 1.1).contains(&ratio), "levels {better} and {worse}: {served:?}");
    }
}

#[test]
fn among_three_a_lower_priority_also_has_its_turn_less_often() {
    // A queue's next turn is delayed by the difference from a turn at level 0, times the number of others (cfq_slice_offset).
    let levels = [0, 4, 7].map(|level| reader(u64::from(level)).with_priority(PriorityClass::BestEffort, level));
    let served = run_cfq("cfq:low_latency=0", &levels).served;
    assert!(served[1] > 3 * served[2], "the turns alone would give 2.5: {served:?}");
}

#[test]
fn a_longer_slice_means_fewer_seeks() {
    let seeks = |setting| run_cfq(setting, &[reader(0), reader(1)]).seeks;
    assert!(seeks("cfq:slice_sync=400,low_latency=0") * 2 < seeks("cfq:slice_sync=50,low_latency=0"));
}

#[test]
fn without_idling_it_seeks_between_the_readers() {
    let report = run_cfq("cfq:slice_idle=0", &[reader(0), reader(1)]);
    assert!(report.seeks > report.total() / 2);
}

#[test]
fn real_time_goes_before_best_effort() {
    let fast = reader(0).with_priority(PriorityClass::RealTime, 4);
    let served = run_cfq("cfq", &[fast, reader(1), reader(2)]).served;
    assert!(served[0] > 50 * (served[1] + served[2]), "{served:?}");
}

#[test]
fn the_idle_class_is_served_only_without_other_requests() {
    let idle = reader(0).with_priority(PriorityClass::Idle, 0);
    let busy = run_cfq("cfq", &[idle, reader(1)]).served;
    assert!(busy[0] * 50 < busy[1], "{busy:?}");
    let lazy = Process { think: ms(200), ..reader(1) };
    let lazy = run_cfq("cfq", &[idle, lazy]).served;
    assert!(lazy[0] > 50 * lazy[1], "{lazy:?}");
}

#[test]
fn readers_are_not_held_up_by_a_flood_of_asynchronous_writes() {
    let writer = Process { op: Op::Write, sync: false, at_once: 128, stride: 99_992, ..reader(1) };
    let report = run_cfq("cfq", &[reader(0), writer]);
    let deadline = run(&mut *scheduler_with("deadline", UNMERGED), &[reader(0), writer], ms(20_000));
    assert!(report.served[0] > 4 * deadline.served[0], "{:?} against {:?}", report.served, deadline.served);
    assert!(report.served[1] > 50, "but the writes go on");
}

#[test]
fn it_does_not_wait_for_a_process_that_seeks() {
    let seeky = |number: u64| Process { stride: 1 << 20, think: ms(5), ..reader(number) };
    let report = run_cfq("cfq", &[seeky(0), seeky(50)]);
    // Without idling the disk serves one random request each 8 ms; waiting for the think time would make it 13.
    assert!(report.total() > 20_000 / 8 * 95 / 100, "{} requests", report.total());
}

#[test]
fn at_the_end_of_a_request_it_waits_slice_idle_for_the_next() {
    let mut cfq = scheduler("cfq");
    insert_all(&mut *cfq, ms(0), [read(0, 0)]);
    let Pick::Go(request) = cfq.pick(ms(0)) else { panic!("nothing goes") };
    let stranger = Request { stream: 2, ..read(1, 1 << 30) };
    insert_all(&mut *cfq, ms(0), [stranger]);
    assert!(matches!(cfq.pick(ms(0)), Pick::WaitUntil(_)), "the process in turn has a request at the device");
    cfq.completed(ms(4), &request, ms(4));
    assert_eq!(cfq.pick(ms(4)), Pick::WaitUntil(ms(12)));
    assert!(matches!(cfq.pick(ms(12)), Pick::Go(request) if request.stream == 2));
}

#[test]
fn a_close_request_may_use_the_idle_time() {
    let mut cfq = scheduler("cfq");
    insert_all(&mut *cfq, ms(0), [read(0, 0)]);
    let Pick::Go(request) = cfq.pick(ms(0)) else { panic!("nothing goes") };
    cfq.completed(ms(4), &request, ms(4));
    insert_all(&mut *cfq, ms(5), [Request { stream: 2, ..read(1, 4_000) }]);
    assert!(matches!(cfq.pick(ms(5)), Pick::Go(request) if request.stream == 2));
}

#[test]
fn asynchronous_writes_of_all_processes_share_the_queue_of_their_priority() {
    let mut cfq = scheduler("cfq");
    insert_all(&mut *cfq, ms(0), [write(0, 100)]);
    let neighbour = Request { stream: 2, ..write(1, 108) };
    assert_eq!(cfq.insert(ms(0), neighbour), block::Insertion::Merged { into: 0, absorbed: None });
}

#[test]
fn quantum_limits_what_one_process_has_at_the_device_while_others_wait() {
    for (setting, most) in [("cfq", 4), ("cfq:quantum=2", 1)] {
        let mut cfq = scheduler(setting);
        insert_all(&mut *cfq, ms(0), (0..20).map(|n| read(n, u64::from(n) * 1_000)));
        insert_all(&mut *cfq, ms(0), (20..40).map(|n| Request { stream: 2, ..read(n, u64::from(n) * 1_000) }));
        let sent = (0..40).take_while(|_| matches!(cfq.pick(ms(0)), Pick::Go(_))).count();
        assert_eq!(sent, most, "{setting}");
    }
}

#[test]
fn it_does_not_wait_for_a_process_that_thinks_longer_than_slice_idle() {
    for (think, goes) in [(ms(4), false), (ms(15), true)] {
        let mut cfq = scheduler("cfq");
        let mut now = ms(0);
        // Long enough for its service tree's think time to be known as well.
        for n in 0..40 {
            now += think;
            insert_all(&mut *cfq, now, [read(0, n * 8)]);
            let Pick::Go(request) = cfq.pick(now) else { panic!("nothing goes") };
            cfq.completed(now, &request, Nanos::ZERO);
        }
        insert_all(&mut *cfq, now, [Request { stream: 2, ..read(1, 1 << 30) }]);
        assert_eq!(matches!(cfq.pick(now), Pick::Go(_)), goes, "thinking {think}");
    }
}

#[test]
fn asynchronous_writes_wait_while_a_synchronous_request_is_at_the_device() {
    let mut cfq = scheduler("cfq:slice_idle=0");
    insert_all(&mut *cfq, ms(0), [read(0, 0)]);
    let Pick::Go(request) = cfq.pick(ms(0)) else { panic!("nothing goes") };
    insert_all(&mut *cfq, ms(0), [write(1, 1_000)]);
    assert!(matches!(cfq.pick(ms(0)), Pick::WaitUntil(_)));
    cfq.completed(ms(1), &request, ms(1));
    assert!(matches!(cfq.pick(ms(1)), Pick::Go(request) if request.op == Op::Write));
}

#[test]
fn after_a_delayed_read_asynchronous_writes_go_one_at_a_time() {
    for (setting, waited, expected) in [("cfq", 1, 10), ("cfq", 200, 1), ("cfq:low_latency=0", 200, 10)] {
        let mut cfq = scheduler(setting);
        insert_all(&mut *cfq, ms(0), [read(0, 0)]);
        let Pick::Go(request) = cfq.pick(ms(0)) else { panic!("nothing goes") };
        cfq.completed(ms(waited), &request, ms(waited));
        let now = ms(waited + 20);
        insert_all(&mut *cfq, now, (1..11).map(|n| write(n, u64::from(n) * 1_000)));
        let sent = (0..20).take_while(|_| matches!(cfq.pick(now), Pick::Go(_))).count();
        assert_eq!(sent, expected, "{setting} after a read of {waited} ms");
    }
}

#[test]
fn a_turn_of_asynchronous_writes_is_as_long_as_slice_async_rq_says() {
    for (setting, turn) in [("cfq", 16), ("cfq:slice_async_rq=1", 8)] {
        let mut cfq = scheduler(setting);
        let level_5 = |n: u32| {
            let request = write(n, u64::from(n) * 1_000);
            Request { priority: block::Priority { level: 5, ..request.priority }, ..request }
        };
        insert_all(&mut *cfq, ms(0), (0..40).map(|n| write(n, u64::from(n) * 1_000)));
        insert_all(&mut *cfq, ms(0), (100..140).map(level_5));
        let in_first_turn = (0..80).take_while(|&n| crate::serve(&mut *cfq, ms(2 * n)) < 100_000).count();
        assert_eq!(in_first_turn, turn, "{setting}");
    }
}

#[test]
fn a_turn_begins_with_the_oldest_request_if_it_has_expired() {
    for (waited, first) in [(124, 100), (125, 10_000_000)] {
        let mut cfq = scheduler("cfq");
        insert_all(&mut *cfq, ms(0), [read(0, 10_000_000), read(1, 100)]);
        assert!(matches!(cfq.pick(ms(waited)), Pick::Go(request) if request.lba == first), "after {waited} ms");
    }
}
