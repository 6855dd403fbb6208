//! `seekwise disk calibrate`: fits a profile to measurements of a real drive.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use experiment::calibration::{BLOCKS, Calibration, Fitted, Outcome, calibrate};
use sim::profile::{Profile, load};
use sim::validate::{ResponseComparison, Validation, read_measured};
use testbed::pool::Workers;

use terminal::{self, Terminal};

/// The profile to fit, and the measurements.
#[derive(clap::Args)]
pub struct CalibrateArguments {
    /// Name of a built-in hard disk, or path of a profile
    disk: String,
    /// CSV with the columns lba, size_blocks, is_read, measured_response_ms, think_after_ms
    measured: PathBuf,
    /// Where to write the fitted profile [default: nowhere; only print the result]
    #[arg(short, long, value_name = "NEW.toml")]
    output: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Threads [default: one for each core]; the result does not depend on it
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
}

/// Runs the command.
pub fn run(arguments: &CalibrateArguments) -> anyhow::Result<()> {
    let profile = load(&arguments.disk)?;
    let specification = match profile.hdd() {
        Some(hdd) => &hdd.specification,
        None => anyhow::bail!("{}: is no hard disk; a profile of one is needed, as atlas10k is", arguments.disk),
    };
    let requests = read_measured(&arguments.measured, profile.capacity_sectors())?;
    if let Some(output) = &arguments.output {
        for input in [std::path::Path::new(&arguments.disk), &arguments.measured] {
            let same = output.canonicalize().is_ok_and(|output| input.canonicalize().is_ok_and(|input| input == output));
            anyhow::ensure!(!same, "{}: is read as well; name another file for the fitted profile", output.display());
        }
        report::record::check_replaceable(output).with_context(|| format!("{}", output.display()))?;
    }
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, arguments.threads.map(usize::from));
    let calibration = calibrate(specification, &requests, workers).with_context(|| format!("{}", arguments.measured.display()))?;
    let text = if arguments.json { as_json(profile.name(), &calibration)? } else { as_table(profile.name(), &calibration)? };
    if let Some(output) = &arguments.output {
        let fitted = fitted_profile(&profile, arguments, &calibration)?;
        report::record::replace(output, fitted.as_bytes()).with_context(|| format!("{}", output.display()))?;
    }
    Ok(terminal::print(&text)?)
}

/// Text of the fitted profile, with source and fitted parameters in a header.
fn fitted_profile(profile: &Profile, arguments: &CalibrateArguments, calibration: &Calibration) -> anyhow::Result<String> {
    let file = |path: &std::path::Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut specification = calibration.specification.clone();
    if let Some(stem) = arguments.output.as_ref().and_then(|output| output.file_stem()) {
        specification.name = stem.to_string_lossy().into_owned();
    }
    let mut text = format!(
        "# {}, fitted by `seekwise disk calibrate` to the first {} requests of {}.\n#\n",
        profile.name(),
        calibration.fitted_to,
        report::printable(&file(&arguments.measured))
    );
    for fitted in &calibration.fitted {
        if let Some(taken) = taken(fitted) {
            writeln!(text, "# {:44} {} instead of {}", fitted.key, taken, fitted.before)?;
        }
    }
    let (before, after) = (calibration.before.worse().1.demerit_ms, calibration.after.worse().1.demerit_ms);
    writeln!(
        text,
        "#\n# Demerit of the worse of reads and writes on the other requests: {before:.4} ms before, {after:.4} ms now.\n"
    )?;
    let source = arguments.output.as_ref().map(|output| output.display().to_string()).unwrap_or_default();
    text.push_str(Profile::from_hdd(&specification, &source)?.text());
    Ok(text)
}

/// The new value with its uncertainty; `None` if it was not adopted.
fn taken(fitted: &Fitted) -> Option<String> {
    match &fitted.outcome {
        Outcome::Number { uncertainty, .. } => Some(format!("{} ± {}", fitted.after, uncertain(*uncertainty))),
        Outcome::Rule { refits } => Some(format!("{} (in {refits} of {BLOCKS} refits)", fitted.after)),
        Outcome::Left { .. } | Outcome::NoEffect => None,
    }
}

