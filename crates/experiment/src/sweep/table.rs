//! A file of the data set: Parquet, one row per case.

use std::io::Write;
use std::sync::Arc;

use anyhow::Context as _;
use block::Unit;
use control::Setting;
use parquet::basic::{Compression, LogicalType, Repetition, Type, ZstdLevel};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::record::Field;
use parquet::schema::types::Type as Node;

use super::columns;
use super::plan::Plan;
use super::row::Row;
use super::settings::{Choice, value_of};

/// Values of a column, one per row.
#[derive(Clone, Debug)]
pub enum Values {
    /// Integers.
    Counts(Vec<Option<i64>>),
    /// Floating-point numbers.
    Numbers(Vec<Option<f64>>),
    /// Text.
    Words(Vec<Option<String>>),
}

impl Values {
    fn kind(&self) -> (Type, Option<LogicalType>) {
        match self {
            Values::Counts(_) => (Type::INT64, None),
            Values::Numbers(_) => (Type::DOUBLE, None),
            Values::Words(_) => (Type::BYTE_ARRAY, Some(LogicalType::String)),
        }
    }
}

/// Column name of a tunable.
fn column(choice: &Choice) -> String {
    format!("{}.{}", choice.scheduler.unwrap_or("host"), choice.tunable.name)
}

/// Value of a tunable in each case; null if the case's scheduler does not have it.
fn tunable(choice: &Choice, settings: &[Option<Setting>]) -> Values {
    let has = |setting: &&Setting| choice.scheduler.is_none_or(|scheduler| scheduler == setting.spec.name);
    let value = |setting: &Option<Setting>| setting.as_ref().filter(has).map(|setting| value_of(setting, choice));
    let values = settings.iter().map(value);
    match choice.tunable.unit {
        Unit::OneOf(_) => Values::Words(values.map(|value| value.map(|value| choice.tunable.text(value))).collect()),
        Unit::PercentHundredths => Values::Numbers(values.map(|value| value.map(|value| value as f64 / 100.0)).collect()),
        _ => Values::Counts(values.collect()),
    }
}

/// All columns of these rows, in the order of the file.
fn all(plan: &Plan, rows: &[Row]) -> Vec<(String, Values)> {
    let cases: Vec<_> = rows.iter().map(|row| plan.case(row.case)).collect();
    let settings: Vec<Option<Setting>> = rows.iter().map(|row| Setting::parse(&row.setting).ok()).collect();
    let words = |of: &dyn Fn(usize) -> Option<String>| Values::Words((0..rows.len()).map(of).collect());
    let mut columns = vec![
        ("case".to_owned(), Values::Counts(rows.iter().map(|row| Some(row.case as i64)).collect())),
        ("load".to_owned(), words(&|row| Some(plan.loads[cases[row].load].name.clone()))),
        ("load_sha256".to_owned(), words(&|row| Some(rows[row].load_sha256.clone()).filter(|sum| !sum.is_empty()))),
        ("disk".to_owned(), words(&|row| Some(plan.disks[cases[row].disk].name.clone()))),
        ("scheduler".to_owned(), words(&|row| settings[row].as_ref().map(|setting| setting.spec.name.to_owned()))),
        ("setting".to_owned(), words(&|row| Some(rows[row].setting.clone()))),
        ("seed".to_owned(), Values::Counts(cases.iter().map(|case| Some(plan.seeds[case.seed] as i64)).collect())),
    ];
    columns.extend(plan.searched.choices().iter().map(|choice| (column(choice), tunable(choice, &settings))));
    let is_count = columns::ALL.iter().map(|column| column.is_count).chain([false]);
    for (number, (name, is_count)) in columns::names().zip(is_count).enumerate() {
        let values = rows.iter().map(|row| row.figures.get(number).copied().flatten());
        let values = if is_count {
            Values::Counts(values.map(|value| value.map(|value| value as i64)).collect())
        } else {
            Values::Numbers(values.collect())
        };
        columns.push((name.to_owned(), values));
    }
    columns.push(("error".to_owned(), words(&|row| rows[row].error.clone())));
    columns
}

/// Encodes rows as a Parquet file. Deterministic for a given plan and rows.
///
/// # Errors
/// The Parquet library rejects the columns.
pub fn bytes(plan: &Plan, rows: &[Row]) -> anyhow::Result<Vec<u8>> {
    encode(&all(plan, rows))
}

/// Encodes columns as a Parquet file.
///
/// # Errors
/// The Parquet library rejects the columns.
pub(super) fn encode(columns: &[(String, Values)]) -> anyhow::Result<Vec<u8>> {
    let mut out = Vec::new();
    write(&mut out, columns).context("cannot write Parquet")?;
    Ok(out)
}

