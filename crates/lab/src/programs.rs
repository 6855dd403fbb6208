//! The other programs of Seekwise, which this one starts.

use std::path::PathBuf;

use anyhow::Context as _;

/// The file of a program: next to this program's own, or in `PATH`. `purpose` says in an error what it is needed for.
///
/// # Errors
/// It is in neither.
pub fn find(name: &str, purpose: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find this program's own file")?;
    let sibling = own.with_file_name(name);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(sibling).chain(std::env::split_paths(&paths).map(|folder| folder.join(name)));
    found.into_iter().find(|path| path.is_file()).with_context(|| {
        let folder = own.parent().map_or_else(String::new, |folder| folder.display().to_string());
        format!("{name} is missing, which {purpose}; it was looked for in {folder} and in PATH")
    })
}

/// The agent.
///
/// # Errors
/// It is not installed.
pub fn agent() -> anyhow::Result<PathBuf> {
    find("seekwise-agent", "sets the device and puts everything back")
}
