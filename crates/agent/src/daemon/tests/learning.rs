//! Learning mode with a simulated device, load and clock.

use super::*;
use crate::configuration::WallTime;
use crate::daemon::Learner;
use crate::learning::{Equipment, Generator, Load, Memory};
use applier::AtExit;

/// Stream of the load. Choice: any stream that is not one of the agent; not varied.
const LOAD: StreamId = 2;

/// A load that only reports whether it is running.
#[derive(Clone, Default)]
struct Bench(Arc<Mutex<Running>>);

#[derive(Default)]
struct Running {
    is_there: bool,
    started: u32,
    fails: Option<String>,
}

impl Equipment for Bench {
    fn device(&self) -> Result<String, String> {
        Ok("sda".to_owned())
    }

    fn generator(&self, _device: &str, _seconds: u64) -> Result<Box<dyn Generator>, String> {
        match &self.0.lock().unwrap().fails {
            Some(why) => Err(why.clone()),
            None => Ok(Box::new(self.clone())),
        }
    }
}

impl Generator for Bench {
    fn start(&mut self, _load: &Load) -> Result<(), String> {
        let mut running = self.0.lock().unwrap();
        (running.is_there, running.started) = (true, running.started + 1);
        Ok(())
    }

    fn asks_as(&mut self, stream: StreamId) -> bool {
        stream == LOAD
    }

    fn is_there(&mut self) -> Result<bool, String> {
        let running = self.0.lock().unwrap();
        running.fails.clone().map_or(Ok(running.is_there), Err)
    }

    fn stop(&mut self) {
        self.0.lock().unwrap().is_there = false;
    }
}

/// A daemon that learns on a device that is faster under kyber.
struct School {
    scene: Scene,
    bench: Bench,
}

impl School {
    fn new(configuration: &str) -> School {
        let mut scene = Scene::new(&format!("mode = \"act\"\n{configuration}"));
        let bench = Bench::default();
        let memory = Memory::below(scene.root.path());
        let plan = scene.daemon.wants.configuration.learning.clone();
        let learner = Learner::new(plan, false, Box::new(bench.clone()), memory.clone());
        scene.daemon = scene.daemon.remembering(memory).learning(learner);
        School { scene, bench }
    }

    fn is_learning(&self) -> bool {
        self.bench.0.lock().unwrap().is_there
    }

    /// Advances the clock by seconds in which only the load, if running, issues requests.
    fn pass(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let scene = &mut self.scene;
            if self.bench.0.lock().unwrap().is_there {
                scene.device.reads_of(LOAD, scene.now_s, scene.now_s + 1, takes_ms(&scene.device));
            }
            scene.now_s += 1;
            scene.daemon.step(scene.moment());
        }
    }

    /// Advances the clock by seconds with requests like the load's.
    fn work(&mut self, seconds: u64) {
        for _ in 0..seconds {
            let takes_ms = takes_ms(&self.scene.device);
            self.scene.pass(1, takes_ms);
        }
    }

    fn says(&mut self) -> String {
        self.scene.status().learning.unwrap()
    }
}

fn takes_ms(device: &Device) -> u64 {
    if device.scheduler() == "kyber" { 4 } else { 10 }
}

/// Configuration of learning mode. Choice: a short idle time and few short trials, so that the tests are fast; not varied.
const PLAN: &str = "[learning]\nscratch = \"/srv/scratch\"\nidle_minutes = 1\ncontroller = \"random:trials=4,child_ms=2000\"\n";
/// Configuration of the controller outside of lessons. Choice: changes nothing, so that only lessons do; not varied.
const AT_REST: &str = "controller = \"fixed\"\n";

#[test]
fn learning_begins_when_the_device_was_idle_for_long_enough() {
    let mut school = School::new(&format!("{AT_REST}{PLAN}"));
    school.work(5);
    school.pass(59);
    assert!(!school.is_learning());
    assert!(
        school.says().contains("sda is idle for 59 s, and has to be for 1 min, the last was a process (1) reads"),
        "{}",
        school.says()
    );
    school.pass(2);
    assert!(school.is_learning());
    assert!(school.says().starts_with("It learns on sda since "), "{}", school.says());
    let status = school.scene.status();
    assert_eq!(status.devices[0].state, "learned on");
    let written = serde_json::to_string(&status).unwrap();
    assert_eq!(serde_json::from_str::<Status>(&written).unwrap(), status, "an idle device has no response times");
}

#[test]
fn learning_keeps_to_its_hours() {
    let clock = |minute: u32| format!("{:02}:{:02}", minute / 60 % 24, minute % 60);
    let begins = WallTime::at(1_000).minute;
    let plan = |from: u32, to: u32| {
        let hours = format!("hours = [\"{}-{}\"]\n", clock(begins + from), clock(begins + to));
        School::new(&format!("{AT_REST}{PLAN}{hours}"))
    };
    let mut later = plan(60, 120);
    later.pass(120);
    assert!(!later.is_learning() && later.says().contains("its hours are "), "{}", later.says());
    let mut now = plan(0, 3);
    now.pass(70);
    assert!(now.is_learning());
    now.pass(120);
    assert!(!now.is_learning(), "its hours are over");
    assert_eq!(now.scene.device.scheduler(), "mq-deadline");
}

#[test]
fn real_work_ends_it_at_once_and_everything_is_as_it_was_found() {
    let mut school = School::new(&format!("{AT_REST}exit = \"keep\"\n{PLAN}"));
    let mut waited = 0;
    while school.scene.device.scheduler() == "mq-deadline" {
        school.pass(1);
        waited += 1;
        assert!(waited < 100, "nothing is tried: {}", school.says());
    }
    assert_eq!(school.scene.device.world().at_exit, AtExit::Restore, "whatever the configuration says");
    school.work(1);
    assert!(!school.is_learning());
    assert_eq!(school.scene.device.scheduler(), "mq-deadline");
    assert_eq!(school.scene.device.world().at_exit, AtExit::Keep);
    assert!(school.scene.last(EntryKind::Learning).why.contains("real work came: a process (1) reads"));
}

