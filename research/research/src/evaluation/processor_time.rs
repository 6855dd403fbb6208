//! Processor time of a controller at a steady request rate, after its first decisions.

use anyhow::ensure;
use block::Nanos;
use control::Controller;
use control::controller::ControllerInput;
use rustix::time::{ClockId, clock_gettime};
use sim::run::{Pilot, ServerEvent, Steerable, Watch};
use testbed::jobs::JobsLoad;
use testbed::load::Load as _;
use testbed::world::World;

use experiment::comparison::regime;
use experiment::steered::Steered;
use progress::monitor::Monitor;
use statistics::Rank;

/// The device, fast enough for any requested rate.
const DISK: &str = "nvme-tlc";
/// Processes, each with an equal share of the rate: random reads of two sizes, random writes, and a log.
const JOBS: [&str; 4] = ["rw=randread\nbs=4k", "rw=randread\nbs=16k", "rw=randwrite\nbs=8k", "rw=write\nbs=64k"];
/// Initial seconds that are not measured: the cost of a controller's first decisions is incurred once.
const FIRST_S: u32 = 60;

/// Parameters of the measurement.
#[derive(Clone, Debug)]
pub struct ProcessorTime {
    /// The controller, as in `--controller`.
    pub controller: String,
    /// Requests per second; at least one per process.
    pub rate: u32,
    /// Seconds of virtual time, including the first minute.
    pub seconds: u32,
}

/// Results of the measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Spent {
    /// Completed requests per second.
    pub requests_per_s: f64,
    /// Measured seconds of virtual time.
    pub seconds: f64,
    /// Processor time of the controller, in percent of one core.
    pub core_percent: f64,
}

impl ProcessorTime {
    /// Runs the load under the controller, in virtual time.
    ///
    /// # Errors
    /// The controller is unknown, the rate or duration is too small, or the work was interrupted.
    pub fn measure(&self, monitor: &dyn Monitor) -> anyhow::Result<Spent> {
        ensure!(self.seconds > FIRST_S, "--seconds {}: should be more than {FIRST_S}, which are not measured", self.seconds);
        let rate = self.rate / JOBS.len() as u32;
        ensure!(rate > 0, "--rate {}: should be at least {}", self.rate, JOBS.len());
        let chosen = regime::controller(&self.controller, &crate::controller::all().collect::<Vec<_>>())?;
        let input = ControllerInput { candidates: regime::candidates(&[])?, ..ControllerInput::default() };
        let setting = regime::scheduler(regime::FOUND)?;
        let world = World::new(DISK, None, None)?.under(&setting);
        let load = JobsLoad::new(&jobs(rate, self.seconds), "steady", input.seed, &world)?;
        let mut clocked = Clocked::new(chosen.build(&input), &world.device())?;
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let ran = load.run(world.queue(world.scheduler(&setting)), world.host, &watch, Some(&mut clocked));
        monitor.check()?;
        let seconds = ran?.measure.last_completion.as_secs_f64() - f64::from(FIRST_S);
        ensure!(seconds > 0.0, "the load ended within the first minute");
        let core_percent = 100.0 * clocked.spent_ns as f64 / 1e9 / seconds;
        Ok(Spent { requests_per_s: clocked.requests as f64 / seconds, seconds, core_percent })
    }
}

/// The job file, with this rate per process.
fn jobs(rate: u32, seconds: u32) -> String {
    let global =
        format!("[global]\nioengine=libaio\ndirect=1\niodepth=16\nsize=2g\ntime_based\nruntime={seconds}\nrate_iops={rate}\n");
    JOBS.iter().enumerate().fold(global, |text, (number, job)| text + &format!("[job{number}]\n{job}\n"))
}

/// Measures a controller by this thread's CPU clock, which excludes time in which other threads run.
struct Clocked {
    steered: Steered,
    /// Cost of reading the clock, in nanoseconds.
    clock_ns: u64,
    spent_ns: u64,
    requests: u64,
}

impl Clocked {
    fn new(controller: Box<dyn Controller>, device: &str) -> anyhow::Result<Clocked> {
        let setting = regime::scheduler(regime::FOUND)?;
        let mut readings: Vec<u64> = (0..101)
            .map(|_| {
                let start = processor_ns();
                processor_ns() - start
            })
            .collect();
        let clock_ns = Rank::Above.of_ordered(&mut readings, 0.5).unwrap_or(0);
        Ok(Clocked { steered: Steered::new(controller, &setting, device, None), clock_ns, spent_ns: 0, requests: 0 })
    }

    /// Runs `work` and adds its time if the first minute has passed.
    fn timed<T>(&mut self, now: Nanos, work: impl FnOnce(&mut Steered) -> T) -> T {
        let start = processor_ns();
        let result = work(&mut self.steered);
        if now >= Nanos::from_secs_f64(f64::from(FIRST_S)) {
            self.spent_ns += (processor_ns() - start).saturating_sub(self.clock_ns);
        }
        result
    }
}

/// Processor time of this thread, in nanoseconds.
fn processor_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Pilot for Clocked {
    fn begin(&mut self, plant: &mut dyn Steerable) {
        self.steered.begin(plant);
    }

    fn events(&mut self, noted: &[ServerEvent]) {
        let events = noted.iter().map(twin::event);
        let (mut now, mut requests) = (Nanos::ZERO, 0);
        for event in events {
            now = now.max(event.at());
            requests += u64::from(matches!(event, observe::Event::Completed { .. }));
        }
        self.requests += if now >= Nanos::from_secs_f64(f64::from(FIRST_S)) { requests } else { 0 };
        self.timed(now, |steered| steered.events(noted));
    }

    fn next_step(&self, quiet_until: Nanos) -> Option<Nanos> {
        self.steered.next_step(quiet_until)
    }

    fn step(&mut self, now: Nanos, plant: &mut dyn Steerable) -> bool {
        self.timed(now, |steered| steered.step(now, plant))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use progress::monitor::Quiet;

    use super::*;

    #[test]
    fn the_load_has_the_rate_that_is_asked_for_and_too_little_time_is_refused() {
        let measure = |seconds, rate| ProcessorTime { controller: "fixed".to_owned(), rate, seconds }.measure(&Quiet::default());
        let spent = measure(62, 200).unwrap();
        assert!((spent.requests_per_s - 200.0).abs() < 10.0 && spent.core_percent < 5.0, "{spent:?}");
        assert!(measure(60, 200).unwrap_err().to_string().contains("--seconds 60: should be more than 60"));
        assert!(measure(70, 3).unwrap_err().to_string().contains("--rate 3: should be at least 4"));
    }
}
