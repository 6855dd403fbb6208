//! Repeats the experiments of papers, and shows their statements next to our results.
//!
//! A paper is a folder with a `Paper`, listed in `ALL`, and the paper's statements are in `research/papers/NAME/paper.toml`.

mod aims;
mod clock;
mod fairio;
mod genetic;
mod ioperf;
mod self_learning;
mod stated;
mod youchoose;

use std::path::PathBuf;

use crate::report::paper::{Bar, Curves, Figure, NotRepeated, Replication, Table};
use anyhow::{Context as _, ensure};
use block::did_you_mean;
use testbed::pool::Workers;

use crate::live::LiveDevice;
use clock::Clock;
use stated::{Measures, Stated, StatedPart};

/// A paper whose experiments can be repeated.
struct Paper {
    /// The name on the command line.
    name: &'static str,
    /// The text of its `paper.toml`: the paper's statements.
    text: &'static str,
    /// Figures and tables that can be requested one by one, in addition to the bars.
    parts: fn() -> Vec<Part>,
    /// Whether `--trace` may replace one of the paper's traces.
    takes_trace: bool,
    /// Runs a request that [`PaperRequest::check`] accepted.
    repeat: fn(&PaperRequest, &Stated, Workers) -> anyhow::Result<Repeated>,
    /// How to repeat it on a block device of the real kernel; `None` if that is not supported.
    live: Option<OnKernel>,
}

/// Support for repeating a paper on a block device of the real kernel.
struct OnKernel {
    /// Host tunables that a search may set on the device.
    host: &'static [&'static str],
    repeat: fn(&PaperRequest, &OnDevice, &Stated, &mut dyn LiveDevice, Workers) -> anyhow::Result<Repeated>,
}

/// Results of a paper's experiments.
#[derive(Default)]
struct Repeated {
    setup: Vec<(String, String)>,
    notes: Vec<String>,
    bars: Vec<Bar>,
    figures: Vec<Figure>,
    tables: Vec<Table>,
    curves: Vec<Curves>,
    /// Results by which statements are judged, in addition to the figures.
    measures: Measures,
}

/// Every paper.
static ALL: &[&Paper] = &[&self_learning::PAPER, &fairio::PAPER, &youchoose::PAPER, &ioperf::PAPER, &genetic::PAPER];

/// A figure or table.
struct Part {
    /// The name on the command line.
    id: &'static str,
    /// The heading for display.
    title: &'static str,
    /// Whether it shows processor time, which differs from run to run.
    is_cpu: bool,
}

/// The value of `--only` for the bars: the targets that we set ourselves.
const BARS: &str = "bars";

/// The value of `--live` for a device that is emulated for this experiment.
pub const EMULATED: &str = "emulated";

/// Which parts of a paper to repeat, and how.
#[derive(Clone, Debug)]
pub struct PaperRequest {
    /// The paper's name.
    pub name: String,
    /// Smaller experiments that take about a minute.
    pub is_quick: bool,
    /// Seed of all random numbers.
    pub seed: u64,
    /// Only these figures and tables; empty means all.
    pub only: Vec<String>,
    /// Whether to draw figures of processor time, the only ones that differ from run to run.
    pub measures_cpu: bool,
    /// A trace that replaces one of the paper's that is not available.
    pub trace: Option<PathBuf>,
    /// Runs on a block device of the real kernel; `None` runs in the simulator.
    pub live: Option<OnDevice>,
}

/// A paper on a block device of the real kernel.
#[derive(Clone, Debug)]
pub struct OnDevice {
    /// The device as given on the command line, or [`EMULATED`].
    pub device: String,
    /// Time limit; at least one workload is run.
    pub minutes: u32,
}

/// The papers and their figures as text for display.
///
/// # Errors
/// None for the papers built into the program.
pub fn list() -> anyhow::Result<String> {
    let mut text = String::new();
    for paper in ALL {
        let stated = Stated::read(paper)?;
        text.push_str(&format!("{}  {}, {}; {}\n", paper.name, stated.authors, stated.title, stated.published));
        text.push_str(&format!("  {BARS:9} targets: met or missed\n"));
        (paper.parts)().iter().for_each(|part| text.push_str(&format!("  {:9} {}\n", part.id, part.title)));
    }
    Ok(text)
}

