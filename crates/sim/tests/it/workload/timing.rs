use std::cmp::Reverse;
use std::collections::BinaryHeap;

use block::Nanos;
use proptest::prelude::*;
use sim::host::{Action, Call};
use sim::run::{Finished, Flushed, Issue, Measure, Server, Transferred, Watch};
use sim::workload::{WorkloadRun, run};

use super::{placed, short};

/// Serves every call in the same time, as many at once as there are.
pub struct Constant {
    service: Nanos,
    under_way: BinaryHeap<Reverse<(Nanos, u64)>>,
    /// All calls ever made, by number: when, and what.
    pub calls: Vec<(Nanos, Call)>,
    pub most_under_way: usize,
}

impl Constant {
    fn new(service: Nanos) -> Constant {
        Constant { service, under_way: BinaryHeap::new(), calls: Vec::new(), most_under_way: 0 }
    }
}

impl Server for Constant {
    type Work = Call;

    fn has_room(&self) -> bool {
        true
    }

    fn admit(&mut self, now: Nanos, call: Call) {
        // It has no page cache, and that call has no completion.
        if let Action::Invalidate { .. } = call.action {
            return;
        }
        assert_eq!(call.token, self.calls.len() as u64);
        self.under_way.push(Reverse((now + self.service, call.token)));
        self.most_under_way = self.most_under_way.max(self.under_way.len());
        self.calls.push((now, call));
    }

    fn next_event(&self) -> Option<Nanos> {
        self.under_way.peek().map(|Reverse((at, _))| *at)
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while self.next_event().is_some_and(|at| at <= now) {
            let Some(Reverse((at, token))) = self.under_way.pop() else { return };
            let (arrival, call) = self.calls[token as usize];
            let (stream, priority) = (call.stream, call.priority);
            finished.push(match call.action {
                Action::Access { op, bytes, .. } => {
                    let issue = Issue { arrival, lba: 0, sectors: bytes / 512, op, sync: true, stream, priority, token };
                    Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: arrival, at })
                }
                Action::Sync { .. } | Action::Invalidate { .. } => Finished::Flush(Flushed { arrival, stream, token, at }),
            });
        }
    }

    fn dispatch(&mut self, _now: Nanos) {}
}

pub const MS: u64 = 1_000_000;

/// Runs a job file against a server that takes `service_us` for everything.
pub fn run_against(text: &str, service_us: u64, only: Option<usize>) -> (Constant, WorkloadRun) {
    let placed = placed(text);
    let mut server = Constant::new(Nanos::from_micros(service_us));
    let outcome =
        run(&placed, &mut server, only.as_ref().map(std::slice::from_ref), Measure::new([]), &Watch::default(), None).unwrap();
    (server, outcome)
}

/// When the calls of `stream` were made, in ms.
pub fn times(server: &Constant, stream: u32) -> Vec<f64> {
    server.calls.iter().filter(|(_, call)| call.stream == stream).map(|(at, _)| at.as_millis_f64()).collect()
}

pub fn every(step: f64, number: usize) -> Vec<f64> {
    (0..number).map(|i| i as f64 * step).collect()
}

#[test]
fn a_job_issues_exactly_its_requests() {
    let text = "[j]\nrw=randrw\nsize=1m\nfsync=5\nioengine=libaio\ndirect=1\niodepth=8\n";
    let (server, outcome) = run_against(text, 1000, None);
    let issued: Vec<_> = server.calls.iter().map(|(_, call)| short(call.action)).collect();
    assert_eq!(issued, placed(text).requests(0).map(short).collect::<Vec<_>>());
    assert_eq!(outcome.measure.all.count(), issued.iter().filter(|s| s.0 != 'S').count() as u64);
}

#[test]
fn a_synchronous_job_has_one_call_in_flight_at_any_depth() {
    for options in ["iodepth=16", "ioengine=libaio\niodepth=16", "ioengine=posixaio\niodepth=16"] {
        let (server, outcome) = run_against(&format!("[j]\nrw=read\nsize=40k\n{options}\n"), 1000, None);
        assert_eq!(times(&server, 0), every(1.0, 10), "{options}");
        assert_eq!(outcome.spans[0].map(|span| span.ended), Some(Nanos(10 * MS)));
    }
}

#[test]
fn an_asynchronous_one_has_as_many_as_its_depth() {
    for options in ["ioengine=libaio\ndirect=1", "ioengine=io_uring", "ioengine=posixaio\nnrfiles=4"] {
        let (server, _) = run_against(&format!("[j]\nrw=read\nsize=64k\niodepth=4\n{options}\n"), 1000, None);
        assert_eq!(
            times(&server, 0),
            [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0, 3.0, 3.0, 3.0, 3.0],
            "{options}"
        );
        assert_eq!(server.most_under_way, 4);
    }
}

