//! Shows a comparison as a table, as JSON or as a page.

use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use report::comparison::Comparison;
use report::explain::Shown;
use report::record::Record;

/// The arguments that select the output.
#[derive(clap::Args)]
pub struct Output {
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Write a self-contained page with table and plots
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[command(flatten)]
    explain: Explain,
}

/// Whether controllers' decisions are shown.
#[derive(clap::Args)]
pub struct Explain {
    /// Show the changes by controllers with their reasons and results; `--explain=all` shows every decision
    #[arg(long, value_enum, value_name = "WHICH", num_args = 0..=1, require_equals = true, default_missing_value = "changes", conflicts_with = "json")]
    explain: Option<Which>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Which {
    /// Decisions that changed something
    Changes,
    /// Every decision, including those that changed nothing
    All,
}

impl Explain {
    /// The decisions to show; `None` without `--explain`.
    pub fn shown(&self) -> Option<Shown> {
        self.explain.map(|which| match which {
            Which::Changes => Shown::Changes,
            Which::All => Shown::All,
        })
    }
}

impl Output {
    /// Rejects a page that could not be written, before any work is done for it.
    pub fn check(&self) -> anyhow::Result<()> {
        self.html.as_deref().map_or(Ok(()), |html| check_page("--html", html))
    }
}

/// Rejects a file that could not be written, before any work is done for it.
pub fn check_page(argument: &str, path: &Path) -> anyhow::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    ensure!(folder.is_dir(), "{argument} {}: there is no folder {}", path.display(), folder.display());
    ensure!(!path.is_dir(), "{argument} {}: is a folder; name a file", path.display());
    report::record::check_replaceable(path).with_context(|| format!("{argument} {}", path.display()))
}

/// Shows records of one trace, disk and replay mode, with an optional heading.
pub fn show(records: &[Record], heading: Option<&str>, output: &Output) -> anyhow::Result<()> {
    let comparison = Comparison::new(records)?;
    let (width, colour) = terminal::style();
    let text = if output.json {
        report::json::text(&comparison)
    } else {
        let decisions = |shown| format!("\n{}", report::explain::text(records, width, shown));
        let heading = heading.map(|heading| format!("{}\n\n", report::printable(heading))).unwrap_or_default();
        heading + &report::table::text(&comparison, width, colour) + &output.explain.shown().map(decisions).unwrap_or_default()
    };
    print_and_write(&text, output.html.as_deref(), || report::page::html(&comparison))
}

/// Prints a result and writes its page. Each is attempted even if the other fails, because the result may have taken hours.
pub fn print_and_write(text: &str, html: Option<&Path>, page: impl FnOnce() -> String) -> anyhow::Result<()> {
    let printed = terminal::print(text);
    if let Some(html) = html {
        report::record::replace(html, page().as_bytes()).with_context(|| html.display().to_string())?;
    }
    Ok(printed?)
}
