//! Prometheus metrics in base units, prefixed `seekwise_serve_`. Values are read from the server at each scrape, so that a deleted volume
//! leaves no series.

use std::fmt::{self, Write as _};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::store::{CLASSES_US, Times};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use rustix::time::{ClockId, clock_gettime};

use crate::catalog::EXTENT_BYTES;
use crate::server::Server;
use crate::store_entry::StoreEntry;
use crate::verdict::Verdict;
use crate::volume::Volume;
use crate::watch::{Doing, Watch};

/// The server's metrics. Clones share the same values.
#[derive(Clone)]
pub struct Metrics {
    registry: Arc<Registry>,
}

impl Metrics {
    /// Metrics of a server.
    pub fn new(server: &Arc<Server>, watch: &Arc<Watch>) -> Metrics {
        let mut registry = Registry::with_prefix("seekwise_serve");
        registry.register("build", "The program", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        registry.register_collector(Box::new(Scraped { server: server.clone(), watch: watch.clone() }));
        Metrics { registry: Arc::new(registry) }
    }

    /// The metrics in OpenMetrics text format.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            // Unreachable: writing to a string does not fail.
            let _ = text.write_str("# EOF\n");
        }
        text
    }
}

struct Scraped {
    server: Arc<Server>,
    watch: Arc<Watch>,
}

impl fmt::Debug for Scraped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Scraped")
    }
}

/// A volume and its store at the time of the scrape: it may be moved meanwhile.
struct Placed {
    volume: Arc<Volume>,
    store: String,
}

impl std::ops::Deref for Placed {
    type Target = Volume;

    fn deref(&self) -> &Volume {
        &self.volume
    }
}

/// A volume with its statistics.
type Row = (Placed, Doing);

/// A further label of a series, after those of its volume or store.
type Label<'a> = Option<(&'static str, &'a str)>;

/// Writes the series of one metric.
struct Series<'a> {
    encoder: MetricEncoder<'a>,
}

impl Series<'_> {
    fn with(
        &mut self,
        labels: &[(&str, &str)],
        more: Label<'_>,
        value: impl FnOnce(&mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let labels: Vec<(&str, &str)> = labels.iter().copied().chain(more).collect();
        match *labels.as_slice() {
            [a] => value(&mut self.encoder.encode_family(&[a])?),
            [a, b] => value(&mut self.encoder.encode_family(&[a, b])?),
            [a, b, c] => value(&mut self.encoder.encode_family(&[a, b, c])?),
            _ => value(&mut self.encoder),
        }
    }

    fn gauge(&mut self, labels: &[(&str, &str)], more: Label<'_>, number: f64) -> fmt::Result {
        self.with(labels, more, |encoder| encoder.encode_gauge(&number))
    }

    fn counter(&mut self, labels: &[(&str, &str)], more: Label<'_>, number: f64) -> fmt::Result {
        self.with(labels, more, |encoder| encoder.encode_counter::<NoLabelSet, _, f64>(&number, None))
    }

    fn count(&mut self, labels: &[(&str, &str)], more: Label<'_>, number: u64) -> fmt::Result {
        self.with(labels, more, |encoder| encoder.encode_counter::<NoLabelSet, _, f64>(&number, None))
    }

    fn histogram(&mut self, labels: &[(&str, &str)], more: Label<'_>, times: &Times) -> fmt::Result {
        // The encoder writes the largest number as `+Inf`.
        let bounds = CLASSES_US.iter().map(|us| *us as f64 / 1e6).chain([f64::MAX]);
        let buckets: Vec<(f64, u64)> = bounds.zip(times.counts).collect();
        let count = times.counts.iter().sum();
        let sum = times.sum.0 as f64 / 1e9;
        self.with(labels, more, |encoder| encoder.encode_histogram::<NoLabelSet>(sum, count, &buckets, None))
    }
}

fn volume_labels(placed: &Placed) -> [(&str, &str); 2] {
    [("volume", &placed.name), ("store", &placed.store)]
}

