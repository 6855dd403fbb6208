//! How right the learned coefficients of io.cost are on drawn devices: against long loads over all of the device, and beside the kernel's script.
//!
//! The script is `tools/cgroup/iocost_coef_gen.py` of Linux 6.18: each figure for 120 s in a file of 16 GiB, without a flush. Both begin sequential
//! loads in each fifth of their place.

use block::{Nanos, Op};
use experiment::chance::source;
use experiment::iocost::simulated::Simulated;
use experiment::iocost::{Learned, Place, Prober as _, ROUNDS, coefficient, learn, patterns};
use experiment::pool::{Unseen, Workers};
use experiment::world::World;
use progress::Monitor;

use crate::guarantees::draw;
use crate::worlds::Which;

/// Seconds of each figure's load over all of the device.
const LONG: f64 = 300.0;
/// Seconds of each figure's load, and sectors of the file, of the script.
const SCRIPT: f64 = 120.0;
const SCRIPT_FILE: u64 = 16 << 21;
/// No load has more requests: flash serves millions in this time, which takes too long to simulate.
const MOST_REQUESTS: f64 = 300_000.0;
/// Length of a sample and sectors of the file, as `seekwise learn iocost` has them by default.
const SAMPLE: Nanos = Nanos::from_millis(1_565);
const FILE: u64 = 1 << 21;

/// A drawn device.
#[derive(Clone, Debug)]
pub struct IoCostResult {
    /// Its number.
    pub number: u32,
    /// Its name.
    pub device: String,
    /// What it does over all of it, in the order of `experiment::iocost::NAMES`.
    pub actual: [f64; 6],
    /// What was learned.
    pub learned: Learned,
    /// What the script finds.
    pub script: [f64; 6],
    /// Seconds that learning took, and the script.
    pub seconds: [f64; 2],
}

/// Draws devices and measures each in all ways.
///
/// # Errors
/// One cannot be run, or it was interrupted.
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

/// Each figure by one load in the file, of about this length by what was learned.
fn measured(mut prober: Simulated, seconds: f64, learned: &Learned, monitor: &dyn Monitor) -> anyhow::Result<[f64; 6]> {
    let mut figures = [0.0; 6];
    let probes = [patterns(Op::Read, Place::File), patterns(Op::Write, Place::File)];
    for (index, probe) in probes.as_flattened().iter().enumerate() {
        monitor.check()?;
        let unit = coefficient(probe, 1.0);
        let requests = (learned.model[index].value / unit * seconds).clamp(20.0 * f64::from(probe.depth), MOST_REQUESTS);
        // In fifths of the device, as places differ in speed.
        let mut rates = Vec::new();
        for round in 0..ROUNDS {
            rates.push(prober.run(probe, (requests / ROUNDS as f64) as u64, round)?.rate());
        }
        figures[index] = coefficient(probe, rates.iter().sum::<f64>() / rates.len() as f64);
    }
    Ok(figures)
}