impl PaperRequest {
    /// Checks that the paper, figures and options of the request exist and fit each other.
    ///
    /// # Errors
    /// The paper, figure or option is unknown, or no figure is left to draw.
    pub fn check(&self) -> anyhow::Result<()> {
        let paper = self.paper()?;
        let parts = (paper.parts)();
        if let Some(trace) = self.trace.as_ref().filter(|_| !paper.takes_trace) {
            anyhow::bail!("--trace {}: {} uses no traces", trace.display(), paper.name);
        }
        if let Some(on) = self.live.as_ref().filter(|_| paper.live.is_none()) {
            let known: Vec<&str> = ALL.iter().filter(|paper| paper.live.is_some()).map(|paper| paper.name).collect();
            anyhow::bail!(
                "--live {}: {} runs in the simulator only; available with --live: {}",
                on.device,
                paper.name,
                known.join(", ")
            );
        }
        for only in &self.only {
            let known = parts.iter().any(|part| part.id == only) || only == BARS;
            let ids: Vec<&str> = parts.iter().map(|part| part.id).collect();
            let meant = did_you_mean(only, ids.iter().copied().chain([BARS]));
            ensure!(known, "--only {only}: unknown figure; known: {BARS}, {}{meant}", ids.join(", "));
        }
        let is_something = parts.iter().any(|part| self.wants(part)) || self.wants_bars();
        ensure!(is_something, "--only {}: shows CPU time, which requires --cpu-time", self.only.join(" --only "));
        Ok(())
    }

    /// Makes the necessary runs and draws them.
    ///
    /// # Errors
    /// As [`PaperRequest::check`]; or a run failed or was interrupted.
    pub fn repeat(&self, workers: Workers) -> anyhow::Result<Replication> {
        self.check()?;
        let paper = self.paper()?;
        let stated = Stated::read(paper)?;
        let repeated = (paper.repeat)(self, &stated, workers)?;
        Ok(self.replication(stated, repeated))
    }

    /// Runs it on the device of [`live`](PaperRequest::live).
    ///
    /// # Errors
    /// As [`PaperRequest::check`]; or fio failed, the device cannot be set or observed, or the work was interrupted.
    pub fn repeat_live(&self, live: &mut dyn LiveDevice, workers: Workers) -> anyhow::Result<Replication> {
        self.check()?;
        let paper = self.paper()?;
        let (on, kernel) = self.live.as_ref().zip(paper.live.as_ref()).context("no device")?;
        let stated = Stated::read(paper)?;
        let repeated = (kernel.repeat)(self, on, &stated, live, workers)?;
        Ok(self.replication(stated, repeated))
    }

    /// Tunables of the host that are to be set on the device of [`live`](PaperRequest::live), in addition to the scheduler and its tunables.
    ///
    /// # Errors
    /// There is no such paper.
    pub fn host_tunables(&self) -> anyhow::Result<&'static [&'static str]> {
        Ok(self.paper()?.live.as_ref().map_or(&[], |kernel| kernel.host))
    }

    fn paper(&self) -> anyhow::Result<&'static Paper> {
        let found = ALL.iter().find(|paper| paper.name == self.name);
        let names = || ALL.iter().map(|paper| paper.name);
        found.copied().ok_or_else(|| {
            let (name, known, meant) = (&self.name, names().collect::<Vec<_>>().join(", "), did_you_mean(&self.name, names()));
            anyhow::anyhow!("{name}: unknown paper; known: {known}{meant} (see `seekwise-lab paper list`)")
        })
    }

    /// Whether a figure or table is to be drawn.
    fn wants(&self, part: &Part) -> bool {
        let named = self.only.is_empty() || self.only.iter().any(|only| only == part.id);
        named && (self.measures_cpu || !part.is_cpu)
    }

    fn wants_bars(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == BARS)
    }

    /// The command that reproduces the results. The output path and the number of threads are left out, as they do not change them.
    fn command(&self) -> String {
        let mut text = format!("seekwise-lab paper run {}", self.name);
        if self.is_quick {
            text.push_str(" --quick");
        }
        text.push_str(&format!(" --seed {}", self.seed));
        self.only.iter().for_each(|only| text.push_str(&format!(" --only {only}")));
        if self.measures_cpu {
            text.push_str(" --cpu-time");
        }
        if let Some(trace) = &self.trace {
            text.push_str(&format!(" --trace {}", trace.display()));
        }
        if let Some(on) = &self.live {
            let overwrite = if on.device == EMULATED { "" } else { " --overwrite" };
            text.push_str(&format!(" --live {}{overwrite} --minutes {}", on.device, on.minutes));
        }
        text + " --output page.html"
    }

    /// The results, with every statement of the paper judged by them.
    fn replication(&self, stated: Stated, repeated: Repeated) -> Replication {
        let Repeated { setup, notes, bars, mut figures, tables, curves, measures } = repeated;
        figures.iter_mut().for_each(|figure| stated.mark(figure));
        let statements = stated.judge(&measures, &figures);
        let not_repeated = stated.parts.into_iter();
        let not_repeated = not_repeated
            .filter_map(|StatedPart { id, title, nothing }| Some(NotRepeated { id, title, reason: nothing? }))
            .collect();
        Replication {
            schema: crate::report::paper::SCHEMA,
            seekwise_version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.command(),
            name: self.name.clone(),
            authors: stated.authors,
            title: stated.title,
            published: stated.published,
            setup,
            notes,
            statements,
            not_repeated,
            bars,
            figures,
            tables,
            curves,
        }
    }
}
