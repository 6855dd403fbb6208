//! `status`, `verify` and `resume`: requests to the daemon.

use agent::control_socket::{self, Answer, Ask, DeviceStatus, Differs, Status, VerdictStatus};
use agent::units::{self, Screen};
use anyhow::{Context as _, bail};
use linux::events::counter_source::CANNOT_KNOW;
use report::gains::{signed, with_error};
use report::number::{grouped, three_digits};
use terminal::Failed;

use super::{Configured, names, say};

/// Arguments of `seekwise-agent status`.
#[derive(clap::Args)]
pub struct StatusArgs {
    #[command(flatten)]
    configured: Configured,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `seekwise-agent verify`.
#[derive(clap::Args)]
pub struct VerifyArgs {
    #[command(flatten)]
    configured: Configured,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `seekwise-agent resume`.
#[derive(clap::Args)]
pub struct ResumeArgs {
    /// The device, such as `sda` or /dev/disk/by-id/…, or a cgroup that is left alone, such as /system.slice/backup.service
    device: String,
    #[command(flatten)]
    configured: Configured,
}

/// Sends a request to the daemon.
///
/// # Errors
/// None is running, it does not reply, or it refuses.
pub fn daemon(configured: &Configured, ask: &Ask) -> anyhow::Result<Answer> {
    let socket = configured.load()?.socket;
    let answer = control_socket::ask(&socket, ask).with_context(|| socket.display().to_string())?;
    match answer {
        Some(Answer::Refused(reason)) => Err(Failed(reason).into()),
        Some(answer) => Ok(answer),
        None => Err(Failed(format!(
            "no daemon is running (no process listens at {}); start it with `systemctl start seekwise-agent`, or by hand with `seekwise-agent act`",
            socket.display()
        ))
        .into()),
    }
}

/// Prints the state of the daemon and of its devices.
pub fn status(args: &StatusArgs) -> anyhow::Result<()> {
    let Answer::Status(status) = daemon(&args.configured, &Ask::Status)? else {
        bail!("unexpected reply from the daemon; are both programs of the same version?")
    };
    if args.json {
        return Ok(terminal::print(&(units::json_for_terminals(&serde_json::to_string_pretty(&status)?) + "\n"))?);
    }
    Ok(terminal::print(&text(&status, terminal::style().0))?)
}

fn text(status: &Status, width: Option<usize>) -> String {
    let sentences = vec![format!(
        "seekwise-agent {}, running for {} s, {} {}.",
        status.version,
        three_digits(status.runs_for_s),
        status.devices.len(),
        if status.devices.len() == 1 { "device" } else { "devices" }
    )];
    let mut out = say::lines(sentences, width);
    for device in &status.devices {
        out.push('\n');
        out += &say::lines(device_text(device), width);
        if let Some(table) = &device.units {
            out += &format!("Units in the latest {} s:\n", three_digits(table.seconds));
            out += &units::text(table, Screen { width, ..Screen::default() });
        }
    }
    let mut sentences = Vec::new();
    if let Some(learning) = &status.learning {
        sentences.extend([String::new(), learning.clone()]);
    }
    if !status.left_alone.is_empty() {
        sentences.push(String::new());
        sentences.extend(status.left_alone.iter().map(|(name, why)| format!("{name} is left alone: {why}")));
    }
    out + &say::lines(sentences, width)
}

fn device_text(device: &DeviceStatus) -> Vec<String> {
    let DeviceStatus { device: name, state, in_force, found, latest, .. } = device;
    let was = if in_force == found { String::new() } else { format!(" (before the agent: {found})") };
    let mut sentences = vec![format!("{name} is {state}. {in_force} is active{was}.")];
    sentences.extend(device.why.as_ref().map(|why| match state.as_str() {
        "stood down" => format!("Tuning stopped: {why}. `seekwise-agent resume {name}` resumes it."),
        _ => format!("The latest change was refused: {why}. `seekwise-agent restore {name}` restores its original settings."),
    }));
    sentences.push(format!(
        "Latest window: {} requests/s, {} MB/s, mean response {} ms, p99 {}. Total: {} requests, {}.",
        three_digits(latest.requests_per_s),
        three_digits(latest.mb_per_s),
        three_digits(latest.response_ms),
        latest.p99_ms.map_or_else(|| "unknown".to_owned(), |ms| format!("{} ms", three_digits(ms))),
        grouped(device.requests),
        if device.blind.is_some() { "from counters".to_owned() } else { format!("{} events lost", grouped(device.lost)) }
    ));
    sentences.extend(device.blind.as_ref().map(|why| format!("Counters only: {why}; {CANNOT_KNOW}.")));
    sentences.extend(device.advice.as_ref().map(|advice| {
        let gain = match (advice.gain_percent, advice.error_percent) {
            (Some(gain), Some(error)) => format!(", predicted {}", with_error(gain, error)),
            _ => String::new(),
        };
        format!("Recommended: {}{gain}; details: `seekwise-agent explain {}`.", advice.setting, advice.id)
    }));
    sentences.extend(device.verdict.as_ref().map(verdict_text));
    sentences.extend(device.promises.iter().map(say::promise));
    sentences.extend(device.limits.iter().map(say::limit));
    sentences.extend(device.thoughts.last().map(|latest| format!("Latest decision: {latest}.")));
    sentences
}

fn verdict_text(verdict: &VerdictStatus) -> String {
    let VerdictStatus { setting, over, gain_percent, samples: [of_setting, of_over], test, .. } = verdict;
    let gain = verdict.error_percent.map_or_else(|| signed(*gain_percent), |error| with_error(*gain_percent, error));
    let ruling = if verdict.stays { "stays" } else { "was taken back" };
    format!("{setting} {ruling}: measured {gain} compared with {over} ({test}, {of_setting} and {of_over} scores).")
}

/// Prints the attributes that differ from the agent's values.
///
/// # Errors
/// There are any.
pub fn verify(args: &VerifyArgs) -> anyhow::Result<()> {
    let Answer::Differs(differs) = daemon(&args.configured, &Ask::Verify)? else {
        bail!("unexpected reply from the daemon; are both programs of the same version?")
    };
    let text = if args.json {
        serde_json::to_string_pretty(&differs)? + "\n"
    } else if differs.is_empty() {
        "All settings of the agent are active.\n".to_owned()
    } else {
        say::lines(differs.iter().map(difference), terminal::style().0)
    };
    terminal::print(&text)?;
    if differs.is_empty() {
        return Ok(());
    }
    let (count, differ) = (differs.len(), if differs.len() == 1 { "attribute differs" } else { "attributes differ" });
    Err(Failed(format!("{count} {differ} from the agent's values")).into())
}

fn difference(one: &Differs) -> String {
    let Differs { device, attribute, wanted, now, rivals } = one;
    // Linux does not record which process wrote a sysfs file.
    let who = if rivals.is_empty() {
        "the writer is unknown: no udev rule or tuned profile on this machine sets it, so probably a person or a script".to_owned()
    } else {
        format!("the writer is unknown, but {}", rivals.join(", and "))
    };
    format!("{device}: {attribute} is {now}, and the agent had set {wanted}; {who}.")
}

/// Resumes tuning of a device.
pub fn resume(args: &ResumeArgs) -> anyhow::Result<()> {
    let device = match args.device.starts_with('/') && !args.device.starts_with("/dev/") {
        true => args.device.clone(),
        false => names(std::slice::from_ref(&args.device))?.remove(0),
    };
    let Answer::Done(said) = daemon(&args.configured, &Ask::Resume { scope: device.into() })? else {
        bail!("unexpected reply from the daemon; are both programs of the same version?")
    };
    Ok(terminal::print(&say::lines(said, terminal::style().0))?)
}
