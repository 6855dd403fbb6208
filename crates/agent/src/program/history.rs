//! `history` and `explain`: the recorded events, and the evidence for each decision.

use agent::control_socket::{self, Answer, Ask};
use agent::history::{Entry, latest};
use anyhow::{Context as _, bail};
use report::gains::with_error;
use terminal::Failed;

use super::{Configured, say};

/// Arguments of `seekwise-agent history`.
#[derive(clap::Args)]
pub struct HistoryArgs {
    /// Only entries of this device
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Number of latest entries to print
    #[arg(long, value_name = "ENTRIES", default_value_t = 50)]
    last: usize,
    /// Print JSON, one line for each entry
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Arguments of `seekwise-agent explain`.
#[derive(clap::Args)]
pub struct ExplainArgs {
    /// The id of a recommendation, as printed by `status` and `advise`, or the number of a history entry
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// The history of the running daemon, or the one that the last daemon has stored, oldest entry first.
fn entries(configured: &Configured) -> anyhow::Result<Vec<Entry>> {
    let configuration = configured.load()?;
    match control_socket::ask(&configuration.socket, &Ask::History).with_context(|| configuration.socket.display().to_string())? {
        Some(Answer::History(entries)) => Ok(entries),
        Some(_) => bail!("unexpected reply from the daemon; are both programs of the same version?"),
        None => {
            let folder = &configuration.state_directory;
            latest(folder, configuration.history).with_context(|| folder.display().to_string())
        }
    }
}

/// Prints the history.
pub fn run(args: &HistoryArgs) -> anyhow::Result<()> {
    let entries = entries(&args.configured)?;
    let about = |entry: &&Entry| args.device.as_ref().is_none_or(|device| *device == entry.device);
    let entries: Vec<&Entry> = entries.iter().filter(about).collect();
    let entries = &entries[entries.len().saturating_sub(args.last)..];
    let text = if args.json {
        entries.iter().map(|entry| Ok(serde_json::to_string(entry)? + "\n")).collect::<anyhow::Result<String>>()?
    } else if entries.is_empty() {
        "The history is empty.\n".to_owned()
    } else {
        let line = |entry: &&Entry| format!("{} {} {}", entry.number, say::time(entry.unix_seconds), say::entry(entry));
        say::lines(entries.iter().map(line), terminal::style().0)
    };
    Ok(terminal::print(&text)?)
}

/// Prints one entry with its evidence.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let entries = entries(&args.configured)?;
    // The same id may occur several times: the latest is meant.
    let found = entries.iter().rfind(|entry| entry.id == args.id || entry.number.to_string() == args.id);
    let Some(entry) = found else {
        return Err(
            Failed(format!("{}: no such recommendation or history entry; `seekwise-agent history` lists them", args.id)).into()
        );
    };
    if args.json {
        return Ok(terminal::print(&(serde_json::to_string_pretty(entry)? + "\n"))?);
    }
    Ok(terminal::print(&text(entry, terminal::style().0))?)
}

fn text(entry: &Entry, width: Option<usize>) -> String {
    let mut sentences = vec![format!("{} ({}, {}): {}", entry.id, entry.number, say::time(entry.unix_seconds), say::entry(entry))];
    if !entry.seen.is_empty() {
        sentences.extend([String::new(), "Observed:".to_owned()]);
        sentences.extend(entry.seen.iter().map(|(name, fact)| format!("{name}: {fact}")));
    }
    if !entry.candidates.is_empty() {
        sentences.extend([String::new(), format!("Predicted gain of each candidate over {}, ± one standard error:", entry.from)]);
        sentences.extend(entry.candidates.iter().map(|one| {
            let starves = if one.starves { "; starves a stream" } else { "" };
            format!("{}: {}{starves}", one.setting, with_error(one.gain_percent, one.error_percent))
        }));
    }
    if !entry.sources.is_empty() {
        sentences.extend([String::new(), "Contribution of each source:".to_owned()]);
        sentences.extend(entry.sources.iter().map(|(source, says)| format!("{source}: {says}")));
    }
    if let Some(measured) = entry.measured() {
        sentences.extend([String::new(), format!("Measured: {}.", measured.text())]);
    }
    if entry.seen.is_empty() && entry.candidates.is_empty() && entry.sources.is_empty() {
        sentences.extend([String::new(), "No observations or predictions were recorded.".to_owned()]);
    }
    say::lines(sentences, width)
}
