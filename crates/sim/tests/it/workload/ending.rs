//! Early ends of jobs: `exitall`, `rate_min`, `steadystate`.

use sim::workload::{Ending, WorkloadRun};

use super::timing::{MS, run_against};

/// When each job ended, in ms, and why.
fn ends(outcome: &WorkloadRun) -> Vec<Option<(u64, Ending)>> {
    outcome.spans.iter().map(|span| span.map(|span| (span.ended.0 / MS, span.ending))).collect()
}

fn ends_of(text: &str) -> Vec<Option<(u64, Ending)>> {
    ends(&run_against(text, 1000, None).1)
}

#[test]
fn the_first_job_that_is_done_ends_the_others_of_its_group() {
    let text = |options: &str| {
        format!("[global]\nrw=read\n{options}\n[a]\nsize=40k\n[b]\nsize=1m\n[c]\nsize=1m\nnew_group\n[d]\nsize=40k\nstonewall\n")
    };
    let done = |ms| Some((ms, Ending::Done));
    let exit = |ms| Some((ms, Ending::Exit));
    assert_eq!(ends_of(&text("")), [done(10), done(256), done(256), done(266)]);
    assert_eq!(ends_of(&text("exitall")), [done(10), exit(10), done(256), done(266)]);
    assert_eq!(ends_of(&text("exitall\nexit_what=stonewall")), [done(10), exit(10), exit(10), done(20)]);
    assert_eq!(ends_of(&text("exitall\nexit_what=all")), [done(10), exit(10), exit(10), None]);
}

#[test]
fn a_job_that_is_ended_syncs_its_files_and_one_that_sleeps_wakes() {
    let text = "[global]\nexitall\n[a]\nrw=read\nsize=40k\n[b]\nrw=write\nsize=1m\nrate_iops=100\nend_fsync=1\n[c]\nrw=read\nsize=1m\nstartdelay=5\n";
    let (server, outcome) = run_against(text, 1000, None);
    // The second one has written at 0 and 10 ms, or is about to; the third one has not started.
    assert_eq!(ends(&outcome)[1..], [Some((11, Ending::Exit)), None]);
    assert_eq!(server.calls.iter().filter(|(_, call)| call.stream == 1).count(), 2);
    // A job that thinks at its end ends the others only after that.
    let text = "[global]\nexitall\nrw=read\n[a]\nsize=4k\nthinktime=20ms\n[b]\nsize=1m\n";
    assert_eq!(ends_of(text), [Some((21, Ending::Done)), Some((21, Ending::Exit))]);
}

#[test]
fn a_job_too_slow_for_its_least_rate_ends_with_an_error() {
    // One call a millisecond are 4,096,000 bytes a second.
    let text = |least: &str| format!("[global]\nrw=write\nsize=100m\nend_fsync=1\n[a]\n{least}\n[b]\nsize=40m\n");
    let all = ends_of(&text("rate_min=4000k\nrate_iops_min=999"));
    assert_eq!((all[0].unwrap().1, all[1].unwrap().1), (Ending::Done, Ending::Done));
    // A job may settle for two seconds; then a cycle goes by.
    assert_eq!(ends_of(&text("rate_iops_min=1001"))[0], Some((3000, Ending::TooSlow)));
    assert_eq!(ends_of(&text("rate_min=4100k\nrate_cycle=500"))[0], Some((2500, Ending::TooSlow)));
    assert_eq!(ends_of(&text("rate_iops_min=1001"))[1], Some((10_241, Ending::Done)));
    // The second one syncs its file.
    assert_eq!(ends_of(&text("rate_iops_min=1001\nexitall_on_error"))[1], Some((3001, Ending::Exit)));
}

#[test]
fn a_job_ends_when_its_throughput_is_steady() {
    let text = |rule: &str| format!("[global]\nrw=read\nsize=1g\ntime_based\nruntime=60\nss={rule}\n[a]\nss_dur=5\n");
    for rule in ["iops:2%", "iops:20", "bw:1%", "iops_slope:0.1%", "bw_slope:5"] {
        assert_eq!(ends_of(&text(rule)), [Some((5000, Ending::Steady))], "{rule}");
    }
    assert_eq!(ends_of(&text("iops:0"))[0], Some((60_000, Ending::Done)));
    // Figures begin a second after the ramp; without a duration nothing is judged.
    assert_eq!(ends_of(&text("iops:2%").replace("ss_dur=5", "ss_dur=5\nss_ramp=10"))[0], Some((15_000, Ending::Steady)));
    assert_eq!(ends_of(&text("iops:2%").replace("ss_dur=5", "ss_dur=0"))[0], Some((60_000, Ending::Done)));
}

#[test]
fn a_window_that_still_changes_is_not_steady() {
    // The second job goes on for ten seconds and leaves the first one its I/Os then.
    let text = "[global]\nrw=read\nsize=1g\ntime_based\n[a]\nruntime=60\nss=iops_slope:1%\nss_dur=4\nflow=1\n[b]\nruntime=10\nflow=1\nrate_iops=20\nnew_group\n";
    // Held to the other's 20 I/Os a second it is steady, too; four seconds are enough for that.
    let all = ends_of(text);
    assert_eq!(all[0].unwrap().1, Ending::Steady);
    let (fast, slow) = ("ss=bw:1%\nss_dur=8\n", "thinktime=100ms\nthinktime_blocks=4000\n");
    let text = format!("[a]\nrw=read\nsize=1g\ntime_based\nruntime=30\n{fast}{slow}");
    // A pause of a tenth of a second comes every 4.1 s, so that no eight seconds are without one.
    assert_eq!(ends_of(&text), [Some((30_000, Ending::Done))]);
}

#[test]
fn jobs_that_are_reported_together_are_judged_together() {
    let text = "[global]\nrw=read\nsize=1g\ntime_based\nruntime=60\nss=iops:2%\nss_dur=5\ngroup_reporting\n[a]\nthinktime=100ms\nthinktime_blocks=4000\n[b]\n";
    let all = ends_of(text);
    // Of their sum, a pause of one is less than 2.5%.
    assert!(all.iter().all(|end| end.is_some_and(|(_, why)| why == all[0].unwrap().1)), "{all:?}");
    let alone = ends_of(&text.replace("group_reporting\n", ""));
    assert_eq!(alone[1], Some((5000, Ending::Steady)));
    assert_eq!(alone[0].unwrap().1, Ending::Done);
}
