//! Distance of two windows, in units in which 1 is another workload or another kind of disk.

use crate::description::names;

/// Scale of a comparison: by difference or by ratio.
#[derive(Clone, Copy, PartialEq)]
enum Scale {
    Linear,
    Ratio,
}

/// The values compared, with scale and width: an administrator would regard a difference of one width in any of them as another workload or
/// another kind of disk. Choice: wider ones transfer settings to other loads, narrower ones find no known load; not varied.
const ASPECTS: &[(&str, Scale, f64)] = &[
    ("read_share", Scale::Linear, 0.2),
    ("sync_share", Scale::Linear, 0.2),
    ("sequential_share", Scale::Linear, 0.2),
    ("size_mean_bytes", Scale::Ratio, 0.7),
    ("streams", Scale::Ratio, 0.6),
    ("streams_effective", Scale::Ratio, 0.6),
    ("stream_distance_below_span_log2", Scale::Linear, 5.0),
    ("depth_mean", Scale::Ratio, 0.7),
    ("idle_arrival_share", Scale::Linear, 0.3),
    ("arm_share", Scale::Linear, 0.3),
    ("at_device_mean", Scale::Ratio, 0.5),
];
/// Squared distance if only one of the two windows has the value. Derived: as [`ANOTHER`].
const MISSING: f64 = 1.0;

/// The position of a window or case.
pub type Point = [f64; ASPECTS.len()];

/// A point without any values. Derived: no value for any aspect.
pub const NOWHERE: Point = [f64::NAN; ASPECTS.len()];

/// Squared [distance](load_distance) from which two loads count as different, by the definition of the aspects. Derived: the square of one
/// width.
pub const ANOTHER: f64 = 1.0;

/// Adds a value with this weight to a mean; `whole` is the sum of all weights including this one.
pub fn approach(mean: &mut Point, value: &Point, weight: f64, whole: f64) {
    for (mean, &value) in mean.iter_mut().zip(value) {
        if mean.is_nan() {
            *mean = value;
        } else if !value.is_nan() {
            *mean += (value - *mean) * weight / whole;
        }
    }
}

/// The columns of the compared values in a row.
#[derive(Clone, Debug)]
pub struct Columns([Option<usize>; ASPECTS.len()]);

impl Columns {
    /// For a row made by [`describe`](crate::description::describe).
    pub fn described() -> Columns {
        Columns::of(&names())
    }

    /// For a row of values with these names.
    pub fn of(names: &[String]) -> Columns {
        Columns(std::array::from_fn(|aspect| names.iter().position(|name| name == ASPECTS[aspect].0)))
    }

    /// The position of a row.
    pub fn point(&self, row: impl Fn(usize) -> Option<f64>) -> Point {
        point(|aspect| self.0[aspect].and_then(&row).unwrap_or(f64::NAN))
    }
}

fn point(value: impl Fn(usize) -> f64) -> Point {
    std::array::from_fn(|aspect| {
        let (_, scale, width) = ASPECTS[aspect];
        let value = value(aspect);
        match scale {
            Scale::Linear => value / width,
            Scale::Ratio if value.is_nan() => value,
            Scale::Ratio => value.max(1e-9).ln() / width,
        }
    })
}

/// Squared distance; stops early at `far`.
pub fn distance(a: &[f64], b: &[f64], far: f64) -> f64 {
    let mut sum = 0.0;
    for (a, b) in a.iter().zip(b) {
        sum += match (a.is_nan(), b.is_nan()) {
            (false, false) => (a - b) * (a - b),
            (true, true) => 0.0,
            _ => MISSING,
        };
        if sum >= far {
            break;
        }
    }
    sum
}

/// The first aspects of a [`Point`], which depend only on the load and not on the active setting. Derived: the order of [`ASPECTS`].
const OF_LOAD: std::ops::Range<usize> = 0..5;

/// Squared distance in the aspects that depend only on the load.
pub fn load_distance(a: &Point, b: &Point) -> f64 {
    distance(&a[OF_LOAD], &b[OF_LOAD], f64::INFINITY)
}
