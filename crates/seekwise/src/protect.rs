//! `seekwise protect export`: systemd drop-ins that keep a guarantee without the daemon.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use block::Nanos;
use protect::Promise;
use protect::static_limits::{Hour, KEPT, LimitRequest, StaticLimits, drop_in, find};
use report::number::three_digits;
use sim::trace::OpenOptions;

use crate::number;
use terminal::{Failed, Terminal};

/// Default minimum limit in 10^6 bytes per second, as in `[limits]` of the agent's configuration.
const FLOOR_MB_S: u64 = 2;
const MB: f64 = 1e6;
/// Maximum rate: above any current device.
const MOST_RATE: f64 = 1e9;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Find the limits that keep a promise in a recording, print their cost by the hour, and write them as drop-ins for systemd
    ///
    /// For hosts on which no daemon shall run. The recording is a trace of a whole day or week with streams named by unit (`seekwise trace
    /// capture --by unit`). A device is fitted to it, and the recording is replayed on it under ever other limits on the neighbours, the same for
    /// each: the largest with which the promise is kept in 95% of the windows of 10 s of each hour. Neighbours whose requests are smaller than
    /// 128 KiB on average are limited in requests, too. The table has for each hour in how many windows the promise is kept, without limits and
    /// with them, the transfers of each neighbour, and the part that is held back at the end of the hour.
    ///
    /// Limits that stay are wrong for most of the day: `seekwise-agent protect` sets them only while they are needed. Nothing is set: copy the
    /// files to /etc/systemd/system and run `systemctl daemon-reload`.
    Export(ExportArguments),
}

