//! Models of devices: a training load runs on a device, and a regression tree learns the service times.
//!
//! ```text
//! device ─▶ asked for its mechanics (each disk of an array) ─┐
//!   ▲    ─▶ training load, one request at a time and several ─┼▶ model ─▶ judged by held-out data: other seeds, the sample's rest, the
//!   │ fitted                 sample ─▶ 5,000 of its requests ┘           recording's second half
//! recording ─▶ first half
//! ```
//! The paper: Zhang, Xu and Jiang, "YouChoose", III.A and IV.A.

pub mod alone;
pub mod errors;
pub mod page;
pub mod served;
pub mod training_load;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};
use block::{Merges, Nanos};
use device_model::device::{Array, DeviceModel, ModelTrainer, probing};
use guarantee::reference_disk::reference_disk;
use rand::Rng as _;
use serde::Serialize;
use sim::device::raid::spec::ArraySpecification;
use sim::host::{Queue, QueueSettings};
use sim::profile::Profile;
use sim::trace::OpenOptions;
use testbed::chance;
use testbed::pool::Workers;

use self::errors::{Errors, Judge};
use self::served::Served;
use self::training_load::Planned;
use crate::recorded::Recorded;

/// Traces of the training load with one request at a time, and with several.
const ALONE: u32 = 6;
const QUEUED: u32 = 14;
/// The same for the evaluation load, whose traces have the following numbers.
const JUDGED_ALONE: u32 = 2;
const JUDGED_QUEUED: u32 = 2;
/// Requests of a sample to train on, and the maximum to read.
const SAMPLE: usize = 5_000;
const MOST_OF_SAMPLE: usize = 50_000;

/// Training options.
#[derive(Clone, Debug)]
pub struct Options {
    /// Requests of each trace of the training load.
    pub requests: usize,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Merging in the queue in front of the device, if several requests wait.
    pub merges: Merges,
    /// A trace of the device's intended load: 5,000 of its requests are trained on, the others evaluated on.
    pub sample: Option<PathBuf>,
}

impl Default for Options {
    /// The paper's (IV.A): traces of 10,000 requests.
    fn default() -> Options {
        Options { requests: 10_000, seed: 1, merges: Merges::All, sample: None }
    }
}

/// A trained model with its evaluation on held-out loads.
#[derive(Clone, Debug)]
pub struct Trained {
    /// The model.
    pub model: DeviceModel,
    /// Its errors, and those of the models to compare it with.
    pub judged: Vec<Judged>,
}

/// Errors of a model on a load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judged {
    /// The load and the variant of the model.
    pub what: String,
    /// The errors.
    pub errors: Errors,
}

/// Trains a model of a device: a profile's name or file, an array specification, or a trace with response times.
///
/// # Errors
/// There is no such device or sample, or the work was interrupted.
pub fn train(device: &str, options: &Options, workers: Workers) -> anyhow::Result<Trained> {
    let error = match sim::profile::load(device) {
        Ok(profile) => {
            let (lessons, trained) = of_profile(profile.name(), &profile, options, workers)?;
            return match &options.sample {
                Some(path) => with_sample(&profile, path, lessons, trained, options, workers),
                None => Ok(trained),
            };
        }
        Err(error) => error,
    };
    let path = Path::new(device);
    ensure!(path.is_file() && !device.ends_with(".toml"), error);
    ensure!(options.sample.is_none(), "{device}: is a trace, on which no other can be replayed; leave --trace out");
    of_recording(path, options, workers)
}

/// Trains a model of a simulated device by the training load. The trainer is returned for further lessons.
fn of_profile(name: &str, profile: &Profile, options: &Options, workers: Workers) -> anyhow::Result<(ModelTrainer, Trained)> {
    let Options { requests, seed, .. } = *options;
    let stop = workers.monitor.stop();
    workers.monitor.begin(0, "asking for the mechanics");
    let (array, disk) = array(profile);
    let mut asked = alone::Alone::new(disk.build(Default::default()), stop);
    let mechanics = probing::find(&mut asked, seed);
    let drain_ns = if mechanics.is_none() { probing::find_drain(&mut asked) } else { None };
    workers.monitor.end();
    workers.monitor.check()?;
    let device = profile.device();
    let capacity = profile.capacity_sectors();
    let depth = device.build(Default::default()).queue_depth() as u32;
    let mut lessons =
        ModelTrainer::new(name, (capacity, depth), array, mechanics).map_err(anyhow::Error::msg)?.draining(drain_ns.unwrap_or(0.0));
    let jobs: Vec<(u32, bool)> = (0..ALONE + JUDGED_ALONE)
        .map(|number| (number, false))
        .chain((0..QUEUED + JUDGED_QUEUED).map(|number| (number, true)))
        .collect();
    let served = workers.map("running the training load, traces:", &jobs, |&(number, queued)| {
        let planned = training_load::draw(seed, number, requests, capacity, queued);
        Ok(match queued {
            true => served::several(queue(profile, options.merges), &planned, &lessons, stop)?,
            false => served::one_at_a_time(&*device, &planned, stop)?,
        })
    })?;
    let is_judged = |(number, queued): (u32, bool)| number >= if queued { QUEUED } else { ALONE };
    for (_, served) in jobs.iter().zip(&served).filter(|(job, _)| !is_judged(**job)) {
        served::tell(&mut lessons.begin_trace(false), served, |_| true);
    }
    workers.monitor.begin(0, "growing the tree");
    let model = lessons.learn(seed).context("growing the tree")?;
    workers.monitor.end();
    workers.monitor.check()?;
    let mut judge = Judge::default();
    for (_, served) in jobs.iter().zip(&served).filter(|(job, _)| is_judged(**job)) {
        judge.run(&model, served, |_| true);
    }
    let judged = vec![Judged { what: "other draws of the training load".to_owned(), errors: judge.errors() }];
    Ok((lessons, Trained { model, judged }))
}

