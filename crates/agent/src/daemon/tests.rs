#![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

mod fleet;
mod learning;

use std::fs;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};

use block::{Op, Priority, Request, SchedulerSpec, StreamId, Tunable};
use control::target::{Bounds, Identity as PlantIdentity};
use control::{Setting, Target, TargetError};
use observe::Event;

use super::*;
use crate::configuration::Sources;
use crate::daemon::device_control::{ChangeRate, PolicyGate, Vetoes};
use applier::{ApplierError, AtExit, ErrorKind, Foreign, Outcome, Restored};
use linux::events::ObserveError;

/// A simulated device with its applier, as seen by the daemon.
struct World {
    setting: Setting,
    original: Setting,
    foreign: Vec<Foreign>,
    is_released: bool,
    at_exit: AtExit,
    events: Vec<Event>,
    lost: u64,
    is_gone: bool,
    /// Why the applier refuses every change.
    refuses: Option<String>,
}

#[derive(Clone)]
struct Device(Arc<Mutex<World>>);

impl Device {
    fn new() -> Device {
        let setting = Setting::parse("mq-deadline").unwrap();
        Device(Arc::new(Mutex::new(World {
            original: setting.clone(),
            setting,
            foreign: Vec::new(),
            is_released: false,
            at_exit: AtExit::default(),
            events: Vec::new(),
            lost: 0,
            is_gone: false,
            refuses: None,
        })))
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    fn scheduler(&self) -> &'static str {
        self.world().setting.spec.name
    }

    /// Sequential reads of one process, each with this response time, between two points in time (in seconds).
    fn reads(&self, from_s: u64, to_s: u64, takes_ms: u64) {
        self.reads_of(1, from_s, to_s, takes_ms);
    }

    /// As `reads`, of this process.
    fn reads_of(&self, stream: StreamId, from_s: u64, to_s: u64, takes_ms: u64) {
        let mut at = Nanos::from_millis(1_000 * from_s);
        let mut world = self.world();
        while at < Nanos::from_millis(1_000 * to_s) {
            let done = at + Nanos::from_millis(takes_ms);
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let request = Request { id: 0, stream, op, sync: true, priority, sectors: 8, lba: at.0 % 100_000 * 8, arrival: at };
            world.events.push(Event::Queued(request));
            world.events.push(Event::Completed { request, dispatched: at, at: done });
            at = done;
        }
    }

    /// An external program sets the scheduler.
    fn rival(&self, scheduler: &str) {
        let mut world = self.world();
        let ours = world.setting.spec.name.to_owned();
        world.setting = Setting::parse(scheduler).unwrap();
        world.foreign = vec![Foreign { attribute: "scheduler".to_owned(), ours, now: Some(scheduler.to_owned()), released: false }];
    }
}

impl Target for Device {
    fn identity(&self) -> PlantIdentity {
        PlantIdentity { plant: "linux".to_owned(), device: "model".to_owned() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        block::KERNEL.to_vec()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: block::Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }

    fn setting(&self) -> Setting {
        self.world().setting.clone()
    }

    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::from_millis(35)
    }

    fn apply(&mut self, _now: Nanos, setting: &Setting) -> Result<(), TargetError> {
        let mut world = self.world();
        if let Some(reason) = &world.refuses {
            return Err(TargetError { setting: setting.to_string(), reason: reason.clone() });
        }
        world.setting = setting.clone();
        Ok(())
    }
}

impl DeviceControl for Device {
    fn foreign(&mut self) -> Result<Vec<Foreign>, ApplierError> {
        let world = self.world();
        if world.is_gone {
            return Err(ApplierError { kind: ErrorKind::NoDevice, message: "sda is gone".to_owned() });
        }
        Ok(world.foreign.iter().map(|one| Foreign { released: world.is_released, ..one.clone() }).collect())
    }

    fn release(&mut self) -> Result<(), ApplierError> {
        self.world().is_released = true;
        Ok(())
    }

    fn resume(&mut self) -> Result<(), ApplierError> {
        let mut world = self.world();
        (world.is_released, world.original) = (false, world.setting.clone());
        world.foreign.clear();
        Ok(())
    }

