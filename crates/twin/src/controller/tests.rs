//! What the controller does, step by step.

#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

use control::target::Bounds;

use super::*;

/// A stretch of a load: how far away it is from here, under what it was seen, and how each setting served it, `None` if it starved a
/// stream.
type Stretch<'a> = (f64, &'a str, &'a [(&'a str, Option<f64>)]);

/// A controller with deadline in force that knows these.
fn knowing(stretches: &[Stretch]) -> Seekwise {
    let candidates = control::candidates::parse(["classic"]).unwrap();
    let mut controller = Seekwise::new(&ControllerInput { candidates, ..ControllerInput::default() }, 10);
    controller.in_force = controller.arm_of(&Setting::parse("deadline").unwrap()).unwrap();
    let known = |(away, under, scores): &Stretch| {
        let mut point = here();
        point[0] += away;
        let scores = scores.iter().map(|(setting, score)| ((*setting).to_owned(), *score)).collect();
        Known { point, under: (*under).to_owned(), scores }
    };
    controller.known = stretches.iter().map(known).collect();
    controller
}

fn setting(text: &str) -> Setting {
    Setting::parse(text).unwrap()
}

fn here() -> Point {
    observe::similarity::NOWHERE.map(|_| 2.0)
}

/// What it recalls here, and what it does not try.
fn recalls(stretches: &[Stretch]) -> (Option<String>, Vec<String>) {
    let mut controller = knowing(stretches);
    let recalled = controller.recall(&here()).map(|arm| controller.arms[arm].setting.to_string());
    let not_tried = controller.arms.iter().filter(|arm| arm.again == NEVER).map(|arm| arm.setting.to_string());
    (recalled, not_tried.collect())
}

#[test]
fn what_served_a_load_like_this_better_is_recalled_and_what_did_worse_is_not_tried() {
    let served: &[(&str, Option<f64>)] = &[("cfq", Some(5.3)), ("deadline", Some(5.0)), ("noop", Some(5.0)), ("sstf", Some(5.29))];
    let recalled = Some("cfq".to_owned());
    assert_eq!(recalls(&[(0.5, "deadline", served)]), (recalled, vec!["noop".to_owned(), "deadline".to_owned()]));
    assert_eq!(recalls(&[(1.5, "deadline", served)]), (None, vec![]), "another load");
    assert_eq!(recalls(&[(0.5, "noop", served)]), (None, vec![]), "seen under another setting, a load looks different");
}

#[test]
fn what_the_twin_has_wrong_of_a_scheduler_it_is_not_believed_of_its_tunings() {
    let mut controller = knowing(&[]);
    let promise = |setting: &str, gain: f64| Prediction {
        setting: Setting::parse(setting).unwrap(),
        throughput: 1.0,
        response_s: 1.0,
        p99_by_bound: 0.0,
        gain,
        error: 0.1,
    };
    controller.promises.note(&promise("cfq", 0.5), -0.1);
    let tuned = controller.promises.trusted(&promise("cfq:quantum=32", 0.4), true);
    assert!((tuned.gain + 0.2).abs() < 1e-9 && tuned.error > 0.2, "{tuned:?}");
    let other = controller.promises.trusted(&promise("sstf", 0.4), true);
    assert_eq!((other.gain, other.error), (0.4, 0.1));
    controller.begin_load(Nanos::ZERO, Nanos::ZERO);
    let later = controller.promises.trusted(&promise("cfq:quantum=32", 0.4), true);
    assert!(later.gain == 0.4 && later.error > 0.2, "under another load it may be right, and is less sure: {later:?}");
}

