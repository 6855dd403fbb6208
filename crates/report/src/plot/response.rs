//! Response times: their distribution, and their course over time.

use super::panel::{Axis, Mark, Panel};
use super::scale::Scale;
use super::{COLOURS, HALF, SMALL, binned, classes, label, outline, percent, stride, time_axis};
use crate::comparison::Comparison;
use crate::number::{self, three_digits};
use crate::record::{Record, ResponseFigures};

/// Maximum number of points of a distribution; more would not be visible.
const POINTS: usize = 2000;

/// A percentile marked on the curves: its name, its share of requests, and its field in the record.
type Percentile = (&'static str, f64, fn(&ResponseFigures) -> f64);

/// Share of requests done within each response time.
pub(crate) fn distribution(comparison: &Comparison) -> Option<String> {
    let x = response_axis(comparison.records())?;
    let y = Axis { scale: Scale::from_zero([1.0].into_iter())?, title: "share of requests", tick: percent };
    let marks: [Percentile; 2] = [("median", 0.5, |figures| figures.p50_ms), ("p99", 0.99, |figures| figures.p99_ms)];
    Some(curves(comparison, (&x, &y), |share| share, marks, ["Done within", "Cumulative distribution of response times"]))
}

/// Share of requests that took longer than each response time: shows the tail, which is flat at the top of the other plot.
pub(crate) fn tail(comparison: &Comparison) -> Option<String> {
    let records = comparison.records();
    let x = response_axis(records)?;
    let most = records.iter().map(|record| record.figures.response.requests).max().unwrap_or(0).clamp(1000, 1_000_000);
    let y = Axis { scale: Scale::log([1.0, 1.0 / most as f64].into_iter())?, title: "share of requests", tick: percent };
    let marks: [Percentile; 2] = [("p99", 0.01, |figures| figures.p99_ms), ("p99.9", 0.001, |figures| figures.p999_ms)];
    let words = ["Longer than", "Share of requests that took longer than a response time"];
    Some(curves(comparison, (&x, &y), |share| 1.0 - share, marks, words))
}

fn response_axis(records: &[Record]) -> Option<Axis> {
    let times = records.iter().flat_map(|record| record.curves.response_cdf.iter().map(|point| point.0));
    Some(Axis { scale: Scale::log(times)?, title: "response time, ms (logarithmic)", tick: number::short })
}

fn curves(
    comparison: &Comparison,
    (x, y): (&Axis, &Axis),
    share: fn(f64) -> f64,
    marks: [Percentile; 2],
    [name, description]: [&str; 2],
) -> String {
    let mut panel = Panel::new(HALF, x, Some(y));
    // A logarithmic axis has no zero, such as the tail's last point, where no request took longer.
    let has_place = |&(time, share): &(f64, f64)| time > 0.0 && (share > 0.0 || !y.scale.is_log());
    for (i, record) in comparison.records().iter().enumerate() {
        let cdf = &record.curves.response_cdf;
        let stride = stride(cdf.len(), POINTS);
        // The last point, the longest response time, is always part of the curve.
        let points = cdf.iter().step_by(stride).chain(cdf.last());
        let shown = steps(points.copied()).map(|(time, below)| (time, share(below))).filter(has_place);
        panel.line(&classes(i), shown.map(Some), &label(record));
    }
    // After all curves, so that none crosses a label or a mark. Distributions all end in the same line, so that only tails have labels.
    for (i, record) in comparison.records().iter().enumerate().filter(|_| y.scale.is_log()) {
        let from_end = record.curves.response_cdf.iter().rev().map(|&(time, below)| (time, share(below)));
        if let Some(end) = from_end.into_iter().find(has_place) {
            panel.label_end(&classes(i), end, &label(record));
        }
    }
    for (i, record) in comparison.records().iter().enumerate() {
        for (percentile, share, get) in marks {
            let value = get(&record.figures.response);
            let tip = format!("{}: {percentile} {} ms", label(record), three_digits(value));
            panel.mark(&Mark { class: classes(i), outline: outline(i), value, tip }, share);
        }
    }
    let response = |record: &Record| {
        let figures = &record.figures.response;
        format!("{}: median {} ms, p99 {} ms", label(record), three_digits(figures.p50_ms), three_digits(figures.p99_ms))
    };
    let schedulers: Vec<String> = comparison.records().iter().map(response).collect();
    panel.finish("", name, "", &format!("{description}. {}.", schedulers.join("; ")))
}

/// The corners of a cumulative distribution: it rises at each response time by the share of requests that took as long, and is level between
/// them. A slope would show requests where there are none, and a median in the middle of a step would be off the curve.
fn steps(points: impl Iterator<Item = (f64, f64)>) -> impl Iterator<Item = (f64, f64)> {
    let mut before = 0.0;
    points.flat_map(move |(time, below)| {
        let foot = (time, before);
        before = below;
        [foot, (time, below)]
    })
}

/// One panel per scheduler, all with the same axes: mean and maximum response times, bin by bin.
pub(crate) fn over_time(comparison: &Comparison) -> Vec<String> {
    let records = comparison.records();
    let positive = |value: &f64| *value > 0.0;
    let means = records.iter().flat_map(|record| record.curves.response_mean_ms.iter().flatten().copied()).filter(positive);
    let longest = records.iter().flat_map(|record| record.curves.response_max_ms.iter().flatten().copied());
    let (Some(x), Some(scale)) = (time_axis(records), Scale::log(means.chain(longest))) else { return Vec::new() };
    let y = Axis { scale, title: "response time, ms (logarithmic)", tick: number::short };
    let panel = |(i, record): (usize, &Record)| {
        let curves = &record.curves;
        let mut panel = Panel::new(SMALL, &x, Some(&y));
        let max = |bin: &[Option<f64>]| bin.iter().flatten().copied().max_by(f64::total_cmp);
        panel.line(&format!("c{} max", i % COLOURS), binned(&curves.response_max_ms, curves.bin_s, max).into_iter(), "longest");
        panel.line(&format!("c{}", i % COLOURS), binned(&curves.response_mean_ms, curves.bin_s, mean).into_iter(), "mean");
        let response = &record.figures.response;
        let note = format!("mean {}, max {} ms", three_digits(response.mean_ms), three_digits(response.max_ms));
        panel.finish(&classes(i), &label(record), &note, &format!("Response time over time under {}: {note}.", label(record)))
    };
    records.iter().enumerate().map(panel).collect()
}

/// The mean of the bins' means: the number of requests per bin is not known here.
fn mean(bin: &[Option<f64>]) -> Option<f64> {
    statistics::mean(bin.iter().flatten().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_distribution_rises_in_steps_on_which_its_quantiles_lie() {
        let corners: Vec<(f64, f64)> = steps([(0.1, 0.04), (8.0, 0.96), (20.0, 1.0)].into_iter()).collect();
        assert_eq!(corners, [(0.1, 0.0), (0.1, 0.04), (8.0, 0.04), (8.0, 0.96), (20.0, 0.96), (20.0, 1.0)]);
        // The median is 8 ms: half of the requests is within the step there.
        let at_median: Vec<f64> = corners.iter().filter(|corner| corner.0 == 8.0).map(|corner| corner.1).collect();
        assert!(at_median[0] < 0.5 && at_median[1] > 0.5);
    }
}
