//! Budget fair queueing.

use block::{
    Insertion, Limits, Merges, Nanos, Op, Pick, Priority, PriorityClass, Request, RequestId, Roster, Scheduler, StreamId, Tenant,
    parse,
};

use crate::disk::{Process, Report, run};
use crate::{insert_all, ms, pick_all, read, scheduler, scheduler_with, serve, serve_all, write};

const UNMERGED: Limits = Limits { max_sectors: 0, merges: Merges::All };

/// With a short think time: bfq does not idle for a process that is idle more than a fifth of the time, unless that keeps guarantees.
fn reader(number: u64) -> Process {
    Process::sequential_reader(number << 30, Nanos::from_micros(50))
}

fn seeky(number: u64) -> Process {
    Process { stride: 1 << 20, ..reader(number) }
}

fn at_level(level: u8, process: Process) -> Process {
    process.with_priority(PriorityClass::BestEffort, level)
}

fn run_bfq(setting: &str, processes: &[Process], millis: u64) -> Report {
    run(&mut *scheduler_with(setting, UNMERGED), processes, ms(millis))
}

fn of(stream: StreamId, request: Request) -> Request {
    Request { stream, ..request }
}

fn level(level: u8, request: Request) -> Request {
    Request { priority: Priority { level, ..request.priority }, ..request }
}

#[track_caller]
fn go(bfq: &mut dyn Scheduler, now: Nanos) -> Request {
    match bfq.pick(now) {
        Pick::Go(request) => request,
        other => panic!("a request should have gone, but: {other:?}"),
    }
}

/// Inserts a request into an empty scheduler, dispatches it and completes it at once.
#[track_caller]
fn alone(bfq: &mut dyn Scheduler, now: Nanos, request: Request) {
    alone_for(bfq, now, request, Nanos::ZERO);
}

/// The same with this service time.
#[track_caller]
fn alone_for(bfq: &mut dyn Scheduler, now: Nanos, request: Request, service: Nanos) {
    insert_all(bfq, now, [request]);
    let gone = go(bfq, now);
    assert_eq!((gone.stream, gone.lba), (request.stream, request.lba));
    bfq.completed(now + service, &gone, service);
}

/// How often the first process was served, relative to the second.
fn ratio(served: &[u64]) -> f64 {
    served[0] as f64 / served[1] as f64
}

// Shares.

#[test]
fn equal_processes_get_equal_shares_with_few_seeks() {
    let report = run_bfq("bfq:low_latency=0", &[reader(0), reader(1), reader(2)], 20_000);
    let (least, most) = (report.served.iter().min().unwrap(), report.served.iter().max().unwrap());
    assert!(least * 100 > most * 95, "{:?}", report.served);
    assert!(report.seeks < report.total() / 200);
}

#[test]
fn shares_follow_the_weights_of_the_priority_levels() {
    // Ten for each level: 80 at level 0, 40 at level 4, 10 at level 7.
    for (better, worse, expected) in [(0, 4, 2.0), (4, 7, 4.0), (0, 7, 8.0)] {
        let readers = [better, worse].map(|level| at_level(level, reader(u64::from(level))));
        let served = run_bfq("bfq:low_latency=0", &readers, 40_000).served;
        assert!((expected * 0.95..expected * 1.05).contains(&ratio(&served)), "levels {better} and {worse}: {served:?}");
    }
    let levels = [0, 4, 7].map(|level| at_level(level, reader(u64::from(level))));
    let served = run_bfq("bfq:low_latency=0", &levels, 40_000).served;
    assert!(served[0] * 10 > served[1] * 19 && served[1] * 10 > served[2] * 38, "{served:?}");
}

#[test]
fn tenants_share_by_weight_however_many_processes_they_have() {
    let (tenants, readers) = (vec![Tenant::new("a").with_weight(3), Tenant::new("b")], [0, 1, 2, 3].map(reader));
    // The second has three processes, the first one.
    let roster = Roster::new(tenants, Vec::new(), &[(1, 0), (2, 1), (3, 1), (4, 1)], 1).unwrap();
    for setting in ["bfq", "bfq:low_latency=0"] {
        let mut bfq = scheduler_with(setting, UNMERGED);
        bfq.set_roster(&roster);
        let served = run(&mut *bfq, &readers, ms(40_000)).served;
        let others: u64 = served[1..].iter().sum();
        assert!((2.7..3.3).contains(&(served[0] as f64 / others as f64)), "{setting}: {served:?}");
    }
}

#[test]
fn shares_are_measured_in_sectors_for_every_request_size() {
    // The small requests need more disk time per sector, as their process thinks before each.
    let large = Process { sectors: 64, ..reader(1) };
    for setting in ["bfq:low_latency=0", "bfq:low_latency=0,max_budget=1000"] {
        let served = run_bfq(setting, &[reader(0), large], 40_000).served;
        assert!((0.97..1.03).contains(&ratio(&[served[0] * 8, served[1] * 64])), "{setting}: {served:?}");
    }
}

