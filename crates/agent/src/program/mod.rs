//! The commands, one file each, and what they have in common.

pub mod act;
pub mod advise;
pub mod ask;
pub mod configuration;
pub mod generate;
pub mod history;
pub mod learn;
pub mod moved;
pub mod restore;
mod say;
pub mod watch;

use std::path::PathBuf;

use agent::configuration::{Configuration, Sources};
use anyhow::Context as _;
use applier::sysfs::Sysfs;
use linux::topology;
use tracing_subscriber::filter::LevelFilter;

/// Where the configuration is.
#[derive(clap::Args)]
pub struct Configured {
    /// Read this file and no other [default: /etc/seekwise/agent.toml and its drop-ins, else the vendor's]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Configured {
    /// Reads it.
    pub fn load(&self) -> anyhow::Result<Configuration> {
        let sources = self.config.clone().map_or_else(|| Sources::Below(PathBuf::from("/")), Sources::Only);
        Ok(Configuration::load(&sources)?)
    }

    /// The file that was named, to name it to another process.
    pub fn file(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

/// The kernel's names of the devices that are meant by what a person typed, as in `/dev/disk/by-id/…`.
pub fn names(given: &[String]) -> anyhow::Result<Vec<String>> {
    let sysfs = Sysfs::real();
    given.iter().map(|one| Ok(topology::find(&sysfs, one)?.0.name)).collect()
}

/// How much is logged, as in `debug`.
const LOG: &str = "SEEKWISE_LOG";

/// Sends the log to standard error: with times on a terminal or in a file, without them to the journal, which has its own. How much of it
/// is what the environment variable `SEEKWISE_LOG` says.
///
/// # Errors
/// It says something else than a level.
pub fn log_to_stderr() -> anyhow::Result<()> {
    let is_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let level = match std::env::var(LOG) {
        Ok(said) => said.parse().ok().with_context(|| format!("{LOG}={said}: should be off, error, warn, info, debug or trace"))?,
        Err(_) => LevelFilter::INFO,
    };
    let format = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // There is one already only in a test.
    let _ = if is_journal { format.without_time().with_ansi(false).try_init() } else { format.with_ansi(false).try_init() };
    Ok(())
}

/// Whether this is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
