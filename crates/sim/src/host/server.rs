//! The host: takes calls, and ends each when all it needs is done.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use block::{Nanos, Op, SettingError};
use slab::Slab;

use super::{Access, Action, Call, File, FileId, Files, Finished, HostSettings, Issue, Queue};
use crate::run::Server;

/// Calls that may be under way at once.
const CALLS: usize = 65_536;

/// Why there can be no such host.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// A setting is out of range.
    #[error(transparent)]
    Setting(#[from] SettingError),
}

/// A call under way.
#[derive(Clone, Copy, Debug)]
struct Running {
    call: Call,
    /// Issues of its own that are not done.
    open: u32,
    dispatched: Nanos,
}

/// A machine with one block device: page cache, read-ahead, write-back and swap above its queue.
pub struct Host {
    queue: Queue,
    files: Arc<Files>,
    calls: Slab<Running>,
    /// Calls that are done but whose processor time is not over: (end, number in order, call).
    ending: BinaryHeap<Reverse<(Nanos, u64, usize)>>,
    ended: u64,
    done: Vec<Finished>,
}

impl Host {
    /// A host whose device sits behind `queue`, and on it `files`.
    ///
    /// # Errors
    /// A setting is out of its range.
    pub fn new(queue: Queue, files: Arc<Files>, settings: HostSettings) -> Result<Host, HostError> {
        settings.check()?;
        Ok(Host { queue, files, calls: Slab::new(), ending: BinaryHeap::new(), ended: 0, done: Vec::new() })
    }

    /// The queue of the device.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    fn start_direct(&mut self, now: Nanos, id: usize) {
        let Running { call, .. } = self.calls[id];
        let Action::Access { op, file, offset, bytes, .. } = call.action else { return self.end(now, id) };
        let Some(on_device) = self.files.get(file as usize) else { return self.end(now, id) };
        let (first, sectors) = sectors_of(offset, bytes);
        for (lba, sectors) in on_device.pieces(first, sectors) {
            let (arrival, stream, priority) = (call.arrival, call.stream, call.priority);
            let sectors = sectors as u32;
            self.calls[id].open += 1;
            self.queue.admit(now, Issue { arrival, lba, sectors, op, sync: true, stream, priority, token: id as u64 });
        }
        if self.calls[id].open == 0 {
            self.end(now, id);
        }
    }

    /// The call ends at `at`.
    fn end(&mut self, at: Nanos, id: usize) {
        self.ended += 1;
        self.ending.push(Reverse((at, self.ended, id)));
    }

    /// Stands for a call where requests are counted: its first sector on the device, and how many it moved.
    fn representative(&self, call: &Call) -> Issue {
        let (op, file, offset, bytes) = match call.action {
            Action::Access { op, file, offset, bytes, .. } => (op, file, offset, bytes),
            Action::Sync { file } => (Op::Write, file, 0, 0),
        };
        let (first, sectors) = sectors_of(offset, bytes);
        let sync = !matches!(call.action, Action::Access { op: Op::Write, access: Access::Buffered, .. });
        Issue {
            arrival: call.arrival,
            lba: self.lba(file, first),
            sectors: sectors as u32,
            op,
            sync,
            stream: call.stream,
            priority: call.priority,
            token: call.token,
        }
    }

    fn lba(&self, file: FileId, sector: u64) -> u64 {
        self.files.get(file as usize).and_then(|file: &File| file.pieces(sector, 1).next()).map_or(0, |(lba, _)| lba)
    }
}

/// The sectors that a piece of a file touches: (first, how many).
fn sectors_of(offset: u64, bytes: u32) -> (u64, u64) {
    let first = offset / 512;
    (first, offset.saturating_add(u64::from(bytes)).div_ceil(512) - first)
}

impl Server for Host {
    type Work = Call;

    fn has_room(&self) -> bool {
        self.calls.len() < CALLS && self.queue.has_room()
    }

    fn admit(&mut self, now: Nanos, call: Call) {
        let id = self.calls.insert(Running { call, open: 0, dispatched: now });
        self.start_direct(now, id);
    }

    fn next_event(&self) -> Option<Nanos> {
        let ending = self.ending.peek().map(|Reverse((at, ..))| *at);
        [self.queue.next_event(), ending].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        let mut done = std::mem::take(&mut self.done);
        self.queue.advance(now, &mut done);
        for piece in done.drain(..) {
            let id = piece.issue.token as usize;
            let running = &mut self.calls[id];
            running.open -= 1;
            running.dispatched = piece.dispatched;
            if running.open == 0 {
                self.end(piece.at, id);
            }
        }
        self.done = done;
        while let Some(&Reverse((at, _, id))) = self.ending.peek()
            && at <= now
        {
            self.ending.pop();
            let running = self.calls.remove(id);
            finished.push(Finished { issue: self.representative(&running.call), dispatched: running.dispatched, at });
        }
    }

    fn dispatch(&mut self, now: Nanos) {
        self.queue.dispatch(now);
    }

    fn is_at_leisure(&self) -> bool {
        self.calls.is_empty()
    }
}
