//! Issues one request at a time: each after the completion of the previous one, with an optional pause.

use std::sync::atomic::{AtomicBool, Ordering};

use block::{Nanos, Op, Priority, Request};
use device_model::device::probing::Probe;
use sim::device::{Completion, Device};

/// A device and its simulated time.
pub struct Alone<'a> {
    device: Box<dyn Device>,
    now: Nanos,
    done: Vec<Completion>,
    stop: &'a AtomicBool,
}

impl<'a> Alone<'a> {
    /// Starts with a device at rest; requests fail once `stop` is set.
    pub fn new(device: Box<dyn Device>, stop: &'a AtomicBool) -> Alone<'a> {
        Alone { device, now: Nanos::ZERO, done: Vec::with_capacity(1), stop }
    }

    /// Issues a request `after` this pause since the previous completion; returns its issue and completion times. `None`: the work
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
            // A device with a request always has a next event.
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
