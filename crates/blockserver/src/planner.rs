//! Proposes moves between stores, with which every store can keep its guarantees.
//!
//! A store is judged as by admission control: in the worst case of the requests of its volumes. Of the volumes whose removal
//! helps, the one with the least data to copy is proposed; of the stores that can keep their guarantees with it, the one with the most
//! spare capacity.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use block::Nanos;
use guarantee::placement::{Asks, Cluster, ClusterArray, ClusterVolume, size};
use guarantee::planner::{Rules, Survey};
use guarantee::tenants::Contract;
use progress::monitor::Quiet;
use serde::{Deserialize, Serialize};
use sim::profile::Profile;
use testbed::pool::Workers;
use testbed::synthetic::{Pattern, Places};

use crate::admission::{self, Asked};
use crate::catalog::EXTENT_BYTES;

/// Maximum number of moves in a plan. After these, plan again.
const MOST_MOVES: usize = 4;
/// Maximum number of volumes tried for each store, smallest allocation first: each trial simulates some seconds.
const MOST_TRIED: usize = 6;
/// Samples of each volume for the survey, and their length, as for `seekwise place`.
const SAMPLES: (usize, Nanos) = (1, Nanos::from_millis(2_000));

/// A proposed move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Proposal {
    /// Name of the volume.
    pub volume: String,
    /// Name of its store.
    pub from: String,
    /// Name of the destination store.
    pub to: String,
    /// Amount of data to copy.
    pub bytes: u64,
    /// Why its store cannot keep its guarantees.
    pub reason: String,
}

/// A plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Advice {
    /// The moves, in the order in which they are to be made.
    pub moves: Vec<Proposal>,
    /// Stores that could not be checked or fully relieved, and moves that could not be started.
    pub notes: Vec<String>,
}

/// A store as the planner sees it.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub name: String,
    /// `None`: the store cannot be checked, and takes no part in the plan.
    pub profile: Option<Profile>,
    pub free_extents: u64,
    pub block_bytes: u32,
}

/// A volume with the store that holds it, or will hold it after its current move.
#[derive(Clone, Debug)]
pub(crate) struct Placed {
    pub asked: Asked,
    pub on: usize,
    pub extents: u64,
    /// It is being moved, and is not proposed again.
    pub is_moving: bool,
    /// Percentage of reads and mean request size in KiB, since the server started; `None` without requests.
    pub asks: Option<(u32, u64)>,
}

/// The stores and volumes to plan for.
#[derive(Clone, Debug, Default)]
pub(crate) struct World {
    pub places: Vec<Place>,
    pub volumes: Vec<Placed>,
}

/// Makes a plan. Takes seconds of processor time for each store with guarantees.
///
/// # Errors
/// A profile or contract cannot be simulated.
pub(crate) fn plan(world: &World) -> anyhow::Result<Advice> {
    let mut known: BTreeMap<(usize, Vec<usize>), Option<String>> = BTreeMap::new();
    let mut keeps = |place: usize, volumes: &[usize]| -> Option<String> {
        let Some(profile) = &world.places[place].profile else { return Some("nothing is known of it".to_owned()) };
        let key = (place, volumes.to_vec());
        if let Some(known) = known.get(&key) {
            return known.clone();
        }
        let asked: Vec<Asked> = volumes.iter().map(|volume| world.volumes[*volume].asked.clone()).collect();
        let found = match asked.iter().any(|asked| !asked.contract.trim().is_empty()) {
            true => admission::check(profile, &asked).err().map(|error| format!("{error:#}")),
            false => None,
        };
        known.insert(key, found.clone());
        found
    };
    let broken = (0..world.places.len()).filter(|place| world.places[*place].profile.is_some());
    let is_broken = broken.filter(|place| keeps(*place, &world.on(*place)).is_some()).count() > 0;
    // The survey only ranks candidates: not needed if every store keeps its guarantees.
    let survey = if is_broken { survey(world)? } else { None };
    Ok(propose(world, &mut keeps, &|place, volumes| spare(survey.as_ref(), place, volumes)))
}

impl World {
    /// Indices of the volumes on a store.
    fn on(&self, place: usize) -> Vec<usize> {
        (0..self.volumes.len()).filter(|volume| self.volumes[*volume].on == place).collect()
    }
}

/// Share of a store's time that is left by these volumes. Volumes without a reference disk are counted as zero. Without a survey: minus the
/// number of volumes.
fn spare(survey: Option<&(Survey, BTreeMap<usize, usize>)>, place: usize, volumes: &[usize]) -> f64 {
    let Some((survey, arrays)) = survey else { return -(volumes.len() as f64) };
    let Some(array) = arrays.get(&place) else { return f64::NEG_INFINITY };
    survey.capacity(*array) - volumes.iter().map(|volume| survey.demand(*array, *volume)).sum::<f64>()
}

