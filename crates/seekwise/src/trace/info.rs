//! `seekwise trace info`.

use std::path::{Path, PathBuf};

use serde::Serialize;
use sim::trace::Order;
use sim::trace::info::{self, Info, Sizes, StreamInfo};
use sim::trace::merge::in_folders;

use super::copy::{ReadOptions, stop_if_asked};
use super::{counted, figure, grouped, percent};
use crate::number;
use terminal::{self, Interrupted};

/// Arguments of `seekwise trace info`.
#[derive(clap::Args)]
pub struct InfoArguments {
    /// The trace; several, or folders of them, are a table with a line for each
    #[arg(value_name = "TRACE|FOLDER", required = true)]
    traces: Vec<PathBuf>,
    /// Print JSON, with the unit in every key; several traces are a list
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    options: ReadOptions,
    /// Number of busiest streams to list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::within::<usize>(0..=u64::MAX, "streams"))]
    top: usize,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    trace: &'a str,
    format: &'static str,
    #[serde(flatten)]
    info: &'a Info,
}

/// Runs the command.
pub fn run(args: &InfoArguments) -> anyhow::Result<()> {
    let [trace] = &args.traces[..] else { return several(args) };
    if trace.is_dir() {
        return several(args);
    }
    let Read { trace, format, info } = read(args, trace)?;
    let text = if args.json {
        serde_json::to_string_pretty(&Json { trace: &trace, format, info: &info })? + "\n"
    } else {
        text(&trace, format, &info)
    };
    Ok(terminal::print(&text)?)
}

/// Prints one line per trace. Files in folders that are not traces are reported and skipped.
fn several(args: &InfoArguments) -> anyhow::Result<()> {
    let mut traces = Vec::new();
    for path in in_folders(&args.traces)? {
        match read(args, &path) {
            Ok(trace) => traces.push(trace),
            Err(error) if error.is::<Interrupted>() || args.traces.contains(&path) => return Err(error),
            Err(error) => terminal::eprint_line(&terminal::message(&error)),
        }
    }
    anyhow::ensure!(!traces.is_empty(), "{}: no trace is in it", args.traces[0].display());
    let text = if args.json {
        let list: Vec<Json<'_>> = traces.iter().map(|Read { trace, format, info }| Json { trace, format, info }).collect();
        serde_json::to_string_pretty(&list)? + "\n"
    } else {
        table(&traces)
    };
    Ok(terminal::print(&text)?)
}

/// Characteristics of a trace.
struct Read {
    /// Name of the file.
    trace: String,
    format: &'static str,
    info: Info,
}

fn read(args: &InfoArguments, path: &Path) -> anyhow::Result<Read> {
    let mut opened = args.options.open(path, Order::FromZero)?;
    let bar = terminal::progress_bar(0, "requests");
    let info = info::characterise(opened.reader.as_mut(), args.top, |requests| {
        bar.set_position(requests);
        stop_if_asked().is_ok()
    });
    bar.finish_and_clear();
    let info = info?.ok_or(Interrupted)?;
    let format = opened.format.name;
    anyhow::ensure!(
        info.requests > 0,
        "{}: no request in it transfers data (format {format}, {} records without, {} damaged)",
        path.display(),
        info.omitted_records,
        info.skipped_records
    );
    super::warn_of_skipped(path, info.skipped_records);
    super::warn(path, opened.reader.as_ref());
    let trace = path.file_name().map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    Ok(Read { trace, format, info })
}

/// Table with one line per trace, as wide as the longest name.
fn table(traces: &[Read]) -> String {
    let names: Vec<String> = traces.iter().map(|read| report::printable(&read.trace).to_string()).collect();
    let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0).max("trace".len());
    let mut text = format!(
        "{:width$}  {:<12} {:>12} {:>11} {:>6} {:>10} {:>10} {:>9} {:>9}\n",
        "trace", "format", "requests", "seconds", "reads", "MB", "IOPS", "size", "p99 ms"
    );
    for (name, Read { format, info, .. }) in names.iter().zip(traces) {
        let p99 = info.recorded_response.as_ref().map_or_else(|| "-".into(), |response| figure(response.p99_ms));
        text += &format!(
            "{name:width$}  {format:<12} {:>12} {:>11} {:>6} {:>10} {:>10} {:>9} {p99:>9}\n",
            grouped(info.requests),
            figure(info.duration_s),
            percent(info.read_share),
            figure(info.read_mb + info.written_mb),
            info.rate.mean_iops.map_or_else(|| "-".into(), figure),
            size_of(info.size.mean_kb),
        );
    }
    text
}

