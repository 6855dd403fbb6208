//! `seekwise-lab guarantees`: measures whether guarantees to tenants are met on random hosts.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::Context as _;
use control::Setting;
use research::guarantees::admission::{AdmissionResult, admission};
use research::guarantees::bars::{self, AloneResult, ContractResult};
use research::guarantees::edf::BestEffort;
use research::guarantees::first_second::{FirstSecondResult, first_second};
use research::guarantees::hosts::HostKind;
use research::guarantees::rates::{self, RatesResult};
use seekwise::number;
use terminal::Terminal;
use testbed::pool::Workers;

use crate::evaluate::WorldArguments;

/// Maximum share of a host that the guarantees of a random contract need.
const MOST_NEEDED: f64 = 0.7;
/// For a tenant alone: minimum throughput relative to no scheduler, and maximum p99 response time relative to it.
const ALONE: (f64, f64) = (0.99, 1.05);
/// Bytes of best effort relative to those without guarantees below which it counts as starved.
const TENTH: f64 = 0.1;
/// Level of intervals.
const LEVEL: f64 = 0.9;
/// Maximum number of contracts for which broken guarantees are listed.
const LISTED: u32 = 20;

/// Arguments of `seekwise-lab guarantees`.
#[derive(clap::Args)]
pub struct GuaranteesArguments {
    /// `alone`: a tenant alone on the disk that it is guaranteed; `contracts`: several tenants whose guarantees can be kept: they
    /// need at most 0.7 of the host, and a schedule with knowledge of the future keeps them; `first-second`: the p99 response
    /// time of a tenant that starts right after the host was filled with writes; `admission`: contracts of any need, the answer of `seekwise guarantee` to each, and whether drawn loads break it; `rates`:
    /// limits and reservations in every second, of tenants that ask all the time
    #[arg(value_parser = ["alone", "contracts", "first-second", "admission", "rates"])]
    what: String,
    /// Seed of all draws
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of the first draw
    #[arg(long, value_name = "N", default_value_t = 0)]
    first: u32,
    /// Number of draws
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = number::within::<u32>(1..=10_000, "draws"))]
    draws: u32,
    /// The scheduler to be judged, others, and last the one without guarantees [default: guarantee;youchoose;earliest-due-first;none, for `rates` guarantee;youchoose;mclock;fairio;none]
    #[arg(
        long,
        value_name = "NAME[:KEY=VALUE,...][;...]",
        value_delimiter = ';',
        hide_default_value = true,
        default_value = "guarantee;youchoose;earliest-due-first;none",
        default_value_if("what", "rates", "guarantee;youchoose;mclock;fairio;none")
    )]
    schedulers: Vec<String>,
    #[command(flatten)]
    world: WorldArguments,
    /// Print the job file of each contract
    #[arg(long)]
    jobs: bool,
    /// Write each contract into a folder of its number below DIR: `job.fio`, `disk.toml`, and reference disks
    #[arg(long, value_name = "DIR")]
    write: Option<PathBuf>,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
}

/// Runs the command.
///
/// # Errors
/// Wrong arguments, or an interruption.
pub fn run(args: &GuaranteesArguments) -> anyhow::Result<()> {
    let which = args.world.which();
    let schedulers = args
        .schedulers
        .iter()
        .map(|text| research::guarantees::scheduler(text).with_context(|| format!("--schedulers {text}")))
        .collect::<anyhow::Result<Vec<Setting>>>()?;
    anyhow::ensure!(
        schedulers.len() >= 2,
        "--schedulers: {} should be at least two, separated by semicolons",
        args.schedulers.join(";")
    );
    let terminal = Terminal::default();
    let workers = Workers::new(&terminal, args.threads.map(usize::from));
    let numbers: Vec<u32> = (args.first..args.first.saturating_add(args.draws)).collect();
    let text = match args.what.as_str() {
        "alone" => {
            let pair = [schedulers[0].clone(), schedulers[schedulers.len() - 1].clone()];
            alone_text(&bars::alone(which, args.seed, &numbers, &pair, workers)?)
        }
        "first-second" => first_second_text(args, &first_second(which, args.seed, &numbers, &schedulers, workers)?),
        "admission" => admission_text(args, &admission(which, args.seed, &numbers, workers)?),
        "rates" => rates_text(args, &rates::rates(which, args.seed, &numbers, MOST_NEEDED, &schedulers, workers)?),
        _ => contracts_text(args, &bars::contracts(which, args.seed, &numbers, &schedulers, args.write.as_deref(), workers)?),
    };
    Ok(terminal::print(&text)?)
}

