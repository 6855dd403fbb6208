//! `seekwise-serve plan`: proposes moves between stores.

use crate::control::{Carried, Command};
use crate::planner::Advice;
use terminal::size::size;

use super::volume::Socket;

/// Arguments.
#[derive(clap::Args)]
pub struct Plan {
    /// Begin the moves
    #[arg(long)]
    apply: bool,
    /// Rate at which a volume is copied, as of `volume move`
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8M", requires = "apply")]
    pace: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Runs the command.
///
/// # Errors
/// No server answers, or the plan cannot be made.
pub fn run(plan: &Plan) -> anyhow::Result<()> {
    let apply = plan.apply.then_some(plan.pace);
    let Carried::Advice(advice) = plan.socket.ask(&Command::Plan { apply })? else { return Ok(()) };
    let text = if plan.json { serde_json::to_string_pretty(&advice)? + "\n" } else { lines(&advice, plan.apply) };
    Ok(terminal::print(&text)?)
}

fn lines(advice: &Advice, is_applied: bool) -> String {
    let mut text = String::new();
    for proposal in &advice.moves {
        let (volume, from, to, mib) = (&proposal.volume, &proposal.from, &proposal.to, proposal.bytes >> 20);
        text += &format!("{volume}: from {from} to {to}, {mib} MiB: {}\n", proposal.reason);
    }
    match advice.moves.len() {
        0 if advice.notes.is_empty() => text += "every store can keep its guarantees\n",
        0 => {}
        _ if is_applied => text += "begun; `seekwise-serve volume status` says how far they are\n",
        _ => text += "`seekwise-serve plan --apply` begins the moves\n",
    }
    for note in &advice.notes {
        text += &format!("{note}\n");
    }
    text
}
