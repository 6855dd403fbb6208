//! Cases of an evaluation: unseen loads on unseen devices, generated from a seed.

use std::collections::BTreeMap;
use std::path::PathBuf;

use block::StreamId;
use rand::seq::{IndexedRandom as _, SliceRandom as _};
use rand::{Rng as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use sim::host::HostSettings;
use sim::replay::Fit;
use testbed::jobs::JobsLoad;
use testbed::load::Load;
use testbed::pool::Workers;
use testbed::shipped;
use testbed::trace::{ReplayOptions, TraceLoad};
use testbed::world::World;

use crate::loads;
use crate::loads::{Scope, with_runtime};
use crate::worlds::{Purpose, SHIPPED, TRACES};
use progress::monitor::Monitor;

/// Speeds that are tried for an open-loop replay.
const SPEEDS: [f64; 4] = [1.0, 2.0, 4.0, 8.0];

/// A load on a device.
pub struct EvaluationCase {
    /// Name for display.
    pub name: String,
    /// The load's family, as in `worlds.toml`.
    pub family: String,
    /// The device's kind, as in `worlds.toml`.
    pub device: String,
    /// The load.
    pub load: Box<dyn Load>,
    /// The simulated device and host.
    pub world: World,
    /// When each phase of the load ends, in seconds.
    pub phase_ends_s: Vec<f64>,
    /// The phase of each stream; streams that are not listed are in all phases.
    pub phase_of: BTreeMap<StreamId, usize>,
    /// The job file; `None` for a trace.
    jobs: Option<String>,
}

impl EvaluationCase {
    /// A job file on a device. `phase_ends_s`: ends of the phases in seconds.
    ///
    /// # Errors
    /// The text is not a job file, or its files do not fit on the device.
    pub(crate) fn of_jobs(
        name: &str,
        text: &str,
        family: &str,
        device: &str,
        world: World,
        phase_ends_s: Vec<f64>,
        seed: u64,
    ) -> anyhow::Result<EvaluationCase> {
        let load = JobsLoad::new(text, name, seed, &world)?;
        let phase_at = |start_s: f64| phase_ends_s.iter().position(|end_s| start_s < *end_s).unwrap_or(0);
        let phase_of = load.starts_s().map(|(stream, start_s)| (stream, phase_at(start_s))).collect();
        Ok(EvaluationCase {
            name: format!("{name} on {}", world.device()),
            family: family.to_owned(),
            device: device.to_owned(),
            load: Box::new(load),
            world,
            phase_ends_s,
            phase_of,
            jobs: Some(text.to_owned()),
        })
    }

    /// The same load with its files at other places and other random numbers for its jobs; `None` for a trace, which has none.
    ///
    /// # Errors
    /// The load cannot be built.
    pub fn drawn_again(&self, seed: u64) -> anyhow::Result<Option<EvaluationCase>> {
        self.jobs.as_deref().map(|text| self.with_jobs(text, seed)).transpose()
    }

    /// The same load as another machine has it: [`varied`](loads::varied), and drawn again. `None` for a trace.
    ///
    /// # Errors
    /// The load cannot be built.
    pub fn on_another_machine(&self, seed: u64) -> anyhow::Result<Option<EvaluationCase>> {
        self.jobs.as_deref().map(|text| self.with_jobs(&loads::varied(text, seed), seed)).transpose()
    }

    fn with_jobs(&self, text: &str, seed: u64) -> anyhow::Result<EvaluationCase> {
        let load = JobsLoad::new(text, &self.load.digest().name, seed, &self.world)?.redrawn(seed);
        Ok(EvaluationCase {
            name: self.name.clone(),
            family: self.family.clone(),
            device: self.device.clone(),
            load: Box::new(load),
            world: self.world.clone(),
            phase_ends_s: self.phase_ends_s.clone(),
            phase_of: self.phase_of.clone(),
            jobs: Some(text.to_owned()),
        })
    }

    /// Loads of `count` other families on the same device, or of all others if there are fewer.
    ///
    /// # Errors
    /// A load cannot be built.
    pub fn others(&self, purpose: &Purpose, extent: &Extent, seed: u64, count: usize) -> anyhow::Result<Vec<EvaluationCase>> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x07e5);
        let others = purpose.loads.iter().filter(|name| **name != self.family);
        let mut families: Vec<&loads::Family> = others.filter_map(|name| loads::find(name)).collect();
        families.shuffle(&mut random);
        let drawn = |(number, family): (usize, &loads::Family)| {
            let drawn = loads::draw(family, seed, number as u32, &Scope::of(&self.world, extent.seconds));
            EvaluationCase::of_jobs(
                family.name,
                &drawn.text,
                family.name,
                &self.device,
                self.world.clone(),
                drawn.phase_ends_s,
                seed,
            )
        };
        families.into_iter().take(count).enumerate().map(drawn).collect()
    }
}

