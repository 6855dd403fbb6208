//! `seekwise-agent advise`: what to set, why, what it would bring, and how sure that is.

use std::path::{Path, PathBuf};

use agent::advice::{Asks, Piece, of_device, of_recording, sysctl, tuned, udev};
use anyhow::bail;
use applier::sysfs::Sysfs;
use block::Nanos;
use experiment::comparison::regime;
use experiment::pool::Workers;
use linux::topology::{self, wwid};
use terminal::Terminal;

use super::{Configured, say};

/// Arguments of `seekwise-agent advise`.
#[derive(clap::Args)]
pub struct Args {
    /// A device to watch, as in `sda`, or a recording of one (`seekwise trace formats`)
    #[arg(value_name = "DEVICE|TRACE")]
    what: String,
    /// Watch the device for so many seconds
    #[arg(long = "for", value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=86_400))]
    seconds: u32,
    /// The scheduler that was in force when the recording was made [default: what it says itself, else mq-deadline]
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]")]
    scheduler: Option<String>,
    /// Look at the device's counters alone, as where its requests may not be seen
    #[arg(long)]
    counters: bool,
    /// Print JSON
    #[arg(long, conflicts_with = "to")]
    json: bool,
    /// Print a file that sets it without a daemon
    #[arg(long = "as", value_enum, value_name = "KIND")]
    to: Option<Kind>,
    #[command(flatten)]
    configured: Configured,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Kind {
    /// A rule for udev
    Udev,
    /// A profile for tuned
    Tuned,
    /// A file for sysctl.d: only what is of the machine and not of a device
    Sysctl,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let monitor = Terminal::default();
    let crew = Workers::new(&monitor, None);
    let path = PathBuf::from(&args.what);
    let piece = if is_recording(&path) {
        if args.counters {
            bail!("--counters: is for a device; a recording has requests");
        }
        let in_force = args.scheduler.as_deref().map(regime::scheduler).transpose()?;
        let settings = configuration.for_all();
        let asks = Asks { candidates: settings.candidates.clone(), preference: settings.preference };
        of_recording(&path, in_force, &asks, crew)?
    } else {
        if args.scheduler.is_some() {
            bail!("--scheduler: is for a recording; of a device its active scheduler is read");
        }
        let sysfs = Sysfs::real();
        let (device, _) = topology::find(&sysfs, &args.what)?;
        let settings = configuration.settings(&device, wwid(&sysfs, &device.name).as_deref());
        let asks = Asks { candidates: settings.candidates, preference: settings.preference };
        let lasts = Nanos::from_secs_f64(args.seconds.into());
        of_device(&sysfs, &device, (lasts, args.counters), &asks, crew)?
    };
    Ok(terminal::print(&text(&piece, args)?)?)
}

/// Whether it is a file, and not one that stands for a device.
fn is_recording(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|about| about.is_file() || about.is_dir())
}

fn text(piece: &Piece, args: &Args) -> anyhow::Result<String> {
    if args.json {
        return Ok(serde_json::to_string_pretty(piece)? + "\n");
    }
    Ok(match args.to {
        Some(Kind::Udev) => udev(piece),
        Some(Kind::Tuned) => tuned(piece),
        Some(Kind::Sysctl) => sysctl(piece),
        None => {
            let width = terminal::style().0;
            say::lines([format!("{}: advice {}.", piece.device, piece.id)], width) + &piece.advice.text(width)
        }
    })
}
