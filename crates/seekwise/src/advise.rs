//! `seekwise advise`: the setting to use for a load, what it would bring, and how sure that is.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use applier::sysfs::Sysfs;
use experiment::advice::{AdviceRequest, advise};
use experiment::comparison::{Experiment, regime};
use experiment::pool::Workers;
use linux::advice::{ASKED_FOR, LoadTracker, of_counters, unseen};
use linux::topology::Device;
use progress::Monitor;
use report::advice::Advice;

use crate::arguments;
use crate::number;
use crate::output::{check_page, print_and_write};
use crate::trace::capture;
use terminal::{self, Terminal};

/// Arguments of `seekwise advise`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    load: arguments::LoadArguments,
    /// The disk to run it on: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64` [default: a trace with completion times is judged as it was recorded, all
    /// else is run on sata7200]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    disk: Option<String>,
    /// The scheduler that was active when the trace was recorded, or under which the load is run first, optionally with tunables
    /// [default: what the trace says itself, else mq-deadline; of a block device what it has]
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    scheduler: Option<String>,
    /// How long a block device is watched [default: 30]
    #[arg(long = "for", alias = "seconds", value_name = "SECONDS", value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// Look at a block device's counters alone, as where its requests may not be seen
    #[arg(long)]
    counters: bool,
    /// What there is to choose from: `kernel` (today's Linux), `kernel-tuned` (in tuned variants, too), `linux` (with a larger
    /// read-ahead, too), `classic`, `paper`, `all`, or settings such as `mq-deadline:fifo_batch=4,read_expire=100`; separated by semicolons,
    /// or given several times [default: kernel-tuned; of a block device linux]
    #[arg(long, value_name = "SET|SETTING[;...]")]
    candidates: Vec<String>,
    /// Number of the device within a recorded trace [default: the one with the most requests]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(0..=u32::MAX.into(), "as the device's number"))]
    device: Option<u32>,
    /// Print JSON
    #[arg(long, conflicts_with = "kind")]
    json: bool,
    /// Print only a configuration file that applies the setting: of a block device a rule that finds it by its world-wide name
    #[arg(long = "as", value_enum, value_name = "KIND")]
    kind: Option<Kind>,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// A configuration file.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A udev rule, for /etc/udev/rules.d
    Udev,
}

/// What is chosen from if nothing else is said, and for a block device whose requests are seen.
const CANDIDATES: &str = "kernel-tuned";
const OF_A_DEVICE: &str = "linux";
/// For how many seconds a device is watched if nothing else is said.
const WATCHED_SECONDS: u32 = 30;

/// Runs the command.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))?;
    let active = args.scheduler.as_deref().map(regime::scheduler).transpose()?;
    let mut experiment = args.load.experiment(args.disk.as_deref());
    let terminal = Terminal::default();
    let named = capture::named(&experiment.load);
    if let Some(name) = &named {
        let device = capture::device(name)?;
        if let Some(why) = args.counters.then(|| ASKED_FOR.to_owned()).or_else(|| unseen(&Sysfs::real(), &device)) {
            return by_counters(&args, name, &device, why, &terminal);
        }
    } else if args.counters {
        bail!("--counters: is for a block device, and {} is none", experiment.load.display());
    }
    let watched = match named {
        Some(name) => Some(watch(&name, args.seconds.unwrap_or(WATCHED_SECONDS), &terminal)?),
        None if args.seconds.is_some() => {
            bail!("--for: is how long a block device is watched, and {} is none", experiment.load.display())
        }
        None => None,
    };
    if let Some((_, watched)) = &watched {
        experiment.load = watched.file.path().to_owned();
    }
    let usual = if watched.is_some() { OF_A_DEVICE } else { CANDIDATES };
    experiment.candidates = if args.candidates.is_empty() { vec![usual.to_owned()] } else { args.candidates };
    let wanted = AdviceRequest { experiment, names_disk: args.disk.is_some(), device: args.device, active };
    let mut advice = advise(&wanted, Workers::new(&terminal, args.load.threads()))?;
    if let Some((device, watched)) = &watched {
        watched.describe((&Sysfs::real(), device), "told otherwise", &mut advice);
    }
    shown(&advice, args.html.as_deref(), args.json, args.kind)
}

/// Advice about a device whose requests are not seen.
fn by_counters(args: &Args, name: &str, device: &Device, why: String, terminal: &Terminal) -> anyhow::Result<()> {
    for (given, option) in [(args.disk.is_some(), "--disk"), (args.scheduler.is_some(), "--scheduler")] {
        ensure!(!given, "{option}: a device is judged from its counters as it is, under what it has");
    }
    let candidates = if args.candidates.is_empty() { vec![CANDIDATES.to_owned()] } else { args.candidates.clone() };
    let experiment = Experiment { candidates, ..args.load.experiment(None) };
    let lasts = capture::seconds(args.seconds.unwrap_or(WATCHED_SECONDS));
    let chosen = (&*experiment.candidates()?, experiment.preference.unwrap_or_default());
    let advice = of_counters((&Sysfs::real(), device), name, (lasts, why), chosen, terminal)?;
    shown(&advice, args.html.as_deref(), args.json, args.kind)
}

fn shown(advice: &Advice, html: Option<&Path>, as_json: bool, kind: Option<Kind>) -> anyhow::Result<()> {
    let text = match kind {
        Some(Kind::Udev) => advice.udev.iter().map(|line| report::printable(line) + "\n").collect(),
        None if as_json => advice.to_json()?,
        None => advice.text(terminal::style().0),
    };
    print_and_write(&text, html, || report::page::advice::html(advice))
}

/// Watches a block device, and says what is missing of it.
fn watch(name: &str, seconds: u32, monitor: &dyn Monitor) -> anyhow::Result<(Device, LoadTracker)> {
    let device = capture::device(name)?;
    let watched = LoadTracker::of((&Sysfs::real(), &device), name, capture::seconds(seconds), &capture::program(), monitor)?;
    capture::warn(&watched.recorded, &device);
    watched.expect_requests(name, monitor)?;
    Ok((device, watched))
}