    fn because(&mut self, _why: &str) {}

    fn at_exit(&mut self, policy: AtExit) -> Result<(), ApplierError> {
        self.world().at_exit = policy;
        Ok(())
    }

    fn restore(&mut self) -> Result<Vec<Restored>, ApplierError> {
        let mut world = self.world();
        if world.setting == world.original {
            return Ok(Vec::new());
        }
        let instead_of = world.setting.spec.name.to_owned();
        world.setting = world.original.clone();
        Ok(vec![Restored {
            scope: "sda".into(),
            attribute: "scheduler".to_owned(),
            original: Some(world.original.spec.name.to_owned()),
            outcome: Outcome::Back { instead_of },
        }])
    }
}

impl EventSource for Device {
    fn read(&mut self, out: &mut Vec<Event>) -> Result<(), ObserveError> {
        let mut world = self.world();
        out.append(&mut world.events);
        if world.is_gone { Err(ObserveError::Gone { device: "sda".to_owned() }) } else { Ok(()) }
    }

    fn lost(&self) -> u64 {
        self.world().lost
    }

    fn name(&self, _stream: StreamId) -> Option<&str> {
        None
    }

    fn fds(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        Vec::new()
    }
}

struct Opener(Device);

impl Opens for Opener {
    fn open(&mut self, _: &topology::Device, _: &Settings, _: Nanos) -> Result<Opened, String> {
        Ok((Box::new(self.0.clone()), Box::new(self.0.clone())))
    }
}

/// Adds a disk to a folder laid out like sysfs.
fn plug(root: &Path, name: &str, files: &[(&str, &str)]) {
    let folder = root.join("sys/block").join(name);
    for place in ["holders", "slaves", "mq/0", "queue"] {
        fs::create_dir_all(folder.join(place)).unwrap();
    }
    let usual = [("dev", "8:0"), ("size", "1000000"), ("ro", "0"), ("queue/rotational", "1"), ("diskseq", "1")];
    for (file, text) in usual.iter().chain(files) {
        fs::write(folder.join(file), format!("{text}\n")).unwrap();
    }
}

/// A daemon with one device, and a simulated clock.
struct Scene {
    root: tempfile::TempDir,
    device: Device,
    daemon: Daemon,
    metrics: Metrics,
    now_s: u64,
}

impl Scene {
    /// A scene with this configuration. By default the controller changes the scheduler every two seconds.
    fn new(configuration: &str) -> Scene {
        Scene::with(configuration, |device| Box::new(Opener(device)))
    }

    /// A scene with this device.
    fn of(configuration: &str, device: Device) -> Scene {
        Scene::with_device(configuration, device, |device| Box::new(Opener(device)))
    }

    fn with(configuration: &str, opens: impl Fn(Device) -> Box<dyn Opens>) -> Scene {
        Scene::with_device(configuration, Device::new(), opens)
    }

    fn with_device(configuration: &str, device: Device, opens: impl Fn(Device) -> Box<dyn Opens>) -> Scene {
        let root = tempfile::tempdir().unwrap();
        plug(root.path(), "sda", &[]);
        let file = root.path().join("agent.toml");
        let usual = if configuration.contains("controller") { "" } else { "controller = \"rotate:window_ms=2000\"\n" };
        fs::write(&file, format!("candidates = [\"kernel\"]\n{usual}{configuration}")).unwrap();
        let wants = Scope { configuration: Configuration::load(&Sources::Only(file)).unwrap(), named: Vec::new(), mode: None };
        let metrics = Metrics::new();
        let opens = opens(device.clone());
        let began = Moment { at: Nanos::ZERO, unix_seconds: 1_000 };
        let kept = (Arc::default(), History::in_memory(100), metrics.clone());
        let daemon = Daemon::new(began, (Sysfs::at(root.path()), root.path().to_owned()), wants, opens, kept);
        let mut scene = Scene { root, device, daemon, metrics, now_s: 0 };
        scene.daemon.step(scene.moment());
        scene
    }

    fn moment(&self) -> Moment {
        Moment { at: Nanos::from_millis(1_000 * self.now_s), unix_seconds: 1_000 + self.now_s }
    }

