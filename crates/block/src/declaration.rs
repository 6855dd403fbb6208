//! The rules of a scheduler's declaration, for schedulers of other crates and languages.

use alloc::format;
use alloc::string::String;

use crate::{Scale, SchedulerSpec};

/// Checks the declaration of a scheduler.
///
/// # Errors
/// The defect found.
pub fn check_declaration(spec: &SchedulerSpec) -> Result<(), String> {
    let is_word =
        |name: &str| !name.is_empty() && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_-".contains(c));
    if !is_word(spec.name) {
        return Err(format!("the name {:?} should be lower-case letters, digits, - and _", spec.name));
    }
    if spec.summary.is_empty() || spec.source.is_empty() {
        return Err(String::from("summary and source should not be empty"));
    }
    for (index, tunable) in spec.tunables.iter().enumerate() {
        let name = tunable.name;
        if !is_word(name) || spec.tunables[..index].iter().any(|other| other.name == name) {
            return Err(format!("the tunable {name:?} should have a lower-case name of its own"));
        }
        if !tunable.doc.ends_with('.') {
            return Err(format!("{name} should be documented in sentences"));
        }
        if !(tunable.min..=tunable.max).contains(&tunable.default) {
            return Err(format!("{name}: the default {} should be from {} to {}", tunable.default, tunable.min, tunable.max));
        }
        if tunable.scale == Scale::Logarithmic && tunable.min < 1 {
            return Err(format!("{name}: a logarithmic range should begin at 1 or above, not at {}", tunable.min));
        }
    }
    Ok(())
}
