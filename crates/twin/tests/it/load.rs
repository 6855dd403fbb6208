//! What is understood of jobs whose parameters are known, from the times of their requests alone.

use block::{KnowledgeStore, Nanos};
use control::Setting;
use control::target::Bounds;
use observe::Preference;
use sim::host::{Host, HostSettings, Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Measure, Pilot, ServerEvent, Watch};
use sim::workload::Workload;
use twin::load::{Pace, Understood};
use twin::trial::{self, Change, Successor, TrialLength};
use twin::{Activation, CallModel, ForecastError, ForecastRequest, Load, ObservedRequest, Recording, ScoreBuckets, TrialResult};

/// Everything begins at once, and is no measure.
const FROM: Nanos = Nanos::from_millis(2_000);
const TO: Nanos = Nanos::from_millis(20_000);

/// Records and measures, and changes nothing.
#[derive(Default)]
struct Observer(Recording, ScoreBuckets);

impl Pilot for Observer {
    fn events(&mut self, noted: &[ServerEvent]) {
        for event in noted.iter().map(twin::event) {
            self.0.event(&event);
            self.1.event(&event);
        }
    }
}

fn queue(scheduler: &str, queue_depth: Option<u32>) -> Queue {
    let spec = block::find(scheduler).unwrap();
    let settings = QueueSettings::default();
    let device = sim::profile::load("sata7200").unwrap().build(DeviceOptions { queue_depth, queue_policy: None });
    Queue::new((spec.build)(&settings.limits(), &spec.defaults()), device, settings)
}

/// Recording of 20 seconds of these jobs on a hard disk.
fn recorded(jobs: &str, scheduler: &str) -> Recording {
    observed(jobs, scheduler, None).0
}

/// Recording and scores of them on a hard disk with this queue depth.
fn observed(jobs: &str, scheduler: &str, queue_depth: Option<u32>) -> Observer {
    let text = format!("[global]\ndirect=1\nsize=2g\nruntime=20\ntime_based\nnorandommap\n{jobs}");
    let workload = Workload::parse(&text, "known.fio").unwrap();
    let placed = workload.place(sim::profile::load("sata7200").unwrap().capacity_sectors(), 1).unwrap();
    let mut host = Host::new(queue(scheduler, queue_depth), placed.files(), HostSettings::default()).unwrap();
    let mut observer = Observer::default();
    let (measure, watch) = (Measure::new([]), Watch::default());
    sim::workload::run(&placed, &mut host, None, measure, &watch, Some(&mut observer)).unwrap();
    observer
}

fn bounds(capacity_sectors: u64) -> Bounds {
    Bounds { capacity_sectors, limits: QueueSettings::default().limits(), nr_requests: 256, read_ahead_kib: None }
}

fn load(recording: &Recording) -> Load {
    let seen: Vec<ObservedRequest> = recording.seen().copied().collect();
    Load::infer(&seen, FROM, TO)
}

fn understood(jobs: &str) -> Vec<Understood> {
    load(&recorded(jobs, "deadline")).streams().collect()
}

#[test]
fn a_process_that_thinks_is_distinguished_from_one_at_a_fixed_rate() {
    let streams = understood(
        "[thinks]\nrw=randread\nthinktime=30000\n[clock]\nrw=randread\nrate_iops=20\n[poisson]\nrw=randread\nrate_iops=20\nrate_process=poisson\n\
         [greedy]\nrw=randread\n",
    );
    let paces: Vec<Pace> = streams.iter().map(|stream| stream.pace).collect();
    assert_eq!(paces, [Pace::Closed, Pace::Paced, Pace::Paced, Pace::Closed], "{streams:?}");
    let near = |value: f64, truth: f64| (value / truth - 1.0).abs() < 0.1;
    assert!(near(streams[0].thought.unwrap().as_millis_f64(), 30.0), "{:?}", streams[0]);
    assert!(near(streams[1].rate, 20.0), "{:?}", streams[1]);
    assert!(near(streams[2].rate, 20.0), "{:?}", streams[2]);
    assert!(streams[3].thought.unwrap() < Nanos::from_millis(1), "{:?}", streams[3]);
}

#[test]
fn how_many_requests_are_in_flight_at_once_is_found() {
    for depth in [1, 4, 16] {
        let streams = understood(&format!("[deep]\nioengine=libaio\nrw=randread\niodepth={depth}\n"));
        assert_eq!((streams[0].in_flight, streams[0].pace), (depth, Pace::Closed), "{streams:?}");
    }
}

