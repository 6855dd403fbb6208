//! Cycle lengths, and the report's scheduler and ours by their cycle.

use block::Nanos;
use block::sched::fairio::{CycleClass, cycle_length};

use super::array::DISKS;
use super::plan::Plan;

/// The report's cycle lengths in ms.
pub const CYCLES: [u32; 14] = [100, 200, 300, 400, 500, 600, 700, 800, 900, 1000, 1500, 2000, 2500, 3000];
/// A subset of [`CYCLES`] for interpretations and random workloads, and for benchmarks in a quick run.
const QUICK: [u32; 5] = [100, 500, 900, 2000, 3000];
/// A subset of [`CYCLES`] for interpretations and random workloads in a quick run.
const QUICK_READ: [u32; 3] = [100, 500, 2000];
/// Cycles in ms for MADbench2 at other rates, in addition to the heuristic's.
pub const DEMAND_CYCLES: [u32; 2] = [500, 1000];

/// Our scheduler with an adaptive cycle.
pub const ADAPTIVE: &str = "fairio:cycle_ms=0";

/// The report's scheduler with a cycle of this many ms.
pub fn printed(ms: u32) -> String {
    format!("{}:cycle_ms={ms}", super::printed::SPEC.name)
}

/// Our scheduler with a fixed cycle.
pub fn fixed(ms: u32) -> String {
    format!("fairio:cycle_ms={ms}")
}

/// The report's scheduler with storage that never counts as under-loaded, so that classes get only their shares: "strict enforcement".
pub fn strict(ms: u32) -> String {
    format!("{},storage_load_threshold=0", printed(ms))
}

/// Cycles for interpretations and random workloads.
pub fn read_cycles(plan: &Plan) -> &'static [u32] {
    if plan.is_quick { &QUICK_READ } else { &QUICK }
}

/// Fixed cycles of our scheduler for benchmarks.
pub fn benchmark_cycles(plan: &Plan) -> &'static [u32] {
    if plan.is_quick { &QUICK } else { &CYCLES }
}

/// The cycle of equation 3 in ms, for classes given as weight, disk time per request in ms, and number of requests.
pub fn equation_3(classes: impl IntoIterator<Item = (u32, f64, u32)>) -> u32 {
    let class = |(weight, ms, requests): (u32, f64, u32)| CycleClass { weight, request: Nanos((ms * 1e6) as u64), requests };
    let classes: Vec<CycleClass> = classes.into_iter().map(class).collect();
    cycle_length(&classes, DISKS).as_millis_f64() as u32
}
