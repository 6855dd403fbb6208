//! Which volume belongs on which array (Zhang, Xu, Jiang: "YouChoose", MSST 2012, sections III.C and IV.D).
//!
//! ```text
//!  what each volume needs of each array ─▶ Consumption        one for each sample: Table I
//!                                               │
//!                    capacity of each array ─▶ Survey ─▶ findings   significant? misplaced? in every sample?
//!                    who is where                     ─▶ Plan       migrations and swaps, each with its reason
//!                                                     ─▶ initial    where a new volume goes, and how room is made for it
//! ```
//! A volume's *demand* on an array is the part of the array's time that its requests take there. It is bounded by the volume's reference
//! disk: no promise exceeds that disk. An array keeps its promises while demands on it add up to no more than its
//! capacity.
//!
//! Its *share* of an array is its demand there in percent of that of all volumes, wherever they are. Demands fall on every array that is
//! faster; shares fall where a volume is more at home than the others, so shares are what tells who should move.
//!
//! Nothing here knows a clock, a simulator or randomness: the same samples give the same plan.

mod consumption;
mod findings;
mod initial;
mod plan;
#[cfg(test)]
mod tests;

use block::Nanos;

pub use consumption::{Consumption, Survey};
pub use findings::{Finding, Standing};
pub use initial::{Initial, Rejected};
pub use plan::{Move, Plan, Step};

/// What a volume is counted with when promises are added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// With what it would take if it kept its reference disk busy all the time with requests such as those sampled: a promise holds
    /// for who asks for all that was promised, too.
    Reference,
    /// With what it took: more volumes fit, as long as none asks for more than it did.
    Sampled,
}

/// By what plans are made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// By how much a move must reduce a volume's share of its array, from 0 to 1. The paper's is 0.1: ten points of the matrix.
    pub threshold: f64,
    /// How much of the reference disk's time is served in one go, as the scheduler has it (samples are cut accordingly).
    pub slot: Nanos,
    /// What volumes are counted with.
    pub basis: Basis,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { threshold: 0.1, slot: Nanos::from_millis(80), basis: Basis::Reference }
    }
}

/// Where each volume is, by number; `None`: nowhere yet.
pub type Assignment = Vec<Option<usize>>;