#[test]
fn what_was_chosen_for_another_load_goes_where_the_twin_does_not_know_this_one() {
    let (second, cfq) = (Nanos::from_millis(1_000), Setting::parse("cfq").unwrap());
    let mut controller = knowing(&[]);
    controller.default = controller.in_force;
    controller.in_force = controller.arm_of(&cfq).unwrap();
    assert!(controller.go_back_unknown(second).is_none(), "the twin knows it");
    controller.off = Some(second);
    controller.is_known = true;
    assert!(controller.go_back_unknown(second).is_none(), "it is remembered what serves it");
    controller.is_known = false;
    assert!(controller.go_back_unknown(second).is_some_and(|decision| decision.why.ends_with("under cfq: back to deadline")));
    assert!(controller.go_back_unknown(second).is_none(), "it is back");
}

#[test]
fn another_read_ahead_is_judged_only_once_files_are_opened_anew() {
    let mut controller = knowing(&[]);
    controller.arms.push(Arm::new(setting("deadline read_ahead_kb=1024")));
    controller.found_read_ahead_kib = Some(128);
    let (found, wider) = (controller.in_force, controller.arms.len() - 1);
    let promise = Prediction {
        setting: setting("deadline read_ahead_kb=1024"),
        throughput: 1.0,
        response_s: 1.0,
        p99_by_bound: 0.0,
        gain: 0.5,
        error: 0.1,
    };
    controller.pending = Some(Pending { from: found, promise });
    controller.put(Nanos::ZERO, wider, String::new());
    let at = |second: u64| Nanos::from_millis(1_000 * second);
    // 100 reads a second, each behind the one before.
    let reads = |controller: &mut Seekwise, second: u64, sectors: u32| {
        for number in 0..100 {
            let arrival = at(second) + Nanos::from_millis(10 * number);
            let lba = 1_000_000 * second + u64::from(sectors) * number;
            let (op, priority) = (block::Op::Read, block::Priority::DEFAULT);
            let request = block::Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba, arrival };
            controller.event(&Event::Queued(request));
            controller.event(&Event::Completed { request, dispatched: arrival, at: arrival + Nanos::from_millis(5) });
        }
        controller.slots.until(at(second + 1));
    };
    controller.arms[found].measured = Some(Measured { scored: Scored::plain(100.0), variance: 0.0 });
    for second in 0..20 {
        reads(&mut controller, second, 256);
        assert!(controller.compare(at(second + 1), 256).is_none(), "files are from before: it goes neither back nor on");
    }
    let measured = |arm: usize| controller.arms[arm].measured.map(|measured| measured.scored);
    assert!(measured(found).is_some() && measured(found) == measured(wider), "what was found serves no better than this");
    controller.arms[found].measured = Some(Measured { scored: Scored::plain(100.0), variance: 0.0 });
    reads(&mut controller, 20, 2048);
    let decision = controller.compare(at(21), 256).unwrap();
    assert_eq!((decision.why.as_str(), controller.evidence), ("files are read ahead by 1024 KiB from now on", at(21)));
    let mut goes_back = None;
    for second in 21..40 {
        reads(&mut controller, second, 2048);
        goes_back = goes_back.or(controller.compare(at(second + 1), 256).filter(|_| controller.in_force == found));
    }
    assert!(goes_back.is_some_and(|decision| decision.why.ends_with("back to deadline")), "it is worse than what was measured");
}

#[test]
fn another_read_ahead_interrupts_no_measurement_and_takes_no_blame() {
    let mut controller = knowing(&[]);
    controller.arms.push(Arm::new(setting("deadline read_ahead_kb=1024")));
    controller.found_read_ahead_kib = Some(128);
    controller.default = controller.in_force;
    let (cfq, wider, at) = (controller.arm_of(&setting("cfq")).unwrap(), controller.arms.len() - 1, Nanos::from_millis(5_000));
    controller.put(at, wider, String::new());
    assert!(controller.evidence == Nanos::ZERO && controller.changes.is_empty() && !controller.is_settling);
    assert!(controller.is_as_found(), "no file was opened since");
    controller.awaits_files = None;
    assert!(!controller.is_as_found());
    controller.put(at, cfq, String::new());
    assert!(controller.evidence == at && controller.changes == [at] && controller.is_settling && !controller.is_as_found());
}

