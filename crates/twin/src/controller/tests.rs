//! Tests of single steps of the controller.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod trials;

use block::KnowledgeStore;
use control::controller::Prediction;
use control::target::Bounds;
use device_model::sched;
use observe::merit::Scored;
use observe::performance::Performance;

use super::arm::Measured;
use super::phase::Pending;
use observe::similarity::Point;

use super::consult::FittedDevice;
use super::known_loads::KnownLoad;
use super::recall::PastLoad;
use super::*;
use crate::Finding;
use crate::forecast::Forecast;

/// A known load: its distance from the present one, the active setting, and the score of each setting; `None` if it starved a stream.
type Stretch<'a> = (f64, &'a str, &'a [(&'a str, Option<f64>)]);

/// Adds candidates to those of [`knowing`].
fn add_arms(controller: &mut TwinController, settings: &[&str]) {
    controller.arms.extend(settings.iter().map(|text| Arm::new(setting(text))));
    controller.forget_trials();
}

/// A prediction with an error of 0.1.
fn predicted(text: &str, gain: f64) -> Prediction {
    Prediction { setting: setting(text), throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain, error: 0.1 }
}

/// A forecast with these predictions.
fn forecast(predictions: Vec<Prediction>) -> Forecast {
    let active = Performance { throughput: 1.0, response_s: 1.0, fairness: 1.0, starves: false };
    Forecast { streams: Vec::new(), active, replay_error: 0.0, predictions, services: Vec::new(), requests: 0 }
}

/// A controller with `deadline` active and these known loads.
fn knowing(stretches: &[Stretch]) -> TwinController {
    let candidates = control::candidates::parse(["classic"]).unwrap();
    let mut controller = TwinController::new(&ControllerInput { candidates, ..ControllerInput::default() }, 10);
    controller.active = controller.arm_of(&Setting::parse("deadline").unwrap()).unwrap();
    controller.original = controller.active;
    controller.forget_trials();
    let known = |(away, under, scores): &Stretch| {
        let mut point = here();
        point[0] += away;
        let scores = scores.iter().map(|(setting, score)| ((*setting).to_owned(), *score)).collect();
        KnownLoad { point, under: (*under).to_owned(), scores }
    };
    controller.memory.known_loads = stretches.iter().map(known).collect();
    controller
}

fn setting(text: &str) -> Setting {
    Setting::parse(text).unwrap()
}

fn here() -> Point {
    observe::similarity::NOWHERE.map(|_| 2.0)
}

/// The arm that it recalls for the current load, and the arms that it blocks.
fn recalls(stretches: &[Stretch]) -> (Option<String>, Vec<String>) {
    let mut controller = knowing(stretches);
    let recalled = controller.recall(&here(), Nanos::ZERO).map(|arm| controller.arms[arm].setting.to_string());
    let not_tried = controller.arms.iter().filter(|arm| arm.blocked_until > Nanos::ZERO).map(|arm| arm.setting.to_string());
    (recalled, not_tried.collect())
}

#[test]
fn a_setting_that_served_a_known_load_better_is_recalled_and_worse_ones_are_blocked() {
    let served: &[(&str, Option<f64>)] = &[("cfq", Some(5.3)), ("deadline", Some(5.0)), ("noop", Some(5.0)), ("sstf", Some(5.29))];
    let recalled = Some("cfq".to_owned());
    assert_eq!(recalls(&[(0.5, "deadline", served)]), (recalled, vec!["noop".to_owned()]));
    assert_eq!(recalls(&[(1.5, "deadline", served)]), (None, vec![]), "another load");
    assert_eq!(recalls(&[(0.5, "noop", served)]), (None, vec![]), "under another setting a load looks different");
}

#[test]
fn what_earlier_runs_say_blocks_for_a_while_and_the_original_setting_not_at_all() {
    let served: &[(&str, Option<f64>)] = &[("cfq", Some(6.0)), ("noop", Some(5.0)), ("deadline", Some(5.1))];
    let mut controller = knowing(&[(0.5, "deadline", served)]);
    controller.recall(&here(), Nanos(7)).unwrap();
    let until = |text: &str| controller.arms[controller.arm_of(&setting(text)).unwrap()].blocked_until;
    assert_eq!((until("deadline"), until("noop")), (Nanos::ZERO, Nanos(7) + Nanos::from_millis(20_000)));
    assert!(controller.trying.unconfirmed.is_some(), "the original one is tried once");
}

