//! Random search: the baseline for every other search with the same budget.
//!
//! Bergstra and Bengio, "Random Search for Hyper-Parameter Optimization", Journal of Machine Learning Research 13, 2012.

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::{Genome, Search, Space, Start};
use observe::performance::TrialScore;

/// Size of a batch. Choice: as the default number of children of `genetic`, so that both report progress alike; not varied.
const BATCH: usize = 8;

/// The seeds, then random genomes.
#[derive(Clone, Debug)]
pub struct Random {
    space: Space,
    seeds: std::vec::IntoIter<Genome>,
    random: Xoshiro256PlusPlus,
}

impl Random {
    /// Starts with the seeds.
    pub fn new(start: Start) -> Random {
        let random = Xoshiro256PlusPlus::seed_from_u64(start.seed);
        Random { space: start.space.clone(), seeds: start.seeds.into_iter(), random }
    }
}

impl Search for Random {
    fn ask(&mut self) -> Vec<Genome> {
        let Random { space, seeds, random } = self;
        seeds.chain(std::iter::repeat_with(|| space.draw(random))).take(BATCH).collect()
    }

    fn tell(&mut self, _rated: &[Option<TrialScore>]) {}
}
