//! A cluster of several arrays and the volumes on them: input of the planner, and its simulation.

use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;

use crate::planner::{Assignment, Rules, Step, Survey};
use anyhow::Context;
use block::rates::Rates;
use block::tenants::ConstantTime;
use block::{Nanos, Roster, StreamId, Tenant};
use control::Setting;
use sim::host::{Queue, QueueSettings};
use sim::profile::DeviceOptions;
use sim::run::{Measure, Owner, TenantMeasure, run};
use sim::store::{Copy, CopyPace, Place, Store};
use sim::streams::COPY;
use testbed::pool::Workers;

use super::alone::{self, OnReference};
use super::array::ClusterArray;
use super::asks::{Asker, Askers, Asks, RunLength};
use super::consumption::{SampledVolume, consumptions};
use crate::tenants::Reference;

/// A volume, its guarantee and its workload.
#[derive(Clone, Debug)]
pub struct ClusterVolume {
    /// Name for reports and errors.
    pub name: String,
    /// 512-byte sectors.
    pub sectors: u64,
    /// The guaranteed reference disk; `None`: best effort.
    pub reference: Option<Reference>,
    /// Limits of its tenant.
    pub rates: Rates,
    /// Its workload.
    pub asks: Asks,
    /// The number of its array; `None` if it is not placed.
    pub on: Option<usize>,
}

/// Arrays and volumes, with the seed of their workloads.
#[derive(Clone, Debug)]
pub struct Cluster {
    /// At least one.
    pub arrays: Vec<ClusterArray>,
    /// By volume number.
    pub volumes: Vec<ClusterVolume>,
    /// Seed of all random numbers.
    pub seed: u64,
}

/// Migrations during a run.
#[derive(Clone, Debug)]
pub struct Moving<'a> {
    /// Steps in the order in which they are made.
    pub steps: &'a [Step],
    /// Pace of copying.
    pub pace: CopyPace,
    /// Bandwidth reserved for copying, in bytes per second; 0: best effort.
    pub spare_bytes_per_s: u64,
}

impl Moving<'_> {
    /// The copier's reservation on each array; `None` if it is best effort. A chunk is read and then written, so either may take half
    /// of the time.
    fn promise(&self) -> Option<ConstantTime> {
        let bytes_per_s = self.spare_bytes_per_s.min(self.pace.bytes_per_s);
        let sector = Nanos(512 * 1_000_000_000 / (2 * bytes_per_s).max(1));
        (bytes_per_s > 0).then_some(ConstantTime { request: Nanos::ZERO, sector })
    }
}

/// The result of a run.
pub struct ClusterRun {
    /// The service of each volume, by volume number.
    pub volumes: Vec<TenantMeasure>,
    /// Time at which all volumes had reached their destination; `None` if there were no steps, or the run ended before.
    pub copied_at: Option<Nanos>,
    /// Bytes that were copied.
    pub copied_bytes: u64,
    /// Time at which the workloads ended.
    pub until: Nanos,
}

impl Cluster {
    /// The workload generator of a volume.
    fn asker(&self, volume: usize) -> Asker {
        let ClusterVolume { sectors, asks, .. } = &self.volumes[volume];
        Asker { volume, sectors: *sectors, asks: asks.clone() }
    }

    /// The array of each volume.
    pub fn assignment(&self) -> Assignment {
        self.volumes.iter().map(|volume| volume.on).collect()
    }

