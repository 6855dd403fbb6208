//! Speed of the program as ratios: CPU time (user and system) of whole runs divided by that of a reference workload. Both are measured
//! alternately, so that the ratio depends little on the machine and its other load.
//!
//! Then requests per second of CPU time under several schedulers and on several devices.
//!
//! Run by `cargo bench --bench ratios`. With `DISKSIM=/path/to/disksim` and `DISKSIM_PARV=/path/to/one_atlas10k.parv`, DiskSim also replays
//! the first case's trace, which takes about a minute. `RATIOS_ROUNDS` sets the number of measurements (default: 5).
//!
//! The reference is an empty event loop, the minimum work of any simulator: a `std::collections::BinaryHeap` of 1,024 events, from which a
//! million times the first event is popped and a new one pushed, for a request drawn like those of the traces.

#![expect(clippy::expect_used, reason = "a benchmark that cannot run should say so at once")]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt::Write as _;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;

const REQUESTS: u64 = 1_000_000;
const EVENTS: usize = 1_024;

/// A disk and its request rate, somewhat below its capacity.
struct Case {
    disk: &'static str,
    per_second: u64,
}

const CASES: [Case; 3] = [
    Case { disk: "atlas10k", per_second: 60 },
    Case { disk: "raid0:disk=atlas10k,disks=8", per_second: 480 },
    Case { disk: "raid5:disk=atlas10k,disks=9", per_second: 200 },
];

/// Generator of random 4 KiB requests, two reads per write, with uniform interarrival times up to twice the mean.
struct Draw {
    state: u64,
    now_ns: u64,
    gap_ns: u64,
    sectors: u64,
}

/// A generated request.
struct Drawn {
    at_ns: u64,
    lba: u64,
    is_read: bool,
}

impl Draw {
    fn new(sectors: u64, per_second: u64) -> Draw {
        Draw { state: 1, now_ns: 0, gap_ns: 2_000_000_000 / per_second, sectors }
    }

    /// Random number (xorshift64*).
    fn number(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
    }

    fn next(&mut self) -> Drawn {
        self.now_ns += self.number() % self.gap_ns;
        let lba = self.number() % (self.sectors / 8) * 8;
        Drawn { at_ns: self.now_ns, lba, is_read: !self.number().is_multiple_of(3) }
    }

    /// A million requests in DiskSim's format: ms, device, sector, sectors, 1 for a read.
    fn trace(mut self) -> String {
        let mut text = String::new();
        for _ in 0..REQUESTS {
            let Drawn { at_ns, lba, is_read } = self.next();
            let (ms, ns) = (at_ns / 1_000_000, at_ns % 1_000_000);
            writeln!(text, "{ms}.{ns:06} 0 {lba} 8 {}", u8::from(is_read)).expect("memory");
        }
        text
    }
}

/// CPU time so far, of this process or of its terminated children.
fn spent_s(who: UsageWho) -> f64 {
    let usage = getrusage(who).expect("the system's own account");
    (usage.user_time().num_microseconds() + usage.system_time().num_microseconds()) as f64 / 1e6
}

fn reference_s() -> f64 {
    let before = spent_s(UsageWho::RUSAGE_SELF);
    let mut draw = Draw::new(1 << 24, 60);
    let mut events: BinaryHeap<Reverse<(u64, u64, bool)>> = BinaryHeap::with_capacity(EVENTS + 1);
    for _ in 0..REQUESTS {
        let Drawn { at_ns, lba, is_read } = draw.next();
        // Completions are not in order of arrival.
        events.push(Reverse((at_ns + draw.number() % (EVENTS as u64 * draw.gap_ns), lba, is_read)));
        if events.len() > EVENTS {
            black_box(events.pop());
        }
    }
    spent_s(UsageWho::RUSAGE_SELF) - before
}

fn run_s(command: &mut Command) -> f64 {
    let before = spent_s(UsageWho::RUSAGE_CHILDREN);
    let status = command.stdout(Stdio::null()).status();
    assert!(status.as_ref().is_ok_and(std::process::ExitStatus::success), "{command:?}: {status:?}");
    spent_s(UsageWho::RUSAGE_CHILDREN) - before
}

fn seekwise(verb: &str, trace: &Path, disk: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
    command.arg(verb).arg(trace).args(["--disk", disk, "--scheduler", "deadline"]);
    command
}

fn median(mut values: Vec<f64>) -> (f64, f64, f64) {
    values.sort_by(f64::total_cmp);
    (values[values.len() / 2], values[0], values[values.len() - 1])
}

