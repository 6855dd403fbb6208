//! Finds the other programs of Seekwise.

use std::path::PathBuf;

use anyhow::Context as _;

/// Path of a program: next to this program, else in `PATH`. `purpose` completes the error "NAME is missing, which …".
///
/// # Errors
/// It is in neither place.
pub fn find(name: &str, purpose: &str) -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find the path of this program")?;
    let sibling = own.with_file_name(name);
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let found = std::iter::once(sibling).chain(std::env::split_paths(&paths).map(|folder| folder.join(name)));
    found.into_iter().find(|path| path.is_file()).with_context(|| {
        let folder = own.parent().map_or_else(String::new, |folder| folder.display().to_string());
        format!("{name} is missing, which {purpose}; searched in {folder} and in PATH")
    })
}

/// Path of the agent.
///
/// # Errors
/// It is not installed.
pub fn agent() -> anyhow::Result<PathBuf> {
    find("seekwise-agent", "is required to change settings")
}
