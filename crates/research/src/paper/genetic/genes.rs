//! Whether a gene of the library decides anything: constant values at both ends of its range.

use control::Setting;

use super::library::{Variant, ranges};
use super::pairs::{Length, WORKLOADS, constant};
use experiment::pool::Workers;

/// What the ends of a gene's range do to a workload, in megabytes a second.
pub struct Decides {
    /// Its place in [`WORKLOADS`].
    pub workload: usize,
    /// The tunable and its range.
    pub gene: String,
    /// With all defaults.
    pub default_mb_s: f64,
    /// At the least value, and at the greatest.
    pub least_mb_s: f64,
    /// See `least_mb_s`.
    pub most_mb_s: f64,
}

/// Every workload under each gene of anticipatory by itself.
///
/// # Errors
/// It was interrupted.
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
    let rates = workers.map("genes by themselves", &every, |&(workload, setting)| constant(workload, setting, length, workers))?;
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
