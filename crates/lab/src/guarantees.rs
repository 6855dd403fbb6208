//! `seekwise-lab guarantees`: measures whether guarantees to tenants are kept on drawn hosts.

use control::Setting;
use experiment::pool::Workers;
use research::guarantees::bars;
use research::worlds::Which;
use seekwise::number;
use terminal::Terminal;

/// Arguments of `seekwise-lab guarantees`.
#[derive(clap::Args)]
pub struct Args {
    /// What is measured
    #[arg(value_parser = ["alone", "contracts"])]
    what: String,
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// First draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u32,
    /// Number of draws
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = number::within::<u32>(1..=10_000, "draws"))]
    draws: u32,
    /// Schedulers, the one to be judged first
    #[arg(long, value_name = "NAME[:KEY=VALUE,...]", value_delimiter = ';', default_value = "youchoose;none")]
    schedulers: Vec<String>,
    /// Use the validation world
    #[arg(long)]
    build_world: bool,
    /// Use the training world
    #[arg(long, conflicts_with = "build_world")]
    learn_world: bool,
    /// Print the job files
    #[arg(long)]
    text: bool,
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let which = match (args.learn_world, args.build_world) {
        (true, _) => Which::Learn,
        (_, true) => Which::Build,
        _ => Which::Report,
    };
    let schedulers = args
        .schedulers
        .iter()
        .map(|text| experiment::comparison::regime::scheduler(text))
        .collect::<anyhow::Result<Vec<Setting>>>()?;
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, None);
    let numbers: Vec<u32> = (args.first..args.first + args.draws).collect();
    let mut out = String::new();
    use std::fmt::Write as _;
    if args.what == "alone" {
        let pair = [schedulers[0].clone(), schedulers[1].clone()];
        let all = bars::alone(which, args.seed, &numbers, &pair, workers)?;
        for r in &all {
            let ok = r.throughput >= 0.99 && r.p99 <= 1.05;
            let _ = writeln!(
                out,
                "{} {:3} {:50} {:28} {:.3} p99 {:.3}",
                if ok { "ok " } else { "BAD" },
                r.number,
                r.host,
                r.text,
                r.throughput,
                r.p99
            );
        }
        let kept = all.iter().filter(|r| r.throughput >= 0.99 && r.p99 <= 1.05).count();
        let _ = writeln!(out, "alone: {kept} of {}", all.len());
        return Ok(terminal::print(&out)?);
    }
    let all = bars::contracts(which, args.seed, &numbers, 0.7, &schedulers, workers)?;
    for r in &all {
        if args.text {
            let _ = writeln!(out, "{}", r.text);
        }
        let _ = write!(out, "{:3} {:44} needs {:.2} tenants {:2}", r.number, r.host, r.needs, r.outcomes[0].tenancy.tenants.len());
        for (position, outcome) in r.outcomes.iter().enumerate() {
            let (broken, of) = r.broken(position);
            let _ = write!(
                out,
                " | {broken}/{of} broken, bytes {:.2}",
                outcome.bytes as f64 / r.outcomes[r.outcomes.len() - 1].bytes as f64
            );
        }
        let _ = writeln!(out);
        if args.text || args.draws <= 20 {
            for (position, outcome) in r.outcomes.iter().enumerate() {
                for tenant in outcome.tenancy.tenants.iter().filter(|tenant| !tenant.broken.is_empty()) {
                    let figures = tenant.reference.as_ref().map(|f| {
                        format!(
                            "{:.2} p99 {:.2} of {:.2} ms, violated {}/{}, n {}",
                            f.throughput_ratio,
                            f.p99_ratio,
                            f.response.p99_ms,
                            f.windows[1].violated,
                            f.windows[1].windows,
                            tenant.requests
                        )
                    });
                    let _ = writeln!(
                        out,
                        "     {} {} on {:?}: {}",
                        args.schedulers[position],
                        tenant.name,
                        tenant.promised.reference,
                        figures.unwrap_or_default()
                    );
                }
            }
        }
    }
    for position in 0..schedulers.len() {
        let kept = all.iter().filter(|r| r.broken(position).0 == 0).count();
        let promises: (usize, usize) = all.iter().map(|r| r.broken(position)).fold((0, 0), |s, b| (s.0 + b.0, s.1 + b.1));
        let least = all
            .iter()
            .filter(|r| r.outcomes[position].bytes as f64 >= 0.85 * r.outcomes[schedulers.len() - 1].bytes as f64)
            .count();
        let _ = writeln!(
            out,
            "{}: all kept in {kept} of {} contracts; {} of {} guarantees broken; bytes at least 85% in {least}",
            args.schedulers[position],
            all.len(),
            promises.0,
            promises.1
        );
    }
    Ok(terminal::print(&out)?)
}
