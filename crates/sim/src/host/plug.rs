//! The plugged queue: requests that a process issues together are dispatched together, in batches of limited size
//! (`blk_add_rq_to_plug` in `block/blk-mq.c`). The scheduler merges them meanwhile.

use block::{Merges, Nanos, Op};

use super::Queue;
use crate::run::{Issue, Server};

/// Maximum requests of a batch, and the size of a request above which the next one dispatches the batch (`BLK_MAX_REQUEST_COUNT`,
/// `BLK_PLUG_FLUSH_SIZE` in `block/blk-mq.h` and `block/blk-mq.c`).
const PLUG_REQUESTS: u32 = 32;
const PLUG_SECTORS: u32 = 256;

/// The requests that a process has collected but not dispatched.
#[derive(Clone, Copy, Default)]
struct Plug {
    requests: u32,
    /// Sectors of the last request, including merged ones.
    sectors: u32,
    end: u64,
    op: Option<Op>,
}

/// A queue with requests in batches.
pub(super) struct PluggedQueue {
    queue: Queue,
    plug: Plug,
}

impl PluggedQueue {
    pub fn new(queue: Queue) -> PluggedQueue {
        PluggedQueue { queue, plug: Plug::default() }
    }

    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    pub fn queue_mut(&mut self) -> &mut Queue {
        &mut self.queue
    }

    /// Starts a new batch: another process issues from here on.
    pub fn begin_batch(&mut self) {
        self.plug = Plug::default();
    }

    /// Admits an issue, after dispatching the current batch if that is full.
    pub fn submit(&mut self, now: Nanos, issue: Issue) {
        let plug = &mut self.plug;
        let settings = self.queue.settings();
        let sectors = plug.sectors.saturating_add(issue.sectors);
        let joins = plug.end == issue.lba
            && plug.op == Some(issue.op)
            && sectors <= settings.max_sectors
            && settings.merges != Merges::Never;
        if joins {
            plug.sectors = sectors;
        } else {
            if plug.requests >= PLUG_REQUESTS || plug.sectors >= PLUG_SECTORS {
                self.queue.dispatch(now);
                plug.requests = 0;
            }
            (plug.requests, plug.sectors, plug.op) = (plug.requests + 1, issue.sectors, Some(issue.op));
        }
        plug.end = issue.lba.saturating_add(u64::from(issue.sectors));
        self.queue.admit(now, issue);
    }
}
