//! The scheme `seekwise`, with no experience to lean on.

use crate::rig::{ALL, Rig, SCAN, SCATTERED, by_load, candidates};

#[test]
fn what_serves_much_better_is_found_by_trials_and_stays() {
    let mut rig = Rig::new("seekwise", &candidates(ALL));
    rig.run(SCATTERED, 60.0, &by_load(false));
    assert_eq!(rig.in_force(), "sstf", "{}", rig.minutes());
    assert!(rig.said("trying sstf: no similar case is known"), "{}", rig.minutes());
    let changes = rig.changes().len();
    rig.run(SCATTERED, 60.0, &by_load(false));
    assert_eq!(rig.in_force(), "sstf", "{}", rig.minutes());
    assert!(rig.changes().len() <= changes + 6, "{}", rig.minutes());
}

#[test]
fn where_nothing_is_better_trials_become_rare() {
    let mut rig = Rig::new("seekwise", &candidates(ALL));
    rig.run(SCATTERED, 120.0, &|_| (3000, 0));
    let late = rig.changes().iter().filter(|(at, _)| *at > 60.0).count();
    assert!(rig.changes().len() <= 24 && late <= 8, "{}", rig.minutes());
}

#[test]
fn what_is_much_worse_is_left_again_at_once() {
    let mut rig = Rig::new("seekwise", &candidates(&["noop", "cfq"]));
    rig.run(SCATTERED, 60.0, &|setting| if setting.spec.name == "cfq" { (30_000, 0) } else { (3000, 0) });
    assert_ne!(rig.in_force(), "cfq", "{}", rig.minutes());
    let changes = rig.changes();
    let tried: Vec<f64> = changes.iter().filter(|(_, to)| to == "cfq").map(|(at, _)| *at).collect();
    for at in tried {
        let left = changes.iter().find(|(later, _)| *later > at).map(|(later, _)| later - at);
        // One window to settle, one to judge.
        assert!(left.is_some_and(|after| after <= 2.0), "{}", rig.minutes());
    }
}

#[test]
fn where_nobody_waits_nothing_unknown_is_tried() {
    let mut rig = Rig::new("seekwise", &candidates(ALL));
    rig.run(SCAN, 60.0, &|_| (3000, 0));
    assert!(rig.changes().is_empty(), "{}", rig.minutes());
}
