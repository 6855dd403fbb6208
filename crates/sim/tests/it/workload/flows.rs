//! `flow`: shares of the I/Os.

use std::process::Command;

use block::Nanos;

use super::timing::{MS, run_against};

/// Calls of each of `jobs` jobs before `until`.
fn counts(text: &str, jobs: usize, until: Nanos) -> Vec<usize> {
    let (server, _) = run_against(text, 1000, None);
    (0..jobs).map(|job| server.calls.iter().filter(|(at, call)| call.stream == job as u32 && *at < until).count()).collect()
}

#[test]
fn jobs_of_one_flow_have_their_shares_at_any_depth() {
    let text = "[global]\nrw=randread\nnorandommap\nsize=1g\ntime_based\nruntime=2\nioengine=libaio\ndirect=1\n[a]\nflow=3\n[b]\nflow=1\niodepth=16\n";
    let shares = counts(text, 2, Nanos(2000 * MS));
    // The second one is admitted while 4 times its I/Os are at most one more than those of both.
    assert!(shares[0] > 1500 && shares[0].abs_diff(3 * shares[1]) <= 4, "{shares:?}");
    // Other flows do not matter.
    let text = "[global]\nrw=read\nsize=1g\ntime_based\nruntime=1\n[a]\nflow=1\n[b]\nflow=1\nflow_id=7\nthinktime=9ms\n[c]\nflow=1\nflow_id=7\n";
    let shares = counts(text, 3, Nanos(1000 * MS));
    assert_eq!((shares[0], shares[1]), (1000, 100));
    // With equal weights a job is admitted while it has at most one more than the other.
    assert!(shares[1].abs_diff(shares[2]) <= 2, "{shares:?}");
}

#[test]
fn a_job_that_sleeps_looks_again_after_its_time() {
    let text = "[global]\nrw=read\nsize=400k\n[a]\nflow=1\nflow_sleep=50000\n[b]\nflow=1\nthinktime=9ms\n";
    let (server, outcome) = run_against(text, 1000, None);
    assert!(outcome.spans.iter().all(Option::is_some));
    let first: Vec<u64> = server.calls.iter().filter(|(_, call)| call.stream == 0).map(|(at, _)| at.0 / MS).take(9).collect();
    // In 51 ms, the other one makes five or six calls; then this one makes up for them at once.
    assert!(
        first.windows(2).any(|pair| pair[1] - pair[0] >= 50) && first.windows(2).any(|pair| pair[1] - pair[0] == 1),
        "{first:?}"
    );
}

#[test]
fn finished_jobs_no_longer_count_and_runtime_ends_a_waiting_one() {
    let (server, outcome) = run_against("[global]\nrw=read\n[a]\nsize=40k\nflow=1\n[b]\nsize=400k\nflow=1\n", 1000, None);
    assert_eq!((server.calls.len(), outcome.spans[1].map(|span| span.ended.0 / MS)), (110, Some(100)));
    let text = "[global]\nrw=read\nsize=1g\n[a]\nflow=1\nruntime=50ms\n[b]\nflow=1\nstartdelay=100ms\nruntime=10ms\n";
    let (_, outcome) = run_against(text, 1000, None);
    assert_eq!(outcome.spans.map_ended(), [50, 110]);
}

#[test]
fn alone_a_job_does_not_wait_for_its_flow() {
    let text = "[global]\nrw=read\nsize=40k\nflow=1\n[a]\n[b]\n";
    assert_eq!(run_against(text, 1000, Some(1)).0.calls.len(), 10);
}

#[test]
fn fio_gives_the_same_shares() {
    // The first job's end ends the other one, whose I/Os are then a matter of the flow alone, not of how fast this machine is.
    let text = "[global]\nrw=randread\nnorandommap\nsize=100m\nthread\nexitall\n\
                [a]\nflow=3\nnumber_ios=3000\n[b]\nflow=1\n";
    let logged = text.replace("[a]", "ioengine=null\n[a]").replace("[b]", "[b]\nwrite_iolog=b");
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("job.fio"), logged).unwrap();
    let Ok(output) = Command::new("fio").current_dir(folder.path()).args(["--output=report", "job.fio"]).output() else {
        return println!("skipped: there is no fio here");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let log = std::fs::read_to_string(folder.path().join("b")).unwrap();
    let theirs = log.lines().filter(|line| line.contains(" read ")).count();
    let ours = counts(text, 2, Nanos(u64::MAX));
    assert!(ours[0] == 3000 && ours[1].abs_diff(theirs) <= 2, "{theirs}, {ours:?} here");
}

/// When jobs ended, in ms.
trait Ended {
    fn map_ended(&self) -> Vec<u64>;
}

impl Ended for Vec<Option<sim::workload::Span>> {
    fn map_ended(&self) -> Vec<u64> {
        self.iter().map(|span| span.unwrap().ended.0 / MS).collect()
    }
}