/// Capacity of each store and demand of each volume on it, with the survey's index of each store; `None` without stores or volumes to
/// survey.
fn survey(world: &World) -> anyhow::Result<Option<(Survey, BTreeMap<usize, usize>)>> {
    let (mut arrays, mut numbers) = (Vec::new(), BTreeMap::new());
    for (number, place) in world.places.iter().enumerate() {
        if let Some(profile) = &place.profile {
            numbers.insert(number, arrays.len());
            arrays.push(ClusterArray { name: place.name.clone(), profile: profile.clone(), capacity: 1.0 });
        }
    }
    let volumes = world.volumes.iter().map(|volume| cluster_volume(volume, numbers.get(&volume.on).copied()));
    let volumes = volumes.collect::<anyhow::Result<Vec<_>>>()?;
    if arrays.is_empty() || volumes.is_empty() {
        return Ok(None);
    }
    let cluster = Cluster { arrays, volumes, seed: admission::SEED };
    let survey = cluster.survey(Rules::default(), SAMPLES, Workers::new(&Quiet::default(), Some(1)));
    Ok(Some((survey.context("the volumes cannot be sampled")?, numbers)))
}

fn cluster_volume(volume: &Placed, on: Option<usize>) -> anyhow::Result<ClusterVolume> {
    let Asked { name, bytes, contract } = &volume.asked;
    let (reference, rates) = if contract.trim().is_empty() {
        (None, block::rates::Rates::default())
    } else {
        let text = format!("[[tenant]]\nname = \"{name}\"\njobs = [\"{name}\"]\n{contract}\n");
        let promise = Contract::parse(&text, "contract")?.promises.into_iter().next().context("a contract of no one")?;
        (promise.reference, promise.rates)
    };
    let (reads, kib) = volume.asks.unwrap_or((100, 4));
    let kib = i64::try_from(kib.next_power_of_two().clamp(4, 1024))?;
    let pattern = Pattern::Local { locality: 0.0, reads, sizes: size(kib)?, places: Places::Uniform };
    let capacity = reference.as_ref().and_then(guarantee::tenants::Reference::capacity_sectors);
    // Samples are taken on the reference disk: limited to its capacity.
    let sectors = (bytes / 512).min(capacity.unwrap_or(u64::MAX)).max(2048);
    Ok(ClusterVolume { name: name.clone(), sectors, reference, rates, asks: Asks::always(1, pattern), on })
}

/// Proposes moves. `keeps` returns why a store cannot keep its guarantees with the given volumes, or `None`; `spare` returns what is left
/// of its capacity.
fn propose(
    world: &World,
    keeps: &mut dyn FnMut(usize, &[usize]) -> Option<String>,
    spare: &dyn Fn(usize, &[usize]) -> f64,
) -> Advice {
    let mut advice = Advice::default();
    let mut world = world.clone();
    let mut moved = BTreeSet::new();
    for place in 0..world.places.len() {
        if world.places[place].profile.is_none() {
            advice.notes.push(format!("store {}: the configuration names no profile that it is like", world.places[place].name));
            continue;
        }
        while let Some(reason) = keeps(place, &world.on(place)) {
            if advice.moves.len() >= MOST_MOVES {
                advice.notes.push(format!("store {}: more moves are needed; look again after these", world.places[place].name));
                break;
            }
            let Some((volume, to)) = best(&world, place, &moved, keeps, spare) else {
                advice.notes.push(format!("store {}: no move would let it keep its promises: {reason}", world.places[place].name));
                break;
            };
            let Placed { asked, extents, .. } = &world.volumes[volume];
            advice.moves.push(Proposal {
                volume: asked.name.clone(),
                from: world.places[place].name.clone(),
                to: world.places[to].name.clone(),
                bytes: extents * EXTENT_BYTES,
                reason: format!("store {} cannot keep its promises: {reason}", world.places[place].name),
            });
            let extents = *extents;
            moved.insert(volume);
            world.places[to].free_extents -= extents;
            world.places[place].free_extents += extents;
            world.volumes[volume].on = to;
        }
    }
    advice
}

