//! Streams that a scheduler starves: they get far less service, or wait far longer, than under the other schedulers of the
//! comparison.

use statistics::median;

use crate::number::{grouped, three_digits};
use crate::record::{Record, StreamFigures};
use crate::text::printable;

/// A stream starves if it completes fewer requests than this share of its requests in the median of the others.
const SHARE: f64 = 0.1;
/// Or if its p99 response time exceeds this multiple of theirs, and [`LEAST_BOUND_MS`]: the bound of `observe::merit`.
const BOUND_FACTOR: f64 = 4.0;
/// Minimum p99 response time in ms of a starved stream; see [`BOUND_FACTOR`].
const LEAST_BOUND_MS: f64 = 1000.0;
/// Minimum median number of requests under the other schedulers for a stream to be judged.
const LEAST_REQUESTS: f64 = 20.0;
/// Maximum number of starved streams to name.
const NAMED: usize = 3;

/// The service of a stream under one scheduler.
#[derive(Clone, Copy)]
struct Got {
    /// Requests and fsyncs.
    requests: f64,
    p99_ms: f64,
}

impl Got {
    fn of(figures: &StreamFigures) -> Got {
        let syncs = figures.service.syncs.as_ref();
        Got {
            requests: (figures.requests + syncs.map_or(0, |syncs| syncs.response.requests)) as f64,
            p99_ms: syncs.map_or(0.0, |syncs| syncs.response.p99_ms).max(figures.p99_ms),
        }
    }
}

/// For each record, in their order, one sentence about the streams that starve under it; `None` if none does. With fewer than two
/// records there is nothing to compare with.
pub fn sentences(records: &[Record]) -> Vec<Option<String>> {
    records.iter().enumerate().map(|(row, record)| sentence(records, row, record)).collect()
}

fn sentence(records: &[Record], row: usize, record: &Record) -> Option<String> {
    let others: Vec<&Record> = records.iter().enumerate().filter(|(other, _)| *other != row).map(|(_, other)| other).collect();
    let mut starved: Vec<String> = Vec::new();
    let mut streams: Vec<&StreamFigures> = others.iter().flat_map(|other| &other.streams).collect();
    streams.sort_by_key(|stream| stream.stream);
    streams.dedup_by_key(|stream| stream.stream);
    for stream in streams {
        let find = |record: &Record| record.streams.iter().find(|other| other.stream == stream.stream).map(Got::of);
        let usual: Vec<Got> = others.iter().filter_map(|other| find(other)).collect();
        let requests = median(others.iter().map(|other| find(other).map_or(0.0, |got| got.requests))).unwrap_or(0.0);
        let p99_ms = median(usual.iter().map(|got| got.p99_ms)).unwrap_or(0.0);
        if requests < LEAST_REQUESTS {
            continue;
        }
        let name = stream.name.as_deref().map_or_else(|| format!("stream {}", stream.stream), printable);
        let usually = format!("{} and {} ms in the median of the others", grouped(requests as u64), three_digits(p99_ms));
        match find(record) {
            None => starved.push(format!("{name} (no request; {usually})")),
            Some(got) if got.requests < SHARE * requests || got.p99_ms > (BOUND_FACTOR * p99_ms).max(LEAST_BOUND_MS) => {
                let s = if got.requests == 1.0 { "" } else { "s" };
                let p99 = three_digits(got.p99_ms);
                starved.push(format!("{name} ({} request{s}, p99 {p99} ms; {usually})", grouped(got.requests as u64)));
            }
            Some(_) => {}
        }
    }
    let more = starved.len().saturating_sub(NAMED);
    let last = if more > 0 { format!(" and {more} more") } else { String::new() };
    starved.truncate(NAMED);
    (!starved.is_empty()).then(|| format!("{} starves {}{last}.", printable(&record.scheduler.label), starved.join(", ")))
}
