//! Contracts with tenants: a TOML file with a table for each, or comments in the job file itself.
//!
//! ```toml
//! [[tenant]]
//! name = "database"
//! jobs = ["oltp", "log"]
//! reference = "barracuda"
//! ```
//! Both have the same keys with the same checks.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use block::{Nanos, Rates, did_you_mean};
use serde::Deserialize;
use sha2::Digest;
use testbed::world::hexadecimal;
use toml::{Spanned, Value};

use super::entry::Entry;
use super::reference::Reference;

mod rates;

/// Maximum size of a file: ten thousand tenants need a megabyte.
const MAX_BYTES: u64 = 16 << 20;
/// Sectors of a MiB.
const MIB: u64 = 2048;
/// Range of weights, as in cgroup v2 (`io.weight`).
const WEIGHTS: std::ops::RangeInclusive<i64> = 1..=10_000;
/// Maximum bound of a response time, in milliseconds: an hour.
const MAX_LATENCY_MS: f64 = 3_600_000.0;
/// Keys of a tenant, except those of its rates.
const KEYS: [&str; 7] = ["name", "jobs", "volumes", "weight", "reference", "best_effort", "latency_p99_ms"];

/// The tenants with their guarantees.
#[derive(Clone, Debug)]
pub struct Contract {
    /// The file's name in errors.
    pub source: String,
    /// SHA-256 of the text, in hexadecimal.
    pub sha256: String,
    /// The tenants in the file's order, at least one.
    pub promises: Vec<TenantGuarantee>,
}

/// A tenant and its guarantee.
#[derive(Clone, Debug, PartialEq)]
pub struct TenantGuarantee {
    /// Name for reports and errors.
    pub name: String,
    /// The line of the file where it begins, from 1.
    pub line: usize,
    /// Its jobs in a job file, or its streams in a trace, by name or number.
    pub jobs: Vec<String>,
    /// Its sectors on the disk. If empty, those of its jobs' files, and in a trace the sectors that its
    /// streams access.
    pub volumes: Vec<Range<u64>>,
    /// Its share of the disk's time, relative to the others' weights.
    pub weight: u32,
    /// Whether the weight was written down, and so is part of the guarantee.
    pub is_weighted: bool,
    /// The reference disk: the tenant is never served worse than on it.
    pub reference: Option<Reference>,
    /// Whether it only gets spare capacity, without a guarantee.
    pub best_effort: bool,
    /// Its reservation and limits.
    pub rates: Rates,
    /// The bound of the 99th percentile of its response times.
    pub latency_p99: Option<Nanos>,
}

impl TenantGuarantee {
    /// A tenant with these jobs and no guarantee.
    pub fn new(name: &str, jobs: &[&str]) -> TenantGuarantee {
        TenantGuarantee {
            name: name.to_owned(),
            line: 0,
            jobs: jobs.iter().map(|&job| job.to_owned()).collect(),
            volumes: Vec::new(),
            weight: 1,
            is_weighted: false,
            reference: None,
            best_effort: false,
            rates: Rates::default(),
            latency_p99: None,
        }
    }
}

/// The structure of the TOML file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    #[serde(default)]
    tenant: Vec<Spanned<BTreeMap<Spanned<String>, Spanned<Value>>>>,
}

impl Contract {
    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or those of [`parse`](Contract::parse).
    pub fn read(path: &Path) -> anyhow::Result<Contract> {
        use std::io::Read;
        let source = path.to_string_lossy();
        let mut text = String::new();
        let file = std::fs::File::open(path).with_context(|| format!("{source}: cannot be read"))?;
        file.take(MAX_BYTES + 1).read_to_string(&mut text).with_context(|| format!("{source}: cannot be read"))?;
        ensure!(text.len() as u64 <= MAX_BYTES, "{source}: longer than {} MiB: that is no list of tenants", MAX_BYTES >> 20);
        Contract::parse(&text, &source)
    }