#[test]
fn a_failed_prediction_of_a_scheduler_corrects_those_of_its_tunings() {
    let mut controller = knowing(&[]);
    controller.model.track_record.note(&predicted("cfq", 0.5), -0.1);
    let tuned = controller.model.track_record.corrected(&predicted("cfq:quantum=32", 0.4), true);
    assert!((tuned.gain + 0.2).abs() < 1e-9 && tuned.error > 0.2, "{tuned:?}");
    let other = controller.model.track_record.corrected(&predicted("sstf", 0.4), true);
    assert_eq!((other.gain, other.error), (0.4, 0.1));
    controller.begin_load(Nanos::ZERO, Nanos::ZERO);
    let later = controller.model.track_record.corrected(&predicted("cfq:quantum=32", 0.4), true);
    assert!(later.gain == 0.4 && later.error > 0.2, "under another load it may be right, and is less sure: {later:?}");
}

#[test]
fn under_another_load_the_active_setting_is_compared_with_the_original_one_unless_the_load_is_remembered() {
    let (second, cfq) = (Nanos::from_millis(1_000), Setting::parse("cfq").unwrap());
    let mut controller = knowing(&[]);
    controller.original = controller.active;
    controller.active = controller.arm_of(&cfq).unwrap();
    let windows = |controller: &mut TwinController, count: usize, away: f64| {
        for _ in 0..count {
            controller.present.load.add_window(Nanos::ZERO, here().map(|coordinate| coordinate + away));
        }
    };
    windows(&mut controller, 10, 0.0);
    windows(&mut controller, 3, 9.0);
    let decision = controller.begin_load(second, second);
    assert_eq!(decision.why, "another load: cfq is to be compared with deadline");
    assert_eq!(controller.to_confirm(second), Some(controller.original));
    controller.active = controller.original;
    windows(&mut controller, 10, 9.0);
    windows(&mut controller, 3, 0.0);
    let decision = controller.begin_load(second, second);
    assert_eq!(decision.why, "another load, like one that cfq served best");
}

#[test]
fn another_read_ahead_is_judged_only_once_files_are_opened_again() {
    let mut controller = knowing(&[]);
    add_arms(&mut controller, &["deadline read_ahead_kb=1024"]);
    controller.read_ahead.original_kib = Some(128);
    let (found, wider) = (controller.active, controller.arms.len() - 1);
    let prediction = predicted("deadline read_ahead_kb=1024", 0.5);
    controller.phase.verify(Pending { from: found, prediction });
    controller.change_to(Nanos::ZERO, wider, String::new());
    let at = |second: u64| Nanos::from_millis(1_000 * second);
    // 100 reads per second, each after the one before.
    let reads = |controller: &mut TwinController, second: u64, sectors: u32| {
        for number in 0..100 {
            let arrival = at(second) + Nanos::from_millis(10 * number);
            let lba = 1_000_000 * second + u64::from(sectors) * number;
            let (op, priority) = (block::Op::Read, block::Priority::DEFAULT);
            let request = block::Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba, arrival };
            controller.event(&Event::Queued(request));
            controller.event(&Event::Completed { request, dispatched: arrival, at: arrival + Nanos::from_millis(5) });
        }
        controller.seen.buckets.until(at(second + 1));
    };
    controller.arms[found].measured = Some(Measured { scored: Scored::plain(100.0), variance: 0.0, buckets: 4 });
    for second in 0..20 {
        reads(&mut controller, second, 256);
        assert!(controller.compare(at(second + 1), 256).is_none(), "open files keep the old read-ahead: no decision");
    }
    let measured = |arm: usize| controller.arms[arm].measured.map(|measured| measured.scored);
    assert!(measured(found).is_some() && measured(found) == measured(wider), "the original one serves no better");
    controller.arms[found].measured = Some(Measured { scored: Scored::plain(100.0), variance: 0.0, buckets: 4 });
    reads(&mut controller, 20, 2048);
    let decision = controller.compare(at(21), 256).unwrap();
    assert_eq!(
        (decision.why.as_str(), controller.timeline.measured_from),
        ("files are read ahead by 1024 KiB from now on", at(21))
    );
    let mut goes_back = None;
    for second in 21..40 {
        reads(&mut controller, second, 2048);
        goes_back = goes_back.or(controller.compare(at(second + 1), 256).filter(|_| controller.active == found));
    }
    assert!(goes_back.is_some_and(|decision| decision.why.ends_with("back to deadline")), "it is worse than what was measured");
}

