//! The controller that runs a search: it tries, verifies, keeps, goes back, and knows a load again.

use std::sync::Arc;

use block::Nanos;
use control::controller::ControllerInput;
use control::experience::{Case, Experience, GenePool};
use control::search::{Genetic, Rehearsal, RehearsalUse, Search, SearchOptions, Start, Tuner};
use control::{ControlLoop, Setting, Target};
use knowledge::ModelRow;
use observe::Event;
use observe::description::names;
use observe::performance::Performance;
use observe::performance::TrialScore;

use super::rig::{Load, Rig, SCATTERED, WRITING, candidates};

fn rules(trials: u32) -> SearchOptions {
    let make = |start: Start| Box::new(Genetic::new(start, 6)) as Box<dyn Search>;
    let (child, turn) = (Nanos::from_millis(2_000), Nanos::from_millis(6_000));
    SearchOptions {
        name: "genetic",
        child,
        trials,
        tunes: false,
        host: &[],
        turn,
        rehearsal_use: RehearsalUse::Fitness,
        make: Box::new(make),
    }
}

fn rig(trials: u32) -> Rig {
    knowing(trials, Vec::new())
}

/// One that knows these pools from the knowledge base.
fn knowing(trials: u32, pools: Vec<GenePool>) -> Rig {
    experienced(trials, Experience { pools, ..Experience::default() })
}

fn experienced(trials: u32, experience: Experience) -> Rig {
    let brief = ControllerInput {
        experience: Arc::new(experience),
        ..candidates(&["deadline", "cfq", "anticipatory", "noop", "sstf", "clook"])
    };
    Rig::steered(ControlLoop::new(Box::new(Tuner::new(&brief, rules(trials), None))), "deadline", &[])
}

/// Requests take half the time under this scheduler.
fn faster(name: &'static str) -> impl Fn(&Setting) -> (u64, u64) {
    move |setting| if setting.spec.name == name { (2_000, 0) } else { (4_000, 0) }
}

#[test]
fn the_best_of_the_trials_stays_after_it_was_better_in_turns() {
    let mut rig = rig(12);
    rig.run(SCATTERED, 110.0, &faster("cfq"));
    assert_eq!(rig.active_setting(), "cfq", "{}", rig.minutes());
    assert!(rig.said("cfq and deadline serve in turns") && rig.said("pairs of turns: it stays"), "{}", rig.minutes());
    // Nothing is changed any more.
    assert!(rig.changes().last().unwrap().0 < 90.0, "{}", rig.minutes());
}

#[test]
fn where_nothing_is_better_what_was_found_stays() {
    for speed in [&faster("deadline") as &dyn Fn(&Setting) -> (u64, u64), &|_| (3_000, 0)] {
        let mut rig = rig(12);
        rig.run(SCATTERED, 180.0, &speed);
        assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
        assert!(rig.said("deadline stays: no significant improvement"), "{}", rig.minutes());
    }
}

#[test]
fn what_looked_better_by_luck_does_not_pass_the_turns() {
    let mut rig = rig(12);
    // cfq is twice as fast only as long as it is tried.
    let speed = std::cell::Cell::new(2_000);
    rig.run(SCATTERED, 28.5, &|setting: &Setting| (if setting.spec.name == "cfq" { speed.get() } else { 4_000 }, 0));
    assert!(rig.said("cfq and deadline serve in turns"), "{}", rig.minutes());
    speed.set(4_400);
    rig.run(SCATTERED, 160.0, &|setting: &Setting| (if setting.spec.name == "cfq" { speed.get() } else { 4_000 }, 0));
    assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
}

#[test]
fn what_was_kept_for_a_workload_comes_back_with_it() {
    let mut rig = rig(12);
    let run = |rig: &mut Rig, load: Load, best: &'static str| rig.run(load, 110.0, &faster(best));
    run(&mut rig, SCATTERED, "cfq");
    assert_eq!(rig.active_setting(), "cfq", "{}", rig.minutes());
    run(&mut rig, WRITING, "sstf");
    assert_eq!(rig.active_setting(), "sstf", "{}", rig.minutes());
    assert!(!rig.said("re-introduced"), "{}", rig.minutes());
    rig.run(SCATTERED, 15.0, &faster("cfq"));
    assert_eq!(rig.active_setting(), "cfq", "{}", rig.minutes());
    assert!(rig.said("a known load, which cfq served better"), "{}", rig.minutes());
    // Where it no longer serves it better, that shows.
    rig.run(SCATTERED, 200.0, &|setting: &Setting| (if setting.spec.name == "cfq" { 5_000 } else { 4_000 }, 0));
    assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
    let controller = rig.steering.controller();
    let pools = controller.gene_pools("none");
    assert_eq!(pools.len(), 3);
    assert_eq!((pools[0].members[0].setting.as_str(), pools[1].members[0].setting.as_str()), ("cfq", "sstf"));
    assert!(pools.iter().all(|pool| pool.under == "deadline" && pool.device == "none"));
}

