//! Schedulers from shared libraries, named by their paths.

use anyhow::Context;

/// Loads the library if `text` begins with the path of one (`./elevator.so:patience_ms=20`), and returns the text with the scheduler's name
/// in its place.
///
/// # Errors
/// The library cannot be loaded, or the name of its scheduler is taken.
pub fn named(text: &str) -> anyhow::Result<String> {
    let end = text.match_indices(".so").map(|(at, ending)| at + ending.len());
    let Some(end) = end.into_iter().find(|end| matches!(text[*end..].bytes().next(), None | Some(b':' | b' '))) else {
        return Ok(text.to_owned());
    };
    let (path, rest) = text.split_at(end);
    load(path).map(|name| format!("{name}{rest}"))
}

#[cfg(feature = "foreign")]
fn load(path: &str) -> anyhow::Result<&'static str> {
    let spec = foreign::load(std::path::Path::new(path))?;
    device_model::sched::add(spec).map_err(anyhow::Error::msg).with_context(|| path.to_owned())?;
    Ok(spec.name)
}

#[cfg(not(feature = "foreign"))]
fn load(path: &str) -> anyhow::Result<&'static str> {
    Err(terminal::Failed::left_out("schedulers from shared libraries")).context(path.to_owned())
}

/// Fails if a library broke a rule of the interface: its requests then went in order of arrival.
///
/// # Errors
/// The scheduler and the rule.
pub fn check() -> anyhow::Result<()> {
    #[cfg(feature = "foreign")]
    foreign::check_all().map_err(|problem| terminal::Failed(format!("{problem}; its results are not valid")))?;
    Ok(())
}
