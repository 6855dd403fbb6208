//! `seekwise-lab iocost`: measures the accuracy of `seekwise learn iocost` on random devices.

use std::fmt::Write as _;

use experiment::iocost::NAMES;
use report::number::three_digits;
use research::iocost::{IoCostResult, iocost};
use seekwise::number;
use statistics::Rank;
use terminal::Terminal;
use testbed::pool::Workers;

use crate::evaluate::WorldArguments;

/// Arguments of `seekwise-lab iocost`.
#[derive(clap::Args)]
pub struct IocostArguments {
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of devices
    #[arg(long, value_name = "N", default_value_t = 30, value_parser = number::within::<u32>(1..=10_000, "devices"))]
    draws: u32,
    #[command(flatten)]
    world: WorldArguments,
    /// Number of devices at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn run(args: &IocostArguments) -> anyhow::Result<()> {
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, args.threads.map(usize::from));
    let numbers: Vec<u32> = (0..args.draws).collect();
    let all = iocost(args.world.which(), args.seed, &numbers, workers)?;
    Ok(terminal::print(&text(&all))?)
}

fn text(all: &[IoCostResult]) -> String {
    let mut text = format!(
        "{:4} {:28} {:10} {:>12} {:>12} {:>8} {:>8} {:>8}\n",
        "", "device", "figure", "actual", "learned", "± %", "off %", "script %"
    );
    for result in all {
        for (index, name) in NAMES.iter().enumerate() {
            let (actual, learned) = (result.actual[index], result.learned.model[index]);
            let _ = writeln!(
                text,
                "{:4} {:28} {name:10} {:>12} {:>12} {:>8} {:>+8.1} {:>+8.1}",
                result.number,
                report::printable(&result.device).to_string(),
                three_digits(actual),
                three_digits(learned.value),
                learned.error_percent.map_or("-".to_owned(), three_digits),
                percent_off(learned.value, actual),
                percent_off(result.script[index], actual)
            );
        }
        let qos = &result.learned.qos;
        let _ = writeln!(
            text,
            "     rlat {} ms at depth {}, wlat {} ms at depth {}, min {} max {}; {:.0} s, script {:.0} s",
            three_digits(qos.rlat_us.value / 1e3),
            result.learned.knees[0],
            three_digits(qos.wlat_us.value / 1e3),
            result.learned.knees[1],
            qos.min,
            qos.max,
            result.seconds[0],
            result.seconds[1]
        );
    }
    text + &summary(all)
}

fn percent_off(value: f64, actual: f64) -> f64 {
    100.0 * (value / actual - 1.0)
}

/// Median and 90th percentile of the figures' errors.
fn summary(all: &[IoCostResult]) -> String {
    let mut text = format!(
        "\nabsolute errors in percent of {} devices\n{:10} {:>8} {:>8} {:>16} {:>8} {:>8}\n",
        all.len(),
        "",
        "learned",
        "p90",
        "within its error",
        "script",
        "p90"
    );
    for (index, name) in NAMES.iter().enumerate() {
        let off = |of: &dyn Fn(&IoCostResult) -> f64| {
            let mut off: Vec<f64> = all.iter().map(|result| percent_off(of(result), result.actual[index]).abs()).collect();
            off.sort_by(f64::total_cmp);
            let at = |share: f64| Rank::Above.of_sorted(&off, share).unwrap_or(f64::NAN);
            [at(0.5), at(0.9)]
        };
        let [learned, learned_p90] = off(&|result| result.learned.model[index].value);
        let [script, script_p90] = off(&|result| result.script[index]);
        let within = all.iter().filter(|result| {
            let figure = result.learned.model[index];
            figure.error_percent.is_some_and(|error| percent_off(figure.value, result.actual[index]).abs() <= error)
        });
        let within = 100 * within.count() / all.len().max(1);
        let _ = writeln!(text, "{name:10} {learned:>8.1} {learned_p90:>8.1} {within:>15}% {script:>8.1} {script_p90:>8.1}");
    }
    text
}
