use block::{Limits, Merges, Nanos, Op, Pick, PriorityClass, Request};

use crate::disk::{Process, Report, run};
use crate::{insert_all, ms, read, scheduler, scheduler_with, write};

const UNMERGED: Limits = Limits { max_sectors: 0, merges: Merges::All };

/// Starts late enough after the one before that their queues are not taken for one task's.
fn reader(number: u64) -> Process {
    let starts = ms(1_000 * number);
    Process { starts, ..Process::sequential_reader(number << 30, Nanos::from_micros(50)) }
}

fn run_bfq(setting: &str, processes: &[Process]) -> Report {
    run(&mut *scheduler_with(setting, UNMERGED), processes, ms(30_000))
}

fn level(process: Process, level: u8) -> Process {
    process.with_priority(PriorityClass::BestEffort, level)
}

#[test]
fn equal_processes_get_equal_shares_with_few_seeks() {
    let alike = [0, 1, 2].map(|number| Process { starts: ms(0), ..reader(number) });
    let report = run_bfq("bfq:low_latency=0", &alike);
    let (least, most) = (report.served.iter().min().unwrap(), report.served.iter().max().unwrap());
    assert!(least * 100 > most * 90, "{:?}", report.served);
    assert!(report.seeks < report.total() / 50, "{} of {}", report.seeks, report.total());
}

#[test]
fn shares_follow_the_weights_of_the_priority_levels() {
    // Ten for each level: 80 at level 0, 40 at level 4, 10 at level 7.
    for (better, worse, expected) in [(0, 4, 2.0), (4, 7, 4.0), (0, 7, 8.0)] {
        let readers = [level(reader(0), better), level(Process { starts: ms(0), ..reader(1) }, worse)];
        let served = run_bfq("bfq:low_latency=0", &readers).served;
        let ratio = served[0] as f64 / served[1] as f64;
        assert!((expected * 0.85..expected * 1.15).contains(&ratio), "levels {better} and {worse}: {served:?}");
    }
}

#[test]
fn real_time_goes_before_best_effort_and_that_before_idle_which_is_not_starved() {
    let of = |class| {
        let favoured = reader(0).with_priority(class, 4);
        run_bfq("bfq:low_latency=0", &[favoured, Process { starts: ms(0), ..reader(1) }]).served
    };
    let (real_time, idle) = (of(PriorityClass::RealTime), of(PriorityClass::Idle));
    assert!(real_time[0] > 50 * real_time[1], "{real_time:?}");
    // One request each 200 ms or more.
    assert!(idle[0] * 20 < idle[1] && idle[0] > 30, "{idle:?}");
}

#[test]
fn a_longer_turn_means_fewer_seeks() {
    let seeks = |setting| run_bfq(setting, &[reader(0), reader(1)]).seeks;
    let (long, short) = (seeks("bfq:low_latency=0,max_budget=16384"), seeks("bfq:low_latency=0,max_budget=512"));
    assert!(long * 3 < short, "{long} and {short}");
}

#[test]
fn a_turn_ends_with_its_time() {
    // A budget that nobody uses up leaves only the time.
    let seeks = |setting| run_bfq(setting, &[reader(0), reader(1)]).seeks;
    let (long, short) = (
        seeks("bfq:low_latency=0,max_budget=1000000,timeout_sync=1000"),
        seeks("bfq:low_latency=0,max_budget=1000000,timeout_sync=100"),
    );
    assert!(long * 3 < short, "{long} and {short}");
}

#[test]
fn without_idling_it_runs_to_and_fro_between_the_readers() {
    let report = run_bfq("bfq:low_latency=0,slice_idle=0", &[reader(0), reader(1)]);
    assert!(report.seeks > report.total() / 3, "{} of {}", report.seeks, report.total());
}

#[test]
fn after_a_request_it_waits_slice_idle_for_the_next_of_the_process() {
    let mut bfq = scheduler("bfq:low_latency=0");
    insert_all(&mut *bfq, ms(0), [read(0, 0)]);
    let Pick::Go(request) = bfq.pick(ms(0)) else { panic!("nothing goes") };
    bfq.completed(ms(4), &request, ms(4));
    let stranger = Request { stream: 2, ..read(1, 1 << 30) };
    insert_all(&mut *bfq, ms(4), [stranger]);
    assert_eq!(bfq.pick(ms(4)), Pick::WaitUntil(ms(12)));
    assert!(matches!(bfq.pick(ms(12)), Pick::Go(request) if request.stream == 2));
}

