//! The keys of the documents as a page, a table for each of their parts.

use std::fmt::Write;

use super::{KINDS, Map, SCHEMA, Value, schema};

const BEGINS: &str = "# JSON output

Printed by `seekwise schema manual`. With `--json`, `simulate` prints one run, `compare` several and `advise` a recommendation, each as one
JSON object. They share their parts: streams, response times, tenants, controllers' decisions and predictions have the same keys in all.
`seekwise schema` prints the JSON Schema (draft 2020-12) of the three, `seekwise schema compare` that of one:

```sh
seekwise schema
seekwise schema compare
```

Each document has its `kind`, the command's name, and the version of the layout, `schema`.";

const ENDS: &str = "The version rises when a key goes, is renamed or changes its meaning. Keys may be added without that: a
program that reads these documents should ignore keys that it does not know, and one that checks them should use the schema of the program
that wrote them. Files that `compare --record` writes are documents of the kind `simulate`. A number that is not finite is `null`.
";

/// The page.
pub fn page() -> String {
    let all = schema(&KINDS);
    let none = Map::new();
    let parts = all["$defs"].as_object().unwrap_or(&none);
    let documents: Vec<&str> = all["oneOf"].as_array().into_iter().flatten().filter_map(named).collect();
    let mut page = format!("{BEGINS} This is version {SCHEMA}.\n\n{ENDS}");
    for name in &documents {
        add(&mut page, &format!("`{}`", name.to_lowercase()), &parts[*name]);
    }
    for (name, part) in parts.iter().filter(|(name, _)| !documents.contains(&name.as_str())) {
        add(&mut page, name, part);
    }
    page
}

/// Adds a part. Writing to a String cannot fail.
fn add(page: &mut String, heading: &str, part: &Value) {
    let meaning = |part: &Value| part["description"].as_str().unwrap_or_default().to_owned();
    let _ = write!(page, "\n## {heading}\n\n{}\n", meaning(part));
    let Some(keys) = part["properties"].as_object() else {
        let _ = writeln!(page, "\nIt is {}.", kind(part));
        return;
    };
    page.push_str("\n| key | type | unit | meaning |\n|---|---|---|---|\n");
    for (key, value) in keys {
        let unit = value["x-unit"].as_str().unwrap_or_default();
        let optional = if part["required"].as_array().is_some_and(|keys| keys.iter().any(|name| name == key)) {
            ""
        } else {
            "; may be missing"
        };
        let _ = writeln!(page, "| `{key}` | {}{optional} | {unit} | {} |", kind(value), meaning(value));
    }
}

/// The name of the part that is meant by a reference.
fn named(schema: &Value) -> Option<&str> {
    schema.get("$ref")?.as_str()?.rsplit('/').next()
}

/// A type in words, with links to other parts.
fn kind(schema: &Value) -> String {
    if let Some(word) = schema["const"].as_str() {
        return format!("`{word}`");
    }
    if let Some(name) = named(schema) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(choices) = schema["anyOf"].as_array() {
        return choices.iter().map(kind).collect::<Vec<_>>().join(" or ");
    }
    if let Some(members) = schema["prefixItems"].as_array() {
        return format!("list of {}", members.iter().map(kind).collect::<Vec<_>>().join(", "));
    }
    match &schema["type"] {
        Value::Array(kinds) => kinds.iter().filter_map(Value::as_str).map(|one| word(schema, one)).collect::<Vec<_>>().join(" or "),
        Value::String(one) => word(schema, one),
        _ => "any".to_owned(),
    }
}

fn word(schema: &Value, kind: &str) -> String {
    match (kind, schema.get("items"), schema.get("additionalProperties")) {
        ("array", Some(member), _) => format!("list of {}", self::kind(member)),
        ("object", _, Some(value @ Value::Object(_))) => format!("object with values that are {}", self::kind(value)),
        ("null", ..) => "null".to_owned(),
        (kind, ..) => kind.to_owned(),
    }
}
