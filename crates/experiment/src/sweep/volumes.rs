//! Analyses every volume of a cloud's trace, or of a folder of traces: characterisation, a fitted device if the trace has response times,
//! and advice.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, bail, ensure};
use report::advice::Advice;
use serde::{Deserialize, Serialize};
use sim::replay::{Fit, FitError};
use sim::trace::info::{self, Info};
use sim::trace::merge::in_folders;
use sim::trace::volumes::Volumes;
use sim::trace::write::{self, About};
use sim::trace::{Order, TraceReader};
use testbed::pool::{Unseen, Workers};

use super::log::Log;
use super::output::replace;
use super::suspended;
use super::table::{self, Values};
use crate::advice::{AdviceRequest, advise};
use crate::comparison::Experiment;
use progress::monitor::{Interrupted, Monitor};

const REQUEST: &str = "_volumes.json";
const PROGRESS: &str = "_progress";
/// File name of the result table.
const TABLE: &str = "volumes.parquet";
/// Smallest gain that counts, in percent; the same limit as for advice.
const GAINS_PERCENT: f64 = 2.0;

/// A request to analyse all volumes of a trace.
pub struct VolumesRequest {
    /// A trace with any number of volumes, or a folder of traces.
    pub path: PathBuf,
    /// The disk, the candidates and the options for reading traces; its load is not used. Each volume runs on a disk of its own.
    pub experiment: Experiment,
    /// Whether a disk was named; otherwise volumes are judged as they were recorded.
    pub names_disk: bool,
}

/// Results for one volume.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct VolumeRow {
    /// File name, without the folder.
    pub file: String,
    /// Volume number within the file.
    pub number: u32,
    /// Volume name, or its number if unnamed.
    pub volume: String,
    /// Number of requests.
    pub requests: u64,
    /// Time from the first arrival to the last.
    pub duration_s: Option<f64>,
    /// Share of reads among the requests.
    pub read_share: Option<f64>,
    /// Mean size of reads and writes, in kB.
    pub mean_kb: Option<f64>,
    /// Requests per second over the whole duration.
    pub mean_iops: Option<f64>,
    /// Requests in the busiest second.
    pub peak_iops: Option<f64>,
    /// Share of requests that begin at the end of the previous one, or just behind it.
    pub sequential_share: Option<f64>,
    /// Distinct bytes touched, 10^6.
    pub footprint_mb: Option<f64>,
    /// Recorded mean response time; `None` if the trace has none.
    pub recorded_mean_ms: Option<f64>,
    /// Inferred device parameters as `name: value`, separated by semicolons; `None` if none could be inferred.
    pub device: Option<String>,
    /// Recommended setting; `None` if there is no recommendation.
    pub setting: Option<String>,
    /// Gain over the active setting, in percent of merit: simulated in full if a disk was named, else predicted. 0 if the active setting is
    /// recommended.
    pub gain_percent: Option<f64>,
    /// Verdict as a sentence.
    pub verdict: Option<String>,
    /// Why the analysis failed; `None` if it succeeded.
    pub error: Option<String>,
}

/// Results for all volumes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VolumesReport {
    /// Ordered by file and number.
    pub volumes: Vec<VolumeRow>,
    /// Number of volumes with a gain of at least 2%.
    pub gaining: usize,
    /// Mean gain over all volumes with a verdict, in percent.
    pub mean_gain_percent: f64,
    /// Mean gain weighted by each volume's number of requests, in percent.
    pub mean_gain_by_requests_percent: f64,
}