fn main() {
    // `cargo test --benches` must not run the benchmark.
    if !std::env::args().any(|argument| argument == "--bench") {
        return println!("skipped: cargo bench --bench ratios runs it");
    }
    let rounds = std::env::var("RATIOS_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(5).max(1);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let traces: Vec<PathBuf> = CASES.iter().zip(0..).map(|(case, number)| trace(folder.path(), case, number)).collect();
    println!(
        "Processor time of {REQUESTS} random 4 KiB requests under deadline, times that of as many events of a plain event loop"
    );
    println!("(median of {rounds} rounds, least, most)\n");
    let mut first = 0.0;
    for (case, trace) in CASES.iter().zip(&traces) {
        for verb in ["simulate", "compare"] {
            let ratios = (0..rounds).map(|_| run_s(&mut seekwise(verb, trace, case.disk)) / reference_s());
            let (ratio, least, most) = median(ratios.collect());
            println!("{verb:8} {:30} {:4}/s  {ratio:6.2}  {least:6.2}  {most:6.2}", case.disk, case.per_second);
            first = if first == 0.0 { ratio } else { first };
        }
    }
    rates(rounds, folder.path());
    match (std::env::var_os("DISKSIM"), std::env::var_os("DISKSIM_PARV")) {
        (Some(program), Some(parv)) => {
            let ratio = disksim_s(Path::new(&program), Path::new(&parv), &traces[0]) / reference_s();
            println!("DiskSim  {:30} {:4}/s  {ratio:6.1}: {:.1} times simulate", CASES[0].disk, CASES[0].per_second, ratio / first);
        }
        _ => println!("skipped: DISKSIM and DISKSIM_PARV do not name DiskSim's program and its parameters for {}", CASES[0].disk),
    }
}

/// A disk, its schedulers and its request rate.
struct Rate {
    disk: &'static str,
    schedulers: &'static [&'static str],
    per_second: u64,
}

const RATES: [Rate; 6] = [
    Rate { disk: "atlas10k", schedulers: &["clook"], per_second: 60 },
    Rate { disk: "atlas10k", schedulers: &["mq-deadline"], per_second: 60 },
    Rate { disk: "sata7200", schedulers: &["mq-deadline"], per_second: 60 },
    Rate { disk: "sata7200", schedulers: &["none", "mq-deadline", "kyber", "bfq"], per_second: 60 },
    Rate { disk: "raid5:disk=atlas10k,disks=9", schedulers: &["mq-deadline"], per_second: 200 },
    Rate { disk: "nvme-tlc", schedulers: &["none"], per_second: 20_000 },
];

/// Prints requests per second of CPU time, for whole runs on a trace in Seekwise's own format: `simulate` under one scheduler, `compare` under
/// several, where requests count once per scheduler. Depends on the machine.
fn rates(rounds: usize, folder: &Path) {
    println!("\nRequests per second of processor time, from a store (median of {rounds} rounds, least, most)\n");
    for (number, Rate { disk, schedulers, per_second }) in RATES.iter().enumerate() {
        let text = trace(folder, &Case { disk, per_second: *per_second }, CASES.len() + number);
        let store = text.with_extension("parquet");
        let mut convert = Command::new(env!("CARGO_BIN_EXE_seekwise"));
        run_s(convert.arg("trace").arg("convert").arg(&text).arg(&store).stderr(Stdio::null()));
        let verb = if schedulers.len() == 1 { "simulate" } else { "compare" };
        let mut command = Command::new(env!("CARGO_BIN_EXE_seekwise"));
        command.arg(verb).arg(&store).args(["--disk", disk, "--threads", "1"]);
        command.args(schedulers.iter().flat_map(|scheduler| ["--scheduler", scheduler]));
        let requests = REQUESTS as f64 * schedulers.len() as f64;
        let (rate, least, most) = median((0..rounds).map(|_| requests / run_s(&mut command) / 1e6).collect());
        println!("{verb:8} {disk:30} {:32} {rate:5.2} M  {least:5.2}  {most:5.2}", schedulers.join(" "));
        for file in [text, store] {
            std::fs::remove_file(file).expect("a file of our own");
        }
    }
    println!();
}

/// Writes the trace of a case.
fn trace(folder: &Path, case: &Case, number: usize) -> PathBuf {
    let sectors = sim::profile::load(case.disk).expect("a shipped disk").capacity_sectors();
    let path = folder.join(format!("{number}.disksim"));
    std::fs::write(&path, Draw::new(sectors, case.per_second).trace()).expect("room for a trace");
    path
}

/// Runs `disksim PARAMETERS OUTPUT TRACE-FORMAT TRACE SYNTHETIC` in the folder of the parameters, which refer to further files there.
fn disksim_s(program: &Path, parv: &Path, trace: &Path) -> f64 {
    let absolute = |path: &Path| path.canonicalize().expect("DISKSIM and DISKSIM_PARV name files");
    let (program, parv) = (absolute(program), absolute(parv));
    let mut command = Command::new(program);
    command.current_dir(parv.parent().unwrap_or(Path::new("/")));
    command.arg(&parv).arg(trace.with_extension("out")).arg("ascii").arg(trace).arg("0");
    run_s(&mut command)
}