    /// Samples the requests of every volume and measures its demand on every array.
    ///
    /// A volume without a guarantee is sampled on its own array, or on the first if it is not placed.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn survey(&self, rules: Rules, samples: (usize, Nanos), workers: Workers) -> anyhow::Result<Survey> {
        let volumes = self.samples(samples, workers)?;
        let samples = consumptions(&self.arrays, &volumes, rules.slot, workers)?;
        let arrays = self.arrays.iter().map(|array| (array.name.clone(), array.capacity, array.profile.capacity_sectors()));
        let volumes = self.volumes.iter().map(|volume| (volume.name.clone(), volume.sectors));
        Ok(Survey::of(samples, arrays.collect(), volumes.collect(), rules))
    }

    /// Samples the requests of every volume: `number` samples of `length` each.
    ///
    /// # Errors
    /// It was interrupted.
    fn samples(&self, (number, length): (usize, Nanos), workers: Workers) -> anyhow::Result<Vec<SampledVolume>> {
        let numbers: Vec<usize> = (0..self.volumes.len()).collect();
        workers.map("sampling volumes", &numbers, |&volume| {
            let ClusterVolume { name, sectors, reference, on, .. } = &self.volumes[volume];
            let stand_in = || Reference::of(&self.arrays[on.unwrap_or(0)].profile);
            let sampled_on = reference.clone().unwrap_or_else(stand_in);
            let watch = workers.watch();
            let samples = alone::samples(&self.asker(volume), &sampled_on, self.seed, (number, length), &watch);
            workers.monitor.check()?;
            Ok(SampledVolume {
                sectors: *sectors,
                reference: reference.clone(),
                samples: samples.with_context(|| format!("volume {name}"))?,
            })
        })
    }

    /// Runs all volumes at once under a scheduler, placed as in `from`; volumes that are not placed issue no requests. With moves, the
    /// run ends a settling time after the last copy, but no later than `length`.
    ///
    /// # Errors
    /// The volumes do not fit where they are; there is no model of a reference disk; or it was interrupted.
    pub fn live(
        &self,
        from: &Assignment,
        moving: Option<&Moving>,
        scheduler: &Setting,
        length: impl Into<RunLength>,
        workers: Workers,
    ) -> anyhow::Result<ClusterRun> {
        let length: RunLength = length.into();
        let mut layout = Layout::new(self, from)?;
        let places: Vec<Place> = layout.places.iter().map(|place| place.unwrap_or(Place { array: 0, start: 0 })).collect();
        let steps = moving.map_or(&[][..], |moving| moving.steps);
        let copies = steps.iter().map(|step| layout.copies(self, step)).collect::<anyhow::Result<Vec<_>>>()?;
        let rosters = self.rosters(&layout, moving.and_then(Moving::promise))?;
        let queues = self.arrays.iter().zip(&rosters).map(|(array, roster)| {
            let settings = QueueSettings::default();
            let mut queue = Queue::new(
                (scheduler.spec.build)(&settings.limits(), &scheduler.values),
                array.profile.build(DeviceOptions::default()),
                settings,
            );
            queue.set_roster(roster);
            queue
        });
        let mut store = Store::new(queues.collect(), places);
        let until = Cell::new(length.until);
        let askers = (0..self.volumes.len()).filter(|volume| from[*volume].is_some()).map(|volume| self.asker(volume));
        let mut source = Askers::new(askers, self.seed, &until).within(length.requests);
        let number = copies.len() as u64;
        if let Some(moving) = moving.filter(|_| number > 0) {
            store.copy(SETTLES, copies, moving.pace);
            source = source.until_copied(number, SETTLES);
        }
        let measured = self.measured()?;
        let watch = workers.watch();
        let measure = run(source, &mut store, Measure::new([]).by_tenant(Some(&measured), Owner::Stream), &watch, None);
        workers.monitor.check()?;
        let tenants = measure?.tenants.context("a run that is measured by tenant")?;
        let is_done = number > 0 && (0..self.volumes.len()).all(|volume| layout.is_at_end(volume, store.place(volume)));
        Ok(ClusterRun {
            volumes: tenants.on_roster().to_vec(),
            copied_at: is_done.then(|| Nanos(until.get().0.saturating_sub(SETTLES.0))),
            copied_bytes: store.copied_bytes(),
            until: until.get(),
        })
    }

    /// The service of each of these volumes alone on its reference disk over this length; `None` for a volume without one.
    ///
    /// # Errors
    /// It was interrupted.
    pub fn alone(&self, of: &[usize], length: impl Into<RunLength>, workers: Workers) -> anyhow::Result<Vec<Option<OnReference>>> {
        let length = length.into();
        workers.map("running volumes alone", of, |&volume| {
            let Some(reference) = &self.volumes[volume].reference else { return Ok(None) };
            let watch = workers.watch();
            let promised = (reference, &self.volumes[volume].rates);
            let measure = alone::measure(&self.asker(volume), promised, self.seed, length, &watch);
            workers.monitor.check()?;
            Ok(Some(measure?))
        })
    }

    /// The roster of each array: every volume that is on it at some time of the run, and the copier.
    fn rosters(&self, layout: &Layout, copies: Option<ConstantTime>) -> anyhow::Result<Vec<Roster>> {
        let tenants = self.volumes.iter().map(|volume| {
            let tenant = Tenant::new(&volume.name).with_rates(volume.rates);
            Ok(match &volume.reference {
                Some(reference) => tenant.with_reference(reference.model()?),
                None => tenant,
            })
        });
        let mut tenants = tenants.collect::<anyhow::Result<Vec<_>>>()?;
        let copier = tenants.len();
        let copying = Tenant::new("copying");
        tenants.push(match copies {
            Some(time) => copying.with_reference(Arc::new(time)),
            None => copying,
        });
        let rosters = self.arrays.iter().enumerate().map(|(number, array)| {
            let volumes = layout.used[number].iter().map(|(sectors, volume)| (sectors.clone(), *volume)).collect();
            let roster = Roster::new(tenants.clone(), volumes, &[], array.profile.disks() as u32)?;
            Ok(roster.with_roaming(&[(COPY, copier)]))
        });
        rosters.collect()
    }

    /// The roster for measurement: each volume is a tenant, identified by its stream.
    fn measured(&self) -> anyhow::Result<Roster> {
        let tenants: Vec<Tenant> = self.volumes.iter().map(|volume| Tenant::new(&volume.name)).collect();
        let streams: Vec<(StreamId, usize)> = (0..tenants.len()).map(|number| (number as StreamId, number)).collect();
        Ok(Roster::new(tenants, Vec::new(), &streams, 1)?)
    }
}

