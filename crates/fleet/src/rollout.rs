//! `seekwise fleet rollout`: staged rollout of a setting, which advances or is reverted by the measured gain.

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use ::report::printable;
use anyhow::{Context as _, bail, ensure};
use control::Setting;
use control::ab_test::{Outcome, percent};
use control::fleet::rollout::{Judgement, Stage, Stages, judge};
use knowledge::{Fleet, Member, NewRollout, Rollout, RolloutState};
use serde::Serialize;
use terminal::Interrupted;

use super::check_server;
use seekwise::number;

/// Note of an agent whose guard reverted the setting.
const TAKEN_BACK: &str = "taken back by the guard";

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Begin a rollout; devices get the setting when `step` or `run` chooses them
    Start(StartArgs),
    /// Compare, then widen or take back, once
    Step(NamedArgs),
    /// The same again and again, until the rollout is done or taken back
    Run(RunArgs),
    /// Show all rollouts
    List(ListArgs),
    /// Show the devices of a rollout and the comparison
    Show(ShowArgs),
    /// Let a rollout widen that waits for a person
    Approve(NamedArgs),
    /// Let it neither widen nor be taken back
    Pause(NamedArgs),
    /// Go on after a pause
    Resume(NamedArgs),
    /// Take it back on every device: what was there before comes back
    Abort(NamedArgs),
}

/// A kind of device as agents report it: the attachment and the medium. Another word would match no device, and the rollout would wait for ever.
fn kind(text: &str) -> Result<String, String> {
    let is_kind = text
        .split_once(", ")
        .is_some_and(|(attachment, medium)| !attachment.is_empty() && matches!(medium, "rotational" | "solid state"));
    let right = "as `seekwise fleet report` prints it, such as \"scsi, rotational\" or \"nvme, solid state\"";
    is_kind.then(|| text.to_owned()).ok_or_else(|| format!("no device is of this kind; name one {right}"))
}

/// Stages of which each has more devices than the one before. A number and a percentage are not comparable before the devices are known.
fn growing(text: &str) -> Result<Stages, String> {
    let stages: Stages = text.parse()?;
    let (mut devices, mut percent) = (0, 0);
    for stage in &stages.0 {
        let (last, size) = match stage {
            Stage::Devices(size) => (&mut devices, *size),
            Stage::Percent(size) => (&mut percent, *size),
        };
        if size <= *last {
            return Err(format!("{stage} should be more than the stage before; stages grow, as in 1,5,25%,100%"));
        }
        *last = size;
    }
    Ok(stages)
}

/// A server and a rollout on it.
#[derive(clap::Args)]
pub struct NamedArgs {
    /// The server, as postgresql://user@host/database
    #[arg(value_name = "SERVER")]
    server: PathBuf,
    /// The rollout's name
    #[arg(value_name = "NAME")]
    name: String,
}

/// Arguments of `run`.
#[derive(clap::Args)]
pub struct RunArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Minutes between steps
    #[arg(long, value_name = "MINUTES", default_value_t = 10, value_parser = number::within::<u32>(1..=1440, "minutes"))]
    every: u32,
}

/// Arguments of `list`.
#[derive(clap::Args)]
pub struct ListArgs {
    /// The server, as postgresql://user@host/database
    #[arg(value_name = "SERVER")]
    server: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Arguments of `show`.
#[derive(clap::Args)]
pub struct ShowArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// Print JSON, with the unit in every key
    #[arg(long)]
    json: bool,
}

/// Arguments of `start`.
#[derive(clap::Args)]
pub struct StartArgs {
    #[command(flatten)]
    named: NamedArgs,
    /// The kind of device, as `fleet report` prints it, such as "scsi, rotational"
    #[arg(long, value_name = "KIND", value_parser = kind)]
    kind: String,
    /// Its model, as `fleet report` prints it; empty for devices without one
    #[arg(long, value_name = "MODEL")]
    model: String,
    /// The setting, such as "bfq:slice_idle=0 read_ahead_kb=512"
    #[arg(long, value_name = "SETTING")]
    setting: String,
    /// Sizes of the stages, growing: numbers of devices, or percentages of those that take part
    #[arg(long, value_name = "N[%],...", default_value = "1,5,25%,100%", value_parser = growing)]
    stages: Stages,
    /// Wait for `approve` before each further stage
    #[arg(long)]
    approve: bool,
}

