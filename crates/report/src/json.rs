//! The comparison for programs: one JSON object, whose keys carry their units.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

use crate::comparison::Comparison;
use crate::figure;
use crate::record::{
    ControlRecord, DiskDigest, FlashFigures, JobsFigures, Kind, MemoryFigures, Record, Replay, ResponseFigures, SCHEMA,
    StreamFigures, Tenancy, TraceDigest, Value,
};
use crate::verdict::{self, NEGLIGIBLE_PERCENT, Preference, Ranked, Ranking};

/// Runs of one load on one disk under several schedulers and controllers.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "Compare")]
pub(crate) struct Output<'a> {
    /// Version of the layout.
    schema: u32,
    /// `compare`.
    #[schemars(extend("const" = "compare"))]
    kind: Kind,
    /// The program's version.
    seekwise_version: &'a str,
    /// The load.
    trace: &'a TraceDigest,
    /// The disk.
    disk: &'a DiskDigest,
    /// How the load was replayed.
    replay: &'a Replay,
    /// A row for each scheduler and controller, in the order in which they were listed.
    schedulers: Vec<Row<'a>>,
    /// The leader by each criterion.
    winners: Winners,
    /// The comparison in a sentence.
    verdict: String,
    /// Which of the winners today's Linux does not have, as a sentence; null if it has all.
    not_settable: Option<String>,
    /// Warnings about the figures, each a whole sentence.
    warnings: &'a [String],
}

/// A row: one run. Its keys are those of a record, of which the figures of the table are named as in its headings.
#[derive(Serialize, JsonSchema)]
struct Row<'a> {
    /// Keys of `figures` in which no other row is better.
    best: Vec<&'static str>,
    /// Requests at the device, after merging.
    device_requests: u64,
    /// From the first arrival to the last completion.
    duration_s: f64,
    /// The columns of the table.
    figures: Columns,
    /// Internals of a flash device; null for others.
    flash: Option<&'a FlashFigures>,
    /// Totals of a job file's groups; empty for a trace.
    groups: &'a [JobsFigures],
    /// Results of a job file's jobs in its order; empty for a trace.
    jobs: &'a [JobsFigures],
    /// The row's name: that of the scheduler or controller, and the tunables that were set.
    label: &'a str,
    /// The host's memory; null if requests bypass it, as in a block trace.
    memory: Option<&'a MemoryFigures>,
    /// The scheduler's or controller's name.
    name: &'a str,
    /// 10^6 bytes read per second.
    read_mb_s: f64,
    /// Reads; null if there are none.
    read_response: Option<&'a ResponseFigures>,
    /// The controller's decisions; null for a scheduler.
    steering: Option<&'a ControlRecord>,
    /// Results by stream, busiest first.
    streams: &'a [StreamFigures],
    /// For an open replay that the disk could not keep up with: the `speed` at which it would.
    sustainable_speed: Option<f64>,
    /// Calls of fsync; null if there are none.
    sync_response: Option<&'a ResponseFigures>,
    /// Guarantees and results of tenants; null if there are none.
    tenants: Option<&'a Tenancy>,
    /// All its tunables with their values.
    tunables: BTreeMap<&'a str, &'a Value>,
    /// The stream of the largest slowdown; null with fewer than two streams.
    worst_slowdown_stream: Option<u32>,
    /// 10^6 bytes written per second.
    write_mb_s: f64,
    /// Writes; null if there are none.
    write_response: Option<&'a ResponseFigures>,
}

/// The columns of the table, under their keys.
#[derive(Serialize)]
struct Columns(BTreeMap<&'static str, Option<f64>>);

impl JsonSchema for Columns {
    fn schema_name() -> Cow<'static, str> {
        "Columns".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        let column = |figure: &figure::Figure| json_schema!({"type": ["number", "null"], "description": figure.meaning});
        let columns: BTreeMap<_, _> = figure::ALL.iter().map(|figure| (figure.key, column(figure))).collect();
        let keys: Vec<&str> = columns.keys().copied().collect();
        json_schema!({
            "type": "object",
            "description": "The columns of the table; null where a run has no such figure.",
            "properties": columns,
            "required": keys,
        })
    }
}

