//! A scheduler written in C compared with those of the kernel: `examples/elevator.c`, or the library that is named.
//!
//! ```text
//! cargo run --release -p seekwise-foreign --example from_c
//! cargo run --release -p seekwise-foreign --example from_c mine.so
//! ```

use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use block::{Limits, Nanos, Op, Priority, SchedulerSpec};
use sim::host::{Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay};
use sim::run::{Measure, Watch};
use sim::trace::{TraceError, TraceReader, TraceRequest};

/// Random requests of 4 KiB, two reads to a write, 110 a second: more than an old disk serves in order of arrival.
struct Random {
    number: u64,
    sectors: u64,
}

impl TraceReader for Random {
    fn next_request(&mut self) -> Option<Result<TraceRequest, TraceError>> {
        self.number += 1;
        let (number, priority) = (self.number, Priority::DEFAULT);
        let (arrival, lba) = (Nanos(number * 9_000_000), block::scramble::scramble(number) % (self.sectors / 8) * 8);
        let op = if number % 3 == 0 { Op::Write } else { Op::Read };
        let request = TraceRequest {
            arrival,
            device: 0,
            lba,
            sectors: 8,
            op,
            sync: Some(true),
            stream: 1,
            priority,
            response: None,
            service: None,
        };
        (number <= 5_000).then_some(Ok(request))
    }
}

/// Mean and 99th percentile of the response times on the disk `atlas10k`, in milliseconds.
fn simulate(spec: &SchedulerSpec) -> Result<(f64, f64), Box<dyn Error>> {
    let disk = sim::profile::load("atlas10k")?;
    let sectors = disk.capacity_sectors();
    let survey = Survey::take(&mut Random { number: 0, sectors }, |_| true)?.ok_or("the survey was stopped")?;
    let placement = Placement::new(&survey, sectors, Fit::Exact)?;
    let scheduler = (spec.build)(&Limits::default(), &spec.defaults());
    let queue = Queue::new(scheduler, disk.build(DeviceOptions::default()), QueueSettings::default());
    let settings = Settings { mode: Mode::Open, speed: 1.0 };
    let reader = Box::new(Random { number: 0, sectors });
    let summary = replay(reader, &placement, queue, &settings, Measure::new([1]), &Watch::default(), None)?;
    // After a broken rule, requests went in order of arrival: the figures are not those of the scheduler.
    foreign::violation(spec).map_or(Ok(()), Err)?;
    let milliseconds = |time: Nanos| time.0 as f64 / 1e6;
    Ok((milliseconds(summary.measure.all.mean()), milliseconds(summary.measure.all.quantile(0.99))))
}

/// Compiles `examples/elevator.c`.
fn compiled(folder: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let (here, library) = (Path::new(env!("CARGO_MANIFEST_DIR")), folder.join("elevator.so"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-O2", "-I"]).arg(here.join("include")).arg("-o").arg(&library);
    let status = compiler.arg(here.join("../../examples/elevator.c")).status()?;
    if status.success() { Ok(library) } else { Err("cc failed".into()) }
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let library = match std::env::args_os().nth(1) {
        Some(library) => library.into(),
        None => compiled(folder.path())?,
    };
    let own = foreign::load(&library)?;
    // What every scheduler must do, on random scripts of arrivals.
    foreign::check(own, 64)?;
    println!("{} keeps the rules for all schedulers", own.name);
    println!("{:<24}  mean ms   p99 ms", "scheduler");
    for name in [own.name, "noop", "clook", "mq-deadline"] {
        let spec = block::find(name).unwrap_or(own);
        let (mean, p99) = simulate(spec)?;
        println!("{name:<24} {mean:>8.1} {p99:>8.1}");
    }
    Ok(())
}
