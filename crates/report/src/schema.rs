//! JSON Schemas (draft 2020-12) of what `simulate`, `compare` and `advise` print with `--json`, from the types that are printed.
//!
//! Every key is listed: a document with another one does not match. Beyond JSON Schema numbers have an `x-unit`.

mod page;

pub use page::page;

use schemars::Schema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use schemars::transform::transform_subschemas;
use serde_json::{Map, Value, json};

use crate::advice::Advice;
use crate::json::Output;
use crate::record::{Kind, Record, SCHEMA};

const DRAFT: &str = "https://json-schema.org/draft/2020-12/schema";

/// Units by the ends of keys; the first that fits counts.
const UNITS: &[(&str, &str)] = &[
    ("_percent", "%"),
    ("_s_per_s", "s/s"),
    ("mb_s", "MB/s"),
    ("_ns_per_request", "ns"),
    ("_ms", "ms"),
    ("_s", "s"),
    ("iops", "1/s"),
    ("_ratio", "ratio"),
    ("_share", "0 to 1"),
    ("_utilisation", "0 to 1"),
    ("_jain", "0 to 1"),
    ("_by_bound", "ratio"),
    ("_sectors", "sectors of 512 bytes"),
    ("_cylinders", "cylinders"),
    ("_pages", "pages of 4 KiB"),
    ("_speed", "factor"),
    ("speed", "factor"),
    ("slowdown", "ratio"),
    ("_amplification", "ratio"),
    ("bytes", "bytes"),
    ("sectors", "sectors of 512 bytes"),
    ("lba", "sectors of 512 bytes"),
];

/// All kinds of documents.
pub const KINDS: [Kind; 3] = [Kind::Simulate, Kind::Compare, Kind::Advise];

/// The schema of one kind of document, or of all, which are then told apart by their `kind`. Parts that several have are there once.
pub fn schema(kinds: &[Kind]) -> Value {
    let settings = SchemaSettings::draft2020_12().for_serialize().with_transform(completed);
    let mut generator = settings.into_generator();
    let mut documents: Vec<Value> = kinds.iter().map(|kind| document(*kind, &mut generator).to_value()).collect();
    let parts = generator.take_definitions(true);
    let mut root = json!({
        "$schema": DRAFT,
        "title": "Output of `seekwise` with `--json`",
        "description": format!("Version {SCHEMA} of the layout. A number that is not finite is null."),
        "$defs": parts,
    });
    match (documents.pop(), documents.is_empty()) {
        (Some(only), true) => root["$ref"] = only["$ref"].clone(),
        (last, _) => root["oneOf"] = documents.into_iter().chain(last).collect(),
    }
    root
}

fn document(kind: Kind, generator: &mut SchemaGenerator) -> Schema {
    match kind {
        Kind::Simulate => generator.subschema_for::<Record>(),
        Kind::Compare => generator.subschema_for::<Output<'static>>(),
        Kind::Advise => generator.subschema_for::<Advice>(),
    }
}

/// Adds information that the types lack: that there are no other keys, units, and that numbers may be null, as those that are not finite are
/// written.
fn completed(schema: &mut Schema) {
    transform_subschemas(&mut completed, schema);
    if schema.get("type").is_some_and(|kind| kind == "number") {
        schema.insert("type".to_owned(), json!(["number", "null"]));
    }
    if let Some(Value::String(meaning)) = schema.get_mut("description") {
        *meaning = in_json(meaning);
    }
    if let Some(Value::Object(keys)) = schema.get_mut("properties") {
        keys.iter_mut().for_each(|(key, value)| add_unit(key, value));
        schema.insert("additionalProperties".to_owned(), false.into());
    }
}

fn add_unit(key: &str, value: &mut Value) {
    let unit = UNITS.iter().find(|(end, _)| key.ends_with(end)).filter(|_| holds_numbers(value));
    if let (Some((_, unit)), Some(value)) = (unit, value.as_object_mut()) {
        value.insert("x-unit".to_owned(), (*unit).into());
    }
}

fn holds_numbers(schema: &Value) -> bool {
    let is_number = |kind: &Value| kind == "number" || kind == "integer";
    let named = schema.get("type").is_some_and(|kind| match kind {
        Value::Array(kinds) => kinds.iter().any(is_number),
        kind => is_number(kind),
    });
    let first = || schema.get("prefixItems").and_then(|items| items.get(0));
    named || schema.get("items").or_else(first).is_some_and(holds_numbers)
}

/// A doc comment as JSON has it: null for `None`, and no links.
fn in_json(meaning: &str) -> String {
    meaning.replace("`None`", "null").replace("[`", "`").replace("`]", "`").replace("ServiceFigures::", "").replace('\n', " ")
}
