//! Runs for the paper's figures 6, 8 and 9: the volumes of a scene alone on their reference disks, and together on their host under each
//! scheduler.

use std::collections::BTreeMap;

use anyhow::Context;
use block::Nanos;
use control::Setting;
use sim::host::{Ledger, RunSummary};
use sim::run::TenantMeasure;
use testbed::pool::Workers;

use super::SCHEDULER;
use super::guarantees::{Models, Promised, promised};
use super::printed::clocks;
use super::scenes::{Plan, Scene};

/// A scheduler as given on the command line, and the kind of guarantee that it receives.
#[derive(Clone, Copy, Debug)]
pub struct Under {
    /// The name on the page.
    pub name: &'static str,
    setting: &'static str,
    promised: Promised,
}

/// Our scheduler, which comes first, and its peers; the last does not share the host.
pub const UNDERS: [Under; 18] = [
    Under { name: "youchoose", setting: "youchoose", promised: Promised::Disk },
    Under { name: "as printed", setting: "youchoose-printed", promised: Promised::Printed },
    Under { name: "youchoose, exact", setting: "youchoose", promised: Promised::Shadow },
    Under { name: "virtual-clock, in slots", setting: "youchoose-printed", promised: Promised::Constant },
    Under { name: "virtual-clock", setting: "virtual-clock:iops=100", promised: Promised::Nothing },
    Under { name: "mclock", setting: "mclock", promised: Promised::Rate },
    Under { name: "fairio", setting: "fairio:cycle_ms=0", promised: Promised::Nothing },
    Under { name: "io-cost", setting: "io-cost", promised: Promised::Nothing },
    Under { name: "bfq", setting: "bfq", promised: Promised::Nothing },
    Under { name: "noop", setting: "noop", promised: Promised::Nothing },
    Under { name: "as printed, slots of 40 ms", setting: "youchoose-printed:slot=40", promised: Promised::Printed },
    Under { name: "as printed, one slot at a time", setting: "youchoose-printed:serial=1", promised: Promised::Printed },
    Under { name: "as printed, clocks of what is sent", setting: "youchoose-printed:at_dispatch=1", promised: Promised::Printed },
    Under { name: "as printed, the operation a feature", setting: "youchoose-printed", promised: Promised::PrintedWithOperation },
    Under { name: "as printed, our model", setting: "youchoose-printed", promised: Promised::Disk },
    Under { name: "youchoose, the printed model", setting: "youchoose", promised: Promised::Printed },
    // As many requests in flight as the array accepts, like the printed scheduler.
    Under { name: "youchoose, 64 requests at the array", setting: "youchoose:in_flight=64", promised: Promised::Disk },
    Under { name: "youchoose, the printed model, 64 at the array", setting: "youchoose:in_flight=64", promised: Promised::Printed },
];
/// Index of our scheduler.
pub const OURS: usize = 0;
/// Indices of the paper's variant, and of the first of its variations, which cover points that the paper leaves open.
pub const PRINTED: usize = 1;
pub const VARIATIONS: usize = 10;
/// Index of the paper's baseline: a throughput bound, in slots with an equal number of requests (section IV.B).
pub const VIRTUAL_CLOCK: usize = 3;
/// The baseline's guarantee for each volume (section IV.B).
pub const VIRTUAL_CLOCK_IOPS: f64 = 100.0;

impl Under {
    /// The scheduler with its tunables.
    fn setting(&self) -> anyhow::Result<Setting> {
        let known = device_model::sched::all().chain(std::iter::once(&clocks::SPEC));
        let (spec, values) = block::parse_among(known, self.setting)?;
        Ok(Setting { spec, values, host: Vec::new() })
    }
}

/// Results of volumes that ran together on a host.
#[derive(Clone, Debug)]
pub struct SideBySide {
    /// Results by volume.
    pub volumes: Vec<TenantMeasure>,
    /// Share of the time in which the host's disks were idle although requests were queued, in percent.
    pub idle_percent: f64,
}

/// Results of volumes alone on their reference disks.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    /// Results by volume.
    pub volumes: Vec<TenantMeasure>,
    /// The host's busy time needed for one second's work of all reference disks, in seconds; above 1 the host cannot keep up.
    pub needs: f64,
}

impl Alone {
    /// Requests per second of each volume.
    pub fn rates(&self) -> Vec<f64> {
        self.volumes.iter().map(rate).collect()
    }
}

/// Requests per second of the time in which any were outstanding.
pub fn rate(volume: &TenantMeasure) -> f64 {
    volume.served.requests as f64 / volume.wanted.as_secs_f64().max(1e-9)
}

/// Results of all runs.
#[derive(Default)]
pub struct Runs {
    alone: BTreeMap<Scene, Alone>,
    shared: BTreeMap<(Scene, usize), SideBySide>,
}

impl Runs {
    /// Results of a scene's volumes alone; `None` if not run.
    pub fn alone(&self, scene: Scene) -> Option<&Alone> {
        self.alone.get(&scene)
    }

    /// Results of a scene's volumes together, under a scheduler by its index in [`UNDERS`]; `None` if not run.
    pub fn shared(&self, scene: Scene, under: usize) -> Option<&SideBySide> {
        self.shared.get(&(scene, under))
    }

