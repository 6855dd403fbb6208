//! `[[protect]]`: guarantees to units, and `[limits]`: units that may be limited to keep them.

use ::protect::live::Terms;
use ::protect::{Promise, Reference};
use applier::cgroup::Allowed;
use applier::policy::FLOOR_MB_S;
use block::Nanos;
use linux::topology::Device;
use toml::de::{DeTable, DeValue};

use super::key::{Key, Source, Wrong, find, number, text, texts, unknown};
use super::{Configuration, Pattern};

/// Bytes in a megabyte. Source: SI, 10⁶ bytes.
const MB: f64 = 1e6;
/// Maximum bound on response times: twice the kernel's default request timeout of 30 s. Derived: two default timeouts
/// (`blk_mq_init_allocated_queue` in `block/blk-mq.c`).
const MAX_P99_MS: f64 = 60_000.0;
/// Minimum bound on response times: 1 µs is below any device. Choice: refuses bounds in a wrong unit; not varied.
const MIN_P99_MS: f64 = 0.001;
/// Maximum rate in requests per second: above any current device. Choice: refuses rates in a wrong unit; not varied.
const MAX_IOPS: f64 = 1e9;
/// Maximum rate in 10⁶ bytes per second: above any current device. Choice: as [`MAX_IOPS`].
const MAX_MB_S: f64 = 1e6;
/// Minimum share: below it, a disk would serve less than one request per second. Choice: refuses shares without an effect; not varied.
const MIN_SHARE_PERCENT: f64 = 0.1;
/// Maximum floor: with a higher one no unit would be limited. Derived: as [`MAX_MB_S`].
const MAX_FLOOR_MB_S: i64 = MAX_MB_S as i64;

/// A guarantee to a unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Promised {
    /// The unit, container or cgroup, as [`linux::cgroups::Cgroups::find`] takes it.
    pub unit: String,
    /// Pattern of devices; `None`: every device that the unit uses.
    pub device: Option<Pattern>,
    /// The guarantee.
    pub promise: Promise,
}

impl Promised {
    /// Whether it applies to this device.
    pub fn is_about(&self, device: &Device) -> bool {
        self.device.as_ref().is_none_or(|pattern| pattern.matches(&device.name))
    }
}

/// Units that may be limited, and the floor of limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Units, slices and paths of cgroups that may be limited.
    pub neighbours: Vec<String>,
    /// The lowest limit of reading or writing, in 10^6 bytes per second.
    pub floor_mb_s: u64,
    /// Whether the applier may set io.cost.
    pub io_cost: bool,
}

