//! Sensitivity to each gene of the library: constant values at both ends of its range. Also direct I/O under constant settings, where throughput
//! varies more over time than between settings.

use control::Setting;
use testbed::pool::Workers;

use super::convergence::Course;
use super::library::{Variant, ranges};
use super::pairs::{Length, WORKLOADS, constant};

/// Throughput of a workload at both ends of a gene's range, in megabytes per second.
pub struct Decides {
    /// The workload's index in [`WORKLOADS`].
    pub workload: usize,
    /// The tunable and its range.
    pub gene: String,
    /// With default values.
    pub default_mb_s: f64,
    /// At the minimum, and at the maximum.
    pub least_mb_s: f64,
    /// See `least_mb_s`.
    pub most_mb_s: f64,
}

/// Runs every workload with each gene of anticipatory varied separately.
///
/// # Errors
/// The work was interrupted.
pub fn run(length: Length, workers: Workers) -> anyhow::Result<Vec<Decides>> {
    let default = Setting::parse("anticipatory")?;
    let genes = ranges(&default, Variant::PRINTED);
    let mut settings = vec![default.clone()];
    for (place, min, max) in &genes {
        settings.extend([min, max].map(|value| {
            let mut setting = default.clone();
            setting.values[*place] = *value;
            setting
        }));
    }
    let every: Vec<(usize, &Setting)> =
        (0..WORKLOADS.len()).flat_map(|workload| settings.iter().map(move |setting| (workload, setting))).collect();
    let rates = workers
        .map("genes by themselves", &every, |&(workload, setting)| Ok(constant(workload, setting, length, workers)?.mean_mb_s))?;
    let mut all = Vec::new();
    for (workload, rates) in rates.chunks(settings.len()).enumerate() {
        let [default_mb_s, ends @ ..] = rates else { continue };
        for ((place, min, max), ends) in genes.iter().zip(ends.chunks(2)) {
            let gene = format!("{} {min} to {max}", default.spec.tunables[*place].name);
            let [least_mb_s, most_mb_s] = *ends else { continue };
            all.push(Decides { workload, gene, default_mb_s: *default_mb_s, least_mb_s, most_mb_s });
        }
    }
    Ok(all)
}

/// A direct workload under a constant setting.
pub struct Direct {
    /// The workload's index in [`WORKLOADS`].
    pub workload: usize,
    /// The scheduler, with its defaults.
    pub scheduler: &'static str,
    /// Throughput over time.
    pub course: Course,
}

/// Runs the paper's direct I/O and ours under each scheduler.
///
/// # Errors
/// The work was interrupted.
pub fn direct(length: Length, workers: Workers) -> anyhow::Result<Vec<Direct>> {
    let schedulers = ["anticipatory", "noop", "deadline", "cfq", "mq-deadline", "bfq"];
    let workloads = (0..WORKLOADS.len()).filter(|&workload| WORKLOADS[workload].0.starts_with("direct"));
    let every: Vec<(usize, &'static str)> =
        workloads.flat_map(|workload| schedulers.map(move |scheduler| (workload, scheduler))).collect();
    workers.map("direct I/O under constant settings", &every, |&(workload, scheduler)| {
        let course = constant(workload, &Setting::parse(scheduler)?, length, workers)?;
        Ok(Direct { workload, scheduler, course })
    })
}
