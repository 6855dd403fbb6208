//! The second, third and fourth scheme.

use control::experience::Experience;

use crate::controller::rig::{Load, Rig, SCAN, SCATTERED, Speed, WRITING, candidates, experienced, gather};

const ALL: &[&str] = &["noop", "cfq", "sstf", "anticipatory", "deadline"];
const WITH_LEARNER: &[&str] = &["noop", "cfq", "sstf", "anticipatory", "deadline", "per-request"];

const SCAN_SPEED: Speed = &|setting| if setting.spec.name == "anticipatory" { (2000, 0) } else { (5000, 0) };
const SCATTERED_SPEED: Speed = &|setting| match setting.spec.name {
    "per-request" => (2000, 0),
    "sstf" => (3000, 0),
    _ => (5000, 0),
};
const WRITING_SPEED: Speed = &|setting| if setting.spec.name == "cfq" { (3000, 0) } else { (6000, 0) };
/// The best setting for scattered reads by the experience is the worst here.
const CONTRARY: Speed = &|setting| if setting.spec.name == "sstf" { (9000, 0) } else { (5000, 0) };

fn experience() -> Experience {
    // Each twice: a model is judged by workloads that it has not seen.
    let loads = [
        ("scan", SCAN, SCAN_SPEED),
        ("scattered", SCATTERED, SCATTERED_SPEED),
        ("writing", WRITING, WRITING_SPEED),
        ("other scan", Load { streams: 2, ..SCAN }, SCAN_SPEED),
        ("other scattered", Load { streams: 10, ..SCATTERED }, SCATTERED_SPEED),
        ("other writing", Load { streams: 3, ..WRITING }, WRITING_SPEED),
    ];
    gather(WITH_LEARNER, &loads)
}

#[test]
fn it_recognises_each_workload_and_shows_confidence_and_evidence() {
    for learner in research::model::NAMES {
        let mut rig =
            Rig::new(&format!("feedback:training=offline,window_ms=2000,learner={learner}"), &experienced(ALL, experience()));
        rig.run(SCATTERED, 6.0, SCATTERED_SPEED);
        assert_eq!(rig.changes(), [(1.0, "sstf".to_owned())], "learner {learner}");
        assert!(rig.why().contains("% sure (100% reads, 0% sequential, 4 KiB, 8 streams)"), "{}", rig.why());
        rig.run(SCAN, 6.0, SCAN_SPEED);
        assert_eq!(rig.active_setting(), "anticipatory", "learner {learner}");
        rig.run(WRITING, 6.0, WRITING_SPEED);
        assert_eq!(rig.active_setting(), "cfq", "learner {learner}");
    }
}

#[test]
fn only_two_layers_choose_the_scheduler_that_learns_and_only_if_it_is_a_candidate() {
    for (name, settings, best) in [
        ("feedback", ALL, "sstf"),
        ("feedback", WITH_LEARNER, "sstf"),
        ("two-layer", WITH_LEARNER, "per-request"),
        // A setting that is no candidate is not chosen.
        ("two-layer", ALL, "sstf"),
    ] {
        let mut rig = Rig::new(name, &experienced(settings, experience()));
        rig.run(SCATTERED, 20.0, SCATTERED_SPEED);
        assert_eq!(rig.active_setting(), best, "{name} among {settings:?}");
    }
}

#[test]
fn a_window_ends_by_requests_or_time_and_the_first_one_earlier() {
    let ends = |text: &str| {
        let mut rig = Rig::new(text, &experienced(ALL, experience()));
        rig.run(SCATTERED, 60.0, &|_| (5000, 0));
        let windows = rig.steering.windows();
        (windows[0].duration().as_secs_f64().round(), windows[1].duration().as_secs_f64().round())
    };
    // 200 requests a second.
    assert_eq!(ends("feedback:training=offline"), (1.0, 15.0));
    assert_eq!(ends("feedback:training=offline,first_window_ms=0"), (15.0, 15.0));
    assert_eq!(ends("feedback:training=offline,window_requests=1000,first_window_ms=0"), (5.0, 5.0));
    assert_eq!(ends("feedback:training=offline,window_ms=20000,first_window_ms=0"), (20.0, 20.0));
    assert_eq!(ends("feedback:training=offline,window_ms=20000,first_window_ms=3000"), (3.0, 20.0));
}

