//! One run as text: the load, response times, each stream's service, memory and device.

use crate::comparison::settings;
use crate::number::{MISSING, grouped, three_digits};
use crate::record::{FlashFigures, MemoryFigures, Record, ResponseFigures};
use crate::text::{printable, shortened, wrapped};

/// Number of streams shown: the busiest.
const STREAM_ROWS: usize = 20;
/// Longest name of a stream.
const NAME_WIDTH: usize = 32;

/// The run as text. `width` is the terminal's, in characters; `None`, for a pipe, keeps each sentence on one line.
pub fn text(record: &Record, width: Option<usize>) -> String {
    let mut out = Lines { text: String::new(), width: width.unwrap_or(usize::MAX).max(20) };
    let Record { trace, disk, scheduler, replay, .. } = record;
    out.sentence(&format!("{} on {} under {}", printable(&trace.name), printable(&disk.name), printable(&scheduler.label)));
    out.sentence(&printable(&disk.description));
    out.sentence(&format!("Host: {}", settings(&replay.host)));
    out.line("");
    responses(&mut out, record);
    if record.streams.len() > 1 {
        streams(&mut out, record);
    }
    what_went_on(&mut out, record);
    if let Some(steering) = &record.steering {
        let (label, summary) = (printable(&record.scheduler.label), crate::explain::summary(steering));
        out.sentence(&format!("{label}: {summary}."));
    }
    for warning in &record.warnings {
        out.sentence(&format!("Warning: {}", printable(warning)));
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
    const ROWS: [Row; 6] = [
        ("response time, mean ms", |response| response.mean_ms),
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

fn streams(out: &mut Lines, record: &Record) {
    let name = |stream: &crate::record::StreamFigures| {
        let name = stream.name.as_ref().map_or_else(|| format!("stream {}", stream.stream), |name| printable(name));
        shortened(&name, NAME_WIDTH)
    };
    let shown = &record.streams[..record.streams.len().min(STREAM_ROWS)];
    let width = shown.iter().map(|stream| name(stream).chars().count()).max().unwrap_or(0).max("stream".len());
    out.line(&format!("{:width$} {:>11} {:>9} {:>9} {:>9}", "stream", "requests", "MB/s", "mean ms", "p99 ms"));
    for stream in shown {
        let [throughput, mean, p99] = [stream.throughput_mb_s, stream.mean_ms, stream.p99_ms].map(three_digits);
        out.line(&format!("{:width$} {:>11} {throughput:>9} {mean:>9} {p99:>9}", name(stream), grouped(stream.requests)));
    }
    if record.streams.len() > STREAM_ROWS {
        out.line(&format!("and {} less busy ones", record.streams.len() - STREAM_ROWS));
    }
    out.line("");
}

fn what_went_on(out: &mut Lines, record: &Record) {
    let figures = &record.figures;
    let percent = |share: f64| format!("{}%", three_digits(share * 100.0));
    let mut device =
        vec![format!("Duration {} s, disk busy {}", three_digits(figures.duration_s), percent(figures.disk_utilisation))];
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
