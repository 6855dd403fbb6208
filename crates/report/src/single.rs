//! One run as text: the load, response times, each stream's service, memory and device.

use crate::comparison::settings;
use crate::explain::{self, Shown};
use crate::number::{MISSING, grouped, three_digits};
use crate::record::{DirectionFigures, FlashFigures, JobsFigures, MemoryFigures, Record, ResponseFigures, ServiceFigures};
use crate::tenants;
use crate::text::{printable, shortened, wrapped};

/// Number of streams or jobs shown.
const STREAM_ROWS: usize = 20;
/// Longest and shortest name of a stream, and the room that its figures need.
const NAME_WIDTHS: (usize, usize) = (8, 32);
const FIGURES_WIDTH: usize = 59;

/// The run as text. `width` is the terminal's, in characters; `None`, for a pipe, keeps each sentence on one line. With `explained`,
/// a controller's decisions follow.
pub fn text(record: &Record, width: Option<usize>, explained: Option<Shown>) -> String {
    let mut out = Lines { text: String::new(), width: width.unwrap_or(usize::MAX).max(20) };
    let Record { trace, disk, scheduler, replay, .. } = record;
    out.sentence(&format!("{} on {} under {}", printable(&trace.name), printable(&disk.name), printable(&scheduler.label)));
    out.sentence(&printable(&disk.description));
    out.sentence(&format!("Host: {}", settings(&replay.host)));
    out.line("");
    responses(&mut out, record);
    if record.jobs.len() > 1 {
        served(&mut out, "job", record.jobs.iter().map(|jobs| (job_name(jobs), &jobs.service)).collect());
    } else if record.jobs.is_empty() && record.streams.len() > 1 {
        served(&mut out, "stream", record.streams.iter().map(|stream| (stream_name(stream), &stream.service)).collect());
    }
    if record.groups.len() > 1 && record.groups.len() < record.jobs.len() {
        served(&mut out, "group", record.groups.iter().map(|group| (group_name(group), &group.service)).collect());
    }
    if let Some(tenancy) = &record.tenants {
        out.text.push_str(&tenants::text(tenancy, width));
        out.line("");
    }
    what_went_on(&mut out, record);
    // The decisions begin with the same summary.
    if let (Some(steering), None) = (&record.steering, explained) {
        let (label, summary) = (printable(&record.scheduler.label), explain::summary(steering));
        out.sentence(&format!("{label}: {summary}."));
    }
    for warning in &record.warnings {
        out.sentence(&format!("Warning: {}", printable(warning)));
    }
    if let Some(shown) = explained {
        out.line("");
        out.text.push_str(&explain::text(std::slice::from_ref(record), width, shown));
    }
    out.text
}

struct Lines {
    text: String,
    width: usize,
}

impl Lines {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    fn sentence(&mut self, sentence: &str) {
        for line in wrapped(sentence, self.width) {
            self.line(&line);
        }
    }
}

/// A figure of a distribution of response times.
type Row = (&'static str, fn(&ResponseFigures) -> f64);

fn responses(out: &mut Lines, record: &Record) {
    const ROWS: [Row; 7] = [
        ("response time, mean ms", |response| response.mean_ms),
        ("standard deviation ms", |response| response.stdev_ms),
        ("p50 ms", |response| response.p50_ms),
        ("p95 ms", |response| response.p95_ms),
        ("p99 ms", |response| response.p99_ms),
        ("p99.9 ms", |response| response.p999_ms),
        ("longest ms", |response| response.max_ms),
    ];
    let figures = &record.figures;
    let mut groups = vec![
        ("all", Some(&figures.response), three_digits(figures.throughput_mb_s)),
        ("reads", figures.read_response.as_ref(), three_digits(figures.read_mb_s)),
        ("writes", figures.write_response.as_ref(), three_digits(figures.write_mb_s)),
    ];
    if figures.sync_response.is_some() {
        groups.push(("fsyncs", figures.sync_response.as_ref(), MISSING.to_owned()));
    }
    let mut row = |label: &str, cells: Vec<String>| {
        let cells: String = cells.iter().map(|cell| format!(" {cell:>11}")).collect();
        out.line(&format!("{label:22}{cells}"));
    };
    let cells = |value: &dyn Fn(&ResponseFigures) -> String| {
        groups.iter().map(|(_, group, _)| group.map_or_else(|| MISSING.to_owned(), value)).collect()
    };
    row("", groups.iter().map(|(name, ..)| (*name).to_owned()).collect());
    row("requests", cells(&|response| grouped(response.requests)));
    let rate = |response: &ResponseFigures| {
        three_digits(if figures.duration_s > 0.0 { response.requests as f64 / figures.duration_s } else { 0.0 })
    };
    row("requests/s", cells(&rate));
    row("MB/s", groups.iter().map(|(.., throughput)| throughput.clone()).collect());
    for (label, value) in ROWS {
        row(label, cells(&|response| three_digits(value(response))));
    }
    out.line("");
}

fn stream_name(stream: &crate::record::StreamFigures) -> String {
    stream.name.as_ref().map_or_else(|| format!("stream {}", stream.stream), |name| printable(name))
}

fn job_name(jobs: &JobsFigures) -> String {
    let name = printable(&jobs.name);
    if jobs.jobs > 1 { format!("{name}, {} jobs", grouped(u64::from(jobs.jobs))) } else { name }
}

fn group_name(group: &JobsFigures) -> String {
    format!("{}: {}", group.group, job_name(group))
}

/// The service of some streams by active time: a line for each kind of request (reads, writes and so on), and one for all kinds
/// together if there are several.
fn served(out: &mut Lines, what: &str, rows: Vec<(String, &ServiceFigures)>) {
    let limit = out.width.saturating_sub(FIGURES_WIDTH).clamp(NAME_WIDTHS.0, NAME_WIDTHS.1);
    let shown: Vec<(String, &ServiceFigures)> =
        rows.iter().take(STREAM_ROWS).map(|(name, service)| (shortened(name, limit), *service)).collect();
    let width = shown.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0).max(what.len());
    let mut line = |name: &str, kind: &str, cells: [String; 5]| {
        let cells: String = cells.iter().zip([11, 9, 9, 9, 9]).map(|(cell, width)| format!(" {cell:>width$}")).collect();
        out.line(&format!("{name:width$} {kind:7}{cells}"));
    };
    line(what, "", ["requests", "IOPS", "MB/s", "mean ms", "p99 ms"].map(str::to_owned));
    for (name, service) in shown {
        let mut name = name.as_str();
        for (kind, figures) in kinds(service) {
            line(name, kind, cells(figures));
            name = "";
        }
    }
    if rows.len() > STREAM_ROWS {
        let order = if what == "stream" { "less busy ones" } else { "more" };
        out.line(&format!("and {} {order}", rows.len() - STREAM_ROWS));
    }
    out.line("");
}

