//! Gathers experience: runs workloads on disks under every candidate and writes down what they looked like and how they were served.

use block::Nanos;
use learn::controller::Fixed;
use learn::experience::{Case, Experience, Served, describe, names, noted};
use learn::{Setting, Window};

use crate::bench::Bench;
use crate::monitor::Monitor;
use crate::pool::Crew;
use crate::world::Device;

/// Length of a window that a case is taken from. Controllers look at shorter and longer ones.
pub const WINDOW: Nanos = Nanos::from_millis(1_000);
/// Windows from which cases are taken, of each run.
const TAKEN: usize = 3;
/// Windows with fewer requests say nothing.
const FEWEST: u64 = 20;

/// A job file: what it is called, and its text.
pub type Source = (String, String);

/// Runs each of `sources` on each of `devices` under each of `settings`.
///
/// # Errors
/// A text is no job file, its files do not fit on a device, or the work was interrupted.
pub fn gather(sources: &[Source], devices: &[Device], settings: &[Setting], seed: u64, crew: Crew) -> anyhow::Result<Experience> {
    let pairs: Vec<(&Source, &Device)> =
        sources.iter().flat_map(|source| devices.iter().map(move |device| (source, device))).collect();
    let done = crew.map("gathering, workloads:", &pairs, |(source, device)| cases(source, device, settings, seed, crew.monitor))?;
    let mut experience = Experience::new(names(), settings.iter().map(Setting::to_string).collect());
    experience.cases = done.into_iter().flatten().collect();
    Ok(experience)
}

fn cases(source: &Source, device: &Device, settings: &[Setting], seed: u64, monitor: &dyn Monitor) -> anyhow::Result<Vec<Case>> {
    let bench = Bench::new(&source.1, &source.0, device.world()?, seed)?;
    let runs = settings.iter().map(|setting| windows(&bench, setting, monitor)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(cases_of(&source.0, &device.name, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>()))
}

/// The cases of a workload's runs on a device, one run for each setting, their windows as long as [`WINDOW`].
pub fn cases_of(workload: &str, device: &str, runs: &[&[Window]]) -> Vec<Case> {
    let results: Vec<Option<Served>> = runs.iter().map(|windows| served(windows)).collect();
    let mut cases = Vec::new();
    for (under, windows) in runs.iter().enumerate() {
        let telling: Vec<&Window> = windows.iter().filter(|window| window.outcome.requests >= FEWEST).collect();
        for part in 0..TAKEN.min(telling.len()) {
            let window = telling[(2 * part + 1) * telling.len() / (2 * TAKEN.min(telling.len()))];
            let features = noted(describe(&window.features, &window.outcome));
            let (workload, device, results) = (workload.to_owned(), device.to_owned(), results.clone());
            cases.push(Case { workload, device, under, features, results });
        }
    }
    cases
}

fn windows(bench: &Bench, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<Vec<Window>> {
    let observed = bench.run(setting, Box::new(Fixed::new(setting.clone(), WINDOW)), monitor)?;
    Ok(observed.steered.steering().windows().to_vec())
}

/// How a run was served, without its first third, in which caches fill and schedulers that learn still do.
fn served(windows: &[Window]) -> Option<Served> {
    let judged = &windows[windows.len() / 3..];
    Served::of(judged.iter().map(|window| &window.outcome))
}