/// Source of a volume.
enum Source<'a> {
    /// A file with a single volume.
    Whole(&'a Path, Box<Info>),
    /// One of several volumes of a file.
    Of(&'a Volumes),
}

impl VolumesRequest {
    /// Analyses every volume that has no result in the folder yet, and writes the table once all are done.
    ///
    /// # Errors
    /// The folder holds another request's volumes or cannot be written, a file cannot be read, or the work was interrupted; completed
    /// volumes are kept.
    pub fn run(&self, folder: &Path, workers: Workers) -> anyhow::Result<VolumesReport> {
        let of = || format!("--output {}", folder.display());
        let merged = self.experiment.replay.same_devices;
        let files = in_folders(std::slice::from_ref(&self.path)).with_context(|| self.path.display().to_string())?;
        let sources: Vec<Vec<PathBuf>> = if merged { vec![files] } else { files.into_iter().map(|file| vec![file]).collect() };
        self.claim(folder, &sources).with_context(of)?;
        let progress = folder.join(PROGRESS);
        let mut done: BTreeMap<(String, u32), VolumeRow> = BTreeMap::new();
        let take = |row: VolumeRow| drop(done.insert((row.file.clone(), row.number), row));
        let log = Log::open(&progress.join("volumes.log"), take).with_context(of)?;
        let Some(log) = log else { bail!("{}: another process is at these volumes; wait for it", of()) };
        let work = Work { request: self, results: Mutex::new((log, done)), folder: progress.clone() };
        work.files(&sources, workers).map_err(|error| {
            let volumes = work.results.lock().unwrap_or_else(PoisonError::into_inner).1.len();
            suspended(error, || format!("{volumes} volumes"))
        })?;
        let (_, done) = work.results.into_inner().unwrap_or_else(PoisonError::into_inner);
        let volumes: Vec<VolumeRow> = done.into_values().collect();
        ensure!(!volumes.is_empty(), "{}: has no volume", self.path.display());
        replace(&progress.join("table"), &folder.join(TABLE), &table::encode(&columns(&volumes))?).with_context(of)?;
        Ok(VolumesReport::of(volumes))
    }

    /// Creates the folder, or checks that it belongs to this request.
    fn claim(&self, folder: &Path, sources: &[Vec<PathBuf>]) -> anyhow::Result<()> {
        let Experiment { disk, queue_depth, queue_policy, host, candidates, preference, seed, replay, .. } = &self.experiment;
        let sizes: Vec<(String, u64)> =
            sources.iter().flatten().map(|file| (name(file), file.metadata().map_or(0, |file| file.len()))).collect();
        let text = serde_json::to_string_pretty(&serde_json::json!({
            "seekwise_version": env!("CARGO_PKG_VERSION"),
            "files": sizes,
            "disk": self.names_disk.then_some(disk),
            "queue": format!("{queue_depth:?} {queue_policy:?}"),
            "host": host,
            "candidates": candidates,
            "preference": preference.unwrap_or_default().to_string(),
            "seed": seed,
            "replay": format!("{replay:?}"),
        }))? + "\n";
        let path = folder.join(REQUEST);
        if path.exists() {
            let there = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
            let differs = there.lines().zip(text.lines()).find(|(there, here)| there != here);
            if let Some((there, here)) = differs {
                bail!("holds volumes looked at in another way: there {}, here {}; name another folder", there.trim(), here.trim());
            }
            ensure!(there == text, "holds other volumes; name another folder");
        } else {
            ensure!(!folder.exists() || folder.is_dir(), "is a file; a folder is wanted");
            let is_empty = |mut files: fs::ReadDir| files.all(|file| file.is_ok_and(|file| file.file_name() == PROGRESS));
            ensure!(fs::read_dir(folder).map_or(true, is_empty), "is not empty, and holds no volumes; name a new folder");
            fs::create_dir_all(folder.join(PROGRESS))?;
            replace(&folder.join(PROGRESS).join("request"), &path, text.as_bytes())?;
        }
        Ok(fs::create_dir_all(folder.join(PROGRESS))?)
    }
}

/// Runs `work` on `threads` threads and returns the first error.
fn on_threads(threads: usize, work: &(impl Fn() -> anyhow::Result<()> + Sync)) -> anyhow::Result<()> {
    let ended: Vec<anyhow::Result<()>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    ended.into_iter().collect()
}

fn name(file: &Path) -> String {
    file.file_name().map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned())
}

/// The completed rows and their log.
type Results = (Log, BTreeMap<(String, u32), VolumeRow>);

struct Work<'a> {
    request: &'a VolumesRequest,
    results: Mutex<Results>,
    /// Folder for temporary files.
    folder: PathBuf,
}

