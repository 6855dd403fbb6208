//! The file format of arrays and volumes.
//!
//! ```toml
//! [[array]]
//! name = "disks"
//! disk = "raid0:disk=atlas10k,disks=4,stripe_unit_kib=4"
//!
//! [[volume]]
//! name = "films"
//! on = "disks"
//! reference = "barracuda"
//! mib = 1024
//! load = { locality = 1.0, size_kib = 64, outstanding = 4 }
//! ```

use std::ops::RangeInclusive;
use std::path::Path;

use crate::planner::{Basis, Initial, Rules};
use anyhow::{Context, bail, ensure};
use block::rates::Rates;
use block::{Nanos, did_you_mean};
use serde::Deserialize;
use sim::store::CopyPace;
use testbed::pool::Workers;
use testbed::synthetic::{Arrival, Pattern, Phase, Places};
use toml::Spanned;

use super::array::ClusterArray;
use super::asks::Asks;
use super::cluster::{Cluster, ClusterVolume};
use super::recorded;
use crate::tenants::Reference;

/// Maximum size of a file.
const MAX_BYTES: u64 = 16 << 20;
/// Sectors of a MiB.
const MIB: u64 = 2048;
/// Maximum number of volumes: the matrix has a column for each.
const VOLUMES: usize = 1_000;
const ARRAYS: usize = 100;

/// The content of a file.
#[derive(Clone, Debug)]
pub struct Specification {
    /// The file's name as it was given.
    pub source: String,
    /// Arrays and volumes.
    pub cluster: Cluster,
    /// Parameters of the planner.
    pub rules: Rules,
    /// Criterion for the array of a volume that is not placed yet.
    pub initial: Initial,
    /// Number of samples of each volume, and their length.
    pub samples: (usize, Nanos),
    /// Pace of copying in bytes per second; `None`: as much as the arrays can spare.
    pub copy_bytes_per_s: Option<u64>,
}

impl Specification {
    /// The pace of copying if the arrays can spare this many bytes per second.
    pub fn pace(&self, spare_bytes_per_s: u64) -> CopyPace {
        CopyPace { bytes_per_s: self.copy_bytes_per_s.unwrap_or(spare_bytes_per_s).max(1), ..CopyPace::default() }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    threshold_points: Option<Spanned<f64>>,
    slot_ms: Option<Spanned<i64>>,
    samples: Option<Spanned<i64>>,
    sample_s: Option<Spanned<f64>>,
    copy_mb_s: Option<Spanned<f64>>,
    count_by: Option<Basis>,
    place_by: Option<Initial>,
    #[serde(default)]
    array: Vec<Spanned<WrittenArray>>,
    #[serde(default)]
    volume: Vec<Spanned<WrittenVolume>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenArray {
    name: Spanned<String>,
    disk: Spanned<String>,
    capacity_percent: Option<Spanned<f64>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenVolume {
    name: Spanned<String>,
    on: Option<Spanned<String>>,
    reference: Option<Spanned<String>>,
    mib: Option<Spanned<i64>>,
    load: Spanned<toml::Value>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenAsks {
    #[serde(default)]
    locality: f64,
    reads_percent: Option<i64>,
    size_kib: Option<i64>,
    outstanding: Option<i64>,
    iops: Option<f64>,
    #[serde(default)]
    popular: bool,
}

/// The text and the name of a file, for the positions of errors.
struct Text<'a> {
    text: &'a str,
    source: &'a str,
}

impl Text<'_> {
    /// The position of a byte: the file and the line.
    fn at(&self, byte: usize) -> String {
        let before = &self.text.as_bytes()[..byte.min(self.text.len())];
        format!("{}:{}", self.source, before.iter().filter(|&&byte| byte == b'\n').count() + 1)
    }

    fn key<T>(&self, value: &Spanned<T>, key: &str) -> String {
        format!("{}: {key}", self.at(value.span().start))
    }

    /// A number within bounds, or `default` without a value.
    fn within<T: Copy + PartialOrd + std::fmt::Display>(
        &self,
        value: Option<Spanned<T>>,
        key: &str,
        bounds: RangeInclusive<T>,
        default: T,
    ) -> anyhow::Result<T> {
        let Some(value) = value else { return Ok(default) };
        let number = *value.get_ref();
        ensure!(bounds.contains(&number), "{}: {number} should be {} to {}", self.key(&value, key), bounds.start(), bounds.end());
        Ok(number)
    }
}

impl Specification {
    /// Reads a file. Loads that are traces or jobs run alone on their volumes' reference disks to record their requests.
    ///
    /// # Errors
    /// The file cannot be read, or those of [`parse`](Specification::parse).
    pub fn read(path: &Path, seed: u64, workers: Workers) -> anyhow::Result<Specification> {
        use std::io::Read;
        let source = path.to_string_lossy();
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| format!("{source}: cannot be read"))?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| format!("{source}: cannot be read"))?;
        ensure!(text.len() as u64 <= MAX_BYTES, "{source}: longer than {} MiB: that is no list of arrays", MAX_BYTES >> 20);
        Specification::parse(&text, &source, seed, workers)
    }

