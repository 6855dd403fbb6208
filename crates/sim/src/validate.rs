//! Compares a disk model with measurements of the real drive.
//!
//! A measured trace lists requests, the drive's response time of each and the pause after it. The model gets the same requests one
//! at a time, each after the recorded pause from the previous completion *in the model*. The demerit figure (Ruemmler and Wilkes
//! 1994) is the root mean square horizontal distance between the two distributions of response times; the bins are those of
//! DiskSim's `rms.c`, so the figures are comparable with its own. It compares only distributions; the error per request and the
//! signed error of the mean are computed as well.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use block::{Nanos, Op, Priority, Request};
use statistics::Rank;

use crate::device::Device;

/// Minimum number of requests of a measured trace.
const MIN_REQUESTS: usize = 100;

/// An invalid measured trace: file, line, problem and remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidateError(String);

impl fmt::Display for ValidateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for ValidateError {}

/// A request and its measured response time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MeasuredRequest {
    /// First 512-byte sector.
    pub lba: u64,
    /// Number of sectors.
    pub sectors: u32,
    /// Read or write.
    pub op: Op,
    /// The drive's response time in ms.
    pub response_ms: f64,
    /// Pause from its completion to the next request.
    pub think: Nanos,
}

/// Differences between model and drive. Times are in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseComparison {
    /// Number of requests compared.
    pub requests: usize,
    /// Root mean square distance of the distributions.
    pub demerit_ms: f64,
    /// `demerit_ms` as a percentage of the measured mean; 0 if that mean is 0.
    pub demerit_percent: f64,
    /// The model's mean minus the drive's: positive if the model is too slow.
    pub mean_error_ms: f64,
    /// Root mean square of the differences per request.
    pub per_request_rms_ms: f64,
    /// Response times of the drive.
    pub measured: ResponseSummary,
    /// Response times of the model.
    pub simulated: ResponseSummary,
}

/// Statistics of response times, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResponseSummary {
    /// Mean.
    pub mean_ms: f64,
    /// Median.
    pub p50_ms: f64,
    /// 95th percentile.
    pub p95_ms: f64,
    /// 99th percentile.
    pub p99_ms: f64,
    /// Maximum.
    pub max_ms: f64,
}

/// Comparisons for all requests, and for reads and writes separately. The model is rated by the worse of the two: over all
/// requests, reads that are too slow and writes that are too fast would cancel each other out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Validation {
    /// All requests.
    pub all: ResponseComparison,
    /// Reads; zero requests if there are none.
    pub reads: ResponseComparison,
    /// Writes; zero requests if there are none.
    pub writes: ResponseComparison,
}

impl Validation {
    /// The operation with the larger demerit, and its comparison; if the trace has only one operation, that one.
    pub fn worse(&self) -> (Op, &ResponseComparison) {
        if self.writes.demerit_ms > self.reads.demerit_ms || self.reads.requests == 0 {
            (Op::Write, &self.writes)
        } else {
            (Op::Read, &self.reads)
        }
    }
}

/// Maximum length of a measured trace, whose requests are kept in memory; each line takes a few dozen bytes.
const MAX_BYTES: u64 = 256 << 20;

/// Reads a measured trace: CSV with a header that has at least the columns `lba`, `size_blocks`, `is_read`, `measured_response_ms`
/// and `think_after_ms`. There must be at least 100 requests, all within the disk, in at most 256 MiB.
///
/// # Errors
/// The file cannot be read or is invalid; the message names file, line and column.
pub fn read_measured(path: &Path, capacity_sectors: u64) -> Result<Vec<MeasuredRequest>, ValidateError> {
    let file = File::open(path).map_err(|error| ValidateError(format!("{}: {error}", path.display())))?;
    read_at_most(MAX_BYTES, file, path, capacity_sectors)
}

/// Reads at most `most` bytes, which bounds memory for a file without line breaks or without end.
fn read_at_most(most: u64, open: impl Read, path: &Path, capacity_sectors: u64) -> Result<Vec<MeasuredRequest>, ValidateError> {
    let file = path.display();
    let mut reader = BufReader::new(open.take(most + 1));
    let requests = requests(&mut reader, capacity_sectors);
    if reader.get_ref().limit() == 0 {
        return Err(ValidateError(format!("{file}: is longer than {} MiB; cut it into parts", most >> 20)));
    }
    let requests = requests.map_err(|(line, error)| ValidateError(format!("{file}:{line}: {error}")))?;
    if requests.len() < MIN_REQUESTS {
        return Err(ValidateError(format!("{file}: {} requests; at least {MIN_REQUESTS} are needed", requests.len())));
    }
    Ok(requests)
}

