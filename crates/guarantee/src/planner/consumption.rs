//! The resource-consumption matrix: the part of each array's time that each volume needs.

use super::{Assignment, Basis, Rules};

/// Tolerance for comparing sums of parts of an array's time: floating-point sums depend on the order of their terms.
pub(super) const ROUNDING: f64 = 1e-9;

/// One sample: the part of each array's time that each volume needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Consumption {
    /// By array, then by volume: seconds of the array's time for each second of the sample.
    demands: Vec<Vec<f64>>,
    /// By volume: seconds of its reference disk's time for each second of the sample, at most 1; 0 for a volume without a guarantee.
    rates: Vec<f64>,
    /// By array, then by volume: the part of the array's time while the volume is active ([`Need::time`](crate::capacity::Need)).
    times: Vec<Vec<f64>>,
}

impl Consumption {
    /// Creates a matrix from demands by array and volume, and a rate for each volume ([`Consumption::rate`]). All times are 0.
    ///
    /// # Panics
    /// If not every array has a demand of every volume.
    pub fn new(demands: Vec<Vec<f64>>, rates: Vec<f64>) -> Consumption {
        assert!(demands.iter().all(|row| row.len() == rates.len()), "a demand of every volume on every array");
        let times = demands.iter().map(|row| vec![0.0; row.len()]).collect();
        Consumption { demands, rates, times }
    }

    /// Sets times by array and volume. They count in [`Survey::demand`] but not in shares.
    ///
    /// # Panics
    /// If not every array has a time of every volume.
    #[must_use]
    pub fn with_times(self, times: Vec<Vec<f64>>) -> Consumption {
        assert!(times.iter().all(|row| row.len() == self.rates.len()), "a time of every volume on every array");
        Consumption { times, ..self }
    }

    /// The part of an array's time that a volume needs while it is active, at the pace of its reference disk.
    pub fn time(&self, array: usize, volume: usize) -> f64 {
        self.times[array][volume]
    }

    /// The part of an array's time that a volume takes at the sampled rate.
    pub fn demand(&self, array: usize, volume: usize) -> f64 {
        self.demands[array][volume]
    }

    /// The part of an array's time that a volume would take if it kept its reference disk busy all the time; 0 without a reference disk.
    pub fn bound(&self, array: usize, volume: usize) -> f64 {
        let rate = self.rates[volume];
        if rate > 0.0 { self.demand(array, volume) / rate } else { 0.0 }
    }

    /// The part of its reference disk's time that a volume used, from 0 to 1.
    pub fn rate(&self, volume: usize) -> f64 {
        self.rates[volume]
    }

    /// A cell of Table I, from 0 to 1: the volume's share of the sum of all volumes' demands on the array.
    pub fn share(&self, array: usize, volume: usize) -> f64 {
        let all: f64 = self.demands[array].iter().sum();
        if all > 0.0 { self.demands[array][volume] / all } else { 0.0 }
    }
}

/// Consumption matrices of several samples, with the capacity of the arrays and the size of the volumes.
#[derive(Clone, Debug)]
pub struct Survey {
    pub(super) samples: Vec<Consumption>,
    pub(super) arrays: Vec<(String, f64, u64)>,
    pub(super) volumes: Vec<(String, u64)>,
    pub(super) rules: Rules,
}

impl Survey {
    /// Creates a survey from matrices. `arrays`: name, part of its time that may be reserved, and size in sectors. `volumes`: name and
    /// size in sectors.
    pub fn of(samples: Vec<Consumption>, arrays: Vec<(String, f64, u64)>, volumes: Vec<(String, u64)>, rules: Rules) -> Survey {
        Survey { samples, arrays, volumes, rules }
    }

    /// The matrix of each sample.
    pub fn samples(&self) -> &[Consumption] {
        &self.samples
    }

    /// The number of arrays.
    pub fn arrays(&self) -> usize {
        self.arrays.len()
    }

    /// The number of volumes.
    pub fn volumes(&self) -> usize {
        self.volumes.len()
    }

    /// The part of its time that may be reserved on an array.
    pub fn capacity(&self, array: usize) -> f64 {
        self.arrays[array].1
    }

    /// The mean of a cell's share over all samples, from 0 to 1.
    pub fn share(&self, array: usize, volume: usize) -> f64 {
        let sum: f64 = self.samples.iter().map(|sample| sample.share(array, volume)).sum();
        sum / self.samples.len().max(1) as f64
    }

    /// The smallest reduction of a volume's share over all samples if it moves from one array to another; negative if its share grows.
    pub fn reduction(&self, volume: usize, from: usize, to: usize) -> f64 {
        let each = self.samples.iter().map(|sample| sample.share(from, volume) - sample.share(to, volume));
        each.min_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The largest reduction over all samples.
    pub fn best_reduction(&self, volume: usize, from: usize, to: usize) -> f64 {
        let each = self.samples.iter().map(|sample| sample.share(from, volume) - sample.share(to, volume));
        each.max_by(f64::total_cmp).unwrap_or(0.0)
    }

    /// The part of an array that is reserved for a volume: the larger of its demand and its time, in the sample where that is largest; 0
    /// for a volume without a guarantee.
    pub fn demand(&self, array: usize, volume: usize) -> f64 {
        let of = |sample: &Consumption| match self.rules.basis {
            _ if sample.rate(volume) == 0.0 => 0.0,
            Basis::Reference => sample.bound(array, volume).max(sample.time(array, volume)),
            Basis::Sampled => sample.demand(array, volume).max(sample.time(array, volume) * sample.rate(volume)),
        };
        self.samples.iter().map(of).fold(0.0, f64::max)
    }

    /// The part of an array's time that is reserved for its volumes.
    pub fn load(&self, assignment: &Assignment, array: usize) -> f64 {
        let here = assignment.iter().enumerate().filter(|(_, host)| **host == Some(array));
        here.map(|(volume, _)| self.demand(array, volume)).fold(0.0, |sum, demand| sum + demand)
    }

    /// The part of an array that can still be reserved; negative where it is overcommitted.
    pub fn spare(&self, assignment: &Assignment, array: usize) -> f64 {
        self.capacity(array) - self.load(assignment, array)
    }

    /// Whether the guarantees on an array need more of its time than may be reserved.
    pub fn is_oversold(&self, assignment: &Assignment, array: usize) -> bool {
        self.spare(assignment, array) < -ROUNDING
    }

    /// Sectors of an array that no volume occupies.
    pub fn free_sectors(&self, assignment: &Assignment, array: usize) -> u64 {
        let here = assignment.iter().zip(&self.volumes).filter(|(host, _)| **host == Some(array));
        self.arrays[array].2.saturating_sub(here.map(|(_, (_, sectors))| *sectors).sum())
    }

    /// The number of further volumes like this one that fit, over all arrays.
    pub fn more_like(&self, assignment: &Assignment, volume: usize) -> u64 {
        let on = |array: usize| {
            let room = self.free_sectors(assignment, array) / self.sectors(volume).max(1);
            let demand = self.demand(array, volume);
            let spare = (self.spare(assignment, array) + ROUNDING).max(0.0);
            if demand > 0.0 { room.min((spare / demand) as u64) } else { room }
        };
        (0..self.arrays()).map(on).sum()
    }

    /// Whether no array is overcommitted in time or in space.
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