#[test]
fn the_twin_is_asked_again_soon_where_it_expects_much_and_is_not_sure() {
    let mut controller = knowing(&[]);
    let seconds = |seconds: u64| Nanos::from_millis(1_000 * seconds);
    let asks = |controller: &Seekwise, gain: f64, error: f64, at: u64| {
        let setting = setting("cfq");
        let promises = vec![Prediction { setting, throughput: 1.0, response_s: 1.0, p99_by_bound: 0.0, gain, error }];
        let in_force = Performance { throughput: 1.0, response_s: 1.0, fairness: 1.0, starves: false };
        let answer = Answer { streams: Vec::new(), in_force, off: 0.0, promises, requests: 0 };
        controller.asks_again(&answer, seconds(at), 1e9)
    };
    controller.credit_ns = 6e8;
    assert_eq!(asks(&controller, 0.8, 0.84, 8), seconds(10));
    assert_eq!(asks(&controller, 0.8, 0.84, 2), seconds(3), "not before there is another window");
    assert_eq!(asks(&controller, 0.8, 0.4, 8), seconds(16), "it is sure");
    assert_eq!(asks(&controller, 0.01, 0.02, 8), seconds(16), "that would make no difference");
    controller.credit_ns = 4e8;
    assert_eq!(asks(&controller, 0.8, 0.84, 8), seconds(16), "another question would be worse");
}

#[test]
fn a_twin_that_is_belied_by_what_was_measured_is_sure_of_nothing() {
    let mut controller = knowing(&[]);
    let promise = |setting: Setting, gain: f64| Prediction {
        setting,
        throughput: 1.0,
        response_s: 1.0,
        p99_by_bound: 0.0,
        gain,
        error: 0.05,
    };
    let measured = |score: f64| Some(Measured { scored: Scored::of(score, 1.0, 256), variance: 1e-6 });
    let (deadline, cfq) = (controller.in_force, controller.arm_of(&setting("cfq")).unwrap());
    let sure_of_noop = |controller: &Seekwise, of_deadline: f64| {
        let weighed = controller.weighed(&[promise(setting("deadline"), of_deadline), promise(setting("noop"), 0.2)]);
        weighed.iter().any(|promise| promise.setting == setting("noop") && promise.is_sure())
    };
    controller.in_force = cfq;
    controller.arms[cfq].measured = measured(2.0);
    assert!(sure_of_noop(&controller, 0.1), "nothing else was measured");
    controller.arms[deadline].measured = measured(0.5);
    assert!(sure_of_noop(&controller, -1.45));
    assert!(!sure_of_noop(&controller, 0.1), "it was far worse");
    controller.arms[deadline].measured = Some(Measured { variance: 1.0, ..measured(0.5).unwrap() });
    assert!(sure_of_noop(&controller, 0.1), "by chance, for all that is known");
}

#[test]
fn processes_that_begin_one_after_another_are_no_load_before_the_last_of_them() {
    let mut controller = knowing(&[]);
    let at = Nanos::from_millis;
    let asks = |controller: &mut Seekwise, stream: u32, from_ms: u64, to_ms: u64| {
        for ms in (from_ms..to_ms).step_by(10) {
            let (op, priority) = (block::Op::Read, block::Priority::DEFAULT);
            let request = block::Request { id: 0, stream, op, sync: true, priority, sectors: 8, lba: 0, arrival: at(ms) };
            controller.event(&Event::Queued(request));
            controller.event(&Event::Completed { request, dispatched: at(ms), at: at(ms + 9) });
        }
    };
    asks(&mut controller, 1, 100, 1_800);
    asks(&mut controller, 2, 800, 1_800);
    controller.awaits_all(at(1_800));
    assert_eq!(controller.evidence, at(1_000), "a window as ever");
    controller.arms[1].measured = Some(Measured { scored: Scored::of(1.0, 1.0, 256), variance: 0.0 });
    asks(&mut controller, 1, 1_800, 3_000);
    asks(&mut controller, 2, 1_800, 3_000);
    asks(&mut controller, 3, 1_700, 3_000);
    controller.awaits_all(at(3_000));
    assert!(controller.evidence == at(1_700) && controller.changes.contains(&at(1_700)), "{:?}", controller.evidence);
    assert!(controller.arms[1].measured.is_none(), "that was of two processes");
    assert_eq!(controller.tells_from(), at(1_700));
    asks(&mut controller, 4, 3_000, 12_000);
    controller.awaits_all(at(12_000));
    assert_eq!(controller.evidence, at(1_700), "who comes later comes to a load that is there");
}

