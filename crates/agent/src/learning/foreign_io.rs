//! Real work: what the device is asked that is not of a load of ours.
//!
//! * A read is synchronous work: it counts at once.
//! * Writes count where they are more than what a system that does nothing writes by the way: its logs, and times in its filesystems.
//! * The kernel's threads write on behalf of others, who are not known then. Loads of ours never write through the page cache, but the times
//!   of the scratch file change, and a journal is written for that.

use block::{Nanos, Op, StreamId};
use observe::Event;

/// So long a time is looked at.
const SPAN: Nanos = Nanos(1_000_000_000);
/// Writes of programs in that time that are no work yet: a log that is flushed.
const WRITES: u32 = 8;
const WRITTEN_BYTES: u64 = 256 << 10;
/// What the kernel's threads may write in that time: the journal and the inodes of a filesystem that is hardly used.
const KERNEL_BYTES: u64 = 1 << 20;
/// What the names of the kernel's threads that reach disks begin with.
const KERNEL: [&str; 8] = ["kworker/", "jbd2/", "xfsaild/", "xfs-", "btrfs-", "ext4lazyinit", "kswapd", "f2fs_"];
/// The agent and its applier, whose name the kernel cuts at 15 characters: the journal and the history may be on the same disk.
const OURS: [&str; 2] = ["seekwise-agent", "seekwise-applie"];

/// A process that issued requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Who.
    pub stream: StreamId,
    /// Whether it reads.
    pub is_read: bool,
}

impl Work {
    /// In words, as in `postgres (40) reads`.
    pub fn text(&self, name: Option<&str>) -> String {
        format!("{} ({}) {}", name.unwrap_or("a process"), self.stream, if self.is_read { "reads" } else { "writes" })
    }
}

/// Looks for real work.
#[derive(Clone, Debug, Default)]
pub struct ForeignIo {
    began: Nanos,
    writes: u32,
    bytes: u64,
    kernel_bytes: u64,
}

impl ForeignIo {
    /// What real work this event shows, if it does. `name` is that of the program, and `is_ours` says whether a load of ours asks as this
    /// process.
    pub fn look<'a>(
        &mut self,
        event: &Event,
        name: impl Fn(StreamId) -> Option<&'a str>,
        mut is_ours: impl FnMut(StreamId) -> bool,
    ) -> Option<Work> {
        let Event::Queued(request) = event else { return None };
        if is_ours(request.stream) {
            return None;
        }
        let name = name(request.stream).unwrap_or("?");
        if OURS.iter().any(|own| name.starts_with(own)) {
            return None;
        }
        if request.arrival - self.began >= SPAN {
            *self = ForeignIo { began: request.arrival, ..ForeignIo::default() };
        }
        let is_kernel = KERNEL.iter().any(|known| name.starts_with(known));
        let bytes = u64::from(request.sectors) * 512;
        let is_work = match request.op {
            Op::Read => true,
            _ if is_kernel => {
                self.kernel_bytes += bytes;
                self.kernel_bytes > KERNEL_BYTES
            }
            _ => {
                (self.writes, self.bytes) = (self.writes + 1, self.bytes + bytes);
                self.writes > WRITES || self.bytes > WRITTEN_BYTES
            }
        };
        is_work.then_some(Work { stream: request.stream, is_read: request.op == Op::Read })
    }
}

#[cfg(test)]
mod tests {
    use block::{Priority, Request};

    use super::*;

    fn asks(strangers: &mut ForeignIo, at_ms: u64, op: Op, kib: u32, name: &'static str) -> Option<Work> {
        let (sync, priority) = (true, Priority::DEFAULT);
        let arrival = Nanos::from_millis(at_ms);
        let request = Request { id: 0, stream: 40, op, sync, priority, sectors: 2 * kib, lba: 0, arrival };
        strangers.look(&Event::Queued(request), |_| Some(name), |stream| stream == 7)
    }

    #[test]
    fn a_read_of_another_process_is_work_at_once() {
        let mut strangers = ForeignIo::default();
        let work = asks(&mut strangers, 0, Op::Read, 4, "postgres").unwrap();
        assert_eq!(work.text(Some("postgres")), "postgres (40) reads");
        assert!(asks(&mut strangers, 0, Op::Read, 4, "kworker/u8:1").is_some(), "a thread reads for somebody as well");
    }

    #[test]
    fn a_log_that_is_written_by_the_way_is_no_work_and_a_file_that_is_copied_is() {
        let mut strangers = ForeignIo::default();
        for second in 0..60 {
            assert_eq!(asks(&mut strangers, 1_000 * second, Op::Write, 64, "systemd-journal"), None);
            assert_eq!(asks(&mut strangers, 1_000 * second + 500, Op::Write, 16, "systemd-journal"), None);
            assert_eq!(asks(&mut strangers, 1_000 * second + 900, Op::Write, 512, "jbd2/sda1-8"), None);
        }
        let mut copy = ForeignIo::default();
        assert!(asks(&mut copy, 0, Op::Write, 512, "cp").is_some());
        let mut small = ForeignIo::default();
        let first = (0..20).find(|number| asks(&mut small, 20 * number, Op::Write, 4, "mariadbd").is_some());
        assert_eq!(first, Some(8), "small ones are work when there are many");
    }

    #[test]
    fn write_back_is_work_when_there_is_much_of_it() {
        let mut strangers = ForeignIo::default();
        let first = (0..20).find(|number| asks(&mut strangers, 10 * number, Op::Write, 256, "kworker/u8:1").is_some());
        assert_eq!(first, Some(4));
    }

    #[test]
    fn the_load_and_the_agent_are_no_strangers() {
        let mut strangers = ForeignIo::default();
        assert_eq!(asks(&mut strangers, 0, Op::Read, 4, "seekwise-agent"), None);
        assert_eq!(asks(&mut strangers, 0, Op::Read, 4, "seekwise-applie"), None);
        let look = |strangers: &mut ForeignIo, stream| {
            let priority = Priority::DEFAULT;
            let request = Request { id: 0, stream, op: Op::Read, sync: true, priority, sectors: 8, lba: 0, arrival: Nanos::ZERO };
            strangers.look(&Event::Queued(request), |_| Some("fio"), |stream| stream == 7)
        };
        assert_eq!(look(&mut strangers, 7), None);
        assert!(look(&mut strangers, 8).is_some(), "another fio is");
    }
}