    /// Advances the clock by seconds; the device completes requests with this response time in milliseconds.
    fn pass(&mut self, seconds: u64, takes_ms: u64) {
        for _ in 0..seconds {
            self.device.reads(self.now_s, self.now_s + 1, takes_ms);
            self.now_s += 1;
            self.daemon.step(self.moment());
        }
    }

    /// Advances the clock until a search has adopted kyber, under which the device is faster. Returns the verdict.
    fn adopt_kyber(&mut self) -> control::Verdict {
        for _ in 0..200 {
            if let Some(verdict) = self.daemon.sessions().next().and_then(|session| session.verdict()) {
                return verdict.clone();
            }
            let takes_ms = if self.device.scheduler() == "kyber" { 4 } else { 10 };
            self.pass(1, takes_ms);
        }
        panic!("nothing is adopted: {:?}", self.daemon.history().entries().map(|entry| &entry.why).collect::<Vec<_>>());
    }

    fn kinds(&self) -> Vec<EntryKind> {
        self.daemon.history().entries().map(|entry| entry.kind).collect()
    }

    fn last(&self, kind: EntryKind) -> Entry {
        self.daemon.history().entries().rfind(|entry| entry.kind == kind).unwrap_or_else(|| panic!("no {}", kind.name())).clone()
    }

    fn ask(&mut self, ask: &Ask) -> Answer {
        self.daemon.answer(self.moment(), ask, true)
    }

    fn status(&mut self) -> Status {
        let Answer::Status(status) = self.ask(&Ask::Status) else { panic!("a status") };
        status
    }
}

#[test]
fn watching_says_what_would_be_set_and_sets_nothing() {
    let mut scene = Scene::new("");
    scene.pass(10, 5);
    assert_eq!(scene.device.scheduler(), "mq-deadline");
    assert!(scene.kinds().contains(&EntryKind::WouldSet) && !scene.kinds().contains(&EntryKind::Set), "{:?}", scene.kinds());
    let status = scene.status();
    let device = &status.devices[0];
    assert_eq!((device.device.as_str(), device.state.as_str(), device.requests), ("sda", "watched", 2_000));
    assert!(device.advice.is_some() && device.latest.requests_per_s > 190.0, "{device:?}");
}

#[test]
fn acting_sets_tells_why_and_puts_everything_back_at_the_end() {
    let mut scene = Scene::new("mode = \"act\"");
    scene.pass(12, 5);
    assert_ne!(scene.device.scheduler(), "mq-deadline");
    let set = scene.last(EntryKind::Set);
    assert!(!set.why.is_empty() && set.to == scene.device.world().setting.to_string(), "{set:?}");
    scene.daemon.end(scene.moment());
    assert_eq!(scene.device.scheduler(), "mq-deadline");
    assert!(scene.last(EntryKind::Restored).why.contains("scheduler is mq-deadline again"));
    assert!(scene.metrics.text().contains("seekwise_changes_total{device=\"sda\",reason=\"restore\"} 1"));
}

#[test]
fn what_is_to_be_kept_at_the_end_is_kept() {
    let mut scene = Scene::new("mode = \"act\"\nexit = \"keep\"");
    scene.pass(5, 5);
    let before = scene.device.scheduler();
    scene.daemon.end(scene.moment());
    assert!(scene.device.scheduler() == before && before != "mq-deadline");
}

#[test]
fn what_is_only_on_trial_is_not_kept_at_the_end() {
    let mut scene = Scene::new("mode = \"act\"\nexit = \"keep\"\ncontroller = \"random:child_ms=1000\"\nchanges_per_minute = 60");
    while scene.device.scheduler() == "mq-deadline" {
        scene.pass(1, 5);
        assert!(scene.now_s < 60, "nothing is tried");
    }
    scene.daemon.end(scene.moment());
    assert_eq!(scene.device.scheduler(), "mq-deadline");
    assert!(scene.last(EntryKind::Set).why.contains("only on trial"));
}