impl Configuration {
    /// The guarantees on a device, and the units that may be limited to keep them.
    pub fn terms(&self, device: &Device) -> Terms {
        let promised = self.promises.iter().filter(|promised| promised.is_about(device));
        Terms {
            promises: promised.map(|promised| (promised.unit.clone(), promised.promise.clone())).collect(),
            neighbours: self.limits.neighbours.clone(),
            floor_bytes_per_s: self.limits.floor_mb_s.saturating_mul(1_000_000),
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { neighbours: Vec::new(), floor_mb_s: FLOOR_MB_S, io_cost: false }
    }
}

/// Stores a parsed value.
type Put<T> = Box<dyn FnOnce(&mut T)>;

/// Keys of a `[[protect]]`. The default is an example. Choice: declared once for the parser, its errors and the reference; not varied.
pub(super) const OF_PROMISES: &[Key<Put<Promised>>] = &[
    Key {
        name: "unit",
        default: "\"postgresql.service\"",
        doc: "The systemd unit, container or path of a cgroup that is protected.",
        read: |value| {
            let unit = text(value)?.to_owned();
            if unit.is_empty() || unit.chars().any(char::is_control) {
                return Err("should be a unit, as in \"postgresql.service\"".to_owned());
            }
            Ok(Box::new(move |promised| promised.unit = unit))
        },
    },
    Key {
        name: "device",
        default: "\"sd*\"",
        doc: "The kernel's name of the device. Default: each device that the unit uses.",
        read: |value| {
            let pattern = Pattern::new(text(value)?);
            Ok(Box::new(move |promised| promised.device = Some(pattern)))
        },
    },
    Key {
        name: "read_p99_ms",
        default: "15",
        doc: "99% of its reads take at most this long.",
        read: |value| milliseconds(value, |promise| &mut promise.read_p99),
    },
    Key {
        name: "write_p99_ms",
        default: "15",
        doc: "99% of the writes that it waits for take at most this long.",
        read: |value| milliseconds(value, |promise| &mut promise.write_p99),
    },
    Key {
        name: "fsync_p99_ms",
        default: "20",
        doc: "99% of its calls of fsync take at most this long.",
        read: |value| milliseconds(value, |promise| &mut promise.flush_p99),
    },
    Key {
        name: "least_iops",
        default: "200",
        doc: "It completes at least this many requests per second while it has some.",
        read: |value| {
            let iops = decimal(value, 1.0, MAX_IOPS)?;
            Ok(Box::new(move |promised| promised.promise.least_iops = Some(iops)))
        },
    },
    Key {
        name: "least_mb_s",
        default: "10",
        doc: "It transfers at least this many 10^6 bytes per second while it has requests.",
        read: |value| {
            let mb = decimal(value, 0.001, MAX_MB_S)?;
            Ok(Box::new(move |promised| promised.promise.least_bytes_per_s = Some(mb * MB)))
        },
    },
    Key {
        name: "share_percent",
        default: "40",
        doc: "While it has requests, the device works for it at least this part of the time.",
        read: |value| {
            let percent = decimal(value, MIN_SHARE_PERCENT, 100.0)?;
            Ok(Box::new(move |promised| promised.promise.share = Some(percent / 100.0)))
        },
    },
    Key {
        name: "reference",
        default: "\"sata7200\"",
        doc: "It is served at least as fast as by this disk alone: a profile, its file, or a constant, as in constant:request_ms=10,mb_s=50.",
        read: |value| {
            let reference = reference(text(value)?)?;
            Ok(Box::new(move |promised| promised.promise.reference = Some(reference)))
        },
    },
];

/// Finds a reference disk by name.
///
/// # Errors
/// There is no such disk; the message lists the disks.
pub fn reference(name: &str) -> Result<Reference, String> {
    let model = guarantee::tenants::Reference::parse(name).and_then(|disk| disk.model()).map_err(|error| format!("{error:#}"))?;
    Ok(Reference { name: name.to_owned(), model })
}

/// Keys of `[limits]`. Choice: declared once for the parser, its errors and the reference; not varied.
pub(super) const OF_LIMITS: &[Key<Put<Limits>>] = &[
    Key {
        name: "neighbours",
        default: "[\"backup.service\", \"user.slice\"]",
        doc: "Units, slices (with all below them) and paths of cgroups that may be limited. Default: none.",
        read: |value| {
            let names: Vec<String> = texts(value)?.into_iter().map(str::to_owned).collect();
            names.iter().try_for_each(|name| Allowed::check(name).map_err(|reason| format!("{name:?} {reason}")))?;
            Ok(Box::new(move |limits| limits.neighbours = names))
        },
    },
    Key {
        name: "floor_mb_s",
        default: "2",
        doc: "No limit is lower, in 10^6 bytes per second.",
        read: |value| {
            let floor = number(value, 1..=MAX_FLOOR_MB_S)? as u64;
            Ok(Box::new(move |limits| limits.floor_mb_s = floor))
        },
    },
    Key {
        name: "io_cost",
        default: "false",
        doc: "Whether the applier may set io.cost.qos and io.cost.model.",
        read: |value| {
            let may = value.as_bool().ok_or("should be true or false")?;
            Ok(Box::new(move |limits| limits.io_cost = may))
        },
    },
];

fn milliseconds(value: &DeValue, of: fn(&mut Promise) -> &mut Option<Nanos>) -> Result<Put<Promised>, String> {
    let nanos = Nanos((decimal(value, MIN_P99_MS, MAX_P99_MS)? * 1e6).round() as u64);
    Ok(Box::new(move |promised| *of(&mut promised.promise) = Some(nanos)))
}

/// A number with or without a decimal point.
fn decimal(value: &DeValue, least: f64, most: f64) -> Result<f64, String> {
    let text = match value {
        DeValue::Integer(number) if number.radix() == 10 => Some(number.as_str()),
        DeValue::Float(number) => Some(number.as_str()),
        _ => None,
    };
    let number: Option<f64> = text.and_then(|text| text.parse().ok());
    number.filter(|number| (least..=most).contains(number)).ok_or_else(|| format!("should be a number from {least} to {most}"))
}

/// Parses a table `[[protect]]`, which begins at this byte.
pub(super) fn promised(source: &Source, table: &DeTable, begins: usize) -> Result<Promised, Wrong> {
    let mut promised = Promised { unit: String::new(), device: None, promise: Promise::default() };
    for (name, value) in table {
        let key: &str = name.get_ref();
        let Some(found) = find(OF_PROMISES, key) else {
            let known = OF_PROMISES.iter().map(|key| key.name);
            return Err((source.line(name.span().start), format!("protect: {}", unknown(key, known))));
        };
        source.read(found, name, value)?(&mut promised);
    }
    if promised.unit.is_empty() {
        return Err((source.line(begins), "protect: names no unit; set unit, as in unit = \"postgresql.service\"".to_owned()));
    }
    if promised.promise == Promise::default() {
        let unit = &promised.unit;
        return Err((
            source.line(begins),
            format!("protect: promises {unit} nothing; set for example read_p99_ms = 15 or least_iops = 200"),
        ));
    }
    Ok(promised)
}

impl Limits {
    /// Merges the table `[limits]` of a file.
    pub(super) fn add(&mut self, source: &Source, table: &DeTable) -> Result<(), Wrong> {
        for (name, value) in table {
            let key: &str = name.get_ref();
            let Some(found) = find(OF_LIMITS, key) else {
                let known = OF_LIMITS.iter().map(|key| key.name);
                return Err((source.line(name.span().start), format!("limits: {}", unknown(key, known))));
            };
            source.read(found, name, value)?(self);
        }
        Ok(())
    }
}
