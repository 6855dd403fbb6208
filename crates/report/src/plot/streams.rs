//! Each stream's service under each scheduler.

use super::panel::{Axis, Mark, Panel, Size};
use super::scale::Scale;
use super::{classes, label, outline};
use crate::comparison::Comparison;
use crate::number::{self, three_digits};
use crate::record::{Record, StreamFigures};
use crate::text::{printable, shortened};

/// Number of streams plotted: the busiest.
const STREAMS: usize = 12;
/// Characters of a stream's name that fit left of its row.
const NAME_LIMIT: usize = 17;
/// A stream of the trace, with its figures under each scheduler (`None` if a record does not have it).
pub(crate) struct Stream<'a> {
    /// Its sanitised name, or its number.
    pub name: String,
    /// Its number of requests: the maximum over the records.
    pub requests: u64,
    /// Its figures, record by record.
    pub figures: Vec<Option<&'a StreamFigures>>,
}

/// The busiest streams, at most `limit`.
pub(crate) fn busiest<'a>(comparison: &Comparison<'a>, limit: usize) -> Vec<Stream<'a>> {
    let records = comparison.records();
    let mut figures = std::collections::BTreeMap::<u32, Vec<Option<&StreamFigures>>>::new();
    for (i, record) in records.iter().enumerate() {
        for stream in &record.streams {
            figures.entry(stream.stream).or_insert_with(|| vec![None; records.len()])[i] = Some(stream);
        }
    }
    let requests = |figures: &[Option<&StreamFigures>]| figures.iter().flatten().map(|figures| figures.requests).max().unwrap_or(0);
    let mut order: Vec<_> = figures.into_iter().map(|(id, figures)| (requests(&figures), id, figures)).collect();
    order.sort_by_key(|(requests, id, _)| (std::cmp::Reverse(*requests), *id));
    let stream = |(requests, id, figures): (u64, u32, Vec<Option<&'a StreamFigures>>)| {
        let name = figures.iter().flatten().find_map(|figures| figures.name.as_deref());
        let name = name.map_or_else(|| format!("stream {id}"), |name| format!("{} ({id})", printable(name)));
        Stream { name, requests, figures }
    };
    order.into_iter().take(limit).map(stream).collect()
}

/// The streams' slowdown: a row per stream, a mark per scheduler. `None` if no slowdown is known.
pub(crate) fn slowdown_dots(comparison: &Comparison) -> Option<String> {
    let title = "slowdown relative to running alone (logarithmic)";
    dots(comparison, "Slowdown", title, |stream| stream.slowdown)
}

/// The streams' mean response time, in the same form.
pub(crate) fn response_dots(comparison: &Comparison) -> Option<String> {
    dots(comparison, "Mean response time", "mean response time, ms (logarithmic)", |stream| Some(stream.mean_ms))
}

fn dots(comparison: &Comparison, name: &str, title: &'static str, value: fn(&StreamFigures) -> Option<f64>) -> Option<String> {
    let streams = busiest(comparison, STREAMS);
    let values = streams.iter().flat_map(|stream| stream.figures.iter().flatten().filter_map(|figures| value(figures)));
    let x = Axis { scale: Scale::log(values)?, title, tick: number::short };
    let size = Size { width: 480.0, height: 92.0 + 24.0 * streams.len() as f64, left: 140.0 };
    let mut panel = Panel::new(size, &x, None);
    for (row, stream) in streams.iter().enumerate() {
        let mark = |(i, (record, figures)): (usize, (&Record, &Option<&StreamFigures>))| {
            let value = figures.and_then(value).filter(|value| *value > 0.0)?;
            let tip = format!("{} under {}: {}", stream.name, label(record), three_digits(value));
            Some(Mark { class: classes(i), outline: outline(i), value, tip })
        };
        let marks: Vec<_> = comparison.records().iter().zip(&stream.figures).enumerate().filter_map(mark).collect();
        panel.row((row, streams.len()), &shortened(&stream.name, NAME_LIMIT), &marks);
    }
    Some(panel.finish("", name, "", &format!("{name} of the {} busiest streams under each scheduler.", streams.len())))
}