#[test]
fn an_external_change_makes_it_stand_down_until_resume() {
    let mut scene = Scene::new("mode = \"act\"");
    fs::create_dir_all(scene.root.path().join("etc/udev/rules.d")).unwrap();
    fs::write(scene.root.path().join("etc/udev/rules.d/60-io.rules"), "ATTR{queue/scheduler}=\"kyber\"\n").unwrap();
    scene.pass(3, 5);
    scene.device.rival("kyber");
    scene.pass(10, 5);
    assert_eq!(scene.device.scheduler(), "kyber", "external changes stay");
    let conflict = scene.last(EntryKind::Conflict);
    for word in ["scheduler is kyber instead of", "seekwise-agent resume sda", "/etc/udev/rules.d/60-io.rules"] {
        assert!(conflict.why.contains(word), "{word}: {}", conflict.why);
    }
    assert_eq!(scene.status().devices[0].state, "stood down");
    // It also stays at exit.
    scene.daemon.end(scene.moment());
    assert_eq!(scene.device.scheduler(), "kyber");
    for ask in [Ask::Resume { scope: "sda".into() }, Ask::Restore { device: None }] {
        let refused = scene.daemon.answer(scene.moment(), &ask, false);
        assert_eq!(refused, Answer::Refused("only root may ask for that".to_owned()));
    }
    assert!(matches!(scene.ask(&Ask::Resume { scope: "sda".into() }), Answer::Done(_)));
    scene.pass(10, 5);
    assert_eq!(scene.status().devices[0].state, "tuned");
    assert!(scene.metrics.text().contains("seekwise_conflicts_total{device=\"sda\"} 1"));
    assert!(matches!(scene.ask(&Ask::Resume { scope: "sda".into() }), Answer::Refused(why) if why.contains("tuned already")));
    assert!(matches!(scene.ask(&Ask::Resume { scope: "sdz".into() }), Answer::Refused(why) if why.contains("watched are sda")));
}

#[test]
fn a_device_on_which_it_had_stood_down_is_left_until_resume_after_a_restart() {
    let device = Device::new();
    device.rival("kyber");
    device.world().is_released = true;
    let mut scene = Scene::of("mode = \"act\"", device);
    scene.pass(30, 5);
    assert_eq!(scene.device.scheduler(), "kyber");
    let status = scene.status();
    assert_eq!(status.devices[0].state, "stood down");
    assert!(status.devices[0].why.as_ref().is_some_and(|why| why.contains("scheduler is kyber instead of")), "{status:?}");
    assert!(matches!(scene.ask(&Ask::Resume { scope: "sda".into() }), Answer::Done(_)));
    scene.pass(30, 5);
    assert!(scene.kinds().contains(&EntryKind::Set), "it is tuned again: {:?}", scene.kinds());
}

#[test]
fn what_refuses_a_change_is_in_the_status() {
    let device = Device::new();
    device.world().refuses = Some("journal sda.journal line 1: damaged; `restore` keeps a copy".to_owned());
    let mut scene = Scene::of("mode = \"act\"", device);
    scene.pass(12, 5);
    let status = scene.status();
    assert_eq!((scene.device.scheduler(), status.devices[0].state.as_str()), ("mq-deadline", "tuned"));
    assert!(status.devices[0].why.as_ref().is_some_and(|why| why.contains("`restore` keeps a copy")), "{status:?}");
    scene.device.world().refuses = None;
    scene.pass(20, 5);
    assert_ne!(scene.device.scheduler(), "mq-deadline");
    assert_eq!(scene.status().devices[0].why, None);
}

#[test]
fn too_many_changes_are_refused() {
    let mut scene = Scene::new("mode = \"act\"\nchanges_per_minute = 3");
    scene.pass(40, 5);
    let changes = scene.kinds().iter().filter(|kind| **kind == EntryKind::Set).count();
    let back = scene.daemon.history().entries().filter(|entry| entry.kind == EntryKind::Set && entry.to == "mq-deadline").count();
    assert!(changes - back <= 3, "{changes} changes");
    assert!(scene.last(EntryKind::Refused).why.contains("3 changes were made within a minute (changes_per_minute)"));
}

