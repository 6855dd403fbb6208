//! Trials on a device whose service times are set by the test.

use block::{Op, Priority, Request};
use control::ab_test::Estimate;
use control::fleet::{DeviceType, FleetOutcome};
use control::target::{Bounds, Identity};
use control::{ControlLoop, DecisionRecord, Ruling, TargetError};

use super::*;

/// A device that serves one request of one stream at a time, and the settings that were applied to it.
struct Plant {
    setting: Setting,
    /// Service time of the request with this number under this setting.
    service: fn(&str, u64) -> Nanos,
    /// Whether this change is refused.
    refuses: fn(&Plant, &Setting) -> bool,
    changes: Vec<(Nanos, String)>,
}

impl Target for Plant {
    fn identity(&self) -> Identity {
        Identity { plant: "test".to_owned(), device: "test".to_owned() }
    }
    fn schedulers(&self) -> Vec<&'static block::SchedulerSpec> {
        sched::all().collect()
    }
    fn tunables(&self) -> Vec<&'static block::Tunable> {
        Vec::new()
    }
    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: block::Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }
    fn setting(&self) -> Setting {
        self.setting.clone()
    }
    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::from_millis(1)
    }
    fn apply(&mut self, now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        self.changes.push((now, setting.to_string()));
        if (self.refuses)(self, setting) {
            return Err(TargetError { setting: setting.to_string(), reason: "a test".to_owned() });
        }
        self.setting = setting.clone();
        Ok(())
    }
}

/// Runs the controller on `mq-deadline` and these candidates for this many seconds. Returns the changes (seconds, setting), the reasons of
/// all decisions, and the final setting.
fn run(
    others: &[&str],
    seconds: u64,
    service: fn(&str, u64) -> Nanos,
    refuses: fn(&Plant, &Setting) -> bool,
) -> (Vec<(f64, String)>, Vec<String>, String) {
    let (changes, decisions, last) = decided(others, seconds, service, refuses);
    (changes, decisions.into_iter().map(|decision| decision.why).collect(), last)
}

/// Like [`run`], with the decisions rather than their reasons.
fn decided(
    others: &[&str],
    seconds: u64,
    service: fn(&str, u64) -> Nanos,
    refuses: fn(&Plant, &Setting) -> bool,
) -> (Vec<(f64, String)>, Vec<DecisionRecord>, String) {
    among_machines(&[], false, others, seconds, service, refuses)
}

/// A controller with `mq-deadline` and these candidates.
fn alone(others: &[&str]) -> TwinController {
    TwinController::new(&ControllerInput { candidates: candidates(others), ..ControllerInput::default() }, 10)
}

/// `mq-deadline` and these.
fn candidates(others: &[&str]) -> Vec<Setting> {
    std::iter::once(&"mq-deadline").chain(others).map(|text| setting(text)).collect()
}

/// Like [`decided`], with the gains over `mq-deadline` that five other machines measured. With `is_proven` this machine has measured the
/// same before.
fn among_machines(
    said: &[(&str, f64)],
    is_proven: bool,
    others: &[&str],
    seconds: u64,
    service: fn(&str, u64) -> Nanos,
    refuses: fn(&Plant, &Setting) -> bool,
) -> (Vec<(f64, String)>, Vec<DecisionRecord>, String) {
    let load = [("read_share", 1.0), ("sync_share", 1.0), ("sequential_share", 0.0), ("size_mean_bytes", 4096.0), ("streams", 1.0)];
    let outcome = |machine: u8, (setting, gain): &(&str, f64)| FleetOutcome {
        id: [machine; 16],
        machine: [machine; 16],
        writer: machine.to_string(),
        day: 0,
        device: DeviceType::default(),
        load: load.map(|(name, value)| (name.to_owned(), value)).into(),
        preference: Preference::default().to_string(),
        from: "mq-deadline".to_owned(),
        to: (*setting).to_owned(),
        gain: Estimate { mean: *gain, error: 0.02 },
        program: String::new(),
    };
    let machines = if is_proven { 0..=5 } else { 1..=5 };
    let outcomes: Vec<FleetOutcome> = machines.flat_map(|machine| said.iter().map(move |one| outcome(machine, one))).collect();
    let fleet = Arc::new(FleetKnowledge::new(&outcomes, [0; 16], &DeviceType::default(), &Preference::default()));
    let mut controller =
        TwinController::new(&ControllerInput { candidates: candidates(others), fleet, ..ControllerInput::default() }, 10);
    // The twin forecasts no gain of any setting here.
    controller.timeline.least_chance = 0.0;
    steered(controller, seconds, service, refuses)
}