/// Number and duration of the cases.
#[derive(Clone, Debug)]
pub struct Extent {
    /// Maximum number of generated loads per seed; limited by the number of families.
    pub loads: usize,
    /// Number of built-in job files per seed.
    pub shipped: usize,
    /// Run time of a load with one phase, in seconds.
    pub seconds: u32,
    /// Traces, each replayed once per seed.
    pub traces: Vec<PathBuf>,
}

impl Extent {
    /// The extent of a full or a quick evaluation, with these traces.
    pub fn new(is_quick: bool, traces: Vec<PathBuf>) -> Extent {
        let (loads, shipped, seconds) = if is_quick { (3, 1, 20) } else { (usize::MAX, 2, 60) };
        Extent { loads, shipped, seconds, traces }
    }
}

/// The cases of `seeds` consecutive seeds from `first`, each with its seed.
///
/// # Errors
/// A device or a load cannot be built, a trace cannot be read, or the work was interrupted.
pub fn draw_all(
    purpose: &Purpose,
    extent: &Extent,
    first: u64,
    seeds: u32,
    workers: Workers,
) -> anyhow::Result<Vec<(u64, EvaluationCase)>> {
    let seeds: Vec<u64> = (0..u64::from(seeds)).map(|number| first.wrapping_add(number)).collect();
    let drawn = workers.map("drawing cases, seeds:", &seeds, |seed| draw(purpose, extent, *seed, workers.monitor))?;
    Ok(seeds.iter().zip(drawn).flat_map(|(seed, drawn)| drawn.into_iter().map(|question| (*seed, question))).collect())
}

/// The cases of one seed.
///
/// # Errors
/// A device or a load cannot be built, or a trace cannot be read.
fn draw(purpose: &Purpose, extent: &Extent, seed: u64, monitor: &dyn Monitor) -> anyhow::Result<Vec<EvaluationCase>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x0e4a);
    let mut questions = Vec::new();
    let mut families: Vec<&loads::Family> = purpose.loads.iter().filter_map(|name| loads::find(name)).collect();
    families.shuffle(&mut random);
    // Kinds of devices alternate, so that each seed covers all of them.
    let mut turns = purpose.devices.clone();
    turns.shuffle(&mut random);
    let mut turns = turns.into_iter().cycle();
    for (number, family) in families.into_iter().take(extent.loads).enumerate() {
        let Some(device) = turns.next() else { break };
        questions.push(drawn(family, &device, extent, seed, number as u32)?);
    }
    let folders: Vec<&str> = purpose.loads.iter().filter_map(|name| name.strip_prefix(SHIPPED)).collect();
    let is_asked = |name: &str| name.split('/').next().is_some_and(|folder| folders.contains(&folder));
    let mut files: Vec<&(&str, &str)> = shipped::ALL.iter().filter(|(name, _)| is_asked(name)).collect();
    files.shuffle(&mut random);
    for (number, (name, text)) in files.into_iter().take(extent.shipped).enumerate() {
        questions.push(fitting(&mut turns, purpose, |device| shipped_on(name, text, device, extent, seed, number as u32))?);
    }
    if purpose.loads.iter().any(|name| name == TRACES) {
        for path in &extent.traces {
            let (closed, speed) = (random.random(), SPEEDS.choose(&mut random).copied().unwrap_or(1.0));
            let replay = ReplayOptions { closed, speed, fit: Fit::Compact, ..ReplayOptions::default() };
            questions.push(fitting(&mut turns, purpose, |device| trace(path.clone(), &replay, device, seed, monitor))?);
        }
    }
    Ok(questions)
}

