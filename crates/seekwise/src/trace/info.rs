//! `seekwise trace info`.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use serde::Serialize;
use sim::trace::info::{self, Info, Sizes, StreamInfo};

use super::{counted, figure, grouped, percent};
use crate::arguments::ColumnsArgument;
use crate::number;
use terminal::{self, Interrupted};

/// Arguments of `seekwise trace info`.
#[derive(clap::Args)]
pub struct Args {
    /// The trace
    trace: PathBuf,
    /// Print JSON, with the unit in every key
    #[arg(long)]
    json: bool,
    /// The trace's format (`seekwise trace formats`) [default: recognised by content]
    #[arg(long)]
    format: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// Skip and count damaged records instead of stopping at the first
    #[arg(long)]
    skip_bad: bool,
    /// Number of busiest streams to list
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = number::within::<usize>(0..=u64::MAX, "streams"))]
    top: usize,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    trace: String,
    format: &'static str,
    #[serde(flatten)]
    info: &'a Info,
}

/// Runs the command.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let mut opened = super::open(&args.trace, args.format.as_deref(), args.columns.get(), args.skip_bad)?;
    let bar = terminal::progress_bar(0, "requests");
    let info = info::characterise(opened.reader.as_mut(), args.top, |requests| {
        bar.set_position(requests);
        !terminal::interrupted().load(Ordering::Relaxed)
    });
    bar.finish_and_clear();
    let info = info?.ok_or(Interrupted)?;
    if info.requests == 0 {
        anyhow::bail!(
            "{}: no request in it transfers data (format {}, {} records without, {} damaged)",
            args.trace.display(),
            opened.format.name,
            info.omitted_records,
            info.skipped_records
        );
    }
    super::warn_of_skipped(&args.trace, info.skipped_records);
    super::warn(&args.trace, opened.reader.as_ref());
    let trace = args.trace.file_name().map_or_else(|| args.trace.display().to_string(), |name| name.to_string_lossy().into_owned());
    let text = if args.json {
        serde_json::to_string_pretty(&Json { trace, format: opened.format.name, info: &info })? + "\n"
    } else {
        text(&trace, opened.format.name, &info)
    };
    Ok(terminal::print(&text)?)
}

/// The page, at most 80 columns wide.
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

/// A size that is given in 10^3 bytes.
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