#[test]
fn a_read_ahead_is_free_to_try_unless_it_is_the_one_that_was_found() {
    let mut controller = knowing(&[]);
    controller.found_read_ahead_kib = Some(128);
    let wider = setting("deadline read_ahead_kb=1024");
    assert!(controller.is_free_to_try(&wider) && !controller.is_free_to_try(&setting("cfq read_ahead_kb=1024")));
    controller.arms.push(Arm::new(wider));
    controller.in_force = controller.arms.len() - 1;
    assert!(!controller.is_free_to_try(&setting("deadline")), "it was in force before");
    assert!(controller.is_free_to_try(&setting("deadline read_ahead_kb=512")));
}

#[test]
fn a_load_that_reads_nothing_ahead_leaves_the_read_ahead_to_the_next_one() {
    let mut controller = knowing(&[]);
    for text in ["deadline read_ahead_kb=1024", "cfq read_ahead_kb=1024"] {
        controller.arms.push(Arm::new(setting(text)));
    }
    controller.found_read_ahead_kib = Some(128);
    let arm = |controller: &Seekwise, text: &str| controller.arm_of(&setting(text)).unwrap();
    controller.past.push((here(), arm(&controller, "cfq")));
    controller.in_force = arm(&controller, "deadline read_ahead_kb=1024");
    assert_eq!(controller.recall(&here()), Some(arm(&controller, "cfq read_ahead_kb=1024")));
    let (op, priority, arrival) = (block::Op::Read, block::Priority::DEFAULT, Nanos::ZERO);
    let read = |sectors| block::Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba: 0, arrival };
    let done = |sectors| Event::Completed { request: read(sectors), dispatched: arrival, at: Nanos(1) };
    controller.recording.event(&done(16));
    assert_eq!(controller.recall(&here()), Some(arm(&controller, "cfq read_ahead_kb=1024")), "a page is no read-ahead");
    controller.recording.event(&done(256));
    assert_eq!(controller.recall(&here()), Some(arm(&controller, "cfq")));
}

/// One with deadline in force that knows a disk on which files are read ahead by 128 KiB, and that has a second to spend.
fn with_files_to_come() -> (Seekwise, Bounds) {
    let mut controller = knowing(&[]);
    for text in ["deadline read_ahead_kb=1024", "cfq read_ahead_kb=1024"] {
        controller.arms.push(Arm::new(setting(text)));
    }
    controller.default = controller.in_force;
    controller.found_read_ahead_kib = Some(128);
    let (profile, knowledge) = (sim::profile::load("sata7200").unwrap().device(), KnowledgeStore::new(sched::all()));
    let (capacity_sectors, limits) = (profile.capacity_sectors(), block::Limits::default());
    controller.device = Some(Device { profile, findings: Vec::new(), accesses: 100, seen: 100, of_load: 100, knowledge });
    controller.credit_ns = 1e9;
    (controller, Bounds { capacity_sectors, limits, nr_requests: 256, read_ahead_kib: Some(128) })
}

