//! Which member a process belongs to, by its cgroup.

use std::collections::BTreeMap;
use std::path::PathBuf;

use block::{Nanos, StreamId};
use observe::Event;

use super::members::{Members, OTHERS};

/// A process may be moved to another cgroup, and its number may be given to another process.
const KNOWN_FOR: Nanos = Nanos::from_millis(5_000);
/// Processes that are remembered at most: more have ended long ago.
const MAX_PROCESSES: usize = 16_384;

/// The stream of an event.
pub(super) fn of(event: &Event) -> StreamId {
    match event {
        Event::Queued(request) | Event::Completed { request, .. } => request.stream,
        Event::Flushed { stream, .. } | Event::Called { stream, .. } | Event::Returned { stream, .. } => *stream,
    }
}

/// Processes and their members.
pub(super) struct Streams {
    proc: PathBuf,
    /// The member, and when that was looked up.
    known: BTreeMap<StreamId, (usize, Nanos)>,
}

impl Streams {
    pub(super) fn new(proc: PathBuf) -> Streams {
        Streams { proc, known: BTreeMap::new() }
    }

    /// The members are others now.
    pub(super) fn forget(&mut self) {
        self.known.clear();
    }

    /// The member of a process. One that has ended stays where it was; one that was never seen is none of the members'.
    pub(super) fn member(&mut self, now: Nanos, stream: StreamId, members: &Members) -> usize {
        let before = self.known.get(&stream).copied();
        if let Some((member, _)) = before.filter(|(_, at)| *at + KNOWN_FOR > now) {
            return member;
        }
        let found = self.cgroup(stream).map(|path| members.of(&path));
        let member = found.or(before.map(|(member, _)| member)).unwrap_or(OTHERS);
        if self.known.len() >= MAX_PROCESSES {
            self.known.clear();
        }
        self.known.insert(stream, (member, now));
        member
    }

    /// The path of the cgroup of a process in the unified hierarchy; `None` if it has ended.
    fn cgroup(&self, stream: StreamId) -> Option<String> {
        let text = std::fs::read_to_string(self.proc.join(stream.to_string()).join("cgroup")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("0::")).map(str::to_owned)
    }
}
