//! Whether a store can keep one more promise, before it is given.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use block::Nanos;
use experiment::guarantee::{GuaranteeRequest, admit_or_mend};
use experiment::pool::Workers;
use experiment::tenants::Contract;
use progress::monitor::Quiet;
use sim::profile::Profile;

/// How long each scenario is simulated: the shortest in which a p99 and windows of a second say something.
const SCENARIO: Nanos = Nanos::from_millis(2_000);
/// Of what the scenarios draw.
pub(crate) const SEED: u64 = 1;

/// A volume as it is or would be.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What people call it.
    pub name: String,
    /// Its size.
    pub bytes: u64,
    /// What it is promised: keys of a tenant in TOML.
    pub contract: String,
}

/// Refuses volumes whose promises a disk cannot keep all at once, whatever their owners ask for, as `seekwise guarantee` does.
///
/// # Errors
/// They cannot be kept: which is broken, and what would be admitted.
pub fn check(disk: &Profile, volumes: &[Asked]) -> anyhow::Result<()> {
    let mut text = String::new();
    let mut begin = 0;
    for Asked { name, bytes, contract } in volumes {
        let mib = bytes.div_ceil(1 << 20);
        let place = format!("volumes = [{{ begin_mib = {begin}, mib = {mib} }}]");
        writeln!(text, "[[tenant]]\nname = \"{name}\"\njobs = [\"{name}\"]\n{place}\n{contract}")?;
        begin += mib;
    }
    let contract = Contract::parse(&text, "contracts")?;
    let request = GuaranteeRequest { contract, host: disk.clone(), scenario: Some(SCENARIO), seed: SEED };
    let answer = admit_or_mend(&request, Workers::new(&Quiet::default(), Some(1))).context("the promises cannot be checked")?;
    if answer.can_be_guaranteed() {
        return Ok(());
    }
    let said = std::iter::once(answer.verdict()).chain(answer.remedies.iter().map(report::guarantee::RemedyFigures::text));
    bail!("{}", said.collect::<Vec<_>>().join(" "))
}
