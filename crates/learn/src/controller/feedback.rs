//! The paper's second scheme, feedback learning ("Self-Learning Disk Scheduling", section 3.3.2): a classifier says which scheduler a
//! window's workload is for, and what comes of it is fed back. How is said in [`classified`](super::classified).

use super::Spec;
use super::classified::{Classified, TUNABLES};
use crate::per_request;

/// A classifier over the schedulers that do not learn themselves.
pub static SPEC: Spec = Spec {
    name: "feedback",
    summary: "recognises the workload of each window and sets the scheduler learned for it; what comes of it is fed back",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 2",
    tunables: TUNABLES,
    build: |brief, values| {
        let others = brief.candidates.iter().filter(|setting| setting.spec.name != per_request::SPEC.name);
        Box::new(Classified::new("feedback", others.cloned().collect(), brief, values))
    },
};
