//! Admission control: whether a store can keep the guarantees of its volumes.

use std::fmt::Write as _;

use anyhow::{Context, bail};
use block::Nanos;
use guarantee::admission::{GuaranteeRequest, admit_or_mend};
use guarantee::tenants::Contract;
use progress::monitor::Quiet;
use sim::profile::Profile;
use testbed::pool::Workers;

/// Simulated time of each scenario: the shortest that gives meaningful 99th percentiles and windows of a second.
const SCENARIO: Nanos = Nanos::from_millis(2_000);
/// Seed of the scenarios.
pub(crate) const SEED: u64 = 1;

/// A volume to check, existing or requested.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Name.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub contract: String,
}

/// Checks that a disk can keep the guarantees of all volumes at once in the worst case of what their owners may send, as `seekwise
/// guarantee` does.
///
/// # Errors
/// A guarantee cannot be kept; the message names it and one that would be admitted. Or a contract is invalid or cannot be simulated.
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