#[test]
fn a_low_mark_lets_the_queue_drain_and_a_batch_goes_out_together() {
    let text = |options: &str| format!("[j]\nrw=read\nsize=64k\nioengine=libaio\ndirect=1\niodepth=8\n{options}\n");
    let (server, _) = run_against(&text("iodepth_low=2"), 1000, None);
    // Six of the eight that are done are looked at, one by one; then the queue is filled, and drained again.
    assert_eq!(times(&server, 0), [vec![0.0; 8], vec![1.0; 6], vec![2.0; 2]].concat());
    let (server, _) = run_against(&text("iodepth_batch_complete_min=8\niodepth_batch=4"), 1000, None);
    assert_eq!(times(&server, 0), [vec![0.0; 8], vec![1.0; 8]].concat());
}

#[test]
fn an_fsync_waits_for_the_ios_in_flight_and_is_waited_for() {
    let (server, _) = run_against("[j]\nrw=write\nsize=32k\nioengine=libaio\ndirect=1\niodepth=8\nfsync=4\n", 1000, None);
    let issued: Vec<_> = server.calls.iter().map(|(at, call)| (at.0 / MS, short(call.action).0)).collect();
    let writes = |at| [(at, 'w'); 4];
    assert_eq!(issued, [&writes(0)[..], &[(1, 'S')], &writes(2)].concat());
}

#[test]
fn rate_limits_are_kept_from_the_start_on_and_made_up_for() {
    let (server, _) = run_against("[j]\nrw=read\nsize=1m\nrate_iops=100\n", 1000, None);
    assert_eq!(times(&server, 0), every(10.0, 256));
    let (server, _) = run_against("[j]\nrw=read\nsize=64k\nrate=400k\n", 1000, None);
    assert_eq!(times(&server, 0), every(10.0, 16));
    // Slower than the limit: never early, never idle.
    let (server, _) = run_against("[j]\nrw=read\nsize=64k\nrate_iops=100\n", 20_000, None);
    assert_eq!(times(&server, 0), every(20.0, 16));
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    let (server, _) = run_against("[j]\nrw=randrw\nsize=4m\nrate_iops=200,50\nruntime=4\ntime_based\n", 100, None);
    let count = |wanted| server.calls.iter().filter(|(_, call)| short(call.action).0 == wanted).count();
    assert!(count('r').abs_diff(800) <= 2 && count('w').abs_diff(200) <= 2, "{} reads, {} writes", count('r'), count('w'));
}

#[test]
fn a_poisson_process_has_its_mean_and_its_spread() {
    let (server, _) = run_against("[j]\nrw=randread\nnorandommap\nsize=64m\nrate_iops=1000\nrate_process=poisson\n", 1, None);
    let times = times(&server, 0);
    let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
    let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
    assert!((mean - 1.0).abs() < 0.03 && (deviation - 1.0).abs() < 0.04, "mean {mean} ms, deviation {deviation} ms");
}

