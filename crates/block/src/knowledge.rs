//! What a scheduler has learned of a device and of those who use it. It outlives the scheduler: when another takes over and hands back,
//! nothing is forgotten, and what happened in between was learned from too.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::queue::Limits;
use crate::sched::{Scheduler, SchedulerSpec};
use crate::{Nanos, Request};

/// What one learning scheduler knows of one device.
pub trait Knowledge: Send {
    /// Learns from a request that another scheduler sent at `dispatched` and that was done at `at`. Requests are told in the order in
    /// which they were done.
    fn learn(&mut self, request: &Request, dispatched: Nanos, at: Nanos);

    /// Told what is known from elsewhere: the time in which the device turns, or that it does not.
    fn turns(&mut self, turn: Option<Nanos>) {
        let _ = turn;
    }

    /// A scheduler that goes by this knowledge and adds to it. The values are those of its tunables.
    fn scheduler(&self, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler>;
}

/// The knowledge of each scheduler that learns, for a host that switches schedulers on one device.
pub struct KnowledgeStore(Vec<(&'static SchedulerSpec, Box<dyn Knowledge>)>);

impl KnowledgeStore {
    /// Without any knowledge yet, of those of the schedulers that learn.
    pub fn new(schedulers: impl Iterator<Item = &'static SchedulerSpec>) -> KnowledgeStore {
        KnowledgeStore(schedulers.filter_map(|spec| Some((spec, spec.knowledge?()))).collect())
    }

    /// Teaches every learning scheduler but the one in force, which learns by itself.
    pub fn learn(&mut self, in_force: &SchedulerSpec, request: &Request, dispatched: Nanos, at: Nanos) {
        for (_, knowledge) in self.0.iter_mut().filter(|(spec, _)| spec.name != in_force.name) {
            knowledge.learn(request, dispatched, at);
        }
    }

    /// Tells every learning scheduler in which time the device turns, or that it does not.
    pub fn turns(&mut self, turn: Option<Nanos>) {
        self.0.iter_mut().for_each(|(_, knowledge)| knowledge.set_rotation(turn));
    }

    /// Makes a scheduler, with what is known if it is one that learns.
    pub fn scheduler(&self, spec: &SchedulerSpec, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
        match self.0.iter().find(|(of, _)| of.name == spec.name) {
            Some((_, knowledge)) => knowledge.scheduler(limits, values),
            None => (spec.build)(limits, values),
        }
    }
}
