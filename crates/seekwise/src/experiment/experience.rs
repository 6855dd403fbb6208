//! What controllers learn from.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use learn::experience::Experience;

/// The experience in this file; none without one.
///
/// # Errors
/// The file cannot be read or is no experience.
pub fn load(path: Option<&Path>) -> anyhow::Result<Arc<Experience>> {
    let Some(path) = path else { return Ok(Arc::default()) };
    let name = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| name.clone())?;
    Ok(Arc::new(Experience::from_json(&text, &name)?))
}
