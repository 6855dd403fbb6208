//! `seekwise trace capture`, and the capture of a device's requests for `seekwise advise`.

use std::io::{self, BufWriter};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};

use anyhow::ensure;
use applier::sysfs::Sysfs;
use block::Nanos;
use experiment::capture::Capture;
use linux::cgroups::Processes;
use linux::events::{Recorded, Until};
use linux::topology::{self, Device};
use progress::Monitor;
use sim::trace::write::{Field, Out, OutputFormat};
use testbed::shipped;

use super::{copy, counted, eprint_line, figure, grouped};
use crate::number;
use crate::whole_file::WholeFile;
use terminal::{Failed, Terminal};

/// Arguments of `seekwise trace capture`.
#[derive(clap::Args)]
pub struct CaptureArguments {
    /// The block device, as in /dev/sda or sda; of a partition its whole disk is captured
    #[arg(value_name = "DEVICE")]
    device: String,
    /// The trace to write; - is standard output, for text formats only
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// End after this many seconds [default: at Ctrl-C]
    #[arg(long = "for", alias = "seconds", value_name = "SECONDS", value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// End after this many requests
    #[arg(long, value_name = "N", value_parser = number::within::<u64>(1..=u64::MAX, "requests"))]
    requests: Option<u64>,
    /// The format of FILE [default: by its extension]
    #[arg(long, value_name = "FORMAT")]
    to: Option<String>,
    /// Name streams by the program of their process, or by its systemd unit, container or cgroup
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Named::Program)]
    by: Named,
}

/// Source of stream names.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Named {
    /// The name of the program
    Program,
    /// The unit, as `seekwise-agent top` shows it
    Unit,
}

/// Runs the command.
pub fn run(args: &CaptureArguments) -> anyhow::Result<()> {
    let format = copy::output_format(&args.output, args.to.as_deref(), "--to")?;
    let device = device(&args.device)?;
    let until = Until { time: args.seconds.map(seconds), requests: args.requests };
    if args.output == Path::new("-") {
        copy::expect_text(format)?;
        let capture = begin(format, Box::new(BufWriter::new(io::stdout())), &device)?;
        return report(&captured(&device, capture, until, args.by, &Terminal::default())?, &device, format, "standard output");
    }
    let file = WholeFile::create(&args.output)?;
    let capture = begin(format, Box::new(BufWriter::new(file.writer()?)), &device)?;
    let recorded = captured(&device, capture, until, args.by, &Terminal::default())?;
    let output = args.output.display().to_string();
    if recorded.trace.requests == 0 {
        let text = format!("{}: was asked nothing in this time; {output} was not written", args.device);
        return Err(Failed(text).into());
    }
    file.finish()?;
    report(&recorded, &device, format, &output)
}

/// The block device named by an argument; `None` if it names a file, a workload or nothing. Paths in `/dev` need not exist.
pub fn named(argument: &Path) -> Option<String> {
    let name = argument.to_str()?;
    if let Ok(about) = std::fs::metadata(argument) {
        return about.file_type().is_block_device().then(|| name.to_owned());
    }
    let is_one = || shipped::find(name).is_none() && topology::find(&Sysfs::real(), name).is_ok();
    (name.starts_with("/dev/") || (!name.contains('/') && is_one())).then(|| name.to_owned())
}

/// Seconds as a duration.
pub fn seconds(seconds: u32) -> Nanos {
    Nanos::from_secs_f64(seconds.into())
}

/// The whole disk for the name of a disk or partition.
pub fn device(given: &str) -> anyhow::Result<Device> {
    let (device, partition) = topology::find(&Sysfs::real(), given)?;
    ensure!(device.size_sectors > 0, "{given}: holds nothing: no medium is in it, or nothing is attached to it");
    if let Some(partition) = partition {
        eprint_line(&format!("{partition} is a partition of {0}: all that {0} is asked is captured", device.name));
    }
    Ok(device)
}

fn begin(format: &'static OutputFormat, out: Out, device: &Device) -> anyhow::Result<Capture> {
    linux::advice::begin(format, out, (&Sysfs::real(), device), &copy::program())
}

fn captured(device: &Device, capture: Capture, until: Until, by: Named, monitor: &dyn Monitor) -> anyhow::Result<Recorded> {
    let units = matches!(by, Named::Unit).then(|| Processes::new(&Sysfs::real(), false));
    let recorded = linux::advice::captured(&Sysfs::real(), device, capture, until, units, monitor)?;
    warn(&recorded, device);
    Ok(recorded)
}

/// Warns of data missing in a recording.
pub fn warn(recorded: &Recorded, device: &Device) {
    let name = &device.name;
    if recorded.is_gone {
        eprint_line(&format!("{name} is gone: these are its requests until then"));
    }
    if recorded.lost > 0 {
        eprint_line(&format!(
            "the kernel lost {}, because too much happened at once: requests are missing",
            counted(recorded.lost, "event")
        ));
    }
    if recorded.trace.unanswered > 0 {
        eprint_line(&format!("{name}: {} without an answer by the end", counted(recorded.trace.unanswered, "request")));
    }
}

/// Reports the written trace.
fn report(recorded: &Recorded, device: &Device, format: &OutputFormat, output: &str) -> anyhow::Result<()> {
    let trace = &recorded.trace;
    let mut left_out: Vec<String> = trace.left_out.iter().copied().map(Field::words).map(str::to_owned).collect();
    match trace.flushes {
        0 => {}
        1 => left_out.push("a flush".to_owned()),
        flushes => left_out.push(format!("{} flushes", grouped(flushes))),
    }
    if !left_out.is_empty() {
        eprint_line(&format!("{output}: {} has no place for {}: left out", format.name, left_out.join(", ")));
    }
    if let Some(note) = &trace.note {
        eprint_line(&format!("{output}: {note}"));
    }
    let (requests, lasts) = (counted(trace.requests, "request"), figure(trace.lasts.as_secs_f64()));
    eprint_line(&format!("{output}: {requests} of {} in {lasts} s, as {}", device.name, format.name));
    Ok(())
}
