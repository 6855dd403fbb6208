//! Training rows as CSV: the summary of a load under a setting, and the gain of each setting.

use std::io::Read;

use anyhow::{Context, ensure};
use control::gain_model::names;

/// The columns before the features.
const FIRST: [&str; 10] = ["seed", "seconds", "case", "device", "load", "phase", "under", "from_s", "to_s", "requests"];
/// Prefixes of the columns of gains, and of those that tell whether a setting starves a stream.
const GAIN: &str = "gain ";
const STARVES: &str = "starves ";

/// Rows of gathered cases.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rows {
    /// The settings with gains, in order; gains are relative to the first.
    pub settings: Vec<String>,
    /// The rows; those of a case are adjacent.
    pub rows: Vec<Row>,
}

/// Observation of a phase of a load under one setting.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Seed of the gathering.
    pub seed: u64,
    /// Run time of each load in seconds.
    pub seconds: u32,
    /// The number of the load and its device, from 0.
    pub case: u32,
    /// The device's family.
    pub device: String,
    /// The phase's programs, joined by `+`.
    pub load: String,
    /// The number of the phase, from 0.
    pub phase: u32,
    /// The active setting.
    pub under: String,
    /// Span of the observation in seconds: from and to.
    pub from_s: f64,
    /// See `from_s`.
    pub to_s: f64,
    /// Number of requests observed.
    pub requests: u64,
    /// The load's summary; NaN for missing values.
    pub features: Vec<f32>,
    /// Gain of each setting over the first as a logarithm of merit, regardless of starvation.
    pub gains: Vec<f32>,
    /// Whether each setting starves a stream.
    pub starves: Vec<bool>,
}

/// The header line.
pub fn header(settings: &[String]) -> Vec<String> {
    let gains = settings.iter().map(|setting| format!("{GAIN}{setting}"));
    let starves = settings.iter().map(|setting| format!("{STARVES}{setting}"));
    FIRST.map(str::to_owned).into_iter().chain(names()).chain(gains).chain(starves).collect()
}

impl Row {
    /// The fields of its line, in the order of `header`.
    pub fn cells(&self) -> Vec<String> {
        let first = [
            self.seed.to_string(),
            self.seconds.to_string(),
            self.case.to_string(),
            self.device.clone(),
            self.load.clone(),
            self.phase.to_string(),
            self.under.clone(),
            self.from_s.to_string(),
            self.to_s.to_string(),
            self.requests.to_string(),
        ];
        let features = self.features.iter().map(|value| if value.is_nan() { String::new() } else { value.to_string() });
        let starves = self.starves.iter().map(|starves| u8::from(*starves).to_string());
        first.into_iter().chain(features).chain(self.gains.iter().map(f32::to_string)).chain(starves).collect()
    }
}

impl Rows {
    /// Parses the output of `seekwise-lab learn gains gather`.
    ///
    /// # Errors
    /// The text is invalid; the error names line and column.
    pub fn read(reader: impl Read) -> anyhow::Result<Rows> {
        let mut reader = csv::Reader::from_reader(reader);
        let columns: Vec<String> = reader.headers()?.iter().map(str::to_owned).collect();
        let settings = columns.iter().filter_map(|name| name.strip_prefix(GAIN)).map(str::to_owned).collect::<Vec<_>>();
        ensure!(
            columns == header(&settings) && !settings.is_empty(),
            "its columns are not those that `learn gains gather` of this program writes: gather again"
        );
        let rows = reader.records().map(|record| {
            let record = record?;
            let line = record.position().map_or(0, csv::Position::line);
            row(&record, settings.len()).with_context(|| format!("line {line}"))
        });
        Ok(Rows { rows: rows.collect::<anyhow::Result<_>>()?, settings })
    }

    /// The number of different cases.
    pub fn cases(&self) -> usize {
        let mut cases: Vec<u32> = self.rows.iter().map(|row| row.case).collect();
        cases.dedup();
        cases.len()
    }
}

fn row(record: &csv::StringRecord, settings: usize) -> anyhow::Result<Row> {
    let text = |column: usize| record.get(column).unwrap_or("");
    let of = |column: usize| format!("{}: '{}' should be a number", FIRST.get(column).unwrap_or(&"value"), text(column));
    let number = |column: usize| text(column).parse::<f64>().ok().filter(|value| value.is_finite()).with_context(|| of(column));
    let whole = |column: usize| text(column).parse::<u64>().with_context(|| of(column));
    let features = FIRST.len()..FIRST.len() + names().len();
    let gains = features.end..features.end + settings;
    let starves = gains.end..gains.end + settings;
    let feature = |column: usize| if text(column).is_empty() { Ok(f32::NAN) } else { number(column).map(|value| value as f32) };
    Ok(Row {
        seed: whole(0)?,
        seconds: u32::try_from(whole(1)?).with_context(|| of(1))?,
        case: u32::try_from(whole(2)?).with_context(|| of(2))?,
        device: text(3).to_owned(),
        load: text(4).to_owned(),
        phase: u32::try_from(whole(5)?).with_context(|| of(5))?,
        under: text(6).to_owned(),
        from_s: number(7)?,
        to_s: number(8)?,
        requests: whole(9)?,
        features: features.map(feature).collect::<anyhow::Result<_>>()?,
        gains: gains.map(|column| number(column).map(|value| value as f32)).collect::<anyhow::Result<_>>()?,
        starves: starves.map(|column| number(column).map(|value| value > 0.0)).collect::<anyhow::Result<_>>()?,
    })
}
