//! `seekwise disk`: list, show, explain, import, validate, calibrate and fit disk profiles.

mod calibrate;
mod fit;
mod learn;

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail};
use block::Op;
use sim::device::raid::spec::ArraySpecification;
use sim::profile::KINDS;
use sim::profile::keys::{Key, KeyTable};
use sim::profile::{BUILT_IN, DeviceOptions, load};
use sim::validate::{ResponseComparison, ResponseSummary, Validation};

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// List the built-in disks
    List,
    /// Print all keys of profiles as a Markdown page (docs/reference/disks.md)
    Manual,
    /// Print a profile, with the units and ranges of its values as comments
    Show {
        /// Name of a built-in disk, path of a profile, or an array such as raid5:disk=atlas10k,disks=5
        disk: String,
    },
    /// Convert a DiskSim 4 parameter file (.diskspecs, or .parv with its buses) into a profile
    Import {
        /// The parameter file; files it refers to are looked up in its folder
        file: PathBuf,
        /// Where to write the profile [default: standard output]; of an array its disk's too, to FILE-disk.toml
        #[arg(short, long, value_name = "FILE.toml")]
        output: Option<PathBuf>,
        /// Time the host's bus takes per sector read, if slower than the file says
        #[arg(long, value_name = "MS")]
        bus_read_sector_ms: Option<f64>,
        /// Time the host's bus takes per sector written, if slower than the file says
        #[arg(long, value_name = "MS")]
        bus_write_sector_ms: Option<f64>,
    },
    /// Replay requests measured on a real drive and compare the response times
    Validate {
        /// Name of a built-in disk, path of a profile, or an array such as raid5:disk=atlas10k,disks=5
        disk: String,
        /// CSV with the columns lba, size_blocks, is_read, measured_response_ms, think_after_ms
        measured: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Fit a hard disk's profile to requests measured on the drive
    ///
    /// Fits overheads, settling, re-acquisition, bus, seeks of writes and the rules of prefetch, as far as they make requests that
    /// they were not fitted to truer. Fitted to the first half of the recording, judged on the second.
    Calibrate(calibrate::CalibrateArguments),
    /// Fit a device to a trace with completion times, without any profile to begin with
    ///
    /// Finds speed, seek times, rates, cache and queue in the times of the requests alone, with the error of each, and marks assumed
    /// values. Fitted to the first half of the trace and judged on the second; the profile comes from all of it.
    Fit(Box<fit::FitArguments>),
    /// Learn how long requests take on a device: mechanics found by probing, and a regression tree for the rest
    Learn(learn::LearnArguments),
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::List => list(),
        Command::Manual => Ok(terminal::print(&manual())?),
        Command::Show { disk } => Ok(terminal::print(&load(&disk)?.annotated())?),
        Command::Import { file, output, bus_read_sector_ms, bus_write_sector_ms } => {
            let options = sim::diskspecs::ImportOptions { bus_read_sector_ms, bus_write_sector_ms };
            import(&file, output.as_deref(), options)
        }
        Command::Validate { disk, measured, json } => validate(&disk, &measured, json),
        Command::Calibrate(arguments) => calibrate::run(&arguments),
        Command::Fit(arguments) => fit::run(&arguments),
        Command::Learn(arguments) => learn::run(&arguments),
    }
}

fn list() -> anyhow::Result<()> {
    let mut text = String::new();
    for (name, _) in BUILT_IN {
        let profile = load(name)?;
        writeln!(text, "{name:17} {:>9.1} GB  {}", profile.capacity_sectors() as f64 * 512.0 / 1e9, profile.description())?;
    }
    Ok(terminal::print(&text)?)
}

fn manual() -> String {
    let mut page = "# Disk profiles\n\n\
        Printed by `seekwise disk manual`. A profile is a TOML file; `seekwise disk list` lists those that come with the program, and\n\
        `seekwise disk show NAME` prints one, a start for your own: `seekwise disk show sata7200 >my.toml`, then `--disk my.toml`.\n\n\
        A key without a default must be there. Unknown keys and values out of range are errors that name file, line and key.\n"
        .to_owned();
    for kind in KINDS {
        page += &format!("\n## {}\n", kind.name);
        page += &kind
            .key
            .map_or("\nProfiles without the key `kind`.\n".to_owned(), |key| format!("\nProfiles with `kind = \"{key}\"`.\n"));
        for table in kind.tables().iter().filter(|table| !table.keys.is_empty()) {
            page += &table_of_keys(table);
        }
    }
    page += &format!(
        "\n## {}\n\n\
        The file that `seekwise disk learn --on DEVICE -o MODEL.json` writes, wherever a profile may stand: `--disk MODEL.json`,\n\
        `raid0:disk=MODEL.json,disks=2`. Such a device serves one request after the other, each for as long as the model expects, and\n\
        takes as many at once as the device did that it was learned from. `seekwise disk show MODEL.json` describes it.\n",
        sim::profile::learned::KIND.name
    );
    page
}

fn table_of_keys(table: &KeyTable) -> String {
    let heading = if table.heading.is_empty() { "At the top".to_owned() } else { format!("`{}`", table.heading) };
    let mut text = format!("\n### {heading}\n\n");
    if !table.meaning.is_empty() {
        text += &format!("{}\n\n", table.meaning);
    }
    text += "| key | unit | range | default | meaning |\n|---|---|---|---|---|\n";
    for Key { name, unit, values, default, meaning } in &table.keys {
        text += &format!("| `{name}` | {unit} | {values} | {} | {meaning} |\n", default.as_deref().unwrap_or(""));
    }
    text
}

