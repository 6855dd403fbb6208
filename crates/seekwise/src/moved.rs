//! Commands and controllers that `seekwise-lab` has now: the old spelling says where they went.

use anyhow::bail;

/// The arguments of a command that has moved.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct Args {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

/// Controllers for research, which `seekwise-lab` knows.
pub const CONTROLLERS: [&str; 4] = ["round-robin", "feedback", "per-request", "two-layer"];

/// Refuses `seekwise lab`.
///
/// # Errors
/// Always.
pub fn lab(args: &Args) -> anyhow::Result<()> {
    let (old, new) = match args.arguments.first().map(String::as_str) {
        Some("exam") => ("lab exam", "evaluate"),
        Some("twin") => ("lab twin", "twin"),
        Some("counters") => ("lab counters", "counters"),
        Some("field") => ("lab field", "field"),
        Some("worlds") => ("lab worlds", "worlds"),
        _ => bail!("`seekwise lab` has moved: see `seekwise-lab --help`"),
    };
    bail!("`seekwise {old}` has moved: it is `seekwise-lab {new}` now")
}

/// Refuses `seekwise learn` with a command that it has no longer.
///
/// # Errors
/// Always.
pub fn learn(words: &[String]) -> anyhow::Result<()> {
    match words.first().map(String::as_str) {
        Some("device") => bail!("`seekwise learn device` has moved: it is `seekwise disk learn` now"),
        _ => bail!("`seekwise learn` has moved: it is `seekwise-lab learn` now"),
    }
}

/// Refuses `seekwise paper`.
///
/// # Errors
/// Always.
pub fn paper(_: &Args) -> anyhow::Result<()> {
    bail!("`seekwise paper` has moved: it is `seekwise-lab paper` now")
}

/// Refuses `seekwise truth`.
///
/// # Errors
/// Always.
pub fn truth(_: &Args) -> anyhow::Result<()> {
    bail!("`seekwise truth` has moved: it is `seekwise-lab validate` now")
}
