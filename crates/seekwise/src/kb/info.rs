//! `seekwise kb info`.

use std::path::PathBuf;

use knowledge::{Knowledge, ModelSummary, SettingSummary, Summary};
use report::number::grouped;
use report::printable;
use serde::Serialize;

use super::kilobytes;
use crate::trace::figure;

/// Arguments of `seekwise kb info`.
#[derive(clap::Args)]
pub struct InfoArgs {
    /// The knowledge base: a file, or a server as postgresql://user@host/database
    file: PathBuf,
    /// Print JSON, with the unit in every key
    #[arg(long)]
    json: bool,
    /// Also check every page of the file for damage
    #[arg(long)]
    check: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json<'a> {
    file: String,
    #[serde(flatten)]
    summary: &'a Summary,
}

/// Runs the command.
pub fn run(args: &InfoArgs) -> anyhow::Result<()> {
    let knowledge = Knowledge::open_to_read(&args.file)?;
    if args.check {
        knowledge.check()?;
    }
    let summary = knowledge.summary()?;
    // A server's address is shown without its password.
    let path = knowledge.path();
    let name = path.file_name().filter(|_| !Knowledge::is_server(path));
    let file = name.map_or_else(|| path.display().to_string(), |name| name.to_string_lossy().into_owned());
    let text = if args.json {
        serde_json::to_string_pretty(&Json { file, summary: &summary })? + "\n"
    } else {
        let checked = if args.check { ", no damage found" } else { "" };
        format!(
            "{}: schema version {}, {} kB{checked}\n{}",
            printable(&file),
            summary.schema_version,
            kilobytes(summary.bytes),
            text(&summary)
        )
    };
    Ok(terminal::print(&text)?)
}

fn text(summary: &Summary) -> String {
    let span = match (&summary.first_began, &summary.last_began) {
        (Some(first), Some(last)) if first == last => format!(", begun {first} UTC"),
        (Some(first), Some(last)) => format!(", begun {first} to {last} UTC"),
        _ => String::new(),
    };
    let mut text = format!("  {:<12}{}{span}\n", "runs", grouped(summary.runs));
    for (what, count) in [("windows", summary.windows), ("decisions", summary.decisions), ("requests", summary.requests)] {
        text += &format!("  {what:<12}{}\n", grouped(count));
    }
    text += &format!("  {:<12}{}\n", "models", grouped(summary.models.len() as u64));
    text + &settings(&summary.settings) + &models(&summary.models)
}

/// The windows by plant, device and setting.
fn settings(settings: &[SettingSummary]) -> String {
    let mut text = String::new();
    let mut of = None;
    for setting in settings {
        let place = (&setting.plant, &setting.device);
        if of != Some(place) {
            text += &format!(
                "\n{} {}\n  {:>10} {:>12}  setting\n",
                printable(&setting.plant),
                printable(&setting.device),
                "windows",
                "observed s"
            );
            of = Some(place);
        }
        text +=
            &format!("  {:>10} {:>12}  {}\n", grouped(setting.windows), figure(setting.observed_s), printable(&setting.setting));
    }
    text
}

fn models(models: &[ModelSummary]) -> String {
    if models.is_empty() {
        return String::new();
    }
    let mut text = format!("\n{:<20} {:<16} {:>8} {:>10}  trained (UTC)\n", "model", "learner", "features", "kB");
    for model in models {
        text += &format!(
            "{:<20} {:<16} {:>8} {:>10}  {}\n",
            printable(&model.name),
            printable(&model.kind),
            grouped(model.features),
            kilobytes(model.bytes),
            model.trained.as_deref().unwrap_or("-")
        );
    }
    text
}