#[test]
fn external_changes_meanwhile_stay() {
    let mut school = School::new(&format!("{AT_REST}{PLAN}"));
    school.pass(62);
    assert!(school.is_learning());
    {
        let mut world = school.scene.device.world();
        // Nothing was tried yet, so the applier's journal is empty.
        world.setting = Setting::parse("bfq").unwrap();
        world.original = world.setting.clone();
    }
    school.pass(1);
    assert!(!school.is_learning() && school.scene.device.scheduler() == "bfq");
    let last = school.scene.last(EntryKind::Learning);
    assert!(last.why.contains("bfq is active instead of mq-deadline, as it was left"), "{last:?}");

    let mut school = School::new(&format!("{AT_REST}{PLAN}"));
    school.pass(62);
    school.scene.device.rival("kyber");
    school.pass(2);
    assert!(!school.is_learning());
    assert_eq!(school.scene.status().devices[0].state, "stood down");
}

#[test]
fn what_was_learned_serves_the_load_when_it_comes() {
    let mut school = School::new(PLAN);
    let mut waited = 0;
    while school.bench.0.lock().unwrap().started < 2 {
        school.pass(1);
        waited += 1;
        assert!(waited < 400, "{}", school.says());
    }
    let learned = school.scene.last(EntryKind::Learning);
    assert!(learned.to == "kyber" && learned.why.contains("it stays"), "{learned:?}");
    school.work(1);
    assert!(!school.is_learning() && school.scene.device.scheduler() == "mq-deadline");
    assert!(!school.scene.daemon.experience.pools.is_empty());
    school.work(3);
    assert_eq!(school.scene.device.scheduler(), "kyber");
    let set = school.scene.last(EntryKind::Set);
    assert!(set.why.contains("a known load, which kyber served best"), "{set:?}");
    // A stored result may be wrong: the original setting is tried once.
    school.work(10);
    assert_eq!(school.scene.device.scheduler(), "kyber");
    let trial = school.scene.daemon.history().entries().find(|entry| entry.why.starts_with("trying mq-deadline")).cloned();
    assert!(trial.is_some_and(|trial| trial.number > set.number), "the original setting was not tried");
}

#[test]
fn what_is_only_watched_is_not_learned_on() {
    let mut school = School::new(&format!("{AT_REST}{PLAN}[[device]]\nname = \"sda\"\nmode = \"watch\"\n"));
    school.pass(100);
    assert!(!school.is_learning() && school.says().contains("to try settings on it, the configuration says mode = \"act\""));
}

#[test]
fn what_fails_is_said_and_not_tried_again_at_once() {
    let mut school = School::new(&format!("{AT_REST}{PLAN}"));
    school.bench.0.lock().unwrap().fails = Some("/srv/scratch: is in use".to_owned());
    school.pass(70);
    assert!(school.says().contains("/srv/scratch: is in use"), "{}", school.says());
    school.bench.0.lock().unwrap().fails = None;
    school.pass(5);
    assert!(!school.is_learning());
    school.pass(60);
    assert!(school.is_learning());
    school.bench.0.lock().unwrap().fails = Some("fio ended by itself".to_owned());
    school.pass(2);
    assert_eq!(school.scene.device.scheduler(), "mq-deadline");
    assert!(school.scene.last(EntryKind::Trouble).why.contains("fio ended by itself"));
}

#[test]
fn the_end_of_the_daemon_ends_the_lesson() {
    let mut school = School::new(&format!("{AT_REST}{PLAN}"));
    school.pass(75);
    assert!(school.is_learning());
    school.scene.daemon.end(school.scene.moment());
    assert!(!school.is_learning() && school.scene.device.scheduler() == "mq-deadline");
    let last = school.scene.last(EntryKind::Learning);
    assert!(last.why.contains("the agent ends; mq-deadline is active"), "{last:?}");
}

#[test]
fn what_a_search_finds_under_real_work_is_known_in_the_next_life() {
    let search = "controller = \"random:trials=4,child_ms=2000\"\nchanges_per_minute = 60\n";
    let mut school = School::new(search);
    school.work(90);
    assert_eq!(school.scene.device.scheduler(), "kyber");
    school.scene.daemon.end(school.scene.moment());
    let known = Memory::below(school.scene.root.path()).experience().unwrap();
    assert!(known.pools.iter().any(|pool| pool.members[0].setting == "kyber"), "{:?}", known.pools);
}

#[test]
fn what_was_measured_under_the_normal_workload_is_known_at_the_next_start() {
    let configuration = "mode = \"act\"\ncontroller = \"random:trials=4,child_ms=2000\"\nchanges_per_minute = 60";
    let mut scene = Scene::new(configuration);
    let memory = Memory::below(scene.root.path());
    scene.daemon = scene.daemon.remembering(memory.clone());
    assert!(memory.experience().unwrap().cases.is_empty());
    scene.adopt_kyber();
    let known = memory.experience().unwrap();
    let of = |name: &str| known.settings.iter().position(|setting| setting == name).unwrap();
    let (kyber, original) = (of("kyber"), of("mq-deadline"));
    let throughput = |case: &control::experience::Case, setting: usize| case.results[setting].map(|served| served.throughput);
    let both = known.cases.iter().find_map(|case| throughput(case, kyber).zip(throughput(case, original)));
    assert!(both.is_some_and(|(kyber, original)| kyber > 2.0 * original), "{known:?}");
}
