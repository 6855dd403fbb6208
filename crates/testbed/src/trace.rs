//! A trace as a load: replayed in an open or a closed loop.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, ensure};
use block::{Roster, StreamId};
use report::advice::Overload;
use report::record::{Replay, TraceDigest};
use sim::host::{HostSettings, Queue, RunSummary};
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay, replay_alone, replay_tenant};
use sim::run::{Measure, Owner, Pilot, RunError, Watch};
use sim::trace::merge::Identity;
use sim::trace::{Columns, InMemory, Keeping, Kept, OpenOptions, TraceReader};

use crate::load::{Build, Draws, Load};
use crate::world::{World, hexadecimal};
use progress::monitor::{Interrupted, Monitor};

/// Options for reading and replaying a trace.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Format of the trace; `None` recognises it by content.
    pub format: Option<String>,
    /// Meaning of the columns of a CSV file; `None` takes it from the heading.
    pub columns: Option<Columns>,
    /// Whether damaged records are skipped and counted, rather than an error.
    pub skip_bad: bool,
    /// Further traces to merge with it by time.
    pub others: Vec<PathBuf>,
    /// Trace in memory, used instead of a file; the load's path is then only its name.
    pub memory: Option<Arc<dyn InMemory>>,
    /// Whether devices and streams of the same name in several traces are the same.
    pub same_devices: bool,
    /// Closed loop: each stream issues its next request after the completion of the previous one and its think time. Otherwise requests
    /// arrive at the times of the trace.
    pub closed: bool,
    /// Speed-up: the times of the trace are divided by this, a value in [`SPEEDS`].
    pub speed: f64,
    /// Treatment of a trace that exceeds the disk.
    pub fit: Fit,
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            format: None,
            columns: None,
            skip_bad: false,
            others: Vec::new(),
            memory: None,
            same_devices: false,
            closed: false,
            speed: 1.0,
            fit: Fit::Exact,
        }
    }
}

impl ReplayOptions {
    /// The first argument that differs from its default; `None` if all are. Job files do not accept any.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.format.is_some(), "--format"),
            (self.columns.is_some(), "--columns"),
            (self.skip_bad, "--skip-bad"),
            (self.same_devices, "--same-devices"),
            (self.closed, "--closed"),
            (self.speed != 1.0, "--speed"),
            (self.fit == Fit::Compact, "--fit"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }

    /// Options for opening the trace.
    pub fn open(&self) -> OpenOptions {
        let identity = if self.same_devices { Identity::ByName } else { Identity::OfEachTrace };
        OpenOptions {
            format: self.format.clone(),
            columns: self.columns.clone(),
            skip_bad: self.skip_bad,
            others: self.others.clone(),
            memory: self.memory.clone(),
            identity,
            ..OpenOptions::default()
        }
    }
}

/// Host tunables that affect a block trace.
pub const OF_THE_QUEUE: &[&str] = &["nr_requests", "max_sectors_kb", "nomerges", "wbt_lat_usec", "scheduler_switch_ms"];

/// Valid speeds.
pub const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

/// Maximum length of a replay: the 64-bit clock ends after 584 years, and a disk that falls behind needs some of them.
pub const LONGEST_REPLAY_S: f64 = 100.0 * 365.25 * 86_400.0;

/// Distance by which a volume is shifted on a disk to draw other places: some dozen tracks, not a whole number, so that every request has
/// another rotational delay.
const SHIFT_SECTORS: u64 = 40_968;

/// A trace that was read completely once, for concurrent replays on any number of disks.
pub struct SurveyedTrace {
    path: PathBuf,
    options: OpenOptions,
    format: &'static str,
    sha256: String,
    survey: Survey,
    /// Its requests, if they fit in memory.
    kept: Option<Arc<Kept>>,
}

