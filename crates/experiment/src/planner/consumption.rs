//! What volumes take of arrays: the resource-consumption matrix.

use super::{Assignment, Basis, Rules};

/// Tolerance where parts of an array's time are added up: sums of the same numbers in another order are the same.
pub(super) const ROUNDING: f64 = 1e-9;

/// What one sample of every volume takes of every array.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumption {
    /// By array, then by volume: seconds of the array's time for each second of the sample.
    demands: Vec<Vec<f64>>,
    /// By volume: seconds of its reference disk's time for each second of the sample, at most 1; 0 of who was promised nothing.
    rates: Vec<f64>,
    /// By array, then by volume: the part of the array's time while the volume is active ([`Need::time`](crate::capacity::Need)).
    times: Vec<Vec<f64>>,
}

impl Consumption {
    /// From demands by array and volume, and the rates of the volumes (see there).
    ///
    /// # Panics
    /// If not every array has a demand of every volume.
    pub fn new(demands: Vec<Vec<f64>>, rates: Vec<f64>) -> Consumption {
        assert!(demands.iter().all(|row| row.len() == rates.len()), "a demand of every volume on every array");
        let times = demands.iter().map(|row| vec![0.0; row.len()]).collect();
        Consumption { demands, rates, times }
    }

    /// The same with times by array and volume. They count in what fits on an array and not in shares.
    ///
    /// # Panics
    /// If not every array has a time of every volume.
    #[must_use]
    pub fn with_times(self, times: Vec<Vec<f64>>) -> Consumption {
        assert!(times.iter().all(|row| row.len() == self.rates.len()), "a time of every volume on every array");
        Consumption { times, ..self }
    }

    /// The part of an array's time that a volume needs while it is active, with what its reference disk does.
    pub fn time(&self, array: usize, volume: usize) -> f64 {
        self.times[array][volume]
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

/// What volumes take of arrays in several samples, and how much there is to take.
#[derive(Clone, Debug)]
pub struct Survey {
    pub(super) samples: Vec<Consumption>,
    pub(super) arrays: Vec<(String, f64, u64)>,
    pub(super) volumes: Vec<(String, u64)>,
    pub(super) rules: Rules,
}

impl Survey {
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

    /// What a volume is counted with on an array: the part of its work or of its time, whichever is more, in the sample where it is most.
    pub fn demand(&self, array: usize, volume: usize) -> f64 {
        let of = |sample: &Consumption| match self.rules.basis {
            _ if sample.rate(volume) == 0.0 => 0.0,
            Basis::Reference => sample.bound(array, volume).max(sample.time(array, volume)),
            Basis::Sampled => sample.demand(array, volume).max(sample.time(array, volume) * sample.rate(volume)),
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