fn import(file: &Path, output: Option<&Path>, options: sim::diskspecs::ImportOptions) -> anyhow::Result<()> {
    let imported = sim::diskspecs::import(file, options)?;
    for note in &imported.notes {
        // Notes are advice: a closed standard error must not lose the profile.
        let _ = writeln!(std::io::stderr(), "note: {}", report::printable(note));
    }
    let write =
        |path: &Path, text: &str| report::record::replace(path, text.as_bytes()).with_context(|| path.display().to_string());
    let disk = imported.profile.text();
    match (imported.array, output) {
        (None, None) => Ok(terminal::print(disk)?),
        (None, Some(path)) => write(path, disk),
        (Some(array), None) => bail!(
            "{}: holds an array, RAID {} of {} disks, and an array's profile names the file of its disk: write both with \
             -o ARRAY.toml, which writes ARRAY-disk.toml too",
            file.display(),
            array.level,
            array.disks.unwrap_or(0)
        ),
        (Some(array), Some(path)) => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let member = format!("{stem}-disk.toml");
            let array = ArraySpecification { name: Some(stem.into_owned()), disk: Some(member.clone()), ..array };
            let text = array.to_text().map_err(anyhow::Error::msg)?;
            // Write the disk first: an array's profile is invalid without it.
            write(&path.with_file_name(member), disk)?;
            write(path, &text)
        }
    }
}

fn validate(disk: &str, measured: &Path, json: bool) -> anyhow::Result<()> {
    let profile = load(disk)?;
    let requests = sim::validate::read_measured(measured, profile.capacity_sectors())?;
    let mut device = profile.build(DeviceOptions::default());
    let bar = terminal::progress_bar(requests.len() as u64, "replaying");
    let responses = sim::validate::replay(&mut *device, &requests, |index| {
        if index % 4096 == 0 {
            bar.set_position(index as u64);
        }
        terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let responses = responses.ok_or(terminal::Interrupted)?;
    let validation = sim::validate::compare(&requests, &responses);
    let text = if json { as_json(profile.name(), &validation)? } else { as_table(profile.name(), &validation)? };
    Ok(terminal::print(&text)?)
}

/// Name of the row with signed figures.
const SIGNED: &str = "error of the mean";

fn as_table(name: &str, validation: &Validation) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    writeln!(text, "{name}: the model against the drive, response times in ms")?;
    writeln!(text, "{:24} {:>10} {:>10} {:>10}", "", "all", "reads", "writes")?;
    let groups = [&validation.all, &validation.reads, &validation.writes];
    let mut row = |label: &str, value: fn(&ResponseComparison) -> f64, decimals: usize| {
        let sign = |value: f64| if label == SIGNED && value > 0.0 { "+" } else { "" };
        let [all, reads, writes] = groups.map(|group| match group.requests {
            0 => "-".to_owned(),
            _ => format!("{}{:.decimals$}", sign(value(group)), value(group)),
        });
        writeln!(text, "{label:24} {all:>10} {reads:>10} {writes:>10}")
    };
    row("requests", |group| group.requests as f64, 0)?;
    row("demerit", |group| group.demerit_ms, 4)?;
    row("demerit, % of mean", |group| group.demerit_percent, 1)?;
    row(SIGNED, |group| group.mean_error_ms, 3)?;
    row("RMS error per request", |group| group.per_request_rms_ms, 4)?;
    row("mean, drive", |group| group.measured.mean_ms, 3)?;
    row("mean, model", |group| group.simulated.mean_ms, 3)?;
    row("p50, drive", |group| group.measured.p50_ms, 3)?;
    row("p50, model", |group| group.simulated.p50_ms, 3)?;
    row("p95, drive", |group| group.measured.p95_ms, 3)?;
    row("p95, model", |group| group.simulated.p95_ms, 3)?;
    row("p99, drive", |group| group.measured.p99_ms, 3)?;
    row("p99, model", |group| group.simulated.p99_ms, 3)?;
    row("max, drive", |group| group.measured.max_ms, 3)?;
    row("max, model", |group| group.simulated.max_ms, 3)?;
    let (op, worse) = validation.worse();
    writeln!(text, "judged by the worse of the two: {}, demerit {:.4} ms", operation(op), worse.demerit_ms)?;
    Ok(text)
}

fn operation(op: Op) -> &'static str {
    if op == Op::Write { "writes" } else { "reads" }
}

fn as_json(name: &str, validation: &Validation) -> anyhow::Result<String> {
    let summary = |summary: &ResponseSummary| {
        serde_json::json!({
            "mean_ms": summary.mean_ms, "p50_ms": summary.p50_ms, "p95_ms": summary.p95_ms,
            "p99_ms": summary.p99_ms, "max_ms": summary.max_ms,
        })
    };
    let comparison = |group: &ResponseComparison| {
        serde_json::json!({
            "requests": group.requests, "demerit_ms": group.demerit_ms, "demerit_percent": group.demerit_percent,
            "mean_error_ms": group.mean_error_ms, "per_request_rms_ms": group.per_request_rms_ms,
            "measured": summary(&group.measured), "simulated": summary(&group.simulated),
        })
    };
    let mut value = comparison(&validation.all);
    value["disk"] = name.into();
    value["reads"] = comparison(&validation.reads);
    value["writes"] = comparison(&validation.writes);
    let (op, worse) = validation.worse();
    value["worse"] = serde_json::json!({ "of": operation(op), "demerit_ms": worse.demerit_ms });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