impl SurveyedTrace {
    /// Reads the trace once to learn its size and streams and to check that it is readable to the end. Its requests are cached in memory
    /// if they fit in `kept_bytes` bytes and are not in memory already.
    ///
    /// # Errors
    /// It cannot be read, holds no request, or the work was interrupted.
    pub fn read(path: &Path, args: &ReplayOptions, kept_bytes: usize, monitor: &dyn Monitor) -> anyhow::Result<SurveyedTrace> {
        let options = args.open();
        let Surveyed { survey, kept, format, sha256 } = survey(path, &options, kept_bytes, monitor)?;
        Ok(SurveyedTrace {
            path: path.to_owned(),
            // Several traces may have different formats.
            options: if options.others.is_empty() { OpenOptions { format: Some(format.to_owned()), ..options } } else { options },
            format,
            sha256,
            survey,
            kept,
        })
    }

    /// Memory used by cached requests in bytes; zero if each run reads the file.
    pub fn kept_bytes(&self) -> usize {
        self.kept.as_ref().map_or(0, |kept| kept.bytes())
    }
}

/// A surveyed trace with its place on a disk.
pub struct TraceLoad {
    trace: Arc<SurveyedTrace>,
    fit: Fit,
    placement: Placement,
    settings: Settings,
}

impl TraceLoad {
    /// Reads the trace and places it.
    ///
    /// # Errors
    /// As for [`SurveyedTrace::read`] and [`placed`](TraceLoad::placed).
    pub fn new(path: &Path, args: &ReplayOptions, world: &World, monitor: &dyn Monitor) -> anyhow::Result<TraceLoad> {
        let trace = SurveyedTrace::read(path, args, Keeping::DEFAULT_BYTES, monitor)?;
        TraceLoad::placed(Arc::new(trace), args, world)
    }

    /// Places a surveyed trace on a disk. It must have been read with the same options.
    ///
    /// # Errors
    /// The trace does not fit or would last too long, or the host has settings that do not apply to a block trace.
    pub fn placed(trace: Arc<SurveyedTrace>, args: &ReplayOptions, world: &World) -> anyhow::Result<TraceLoad> {
        let name = trace.options.name(&trace.path);
        let survey = &trace.survey;
        world.expect_defaults_but(OF_THE_QUEUE).with_context(|| {
            format!(
                "{name}: a block trace was recorded below the page cache; of the host's tunables it meets only {}",
                OF_THE_QUEUE.join(", ")
            )
        })?;
        let lasts_s = survey.duration.as_secs_f64() / args.speed;
        ensure!(
            lasts_s <= LONGEST_REPLAY_S,
            "{name}: lasts {:.0} years at --speed {}; a replay may last 100 years: give --speed {:.1e} or faster",
            lasts_s / LONGEST_REPLAY_S * 100.0,
            args.speed,
            // Slightly more, to allow for rounding.
            args.speed * lasts_s / LONGEST_REPLAY_S * 1.1
        );
        let placement = Placement::new(survey, world.profile.capacity_sectors(), args.fit)
            .with_context(|| format!("{name} on {}", world.profile.name()))?;
        let mode = if args.closed { Mode::Closed } else { Mode::Open };
        let settings = Settings { mode, speed: args.speed };
        Ok(TraceLoad { trace, fit: args.fit, placement, settings })
    }

    /// Shifts the requests to other sectors chosen by the seed, if the disk has room. Seed 1 leaves them unchanged.
    #[must_use]
    pub fn with_seed(self, seed: u64) -> TraceLoad {
        let room = self.placement.room_sectors();
        let shift = u128::from(seed.wrapping_sub(1)) * u128::from(SHIFT_SECTORS) % (u128::from(room) + 1);
        TraceLoad { placement: self.placement.shifted(shift as u64), ..self }
    }

    /// Name without the folder.
    fn name(&self) -> String {
        self.trace.options.name(self.trace.path.file_name().map_or(&*self.trace.path, Path::new))
    }

    fn reader(&self) -> Result<Box<dyn TraceReader>, RunError> {
        Ok(match &self.trace.kept {
            Some(kept) => Box::new(kept.reader()),
            None => sim::trace::open(&self.trace.path, &self.trace.options)?.reader,
        })
    }
}

