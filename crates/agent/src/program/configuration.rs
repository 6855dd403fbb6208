//! `seekwise-agent configuration`: the effective settings, and the files that they were read from.

use agent::configuration::{Configuration, FleetSettings, Learning, vendor_file};
use agent::learning::Machine;
use applier::sysfs::Sysfs;
use linux::topology;

use super::{Configured, say};

/// Arguments of `seekwise-agent configuration`.
#[derive(clap::Args)]
pub struct ConfigurationArgs {
    #[command(flatten)]
    configured: Configured,
    /// Print the vendor's file instead: every key with its meaning and default
    #[arg(long)]
    vendor: bool,
}

/// Runs the command.
pub fn run(args: &ConfigurationArgs) -> anyhow::Result<()> {
    if args.vendor {
        return Ok(terminal::print(&vendor_file())?);
    }
    let configuration = args.configured.load()?;
    Ok(terminal::print(&text(&configuration)?)?)
}

fn text(configuration: &Configuration) -> anyhow::Result<String> {
    let read = configuration.read.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    let from = if read.is_empty() { "no file: all defaults".to_owned() } else { read };
    let mut sentences = vec![format!("Read from {from}.")];
    let sysfs = Sysfs::real();
    for device in topology::devices(&sysfs)?.iter().filter(|device| device.has_queue && device.size_sectors > 0) {
        let settings = configuration.settings(device, sysfs.wwid(&device.name).as_deref());
        let attributes = settings.attributes.iter().map(|pattern| pattern.text()).collect::<Vec<_>>().join(", ");
        let unless = if device.is_zoned { "" } else { " unless named on the command line" };
        let unless = device.left_alone.as_ref().map(|why| format!(", but ignored{unless}: it {why}"));
        sentences.push(format!(
            "{}: {}{}; controller {}, preference {}, may set {attributes}.",
            device.name,
            settings.mode.name(),
            unless.unwrap_or_default(),
            settings.controller.label(),
            settings.preference
        ));
    }
    sentences.extend(learning(&configuration.learning, sysfs));
    sentences.extend(fleet(&configuration.fleet));
    Ok(say::lines(sentences, terminal::style().0))
}

/// The server for sharing outcomes as a sentence; `None` if sharing is off.
fn fleet(plan: &FleetSettings) -> Option<String> {
    let address = plan.server.as_ref()?.to_string_lossy();
    // Omits role and password, which may precede an @ or be options.
    let server = address.split('?').next().unwrap_or_default();
    let server = server.rsplit(['@', '/']).find(|part| !part.is_empty()).unwrap_or_default();
    let rollouts = if plan.rollouts { "devices that are tuned take part in rollouts" } else { "no device takes part in rollouts" };
    let minutes = plan.exchange_minutes;
    Some(format!("Fleet: gains of changes are shared over the server's database {server} every {minutes} minutes; {rollouts}."))
}

/// When and where learning mode runs, or why it currently cannot; `None` if no scratch file is configured.
fn learning(plan: &Learning, sysfs: Sysfs) -> Option<String> {
    let machine = Machine { sysfs, scratch: plan.scratch.clone()? };
    let scratch = machine.scratch.display();
    let device = match machine.check() {
        Ok(device) => device,
        Err(why) => return Some(format!("Learning mode cannot run: {why}.")),
    };
    let hours = plan.hours.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let hours = if hours.is_empty() { "any time".to_owned() } else { hours };
    let Learning { idle_minutes, controller, .. } = plan;
    Some(format!(
        "Learning mode: device {device} (if mode = \"act\"), scratch file {scratch}, hours: {hours}, after {idle_minutes} idle minutes; controller {}.",
        controller.label()
    ))
}