/// Builds a case on the next device that the load fits on.
fn fitting(
    turns: &mut impl Iterator<Item = String>,
    purpose: &Purpose,
    mut ask: impl FnMut(&str) -> anyhow::Result<EvaluationCase>,
) -> anyhow::Result<EvaluationCase> {
    let mut last = anyhow::anyhow!("this world has no devices");
    for device in turns.take(purpose.devices.len()) {
        match ask(&device) {
            Ok(question) => return Ok(question),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn drawn(family: &loads::Family, device: &str, extent: &Extent, seed: u64, number: u32) -> anyhow::Result<EvaluationCase> {
    let world = crate::worlds::drawn(device, seed, number)?;
    let drawn = loads::draw(family, seed, number, &Scope::of(&world, extent.seconds));
    let name = format!("{}-{seed}", family.name);
    EvaluationCase::of_jobs(&name, &drawn.text, family.name, device, world, drawn.phase_ends_s, seed)
}

fn shipped_on(name: &str, text: &str, device: &str, extent: &Extent, seed: u64, number: u32) -> anyhow::Result<EvaluationCase> {
    let world = crate::worlds::drawn(device, seed, number)?;
    let folder = name.split('/').next().unwrap_or(name);
    let text = with_runtime(text, extent.seconds);
    EvaluationCase::of_jobs(name, &text, &format!("{SHIPPED}{folder}"), device, world, vec![f64::INFINITY], seed)
}

fn trace(path: PathBuf, replay: &ReplayOptions, device: &str, seed: u64, monitor: &dyn Monitor) -> anyhow::Result<EvaluationCase> {
    let mut world = crate::worlds::drawn(device, seed, 0)?;
    world.host = HostSettings::default();
    let load = TraceLoad::new(&path, replay, &world, monitor)?;
    let how = if replay.closed { "closed" } else { "open" };
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(EvaluationCase {
        name: format!("{file}, {how} ×{}, on {}", replay.speed, world.device()),
        family: TRACES.to_owned(),
        device: device.to_owned(),
        load: Box::new(load),
        world,
        phase_ends_s: vec![f64::INFINITY],
        phase_of: BTreeMap::new(),
        jobs: None,
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;
    use crate::evaluation::run::Run;
    use control::controller::Fixed;
    use control::experience::WINDOW;
    use experiment::comparison::regime;
    use progress::monitor::Quiet;

    #[test]
    fn a_load_that_is_drawn_again_or_on_another_machine_issues_other_requests() {
        let extent = Extent { seconds: 5, ..Extent::new(true, Vec::new()) };
        let first = drawn(loads::find("at-random").unwrap(), "ibm18es", &extent, 1, 0).unwrap();
        let cases = [
            first.drawn_again(1).unwrap().unwrap(),
            first.drawn_again(2).unwrap().unwrap(),
            first.on_another_machine(1).unwrap().unwrap(),
            first,
        ];
        let found = regime::scheduler(regime::FOUND).unwrap();
        // The run ends with the last request, a moment that depends on all of them.
        let end_s = |case: &EvaluationCase| {
            let fixed = Box::new(Fixed::new(found.clone(), WINDOW));
            Run::of(case, &found, fixed, false, None, &Quiet::default()).unwrap().ended_s
        };
        let mut ends_s = cases.each_ref().map(end_s).to_vec();
        ends_s.sort_by(f64::total_cmp);
        ends_s.dedup();
        assert_eq!(ends_s.len(), cases.len(), "{ends_s:?}");
    }
}