#[test]
fn a_process_that_seeks_is_charged_for_its_time() {
    // By sectors it would get a half, and the disk would seek all the time.
    let late = Process { starts: ms(1_000), ..seeky(10) };
    let served = run_bfq("bfq:low_latency=0", &[reader(0), late], 20_000);
    // Each of its requests ends its turn. If only sectors were charged, it would soon have the next turn.
    assert!(served.served[0] > 100 * served.served[1] && served.served[1] > 100, "{:?}", served.served);
}

#[test]
fn asynchronous_requests_are_charged_threefold_unless_their_weight_is_greater() {
    let writer = Process { op: Op::Write, sync: false, at_once: 64, ..reader(1) };
    // Next to a queue of less weight they are charged like all others.
    for (writer, expected) in [(writer, 1.0 / 3.0), (at_level(0, writer), 2.0)] {
        let report = run_bfq("bfq:low_latency=0", &[reader(0), writer], 40_000);
        // A full turn is charged max_budget, which has to be learned first.
        let settled = &report.order[report.order.len() / 2..];
        let writes = settled.iter().filter(|&&stream| stream == 2).count();
        let ratio = writes as f64 / (settled.len() - writes) as f64;
        assert!((expected * 0.93..expected * 1.07).contains(&ratio), "{ratio} instead of {expected}");
    }
}

#[test]
fn asynchronous_requests_wait_in_the_queue_of_their_priority() {
    let mut bfq = scheduler("bfq");
    insert_all(&mut *bfq, ms(0), [write(0, 100)]);
    assert_eq!(bfq.insert(ms(0), of(2, write(1, 108))), Insertion::Merged { into: 0, absorbed: None });
    assert_eq!(bfq.insert(ms(0), level(3, of(2, write(2, 116)))), Insertion::Queued);

    let writer = |number| Process { op: Op::Write, sync: false, at_once: 32, ..reader(number) };
    let served = run_bfq("bfq:low_latency=0", &[at_level(0, writer(0)), at_level(6, writer(1))], 20_000).served;
    assert!((11.0..13.0).contains(&ratio(&served)), "weights 80 and 20, and the lesser pays threefold: {served:?}");
}

// Classes.

#[test]
fn real_time_goes_before_best_effort() {
    let fast = reader(0).with_priority(PriorityClass::RealTime, 7);
    let served = run_bfq("bfq:low_latency=0", &[fast, at_level(0, reader(1)), reader(2)], 20_000).served;
    assert!(served[0] > 100 * (served[1] + served[2]), "{served:?}");
}

#[test]
fn a_request_of_a_more_urgent_class_preempts_a_turn() {
    let mut bfq = scheduler("bfq:low_latency=0");
    insert_all(&mut *bfq, ms(0), (0..9).map(|n| read(n, u64::from(n) * 100)));
    assert_eq!(serve(&mut *bfq, ms(0)), 0);
    let urgent = Priority { class: PriorityClass::RealTime, level: 7 };
    insert_all(&mut *bfq, ms(1), [Request { priority: urgent, ..of(2, read(20, 1 << 30)) }]);
    assert_eq!(serve(&mut *bfq, ms(1)), 1 << 30);
}

#[test]
fn the_idle_class_has_the_disk_to_itself_or_one_request_each_200_ms() {
    let idle = reader(0).with_priority(PriorityClass::Idle, 0);
    let lazy = Process { think: ms(200), ..reader(1) };
    let served = run_bfq("bfq:low_latency=0", &[idle, lazy], 20_000).served;
    assert!(served[0] > 100 * served[1], "{served:?}");
    let served = run_bfq("bfq:low_latency=0", &[idle, reader(1)], 20_000).served;
    // One at the end of the turn of 124 ms that is in progress after 200.
    assert!((70..=100).contains(&served[0]), "{served:?}");
}

// Turns.

fn run_lengths(setting: &str) -> Vec<usize> {
    run_lengths_with(&mut *scheduler_with(setting, UNMERGED))
}

fn run_lengths_with(bfq: &mut dyn Scheduler) -> Vec<usize> {
    let report = run(bfq, &[reader(0), reader(1)], ms(20_000));
    let lengths: Vec<usize> = report.order.chunk_by(|a, b| a == b).map(<[_]>::len).collect();
    lengths[lengths.len() / 2..lengths.len() - 1].to_vec()
}

#[test]
fn a_turn_is_worth_max_budget_sectors() {
    for (setting, expected) in [("bfq:low_latency=0,max_budget=400", 50), ("bfq:low_latency=0,max_budget=200", 25)] {
        let lengths = run_lengths(setting);
        assert!(lengths.len() > 20 && lengths.iter().all(|&length| length == expected), "{setting}: {lengths:?}");
    }
    let mut bfq = scheduler_with("bfq:low_latency=0", UNMERGED);
    bfq.retune(&parse("bfq:low_latency=0,max_budget=400").unwrap().1);
    assert!(run_lengths_with(&mut *bfq).iter().all(|&length| length == 50), "set later");
    // 124 ms at 0.45 ms for each request.
    let lengths = run_lengths("bfq:low_latency=0");
    let whole = lengths.iter().filter(|&length| (250..280).contains(length)).count();
    // A process that is charged a little less than the other occasionally has two turns in a row.
    assert!(whole * 20 > lengths.len() * 19, "{lengths:?}");
}