/// The trial of another scheduler, from a recording under one.
fn predicted(recording: &Recording, scheduler: &str) -> TrialResult {
    let call_model = CallModel::infer(recording.calls(), recording.seen(), FROM, TO);
    let length = TrialLength { warmup: FROM, judged: TO - FROM, max_requests: u64::MAX };
    trial::run(&load(recording), (queue(scheduler, None), None), length, call_model.as_ref(), &Watch::default(), &mut |_| ())
        .unwrap()
}

#[test]
fn a_recording_under_one_scheduler_predicts_another() {
    // One that reads in order and three at random: the schedulers differ by a factor of two and more.
    let jobs = "[scan]\nrw=read\nbs=256k\n[look-up]\nrw=randread\nbs=8k\nthinktime=5000\nnumjobs=3\n";
    let recording = recorded(jobs, "deadline");
    for scheduler in ["noop", "clook", "anticipatory"] {
        let real = recorded(jobs, scheduler);
        let bytes: u64 = real.calls().filter(|call| call.returned >= FROM).map(|call| call.bytes).sum();
        let predicted = f64::from(predicted(&recording, scheduler).calls.unwrap().throughput);
        let measured = bytes as f64 / (TO - FROM).as_secs_f64();
        assert!(
            (predicted / measured - 1.0).abs() < 0.1,
            "{scheduler}: {predicted:.0} predicted, {measured:.0} bytes a second measured"
        );
    }
}

#[test]
fn concurrent_calls_wait_each_for_their_own_request() {
    let recording = recorded("[deep]\nioengine=libaio\nrw=randread\niodepth=16\n", "deadline");
    let predicted = f64::from(predicted(&recording, "deadline").calls.unwrap().response_s);
    let waits: Vec<f64> =
        recording.calls().filter(|call| call.returned >= FROM).map(|call| (call.returned - call.called).as_secs_f64()).collect();
    let measured = waits.iter().sum::<f64>() / waits.len() as f64;
    assert!((predicted / measured - 1.0).abs() < 0.05, "{predicted} s predicted, {measured} s measured");
}

#[test]
fn a_candidate_that_is_many_times_as_fast_is_judged_though_its_requests_are_used_up() {
    // A sequential reader is served from the drive's memory fifty times per seek, if the scheduler anticipates it.
    let jobs = "[scan]\nrw=read\nbs=4k\n[look-up]\nrw=randread\nbs=4k\nioengine=libaio\niodepth=8\n";
    let Observer(recording, slots) = observed(jobs, "deadline", Some(1));
    let seen: Vec<ObservedRequest> = recording.seen().copied().collect();
    let capacity_sectors = sim::profile::load("sata7200").unwrap().capacity_sectors();
    let fitted = twin::fit(&seen, Some(capacity_sectors)).unwrap();
    let deadline = Setting::parse("deadline").unwrap();
    let request = ForecastRequest {
        recording: &recording,
        from: FROM,
        to: TO,
        measured: slots.served(FROM.as_secs_f64(), TO.as_secs_f64()).unwrap(),
        device: &fitted.profile(),
        knowledge: &mut KnowledgeStore::new(device_model::sched::all()),
        active: &deadline,
        original: &deadline,
        candidates: &["deadline", "anticipatory"].map(|setting| Setting::parse(setting).unwrap()),
        bounds: bounds(capacity_sectors),
        preference: Preference::default(),
        max_requests: 2_000,
        error_scale: 1.0,
        activation: Activation::AtStart,
    };
    let forecast = request.run().unwrap();
    let best = &forecast.predictions[0];
    let text: Vec<String> = forecast
        .predictions
        .iter()
        .map(|one| {
            format!("{}: {:.0} B/s, gain {:.2}, p99 by bound {:.2}", one.setting, one.throughput, one.gain, one.p99_by_bound)
        })
        .collect();
    assert_eq!(best.setting.spec.name, "anticipatory", "{text:?}");
    assert!(best.throughput > 10.0 * f64::from(forecast.active.throughput), "{text:?}");
}

