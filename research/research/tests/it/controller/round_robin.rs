//! The first scheme.

use observe::Preference;

use crate::controller::rig::{ALL, Rig, SCAN, SCATTERED, Speed, by_load, candidates};

#[test]
fn each_candidate_has_its_turn_in_alphabetical_order_and_the_best_stays() {
    let mut rig = Rig::new("round-robin", &candidates(ALL));
    rig.run(SCATTERED, 20.0, &by_load(false));
    let expected = [(0.0, "anticipatory"), (2.0, "cfq"), (4.0, "noop"), (6.0, "sstf")];
    assert_eq!(rig.changes(), expected.map(|(at, to)| (at, to.to_owned())));
    assert!(rig.why().starts_with("the best of 4: 2.0 MB/s at"), "{}", rig.why());
    let mut other = Rig::new("round-robin:quantum_ms=500", &candidates(ALL));
    other.run(SCAN, 20.0, &by_load(true));
    assert_eq!(other.changes().last().unwrap(), &(2.0, "anticipatory".to_owned()));
}

#[test]
fn the_preference_says_what_is_best() {
    // Much done with long waits, or little done with short ones.
    let speed: Speed = &|setting| if setting.spec.name == "cfq" { (3000, 0) } else { (2000, 3000) };
    for (preference, best) in [(Preference::new(3, 2, 1), "cfq"), (Preference::new(1, 3, 2), "noop")] {
        let mut brief = candidates(&["cfq", "noop"]);
        brief.preference = preference.unwrap();
        let mut rig = Rig::new("round-robin", &brief);
        rig.run(SCAN, 5.0, speed);
        assert_eq!(rig.active_setting(), best);
    }
}

#[test]
fn another_workload_is_noticed_at_the_next_look_and_the_best_looked_for_again() {
    let mut rig = Rig::new("round-robin", &candidates(ALL));
    rig.run(SCATTERED, 12.0, &by_load(false));
    rig.run(SCAN, 55.0, &by_load(true));
    assert_eq!(rig.active_setting(), "sstf", "the first look is 60 s after the selection, at 68 s");
    rig.run(SCAN, 15.0, &by_load(true));
    assert_eq!(rig.active_setting(), "anticipatory");
    assert!(rig.said("another workload, correlation"), "{}", rig.minutes());
}

#[test]
fn the_same_workload_is_not_searched_again_and_another_one_neither_if_none_is_to_be_noticed() {
    let mut rig = Rig::new("round-robin:check_ms=5000", &candidates(ALL));
    rig.run(SCATTERED, 60.0, &by_load(false));
    assert_eq!(rig.changes().len(), 4, "{:?}", rig.changes());
    assert!(rig.why().contains("same workload (100% reads, 0% sequential, 4 KiB, 8 streams)"), "{}", rig.why());
    let mut blind = Rig::new("round-robin:check_ms=5000,least_correlation_percent=0,worse_percent=0", &candidates(ALL));
    blind.run(SCATTERED, 30.0, &by_load(false));
    blind.run(SCAN, 30.0, &by_load(true));
    assert_eq!(blind.changes().len(), 4, "{:?}", blind.changes());
}

#[test]
fn a_performance_that_becomes_bad_is_a_reason_to_look_again() {
    let slower: Speed = &|setting| if setting.spec.name == "sstf" { (9000, 0) } else { (5000, 0) };
    let mut rig = Rig::new("round-robin:check_ms=5000", &candidates(ALL));
    rig.run(SCATTERED, 20.0, &by_load(false));
    rig.run(SCATTERED, 30.0, slower);
    assert!(rig.said("much lower than"), "{}", rig.minutes());
    assert_ne!(rig.active_setting(), "sstf");
    let mut patient = Rig::new("round-robin:check_ms=5000,worse_percent=90", &candidates(ALL));
    patient.run(SCATTERED, 20.0, &by_load(false));
    patient.run(SCATTERED, 30.0, slower);
    assert_eq!(patient.active_setting(), "sstf");
}

#[test]
fn what_the_plant_refuses_has_no_turn_and_costs_no_time() {
    let mut rig = Rig::refusing("round-robin:check_ms=3000,worse_percent=1", &candidates(ALL), &["cfq", "sstf"]);
    let speed: Speed = &|setting| if setting.spec.name == "noop" { (4000, 0) } else { (5000, 0) };
    rig.run(SCATTERED, 6.0, speed);
    assert_eq!(rig.active_setting(), "noop", "the better one of the two that can be had");
    let turns: Vec<f64> = rig.changes().iter().map(|(at, _)| (at * 10.0).round() / 10.0).collect();
    assert_eq!(turns, [0.0, 2.0], "{}", rig.minutes());
    assert!(rig.decided().iter().any(|decided| decided.why.starts_with("the best of 2") && decided.at.as_secs_f64() < 4.1));
    let before = rig.plant.asked.len();
    rig.run(SCATTERED, 10.0, &|_| (7000, 0));
    assert!(rig.said("much"), "the selection begins again");
    assert!(!rig.plant.asked[before..].iter().any(|asked| asked == "cfq" || asked == "sstf"), "{:?}", rig.plant.asked);
}

#[test]
fn where_all_is_refused_or_there_are_no_candidates_what_is_set_stays() {
    let mut rig = Rig::refusing("round-robin", &candidates(&["noop", "cfq"]), &["noop", "cfq"]);
    rig.run(SCAN, 70.0, &|_| (5000, 0));
    assert_eq!(rig.active_setting(), "deadline");
    let mut none = Rig::new("round-robin", &candidates(&[]));
    none.run(SCAN, 70.0, &|_| (5000, 0));
    assert_eq!(none.active_setting(), "deadline");
    assert!(none.said("no candidate can be set"));
}

#[test]
fn an_idle_disk_is_no_reason_to_look_again() {
    let mut rig = Rig::new("round-robin:check_ms=5000", &candidates(ALL));
    rig.run(SCATTERED, 10.0, &by_load(false));
    let changes = rig.changes().len();
    rig.idle(100);
    assert_eq!(rig.changes().len(), changes, "{:?}", rig.changes());
    assert_eq!(rig.why(), "no requests");
}

#[test]
fn the_best_is_tuned_if_that_is_asked_for() {
    let speed: Speed = &|setting| match setting.spec.name {
        "deadline" => {
            let index = setting.spec.tunables.iter().position(|tunable| tunable.name == "fifo_batch").unwrap();
            (1000 + 100 * setting.values[index].unsigned_abs(), 0)
        }
        _ => (5000, 0),
    };
    let mut rig = Rig::new("round-robin:tune=1,quantum_ms=500", &candidates(&["deadline", "noop"]));
    rig.run(SCATTERED, 20.0, speed);
    assert_eq!(rig.active_setting(), "deadline:fifo_batch=1");
    let mut plain = Rig::new("round-robin:quantum_ms=500", &candidates(&["deadline", "noop"]));
    plain.run(SCATTERED, 20.0, speed);
    assert_eq!(plain.active_setting(), "deadline");
}