/// All requests. An error comes with its line.
fn requests(reader: &mut impl BufRead, capacity_sectors: u64) -> Result<Vec<MeasuredRequest>, (u64, String)> {
    let (mut columns, mut requests) = (None, Vec::new());
    for (line, number) in reader.lines().zip(1_u64..) {
        let located = |error: String| (number, error);
        let line = line.map_err(|error| located(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
        let fields = trace::csv_fields(&line).map_err(located)?;
        match columns {
            None => columns = Some(measured_columns(&fields).map_err(located)?),
            Some(columns) => requests.push(measured(&fields, columns, capacity_sectors).map_err(located)?),
        }
    }
    if columns.is_none() {
        measured_columns(&[]).map_err(|error| (1, error))?;
    }
    Ok(requests)
}

/// The places of the columns in the header.
fn measured_columns(header: &[&str]) -> Result<[usize; 5], String> {
    let column = |name: &str| {
        let place = header.iter().position(|column| *column == name);
        place.ok_or_else(|| format!("the column `{name}` is missing"))
    };
    Ok([column("lba")?, column("size_blocks")?, column("is_read")?, column("measured_response_ms")?, column("think_after_ms")?])
}

fn measured(record: &[&str], columns: [usize; 5], capacity: u64) -> Result<MeasuredRequest, String> {
    let text = |index: usize, name: &str| record.get(columns[index]).copied().ok_or_else(|| format!("{name}: is missing"));
    let whole = |index: usize, name: &str| {
        let text = text(index, name)?;
        text.parse::<u64>().map_err(|_| format!("{name}: `{text}` is not a whole number"))
    };
    let millis = |index: usize, name: &str| {
        let text = text(index, name)?;
        let value = text.parse::<f64>().ok().filter(|value| (0.0..=1e9).contains(value));
        value.ok_or_else(|| format!("{name}: `{text}` is not a time within 0 to 1e9 ms"))
    };
    let lba = whole(0, "lba")?;
    let size = whole(1, "size_blocks")?;
    let sectors = u32::try_from(size).ok().filter(|&sectors| sectors > 0);
    let sectors = sectors.ok_or_else(|| format!("size_blocks: {size} is not within 1 to {}", u32::MAX))?;
    if lba.checked_add(size).is_none_or(|end| end > capacity) {
        return Err(format!("lba: {lba} and {size} sectors end beyond the disk, which has {capacity}"));
    }
    let op = match text(2, "is_read")? {
        "1" => Op::Read,
        "0" => Op::Write,
        other => return Err(format!("is_read: `{other}` is neither 0 nor 1")),
    };
    let think = Nanos::from_millis_f64(millis(4, "think_after_ms")?);
    Ok(MeasuredRequest { lba, sectors, op, response_ms: millis(3, "measured_response_ms")?, think })
}

/// Replays the requests one at a time. Returns the model's response times in ms, or `None` if `stop`, called before each request
/// with its index, returned true.
pub fn replay(device: &mut dyn Device, requests: &[MeasuredRequest], mut stop: impl FnMut(usize) -> bool) -> Option<Vec<f64>> {
    let mut now = Nanos::ZERO;
    let mut done = Vec::with_capacity(1);
    let mut responses = Vec::with_capacity(requests.len());
    for (index, measured) in requests.iter().enumerate() {
        if stop(index) {
            return None;
        }
        let request = Request {
            id: 0,
            stream: 0,
            op: measured.op,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: measured.sectors,
            lba: measured.lba,
            arrival: now,
        };
        device.advance(now, &mut done);
        device.submit(now, &request);
        let issued = now;
        done.clear();
        while done.is_empty() {
            // A device with a request always has a wake-up time.
            now = device.wake_at()?;
            device.advance(now, &mut done);
        }
        responses.push((now - issued).as_millis_f64());
        done.clear();
        now += measured.think;
    }
    Some(responses)
}

/// Compares the model's response times with the drive's.
pub fn compare(requests: &[MeasuredRequest], simulated: &[f64]) -> Validation {
    let of = |wanted: Option<Op>| {
        let pairs = requests.iter().zip(simulated).filter(|(request, _)| wanted.is_none_or(|op| request.op == op));
        let (measured, simulated): (Vec<f64>, Vec<f64>) = pairs.map(|(request, &time)| (request.response_ms, time)).unzip();
        comparison(measured, simulated)
    };
    Validation { all: of(None), reads: of(Some(Op::Read)), writes: of(Some(Op::Write)) }
}

fn comparison(mut measured: Vec<f64>, mut simulated: Vec<f64>) -> ResponseComparison {
    if measured.is_empty() {
        return ResponseComparison::default();
    }
    let squares: f64 = measured.iter().zip(&simulated).map(|(m, s)| (m - s) * (m - s)).sum();
    let per_request_rms_ms = (squares / measured.len() as f64).sqrt();
    measured.sort_by(f64::total_cmp);
    simulated.sort_by(f64::total_cmp);
    let demerit_ms = demerit(&measured, &simulated);
    let (measured, simulated, requests) = (summary(&measured), summary(&simulated), measured.len());
    let demerit_percent = if measured.mean_ms > 0.0 { 100.0 * demerit_ms / measured.mean_ms } else { 0.0 };
    let mean_error_ms = simulated.mean_ms - measured.mean_ms;
    ResponseComparison { requests, demerit_ms, demerit_percent, mean_error_ms, per_request_rms_ms, measured, simulated }
}

/// Root mean square distance of the distributions at the cumulative shares 0.0001, 0.0002, … 1.
fn demerit(measured: &[f64], simulated: &[f64]) -> f64 {
    const SHARES: usize = 10_000;
    let (measured, simulated) = (times_at_shares(measured, SHARES), times_at_shares(simulated, SHARES));
    let squares: f64 = measured.iter().zip(&simulated).map(|(m, s)| (m - s) * (m - s)).sum();
    (squares / SHARES as f64).sqrt()
}

/// The times at which the cumulative distribution of `sorted` reaches 1/shares, 2/shares, … 1, interpolated linearly within bins,
/// of which the first is 1 µs wide and each next one 1% wider.
fn times_at_shares(sorted: &[f64], shares: usize) -> Vec<f64> {
    let mut times = Vec::with_capacity(shares);
    let (mut lower, mut upper, mut width) = (0.0, 0.001, 0.001);
    let mut below = 0;
    while times.len() < shares {
        let at_most = below + sorted[below..].partition_point(|&time| time <= upper);
        while times.len() < shares && (times.len() + 1) * sorted.len() <= at_most * shares {
            let wanted = (times.len() + 1) as f64 / shares as f64 * sorted.len() as f64;
            let part = (wanted - below as f64) / (at_most - below).max(1) as f64;
            times.push(lower + part.clamp(0.0, 1.0) * (upper - lower));
        }
        below = at_most;
        lower = upper;
        width *= 1.01;
        upper += width;
    }
    times
}

fn summary(sorted: &[f64]) -> ResponseSummary {
    let len = sorted.len();
    let at = |share: f64| Rank::Inverse.of_sorted(sorted, share).unwrap_or(0.0);
    ResponseSummary {
        mean_ms: statistics::mean(sorted.iter().copied()).unwrap_or(0.0),
        p50_ms: at(0.5),
        p95_ms: at(0.95),
        p99_ms: at(0.99),
        max_ms: sorted[len - 1],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measured_trace_that_is_too_long_is_refused_and_not_cut() {
        let line = "8,8,1,5.25,0.50\n";
        let text = format!("lba,size_blocks,is_read,measured_response_ms,think_after_ms\n{}", line.repeat(200));
        let read = |most: usize| read_at_most(most as u64, text.as_bytes(), Path::new("m.csv"), 1000);
        assert_eq!(read(text.len()).map(|requests| requests.len()), Ok(200));
        // At the end of a line, and within its last number.
        for fewer in [line.len(), 1, 2] {
            let error = read(text.len() - fewer).expect_err("too long");
            assert!(error.to_string().contains("m.csv: is longer than"), "{error}");
        }
    }

    #[test]
    fn reads_that_are_too_slow_do_not_make_up_for_writes_that_are_too_fast() {
        // Reads take 1 to 2 ms and writes 2 to 3 ms on the drive; in the model it is the other way round.
        let request = |index: u32| {
            let op = if index.is_multiple_of(2) { Op::Read } else { Op::Write };
            let response_ms = f64::from(index) / 1000.0 + if op == Op::Read { 1.0 } else { 2.0 };
            MeasuredRequest { lba: 0, sectors: 1, op, response_ms, think: Nanos::ZERO }
        };
        let requests: Vec<MeasuredRequest> = (0..1000).map(request).collect();
        let swapped: Vec<f64> =
            requests.iter().map(|request| request.response_ms + if request.op == Op::Read { 1.0 } else { -1.001 }).collect();
        let validation = compare(&requests, &swapped);
        assert!(validation.all.demerit_ms < 0.01, "{}", validation.all.demerit_ms);
        let (op, worse) = validation.worse();
        assert_eq!(op, Op::Write);
        assert!((worse.demerit_ms - 1.001).abs() < 0.02, "{}", worse.demerit_ms);
        assert!((validation.reads.mean_error_ms - 1.0).abs() < 1e-9 && (worse.mean_error_ms + 1.001).abs() < 1e-9);
    }
}