    /// Parses a file's text; `source` names the file in errors.
    ///
    /// # Errors
    /// The text is not valid. The error names the line, the key, the value and a correct value.
    pub fn parse(text: &str, source: &str, seed: u64, workers: Workers) -> anyhow::Result<Specification> {
        let text = Text { text, source };
        let written: Written = toml::from_str(text.text).map_err(|error| {
            let at = text.at(error.span().map_or(0, |span| span.start));
            anyhow::anyhow!("{at}: {}", error.message().trim().replace('\n', " "))
        })?;
        ensure!(!written.array.is_empty(), "{source}: names no array; each is a table [[array]] with name and disk");
        ensure!(!written.volume.is_empty(), "{source}: names no volume; each is a table [[volume]] with name, reference and load");
        ensure!(written.array.len() <= ARRAYS, "{source}: {} arrays; {ARRAYS} are the most", written.array.len());
        ensure!(written.volume.len() <= VOLUMES, "{source}: {} volumes; {VOLUMES} are the most", written.volume.len());
        let defaults = Rules::default();
        let threshold = text.within(written.threshold_points, "threshold_points", 0.1..=100.0, defaults.threshold * 100.0)?;
        let slot_ms = text.within(written.slot_ms, "slot_ms", 1..=1_000, (defaults.slot.0 / 1_000_000) as i64)?;
        let samples = text.within(written.samples, "samples", 1..=100, 3)?;
        let sample_s = text.within(written.sample_s, "sample_s", 0.1..=600.0, 2.0)?;
        let copy_mb_s = written.copy_mb_s.map(|value| text.within(Some(value), "copy_mb_s", 0.001..=100_000.0, 1.0)).transpose()?;
        let arrays = arrays(&text, written.array)?;
        let volumes = volumes(&text, written.volume, &arrays, seed, workers)?;
        Ok(Specification {
            source: source.to_owned(),
            cluster: Cluster { arrays, volumes, seed },
            rules: Rules {
                threshold: threshold / 100.0,
                slot: Nanos::from_millis(slot_ms.unsigned_abs()),
                basis: written.count_by.unwrap_or(defaults.basis),
            },
            initial: written.place_by.unwrap_or(Initial::LargestSpare),
            samples: (samples as usize, Nanos::from_secs_f64(sample_s)),
            copy_bytes_per_s: copy_mb_s.map(|rate| (rate * 1e6) as u64),
        })
    }
}

/// Checks that a name is neither empty nor in use.
fn new_name(text: &Text, name: &Spanned<String>, known: &[&str], what: &str) -> anyhow::Result<()> {
    let at = text.key(name, "name");
    ensure!(!name.get_ref().trim().is_empty(), "{at}: is empty; name the {what}");
    ensure!(
        !known.contains(&name.get_ref().as_str()),
        "{at}: {what} {} is there already; give this one another name",
        name.get_ref()
    );
    Ok(())
}

fn arrays(text: &Text, written: Vec<Spanned<WrittenArray>>) -> anyhow::Result<Vec<ClusterArray>> {
    let mut arrays: Vec<ClusterArray> = Vec::new();
    for array in written {
        let WrittenArray { name, disk, capacity_percent } = array.into_inner();
        new_name(text, &name, &arrays.iter().map(|array| array.name.as_str()).collect::<Vec<_>>(), "array")?;
        let profile = sim::profile::load(disk.get_ref()).with_context(|| text.key(&disk, "disk"))?;
        let capacity = text.within(capacity_percent, "capacity_percent", 1.0..=100.0, 100.0)? / 100.0;
        arrays.push(ClusterArray { name: name.into_inner(), profile, capacity });
    }
    Ok(arrays)
}