/// Runs the command.
pub fn run(command: Command) -> anyhow::Result<()> {
    match command {
        Command::Start(args) => start(args),
        Command::Step(args) => say(&args.name, &step(&mut connect(&args.server)?, &args.name)?.1),
        Command::Run(args) => keep_stepping(&args),
        Command::List(args) => list(&args),
        Command::Show(args) => show(&args),
        Command::Approve(args) => approve(&args),
        Command::Pause(args) => set(&args, &[RolloutState::Running, RolloutState::Waiting], RolloutState::Paused),
        Command::Resume(args) => set(&args, &[RolloutState::Paused], RolloutState::Running),
        Command::Abort(args) => {
            let from = [RolloutState::Running, RolloutState::Waiting, RolloutState::Paused, RolloutState::Done];
            set(&args, &from, RolloutState::Aborted)
        }
    }
}

fn connect(server: &std::path::Path) -> anyhow::Result<Fleet> {
    check_server(server)?;
    Ok(Fleet::connect(server)?)
}

fn say(name: &str, what: &str) -> anyhow::Result<()> {
    Ok(terminal::print(&format!("{}: {what}\n", printable(name)))?)
}

fn find(fleet: &Fleet, name: &str) -> anyhow::Result<Rollout> {
    let all = fleet.rollouts()?;
    let known: Vec<&str> = all.iter().map(|rollout| rollout.what.name.as_str()).collect();
    let missing = if known.is_empty() { "there is none yet".to_owned() } else { format!("known are {}", known.join(", ")) };
    all.iter().find(|rollout| rollout.what.name == name).cloned().with_context(|| format!("no rollout {name}; {missing}"))
}

fn start(args: StartArgs) -> anyhow::Result<()> {
    let StartArgs { named, kind, model, setting, stages, approve } = args;
    let setting = Setting::parse(&setting).context("--setting")?.to_string();
    ensure!(!named.name.is_empty() && named.name.chars().count() <= 64, "a rollout's name should have 1 to 64 letters");
    let mut fleet = connect(&named.server)?;
    if fleet.rollout(&named.name)?.is_some() {
        bail!("there is a rollout {} already: choose another name", named.name);
    }
    fleet.begin_rollout(&NewRollout { name: named.name.clone(), kind, model, setting: setting.clone(), stages, approve })?;
    say(&named.name, &format!("begun for {setting}; `seekwise fleet rollout run` gives it to the first devices that take part"))
}

/// Devices and comparison of a rollout.
struct Standing {
    rollout: Rollout,
    members: Vec<Member>,
    judgement: Judgement,
    /// Number of chosen devices that do not run the setting.
    declined: usize,
    taken_back: bool,
}

fn standing(fleet: &Fleet, rollout: Rollout) -> anyhow::Result<Standing> {
    let members = fleet.members(&rollout)?;
    let chosen = || members.iter().filter(|member| member.stage.is_some());
    let declined = chosen().filter(|member| !member.note.is_empty()).count();
    let taken_back = chosen().any(|member| member.note == TAKEN_BACK);
    let treated: Vec<_> = chosen().filter(|member| member.note.is_empty()).map(|member| member.scores.clone()).collect();
    let others: Vec<_> = members.iter().filter(|member| member.stage.is_none()).map(|member| member.scores.clone()).collect();
    let judgement = judge(&treated, &others);
    Ok(Standing { rollout, members, judgement, declined, taken_back })
}

impl Standing {
    fn compared(&self) -> String {
        let declined = if self.declined > 0 { format!("; {} chosen devices do not have it", self.declined) } else { String::new() };
        match &self.judgement {
            Judgement::TooLittle(why) => format!("{why}{declined}"),
            Judgement::Compared { comparison, treated, others } => format!(
                "{} ± {:.1}% on {treated} devices, compared with {others} others{declined}",
                percent(comparison.gain.mean),
                100.0 * comparison.margin()
            ),
        }
    }
}

