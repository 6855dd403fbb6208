//! The comparison as one self-contained HTML page: no network, no script.

use std::ops::Range;

use askama::Template;

use crate::comparison::{Comparison, settings};
use crate::explain;
use crate::gains;
use crate::number::{self, grouped, three_digits};
use crate::plot;
use crate::record::{Decision, Record, Replay, ResponseFigures};
use crate::tenants;
use crate::text::printable;
use crate::verdict::{self, Part};

/// Rows shown of a controller's table of decisions: the first.
const DECISION_ROWS: usize = 200;

/// Pixels for the columns of schedulers in a table of streams, on a screen of 1,280 pixels; of a column at least, and of a character of its
/// heading, which is broken at spaces only.
const STREAM_TABLE: f64 = 940.0;
const STREAM_COLUMN: f64 = 62.0;
const HEADING_CHARACTER: f64 = 6.8;
/// Rows shown of the table of streams: the busiest.
const STREAM_ROWS: usize = 50;

/// The page's text. The same records always give the same bytes.
pub fn html(comparison: &Comparison) -> String {
    let page = Page::new(comparison);
    #[expect(clippy::expect_used, reason = "the template formats strings only, and writing to a String does not fail")]
    page.render().expect("the page's template formats strings only")
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page {
    trace: String,
    disk: String,
    summary: String,
    parts: Vec<Part>,
    only_one: Option<String>,
    warnings: Vec<String>,
    headings: Vec<Heading>,
    rows: Vec<Row>,
    tenants: TenantsSection,
    control: ControlSection,
    plots: Plots,
    streams: StreamsSection,
    legend: Vec<Key>,
    setup: Setup,
}

/// Guarantees and service of tenants.
struct TenantsSection {
    parts: Vec<TenantsPart>,
    plots: Vec<plot::TenantPanels>,
}

/// Decisions of controllers.
struct ControlSection {
    /// Plots of the active settings over time.
    settings: Vec<String>,
    /// Plots of predicted and measured gains.
    gains: Vec<String>,
    controllers: Vec<DecisionsPart>,
}

/// Plots with all schedulers.
struct Plots {
    distribution: Vec<String>,
    throughput: Vec<String>,
    response: Vec<String>,
    order: Option<plot::Order>,
}

/// Response times and slowdown of single streams.
struct StreamsSection {
    plots: Vec<String>,
    has_slowdown: bool,
    tables: Vec<StreamTable>,
    left_out: usize,
}

/// The streams under some of the schedulers.
struct StreamTable {
    labels: Vec<String>,
    rows: Vec<StreamRow>,
}

/// Facts about the run, and secondary figures.
struct Setup {
    facts: Vec<Fact>,
    tunables: Vec<Fact>,
    more: Vec<MoreRow>,
}

struct Fact {
    name: String,
    value: String,
}

struct Heading {
    lines: [&'static str; 2],
    meaning: &'static str,
}

struct Row {
    label: String,
    classes: String,
    cells: Vec<Cell>,
}

struct Cell {
    text: String,
    best: bool,
}

struct Key {
    label: String,
    classes: String,
    mark: &'static str,
}

/// A controller's decisions.
struct DecisionsPart {
    label: String,
    summary: String,
    rows: Vec<DecisionRow>,
    left_out: u64,
}

struct DecisionRow {
    at: String,
    expected: String,
    measured: String,
    from: String,
    to: String,
    why: String,
}

/// Guarantees and service of the tenants in one run.
struct TenantsPart {
    label: String,
    headings: [&'static str; 9],
    rows: Vec<(String, Vec<String>)>,
    sentences: Vec<String>,
}

struct StreamRow {
    name: String,
    requests: String,
    /// Scheduler by scheduler, first the mean response times, then the slowdowns where any is known.
    cells: Vec<String>,
}

/// Secondary figures, without a column in the comparison.
struct MoreRow {
    label: String,
    cells: Vec<String>,
}

impl Page {
    fn new(comparison: &Comparison) -> Self {
        let records = comparison.records();
        let common = comparison.common();
        let figures = comparison.figures();
        Self {
            trace: printable(&common.trace.name),
            disk: printable(&common.disk.name),
            summary: summary(common),
            parts: verdict::parts(comparison),
            only_one: (records.len() == 1).then(|| printable(&common.scheduler.label)),
            warnings: verdict::not_settable(comparison).into_iter().chain(comparison.warnings().iter().cloned()).collect(),
            headings: figures.iter().map(|figure| Heading { lines: figure.heading, meaning: figure.meaning }).collect(),
            rows: rows(comparison),
            tenants: TenantsSection { parts: records.iter().filter_map(tenants_part).collect(), plots: plot::tenants(comparison) },
            control: ControlSection {
                settings: plot::in_force(comparison),
                gains: plot::kept_predictions(comparison),
                controllers: records.iter().filter_map(steered).collect(),
            },
            plots: Plots {
                distribution: plot::distribution(comparison).into_iter().chain(plot::tail(comparison)).collect(),
                throughput: plot::throughput_over_time(comparison),
                response: plot::response_over_time(comparison),
                order: plot::order(comparison),
            },
            streams: StreamsSection::new(comparison),
            legend: records.iter().enumerate().map(|(i, record)| key(i, record)).collect(),
            setup: Setup {
                facts: facts(common),
                tunables: records.iter().map(tunables).collect(),
                more: records.iter().map(more).collect(),
            },
        }
    }
}

impl StreamsSection {
    fn new(comparison: &Comparison) -> StreamsSection {
        let streams = plot::busiest(comparison, usize::MAX);
        let slowdown = plot::slowdown_dots(comparison);
        let has_slowdown = slowdown.is_some();
        let several = streams.len() > 1;
        let labels: Vec<String> = comparison.records().iter().map(|record| printable(&record.scheduler.label)).collect();
        let words = labels.iter().flat_map(|label| label.split(' '));
        let widest = words.map(|word| word.chars().count() as f64 * HEADING_CHARACTER + 16.0).fold(STREAM_COLUMN, f64::max);
        let columns = ((STREAM_TABLE / widest) as usize / if has_slowdown { 2 } else { 1 }).max(1);
        let starts = (0..labels.len()).step_by(columns).filter(|_| !streams.is_empty());
        let table = |start: usize| {
            let shown = start..(start + columns).min(labels.len());
            let rows = streams.iter().take(STREAM_ROWS).map(|stream| stream_row(stream, shown.clone(), has_slowdown));
            StreamTable { rows: rows.collect(), labels: labels[shown.clone()].to_vec() }
        };
        StreamsSection {
            tables: starts.map(table).collect(),
            left_out: streams.len().saturating_sub(STREAM_ROWS),
            plots: if several { slowdown.into_iter().chain(plot::response_dots(comparison)).collect() } else { Vec::new() },
            has_slowdown,
        }
    }
}

fn facts(record: &Record) -> Vec<Fact> {
    let Record { trace, disk, replay, .. } = record;
    let skipped = match trace.skipped_lines {
        0 => String::new(),
        lines => format!(", {} damaged lines skipped", grouped(lines)),
    };
    let mode = match replay.mode.as_str() {
        "open" => "open: requests arrive at their recorded times".to_owned(),
        "closed" => "closed: each request arrives its recorded think time after the completion its stream waited for".to_owned(),
        "jobs" => "jobs: processes issue requests, wait and think as in the job file".to_owned(),
        other => printable(other),
    };
    let fit = match replay.fit.as_str() {
        "exact" => String::new(),
        "compact" => "; unused areas of the address space were removed (--fit compact)".to_owned(),
        other => format!("; fit {}", printable(other)),
    };
    let speed = speed(replay);
    let capacity_gb = three_digits(disk.capacity_sectors as f64 * 512.0 / 1e9);
    let facts = [
        (
            "Trace",
            format!(
                "{}, read as {}{}{skipped}",
                printable(&trace.name),
                printable(&trace.format),
                trace.requests.map_or_else(String::new, |requests| format!(": {} requests", grouped(requests)))
            ),
        ),
        ("Trace’s SHA-256", printable(&trace.sha256)),
        (
            "Disk",
            format!(
                "{}: {}, {capacity_gb} GB, queue depth {}, queue policy {}",
                printable(&disk.name),
                printable(&disk.description),
                disk.queue_depth,
                printable(&disk.queue_policy)
            ),
        ),
        ("Disk profile’s SHA-256", printable(&disk.sha256)),
        ("Replay", format!("{mode}{speed}{fit}{}", replay.seed.map_or_else(String::new, |seed| format!("; seed {seed}")))),
        ("Host", settings(&replay.host)),
        ("Program", format!("seekwise {}", printable(&record.seekwise_version))),
    ];
    facts.into_iter().map(|(name, value)| Fact { name: name.to_owned(), value }).collect()
}

/// The facts needed to read the figures, on one line.
fn summary(record: &Record) -> String {
    let Record { trace, disk, replay, .. } = record;
    let requests = plural(trace.requests.unwrap_or(record.figures.response.requests), "request");
    let (speed, depth) = (speed(replay), disk.queue_depth);
    let mode = if replay.mode == "jobs" { "fio jobs".to_owned() } else { format!("{} replay", printable(&replay.mode)) };
    format!("{requests} · {mode}{speed} · disk queue depth {depth} · seekwise {}", printable(&record.seekwise_version))
}

fn speed(replay: &Replay) -> String {
    if replay.speed == 1.0 { String::new() } else { format!(", {} times as fast", number::short(replay.speed)) }
}

fn plural(count: impl Into<u64>, what: &str) -> String {
    match count.into() {
        1 => format!("1 {what}"),
        count => format!("{} {what}s", grouped(count)),
    }
}

fn rows(comparison: &Comparison) -> Vec<Row> {
    let figures: Vec<_> = comparison.figures().into_iter().map(|figure| (figure, comparison.best(figure))).collect();
    let row = |(i, record): (usize, &Record)| Row {
        label: printable(&record.scheduler.label),
        classes: plot::classes(i),
        cells: figures.iter().map(|(figure, best)| Cell { text: figure.text(record), best: best[i] }).collect(),
    };
    comparison.records().iter().enumerate().map(row).collect()
}

fn steered(record: &Record) -> Option<DecisionsPart> {
    let steering = record.steering.as_ref()?;
    let rows: Vec<DecisionRow> =
        steering.decisions.iter().filter(|decision| explain::is_news(decision)).take(DECISION_ROWS).map(decision_row).collect();
    let shown = steering.decisions.iter().filter(|decision| decision.is_change()).take(DECISION_ROWS).count() as u64;
    Some(DecisionsPart {
        label: printable(&record.scheduler.label),
        summary: explain::summary(steering),
        rows,
        left_out: steering.changes.saturating_sub(shown),
    })
}

fn tenants_part(record: &Record) -> Option<TenantsPart> {
    let tenancy = record.tenants.as_ref()?;
    let rows = tenants::shown(tenancy).into_iter().flat_map(|tenant| tenants::rows(tenancy, tenant));
    Some(TenantsPart {
        label: printable(&record.scheduler.label),
        headings: tenants::HEADINGS,
        rows: rows.map(|(name, cells)| (name, cells.to_vec())).collect(),
        sentences: tenants::sentences(tenancy),
    })
}

fn decision_row(decision: &Decision) -> DecisionRow {
    let shown = |percent: Option<f64>| percent.map_or_else(|| number::MISSING.to_owned(), explain::gain);
    let refused = decision.refused.as_ref().map_or_else(String::new, |reason| format!("; refused: {}", printable(reason)));
    DecisionRow {
        at: format!("{:.3}", decision.at_s),
        expected: decision.prediction().map_or_else(
            || shown(decision.expected_gain_percent),
            |prediction| gains::with_error(prediction.gain_percent, prediction.error_percent),
        ),
        measured: shown(decision.measured_gain_percent),
        from: printable(&decision.from),
        to: printable(&decision.to),
        why: format!("{}{refused}", printable(&decision.why)),
    }
}

fn key(i: usize, record: &Record) -> Key {
    Key { label: printable(&record.scheduler.label), classes: plot::classes(i), mark: plot::outline(i) }
}

/// The stream's cells under the schedulers at these places.
fn stream_row(stream: &plot::Stream, shown: Range<usize>, has_slowdown: bool) -> StreamRow {
    let text = |value: Option<f64>| value.map_or_else(|| number::MISSING.to_owned(), three_digits);
    let figures = &stream.figures[shown];
    let means = figures.iter().map(|figures| text(figures.map(|figures| figures.mean_ms)));
    let slowdowns = figures.iter().map(|figures| text(figures.and_then(|figures| figures.slowdown)));
    let cells = if has_slowdown { means.chain(slowdowns).collect() } else { means.collect() };
    StreamRow { name: stream.name.clone(), requests: grouped(stream.requests), cells }
}

fn more(record: &Record) -> MoreRow {
    let figures = &record.figures;
    let response = |response: &Option<ResponseFigures>, get: fn(&ResponseFigures) -> f64| {
        response.as_ref().map_or_else(|| number::MISSING.to_owned(), |response| three_digits(get(response)))
    };
    let cells = vec![
        three_digits(figures.duration_s),
        three_digits(figures.read_mb_s),
        three_digits(figures.write_mb_s),
        response(&figures.read_response, |response| response.mean_ms),
        response(&figures.read_response, |response| response.p99_ms),
        response(&figures.write_response, |response| response.mean_ms),
        response(&figures.write_response, |response| response.p99_ms),
        grouped(figures.device_requests),
        figures.sustainable_speed.map_or_else(|| number::MISSING.to_owned(), three_digits),
    ];
    MoreRow { label: printable(&record.scheduler.label), cells }
}

fn tunables(record: &Record) -> Fact {
    Fact { name: printable(&record.scheduler.label), value: settings(&record.scheduler.tunables) }
}
