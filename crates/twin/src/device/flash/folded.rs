//! Models a large flash device by a small one: addresses are folded onto it.
//!
//! On flash, addresses hardly matter. A smaller model takes less memory and is built faster; its spare fraction is the same, and with it
//! the cost of garbage collection.

use std::sync::Arc;

use block::{Nanos, Request, RequestId};
use sim::device::FlashTally;
use sim::device::{Completion, Device};
use sim::profile::{DeviceOptions, DeviceProfile};

/// The profile of the small device, and the capacity of the large one in sectors.
#[derive(Debug)]
pub struct Folded {
    /// The device that serves requests.
    pub inner: Arc<dyn DeviceProfile>,
    /// The capacity that it represents.
    pub capacity: u64,
}

impl DeviceProfile for Folded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn description(&self) -> &str {
        self.inner.description()
    }

    fn capacity_sectors(&self) -> u64 {
        self.capacity
    }

    fn build(&self, options: DeviceOptions) -> Box<dyn Device> {
        Box::new(FoldedDevice { inner: self.inner.build(options), capacity: self.capacity })
    }
}

struct FoldedDevice {
    inner: Box<dyn Device>,
    capacity: u64,
}

impl Device for FoldedDevice {
    fn capacity_sectors(&self) -> u64 {
        self.capacity
    }

    fn queue_depth(&self) -> usize {
        self.inner.queue_depth()
    }

    fn has_write_cache(&self) -> bool {
        self.inner.has_write_cache()
    }

    fn submit(&mut self, now: Nanos, request: &Request) {
        let within = self.inner.capacity_sectors();
        let sectors = request.sectors.min(u32::try_from(within).unwrap_or(u32::MAX));
        let lba = (request.lba % within).min(within - u64::from(sectors));
        self.inner.submit(now, &Request { lba, sectors, ..*request });
    }

    fn flush(&mut self, now: Nanos, id: RequestId) -> bool {
        self.inner.flush(now, id)
    }

    fn wake_at(&self) -> Option<Nanos> {
        self.inner.wake_at()
    }

    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>) {
        self.inner.advance(now, done);
    }

    fn busy(&self) -> Nanos {
        self.inner.busy()
    }

    fn flash(&self) -> Option<FlashTally> {
        self.inner.flash()
    }
}
