//! An array as the planner knows it: for how long its disks work for requests.

use std::fmt;
use std::sync::Arc;

use block::tenants::{ServiceModel, ServiceTime};
use block::{Nanos, Request, StreamId};
use sim::host::{Queue, QueueSettings};
use sim::profile::{DeviceOptions, Profile};
use sim::run::{Finished, Issue, Server, Timeline};

use super::elevator;

/// The array itself, simulated: the requests of a slot are given to it together, in the order of the elevator in which `youchoose` serves a
/// slot, and its work for them is added up over its disks and divided by their number. So nothing is counted while a disk waits for
/// another: on a shared array it serves another volume then. A device that does not tell its work is counted with the time
/// in which anything in it was busy.
#[derive(Clone)]
pub struct ArrayModel {
    profile: Profile,
}

impl fmt::Debug for ArrayModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArrayModel").field(&self.profile.name()).finish()
    }
}

impl ArrayModel {
    /// The array of this profile.
    pub fn new(profile: &Profile) -> Arc<ArrayModel> {
        Arc::new(ArrayModel { profile: profile.clone() })
    }
}

impl ServiceModel for ArrayModel {
    fn begin(&self) -> Box<dyn ServiceTime> {
        let mut queue = Queue::new(elevator(), self.profile.build(DeviceOptions::default()), QueueSettings::default());
        queue.set_roster(&block::Roster::default());
        let (disks, finished) = (self.profile.disks().max(1) as u64, Vec::new());
        Box::new(AtWork { queue, disks, now: Nanos::ZERO, worked: 0, busy: 0, finished })
    }
}

/// An array at work.
struct AtWork {
    queue: Queue,
    disks: u64,
    /// Its own time, in which it never rests.
    now: Nanos,
    /// What it had worked for, and how long it had been busy, when the last slot was done.
    worked: u64,
    busy: u64,
    finished: Vec<Finished>,
}

impl AtWork {
    fn serve(&mut self) {
        loop {
            self.queue.dispatch(self.now);
            let Some(next) = self.queue.next_event() else { return };
            self.now = self.now.max(next);
            self.queue.advance(self.now, &mut self.finished);
            self.finished.clear();
        }
    }
}

impl ServiceTime for AtWork {
    /// Only the last request of a slot has an answer, which is that of all.
    fn service_time(&mut self, _start: Nanos, request: &Request, waiting: u32) -> Nanos {
        let Request { lba, sectors, op, sync, priority, .. } = *request;
        let stream: StreamId = 0;
        self.queue.admit(self.now, Issue { arrival: self.now, lba, sectors, op, sync, stream, priority, token: 0 });
        if waiting > 0 {
            return Nanos::ZERO;
        }
        self.serve();
        let worked: u64 = self.queue.ledger().map_or(0, |ledger| ledger.disk_time().iter().flat_map(Timeline::bins).sum());
        let busy = self.queue.busy().0;
        let (work, passed) = ((worked - self.worked) / self.disks, busy - self.busy);
        (self.worked, self.busy) = (worked, busy);
        Nanos(if work > 0 { work } else { passed })
    }
}
