//! The simulator inside a program: a made-up load on a disk, under several schedulers.
//!
//! ```text
//! cargo run --release -p seekwise-sim --example simulator
//! ```
//! Everything runs in virtual time: the same load gives the same figures on every machine.

use std::error::Error;

use block::{Limits, Nanos, Op, Priority};
use sim::host::{Queue, QueueSettings, RunSummary};
use sim::profile::DeviceOptions;
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay};
use sim::run::{Measure, Watch};
use sim::trace::{TraceError, TraceReader, TraceRequest};

/// Random requests of 4 KiB, two reads to a write, 90 a second.
struct Random {
    state: u64,
    left: u32,
    now: Nanos,
    sectors: u64,
}

impl Random {
    fn new(sectors: u64) -> Random {
        Random { state: 1, left: 5_000, now: Nanos::ZERO, sectors }
    }

    /// Xorshift64*: enough randomness for where and when.
    fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }
}

/// Any source of requests in order of arrival can be replayed.
impl TraceReader for Random {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.left = self.left.checked_sub(1)?;
        let (place, gap, op) = (self.number(), self.number(), self.number());
        self.now += Nanos(gap % 22_000_000);
        Some(Ok(TraceRequest {
            arrival: self.now,
            device: 0,
            lba: place % (self.sectors / 8) * 8,
            sectors: 8,
            op: if op % 3 == 0 { Op::Write } else { Op::Read },
            sync: Some(true),
            stream: 1,
            priority: Priority::DEFAULT,
            response: None,
            service: None,
        }))
    }
}

/// Runs the load on a disk of this profile under a scheduler, as in `deadline:fifo_batch=4`.
fn simulate(disk: &str, scheduler: &str) -> Result<RunSummary, Box<dyn Error>> {
    let profile = sim::profile::load(disk)?;
    let sectors = profile.capacity_sectors();
    let survey = Survey::take(&mut Random::new(sectors), |_| true)?.ok_or("the survey was stopped")?;
    let placement = Placement::new(&survey, sectors, Fit::Exact)?;
    let (spec, values) = block::parse(scheduler)?;
    let scheduler = (spec.build)(&Limits::default(), &values);
    let queue = Queue::new(scheduler, profile.build(DeviceOptions::default()), QueueSettings::default());
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    let reader = Box::new(Random::new(sectors));
    Ok(replay(reader, &placement, queue, &settings, Measure::new([1]), &Watch::default(), None)?)
}

fn main() -> Result<(), Box<dyn Error>> {
    println!("{:<24}  mean ms   p99 ms  busy %", "scheduler");
    for scheduler in ["none", "clook", "mq-deadline", "mq-deadline:fifo_batch=1"] {
        let summary = simulate("atlas10k", scheduler)?;
        let milliseconds = |time: Nanos| time.0 as f64 / 1e6;
        let all = &summary.measure.all;
        let (mean, p99) = (milliseconds(all.mean()), milliseconds(all.quantile(0.99)));
        println!("{scheduler:<24} {mean:>8.1} {p99:>8.1} {:>7.1}", 100.0 * summary.utilisation());
    }
    Ok(())
}

#[test]
fn every_request_is_served_and_a_run_repeats() {
    let run = || simulate("atlas10k", "clook").ok().map(|summary| (summary.measure.all.count(), summary.measure.all.mean()));
    assert_eq!(run().map(|(count, _)| count), Some(5_000));
    assert_eq!(run(), run());
}
