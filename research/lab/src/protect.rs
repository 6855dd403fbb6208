//! `seekwise-lab protect`: measures whether guarantees to cgroups are met on random hosts.

use std::fmt::Write as _;

use control::Setting;
use research::protect::draw::PromiseKind;
use research::protect::{Draws, ProtectResult, RIVALS, promise_text, protect};
use seekwise::number;
use statistics::Rank;
use terminal::Terminal;
use testbed::pool::Workers;

use crate::evaluate::WorldArguments;

/// Minimum throughput of neighbours relative to the oracle's fixed limit.
const NEIGHBOURS: f64 = 0.7;

/// Arguments of `seekwise-lab protect`.
#[derive(clap::Args)]
pub struct ProtectArguments {
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of the first draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u32,
    /// Number of draws
    #[arg(long, value_name = "N", default_value_t = 60, value_parser = number::within::<u32>(1..=10_000, "draws"))]
    draws: u32,
    #[command(flatten)]
    world: WorldArguments,
    /// Kinds of promises that are drawn, of p99, least, share and reference
    #[arg(long, value_name = "KINDS", value_delimiter = ',', default_value = "p99,least", value_parser = kind)]
    kinds: Vec<PromiseKind>,
    /// Try the protector under this scheduler, with weights that are ten times as large for the victim [default: the case's]
    #[arg(long, value_name = "SCHEDULER", value_parser = scheduler)]
    under: Option<String>,
    /// Print each case's job file, its seconds and every change of a limit
    #[arg(long)]
    trace: bool,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
}

/// Parses a kind of promises.
fn kind(text: &str) -> Result<PromiseKind, String> {
    let found = PromiseKind::ALL.iter().find(|(name, _)| *name == text);
    found.map(|(_, kind)| *kind).ok_or_else(|| "should be p99, least, share or reference".to_owned())
}

/// Parses a scheduler.
fn scheduler(text: &str) -> Result<String, String> {
    Setting::parse(text).map(|_| text.to_owned()).map_err(|error| error.to_string())
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn run(args: &ProtectArguments) -> anyhow::Result<()> {
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, args.threads.map(usize::from));
    let numbers: Vec<u32> = (args.first..args.first.saturating_add(args.draws)).collect();
    let draws = Draws { which: args.world.which(), kinds: &args.kinds, under: args.under.as_deref() };
    let all = protect(draws, args.seed, &numbers, workers)?;
    Ok(terminal::print(&text(&all, args.trace))?)
}

fn ratio(one: u64, other: u64) -> f64 {
    one as f64 / other.max(1) as f64
}

fn text(all: &[ProtectResult], trace: bool) -> String {
    let mut text = String::new();
    for result in all {
        let [nothing, .., fixed, protected] = &result.outcomes;
        let _ = writeln!(text, "{:3} {}; promised {}", result.number, result.about, promise_text(result.promise));
        let _ = write!(text, "    kept in");
        for (name, outcome) in RIVALS.iter().zip(&result.outcomes) {
            let _ = write!(text, " {:.0}% {name},", 100.0 * outcome.kept);
        }
        let _ = writeln!(
            text,
            " fixed at {:.2} MB/s; neighbours {:.2} of fixed, idle {:.2} of nothing; {} changes in 5 s; kept after {} s{}",
            result.fixed_bytes_per_s as f64 / 1e6,
            ratio(protected.bytes, fixed.bytes),
            ratio(protected.bytes_in_pause, nothing.bytes_in_pause),
            protected.changes,
            protected.until_kept.map_or("-".to_owned(), |seconds| seconds.to_string()),
            if protected.is_kept() { "" } else { "  missed" }
        );
        let (alone, forecast) = &result.alone;
        let _ = match forecast {
            Ok(forecast) => writeln!(text, "    the twin forecasts {:.2} times the victim's rate alone", forecast / alone),
            Err(why) => writeln!(text, "    the twin forecasts nothing of the victim alone: {why}"),
        };
        if trace {
            let _ = writeln!(text, "{}\n    {}", result.text, result.seconds);
            for (unit, seconds) in result.bytes.iter().enumerate() {
                let name = if unit == 0 { "victim".to_owned() } else { format!("n{}", unit - 1) };
                let mb: Vec<String> = seconds.iter().map(|bytes| format!("{:.1}", *bytes as f64 / 1e6)).collect();
                let _ = writeln!(text, "    {name} MB/s: {}", mb.join(" "));
            }
            result.changes.iter().for_each(|change| _ = writeln!(text, "    {change}"));
            result.standings.iter().for_each(|standing| _ = writeln!(text, "    {standing:?}"));
        }
    }
    text + &summary(all)
}

