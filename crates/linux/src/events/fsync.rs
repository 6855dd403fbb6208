//! Calls of fsync on a live file system.

use std::collections::BTreeMap;

use block::{Nanos, Op, StreamId};
use observe::Event;

/// Maximum number of processes in a call.
const MOST_CALLS: usize = 16_384;

/// Processes in a call of fsync, with the time of the call.
#[derive(Default)]
pub(super) struct FsyncCalls(BTreeMap<StreamId, Nanos>);

impl FsyncCalls {
    /// A process calls fsync.
    pub(super) fn called(&mut self, stream: StreamId, at: Nanos, out: &mut Vec<Event>) {
        // The return of an earlier call was lost: it is reported as a call other than fsync, because its duration is unknown.
        let over = |stream, called| Event::Returned { stream, op: Op::Read, bytes: 0, called, at };
        if self.0.len() >= MOST_CALLS {
            out.extend(std::mem::take(&mut self.0).into_iter().map(|(stream, called)| over(stream, called)));
        }
        out.extend(self.0.insert(stream, at).map(|called| over(stream, called)));
        out.push(Event::Called { stream, at });
    }

    /// Its call returns.
    pub(super) fn returned(&mut self, stream: StreamId, at: Nanos, out: &mut Vec<Event>) {
        if let Some(called) = self.0.remove(&stream) {
            out.push(Event::Returned { stream, op: Op::Write, bytes: 0, called, at });
        }
    }
}