/// Writes a metric, given by name, help text, unit, kind and the code that writes its series.
macro_rules! metric {
    ($encoder:expr, $name:literal, $help:literal, $unit:expr, $kind:expr, $series:ident => $write:expr) => {{
        let unit: Option<Unit> = $unit;
        let mut $series = Series { encoder: $encoder.encode_descriptor($name, $help, unit.as_ref(), $kind)? };
        $write;
    }};
}

impl Collector for Scraped {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let placed = |volume: Arc<Volume>| {
            let (store, doing) = (volume.store().name.clone(), self.watch.doing(&volume));
            (Placed { volume, store }, doing)
        };
        let rows: Vec<Row> = self.server.volumes().into_iter().map(placed).collect();
        traffic(&mut encoder, &rows)?;
        promises(&mut encoder, &rows)?;
        self.stores(&mut encoder)?;
        process(&mut encoder)
    }
}

const OPERATIONS: [&str; 2] = ["read", "write"];

fn operation(name: &'static str) -> Label<'static> {
    Some(("operation", name))
}

fn traffic(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    metric!(encoder, "volume_requests", "Requests of clients", None, MetricType::Counter, series => for (volume, _) in rows {
        for (name, count) in OPERATIONS.into_iter().zip(&volume.counts()[..2]) {
            series.count(&volume_labels(volume), operation(name), *count)?;
        }
    });
    metric!(encoder, "volume_transferred", "Bytes read and written by clients", Some(Unit::Bytes), MetricType::Counter,
        series => for (volume, _) in rows {
        for (name, bytes) in OPERATIONS.into_iter().zip(&volume.counts()[2..]) {
            series.count(&volume_labels(volume), operation(name), *bytes)?;
        }
    });
    metric!(encoder, "volume_response", "Response times at the store, from arrival to answer; other: flushes, trims and zeroes",
        Some(Unit::Seconds), MetricType::Histogram, series => for (volume, doing) in rows {
        let of = [("read", doing.totals.reads), ("write", doing.totals.writes), ("other", doing.totals.others)];
        for (name, times) in of {
            series.histogram(&volume_labels(volume), operation(name), &times)?;
        }
    });
    metric!(encoder, "volume_clients", "Clients that have the volume open", None, MetricType::Gauge, series => for (volume, _) in rows {
        series.gauge(&volume_labels(volume), None, volume.clients() as f64)?;
    });
    metric!(encoder, "volume_size", "Size that clients see", Some(Unit::Bytes), MetricType::Gauge, series => for (volume, _) in rows {
        series.gauge(&volume_labels(volume), None, volume.bytes() as f64)?;
    });
    metric!(encoder, "volume_allocated", "Space of the store that the volume has", Some(Unit::Bytes), MetricType::Gauge,
        series => for (volume, _) in rows {
        series.gauge(&volume_labels(volume), None, (volume.extents().len() as u64 * EXTENT_BYTES) as f64)?;
    });
    metric!(encoder, "volume_held_back", "Time for which clients were not read from because too much of theirs was under way",
        Some(Unit::Seconds), MetricType::Counter, series => for (volume, _) in rows {
        series.counter(&volume_labels(volume), None, volume.held_back().as_secs_f64())?;
    });
    Ok(())
}

fn promises(encoder: &mut DescriptorEncoder<'_>, rows: &[Row]) -> fmt::Result {
    let judged = || rows.iter().filter_map(|(volume, doing)| Some((volume, doing, doing.counts?)));
    metric!(encoder, "volume_judged_requests", "Requests since the volume has its contract that were compared with its reference disk", None,
        MetricType::Counter, series => for (volume, _, counts) in judged() {
        series.count(&volume_labels(volume), None, counts[0])?;
    });
    metric!(encoder, "volume_late_requests", "Of the judged requests, those later than on the reference disk because of other volumes", None,
        MetricType::Counter, series => for (volume, _, counts) in judged() {
        series.count(&volume_labels(volume), None, counts[2])?;
    });
    metric!(encoder, "volume_promise_level", "Of the requests judged in the last second, the share that other volumes did not make late",
        Some(Unit::Ratios), MetricType::Gauge, series => for (volume, doing, _) in judged() {
        series.gauge(&volume_labels(volume), None, doing.level)?;
    });
    let promised = || rows.iter().filter(|(_, doing)| doing.verdict.is_some());
    metric!(encoder, "volume_promise", "Time for which the volume's promise was kept, broken by others or by the store, or not asked for",
        Some(Unit::Seconds), MetricType::Counter, series => for (volume, doing) in promised() {
        for (verdict, seconds) in Verdict::ALL.into_iter().zip(doing.seconds) {
            series.count(&volume_labels(volume), Some(("state", verdict.name())), seconds)?;
        }
    });
    metric!(encoder, "volume_promise_broken", "1 while the volume's promise is broken, else 0", None, MetricType::Gauge,
        series => for (volume, doing) in promised() {
        series.gauge(&volume_labels(volume), None, f64::from(u8::from(doing.broken_since.is_some())))?;
    });
    metric!(encoder, "volume_broken_by", "1 for the volume that used the store most when the promise was last broken, while it is broken",
        None, MetricType::Gauge, series => for (volume, doing) in promised() {
        if let Some(neighbour) = &doing.because_of {
            series.gauge(&volume_labels(volume), Some(("neighbour", neighbour)), 1.0)?;
        }
    });
    Ok(())
}

impl Scraped {
    fn stores(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let stores = self.server.stores();
        let label = |store: &StoreEntry| [("store", store.name.clone())];
        let counts = |store: &StoreEntry| {
            let status = store.host.status();
            [&status.pieces, &status.requests, &status.failed, &status.flushes, &status.busy_ns]
                .map(|count| count.load(Ordering::Relaxed))
        };
        let mut gauge = |name: &'static str, help: &'static str, value: &dyn Fn(&StoreEntry) -> u64| -> fmt::Result {
            let mut metric = encoder.encode_descriptor(name, help, Some(&Unit::Bytes), MetricType::Gauge)?;
            stores.iter().try_for_each(|store| metric.encode_family(&label(store))?.encode_gauge(&(value(store) as f64)))
        };
        gauge("store_size", "Size in whole extents", &|store| store.usable_extents() * EXTENT_BYTES)?;
        gauge("store_free", "Space that no volume has", &|store| self.server.free(store) * EXTENT_BYTES)?;
        for (name, help, place) in [
            ("store_pieces", "Parts of requests that were asked of the store", 0),
            ("store_requests", "Requests of the store, after merging", 1),
            ("store_failed_requests", "Requests of the store that failed", 2),
            ("store_flushes", "Flushes of the store", 3),
        ] {
            let mut metric = encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
            for store in stores {
                metric.encode_family(&label(store))?.encode_counter::<NoLabelSet, _, f64>(&counts(store)[place], None)?;
            }
        }
        let mut metric = encoder.encode_descriptor(
            "store_setting_changes",
            "Changes of the store's scheduler, depth or read-ahead by its controller, trials among them",
            None,
            MetricType::Counter,
        )?;
        for store in stores {
            let changes = store.tuning.tuned().map_or(0, |tuned| tuned.changes);
            metric.encode_family(&label(store))?.encode_counter::<NoLabelSet, _, f64>(&(changes as f64), None)?;
        }
        let help = "Time for which the store had something to do: its rate is the utilisation";
        let mut metric = encoder.encode_descriptor("store_busy", help, Some(&Unit::Seconds), MetricType::Counter)?;
        for store in stores {
            let seconds = counts(store)[4] as f64 / 1e9;
            metric.encode_family(&label(store))?.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
        }
        Ok(())
    }
}

fn process(encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    let seconds = used.tv_sec as f64 + used.tv_nsec as f64 / 1e9;
    let mut metric = encoder.encode_descriptor("cpu", "CPU time of the server", Some(&Unit::Seconds), MetricType::Counter)?;
    metric.encode_counter::<NoLabelSet, _, f64>(&seconds, None)?;
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse::<f64>().ok());
    let mut metric = encoder.encode_descriptor("resident_memory", "Memory of the server", Some(&Unit::Bytes), MetricType::Gauge)?;
    metric.encode_gauge(&(1024.0 * kib.unwrap_or_default()))
}
