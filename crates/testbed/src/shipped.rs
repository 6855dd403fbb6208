//! The job files shipped with the program: the folder `workloads/`, embedded.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use block::did_you_mean;
use sim::workload::{Surroundings, Workload, WorkloadError};

/// Maximum size of a job file: the longest shipped one, with a hundred jobs, has 14 KB.
const MAX_BYTES: u64 = 16 << 20;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../workloads/", $name, ".fio")))),*]
    };
}

/// Name and text of every job file, sorted by name.
pub static ALL: &[(&str, &str)] = shipped![
    "fairio/btio",
    "fairio/illustration-1",
    "fairio/illustration-2",
    "fairio/ior1",
    "fairio/ior2",
    "fairio/ior3",
    "fairio/madbench2",
    "fairio/varmail",
    "genetic/direct-io",
    "genetic/metadata",
    "genetic/random-read",
    "genetic/sequential-read",
    "genetic/sequential-write",
    "ioperf/mix-1",
    "ioperf/mix-2",
    "ioperf/mix-3",
    "ioperf/mix-4",
    "ioperf/mix-5",
    "recipes/backup-host",
    "recipes/build-server",
    "recipes/etcd",
    "recipes/laptop",
    "recipes/media-server",
    "recipes/mysql",
    "recipes/postgresql",
    "self-learning/concurrent-access",
    "self-learning/concurrent-reading",
    "self-learning/concurrent-writing",
    "self-learning/data-streaming",
    "self-learning/file-reading",
    "self-learning/file-server",
    "self-learning/file-writing",
    "self-learning/http-server",
    "self-learning/linux-compilation",
    "self-learning/maximum-throughput",
    "self-learning/mixed-1",
    "self-learning/mixed-2",
    "self-learning/multi-threaded-access",
    "self-learning/multimedia-server",
    "self-learning/sequential-reading",
    "self-learning/sequential-writing",
    "self-learning/sql-queries",
    "self-learning/typical-database",
    "tenants/noisy-neighbour",
    "tenants/weighted-shares",
    "youchoose/financial",
    "youchoose/locality-0",
    "youchoose/locality-100",
    "youchoose/locality-25",
    "youchoose/locality-50",
    "youchoose/locality-75",
    "youchoose/open-mail",
    "youchoose/video-streaming",
    "youchoose/web-search",
];

/// The head of a shipped job file.
#[derive(Debug, PartialEq, Eq)]
pub struct Head<'a> {
    /// The first line: a summary.
    pub summary: &'a str,
    /// The second line, up to the semicolon: authors and title of the paper or documentation.
    pub paper: &'a str,
    /// The rest of the second line: table or section.
    pub place: &'a str,
}

/// Parses the head of a shipped job file.
pub fn head(text: &str) -> Head<'_> {
    let mut lines = text.lines();
    let summary = lines.next().and_then(|line| line.strip_prefix("# ")).unwrap_or_default();
    let from = lines.next().and_then(|line| line.strip_prefix("# From: ")).unwrap_or_default();
    let (paper, place) = from.split_once("; ").unwrap_or((from, ""));
    Head { summary, paper, place }
}

/// The text of a job file and its name for errors: a shipped one by its name, or a file.
///
/// # Errors
/// There is neither, or the file cannot be read, is not text or is too long.
pub fn workload_text(name_or_path: &str) -> anyhow::Result<(String, String)> {
    find(name_or_path).map_or_else(|| file_text(Path::new(name_or_path)), Ok)
}

/// Text and name of the shipped job file with this name.
pub fn find(name: &str) -> Option<(String, String)> {
    let (name, text) = ALL.iter().find(|(shipped, _)| *shipped == name)?;
    Some(((*text).to_owned(), (*name).to_owned()))
}

/// The text of a job file and its name for errors. The path need not be UTF-8.
///
/// # Errors
/// The file cannot be read, is not text or is too long.
pub fn file_text(path: &Path) -> anyhow::Result<(String, String)> {
    let name = path.to_string_lossy();
    let file = File::open(path).with_context(|| {
        let meant = did_you_mean(&name, ALL.iter().map(|(shipped, _)| *shipped));
        format!(
            "{name} is neither a job file nor the name of one that comes with the program (see `seekwise workload list`){meant}"
        )
    })?;
    Ok((read_text(file, &name)?, name.into_owned()))
}

/// Reads a text file of bounded size.
fn read_text(file: File, name: &str) -> anyhow::Result<String> {
    let mut text = Vec::new();
    file.take(MAX_BYTES + 1).read_to_end(&mut text).with_context(|| format!("{name} cannot be read"))?;
    if text.len() as u64 > MAX_BYTES {
        bail!("{name} is longer than {} MiB: that is no job file", MAX_BYTES >> 20);
    }
    String::from_utf8(text).ok().with_context(|| format!("{name} is not UTF-8 text: a job file of fio is"))
}

/// Parses a job file's `text`; `source` names the file in errors. It may use environment variables, and include files by a path
/// relative to the working directory or else, as in fio, to the folder of the including file.
///
/// # Errors
/// The text is not a job file, or an included file is missing.
pub fn parse(text: &str, source: &str) -> Result<Workload, WorkloadError> {
    Workload::parse_in(text, source, &ThisMachine)
}

struct ThisMachine;

impl Surroundings for ThisMachine {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn include(&self, file: &str, includer: &str) -> Result<(String, String), String> {
        let sibling = Path::new(includer).with_file_name(file);
        let path = if Path::new(file).exists() { Path::new(file) } else { &sibling };
        let name = path.to_string_lossy().into_owned();
        let opened = File::open(path).map_err(|error| format!("{name}: {error}"))?;
        let text = read_text(opened, &name).map_err(|error| format!("{error:#}"))?;
        Ok((name, text))
    }
}

/// The text of a job file and its name for errors; `None` if the path is something else, such as a trace.
///
/// # Errors
/// The path is a job file that cannot be read, or there is no file.
pub fn job_text(path: &Path) -> anyhow::Result<Option<(String, String)>> {
    let name = path.to_string_lossy();
    if let Some(found) = find(&name) {
        return Ok(Some(found));
    }
    if path.extension().is_some_and(|extension| extension == "fio") || begins_as_job_file(path) {
        return file_text(path).map(Some);
    }
    // A trace may be named by a prefix of file names, as blktrace's recordings are.
    ensure!(
        sim::trace::files(path).iter().any(|file| file.symlink_metadata().is_ok()),
        "{name}: neither a file nor a workload that comes with the program; `seekwise workload list` shows those{}",
        did_you_mean(&name, ALL.iter().map(|(shipped, _)| *shipped))
    );
    Ok(None)
}

/// Whether a file's first significant line is a section of a job file, or a command line of fio. No trace begins that way.
fn begins_as_job_file(path: &Path) -> bool {
    const BYTES: u64 = 4096;
    let mut bytes = Vec::new();
    // Only a regular file can be read without consuming its data.
    let is_file = path.metadata().is_ok_and(|metadata| metadata.is_file());
    if !is_file || std::fs::File::open(path).and_then(|file| file.take(BYTES).read_to_end(&mut bytes)).is_err() {
        return false;
    }
    let text = String::from_utf8_lossy(&bytes);
    if sim::workload::is_command_line(&text) {
        return true;
    }
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with(['#', ';']));
    lines.next().is_some_and(|line| line.starts_with('[') && line.contains(']'))
}
