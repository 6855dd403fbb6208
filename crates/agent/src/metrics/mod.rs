//! Metrics for Prometheus, in base units, with names that begin with `seekwise_`.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use protect::live::{LimitStatus, PromiseStatus, STATES as STATES_OF_PROMISES};
use report::printable;
use rustix::time::{ClockId, clock_gettime};

use crate::history::{Entry, EntryKind};
use crate::units::{UnitRow, UnitTable};

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfDevice {
    device: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfChange {
    device: String,
    reason: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfState {
    device: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPromise {
    device: String,
    unit: String,
    state: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfLimit {
    device: String,
    unit: String,
    direction: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfUnit {
    device: String,
    unit: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfNeighbour {
    device: String,
    unit: String,
    neighbour: String,
}

/// Maximum units per device with their own series: those that waited longest. The rest is aggregated as `other`. Choice: each series costs
/// the server of the metrics memory; not varied.
const UNITS: usize = 10;
/// Label of the aggregated units. Choice: no systemd unit has this name, as all have a suffix; not varied.
const OTHER: &str = "other";

/// A gauge with a floating-point value.
type Fraction = Gauge<f64, AtomicU64>;

/// Reasons for changes of settings. Derived: the variants of [`Kind`] that change settings.
const REASONS: [&str; 3] = ["controller", "guard", "restore"];

/// States of a device, one series each. Derived: the variants of [`DeviceState`].
const STATES: [(DeviceState, &str); 3] =
    [(DeviceState::Watched, "watched"), (DeviceState::Tuned, "tuned"), (DeviceState::StoodDown, "stood_down")];

/// Whether a device is tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceState {
    /// It is only monitored.
    Watched,
    /// It is tuned.
    Tuned,
    /// Tuning was stopped after an external change.
    StoodDown,
}

/// State of a device.
#[derive(Clone, Debug)]
pub struct DeviceSample<'a> {
    /// Kernel name, such as `sda`.
    pub device: &'a str,
    /// Requests completed so far.
    pub requests: u64,
    /// Events lost so far.
    pub lost: u64,
    /// Predicted gain of the pending recommendation, in percent; 0 if there is none.
    pub advised_percent: f64,
    /// Whether it is tuned.
    pub state: DeviceState,
}

/// The agent's metrics. Clones share the same values.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
    requests: Family<OfDevice, Counter>,
    lost: Family<OfDevice, Counter>,
    changes: Family<OfChange, Counter>,
    refusals: Family<OfDevice, Counter>,
    conflicts: Family<OfDevice, Counter>,
    promised: Family<OfDevice, Fraction>,
    measured: Family<OfDevice, Fraction>,
    advised: Family<OfDevice, Fraction>,
    state: Family<OfState, Gauge>,
    promises: Family<OfPromise, Gauge>,
    limits: Family<OfLimit, Gauge>,
    units: UnitMetrics,
    processor: Counter<f64, AtomicU64>,
    memory: Gauge,
}

impl Default for Metrics {
    fn default() -> Metrics {
        Metrics::new()
    }
}

impl Metrics {
    /// All counters at 0.
    pub fn new() -> Metrics {
        let mut registry = Registry::with_prefix("seekwise");
        let mut metrics = Metrics {
            registry: Arc::default(),
            requests: Family::default(),
            lost: Family::default(),
            changes: Family::default(),
            refusals: Family::default(),
            conflicts: Family::default(),
            promised: Family::default(),
            measured: Family::default(),
            advised: Family::default(),
            state: Family::default(),
            promises: Family::default(),
            limits: Family::default(),
            units: UnitMetrics::default(),
            processor: Counter::default(),
            memory: Gauge::default(),
        };
        registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register("requests", "Completed requests", metrics.requests.clone());
        registry.register("lost_events", "Trace events lost because the buffer was full", metrics.lost.clone());
        registry.register("changes", "Changes of settings, by reason", metrics.changes.clone());
        registry.register("refusals", "Settings that the applier refused", metrics.refusals.clone());
        registry.register("conflicts", "External changes of settings", metrics.conflicts.clone());
        let ratio = |of: &str| format!("{of}, as a ratio: 0.1 means 10% better");
        let promised = ratio("Predicted gain of the latest change");
        registry.register_with_unit("promised_gain", promised, Unit::Ratios, metrics.promised.clone());
        let measured = ratio("Measured gain of the latest change");
        registry.register_with_unit("measured_gain", measured, Unit::Ratios, metrics.measured.clone());
        let advised = ratio("Predicted gain of the pending recommendation");
        registry.register_with_unit("advised_gain", advised, Unit::Ratios, metrics.advised.clone());
        registry.register("device_state", "1 for the current state of the device, else 0", metrics.state.clone());
        let promise = "1 for the current state of a promise to a unit, else 0";
        registry.register("promise_state", promise, metrics.promises.clone());
        let limit = "Limit of a unit per second, while it is limited for a promise to another one";
        registry.register_with_unit("limit", limit, Unit::Bytes, metrics.limits.clone());
        metrics.units.register(&mut registry);
        let processor = "CPU time of the daemon";
        registry.register_with_unit("cpu", processor, Unit::Seconds, metrics.processor.clone());
        let memory = "Maximum resident memory of the daemon so far";
        registry.register_with_unit("resident_memory", memory, Unit::Bytes, metrics.memory.clone());
        metrics.registry = Arc::new(registry);
        metrics
    }

    /// Creates the series of a device that is monitored from now on, with counters at 0: the rate of a counter that appears only with its
    /// first event would miss that event.
    pub fn begins(&self, device: &str) {
        let of = OfDevice { device: device.to_owned() };
        [&self.requests, &self.lost, &self.refusals, &self.conflicts].iter().for_each(|family| drop(family.get_or_create(&of)));
        for reason in REASONS {
            drop(self.changes.get_or_create(&OfChange { device: of.device.clone(), reason }));
        }
        drop(self.advised.get_or_create(&of));
        self.is_in(device, DeviceState::Watched);
    }

    fn is_in(&self, device: &str, now: DeviceState) {
        for (known, state) in STATES {
            let of = OfState { device: device.to_owned(), state };
            self.state.get_or_create(&of).set(i64::from(known == now));
        }
    }

    /// Updates a device's series.
    pub fn seen(&self, sample: &DeviceSample) {
        let of = OfDevice { device: sample.device.to_owned() };
        raise(&self.requests.get_or_create(&of), sample.requests);
        raise(&self.lost.get_or_create(&of), sample.lost);
        self.advised.get_or_create(&of).set(sample.advised_percent / 100.0);
        self.is_in(sample.device, sample.state);
    }

    /// Updates the series of a device's guarantees and limits.
    pub fn protects(&self, device: &str, promises: &[PromiseStatus], limits: &[LimitStatus]) {
        for promise in promises {
            for (_, state) in STATES_OF_PROMISES {
                let of = OfPromise { device: device.to_owned(), unit: promise.unit.clone(), state };
                self.promises.get_or_create(&of).set(i64::from(promise.state == state));
            }
        }
        for limit in limits {
            for (direction, bytes) in [("read", limit.bytes_per_s.0), ("write", limit.bytes_per_s.1)] {
                let of = OfLimit { device: device.to_owned(), unit: limit.unit.clone(), direction };
                match bytes.map(i64::try_from) {
                    Some(bytes) => drop(self.limits.get_or_create(&of).set(bytes.unwrap_or(i64::MAX))),
                    None => drop(self.limits.remove(&of)),
                }
            }
        }
    }

    /// Replaces the series of the units of a device.
    pub fn units(&self, device: &str, table: &UnitTable) {
        self.units.replace(device, &table.units);
    }

    /// Counts a history entry.
    pub fn happened(&self, entry: &Entry) {
        let of = OfDevice { device: entry.device.clone() };
        let changed = |reason| {
            self.changes.get_or_create(&OfChange { device: of.device.clone(), reason }).inc();
            let promised = entry.predicted_percent.unwrap_or_default();
            self.promised.get_or_create(&of).set(promised / 100.0);
        };
        match entry.kind {
            EntryKind::Set => changed(REASONS[0]),
            EntryKind::Guarded => changed(REASONS[1]),
            EntryKind::Restored => changed(REASONS[2]),
            EntryKind::Refused => drop(self.refusals.get_or_create(&of).inc()),
            EntryKind::Conflict => drop(self.conflicts.get_or_create(&of).inc()),
            EntryKind::Began
            | EntryKind::WouldSet
            | EntryKind::Resumed
            | EntryKind::Gone
            | EntryKind::Trouble
            | EntryKind::Learning
            | EntryKind::Promise => {}
        }
    }

    /// Sets the measured gain of a device's latest change, in percent.
    pub fn measured(&self, device: &str, percent: f64) {
        self.measured.get_or_create(&OfDevice { device: device.to_owned() }).set(percent / 100.0);
    }

    /// Removes the gauges of a device that is gone; its counters stay.
    pub fn gone(&self, device: &str) {
        let of = OfDevice { device: device.to_owned() };
        self.promised.remove(&of);
        self.measured.remove(&of);
        self.advised.remove(&of);
        self.units.replace(device, &[]);
        for (_, state) in STATES {
            self.state.remove(&OfState { device: of.device.clone(), state });
        }
    }

    /// All metrics as OpenMetrics text.
    pub fn text(&self) -> String {
        let used = clock_gettime(ClockId::ProcessCPUTime);
        let spent = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9 - self.processor.get();
        if spent > 0.0 {
            self.processor.inc_by(spent);
        }
        self.memory.set(resident_bytes());
        let mut text = String::new();
        // Writing to a String cannot fail.
        let _ = encode(&mut text, &self.registry);
        text
    }
}

/// Series of units, for the latest interval.
#[derive(Clone, Default)]
struct UnitMetrics {
    read_bytes: Family<OfUnit, Fraction>,
    written_bytes: Family<OfUnit, Fraction>,
    requests: Family<OfUnit, Fraction>,
    wait: Family<OfUnit, Fraction>,
    read_p99: Family<OfUnit, Fraction>,
    write_p99: Family<OfUnit, Fraction>,
    fsync_p99: Family<OfUnit, Fraction>,
    behind: Family<OfNeighbour, Fraction>,
    /// The series that each device has.
    shown: Arc<Mutex<BTreeMap<String, Vec<OfNeighbour>>>>,
}

impl UnitMetrics {
    fn register(&self, registry: &mut Registry) {
        registry.register("unit_read_bytes_per_second", "Throughput of a unit's reads", self.read_bytes.clone());
        registry.register("unit_written_bytes_per_second", "Throughput of a unit's writes", self.written_bytes.clone());
        registry.register("unit_requests_per_second", "Completed requests of a unit", self.requests.clone());
        registry.register("unit_waiting_requests", "Mean number of a unit's requests that wait", self.wait.clone());
        for (name, of, family) in [
            ("unit_read_p99", "reads", &self.read_p99),
            ("unit_write_p99", "writes", &self.write_p99),
            ("unit_fsync_p99", "calls of fsync on ext4, or flushes of the write cache", &self.fsync_p99),
        ] {
            let help = format!("99th percentile of response times of a unit's {of}");
            registry.register_with_unit(name, help, Unit::Seconds, family.clone());
        }
        let behind = "Share of a unit's waiting time behind requests of the neighbour that it waited for most";
        registry.register_with_unit("unit_behind_neighbour", behind, Unit::Ratios, self.behind.clone());
    }

    fn replace(&self, device: &str, rows: &[UnitRow]) {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        for behind in shown.remove(device).into_iter().flatten() {
            let of = OfUnit { device: behind.device.clone(), unit: behind.unit.clone() };
            let families = [&self.read_bytes, &self.written_bytes, &self.requests, &self.wait];
            let quantiles = [&self.read_p99, &self.write_p99, &self.fsync_p99];
            for family in families.into_iter().chain(quantiles) {
                family.remove(&of);
            }
            self.behind.remove(&behind);
        }
        let (own, others) = rows.split_at(rows.len().min(UNITS));
        let sum = |of: fn(&UnitRow) -> f64| others.iter().map(of).sum();
        let other = UnitRow {
            unit: OTHER.to_owned(),
            read_mb_s: sum(|row| row.read_mb_s),
            write_mb_s: sum(|row| row.write_mb_s),
            iops: sum(|row| row.iops),
            wait: sum(|row| row.wait),
            ..UnitRow::default()
        };
        let rows = own.iter().chain((!others.is_empty()).then_some(&other));
        let labels = rows.map(|row| self.set(device, row)).collect();
        shown.insert(device.to_owned(), labels);
    }

    /// Sets the series of a unit. Returns their labels, for later removal.
    fn set(&self, device: &str, row: &UnitRow) -> OfNeighbour {
        let unit = printable(&row.unit);
        let of = OfUnit { device: device.to_owned(), unit: unit.clone() };
        let set = |family: &Family<OfUnit, Fraction>, value: f64| {
            family.get_or_create(&of).set(value);
        };
        set(&self.read_bytes, 1e6 * row.read_mb_s);
        set(&self.written_bytes, 1e6 * row.write_mb_s);
        set(&self.requests, row.iops);
        set(&self.wait, row.wait);
        for (family, times) in [(&self.read_p99, row.read), (&self.write_p99, row.write), (&self.fsync_p99, row.fsync)] {
            times.iter().for_each(|times| set(family, times.p99_ms / 1e3));
        }
        let neighbour = row.neighbour();
        let name = neighbour.map_or_else(String::new, |neighbour| printable(&neighbour.unit));
        let of = OfNeighbour { device: device.to_owned(), unit, neighbour: name };
        if let Some(neighbour) = neighbour {
            self.behind.get_or_create(&of).set(neighbour.share_percent / 100.0);
        }
        of
    }
}

/// Peak resident memory of the process in bytes (VmHWM); 0 if unknown.
fn resident_bytes() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse::<i64>().ok());
    1024 * kib.unwrap_or_default()
}

/// Raises a counter to a total. A smaller total, as of a device that was removed and added again, does not change it.
fn raise(counter: &Counter, total: u64) {
    let known = counter.get();
    if total > known {
        counter.inner().fetch_add(total - known, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::units::{Behind, Times};

    #[test]
    fn metrics_have_the_prefix_base_units_and_totals() {
        let metrics = Metrics::new();
        let mut entry = Entry::new("sda", EntryKind::Set, "none", "bfq", "because");
        entry.predicted_percent = Some(25.0);
        metrics.happened(&entry);
        metrics.happened(&Entry::new("sda", EntryKind::Conflict, "bfq", "none", "udev"));
        metrics.measured("sda", 20.0);
        let text = metrics.text();
        for line in [
            "seekwise_changes_total{device=\"sda\",reason=\"controller\"} 1",
            "seekwise_conflicts_total{device=\"sda\"} 1",
            "seekwise_promised_gain_ratios{device=\"sda\"} 0.25",
            "seekwise_measured_gain_ratios{device=\"sda\"} 0.2",
        ] {
            assert!(text.contains(line), "{line} is missing in\n{text}");
        }
        assert!(text.ends_with("# EOF\n"));
        assert!(text.lines().all(|line| line.starts_with("seekwise_") || line.starts_with("# ")), "{text}");
        assert!(text.contains("seekwise_cpu_seconds_total ") && text.contains("seekwise_resident_memory_bytes "), "{text}");
        metrics.gone("sda");
        assert!(!metrics.text().contains("gain_ratios{"));
    }

    #[test]
    fn units_beyond_those_that_waited_longest_are_one_series_and_removed_ones_have_none() {
        let metrics = Metrics::new();
        let row = |number: usize| UnitRow {
            unit: format!("job\u{1b}{number}.service"),
            iops: 1.0,
            wait: 1.0,
            read: Some(Times { p50_ms: 1.0, p99_ms: 20.0 }),
            behind: vec![Behind { unit: "backup.service".to_owned(), share_percent: 75.0 }],
            ..UnitRow::default()
        };
        let table = |rows: std::ops::Range<usize>| UnitTable { seconds: 10.0, units: rows.map(row).collect() };
        metrics.units("sda", &table(0..30));
        metrics.units("sdb", &table(0..1));
        let series = |name: &str| metrics.text().lines().filter(|line| line.starts_with(name)).count();
        assert_eq!((series("seekwise_unit_waiting_requests{"), series("seekwise_unit_read_p99_seconds{")), (12, 11));
        let text = metrics.text();
        for line in [
            "seekwise_unit_requests_per_second{device=\"sda\",unit=\"other\"} 20.0",
            "seekwise_unit_read_p99_seconds{device=\"sdb\",unit=\"job\u{fffd}0.service\"} 0.02",
            "seekwise_unit_behind_neighbour_ratios{device=\"sdb\",unit=\"job\u{fffd}0.service\",neighbour=\"backup.service\"} 0.75",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is missing in\n{text}");
        }
        metrics.units("sda", &table(40..42));
        assert_eq!(series("seekwise_unit_waiting_requests{device=\"sda\""), 2);
        metrics.gone("sda");
        assert_eq!((series("seekwise_unit_waiting_requests{device=\"sda\""), series("seekwise_unit_waiting_requests{")), (0, 1));
    }
}
