//! Runs of the loads of a contract.

use control::Setting;
use guarantee::tenants::{Contract, TenantGuarantee};
use sim::host::RunSummary;
use sim::run::Watch;
use testbed::jobs::JobsLoad;
use testbed::load::Load as _;
use testbed::world::World;

/// Runs a load under a scheduler.
pub(super) fn run_load(load: &JobsLoad, world: &World, scheduler: &Setting, watch: &Watch) -> anyhow::Result<RunSummary> {
    let queue = world.queue(world.scheduler(scheduler));
    Ok(load.run(queue, world.host, watch, None)?)
}

/// Whether the device is flash. It serves orders of magnitude more requests than disks, so runs are shorter.
pub fn is_flash(world: &World) -> bool {
    world.profile.build(world.device).flash().is_some()
}

/// A contract with these guarantees.
pub fn of_promises(promises: Vec<TenantGuarantee>) -> Contract {
    Contract { source: "drawn".to_owned(), sha256: String::new(), promises }
}