/// Like [`decided`], under this controller.
fn steered(
    controller: TwinController,
    seconds: u64,
    service: fn(&str, u64) -> Nanos,
    refuses: fn(&Plant, &Setting) -> bool,
) -> (Vec<(f64, String)>, Vec<DecisionRecord>, String) {
    let mut plant = Plant { setting: setting("mq-deadline"), service, refuses, changes: Vec::new() };
    let mut control_loop = ControlLoop::new(Box::new(controller));
    control_loop.begin(Nanos::ZERO, &mut plant);
    let (mut now, end) = (Nanos::ZERO, Nanos::from_millis(1_000 * seconds));
    for number in 0.. {
        let arrival = now;
        // At positions without a pattern, so that no model of a device explains the times.
        let lba = block::scramble::scramble(number) % (1 << 29);
        let request = Request { id: 0, stream: 1, op: Op::Read, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival };
        control_loop.event(&Event::Queued(request));
        now += (plant.service)(&plant.setting.to_string(), number);
        while let Some(at) = control_loop.next_deadline().filter(|at| *at <= now) {
            control_loop.advance(at.max(Nanos(1)), &mut plant);
        }
        control_loop.event(&Event::Completed { request, dispatched: arrival, at: now });
        if now >= end {
            break;
        }
    }
    let decisions = control_loop.decisions().to_vec();
    let changes = plant.changes.iter().map(|(at, setting)| (at.as_secs_f64(), setting.clone())).collect();
    (changes, decisions, control_loop.final_setting().unwrap().to_string())
}

/// Noise of up to ten percent.
fn about(micros: u64, number: u64) -> Nanos {
    Nanos::from_micros(micros * (90 + block::scramble::scramble(number ^ 0x5eed) % 21) / 100)
}

fn never(_: &Plant, _: &Setting) -> bool {
    false
}

#[test]
fn a_better_setting_is_tried_twice_stays_and_is_confirmed_once() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 3_000 } else { 4_000 }, number);
    let (changes, whys, last) = run(&["kyber"], 60, service, never);
    let of_kyber = changes.iter().filter(|(_, setting)| setting == "kyber").count();
    assert_eq!((last.as_str(), of_kyber, changes.len()), ("kyber", 3, 5), "{changes:?}");
    assert!(whys.iter().any(|why| why.starts_with("kyber is ") && why.ends_with("as before: back to it")), "{whys:?}");
    let stays = whys.iter().find(|why| why.starts_with("kyber stays: ")).unwrap();
    let gain: f64 = stays["kyber stays: ".len()..].split('%').next().unwrap().parse().unwrap();
    assert!((20.0..35.0).contains(&gain), "{stays}");
    assert!(changes[0].0 >= 2.0 && changes[2].0 < 30.0, "{changes:?}");
}

#[test]
fn a_trial_is_recorded_with_what_was_expected_and_what_was_measured() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 3_000 } else { 4_000 }, number);
    let (_, decisions, _) = decided(&["kyber"], 60, service, never);
    let trials: Vec<&DecisionRecord> = decisions.iter().filter(|one| one.is_change() && one.to.to_string() == "kyber").collect();
    assert_eq!(trials.len(), 3, "two trials, and the return from the confirmation");
    let (first, second) = (trials[0], trials[1]);
    assert!(first.expected_gain.unwrap() < 0.05 && second.expected_gain.unwrap() > 0.15, "what the first showed is expected");
    // Four thirds of the throughput, and three quarters of the response time, which has five sixths of the weight.
    let gain = |one: &DecisionRecord| one.measured_gain().unwrap();
    assert!((gain(second).mean - 0.24).abs() < 0.05 && gain(second).error < gain(first).error, "{first:?} {second:?}");
    let is_an_end = |one: &&DecisionRecord| one.from.to_string() == "kyber" || one.why.contains("as before");
    let verdicts: Vec<&DecisionRecord> = decisions.iter().filter(is_an_end).collect();
    let [not_sure, stays, confirmed] = verdicts.iter().filter(|one| one.verdict.is_some()).copied().collect::<Vec<_>>()[..] else {
        panic!("{decisions:?}")
    };
    assert!(not_sure.why.contains("which has to be seen twice") || not_sure.why.contains("which is not sure"), "{not_sure:?}");
    assert_eq!((not_sure.measured_gain(), &not_sure.verdict), (None, &first.verdict), "a return has the verdict on the trial");
    assert_eq!((stays.measured_gain(), &stays.verdict), (second.measured_gain(), &second.verdict));
    let rulings = [first, second].map(|one| one.verdict.as_ref().unwrap()).map(|verdict| (verdict.ruling, verdict.is_outcome()));
    assert_eq!(rulings, [(Ruling::NotAdopted, false), (Ruling::Kept, true)], "a trial is no outcome");
    let again = confirmed.verdict.as_ref().unwrap();
    assert!(
        again.ruling == Ruling::Kept && again.setting == setting("kyber") && again.samples.iter().all(|count| *count > 2),
        "{again:?}"
    );
    assert!((again.gain.mean - 0.24).abs() < 0.05 && again.gain.error <= gain(second).error, "{again:?}");
    let samples = second.verdict.as_ref().unwrap().samples;
    assert!(samples[0] == 2 && samples[1] >= 2, "{samples:?}");
}

