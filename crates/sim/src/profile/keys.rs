//! The keys of profiles: meanings, units, ranges and defaults.
//!
//! They are declared only in the kind's schema: doc comments, `#[schemars(range(…))]` and serde's defaults, which `schemars`
//! converts to a JSON Schema. Values are checked against it, and the reference page of all keys is generated from it. Extensions of
//! JSON Schema are `x-unit`, for a key whose name does not end in its unit, and `x-power-of-two`. Checks that involve several keys
//! or the device's size are in the kind's own code.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Units by suffix of the key; a suffix that contains another one comes first.
const UNITS: &[(&str, &str)] = &[
    ("_kib_s", "KiB/s"),
    ("mb_s", "MB/s"),
    ("_ms", "ms"),
    ("_us", "µs"),
    ("_s", "s"),
    ("_kib", "KiB"),
    ("_rpm", "revolutions/min"),
    ("_bytes", "bytes"),
    ("_sectors", "sectors"),
    ("_cylinders", "cylinders"),
    ("_blocks", "blocks"),
    ("_entries", "entries"),
];

/// Placeholder for a default that the schema does not state. A field with serde's `skip_serializing_if` states it with
/// `#[schemars(!skip_serializing_if)]`.
pub const UNSTATED: &str = "?";

/// A table of a profile, and its keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyTable {
    /// Its heading as in the file: `[mechanics]`, `[[zone]]`; empty for top-level keys.
    pub heading: String,
    /// Its description.
    pub meaning: String,
    /// In alphabetical order.
    pub keys: Vec<Key>,
}

/// A key of a profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    /// Its name within the table.
    pub name: String,
    /// Its unit; empty for words, lists and plain counts.
    pub unit: String,
    /// Its range, as in `1 to 1024`, or its words; empty if the type is the only restriction.
    pub values: String,
    /// Its default; `None` if it is required.
    pub default: Option<String>,
    /// Its meaning, and those of its words.
    pub meaning: String,
}

impl Key {
    /// Unit and range in one phrase, as in `ms, 0 to 1000`; empty if there is neither.
    pub fn unit_and_values(&self) -> String {
        [&self.unit, &self.values].map(String::as_str).into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// A value out of its range.
pub(crate) struct OutOfRange {
    pub(crate) at: usize,
    pub(crate) message: String,
}

/// The JSON Schema of a profile.
pub(crate) fn schema<T: JsonSchema>() -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    settings.into_generator().into_root_schema_for::<T>().to_value()
}

/// Finds the first value that is out of its range. Wrong types and unknown keys are found when the profile is deserialised.
///
/// # Errors
/// The value, with its position.
pub(crate) fn check(schema: &Value, text: &str) -> Result<(), OutOfRange> {
    match DeTable::parse(text) {
        Ok(table) => check_table(schema, "", table.get_ref()),
        Err(_) => Ok(()),
    }
}

fn check_table(schema: &Value, path: &str, table: &DeTable) -> Result<(), OutOfRange> {
    let word = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
    let Some(properties) = properties(schema, word) else { return Ok(()) };
    for (key, value) in table {
        if let Some(schema) = properties.get(key.get_ref().as_ref()) {
            let name = key.get_ref();
            check_value(schema, &if path.is_empty() { name.to_string() } else { format!("{path}.{name}") }, value)?;
        }
    }
    Ok(())
}

fn check_value(schema: &Value, path: &str, value: &Spanned<DeValue>) -> Result<(), OutOfRange> {
    let schema = present(schema);
    let number = match value.get_ref() {
        DeValue::Table(table) => return check_table(schema, path, table),
        DeValue::Array(items) => {
            return items.iter().enumerate().try_for_each(|(index, item)| match item_schema(schema, index) {
                Some(schema) => check_value(schema, &format!("{path}[{index}]"), item),
                None => Ok(()),
            });
        }
        DeValue::Integer(integer) => i128::from_str_radix(integer.as_str(), integer.radix()).ok().map(|number| number as f64),
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if !fits(schema, number) => {
            let unit = unit(path, schema);
            let unit = if unit.is_empty() { String::new() } else { format!(" {unit}") };
            let message = format!("{path}: {number} should be {}{unit}", range(schema));
            Err(OutOfRange { at: value.span().start, message })
        }
        _ => Ok(()),
    }
}

fn fits(schema: &Value, number: f64) -> bool {
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    // NaN fits no range.
    bound("minimum").is_none_or(|least| number >= least)
        && bound("maximum").is_none_or(|most| number <= most)
        && bound("multipleOf").is_none_or(|step| (number / step).fract() == 0.0)
        && (schema.get("x-power-of-two").is_none() || (number as u64).is_power_of_two())
        && !(number.is_nan() && schema.get("format").is_some())
}

/// The range in words, as in `1 to 1024` or `a power of two within 512 to 32768`; empty if there is none.
fn range(schema: &Value) -> String {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return listed(values.iter().map(Value::to_string));
    }
    let bound = |name: &str| schema.get(name).and_then(Value::as_f64);
    let within = match (bound("minimum"), bound("maximum")) {
        (Some(least), Some(most)) => format!("{least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, Some(most)) => format!("{most} or less"),
        (None, None) => String::new(),
    };
    match bound("multipleOf") {
        Some(step) => format!("a multiple of {step}, {within}"),
        None if schema.get("x-power-of-two").is_some() => format!("a power of two within {within}"),
        None => within,
    }
}

fn listed(values: impl Iterator<Item = String>) -> String {
    values.collect::<Vec<_>>().join(", ")
}

fn unit<'a>(key: &str, schema: &'a Value) -> &'a str {
    let declared = schema.get("x-unit").and_then(Value::as_str);
    declared.or_else(|| UNITS.iter().find(|(end, _)| key.ends_with(end)).map(|(_, unit)| *unit)).unwrap_or("")
}

