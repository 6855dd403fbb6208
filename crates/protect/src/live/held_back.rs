//! Requests throttled by `io.max`: a kernel worker submits them later, so their process is unknown.
//!
//! They belong to a cgroup with a limit. If there are several, a request is charged to the cgroup with the largest deficit: bytes counted by the
//! kernel for the cgroup (`io.stat`) minus bytes observed of its own processes or already charged to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use block::{Nanos, Request, StreamId};
use linux::cgroups::Transferred;
use observe::Event;

/// Maximum outstanding requests tracked. Choice: bounds the memory after lost completions; the maximum of a queue of NVMe (`CAP.MQES`);
/// not varied.
const MAX_UNDER_WAY: usize = 65_536;

/// Identifies an outstanding request.
type Key = (StreamId, u64, Nanos);

fn key(request: &Request) -> Key {
    (request.stream, request.lba, request.arrival)
}

#[derive(Debug, Default)]
struct Account {
    /// Last byte count of the kernel; `None` before the first reading.
    counted: Option<u64>,
    /// Bytes counted by the kernel minus bytes charged.
    owed: i64,
}

/// Charges throttled requests to members.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// Members with a limit, by number.
    accounts: BTreeMap<usize, Account>,
    under_way: BTreeMap<Key, usize>,
}

impl HeldBack {
    /// Reads the counters of the members with a limit, given as number and cgroup folder. `device` is major and minor number, such as `8:0`.
    pub(super) fn look(&mut self, limited: &[(usize, PathBuf)], device: &str) {
        self.accounts.retain(|member, _| limited.iter().any(|(number, _)| number == member));
        for (member, folder) in limited {
            let account = self.accounts.entry(*member).or_default();
            // A single member needs no accounting.
            if limited.len() > 1
                && let Some(all) = Transferred::of(&fs::read_to_string(folder.join("io.stat")).unwrap_or_default(), device)
            {
                let bytes = all.read + all.written;
                account.owed += account.counted.map_or(0, |before| bytes.saturating_sub(before) as i64);
                account.counted = Some(bytes);
            }
        }
    }

    /// Records a request submitted by a process of the member.
    pub(super) fn sent_itself(&mut self, member: usize, event: &Event) {
        if let (Event::Queued(request), Some(account)) = (event, self.accounts.get_mut(&member)) {
            account.owed -= i64::from(request.sectors) * 512;
        }
    }

    /// The member to charge for a worker's event; `None` if no member has a limit.
    pub(super) fn member(&mut self, event: &Event) -> Option<usize> {
        match event {
            Event::Queued(request) => {
                let (&member, account) = self.accounts.iter_mut().max_by_key(|(_, account)| account.owed)?;
                account.owed -= i64::from(request.sectors) * 512;
                if self.under_way.len() >= MAX_UNDER_WAY {
                    self.under_way.clear();
                }
                self.under_way.insert(key(request), member);
                Some(member)
            }
            Event::Completed { request, .. } => self.under_way.remove(&key(request)),
            Event::Flushed { .. } | Event::Called { .. } | Event::Returned { .. } => None,
        }
    }

    /// Resets all accounts after the members have changed.
    pub(super) fn forget(&mut self) {
        *self = HeldBack::default();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use block::{Op, Priority};

    use super::*;

    fn request(lba: u64, sectors: u32) -> Request {
        let arrival = Nanos(lba);
        Request {
            id: Default::default(),
            stream: 9,
            op: Op::Write,
            sync: false,
            priority: Priority::default(),
            sectors,
            lba,
            arrival,
        }
    }

    #[test]
    fn a_request_is_charged_to_the_limited_cgroup_that_is_owed_most_and_its_completion_too() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        let write = |name: &str, bytes: u64| {
            fs::create_dir_all(place(name)).unwrap();
            let text = format!("8:16 rbytes=9 wbytes=9\n8:0 rbytes=0 wbytes={bytes} rios=0 wios=1 dbytes=0 dios=0\n");
            fs::write(place(name).join("io.stat"), text).unwrap();
        };
        let limited = [(1, place("a")), (2, place("b"))];
        let mut held_back = HeldBack::default();
        assert_eq!(held_back.member(&Event::Queued(request(0, 8))), None, "none is limited");
        ["a", "b"].iter().for_each(|name| write(name, 1_000_000));
        held_back.look(&limited, "8:0");
        write("a", 1_004_096);
        write("b", 1_016_384);
        held_back.look(&limited, "8:0");
        // Half of the second member's bytes were observed.
        held_back.sent_itself(2, &Event::Queued(request(5, 16)));
        let first = Event::Queued(request(10, 8));
        let members: Vec<_> = [first, Event::Queued(request(20, 8)), Event::Queued(request(30, 8))]
            .iter()
            .map(|event| held_back.member(event))
            .collect();
        let mut sorted = members.clone();
        sorted.sort();
        assert_eq!(members[0], Some(2));
        assert_eq!(sorted, [Some(1), Some(2), Some(2)]);
        let completed = |request| Event::Completed { request, dispatched: Nanos(0), at: Nanos(99) };
        assert_eq!(held_back.member(&completed(request(10, 8))), Some(2));
        assert_eq!(held_back.member(&completed(request(10, 8))), None, "once");
        held_back.look(&limited[..1], "8:0");
        assert_eq!(held_back.member(&Event::Queued(request(40, 8))), Some(1), "the only one");
    }
}