#[test]
fn a_budget_limits_beginnings_and_no_return() {
    use rand::{Rng as _, SeedableRng as _};
    let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
    let all: Vec<Setting> = block::KERNEL.iter().map(|spec| Setting::parse(spec.name).unwrap()).collect();
    let settings = Settings { changes_per_minute: 3, ..Configuration::default().for_all().clone() };
    for _ in 0..200 {
        let (mut device, vetoes, ownership) = (Device::new(), Vetoes::default(), Ownership::Agent);
        let (original, mut rate) = (device.setting(), ChangeRate::default());
        let (mut before, mut beginnings): (Option<Setting>, Vec<Nanos>) = (None, Vec::new());
        let mut now = Nanos::ZERO;
        for _ in 0..100 {
            now += Nanos::from_millis(random.random_range(100..8_000));
            let (to, from) = (all[random.random_range(0..all.len())].clone(), device.setting());
            let mut gate = PolicyGate {
                device_control: &mut device,
                settings: &settings,
                original: &original,
                stays: None,
                ownership: &ownership,
                rate: &mut rate,
                vetoes: &vetoes,
                refused: &mut None,
                not_tried: &[],
            };
            let is_set = gate.apply(now, &to).is_ok();
            if before.as_ref() == Some(&to) || to == original {
                assert!(is_set, "the return to {to} was refused");
            } else if is_set {
                beginnings.retain(|at| *at + Nanos::from_millis(60_000) > now);
                beginnings.push(now);
                assert!(beginnings.len() <= 3, "{beginnings:?}");
            }
            if is_set {
                before = (before.as_ref() != Some(&to)).then_some(from);
            }
        }
    }
}

#[test]
fn what_may_not_be_touched_is_not() {
    let mut scene = Scene::new("mode = \"act\"\nattributes = [\"iosched/*\"]");
    scene.pass(10, 5);
    assert_eq!(scene.device.scheduler(), "mq-deadline");
}

#[test]
fn the_guard_goes_back_where_reads_wait_far_longer() {
    let mut scene = Scene::new("mode = \"act\"\ncontroller = \"rotate:window_ms=20000\"");
    scene.pass(41, 5);
    assert_ne!(scene.device.scheduler(), "mq-deadline");
    scene.pass(5, 40);
    assert_eq!(scene.device.scheduler(), "mq-deadline");
    let guarded = scene.last(EntryKind::Guarded);
    assert!(guarded.why.contains("reads took longer than") && guarded.why.contains("back to mq-deadline"), "{}", guarded.why);
    assert!(scene.metrics.text().contains("seekwise_changes_total{device=\"sda\",reason=\"guard\"} 1"));
    // The veto holds: the controller selects that setting again, and it is not applied.
    let reverted = guarded.from;
    scene.pass(160, 5);
    let again = scene.daemon.history().entries().filter(|entry| entry.kind == EntryKind::Set && entry.to == reverted).count();
    assert_eq!(again, 1, "{reverted}: {:?}", scene.daemon.history().entries().map(|entry| &entry.why).collect::<Vec<_>>());
    assert!(scene.last(EntryKind::Refused).why.contains("the guard reverted it"), "{}", scene.last(EntryKind::Refused).why);
}

/// Keeps kyber, and tries bfq from the tenth window on.
struct Trying(u32, Setting);

impl control::Controller for Trying {
    fn name(&self) -> &'static str {
        "trying"
    }

    fn begin(&mut self, _: Nanos, _: &dyn Target) -> control::Decision {
        control::Decision::set(self.1.clone(), "it stays")
    }

    fn window_length(&self) -> control::WindowLength {
        control::WindowLength { time: Some(Nanos::from_millis(1_000)), requests: None }
    }

    fn decide(&mut self, _: &control::Window, _: &dyn Target) -> control::Decision {
        self.0 += 1;
        match self.0 {
            10 => control::Decision::set(Setting::parse("bfq").unwrap(), "a trial"),
            _ => control::Decision::keep("goes on"),
        }
    }

    fn final_setting(&self) -> Option<&Setting> {
        (self.0 >= 10).then_some(&self.1)
    }
}

