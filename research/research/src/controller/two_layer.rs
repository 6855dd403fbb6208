//! The paper's fourth scheme, two-layer combined learning ("Self-Learning Disk Scheduling", section 3.3.4): feedback learning
//! with the scheduler that learns per request among the candidates. See [`classified`](super::classified).

use super::ControllerSpec;
use super::classified::{Classified, Tunables};

/// A classifier over all schedulers.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "two-layer",
    summary: "feedback learning that may also choose the scheduler that learns with every request",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 4 (TCLO, TCLOO)",
    tunables: Tunables::TUNABLES,
    build: |brief, values| Box::new(Classified::new("two-layer", brief.candidates.clone(), brief, values)),
};
