//! Tables of results, exported through the Arrow C stream.

use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray, StructArray, UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyList};
use pyo3_arrow::ffi::{ArrayIterator, to_stream_pycapsule};

use crate::error;

/// A table in memory. ``polars.DataFrame(table)``, ``pyarrow.table(table)`` and DuckDB read it without a copy.
#[pyclass(frozen, module = "seekwise")]
pub struct Table {
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

impl Table {
    /// A table of named columns.
    ///
    /// # Errors
    /// The columns differ in length.
    pub fn new(columns: Vec<(&str, ArrayRef)>) -> Result<Table, ArrowError> {
        let fields: Vec<Field> = columns.iter().map(|(name, column)| Field::new(*name, column.data_type().clone(), true)).collect();
        let schema = Arc::new(Schema::new(fields));
        let batch = RecordBatch::try_new(Arc::clone(&schema), columns.into_iter().map(|(_, column)| column).collect())?;
        Ok(Table { schema, batches: vec![batch] })
    }

    /// Of several with the same columns, one below the other.
    ///
    /// # Errors
    /// Their columns differ.
    pub fn joined(tables: Vec<Table>) -> Result<Table, ArrowError> {
        let schema = tables.first().map_or_else(|| Arc::new(Schema::empty()), |first| Arc::clone(&first.schema));
        if let Some(other) = tables.iter().find(|table| table.schema != schema) {
            return Err(ArrowError::SchemaError(format!("{} is not {schema}", other.schema)));
        }
        Ok(Table { schema, batches: tables.into_iter().flat_map(|table| table.batches).collect() })
    }

    /// A table of record batches.
    pub fn of(schema: SchemaRef, batches: Vec<RecordBatch>) -> Table {
        Table { schema, batches }
    }
}

/// Exports batches as a PyCapsule with an Arrow C stream.
pub fn stream<'py>(
    py: Python<'py>,
    schema: &Schema,
    batches: impl Iterator<Item = Result<RecordBatch, ArrowError>> + Send + 'static,
    requested: Option<Bound<'py, PyCapsule>>,
) -> PyResult<Bound<'py, PyCapsule>> {
    let field = Field::new_struct("", schema.fields().clone(), false);
    let arrays = batches.map(|batch| batch.map(|batch| Arc::new(StructArray::from(batch)) as ArrayRef));
    Ok(to_stream_pycapsule(py, Box::new(ArrayIterator::new(arrays, Arc::new(field))), requested)?)
}

/// The schema as a dict of column names and types.
pub fn schema_dict<'py>(py: Python<'py>, schema: &Schema) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    for field in schema.fields() {
        dict.set_item(field.name(), field.data_type().to_string())?;
    }
    Ok(dict)
}

fn value<'py>(py: Python<'py>, column: &ArrayRef, row: usize) -> PyResult<Bound<'py, PyAny>> {
    use arrow_array::Array as _;
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::{Float64Type, Int64Type, UInt8Type, UInt32Type, UInt64Type};
    if column.is_null(row) {
        return Ok(py.None().into_bound(py));
    }
    Ok(match column.data_type() {
        DataType::Int64 => column.as_primitive::<Int64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::UInt8 => column.as_primitive::<UInt8Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::UInt32 => column.as_primitive::<UInt32Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Float64 => column.as_primitive::<Float64Type>().value(row).into_pyobject(py)?.into_any(),
        DataType::Boolean => column.as_boolean().value(row).into_pyobject(py)?.to_owned().into_any(),
        DataType::Utf8 => column.as_string::<i32>().value(row).into_pyobject(py)?.into_any(),
        other => return Err(error::internal(&format!("a column of type {other} has no value in Python"))),
    })
}

#[pymethods]
impl Table {
    /// Number of rows.
    fn __len__(&self) -> usize {
        self.batches.iter().map(RecordBatch::num_rows).sum()
    }

    fn __repr__(&self) -> String {
        let names: Vec<&str> = self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        format!("<seekwise.Table: {} rows, columns {}>", self.__len__(), names.join(", "))
    }

    /// Column names with their Arrow types.
    #[getter]
    fn schema<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        schema_dict(py, &self.schema)
    }

    /// Column names.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    /// One dict per row. For small tables; dataframe libraries share the memory instead of copying it.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = PyList::empty(py);
        for batch in &self.batches {
            for row in 0..batch.num_rows() {
                let dict = PyDict::new(py);
                for (field, column) in self.schema.fields().iter().zip(batch.columns()) {
                    dict.set_item(field.name(), value(py, column, row)?)?;
                }
                rows.append(dict)?;
            }
        }
        Ok(rows)
    }

    /// The Arrow C stream (PyCapsule interface).
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyCapsule>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        stream(py, &self.schema, self.batches.clone().into_iter().map(Ok), requested_schema)
    }
}

/// Builders of Arrow columns.
pub mod column {
    use super::{Arc, ArrayRef, Float64Array, Int64Array, StringArray, UInt32Array, UInt64Array};

    /// Strings.
    pub fn text<T: AsRef<str>>(values: impl IntoIterator<Item = Option<T>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<StringArray>())
    }

    /// Floats; NaN and infinity become null.
    pub fn float(values: impl IntoIterator<Item = Option<f64>>) -> ArrayRef {
        Arc::new(values.into_iter().map(|value| value.filter(|value| value.is_finite())).collect::<Float64Array>())
    }

    /// Signed integers.
    pub fn integer(values: impl IntoIterator<Item = Option<i64>>) -> ArrayRef {
        Arc::new(values.into_iter().collect::<Int64Array>())
    }

    /// Unsigned integers, without nulls.
    pub fn count(values: impl IntoIterator<Item = u64>) -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(values))
    }

    /// Numbers of streams or devices, without nulls.
    pub fn number(values: impl IntoIterator<Item = u32>) -> ArrayRef {
        Arc::new(UInt32Array::from_iter_values(values))
    }
}