#[test]
fn the_guard_ends_a_trial_and_leaves_the_setting_that_was_kept_before() {
    let mut scene = Scene::new("mode = \"act\"\ncontroller = \"fixed\"");
    let session = scene.daemon.devices.values_mut().next().unwrap();
    session.control_by(Nanos::ZERO, Box::new(Trying(0, Setting::parse("kyber").unwrap())));
    while scene.device.scheduler() != "bfq" {
        scene.pass(1, 5);
    }
    scene.pass(5, 40);
    assert!(scene.last(EntryKind::Guarded).why.ends_with("back to kyber"), "{}", scene.last(EntryKind::Guarded).why);
    assert_eq!(scene.device.scheduler(), "kyber");
}

#[test]
fn a_change_that_no_comparison_decided_has_no_measured_gain() {
    let mut scene = Scene::new("mode = \"act\"\ncontroller = \"rotate:window_ms=10000\"");
    scene.pass(20, 20);
    scene.pass(21, 10);
    let set = scene.daemon.history().entries().find(|entry| entry.to == "kyber").unwrap().clone();
    assert_eq!((set.kind, set.measured()), (EntryKind::Set, None), "{set:?}");
    assert_eq!(scene.status().devices[0].verdict, None);
    assert!(!scene.metrics.text().contains("seekwise_measured_gain_ratios{"));
}

#[test]
fn units_that_use_a_device_are_in_status_and_metrics() {
    let mut scene = Scene::new("");
    let folder = scene.root.path().join("proc/1");
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("cgroup"), "0::/system.slice/postgresql.service\n").unwrap();
    scene.pass(9, 5);
    assert_eq!(scene.status().devices[0].units, None, "no interval has ended");
    scene.pass(1, 5);
    let table = scene.status().devices[0].units.clone().unwrap();
    assert_eq!((table.seconds, table.units.len()), (10.0, 1));
    let unit = &table.units[0];
    assert_eq!((unit.unit.as_str(), unit.iops, unit.wait), ("postgresql.service", 200.0, 1.0));
    let series = "seekwise_unit_requests_per_second{device=\"sda\",unit=\"postgresql.service\"} 200.0";
    assert!(scene.metrics.text().contains(series), "{}", scene.metrics.text());
    // An idle interval has no rows.
    (0..10).for_each(|_| {
        scene.now_s += 1;
        scene.daemon.step(scene.moment());
    });
    assert_eq!(scene.status().devices[0].units.clone().unwrap().units, []);
    assert!(!scene.metrics.text().contains("seekwise_unit_requests_per_second{"));
}

#[test]
fn lost_events_restart_the_observation() {
    let mut scene = Scene::new("");
    scene.pass(2, 5);
    scene.device.world().lost = 7;
    scene.pass(1, 5);
    assert!(scene.last(EntryKind::Trouble).why.contains("lost 7 events"));
    assert!(scene.metrics.text().contains("seekwise_lost_events_total{device=\"sda\"} 7"));
}

#[test]
fn devices_come_and_go() {
    let mut scene = Scene::new("mode = \"act\"");
    scene.pass(3, 5);
    scene.device.world().is_gone = true;
    fs::remove_dir_all(scene.root.path().join("sys/block/sda")).unwrap();
    scene.pass(1, 5);
    assert_eq!(scene.daemon.sessions().count(), 0);
    assert!(scene.last(EntryKind::Gone).why.contains("sda is gone"));
    scene.device.world().is_gone = false;
    plug(scene.root.path(), "sda", &[("diskseq", "2")]);
    scene.pass(6, 5);
    assert_eq!(scene.daemon.sessions().count(), 1);
    // Another medium under the same name is another device.
    plug(scene.root.path(), "sda", &[("diskseq", "3")]);
    scene.pass(6, 5);
    let began = scene.kinds().iter().filter(|kind| **kind == EntryKind::Began).count();
    assert_eq!((scene.daemon.sessions().count(), began), (1, 3));
}

#[test]
fn a_device_that_the_kernel_announces_is_found_at_once() {
    let mut scene = Scene::new("");
    scene.pass(6, 5);
    plug(scene.root.path(), "sdb", &[]);
    scene.pass(1, 5);
    assert_eq!(scene.daemon.sessions().count(), 1, "the next look is some seconds away");
    scene.daemon.devices_changed(scene.moment());
    scene.pass(1, 5);
    assert_eq!(scene.daemon.sessions().count(), 2);
}