#[test]
fn another_read_ahead_interrupts_no_measurement_and_is_not_blamed() {
    let mut controller = knowing(&[]);
    add_arms(&mut controller, &["deadline read_ahead_kb=1024"]);
    controller.read_ahead.original_kib = Some(128);
    let (cfq, wider, at) = (controller.arm_of(&setting("cfq")).unwrap(), controller.arms.len() - 1, Nanos::from_millis(5_000));
    controller.change_to(at, wider, String::new());
    assert!(
        controller.timeline.measured_from == Nanos::ZERO
            && controller.timeline.changes.is_empty()
            && !controller.phase.is_settling()
    );
    assert!(controller.serves_as_original(), "no file was opened since");
    controller.read_ahead.change = None;
    assert!(!controller.serves_as_original());
    controller.change_to(at, cfq, String::new());
    assert!(
        controller.timeline.measured_from == at
            && controller.timeline.changes == [at]
            && controller.phase.is_settling()
            && !controller.serves_as_original()
    );
}

#[test]
fn the_next_forecast_is_sooner_if_a_large_gain_is_not_sure() {
    let mut controller = knowing(&[]);
    let seconds = |seconds: u64| Nanos::from_millis(1_000 * seconds);
    let asks = |controller: &TwinController, gain: f64, error: f64, at: u64| {
        let forecast = forecast(vec![Prediction { error, ..predicted("cfq", gain) }]);
        controller.next_forecast_at(&forecast, seconds(at), 1e9)
    };
    controller.cpu.credit_ns = 6e8;
    assert_eq!(asks(&controller, 0.8, 0.84, 8), seconds(10));
    assert_eq!(asks(&controller, 0.8, 0.84, 2), seconds(3), "not before there is another window");
    assert_eq!(asks(&controller, 0.8, 0.4, 8), seconds(16), "it is sure");
    assert_eq!(asks(&controller, 0.01, 0.02, 8), seconds(16), "too small to matter");
    controller.cpu.credit_ns = 4e8;
    assert_eq!(asks(&controller, 0.8, 0.84, 8), seconds(16), "another request would be worse");
}

#[test]
fn a_twin_that_measurements_contradict_is_sure_of_nothing() {
    let mut controller = knowing(&[]);
    let prediction = |setting: Setting, gain: f64| Prediction {
        setting,
        throughput: 1.0,
        response_s: 1.0,
        p99_by_bound: 0.0,
        gain,
        error: 0.05,
    };
    let measured = |score: f64| Some(Measured { scored: Scored::of(score, 1.0, 256), variance: 1e-6, buckets: 4 });
    let (deadline, cfq) = (controller.active, controller.arm_of(&setting("cfq")).unwrap());
    let sure_of_noop = |controller: &TwinController, of_deadline: f64| {
        let calibrated = controller.calibrated(&[prediction(setting("deadline"), of_deadline), prediction(setting("noop"), 0.2)]);
        calibrated.iter().any(|prediction| prediction.setting == setting("noop") && prediction.is_sure())
    };
    controller.active = cfq;
    controller.arms[cfq].measured = measured(2.0);
    assert!(sure_of_noop(&controller, 0.1), "nothing else was measured");
    controller.arms[deadline].measured = measured(0.5);
    assert!(sure_of_noop(&controller, -1.45));
    assert!(!sure_of_noop(&controller, 0.1), "it was far worse");
    controller.arms[deadline].measured = Some(Measured { variance: 1.0, ..measured(0.5).unwrap() });
    assert!(sure_of_noop(&controller, 0.1), "it may be chance");
}

