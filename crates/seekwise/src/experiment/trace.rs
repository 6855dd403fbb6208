//! A trace as a load: replayed in an open or a closed loop.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context, ensure};
use block::StreamId;
use report::record::{Replay, TraceDigest};
use sim::host::{Queue, RunSummary};
use sim::replay::{Fit, Mode, Placement, Settings, Survey, replay, replay_alone};
use sim::run::{Measure, Pilot, RunError, Watch};
use sim::trace::{OpenOptions, TraceReader};

use super::load::{Build, Load};
use super::{World, sha256};
use crate::terminal::{self, Interrupted};

/// The arguments that say how a trace is replayed.
#[derive(clap::Args)]
pub struct ReplayArguments {
    /// The trace's format, if it shall not be recognised by content
    #[arg(long)]
    format: Option<String>,
    /// Pass over damaged records and count them, instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
    /// Issue each stream's next request its recorded think time after the one it waited for completes, instead of at the
    /// trace's own times
    #[arg(long)]
    closed: bool,
    /// Divide the trace's times by this
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, value_parser = speed, allow_negative_numbers = true)]
    speed: f64,
    /// What to do with a trace that reaches beyond the disk's end
    #[arg(long, value_enum, default_value = "exact")]
    fit: FitArgument,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FitArgument {
    /// Refuse it: every request stays where it was
    Exact,
    /// Leave out what the trace never touches, in pieces of 16 MiB
    Compact,
}

impl ReplayArguments {
    /// The first of them that is given: none of them says anything to jobs.
    pub fn given(&self) -> Option<&'static str> {
        let given = [
            (self.format.is_some(), "--format"),
            (self.skip_bad, "--skip-bad"),
            (self.closed, "--closed"),
            (self.speed != 1.0, "--speed"),
            (matches!(self.fit, FitArgument::Compact), "--fit"),
        ];
        given.into_iter().find(|(given, _)| *given).map(|(_, name)| name)
    }
}

/// The host's tunables that a block trace meets.
const OF_THE_QUEUE: &[&str] = &["nr_requests", "max_sectors_kb", "nomerges", "scheduler_switch_ms"];

/// What `--speed` takes.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

/// Longer replays are refused: the clock of 64 bits ends after 584 years, and a disk that falls behind needs some of them.
const LONGEST_REPLAY_S: f64 = 100.0 * 365.25 * 86_400.0;

fn speed(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if SPEEDS.contains(&value) => Ok(value),
        _ => Err("a number from 0.000001 to 1000000 is wanted".to_owned()),
    }
}

/// A trace, surveyed and placed on a disk.
pub struct TraceLoad {
    path: PathBuf,
    options: OpenOptions,
    format: &'static str,
    sha256: String,
    survey: Survey,
    fit: Fit,
    placement: Placement,
    settings: Settings,
}

impl TraceLoad {
    /// Reads the trace once, to know its size and its streams and to be sure that it can be read to its end.
    pub fn new(path: &Path, args: &ReplayArguments, world: &World) -> anyhow::Result<TraceLoad> {
        world.expect_defaults_but(OF_THE_QUEUE).with_context(|| {
            format!(
                "{}: a block trace is what is left below the page cache; of the host's tunables it meets only {}",
                path.display(),
                OF_THE_QUEUE.join(", ")
            )
        })?;
        let options = OpenOptions { format: args.format.clone(), skip_bad: args.skip_bad };
        let (survey, format, sha256) = survey(path, &options)?;
        let lasts_s = survey.duration.as_secs_f64() / args.speed;
        ensure!(
            lasts_s <= LONGEST_REPLAY_S,
            "{}: lasts {:.0} years at --speed {}; a replay may last 100 years: give --speed {:.1e} or faster",
            path.display(),
            lasts_s / LONGEST_REPLAY_S * 100.0,
            args.speed,
            // A little more, for the rounding.
            args.speed * lasts_s / LONGEST_REPLAY_S * 1.1
        );
        let fit = match args.fit {
            FitArgument::Exact => Fit::Exact,
            FitArgument::Compact => Fit::Compact,
        };
        let placement = Placement::new(&survey, world.profile.capacity_sectors(), fit)
            .with_context(|| format!("{} on {}", path.display(), world.profile.name()))?;
        let mode = if args.closed { Mode::Closed } else { Mode::Open };
        Ok(TraceLoad {
            path: path.to_owned(),
            options: OpenOptions { format: Some(format.to_owned()), ..options },
            format,
            sha256,
            survey,
            fit,
            placement,
            settings: Settings { mode, speed: args.speed },
        })
    }