/// The device behind the queue of a reference disk.
fn queue(profile: &Profile, merges: Merges) -> Queue {
    reference_disk(profile, QueueSettings { merges, ..QueueSettings::default() }).queue()
}

/// The layout of an array and its disk, if models support the layout; otherwise the device itself as a whole.
fn array(profile: &Profile) -> (Option<Array>, Profile) {
    let whole = || (None, profile.clone());
    let parts = profile.device();
    let [(_, disk)] = parts.parts() else { return whole() };
    let Ok(settings) =
        toml::from_str::<ArraySpecification>(profile.text()).map_err(|_| ()).and_then(|spec| spec.check().map_err(|_| ()))
    else {
        return whole();
    };
    let level = settings.level.number();
    // Arrays of arrays, and those with a failed disk, are learned as a whole.
    if ![0, 1, 5].contains(&level) || settings.failure.is_some() || !disk.device().parts().is_empty() {
        return whole();
    }
    (Some(Array { level, disks: settings.members, unit: settings.unit }), (**disk).clone())
}

/// Also trains on a part of a sample, and evaluates both models on the rest.
fn with_sample(
    profile: &Profile,
    path: &Path,
    mut lessons: ModelTrainer,
    without: Trained,
    options: &Options,
    workers: Workers,
) -> anyhow::Result<Trained> {
    let planned = requests_of(path, profile.capacity_sectors(), workers)?;
    let name = path.display();
    ensure!(
        planned.len() > SAMPLE,
        "{name}: has {} requests; a sample takes {SAMPLE}, and some are needed to judge by",
        planned.len()
    );
    let served = served::one_at_a_time(&*profile.device(), &planned, workers.monitor.stop())?;
    let first = chance::source("sample", options.seed, 0).random_range(0..=served.len() - SAMPLE);
    let is_learned = |number: usize| (first..first + SAMPLE).contains(&number);
    served::tell(&mut lessons.begin_trace(true), &served, is_learned);
    let model = lessons.learn(options.seed).context("growing the tree")?;
    let judge = |model: &DeviceModel| {
        let mut judge = Judge::default();
        judge.run(model, &served, |number| !is_learned(number));
        judge.errors()
    };
    let mut judged = without.judged;
    judged.push(Judged { what: format!("the rest of {name}, without its sample"), errors: judge(&without.model) });
    judged.push(Judged { what: format!("the rest of {name}, with its sample"), errors: judge(&model) });
    Ok(Trained { model, judged })
}

/// The first 50,000 requests of a trace, to be issued one at a time; those beyond the device are wrapped into it.
///
/// # Errors
/// The trace cannot be read, or the work was interrupted.
pub fn requests_of(path: &Path, capacity: u64, workers: Workers) -> anyhow::Result<Vec<Planned>> {
    let mut opened = sim::trace::open(path, &OpenOptions::default())?;
    let mut planned: Vec<Planned> = Vec::new();
    while let Some(request) = opened.reader.next_request() {
        let request = request?;
        workers.monitor.check()?;
        if request.sectors == 0 || u64::from(request.sectors) > capacity || !request.op.transfers() {
            continue;
        }
        let lba = request.lba % (capacity - u64::from(request.sectors) + 1);
        planned.push(Planned { op: request.op, lba, sectors: request.sectors, after: Nanos::ZERO, depth: 1 });
        if planned.len() == MOST_OF_SAMPLE {
            break;
        }
    }
    Ok(planned)
}

/// Trains a model from a recording. A recorded device cannot be probed. Therefore a disk is fitted to the first half of the recording and
/// learned from in its place; the second half is for evaluation. Training on the recorded times directly doubled the errors, because they
/// include waiting in the host's queue.
fn of_recording(path: &Path, options: &Options, workers: Workers) -> anyhow::Result<Trained> {
    let name = path.display();
    let mut recorded = Recorded::read(path, &OpenOptions::default(), &mut |_| Ok(workers.monitor.check()?))?;
    ensure!(recorded.timed > 0, "{name}: none of {} requests says when it was done; response times are needed", recorded.all);
    let (_, mut seen) = recorded.of_device(path, None)?;
    ensure!(seen.len() >= 100, "{name}: {} requests that say when they were done; at least 100 are needed", seen.len());
    seen.sort_by_key(|seen| (seen.dispatched, seen.completed, seen.request.lba));
    let capacity = seen.iter().map(|seen| seen.request.end()).max().unwrap_or(1);
    workers.monitor.begin(0, "fitting a disk");
    let fitted = twin::device::fit(&seen[..seen.len() / 2], Some(capacity)).with_context(|| name.to_string())?;
    workers.monitor.end();
    workers.monitor.check()?;
    let profile = Profile::parse(&fitted.profile_toml, "the fitted profile")?;
    let stem = path.file_stem().map_or(String::new(), |stem| stem.to_string_lossy().into_owned());
    let (lessons, mut trained) = of_profile(&stem, &profile, options, workers)?;
    let served: Vec<Served> = served::recorded(&seen, &lessons);
    let mut judge = Judge::default();
    judge.run(&trained.model, &served, |number| number >= served.len() / 2);
    trained.judged.push(Judged { what: "the second half of the recording".to_owned(), errors: judge.errors() });
    Ok(trained)
}
