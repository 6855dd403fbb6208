//! `seekwise fleet report`.

use std::path::PathBuf;

use ::report::gains::signed;
use ::report::printable;
use control::fleet::report::{Effects, FleetEffect};
use knowledge::{Fleet, Knowledge};
use serde::Serialize;
use statistics::percent;

use seekwise::number;

/// Arguments of `seekwise fleet report`.
#[derive(clap::Args)]
pub struct ReportArgs {
    /// The server, as postgresql://user@host/database, or the file of one machine
    #[arg(value_name = "SERVER")]
    server: PathBuf,
    /// Leave out changes that fewer machines measured
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = number::within::<u32>(1..=1_000_000, "machines"))]
    machines: u32,
    /// Print JSON, with the unit in every key
    #[arg(long)]
    json: bool,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Json {
    effects: Vec<Effect>,
    /// Number of invalid rows, which were skipped.
    broken_rows: usize,
}

#[derive(Serialize)]
struct Effect {
    kind: String,
    model: String,
    load: String,
    from: String,
    to: String,
    gain_percent: f64,
    /// Lower end of the 95% confidence interval; null for a single machine.
    low_percent: Option<f64>,
    high_percent: Option<f64>,
    machines: usize,
    outcomes: usize,
}

impl From<FleetEffect> for Effect {
    fn from(effect: FleetEffect) -> Effect {
        let bound = |sign: f64| effect.margin.map(|margin| percent(effect.gain + sign * margin));
        Effect {
            gain_percent: percent(effect.gain),
            low_percent: bound(-1.0),
            high_percent: bound(1.0),
            kind: effect.kind,
            model: effect.model,
            load: effect.load,
            from: effect.from,
            to: effect.to,
            machines: effect.machines,
            outcomes: effect.outcomes,
        }
    }
}

/// Runs the command.
pub fn run(args: &ReportArgs) -> anyhow::Result<()> {
    let mut all = Effects::default();
    let unreadable = match Knowledge::is_server(&args.server) {
        true => Fleet::connect(&args.server)?.each_outcome(&mut |outcome| all.add(&outcome))?,
        false => {
            Knowledge::open_to_read(&args.server)?.outcomes()?.iter().for_each(|outcome| all.add(outcome));
            0
        }
    };
    let (mut effects, broken_rows) = all.finish();
    let broken_rows = broken_rows + unreadable as usize;
    effects.retain(|effect| effect.machines >= args.machines as usize);
    let effects: Vec<Effect> = effects.into_iter().map(Effect::from).collect();
    let text = match args.json {
        true => serde_json::to_string_pretty(&Json { effects, broken_rows })? + "\n",
        false => table(&effects, broken_rows),
    };
    Ok(terminal::print(&text)?)
}

fn table(effects: &[Effect], broken_rows: usize) -> String {
    let mut text = String::new();
    let mut of = None;
    for effect in effects {
        let group = (&effect.kind, &effect.model, &effect.load);
        if of != Some(group) {
            let space = if of.is_some() { "\n" } else { "" };
            let model = if effect.model.is_empty() { "no model" } else { &effect.model };
            text += &format!("{space}{}, {}: {}\n", printable(model), printable(&effect.kind), effect.load);
            text += &format!("  {:>9}  {:>20}  {:>8}  change\n", "gain", "95% interval", "machines");
            of = Some(group);
        }
        let interval = effect.low_percent.zip(effect.high_percent);
        let interval = interval.map_or("-".to_owned(), |(low, high)| format!("{} to {}", signed(low), signed(high)));
        let change = format!("{} → {}", printable(&effect.from), printable(&effect.to));
        text += &format!("  {:>9}  {interval:>20}  {:>8}  {change}\n", signed(effect.gain_percent), effect.machines);
    }
    if effects.is_empty() {
        text += "no outcomes\n";
    }
    if broken_rows > 0 {
        text += &format!("\n{broken_rows} rows are no measurements, and were passed over\n");
    }
    text
}
