//! Searches for the best setting of a load, over every scheduler and tunable of a target.
//!
//! ```text
//!  block::Tunable ─▶ Space: genes ─▶ Search: genetic, ioperf, random, bayes
//!                                     │ ask: genomes      ▲ tell: their scores
//!                                     ▼                   │
//!                      Tuner: one window on the target for each, or Rehearsal: all at once in the twin
//!                                     │
//!                                     ▼
//!                      A/B test of the best against the original setting; the better one is kept
//! ```
//! A search depends on no target, clock or twin: it proposes genomes and receives their scores. So the same algorithm runs on a live
//! device, where a trial costs a window, and in the twin, where it costs simulated requests.

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
pub use genetic::{Genetic, MAX_MUTATION};
pub use ioperf::Ioperf;
pub use random::Random;
pub use space::{Genome, Space};
pub use tuner::{MakeSearch, RehearsalUse, SearchOptions, Tuner};

use block::Nanos;

/// Proposes genomes and learns from their scores.
///
/// ```
/// use control::search::{Random, Search, Space, Start, ioperf::Pattern};
/// use control::Setting;
/// use observe::Preference;
/// use observe::performance::{Performance, TrialScore};
///
/// // Every tunable of two schedulers, none of the host.
/// let candidates = [Setting::parse("bfq")?, Setting::parse("kyber")?];
/// let space = Space::new(&candidates, true, std::iter::empty());
/// let pattern = Pattern { processes: 4, read_percent: 50, random_percent: 50, request_kib: 64 };
/// let seeds = space.genome(&candidates[0]).into_iter().collect();
/// let mut search = Random::new(Start { space: &space, seeds, preference: Preference::default(), pattern, seed: 1 });
/// let batch = search.ask();
/// assert_eq!(space.setting(&batch[0]), candidates[0]);
/// let served = Performance { throughput: 1e6, response_s: 0.01, fairness: 1.0, starves: false };
/// search.tell(&vec![Some(TrialScore { served, wait_ratio: 0.0 }); batch.len()]);
/// # Ok::<(), block::SettingError>(())
/// ```
pub trait Search: Send {
    /// The genomes to try next, at least one. They do not depend on each other's scores.
    fn ask(&mut self) -> Vec<Genome>;

    /// Receives the scores of the last batch, in order; `None` for a genome that was refused, or under which no request completed.
    fn tell(&mut self, rated: &[Option<TrialScore>]);

    /// The state of the search for display, as names and values.
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
}

/// Input of a search.
pub struct Start<'a> {
    /// The space of settings.
    pub space: &'a Space,
    /// Initial genomes, the most promising first. The first is the original setting, the reference for all others.
    pub seeds: Vec<Genome>,
    /// The user's preference.
    pub preference: Preference,
    /// The access pattern of the load under the original setting.
    pub pattern: ioperf::Pattern,
    /// Seed of its random numbers.
    pub seed: u64,
}

/// Simulates settings instead of applying them, for example in the twin.
///
/// ```
/// use block::Nanos;
/// use control::search::Rehearsal;
/// use control::{Setting, Target};
/// use observe::Event;
/// use observe::performance::{Performance, TrialScore};
///
/// /// Predicts that bfq is twice as fast as any other scheduler, whatever the load.
/// struct Favourite;
///
/// impl Rehearsal for Favourite {
///     fn event(&mut self, _event: &Event) {}
///     fn prepare(&mut self, _: (Nanos, Nanos), _: &Setting, _: &dyn Target) -> Result<Vec<(String, String)>, String> {
///         Ok(vec![("model".to_owned(), "constant".to_owned())])
///     }
///     fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>> {
///         let throughput = |setting: &Setting| if setting.spec.name == "bfq" { 2e6 } else { 1e6 };
///         let served = |throughput| Performance { throughput, response_s: 0.01, fairness: 1.0, starves: false };
///         settings.iter().map(|one| Some(TrialScore { served: served(throughput(one)), wait_ratio: 0.0 })).collect()
///     }
///     fn can_try(&self, _host_tunable: &str) -> bool {
///         false
///     }
/// }
/// ```
pub trait Rehearsal: Send {
    /// Adds an event of the target.
    fn event(&mut self, event: &Event);

    /// Infers the load in this time span under the active setting, for [`rate`](Rehearsal::rate). Returns facts about it, for display.
    ///
    /// # Errors
    /// There are too few events, or the load cannot be reproduced; the text is the reason, for display.
    fn prepare(&mut self, span: (Nanos, Nanos), active: &Setting, target: &dyn Target) -> Result<Vec<(String, String)>, String>;

    /// Scores each setting under that load; `None` for one that cannot be simulated. The scores are independent of the number of threads.
    fn rate(&mut self, settings: &[Setting]) -> Vec<Option<TrialScore>>;

    /// Whether it can simulate this host tunable.
    fn can_try(&self, host_tunable: &str) -> bool;
}
