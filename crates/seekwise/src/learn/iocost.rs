//! `seekwise learn iocost`: lines for io.cost.model and io.cost.qos.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{bail, ensure};
use applier::sysfs::Sysfs;
use block::Nanos;
use experiment::iocost::{Figure, Learned, Mixed, NAMES, ROUNDS, hwdb, learn, model, qos, recorded};
use experiment::recorded::Recorded;
use linux::probe::RealDevice;
use linux::topology::{Device, DriverKind};
use report::number::three_digits;
use sim::trace::OpenOptions;

use crate::arguments::ColumnsArgument;
use crate::number;
use crate::trace::capture;
use terminal::{Failed, Interrupted, Terminal};

/// Default duration of probing, in seconds.
const SECONDS: u32 = 180;
/// Total number of samples: 20 per round, and about 15 before the first.
const SAMPLES: f64 = 20.0 * ROUNDS as f64 + 15.0;
/// Minimum size of the scratch file; a smaller one would cause almost no seeks.
const LEAST_FILE: u64 = 64 << 20;
/// Maximum share of foreign I/O; above it the figures are invalid.
const MOST_FOREIGN_PERCENT: f64 = 5.0;
/// Maximum standard error. Figures with a larger one may be wrong by far more: at a load average of 13 on two processors, an emulated volume
/// with 3,000 random reads per second was measured at 348 ± 39%.
const MOST_ERROR_PERCENT: f64 = 25.0;
/// Sectors per GB.
const SECTORS_A_GB: f64 = 1e9 / 512.0;

/// The printed lines.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Lines {
    /// The line for io.cost.model
    Model,
    /// The line for io.cost.qos
    Qos,
    /// The entry for /etc/udev/hwdb.d/90-iocost-local.hwdb
    Hwdb,
}

/// Arguments of `seekwise learn iocost`.
#[derive(clap::Args)]
pub struct IocostArguments {
    /// The block device, as in /dev/sda; or a trace whose requests have response times
    #[arg(value_name = "DEVICE|TRACE")]
    on: PathBuf,
    /// How long a block device is probed, about, besides writing the scratch file [default: 180]
    #[arg(long = "for", value_name = "SECONDS", value_parser = number::within::<u32>(20..=86_400, "seconds"))]
    seconds: Option<u32>,
    /// Folder on the device for the scratch file [default: of its filesystems the one with most room]
    #[arg(long, value_name = "FOLDER")]
    scratch: Option<PathBuf>,
    /// Size of the scratch file; there must be room for twice as much [default: 1G]
    #[arg(long, value_name = "SIZE", value_parser = number::size)]
    size: Option<u64>,
    /// Number of the device within a trace [default: the one with the most requests]
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Capacity of the device of a trace in 10^9 bytes [default: up to the last sector that was asked for]
    #[arg(long, value_name = "GB")]
    capacity_gb: Option<f64>,
    /// The trace's format [default: recognised by content]
    #[arg(long)]
    format: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// Name of the disk's model for the entry of the hardware database, as udev's property ID_MODEL has it [default: the kernel's]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,
    /// Print only this
    #[arg(long = "as", value_enum, value_name = "LINES")]
    lines: Option<Lines>,
    /// Print JSON
    #[arg(long, conflicts_with = "lines")]
    json: bool,
}

