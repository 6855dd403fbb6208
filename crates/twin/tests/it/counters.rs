//! What counters of known jobs on a known disk allow to be said.

use block::Nanos;
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use observe::counters::Sample;
use sim::host::{Host, HostSettings, Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Measure, Pilot, ServerEvent, Watch};
use sim::workload::Workload;
use twin::counters::{Counted, Counter, Ensemble, Judgement, Judges, Known};

const SECOND: Nanos = Nanos::from_millis(1_000);

/// Reads counters once a second.
struct Looks {
    counter: Counter,
    samples: Vec<Sample>,
}

impl Pilot for Looks {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(twin::event) {
            let seconds = self.samples.len() as u64 + 1;
            if event.at() >= Nanos(seconds * SECOND.0) {
                self.samples.push(self.counter.sample(Nanos(seconds * SECOND.0)));
            }
            self.counter.event(&event);
        }
    }
}

fn setting(text: &str) -> Setting {
    Setting::parse(text).unwrap()
}

/// What is counted of 12 seconds of these jobs, and what sysfs says.
fn counted(jobs: &str, disk: &str, scheduler: &str) -> (Vec<Sample>, Known) {
    let text = format!("[global]\ndirect=1\nsize=1g\nruntime=12\ntime_based\nnorandommap\n{jobs}");
    let profile = sim::profile::load(disk).unwrap();
    let placed = Workload::parse(&text, "known.fio").unwrap().place(profile.capacity_sectors(), 1).unwrap();
    let active = setting(scheduler);
    let settings = QueueSettings::default();
    let device = profile.build(DeviceOptions::default());
    let known = Known {
        bounds: Bounds {
            capacity_sectors: profile.capacity_sectors(),
            limits: settings.limits(),
            nr_requests: settings.nr_requests,
            read_ahead_kib: None,
        },
        rotational: Some(profile.device().rotational()),
        depth: Some(device.queue_depth() as u32),
        write_cache: Some(device.has_write_cache()),
    };
    let queue = Queue::new((active.spec.build)(&settings.limits(), &active.values), device, settings);
    let mut host = Host::new(queue, placed.files(), HostSettings::default()).unwrap();
    let mut looks = Looks { counter: Counter::new(settings.max_sectors), samples: Vec::new() };
    sim::workload::run(&placed, &mut host, None, Measure::new([]), &Watch::default(), Some(&mut looks)).unwrap();
    (looks.samples, known)
}

fn judged(counted: &Counted, known: &Known, active: &str) -> Judgement {
    let active = setting(active);
    let mut ensemble = Ensemble::new(counted, known, &active, 1);
    while !ensemble.is_done() {
        ensemble.round();
    }
    let candidates = ["none", "mq-deadline", "bfq"].map(setting);
    let preference = Preference::default();
    Judges { counted, known, active: &active, candidates: &candidates, preference }.judge(&ensemble).unwrap()
}

#[test]
fn rates_sizes_and_times_are_those_of_the_jobs() {
    let (samples, _) =
        counted("[thinks]\nrw=randread\nbs=16k\nrate_iops=30\n[log]\nrw=write\nbs=4k\nrate_iops=40\nfsync=4\n", "sata7200", "none");
    let counted = Counted::of(&samples).unwrap();
    let near = |value: f64, truth: f64| assert!((value / truth - 1.0).abs() < 0.1, "{value} and not {truth}: {counted:?}");
    near(counted.read.requests_per_s, 30.0);
    near(counted.read.mean_bytes, 16_384.0);
    near(counted.write.requests_per_s, 40.0);
    near(counted.flushes_per_s, 10.0);
    assert!((0.004..0.03).contains(&counted.read.response_s) && counted.varies < 0.2, "{counted:?}");
}

#[test]
fn what_counters_leave_open_is_in_the_error_and_the_same_counters_say_the_same() {
    // Eight processes that read at random as fast as they are answered: as well it could be a few that keep several under way, or
    // streams that read in order by turns.
    let (samples, known) = counted("[readers]\nrw=randread\nbs=8k\nnumjobs=8\n", "sata7200", "mq-deadline");
    let counted = Counted::of(&samples).unwrap();
    let judgement = judged(&counted, &known, "mq-deadline");
    let active = setting("mq-deadline");
    let device = &judgement.facts[0].1;
    assert!(device.starts_with("a hard disk or an array of them in 100%"), "{device}");
    let bfq = judgement.predictions.iter().find(|prediction| prediction.setting == setting("bfq")).unwrap();
    assert!(bfq.error > 0.1, "the effect of idling is not known: {bfq:?}");
    assert!(judgement.sure(&active).is_none_or(|prediction| prediction.gain > prediction.error), "{:?}", judgement.predictions);
    assert_eq!(judged(&counted, &known, "mq-deadline").predictions, judgement.predictions);
}
