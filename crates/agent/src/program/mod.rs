//! The commands, one file each, and common options.

pub mod act;
pub mod ask;
pub mod configuration;
pub mod generate;
pub mod history;
pub mod learn;
pub mod moved;
pub mod protect;
pub mod restore;
mod say;
pub mod top;
pub mod watch;

use std::path::PathBuf;

use agent::configuration::{Configuration, Sources};
use anyhow::Context as _;
use applier::sysfs::Sysfs;
use linux::topology;
use tracing_subscriber::filter::LevelFilter;

/// The option `--config`.
#[derive(clap::Args)]
pub struct Configured {
    /// Configuration file to read, without drop-ins [default: /etc/seekwise/agent.toml and its drop-ins, else the vendor's file]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
}

impl Configured {
    /// Reads the configuration.
    ///
    /// # Errors
    /// A file cannot be read, or has an error.
    pub fn load(&self) -> anyhow::Result<Configuration> {
        let sources = self.config.clone().map_or_else(|| Sources::Below(PathBuf::from("/")), Sources::Only);
        Ok(Configuration::load(&sources)?)
    }

    /// The file given by `--config`; `None`: the default files.
    pub fn file(&self) -> Option<&PathBuf> {
        self.config.as_ref()
    }
}

/// Kernel names, such as `sda`, of devices given by name or path, such as `/dev/disk/by-id/…`, in the same order.
///
/// # Errors
/// There is no such device.
pub fn names(given: &[String]) -> anyhow::Result<Vec<String>> {
    let sysfs = Sysfs::real();
    given.iter().map(|one| Ok(topology::find(&sysfs, one)?.0.name)).collect()
}

/// Environment variable with the log level, such as `debug`. Choice: the name of the program first; not varied.
const LOG: &str = "SEEKWISE_LOG";

/// Logs to standard error: without times if that is the systemd journal, which adds its own. The level is that of the environment variable
/// `SEEKWISE_LOG`, default `info`.
///
/// # Errors
/// The variable is not a level.
pub fn log_to_stderr() -> anyhow::Result<()> {
    let is_journal = std::env::var_os("JOURNAL_STREAM").is_some();
    let level = match std::env::var(LOG) {
        Ok(said) => said.parse().ok().with_context(|| format!("{LOG}={said}: should be off, error, warn, info, debug or trace"))?,
        Err(_) => LevelFilter::INFO,
    };
    let format = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // Fails only in a test that has a logger already.
    let _ = if is_journal { format.without_time().with_ansi(false).try_init() } else { format.with_ansi(false).try_init() };
    Ok(())
}

/// Whether the effective user is root.
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}