#[test]
fn a_turn_ends_at_timeout_sync_at_the_latest() {
    for (setting, ends) in [("bfq:low_latency=0", 124), ("bfq:low_latency=0,timeout_sync=50", 50)] {
        let mut bfq = scheduler(setting);
        insert_all(&mut *bfq, ms(0), (0..300).map(|n| read(n, u64::from(n) * 16)));
        assert_eq!(serve(&mut *bfq, ms(0)), 0);
        insert_all(&mut *bfq, ms(0), [of(2, read(300, 1 << 30))]);
        let turn = (1..).find(|&millis| serve(&mut *bfq, ms(millis)) == 1 << 30);
        assert_eq!(turn, Some(ends), "{setting}");
    }
}

#[test]
fn a_process_that_returns_soon_after_its_turn_continues_with_its_remaining_budget() {
    // Within three times slice_idle after its last completion.
    for (comes, first) in [(20, 8), (25, 1 << 30)] {
        let mut bfq = scheduler("bfq:low_latency=0");
        alone(&mut *bfq, ms(0), read(0, 0));
        insert_all(&mut *bfq, ms(0), (1..90).map(|n| of(2, read(n, (1 << 30) + u64::from(n) * 16 - 32))));
        assert_eq!(bfq.pick(ms(0)), Pick::WaitUntil(ms(8)));
        assert_eq!(serve(&mut *bfq, ms(8)), (1 << 30) - 16, "the wait is over");
        insert_all(&mut *bfq, ms(comes), [read(100, 8)]);
        assert_eq!(serve(&mut *bfq, ms(comes)), first, "at {comes} ms");
    }
}

// Waiting.

#[test]
fn at_the_end_of_a_request_it_waits_slice_idle_for_the_next() {
    for (setting, waits) in [("bfq:low_latency=0", 8), ("bfq:low_latency=0,slice_idle=3", 3)] {
        let mut bfq = scheduler(setting);
        insert_all(&mut *bfq, ms(0), [read(0, 0)]);
        let request = go(&mut *bfq, ms(0));
        insert_all(&mut *bfq, ms(0), [of(2, read(1, 1 << 30))]);
        assert!(matches!(bfq.pick(ms(0)), Pick::WaitUntil(_)), "the process in turn has a request at the device");
        bfq.completed(ms(4), &request, ms(4));
        assert_eq!(bfq.pick(ms(4)), Pick::WaitUntil(ms(4 + waits)));
        insert_all(&mut *bfq, ms(5), [read(2, 8)]);
        assert_eq!(serve(&mut *bfq, ms(5)), 8);
        assert_eq!(bfq.pick(ms(5)), Pick::WaitUntil(ms(5 + waits)));
        assert_eq!(serve(&mut *bfq, ms(5 + waits)), 1 << 30);
    }
}

#[test]
fn without_slice_idle_it_seeks_between_the_readers() {
    let report = run_bfq("bfq:low_latency=0,slice_idle=0", &[reader(0), reader(1)], 10_000);
    assert!(report.seeks > report.total() / 2);
}

#[test]
fn no_idling_for_a_process_that_is_idle_more_than_a_fifth_of_the_time() {
    let lazy = |number| Process { think: Nanos::from_micros(300), ..reader(number) };
    let report = run_bfq("bfq:low_latency=0", &[lazy(0), lazy(1)], 10_000);
    assert!(report.seeks > report.total() / 2);
}

/// A process at this level has issued 40 seeky requests, and nine requests of another process at level 4 are queued. Returns how many of
/// those go before the process returns.
fn sent_after_seeks(setting: &str, own_level: u8) -> usize {
    let mut bfq = scheduler(setting);
    for n in 1..40 {
        alone_for(&mut *bfq, ms(n * 10), level(own_level, read(0, n << 20)), ms(8));
    }
    let now = ms(398);
    insert_all(&mut *bfq, now, (100..109).map(|n| of(2, read(n, u64::from(n) << 40))));
    (0..20).take_while(|_| matches!(bfq.pick(now), Pick::Go(_))).count()
}

#[test]
fn idling_for_a_seeky_process_only_keeps_a_greater_weight() {
    // One request goes during idling.
    for (own_level, sent) in [(0, 1), (4, 9), (6, 9)] {
        assert_eq!(sent_after_seeks("bfq:low_latency=0", own_level), sent, "level {own_level}");
    }
    assert_eq!(sent_after_seeks("bfq:low_latency=0,slice_idle=0", 0), 9);
}