/// Formats an uncertainty with two digits.
fn uncertain(value: f64) -> String {
    let decimals = (1.0 - value.abs().max(1e-9).log10().floor()).clamp(0.0, 6.0) as usize;
    format!("{value:.decimals$}")
}

fn as_table(name: &str, calibration: &Calibration) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    let judged = calibration.after.all.requests;
    writeln!(text, "{name}: fitted to the first {} requests, judged on the other {judged}; ms", calibration.fitted_to)?;
    writeln!(text, "{:44} {:>10} {:>10} {:>10}", "", "reads", "writes", "worse")?;
    for (when, validation) in [("before", &calibration.before), ("after", &calibration.after)] {
        let figure = |group: &ResponseComparison, value: f64, sign: &str| match group.requests {
            0 => "-".to_owned(),
            _ => format!("{}{value:.4}", if value > 0.0 { sign } else { "" }),
        };
        let groups = [&validation.reads, &validation.writes, validation.worse().1];
        let [reads, writes, worse] = groups.map(|group| figure(group, group.demerit_ms, ""));
        writeln!(text, "{:44} {reads:>10} {writes:>10} {worse:>10}", format!("demerit {when}"))?;
        let [reads, writes, _] = groups.map(|group| figure(group, group.mean_error_ms, "+"));
        writeln!(text, "{:44} {reads:>10} {writes:>10}", format!("error of the mean {when}"))?;
    }
    writeln!(text, "\n{:44} {:>14}    fitted, ± at 95%", "parameter", "was")?;
    let mut none = true;
    for fitted in &calibration.fitted {
        if let Some(taken) = taken(fitted) {
            writeln!(text, "{:44} {:>14}    {taken}", fitted.key, fitted.before)?;
            none = false;
        }
    }
    if none {
        writeln!(text, "none: no parameter improves requests that it was not fitted to")?;
    }
    writeln!(text, "\nleft as it was")?;
    for fitted in &calibration.fitted {
        let why = match &fitted.outcome {
            Outcome::Left { gain } => {
                format!("best fit {}: held-out requests gain {gain:.1} standard errors by it, 3 are needed", fitted.after)
            }
            Outcome::NoEffect => "makes no difference to these requests".to_owned(),
            Outcome::Number { .. } | Outcome::Rule { .. } => continue,
        };
        writeln!(text, "{:44} {:>14}    {why}", fitted.key, fitted.before)?;
    }
    Ok(text)
}

fn as_json(name: &str, calibration: &Calibration) -> anyhow::Result<String> {
    let judged = |validation: &Validation| {
        let group = |group: &ResponseComparison| {
            serde_json::json!({
                "requests": group.requests, "demerit_ms": group.demerit_ms, "mean_error_ms": group.mean_error_ms,
            })
        };
        serde_json::json!({
            "reads": group(&validation.reads), "writes": group(&validation.writes),
            "worse": { "of": super::operation(validation.worse().0), "demerit_ms": validation.worse().1.demerit_ms },
        })
    };
    let parameter = |fitted: &Fitted| {
        let mut value = serde_json::json!({ "key": fitted.key, "before": fitted.before, "best_fit": fitted.after });
        match fitted.outcome {
            Outcome::Number { uncertainty, .. } => {
                value["taken"] = true.into();
                value["uncertainty_ms"] = uncertainty.into();
            }
            Outcome::Rule { refits } => {
                value["taken"] = true.into();
                value["refits"] = refits.into();
            }
            Outcome::Left { gain } => {
                value["taken"] = false.into();
                value["gain_standard_errors"] = gain.into();
            }
            Outcome::NoEffect => value["taken"] = false.into(),
        }
        value
    };
    let value = serde_json::json!({
        "disk": name, "fitted_to": calibration.fitted_to,
        "before": judged(&calibration.before), "after": judged(&calibration.after),
        "parameters": calibration.fitted.iter().map(parameter).collect::<Vec<_>>(),
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}
