//! Describes a window for learning, by numbers that are comparable between devices.
//!
//! A [feature](crate::window::FEATURES) in seconds, in requests per second or in bytes of a disk's span depends on the device as much as on
//! the load: a model trained with it on one disk fails on another. So times are divided by the device's own mean service time,
//! rates multiplied by it, and distances related to the span of the load. No value depends on the length of the
//! window.

use std::collections::BTreeMap;

use crate::event::SECTOR_BYTES;
use crate::window::{Features, WindowOutcome};

/// Looks up a feature by name; NaN if there is none.
type Get<'a> = &'a dyn Fn(&str) -> f64;

/// A number that describes a window.
struct Row {
    name: &'static str,
    /// Whether it depends on the load alone, not on the active setting.
    is_of_load: bool,
    value: fn(Get, &WindowOutcome) -> f64,
}

/// An unchanged feature that depends on the load only: a share, a ratio, a count of streams, a size.
macro_rules! of_load {
    ($name:literal) => {
        Row { name: $name, is_of_load: true, value: |get, _| get($name) }
    };
}

/// An unchanged feature that depends on the device's speed.
macro_rules! of_service {
    ($name:literal) => {
        Row { name: $name, is_of_load: false, value: |get, _| get($name) }
    };
}

/// Mean service time in seconds below which a device has no seeks; ten times as much indicates seeks. The settling of a head alone takes
/// about a millisecond (the built-in profiles: 0.8 to 2.6 ms for the next cylinder), a read from a drive's cache a tenth. Choice: between
/// the two, so that neither is taken for the other; not varied.
const NO_ARM_S: f64 = 1e-4;

/// `log2` of the ratio of the span to a distance.
fn below_span(get: Get, distance: &str) -> f64 {
    (1.0 + get("span_bytes") / f64::from(SECTOR_BYTES)).log2() - get(distance)
}

static ROWS: &[Row] = &[
    of_load!("read_share"),
    of_load!("discard_share"),
    of_load!("sync_share"),
    of_load!("write_back_share"),
    of_load!("streams"),
    of_service!("streams_effective"),
    of_service!("stream_switch_share"),
    of_service!("dependent_share"),
    of_load!("sequential_share"),
    of_service!("sequential_overall_share"),
    of_load!("sequential_read_share"),
    of_load!("sequential_write_share"),
    of_load!("size_mean_bytes"),
    of_load!("size_variation"),
    of_load!("read_size_mean_bytes"),
    of_load!("write_size_mean_bytes"),
    of_load!("aligned_share"),
    of_load!("repeat_share"),
    of_load!("think_variation"),
    of_service!("gap_variation"),
    of_service!("depth_mean"),
    of_service!("stream_depth_mean"),
    of_service!("idle_arrival_share"),
    Row { name: "think_by_service", is_of_load: false, value: |get, outcome| get("think_mean_s") / outcome.mean_service_s },
    Row { name: "arrivals_by_service", is_of_load: false, value: |get, outcome| get("requests_per_s") * outcome.mean_service_s },
    Row { name: "response_by_service", is_of_load: false, value: |_, outcome| outcome.mean_response_s / outcome.mean_service_s },
    Row {
        name: "at_device_mean",
        is_of_load: false,
        value: |_, outcome| outcome.requests as f64 * outcome.mean_service_s / outcome.duration.as_secs_f64(),
    },
    Row { name: "distance_below_span_log2", is_of_load: false, value: |get, _| below_span(get, "distance_mean_log2") },
    Row {
        name: "stream_distance_below_span_log2",
        is_of_load: false,
        value: |get, _| below_span(get, "stream_distance_mean_log2"),
    },
    Row { name: "arm_share", is_of_load: false, value: |_, outcome| (outcome.mean_service_s / NO_ARM_S).log10().clamp(0.0, 1.0) },
];

/// The names of the values of [`describe`], in order.
pub fn names() -> Vec<String> {
    ROWS.iter().map(|row| row.name.to_owned()).collect()
}

/// The means of rows made by [`describe`], by name, without the names that have no finite value.
pub fn mean_by_name<'a>(rows: impl Iterator<Item = &'a Vec<f64>> + Clone) -> BTreeMap<String, f32> {
    let mean = |column: usize| {
        let values = rows.clone().filter_map(|row| row.get(column)).copied();
        statistics::sample::mean_of_finite(values).unwrap_or(f64::NAN) as f32
    };
    let means = names().into_iter().enumerate().map(|(column, name)| (name, mean(column)));
    means.filter(|(_, mean)| mean.is_finite()).collect()
}

/// For each of [`names`], whether it depends on the load alone, not on the active setting.
pub fn is_of_load() -> impl Iterator<Item = bool> {
    ROWS.iter().map(|row| row.is_of_load)
}

/// A window as numbers in the order of [`names`]; NaN for missing values.
pub fn describe(features: &Features, outcome: &WindowOutcome) -> Vec<f64> {
    describe_named(&|name| features.get(name).unwrap_or(f64::NAN), outcome)
}

/// The same for a window whose features are looked up by name; `get` returns NaN for an unknown one.
pub fn describe_named(get: Get, outcome: &WindowOutcome) -> Vec<f64> {
    let value = |row: &Row| Some((row.value)(get, outcome)).filter(|value| value.is_finite()).unwrap_or(f64::NAN);
    ROWS.iter().map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::FEATURES;

    fn outcome(mean_service_s: f64) -> WindowOutcome {
        let duration = block::Nanos::from_millis(1000);
        let mean_response_s = 3.0 * mean_service_s;
        let requests = (0.5 / mean_service_s) as u64;
        WindowOutcome { requests, mean_service_s, mean_response_s, ..crate::window::Tally::new().close(duration) }
    }

    /// A load with this span in bytes, on a device with this mean service time.
    fn row(service_s: f64, span_bytes: f64) -> Vec<f64> {
        let get = move |name: &str| match name {
            "think_mean_s" => 2.0 * service_s,
            "requests_per_s" => 0.5 / service_s,
            "span_bytes" => span_bytes,
            "distance_mean_log2" | "stream_distance_mean_log2" => (span_bytes / 512.0).log2() - 1.0,
            _ => 0.5,
        };
        describe_named(&get, &outcome(service_s))
    }

    #[test]
    fn the_same_load_on_a_slower_and_larger_disk_is_described_alike() {
        let (fast, slow) = (row(0.002, 4e9), row(0.008, 1e12));
        for ((name, fast), slow) in names().iter().zip(fast).zip(slow) {
            assert!((fast - slow).abs() <= 0.01 * fast.abs(), "{name}: {fast} and {slow}");
        }
    }

    #[test]
    fn every_named_feature_exists() {
        for name in ["think_mean_s", "requests_per_s", "span_bytes", "distance_mean_log2", "stream_distance_mean_log2"] {
            assert!(FEATURES.iter().any(|feature| feature.name == name), "{name}");
        }
        let computed = ["_by_service", "_below_span_log2", "at_device_mean", "arm_share"];
        for name in names().iter().filter(|name| !computed.iter().any(|end| name.ends_with(end))) {
            assert!(FEATURES.iter().any(|feature| feature.name == name), "{name}");
        }
    }
}
