//! Resolves names to streams and sectors: the roster for schedulers.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use anyhow::{Context, ensure};
use block::tenants::ServiceModel;
use block::{Roster, StreamId, Tenant, did_you_mean};
use testbed::load::Load;
use testbed::world::World;

use super::contract::{Contract, TenantGuarantee};
use super::reference::Reference;

/// Provides models of service times of reference disks, as [`Reference::model`].
pub type Models<'a> = dyn Fn(&Reference) -> anyhow::Result<Arc<dyn ServiceModel>> + 'a;

impl Contract {
    /// The roster of these tenants' jobs or streams on the disk of `world`.
    ///
    /// # Errors
    /// A job does not exist or belongs to two tenants; volumes overlap or are beyond the disk; a volume is larger than the
    /// reference disk.
    pub fn roster(&self, load: &dyn Load, world: &World, models: &Models) -> anyhow::Result<Roster> {
        let streams = self.streams(load)?;
        let volumes = self.volumes(load, world, &streams)?;
        let tenants = self.promises.iter().map(|promise| {
            let reference = promise.reference.as_ref().map(models).transpose();
            Ok(Tenant {
                name: promise.name.clone(),
                weight: promise.weight,
                reference: reference.with_context(|| self.at(promise, "reference"))?,
                rates: promise.rates,
                latency_p99: promise.latency_p99,
            })
        });
        let tenants = tenants.collect::<anyhow::Result<Vec<_>>>()?;
        let disks = world.profile.disks() as u32;
        let roster = Roster::new(tenants, volumes, &streams, disks).with_context(|| self.source.clone())?;
        self.expect_to_fit(&roster)?;
        Ok(roster)
    }

    /// The position of a tenant's key, for errors.
    fn at(&self, promise: &TenantGuarantee, key: &str) -> String {
        format!("{}:{}: tenant {}: {key}", self.source, promise.line, promise.name)
    }

    /// The owner of each stream.
    fn streams(&self, load: &dyn Load) -> anyhow::Result<Vec<(StreamId, usize)>> {
        let mut owners: BTreeMap<StreamId, (usize, &str)> = BTreeMap::new();
        for (number, promise) in self.promises.iter().enumerate() {
            let has_jobs = !load.groups().is_empty();
            ensure!(
                !has_jobs || !promise.jobs.is_empty(),
                "{}: {} runs jobs, and the tenant names none of them; jobs = [\"{}\"]",
                self.at(promise, "jobs"),
                load.digest().name,
                load.names().first().map_or("NAME", String::as_str)
            );
            for job in &promise.jobs {
                let streams = load.streams_of(job);
                ensure!(!streams.is_empty(), "{}: {}", self.at(promise, "jobs"), not_there(load, job));
                for stream in streams {
                    if let Some((other, named)) = owners.insert(stream, (number, job)).filter(|(other, _)| *other != number) {
                        let other = &self.promises[other].name;
                        anyhow::bail!(
                            "{}: {job} is tenant {other}'s already, as {named}; a job has one tenant",
                            self.at(promise, "jobs")
                        );
                    }
                }
            }
        }
        Ok(owners.into_iter().map(|(stream, (number, _))| (stream, number)).collect())
    }

    /// The owner of each volume: explicit ones, and sectors of files that only one tenant's jobs use.
    fn volumes(&self, load: &dyn Load, world: &World, streams: &[(StreamId, usize)]) -> anyhow::Result<Vec<(Range<u64>, usize)>> {
        let capacity = world.profile.capacity_sectors();
        let mut volumes = Vec::new();
        for (number, promise) in self.promises.iter().enumerate() {
            for volume in &promise.volumes {
                ensure!(
                    volume.end <= capacity,
                    "{}: ends at {} MiB, and {} holds {} MiB",
                    self.at(promise, "volumes"),
                    volume.end / 2048,
                    world.profile.name(),
                    capacity / 2048
                );
                volumes.push((volume.clone(), number));
            }
        }
        let derived = streams.iter().filter(|(_, number)| self.promises[*number].volumes.is_empty());
        let derived =
            derived.flat_map(|&(stream, number)| load.sectors_of(stream).into_iter().map(move |sectors| (sectors, number)));
        let mut derived = only_of_one(derived.collect());
        derived.retain(|(sectors, _)| !volumes.iter().any(|(named, _)| named.start < sectors.end && sectors.start < named.end));
        volumes.extend(derived);
        Ok(volumes)
    }

    /// Checks that reference disks are large enough for the tenants' volumes.
    fn expect_to_fit(&self, roster: &Roster) -> anyhow::Result<()> {
        let mut held = vec![0; self.promises.len()];
        roster.volumes().for_each(|(sectors, number)| held[number] += sectors.end - sectors.start);
        for (promise, held) in self.promises.iter().zip(held) {
            let Some(reference) = &promise.reference else { continue };
            if let Some(capacity) = reference.capacity_sectors().filter(|capacity| *capacity < held) {
                anyhow::bail!(
                    "{}: {reference} holds {} MiB, and the tenant has {} MiB; a larger disk, or smaller files, would be right",
                    self.at(promise, "reference"),
                    capacity / 2048,
                    held / 2048
                );
            }
        }
        Ok(())
    }
}

fn not_there(load: &dyn Load, job: &str) -> String {
    let names = load.names();
    let digest = load.digest();
    let listed = if names.len() > 20 { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("{} has no job or stream {job}{listed}{}", digest.name, did_you_mean(job, names.iter().map(String::as_str)))
}

/// The sectors that exactly one tenant uses, as maximal ranges in ascending order.
fn only_of_one(pieces: Vec<(Range<u64>, usize)>) -> Vec<(Range<u64>, usize)> {
    // By sector: the change in the number of the tenant's pieces that cover the following ones.
    let mut edges: Vec<(u64, usize, i32)> = Vec::with_capacity(2 * pieces.len());
    for (sectors, number) in pieces {
        edges.push((sectors.start, number, 1));
        edges.push((sectors.end, number, -1));
    }
    edges.sort_unstable();
    let mut covering: BTreeMap<usize, i32> = BTreeMap::new();
    let mut only: Vec<(Range<u64>, usize)> = Vec::new();
    let mut from = 0;
    for (at, number, change) in edges {
        if let (true, 1, Some((&owner, _))) = (at > from, covering.len(), covering.first_key_value()) {
            match only.last_mut().filter(|(sectors, last)| *last == owner && sectors.end == from) {
                Some((sectors, _)) => sectors.end = at,
                None => only.push((from..at, owner)),
            }
        }
        from = at;
        let count = covering.entry(number).or_default();
        *count += change;
        if *count == 0 {
            covering.remove(&number);
        }
    }
    only
}

#[cfg(test)]
mod tests {
    use super::only_of_one;

    #[test]
    fn sectors_that_two_tenants_use_are_no_ones() {
        let pieces = vec![(0..100, 0), (100..150, 0), (120..200, 1), (300..400, 1), (310..320, 1), (400..410, 0)];
        assert_eq!(only_of_one(pieces), [(0..120, 0), (150..200, 1), (300..400, 1), (400..410, 0)]);
    }
}
