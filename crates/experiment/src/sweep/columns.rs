//! The figures of a case and their column names in the data set.

use observe::Preference;
use observe::merit;
use report::record::{Figures, ResponseFigures};

/// Throughput and response time weighted by the preference. Higher is better; a difference of 0.01 is about 1%.
pub const SCORE: &str = "score";

/// Direction of improvement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// Higher is better.
    More,
    /// Lower is better.
    Less,
}

/// A column of figures.
pub struct Column {
    /// Column name, with the unit.
    pub name: &'static str,
    /// Description.
    pub doc: &'static str,
    /// Whether values are integers.
    pub is_count: bool,
    /// Direction of improvement; `None` if settings cannot be ranked by it.
    pub better: Option<Better>,
    of: fn(&Figures) -> Option<f64>,
}

const fn count(name: &'static str, doc: &'static str, of: fn(&Figures) -> Option<f64>) -> Column {
    Column { name, doc, is_count: true, better: None, of }
}

const fn about(name: &'static str, doc: &'static str, of: fn(&Figures) -> Option<f64>) -> Column {
    Column { name, doc, is_count: false, better: None, of }
}

const fn more(name: &'static str, doc: &'static str, of: fn(&Figures) -> Option<f64>) -> Column {
    Column { better: Some(Better::More), ..about(name, doc, of) }
}

const fn less(name: &'static str, doc: &'static str, of: fn(&Figures) -> Option<f64>) -> Column {
    Column { better: Some(Better::Less), ..about(name, doc, of) }
}

fn read(figures: &Figures, of: fn(&ResponseFigures) -> f64) -> Option<f64> {
    figures.read_response.as_ref().map(of)
}

fn written(figures: &Figures, of: fn(&ResponseFigures) -> f64) -> Option<f64> {
    figures.write_response.as_ref().map(of)
}

fn synced(figures: &Figures, of: fn(&ResponseFigures) -> f64) -> Option<f64> {
    figures.sync_response.as_ref().map(of)
}

/// All columns except the score, in file order.
pub static ALL: &[Column] = &[
    count("requests", "requests that completed: reads, writes and discards", |f| Some(f.response.requests as f64)),
    about("duration_s", "from the first arrival to the last completion", |f| Some(f.duration_s)),
    more("throughput_mb_s", "10^6 bytes per second", |f| Some(f.throughput_mb_s)),
    more("read_mb_s", "10^6 bytes read per second", |f| Some(f.read_mb_s)),
    more("write_mb_s", "10^6 bytes written per second", |f| Some(f.write_mb_s)),
    more("iops", "requests per second", |f| Some(f.iops)),
    less("mean_ms", "mean response time", |f| Some(f.response.mean_ms)),
    about("stdev_ms", "standard deviation of the response times", |f| Some(f.response.stdev_ms)),
    less("p50_ms", "median response time", |f| Some(f.response.p50_ms)),
    less("p95_ms", "95 of 100 response times are at most this", |f| Some(f.response.p95_ms)),
    less("p99_ms", "99 of 100", |f| Some(f.response.p99_ms)),
    less("p999_ms", "999 of 1,000", |f| Some(f.response.p999_ms)),
    less("max_ms", "the longest response time", |f| Some(f.response.max_ms)),
    less("read_mean_ms", "mean response time of reads", |f| read(f, |r| r.mean_ms)),
    less("read_p99_ms", "99 of 100 reads", |f| read(f, |r| r.p99_ms)),
    less("write_mean_ms", "mean response time of writes", |f| written(f, |r| r.mean_ms)),
    less("write_p99_ms", "99 of 100 writes", |f| written(f, |r| r.p99_ms)),
    less("sync_mean_ms", "mean time of an fsync", |f| synced(f, |r| r.mean_ms)),
    less("sync_p99_ms", "99 of 100 fsyncs", |f| synced(f, |r| r.p99_ms)),
    about("disk_utilisation", "share of the duration in which the disk was busy, 0 to 1", |f| Some(f.disk_utilisation)),
    about("queue_size_mean", "mean number of requests in the queue and at the device", |f| Some(f.queue_size_mean)),
    count("device_requests", "requests at the device, after merging", |f| Some(f.device_requests as f64)),
    about("mean_seek_cylinders", "mean seek distance; null without an arm", |f| f.mean_seek_cylinders),
    about("seek_time_share", "share of the duration in which the arm moved", |f| f.seek_time_share),
    about(
        "sustainable_speed",
        "of an open replay that the disk could not keep up with: the speed at which it served a full queue",
        |f| f.sustainable_speed,
    ),
    less("write_amplification", "bytes programmed per byte written, of flash", |f| {
        f.flash.as_ref().and_then(|flash| flash.write_amplification)
    }),
    about("page_cache_hit_ratio", "of a job file", |f| f.memory.as_ref().and_then(|memory| memory.page_cache_hit_ratio)),
];

/// The values of a run: one per column of [`ALL`], then the score. `None` where a value is missing or not finite.
pub fn values(figures: &Figures, preference: &Preference) -> Vec<Option<f64>> {
    let score = merit::score(preference, figures.throughput_mb_s * 1e6, figures.response.mean_ms / 1e3, 1.0);
    let values = ALL.iter().map(|column| (column.of)(figures)).chain([Some(score)]);
    values.map(|value| value.filter(|value| value.is_finite())).collect()
}

/// The names of all figures, in the order of [`values`].
pub fn names() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|column| column.name).chain([SCORE])
}

/// The names of the figures by which settings may be ranked.
pub fn ranked() -> impl Iterator<Item = &'static str> {
    [SCORE].into_iter().chain(ALL.iter().filter(|column| column.better.is_some()).map(|column| column.name))
}

/// The logarithm of a value, negated where lower is better, so that differences are gains; `None` without a value.
pub fn merit_of(objective: &str, value: Option<f64>) -> Option<f64> {
    let better = ALL.iter().find(|column| column.name == objective).and_then(|column| column.better);
    let merit = match better {
        None => value?,
        Some(Better::More) => value?.ln(),
        Some(Better::Less) => -value?.ln(),
    };
    Some(merit).filter(|merit| merit.is_finite())
}