fn summary(all: &[ProtectResult]) -> String {
    let mut text = forecasts(all) + &by_kind(all);
    for (number, name) in RIVALS.iter().enumerate() {
        let outcomes = || all.iter().map(|result| &result.outcomes[number]);
        let kept = outcomes().filter(|outcome| outcome.is_kept()).count();
        let parts = |of: &dyn Fn(&ProtectResult) -> f64| {
            let mut parts: Vec<f64> = all.iter().map(of).collect();
            parts.sort_by(f64::total_cmp);
            (Rank::Above.of_sorted(&parts, 0.5).unwrap_or(f64::NAN), parts)
        };
        let (active, each) = parts(&|result| ratio(result.outcomes[number].bytes, result.outcomes[3].bytes));
        let (idle, _) = parts(&|result| ratio(result.outcomes[number].bytes_in_pause, result.outcomes[0].bytes_in_pause));
        let mut until: Vec<u64> = outcomes().filter_map(|outcome| outcome.until_kept).collect();
        until.sort_unstable();
        let _ = writeln!(
            text,
            "{name}: kept in {kept} of {} cases; neighbours get {active:.2} of the fixed limit's in the median, at least {NEIGHBOURS} in {}, \
             and {idle:.2} of nothing's while the victim is idle; at most {} changes by over 20% in 5 s; kept after {} s in the median",
            all.len(),
            each.iter().filter(|part| **part >= NEIGHBOURS).count(),
            outcomes().map(|outcome| outcome.changes).max().unwrap_or(0),
            Rank::Above.of_sorted(&until, 0.5).as_ref().map_or("-".to_owned(), u64::to_string),
        );
    }
    text
}

/// Errors of the forecasts for victims alone.
fn forecasts(all: &[ProtectResult]) -> String {
    let mut ratios: Vec<f64> = all.iter().filter_map(|result| Some(result.alone.1.as_ref().ok()? / result.alone.0)).collect();
    ratios.sort_by(f64::total_cmp);
    let at = |part: f64| Rank::Above.of_sorted(&ratios, part).unwrap_or(f64::NAN);
    format!(
        "twin: forecasts {} of {} victims alone; a tenth below {:.2} times what they get, half below {:.2}, nine tenths below {:.2}\n",
        ratios.len(),
        all.len(),
        at(0.1),
        at(0.5),
        at(0.9)
    )
}

/// Number of guarantees of each kind that are met, by method.
fn by_kind(all: &[ProtectResult]) -> String {
    let mut text = String::new();
    for (name, kind) in PromiseKind::ALL {
        let of_kind: Vec<&ProtectResult> = all.iter().filter(|result| result.kind == kind).collect();
        if of_kind.is_empty() {
            continue;
        }
        let kept = RIVALS.iter().enumerate().map(|(number, rival)| {
            format!("{} by {rival}", of_kind.iter().filter(|result| result.outcomes[number].is_kept()).count())
        });
        let _ = writeln!(text, "{name}: {} cases; kept {}", of_kind.len(), kept.collect::<Vec<_>>().join(", "));
    }
    text
}
