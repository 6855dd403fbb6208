//! `seekwise disk fit`: fits a disk profile to the response times of a trace.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use anyhow::{Context as _, bail, ensure};
use experiment::recorded::Recorded;
use sim::profile::load;
use sim::trace::OpenOptions;
use twin::ObservedRequest;
use twin::device::{Fitted, JUDGED_SHARE, Residual, fit_and_judge, judge};

use crate::arguments::ColumnsArgument;
use terminal::{self, Interrupted};

/// Sectors per GB.
const SECTORS_A_GB: f64 = 1e9 / 512.0;

/// The trace to fit to.
#[derive(clap::Args)]
pub struct FitArguments {
    /// A trace whose requests have response times, in any format that has them (`seekwise trace formats`)
    trace: PathBuf,
    /// Where to write the profile [default: nowhere; only print the findings]
    #[arg(short, long, value_name = "PROFILE.toml")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// The trace's format [default: recognised by content]
    #[arg(long)]
    format: Option<String>,
    #[command(flatten)]
    columns: ColumnsArgument,
    /// Number of the device within the trace [default: the one with the most requests]
    #[arg(long, value_name = "N")]
    device: Option<u32>,
    /// Capacity of the device in 10^9 bytes [default: up to the last sector that was asked for]
    #[arg(long, value_name = "GB")]
    capacity_gb: Option<f64>,
    /// A disk to judge by the same requests: name of a built-in one, or path of a profile
    #[arg(long, value_name = "DISK")]
    beside: Option<String>,
}

/// Runs the command.
pub fn run(arguments: &FitArguments) -> anyhow::Result<()> {
    let name = arguments.trace.display().to_string();
    if let Some(output) = &arguments.output {
        let same = output.canonicalize().is_ok_and(|output| arguments.trace.canonicalize().is_ok_and(|trace| trace == output));
        ensure!(!same, "{}: is read as well; name another file for the profile", output.display());
        report::record::check_replaceable(output).with_context(|| format!("{}", output.display()))?;
    }
    let capacity = capacity(arguments)?;
    let beside = arguments.beside.as_deref().map(load).transpose()?;
    let seen = seen(arguments)?;
    let (fitted, residual) = fit_and_judge(&seen, capacity, JUDGED_SHARE).with_context(|| name.clone())?;
    let other = match &beside {
        Some(profile) => {
            let residual = judge(profile, &seen, JUDGED_SHARE).with_context(|| format!("{name} on {}", profile.name()))?;
            Some((profile.name().to_owned(), residual))
        }
        None => None,
    };
    let text = if arguments.json {
        as_json(&name, &fitted, &residual, other.as_ref())?
    } else {
        as_table(&name, &fitted, &residual, other.as_ref())?
    };
    if let Some(output) = &arguments.output {
        report::record::replace(output, fitted.profile_toml.as_bytes()).with_context(|| format!("{}", output.display()))?;
    }
    Ok(terminal::print(&text)?)
}

fn capacity(arguments: &FitArguments) -> anyhow::Result<Option<u64>> {
    let Some(gigabytes) = arguments.capacity_gb else { return Ok(None) };
    ensure!((0.001..=1e6).contains(&gigabytes), "--capacity-gb {gigabytes}: is not within 0.001 to 1000000");
    Ok(Some((gigabytes * SECTORS_A_GB) as u64))
}

/// Requests of one device with completion times.
fn seen(arguments: &FitArguments) -> anyhow::Result<Vec<ObservedRequest>> {
    let path = arguments.trace.display();
    let (format, columns) = (arguments.format.clone(), arguments.columns.get().cloned());
    let options = OpenOptions { format, columns, ..OpenOptions::default() };
    let mut recorded = Recorded::read(&arguments.trace, &options, &mut |_| {
        if terminal::interrupted().load(Ordering::Relaxed) { Err(Interrupted.into()) } else { Ok(()) }
    })?;
    if recorded.timed == 0 {
        let (all, format) = (recorded.all, recorded.opened.format.name);
        bail!("{path}: none of {all} requests says when it was done (format {format}); response times are needed");
    }
    Ok(recorded.of_device(&arguments.trace, arguments.device)?.1)
}

fn as_table(name: &str, fitted: &Fitted, judged_by: &Residual, other: Option<&(String, Residual)>) -> anyhow::Result<String> {
    let mut text = format!("{}: the device, inferred from the times of its requests\n", report::printable(name));
    for finding in &fitted.findings {
        writeln!(text, "{:34} {:>24}   {}", finding.name, finding.text(), finding.rests_on())?;
    }
    writeln!(text, "\nfitted to the first half, judged on {} accesses of the second; ms", judged_by.accesses)?;
    writeln!(text, "{:34} {:>10} {:>10} {:>10} {:>10} {:>10}", "", "mean", "error", "demerit", "reads", "writes")?;
    let mut row = |label: &str, residual: &Residual| {
        let Residual { mean_ms, mean_error_ms, demerit_ms, by_op_ms: [reads, writes], .. } = *residual;
        writeln!(
            text,
            "{:34} {mean_ms:>10.3} {mean_error_ms:>+10.3} {demerit_ms:>10.4} {reads:>10.4} {writes:>10.4}",
            report::printable(label).to_string()
        )
    };
    row("fitted", judged_by)?;
    if let Some((name, residual)) = other {
        row(name, residual)?;
    }
    Ok(text)
}

fn as_json(name: &str, fitted: &Fitted, judged_by: &Residual, other: Option<&(String, Residual)>) -> anyhow::Result<String> {
    let judged = |residual: &Residual| {
        serde_json::json!({
            "accesses": residual.accesses, "mean_ms": residual.mean_ms, "mean_error_ms": residual.mean_error_ms,
            "demerit_ms": residual.demerit_ms, "demerit_reads_ms": residual.by_op_ms[0], "demerit_writes_ms": residual.by_op_ms[1],
        })
    };
    let findings = fitted.findings.iter().map(|finding| {
        serde_json::json!({
            "name": finding.name, "value": finding.value, "number": finding.number, "unit": finding.unit,
            "uncertainty": finding.uncertainty, "accesses": finding.accesses,
        })
    });
    let mut value = serde_json::json!({
        "trace": name, "findings": findings.collect::<Vec<_>>(), "judged": judged(judged_by),
    });
    if let Some((name, residual)) = other {
        value["beside"] = serde_json::json!({ "disk": name, "judged": judged(residual) });
    }
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