    /// Runs the scenes under each scheduler that applies.
    ///
    /// # Errors
    /// A scheduler is unknown, or the work was interrupted.
    pub fn run(scenes: &[Scene], plan: &Plan, models: &Models, workers: Workers) -> anyhow::Result<Runs> {
        let alone = workers.map("volumes on their reference disks", scenes, |scene| plan.alone(*scene, workers))?;
        let alone: BTreeMap<Scene, Alone> = scenes.iter().copied().zip(alone).collect();
        let under = |&scene: &Scene| unders(scene).into_iter().map(move |under| (scene, under));
        let wanted: Vec<(Scene, usize)> = scenes.iter().flat_map(under).collect();
        let shared = workers.map("volumes side by side", &wanted, |&(scene, under)| {
            plan.shared(scene, under, models, &alone[&scene].rates(), workers)
        })?;
        Ok(Runs { alone, shared: wanted.into_iter().zip(shared).collect() })
    }
}

/// Schedulers under which a scene is run, as indices: where the depth is varied, only the paper's and ours.
fn unders(scene: Scene) -> Vec<usize> {
    match scene {
        Scene::LocalitiesIn(_) | Scene::ChangeIn(_) | Scene::RealIn(_) => vec![OURS, PRINTED, VIRTUAL_CLOCK],
        // Hosts that the paper does not have compare schedulers, not variants of the paper's.
        Scene::Localities(host) if host > 0 => (0..VARIATIONS).collect(),
        _ => (0..UNDERS.len()).collect(),
    }
}

#[cfg(test)]
impl Runs {
    /// Results for figure 6 on this many hosts, with a rate of `of(rate)` under youchoose for a volume with `rate` on its reference disk.
    pub fn made_up(hosts: usize, of: &dyn Fn(f64) -> f64) -> Runs {
        let volumes = |of: &dyn Fn(f64) -> f64| [100.0, 200.0, 400.0, 500.0, 1000.0].map(|rate| evenly(of(rate))).to_vec();
        let mut runs = Runs::default();
        for host in 0..hosts {
            let scene = Scene::Localities(host);
            runs.alone.insert(scene, Alone { volumes: volumes(&|rate| rate), needs: 0.5 });
            runs.shared.insert((scene, OURS), SideBySide { volumes: volumes(of), idle_percent: 0.0 });
        }
        runs
    }
}

/// A volume that is served at this many requests per second, one at a time, for 20 s.
#[cfg(test)]
fn evenly(rate: f64) -> TenantMeasure {
    use block::{Nanos, Op, Priority, Roster};
    use sim::run::{Finished, Issue, Owner, Tenants, Transferred};
    let mut tenants = Tenants::new(&Roster::default(), Owner::Stream);
    let (gap, mut now) = (Nanos((1e9 / rate) as u64), Nanos::ZERO);
    while now < Nanos::from_millis(20_000) {
        let (op, priority) = (Op::Read, Priority::DEFAULT);
        let issue = Issue { arrival: now, lba: 0, sectors: 8, op, sync: true, stream: 1, priority, token: 0 };
        tenants.issued(now, &issue);
        tenants.completed(&Finished::Transfer(Transferred { issue, bytes: issue.bytes(), dispatched: now, at: now + gap }));
        now += gap;
    }
    tenants.others().clone()
}

impl Plan {
    fn alone(&self, scene: Scene, workers: Workers) -> anyhow::Result<Alone> {
        let (stage, reference) = (scene.stage(self)?, Scene::reference()?);
        let scheduler = Setting::parse(SCHEDULER)?;
        let mut alone = Alone::default();
        for number in 0..stage.actors.len() {
            let there = stage.run_alone(number, (&reference, scene.reference_device(&reference)), &scheduler, workers.monitor)?;
            let here = stage.run_alone(number, (&stage.profile, stage.device), &scheduler, workers.monitor)?;
            let busy_s = work_s(&here, stage.profile.disks());
            let (there, here) = (volumes(there)?.remove(0), volumes(here)?.remove(0));
            alone.needs += rate(&there) * busy_s / here.served.requests.max(1) as f64;
            alone.volumes.push(there);
        }
        Ok(alone)
    }

    fn shared(&self, scene: Scene, under: usize, models: &Models, rates: &[f64], workers: Workers) -> anyhow::Result<SideBySide> {
        let Under { name, promised: what, .. } = UNDERS[under];
        let stage = promised(scene.stage(self)?, what, models, rates);
        let run = stage.run(&UNDERS[under].setting()?, workers.monitor).with_context(|| format!("{scene:?} under {name}"))?;
        let seconds = run.measure.duration().as_secs_f64();
        let idle_s = run.ledger.as_ref().map_or(0.0, |ledger| ledger.idle_while_waiting().as_secs_f64());
        Ok(SideBySide { volumes: volumes(run)?, idle_percent: 100.0 * idle_s / seconds })
    }
}

/// Busy time of a device in seconds; for an array the mean of its disks, if they report it.
fn work_s(run: &RunSummary, disks: usize) -> f64 {
    let work = run.ledger.as_ref().map_or(Nanos::ZERO, Ledger::work);
    if work > Nanos::ZERO { work.as_secs_f64() / disks.max(1) as f64 } else { run.busy_in_run.as_secs_f64() }
}

fn volumes(run: RunSummary) -> anyhow::Result<Vec<TenantMeasure>> {
    let tenants = run.measure.tenants.context("no measurement of tenants")?;
    Ok(tenants.on_roster().to_vec())
}