    fn reader(&self) -> Result<Box<dyn TraceReader>, RunError> {
        Ok(sim::trace::open(&self.path, &self.options)?.reader)
    }
}

/// Refuses what can be read only once, before it is opened: opening a pipe would wait for somebody to write into it. What is
/// missing, or a folder, is left to whoever reads it.
fn expect_regular(files: &[PathBuf]) -> anyhow::Result<()> {
    for path in files {
        let special = path.metadata().is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir());
        ensure!(!special, "{}: is not a regular file; a comparison reads its trace several times", path.display());
    }
    Ok(())
}

/// Reads the trace once: how large it is, who is in it, and whether it can be read to its end at all.
fn survey(path: &Path, options: &OpenOptions) -> anyhow::Result<(Survey, &'static str, String)> {
    let files = sim::trace::files(path);
    expect_regular(&files)?;
    let mut opened = sim::trace::open(path, options)?;
    let sha256 = sha256(&files)?;
    let bar = terminal::progress_bar(0, "reading the trace, requests:");
    let survey = Survey::take(&mut *opened.reader, |requests| {
        bar.set_position(requests);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let survey = survey?.ok_or(Interrupted)?;
    ensure!(survey.requests > 0, "{}: holds no request; there is nothing to replay", path.display());
    Ok((survey, opened.format.name, sha256))
}

impl Load for TraceLoad {
    fn digest(&self) -> TraceDigest {
        TraceDigest {
            name: self.path.file_name().unwrap_or(self.path.as_os_str()).to_string_lossy().into_owned(),
            format: self.format.to_owned(),
            sha256: self.sha256.clone(),
            requests: Some(self.survey.requests),
            skipped_lines: self.survey.skipped,
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
        Some(self.survey.requests)
    }

    fn stream_count(&self) -> usize {
        self.survey.stream_count()
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.survey.stream_name(stream)
    }

    /// Each part reads the trace again, so there are no more parts than threads; the busiest stream goes to the part with the least
    /// work so far.
    fn alone_parts(&self, threads: usize) -> Vec<Vec<StreamId>> {
        let followed = self.survey.followed();
        let mut parts = vec![(0, Vec::new()); threads.clamp(1, followed.len())];
        for (stream, requests) in followed {
            if let Some((work, part)) = parts.iter_mut().min_by_key(|(work, _)| *work) {
                *work += requests;
                part.push(stream);
            }
        }
        parts.into_iter().map(|(_, part)| part).collect()
    }

    fn run(&self, queue: Queue, watch: &Watch, pilot: Option<&mut dyn Pilot>) -> Result<RunSummary, RunError> {
        let measure = Measure::new(self.survey.followed().into_iter().map(|(stream, _)| stream));
        replay(self.reader()?, &self.placement, queue, &self.settings, measure, watch, pilot)
    }

    fn alone(&self, streams: &[StreamId], build: &Build, watch: &Watch) -> Result<Measure, RunError> {
        let measure = Measure::new(streams.iter().copied());
        replay_alone(self.reader()?, &self.placement, build, &self.settings, measure, watch)
    }

    fn sustainable_speed(&self, outcome: &RunSummary) -> Option<f64> {
        if self.settings.mode == Mode::Open { outcome.sustainable_speed(self.settings.speed) } else { None }
    }

    fn warnings(&self, outcome: &RunSummary) -> Vec<String> {
        let survey = &self.survey;
        let mut warnings = Vec::new();
        if let Some(speed) = self.sustainable_speed(outcome) {
            let offered = survey.requests as f64 / (outcome.measure.last_arrival - outcome.measure.first_arrival).as_secs_f64();
            // Rounded down to two digits, so that the advice holds when followed.
            let step = 10f64.powf(speed.log10().floor() - 1.0);
            let speed = (speed / step).floor() * step;
            // Of a burst that no speed there is would spread enough, only the closed replay is left.
            let slower = if SPEEDS.contains(&speed) {
                format!("it would take the load at --speed {speed} or slower, or replay with --closed")
            } else {
                "replay with --closed".to_owned()
            };
            warnings.push(format!("The disk cannot keep up with {offered:.0} requests a second; {slower}."));
        }
        if survey.skipped > 0 {
            warnings.push(format!("{} damaged lines of the trace were passed over.", survey.skipped));
        }
        if survey.writes_without_sync > 0 {
            warnings.push(
                "The trace does not say which writes somebody waits for: those without a sync flag count as asynchronous."
                    .to_owned(),
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
