//! `seekwise-agent watch`: monitors devices and reports what would be set.

use std::sync::Arc;
use std::time::Duration;

use agent::configuration::Mode;
use agent::daemon::open::Machine;
use agent::daemon::run::{LoopContext, run as run_daemon};
use agent::daemon::{Daemon, Scope};
use agent::history::{Entry, History};
use agent::metrics::Metrics;
use applier::sysfs::Sysfs;
use endpoint::notify::Notify;
use linux::clock::now;
use linux::topology::HotPlug;
use terminal::Failed;

use super::{Configured, names, say};

/// Arguments of `seekwise-agent watch`.
#[derive(clap::Args)]
pub struct WatchArgs {
    /// Devices, such as `sda` or /dev/disk/by-id/… [default: all except those with mode = "leave-alone" in the configuration]
    #[arg(value_name = "DEVICE")]
    devices: Vec<String>,
    /// Stop after this many seconds [default: on Ctrl-C]
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    seconds: Option<u32>,
    /// Use the kernel's counters only, as if requests could not be traced
    #[arg(long)]
    counters: bool,
    /// Print JSON, one line for each event
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command.
pub fn run(args: &WatchArgs) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let named = names(&args.devices)?;
    let (sysfs, began) = (Sysfs::real(), now());
    let opens = Box::new(Machine::new(sysfs.clone(), &configuration.applier_socket).by_counters(args.counters));
    let kept = (Arc::default(), History::in_memory(configuration.history), Metrics::new());
    let wants = Scope { configuration, named, mode: Some(Mode::Watch) };
    let mut daemon = Daemon::new(began, (sysfs, "/".into()), wants, opens, kept);
    let lasts = args.seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let hot_plug = HotPlug::listen().ok();
    let context =
        LoopContext { control: None, hot_plug, notify: Notify::default(), stop: terminal::interrupted(), lasts, monitor: None };
    let width = terminal::style().0;
    daemon.step(began);
    if daemon.sessions().count() == 0 {
        let why = daemon.reasons().join("; ");
        let none = if why.is_empty() { "no device found".to_owned() } else { why };
        return Err(Failed(format!("cannot monitor any device: {none}")).into());
    }
    let tell = |entry: &Entry| {
        let line = if args.json { serde_json::to_string(entry)? + "\n" } else { say::lines([say::entry(entry)], width) };
        terminal::print(&line)
    };
    daemon.history().entries().try_for_each(tell)?;
    run_daemon(&mut daemon, &context, tell)?;
    if args.json {
        return Ok(());
    }
    let sentences = daemon.sessions().map(|watched| {
        let advice = match watched.pending_advice() {
            Some(standing) => format!("recommended: {}: {} ({})", standing.setting, standing.why, standing.id),
            None => format!("keep {}", watched.active()),
        };
        let seen = report::number::grouped(watched.requests());
        let latest = watched.thoughts().last().map_or_else(String::new, |latest| format!("; latest decision: {latest}"));
        let how = if watched.source().counters_only().is_some() { "counted" } else { "traced" };
        format!("{}: {seen} requests {how}; {advice}{latest}", watched.name())
    });
    Ok(terminal::print(&say::lines(sentences, width))?)
}
