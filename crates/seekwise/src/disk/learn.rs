//! `seekwise disk learn`: trains a regression tree of a device's service times.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use experiment::learned_device::errors::{Distribution, WINDOWS, WITHIN};
use experiment::learned_device::page::page;
use experiment::learned_device::{Judged, Options, Trained, train};
use testbed::learned::load;
use testbed::pool::Workers;

use crate::number;
use crate::output::print_and_write;
use terminal::{self, Terminal};

/// Arguments of `seekwise disk learn`.
#[derive(clap::Args)]
pub struct LearnArguments {
    /// The device to learn: name of a built-in disk, path of a profile, an array as in raid0:disk=barracuda,disks=3, a trace of a device whose
    /// requests have response times, or the file of a model, which is only printed
    #[arg(long, value_name = "DISK|TRACE|MODEL.json")]
    on: String,
    /// A trace of the load that it is for: 5,000 requests of it are replayed and learned from as well, and the others judged by
    #[arg(long, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Random seed
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Requests of each trace of the training load
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = number::within::<u32>(500..=1_000_000, "requests"))]
    requests: u32,
    /// Number of traces to run at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print the tree as well
    #[arg(long)]
    print: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Write a self-contained page: the distributions of its errors, and the tree
    #[arg(long, value_name = "PAGE.html")]
    html: Option<PathBuf>,
    /// Where to write the model; `--disk MODEL.json` makes a device of it
    #[arg(short, long, value_name = "MODEL.json")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &LearnArguments) -> anyhow::Result<()> {
    for output in args.output.iter().chain(&args.html) {
        report::record::check_replaceable(output).with_context(|| format!("{}", output.display()))?;
    }
    let trained = trained(args)?;
    if let Some(output) = &args.output {
        let text = trained.model.to_json()?;
        report::record::replace(output, text.as_bytes()).with_context(|| format!("{}", output.display()))?;
    }
    let text = if args.json { as_json(&trained)? } else { as_table(&trained, args.print)? };
    print_and_write(&text, args.html.as_deref(), || report::page::device_model::html(&page(&trained, env!("CARGO_PKG_VERSION"))))
}

fn trained(args: &LearnArguments) -> anyhow::Result<Trained> {
    if args.on.ends_with(".json") {
        return Ok(Trained { model: load(args.on.as_ref())?, judged: Vec::new() });
    }
    let options = Options { requests: args.requests as usize, seed: args.seed, sample: args.trace.clone(), ..Options::default() };
    let terminal = Terminal::default();
    train(&args.on, &options, Workers::new(&terminal, args.threads.map(usize::from)))
}

fn as_json(trained: &Trained) -> anyhow::Result<String> {
    let Trained { model, judged } = trained;
    let value = serde_json::json!({
        "device": model.name(), "capacity_sectors": model.capacity_sectors(), "training": model.training(),
        "leaves": model.tree().leaves(), "depth": model.tree().depth(), "judged": judged,
    });
    Ok(serde_json::to_string_pretty(&value)? + "\n")
}

fn as_table(trained: &Trained, with_tree: bool) -> Result<String, std::fmt::Error> {
    let Trained { model, judged } = trained;
    let mut text = match with_tree || judged.is_empty() {
        true => model.text().lines().map(|line| report::printable(line) + "\n").collect::<String>() + "\n",
        false => {
            let (tree, requests) = (model.tree(), model.training().requests);
            let name = report::printable(model.name());
            format!("{name}: a tree of {} leaves, {} deep, from {requests} requests\n\n", tree.leaves(), tree.depth())
        }
    };
    if judged.is_empty() {
        return Ok(text);
    }
    write!(text, "{:44} {:>8} {:>7}", "relative errors, percent", "number", "mean")?;
    for limit in WITHIN {
        write!(text, " {:>6}", format!("≤{:.0}", limit * 100.0))?;
    }
    writeln!(text, "   median     p95")?;
    for Judged { what, errors } in judged {
        writeln!(text, "{} (all of it {:+.1})", report::printable(what), errors.bias * 100.0)?;
        row(&mut text, "requests, one at a time", &errors.requests)?;
        for (length, errors) in WINDOWS.iter().zip(&errors.windows) {
            row(&mut text, &format!("windows of {} s", length.as_secs_f64()), errors)?;
        }
        for (length, errors) in WINDOWS.iter().zip(&errors.queued) {
            row(&mut text, &format!("windows of {} s, several waiting", length.as_secs_f64()), errors)?;
        }
    }
    Ok(text)
}

fn row(text: &mut String, label: &str, errors: &Distribution) -> std::fmt::Result {
    if errors.count == 0 {
        return Ok(());
    }
    write!(text, "  {label:42} {:>8} {:>7.1}", errors.count, errors.mean * 100.0)?;
    for share in errors.within {
        write!(text, " {:>6.1}", share * 100.0)?;
    }
    let at = |point: usize| errors.quantiles.get(point).map_or(0.0, |error| error * 100.0);
    writeln!(text, " {:>8.1} {:>7.1}", at(10), at(19))
}