#[test]
fn offline_without_experience_it_keeps_what_is_set_and_says_why() {
    let mut rig = Rig::new("feedback:training=offline", &candidates(ALL));
    assert_eq!(rig.why(), "no training data: keeping deadline");
    rig.run(SCATTERED, 40.0, SCATTERED_SPEED);
    assert_eq!(rig.changes(), []);
    assert!(rig.why().contains("no training data"), "{}", rig.why());
}

#[test]
fn online_without_experience_it_begins_with_a_round_and_learns_from_it() {
    for training in ["online", "both"] {
        let mut rig = Rig::new(&format!("feedback:training={training},window_ms=2000"), &candidates(ALL));
        rig.run(SCATTERED, 30.0, SCATTERED_SPEED);
        let set: Vec<String> = rig.changes().into_iter().map(|(_, to)| to).collect();
        assert_eq!(set, ["anticipatory", "cfq", "deadline", "noop", "sstf"]);
        assert!(rig.why().starts_with("svm: sstf, "), "{}", rig.why());
        rig.run(SCAN, 30.0, SCAN_SPEED);
        assert_eq!(rig.active_setting(), "anticipatory", "of another workload nothing was known");
        let changes = rig.changes().len();
        rig.run(SCATTERED, 10.0, SCATTERED_SPEED);
        assert_eq!((rig.active_setting().as_str(), rig.changes().len()), ("sstf", changes + 1), "both are known now");
    }
}

#[test]
fn learning_only_online_the_experience_of_others_does_not_count() {
    let mut rig = Rig::new("feedback:training=online", &experienced(ALL, experience()));
    rig.run(SCATTERED, 30.0, CONTRARY);
    assert_ne!(rig.active_setting(), "sstf");
    assert!(rig.said("trying each candidate"));
}

#[test]
fn a_change_that_goes_on_losing_is_undone_and_not_made_again() {
    let mut rig = Rig::new("feedback", &experienced(ALL, experience()));
    rig.run(SCATTERED, 60.0, CONTRARY);
    assert_eq!(rig.changes(), [(1.0, "sstf".to_owned()), (3.0, "deadline".to_owned())]);
    assert!(rig.said("sstf was wrong: 38% worse than deadline in 2 windows; reverting"), "{}", rig.minutes());
    assert!(rig.why().contains("but measured not better than deadline"), "{}", rig.why());
}

#[test]
fn more_windows_must_lose_if_more_are_asked_for_and_none_are_judged_offline() {
    let mut rig = Rig::new("feedback:losses=4", &experienced(ALL, experience()));
    rig.run(SCATTERED, 20.0, CONTRARY);
    assert_eq!(rig.changes().last().unwrap(), &(5.0, "deadline".to_owned()));
    for text in ["feedback:training=offline", "feedback:losses=0", "feedback:loss_percent=60"] {
        let mut rig = Rig::new(text, &experienced(ALL, experience()));
        rig.run(SCATTERED, 12.0, CONTRARY);
        assert_eq!(rig.active_setting(), "sstf", "{text}");
    }
}

#[test]
fn a_change_that_stops_everything_is_undone() {
    let stops: Speed = &|setting| if setting.spec.name == "sstf" { (10_000_000, 0) } else { (5000, 0) };
    let mut rig = Rig::new("feedback", &experienced(ALL, experience()));
    rig.run(SCATTERED, 20.0, stops);
    assert!(rig.said("sstf was wrong: 99% worse"), "{}", rig.minutes());
    assert_eq!(rig.active_setting(), "deadline");
}

#[test]
fn an_error_is_remembered_when_the_workload_comes_back() {
    let mut rig = Rig::new("feedback:window_ms=2000", &experienced(ALL, experience()));
    rig.run(SCATTERED, 20.0, CONTRARY);
    rig.run(SCAN, 20.0, SCAN_SPEED);
    assert_eq!(rig.active_setting(), "anticipatory");
    rig.run(SCATTERED, 20.0, CONTRARY);
    assert_eq!(rig.active_setting(), "deadline");
    let tried = rig.changes().iter().filter(|(_, to)| to == "sstf").count();
    assert_eq!(tried, 1, "{:?}", rig.changes());
    assert!(rig.said("which corrected an error in a workload like this one"), "{}", rig.minutes());
}