#[test]
fn with_a_queue_depth_of_one_it_idles_even_for_a_seeky_process() {
    for (at_once, waits) in [(1, true), (5, false)] {
        let mut bfq = scheduler("bfq:low_latency=0,timeout_sync=10000");
        let mut flights = std::collections::VecDeque::new();
        for n in 0..320 {
            let now = ms(u64::from(n) * 10);
            insert_all(&mut *bfq, now, [read(n, u64::from(n % 7) << 20)]);
            // Five are queued or at the device.
            if n >= 5 {
                while flights.len() < at_once {
                    flights.push_back(go(&mut *bfq, now));
                }
                let done = flights.pop_front().unwrap();
                bfq.completed(now + ms(8), &done, ms(8));
            }
        }
        let now = ms(3_198);
        while let Pick::Go(request) = bfq.pick(now) {
            flights.push_back(request);
        }
        insert_all(&mut *bfq, now, [of(2, read(500, 1 << 40))]);
        flights.drain(..).for_each(|request| bfq.completed(now + ms(8), &request, ms(8)));
        // Not as long as for a sequential reader.
        assert_eq!(bfq.pick(now + ms(8)) == Pick::WaitUntil(now + ms(10)), waits, "{at_once} at once");
    }
}

#[test]
fn two_processes_that_seek_do_not_wait_for_each_other() {
    let lazy = |number| Process { think: ms(5), ..seeky(number) };
    let total = run_bfq("bfq", &[lazy(0), lazy(50)], 20_000).total();
    assert!(total > 20_000 / 8 * 95 / 100, "{total}");
}

// Injection and wakers.

/// A sequential process at level 0 with this think time before each of its 20 requests, and their service time.
fn thinker(think: Nanos, service: Nanos) -> (Box<dyn Scheduler>, Nanos) {
    let mut bfq = scheduler("bfq:low_latency=0");
    let mut now = ms(1);
    for n in 0..20 {
        now += think;
        alone_for(&mut *bfq, now, level(0, read(n, u64::from(n) * 8)), service);
        now += service;
    }
    (bfq, now)
}

#[test]
fn during_idling_for_a_process_with_long_think_times_another_request_may_go() {
    for (think, goes) in [(ms(15), true), (ms(1), false)] {
        let (mut bfq, now) = thinker(think, ms(10));
        insert_all(&mut *bfq, now, (0..9).map(|n| of(2, read(50 + n, (1 << 40) + u64::from(n) * 100))));
        insert_all(&mut *bfq, now, [level(0, read(40, 160))]);
        let own = go(&mut *bfq, now);
        assert_eq!(own.stream, 1);
        bfq.completed(now, &own, Nanos::ZERO);
        assert_eq!(matches!(bfq.pick(now), Pick::Go(request) if request.stream == 2), goes, "thinking {think}");
        assert!(matches!(bfq.pick(now), Pick::WaitUntil(_)), "no more than one");
        insert_all(&mut *bfq, now + ms(1), [level(0, read(41, 168))]);
        assert_eq!(go(&mut *bfq, now + ms(1)).stream, 1, "the wait goes on");
    }
}

#[test]
fn during_idling_the_processs_own_asynchronous_writes_may_go() {
    for stream in [1, 2] {
        let (mut bfq, now) = thinker(ms(1), ms(10));
        insert_all(&mut *bfq, now, [level(0, of(stream, write(40, 1 << 40)))]);
        assert_eq!(matches!(bfq.pick(now), Pick::Go(_)), stream == 1);
    }
}

#[test]
fn requests_of_the_waker_are_injected_first() {
    for (delay, first) in [(1, 3), (5, 2)] {
        let (mut bfq, mut now) = thinker(ms(15), Nanos::ZERO);
        for n in 0..6_u64 {
            // Stream 1 issues a request shortly after one of stream 3 completes.
            now += ms(20);
            alone(&mut *bfq, now, level(7, of(3, read(40, n << 21))));
            now += ms(delay);
            alone(&mut *bfq, now, level(0, read(41, n << 22)));
        }
        now += ms(100);
        alone(&mut *bfq, now, level(0, read(41, 1 << 30)));
        insert_all(&mut *bfq, now, [of(2, read(50, 1 << 40)), level(7, of(3, read(51, 1 << 41)))]);
        assert_eq!(go(&mut *bfq, now).stream, first, "{delay} ms after");
    }
}

// Low latency.

/// How long the device is kept idle for a process after its request, though another process of another weight has one: 20 ms if it is
/// raised, otherwise 8.
fn wait_for(bfq: &mut dyn Scheduler, now: Nanos, request: Request) -> u64 {
    let stranger = |n: RequestId| level(6, of(1_000_000, read(1_000_000 + n, (1 << 45) + u64::from(n) * 100)));
    insert_all(bfq, now, [request]);
    let own = go(bfq, now);
    assert_eq!(own.stream, request.stream);
    insert_all(bfq, now, (0..4).map(stranger));
    bfq.completed(now, &own, Nanos::ZERO);
    // Some requests may be injected.
    let mut sent = Vec::new();
    let until = loop {
        match bfq.pick(now) {
            Pick::Go(request) => sent.push(request),
            Pick::WaitUntil(until) => break until,
            Pick::Empty => panic!("it does not wait"),
        }
    };
    while let Pick::Go(request) = bfq.pick(until) {
        sent.push(request);
    }
    assert_eq!(sent.len(), 4);
    sent.iter().for_each(|request| bfq.completed(until, request, Nanos::ZERO));
    (until - now).0 / 1_000_000
}