fn kinds(service: &ServiceFigures) -> Vec<(&'static str, &DirectionFigures)> {
    let moves = [("reads", &service.reads), ("writes", &service.writes), ("trims", &service.discards)];
    let moves = moves.into_iter().filter_map(|(kind, figures)| Some((kind, figures.as_ref()?)));
    let all = (moves.clone().count() != 1).then_some(("all", &service.all));
    all.into_iter().chain(moves).chain(service.syncs.as_ref().map(|figures| ("fsyncs", figures))).collect()
}

fn cells(figures: &DirectionFigures) -> [String; 5] {
    let DirectionFigures { bytes, throughput_mb_s, iops, response } = figures;
    let throughput = if *bytes > 0 { three_digits(*throughput_mb_s) } else { MISSING.to_owned() };
    let [iops, mean, p99] = [*iops, response.mean_ms, response.p99_ms].map(three_digits);
    [grouped(response.requests), iops, throughput, mean, p99]
}

fn what_went_on(out: &mut Lines, record: &Record) {
    let figures = &record.figures;
    let percent = |share: f64| format!("{}%", three_digits(share * 100.0));
    let mut device =
        vec![format!("Duration {} s, disk busy {}", three_digits(figures.duration_s), percent(figures.disk_utilisation))];
    device.push(format!("mean queue size {}", three_digits(figures.queue_size_mean)));
    device.push(format!("{} requests at the disk after merging", grouped(figures.device_requests)));
    if let (Some(cylinders), Some(share)) = (figures.mean_seek_cylinders, figures.seek_time_share) {
        device.push(format!("mean seek {} cylinders, {} of the time", three_digits(cylinders), percent(share)));
    }
    if let Some(cpu) = figures.scheduler_cpu_ns_per_request {
        device.push(format!("{} {} ns of processor time per request", printable(&record.scheduler.name), three_digits(cpu)));
    }
    out.sentence(&format!("{}.", device.join("; ")));
    if let Some(memory) = &figures.memory {
        out.sentence(&of_memory(memory));
    }
    if let Some(flash) = &figures.flash {
        out.sentence(&of_flash(flash));
    }
}

fn of_memory(memory: &MemoryFigures) -> String {
    let hits = memory
        .page_cache_hit_ratio
        .map_or_else(|| "no buffered I/O".to_owned(), |ratio| format!("{}% hits", three_digits(ratio * 100.0)));
    format!(
        "Page cache: {hits}; {} pages read ahead, {} of them unused; {} written back; writers throttled for {} s; {} swapped in, {} out.",
        grouped(memory.read_ahead_pages),
        grouped(memory.read_ahead_wasted_pages),
        grouped(memory.written_back_pages),
        three_digits(memory.throttled_s),
        grouped(memory.swapped_in_pages),
        grouped(memory.swapped_out_pages),
    )
}

fn of_flash(flash: &FlashFigures) -> String {
    let amplification = flash.write_amplification.map_or_else(|| MISSING.to_owned(), three_digits);
    let mapping = flash.mapping_hit_ratio.map_or_else(
        || "whole mapping table in memory".to_owned(),
        |ratio| format!("{}% hits in the cached mapping table", three_digits(ratio * 100.0)),
    );
    format!(
        "Flash: write amplification {amplification}; {mapping}; garbage collection took {} s of die time, {} pages moved, {} blocks erased.",
        three_digits(flash.collection_s),
        grouped(flash.pages_moved),
        grouped(flash.erases),
    )
}
