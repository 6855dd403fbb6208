//! Assigns volumes to arrays (Zhang, Xu, Jiang: "YouChoose", MSST 2012, sections III.C and IV.D).
//!
//! ```text
//!  what each volume needs of each array ─▶ Consumption        one for each sample: Table I
//!                                               │
//!                    capacity of each array ─▶ Survey ─▶ findings   significant? misplaced? in every sample?
//!                    who is where                     ─▶ Plan       migrations and swaps, each with its reason
//!                                                     ─▶ initial    where a new volume goes, and how room is made for it
//! ```
//! A volume's *demand* on an array is the part of the array's time that its requests take there. It is bounded by the volume's reference
//! disk: no guarantee exceeds that disk. An array keeps its guarantees while the demands on it add up to no more than its capacity.
//!
//! Its *share* of an array is its demand there in percent of that of all volumes, wherever they are. On a faster array every demand is
//! lower; the share is lower only if the volume gains more than others do. So shares tell which volumes to move.
//!
//! The planner uses no clock, simulator or random numbers: the same samples give the same plan.

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

/// The demand that is reserved for a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The demand if it kept its reference disk busy all the time with requests like those sampled: covers the whole guarantee.
    Reference,
    /// The sampled demand: more volumes fit, as long as none exceeds its sample.
    Sampled,
}

/// Parameters of the planner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rules {
    /// Minimum reduction of a volume's share for a move, from 0 to 1. The paper's is 0.1: ten points of the matrix.
    pub threshold: f64,
    /// Reference time served in one slot, as in the scheduler; samples are divided accordingly.
    pub slot: Nanos,
    /// The demand that is reserved for volumes.
    pub basis: Basis,
}

impl Default for Rules {
    fn default() -> Rules {
        Rules { threshold: 0.1, slot: Nanos::from_millis(80), basis: Basis::Reference }
    }
}

/// The array of each volume, by volume number; `None`: not placed yet.
pub type Assignment = Vec<Option<usize>>;
