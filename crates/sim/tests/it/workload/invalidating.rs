use std::sync::Arc;

use block::Nanos;
use sim::host::{Host, HostSettings, HostTally, Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Measure, Watch};
use sim::workload::{WorkloadRun, run};

use super::placed;

/// Runs a job file on a hard disk behind a page cache of 256 MiB.
pub fn on_a_host(text: &str) -> (HostTally, WorkloadRun) {
    let placed = placed(text);
    let (spec, values) = block::parse("noop").unwrap();
    let scheduler = (spec.build)(&block::Limits::default(), &values);
    let device = sim::profile::load("sata7200").unwrap().build(DeviceOptions::default());
    let settings = HostSettings::parse("memory_mib=256").unwrap();
    let queue = Queue::new(scheduler, device, QueueSettings::default());
    let mut host = Host::new(queue, Arc::clone(&placed.files()), settings).unwrap();
    let outcome = run(&placed, &mut host, None, Measure::new([]), &Watch::default(), None).unwrap();
    (host.tally(), outcome)
}

fn two_readers(second: &str) -> String {
    let reader = "rw=read\nbs=64k\nfilename=f\nsize=16m\n";
    format!("[first]\n{reader}\n[second]\nstonewall\n{reader}{second}\n")
}

/// How long each job ran.
fn seconds(outcome: &WorkloadRun) -> Vec<f64> {
    outcome.spans.iter().map(|span| span.map(|span| (span.ended - span.started).as_secs_f64()).unwrap()).collect()
}

#[test]
fn a_second_job_reads_the_same_file_from_the_device_again_unless_it_does_not_invalidate() {
    let (tally, outcome) = on_a_host(&two_readers(""));
    let times = seconds(&outcome);
    assert!((times[1] / times[0] - 1.0).abs() < 0.2, "{times:?}");
    assert_eq!(tally.hits + tally.misses, 8192, "{tally:?}");
    let (kept, outcome) = on_a_host(&two_readers("invalidate=0"));
    let times = seconds(&outcome);
    assert!(times[1] * 10.0 < times[0], "{times:?}");
    assert_eq!(kept.misses * 2, tally.misses, "the second one misses nothing: {kept:?}");
}

#[test]
fn a_job_drops_only_its_own_part_of_a_file() {
    let (tally, outcome) = on_a_host(&two_readers("offset=8m\nsize=8m"));
    let half = seconds(&outcome)[1];
    let (_, outcome) =
        on_a_host(&(two_readers("offset=8m\nsize=8m") + "[third]\nstonewall\ninvalidate=0\nrw=read\nfilename=f\nsize=16m\n"));
    assert!(half > 0.03 && seconds(&outcome)[2] < 0.03, "{half}, {:?}, {tally:?}", seconds(&outcome));
}

#[test]
fn dropping_pages_is_not_measured_and_takes_a_job_no_time() {
    let (_, outcome) = on_a_host("[j]\nrw=write\nbs=4k\nsize=4k\nnrfiles=1\n");
    assert_eq!(outcome.measure.all.count(), 1);
    assert_eq!(outcome.spans[0].map(|span| span.started), Some(Nanos::ZERO));
    assert!(seconds(&outcome)[0] < 1e-5, "{:?}", seconds(&outcome));
}
