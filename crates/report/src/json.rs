//! The comparison for programs: one JSON object, whose keys carry their units.

use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::comparison::Comparison;
use crate::record::{DiskDigest, Replay, TraceDigest};
use crate::verdict::{self, NEGLIGIBLE_PERCENT, Preference, Ranked, Ranking};

/// The version of this output's layout.
pub const SCHEMA: u32 = 4;

#[derive(Serialize)]
struct Output<'a> {
    schema: u32,
    seekwise_version: &'a str,
    trace: &'a TraceDigest,
    disk: &'a DiskDigest,
    replay: &'a Replay,
    schedulers: Vec<Value>,
    winners: Winners,
    verdict: String,
    not_settable: Option<String>,
    warnings: &'a [String],
}

#[derive(Serialize)]
struct Winners {
    throughput: Option<Winner>,
    response_time: Option<Winner>,
    fairness: Option<Winner>,
}

/// `scheduler` is null if there is no winner: then `leaders` are the best and all within `negligible_percent` of it.
#[derive(Serialize)]
struct Winner {
    scheduler: Option<String>,
    leaders: Vec<String>,
    figure: &'static str,
    value: f64,
    next: Option<String>,
    over_next_percent: Option<f64>,
    worst: Option<String>,
    over_worst_percent: Option<f64>,
    negligible_percent: f64,
}

/// The comparison as pretty JSON with a final newline. Unknown values are `null`, as is the winner of a preference for which no
/// record has the figure.
pub fn text(comparison: &Comparison) -> String {
    let common = comparison.common();
    let winner = |preference| Ranking::new(comparison, preference).map(|ranking| winner(&ranking));
    let output = Output {
        schema: SCHEMA,
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

fn schedulers(comparison: &Comparison) -> Vec<Value> {
    let best: Vec<_> = crate::figure::ALL.iter().map(|figure| (figure.key, comparison.best(figure))).collect();
    let scheduler = |(row, record): (usize, &crate::record::Record)| {
        let tunables: Map<String, Value> =
            record.scheduler.tunables.iter().map(|(name, value)| (name.clone(), serde_json::json!(value))).collect();
        let best: Vec<&str> = best.iter().filter(|(_, rows)| rows[row]).map(|(key, _)| *key).collect();
        let columns: Map<String, Value> =
            crate::figure::ALL.iter().map(|figure| (figure.key.to_owned(), figure.value(record).into())).collect();
        json!({
            "label": record.scheduler.label,
            "name": record.scheduler.name,
            "tunables": tunables,
            "steering": record.steering,
            "figures": columns,
            "duration_s": record.figures.duration_s,
            "read_mb_s": record.figures.read_mb_s,
            "write_mb_s": record.figures.write_mb_s,
            "read_response": record.figures.read_response,
            "write_response": record.figures.write_response,
            "sync_response": record.figures.sync_response,
            "worst_slowdown_stream": record.figures.worst_slowdown_stream,
            "device_requests": record.figures.device_requests,
            "sustainable_speed": record.figures.sustainable_speed,
            "flash": record.figures.flash,
            "memory": record.figures.memory,
            "streams": record.streams,
            "jobs": record.jobs,
            "groups": record.groups,
            "tenants": record.tenants,
            "best": best,
        })
    };
    comparison.records().iter().enumerate().map(scheduler).collect()
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
