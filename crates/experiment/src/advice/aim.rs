//! Goals for single streams, such as `etcd:fsync:p99=10ms`.

use std::fmt;
use std::str::FromStr;

use anyhow::{bail, ensure};
use block::StreamId;
use report::record::{DirectionFigures, ServiceFigures};

use super::observed::Observed;

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Calls of fsync.
    Fsync,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 3] = [Kind::Read, Kind::Write, Kind::Fsync];

    /// Name, as in an aim.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Fsync => "fsync",
        }
    }

    /// The figures of this kind; `None` without a request of it.
    pub fn of(self, service: &ServiceFigures) -> Option<&DirectionFigures> {
        match self {
            Kind::Read => service.reads.as_ref(),
            Kind::Write => service.writes.as_ref(),
            Kind::Fsync => service.syncs.as_ref(),
        }
    }
}

/// The quantity that an aim bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Quantity {
    Mean,
    P50,
    P95,
    P99,
    P999,
    Max,
    /// Bytes per second; the bound is a minimum.
    Throughput,
    /// Requests per second; the bound is a minimum.
    Iops,
}

const QUANTITIES: [(&str, Quantity); 8] = [
    ("mean", Quantity::Mean),
    ("p50", Quantity::P50),
    ("p95", Quantity::P95),
    ("p99", Quantity::P99),
    ("p99.9", Quantity::P999),
    ("max", Quantity::Max),
    ("throughput", Quantity::Throughput),
    ("iops", Quantity::Iops),
];

/// Units of time, in milliseconds.
const TIMES_MS: [(&str, f64); 4] = [("us", 1e-3), ("µs", 1e-3), ("ms", 1.0), ("s", 1e3)];
/// Units of throughput, in 10^6 bytes per second.
const RATES_MB_S: [(&str, f64); 3] = [("kB/s", 1e-3), ("MB/s", 1.0), ("GB/s", 1e3)];

/// Description of the syntax, for errors.
const FORM: &str = "should be STREAM[:read|write|fsync]:QUANTITY=VALUE, such as etcd:fsync:p99=10ms; quantities are mean, p50, p95, p99, p99.9 and max in us, ms or s, throughput in kB/s, MB/s or GB/s, and iops";

impl Quantity {
    fn is_rate(self) -> bool {
        matches!(self, Quantity::Throughput | Quantity::Iops)
    }

    fn unit(self) -> &'static str {
        match self {
            Quantity::Throughput => "MB/s",
            Quantity::Iops => "requests/s",
            _ => "ms",
        }
    }

    fn of(self, figures: &DirectionFigures) -> f64 {
        let response = &figures.response;
        match self {
            Quantity::Mean => response.mean_ms,
            Quantity::P50 => response.p50_ms,
            Quantity::P95 => response.p95_ms,
            Quantity::P99 => response.p99_ms,
            Quantity::P999 => response.p999_ms,
            Quantity::Max => response.max_ms,
            Quantity::Throughput => figures.throughput_mb_s,
            Quantity::Iops => figures.iops,
        }
    }

    /// Parses a value with its unit, and converts it to [`unit`](Self::unit); `None` unless it is finite and positive.
    fn read(self, text: &str) -> Option<f64> {
        let units: &[(&str, f64)] = match self {
            Quantity::Throughput => &RATES_MB_S,
            Quantity::Iops => &[("", 1.0)],
            _ => &TIMES_MS,
        };
        // The units overlap ("ms" ends in "s"): the one that leaves a number is meant.
        let mut found = units.iter().filter_map(|(unit, factor)| Some((text.strip_suffix(unit)?, factor)));
        let (number, factor) = found.find(|(number, _)| number.trim().parse::<f64>().is_ok())?;
        number.trim().parse::<f64>().ok().map(|number| number * factor).filter(|value| value.is_finite() && *value > 0.0)
    }
}

/// A bound for a quantity of one stream.
#[derive(Clone, Debug, PartialEq)]
pub struct Aim {
    text: String,
    /// Name of a stream, process or job, or the number of a stream.
    pub stream: String,
    /// Kind of request; `None` for reads and writes together.
    pub kind: Option<Kind>,
    quantity: Quantity,
    bound: f64,
}

impl FromStr for Aim {
    type Err = String;