/// Time that workloads run before copying begins, and after it ends.
const SETTLES: Nanos = Nanos::from_millis(2_000);

/// Sectors of the volumes on their arrays, before and after the moves.
struct Layout {
    places: Vec<Option<Place>>,
    /// By array: extents of the volumes that are on it before or after the moves.
    used: Vec<Vec<(Range<u64>, usize)>>,
    ends: Vec<Option<Place>>,
}

impl Layout {
    /// Places volumes first-fit, in the order of their numbers.
    fn new(cluster: &Cluster, from: &Assignment) -> anyhow::Result<Layout> {
        let places = vec![None; from.len()];
        let mut layout = Layout { places: places.clone(), used: vec![Vec::new(); cluster.arrays.len()], ends: places };
        for (volume, array) in from.iter().enumerate() {
            let Some(array) = array else { continue };
            let place = layout.take(cluster, volume, *array)?;
            layout.places[volume] = Some(place);
            layout.ends[volume] = Some(place);
        }
        Ok(layout)
    }

    /// Allocates the first gap that is large enough.
    fn take(&mut self, cluster: &Cluster, volume: usize, array: usize) -> anyhow::Result<Place> {
        let sectors = cluster.volumes[volume].sectors;
        let used = &mut self.used[array];
        used.sort_by_key(|(sectors, _)| sectors.start);
        let mut start = 0;
        for (taken, _) in used.iter() {
            if taken.start >= start + sectors {
                break;
            }
            start = taken.end;
        }
        let ClusterArray { name, profile, .. } = &cluster.arrays[array];
        let capacity = profile.capacity_sectors();
        let volume_name = &cluster.volumes[volume].name;
        anyhow::ensure!(
            start + sectors <= capacity,
            "array {name} holds {} MiB: there is no room left for the {} MiB of volume {volume_name}",
            capacity / 2048,
            sectors / 2048
        );
        used.push((start..start + sectors, volume));
        Ok(Place { array, start })
    }

    /// The copies of a step. The space that volumes leave is not reused in the same run.
    fn copies(&mut self, cluster: &Cluster, step: &Step) -> anyhow::Result<Vec<Copy>> {
        let copies = step.moves.iter().map(|each| {
            let to = self.take(cluster, each.volume, each.to)?;
            self.ends[each.volume] = Some(to);
            Ok(Copy { volume: each.volume, sectors: cluster.volumes[each.volume].sectors, to })
        });
        copies.collect()
    }

    fn is_at_end(&self, volume: usize, place: Place) -> bool {
        self.ends[volume].is_none_or(|end| end == place)
    }
}