#[test]
fn a_process_that_starts_beside_a_stream_gets_through_soon_with_low_latency_and_waits_its_turn_without() {
    // It begins after the stream has had its own time of grace, and asks for 100 requests, one after the other, here and there.
    let newcomer = Process { stride: 1 << 20, starts: ms(15_000), ..reader(1) };
    let served = |setting| {
        let report = run(&mut *scheduler_with(setting, UNMERGED), &[reader(0), newcomer], ms(16_000));
        report.served[1]
    };
    let (raised, not_raised) = (served("bfq"), served("bfq:low_latency=0"));
    assert!(raised > 2 * not_raised && raised > 80, "{raised} and {not_raised}");
}

#[test]
fn processes_that_read_the_same_place_in_turn_share_a_queue() {
    // Every other 4 KiB each: alone none is sequential, together they are.
    let interleaved = |first| Process { stride: 8, starts: ms(0), ..Process::sequential_reader(first, Nanos::from_micros(100)) };
    let both = [interleaved(0), interleaved(8)];
    let report = run_bfq("bfq", &both);
    assert!(report.seeks < report.total() / 10, "{} of {}", report.seeks, report.total());
}

#[test]
fn a_late_request_goes_first_once_a_turn() {
    let mut bfq = scheduler("bfq:low_latency=0,fifo_expire_sync=50");
    insert_all(&mut *bfq, ms(0), [read(0, 0), read(1, 1_000_000), read(2, 8_000)]);
    let lba = |pick| if let Pick::Go(request) = pick { request.lba } else { panic!("nothing goes") };
    assert_eq!(lba(bfq.pick(ms(0))), 0);
    insert_all(&mut *bfq, ms(60), (3..9).map(|n| read(n, 8_000 + u64::from(n) * 1_000)));
    // The next was chosen while nothing was late.
    assert_eq!(lba(bfq.pick(ms(60))), 8_000);
    let order: Vec<u64> = (0..7).map(|_| lba(bfq.pick(ms(60)))).collect();
    assert_eq!(order.iter().position(|&lba| lba == 1_000_000), Some(6), "asked once a turn, it was asked too early: {order:?}");
}

#[test]
fn it_goes_back_only_so_far_and_at_a_price() {
    let lba = |pick| if let Pick::Go(request) = pick { request.lba } else { panic!("nothing goes") };
    // A way back costs twice as much, and more than 16 MiB are too far.
    for (back, ahead, next) in [(1_000, 1_900, 101_900), (1_000, 2_100, 99_000), (40_000, 90_000, 190_000)] {
        let mut bfq = scheduler("bfq");
        insert_all(&mut *bfq, ms(0), [read(0, 100_000)]);
        assert_eq!(lba(bfq.pick(ms(0))), 100_000);
        insert_all(&mut *bfq, ms(0), [read(1, 100_000 - back), read(2, 100_000 + ahead)]);
        assert_eq!(lba(bfq.pick(ms(0))), next, "{back} back and {ahead} ahead");
    }
}

#[test]
fn asynchronous_writes_of_all_processes_share_the_queue_of_their_priority() {
    let mut bfq = scheduler("bfq");
    insert_all(&mut *bfq, ms(0), [write(0, 100)]);
    let neighbour = Request { stream: 2, ..write(1, 108) };
    assert_eq!(bfq.insert(ms(0), neighbour), block::Insertion::Merged { into: 0, absorbed: None });
}

#[test]
fn readers_are_not_held_up_by_a_flood_of_asynchronous_writes() {
    let writer = Process { op: Op::Write, sync: false, at_once: 128, stride: 99_992, starts: ms(0), ..reader(1) };
    let report = run_bfq("bfq", &[reader(0), writer]);
    let deadline = run(&mut *scheduler_with("mq-deadline", UNMERGED), &[reader(0), writer], ms(30_000));
    assert!(report.served[0] > 4 * deadline.served[0], "{:?} against {:?}", report.served, deadline.served);
    assert!(report.served[1] > 50, "but the writes go on: {:?}", report.served);
}
