//! Gathers training data: runs loads on devices under every candidate and records each load's features and results.

use anyhow::Context;
use block::did_you_mean;
use control::controller::Fixed;
use control::experience::{Case, Experience, MIN_REQUESTS, WINDOW};
use control::{Setting, Window};
use observe::description::{describe, names};
use observe::performance::{Performance, stored_features};
use observe::starvation;
use observe::starvation::Tails;
use testbed::pool::Workers;
use testbed::world::{Device, World};

use crate::loads;
use crate::loads::Scope;
use crate::worlds::{DRAWN, worlds};
use experiment::bench::{Bench, tails};
use experiment::comparison::regime;
use progress::monitor::Monitor;

/// Number of devices per generated family.
const DRAWN_DEVICES: u32 = 4;

/// A job file: name and text.
pub type Source = (String, String);

/// A load on a device, to be run under every candidate.
pub struct Lesson {
    load: Source,
    device: String,
    world: World,
    seed: u64,
}

/// Every source on every device.
///
/// # Errors
/// A device is unknown.
pub fn lessons(sources: &[Source], devices: &[Device], seed: u64) -> anyhow::Result<Vec<Lesson>> {
    let mut lessons = Vec::new();
    for load in sources {
        for device in devices {
            lessons.push(Lesson { load: load.clone(), device: device.name.clone(), world: device.world()?, seed });
        }
    }
    Ok(lessons)
}

/// `count` loads of each family on each device of the training world; every device gets its own loads.
///
/// # Errors
/// A device cannot be generated.
pub fn lessons_of_world(count: u32, seconds: u32, seed: u64) -> anyhow::Result<Vec<Lesson>> {
    let purpose = &worlds()?.learn;
    let mut devices: Vec<(String, World)> = Vec::new();
    for name in &purpose.devices {
        let numbers = if name.starts_with(DRAWN) { 0..DRAWN_DEVICES } else { 0..1 };
        for number in numbers {
            devices.push((format!("{name}/{number}"), crate::worlds::drawn(name, seed, number)?));
        }
    }
    let mut lessons = Vec::new();
    for (place, (device, world)) in devices.iter().enumerate() {
        for name in &purpose.loads {
            let family = loads::find(name).with_context(|| {
                let meant = did_you_mean(name, loads::all().map(|family| family.name));
                format!("{name}: unknown family of loads{meant}")
            })?;
            for number in 0..count {
                let number = place as u32 * count + number;
                let text = loads::draw(family, seed, number, &Scope::of(world, seconds)).text;
                let load = (format!("{name}/{number}"), text);
                lessons.push(Lesson { load, device: device.clone(), world: world.clone(), seed });
            }
        }
    }
    Ok(lessons)
}

/// Runs each lesson under each of `settings`.
///
/// # Errors
/// A text is not a job file, its files do not fit on a device, or the work was interrupted.
pub fn gather(lessons: &[Lesson], settings: &[Setting], workers: Workers) -> anyhow::Result<Experience> {
    let done = workers.map("gathering, loads:", lessons, |lesson| lesson.cases(settings, workers.monitor))?;
    let mut experience = Experience::new(names(), settings.iter().map(Setting::to_string).collect());
    experience.cases = done.into_iter().flatten().collect();
    Ok(experience)
}

impl Lesson {
    fn cases(&self, settings: &[Setting], monitor: &dyn Monitor) -> anyhow::Result<Vec<Case>> {
        let Lesson { load: (name, text), device, world, seed } = self;
        let bench = Bench::new(text, name, world.clone(), *seed).with_context(|| device.clone())?;
        let runs = settings.iter().map(|setting| run(&bench, setting, monitor)).collect::<anyhow::Result<Vec<_>>>()?;
        let default = settings.iter().position(|setting| setting.to_string() == regime::FOUND);
        let runs: Vec<(&[Window], &Tails)> = runs.iter().map(|(windows, tails)| (windows.as_slice(), tails)).collect();
        Ok(cases_of(name, device, &runs, default))
    }
}

/// Cases from a load's runs on a device, one run per setting with windows of [`WINDOW`]: one case per setting, with the features in the
/// middle of its run. Starvation is judged relative to the run of index `default`; with `None`, no setting starves.
pub fn cases_of(workload: &str, device: &str, runs: &[(&[Window], &Tails)], default: Option<usize>) -> Vec<Case> {
    let standard = default.map(|default| runs[default].1);
    let results: Vec<Option<Performance>> = runs
        .iter()
        .map(|(windows, tails)| {
            let starves = standard.is_some_and(|standard| starvation::starves(tails, standard));
            served(windows).map(|served| Performance { starves, ..served })
        })
        .collect();
    let mut cases = Vec::new();
    for (under, (windows, _)) in runs.iter().enumerate() {
        let telling: Vec<&Window> = windows.iter().filter(|window| window.outcome.requests >= MIN_REQUESTS).collect();
        let Some(window) = telling.get(telling.len() / 2) else { continue };
        let features = stored_features(describe(&window.features, &window.outcome));
        let (workload, device, results) = (workload.to_owned(), device.to_owned(), results.clone());
        cases.push(Case { workload, device, under, features, results });
    }
    cases
}

fn run(bench: &Bench, setting: &Setting, monitor: &dyn Monitor) -> anyhow::Result<(Vec<Window>, Tails)> {
    let observed = bench.run(setting, Box::new(Fixed::new(setting.clone(), WINDOW)), false, monitor)?;
    Ok((observed.steered.steering().windows().to_vec(), tails(observed.outcome.measure.streams.iter())))
}

/// Performance of a run without its first third, in which caches fill and learning schedulers adapt. `None` if nothing completed.
pub fn served(windows: &[Window]) -> Option<Performance> {
    let judged = &windows[windows.len() / 3..];
    Performance::of(judged.iter().map(|window| &window.outcome))
}
/// Default settings to gather experience under: the possible choices of controllers. The textbook `scan` and variants of tunables are
/// omitted, as every setting is another run of every load.
pub fn settings() -> Vec<Setting> {
    device_model::sched::classic().chain(block::KERNEL.iter().copied()).map(Setting::of).collect()
}

/// Recipe of the built-in experience: loads of each family on each device, seconds, seed.
#[cfg(test)]
const RECIPE: (u32, u32, u64) = (3, 15, 7);

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use progress::monitor::Quiet;
    use testbed::pool::Workers;

    /// One of this many loads is gathered again.
    const SAMPLED: usize = 61;

    #[test]
    fn the_shipped_experience_is_reproducible() {
        let shipped = experiment::experience::load(None).unwrap();
        assert_eq!(shipped.features, observe::description::names(), "gather it again with research/research/experience.sh");
        let settings = settings();
        assert_eq!(shipped.settings, settings.iter().map(Setting::to_string).collect::<Vec<_>>());
        let (count, seconds, seed) = RECIPE;
        let script = include_str!("../experience.sh");
        assert!(script.contains(&format!("--world {count} --seed {seed} --seconds {seconds}")), "the recipe is another one");
        let lessons: Vec<_> = lessons_of_world(count, seconds, seed).unwrap().into_iter().step_by(SAMPLED).collect();
        let again = gather(&lessons, &settings, Workers::new(&Quiet::default(), None)).unwrap();
        assert!(!again.cases.is_empty());
        for case in &again.cases {
            let is_there = shipped.cases.contains(case);
            assert!(is_there, "{} on {}: gather it again with research/research/experience.sh", case.workload, case.device);
        }
    }
}