/// Compares once, and updates the rollout. Returns its new state and the reason.
fn step(fleet: &mut Fleet, name: &str) -> anyhow::Result<(RolloutState, String)> {
    let rollout = find(fleet, name)?;
    if rollout.state != RolloutState::Running {
        return Ok((rollout.state, format!("{}: {}", rollout.state, rollout.why)));
    }
    let standing = standing(fleet, rollout)?;
    let (rollout, stages) = (&standing.rollout, &standing.rollout.what.stages.0);
    let stage = rollout.stage.min(stages.len() - 1);
    let chosen = standing.members.iter().filter(|member| member.stage.is_some()).count();
    let size = stages[stage].of(standing.members.len());
    let (next, state, why) = if standing.members.is_empty() {
        (stage, RolloutState::Running, "no device takes part yet".to_owned())
    } else if standing.taken_back {
        (stage, RolloutState::Aborted, "taken back: the guard of a device found that it does harm".to_owned())
    } else if chosen < size {
        let free = standing.members.iter().filter(|member| member.stage.is_none() && member.scores.len() >= MIN_SCORES_BEFORE);
        let devices: Vec<[u8; 16]> = free.map(|member| member.device).take(size - chosen).collect();
        fleet.choose(rollout, stage, &devices)?;
        let why = format!("stage {} of {}: {} of {size} devices chosen", stage + 1, stages.len(), chosen + devices.len());
        (stage, RolloutState::Running, why)
    } else {
        let compared = standing.compared();
        match standing.judgement.outcome() {
            None | Some(Outcome::Unclear) => {
                (stage, RolloutState::Running, format!("stage {} of {}: {compared}", stage + 1, stages.len()))
            }
            Some(Outcome::Worse | Outcome::NotBetter) => (stage, RolloutState::Aborted, format!("taken back: {compared}")),
            Some(Outcome::Better) if stage + 1 == stages.len() => (stage, RolloutState::Done, compared),
            Some(Outcome::Better) if rollout.what.approve => {
                (stage, RolloutState::Waiting, format!("{compared}; `seekwise fleet rollout approve` widens it"))
            }
            Some(Outcome::Better) => (stage + 1, RolloutState::Running, format!("{compared}; on to stage {}", stage + 2)),
        }
    };
    ensure!(fleet.move_rollout(rollout, next, state, &why)?, "{name}: was changed at the same time; look again");
    Ok((state, format!("{state}: {why}")))
}

/// Minimum scores of a device before it may be chosen, which are its baseline.
const MIN_SCORES_BEFORE: usize = control::fleet::rollout::MIN_SCORES;