#[test]
fn what_is_left_alone_is_listed_with_the_reason() {
    let mut scene = Scene::new("[[device]]\nname = \"sdb\"\nmode = \"leave-alone\"\n");
    plug(scene.root.path(), "sdb", &[]);
    plug(scene.root.path(), "sdc", &[("ro", "1")]);
    scene.pass(6, 5);
    let status = scene.status();
    assert_eq!(status.devices.len(), 1);
    assert_eq!(status.left_alone, [("sdc".to_owned(), "sdc is read-only".to_owned())]);
}

/// A path of a multipath device may be tuned by its administrator; `none` would break the writes of a zoned device.
#[test]
fn a_named_device_is_tuned_unless_the_order_of_its_writes_is_not_free() {
    let mut scene = Scene::new("");
    plug(scene.root.path(), "sdb", &[("ro", "1")]);
    plug(scene.root.path(), "sdc", &[("queue/zoned", "host-managed")]);
    scene.daemon.wants.named = ["sda", "sdb", "sdc"].map(str::to_owned).to_vec();
    scene.pass(6, 5);
    let status = scene.status();
    let tuned: Vec<&str> = status.devices.iter().map(|device| device.device.as_str()).collect();
    assert_eq!(tuned, ["sda", "sdb"]);
    assert!(status.left_alone[0].1.contains("is a zoned device (host-managed)"), "{:?}", status.left_alone);
}

/// An event source with counters only.
struct Dim {
    device: Device,
    blind: linux::events::CountersOnly,
    sample: observe::counters::Sample,
}

impl EventSource for Dim {
    fn read(&mut self, _: &mut Vec<Event>) -> Result<(), ObserveError> {
        Ok(())
    }

    fn lost(&self) -> u64 {
        0
    }

    fn name(&self, _: StreamId) -> Option<&str> {
        None
    }

    fn fds(&self) -> Vec<std::os::fd::BorrowedFd<'_>> {
        Vec::new()
    }

    fn counters_only(&self) -> Option<&linux::events::CountersOnly> {
        Some(&self.blind)
    }

    fn samples(&mut self, out: &mut Vec<observe::counters::Sample>) {
        for event in self.device.world().events.drain(..) {
            let Event::Completed { request, at, .. } = event else { continue };
            self.sample.at = at;
            self.sample.read.requests += 1;
            self.sample.read.sectors += u64::from(request.sectors);
            self.sample.read.waited += at - request.arrival;
            self.sample.busy += at - request.arrival;
        }
        out.push(self.sample);
    }
}

struct Dimmed(Device);

impl Opens for Dimmed {
    fn open(&mut self, _: &topology::Device, _: &Settings, _: Nanos) -> Result<Opened, String> {
        let known =
            twin::counters::Known { bounds: self.0.bounds(), rotational: Some(true), depth: Some(32), write_cache: Some(true) };
        let blind = linux::events::CountersOnly { why: "the kernel is locked down".to_owned(), known };
        Ok((
            Box::new(self.0.clone()),
            Box::new(Dim { device: self.0.clone(), blind, sample: observe::counters::Sample::default() }),
        ))
    }
}

#[test]
fn without_visible_requests_it_uses_counters_and_names_their_limits() {
    let mut scene = Scene::with("controller = \"seekwise\"", |device| Box::new(Dimmed(device)));
    scene.pass(27, 5);
    let began = scene.last(EntryKind::Began);
    for word in ["by counters alone", "the kernel is locked down", "neither streams, nor their order, nor the slowest requests"] {
        assert!(began.why.contains(word), "{word}: {}", began.why);
    }
    let status = scene.status();
    let device = &status.devices[0];
    assert_eq!((device.requests, device.latest.p99_ms), (27 * 200, None));
    assert_eq!(device.latest.response_ms, 5.0);
    assert_eq!(device.blind.as_deref(), Some("the kernel is locked down"));
    assert!(device.thoughts.iter().any(|thought| thought.contains("hypotheses")), "{:?}", device.thoughts);
    assert_eq!(scene.device.scheduler(), "mq-deadline");
}