    /// Parses a file's text. `source` names the file in errors.
    ///
    /// # Errors
    /// The text is not valid. The error names the line, the tenant, the key and a correct value.
    pub fn parse(text: &str, source: &str) -> anyhow::Result<Contract> {
        let line = |byte: usize| text.as_bytes()[..byte.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1;
        let written: Written = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            anyhow::anyhow!("{source}:{}: {}", line(at), error.message().trim().replace('\n', " "))
        })?;
        let entries = written.tenant.into_iter().map(|tenant| {
            let begins = line(tenant.span().start);
            let keys = tenant.into_inner().into_iter().map(|(key, value)| {
                let at = line(key.span().start);
                (key.into_inner(), at, value.into_inner())
            });
            Entry { line: begins, keys: keys.collect() }
        });
        Contract::of(entries.collect(), text, source)
    }

    /// The tenants in a job file's comments; `None` if there are none. `source` names the file in errors.
    ///
    /// # Errors
    /// Those of [`parse`](Contract::parse).
    pub fn of_job_file(text: &str, source: &str) -> anyhow::Result<Option<Contract>> {
        let entries = super::comments::entries(text, source)?;
        if entries.is_empty() { Ok(None) } else { Contract::of(entries, text, source).map(Some) }
    }

    fn of(entries: Vec<Entry>, text: &str, source: &str) -> anyhow::Result<Contract> {
        ensure!(!entries.is_empty(), "{source}: names no tenant; each is a table [[tenant]]");
        let mut promises: Vec<TenantGuarantee> = Vec::new();
        for entry in entries {
            let promise = promise(&entry, source)?;
            if let Some(before) = promises.iter().find(|before| before.name == promise.name) {
                bail!("{source}:{}: tenant {}: is in line {} already; name it once", entry.line, promise.name, before.line);
            }
            promises.push(promise);
        }
        let sha256 = hexadecimal(&sha2::Sha256::digest(text));
        Ok(Contract { source: source.to_owned(), sha256, promises })
    }
}

/// Parses one tenant.
fn promise(entry: &Entry, source: &str) -> anyhow::Result<TenantGuarantee> {
    let name = entry.keys.iter().find(|(key, ..)| key == "name");
    let (_, line, name) = name.with_context(|| format!("{source}:{}: tenant: has no name; name = \"database\"", entry.line))?;
    let name = name.as_str().filter(|name| !name.trim().is_empty());
    let name = name.with_context(|| format!("{source}:{line}: tenant: name: should be a word in quotes"))?;
    let mut promise = TenantGuarantee { line: entry.line, ..TenantGuarantee::new(name, &[]) };
    for (key, line, value) in &entry.keys {
        set(&mut promise, key, value).with_context(|| format!("{source}:{line}: tenant {name}: {key}"))?;
    }
    check(&promise).with_context(|| format!("{source}:{}: tenant {name}", entry.line))?;
    Ok(promise)
}

/// Sets one key to a value.
fn set(promise: &mut TenantGuarantee, key: &str, value: &Value) -> anyhow::Result<()> {
    match key {
        "name" => {}
        "jobs" => promise.jobs = jobs(value)?,
        "volumes" => promise.volumes = volumes(value)?,
        "weight" => {
            let weight = whole(value)?;
            ensure!(weight != 0, "a weight of 0 is no share; 1 is the least");
            ensure!(WEIGHTS.contains(&weight), "{weight} should be {} to {}", WEIGHTS.start(), WEIGHTS.end());
            (promise.weight, promise.is_weighted) = (weight as u32, true);
        }
        "reference" => {
            let text = value.as_str().with_context(|| format!("{value} should be a disk in quotes, as --disk names it"))?;
            promise.reference = Some(Reference::parse(text)?);
        }
        "best_effort" => {
            promise.best_effort = value.as_bool().with_context(|| format!("{value} should be true or false"))?;
        }
        "latency_p99_ms" => {
            let ms = rates::number(value).filter(|ms| (0.001..=MAX_LATENCY_MS).contains(ms));
            let ms = ms.with_context(|| format!("{value} should be milliseconds, 0.001 to {MAX_LATENCY_MS}"))?;
            promise.latency_p99 = Some(Nanos::from_millis_f64(ms));
        }
        _ => {
            let known = || KEYS.into_iter().chain(rates::KEYS);
            let is_known = rates::set(&mut promise.rates, key, value)?;
            ensure!(
                is_known,
                "there is no such key; there are {}{}",
                known().collect::<Vec<_>>().join(", "),
                did_you_mean(key, known())
            );
        }
    }
    Ok(())
}

