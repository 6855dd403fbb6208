//! Throughput over time.

use super::panel::{Axis, Panel};
use super::scale::Scale;
use super::{COLOURS, SMALL, binned, classes, label, time_axis};
use crate::comparison::Comparison;
use crate::number::{self, three_digits};
use crate::record::Record;

/// The other schedulers' curves are in the page once and shown behind each panel's own.
const OTHERS: &str = "throughput-of-all";

/// One panel per scheduler, all with the same axes, with the other schedulers' curves behind in grey.
pub(crate) fn over_time(comparison: &Comparison) -> Vec<String> {
    let records = comparison.records();
    let values = records.iter().flat_map(|record| curve(record).into_iter().flatten().map(|point| point.1));
    let (Some(x), Some(scale)) = (time_axis(records), Scale::from_zero(values)) else { return Vec::new() };
    let y = Axis { scale, title: "throughput, MB/s", tick: number::short };
    let frame = Panel::new(SMALL, &x, Some(&y));
    let all: String = records.iter().map(|record| frame.line_path(curve(record).into_iter())).collect();
    let panel = |(i, record): (usize, &Record)| {
        let mut panel = Panel::new(SMALL, &x, Some(&y));
        match i {
            0 => panel.raw(&format!(r#"<path id="{OTHERS}" class="others" d="{all}"/>"#)),
            _ => panel.raw(&format!(r##"<use href="#{OTHERS}"/>"##)),
        }
        panel.line(&format!("c{}", i % COLOURS), curve(record).into_iter(), "");
        let note = format!("{} MB/s", three_digits(record.figures.throughput_mb_s));
        panel.finish(&classes(i), &label(record), &note, &format!("Throughput over time under {}: {note} overall.", label(record)))
    };
    records.iter().enumerate().map(panel).collect()
}

fn curve(record: &Record) -> Vec<Option<(f64, f64)>> {
    let mean = |bin: &[f64]| statistics::mean(bin.iter().copied());
    binned(&record.curves.throughput_mb_s, record.curves.bin_s, mean)
}
