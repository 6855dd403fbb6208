//! Changes the settings of a queue and of a host during a run.

use block::{Limits, Nanos, Rate, Scheduler, SettingError, Tunable};

use super::settings::{of_the_queue, settable};
use super::{Host, Queue, TUNABLES};
use crate::run::{ServerEvent, Steerable};

impl Steerable for Queue {
    fn record_events(&mut self) {
        Queue::record_events(self);
    }

    fn take_events(&mut self, into: &mut Vec<ServerEvent>) {
        Queue::take_events(self, into);
    }

    fn capacity_sectors(&self) -> u64 {
        Queue::capacity_sectors(self)
    }

    fn limits(&self) -> Limits {
        self.settings().limits()
    }

    fn nr_requests(&self) -> u32 {
        self.settings().nr_requests
    }

    fn switch_time(&self) -> Nanos {
        self.settings().switch_time
    }

    fn switch(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>) {
        Queue::switch(self, now, scheduler);
    }

    fn retune(&mut self, values: &[i64]) {
        Queue::retune(self, values);
    }

    fn set_io_max(&mut self, now: Nanos, tenant: usize, limits: [Rate; 2]) {
        Queue::set_io_max(self, now, tenant, limits);
    }

    fn tunables(&self) -> &'static [Tunable] {
        of_the_queue()
    }

    fn value(&self, index: usize) -> Option<i64> {
        self.settings().value(index)
    }

    fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError> {
        settable(of_the_queue(), index, value)?;
        self.set_settings(now, self.settings().with(index, value));
        Ok(())
    }
}

impl Steerable for Host {
    fn record_events(&mut self) {
        self.queue_mut().record_events();
    }

    fn take_events(&mut self, into: &mut Vec<ServerEvent>) {
        self.queue_mut().take_events(into);
    }

    fn capacity_sectors(&self) -> u64 {
        self.queue().capacity_sectors()
    }

    fn limits(&self) -> Limits {
        self.queue().settings().limits()
    }

    fn nr_requests(&self) -> u32 {
        self.queue().settings().nr_requests
    }

    fn switch_time(&self) -> Nanos {
        self.queue().settings().switch_time
    }

    fn switch(&mut self, now: Nanos, scheduler: Box<dyn Scheduler>) {
        self.queue_mut().switch(now, scheduler);
    }

    fn retune(&mut self, values: &[i64]) {
        self.queue_mut().retune(values);
    }

    fn set_io_max(&mut self, now: Nanos, tenant: usize, limits: [Rate; 2]) {
        self.queue_mut().set_io_max(now, tenant, limits);
    }

    fn tunables(&self) -> &'static [Tunable] {
        TUNABLES
    }

    fn value(&self, index: usize) -> Option<i64> {
        self.settings().value(index)
    }

    fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError> {
        Host::set(self, now, index, value)
    }
}