fn alone_text(all: &[AloneResult]) -> String {
    let is_kept = |result: &AloneResult| result.throughput >= ALONE.0 && result.p99 <= ALONE.1;
    let mut text = String::new();
    for result in all {
        let AloneResult { number, host, text: load, throughput, p99 } = result;
        let verdict = if is_kept(result) { "" } else { "  missed" };
        let _ = writeln!(text, "{number:3} {host:45} {load:26} throughput {throughput:.3}, p99 {p99:.3}{verdict}");
    }
    let kept = all.iter().filter(|result| is_kept(result)).count();
    let _ = writeln!(text, "alone: {kept} of {}", all.len());
    text
}

fn admission_text(args: &GuaranteesArguments, all: &[AdmissionResult]) -> String {
    let mut text = String::new();
    for result in all {
        if args.jobs {
            let _ = writeln!(text, "{}", result.text);
        }
        let AdmissionResult { number, host, total, answer, breaks_again, broken, .. } = result;
        let verdict = if answer.can_be_guaranteed() { "admitted" } else { "refused" };
        let outcome = if broken.is_empty() { "kept".to_owned() } else { format!("{} broken", broken.len()) };
        let again = if *breaks_again { ", breaks again" } else { "" };
        let wrong = if result.is_right() { "" } else { "  wrong" };
        let tenants = answer.tenants();
        let needs = answer.needs_percent;
        let _ = writeln!(
            text,
            "{number:3} {host:45} total {total:.2}, {tenants:2} tenants, needs {needs:.0}%: {verdict}{again}, {outcome}{wrong}"
        );
        if args.draws <= LISTED {
            let _ = writeln!(text, "    {}", answer.verdict());
            for broken in broken {
                let _ = writeln!(text, "    {broken}");
            }
        }
    }
    let right = |admitted: bool| {
        let those = all.iter().filter(|result| result.answer.can_be_guaranteed() == admitted);
        (those.clone().filter(|result| result.is_right()).count(), those.count())
    };
    let ((kept, admitted), (broken, refused)) = (right(true), right(false));
    let by_drawn = all.iter().filter(|result| !result.answer.can_be_guaranteed() && !result.broken.is_empty()).count();
    let _ = writeln!(
        text,
        "admission: kept {kept} of {admitted} admitted; broken {broken} of {refused} refused, {by_drawn} of them by drawn loads"
    );
    text
}

fn contracts_text(args: &GuaranteesArguments, all: &[ContractResult]) -> String {
    let mut text = String::new();
    for result in all {
        if args.jobs {
            let _ = writeln!(text, "{}", result.text);
        }
        let ContractResult { number, host, kind, demand, policy, tenants, .. } = result;
        let served = match policy.best_effort {
            BestEffort::All => "best effort",
            BestEffort::Reads => "reads of best effort",
            BestEffort::Nothing => "no best effort",
        };
        let _ = write!(
            text,
            "{number:3} {kind:17} {host:45} {:2} tenants, {:2} guaranteed, demand {demand:.2}, schedule of depth {} with {served}",
            tenants.len(),
            tenants.iter().filter(|tenant| tenant.is_guaranteed).count(),
            policy.depth,
        );
        for position in 0..result.outcomes.len() {
            let (broken, of) = result.broken(position);
            let _ = write!(text, "; {broken} of {of} broken");
            if let Some((bytes, least)) = result.best_effort(position) {
                let _ = write!(text, ", best effort {bytes:.2}, least {least:.2}");
            }
        }
        text.push('\n');
        if args.draws <= LISTED {
            list_broken(&mut text, args, result);
        }
    }
    for (position, scheduler) in args.schedulers.iter().enumerate() {
        contracts_row(&mut text, &format!("{scheduler}, all hosts"), &all.iter().collect::<Vec<_>>(), position);
        for kind in HostKind::ALL {
            let of_kind: Vec<&ContractResult> = all.iter().filter(|result| result.kind == kind).collect();
            if !of_kind.is_empty() {
                contracts_row(&mut text, &format!("{scheduler}, {kind}"), &of_kind, position);
            }
        }
    }
    text
}

/// The results of a scheduler on some hosts, in a line.
fn contracts_row(text: &mut String, name: &str, all: &[&ContractResult], position: usize) {
    let sum = |of: fn(&ContractResult, usize) -> (usize, usize)| {
        let each = all.iter().map(|result| of(result, position));
        let (broken, count) = each.fold((0, 0), |sum, (broken, of)| (sum.0 + broken, sum.1 + of));
        proportion(count - broken, count)
    };
    let whole = proportion(all.iter().filter(|result| result.broken(position).0 == 0).count(), all.len());
    let (guarantees, syncs) = (sum(ContractResult::broken), sum(ContractResult::broken_of_syncs));
    let _ = write!(text, "{name}: whole {whole}; guarantees kept {guarantees}; of syncs {syncs}");
    let parts: Vec<(f64, f64)> = all.iter().filter_map(|result| result.best_effort(position)).collect();
    let bytes: Vec<f64> = parts.iter().map(|(bytes, _)| *bytes).collect();
    if let Some((median, low, high)) = bars::median_with_interval(&bytes, LEVEL) {
        let tenth = bytes.iter().filter(|bytes| **bytes < TENTH).count();
        let least = parts.iter().map(|(_, least)| *least).fold(f64::INFINITY, f64::min);
        let starved = parts.iter().filter(|(_, least)| *least < TENTH).count();
        let _ = write!(
            text,
            "; best effort median {median:.2} ({low:.2} to {high:.2}), {tenth} of {} under a tenth, least tenant {least:.3}, in {starved} under a tenth",
            bytes.len()
        );
    }
    text.push('\n');
}

