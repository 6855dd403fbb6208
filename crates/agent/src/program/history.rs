//! `history` and `explain`: what happened, and what it rests on.

use agent::control_socket::{self, Answer, Ask};
use agent::history::{Entry, latest};
use anyhow::{Context as _, bail};
use report::promises::with_error;
use terminal::Failed;

use super::{Configured, say};

/// Arguments of `seekwise-agent history`.
#[derive(clap::Args)]
pub struct Args {
    /// Only what happened to this device
    #[arg(long, value_name = "DEVICE")]
    device: Option<String>,
    /// Only the latest so many entries
    #[arg(long, value_name = "ENTRIES", default_value_t = 50)]
    last: usize,
    /// Print JSON, a line for each entry
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Arguments of `seekwise-agent explain`.
#[derive(clap::Args)]
pub struct ExplainArgs {
    /// The id of a piece of advice, as `status` and `advise` print it, or the number of an entry of the history
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// What happened: of a running daemon, else what the last one wrote down.
fn entries(configured: &Configured) -> anyhow::Result<Vec<Entry>> {
    let configuration = configured.load()?;
    match control_socket::ask(&configuration.socket, &Ask::History).with_context(|| configuration.socket.display().to_string())? {
        Some(Answer::History(entries)) => Ok(entries),
        Some(_) => bail!("the daemon answers something else"),
        None => {
            let folder = &configuration.state_directory;
            latest(folder, configuration.history).with_context(|| folder.display().to_string())
        }
    }
}

/// Lists it.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let entries = entries(&args.configured)?;
    let about = |entry: &&Entry| args.device.as_ref().is_none_or(|device| *device == entry.device);
    let entries: Vec<&Entry> = entries.iter().filter(about).collect();
    let entries = &entries[entries.len().saturating_sub(args.last)..];
    let text = if args.json {
        entries.iter().map(|entry| Ok(serde_json::to_string(entry)? + "\n")).collect::<anyhow::Result<String>>()?
    } else if entries.is_empty() {
        "Nothing happened yet.\n".to_owned()
    } else {
        let line = |entry: &&Entry| format!("{} {} {}", entry.number, say::time(entry.unix_seconds), say::entry(entry));
        say::lines(entries.iter().map(line), terminal::style().0)
    };
    Ok(terminal::print(&text)?)
}

/// Explains one of them.
pub fn explain(args: &ExplainArgs) -> anyhow::Result<()> {
    let entries = entries(&args.configured)?;
    // The same advice may have come up before: the latest counts.
    let found = entries.iter().rfind(|entry| entry.id == args.id || entry.number.to_string() == args.id);
    let Some(entry) = found else {
        return Err(
            Failed(format!("{}: is no advice and no entry of the history; `seekwise-agent history` lists them", args.id)).into()
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
        sentences.extend([String::new(), "What was seen:".to_owned()]);
        sentences.extend(entry.seen.iter().map(|(name, fact)| format!("{name}: {fact}")));
    }
    if !entry.candidates.is_empty() {
        sentences
            .extend([String::new(), format!("What each candidate promised over {}, give or take a standard error:", entry.from)]);
        sentences.extend(entry.candidates.iter().map(|one| {
            let starves = if one.starves { "; it would let a stream starve" } else { "" };
            format!("{}: {}{starves}", one.setting, with_error(one.gain_percent, one.error_percent))
        }));
    }
    if let Some(measured) = entry.measured() {
        sentences.extend([String::new(), format!("Measured since: {}.", measured.text())]);
    }
    if entry.seen.is_empty() && entry.candidates.is_empty() {
        sentences.extend([String::new(), "It rests on nothing that could be shown.".to_owned()]);
    }
    say::lines(sentences, width)
}
