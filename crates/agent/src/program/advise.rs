//! `seekwise-agent advise`: recommends a setting, with the reason, the predicted gain and its error.

use std::path::{Path, PathBuf};

use agent::advice::{Asks, Piece, of_device, of_recording, sysctl, tuned, udev};
use anyhow::bail;
use applier::sysfs::Sysfs;
use block::Nanos;
use experiment::comparison::regime;
use linux::topology::{self, wwid};
use terminal::Terminal;
use testbed::pool::Workers;

use super::{Configured, say};

/// Arguments of `seekwise-agent advise`.
#[derive(clap::Args)]
pub struct AdviseArgs {
    /// A device to monitor, such as `sda`, or a trace (`seekwise trace formats`)
    #[arg(value_name = "DEVICE|TRACE")]
    what: String,
    /// Time to monitor the device, in seconds
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// The active scheduler while the trace was recorded [default: the one named in the trace, else mq-deadline]
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    scheduler: Option<String>,
    /// Use the kernel's counters only, as if requests could not be traced
    #[arg(long)]
    counters: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "to")]
    json: bool,
    /// Print a configuration file that applies the setting without the daemon
    #[arg(long = "as", value_enum, value_name = "KIND")]
    to: Option<FileKind>,
    #[command(flatten)]
    configured: Configured,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum FileKind {
    /// udev rule
    Udev,
    /// tuned profile
    Tuned,
    /// sysctl.d file: only the machine-wide settings
    Sysctl,
}

/// Runs the command.
pub fn run(args: &AdviseArgs) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let monitor = Terminal::default();
    let workers = Workers::new(&monitor, None);
    let path = PathBuf::from(&args.what);
    let piece = if is_recording(&path) {
        if args.counters {
            bail!("--counters: applies to devices only; a trace contains requests");
        }
        let in_force = args.scheduler.as_deref().map(regime::scheduler).transpose()?;
        let settings = configuration.for_all();
        let asks = Asks { candidates: settings.candidates.clone(), preference: settings.preference };
        of_recording(&path, in_force, &asks, workers)?
    } else {
        if args.scheduler.is_some() {
            bail!("--scheduler: applies to traces only; for a device, its active scheduler is used");
        }
        let sysfs = Sysfs::real();
        let (device, _) = topology::find(&sysfs, &args.what)?;
        let settings = configuration.settings(&device, wwid(&sysfs, &device.name).as_deref());
        let asks = Asks { candidates: settings.candidates, preference: settings.preference };
        let lasts = Nanos::from_secs_f64(args.seconds.into());
        of_device(&sysfs, &device, (lasts, args.counters), &asks, workers)?
    };
    Ok(terminal::print(&text(&piece, args)?)?)
}

/// Whether it is a regular file or a folder, not a device node.
fn is_recording(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() || about.is_dir())
}

fn text(piece: &Piece, args: &AdviseArgs) -> anyhow::Result<String> {
    if args.json {
        return Ok(serde_json::to_string_pretty(piece)? + "\n");
    }
    Ok(match args.to {
        Some(FileKind::Udev) => udev(piece),
        Some(FileKind::Tuned) => tuned(piece),
        Some(FileKind::Sysctl) => sysctl(piece),
        None => {
            let width = terminal::style().0;
            say::lines([format!("{}: advice {}.", piece.device, piece.id)], width) + &piece.advice.text(width)
        }
    })
}
