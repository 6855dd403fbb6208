//! `seekwise trace`: captures, characterises, checks, rewrites, merges and converts traces.

pub mod capture;
mod convert;
pub mod copy;
mod info;
mod lint;
mod merge;
mod rewrite;
mod split;

use std::path::Path;

use report::number::grouped;
use sim::trace::{self, TraceReader};
use terminal::eprint_line;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Characterise a trace: read/write mix, sizes, sequentiality, rate, footprint and busiest streams
    Info(info::InfoArguments),
    /// Record the requests of a block device with their response times: as root
    ///
    /// Ends after --seconds or --requests, or at Ctrl-C, and keeps the requests captured until then.
    Capture(capture::CaptureArguments),
    /// Check a trace: order, units, gaps, duplicates, completions, flushes, places
    ///
    /// Prints each finding with the number of requests concerned, the first of them, and a remedy. The exit code is 1 if there are
    /// findings.
    Lint(lint::LintArguments),
    /// Convert a trace to another format
    Convert(convert::ConvertArguments),
    /// Sort a trace by time
    ///
    /// Memory is bounded, to about 100 MB: a trace of more than a million requests is sorted in temporary files next to OUT.
    Sort(rewrite::SortArgs),
    /// Cut a part out of a trace, by time or by number; it begins at time zero
    Slice(rewrite::SliceArgs),
    /// Multiply a trace's times or offsets
    Scale(rewrite::ScaleArgs),
    /// Keep requests by operation, stream, device, offset or size; times stay
    Filter(rewrite::FilterArgs),
    /// Write a file for each device of a trace
    SplitByDevice(split::SplitArguments),
    /// Merge traces by time into one
    ///
    /// Each file has its own devices and streams, unless --same-devices says that they are parts of one recording.
    Merge(merge::MergeArguments),
    /// List the formats that are read and written
    Formats,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Lint(args) => lint::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Sort(args) => rewrite::sort(&args),
        Command::Slice(args) => rewrite::slice(&args),
        Command::Scale(args) => rewrite::scale(&args),
        Command::Filter(args) => rewrite::filter(&args),
        Command::SplitByDevice(args) => split::run(&args),
        Command::Merge(args) => merge::run(&args),
        Command::Formats => Ok(terminal::print(&formats())?),
    }
}

fn formats() -> String {
    let mut text = String::from("Formats read (--format, --from), recognised by content:\n");
    for format in trace::ALL {
        text += &format!("  {:<10} {}\n", format.name, format.summary);
    }
    text += "\nFormats written (--to), or by the ending of the file's name:\n";
    for format in trace::write::ALL {
        let extensions: Vec<String> = format.extensions.iter().map(|extension| format!(".{extension}")).collect();
        text += &format!("  {:<10} {} ({})\n", format.name, format.summary, extensions.join(", "));
    }
    text
}

/// Reports the number of records skipped by `--skip-bad`.
fn warn_of_skipped(path: &Path, skipped: u64) {
    if skipped > 0 {
        let were = if skipped == 1 { "was" } else { "were" };
        eprint_line(&format!("{}: {} {were} skipped", path.display(), counted(skipped, "damaged record")));
    }
}

/// Prints the reader's warnings.
fn warn(path: &Path, reader: &dyn TraceReader) {
    for warning in reader.warnings() {
        eprint_line(&format!("{}: {warning}", path.display()));
    }
}

/// Formats a count: `1 request`, `1,234 requests`.
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// Formats a figure: `1,234.5`, one decimal below 100,000, three digits below 1.
pub fn figure(number: f64) -> String {
    if !number.is_finite() {
        return "-".into();
    }
    if number != 0.0 && number.abs() < 0.0995 {
        return format!("{number:.4}");
    }
    if number.abs() < 0.9995 {
        return format!("{number:.3}");
    }
    if number.abs() >= 99_999.95 {
        return format!("{}{}", if number < 0.0 { "-" } else { "" }, grouped(number.abs().round() as u64));
    }
    let tenths = (number.abs() * 10.0).round() as u64;
    let sign = if number < 0.0 { "-" } else { "" };
    format!("{sign}{}.{}", grouped(tenths / 10), tenths % 10)
}

/// Formats a share: 0.1234 is `12.3%`.
fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
