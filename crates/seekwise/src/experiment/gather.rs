//! Gathers experience: runs workloads on disks under every candidate and writes down what they looked like and how they were served.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::Context;
use block::Nanos;
use learn::controller::Fixed;
use learn::experience::{Case, Experience, Served, describe, names, noted};
use learn::{Setting, Window};
use sim::host::HostSettings;
use sim::profile::DeviceOptions;

use super::World;
use super::laboratory::Laboratory;
use crate::terminal::{self, Interrupted};

/// Length of a window that a case is taken from. Controllers look at shorter and longer ones.
pub const WINDOW: Nanos = Nanos::from_millis(1_000);
/// Windows from which cases are taken, of each run.
const TAKEN: usize = 3;
/// Windows with fewer requests say nothing.
const FEWEST: u64 = 20;

/// A disk as `--disk` and `--queue-depth` say it.
#[derive(Clone, Debug)]
pub struct Disk {
    /// What the cases call it.
    pub name: String,
    /// A profile's name, file or line.
    pub profile: String,
    /// Requests it takes at once, if not the profile's.
    pub queue_depth: Option<u32>,
}

impl Disk {
    /// Reads `NAME` or `NAME@DEPTH`.
    pub fn parse(text: &str) -> anyhow::Result<Disk> {
        let (profile, depth) = match text.rsplit_once('@') {
            Some((profile, depth)) => (profile, Some(depth)),
            None => (text, None),
        };
        let wanted = || format!("--disk {text}: behind @ the queue's depth is wanted, 1 to 1024");
        let queue_depth = depth.map(|depth| depth.parse::<u32>().with_context(wanted)).transpose()?;
        anyhow::ensure!(queue_depth.is_none_or(|depth| (1..=1024).contains(&depth)), wanted());
        Ok(Disk { name: text.to_owned(), profile: profile.to_owned(), queue_depth })
    }

    /// With a host before it, all at rest.
    pub fn world(&self) -> anyhow::Result<World> {
        Ok(World {
            profile: sim::profile::load(&self.profile)?,
            device: DeviceOptions { queue_depth: self.queue_depth, queue_policy: None },
            host: HostSettings::default(),
        })
    }
}

/// A job file: what it is called, and its text.
pub type Source = (String, String);

/// Runs each of `sources` on each of `disks` under each of `settings`; as many at once as there are threads.
///
/// # Errors
/// A job file is none, its files do not fit on a disk, or it was interrupted.
pub fn gather(sources: &[Source], disks: &[Disk], settings: &[Setting], seed: u64, threads: usize) -> anyhow::Result<Experience> {
    let pairs: Vec<(&Source, &Disk)> = sources.iter().flat_map(|source| disks.iter().map(move |disk| (source, disk))).collect();
    let bar = terminal::progress_bar(pairs.len() as u64, "gathering, workloads:");
    let done = parallel(pairs.len(), threads, |number| {
        let cases = cases(pairs[number].0, pairs[number].1, settings, seed);
        bar.inc(1);
        cases
    });
    bar.finish_and_clear();
    let mut experience = Experience::new(names(), settings.iter().map(Setting::to_string).collect());
    for cases in done {
        experience.cases.extend(cases?);
    }
    Ok(experience)
}

/// Does `count` pieces of work, as many at once as there are threads; the results in order.
pub fn parallel<T: Send>(count: usize, threads: usize, work: impl Fn(usize) -> anyhow::Result<T> + Sync) -> Vec<anyhow::Result<T>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<anyhow::Result<T>>>> = (0..count).map(|_| Mutex::new(None)).collect();
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, count.max(1)) {
            scope.spawn(|| {
                while let Some(number) = Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&number| number < count) {
                    let result =
                        if terminal::interrupted().load(Ordering::Relaxed) { Err(Interrupted.into()) } else { work(number) };
                    if let Ok(mut place) = results[number].lock() {
                        *place = Some(result);
                    }
                }
            });
        }
    });
    let taken =
        |place: Mutex<Option<anyhow::Result<T>>>| place.into_inner().ok().flatten().unwrap_or_else(|| Err(Interrupted.into()));
    results.into_iter().map(taken).collect()
}

fn cases(source: &Source, disk: &Disk, settings: &[Setting], seed: u64) -> anyhow::Result<Vec<Case>> {
    let laboratory = Laboratory::new(&source.1, &source.0, disk.world()?, seed)?;
    let runs = settings.iter().map(|setting| windows(&laboratory, setting)).collect::<anyhow::Result<Vec<_>>>()?;
    Ok(cases_of(&source.0, &disk.name, &runs.iter().map(Vec::as_slice).collect::<Vec<_>>()))
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

fn windows(laboratory: &Laboratory, setting: &Setting) -> anyhow::Result<Vec<Window>> {
    let observed = laboratory.run(setting, Box::new(Fixed::new(setting.clone(), WINDOW)))?;
    Ok(observed.steered.steering().windows().to_vec())
}

/// How a run was served, without its first third, in which caches fill and schedulers that learn still do.
fn served(windows: &[Window]) -> Option<Served> {
    let judged = &windows[windows.len() / 3..];
    Served::of(judged.iter().map(|window| &window.outcome))
}
