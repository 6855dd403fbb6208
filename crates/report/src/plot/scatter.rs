//! Requests by address and time, which shows the arm's path as a pattern.

use super::panel::{Axis, Panel};
use super::scale::Scale;
use super::{SMALL, classes, label, stride, time_axis};
use crate::comparison::Comparison;
use crate::number::{self, three_digits};
use crate::record::{Record, SamplePoint};

/// Total number of dots in all panels, which keeps the page small for any number of schedulers.
const DOTS: usize = 24_000;
const SECTOR_BYTES: f64 = 512.0;

/// One panel per scheduler, all with the same axes: a dot per request, by dispatch time and LBA.
pub(crate) fn positions(comparison: &Comparison) -> Vec<String> {
    let records = comparison.records();
    let places = records.iter().flat_map(|record| record.curves.sample.iter().map(|point| gigabytes(point.lba)));
    let (Some(x), Some(scale)) = (time_axis(records), Scale::exact(places)) else { return Vec::new() };
    let y = Axis { scale, title: "LBA, GB from the start of the disk", tick: number::short };
    let panel = |(i, record): (usize, &Record)| {
        let sample = &record.curves.sample;
        let sample: Vec<&SamplePoint> = sample.iter().step_by(stride(sample.len(), DOTS / records.len())).collect();
        let of =
            |read| sample.iter().filter(move |point| point.read == read).map(|point| (point.dispatched_s, gigabytes(point.lba)));
        let mut panel = Panel::new(SMALL, &x, Some(&y));
        panel.dots("write", of(false), "writes");
        panel.dots("read", of(true), "reads");
        let seek = record.figures.mean_seek_cylinders;
        let note = seek.map_or_else(String::new, |cylinders| format!("mean seek {} cylinders", three_digits(cylinders)));
        panel.finish(&classes(i), &label(record), &note, &format!("Requests by time and LBA under {}: {note}.", label(record)))
    };
    records.iter().enumerate().map(panel).collect()
}

fn gigabytes(lba: u64) -> f64 {
    lba as f64 * SECTOR_BYTES / 1e9
}