#[test]
fn after_enough_requests_it_trains_again_on_measurements() {
    let mut rig = Rig::new("feedback:retrain_requests=4000,window_ms=1000", &experienced(ALL, experience()));
    rig.run(SCATTERED, 15.0, CONTRARY);
    assert!(!rig.said("trained again"));
    rig.run(SCATTERED, 10.0, CONTRARY);
    assert!(rig.said("retrained with"), "{}", rig.minutes());
    let mut offline = Rig::new("feedback:training=offline,retrain_requests=4000,window_ms=1000", &experienced(ALL, experience()));
    offline.run(SCATTERED, 25.0, CONTRARY);
    assert!(!offline.said("trained again"));
}

#[test]
fn windows_spent_on_others_find_what_the_model_does_not_know() {
    // The experience knows nothing of noop's worth.
    let speed: Speed = &|setting| if setting.spec.name == "noop" { (1000, 0) } else { (3000, 0) };
    let mut plain = Rig::new("feedback:window_ms=1000", &experienced(ALL, experience()));
    plain.run(SCATTERED, 60.0, speed);
    assert_ne!(plain.active_setting(), "noop");
    let mut curious = Rig::new("feedback:window_ms=1000,explore_windows=5", &experienced(ALL, experience()));
    curious.run(SCATTERED, 60.0, speed);
    let before = curious.changes().len();
    assert!(curious.said("keeping noop: better than"), "{}", curious.minutes());
    assert!(before < 20, "{:?}", curious.changes());
}

#[test]
fn what_is_refused_is_not_asked_for_again_and_the_next_likely_is_set() {
    let mut rig = Rig::refusing("feedback:window_ms=1000", &experienced(ALL, experience()), &["sstf"]);
    rig.run(SCATTERED, 20.0, SCATTERED_SPEED);
    assert_eq!(rig.plant.asked.iter().filter(|asked| *asked == "sstf").count(), 1);
    let mut round = Rig::refusing("feedback:training=online", &candidates(ALL), &["anticipatory", "noop", "sstf"]);
    round.run(SCATTERED, 20.0, WRITING_SPEED);
    assert_eq!(round.active_setting(), "cfq");
}

#[test]
fn without_candidates_what_is_set_stays() {
    for name in ["feedback", "two-layer"] {
        let mut rig = Rig::new(name, &candidates(&[]));
        rig.run(SCAN, 20.0, SCAN_SPEED);
        assert_eq!((rig.active_setting().as_str(), rig.why()), ("deadline", "no candidates"));
    }
}

#[test]
fn the_third_scheme_keeps_its_scheduler_active() {
    let mut rig = Rig::new("per-request", &candidates(ALL));
    rig.run(SCATTERED, 5.0, SCATTERED_SPEED);
    assert_eq!(rig.changes(), [(0.0, "per-request".to_owned())]);
    let mut refused = Rig::refusing("per-request", &candidates(ALL), &["per-request"]);
    refused.run(SCATTERED, 5.0, SCATTERED_SPEED);
    assert_eq!(refused.active_setting(), "deadline");
    assert!(refused.why().contains("is not available"), "{}", refused.why());
}

#[test]
fn the_same_seed_decides_the_same() {
    let run = || {
        let mut rig = Rig::new("two-layer:window_ms=1000,explore_windows=3", &experienced(ALL, experience()));
        rig.run(SCATTERED, 20.0, CONTRARY);
        rig.run(WRITING, 20.0, WRITING_SPEED);
        rig.decided().iter().map(|decided| format!("{} {}", decided.to, decided.why)).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn experience_of_other_settings_and_features_is_left_out() {
    let mut other = experience();
    other.features[3] = "unheard_of".to_owned();
    other.settings[2] = "sstf:unknown=1".to_owned();
    let mut rig = Rig::new("feedback:training=offline,window_ms=1000", &experienced(ALL, other));
    rig.run(SCATTERED, 5.0, SCATTERED_SPEED);
    assert_ne!(rig.active_setting(), "sstf", "it is no class that is known");
}