/// The schema of the value of an optional key.
fn present(schema: &Value) -> &Value {
    let choices = schema.get("anyOf").and_then(Value::as_array);
    choices.and_then(|choices| choices.iter().find(|choice| type_of(choice) != Some("null"))).unwrap_or(schema)
}

fn may_be_null(schema: &Value) -> bool {
    let types = schema.get("type").and_then(Value::as_array);
    types.is_some_and(|types| types.contains(&Value::from("null"))) || !std::ptr::eq(present(schema), schema)
}

fn type_of(schema: &Value) -> Option<&str> {
    schema.get("type").and_then(Value::as_str)
}

/// The schema of a list's element; the elements of a pair have different ones.
fn item_schema(schema: &Value, index: usize) -> Option<&Value> {
    schema.get("prefixItems").and_then(|items| items.get(index)).or_else(|| schema.get("items"))
}

/// The keys of a table. If they depend on a word in the table, `word` looks it up; `None` if that word is missing or unknown.
fn properties<'a, 'w>(schema: &'a Value, word: impl Fn(&str) -> Option<&'w str>) -> Option<&'a Map<String, Value>> {
    let schema = present(schema);
    let chosen = |variant: &&Value| tag(variant).is_some_and(|(key, value)| word(key) == Some(value));
    let schema = match schema.get("oneOf").and_then(Value::as_array) {
        Some(variants) => variants.iter().find(chosen)?,
        None => schema,
    };
    schema.get("properties").and_then(Value::as_object)
}

/// The key and the word that distinguish a variant of a table from the others.
fn tag(variant: &Value) -> Option<(&str, &str)> {
    let properties = variant.get("properties").and_then(Value::as_object)?;
    properties.iter().find_map(|(key, schema)| Some((key.as_str(), schema.get("const").and_then(Value::as_str)?)))
}

/// The tables of a kind's schema, each once: the top-level keys first, then the others in alphabetical order.
pub(crate) fn tables(schema: &Value) -> Vec<KeyTable> {
    let mut tables = Vec::new();
    add_tables(schema, "", "", &mut tables);
    tables
}

fn add_tables(schema: &Value, path: &str, meaning: &str, tables: &mut Vec<KeyTable>) {
    let repeated = type_of(schema) == Some("array");
    let schema = present(if repeated { schema.get("items").unwrap_or(schema) } else { schema });
    let heading = |with: &str| match (path.is_empty(), repeated) {
        (true, _) => String::new(),
        (_, true) => format!("[[{path}]]{with}"),
        (_, false) => format!("[{path}]{with}"),
    };
    for variant in schema.get("oneOf").and_then(Value::as_array).into_iter().flatten() {
        if let Some((key, word)) = tag(variant) {
            let meaning = format!("{meaning} {}", description(variant));
            tables.push(KeyTable { heading: heading(&format!(" with {key} = \"{word}\"")), meaning, keys: keys(variant) });
        }
    }
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else { return };
    tables.push(KeyTable { heading: heading(""), meaning: meaning.to_owned(), keys: keys(schema) });
    for (name, schema) in properties.iter().filter(|(_, schema)| is_table(schema)) {
        let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
        add_tables(schema, &path, &description(schema), tables);
    }
}