/// Rejects files that can be read only once, before they are opened: opening a pipe would wait for a writer. Missing files and folders are
/// left to the reader's own errors.
fn expect_regular(files: &[PathBuf]) -> anyhow::Result<()> {
    for path in files {
        let special = path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
        ensure!(!special, "{}: is not a regular file; a comparison reads its trace several times", path.display());
    }
    Ok(())
}

/// Result of one pass over a trace.
struct Surveyed {
    survey: Survey,
    kept: Option<Arc<Kept>>,
    format: &'static str,
    sha256: String,
}

/// Reads a trace to its end to learn its size and streams, and to check that it is readable.
fn survey(path: &Path, options: &OpenOptions, kept_bytes: usize, monitor: &dyn Monitor) -> anyhow::Result<Surveyed> {
    let files = options.files(path);
    expect_regular(&files)?;
    let mut opened = sim::trace::open(path, options)?;
    let sha256 = match &options.memory {
        Some(memory) => memory.sha256(),
        None => sha256(&files, monitor)?,
    };
    monitor.begin(0, "reading the trace, requests:");
    // A copy of a trace in memory would not be faster to read.
    let kept_bytes = if options.memory.is_some() { 0 } else { kept_bytes };
    let mut keeping = Keeping::with_limit(&mut *opened.reader, kept_bytes);
    let survey = Survey::take(&mut keeping, |requests| {
        monitor.progress(requests);
        monitor.check().is_ok()
    });
    monitor.end();
    let survey = survey?.ok_or(Interrupted)?;
    let name = options.name(path);
    ensure!(survey.requests > 0, "{name}: holds no request; there is nothing to replay");
    for warning in keeping.warnings() {
        monitor.warn(&format!("{name}: {warning}"));
    }
    Ok(Surveyed { survey, kept: keeping.kept(), format: opened.format.name, sha256 })
}

/// SHA-256 of the contents of the files, concatenated.
fn sha256(files: &[PathBuf], monitor: &dyn Monitor) -> anyhow::Result<String> {
    use sha2::Digest;
    let mut hasher = sha2::Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for path in files {
        let mut file = std::fs::File::open(path).with_context(|| path.display().to_string())?;
        loop {
            let read = std::io::Read::read(&mut file, &mut buffer).with_context(|| path.display().to_string())?;
            if read == 0 {
                break;
            }
            monitor.check()?;
            hasher.update(&buffer[..read]);
        }
    }
    Ok(hexadecimal(&hasher.finalize()))
}

impl Load for TraceLoad {
    fn digest(&self) -> TraceDigest {
        TraceDigest {
            name: self.name(),
            format: self.trace.format.to_owned(),
            sha256: self.trace.sha256.clone(),
            requests: Some(self.trace.survey.requests),
            skipped_lines: self.trace.survey.skipped,
        }
    }

    fn replay(&self, world: &World) -> Replay {
        Replay {
            mode: if self.settings.mode == Mode::Open { "open" } else { "closed" }.to_owned(),
            speed: self.settings.speed,
            fit: if self.fit == Fit::Exact { "exact" } else { "compact" }.to_owned(),
            seed: None,
            host: world.tunables().filter(|(name, _)| OF_THE_QUEUE.contains(&name.as_str())).collect(),
        }
    }

    fn expected_requests(&self) -> Option<u64> {
        Some(self.trace.survey.requests)
    }

    fn stream_count(&self) -> usize {
        self.trace.survey.stream_count()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.trace.survey.stream_name(stream)
    }

    fn streams_of(&self, name: &str) -> Vec<StreamId> {
        let followed = self.trace.survey.followed().into_iter().map(|(stream, _)| stream);
        let named: Vec<StreamId> = followed.filter(|&stream| self.trace.survey.stream_name(stream) == Some(name)).collect();
        if !named.is_empty() {
            return named;
        }
        // With more streams than are followed, only the numbers of the others are known.
        name.parse().ok().filter(|&stream| self.trace.survey.has_stream(stream)).into_iter().collect()
    }

    fn names(&self) -> Vec<String> {
        let followed = self.trace.survey.followed().into_iter();
        let name = |stream: StreamId| self.trace.survey.stream_name(stream).map_or_else(|| stream.to_string(), str::to_owned);
        let mut names: Vec<String> = followed.map(|(stream, _)| name(stream)).collect();
        names.sort();
        names.dedup();
        names
    }

