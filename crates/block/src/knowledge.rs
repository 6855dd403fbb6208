//! The knowledge of all learning schedulers about one device.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::queue::Limits;
use crate::scheduler::{Knowledge, Scheduler, SchedulerSpec};
use crate::{Nanos, Request};

/// The knowledge of each learning scheduler, for a host that switches schedulers on one device.
pub struct KnowledgeStore(Vec<(&'static SchedulerSpec, Box<dyn Knowledge>)>);

impl KnowledgeStore {
    /// Empty knowledge for each of the schedulers that learns.
    pub fn new(schedulers: impl Iterator<Item = &'static SchedulerSpec>) -> KnowledgeStore {
        KnowledgeStore(schedulers.filter_map(|spec| Some((spec, spec.knowledge?()))).collect())
    }

    /// Adds a scheduler with existing knowledge, in place of any previous knowledge of it.
    pub fn add(&mut self, spec: &'static SchedulerSpec, knowledge: Box<dyn Knowledge>) {
        self.0.retain(|(of, _)| of.name != spec.name);
        self.0.push((spec, knowledge));
    }

    /// Passes a completed request to every learning scheduler but the active one, which learns by itself.
    pub fn learn(&mut self, active: &SchedulerSpec, request: &Request, dispatched: Nanos, completed: Nanos) {
        for (_, knowledge) in self.0.iter_mut().filter(|(spec, _)| spec.name != active.name) {
            knowledge.learn(request, dispatched, completed);
        }
    }

    /// Sets the rotation time of the device; `None` for a device that is not rotational.
    pub fn set_rotation(&mut self, rotation: Option<Nanos>) {
        self.0.iter_mut().for_each(|(_, knowledge)| knowledge.set_rotation(rotation));
    }

    /// Builds a scheduler, with its knowledge if it learns.
    pub fn scheduler(&self, spec: &SchedulerSpec, limits: &Limits, values: &[i64]) -> Box<dyn Scheduler> {
        match self.0.iter().find(|(of, _)| of.name == spec.name) {
            Some((_, knowledge)) => knowledge.scheduler(limits, values),
            None => (spec.build)(limits, values),
        }
    }
}
