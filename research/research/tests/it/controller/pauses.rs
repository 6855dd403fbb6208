//! Pauses of any length cost a few windows.

use block::{Limits, Nanos, Op, Priority};
use control::Setting;
use experiment::steered::Steered;
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, load};
use sim::run::{Finished, Issue, Measure, Pilot, RunError, ServerEvent, Source, Steerable, Watch, run};

use super::rig::candidates;

const REQUESTS: u64 = 10;
/// Of a controller that never ends: the test fails instead of running on.
const MAX_STEPS: usize = 1_000;

/// A read or write each `pause`.
struct Sparse {
    pause: Nanos,
    issued: u64,
}

impl Source for Sparse {
    type Work = Issue;

    fn next_at(&mut self) -> Result<Option<Nanos>, RunError> {
        Ok((self.issued < REQUESTS).then_some(Nanos(self.issued * self.pause.0)))
    }

    fn take(&mut self, now: Nanos) -> Result<Option<Issue>, RunError> {
        self.issued += 1;
        let op = if self.issued.is_multiple_of(2) { Op::Read } else { Op::Write };
        let (lba, priority) = (800 * self.issued, Priority::DEFAULT);
        Ok(Some(Issue { arrival: now, lba, sectors: 8, op, sync: true, stream: 1, priority, token: self.issued }))
    }

    fn completed(&mut self, _finished: &Finished) {}
}

struct Counting {
    steered: Steered,
    name: &'static str,
    steps: usize,
}

impl Pilot for Counting {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        self.steered.begin(plant);
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        self.steered.events(noted);
    }

    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        self.steered.next_step(quiet_until)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.steps += 1;
        assert!(self.steps < MAX_STEPS, "{} takes step after step at {now:?}", self.name);
        self.steered.step(now, plant)
    }
}

/// The number of windows of a run under the controller with pauses of this length.
fn windows(name: &'static str, pause: Nanos) -> usize {
    let controller = research::controller::parse(name).unwrap().build(&candidates(&["mq-deadline", "bfq", "kyber"]));
    let setting = Setting::parse("mq-deadline").unwrap();
    let scheduler = (setting.spec.build)(&Limits::default(), &setting.values);
    let mut queue = Queue::new(scheduler, load("sata7200").unwrap().build(DeviceOptions::default()), QueueSettings::default());
    let mut pilot = Counting { steered: Steered::new(controller, &setting, "sata7200", None), name, steps: 0 };
    let source = Sparse { pause, issued: 0 };
    let measure = run(source, &mut queue, Measure::new([1]), &Watch::default(), Some(&mut pilot)).unwrap();
    assert_eq!(measure.completed(), REQUESTS, "{name}");
    pilot.steered.steering().windows().len()
}

#[test]
fn under_every_controller_pauses_of_years_cost_no_more_than_pauses_of_hours() {
    for spec in research::controller::all() {
        let [hours, years] = [10_000_000, 300_000_000_000].map(|pause_ms| windows(spec.name, Nanos::from_millis(pause_ms)));
        assert!(years <= 100 && years.abs_diff(hours) <= 10, "{}: {hours} and {years} windows", spec.name);
    }
}

#[test]
fn idle_time_is_part_of_some_window() {
    let controller = research::controller::parse("fixed").unwrap().build(&candidates(&["mq-deadline"]));
    let mut rig = super::rig::Rig::steered(control::ControlLoop::new(controller), "mq-deadline", &[]);
    rig.idle_at_once(1_000_000_500);
    let windows = rig.steering.windows();
    assert_eq!(windows.iter().map(|window| window.to.0 / 1_000_000_000).collect::<Vec<_>>(), [1, 2, 1_000]);
    assert!(windows.iter().all(|window| window.outcome.duration == window.duration()));
    rig.run(super::rig::SCAN, 1.2, &|_| (5000, 0));
    assert_eq!(rig.steering.windows().last().unwrap().to, Nanos::from_millis(1_001_000), "the windows end when they did");
}