#[test]
fn a_live_switch_meets_all_streams_at_once() {
    let reader =
        |number: u64| format!("[reader-{number}]\nrw=read\nbs=128k\noffset={}g\nstartdelay={}ms\n", 3 * number, 700 * number);
    let jobs: String = (0..4).map(reader).collect();
    let Observer(recording, slots) = observed(&jobs, "mq-deadline", Some(4));
    let profile = sim::profile::load("sata7200").unwrap();
    let in_force = Setting::parse("mq-deadline").unwrap();
    let gain = |activation| {
        let request = ForecastRequest {
            recording: &recording,
            from: Nanos::ZERO,
            to: TO,
            measured: slots.served(0.0, TO.as_secs_f64()).unwrap(),
            device: &profile.device(),
            knowledge: &mut KnowledgeStore::new(device_model::sched::all()),
            active: &in_force,
            original: &in_force,
            candidates: &["mq-deadline", "bfq"].map(|setting| Setting::parse(setting).unwrap()),
            bounds: bounds(profile.capacity_sectors()),
            preference: Preference::default(),
            max_requests: 200_000,
            error_scale: 1.0,
            activation,
        };
        let forecast = request.run().unwrap();
        forecast.predictions.iter().find(|one| one.setting.spec.name == "bfq").unwrap().gain
    };
    // bfq serves queues together that began together, and waits for none of them; those that began apart have turns.
    let (before, now) = (gain(Activation::AtStart), gain(Activation::Live));
    assert!(before > now + 0.2, "{before} from the beginning, {now} in the middle");
}

#[test]
fn a_short_trial_repeats_the_latest_part() {
    let jobs = "[pages]\nrw=randread\nbs=8k\nioengine=libaio\niodepth=16\nruntime=8\n[reader]\nrw=read\nbs=256k\nstartdelay=8\n";
    let Observer(recording, slots) = observed(jobs, "mq-deadline", Some(1));
    let profile = sim::profile::load("sata7200").unwrap();
    let default = Setting::parse("mq-deadline").unwrap();
    let asked = |active: &str| {
        let request = ForecastRequest {
            recording: &recording,
            from: FROM,
            to: TO,
            measured: slots.served(10.0, TO.as_secs_f64()).unwrap(),
            device: &profile.device(),
            knowledge: &mut KnowledgeStore::new(device_model::sched::all()),
            active: &Setting::parse(active).unwrap(),
            original: &default,
            candidates: &["mq-deadline", "none", "bfq"].map(|setting| Setting::parse(setting).unwrap()),
            bounds: bounds(profile.capacity_sectors()),
            preference: Preference::default(),
            max_requests: 1_500,
            error_scale: 1.0,
            activation: Activation::Live,
        };
        request.run()
    };
    let forecast = asked("mq-deadline").unwrap();
    assert!(forecast.replay_error.abs() < 0.1, "{}", forecast.replay_error);
    let names: Vec<&str> = forecast.predictions.iter().map(|one| one.setting.spec.name).collect();
    assert!(names.contains(&"none") && !names.contains(&"bfq"), "it is too short for bfq: {names:?}");
    assert!(matches!(asked("bfq"), Err(ForecastError::BudgetTooSmall("bfq"))), "it took over from what was found");
    assert!(forecast.streams.iter().all(|stream| stream.rate > 100.0), "{:?}", forecast.streams);
}

/// The throughput, in MB/s, of a load on a disk that takes four requests in order, under a setting that takes over from mq-deadline.
fn taken_over(load: &Load, setting: &str) -> f64 {
    let setting = Setting::parse(setting).unwrap();
    let scheduler = (setting.spec.build)(&QueueSettings::default().limits(), &setting.spec.defaults());
    let successor = Successor { at: FROM, change: Change::Scheduler(scheduler, setting.values) };
    let length = TrialLength { warmup: Nanos(2 * FROM.0), judged: FROM, max_requests: u64::MAX };
    let queue = queue("mq-deadline", Some(4));
    let tried = trial::run(load, (queue, Some(successor)), length, None, &Watch::default(), &mut |_| ()).unwrap();
    f64::from(tried.served.unwrap().throughput) / 1e6
}

#[test]
fn bfq_idles_for_each_sequential_reader_after_a_live_switch() {
    let job = |number: u32| format!("[reader-{number}]\nrw=read\nbs=128k\noffset={}g\nstartdelay={}ms\n", 2 * number, 700 * number);
    let jobs: String = (0..4).map(job).collect();
    let load = load(&observed(&jobs, "mq-deadline", Some(4)).0);
    let by = |setting: &str| taken_over(&load, setting) / taken_over(&load, "mq-deadline");
    // Linux, on this disk emulated: 160 to 170 MB/s for 20; without those who read at a take-over, as much as before.
    for setting in ["bfq", "bfq:timeout_sync=500", "bfq:strict_guarantees=1"] {
        assert!(by(setting) > 4.0, "{setting}: {:.2} times as much", by(setting));
    }
    // Written under the readers, this takes queues off the count of raised ones that never were on it: in Linux, too.
    assert!(by("bfq:low_latency=0") < 1.5, "{:.2} times as much", by("bfq:low_latency=0"));
}