impl Work<'_> {
    fn is_done(&self, file: &str, number: u32) -> bool {
        self.results.lock().unwrap_or_else(PoisonError::into_inner).1.contains_key(&(file.to_owned(), number))
    }

    fn add(&self, row: VolumeRow) -> anyhow::Result<()> {
        let mut results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        results.0.add(&row)?;
        results.1.insert((row.file.clone(), row.number), row);
        Ok(())
    }

    /// Analyses the volumes of all files, on one thread per file.
    fn files(&self, sources: &[Vec<PathBuf>], workers: Workers) -> anyhow::Result<()> {
        if let [only] = sources {
            return self.file(only, workers);
        }
        let quiet = Unseen(workers.monitor);
        let finished = AtomicU64::new(0);
        workers.monitor.begin(sources.len() as u64, "files");
        let next = AtomicUsize::new(0);
        let each = || -> anyhow::Result<()> {
            while let Some(files) = sources.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.file(files, Workers { monitor: &quiet, threads: 1 })?;
                workers.monitor.progress(finished.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(())
        };
        let ended = on_threads(workers.threads.min(sources.len()), &each);
        workers.monitor.end();
        ended
    }

    /// Analyses all volumes of a file, or of several files that form one recording.
    fn file(&self, files: &[PathBuf], workers: Workers) -> anyhow::Result<()> {
        let Some((path, others)) = files.split_first() else { return Ok(()) };
        let file = name(path);
        match self.volumes(path, others, &file, workers) {
            Err(error) if error.is::<Interrupted>() || error.chain().any(|cause| cause.is::<std::io::Error>()) => Err(error),
            // A broken file must not stop the others.
            Err(error) if !self.is_done(&file, 0) => self.add(VolumeRow::failed(file, 0, "-".to_owned(), format!("{error:#}"))),
            _ => Ok(()),
        }
    }

    fn volumes(&self, path: &Path, others: &[PathBuf], file: &str, workers: Workers) -> anyhow::Result<()> {
        let monitor = workers.monitor;
        let replay = &self.request.experiment.replay;
        let options = sim::trace::OpenOptions { others: others.to_vec(), order: Order::FromZero, ..replay.open() };
        let mut opened = sim::trace::open(path, &options)?;
        monitor.begin(0, "reading the trace, requests:");
        let info = info::characterise(opened.reader.as_mut(), 0, |requests| {
            monitor.progress(requests);
            monitor.check().is_ok()
        });
        monitor.end();
        let info = info?.ok_or(Interrupted)?;
        ensure!(info.requests > 0, "{}: holds no request", options.name(path));
        if info.place.devices == 1 && others.is_empty() {
            if !self.is_done(file, 0) {
                self.volume((file, 0), file.to_owned(), &Source::Whole(path, Box::new(info)), workers)?;
            }
            return Ok(());
        }
        let mut opened = sim::trace::open(path, &options)?;
        monitor.begin(info.requests, "taking volumes apart");
        let volumes = Volumes::split(opened.reader.as_mut(), &self.folder, |requests| {
            monitor.progress(requests);
            monitor.check().is_ok()
        });
        monitor.end();
        let volumes = volumes?.ok_or(Interrupted)?;
        let left: Vec<u32> = volumes.numbers().filter(|&number| !self.is_done(file, number)).collect();
        monitor.begin(left.len() as u64, "volumes");
        let (next, finished, failed) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicBool::new(false));
        let quiet = Unseen(monitor);
        let each = || -> anyhow::Result<()> {
            while let Some(&number) = left.get(next.fetch_add(1, Ordering::Relaxed)).filter(|_| !failed.load(Ordering::Relaxed)) {
                let name = volumes.name(number).map_or_else(|| number.to_string(), str::to_owned);
                let looked_at = self.volume((file, number), name, &Source::Of(&volumes), Workers { monitor: &quiet, threads: 1 });
                failed.fetch_or(looked_at.is_err(), Ordering::Relaxed);
                looked_at?;
                monitor.progress(finished.fetch_add(1, Ordering::Relaxed) + 1);
            }
            Ok(())
        };
        on_threads(workers.threads.min(left.len()), &each)?;
        monitor.end();
        Ok(())
    }

    fn volume(&self, (file, number): (&str, u32), volume: String, source: &Source, workers: Workers) -> anyhow::Result<()> {
        workers.monitor.check()?;
        let row = match self.look_at(number, source, workers) {
            Ok((info, advice)) => VolumeRow::of((file, number), volume, &info, advice.as_ref()),
            Err(error) if error.is::<Interrupted>() || error.chain().any(|cause| cause.is::<std::io::Error>()) => {
                return Err(error);
            }
            Err(error) => VolumeRow::failed(file.to_owned(), number, volume, format!("{error:#}")),
        };
        self.add(row)
    }

    /// Characterises a volume and computes advice, or returns the reason why there is none.
    fn look_at(&self, number: u32, source: &Source, workers: Workers) -> anyhow::Result<(Info, Result<Advice, String>)> {
        let own;
        let (info, path) = match source {
            Source::Whole(path, info) => ((**info).clone(), *path),
            Source::Of(volumes) => {
                let info = info::characterise(&mut volumes.reader(number), 0, |_| workers.monitor.check().is_ok())?;
                own = self.written(volumes, number, workers.monitor)?;
                (info.ok_or(Interrupted)?, own.path())
            }
        };
        let mut experiment = self.request.experiment.clone();
        experiment.load = path.to_owned();
        experiment.replay.same_devices = false;
        if matches!(source, Source::Of(_)) {
            (experiment.replay.format, experiment.replay.columns) = (None, None);
        }
        let request = AdviceRequest {
            experiment,
            names_disk: self.request.names_disk,
            device: None,
            active: None,
            aims: Vec::new(),
            varied: Vec::new(),
        };
        let advised = match advise(&request, workers) {
            // A volume may be larger than the disk although its data would fit.
            Err(error) if error.chain().any(|cause| cause.is::<FitError>()) => {
                let mut request = request;
                request.experiment.replay.fit = Fit::Compact;
                advise(&request, workers)
            }
            advised => advised,
        };
        let advice = match advised {
            Ok(advice) => Ok(advice),
            Err(error) if error.is::<Interrupted>() || error.chain().any(|cause| cause.is::<std::io::Error>()) => {
                return Err(error);
            }
            Err(error) => Err(format!("{error:#}").replace(&path.display().to_string(), "the volume")),
        };
        Ok((info, advice))
    }

    /// Writes a volume to a temporary file, removed on drop.
    fn written(&self, volumes: &Volumes, number: u32, monitor: &dyn Monitor) -> anyhow::Result<tempfile::NamedTempFile> {
        let file = tempfile::Builder::new().suffix(".parquet").tempfile_in(&self.folder)?;
        let format = write::named("parquet").context("the store's format")?;
        let about =
            About { program: concat!("seekwise ", env!("CARGO_PKG_VERSION")).to_owned(), source: String::new(), device: None };
        let mut writer = (format.create)(Box::new(std::io::BufWriter::new(file.reopen()?)), &about)?;
        let (mut reader, names) = (volumes.reader(number), volumes.reader(number));
        let mut written: u64 = 0;
        while let Some(request) = reader.next_request().transpose()? {
            writer.write(&request, &names)?;
            written += 1;
            if written.is_multiple_of(8192) {
                monitor.check()?;
            }
        }
        writer.finish()?;
        Ok(file)
    }
}

