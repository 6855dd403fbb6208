//! Training of the paper's models, and their errors (sections III.A and IV.A).

use experiment::learned_device::errors::{Errors, Judge};
use experiment::learned_device::served::{Served, one_at_a_time};
use experiment::learned_device::training_load::Planned;
use rand::Rng as _;
use sim::profile::Profile;
use testbed::chance::source;
use testbed::pool::Workers;

use super::cart::{Cart, Examples, Features, SAMPLE, TRACE, training_traces};

/// Serves the synthetic training traces on a device.
///
/// # Errors
/// The work was interrupted.
pub fn synthetic(profile: &Profile, seed: u64, workers: Workers) -> anyhow::Result<Examples> {
    let traces = training_traces(seed, profile.capacity_sectors(), TRACE);
    let served = workers.map("training traces of the paper", &traces, |planned| serve(profile, planned, workers))?;
    let mut examples = Examples::default();
    served.iter().for_each(|served| examples.add(served, |_| true));
    Ok(examples)
}

/// Serves requests one at a time.
///
/// # Errors
/// The work was interrupted.
pub fn serve(profile: &Profile, planned: &[Planned], workers: Workers) -> anyhow::Result<Vec<Served>> {
    Ok(one_at_a_time(&*profile.device(), planned, workers.monitor.stop())?)
}

/// Minimum requests per leaf in the variation with large leaves.
pub const LARGE: usize = 100;

/// Errors of models on a workload.
pub struct Accuracy {
    /// With a sample of the workload.
    pub with: Errors,
    /// Without it.
    pub without: Errors,
    /// With a sample, and the operation as an additional feature.
    pub with_operation: Errors,
    /// With a sample, and at least [`LARGE`] requests in a leaf.
    pub large_leaves: Errors,
    /// With a sample: errors of requests that continue where the previous one ended, and of the others.
    pub by_locality: [Errors; 2],
    /// With a sample: share of requests whose predicted time exceeds the device's, in percent.
    pub above_percent: f64,
    /// Number of requests that the model with a sample was trained with, and of its leaves.
    pub size: (usize, usize),
}

/// Trains models of an array, and evaluates them on the requests of the workload that are not in the sample.
///
/// # Errors
/// The work was interrupted.
pub fn accuracy(profile: &Profile, workload: &[Planned], seed: u64, workers: Workers) -> anyhow::Result<Accuracy> {
    let mut examples = synthetic(profile, seed, workers)?;
    let without = Cart::grow(&examples, Features::Printed);
    let served = serve(profile, workload, workers)?;
    // The same segment as for our own model.
    let first = source("sample", seed, 0).random_range(0..=served.len().saturating_sub(SAMPLE));
    let is_sample = |number: usize| (first..first + SAMPLE).contains(&number);
    examples.add(&served, is_sample);
    let [with, with_operation] = [Features::Printed, Features::WithOperation].map(|features| Cart::grow(&examples, features));
    let errors = |cart: &Cart| {
        let mut judge = Judge::default();
        judge.run(cart, &served, |number| !is_sample(number));
        judge.errors()
    };
    let large = Cart::with_leaves(&examples, Features::Printed, LARGE);
    let goes_on = |number: usize| number > 0 && served[number].request.lba == served[number - 1].request.end();
    let by_locality = [true, false].map(|is_local| {
        let mut judge = Judge::default();
        judge.run(&with, &served, |number| !is_sample(number) && goes_on(number) == is_local);
        judge.errors()
    });
    let above_percent = above_percent(&with, &served, is_sample);
    Ok(Accuracy {
        with: errors(&with),
        without: errors(&without),
        with_operation: errors(&with_operation),
        large_leaves: errors(&large),
        by_locality,
        above_percent,
        size: (examples.len(), with.leaves()),
    })
}

fn above_percent(cart: &Cart, served: &[Served], is_sample: impl Fn(usize) -> bool) -> f64 {
    use block::tenants::ServiceModel as _;
    let mut running = cart.begin();
    let predicted: Vec<_> = served.iter().map(|one| running.service_time(one.start, &one.request, 0)).collect();
    let judged = || served.iter().zip(&predicted).enumerate().filter(|(number, _)| !is_sample(*number));
    let above = judged().filter(|(_, (one, predicted))| **predicted > one.took).count();
    100.0 * above as f64 / judged().count().max(1) as f64
}