/// A twin for which one scheduler is twice as fast as any other.
struct Believes(&'static str);

impl Rehearsal for Believes {
    fn event(&mut self, _event: &Event) {}

    fn prepare(
        &mut self,
        _span: (Nanos, Nanos),
        _in_force: &Setting,
        _plant: &dyn Target,
    ) -> Result<Vec<(String, String)>, String> {
        Ok(vec![("twin".to_owned(), "believes".to_owned())])
    }

    fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>> {
        let rate = |setting: &Setting| {
            let throughput = if setting.spec.name == self.0 { 2e6 } else { 1e6 };
            TrialScore {
                served: Performance { throughput, response_s: 1e4 / throughput, fairness: 1.0, starves: false },
                wait_ratio: 0.0,
            }
        };
        settings.iter().map(|setting| Some(rate(setting))).collect()
    }

    fn can_try(&self, _host_tunable: &str) -> bool {
        false
    }
}

fn believing(name: &'static str) -> Rig {
    asking(name, rules(12))
}

fn asking(name: &'static str, rules: SearchOptions) -> Rig {
    let brief = candidates(&["deadline", "cfq", "anticipatory", "noop", "sstf", "clook"]);
    let tuner = Tuner::new(&brief, rules, Some(Box::new(Believes(name))));
    Rig::steered(ControlLoop::new(Box::new(tuner)), "deadline", &[])
}

#[test]
fn what_the_twin_chose_stays_within_half_a_minute_if_it_is_better_and_goes_back_if_it_is_not() {
    let mut right = believing("cfq");
    right.run(SCATTERED, 40.0, &faster("cfq"));
    let changes = right.changes();
    assert!(changes.len() == 1 && changes[0].0 < 10.0 && right.active_setting() == "cfq", "{}", right.minutes());
    assert!(right.said("cfq is 50.0% better than deadline was") || right.said("it stays"), "{}", right.minutes());
    let mut wrong = believing("cfq");
    wrong.run(SCATTERED, 40.0, &faster("deadline"));
    assert_eq!(wrong.active_setting(), "deadline", "{}", wrong.minutes());
    assert!(wrong.changes().last().unwrap().0 < 30.0 && wrong.said("worse than deadline was"), "{}", wrong.minutes());
}

#[test]
fn what_serves_faster_but_lets_a_stream_wait_for_seconds_does_not_stay() {
    let mut rig = believing("cfq");
    // Ten times as fast but for a request now and then, which takes three seconds.
    let served = std::cell::Cell::new(0_u32);
    let speed = |setting: &Setting| {
        served.set(served.get() + 1);
        let is_late = served.get().is_multiple_of(3_000);
        (
            if setting.spec.name != "cfq" {
                4_000
            } else if is_late {
                3_000_000
            } else {
                400
            },
            0,
        )
    };
    rig.run(SCATTERED, 40.0, &speed);
    assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
    assert!(rig.said("a stream starves under cfq"), "{}", rig.minutes());
}

#[test]
fn a_setting_that_falls_below_the_original_is_verified_again() {
    let mut rig = believing("cfq");
    rig.run(SCATTERED, 40.0, &faster("cfq"));
    assert_eq!(rig.active_setting(), "cfq");
    rig.run(SCATTERED, 200.0, &|setting: &Setting| (if setting.spec.name == "cfq" { 5_000 } else { 4_000 }, 0));
    assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
    // The turns have to refute its known gain.
    assert!(rig.said("17.0% worse than the original setting; cfq, predicted 78.1% better"), "{}", rig.minutes());
    assert!(rig.said("cfq was 16.9% worse than deadline"), "{}", rig.minutes());
}

#[test]
fn a_gene_pool_of_an_earlier_run_comes_back_from_a_row_of_the_knowledge_base() {
    let mut earlier = rig(12);
    earlier.run(SCATTERED, 110.0, &faster("sstf"));
    let rows: Vec<_> =
        earlier.steering.controller().gene_pools("none").iter().map(|pool| ModelRow::try_from(pool).unwrap()).collect();
    assert_eq!(rows[0].name, "gene pool on none: 100% reads, 4 KiB, 8 streams");
    let pools = || rows.iter().filter_map(ModelRow::gene_pool).collect::<Vec<_>>();
    let mut rig = knowing(12, pools());
    rig.run(SCATTERED, 6.5, &faster("sstf"));
    assert!(rig.said("re-introduced") && rig.changes()[0].1 == "sstf", "{}", rig.minutes());
    // Of another load, or another device, it does not.
    let elsewhere = pools().into_iter().map(|pool| GenePool { device: "another".to_owned(), ..pool });
    let mut others = [(knowing(12, pools()), WRITING), (knowing(12, elsewhere.collect()), SCATTERED)];
    for (rig, load) in &mut others {
        rig.run(*load, 6.5, &faster("sstf"));
        assert!(!rig.said("re-introduced"), "{}", rig.minutes());
    }
}

/// Loads unlike any other, on this device, which cfq served half as fast again as the original, clook less so.
fn lived(device: &str) -> Experience {
    let served = |throughput| Some(Performance { throughput, response_s: 1e4 / throughput, fairness: 1.0, starves: false });
    let mut experience = Experience::new(names(), ["deadline", "cfq", "clook"].map(str::to_owned).to_vec());
    experience.cases = [1.4e6, 1.5e6, 1.6e6, 1.5e6]
        .into_iter()
        .map(|cfq| Case {
            workload: "another".to_owned(),
            device: device.to_owned(),
            under: 0,
            features: vec![None; names().len()],
            results: vec![served(1e6), served(cfq), served(1.2e6)],
        })
        .collect();
    experience
}

#[test]
fn what_served_other_loads_of_the_device_is_verified_before_anything_is_tried() {
    let mut rig = experienced(12, lived("none"));
    rig.run(SCATTERED, 60.0, &faster("cfq"));
    assert!(
        rig.said("the best for other loads of this device; cfq, predicted") && rig.active_setting() == "cfq",
        "{}",
        rig.minutes()
    );
    assert!(!rig.said("trial 1"), "{}", rig.minutes());
    // Where it does harm, the next known setting has its turns, then those that the search finds.
    let mut rig = experienced(12, lived("none"));
    let speed = |setting: &Setting| (if ["cfq", "clook"].contains(&setting.spec.name) { 5_000 } else { 4_000 }, 0);
    rig.run(SCATTERED, 200.0, &speed);
    assert!(rig.said("clook, predicted") && rig.said("trial 12"), "{}", rig.minutes());
    assert_eq!(rig.active_setting(), "deadline", "{}", rig.minutes());
    let mut elsewhere = experienced(12, lived("another"));
    elsewhere.run(SCATTERED, 10.0, &faster("cfq"));
    assert!(elsewhere.said("trial 1") && !elsewhere.said("other loads"), "{}", elsewhere.minutes());
}

#[test]
fn without_an_end_children_live_for_ever() {
    let mut rig = rig(0);
    rig.run(SCATTERED, 120.0, &faster("cfq"));
    assert!(!rig.said("in turns"), "{}", rig.minutes());
    let after_a_minute = rig.changes().iter().filter(|(at, _)| *at > 60.0).count();
    assert!(after_a_minute > 5, "{}", rig.minutes());
}

#[test]
fn with_two_trials_on_the_plant_what_the_twin_ranks_best_is_tried_and_only_the_plant_decides() {
    let first = || asking("clook", SearchOptions { rehearsal_use: RehearsalUse::Ranking, ..rules(2) });
    let mut right = first();
    right.run(SCATTERED, 110.0, &faster("clook"));
    assert_eq!(right.active_setting(), "clook", "{}", right.minutes());
    assert!(right.said("trials in the twin rank what is tried first") && right.said("trial 2"), "{}", right.minutes());
    let mut wrong = first();
    wrong.run(SCATTERED, 110.0, &faster("deadline"));
    assert!(wrong.active_setting() == "deadline" && !wrong.said("trial 3"), "{}", wrong.minutes());
    // Without the ranking the last of the candidates is not among the first two.
    let mut unranked = rig(2);
    unranked.run(SCATTERED, 110.0, &faster("clook"));
    assert_eq!(unranked.active_setting(), "deadline", "{}", unranked.minutes());
}
