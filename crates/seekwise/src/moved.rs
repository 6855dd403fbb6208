//! Commands and controllers that have moved to `seekwise-lab`: errors for the old spelling name the new one.

use anyhow::bail;

/// The arguments of a command that has moved.
#[derive(clap::Args)]
#[command(disable_help_flag = true)]
pub struct MovedArguments {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, hide = true)]
    arguments: Vec<String>,
}

/// Research controllers, available in `seekwise-lab`.
pub const CONTROLLERS: [&str; 4] = ["round-robin", "feedback", "per-request", "two-layer"];

/// Error for `seekwise lab`.
///
/// # Errors
/// Always.
pub fn lab(args: &MovedArguments) -> anyhow::Result<()> {
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

/// Error for subcommands of `seekwise learn` that have moved.
///
/// # Errors
/// Always.
pub fn learn(words: &[String]) -> anyhow::Result<()> {
    match words.first().map(String::as_str) {
        Some("device") => bail!("`seekwise learn device` has moved: it is `seekwise disk learn` now"),
        _ => bail!("`seekwise learn` has moved: it is `seekwise-lab learn` now"),
    }
}

/// Error for `seekwise paper`.
///
/// # Errors
/// Always.
pub fn paper(_: &MovedArguments) -> anyhow::Result<()> {
    bail!("`seekwise paper` has moved: it is `seekwise-lab paper` now")
}

/// Error for `seekwise truth`.
///
/// # Errors
/// Always.
pub fn truth(_: &MovedArguments) -> anyhow::Result<()> {
    bail!("`seekwise truth` has moved: it is `seekwise-lab validate` now")
}