#[test]
fn submission_by_other_threads_keeps_the_rate_with_any_number_in_flight() {
    // Each call takes 35 ms, one is due every 10 ms: a job that submits by itself waits for its I/O in flight before it sleeps.
    let text = |mode: &str| {
        format!("[j]\nrw=read\nsize=40k\nrate_iops=100\niodepth=8\nioengine=libaio\ndirect=1\nio_submit_mode={mode}\n")
    };
    assert_eq!(times(&run_against(&text("offload"), 35_000, None).0, 0), every(10.0, 10));
    assert_ne!(times(&run_against(&text("inline"), 35_000, None).0, 0), every(10.0, 10));
    // Even of synchronous calls, as many are under way as the depth.
    let (server, _) = run_against("[j]\nrw=read\nsize=32k\niodepth=4\nio_submit_mode=offload\n", 1000, None);
    assert_eq!(times(&server, 0), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
}

#[test]
fn think_time_follows_every_n_ios() {
    let (server, _) = run_against("[j]\nrw=read\nsize=24k\nthinktime=4ms\n", 1000, None);
    assert_eq!(times(&server, 0), every(5.0, 6));
    let (server, _) = run_against("[j]\nrw=read\nsize=24k\nthinktime=4000\nthinktime_blocks=3\n", 1000, None);
    assert_eq!(times(&server, 0), [0.0, 1.0, 2.0, 7.0, 8.0, 9.0]);
    let (server, _) = run_against("[j]\nrw=read\nsize=24k\nthinktime=10ms\nthinktime_iotime=2ms\n", 1000, None);
    assert_eq!(times(&server, 0), [0.0, 1.0, 12.0, 13.0, 24.0, 25.0]);
    // With a depth it first waits for its I/O in flight.
    let (server, _) = run_against(
        "[j]\nrw=read\nsize=32k\nioengine=libaio\ndirect=1\niodepth=4\nthinktime=4ms\nthinktime_blocks=2\nthinktime_blocks_type=issue\n",
        1000,
        None,
    );
    assert_eq!(times(&server, 0), [0.0, 0.0, 5.0, 5.0, 10.0, 10.0, 15.0, 15.0]);
}

/// The numbers of I/Os between two stalls were measured with fio 3.33 on a file, through libaio with direct=1.
#[test]
fn with_a_depth_the_ios_that_are_waited_for_before_a_stall_count_for_the_next_one() {
    let groups = |options: &str| {
        let text =
            format!("[j]\nrw=read\nsize=4m\nnumber_ios=60\nioengine=libaio\ndirect=1\niodepth=8\nthinktime=40ms\n{options}\n");
        let times = times(&run_against(&text, 1000, None).0, 0);
        times.chunk_by(|before, after| after - before < 40.0).map(<[f64]>::len).collect::<Vec<_>>()
    };
    let complete = groups("");
    assert_eq!((complete[0], &complete[1..]), (8, &[1; 52][..]));
    assert_eq!(groups("thinktime_spin=20ms"), complete);
    assert_eq!(groups("thinktime_spin=1"), complete);
    assert_eq!(groups("thinktime_blocks=3")[..7], [10, 1, 9, 1, 9, 1, 9]);
    assert_eq!(groups("thinktime_blocks=20"), [27, 20, 13]);
    assert_eq!(groups("thinktime_blocks=3\nthinktime_blocks_type=issue"), [3; 20]);
    // The first waits for its time, and only then is one done.
    let limited = groups("rate_iops=200");
    assert_eq!((limited[0], &limited[1..]), (2, &[1; 58][..]));
}

#[test]
fn after_thinking_a_rate_is_made_up_for_unless_it_ignores_that() {
    let text = |options: &str| format!("[j]\nrw=read\nsize=48k\nrate_iops=100\nthinktime=40ms\nthinktime_blocks=3\n{options}\n");
    let (server, _) = run_against(&text(""), 1000, None);
    assert_eq!(times(&server, 0), [0.0, 10.0, 20.0, 61.0, 62.0, 63.0, 104.0, 105.0, 106.0, 147.0, 148.0, 149.0]);
    let (server, _) = run_against(&text("rate_ignore_thinktime=1"), 1000, None);
    assert_eq!(times(&server, 0)[3..6], [70.0, 80.0, 90.0]);
}

#[test]
fn runtime_ends_a_job_that_would_go_on_and_a_shorter_one_ends_by_itself() {
    let (server, outcome) = run_against("[j]\nrw=read\nsize=1g\nruntime=50ms\n", 1000, None);
    assert_eq!(server.calls.len(), 50);
    assert_eq!(outcome.spans[0].map(|span| span.ended), Some(Nanos(50 * MS)));
    assert_eq!(run_against("[j]\nrw=read\nsize=40k\nruntime=50ms\n", 1000, None).0.calls.len(), 10);
    assert_eq!(run_against("[j]\nrw=read\nsize=40k\nruntime=50ms\ntime_based\n", 1000, None).0.calls.len(), 50);
    // Asleep at the end it does not oversleep, and its files are synced.
    let (server, outcome) = run_against("[j]\nrw=write\nsize=1m\nruntime=25ms\nrate_iops=100\nend_fsync=1\n", 1000, None);
    assert_eq!(times(&server, 0), [0.0, 10.0, 20.0, 25.0]);
    assert_eq!(outcome.spans[0].map(|span| span.ended), Some(Nanos(26 * MS)));
}

#[test]
fn a_ramp_is_run_but_not_measured() {
    let (server, outcome) = run_against("[j]\nrw=read\nsize=1g\nruntime=50ms\nramp_time=20ms\n", 1000, None);
    assert_eq!(server.calls.len(), 70);
    // Those done from 20 ms on.
    assert_eq!(outcome.measure.all.count(), 51);
}

#[test]
fn phases_follow_one_another_and_delays_count_from_their_start() {
    let text = "[a]\nrw=read\nsize=40k\n[b]\nsize=80k\nstartdelay=5ms\n[c]\nsize=40k\nstonewall\n[d]\nsize=40k\nstartdelay=3ms\n[e]\nsize=4k\nwait_for=d\n";
    let (server, outcome) = run_against(text, 1000, None);
    let starts: Vec<u64> = outcome.spans.iter().map(|span| span.unwrap().started.0 / MS).collect();
    let ends: Vec<u64> = outcome.spans.iter().map(|span| span.unwrap().ended.0 / MS).collect();
    assert_eq!((starts, ends), (vec![0, 5, 25, 28, 38], vec![10, 25, 35, 38, 39]));
    assert_eq!(times(&server, 2)[0], 25.0);
}

#[test]
fn a_job_alone_begins_at_once_and_no_other_runs() {
    let text = "[a]\nrw=read\nsize=40k\n[b]\nsize=8k\nstonewall\n";
    let (server, outcome) = run_against(text, 1000, Some(1));
    assert_eq!(times(&server, 1), [0.0, 1.0]);
    assert_eq!((server.calls.len(), outcome.spans[0]), (2, None));
}

#[test]
fn a_range_of_delays_spreads_the_clones_and_the_seed_says_how() {
    let text = "[a]\nrw=read\nsize=4k\nnumjobs=20\nstartdelay=1-3\n";
    let starts = |_| run_against(text, 1000, None).1.spans.iter().map(|span| span.unwrap().started).collect::<Vec<_>>();
    let starts: [Vec<Nanos>; 2] = [starts(0), starts(1)];
    assert_eq!(starts[0], starts[1]);
    let range = Nanos(1000 * MS)..=Nanos(3000 * MS);
    assert!(starts[0].iter().all(|start| range.contains(start)));
    assert!(starts[0].iter().max() > starts[0].iter().min());
}

#[test]
fn processes_of_a_phase_may_begin_one_after_the_other() {
    let text = "[a]\nrw=read\nsize=4k\nnumjobs=3\n[b]\nrw=read\nsize=4k\nstartdelay=1\n[c]\nrw=read\nsize=4k\nstonewall\n";
    let starts = |seed| -> Vec<Nanos> {
        let placed = placed(text).with_staggered_starts(Nanos(MS)..=Nanos(2 * MS), seed);
        let outcome = run(&placed, &mut Constant::new(Nanos(MS)), None, Measure::new([]), &Watch::default(), None).unwrap();
        outcome.spans.iter().map(|span| span.unwrap().started).collect()
    };
    let first = starts(1);
    assert_eq!((first[0], first[4]), (Nanos::ZERO, first[3] + Nanos(MS)), "each phase begins at once");
    for (before, after) in [(first[0], first[1]), (first[1], first[2]), (first[2] + Nanos(1000 * MS), first[3])] {
        assert!((Nanos(MS)..=Nanos(2 * MS)).contains(&(after - before)), "{first:?}");
    }
    assert_eq!(first, starts(1));
    assert_ne!(first, starts(2));
}

#[test]
fn a_server_that_takes_no_time_does_not_stop_the_clock() {
    let (server, _) = run_against("[j]\nrw=read\nsize=40k\nruntime=1ms\ntime_based\n", 0, None);
    assert_eq!(server.calls.len(), 1000);
}

#[test]
fn thousands_of_jobs_in_phases_are_no_trouble() {
    let jobs: String = (0..400).map(|i| format!("[j{i}]\nstonewall\n")).collect();
    let (server, _) = run_against(&format!("[global]\nrw=read\nsize=4k\nnumjobs=10\n{jobs}"), 1000, None);
    assert_eq!(server.calls.len(), 4000);
    assert_eq!(server.calls.last().map(|(at, _)| at.0 / MS), Some(399));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn at_any_pace_a_job_issues_its_stream_and_keeps_its_depth(
        rw in prop::sample::select(vec!["read", "randwrite", "randrw", "rw"]),
        engine in prop::sample::select(vec!["psync", "libaio", "io_uring", "posixaio"]),
        (depth, batch, low) in (1u32..20, 0u32..30, 0u32..30),
        (reap_least, reap_most) in (0u32..30, 0u32..30),
        (fsync, loops, files, direct) in (0u32..9, 1u32..3, 1u32..4, 0u32..2),
        (think, think_blocks, at) in (0u32..3000, 1u32..20, prop::sample::select(vec!["issue", "complete"])),
        rate in prop_oneof![Just(0u32), 1u32..5000],
        service_us in 0u64..2000,
    ) {
        let text = format!(
            "[j]\nrw={rw}\nioengine={engine}\niodepth={depth}\niodepth_batch={batch}\niodepth_low={low}\n\
             iodepth_batch_complete_min={reap_least}\niodepth_batch_complete_max={reap_most}\nfsync={fsync}\nloops={loops}\n\
             nrfiles={files}\ndirect={direct}\nthinktime={think}\nthinktime_blocks={think_blocks}\nthinktime_blocks_type={at}\n\
             rate_iops={rate}\nsize=200k\n"
        );
        let (server, outcome) = run_against(&text, service_us, None);
        let issued: Vec<_> = server.calls.iter().map(|(_, call)| short(call.action)).collect();
        let drawn: Vec<_> = placed(&text).requests(0).map(short).collect();
        // With a rate, reads and writes may change places.
        if rate == 0 || !rw.ends_with("rw") {
            prop_assert_eq!(issued, drawn);
        }
        prop_assert!(server.most_under_way <= depth as usize, "{} under way", server.most_under_way);
        prop_assert!(outcome.spans[0].is_some());
    }
}