/// The volume to move away from a store, and its destination; `None` if no volume fits elsewhere.
fn best(
    world: &World,
    place: usize,
    moved: &BTreeSet<usize>,
    keeps: &mut dyn FnMut(usize, &[usize]) -> Option<String>,
    spare: &dyn Fn(usize, &[usize]) -> f64,
) -> Option<(usize, usize)> {
    let here = world.on(place);
    let mut candidates: Vec<usize> =
        here.iter().copied().filter(|volume| !world.volumes[*volume].is_moving && !moved.contains(volume)).collect();
    candidates.sort_by_key(|volume| (world.volumes[*volume].extents, *volume));
    candidates.truncate(MOST_TRIED);
    let mut home = |volume: usize| {
        let with = |to: usize| world.on(to).into_iter().chain([volume]).collect::<BTreeSet<_>>().into_iter().collect::<Vec<_>>();
        let mut homes: Vec<(usize, f64)> = (0..world.places.len())
            .filter(|to| {
                let place_to = &world.places[*to];
                let is_right =
                    *to != place && place_to.profile.is_some() && place_to.block_bytes <= world.places[place].block_bytes;
                is_right && place_to.free_extents >= world.volumes[volume].extents
            })
            .map(|to| (to, spare(to, &with(to))))
            .collect();
        homes.sort_by(|one, other| other.1.total_cmp(&one.1).then(one.0.cmp(&other.0)));
        homes.into_iter().map(|(to, _)| to).find(|to| keeps(*to, &with(*to)).is_none())
    };
    let homes: Vec<(usize, usize)> = candidates.into_iter().filter_map(|volume| Some((volume, home(volume)?))).collect();
    let without = |volume: usize| here.iter().copied().filter(|other| *other != volume).collect::<Vec<_>>();
    let enough = homes.iter().copied().find(|(volume, _)| keeps(place, &without(*volume)).is_none());
    // No single move is enough: take the one that leaves the most spare capacity.
    let most =
        || homes.iter().copied().max_by(|one, other| spare(place, &without(one.0)).total_cmp(&spare(place, &without(other.0))));
    enough.or_else(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each volume is given with the percentage of a store that it takes; a store keeps its guarantees up to 100.
    fn planned(free: &[u64], volumes: &[(usize, u64, u32)]) -> (Vec<(String, String)>, Vec<String>) {
        let profile = sim::profile::load("sata7200").unwrap();
        let place = |(number, free_extents): (usize, &u64)| Place {
            name: format!("s{number}"),
            profile: Some(profile.clone()),
            free_extents: *free_extents,
            block_bytes: 512,
        };
        let volume = |(number, (on, extents, _)): (usize, &(usize, u64, u32))| Placed {
            asked: Asked { name: format!("v{number}"), bytes: 1, contract: String::new() },
            on: *on,
            extents: *extents,
            is_moving: false,
            asks: None,
        };
        let world = World {
            places: free.iter().enumerate().map(place).collect(),
            volumes: volumes.iter().enumerate().map(volume).collect(),
        };
        let sum = |of: &[usize]| of.iter().map(|volume| volumes[*volume].2).sum::<u32>();
        let advice = propose(&world, &mut |_, of| (sum(of) > 100).then(|| "too much".to_owned()), &|_, of| -f64::from(sum(of)));
        (advice.moves.into_iter().map(|it| (it.volume, it.to)).collect(), advice.notes)
    }

    fn moves(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(volume, to)| ((*volume).to_owned(), (*to).to_owned())).collect()
    }

    #[test]
    fn the_least_is_copied_to_where_the_most_is_to_spare() {
        assert_eq!(planned(&[9, 9], &[(0, 5, 50), (1, 5, 80)]).0, []);
        // v1 would also help, but is larger.
        let volumes = [(0, 5, 60), (0, 9, 60), (1, 1, 30), (2, 1, 20)];
        assert_eq!(planned(&[99, 99, 99], &volumes), (moves(&[("v0", "s2")]), vec![]));
        // No room on s2.
        assert_eq!(planned(&[99, 99, 4], &volumes).0, moves(&[("v0", "s1")]));
    }

    #[test]
    fn several_move_where_one_is_not_enough_and_what_cannot_be_mended_is_said() {
        let (moved, notes) = planned(&[99, 99, 99], &[(0, 1, 70), (0, 2, 80), (0, 3, 90)]);
        assert_eq!((moved.len(), notes.len()), (2, 0), "{moved:?} {notes:?}");
        let (moved, notes) = planned(&[99, 99], &[(0, 1, 70), (0, 2, 80), (1, 3, 90)]);
        assert!(
            moved.is_empty() && notes[0].contains("s0: no move would let it keep its promises: too much"),
            "{moved:?} {notes:?}"
        );
        let (moved, notes) = planned(&[0, 0], &[(0, 1, 70), (0, 2, 80)]);
        assert!(moved.is_empty() && notes.len() == 1, "no room: {moved:?} {notes:?}");
    }
}
