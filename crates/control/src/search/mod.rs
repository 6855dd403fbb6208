//! Searches for the setting that serves a load best, over every scheduler and tunable that a plant offers.
//!
//! ```text
//!  block::Tunable ─▶ Space: genes ─▶ Search: genetic, ioperf, random, bayes
//!                                     │ ask: genomes      ▲ tell: how each served
//!                                     ▼                   │
//!                      Tuner: one window on the plant for each, or Rehearsal: all at once in the twin
//!                                     │
//!                                     ▼
//!                      the best beside what was found, in turns; whichever is better is kept
//! ```
//! A search knows no plant, no clock and no twin: it is asked for genomes and told how they served. So one algorithm runs on a live
//! device, where a genome costs a window, and in the twin, where it costs its simulated requests.

mod bayes;
mod fingerprint;
mod genetic;
pub mod ioperf;
mod random;
mod space;
mod tuner;

use crate::setting::Setting;
use crate::target::Target;
use observe::event::Event;
use observe::performance::TrialScore;
use observe::preference::Preference;

pub use bayes::Bayes;
pub use genetic::{Genetic, MOST_MUTATION};
pub use ioperf::Ioperf;
pub use random::Random;
pub use space::{Genome, Space};
pub use tuner::{MakeSearch, RehearsalUse, SearchOptions, Tuner};

use block::Nanos;

/// Proposes genomes and learns from how they serve.
pub trait Search: Send {
    /// The genomes to try next, at least one: all of them are known before any of them is tried.
    fn ask(&mut self) -> Vec<Genome>;

    /// How the genomes served that were asked for last, in their order; `None` of one that was refused or under which nothing was done.
    fn tell(&mut self, rated: &[Option<TrialScore>]);

    /// The search's own state, for people: generation, rates.
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// What a search starts from.
pub struct Start<'a> {
    /// What it moves in.
    pub space: &'a Space,
    /// Genomes worth a trial, the most promising first. The first is what was found in force: every other is measured beside it.
    pub seeds: Vec<Genome>,
    /// What counts.
    pub preference: Preference,
    /// What the plant is asked for under what was found in force.
    pub pattern: ioperf::Pattern,
    /// Of its random numbers.
    pub seed: u64,
}

/// Tries settings without putting them in force: the twin.
pub trait Rehearsal: Send {
    /// Takes an event of the plant in.
    fn event(&mut self, event: &Event);

    /// The load that was seen in this time under `in_force` is the one to rehearse. Says what it understood.
    ///
    /// # Errors
    /// Too little was seen, or what was seen cannot be reproduced: says so, for people.
    fn prepare(&mut self, span: (Nanos, Nanos), in_force: &Setting, plant: &dyn Target) -> Result<Vec<(String, String)>, String>;

    /// How each would serve that load; `None` of one that cannot be rehearsed. The same for any number of threads.
    fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>>;

    /// Whether it can tell what this tunable of the host does.
    fn can_try(&self, host_tunable: &str) -> bool;
}
