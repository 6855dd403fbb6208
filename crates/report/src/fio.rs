//! One run of a job file in the form of fio's own report (`show_ddir_status` and its neighbours in fio 3.33's `stat.c`), for people and
//! scripts that read it.
//!
//! Figures that a simulation does not have are left out: process numbers, the date, processor shares, the lines that count batches. A
//! simulated process takes no time to submit, so `clat` and `lat` are the same; its percentiles are exact to 5%.

use crate::record::{DirectionFigures, JobsFigures, Record, ResponseFigures, ServiceFigures};
use crate::text::printable;

/// Characters of a rounded number, as in `57.1MiB` (fio's `unified significant figures`).
const DIGITS: usize = 4;
/// Characters of a shortest or longest response time.
const LATENCY_DIGITS: usize = 6;

/// The report as text; `None` if the load was not a job file.
pub fn text(record: &Record) -> Option<String> {
    if record.jobs.is_empty() {
        return None;
    }
    let mut out = String::new();
    for jobs in &record.jobs {
        job(&mut out, jobs);
    }
    for group in &record.groups {
        status(&mut out, group, &record.jobs);
    }
    Some(out)
}

fn job(out: &mut String, jobs: &JobsFigures) {
    out.push_str(&format!("{}: (groupid={}, jobs={}): err= 0\n", printable(&jobs.name), jobs.group, jobs.jobs));
    let service = &jobs.service;
    for (name, figures) in directions(service) {
        let Some(figures) = figures else { continue };
        let (binary, decimal, moved) = rates(figures, service);
        let resets = if name == "write" { "; 0 zone resets" } else { "" };
        let iops = number(figures.iops, DIGITS, 1000, "");
        out.push_str(&format!("  {name}: IOPS={iops}, BW={binary} ({decimal})({moved}/{}msec){resets}\n", milliseconds(service)));
        latency(out, "clat", &figures.response);
        latency(out, " lat", &figures.response);
        percentiles(out, "clat", &figures.response);
    }
    if let Some(syncs) = &service.syncs {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        latency(out, "sync", &syncs.response);
        percentiles(out, "sync", &syncs.response);
    }
    let total = |figures: &Option<DirectionFigures>| figures.as_ref().map_or(0, |figures| figures.response.requests);
    let [reads, writes, trims, syncs] = [&service.reads, &service.writes, &service.discards, &service.syncs].map(total);
    out.push_str(&format!("     issued rwts: total={reads},{writes},{trims},{syncs} short=0,0,0,0 dropped=0,0,0,0\n"));
}

/// A group's totals, and the lowest and highest throughput of its rows.
fn status(out: &mut String, group: &JobsFigures, jobs: &[JobsFigures]) {
    out.push_str(&format!("\nRun status group {} (all jobs):\n", group.group));
    let rows: Vec<&JobsFigures> = jobs.iter().filter(|jobs| jobs.group == group.group).collect();
    for (number, (name, figures)) in directions(&group.service).into_iter().enumerate() {
        let Some(figures) = figures else { continue };
        let rows = rows.iter().filter_map(|row| Some((&row.service, directions(&row.service)[number].1?)));
        let by_rate = |a: &(&ServiceFigures, &DirectionFigures), b: &(&ServiceFigures, &DirectionFigures)| {
            a.1.throughput_mb_s.total_cmp(&b.1.throughput_mb_s)
        };
        let (all, all_decimal, moved) = rates(figures, &group.service);
        let least = rows.clone().min_by(by_rate).map(|(service, figures)| rates(figures, service)).unwrap_or_default();
        let most = rows.clone().max_by(by_rate).map(|(service, figures)| rates(figures, service)).unwrap_or_default();
        let run = rows.map(|(service, _)| milliseconds(service));
        let (shortest, longest) = (run.clone().min().unwrap_or(0), run.max().unwrap_or(0));
        out.push_str(&format!(
            "{:>7}: bw={all} ({all_decimal}), {}-{} ({}-{}), io={moved} ({}), run={shortest}-{longest}msec\n",
            name.to_uppercase(),
            least.0,
            most.0,
            least.1,
            most.1,
            bytes(figures.bytes as f64, 1000, "B"),
        ));
    }
}