fn volumes(
    text: &Text,
    written: Vec<Spanned<WrittenVolume>>,
    arrays: &[ClusterArray],
    seed: u64,
    workers: Workers,
) -> anyhow::Result<Vec<ClusterVolume>> {
    let mut volumes: Vec<ClusterVolume> = Vec::new();
    for volume in written {
        let WrittenVolume { name, on, reference, mib, load } = volume.into_inner();
        new_name(text, &name, &volumes.iter().map(|volume| volume.name.as_str()).collect::<Vec<_>>(), "volume")?;
        let on = on.map(|on| array_of(text, &on, arrays)).transpose()?;
        let parse = |value: &Spanned<String>| Reference::parse(value.get_ref()).with_context(|| text.key(value, "reference"));
        let reference_disk = reference.as_ref().map(parse).transpose()?;
        let given = mib.map(|mib| text.within(Some(mib), "mib", 1..=1 << 40, 1)).transpose()?.map(|mib| mib.unsigned_abs() * MIB);
        let sampled_on = reference_disk.clone().unwrap_or_else(|| Reference::of(&arrays[on.unwrap_or(0)].profile));
        let at = text.key(&load, "load");
        let (asks, sectors) = match load.into_inner() {
            toml::Value::String(named) => {
                let (asks, needs) = recorded::run(Path::new(&named), &sampled_on, seed, workers).with_context(|| at.clone())?;
                ensure!(
                    given.is_none_or(|given| given >= needs),
                    "{at}: {named} reaches {} MiB into the volume; mib should be at least that",
                    needs.div_ceil(MIB)
                );
                (asks, given.unwrap_or(needs.next_multiple_of(MIB)))
            }
            toml::Value::Table(table) => {
                let written: WrittenAsks = toml::Value::Table(table)
                    .try_into()
                    .map_err(|error: toml::de::Error| anyhow::anyhow!("{at}: {}", error.message().trim().replace('\n', " ")))?;
                let asks = drawn(&written).with_context(|| at.clone())?;
                (asks, given.with_context(|| format!("{at}: a load that is drawn needs the volume's size: mib = 1024"))?)
            }
            other => bail!(
                "{at}: {other} should be a trace, a job file or a workload in quotes, or {{ locality = 0.5, outstanding = 8 }}"
            ),
        };
        if let Some(capacity) = reference_disk.as_ref().and_then(Reference::capacity_sectors) {
            ensure!(
                sectors <= capacity,
                "{at}: the volume is {} MiB, and its reference disk holds {} MiB; a larger disk would be right",
                sectors / MIB,
                capacity / MIB
            );
        }
        volumes.push(ClusterVolume {
            name: name.into_inner(),
            sectors,
            reference: reference_disk,
            rates: Rates::default(),
            asks,
            on,
        });
    }
    Ok(volumes)
}

fn array_of(text: &Text, on: &Spanned<String>, arrays: &[ClusterArray]) -> anyhow::Result<usize> {
    let found = arrays.iter().position(|array| array.name == *on.get_ref());
    found.with_context(|| {
        let names: Vec<&str> = arrays.iter().map(|array| array.name.as_str()).collect();
        let meant = did_you_mean(on.get_ref(), names.iter().copied());
        format!("{}: there is no array {}; there are {}{meant}", text.key(on, "on"), on.get_ref(), names.join(", "))
    })
}

/// Sizes of random requests, in sectors: 4 KiB to 1 MiB.
static SIZES: [u32; 9] = [8, 16, 32, 64, 128, 256, 512, 1024, 2048];

/// The sizes of a pattern with one size: a power of two from 4 to 1,024 KiB.
pub fn size(kib: i64) -> anyhow::Result<&'static [u32]> {
    let index = SIZES.iter().position(|sectors| i64::from(*sectors) == kib.saturating_mul(2));
    let index = index.with_context(|| format!("size_kib: {kib} should be a power of two from 4 to 1024"))?;
    Ok(&SIZES[index..=index])
}

fn drawn(written: &WrittenAsks) -> anyhow::Result<Asks> {
    let WrittenAsks { locality, reads_percent, size_kib, outstanding, iops, popular } = *written;
    ensure!((0.0..=1.0).contains(&locality), "locality: {locality} should be 0 (all at random) to 1 (one after the other)");
    let reads = reads_percent.unwrap_or(100);
    ensure!((0..=100).contains(&reads), "reads_percent: {reads} should be 0 to 100");
    let arrival = match (outstanding, iops) {
        (Some(_), Some(_)) => bail!("outstanding and iops are two ways to say when requests come; leave one out"),
        (_, Some(iops)) => {
            ensure!((0.001..=1e6).contains(&iops), "iops: {iops} should be 0.001 to 1000000");
            Arrival::AtRandom(Nanos::from_secs_f64(1.0 / iops))
        }
        (count, None) => {
            let count = count.unwrap_or(1);
            ensure!((1..=1024).contains(&count), "outstanding: {count} should be 1 to 1024");
            Arrival::Outstanding(count as u32)
        }
    };
    let places = if popular { Places::Zipf } else { Places::Uniform };
    let pattern = Pattern::Local { locality, reads: reads as u32, sizes: size(size_kib.unwrap_or(4))?, places };
    Ok(Asks::Drawn { phases: vec![Phase { until: super::asks::FOR_EVER, arrival, pattern }], is_sync: true })
}