#[test]
fn a_starting_process_is_raised_with_low_latency_and_default_priority() {
    assert_eq!(wait_for(&mut *scheduler("bfq"), ms(1_000), read(0, 0)), 20);
    assert_eq!(wait_for(&mut *scheduler("bfq:low_latency=0"), ms(1_000), read(0, 0)), 8);
    assert_eq!(wait_for(&mut *scheduler("bfq"), ms(1_000), level(3, read(0, 0))), 8);
    let mut bfq = scheduler("bfq");
    assert_eq!(wait_for(&mut *bfq, ms(1_000), read(0, 0)), 20);
    bfq.retune(&parse("bfq:low_latency=0").unwrap().1);
    // From kernel traces: a queue in neither of its lists at that moment stays raised.
    assert_eq!(wait_for(&mut *bfq, ms(1_100), read(0, 8)), 20, "switched off while it had nothing to be served");
    let mut bfq = scheduler("bfq");
    insert_all(&mut *bfq, ms(1_000), [read(0, 0)]);
    bfq.retune(&parse("bfq:low_latency=0").unwrap().1);
    let own = go(&mut *bfq, ms(1_000));
    bfq.completed(ms(1_000), &own, Nanos::ZERO);
    assert_eq!(wait_for(&mut *bfq, ms(1_100), read(0, 8)), 8, "switched off while a request waited");
}

#[test]
fn a_process_that_was_idle_for_two_seconds_is_raised_again() {
    for (idle, expected) in [(1_990, 8), (2_010, 20)] {
        let mut bfq = scheduler("bfq");
        // More than a starting application reads.
        for n in 0..130 {
            insert_all(&mut *bfq, ms(u64::from(n)), [Request { sectors: 1_000, ..read(n, u64::from(n) * 1_000) }]);
            serve(&mut *bfq, ms(u64::from(n)));
        }
        assert_eq!(wait_for(&mut *bfq, ms(129), read(0, 130_000)), 8, "it was served 120,000 sectors");
        assert_eq!(wait_for(&mut *bfq, ms(129 + 8 + idle), read(0, 1 << 30)), expected, "after {idle} ms");
    }
}

#[test]
fn a_raised_process_is_lowered_after_its_time() {
    // At the initial rate: 7 s times 14,000, over two thirds of that.
    for (served_for, expected) in [(10_400_u64, 20), (10_600, 8)] {
        let mut bfq = scheduler("bfq");
        for n in 0..served_for / 10 {
            alone(&mut *bfq, ms(n * 10), read(0, n * 8));
        }
        assert_eq!(wait_for(&mut *bfq, ms(served_for), read(0, 1 << 30)), expected, "after {served_for} ms");
    }
}

#[test]
fn processes_that_start_in_a_burst_of_eight_are_not_raised() {
    // The idle class serves to end each one's turn at once.
    let waits = |pause: u64, count: u32| {
        let mut bfq = scheduler("bfq");
        for stream in 1..count {
            alone(&mut *bfq, ms(1_000 + u64::from(stream) * pause), of(stream, read(stream, u64::from(stream) << 30)));
        }
        wait_for(&mut *bfq, ms(1_000 + u64::from(count) * pause), of(count, read(0, 1 << 40)))
    };
    assert_eq!(waits(100, 7), 20);
    assert_eq!(waits(100, 8), 8);
    assert_eq!(waits(200, 8), 20, "180 ms apart there is no burst");
}

/// Completion and response times of a process that starts at 20 s next to two continuous readers.
fn next_to_streamers(setting: &str, process: Process, seconds: u64) -> Vec<(Nanos, Nanos)> {
    let streamer = Process { at_once: 4, ..reader(0) };
    let processes =
        [streamer, Process { starts: ms(1_000), first_lba: 1 << 32, ..streamer }, Process { starts: ms(20_000), ..process }];
    let report = run_bfq(setting, &processes, seconds * 1_000);
    report.done.iter().filter(|(stream, ..)| *stream == 3).map(|&(_, done, took)| (done, took)).collect()
}

#[test]
fn a_starting_application_is_not_delayed_by_streaming_readers() {
    let application = Process { think: ms(30), ..seeky(100) };
    let longest = |setting| next_to_streamers(setting, application, 25).into_iter().map(|(_, took)| took).max().unwrap();
    let (raised, alike) = (longest("bfq"), longest("bfq:low_latency=0"));
    assert!(raised < ms(10), "{raised}");
    assert!(alike > ms(100), "{alike}");
}

