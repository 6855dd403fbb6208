//! `seekwise trace`: characterise and convert traces.

mod convert;
mod info;

use std::path::Path;

use report::number::grouped;
use sim::trace::{self, OpenOptions, Opened, TraceError};

use crate::terminal;

/// What to do.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Say what a trace is like: its mix, sizes, order, rate, place and busiest streams
    Info(info::Args),
    /// Write a trace in another format
    Convert(convert::Args),
    /// List the formats that are read and written
    Formats,
}

/// Does it.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Info(args) => info::run(&args),
        Command::Convert(args) => convert::run(&args),
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

/// Opens a trace as the command line says.
fn open(path: &Path, format: Option<&str>, skip_bad: bool) -> Result<Opened, TraceError> {
    trace::open(path, &OpenOptions { format: format.map(str::to_owned), skip_bad })
}

/// Tells how many records were passed over because the user said so.
fn warn_of_skipped(path: &Path, skipped: u64) {
    if skipped > 0 {
        let were = if skipped == 1 { "was" } else { "were" };
        eprint_line(&format!("{}: {} {were} passed over", path.display(), counted(skipped, "damaged record")));
    }
}

/// A line on standard error; if that is gone there is nobody to tell.
pub(crate) fn eprint_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "seekwise: {}", report::printable(text));
}

/// 1 request, 1,234 requests.
pub(crate) fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", grouped(number), if number == 1 { "" } else { "s" })
}

/// 1,234.5: thousands apart, one decimal below 100,000, three digits below 1.
pub(crate) fn figure(number: f64) -> String {
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

/// 0.1234 is 12.3%.
fn percent(share: f64) -> String {
    format!("{:.1}%", share * 100.0)
}