    /// Parses `STREAM[:read|write|fsync]:QUANTITY=VALUE`; the name may contain colons.
    fn from_str(text: &str) -> Result<Aim, String> {
        let read = || {
            let (name, last) = text.rsplit_once(':')?;
            let (quantity, value) = last.split_once('=')?;
            let (_, quantity) = *QUANTITIES.iter().find(|(name, _)| *name == quantity)?;
            let bound = quantity.read(value)?;
            let of_kind = Kind::ALL.into_iter().find_map(|kind| Some((name.strip_suffix(kind.name())?.strip_suffix(':')?, kind)));
            let (stream, kind) = of_kind.map_or((name, None), |(stream, kind)| (stream, Some(kind)));
            let (text, stream) = (text.to_owned(), stream.to_owned());
            (!stream.is_empty()).then_some(Aim { text, stream, kind, quantity, bound })
        };
        read().ok_or_else(|| FORM.to_owned())
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Aim {
    /// Unit of the values.
    pub fn unit(&self) -> &'static str {
        self.quantity.unit()
    }

    /// Whether the twin can forecast the quantity: it simulates only some seconds, and no fsync calls.
    pub fn is_forecast(&self) -> bool {
        self.kind != Some(Kind::Fsync) && matches!(self.quantity, Quantity::Mean | Quantity::P99 | Quantity::Throughput)
    }

    /// The value in these figures. Without a request it is the worst: 0 for rates, infinity for times.
    pub fn value(&self, service: &ServiceFigures) -> f64 {
        let figures = self.kind.map_or(Some(&service.all), |kind| kind.of(service));
        figures.filter(|figures| figures.response.requests > 0).map_or(self.worst(), |figures| self.quantity.of(figures))
    }

    /// The worst value, which stands for an unknown one: 0 for rates, infinity for times.
    pub fn worst(&self) -> f64 {
        if self.quantity.is_rate() { 0.0 } else { f64::INFINITY }
    }

    /// Logarithm of the factor by which a value misses the bound; at most 0 if the aim is met.
    pub fn shortfall(&self, value: f64) -> f64 {
        if self.quantity.is_rate() { (self.bound / value).ln() } else { (value / self.bound).ln() }
    }
}

/// Checks that aims can be judged by a block device's requests, which hold no calls of fsync. `names_disk`: they are run on a model.
///
/// # Errors
/// One cannot; the message says which aim can be judged instead.
pub fn expect_of_device(aims: &[Aim], names_disk: bool) -> anyhow::Result<()> {
    for aim in aims {
        if aim.kind == Some(Kind::Fsync) {
            let of_writes = aim.text.replacen(":fsync:", ":write:", 1);
            bail!(
                "--protect {aim}: a device is asked for writes and flushes, and its requests hold no calls of fsync; aim at the writes (--protect {of_writes}), judge a job file of the load, or have the unit kept by limits (seekwise-agent protect UNIT --fsync-p99)"
            );
        }
        ensure!(
            names_disk || aim.is_forecast(),
            "--protect {aim}: of a device only mean, p99 and throughput of reads and writes are forecast; judge a job file of the load, or name a --disk"
        );
    }
    Ok(())
}

/// An aim with the streams it applies to.
pub(super) struct ResolvedAim<'a> {
    pub(super) aim: &'a Aim,
    pub(super) streams: Vec<StreamId>,
}

/// Resolves the names of aims to streams with `find`; `known` lists the valid names for errors.
///
/// # Errors
/// There is no such stream, or it has no requests of this kind under the active setting.
pub(super) fn resolve<'a>(
    aims: &'a [Aim],
    observed: &Observed,
    find: &dyn Fn(&str) -> Vec<StreamId>,
    known: &[String],
) -> anyhow::Result<Vec<ResolvedAim<'a>>> {
    let one = |aim: &'a Aim| {
        let streams = find(&aim.stream);
        ensure!(!streams.is_empty(), "--protect {aim}: there is no stream '{}'; there are {}", aim.stream, known.join(", "));
        let service = observed.service(&streams);
        let has_any = aim.kind.map_or(Some(&service.all), |kind| kind.of(&service)).is_some_and(|one| one.response.requests > 0);
        if !has_any {
            let kind = aim.kind.map_or("request", Kind::name);
            bail!("--protect {aim}: {} has no {kind} in this load, so there is nothing to protect", aim.stream);
        }
        Ok(ResolvedAim { aim, streams })
    };
    aims.iter().map(one).collect()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn an_aim_names_stream_kind_and_bound_in_any_unit() {
        let read = |text: &str| text.parse::<Aim>().map(|aim| (aim.stream, aim.kind.map(Kind::name), aim.bound));
        let of = |stream: &str, kind, bound| Ok((stream.to_owned(), kind, bound));
        assert_eq!(read("etcd:fsync:p99=10ms"), of("etcd", Some("fsync"), 10.0));
        assert_eq!(read("etcd:p99.9=0.5s"), of("etcd", None, 500.0));
        assert_eq!(read("kworker/u8:2:write:mean=250us"), of("kworker/u8:2", Some("write"), 0.25));
        assert_eq!(read("7:read:throughput=1.5GB/s"), of("7", Some("read"), 1500.0));
        assert_eq!(read("scan:iops=500"), of("scan", None, 500.0));
        for wrong in [
            "",
            "etcd",
            "etcd:p99",
            "etcd:p98=3ms",
            "etcd:p99=3",
            "etcd:p99=ms",
            "etcd:p99=-3ms",
            ":p99=3ms",
            "e:iops=3ms",
            "e:p99=infms",
        ] {
            assert!(read(wrong).is_err_and(|message| message.contains("etcd:fsync:p99=10ms")), "{wrong}");
        }
    }

    #[test]
    fn times_are_wanted_short_and_rates_high() {
        let aim = |text: &str| text.parse::<Aim>().unwrap();
        assert!(aim("a:p99=10ms").shortfall(9.0) < 0.0 && aim("a:p99=10ms").shortfall(20.0) > 0.69);
        assert!(aim("a:throughput=10MB/s").shortfall(20.0) < 0.0 && aim("a:iops=10").shortfall(5.0) > 0.69);
        for unknown in [aim("a:iops=10"), aim("a:throughput=10MB/s"), aim("a:p99=10ms")] {
            assert_eq!(unknown.shortfall(unknown.worst()), f64::INFINITY);
        }
    }
}
