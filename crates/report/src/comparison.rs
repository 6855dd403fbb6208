//! Comparable records: same load, disk and replay options, one scheduler or controller per record.

use crate::figure::{self, Better, FAIRNESS, Figure};
use crate::record::{Record, SCHEMA, TraceDigest};
use crate::starved;
use crate::text::printable;

/// Records that differ only in their scheduler or controller.
pub struct Comparison<'a> {
    records: &'a [Record],
    /// By record: a sentence about the streams that it starves; `None` if it starves none.
    starved: Vec<Option<String>>,
    warnings: Vec<String>,
}

/// Why records cannot be compared.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ComparisonError {
    /// There is no record.
    #[error("a comparison needs at least one record; none was given")]
    Empty,
    /// Two records differ in something other than the scheduler.
    #[error(
        "{what}: the record of {label} has {found}, the record of {first_label} has {expected}; only records of the same {what} can be compared"
    )]
    Differs {
        /// The property that must be the same.
        what: &'static str,
        /// The first record's scheduler.
        first_label: String,
        /// The first record's value.
        expected: String,
        /// The other record's scheduler.
        label: String,
        /// The other record's value.
        found: String,
    },
    /// Two records have the same scheduler label.
    #[error("scheduler: two records are of {label}; each scheduler and setting may occur only once")]
    Twice {
        /// The scheduler.
        label: String,
    },
}

impl<'a> Comparison<'a> {
    /// Checks that the records differ in their scheduler only.
    ///
    /// # Errors
    /// No record at all; another schema, trace, disk or replay; the same scheduler label twice.
    pub fn new(records: &'a [Record]) -> Result<Self, ComparisonError> {
        let first = records.first().ok_or(ComparisonError::Empty)?;
        for (i, record) in records.iter().enumerate() {
            let label = &record.scheduler.label;
            for ((what, expected), (_, found)) in worlds(first).into_iter().zip(worlds(record)) {
                if expected != found {
                    let (first_label, label) = (printable(&first.scheduler.label), printable(label));
                    return Err(ComparisonError::Differs { what, first_label, expected, label, found });
                }
            }
            if records.iter().take(i).any(|earlier| earlier.scheduler.label == *label) {
                return Err(ComparisonError::Twice { label: printable(label) });
            }
        }
        let starved = starved::sentences(records);
        let warnings = starved.iter().flatten().cloned().chain(warnings(records)).collect();
        Ok(Self { records, starved, warnings })
    }

    /// The records, at least one, in the order they were given.
    pub fn records(&self) -> &'a [Record] {
        self.records
    }

    /// A record to read the common parts from: trace, disk and replay.
    pub fn common(&self) -> &'a Record {
        &self.records[0]
    }

    /// Warnings about the figures, each sentence once, in the order of the records. A sentence that does not apply to all records
    /// begins with the labels it applies to.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether the record in this row starves a stream and so cannot be the fairest; `false` if all records starve one.
    pub fn is_unfair(&self, row: usize) -> bool {
        self.starved.get(row).is_some_and(Option::is_some) && self.starved.iter().any(Option::is_none)
    }

    /// The figures that at least one record has.
    pub fn figures(&self) -> Vec<&'static Figure> {
        let has_value = |figure: &Figure| self.records.iter().any(|record| figure.value(record).is_some());
        figure::ALL.iter().copied().filter(|figure| has_value(figure)).collect()
    }

    /// Whether each record is among the best in a figure: shows the same three digits as the best. All `false` if neither
    /// direction is better, or if there is nothing to compare with.
    pub fn best(&self, figure: &Figure) -> Vec<bool> {
        let counts = |row: usize| figure.key != FAIRNESS.key || !self.is_unfair(row);
        let rows = || self.records.iter().enumerate().filter(|(row, _)| counts(*row));
        let values = || rows().filter_map(|(_, record)| figure.value(record));
        let best = match figure.better {
            _ if self.records.len() < 2 => None,
            Better::Neither => None,
            Better::Higher => values().max_by(f64::total_cmp),
            Better::Lower => values().min_by(f64::total_cmp),
        };
        let shown = best.map(crate::number::three_digits);
        let is_best = |(row, record)| counts(row) && shown.as_ref().is_some_and(|shown| *shown == figure.text(record));
        self.records.iter().enumerate().map(is_best).collect()
    }
}

/// The properties that must be the same, worded for the error message.
fn worlds(record: &Record) -> [(&'static str, String); 8] {
    let Record { schema, trace, disk, replay, .. } = record;
    let digest = |sha: &str| printable(&sha.chars().take(12).collect::<String>());
    [
        ("schema", format!("{schema} (this program writes {SCHEMA})")),
        ("trace", format!("{} (sha256 {}…{})", printable(&trace.name), digest(&trace.sha256), requests(trace))),
        ("disk", format!("{} (sha256 {}…)", printable(&disk.name), digest(&disk.sha256))),
        ("disk queue depth", disk.queue_depth.to_string()),
        ("disk queue policy", printable(&disk.queue_policy)),
        (
            "replay",
            format!(
                "{} at speed {}, fit {}{}",
                printable(&replay.mode),
                replay.speed,
                printable(&replay.fit),
                replay.seed.map_or_else(String::new, |seed| format!(", seed {seed}")),
            ),
        ),
        ("host", settings(&replay.host)),
        (
            "tenants",
            record.tenants.as_ref().map_or_else(
                || "none".to_owned(),
                |tenancy| format!("{} (sha256 {}…)", printable(&tenancy.contract), digest(&tenancy.sha256)),
            ),
        ),
    ]
}

fn requests(trace: &TraceDigest) -> String {
    trace.requests.map_or_else(String::new, |requests| format!(", {requests} requests"))
}

/// Tunables with their values, on one line.
pub(crate) fn settings<V: ToString>(tunables: &[(String, V)]) -> String {
    let set = |(name, value): &(String, V)| format!("{} = {}", printable(name), printable(&value.to_string()));
    let settings: Vec<String> = tunables.iter().map(set).collect();
    if settings.is_empty() { "no tunables".to_owned() } else { settings.join(", ") }
}

fn warnings(records: &[Record]) -> Vec<String> {
    let mut sentences: Vec<(&str, Vec<String>)> = Vec::new();
    for record in records {
        let label = printable(&record.scheduler.label);
        for warning in &record.warnings {
            match sentences.iter_mut().find(|(sentence, _)| sentence == warning) {
                Some((_, labels)) if labels.contains(&label) => {}
                Some((_, labels)) => labels.push(label.clone()),
                None => sentences.push((warning, vec![label.clone()])),
            }
        }
    }
    let whole = |(sentence, labels): (&str, Vec<String>)| {
        if labels.len() == records.len() { printable(sentence) } else { format!("{}: {}", labels.join(", "), printable(sentence)) }
    };
    let mut warnings: Vec<String> = sentences.into_iter().map(whole).collect();
    let mut versions: Vec<String> = records.iter().map(|record| printable(&record.seekwise_version)).collect();
    versions.sort();
    versions.dedup();
    if versions.len() > 1 {
        warnings.push(format!("The records were written by different versions of seekwise: {}.", versions.join(", ")));
    }
    warnings
}