#[test]
fn a_multiple_stays_after_one_turn_and_is_confirmed() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 1_500 } else { 4_000 }, number);
    let (changes, whys, last) = run(&["kyber"], 60, service, never);
    assert_eq!((last.as_str(), changes.len()), ("kyber", 3), "one turn, and the way back and forth that confirms it: {changes:?}");
    assert!(whys.iter().any(|why| why.starts_with("kyber stays for now: each half second")), "{whys:?}");
    assert!(whys.iter().any(|why| why.ends_with("in its first moments, as before: back to kyber")), "{whys:?}");
}

#[test]
fn a_load_that_gets_faster_in_the_moment_of_a_trial_is_no_gain_of_the_setting() {
    // The trial begins at about 22 s, and from its first measured moment on everything is served at three times the rate.
    let service = |_: &str, number: u64| about(if number > 5_700 { 1_300 } else { 4_000 }, number);
    let (changes, whys, last) = run(&["kyber"], 300, service, never);
    assert!(whys.iter().any(|why| why.starts_with("kyber stays for now")), "the moment was missed: {changes:?}");
    assert!(whys.iter().any(|why| why.ends_with("which was seen before and is not now")), "{changes:?}");
    assert_eq!((last.as_str(), changes.len()), ("mq-deadline", 2), "nothing more is tried for ten minutes: {changes:?}");
}

#[test]
fn where_no_gain_is_forecast_nothing_is_tried_and_after_a_trial_without_a_gain_nothing_more() {
    let service = |_: &str, number: u64| about(4_000, number);
    let others = ["kyber", "none", "bfq"];
    let (silent, decisions, _) = steered(alone(&others), 600, service, never);
    assert!(silent.is_empty(), "{silent:?}");
    assert!(decisions.iter().any(|one| one.why.starts_with("leave mq-deadline alone: no trial is worth its cost")), "it says why");
    let (changes, ..) = run(&others, 600, service, never);
    assert_eq!(changes.len(), 2, "{changes:?}");
}

#[test]
fn a_far_worse_setting_serves_for_half_a_second() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 40_000 } else { 4_000 }, number);
    let (changes, whys, last) = run(&["kyber"], 60, service, never);
    assert_eq!(last, "mq-deadline");
    let tried: Vec<f64> = changes.chunks(2).map(|pair| pair[1].0 - pair[0].0).collect();
    assert!(!tried.is_empty() && tried.len() <= 2 && tried.iter().all(|seconds| *seconds <= 0.55), "{changes:?}");
    assert!(whys.iter().any(|why| why.starts_with("kyber is far worse than mq-deadline in its first moments")), "{whys:?}");
}

#[test]
fn settings_that_are_tried_whatever_it_is_worth_are_tried_in_turn() {
    let (changes, ..) = steered(alone(&["kyber", "none"]).trying_everything(), 120, |_, number| about(4_000, number), never);
    let of = |name: &str| changes.iter().filter(|(_, setting)| setting == name).count();
    assert!(of("kyber") >= 5 && of("kyber").abs_diff(of("none")) <= 1, "{changes:?}");
}