/// "19 of 20 (79 to 99%)".
fn proportion(hits: usize, cases: usize) -> String {
    let (low, high) = statistics::count::wilson(hits as u64, cases as u64, LEVEL);
    format!("{hits} of {cases} ({:.0} to {:.0}%)", 100.0 * low, 100.0 * high)
}

fn first_second_text(args: &GuaranteesArguments, all: &[FirstSecondResult]) -> String {
    let mut text = String::new();
    for FirstSecondResult { number, host, kind, load, outcomes } in all {
        let _ = write!(text, "{number:3} {kind:17} {host:45} {load}: p99");
        for (ratio, is_kept) in outcomes {
            let _ = write!(text, " {ratio:.2}{}", if *is_kept { "" } else { " missed" });
        }
        text.push('\n');
    }
    for (position, scheduler) in args.schedulers.iter().enumerate() {
        let kept = all.iter().filter(|result| result.outcomes[position].1).count();
        let _ = writeln!(text, "{scheduler}: p99 of the first seconds kept {}", proportion(kept, all.len()));
    }
    text
}

fn list_broken(text: &mut String, args: &GuaranteesArguments, result: &ContractResult) {
    for (scheduler, outcome) in args.schedulers.iter().zip(&result.outcomes) {
        for tenant in outcome.tenancy.tenants.iter().filter(|tenant| !tenant.broken.is_empty()) {
            let reference = tenant.promised.reference.as_deref().unwrap_or_default();
            let _ = writeln!(text, "    {scheduler}: {} on {reference}: {}", tenant.name, tenant.broken.join("; "));
        }
    }
}

fn rates_text(args: &GuaranteesArguments, all: &[RatesResult]) -> String {
    let mut text = String::new();
    for result in all {
        if args.jobs {
            let _ = writeln!(text, "{}", result.text);
        }
        let RatesResult { number, host, outcomes, .. } = result;
        let last = outcomes.last().map_or(0, |(_, bytes)| *bytes);
        let _ = write!(text, "{number:3} {host:45} {:2} tenants with rates", outcomes[0].0.len());
        for (position, (_, bytes)) in outcomes.iter().enumerate() {
            let [(limits, of_limits), (reservations, of_reservations)] = [true, false].map(|kind| result.broken(position, kind));
            let _ = write!(text, "; {limits} of {of_limits} limits and {reservations} of {of_reservations} reservations broken");
            let _ = write!(text, ", bytes {:.2}", *bytes as f64 / last as f64);
        }
        text.push('\n');
        if args.draws <= LISTED {
            list_missed(&mut text, args, result);
        }
    }
    for (position, scheduler) in args.schedulers.iter().enumerate() {
        let sum = |is_limit| {
            let each = all.iter().map(|result| result.broken(position, is_limit));
            each.fold((0, 0), |sum, (broken, of)| (sum.0 + broken, sum.1 + of))
        };
        let ((limits, of_limits), (reservations, of_reservations)) = (sum(true), sum(false));
        let kept = all.iter().filter(|result| [true, false].iter().all(|&kind| result.broken(position, kind).0 == 0)).count();
        let _ = writeln!(
            text,
            "{scheduler}: all kept in every second in {kept} of {} cases; {limits} of {of_limits} limits and {reservations} of \
             {of_reservations} reservations broken",
            all.len()
        );
    }
    text
}

fn list_missed(text: &mut String, args: &GuaranteesArguments, result: &RatesResult) {
    for (scheduler, (tenants, _)) in args.schedulers.iter().zip(&result.outcomes) {
        for tenant in tenants {
            for figures in tenant.rates.iter().filter(|figures| figures.missed > 0) {
                let kind = if figures.is_limit { "limit" } else { "reservation" };
                let _ = writeln!(
                    text,
                    "    {scheduler}: {}: {kind} of {} {}: missed in {} of {} windows of {} s, the worst got {:.2} of it",
                    tenant.name,
                    figures.per_second,
                    figures.what,
                    figures.missed,
                    figures.windows,
                    figures.window.as_secs_f64(),
                    figures.worst
                );
            }
        }
    }
}