/// Checks combinations of keys that are valid one by one.
fn check(promise: &TenantGuarantee) -> anyhow::Result<()> {
    ensure!(
        !promise.jobs.is_empty() || !promise.volumes.is_empty(),
        "names neither jobs nor volumes; jobs = [\"oltp\"] says whose requests are its own"
    );
    if promise.best_effort {
        let promised = [
            (promise.reference.is_some(), "a reference disk"),
            (!promise.rates.reservation.is_none(), "a reservation"),
            (promise.latency_p99.is_some(), "a bound of the response time"),
        ];
        let promised = promised.into_iter().find(|(promised, _)| *promised);
        if let Some((_, what)) = promised {
            bail!("best_effort means no guarantee, but {what} is one; omit one of them");
        }
    }
    rates::check(&promise.rates)
}

fn jobs(value: &Value) -> anyhow::Result<Vec<String>> {
    let wanted = || format!("{value} should be names of jobs in brackets: [\"oltp\", \"log\"]");
    let names = value.as_array().with_context(wanted)?.iter().map(|name| match name {
        Value::String(name) => Some(name.clone()),
        // Streams of a trace are often numbers.
        Value::Integer(number) => Some(number.to_string()),
        _ => None,
    });
    let names: Vec<String> = names.collect::<Option<_>>().with_context(wanted)?;
    ensure!(!names.is_empty(), wanted());
    Ok(names)
}

/// `[{ begin_mib = 0, mib = 4096 }]`, or in a comment `0+4096`, several separated by commas.
fn volumes(value: &Value) -> anyhow::Result<Vec<Range<u64>>> {
    let wanted = || format!("{value} should be pieces of the disk: [{{ begin_mib = 0, mib = 4096 }}], or in a comment 0+4096");
    let pieces: Vec<(i64, i64)> = match value {
        Value::Array(pieces) => pieces.iter().map(piece).collect::<Option<_>>(),
        Value::String(text) => text
            .split(',')
            .map(|piece| {
                let (begin, length) = piece.trim().split_once('+')?;
                Some((begin.trim().parse().ok()?, length.trim().parse().ok()?))
            })
            .collect(),
        _ => None,
    }
    .with_context(wanted)?;
    ensure!(!pieces.is_empty(), wanted());
    pieces
        .into_iter()
        .map(|(begin, length)| {
            ensure!(begin >= 0, "begin_mib = {begin} should be 0 or more");
            ensure!(length > 0, "mib = {length} holds nothing; 1 is the least");
            let sectors = |mib: i64| mib.unsigned_abs().checked_mul(MIB);
            let ends = begin.checked_add(length).and_then(sectors);
            let (begins, ends) = sectors(begin).zip(ends).with_context(|| format!("begin_mib = {begin}: no disk is so large"))?;
            Ok(begins..ends)
        })
        .collect()
}

fn piece(value: &Value) -> Option<(i64, i64)> {
    let table = value.as_table().filter(|table| table.len() == 2)?;
    Some((table.get("begin_mib")?.as_integer()?, table.get("mib")?.as_integer()?))
}

fn whole(value: &Value) -> anyhow::Result<i64> {
    value.as_integer().with_context(|| format!("{value} should be a whole number"))
}

#[cfg(test)]
mod tests;