fn is_table(schema: &Value) -> bool {
    let schema = if type_of(schema) == Some("array") { schema.get("items").unwrap_or(schema) } else { schema };
    let schema = present(schema);
    let variants = schema.get("oneOf").and_then(Value::as_array);
    schema.get("properties").is_some() || variants.is_some_and(|variants| variants.iter().any(|variant| tag(variant).is_some()))
}

fn description(schema: &Value) -> String {
    schema.get("description").and_then(Value::as_str).unwrap_or("").replace('\n', " ")
}

fn keys(table: &Value) -> Vec<Key> {
    let required: Vec<&str> =
        table.get("required").and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str).collect();
    let properties = table.get("properties").and_then(Value::as_object).into_iter().flatten();
    let values = properties.filter(|(_, schema)| !is_table(schema) && schema.get("const").is_none());
    values.map(|(name, schema)| key(name, schema, required.contains(&name.as_str()))).collect()
}

fn key(name: &str, schema: &Value, is_required: bool) -> Key {
    let present = present(schema);
    let words: Vec<&Value> = present.get("oneOf").and_then(Value::as_array).into_iter().flatten().collect();
    let named = |word: &&Value| word.get("const").and_then(Value::as_str).map(|name| format!("`{name}`"));
    let values = if words.is_empty() { range(item_range(present)) } else { listed(words.iter().filter_map(named)) };
    let explained = words.iter().filter_map(|word| Some(format!(" {}: {}", named(word)?, description(word))));
    let default = match schema.get("default") {
        Some(Value::String(word)) => format!("`{word}`"),
        Some(value) if !value.is_null() => value.to_string(),
        _ if may_be_null(schema) => "none".to_owned(),
        _ => UNSTATED.to_owned(),
    };
    Key {
        name: name.to_owned(),
        unit: unit(name, schema).to_owned(),
        values,
        default: (!is_required).then_some(default),
        meaning: description(schema) + &explained.collect::<String>(),
    }
}

/// The schema that holds the range: for a list, that of its elements; otherwise the value's own.
fn item_range(schema: &Value) -> &Value {
    schema.get("items").unwrap_or(schema)
}

/// The profile's text with unit and range as a comment after each value that is the last on its line.
pub(crate) fn annotated(schema: &Value, text: &str) -> String {
    let mut notes: Vec<(usize, String)> = Vec::new();
    if let Ok(table) = DeTable::parse(text) {
        note_table(schema, table.get_ref(), &mut notes);
    }
    let mut out = String::with_capacity(2 * text.len());
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let on_line = notes.iter().find(|(at, _)| (start..end).contains(at));
        let rest = on_line.map(|(at, _)| line[at - start..].trim());
        match (on_line, rest) {
            // Otherwise a comment or the rest of an inline table follows the value.
            (Some((_, note)), Some("")) => out.push_str(&format!("{}  # {note}\n", line.trim_end())),
            _ => out.push_str(line),
        }
        start = end;
    }
    out
}

fn note_table(schema: &Value, table: &DeTable, notes: &mut Vec<(usize, String)>) {
    let word = |key: &str| table.get(key).and_then(|value| value.get_ref().as_str());
    let Some(properties) = properties(schema, word) else { return };
    for (name, value) in table {
        let Some(schema) = properties.get(name.get_ref().as_ref()) else { continue };
        match value.get_ref() {
            DeValue::Table(table) => note_table(schema, table, notes),
            DeValue::Array(items) => {
                let tables = items.iter().filter_map(|item| item.get_ref().as_table());
                tables.for_each(|table| note_table(schema.get("items").unwrap_or(schema), table, notes));
            }
            _ => {
                let note = key(name.get_ref(), schema, true).unit_and_values();
                if !note.is_empty() {
                    notes.push((value.span().end, note));
                }
            }
        }
    }
}
