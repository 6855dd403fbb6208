//! Accuracy of the learned coefficients of io.cost on random devices: compared with long loads over the whole device, and with the kernel's script.
//!
//! The script is `tools/cgroup/iocost_coef_gen.py` of Linux 6.18: each figure for 120 s in a file of 16 GiB, without a flush. In both,
//! sequential loads start in each fifth of their range.

use block::{Nanos, Op};
use experiment::iocost::simulated::Simulated;
use experiment::iocost::{Learned, Place, Prober as _, ROUNDS, coefficient, learn, patterns};
use progress::Monitor;
use testbed::chance::source;
use testbed::pool::{Unseen, Workers};
use testbed::world::World;

use crate::guarantees::draw;
use crate::worlds::Which;

/// Seconds of each figure's load over the whole device.
const LONG: f64 = 300.0;
/// The script's seconds for each figure's load, and sectors of its file.
const SCRIPT: f64 = 120.0;
const SCRIPT_FILE: u64 = 16 << 21;
/// Maximum number of requests per load: flash serves millions in this time, which would take too long to simulate.
const MOST_REQUESTS: f64 = 300_000.0;
/// Length of a sample and sectors of the file: the defaults of `seekwise learn iocost`.
const SAMPLE: Nanos = Nanos::from_millis(1_565);
const FILE: u64 = 1 << 21;

/// Results of a random device.
#[derive(Clone, Debug)]
pub struct IoCostResult {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub device: String,
    /// Figures over the whole device, in the order of `experiment::iocost::NAMES`.
    pub actual: [f64; 6],
    /// The learned coefficients.
    pub learned: Learned,
    /// The script's figures.
    pub script: [f64; 6],
    /// Duration of learning, and of the script, in seconds.
    pub seconds: [f64; 2],
}

/// Generates devices and measures each in all three ways.
///
/// # Errors
/// A device cannot be run, or the work was interrupted.
pub fn iocost(which: Which, seed: u64, numbers: &[u32], workers: Workers) -> anyhow::Result<Vec<IoCostResult>> {
    workers.map("devices", numbers, |&number| case(which, seed, number, &Unseen(workers.monitor)))
}

fn case(which: Which, seed: u64, number: u32, monitor: &dyn Monitor) -> anyhow::Result<IoCostResult> {
    let world = draw::device(which, &mut source("iocost-device", seed, number), seed, number)?;
    let capacity = world.profile.capacity_sectors();
    let fresh = || Simulated::new(&world, FILE, seed);
    let mut prober = fresh();
    let learned = learn(&mut prober, SAMPLE, monitor)?;
    let actual = measured(fresh().with_file(0..capacity / 8 * 8), LONG, &learned, monitor)?;
    let file = Simulated::new(&world, SCRIPT_FILE, seed).without_flushes();
    let script = measured(file, SCRIPT, &learned, monitor)?;
    let name = name(&world);
    Ok(IoCostResult { number, device: name, actual, learned, script, seconds: [prober.now().as_secs_f64(), 6.0 * SCRIPT] })
}

fn name(world: &World) -> String {
    world.profile.name().to_owned()
}

/// Each figure measured with one load in the file, of about `seconds` by the learned coefficients.
fn measured(mut prober: Simulated, seconds: f64, learned: &Learned, monitor: &dyn Monitor) -> anyhow::Result<[f64; 6]> {
    let mut figures = [0.0; 6];
    let probes = [patterns(Op::Read, Place::File), patterns(Op::Write, Place::File)];
    for (index, probe) in probes.as_flattened().iter().enumerate() {
        monitor.check()?;
        let unit = coefficient(probe, 1.0);
        let requests = (learned.model[index].value / unit * seconds).clamp(20.0 * f64::from(probe.depth), MOST_REQUESTS);
        // In fifths of the device, as speed depends on the location.
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            rates.push(prober.run(probe, (requests / ROUNDS as f64) as u64, round)?.rate());
        }
        figures[index] = coefficient(probe, rates.iter().sum::<f64>() / rates.len() as f64);
    }
    Ok(figures)
}
