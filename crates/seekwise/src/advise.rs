//! `seekwise advise`: recommends a setting for a load, with the predicted gain and its confidence interval.

use std::path::{Path, PathBuf};

use anyhow::{bail, ensure};
use applier::sysfs::Sysfs;
use control::Setting;
use experiment::advice::iostat::Iostat;
use experiment::advice::{AdviceRequest, Aim, advise, expect_of_device, files, udev};
use experiment::comparison::regime;
use linux::advice::{ASKED_FOR, WatchedLoad, of_counters, unseen};
use linux::topology::Device;
use observe::Preference;
use progress::Monitor;
use report::advice::Advice;
use testbed::pool::Workers;

use crate::arguments;
use crate::number;
use crate::output::{check_page, print_and_write};
use crate::trace::{capture, copy};
use terminal::{self, Terminal};

/// Arguments of `seekwise advise`. The options without a heading are those that are used first.
#[derive(clap::Args)]
pub struct AdviseArguments {
    #[command(flatten)]
    load: arguments::LoadArguments,
    /// The disk to run it on: a profile's name (`seekwise disk list`) or file, or an array
    ///
    /// An array is given as in `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`. [default: a trace with completion times is judged as it
    /// was recorded, all else is run on sata7200]
    #[arg(long, value_name = "NAME|FILE|ARRAY")]
    disk: Option<String>,
    /// The active scheduler, optionally with tunables [default: the trace's or the block device's, else mq-deadline]
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    scheduler: Option<String>,
    /// How long a block device is watched [default: 30]
    #[arg(long = "for", alias = "seconds", value_name = "SECONDS", value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// An aim for a stream, which comes before the load as a whole; may be given several times
    ///
    /// A process, job or stream's number, optionally reads, writes or fsyncs, and a bound on mean, p50, p95, p99, p99.9 or max (us, ms, s),
    /// throughput (MB/s) or iops.
    #[arg(long, value_name = "STREAM[:read|write|fsync]:p99=10ms")]
    protect: Vec<Aim>,
    /// Write a self-contained page with tables and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// The settings to choose from: `kernel`, `kernel-tuned`, `linux`, `classic`, `paper`, `all`, or settings
    ///
    /// `kernel` is today's Linux, `kernel-tuned` in tuned variants, too, `linux` with a larger read-ahead, too. Settings are written as
    /// `mq-deadline:fifo_batch=4,read_expire=100`; separated by semicolons, or given several times. [default: kernel-tuned; of a block
    /// device linux]
    #[arg(long, value_name = "SET|SETTING[;...]", help_heading = CHOICE)]
    candidates: Vec<String>,
    /// Try every candidate with each value of a tunable of the host; may be given several times
    ///
    /// Given several times, with every combination (`seekwise host list` shows the tunables). For runs in the simulator; then the
    /// candidates are those of today's Linux unless --candidates names others.
    #[arg(long, value_name = "KEY=VALUE,...", help_heading = CHOICE)]
    vary: Vec<String>,
    /// Number of the device within a recorded trace [default: the one with the most requests]
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(0..=u32::MAX.into(), "as the device's number"), help_heading = arguments::REPLAY)]
    device: Option<u32>,
    /// Judge a block device by its counters alone, as without the right to see its requests
    #[arg(long, help_heading = "Block devices")]
    counters: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "kind", help_heading = "Output")]
    json: bool,
    /// Print only a configuration file that applies the setting; of a block device it names the device by its world-wide name
    #[arg(long = "as", value_enum, value_name = "KIND", help_heading = "Output")]
    kind: Option<FileKind>,
}

/// Heading of the options about candidates.
const CHOICE: &str = "Choice";

/// A configuration file.
#[derive(Clone, Copy, clap::ValueEnum)]
enum FileKind {
    /// A udev rule, for /etc/udev/rules.d
    Udev,
    /// A profile for tuned
    Tuned,
    /// A file for sysctl.d: only the settings of the machine
    Sysctl,
}

/// Default candidates; `OF_A_DEVICE` if requests of a block device are traced.
const CANDIDATES: &str = "kernel-tuned";
const OF_A_DEVICE: &str = "linux";
/// Default candidates if tunables of the host are varied, since every combination is simulated in full.
const VARIED: &str = "kernel";
/// Default duration of monitoring a device, in seconds.
const WATCHED_SECONDS: u32 = 30;