/// The report, at most 80 columns wide.
fn text(trace: &str, format: &str, info: &Info) -> String {
    let mut lines = vec![format!(
        "{} ({format}): {} in {} s",
        report::printable(trace),
        counted(info.requests, "request"),
        figure(info.duration_s)
    )];
    let mut line = |what: &str, text: String| lines.push(format!("  {what:<12}{text}"));
    let mean = |kb: Option<f64>| kb.map_or_else(String::new, |kb| format!(", {} each", size_of(kb)));
    line("reads", format!("{}, {} MB{}", percent(info.read_share), figure(info.read_mb), mean(info.size.read_mean_kb)));
    line("writes", format!("{}, {} MB{}", percent(info.write_share), figure(info.written_mb), mean(info.size.write_mean_kb)));
    if info.discard_share > 0.0 {
        line("discards", format!("{}, {} MB", percent(info.discard_share), figure(info.discarded_mb)));
    }
    match info.sync_share {
        Some(share) => line("synchronous", percent(share)),
        None => line("synchronous", "not recorded in the trace".into()),
    }
    let size = &info.size;
    line(
        "size",
        format!(
            "mean {}, median {}, p95 {}, max {}",
            size_of(size.mean_kb),
            size_of(size.p50_kb),
            size_of(size.p95_kb),
            size_of(size.max_kb)
        ),
    );
    line("", format!("most common: {}", common(size, info.requests)));
    if let Some(pause) = &info.interarrival {
        line(
            "arrivals",
            format!(
                "every {} ms, median {}, p99 {}, max {}",
                figure(pause.mean_ms),
                figure(pause.p50_ms),
                figure(pause.p99_ms),
                figure(pause.max_ms)
            ),
        );
        line("", format!("coefficient of variation {} (1: independent; more: bursts)", figure(pause.coefficient_of_variation)));
    }
    let rate = &info.rate;
    if let (Some(iops), Some(mb_s)) = (rate.mean_iops, rate.mean_mb_s) {
        line("rate", format!("{} IOPS, {} MB/s", figure(iops), figure(mb_s)));
    }
    line("", format!("busiest second {} IOPS; {} MB/s", grouped(rate.peak_iops), figure(rate.peak_mb_s)));
    line(
        "sequential",
        format!(
            "{} on the device, {} within streams",
            percent(info.sequential.exact_share),
            percent(info.sequential_in_stream.exact_share)
        ),
    );
    line(
        "",
        format!(
            "gaps up to {} KiB allowed: {}, {}",
            block::SEQUENTIAL_GAP / 2,
            percent(info.sequential.near_share),
            percent(info.sequential_in_stream.near_share)
        ),
    );
    place(info, &mut line);
    recorded(info, &mut line);
    if info.omitted_records > 0 {
        line("left out", format!("{} records without sectors (flushes)", grouped(info.omitted_records)));
    }
    if info.skipped_records > 0 {
        line("damaged", format!("{} records skipped", grouped(info.skipped_records)));
    }
    lines.join("\n") + "\n" + &streams(info)
}

/// Formats a size given in 10^3 bytes.
fn size_of(kb: f64) -> String {
    report::number::size(kb * 1000.0)
}

fn common(size: &Sizes, requests: u64) -> String {
    let shares = size.common.iter().take(4).map(|common| {
        format!(
            "{} {:.0}%",
            report::number::size(f64::from(common.sectors) * 512.0),
            common.requests as f64 * 100.0 / requests as f64
        )
    });
    shares.collect::<Vec<_>>().join(", ")
}

fn place(info: &Info, line: &mut impl FnMut(&str, String)) {
    let place = &info.place;
    let devices = counted(place.devices, "device");
    line("place", format!("sectors {} to {} of {devices}", grouped(place.first_lba), grouped(place.end_lba)));
    let bound = match place.footprint_granularity_bytes {
        512 => String::new(),
        bytes => format!(" at most (counted in pieces of {} bytes)", grouped(bytes)),
    };
    line("", format!("{} MB of them touched{bound}", figure(place.footprint_mb)));
}

/// Response times and concurrency recorded in the trace.
fn recorded(info: &Info, line: &mut impl FnMut(&str, String)) {
    if let Some(response) = &info.recorded_response {
        let known = match info.requests - response.requests {
            0 => String::new(),
            unknown => format!(" ({} unknown)", grouped(unknown)),
        };
        line(
            "recorded",
            format!(
                "response mean {} ms, median {}, p95 {}, p99 {}",
                figure(response.mean_ms),
                figure(response.p50_ms),
                figure(response.p95_ms),
                figure(response.p99_ms)
            ),
        );
        line("", format!("longest {} ms{known}", figure(response.max_ms)));
    }
    if let Some(concurrency) = &info.concurrency {
        let mean = concurrency.mean.map_or_else(|| "-".into(), figure);
        line("", format!("requests under way: mean {mean}, max {}", grouped(concurrency.max)));
    }
    if let Some(device) = &info.recorded_device {
        let size = device.capacity_sectors.map(|sectors| format!("{} sectors", grouped(sectors)));
        let read_ahead = device.read_ahead_kib.map(|kib| format!("read-ahead of {} KiB", grouped(kib.into())));
        line("device", [size, read_ahead].into_iter().flatten().collect::<Vec<_>>().join(", "));
        if let Some(scheduler) = &device.scheduler {
            line("", format!("under {}", report::printable(scheduler)));
        }
    }
}

/// The table of streams.
fn streams(info: &Info) -> String {
    let more = if info.streams_complete { "" } else { "more than " };
    let mut text = format!("\n{more}{}; the busiest:\n", counted(info.stream_count, "stream"));
    text += &format!(
        "  {:>10} {:<16} {:>10} {:>10} {:>5} {:>5} {:>5} {:>9}\n",
        "stream", "name", "requests", "MB", "reads", "waits", "seq.", "size"
    );
    for stream in &info.streams {
        text += &stream_row(stream);
    }
    text
}

fn stream_row(stream: &StreamInfo) -> String {
    let name: String = report::printable(stream.name.as_deref().unwrap_or("-")).chars().take(16).collect();
    let whole = |share: f64| format!("{:.0}%", share * 100.0);
    format!(
        "  {:>10} {name:<16} {:>10} {:>10} {:>5} {:>5} {:>5} {:>9}\n",
        stream.stream,
        grouped(stream.requests),
        figure(stream.mb),
        whole(stream.read_share),
        whole(stream.sync_share),
        whole(stream.sequential.exact_share),
        size_of(stream.mean_kb)
    )
}
