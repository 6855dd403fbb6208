//! Reads rows from CSV: a header line, numbers, one column with the class.

use std::collections::BTreeMap;
use std::io::Read;

use csv::{ReaderBuilder, StringRecord};

use super::Dataset;

/// Maximum number of columns: more indicate an error, such as a file with all values in one line.
const MAX_COLUMNS: usize = 100_000;

/// Columns with a special meaning.
#[derive(Clone, Debug, Default)]
pub struct Columns<'a> {
    /// The column of the class; `None`: the last.
    pub label: Option<&'a str>,
    /// The column that groups rows; it is not a feature. `None`: every row is its own group.
    pub group: Option<&'a str>,
    /// The column of weights; it is not a feature. `None`: equal weights.
    pub weight: Option<&'a str>,
}

/// An error in the text, with its line.
#[derive(Debug, thiserror::Error)]
#[error("{line}: {message}")]
pub struct CsvError {
    /// Line number, from 1.
    pub line: u64,
    /// The error, and the valid values.
    pub message: String,
}

/// Reads rows. Empty fields and `?` are missing values. Classes are sorted by name, groups numbered in order of appearance.
///
/// # Errors
/// The input cannot be read, a column is missing or a duplicate, a line has too few or too many fields, a field is not a finite number, or a
/// class or group is missing.
pub fn read_csv(input: impl Read, columns: &Columns) -> Result<Dataset, CsvError> {
    let mut reader = ReaderBuilder::new().flexible(true).trim(csv::Trim::All).from_reader(input);
    let header = reader.headers().map_err(from_csv)?.clone();
    let layout = Layout::of(&header, columns).map_err(|message| CsvError { line: 1, message })?;
    let mut data =
        Dataset { features: layout.features.iter().map(|&column| header[column].to_owned()).collect(), ..Dataset::default() };
    let (mut groups, mut labels) = (BTreeMap::new(), Vec::new());
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(from_csv)? {
        let line = record.position().map_or(0, csv::Position::line);
        let wrong = |message: String| CsvError { line, message };
        if record.len() != header.len() {
            return Err(wrong(format!("{} fields; the header has {}", record.len(), header.len())));
        }
        let number =
            |column: usize| number(&record[column]).map_err(|reason| wrong(format!("column {}: {reason}", &header[column])));
        let name = |column: usize| match &record[column] {
            "" | "?" => Err(wrong(format!("column {}: is missing; required in every row", &header[column]))),
            name => Ok(name.to_owned()),
        };
        data.rows.push(layout.features.iter().map(|&column| number(column)).collect::<Result<_, _>>()?);
        labels.push(name(layout.label)?);
        if let Some(column) = layout.group {
            let next = groups.len() as u64;
            data.groups.push(*groups.entry(name(column)?).or_insert(next));
        }
        if let Some(column) = layout.weight {
            let weight = number(column)?;
            if weight.is_nan() || weight < 0.0 {
                return Err(wrong(format!("column {}: '{}' should be a weight, 0 or more", &header[column], &record[column])));
            }
            data.weights.push(weight);
        }
    }
    data.classes.clone_from(&labels);
    data.classes.sort();
    data.classes.dedup();
    data.labels = labels.iter().map(|label| data.classes.partition_point(|class| class < label)).collect();
    Ok(data)
}

fn from_csv(error: csv::Error) -> CsvError {
    let line = error.position().map_or(1, csv::Position::line);
    CsvError { line, message: error.to_string() }
}

/// A field's number; NaN if it is missing.
fn number(field: &str) -> Result<f64, String> {
    if field.is_empty() || field == "?" {
        return Ok(f64::NAN);
    }
    match field.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("'{field}' should be a finite number, or empty or ? if missing")),
    }
}

/// Indices of columns by meaning.
struct Layout {
    features: Vec<usize>,
    label: usize,
    group: Option<usize>,
    weight: Option<usize>,
}

impl Layout {
    fn of(header: &StringRecord, columns: &Columns) -> Result<Layout, String> {
        if header.len() > MAX_COLUMNS {
            return Err(format!("{} columns; there should be at most {MAX_COLUMNS}", header.len()));
        }
        let mut names: Vec<&str> = header.iter().collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("duplicate column '{}'", pair[0]));
        }
        let find = |name: &str| {
            let known = || header.iter().take(20).collect::<Vec<_>>().join(", ");
            header.iter().position(|column| column == name).ok_or_else(|| format!("unknown column '{name}'; known: {}", known()))
        };
        let group = columns.group.map(find).transpose()?;
        let weight = columns.weight.map(find).transpose()?;
        let last = || (0..header.len()).rev().find(|column| Some(*column) != group && Some(*column) != weight);
        let label = match columns.label {
            Some(name) => find(name)?,
            None => last().ok_or("no column with the class")?,
        };
        let mut special: Vec<usize> = [Some(label), group, weight].into_iter().flatten().collect();
        special.sort_unstable();
        if let Some(pair) = special.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(format!("column '{}' cannot be two of class, group and weight", &header[pair[0]]));
        }
        let features: Vec<usize> = (0..header.len()).filter(|column| !special.contains(column)).collect();
        if features.is_empty() {
            return Err("no column but the class; should have at least one feature".to_owned());
        }
        Ok(Layout { features, label, group, weight })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str, columns: &Columns) -> String {
        read_csv(text.as_bytes(), columns).unwrap_err().to_string()
    }

    #[test]
    fn the_last_column_is_the_class_unless_another_is_named() {
        let data = read_csv("a,b,class\n1,?,yes\n2.5,,no\n".as_bytes(), &Columns::default()).unwrap();
        assert_eq!(
            (data.features, data.classes, data.labels),
            (vec!["a".into(), "b".into()], vec!["no".into(), "yes".into()], vec![1, 0])
        );
        assert!(data.rows[0][1].is_nan() && data.rows[1][1].is_nan());
        let columns = Columns { label: Some("class"), group: Some("run"), weight: Some("w") };
        let data = read_csv("class,a,run,w\nyes,1,x,2\nno,2,y,1\nno,3,x,0\n".as_bytes(), &columns).unwrap();
        assert_eq!((data.groups, data.weights, data.rows.len()), (vec![0, 1, 0], vec![2.0, 1.0, 0.0], 3));
    }

    #[test]
    fn what_is_wrong_is_said_with_line_and_column() {
        let plain = Columns::default();
        assert_eq!(
            complaint("a,c\n1,x\ntwo,y\n", &plain),
            "3: column a: 'two' should be a finite number, or empty or ? if missing"
        );
        assert_eq!(complaint("a,c\ninf,x\n", &plain), "2: column a: 'inf' should be a finite number, or empty or ? if missing");
        assert_eq!(complaint("a,c\n1\n", &plain), "2: 1 fields; the header has 2");
        assert_eq!(complaint("a,c\n1,\n", &plain), "2: column c: is missing; required in every row");
        assert_eq!(complaint("a,a,c\n", &plain), "1: duplicate column 'a'");
        assert_eq!(complaint("c\nx\n", &plain), "1: no column but the class; should have at least one feature");
        assert_eq!(complaint("", &plain), "1: no column with the class");
        assert_eq!(complaint("a,c\n", &Columns { label: Some("d"), ..plain.clone() }), "1: unknown column 'd'; known: a, c");
        let twice = Columns { label: Some("a"), group: Some("a"), weight: None };
        assert_eq!(complaint("a,c\n", &twice), "1: column 'a' cannot be two of class, group and weight");
    }
}