/// Information about the device other than the figures.
struct About {
    /// The probed device as a sentence.
    text: String,
    /// Major and minor number.
    number: String,
    model: Option<String>,
    foreign_percent: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, the device cannot be probed, or an interruption.
pub fn run(args: &IocostArguments) -> anyhow::Result<()> {
    let of_traces =
        [(args.device.is_some(), "--device"), (args.capacity_gb.is_some(), "--capacity-gb"), (args.format.is_some(), "--format")];
    let of_devices = [(args.seconds.is_some(), "--for"), (args.scratch.is_some(), "--scratch"), (args.size.is_some(), "--size")];
    let named = capture::named(&args.on);
    let (unfit, is, wanted) =
        if named.is_some() { (of_traces, "a block device", "a trace") } else { (of_devices, "none", "a block device") };
    if let Some((_, option)) = unfit.iter().find(|(given, _)| *given) {
        bail!("{option}: is for {wanted}, and {} is {is}", args.on.display());
    }
    let terminal = Terminal::default();
    let (learned, about) = match named {
        Some(name) => of_device(args, &name, &terminal)?,
        None => of_trace(args, &terminal)?,
    };
    let entry = about.model.as_deref().map(|model| hwdb(&learned, model));
    let text = match args.lines {
        Some(Lines::Model) => model(&learned, &about.number) + "\n",
        Some(Lines::Qos) => qos(&learned, &about.number) + "\n",
        Some(Lines::Hwdb) => match entry {
            Some(entry) => entry,
            None => return Err(Failed(format!("{}: has no model name; give one with --model", args.on.display())).into()),
        },
        None if args.json => as_json(args, &learned, &about, entry)?,
        None => as_text(args, &learned, &about, entry),
    };
    Ok(terminal::print(&text)?)
}

fn of_device(args: &IocostArguments, name: &str, terminal: &Terminal) -> anyhow::Result<(Learned, About)> {
    let size = args.size.unwrap_or(1 << 30) >> 20 << 20;
    ensure!(size >= LEAST_FILE, "--size: the scratch file should have at least {} MiB", LEAST_FILE >> 20);
    let sysfs = Sysfs::real();
    let device = capture::device(name)?;
    let mut real = RealDevice::open(&sysfs, &device, args.scratch.as_deref(), size, terminal)?;
    let seconds = args.seconds.unwrap_or(SECONDS);
    let learned = learn(&mut real, Nanos::from_secs_f64(f64::from(seconds) / SAMPLES), terminal)?;
    let foreign = real.foreign_percent();
    if foreign > MOST_FOREIGN_PERCENT {
        terminal::eprint_line(&format!(
            "{}: {foreign:.0}% of its transfers meanwhile were for other processes: figures are too low; repeat it while it is idle",
            device.name
        ));
    }
    let is_unsure = |figure: &Figure| figure.error_percent.is_none_or(|error| error > MOST_ERROR_PERCENT);
    let unsure: Vec<&str> =
        NAMES.iter().zip(&learned.model).filter(|(_, figure)| is_unsure(figure)).map(|(name, _)| *name).collect();
    if !unsure.is_empty() {
        terminal::eprint_line(&format!(
            "{}: {} differed by over {MOST_ERROR_PERCENT}% from round to round: repeat it while the machine is idle, or with a longer --for",
            device.name,
            unsure.join(", ")
        ));
    }
    let text = format!("{}: probed, writes in a scratch file of {} MiB in {}", device.name, size >> 20, real.folder.display());
    let (major, minor) = device.number;
    let about = About { text, number: format!("{major}:{minor}"), model: model_of(args, &device), foreign_percent: Some(foreign) };
    Ok((learned, about))
}

/// Model name for the entry of the hardware database: `--model`, else the device's if udev sets ID_MODEL for its kind; `None` if unknown.
fn model_of(args: &IocostArguments, device: &Device) -> Option<String> {
    let has_id = matches!(device.kind, DriverKind::Scsi | DriverKind::Nvme);
    args.model.clone().or_else(|| device.model.clone().filter(|_| has_id))
}

fn of_trace(args: &IocostArguments, terminal: &Terminal) -> anyhow::Result<(Learned, About)> {
    let path = args.on.display();
    let capacity = args.capacity_gb.map(|gigabytes| {
        ensure!((0.001..=1e6).contains(&gigabytes), "--capacity-gb {gigabytes}: is not within 0.001 to 1000000");
        Ok((gigabytes * SECTORS_A_GB) as u64)
    });
    let capacity = capacity.transpose()?;
    let (format, columns) = (args.format.clone(), args.columns.get().cloned());
    let options = OpenOptions { format, columns, ..OpenOptions::default() };
    let mut read = Recorded::read(&args.on, &options, &mut |_| {
        if terminal::interrupted().load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    })?;
    if read.timed == 0 {
        let (all, format) = (read.all, read.opened.format.name);
        bail!("{path}: none of {all} requests says when it was done (format {format}); response times are needed");
    }
    let (_, seen) = read.of_device(&args.on, args.device)?;
    let (learned, residual) = recorded::from_requests(&seen, capacity, terminal)?;
    let text = format!(
        "{path}: a device fitted to {} requests; it serves the second half of them in {:.3} ms each, {:+.3} ms off, demerit {:.3} ms",
        seen.len(),
        residual.mean_ms,
        residual.mean_error_ms,
        residual.demerit_ms
    );
    Ok((learned, About { text, number: "MAJ:MIN".to_owned(), model: args.model.clone(), foreign_percent: None }))
}

fn row(text: &mut String, name: &str, figure: Figure, unit: &str, scale: f64) {
    let error = figure.error_percent.map_or("assumed".to_owned(), |error| format!("± {}%", three_digits(error)));
    let _ = writeln!(text, "  {name:36} {:>12} {unit:6} {error:>10}", three_digits(figure.value / scale));
}

fn as_text(args: &IocostArguments, learned: &Learned, about: &About, entry: Option<String>) -> String {
    let mut text = format!("{}\n\n", report::printable(&about.text));
    for (index, (name, figure)) in NAMES.iter().zip(learned.model).enumerate() {
        let (unit, scale) = if index % 3 == 0 { ("MB/s", 1e6) } else { ("/s", 1.0) };
        row(&mut text, name, figure, unit, scale);
    }
    row(&mut text, &format!("rlat (queue depth {})", learned.knees[0]), learned.qos.rlat_us, "ms", 1e3);
    row(&mut text, &format!("wlat (queue depth {})", learned.knees[1]), learned.qos.wlat_us, "ms", 1e3);
    for Mixed { read_percent, kib, rate } in &learned.mixed {
        let name = format!("{kib} KiB at random, {read_percent}% reads");
        row(&mut text, &name, Figure { value: 100.0 * rate.value, ..*rate }, "%", 1.0);
    }
    if let Some(foreign) = about.foreign_percent {
        let _ = writeln!(text, "  transferred for others meanwhile: {}%", three_digits(foreign));
    }
    let number = &about.number;
    let _ = write!(
        text,
        "\nFor io.cost.model and io.cost.qos of the root cgroup:\n{}\n{}\n",
        model(learned, number),
        qos(learned, number)
    );
    match entry {
        Some(entry) => _ = write!(text, "\nFor /etc/udev/hwdb.d/90-iocost-local.hwdb:\n{}", report_lines(&entry)),
        None => {
            _ = writeln!(
                text,
                "\n{} has no model name: --model names one for systemd's hwdb.",
                report::printable(&args.on.display().to_string())
            )
        }
    }
    text
}

fn report_lines(text: &str) -> String {
    text.lines().map(|line| report::printable(line) + "\n").collect()
}

fn as_json(args: &IocostArguments, learned: &Learned, about: &About, entry: Option<String>) -> anyhow::Result<String> {
    let value = serde_json::json!({
        "on": args.on, "learned": learned, "foreign_percent": about.foreign_percent, "io_cost_model": model(learned, &about.number),
        "io_cost_qos": qos(learned, &about.number), "hwdb": entry,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
