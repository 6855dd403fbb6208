//! What is run for the paper's figures 6, 8 and 9: the volumes of a scene each alone on its reference disk, and side by side on their host
//! under schedulers.

use std::collections::BTreeMap;
use std::sync::Arc;

use anyhow::Context;
use block::Nanos;
use block::tenants::ServiceModel;
use control::Setting;
use sim::host::{Ledger, RunSummary};
use sim::run::TenantMeasure;

use super::SCHEDULER;
use super::printed::clocks;
use super::scenes::{Lengths, Promised, Scene, promised};
use experiment::pool::Workers;
use experiment::synthetic::Pattern;

/// A scheduler, what a person would type for it, and its input.
#[derive(Clone, Copy, Debug)]
pub struct Under {
    /// As the page calls it.
    pub name: &'static str,
    setting: &'static str,
    promised: Promised,
}

/// Ours, which stands first, and its peers; the last shares nothing.
pub const UNDERS: [Under; 18] = [
    Under { name: "youchoose", setting: "youchoose", promised: Promised::Disk },
    Under { name: "as printed", setting: "youchoose-printed", promised: Promised::Printed },
    Under { name: "youchoose, exact", setting: "youchoose", promised: Promised::Shadow },
    Under { name: "virtual-clock, in slots", setting: "youchoose-printed", promised: Promised::Constant },
    Under { name: "virtual-clock", setting: "virtual-clock:iops=100", promised: Promised::Nothing },
    Under { name: "mclock", setting: "mclock", promised: Promised::Rate },
    Under { name: "fairio", setting: "fairio", promised: Promised::Nothing },
    Under { name: "io-cost", setting: "io-cost", promised: Promised::Nothing },
    Under { name: "bfq", setting: "bfq", promised: Promised::Nothing },
    Under { name: "noop", setting: "noop", promised: Promised::Nothing },
    Under { name: "as printed, slots of 40 ms", setting: "youchoose-printed:slot=40", promised: Promised::Printed },
    Under { name: "as printed, one slot at a time", setting: "youchoose-printed:serial=1", promised: Promised::Printed },
    Under { name: "as printed, clocks of what is sent", setting: "youchoose-printed:at_dispatch=1", promised: Promised::Printed },
    Under { name: "as printed, the operation a feature", setting: "youchoose-printed", promised: Promised::PrintedWithOperation },
    Under { name: "as printed, our model", setting: "youchoose-printed", promised: Promised::Disk },
    Under { name: "youchoose, the printed model", setting: "youchoose", promised: Promised::Printed },
    // As many as the array takes, as the printed scheduler sends.
    Under { name: "youchoose, 64 requests at the array", setting: "youchoose:in_flight=64", promised: Promised::Disk },
    Under { name: "youchoose, the printed model, 64 at the array", setting: "youchoose:in_flight=64", promised: Promised::Printed },
];
/// Where ours stands.
pub const OURS: usize = 0;
/// The paper's variant, and where its variations begin: what the paper leaves open.
pub const PRINTED: usize = 1;
pub const VARIATIONS: usize = 10;
/// The paper's baseline: a throughput bound, in slots of as many requests each (section IV.B).
pub const VIRTUAL_CLOCK: usize = 3;
/// What it promises each volume (section IV.B).
pub const VIRTUAL_CLOCK_IOPS: f64 = 100.0;

impl Under {
    /// Its scheduler with its tunables.
    fn setting(&self) -> anyhow::Result<Setting> {
        let known = device_model::sched::all().chain(std::iter::once(&clocks::SPEC));
        let (spec, values) = block::parse_among(known, self.setting)?;
        Ok(Setting { spec, values, host: Vec::new() })
    }
}

/// What a scheduler may be told of the reference disk.
pub struct Models {
    /// What was learned of it.
    pub trained: Arc<dyn ServiceModel>,
    /// The simulated disk itself, which serves the same requests in its own time.
    pub shadow: Arc<dyn ServiceModel>,
    /// What the paper learns of it.
    pub printed: Arc<dyn ServiceModel>,
    /// The same, with the operation as a feature.
    pub printed_with_operation: Arc<dyn ServiceModel>,
}

/// Volumes that ran side by side.
#[derive(Clone, Debug)]
pub struct SideBySide {
    /// What each got.
    pub volumes: Vec<TenantMeasure>,
    /// Part of the time, in percent, in which the host's disks stood idle though something waited.
    pub idle_percent: f64,
}

/// Volumes by themselves.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    /// What each got on its reference disk.
    pub volumes: Vec<TenantMeasure>,
    /// For how long in a second the host must work to do what all the reference disks do in it.
    pub needs: f64,
}

impl Alone {
    /// Requests a second of each volume.
    pub fn rates(&self) -> Vec<f64> {
        self.volumes.iter().map(rate).collect()
    }
}

/// Requests a second, while any were wanted.
pub fn rate(volume: &TenantMeasure) -> f64 {
    volume.served.requests as f64 / volume.wanted.as_secs_f64().max(1e-9)
}

/// What was run.
#[derive(Default)]
pub struct Runs {
    alone: BTreeMap<Scene, Alone>,
    shared: BTreeMap<(Scene, usize), SideBySide>,
}

impl Runs {
    /// Volumes by themselves.
    pub fn alone(&self, scene: Scene) -> Option<&Alone> {
        self.alone.get(&scene)
    }

    /// Volumes side by side, under a place in [`UNDERS`].
    pub fn shared(&self, scene: Scene, under: usize) -> Option<&SideBySide> {
        self.shared.get(&(scene, under))
    }

    /// Runs scenes, under every scheduler.
    ///
    /// # Errors
    /// A scheduler is not there, or it was interrupted.
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

/// Under what a scene is run: where the depth is varied, only the paper's variant and ours.
fn unders(scene: Scene) -> Vec<usize> {
    match scene {
        Scene::LocalitiesIn(_) | Scene::ChangeIn(_) | Scene::RealIn(_) => vec![OURS, PRINTED, VIRTUAL_CLOCK],
        // Hosts that the paper does not have show schedulers, not what it leaves open.
        Scene::Localities(host) if host > 0 => (0..VARIATIONS).collect(),
        _ => (0..UNDERS.len()).collect(),
    }
}

#[cfg(test)]
impl Runs {
    /// Figure 6 on this many hosts, as it would be if a volume that gets a rate on its reference disk got what `of` says under youchoose.
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

/// A volume that is served this many requests a second, one after the other, for 20 s.
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

/// How much is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How long.
    pub lengths: Lengths,
    /// Of everything that is drawn.
    pub seed: u64,
    /// The requests of WebSearch, or of what stands for it.
    pub search: Pattern,
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

/// For how long a device worked, in seconds; of an array its disks' mean, if they tell.
fn work_s(run: &RunSummary, disks: usize) -> f64 {
    let work = run.ledger.as_ref().map_or(Nanos::ZERO, Ledger::work);
    if work > Nanos::ZERO { work.as_secs_f64() / disks.max(1) as f64 } else { run.busy_in_run.as_secs_f64() }
}

fn volumes(run: RunSummary) -> anyhow::Result<Vec<TenantMeasure>> {
    let tenants = run.measure.tenants.context("no measurement of tenants")?;
    Ok(tenants.on_roster().to_vec())
}