/// The leader.
#[derive(Serialize, JsonSchema)]
struct Winners {
    /// By bytes per second.
    throughput: Option<Winner>,
    /// By mean response time.
    response_time: Option<Winner>,
    /// By fairness between streams.
    fairness: Option<Winner>,
}

/// The leader by one figure.
#[derive(Serialize, JsonSchema)]
struct Winner {
    /// The winner's label; null if there is none, because the best are too close.
    scheduler: Option<String>,
    /// Labels of the best and of all within `negligible_percent` of it.
    leaders: Vec<String>,
    /// The key of the figure, as in `figures`.
    figure: &'static str,
    /// Its best value.
    value: f64,
    /// The label of the second best.
    next: Option<String>,
    /// By how much the best is better than that.
    over_next_percent: Option<f64>,
    /// The label of the worst.
    worst: Option<String>,
    /// By how much the best is better than that.
    over_worst_percent: Option<f64>,
    /// Differences up to this are none.
    negligible_percent: f64,
}

/// The comparison as pretty JSON with a final newline. Unknown values are `null`, as is the winner of a preference for which no
/// record has the figure.
pub fn text(comparison: &Comparison) -> String {
    let common = comparison.common();
    let winner = |preference| Ranking::new(comparison, preference).map(|ranking| winner(&ranking));
    let output = Output {
        schema: SCHEMA,
        kind: Kind::Compare,
        seekwise_version: &common.seekwise_version,
        trace: &common.trace,
        disk: &common.disk,
        replay: &common.replay,
        schedulers: schedulers(comparison),
        winners: Winners {
            throughput: winner(Preference::Throughput),
            response_time: winner(Preference::ResponseTime),
            fairness: winner(Preference::Fairness),
        },
        verdict: verdict::sentence(comparison),
        not_settable: verdict::not_settable(comparison),
        warnings: comparison.warnings(),
    };
    #[expect(clippy::expect_used, reason = "numbers, strings and maps with string keys always have a JSON form")]
    let mut text = serde_json::to_string_pretty(&output).expect("plain data");
    text.push('\n');
    text
}

fn schedulers<'a>(comparison: &Comparison<'a>) -> Vec<Row<'a>> {
    let best: Vec<_> = figure::ALL.iter().map(|figure| (figure.key, comparison.best(figure))).collect();
    let row = |(row, record): (usize, &'a Record)| {
        let Record { scheduler, figures, .. } = record;
        Row {
            best: best.iter().filter(|(_, rows)| rows[row]).map(|(key, _)| *key).collect(),
            device_requests: figures.device_requests,
            duration_s: figures.duration_s,
            figures: Columns(figure::ALL.iter().map(|figure| (figure.key, figure.value(record))).collect()),
            flash: figures.flash.as_ref(),
            groups: &record.groups,
            jobs: &record.jobs,
            label: &scheduler.label,
            memory: figures.memory.as_ref(),
            name: &scheduler.name,
            read_mb_s: figures.read_mb_s,
            read_response: figures.read_response.as_ref(),
            steering: record.steering.as_ref(),
            streams: &record.streams,
            sustainable_speed: figures.sustainable_speed,
            sync_response: figures.sync_response.as_ref(),
            tenants: record.tenants.as_ref(),
            tunables: scheduler.tunables.iter().map(|(name, value)| (name.as_str(), value)).collect(),
            worst_slowdown_stream: figures.worst_slowdown_stream,
            write_mb_s: figures.write_mb_s,
            write_response: figures.write_response.as_ref(),
        }
    };
    comparison.records().iter().enumerate().map(row).collect()
}

fn winner(ranking: &Ranking) -> Winner {
    let label = |place: &Ranked| place.label.clone();
    let others = ranking.places.get(1..).unwrap_or_default();
    Winner {
        scheduler: ranking.winner().map(label),
        leaders: ranking.leaders().iter().map(label).collect(),
        figure: ranking.preference.figure().key,
        value: ranking.places.first().map_or(f64::NAN, |place| place.value),
        next: others.first().map(label),
        over_next_percent: others.first().and_then(|place| place.best_is_better_percent),
        worst: others.last().map(label),
        over_worst_percent: others.last().and_then(|place| place.best_is_better_percent),
        negligible_percent: NEGLIGIBLE_PERCENT,
    }
}
