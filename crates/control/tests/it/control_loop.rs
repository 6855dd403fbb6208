//! Windows of the control loop: those of few requests go on.

use block::{Limits, Nanos, Op, Priority, Request, SchedulerSpec, Tunable};
use control::target::{Bounds, Identity};
use control::{ControlLoop, Controller, Decision, Setting, Target, TargetError, Window, WindowLength};
use observe::Event;

/// A disk that is left alone.
struct Disk(Setting);

impl Target for Disk {
    fn identity(&self) -> Identity {
        Identity { plant: "test".to_owned(), device: "none".to_owned() }
    }

    fn schedulers(&self) -> Vec<&'static SchedulerSpec> {
        block::KERNEL.to_vec()
    }

    fn tunables(&self) -> Vec<&'static Tunable> {
        Vec::new()
    }

    fn bounds(&self) -> Bounds {
        Bounds { capacity_sectors: 1 << 30, limits: Limits::default(), nr_requests: 256, read_ahead_kib: None }
    }

    fn setting(&self) -> Setting {
        self.0.clone()
    }

    fn switching_time(&self, _from: &Setting, _to: &Setting) -> Nanos {
        Nanos::ZERO
    }

    fn apply(&mut self, _now: Nanos, _setting: &Setting) -> Result<(), TargetError> {
        Ok(())
    }
}

/// Looks at windows of a second and at least this many requests.
struct Looks(u64);

impl Controller for Looks {
    fn name(&self) -> &'static str {
        "looks"
    }

    fn begin(&mut self, _now: Nanos, _target: &dyn Target) -> Decision {
        Decision::keep("begins")
    }

    fn window_length(&self) -> WindowLength {
        WindowLength { time: Some(Nanos::from_millis(1_000)), requests: None }
    }

    fn least_requests(&self) -> u64 {
        self.0
    }

    fn decide(&mut self, _window: &Window, _target: &dyn Target) -> Decision {
        Decision::keep("looks")
    }
}

/// When each window ends, in seconds, and its requests, of a load with a request at these times.
fn windows(least: u64, at_s: &[f64], until_s: u64) -> Vec<(f64, u64)> {
    let mut disk = Disk(Setting::parse("mq-deadline").unwrap());
    let mut control_loop = ControlLoop::new(Box::new(Looks(least)));
    control_loop.begin(Nanos::ZERO, &mut disk);
    let mut requests = at_s.iter().map(|at| Nanos::from_secs_f64(*at)).peekable();
    while let Some(now) = control_loop.next_deadline().filter(|now| *now <= Nanos::from_millis(1_000 * until_s)) {
        while let Some(arrival) = requests.next_if(|at| *at < now) {
            let (op, priority) = (Op::Read, Priority::DEFAULT);
            let request = Request { id: 0, stream: 1, op, sync: true, priority, sectors: 8, lba: 0, arrival };
            control_loop.event(&Event::Queued(request));
            control_loop.event(&Event::Completed { request, dispatched: arrival, at: arrival });
        }
        control_loop.advance(now, &mut disk);
    }
    control_loop.windows().iter().map(|window| (window.to.as_secs_f64(), window.outcome.requests)).collect()
}

#[test]
fn a_window_of_few_requests_goes_on_until_there_are_enough() {
    let two_a_second: Vec<f64> = (0..12).map(|number| 0.25 + 0.5 * f64::from(number)).collect();
    assert_eq!(windows(0, &two_a_second, 3), [(1.0, 2), (2.0, 2), (3.0, 2)]);
    assert_eq!(windows(5, &two_a_second, 6), [(3.0, 6), (6.0, 6)]);
}

#[test]
fn a_window_of_few_requests_ends_once_nothing_comes() {
    // A few at first, and a pause: later requests are in another window.
    assert_eq!(windows(5, &[0.1, 0.2, 3.1, 3.2, 3.3, 3.4, 3.5], 4)[0], (2.0, 2));
    assert_eq!(windows(5, &[0.1, 0.2, 3.1, 3.2, 3.3, 3.4, 3.5], 4).last(), Some(&(4.0, 5)));
}
