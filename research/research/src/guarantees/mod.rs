//! Evaluates guarantees to tenants: random hosts, loads and contracts, and each scheduler's results.

pub mod admission;
pub mod bars;
pub mod draw;
pub mod earliest_due_first;
pub mod edf;
pub mod feasible;
pub mod files;
pub mod first_second;
pub mod hosts;
pub mod loads;
pub mod rates;
mod runs;

use control::Setting;

/// A scheduler with its tunables: one of the product, or the simplest rival.
///
/// # Errors
/// There is no such scheduler or tunable, or a value is out of range.
pub fn scheduler(text: &str) -> anyhow::Result<Setting> {
    let known = device_model::sched::all().chain(std::iter::once(&earliest_due_first::SPEC));
    let (spec, values) = block::parse_among(known, text)?;
    Ok(Setting { spec, values, host: Vec::new() })
}
