//! What volumes take of arrays: the resource-consumption matrix.

use block::{Nanos, Request};

use super::{Array, Assignment, Basis, Rules, Sample, Sampled, Volume};

/// Tolerance where parts of an array's time are added up: sums of the same numbers in another order are the same.
pub(super) const ROUNDING: f64 = 1e-9;

/// What one sample of every volume takes of every array.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumption {
    /// By array, then by volume: seconds of the array's time for each second of the sample.
    demands: Vec<Vec<f64>>,
    /// By volume: seconds of its reference disk's time for each second of the sample, at most 1; 0 of who was promised nothing.
    rates: Vec<f64>,
}

impl Consumption {
    /// From demands by array and volume, and the rates of the volumes (see there).
    ///
    /// # Panics
    /// If not every array has a demand of every volume.
    pub fn new(demands: Vec<Vec<f64>>, rates: Vec<f64>) -> Consumption {
        assert!(demands.iter().all(|row| row.len() == rates.len()), "a demand of every volume on every array");
        Consumption { demands, rates }
    }

    /// Has the models of the arrays serve sample `number` of each volume.
    ///
    /// The slots of all volumes take turns, as they would if all were on that array, so that each is charged for the way to its data; the
    /// requests of a slot are served in order of their sectors.
    pub fn of(arrays: &[Array], volumes: &[Volume], number: usize, slot: Nanos) -> Consumption {
        let samples: Vec<&Sample> = volumes.iter().filter_map(|volume| volume.samples.get(number)).collect();
        assert_eq!(samples.len(), volumes.len(), "as many samples of each volume");
        let slots: Vec<Vec<Vec<Sampled>>> = samples.iter().map(|sample| sample.slots(slot)).collect();
        let rates = volumes.iter().zip(samples.iter().zip(&slots)).map(|(volume, (sample, slots))| {
            let busy: u64 = slots.iter().flatten().map(|sampled| sampled.reference.0).sum();
            if volume.is_promised { part(Nanos(busy), sample.lasts).min(1.0) } else { 0.0 }
        });
        let demands = arrays.iter().map(|array| {
            let times = served(array, volumes, &slots);
            times.iter().zip(&samples).map(|(time, sample)| part(*time, sample.lasts)).collect()
        });
        Consumption { demands: demands.collect(), rates: rates.collect() }
    }

    /// The part of an array's time that a volume takes at the sampled rate.
    pub fn demand(&self, array: usize, volume: usize) -> f64 {
        self.demands[array][volume]
    }

    /// The same if the volume kept its reference disk busy all the time.
    pub fn bound(&self, array: usize, volume: usize) -> f64 {
        let rate = self.rates[volume];
        if rate > 0.0 { self.demand(array, volume) / rate } else { 0.0 }
    }

    /// The part of its reference disk's time that a volume used.
    pub fn rate(&self, volume: usize) -> f64 {
        self.rates[volume]
    }

    /// A cell of Table I, from 0 to 1: the volume's part of what all volumes would take of the array.
    pub fn share(&self, array: usize, volume: usize) -> f64 {
        let all: f64 = self.demands[array].iter().sum();
        if all > 0.0 { self.demands[array][volume] / all } else { 0.0 }
    }
}

fn part(time: Nanos, of: Nanos) -> f64 {
    if of.0 == 0 { 0.0 } else { time.0 as f64 / of.0 as f64 }
}

impl Sample {
    /// Its requests by slots of the reference disk's time, by the clock of the paper's section III.B: it advances by each request's
    /// time, and catches up with the wall clock where nothing waits. Requests that the reference disk would not have done when the
    /// sample ends are left out: they were not promised.
    fn slots(&self, slot: Nanos) -> Vec<Vec<Sampled>> {
        let slot = slot.0.max(1);
        let mut slots: Vec<Vec<Sampled>> = Vec::new();
        let (mut clock, mut last) = (0u64, None);
        for sampled in &self.requests {
            clock = clock.max(sampled.request.arrival.0).saturating_add(sampled.reference.0);
            if clock > self.lasts.0 {
                break;
            }
            let number = clock.saturating_sub(1) / slot;
            if last != Some(number) {
                slots.push(Vec::new());
                last = Some(number);
            }
            if let Some(slot) = slots.last_mut() {
                slot.push(*sampled);
            }
        }
        for slot in &mut slots {
            slot.sort_by_key(|sampled| sampled.request.lba);
        }
        slots
    }
}

/// How long an array is busy for each volume when their slots take turns there.
fn served(array: &Array, volumes: &[Volume], slots: &[Vec<Vec<Sampled>>]) -> Vec<Nanos> {
    let mut service = array.model.begin();
    let mut clock = Nanos::ZERO;
    let mut times = vec![Nanos::ZERO; volumes.len()];
    let offsets: Vec<u64> = (0..volumes.len()).map(|number| offset(array, volumes, number)).collect();
    let rounds = slots.iter().map(Vec::len).max().unwrap_or(0);
    for round in 0..rounds {
        for (number, slots) in slots.iter().enumerate() {
            let Some(slot) = slots.get(round) else { continue };
            for (place, sampled) in slot.iter().enumerate() {
                let waiting = (slot.len() - 1 - place) as u32;
                let time = service.service_time(clock, &placed(&sampled.request, offsets[number], array.sectors), waiting);
                times[number] += time;
                clock += time;
            }
        }
    }
    times
}

/// Where a volume would begin if all were on this array: spread evenly over it, however much they hold.
fn offset(array: &Array, volumes: &[Volume], number: usize) -> u64 {
    let every = array.sectors / volumes.len().max(1) as u64;
    (every * number as u64).min(array.sectors.saturating_sub(volumes[number].sectors))
}