#[test]
fn measurements_before_the_last_process_began_are_dropped() {
    let mut controller = knowing(&[]);
    let at = Nanos::from_millis;
    let asks = |controller: &mut TwinController, stream: u32, from_ms: u64, to_ms: u64| {
        for ms in (from_ms..to_ms).step_by(10) {
            let (op, priority) = (block::Op::Read, block::Priority::DEFAULT);
            let request = block::Request { id: 0, stream, op, sync: true, priority, sectors: 8, lba: 0, arrival: at(ms) };
            controller.event(&Event::Queued(request));
            controller.event(&Event::Completed { request, dispatched: at(ms), at: at(ms + 9) });
        }
    };
    asks(&mut controller, 1, 100, 1_800);
    asks(&mut controller, 2, 800, 1_800);
    controller.extend_warmup_until_streams_started(at(1_800));
    assert_eq!(controller.timeline.measured_from, at(1_000), "a window, as always");
    controller.arms[1].measured = Some(Measured { scored: Scored::of(1.0, 1.0, 256), variance: 0.0, buckets: 4 });
    asks(&mut controller, 1, 1_800, 3_000);
    asks(&mut controller, 2, 1_800, 3_000);
    asks(&mut controller, 3, 1_700, 3_000);
    controller.extend_warmup_until_streams_started(at(3_000));
    assert!(
        controller.timeline.measured_from == at(1_700) && controller.timeline.changes.contains(&at(1_700)),
        "{:?}",
        controller.timeline.measured_from
    );
    assert!(controller.arms[1].measured.is_none(), "that was of two processes");
    assert_eq!(controller.observed_from(), at(1_700));
    asks(&mut controller, 4, 3_000, 12_000);
    controller.extend_warmup_until_streams_started(at(12_000));
    assert_eq!(controller.timeline.measured_from, at(1_700), "a later stream joins a complete load");
}

#[test]
fn a_read_ahead_is_free_to_try_unless_it_is_the_original_one() {
    let mut controller = knowing(&[]);
    controller.read_ahead.original_kib = Some(128);
    let wider = setting("deadline read_ahead_kb=1024");
    assert!(controller.is_free_to_try(&wider) && !controller.is_free_to_try(&setting("cfq read_ahead_kb=1024")));
    controller.arms.push(Arm::new(wider));
    controller.active = controller.arms.len() - 1;
    assert!(!controller.is_free_to_try(&setting("deadline")), "it was active before");
    assert!(controller.is_free_to_try(&setting("deadline read_ahead_kb=512")));
}

#[test]
fn a_load_without_read_ahead_keeps_the_active_one_for_the_next_load() {
    let mut controller = knowing(&[]);
    add_arms(&mut controller, &["deadline read_ahead_kb=1024", "cfq read_ahead_kb=1024"]);
    controller.read_ahead.original_kib = Some(128);
    let arm = |controller: &TwinController, text: &str| controller.arm_of(&setting(text)).unwrap();
    controller.memory.past.push(past_load(&controller, arm(&controller, "cfq")));
    controller.active = arm(&controller, "deadline read_ahead_kb=1024");
    assert_eq!(controller.recall(&here(), Nanos::ZERO), Some(arm(&controller, "cfq read_ahead_kb=1024")));
    let (op, priority, arrival) = (block::Op::Read, block::Priority::DEFAULT, Nanos::ZERO);
    let read = |sectors| block::Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba: 0, arrival };
    let done = |sectors| Event::Completed { request: read(sectors), dispatched: arrival, at: Nanos(1) };
    controller.seen.recording.event(&done(16));
    assert_eq!(
        controller.recall(&here(), Nanos::ZERO),
        Some(arm(&controller, "cfq read_ahead_kb=1024")),
        "a page is no read-ahead"
    );
    controller.seen.recording.event(&done(256));
    assert_eq!(controller.recall(&here(), Nanos::ZERO), Some(arm(&controller, "cfq")));
}

/// A past load of an hour that is similar to the current one and ended under this arm.
fn past_load(controller: &TwinController, arm: usize) -> PastLoad {
    let arms = controller.arms.len();
    let (trying, blocked_until) = (Trying::new(arms, controller.original), vec![Nanos::ZERO; arms]);
    PastLoad { point: here(), arm, lasted_s: 3_600.0, trying, blocked_until }
}