fn write(out: &mut (impl Write + Send), columns: &[(String, Values)]) -> Result<(), ParquetError> {
    let field = |(name, values): &(String, Values)| {
        let (physical, logical) = values.kind();
        let field = Node::primitive_type_builder(name, physical).with_repetition(Repetition::OPTIONAL).with_logical_type(logical);
        Ok(Arc::new(field.build()?))
    };
    let fields = columns.iter().map(field).collect::<Result<Vec<_>, ParquetError>>()?;
    let schema = Arc::new(Node::group_type_builder("cases").with_fields(fields).build()?);
    let properties = WriterProperties::builder()
        .set_created_by(concat!("seekwise ", env!("CARGO_PKG_VERSION")).to_owned())
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .build();
    let mut file = SerializedFileWriter::new(out, schema, Arc::new(properties))?;
    let mut group = file.next_row_group()?;
    for (_, values) in columns {
        match values {
            Values::Counts(values) => put::<Int64Type>(&mut group, values.iter().copied())?,
            Values::Numbers(values) => put::<DoubleType>(&mut group, values.iter().copied())?,
            Values::Words(values) => {
                put::<ByteArrayType>(&mut group, values.iter().map(|word| word.as_deref().map(ByteArray::from)))?;
            }
        }
    }
    group.close()?;
    file.close()?;
    Ok(())
}

fn put<T: DataType>(
    group: &mut SerializedRowGroupWriter<'_, &mut (impl Write + Send)>,
    values: impl Iterator<Item = Option<T::T>> + Clone,
) -> Result<(), ParquetError> {
    let levels: Vec<i16> = values.clone().map(|value| value.is_some().into()).collect();
    let values: Vec<T::T> = values.flatten().collect();
    let Some(mut column) = group.next_column()? else {
        return Err(ParquetError::General("more columns are written than there are".into()));
    };
    column.typed::<T>().write_batch(&values, Some(&levels), None)?;
    column.close()
}

/// The columns of a case that a report needs.
#[derive(Clone, Debug)]
pub struct Read {
    /// Load.
    pub load: String,
    /// Disk.
    pub disk: String,
    /// Setting.
    pub setting: String,
    /// Seed.
    pub seed: i64,
    /// Value of the requested figure.
    pub value: Option<f64>,
    /// Why the case failed; `None` if it did not.
    pub error: Option<String>,
}

/// Reads the cases of a file with one figure.
///
/// # Errors
/// The file is damaged or not part of a sweep.
pub fn read(path: &std::path::Path, figure: &str) -> anyhow::Result<Vec<Read>> {
    let of = || path.display().to_string();
    let file = std::fs::File::open(path).with_context(of)?;
    let reader = SerializedFileReader::new(file).with_context(of)?;
    let mut rows = Vec::new();
    for row in reader.get_row_iter(None).with_context(of)? {
        let row = row.with_context(of)?;
        let mut read = Read { load: String::new(), disk: String::new(), setting: String::new(), seed: 0, value: None, error: None };
        for (name, field) in row.get_column_iter() {
            match (name.as_str(), field) {
                ("load", Field::Str(text)) => read.load.clone_from(text),
                ("disk", Field::Str(text)) => read.disk.clone_from(text),
                ("setting", Field::Str(text)) => read.setting.clone_from(text),
                ("error", Field::Str(text)) => read.error = Some(text.clone()),
                ("seed", Field::Long(seed)) => read.seed = *seed,
                (name, Field::Double(value)) if name == figure => read.value = Some(*value),
                (name, Field::Long(value)) if name == figure => read.value = Some(*value as f64),
                _ => {}
            }
        }
        rows.push(read);
    }
    Ok(rows)
}

/// Reads all columns of a file, in file order.
///
/// # Errors
/// The file is damaged or not part of a sweep.
pub fn columns_of(path: &std::path::Path) -> anyhow::Result<Vec<(String, Values)>> {
    let of = || path.display().to_string();
    let file = std::fs::File::open(path).with_context(of)?;
    let reader = SerializedFileReader::new(file).with_context(of)?;
    let schema = reader.metadata().file_metadata().schema_descr();
    let empty = |column: &parquet::schema::types::ColumnDescPtr| {
        let values = match column.physical_type() {
            Type::INT64 => Values::Counts(Vec::new()),
            Type::DOUBLE => Values::Numbers(Vec::new()),
            _ => Values::Words(Vec::new()),
        };
        (column.name().to_owned(), values)
    };
    let mut columns: Vec<(String, Values)> = schema.columns().iter().map(empty).collect();
    for row in reader.get_row_iter(None).with_context(of)? {
        let row = row.with_context(of)?;
        for ((_, values), (_, field)) in columns.iter_mut().zip(row.get_column_iter()) {
            match (values, field) {
                (Values::Counts(values), Field::Long(value)) => values.push(Some(*value)),
                (Values::Numbers(values), Field::Double(value)) => values.push(Some(*value)),
                (Values::Words(values), Field::Str(text)) => values.push(Some(text.clone())),
                (Values::Counts(values), _) => values.push(None),
                (Values::Numbers(values), _) => values.push(None),
                (Values::Words(values), _) => values.push(None),
            }
        }
    }
    Ok(columns)
}