/// Runs the command.
pub fn run(args: AdviseArguments) -> anyhow::Result<()> {
    args.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))?;
    let active = args.scheduler.as_deref().map(regime::scheduler).transpose()?;
    let mut experiment = args.load.experiment(args.disk.as_deref())?;
    let terminal = Terminal::default();
    let is_one = experiment.replay.others.is_empty();
    if let Some(iostat) = is_one.then(|| Iostat::read(&experiment.load)).transpose()?.flatten() {
        return by_iostat(&args, &iostat, active, &terminal);
    }
    let named = is_one.then(|| capture::named(&experiment.load)).flatten();
    if let Some(name) = &named {
        let device = capture::device(name)?;
        if let Some(why) = args.counters.then(|| ASKED_FOR.to_owned()).or_else(|| unseen(&Sysfs::real(), &device)) {
            return by_counters(&args, name, &device, why, &terminal);
        }
        expect_of_device(&args.protect, args.disk.is_some())?;
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
    let usual = match (&watched, args.vary.is_empty()) {
        (Some(_), _) => OF_A_DEVICE,
        (None, true) => CANDIDATES,
        (None, false) => VARIED,
    };
    experiment.candidates = if args.candidates.is_empty() { vec![usual.to_owned()] } else { args.candidates };
    let (names_disk, device, aims, varied) = (args.disk.is_some(), args.device, args.protect, args.vary);
    let wanted = AdviceRequest { experiment, names_disk, device, active, aims, varied };
    let mut advice = advise(&wanted, Workers::new(&terminal, args.load.threads()))?;
    if !is_one {
        advice.verdict.text = format!("{}: {}", advice.load, advice.verdict.text);
    }
    if let Some((device, watched)) = &watched {
        watched.describe((&Sysfs::real(), device), "told otherwise", &mut advice);
    }
    let device = watched.as_ref().map(|(device, _)| device.name.as_str());
    shown(&advice, device, (args.html.as_deref(), args.json, args.kind))
}

/// Recommendation for a device from counters, if its requests cannot be traced.
fn by_counters(args: &AdviseArguments, name: &str, device: &Device, why: String, terminal: &Terminal) -> anyhow::Result<()> {
    let given = [
        (args.disk.is_some(), "--disk"),
        (args.scheduler.is_some(), "--scheduler"),
        (!args.protect.is_empty(), "--protect"),
        (!args.vary.is_empty(), "--vary"),
    ];
    for (given, option) in given {
        ensure!(!given, "{option}: counters are judged as a whole, on this device and under its active setting");
    }
    let lasts = capture::seconds(args.seconds.unwrap_or(WATCHED_SECONDS));
    let (candidates, preference) = chosen_from(args)?;
    let advice = of_counters((&Sysfs::real(), device), name, (lasts, why), (&candidates, preference), terminal)?;
    shown(&advice, Some(&device.name), (args.html.as_deref(), args.json, args.kind))
}

/// Recommendation from the output of iostat.
fn by_iostat(args: &AdviseArguments, iostat: &Iostat, active: Option<Setting>, terminal: &Terminal) -> anyhow::Result<()> {
    for (given, option) in [(args.disk.is_some(), "--disk"), (args.seconds.is_some(), "--for"), (args.device.is_some(), "--device")]
    {
        ensure!(!given, "{option}: iostat's output is judged as it is, the busiest device under --scheduler");
    }
    if let Some(aim) = args.protect.first() {
        bail!("--protect {aim}: iostat counts no streams, only the device as a whole; record a trace (seekwise trace capture)");
    }
    if let Some(varied) = args.vary.first() {
        bail!("--vary {varied}: is for a run in the simulator, and counters cannot be run; name a trace or job file, and a --disk");
    }
    let (candidates, preference) = chosen_from(args)?;
    let advice = iostat.advise(active, (&candidates, preference), terminal)?;
    shown(&advice, None, (args.html.as_deref(), args.json, args.kind))
}

/// Candidates and weights for recommendations from counters.
fn chosen_from(args: &AdviseArguments) -> anyhow::Result<(Vec<Setting>, Preference)> {
    let usual = [CANDIDATES.to_owned()];
    let candidates = if args.candidates.is_empty() { &usual[..] } else { &args.candidates };
    Ok((regime::candidates(candidates)?, args.load.preference().unwrap_or_default()))
}

/// Prints advice. `device`: the kernel name of the block device that it is for; `None`: not known.
fn shown(
    advice: &Advice,
    device: Option<&str>,
    (html, as_json, kind): (Option<&Path>, bool, Option<FileKind>),
) -> anyhow::Result<()> {
    let text = match kind {
        Some(FileKind::Tuned) => files::tuned(advice, device.unwrap_or(udev::ANY_DISK)),
        Some(FileKind::Sysctl) => files::sysctl(advice),
        Some(FileKind::Udev) => advice.udev.iter().map(|line| report::printable(line) + "\n").collect(),
        None if as_json => advice.to_json()?,
        None => advice.text(terminal::style().0),
    };
    print_and_write(&text, html, || report::page::advice::html(advice))
}

/// Captures the requests of a block device, and warns of missing data.
fn watch(name: &str, seconds: u32, monitor: &dyn Monitor) -> anyhow::Result<(Device, WatchedLoad)> {
    let device = capture::device(name)?;
    let watched = WatchedLoad::of((&Sysfs::real(), &device), name, capture::seconds(seconds), &copy::program(), monitor)?;
    capture::warn(&watched.recorded, &device);
    watched.expect_requests(name, monitor)?;
    Ok((device, watched))
}
