//! One request at a time: each is asked for when the one before is done, or some time later.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, Priority, Request};
use device_model::device::probing::Probe;
use sim::device::{Completion, Device};

/// A device, and the time that it has come to.
pub struct Alone<'a> {
    device: Box<dyn Device>,
    now: Nanos,
    done: Vec<Completion>,
    stop: &'a AtomicBool,
}

impl<'a> Alone<'a> {
    /// A device at rest; work on it ends once `stop` is set.
    pub fn new(device: Box<dyn Device>, stop: &'a AtomicBool) -> Alone<'a> {
        Alone { device, now: Nanos::ZERO, done: Vec::with_capacity(1), stop }
    }

    /// Asks for something `after` the request before was done, and says when it was asked for and when it was done. `None`: the work
    /// was interrupted.
    pub fn serve(&mut self, op: Op, lba: u64, sectors: u32, after: Nanos) -> Option<(Nanos, Nanos)> {
        if self.stop.load(Ordering::Relaxed) {
            return None;
        }
        let asked = self.now + after;
        self.now = asked;
        let request = Request { id: 0, stream: 0, op, sync: true, priority: Priority::DEFAULT, sectors, lba, arrival: asked };
        self.device.advance(asked, &mut self.done);
        self.device.submit(asked, &request);
        self.done.clear();
        while self.done.is_empty() {
            // A device that holds a request always says when it goes on.
            self.now = self.device.wake_at()?;
            self.device.advance(self.now, &mut self.done);
        }
        Some((asked, self.now))
    }
}

impl Probe for Alone<'_> {
    fn capacity_sectors(&self) -> u64 {
        self.device.capacity_sectors()
    }

    fn ask(&mut self, op: Op, lba: u64, sectors: u32) -> Option<(f64, f64)> {
        let (asked, done) = self.serve(op, lba, sectors, Nanos::ZERO)?;
        Some((asked.0 as f64, done.0 as f64))
    }
}