#[test]
fn a_player_with_small_periodic_requests_stays_served_at_once() {
    let player = Process { think: ms(40), sectors: 64, ..reader(100) };
    // By then the raising of a starting process is over.
    let late = |setting| next_to_streamers(setting, player, 80).into_iter().filter(|&(done, _)| done > ms(60_000));
    let longest = |setting| late(setting).map(|(_, took)| took).max().unwrap();
    let (raised, alike) = (longest("bfq"), longest("bfq:low_latency=0"));
    assert!(raised < ms(15), "{raised}");
    assert!(alike > ms(60), "{alike}");
}

#[test]
fn a_raised_process_gets_little_at_a_time() {
    let mut bfq = scheduler("bfq");
    insert_all(&mut *bfq, ms(0), (0..90).map(|n| level(6, of(2, read(n, (1 << 40) + u64::from(n) * 100)))));
    insert_all(&mut *bfq, ms(0), (100..190).map(|n| Request { sectors: 64, ..read(n, u64::from(n) * 100) }));
    // Twice the minimum budget: 1,024 sectors.
    let first = (0..90).take_while(|_| serve(&mut *bfq, ms(0)) < 1 << 40).count();
    assert_eq!(first, 16);
}

// Merging queues.

/// Whether processes 1 and 2 share a queue: then adjacent requests of theirs merge. No other requests are near.
fn share_a_queue(bfq: &mut dyn Scheduler, now: Nanos, lba: u64) -> bool {
    insert_all(bfq, now, [read(800, lba)]);
    bfq.insert(now, of(2, read(801, lba + 8))) != Insertion::Queued
}

#[test]
fn processes_that_read_interleaved_parts_of_a_file_make_one_sequential_reader() {
    let first = Process { stride: 8, ..reader(0) };
    let report = run_bfq("bfq:low_latency=0", &[first, Process { first_lba: 8, ..first }], 10_000);
    assert!(report.seeks < 20, "{} of {}", report.seeks, report.total());
}

/// Process 1 has queued requests and was first served at 0; process 2 starts this late and reads there. Whether they share a queue.
fn joined(late: Nanos, lba: u64) -> bool {
    let mut bfq = scheduler("bfq:low_latency=0");
    insert_all(&mut *bfq, ms(0), (0..20).map(|n| read(n, u64::from(n) * 16)));
    assert_eq!(serve(&mut *bfq, ms(0)), 0);
    insert_all(&mut *bfq, late, [of(2, read(100, 1 << 30))]);
    insert_all(&mut *bfq, late, [of(2, read(101, lba))]);
    share_a_queue(&mut *bfq, late, 1 << 31)
}

#[test]
fn a_process_that_starts_early_and_nearby_joins_the_queue_in_service() {
    assert!(joined(ms(90), 8_208));
    assert!(!joined(ms(90), 8_209), "too far");
    assert!(!joined(ms(110), 8_208), "too late");
}

#[test]
fn a_process_joins_no_queue_of_another_class() {
    let mut bfq = scheduler("bfq:low_latency=0");
    insert_all(&mut *bfq, ms(0), (0..20).map(|n| read(n, u64::from(n) * 16)));
    let priority = Priority { class: PriorityClass::RealTime, level: 4 };
    insert_all(&mut *bfq, ms(0), [1 << 30, 400].map(|lba| Request { priority, ..of(2, read(100, lba)) }));
    let mut first = [serve(&mut *bfq, ms(0)), serve(&mut *bfq, ms(0))];
    first.sort_unstable();
    assert_eq!(first, [400, 1 << 30], "both go by their class");
}

#[test]
fn a_process_that_seeks_joins_no_queue() {
    for (stride, joins) in [(8, true), (1 << 20, false)] {
        let mut bfq = scheduler("bfq:low_latency=0");
        for n in 0..40 {
            alone_for(&mut *bfq, ms(n * 10), of(2, read(0, n * stride)), ms(8));
        }
        let now = ms(1_000);
        insert_all(&mut *bfq, now, [read(0, 1 << 40), of(2, read(1, 1 << 41)), of(2, read(2, (1 << 40) + 100))]);
        assert_eq!(share_a_queue(&mut *bfq, now, 1 << 42), joins, "stride {stride}");
    }
}

#[test]
fn processes_with_a_shared_queue_are_split_when_they_seek() {
    for (stride, shared) in [(8, true), (1 << 20, false)] {
        let mut bfq = scheduler("bfq:low_latency=0");
        insert_all(&mut *bfq, ms(0), [read(0, 0), of(2, read(1, 100)), of(2, read(2, 30))]);
        assert!(share_a_queue(&mut *bfq, ms(0), 1 << 41));
        assert_eq!(serve_all(&mut *bfq, ms(0)).len() + serve_all(&mut *bfq, ms(100)).len(), 4);
        for n in 0..60 {
            // Longer than idling lasts, so each request has its own turn.
            let now = ms(1_000 + u64::from(n) * 10);
            alone(&mut *bfq, now, of(1 + n % 2, read(3, u64::from(n) * (8 + stride))));
        }
        assert_eq!(share_a_queue(&mut *bfq, ms(2_000), 1 << 42), shared, "stride {stride}");
    }
}