#[test]
fn a_way_back_that_is_refused_is_tried_again() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 5_000 } else { 4_000 }, number);
    let refuses = |plant: &Plant, setting: &Setting| {
        setting.to_string() == "mq-deadline" && plant.changes.iter().filter(|(_, setting)| setting == "mq-deadline").count() < 3
    };
    let (changes, decisions, last) = run(&["kyber"], 30, service, refuses);
    // Each turn that was refused its end counts once.
    let turns = |one: &&String| one.contains(" in 1 turn") || one.contains(" turns");
    let told: Vec<&String> = decisions.iter().filter(turns).collect();
    let ends = told.iter().filter(|one| one.contains("back to")).count();
    let again = decisions.iter().filter(|one| one.contains("the trial is over: back to mq-deadline")).count();
    assert!(again >= 2 && ends <= 4, "{decisions:?}");
    let back = changes.iter().filter(|(_, setting)| setting == "mq-deadline").count();
    assert!(last == "mq-deadline" && back >= 3, "{changes:?}");
}

#[test]
fn what_is_on_trial_does_not_stay_if_control_ends() {
    let service = |setting: &str, number: u64| about(if setting == "kyber" { 3_000 } else { 4_000 }, number);
    let (changes, ..) = run(&["kyber"], 60, service, never);
    let first = changes[0].0;
    let (during, _, last) = run(&["kyber"], first as u64 + 1, service, never);
    assert_eq!((during.len(), last.as_str()), (1, "mq-deadline"), "{during:?}");
}

#[test]
fn a_stream_that_waits_beyond_its_bound_ends_a_trial_for_good() {
    let service = |setting: &str, number: u64| if setting == "kyber" { Nanos::from_millis(2_000) } else { about(4_000, number) };
    let (changes, whys, last) = run(&["kyber"], 60, service, never);
    assert!(last == "mq-deadline" && changes.len() <= 4, "{changes:?}");
    assert!(whys.iter().any(|why| why.contains("back to mq-deadline")), "{whys:?}");
}

#[test]
fn what_others_recommend_is_tried_first_and_early_and_stays_only_after_two_turns() {
    let service = |setting: &str, number: u64| about(if setting == "bfq" { 3_000 } else { 4_000 }, number);
    let among = |is_proven| {
        let said = [("bfq", 0.25), ("kyber", 0.0)];
        let (changes, decisions, last) = among_machines(&said, is_proven, &["kyber", "none", "bfq"], 60, service, never);
        assert_eq!((changes[0].1.as_str(), last.as_str()), ("bfq", "bfq"), "{changes:?}");
        let of_bfq = changes.iter().filter(|(_, setting)| setting == "bfq").count();
        assert_eq!(of_bfq, 3, "it has to be seen twice here, and is confirmed: {changes:?}");
        (changes[0].0, decisions)
    };
    let ((first_s, decisions), (unproven_s, _)) = (among(true), among(false));
    assert!(first_s <= 10.0, "{first_s} s");
    assert!(unproven_s < 20.0 && first_s < unproven_s, "unproven advice waits for the forecast: {unproven_s} s");
    let says = decisions.iter().find_map(|decision| {
        let sources = &decision.evidence.as_ref()?.sources;
        sources.iter().find(|(source, _)| source == "fleet").map(|(_, says)| says.clone())
    });
    assert!(says.as_ref().is_some_and(|says| says.starts_with("bfq +28")), "{says:?}");
}

#[test]
fn a_fleet_that_lies_costs_a_short_trial_and_nothing_stays() {
    let service = |setting: &str, number: u64| about(if setting == "mq-deadline" { 4_000 } else { 8_000 }, number);
    let lies = [("kyber", 1.0), ("none", 1.0), ("bfq", 1.0)];
    let (changes, _, last) = among_machines(&lies, false, &["kyber", "none", "bfq"], 120, service, never);
    assert_eq!(last, "mq-deadline", "{changes:?}");
    let tried_s: f64 = changes.chunks(2).map(|pair| pair.get(1).map_or(120.0, |back| back.0) - pair[0].0).sum();
    // One full trial, early, while the load's own level is still uncertain, and two that are cut short.
    assert!(tried_s <= 4.0 && changes.len() <= 6, "{tried_s} s: {changes:?}");
    // Gains of settings that are not candidates have no effect.
    let same = |said: &[(&str, f64)]| among_machines(said, false, &["kyber", "none", "bfq"], 60, service, never).0;
    assert_eq!(same(&[("cfq", 1.0)]), same(&[]));
}