#[test]
fn what_was_tried_under_a_load_goes_on_when_it_returns() {
    let mut controller = knowing(&[]);
    let mut past = past_load(&controller, controller.active);
    let other = controller.arm_of(&setting("cfq")).unwrap();
    past.blocked_until[other] = NEVER;
    past.trying.trials.expect([(other, control::ab_test::Estimate { mean: 0.5, error: 0.01 })]);
    controller.memory.past.push(past);
    let mut elsewhere = here();
    elsewhere[0] += 5.0;
    controller.resume_trials(&elsewhere);
    assert_eq!((controller.memory.lasted_before_s, controller.arms[other].blocked_until), (0.0, Nanos::ZERO), "another load");
    controller.resume_trials(&here());
    assert_eq!((controller.memory.lasted_before_s, controller.arms[other].blocked_until), (3_600.0, NEVER));
    let gain = controller.trying.trials.posterior().gain(other, controller.original);
    assert!((gain.mean - 0.5).abs() < 0.01, "{gain:?}");
}

/// A controller with deadline active, a fitted disk, a read-ahead of 128 KiB, and a second of budget.
fn with_speculation() -> (TwinController, Bounds) {
    let mut controller = knowing(&[]);
    add_arms(&mut controller, &["deadline read_ahead_kb=1024", "cfq read_ahead_kb=1024"]);
    controller.read_ahead.original_kib = Some(128);
    controller.read_ahead.observe(&read(256, true));
    let (profile, knowledge) = (sim::profile::load("sata7200").unwrap().device(), KnowledgeStore::new(sched::all()));
    let (capacity_sectors, limits) = (profile.capacity_sectors(), block::Limits::default());
    controller.model.device =
        Some(FittedDevice { profile, findings: Vec::new(), accesses: 100, seen: 100, of_load: 100, knowledge });
    controller.cpu.credit_ns = 1e9;
    (controller, Bounds { capacity_sectors, limits, nr_requests: 256, read_ahead_kib: Some(128) })
}

#[test]
fn a_speculative_read_ahead_is_active_before_files_are_opened() {
    let (mut controller, bounds) = with_speculation();
    controller.cpu.credit_ns = 0.0;
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none(), "there is no budget");
    controller.cpu.credit_ns = 1e9;
    let decision = controller.prepare_read_ahead(Nanos::ZERO, || bounds).unwrap();
    assert!(decision.why.starts_with("deadline read_ahead_kb=1024 for files that are opened from now on"), "{}", decision.why);
    assert!(decision.expected_gain.is_none() && !decision.why.contains('%'), "nothing is measured: {}", decision.why);
    assert!(
        controller.cpu.credit_ns < 1e9 && controller.phase.pending().is_none(),
        "it costs something, and measurements do not show it yet"
    );
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none(), "once");
    // Under an unknown load a setting chosen for another one is compared, with the speculative read-ahead.
    controller.active = controller.arm_of(&setting("cfq read_ahead_kb=1024")).unwrap();
    for away in std::iter::repeat_n(0.0, 10).chain([9.0; 3]) {
        controller.present.load.add_window(Nanos::ZERO, here().map(|coordinate| coordinate + away));
    }
    let decision = controller.begin_load(Nanos::ZERO, Nanos::ZERO);
    assert!(decision.why.ends_with("is to be compared with deadline read_ahead_kb=1024"), "{}", decision.why);
    // Measurements were against it, so it is not chosen again.
    controller.change_to(Nanos::ZERO, controller.original, String::new());
    controller.read_ahead.change = None;
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none());
}

/// A read that the page cache issues ahead, or that a process waits for.
fn read(sectors: u32, is_ahead: bool) -> block::Request {
    let (op, priority, arrival) = (block::Op::Read, block::Priority::DEFAULT, Nanos::ZERO);
    block::Request { id: 0, stream: 1, op, sync: !is_ahead, priority, sectors, lba: 0, arrival }
}