/// A request of a volume that begins at this sector. An array too small for the volume serves it at its end.
fn placed(request: &Request, offset: u64, sectors: u64) -> Request {
    let last = sectors.saturating_sub(u64::from(request.sectors));
    Request { lba: request.lba.saturating_add(offset).min(last), ..*request }
}

/// What volumes take of arrays in several samples, and how much there is to take.
#[derive(Clone, Debug)]
pub struct Survey {
    pub(super) samples: Vec<Consumption>,
    pub(super) arrays: Vec<(String, f64, u64)>,
    pub(super) volumes: Vec<(String, u64)>,
    pub(super) rules: Rules,
}

impl Survey {
    /// Has the arrays' models serve every sample.
    pub fn new(arrays: &[Array], volumes: &[Volume], rules: Rules) -> Survey {
        let samples = volumes.iter().map(|volume| volume.samples.len()).min().unwrap_or(0);
        let samples = (0..samples).map(|number| Consumption::of(arrays, volumes, number, rules.slot)).collect();
        let arrays = arrays.iter().map(|array| (array.name.clone(), array.capacity, array.sectors)).collect();
        let volumes = volumes.iter().map(|volume| (volume.name.clone(), volume.sectors)).collect();
        Survey { samples, arrays, volumes, rules }
    }

    /// From matrices. Of each array its name, the part of its time that may be promised and its sectors; of each volume its name and its
    /// sectors.
    pub fn of(samples: Vec<Consumption>, arrays: Vec<(String, f64, u64)>, volumes: Vec<(String, u64)>, rules: Rules) -> Survey {
        Survey { samples, arrays, volumes, rules }
    }

    /// The matrix of each sample.
    pub fn samples(&self) -> &[Consumption] {
        &self.samples
    }

    /// How many arrays there are.
    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// How many volumes there are.
    pub fn volumes(&self) -> usize {
        self.volumes.len()
    }

    /// The part of its time that an array may promise.
    pub fn capacity(&self, array: usize) -> f64 {
        self.arrays[array].1
    }

    /// A cell of the matrix over all samples, from 0 to 1.
    pub fn share(&self, array: usize, volume: usize) -> f64 {
        let sum: f64 = self.samples.iter().map(|sample| sample.share(array, volume)).sum();
        sum / self.samples.len().max(1) as f64
    }

    /// By how much a volume's share falls at least, in any sample, if it goes from one array to another; negative where it grows.
    pub fn reduction(&self, volume: usize, from: usize, to: usize) -> f64 {
        let each = self.samples.iter().map(|sample| sample.share(from, volume) - sample.share(to, volume));
        each.min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The same in the sample where it falls most.
    pub fn best_reduction(&self, volume: usize, from: usize, to: usize) -> f64 {
        let each = self.samples.iter().map(|sample| sample.share(from, volume) - sample.share(to, volume));
        each.max_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// What a volume is counted with on an array: the part of its time, in the sample where it is most.
    pub fn demand(&self, array: usize, volume: usize) -> f64 {
        let of = |sample: &Consumption| match self.rules.basis {
            _ if sample.rate(volume) == 0.0 => 0.0,
            Basis::Reference => sample.bound(array, volume),
            Basis::Sampled => sample.demand(array, volume),
        };
        self.samples.iter().map(of).fold(0.0, f64::max)
    }

    /// What was promised on an array: the part of its time that its volumes are counted with.
    pub fn load(&self, assignment: &Assignment, array: usize) -> f64 {
        let here = assignment.iter().enumerate().filter(|(_, host)| **host == Some(array));
        here.map(|(volume, _)| self.demand(array, volume)).sum()
    }

    /// What an array could still promise; negative where it has promised too much.
    pub fn spare(&self, assignment: &Assignment, array: usize) -> f64 {
        self.capacity(array) - self.load(assignment, array)
    }

    /// Sectors that an array has left.
    pub fn free_sectors(&self, assignment: &Assignment, array: usize) -> u64 {
        let here = assignment.iter().zip(&self.volumes).filter(|(host, _)| **host == Some(array));
        self.arrays[array].2.saturating_sub(here.map(|(_, (_, sectors))| *sectors).sum())
    }

    /// How many more volumes like this one fit in addition to those that are there.
    pub fn more_like(&self, assignment: &Assignment, volume: usize) -> u64 {
        let on = |array: usize| {
            let room = self.free_sectors(assignment, array) / self.sectors(volume).max(1);
            let demand = self.demand(array, volume);
            let spare = (self.spare(assignment, array) + ROUNDING).max(0.0);
            if demand > 0.0 { room.min((spare / demand) as u64) } else { room }
        };
        (0..self.arrays()).map(on).sum()
    }

    /// Whether no array has promised more than it can keep, or holds more than it has room for.
    pub fn keeps_capacity(&self, assignment: &Assignment) -> bool {
        (0..self.arrays()).all(|array| {
            let held: u64 = assignment.iter().zip(&self.volumes).filter(|(host, _)| **host == Some(array)).map(|(_, v)| v.1).sum();
            self.spare(assignment, array) >= -ROUNDING && held <= self.arrays[array].2
        })
    }

    pub(super) fn array_name(&self, array: usize) -> &str {
        &self.arrays[array].0
    }

    pub(super) fn volume_name(&self, volume: usize) -> &str {
        &self.volumes[volume].0
    }

    pub(super) fn sectors(&self, volume: usize) -> u64 {
        self.volumes[volume].1
    }
}
