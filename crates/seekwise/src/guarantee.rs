//! `seekwise guarantee`: admission control, which checks whether a host can meet guarantees.

use std::path::PathBuf;

use block::Nanos;
use guarantee::admission::{GuaranteeRequest, guarantee};
use guarantee::tenants::Contract;
use testbed::pool::Workers;

use crate::number;
use terminal::{self, Terminal};

/// Arguments of `seekwise guarantee`.
#[derive(clap::Args)]
pub struct GuaranteeArguments {
    /// A TOML file of tenants and their guarantees, as for `--tenants`
    #[arg(value_name = "FILE.toml")]
    file: PathBuf,
    /// The host: a profile's name (`seekwise disk list`) or file, or an array of disks such as
    /// `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`
    #[arg(long, value_name = "NAME|FILE|ARRAY", default_value = "sata7200")]
    disk: String,
    /// How long each scenario is simulated
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = number::within::<u32>(1..=86_400, "seconds"))]
    seconds: u32,
    /// Only add up the needs of the guarantees, and simulate nothing
    #[arg(long)]
    capacity_only: bool,
    /// Seed for the random draws of the scenarios
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = number::seed)]
    seed: u64,
    /// Number of runs at once [default: one per core]
    #[arg(long, value_name = "N", value_parser = number::within::<u16>(1..=1024, "threads"))]
    threads: Option<u16>,
    /// Print also the demand of each guarantee and the results of the scenarios; if refused, look for a change of each kind that would
    /// help, which takes longer
    #[arg(long, conflicts_with = "json")]
    details: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: &GuaranteeArguments) -> anyhow::Result<()> {
    let request = GuaranteeRequest {
        contract: Contract::read(&args.file)?,
        host: sim::profile::load(&args.disk)?,
        scenario: (!args.capacity_only).then(|| Nanos::from_millis(1_000 * u64::from(args.seconds))),
        seed: args.seed,
    };
    let terminal = Terminal::default();
    let answer = guarantee(&request, args.details || args.json, Workers::new(&terminal, args.threads.map(usize::from)))?;
    let text = if args.json { answer.to_json()? } else { answer.text(terminal::style().0, args.details) };
    Ok(terminal::print(&text)?)
}
