//! The paper's second scheme, feedback learning ("Self-Learning Disk Scheduling", section 3.3.2): a classifier chooses the
//! scheduler for each window's workload, and learns from the measured results. See [`classified`](super::classified).

use super::ControllerSpec;
use super::classified::{Classified, Tunables};

/// A classifier over the schedulers that do not learn themselves.
pub static SPEC: ControllerSpec = ControllerSpec {
    name: "feedback",
    summary: "classifies the workload of each window and sets the scheduler learned for it, with feedback from the result",
    source: "Zhang and Bhargava, Self-Learning Disk Scheduling, algorithm 2",
    tunables: Tunables::TUNABLES,
    build: |brief, values| {
        let others = brief.candidates.iter().filter(|setting| !setting.spec.learns());
        Box::new(Classified::new("feedback", others.cloned().collect(), brief, values))
    },
};