impl VolumeRow {
    fn of((file, number): (&str, u32), volume: String, info: &Info, advice: Result<&Advice, &String>) -> VolumeRow {
        let setting = advice.map(|advice| advice.verdict.setting.clone()).ok();
        let device = |advice: &Advice| {
            let findings: Vec<String> = advice.device.iter().map(|(name, value, _)| format!("{name}: {value}")).collect();
            (!findings.is_empty()).then(|| findings.join("; "))
        };
        VolumeRow {
            file: file.to_owned(),
            number,
            volume,
            requests: info.requests,
            duration_s: Some(info.duration_s),
            read_share: Some(info.read_share),
            mean_kb: Some(info.size.mean_kb),
            mean_iops: info.rate.mean_iops,
            peak_iops: Some(info.rate.peak_iops as f64),
            sequential_share: Some(info.sequential.near_share),
            footprint_mb: Some(info.place.footprint_mb),
            recorded_mean_ms: info.recorded_response.as_ref().map(|response| response.mean_ms),
            device: advice.ok().and_then(device),
            setting,
            gain_percent: advice.ok().and_then(gain_percent),
            verdict: advice.ok().map(|advice| advice.verdict.text.clone()),
            error: advice.err().cloned(),
        }
    }

    fn failed(file: String, number: u32, volume: String, error: String) -> VolumeRow {
        VolumeRow {
            file,
            number,
            volume,
            requests: 0,
            duration_s: None,
            read_share: None,
            mean_kb: None,
            mean_iops: None,
            peak_iops: None,
            sequential_share: None,
            footprint_mb: None,
            recorded_mean_ms: None,
            device: None,
            setting: None,
            gain_percent: None,
            verdict: None,
            error: Some(error),
        }
    }
}

/// Gain of the recommended setting, in percent.
fn gain_percent(advice: &Advice) -> Option<f64> {
    if !advice.verdict.is_change {
        return Some(0.0);
    }
    let setting = &advice.verdict.setting;
    let measured = advice.measured.iter().find(|measured| measured.setting == *setting).map(|measured| measured.gain_percent);
    measured.or_else(|| advice.candidates.iter().find(|one| one.setting == *setting).map(|one| one.gain_percent))
}