#[test]
fn seeky_processes_that_start_together_share_a_queue_permanently() {
    for (apart, stride, share) in [(100, 1 << 20, true), (200, 1 << 20, false), (100, 0, false)] {
        let mut bfq = scheduler("bfq:low_latency=0");
        let mut now = ms(1_000);
        insert_all(&mut *bfq, now, [read(0, 0)]);
        for n in 0..150 {
            let request = go(&mut *bfq, now);
            now += ms(8);
            // Each issues its next request at once.
            insert_all(&mut *bfq, now, [Request { lba: request.end() + stride, ..request }]);
            bfq.completed(now, &request, ms(8));
            if n == 0 {
                insert_all(&mut *bfq, ms(1_000 + apart), [of(2, read(0, 1 << 40))]);
                now = ms(1_000 + apart);
            }
        }
        assert_eq!(share_a_queue(&mut *bfq, now, 1 << 42), share, "{apart} ms apart, {stride} sectors between requests");
    }
}

/// A scheduler that has seen random reads complete every 100 us, with several in flight.
fn on_flash(setting: &str) -> Box<dyn Scheduler> {
    let mut bfq = scheduler(setting);
    for n in 0..100 {
        let now = Nanos::from_micros(u64::from(n) * 100);
        alone_for(&mut *bfq, now, of(99, read(n, u64::from(n * 7 % 64) << 30)), Nanos::from_micros(100));
    }
    bfq
}

#[test]
fn on_flash_processes_that_start_shortly_after_each_other_share_a_queue_at_once() {
    for (mut bfq, share) in [(on_flash("bfq:low_latency=0"), true), (scheduler("bfq:low_latency=0"), false)] {
        assert_eq!(share_a_queue(&mut *bfq, ms(1_000), 1 << 40), share);
    }
}

#[test]
fn on_flash_it_does_not_wait_for_a_reader_among_equals() {
    for (mut bfq, goes) in [(on_flash("bfq:low_latency=0"), true), (scheduler("bfq:low_latency=0"), false)] {
        insert_all(&mut *bfq, ms(1_000), [read(200, 0)]);
        let request = go(&mut *bfq, ms(1_000));
        insert_all(&mut *bfq, ms(1_001), [of(2, read(201, 1 << 40))]);
        bfq.completed(ms(1_001), &request, ms(1));
        assert_eq!(matches!(bfq.pick(ms(1_001)), Pick::Go(_)), goes);
    }
}

// Which request of a queue.

#[test]
fn the_head_may_turn_back_for_a_short_way() {
    let first = |setting| {
        let mut bfq = scheduler(setting);
        insert_all(&mut *bfq, ms(0), [read(0, 100_000)]);
        let begun = go(&mut *bfq, ms(0));
        insert_all(&mut *bfq, ms(0), [read(1, 99_000), read(2, 101_600)]);
        bfq.completed(ms(1), &begun, ms(1));
        serve(&mut *bfq, ms(1))
    };
    // 1,008 sectors back, 1,592 forth.
    assert_eq!(first("bfq"), 101_600, "the way back counts twice");
    assert_eq!(first("bfq:back_seek_penalty=1"), 99_000);
    assert_eq!(first("bfq:back_seek_penalty=1,back_seek_max=504"), 99_000);
    assert_eq!(first("bfq:back_seek_penalty=1,back_seek_max=503"), 101_600);
}

#[test]
fn a_request_that_has_waited_too_long_goes_first_once_a_turn() {
    let order = |setting, sync, waited| {
        let kind = |id, lba| of(2, Request { op: if sync { Op::Read } else { Op::Write }, ..write(id, lba) });
        let mut bfq = scheduler(&format!("bfq:slice_idle=0,back_seek_max=0,{setting}"));
        alone(&mut *bfq, ms(0), read(0, 10_000));
        insert_all(&mut *bfq, ms(0), [kind(1, 300), kind(2, 200), kind(3, 11_000)]);
        insert_all(&mut *bfq, ms(1), [kind(4, 12_000), kind(5, 13_000)]);
        serve_all(&mut *bfq, ms(waited))
    };
    let (upwards, oldest) = ([11_000, 12_000, 13_000, 200, 300], [11_000, 300, 12_000, 13_000, 200]);
    for (setting, sync, expires) in
        [("fifo_expire_sync=125", true, 125), ("fifo_expire_sync=30", true, 30), ("fifo_expire_async=250", false, 250)]
    {
        assert_eq!(order(setting, sync, expires - 1), upwards, "{setting}");
        assert_eq!(order(setting, sync, expires), oldest, "{setting}");
    }
}

// The rest.

