//! Tenants with randomly generated requests that share a device: the workloads of papers about sharing.
//!
//! Tenants issue requests at the block layer, without a host's page cache in between, as the traces do by which these papers drive
//! `DiskSim`.

mod source;

use std::ops::Range;

use anyhow::{Context, ensure};
use block::{Roster, Tenant};
use control::Setting;
use progress::monitor::Monitor;
use sim::host::{Queue, QueueSettings, RunSummary};
use sim::profile::{DeviceOptions, Profile};
use sim::run::{Measure, Owner, Watch};
use testbed::synthetic::Phase;

use source::Drawn;

/// A tenant and its workload.
#[derive(Clone, Debug)]
pub struct Actor {
    /// The tenant with its guarantee.
    pub tenant: Tenant,
    /// Sectors of its volume.
    pub sectors: u64,
    /// Phases of its workload, in order.
    pub phases: Vec<Phase>,
}

/// A device and the tenants that share it. Their volumes lie one after the other.
#[derive(Clone, Debug)]
pub struct Stage {
    /// The device.
    pub profile: Profile,
    /// Its queue.
    pub queue: QueueSettings,
    /// Device options that override the profile.
    pub device: DeviceOptions,
    /// The tenants that share it.
    pub actors: Vec<Actor>,
    /// Seed of all random numbers. The requests of an actor depend only on its number and this seed.
    pub seed: u64,
}

impl Stage {
    /// The tenants with the sectors of their volumes.
    ///
    /// # Errors
    /// The volumes do not fit.
    pub fn roster(&self) -> anyhow::Result<Roster> {
        let tenants = self.actors.iter().map(|actor| actor.tenant.clone()).collect();
        let volumes = self.volumes().into_iter().zip(0..).collect();
        let end: u64 = self.actors.iter().map(|actor| actor.sectors).sum();
        let (name, capacity) = (self.profile.name(), self.profile.capacity_sectors());
        ensure!(end <= capacity, "{name} holds {} MiB, and the volumes are {} MiB", capacity / 2048, end / 2048);
        let streams: Vec<(u32, usize)> = (0..self.actors.len()).map(|number| (number as u32, number)).collect();
        Ok(Roster::new(tenants, volumes, &streams, self.profile.disks() as u32)?)
    }

    fn volumes(&self) -> Vec<Range<u64>> {
        let mut end = 0;
        let volume = |actor: &Actor| {
            let begin = end;
            end += actor.sectors;
            begin..end
        };
        self.actors.iter().map(volume).collect()
    }

    /// Runs all actors under a scheduler until each is done.
    ///
    /// # Errors
    /// Those of [`Stage::roster`]; or the run was interrupted.
    pub fn run(&self, scheduler: &Setting, monitor: &dyn Monitor) -> anyhow::Result<RunSummary> {
        let roster = self.roster()?;
        let source = Drawn::new(self.actors.iter().zip(self.volumes()).enumerate(), self.seed);
        self.run_source(source, (&self.profile, self.device), &roster, scheduler, monitor)
    }

    /// Runs one actor alone, on a device of its own that holds only its volume, under `scheduler`.
    ///
    /// # Errors
    /// The volume does not fit on the device; or the run was interrupted.
    pub fn run_alone(
        &self,
        number: usize,
        (device, options): (&Profile, DeviceOptions),
        scheduler: &Setting,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<RunSummary> {
        let actor = &self.actors[number];
        let (held, capacity) = (actor.sectors / 2048, device.capacity_sectors() / 2048);
        ensure!(actor.sectors <= device.capacity_sectors(), "{} holds {capacity} MiB, and the volume is {held} MiB", device.name());
        let roster = Roster::new(vec![actor.tenant.clone()], vec![(0..actor.sectors, 0)], &[(number as u32, 0)], 1)?;
        let source = Drawn::new(std::iter::once((number, (actor, 0..actor.sectors))), self.seed);
        self.run_source(source, (device, options), &roster, scheduler, monitor)
    }

    fn run_source(
        &self,
        source: Drawn,
        (device, options): (&Profile, DeviceOptions),
        roster: &Roster,
        scheduler: &Setting,
        monitor: &dyn Monitor,
    ) -> anyhow::Result<RunSummary> {
        let of = || format!("{} on {}", scheduler.scheduler(), device.name());
        let scheduler = (scheduler.spec.build)(&self.queue.limits(), &scheduler.values);
        let mut queue = Queue::new(scheduler, device.build(options), self.queue);
        queue.set_roster(roster);
        let measure = Measure::new([]).by_tenant(Some(roster), Owner::Sectors);
        let watch = Watch { stop: Some(monitor.stop()), ..Watch::default() };
        let measure = sim::run::run(source, &mut queue, measure, &watch, None);
        monitor.check()?;
        Ok(RunSummary::new(measure.with_context(of)?, &queue))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Merges, Nanos};
    use progress::monitor::Quiet;
    use testbed::synthetic::{Arrival, Pattern, Places};

    use super::*;

    fn stage(arrivals: [Arrival; 2]) -> Stage {
        let pattern = Pattern::Local { locality: 0.0, reads: 67, sizes: &[8], places: Places::Uniform };
        let phase = |arrival| Phase { until: Nanos::from_millis(3_000), arrival, pattern: pattern.clone() };
        let actor = |(name, arrival)| Actor { tenant: Tenant::new(name), sectors: 1 << 20, phases: vec![phase(arrival)] };
        Stage {
            profile: sim::profile::load("atlas10k").unwrap(),
            queue: QueueSettings { merges: Merges::Never, ..QueueSettings::default() },
            device: DeviceOptions::default(),
            actors: ["a", "b"].into_iter().zip(arrivals).map(actor).collect(),
            seed: 1,
        }
    }

    #[test]
    fn open_arrivals_do_not_depend_on_neighbours_and_closed_ones_follow_completions() {
        let stage = stage([Arrival::Every(Nanos::from_millis(50)), Arrival::Outstanding(4)]);
        let noop = Setting::parse("noop").unwrap();
        let (quiet, disk) = (Quiet::default(), stage.profile.clone());
        let requests = |run: RunSummary| {
            let tenants = run.measure.tenants.unwrap();
            tenants.on_roster().iter().map(|tenant| tenant.served.requests).collect::<Vec<_>>()
        };
        let together = requests(stage.run(&noop, &quiet).unwrap());
        let alone = [0, 1].map(|number| requests(stage.run_alone(number, (&disk, stage.device), &noop, &quiet).unwrap())[0]);
        assert_eq!((together[0], alone[0]), (60, 60));
        assert!(together[1] > 100 && alone[1] > together[1], "{together:?} {alone:?}");
        assert_eq!(requests(stage.run(&noop, &quiet).unwrap()), together, "the same again");
    }

    #[test]
    fn a_volume_that_does_not_fit_is_refused() {
        let mut stage = stage([Arrival::Outstanding(1); 2]);
        stage.actors[0].sectors = 1 << 30;
        let noop = Setting::parse("noop").unwrap();
        let refused = |result: anyhow::Result<RunSummary>| result.unwrap_err().to_string();
        let alone = refused(stage.run_alone(0, (&stage.profile.clone(), stage.device), &noop, &Quiet::default()));
        assert!(alone.contains("and the volume is 524288 MiB"), "{alone}");
        assert!(refused(stage.run(&noop, &Quiet::default())).contains("and the volumes are"));
    }
}
