//! Tunables as text: values with units, ranges, and tables.

use std::fmt::Write;

use block::{Scale, Tunable, Unit};

/// Default, range and meaning of each tunable, as text for a terminal.
pub fn listed<'a>(tunables: impl IntoIterator<Item = &'a Tunable>) -> String {
    let mut text = String::new();
    for tunable in tunables {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n{} = {}\n    {}\n    {}\n", tunable.name, value(tunable), range(tunable), tunable.doc);
    }
    text
}

/// Default, range and meaning of each tunable, as a Markdown table.
pub fn table<'a>(tunables: impl IntoIterator<Item = &'a Tunable>) -> String {
    let mut text = String::from("\n| tunable | default | range | meaning |\n|---|---|---|---|\n");
    for tunable in tunables {
        let _ = writeln!(text, "| `{}` | {} | {} | {} |", tunable.name, value(tunable), range(tunable), tunable.doc);
    }
    text
}

fn value(tunable: &Tunable) -> String {
    format!("{} {}", tunable.text(tunable.default), tunable.unit.symbol()).trim_end().to_owned()
}

fn range(tunable: &Tunable) -> String {
    match (tunable.unit, tunable.scale) {
        (Unit::OneOf(words), _) => words.join(", "),
        (Unit::Flag, _) => "0 (off) or 1 (on)".to_owned(),
        (_, Scale::Linear) => format!("{} to {}", tunable.text(tunable.min), tunable.text(tunable.max)),
        (_, Scale::Logarithmic) => format!("{} to {}, in equal ratios", tunable.text(tunable.min), tunable.text(tunable.max)),
    }
}

/// Capitalises the first letter of `text`.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}
