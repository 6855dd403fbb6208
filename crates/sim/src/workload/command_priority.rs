//! Priorities of single I/Os: `cmdprio_percentage`, `cmdprio_bssplit` (fio's engines/cmdprio.c).

use block::{Op, Priority};
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::distribution::below;
use super::job::Job;
use super::options::CommandPriority;
use crate::host::Action;

/// Draws the priority of each I/O of a job.
pub(super) struct Priorities {
    usual: Priority,
    /// Rules for reads and for writes, and the priority for those that do not state one.
    rules: [Vec<CommandPriority>; 2],
    otherwise: [Priority; 2],
    random: Xoshiro256PlusPlus,
}

impl Priorities {
    pub(super) fn new(job: &Job, seed: u64) -> Priorities {
        let options = &job.options().priority;
        let random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xc3d_9210);
        Priorities { usual: job.priority(), rules: options.commands.rules.clone(), otherwise: options.of_commands(), random }
    }

    /// Draws the priority of `action`.
    pub(super) fn of(&mut self, action: &Action) -> Priority {
        let Action::Access { op: op @ (Op::Read | Op::Write), bytes, .. } = *action else { return self.usual };
        let direction = usize::from(op == Op::Write);
        let rules = &self.rules[direction];
        if rules.is_empty() {
            return self.usual;
        }
        let draw = below(&mut self.random, 100);
        let mut up_to = 0;
        for rule in rules.iter().filter(|rule| rule.bytes.is_none_or(|size| size == bytes)) {
            up_to += u64::from(rule.share);
            if draw < up_to {
                return rule.priority.unwrap_or(self.otherwise[direction]);
            }
        }
        self.usual
    }
}