fn directions(service: &ServiceFigures) -> [(&'static str, Option<&DirectionFigures>); 3] {
    [("read", service.reads.as_ref()), ("write", service.writes.as_ref()), ("trim", service.discards.as_ref())]
}

/// Bytes per second in binary and in decimal units, and total bytes.
fn rates(figures: &DirectionFigures, service: &ServiceFigures) -> (String, String, String) {
    // fio divides by whole milliseconds.
    let rate = figures.bytes as f64 * 1000.0 / milliseconds(service) as f64;
    (bytes(rate, 1024, "B/s"), bytes(rate, 1000, "B/s"), bytes(figures.bytes as f64, 1024, "B"))
}

fn milliseconds(service: &ServiceFigures) -> u64 {
    ((service.duration_s * 1000.0).round() as u64).max(1)
}

fn bytes(value: f64, thousand: u64, unit: &str) -> String {
    number(value, DIGITS, thousand, unit)
}

/// fio's `num2str`: divided by a thousand until it fits, then with as many decimals as fit.
fn number(value: f64, digits: usize, thousand: u64, unit: &str) -> String {
    const PREFIXES: [&str; 6] = ["", "k", "M", "G", "T", "P"];
    let (mut whole, mut rest, mut prefix) = (value.max(0.0) as u64, None, 0);
    while whole.to_string().len() > digits && prefix + 1 < PREFIXES.len() {
        rest = Some(whole % thousand);
        whole /= thousand;
        prefix += 1;
    }
    let name = match (thousand, PREFIXES[prefix]) {
        (1024, "k") => "Ki".to_owned(),
        (1024, name) if !name.is_empty() => format!("{name}i"),
        (_, name) => name.to_owned(),
    };
    let value = whole as f64 + rest.map_or(0.0, |rest| rest as f64 / thousand as f64);
    let decimals = if rest.is_some() { digits.saturating_sub(whole.to_string().len() + 1) } else { 0 };
    format!("{value:.decimals$}{name}{unit}")
}

/// `display_lat`: in the largest unit that does not lose relevant digits.
fn latency(out: &mut String, name: &str, response: &ResponseFigures) {
    let ns = [response.min_ms, response.max_ms, response.mean_ms, response.stdev_ms].map(|ms| ms * 1e6);
    let (unit, per) = unit(ns[0] > 2e6 && ns[1] > 99_999_999.0 && ns[3] > 1e6, ns[0] > 2e3 && ns[1] > 99_999.0 && ns[3] > 1e3);
    let [min, max, mean, deviation] = ns.map(|value| value / per);
    let extreme = |value: f64| number(value, LATENCY_DIGITS, 1000, "");
    let (min, max) = (extreme(min), extreme(max));
    out.push_str(&format!("    {name} ({unit}): min={min}, max={max}, avg={mean:5.2}, stdev={deviation:5.2}\n"));
}

/// `show_clat_percentiles`, for the percentiles of a record.
fn percentiles(out: &mut String, name: &str, response: &ResponseFigures) {
    let shown = [(50.0, response.p50_ms), (95.0, response.p95_ms), (99.0, response.p99_ms), (99.9, response.p999_ms)];
    let ns = |ms: f64| ms * 1e6;
    let (least, most) = (ns(response.p50_ms), ns(response.p999_ms));
    let (unit, per) = unit(least > 2e6 && most > 99_999_999.0, least > 2e3 && most > 99_999.0);
    let width = ((most / per).max(1.0).log10() as usize + 1).max(5);
    let one = |(percent, ms): (f64, f64)| format!(" {percent:4.1}th=[{:>width$}]", (ns(ms) / per).ceil() as u64);
    out.push_str(&format!("    {name} percentiles ({unit}):\n     |{}\n", shown.map(one).join(",")));
}

/// A unit of time by name, and its nanoseconds.
fn unit(is_milliseconds: bool, is_microseconds: bool) -> (&'static str, f64) {
    match (is_milliseconds, is_microseconds) {
        (true, _) => ("msec", 1e6),
        (false, true) => ("usec", 1e3),
        (false, false) => ("nsec", 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shortened_as_fio_shortens_them() {
        // As printed by fio 3.33.
        let cases = [
            (number(14_628.0, 4, 1000, ""), "14.6k"),
            (number(156_574.0, 4, 1000, ""), "157k"),
            (number(1766.0, 4, 1000, ""), "1766"),
            (number(59_918_000.0, 4, 1000, "B/s"), "59.9MB/s"),
            (number(59_918_629.0, 4, 1024, "B/s"), "57.1MiB/s"),
            (number(8_388_608.0, 4, 1024, "B"), "8192KiB"),
            (number(512.0, 4, 1024, "B"), "512B"),
            (number(12_264_000.0, 6, 1000, ""), "12264k"),
            (number(99_999.0, 6, 1000, ""), "99999"),
        ];
        for (shown, expected) in cases {
            assert_eq!(shown, expected);
        }
    }
}