fn columns(rows: &[VolumeRow]) -> Vec<(String, Values)> {
    let words = |of: &dyn Fn(&VolumeRow) -> Option<String>| Values::Words(rows.iter().map(of).collect());
    let numbers = |of: &dyn Fn(&VolumeRow) -> Option<f64>| Values::Numbers(rows.iter().map(of).collect());
    let columns = [
        ("file", words(&|row| Some(row.file.clone()))),
        ("volume", words(&|row| Some(row.volume.clone()))),
        ("requests", Values::Counts(rows.iter().map(|row| Some(row.requests as i64)).collect())),
        ("duration_s", numbers(&|row| row.duration_s)),
        ("read_share", numbers(&|row| row.read_share)),
        ("mean_kb", numbers(&|row| row.mean_kb)),
        ("mean_iops", numbers(&|row| row.mean_iops)),
        ("peak_iops", numbers(&|row| row.peak_iops)),
        ("sequential_share", numbers(&|row| row.sequential_share)),
        ("footprint_mb", numbers(&|row| row.footprint_mb)),
        ("recorded_mean_ms", numbers(&|row| row.recorded_mean_ms)),
        ("device", words(&|row| row.device.clone())),
        ("setting", words(&|row| row.setting.clone())),
        ("gain_percent", numbers(&|row| row.gain_percent)),
        ("verdict", words(&|row| row.verdict.clone())),
        ("error", words(&|row| row.error.clone())),
    ];
    columns.into_iter().map(|(name, values)| (name.to_owned(), values)).collect()
}

impl VolumesReport {
    fn of(volumes: Vec<VolumeRow>) -> VolumesReport {
        let gains = || volumes.iter().filter_map(|row| Some((row.requests as f64, row.gain_percent?)));
        let mean = |weighted: &dyn Fn(f64) -> f64| {
            let (weights, sum) = gains().fold((0.0, 0.0), |(weights, sum), (requests, gain)| {
                (weights + weighted(requests), sum + weighted(requests) * gain)
            });
            if weights > 0.0 { sum / weights } else { 0.0 }
        };
        VolumesReport {
            gaining: gains().filter(|(_, gain)| *gain >= GAINS_PERCENT).count(),
            mean_gain_percent: mean(&|_| 1.0),
            mean_gain_by_requests_percent: mean(&|requests| requests),
            volumes,
        }
    }

    /// Formats the `top` volumes by gain, and the totals.
    pub fn text(&self, top: usize) -> String {
        let mut best: Vec<&VolumeRow> =
            self.volumes.iter().filter(|row| row.gain_percent.is_some_and(|gain| gain >= GAINS_PERCENT)).collect();
        best.sort_by(|a, b| b.gain_percent.unwrap_or(0.0).total_cmp(&a.gain_percent.unwrap_or(0.0)));
        let mut rows = vec![["volume", "file", "requests", "reads", "kB", "IOPS", "setting", "gain"].map(str::to_owned)];
        let number = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |value| format!("{value:.1}"));
        for row in best.iter().take(top) {
            rows.push([
                report::printable(&row.volume).to_string(),
                report::printable(&row.file).to_string(),
                row.requests.to_string(),
                row.read_share.map_or_else(|| "-".to_owned(), |share| format!("{:.0}%", 100.0 * share)),
                number(row.mean_kb),
                number(row.mean_iops),
                row.setting.clone().unwrap_or_default(),
                row.gain_percent.map_or_else(String::new, |gain| format!("{gain:+.1}%")),
            ]);
        }
        let mut text = if best.is_empty() { String::new() } else { super::report::aligned(&rows, &[2, 3, 4, 5, 7]) + "\n" };
        if best.len() > top {
            text += &format!("{} more gain at least {GAINS_PERCENT}%.\n", best.len() - top);
        }
        let failed = self.volumes.iter().filter(|row| row.error.is_some()).count();
        let without = if failed > 0 { format!(" {failed} could not be judged (column error).") } else { String::new() };
        text + &format!(
            "{} of {} volumes gain at least {GAINS_PERCENT}%; in the mean of all {:+.1}%, and {:+.1}% with each weighted by its requests.{without}\n",
            self.gaining,
            self.volumes.len(),
            self.mean_gain_percent,
            self.mean_gain_by_requests_percent,
        )
    }
}
