//! Placement of volumes on several arrays: assignment, migration, and the guarantees meanwhile.
//!
//! ```text
//! FILE.toml ─▶ Cluster ─▶ samples of each volume on its reference disk ─▶ crate::planner ─▶ matrix, findings, plan
//!                │                                                                             │
//!                └──────▶ sim::store, before, during and after the moves ◀─────────────────────┘
//! ```

mod alone;
mod array;
mod asks;
mod cluster;
mod consumption;
mod place;
mod recorded;
mod spec;

use block::Scheduler;

pub use alone::OnReference;
pub use array::ClusterArray;
pub use asks::{Asker, Askers, Asks, EXTENT, FOR_EVER, RunLength};
pub use cluster::{Cluster, ClusterRun, ClusterVolume, Moving};
pub use place::got;
pub use place::{PROMISES, Trial, place};
pub use spec::Specification;
pub use spec::size;

/// The scheduler for recorded loads.
const SCHEDULER: &str = "clook";

/// A new instance of [`SCHEDULER`].
fn elevator() -> Box<dyn Scheduler> {
    let spec = block::CLASSIC.iter().find(|spec| spec.name == SCHEDULER).unwrap_or(&block::CLASSIC[0]);
    (spec.build)(&block::Limits::default(), &spec.defaults())
}