#[allow(clippy::disallowed_methods, reason = "it waits for hours between steps")]
fn keep_stepping(args: &RunArgs) -> anyhow::Result<()> {
    let mut said = String::new();
    loop {
        // A temporary failure of the server does not end the loop.
        match connect(&args.named.server).and_then(|mut fleet| step(&mut fleet, &args.named.name)) {
            Ok((state, why)) => {
                if why != said {
                    say(&args.named.name, &why)?;
                }
                said = why;
                if matches!(state, RolloutState::Done | RolloutState::Aborted) {
                    return Ok(());
                }
            }
            Err(error) if said.is_empty() => return Err(error),
            Err(error) => terminal::eprint_line(&format!("warning: {error:#}")),
        }
        let until = Instant::now() + Duration::from_secs(60 * u64::from(args.every));
        while Instant::now() < until {
            if terminal::interrupted().load(Ordering::Relaxed) {
                return Err(Interrupted.into());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

fn approve(args: &NamedArgs) -> anyhow::Result<()> {
    let mut fleet = connect(&args.server)?;
    let rollout = find(&fleet, &args.name)?;
    ensure!(rollout.state == RolloutState::Waiting, "{} is {}, and does not wait for approval", args.name, rollout.state);
    let why = format!("approved for stage {}", rollout.stage + 2);
    ensure!(
        fleet.move_rollout(&rollout, rollout.stage + 1, RolloutState::Running, &why)?,
        "{}: was changed at the same time; look again",
        args.name
    );
    say(&args.name, &why)
}

fn set(args: &NamedArgs, from: &[RolloutState], to: RolloutState) -> anyhow::Result<()> {
    let mut fleet = connect(&args.server)?;
    let rollout = find(&fleet, &args.name)?;
    let names: Vec<&str> = from.iter().map(|state| state.name()).collect();
    ensure!(from.contains(&rollout.state), "{} is {}; only what is {} can be {to}", args.name, rollout.state, names.join(" or "));
    let why = "a person decided so";
    ensure!(fleet.move_rollout(&rollout, rollout.stage, to, why)?, "{}: was changed at the same time; look again", args.name);
    say(&args.name, &format!("{to}: {why}"))
}

#[derive(Serialize)]
struct RolloutJson<'a> {
    name: &'a str,
    kind: &'a str,
    model: &'a str,
    setting: &'a str,
    stages: String,
    stage: usize,
    needs_approval: bool,
    state: &'static str,
    why: &'a str,
    begun_by: &'a str,
}

impl<'a> From<&'a Rollout> for RolloutJson<'a> {
    fn from(rollout: &'a Rollout) -> RolloutJson<'a> {
        let what = &rollout.what;
        RolloutJson {
            name: &what.name,
            kind: &what.kind,
            model: &what.model,
            setting: &what.setting,
            stages: what.stages.to_string(),
            stage: rollout.stage + 1,
            needs_approval: what.approve,
            state: rollout.state.name(),
            why: &rollout.why,
            begun_by: &rollout.writer,
        }
    }
}

fn list(args: &ListArgs) -> anyhow::Result<()> {
    let rollouts = connect(&args.server)?.rollouts()?;
    if args.json {
        let json: Vec<RolloutJson> = rollouts.iter().map(RolloutJson::from).collect();
        return Ok(terminal::print(&(serde_json::to_string_pretty(&json)? + "\n"))?);
    }
    let mut text = String::new();
    for rollout in &rollouts {
        let what = &rollout.what;
        text += &format!(
            "{}: {}, stage {} of {} ({}), {} on {}, {}; {}\n",
            printable(&what.name),
            rollout.state,
            rollout.stage + 1,
            what.stages.0.len(),
            what.stages,
            printable(&what.setting),
            printable(if what.model.is_empty() { "devices without a model" } else { &what.model }),
            printable(&what.kind),
            printable(&rollout.why)
        );
    }
    Ok(terminal::print(if text.is_empty() { "no rollouts\n" } else { &text })?)
}

#[derive(Serialize)]
struct ShowJson<'a> {
    #[serde(flatten)]
    rollout: RolloutJson<'a>,
    devices: usize,
    chosen: usize,
    chosen_without_setting: usize,
    gain_percent: Option<f64>,
    /// Half-width of the 95% confidence interval.
    margin_percent: Option<f64>,
    compared_with_setting: usize,
    compared_without: usize,
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let fleet = connect(&args.named.server)?;
    let standing = standing(&fleet, find(&fleet, &args.named.name)?)?;
    let chosen = standing.members.iter().filter(|member| member.stage.is_some()).count();
    if !args.json {
        let rollout = &standing.rollout;
        let text = format!(
            "{}: {}, stage {} of {}; {} of {} devices chosen\n{}\n{}\n",
            printable(&rollout.what.name),
            rollout.state,
            rollout.stage + 1,
            rollout.what.stages.0.len(),
            chosen,
            standing.members.len(),
            printable(&rollout.why),
            standing.compared()
        );
        return Ok(terminal::print(&text)?);
    }
    let (gain, treated, others) = match &standing.judgement {
        Judgement::TooLittle(_) => (None, 0, 0),
        Judgement::Compared { comparison, treated, others } => (Some(comparison), *treated, *others),
    };
    let json = ShowJson {
        rollout: RolloutJson::from(&standing.rollout),
        devices: standing.members.len(),
        chosen,
        chosen_without_setting: standing.declined,
        gain_percent: gain.map(|comparison| statistics::percent(comparison.gain.mean)),
        margin_percent: gain.map(|comparison| 100.0 * comparison.margin()),
        compared_with_setting: treated,
        compared_without: others,
    };
    Ok(terminal::print(&(serde_json::to_string_pretty(&json)? + "\n"))?)
}

#[cfg(test)]
mod tests {
    use super::{growing, kind};

    #[test]
    fn a_rollout_is_for_a_kind_that_devices_have() {
        for right in ["scsi, rotational", "nvme, solid state", "device mapper, solid state"] {
            assert_eq!(kind(right).as_deref(), Ok(right));
        }
        for wrong in ["harddisk", "scsi", "scsi,rotational", ", rotational", "scsi, tape", ""] {
            assert!(kind(wrong).is_err_and(|error| error.contains("scsi, rotational")), "{wrong}");
        }
    }

    #[test]
    fn stages_grow() {
        for right in ["1", "1,5,25%,100%", "10,50%,20"] {
            assert!(growing(right).is_ok(), "{right}");
        }
        for wrong in ["5,1", "2,2", "50%,25%", "1,50%,1"] {
            assert!(growing(wrong).is_err_and(|error| error.contains("stages grow")), "{wrong}");
        }
        assert!(growing("0").is_err_and(|error| error.contains("should be a number of devices")));
    }
}