#[test]
fn no_read_ahead_is_chosen_for_direct_reads_random_reads_of_files_or_behind_a_limit() {
    for (sectors, is_ahead, chooses) in [(256, true, true), (256, false, false), (2_048, false, false), (32, true, false)] {
        let (mut controller, bounds) = with_speculation();
        controller.read_ahead = Default::default();
        controller.read_ahead.original_kib = Some(128);
        controller.event(&Event::Completed { request: read(sectors, is_ahead), dispatched: Nanos::ZERO, at: Nanos(1) });
        controller.present.load.begin_load(Nanos(2));
        let decision = controller.prepare_read_ahead(Nanos(2), || bounds);
        assert_eq!(decision.is_some(), chooses, "{sectors} sectors, ahead: {is_ahead}");
    }
    let (mut controller, bounds) = with_speculation();
    let limit = Finding::number("limit of operations", 250.0, "operations/s", 1.0, 100);
    controller.model.device.as_mut().unwrap().findings.push(limit);
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none());
}

/// Without the original read-ahead among the predictions nothing was expected of any setting, and each was tried with ± 31%.
#[test]
fn forecasts_count_under_a_read_ahead_that_the_load_does_not_show() {
    let (mut controller, bounds) = with_speculation();
    controller.prepare_read_ahead(Nanos::ZERO, || bounds).unwrap();
    let predictions = [("deadline read_ahead_kb=1024", 0.0), ("cfq read_ahead_kb=1024", -0.2)];
    controller.expect(&forecast(predictions.map(|(setting, gain)| predicted(setting, gain)).to_vec()));
    let worse = controller.arm_of(&setting("cfq read_ahead_kb=1024")).unwrap();
    let gain = controller.trying.trials.posterior().gain(worse, controller.active);
    assert!((gain.mean + 0.18).abs() < 1e-9 && gain.error < 0.15, "{gain:?}");
}

#[test]
fn a_load_with_read_ahead_counts_for_more_than_assumed_loads() {
    let (mut controller, bounds) = with_speculation();
    controller.event(&Event::Completed { request: read(256, true), dispatched: Nanos::ZERO, at: Nanos(1) });
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none());
    controller.present.load.begin_load(Nanos(2));
    assert!(controller.prepare_read_ahead(Nanos(2), || bounds).is_some(), "the next one is not");
}

#[test]
fn a_refused_setting_leaves_the_previous_one_active() {
    let (mut controller, bounds) = with_speculation();
    let cfq = controller.arm_of(&setting("cfq")).unwrap();
    controller.active = cfq;
    controller.prepare_read_ahead(Nanos::ZERO, || bounds).unwrap();
    let wanted = controller.setting().clone();
    controller.refused(&wanted, "there is no room");
    assert_eq!(controller.active, cfq);
    assert_eq!(controller.original_for_new_load(), controller.original, "the speculative one is not active");
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_none(), "it would be refused again");
    controller.begin_load(Nanos::ZERO, Nanos::ZERO);
    assert!(controller.prepare_read_ahead(Nanos::ZERO, || bounds).is_some(), "under another load there may be room");
}

#[test]
fn a_gain_by_chance_is_not_recalled() {
    let stretch = |cfq: f64| [("cfq", Some(5.0 + cfq)), ("deadline", Some(5.0))];
    let (more, less, some) = (stretch(0.3), stretch(-0.2), stretch(0.25));
    // The nearest alone would show a gain.
    let mixed: [Stretch; 2] = [(0.0, "deadline", &more), (0.4, "deadline", &less)];
    assert_eq!(recalls(&mixed), (Some("deadline".to_owned()), vec![]));
    let alike: [Stretch; 2] = [(0.0, "deadline", &more), (0.4, "deadline", &some)];
    assert_eq!(recalls(&alike).0.unwrap(), "cfq");
}

#[test]
fn a_setting_that_starved_a_stream_is_not_recalled() {
    let served: &[(&str, Option<f64>)] = &[("sstf", Some(6.0)), ("cfq", Some(5.1)), ("deadline", Some(5.0))];
    let starved: &[(&str, Option<f64>)] = &[("sstf", None), ("cfq", Some(5.1)), ("deadline", Some(5.0))];
    assert_eq!(recalls(&[(0.0, "deadline", served)]).0.unwrap(), "sstf");
    assert_eq!(recalls(&[(0.0, "deadline", served), (0.0, "deadline", starved)]).0.unwrap(), "cfq");
}
