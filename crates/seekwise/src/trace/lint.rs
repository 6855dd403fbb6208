//! `seekwise trace lint`.

use std::path::Path;

use serde::Serialize;
use sim::trace::Order;
use sim::trace::lint::{self, FaultKind, Finding, Known};

use super::copy::{Source, stop_if_asked};
use super::counted;
use crate::number;
use terminal::{self, Failed, Interrupted};

/// Arguments of `seekwise trace lint`.
#[derive(clap::Args)]
pub struct LintArguments {
    #[command(flatten)]
    source: Source,
    /// The size of the device that the trace is for, as in 512G or 4T [default: of the recorded device, if the trace says]
    #[arg(long, value_name = "SIZE", value_parser = number::size)]
    device_size: Option<u64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json {
    trace: String,
    format: &'static str,
    requests: u64,
    findings: Vec<Said>,
}

/// A finding, with a command that fixes it.
#[derive(Serialize)]
struct Said {
    #[serde(flatten)]
    finding: Finding,
    mend: Option<String>,
}

/// Formats that can represent flushes.
const WITH_FLUSHES: [&str; 3] = ["blktrace", "blkparse", "tracefs"];

/// Runs the command.
pub fn run(args: &LintArguments) -> anyhow::Result<()> {
    let mut opened = args.source.open(Order::OfTheFile)?;
    let (path, format) = args.source.of(&opened);
    let known = Known { capacity_sectors: args.device_size.map(|bytes| bytes / 512), has_flushes: WITH_FLUSHES.contains(&format) };
    let bar = terminal::progress_bar(0, "requests");
    let linted = lint::lint(opened.reader.as_mut(), known, |requests| {
        bar.set_position(requests);
        stop_if_asked().is_ok()
    })?;
    bar.finish_and_clear();
    let (requests, findings) = linted.ok_or(Interrupted)?;
    // Requests without sectors are reported as a finding below.
    for warning in opened.reader.warnings().iter().filter(|warning| !warning.contains("of no sectors")) {
        terminal::eprint_line(&format!("{}: {warning}", path.display()));
    }
    let name = report::printable(&path.display().to_string()).to_string();
    let device_size = args.device_size;
    let findings: Vec<Said> =
        findings.into_iter().map(|finding| Said { mend: mend(&finding, path, device_size), finding }).collect();
    let count = findings.len() as u64;
    let text = if args.json {
        serde_json::to_string_pretty(&Json { trace: name.clone(), format, requests, findings })? + "\n"
    } else {
        text(&name, format, requests, &findings)
    };
    terminal::print(&text)?;
    if count == 0 { Ok(()) } else { Err(Failed(format!("{name}: {}", counted(count, "finding"))).into()) }
}

fn text(name: &str, format: &str, requests: u64, findings: &[Said]) -> String {
    let mut text = format!("{name} ({format}): {}", counted(requests, "request"));
    if findings.is_empty() {
        return text + ", nothing found\n";
    }
    text.push('\n');
    for Said { finding, mend } in findings {
        let noun = match finding.kind {
            FaultKind::CompletionsAlone => "completion",
            FaultKind::Damaged => "record",
            FaultKind::NoFlushes => "write",
            _ => "request",
        };
        text += &format!("  {} {}\n", counted(finding.count, noun), finding.what);
        if let Some(first) = &finding.first {
            let request = first.request.map(|number| format!("request {number}"));
            let time = first.time_s.map(|time| format!("at {time:.6} s"));
            let place: Vec<String> = first.place.clone().into_iter().chain(request).chain(time).collect();
            text += &format!("      first: {}\n", place.join(", "));
        }
        if let Some(mend) = mend {
            text += &format!("      mend:  {mend}\n");
        }
    }
    text
}

/// The command or other action that fixes a finding; `None` if there is none.
fn mend(finding: &Finding, path: &Path, device_size: Option<u64>) -> Option<String> {
    let command = |what: &str, options: &str| Some(format!("seekwise trace {what} {} OUT{options}", quoted(path)));
    match finding.kind {
        FaultKind::Order => command("sort", ""),
        FaultKind::Duplicates => command("sort", " --unique"),
        FaultKind::TimesTooLong => command("scale", " --time 0.001 (or 0.000001)"),
        FaultKind::TimesTooShort if finding.what.starts_with("come") => command("scale", " --time 1000 (or 1000000)"),
        FaultKind::Gaps => finding.first.as_ref().and_then(|first| {
            // The request after the gap.
            let before = first.request.and_then(|request| request.checked_sub(1))?;
            command("slice", &format!(" --requests 1..{before}"))
        }),
        FaultKind::BeyondEnd => match device_size {
            Some(bytes) => command("filter", &format!(" --offset 0..{bytes}")),
            None => Some("simulate it with --fit compact, or on a larger disk".into()),
        },
        FaultKind::Empty => command("convert", "").map(|command| format!("{command} (leaves them out)")),
        FaultKind::Damaged => command("convert", " --skip-bad"),
        FaultKind::ResponseUnit => Some("correct the unit in the heading, or give --columns with latency-unit".into()),
        FaultKind::TimesTooShort | FaultKind::CompletionsAlone | FaultKind::ServiceBeforeArrival | FaultKind::NoFlushes => {
            Some("record it again; the missing requests cannot be restored from the file".into())
        }
    }
}

/// Quotes a path for a shell.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let is_plain = |sign: char| sign.is_alphanumeric() || "/._-+,:=@%".contains(sign);
    if text.chars().all(is_plain) { text } else { format!("'{}'", report::printable(&text).replace('\'', "'\\''")) }
}