#[test]
fn a_read_ahead_is_in_force_before_the_files_are_opened_that_gain_by_it() {
    let (mut controller, bounds) = with_files_to_come();
    controller.credit_ns = 0.0;
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_none(), "it is not worth more than there is to spend");
    controller.credit_ns = 1e9;
    let decision = controller.prepare_for_files(Nanos::ZERO, || bounds).unwrap();
    assert!(decision.why.starts_with("deadline read_ahead_kb=1024 promises to be "), "{}", decision.why);
    assert!(
        controller.credit_ns < 1e9 && controller.pending.is_none(),
        "it costs something, and nothing that is measured now tells of it"
    );
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_none(), "once");
    // A load of which the twin knows nothing ends what was chosen for another one, and not that.
    controller.in_force = controller.arm_of(&setting("cfq read_ahead_kb=1024")).unwrap();
    controller.off = Some(Nanos::ZERO);
    let decision = controller.go_back_unknown(Nanos::ZERO).unwrap();
    assert!(decision.why.ends_with("back to deadline read_ahead_kb=1024"), "{}", decision.why);
    // What was seen is against it: it is not expected of others any more.
    controller.put(Nanos::ZERO, controller.default, String::new());
    controller.awaits_files = None;
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_none());
}

#[test]
fn a_load_that_is_read_ahead_itself_counts_for_more_than_what_is_supposed() {
    let (mut controller, bounds) = with_files_to_come();
    let (op, priority, arrival) = (block::Op::Read, block::Priority::DEFAULT, Nanos::ZERO);
    let request = block::Request { id: 0, stream: 1, op, sync: false, priority, sectors: 256, lba: 0, arrival };
    controller.recording.event(&Event::Completed { request, dispatched: arrival, at: Nanos(1) });
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_none());
    controller.load.begin_load(Nanos(2));
    assert!(controller.prepare_for_files(Nanos(2), || bounds).is_some(), "the next one is not");
}

#[test]
fn what_is_refused_leaves_in_force_what_was() {
    let (mut controller, bounds) = with_files_to_come();
    let cfq = controller.arm_of(&setting("cfq")).unwrap();
    controller.in_force = cfq;
    controller.prepare_for_files(Nanos::ZERO, || bounds).unwrap();
    let wanted = controller.setting().clone();
    controller.refused(&wanted, "there is no room");
    assert_eq!(controller.in_force, cfq);
    assert_eq!(controller.found_again(), controller.default, "nothing is in force for files to come");
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_none(), "it would be refused again");
    controller.begin_load(Nanos::ZERO, Nanos::ZERO);
    assert!(controller.prepare_for_files(Nanos::ZERO, || bounds).is_some(), "under another load there may be room");
}

#[test]
fn what_gained_by_chance_is_not_recalled() {
    let stretch = |cfq: f64| [("cfq", Some(5.0 + cfq)), ("deadline", Some(5.0))];
    let (more, less, some) = (stretch(0.3), stretch(-0.2), stretch(0.25));
    // The nearest alone would tell of a gain.
    let mixed: [Stretch; 2] = [(0.0, "deadline", &more), (0.4, "deadline", &less)];
    assert_eq!(recalls(&mixed), (Some("deadline".to_owned()), vec![]));
    let alike: [Stretch; 2] = [(0.0, "deadline", &more), (0.4, "deadline", &some)];
    assert_eq!(recalls(&alike).0.unwrap(), "cfq");
}

#[test]
fn what_starved_a_stream_in_any_stretch_is_not_recalled() {
    let served: &[(&str, Option<f64>)] = &[("sstf", Some(6.0)), ("cfq", Some(5.1)), ("deadline", Some(5.0))];
    let starved: &[(&str, Option<f64>)] = &[("sstf", None), ("cfq", Some(5.1)), ("deadline", Some(5.0))];
    assert_eq!(recalls(&[(0.0, "deadline", served)]).0.unwrap(), "sstf");
    assert_eq!(recalls(&[(0.0, "deadline", served), (0.0, "deadline", starved)]).0.unwrap(), "cfq");
}
