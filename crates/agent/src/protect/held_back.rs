//! Requests that `io.max` had held back: a worker of the kernel sends them, so that their process is not known any more.
//!
//! They belong to one of the cgroups with a limit. Where there are several, each request is charged to the one that is owed most: the bytes that
//! the kernel counts for the cgroup (`io.stat`), less those that were seen of its own processes or charged to it.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use block::{Nanos, Request, StreamId};
use linux::cgroups::Transferred;
use observe::Event;

/// Requests under way that are remembered at most; a device has fewer.
const MAX_UNDER_WAY: usize = 65_536;

/// What identifies a request while it is under way.
type Key = (StreamId, u64, Nanos);

fn key(request: &Request) -> Key {
    (request.stream, request.lba, request.arrival)
}

#[derive(Debug, Default)]
struct Account {
    /// The kernel's count of bytes at the last look; `None` before the first.
    counted: Option<u64>,
    /// Bytes that the kernel counted, without those of requests that were charged to it.
    owed: i64,
}

/// Who is charged for requests that were held back.
#[derive(Debug, Default)]
pub(super) struct HeldBack {
    /// Members with a limit, by number.
    accounts: BTreeMap<usize, Account>,
    under_way: BTreeMap<Key, usize>,
}

impl HeldBack {
    /// Looks at the counts of the members with a limit: number, and folder of the cgroup. The device is named as in `8:0`.
    pub(super) fn look(&mut self, limited: &[(usize, PathBuf)], device: &str) {
        self.accounts.retain(|member, _| limited.iter().any(|(number, _)| number == member));
        for (member, folder) in limited {
            let account = self.accounts.entry(*member).or_default();
            // Of one alone nothing has to be known.
            if limited.len() > 1
                && let Some(all) = Transferred::of(&fs::read_to_string(folder.join("io.stat")).unwrap_or_default(), device)
            {
                let bytes = all.read + all.written;
                account.owed += account.counted.map_or(0, |before| bytes.saturating_sub(before) as i64);
                account.counted = Some(bytes);
            }
        }
    }

    /// A request of the member's own process.
    pub(super) fn sent_itself(&mut self, member: usize, event: &Event) {
        if let (Event::Queued(request), Some(account)) = (event, self.accounts.get_mut(&member)) {
            account.owed -= i64::from(request.sectors) * 512;
        }
    }

    /// The member to which a worker's event belongs; `None` if there is none.
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

    /// The members are others now.
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
        // The half of what the second one is owed was seen.
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