    /// Each part replays the whole trace, so there are at most as many as threads. The busiest remaining stream goes to the part with the
    /// least work.
    fn alone_parts(&self, threads: usize) -> Vec<Vec<StreamId>> {
        let followed = self.trace.survey.followed();
        let mut parts = vec![(0, Vec::new()); threads.clamp(1, followed.len())];
        for (stream, requests) in followed {
            if let Some((work, part)) = parts.iter_mut().min_by_key(|(work, _)| *work) {
                *work += requests;
                part.push(stream);
            }
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn run(&self, queue: Queue, _host: HostSettings, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError> {
        let measure = Measure::new(self.trace.survey.followed().into_iter().map(|(stream, _)| stream));
        let measure = measure.by_tenant(queue.roster(), Owner::Sectors);
        replay(self.reader()?, &self.placement, queue, &self.settings, measure, watch, pilot)
    }

    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError> {
        let measure = Measure::of_streams(streams.iter().copied());
        replay_alone(self.reader()?, &self.placement, build, &self.settings, measure, watch)
    }

    fn run_tenant(
        &self,
        roster: &Roster,
        tenant: usize,
        queue: Queue,
        draws: Draws,
        watch: &Watch,
        pilot: Option<&mut dyn Pilot>,
    ) -> Result<RunSummary, RunError> {
        let capacity = queue.capacity_sectors();
        let held: u64 =
            roster.volumes().filter(|(_, owner)| *owner == tenant).map(|(sectors, _)| sectors.end - sectors.start).sum();
        let shift = match draws {
            Draws::Others if held > 0 => SHIFT_SECTORS.min(capacity.saturating_sub(held)),
            _ => 0,
        };
        let placement = self.placement.alone(roster, tenant, capacity, shift);
        let streams = roster.streams().filter(|(_, owner)| *owner == tenant).map(|(stream, _)| stream);
        let measure = Measure::new(streams).by_tenant(Some(&Roster::default()), Owner::Stream);
        replay_tenant(self.reader()?, &placement, queue, &self.settings, measure, watch, pilot)
    }

    fn overload(&self, outcome: &RunSummary) -> Option<Overload> {
        let speed = outcome.sustainable_speed(self.settings.speed).filter(|_| self.settings.mode == Mode::Open)?;
        let arrivals = outcome.measure.last_arrival - outcome.measure.first_arrival;
        let offered_iops = self.trace.survey.requests as f64 / arrivals.as_secs_f64();
        // Rounded down to two digits.
        let step = 10f64.powf(speed.log10().floor() - 1.0);
        let rounded = (speed / step).floor() * step;
        // If no valid speed is slow enough for a burst, only a closed replay is left.
        let slower = if SPEEDS.contains(&rounded) {
            let decimals = (-step.log10().round()).max(0.0) as usize;
            format!(
                "it served a full queue at --speed {rounded:.decimals$}, and serves a shorter one more slowly: take less, or replay with --closed"
            )
        } else {
            "replay with --closed".to_owned()
        };
        let text = format!("The disk cannot keep up with {offered_iops:.0} requests a second; {slower}.");
        Some(Overload { offered_iops, sustainable_speed: speed, text })
    }

    fn warnings(&self, outcome: &RunSummary) -> Vec<String> {
        let survey = &self.trace.survey;
        let mut warnings: Vec<String> = self.overload(outcome).map(|overload| overload.text).into_iter().collect();
        if survey.skipped > 0 {
            warnings.push(format!("{} damaged lines of the trace were passed over.", survey.skipped));
        }
        if survey.writes_without_sync > 0 {
            warnings.push(
                "The trace does not say which writes are synchronous: those without a sync flag count as asynchronous.".to_owned(),
            );
        }
        if self.settings.mode == Mode::Closed && survey.without_response > 0 {
            warnings.push(format!(
                "The trace has no completion times for {} of {} requests: there the whole gap to the next request counts as think time.",
                survey.without_response, survey.requests
            ));
        }
        warnings
    }
}