#[test]
fn strict_guarantees_send_one_request_at_a_time_and_always_idle() {
    let mut bfq = scheduler("bfq:low_latency=0,slice_idle=0,strict_guarantees=1");
    let priority = Priority { class: PriorityClass::Idle, level: 7 };
    insert_all(&mut *bfq, ms(0), [Request { priority, ..read(0, 0) }]);
    let request = go(&mut *bfq, ms(0));
    insert_all(
        &mut *bfq,
        ms(0),
        [Request { priority, ..of(2, read(1, 1 << 30)) }, Request { priority, ..of(2, read(2, 1 << 31)) }],
    );
    assert!(matches!(bfq.pick(ms(0)), Pick::WaitUntil(_)), "one is at the device");
    bfq.completed(ms(1), &request, ms(1));
    assert_eq!(bfq.pick(ms(1)), Pick::WaitUntil(ms(9)), "slice_idle is 8 ms at least, for the idle class too");
    go(&mut *bfq, ms(9));
    assert!(matches!(bfq.pick(ms(9)), Pick::WaitUntil(_)), "one is at the device");
}

#[test]
fn tags_are_reserved_for_reads_and_more_of_them_with_a_raised_process() {
    let mut bfq = scheduler("bfq");
    let open = |bfq: &dyn Scheduler, op, sync| bfq.open_tags(64, &Request { op, sync, ..read(0, 0) });
    assert_eq!(open(&*bfq, Op::Write, false), 32);
    assert_eq!(open(&*bfq, Op::Write, true), 48);
    assert_eq!(open(&*bfq, Op::Read, true), 64);
    insert_all(&mut *bfq, ms(0), [read(0, 0)]);
    assert_eq!(open(&*bfq, Op::Write, false), 12);
    assert_eq!(open(&*bfq, Op::Write, true), 24);
    assert_eq!(open(&*bfq, Op::Read, true), 64);
}

#[test]
fn a_queue_that_holds_its_share_of_the_tags_may_take_the_first_one_only() {
    let mut bfq = scheduler("bfq:low_latency=0");
    let open = |bfq: &dyn Scheduler, request| bfq.open_tags(64, &request);
    insert_all(&mut *bfq, ms(0), (0..47).map(|n| read(n, u64::from(n) * 100)));
    let sync_write = Request { sync: true, ..write(90, 9_000) };
    assert_eq!((open(&*bfq, sync_write), open(&*bfq, read(90, 9_000))), (48, 64), "alone");
    insert_all(&mut *bfq, ms(0), [read(47, 4_700)]);
    assert_eq!((open(&*bfq, sync_write), open(&*bfq, read(90, 9_000))), (1, 64), "as many as are open to it");
    // Weights 40 and 80, later 80 next to an idle one of 10, which counts even less.
    insert_all(&mut *bfq, ms(0), (100..142).map(|n| level(0, of(2, read(n, (1 << 30) + u64::from(n) * 100)))));
    assert_eq!(open(&*bfq, read(90, 9_000)), 1, "its share is 21");
    assert_eq!(open(&*bfq, level(0, of(2, read(90, 9_000)))), 64, "its share is 43");
    insert_all(&mut *bfq, ms(0), [level(0, of(2, read(142, 1 << 31)))]);
    assert_eq!(open(&*bfq, level(0, of(2, read(90, 9_000)))), 1);
    assert_eq!(open(&*bfq, of(3, read(90, 9_000))), 64, "one that has no queue yet");
    // Requests at the device count, completed ones do not.
    let requests = pick_all(&mut *bfq, ms(0));
    assert!(requests.len() > 40 && requests.iter().all(|request| request.stream == requests[0].stream));
    let own = |request: &Request| Request { lba: 9_000, ..*request };
    assert_eq!(open(&*bfq, own(&requests[0])), 1);
    requests[..42].iter().for_each(|request| bfq.completed(ms(1), request, ms(1)));
    assert_eq!(open(&*bfq, own(&requests[0])), 64);
}

#[test]
fn tags_are_divided_by_class_first() {
    let mut bfq = scheduler("bfq:low_latency=0");
    let of_class = |class, stream, request| Request { priority: Priority { class, level: 4 }, ..of(stream, request) };
    let urgent = |n: u32| of_class(PriorityClass::RealTime, 2, read(n, u64::from(n) * 100));
    insert_all(&mut *bfq, ms(0), (0..7).map(|n| read(n, (1 << 40) + u64::from(n) * 100)).chain((10..30).map(urgent)));
    assert_eq!(bfq.open_tags(64, &urgent(90)), 64);
    // 40 next to eight times 40.
    assert_eq!(bfq.open_tags(64, &read(90, 0)), 1, "its share is 7");
    assert_eq!(bfq.open_tags(80, &read(90, 0)), 80, "its share is 9");
}

#[test]
fn thousands_of_processes_start_and_end_in_any_order() {
    let mut bfq = scheduler("bfq");
    for stream in 0..30_000 {
        let now = Nanos::from_micros(u64::from(stream) * 10_000);
        let wide = |n: u32| of(stream ^ n, read(n, u64::from(stream * 7919 % 4096) * 10_000 + u64::from(n) * 16));
        insert_all(&mut *bfq, now, (0..4).map(wide));
        assert_eq!(serve_all(&mut *bfq, now).len() + serve_all(&mut *bfq, now + ms(100)).len(), 4);
    }
}