/// Arguments of `seekwise protect export`.
#[derive(clap::Args)]
pub struct ExportArguments {
    /// A trace with response times, with streams named by unit
    #[arg(value_name = "TRACE")]
    recording: PathBuf,
    /// The unit that is promised something, such as postgresql.service
    #[arg(long, value_name = "UNIT")]
    unit: String,
    /// 99% of its reads take at most this long, such as 15ms
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    read_p99: Option<Nanos>,
    /// 99% of the writes that it waits for take at most this long
    #[arg(long, value_name = "TIME", value_parser = number::duration)]
    write_p99: Option<Nanos>,
    /// It gets at least this, such as 200iops or 10MB/s; may be repeated
    #[arg(long, value_name = "RATE", value_parser = rate)]
    at_least: Vec<Rate>,
    /// A unit that may be limited; may be repeated
    #[arg(long, value_name = "UNIT", required = true)]
    limit: Vec<String>,
    /// No limit is lower, in 10^6 bytes per second
    #[arg(long, value_name = "MB/S", default_value_t = FLOOR_MB_S, value_parser = number::within::<u64>(1..=1_000_000, "10^6 bytes per second"))]
    floor: u64,
    /// The device in the drop-ins, better one of /dev/disk/by-id [default: as the recording names it]
    #[arg(long, value_name = "PATH")]
    on: Option<PathBuf>,
    /// Write UNIT.d/50-seekwise.conf for each limited unit into this folder [default: print them]
    #[arg(short, long, value_name = "FOLDER")]
    output: Option<PathBuf>,
    /// The trace's format [default: recognised by content]
    #[arg(long)]
    format: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// A minimum rate.
#[derive(Clone, Copy, Debug)]
enum Rate {
    Iops(f64),
    BytesPerSecond(f64),
}

/// Parses a rate, as in `200iops` or `10MB/s`.
fn rate(text: &str) -> Result<Rate, String> {
    let number = |digits: &str| digits.parse::<f64>().ok().filter(|number| (0.001..=MOST_RATE).contains(number));
    let iops = text.strip_suffix("iops").and_then(number).map(Rate::Iops);
    let bytes = || text.strip_suffix("MB/s").and_then(number).map(|mb| Rate::BytesPerSecond(mb * MB));
    iops.or_else(bytes).ok_or_else(|| "give a rate such as 200iops or 10MB/s".to_owned())
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let Command::Export(args) = command;
    let request = request(args)?;
    let found = find(&request, &Terminal::default())?;
    let device = device(args, &found)?;
    let drop_ins = found.limits.iter().map(|limited| drop_in(limited, &device)).collect::<anyhow::Result<Vec<_>>>()?;
    if found.is_out_of_reach {
        terminal::print(&table(args, &found))?;
        let text = format!(
            "{}: its promise is not kept in every hour even with {} MB/s for each neighbour: promise less, or name more neighbours",
            args.unit, args.floor
        );
        return Err(Failed(text).into());
    }
    let mut text = match args.json {
        true => as_json(&found, &drop_ins)?,
        false => table(args, &found),
    };
    for (path, content) in &drop_ins {
        match &args.output {
            Some(folder) => {
                let path = folder.join(path);
                path.parent().map_or(Ok(()), fs::create_dir_all).with_context(|| path.display().to_string())?;
                report::record::replace(&path, content.as_bytes()).with_context(|| path.display().to_string())?;
                terminal::eprint_line(&format!("wrote {}", path.display()));
            }
            None if !args.json => _ = write!(text, "\n# /etc/systemd/system/{}\n{content}", path.display()),
            None => {}
        }
    }
    Ok(terminal::print(&text)?)
}

fn request(args: &ExportArguments) -> anyhow::Result<LimitRequest> {
    let mut promise = Promise { read_p99: args.read_p99, write_p99: args.write_p99, ..Promise::default() };
    for rate in &args.at_least {
        match rate {
            Rate::Iops(iops) => promise.least_iops = Some(*iops),
            Rate::BytesPerSecond(bytes) => promise.least_bytes_per_s = Some(*bytes),
        }
    }
    if promise == Promise::default() {
        bail!("nothing is promised: give --read-p99, --write-p99 or --at-least, such as --read-p99 15ms");
    }
    // Check the output before minutes of work.
    args.on.as_deref().map_or(Ok(()), expect_path)?;
    for unit in &args.limit {
        drop_in(&protect::static_limits::Limited { unit: unit.clone(), bytes_per_s: 1, iops: [None; 2] }, Path::new("/dev/sda"))?;
    }
    Ok(LimitRequest {
        recording: args.recording.clone(),
        options: OpenOptions { format: args.format.clone(), ..OpenOptions::default() },
        victim: args.unit.clone(),
        promise,
        neighbours: args.limit.clone(),
        floor_bytes_per_s: args.floor * 1_000_000,
    })
}

fn device(args: &ExportArguments, found: &StaticLimits) -> anyhow::Result<PathBuf> {
    let recorded = found.device.as_deref().map(|name| Path::new("/dev").join(name.trim_start_matches("/dev/")));
    let device =
        args.on.clone().or(recorded).context("the recording does not name its device: give it with --on, as in /dev/sda")?;
    expect_path(&device)?;
    Ok(device)
}

fn expect_path(device: &Path) -> anyhow::Result<()> {
    let is_plain = device.to_str().is_some_and(|path| !path.contains(|c: char| c.is_whitespace() || c.is_control()));
    ensure!(device.is_absolute() && is_plain, "--on {}: should be an absolute path, as in /dev/sda", device.display());
    Ok(())
}

fn table(args: &ExportArguments, found: &StaticLimits) -> String {
    let mut text = match found.limits.first() {
        None => format!("{}: the promise is kept in every hour without limits.\n", args.unit),
        Some(limited) => format!(
            "{}: kept in {:.0}% of the time of each hour with at most {} MB/s of reads, and of writes, for each neighbour.\n",
            args.unit,
            100.0 * KEPT,
            three_digits(limited.bytes_per_s as f64 / MB)
        ),
    };
    if found.is_out_of_reach {
        text.clear();
    }
    let _ = write!(
        text,
        "The fitted device is {:+.2} ms off for each request.\n\n{:>4} {:>12} {:>10}",
        found.error_ms, "hour", "kept before", "kept"
    );
    for unit in &args.limit {
        let _ = write!(text, "  {:>24}", report::printable(unit).to_string());
    }
    text.push('\n');
    let percent = |part: Option<f64>| part.map_or(report::number::MISSING.to_owned(), |percent| format!("{percent:.0}%"));
    for Hour { hour, kept_before_percent, kept_percent, demand_mb_s, held_back_percent } in &found.hours {
        let _ = write!(text, "{hour:>4} {:>12} {:>10}", percent(*kept_before_percent), percent(*kept_percent));
        for (demand, held) in demand_mb_s.iter().zip(held_back_percent) {
            let _ = write!(text, "  {:>24}", format!("{} MB/s, {held:.0}% held", three_digits(*demand)));
        }
        text.push('\n');
    }
    text
}

fn as_json(found: &StaticLimits, drop_ins: &[(PathBuf, String)]) -> anyhow::Result<String> {
    let files: Vec<_> = drop_ins.iter().map(|(path, text)| serde_json::json!({ "path": path, "text": text })).collect();
    Ok(serde_json::to_string_pretty(&serde_json::json!({ "found": found, "drop_ins": files }))? + "\n")
}
