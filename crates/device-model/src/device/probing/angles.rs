//! Measures the angles at which sectors pass: each is read from the media, bypassing the drive's cache.

use block::Op;
use rand::Rng as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng as _;

use super::Probe;
use crate::device::tracks::{off, part};

/// Maximum number of other reads before a sector is read again; more than the cache segments of any drive.
const MOST_BETWEEN: usize = 320;
/// Number of sectors tried, and tolerance between the angles of two reads from the media, in revolutions.
const TRIED: usize = 12;
const SAME: f64 = 0.002;

/// Measures angles.
pub struct Angles<'a> {
    probe: &'a mut dyn Probe,
    random: Xoshiro256PlusPlus,
    turn_ns: f64,
    /// Number of other reads in between.
    between: usize,
    asked: u64,
}

impl<'a> Angles<'a> {
    pub(super) fn new(probe: &'a mut dyn Probe, seed: u64) -> Angles<'a> {
        Angles { probe, random: Xoshiro256PlusPlus::seed_from_u64(seed), turn_ns: 1.0, between: 0, asked: 0 }
    }

    pub(super) fn set_turn(&mut self, turn_ns: f64) {
        self.turn_ns = turn_ns;
    }

    /// Time of a revolution.
    pub fn turn_ns(&self) -> f64 {
        self.turn_ns
    }

    /// Number of requests so far.
    pub fn asked(&self) -> u64 {
        self.asked
    }

    pub(super) fn capacity(&self) -> u64 {
        self.probe.capacity_sectors()
    }

    /// A random sector.
    pub(super) fn anywhere(&mut self) -> u64 {
        let capacity = self.capacity();
        self.random.random_range(0..capacity)
    }

    pub(super) fn random(&mut self) -> &mut Xoshiro256PlusPlus {
        &mut self.random
    }

    /// Issues a request; returns when it began and when it completed.
    pub(super) fn ask(&mut self, op: Op, lba: u64, sectors: u32) -> Option<(f64, f64)> {
        self.asked += 1;
        self.probe.ask(op, lba, sectors)
    }

    /// Reads elsewhere until earlier reads are evicted from the drive's cache.
    pub(super) fn forget(&mut self) -> Option<()> {
        for _ in 0..self.between {
            let lba = self.anywhere();
            self.ask(Op::Read, lba, 1)?;
        }
        Some(())
    }

    /// The angle at which a sector has been read.
    pub(super) fn of(&mut self, lba: u64) -> Option<f64> {
        self.forget()?;
        let (_, end) = self.ask(Op::Read, lba, 1)?;
        Some(part(end / self.turn_ns))
    }

    /// The angle at the end of a request of several sectors.
    pub(super) fn of_many(&mut self, op: Op, lba: u64, sectors: u32) -> Option<f64> {
        self.forget()?;
        let (_, end) = self.ask(op, lba, sectors)?;
        Some(part(end / self.turn_ns))
    }

    /// Finds the number of reads that evict a sector from the drive's cache: reading it again then gives the same angle.
    pub(super) fn find_distance(&mut self) -> Option<()> {
        self.between = 3;
        while self.between < MOST_BETWEEN {
            let mut same = 0;
            for _ in 0..TRIED {
                let lba = self.anywhere();
                let first = self.of(lba)?;
                same += usize::from(off(self.of(lba)? - first).abs() < SAME);
            }
            if same == TRIED {
                break;
            }
            self.between = self.between * 3 / 2 + 1;
        }
        Some(())
    }
}
