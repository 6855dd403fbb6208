//! `seekwise-agent learn`: learning mode, started by hand.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use agent::configuration::{Configuration, Learning, Mode, searching};
use agent::control_socket::{self, Answer, Ask};
use agent::daemon::open::Machine;
use agent::daemon::run::{LoopContext, run as run_daemon};
use agent::daemon::{Daemon, Learner, Scope};
use agent::history::{Entry, EntryKind, History};
use agent::learning::{self, Equipment as _, Memory};
use agent::metrics::Metrics;
use anyhow::{Context as _, anyhow, bail};
use applier::sysfs::Sysfs;
use control::controller::ControllerChoice;
use endpoint::notify::Notify;
use linux::clock::now;
use progress::monitor::Monitor as _;
use terminal::{Failed, Terminal};

use super::act::{expect_something, hot_plug, make, own_applier};
use super::{Configured, is_root, names, say};

/// Arguments of `seekwise-agent learn`.
#[derive(clap::Args)]
pub struct LearnArgs {
    /// The device, such as `sda` or /dev/disk/by-id/…
    device: String,
    /// A file or unused partition on the device that workloads may overwrite [default: from the configuration]
    #[arg(long, value_name = "FILE")]
    scratch: Option<PathBuf>,
    /// Stop after this many seconds [default: on Ctrl-C]
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u32).range(1..=31_536_000))]
    seconds: Option<u32>,
    /// Search controller: genetic, ioperf, random or bayes, with its tunables after a colon [default: from the configuration]
    #[arg(long, value_name = "CONTROLLER", value_parser = searching)]
    controller: Option<ControllerChoice>,
    /// Journal directory of the applier that is started if none is running
    #[arg(long, value_name = "DIR", default_value = "/var/lib/seekwise")]
    journal: PathBuf,
    #[command(flatten)]
    configured: Configured,
}

/// Runs the command.
pub fn run(args: &LearnArgs) -> anyhow::Result<()> {
    let configuration = args.configured.load()?;
    let device = names(std::slice::from_ref(&args.device))?.remove(0);
    let plan = plan(args, &configuration);
    let scratch = plan.scratch.clone();
    let scratch = scratch.context("--scratch: missing; name a file or partition on the device that may be overwritten")?;
    let sysfs = Sysfs::real();
    let equipment = Box::new(learning::Machine { sysfs: sysfs.clone(), scratch });
    // Check the scratch file and fio before anything is changed.
    equipment.generator(&device, 1).map_err(|why| anyhow!("--scratch: {why}"))?;
    if !is_root() {
        bail!("learning mode changes settings and requires root");
    }
    expect_no_daemon(&configuration, &device)?;
    let _applier = own_applier((&args.journal, true), &args.configured, &configuration, None, &[])?;
    make(&configuration.state_directory, None)?;
    let (state, began) = (configuration.state_directory.clone(), now());
    let history = History::open(&state, configuration.history).with_context(|| state.display().to_string())?;
    let (memory, opens) = (Memory::below(&state), Box::new(Machine::new(sysfs.clone(), &configuration.applier_socket)));
    let learner = Learner::new(plan, true, equipment, memory.clone());
    // Only the learner changes settings.
    let configuration = configuration.controlled_by(twin::controller::parse("fixed")?);
    let wants = Scope { configuration, named: vec![device.clone()], mode: Some(Mode::Act) };
    let kept = (Arc::default(), history, Metrics::new());
    let mut daemon = Daemon::new(began, (sysfs, "/".into()), wants, opens, kept).remembering(memory).learning(learner);
    daemon.step(began);
    expect_something(&daemon)?;
    learn(&mut daemon, &device, args.seconds)
}

/// `[learning]` of the configuration, overridden by options of the command line.
fn plan(args: &LearnArgs, configuration: &Configuration) -> Learning {
    let mut plan = configuration.learning.clone();
    plan.scratch = args.scratch.clone().or(plan.scratch);
    plan.controller = args.controller.clone().unwrap_or(plan.controller);
    plan
}

/// Fails if a running daemon tunes this device: each would treat the other's changes as external.
fn expect_no_daemon(configuration: &Configuration, device: &str) -> anyhow::Result<()> {
    let Ok(Some(Answer::Status(status))) = control_socket::ask(&configuration.socket, &Ask::Status) else { return Ok(()) };
    let is_tuned = status.devices.iter().any(|known| known.device == device && known.state != "watched");
    if is_tuned {
        let remedy = "stop the daemon first, or configure [learning] with scratch";
        return Err(Failed(format!("{device} is tuned by the running daemon; {remedy}")).into());
    }
    Ok(())
}

fn learn(daemon: &mut Daemon, device: &str, seconds: Option<u32>) -> anyhow::Result<()> {
    let monitor = Terminal::default();
    let begin = || monitor.begin(seconds.unwrap_or(0).into(), &format!("learning on {device}"));
    let lasts = seconds.map(|seconds| Duration::from_secs(seconds.into()));
    let (notify, stop) = (Notify::default(), terminal::interrupted());
    let context = LoopContext { control: None, hot_plug: hot_plug(), notify, stop, lasts, monitor: Some(&monitor) };
    let mut last = daemon.history().entries().next_back().map_or(0, |entry| entry.number);
    let (mut trouble, mut has_begun) = (None, false);
    begin();
    let outcome = run_daemon(daemon, &context, |entry| {
        last = entry.number;
        if entry.kind == EntryKind::Trouble {
            trouble = Some(entry.why.clone());
            return Err(io::Error::other("the loop ends"));
        }
        if entry.kind == EntryKind::Learning {
            has_begun = true;
            monitor.end();
            print(entry)?;
            begin();
        }
        Ok(())
    });
    monitor.end();
    // Entries that were added while settings were restored.
    daemon.history().entries().filter(|entry| entry.number > last && entry.kind == EntryKind::Learning).try_for_each(print)?;
    if let Some(why) = trouble {
        return Err(Failed(why).into());
    }
    outcome?;
    if !has_begun {
        terminal::print(&say::lines(daemon.learns(now()), terminal::style().0))?;
    }
    Ok(())
}

fn print(entry: &Entry) -> io::Result<()> {
    terminal::print(&say::lines([say::entry(entry)], terminal::style().0))
}
