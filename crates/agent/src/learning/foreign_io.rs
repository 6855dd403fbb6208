//! Detects foreign I/O: requests to the device that do not come from the agent's own load.
//!
//! * A single read is foreign I/O.
//! * Writes are, if they exceed the background writes of an idle system: its logs, and timestamps in its filesystems.
//! * Kernel threads write on behalf of unknown processes. The agent's loads never write through the page cache, but the timestamps of the
//!   scratch file change, and the journal is written for that.

use block::{Nanos, Op, StreamId};
use observe::Event;

/// Period over which writes are counted. Choice: a shorter one misses slow writers, a longer one adds up logs; not varied.
const SPAN: Nanos = Nanos(1_000_000_000);
/// Writes of programs in a period that are background I/O: a log that is flushed. Choice: more overlook programs that flush each write,
/// fewer end lessons for a log; not varied.
const WRITES: u32 = 8;
/// Bytes of these writes. Choice: as [`WRITES`], 32 KiB each; not varied.
const WRITTEN_BYTES: u64 = 256 << 10;
/// Bytes that kernel threads may write in a period: journal and inodes of a nearly idle filesystem. Choice: more overlook write-back of
/// programs, less ends lessons for a journal; not varied.
const KERNEL_BYTES: u64 = 1 << 20;
/// Name prefixes of kernel threads that issue disk I/O. Source: the names given to threads in `kernel/workqueue.c`, `mm/vmscan.c`,
/// `fs/jbd2`, `fs/xfs`, `fs/btrfs`, `fs/ext4` and `fs/f2fs`.
const KERNEL: [&str; 8] = ["kworker/", "jbd2/", "xfsaild/", "xfs-", "btrfs-", "ext4lazyinit", "kswapd", "f2fs_"];
/// The agent and its applier, whose journal and history may be on the same disk. The kernel truncates names to 15 characters. Derived: the
/// names of the programs; `TASK_COMM_LEN` in `include/linux/sched.h` is 16.
const OURS: [&str; 2] = ["seekwise-agent", "seekwise-applie"];

/// A process with foreign I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignProcess {
    /// Its id.
    pub stream: StreamId,
    /// Whether it reads; else it writes.
    pub is_read: bool,
}

impl ForeignProcess {
    /// Text such as `postgres (40) reads`; `name` is the name of the program if it is known.
    pub fn text(&self, name: Option<&str>) -> String {
        format!("{} ({}) {}", name.unwrap_or("a process"), self.stream, if self.is_read { "reads" } else { "writes" })
    }
}

/// Detects foreign I/O in a stream of events.
#[derive(Clone, Debug, Default)]
pub struct ForeignIo {
    began: Nanos,
    writes: u32,
    bytes: u64,
    kernel_bytes: u64,
}

impl ForeignIo {
    /// The foreign I/O that this event reveals; `None` if it does not. `name` returns the name of a process, `is_ours` whether it belongs
    /// to the agent's load.
    pub fn look<'a>(
        &mut self,
        event: &Event,
        name: impl Fn(StreamId) -> Option<&'a str>,
        mut is_ours: impl FnMut(StreamId) -> bool,
    ) -> Option<ForeignProcess> {
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
        is_work.then_some(ForeignProcess { stream: request.stream, is_read: request.op == Op::Read })
    }
}

#[cfg(test)]
mod tests {
    use block::{Priority, Request};

    use super::*;

    fn asks(foreign: &mut ForeignIo, at_ms: u64, op: Op, kib: u32, name: &'static str) -> Option<ForeignProcess> {
        let (sync, priority) = (true, Priority::DEFAULT);
        let arrival = Nanos::from_millis(at_ms);
        let request = Request { id: 0, stream: 40, op, sync, priority, sectors: 2 * kib, lba: 0, arrival };
        foreign.look(&Event::Queued(request), |_| Some(name), |stream| stream == 7)
    }

    #[test]
    fn a_single_read_of_another_process_is_foreign_io() {
        let mut foreign = ForeignIo::default();
        let work = asks(&mut foreign, 0, Op::Read, 4, "postgres").unwrap();
        assert_eq!(work.text(Some("postgres")), "postgres (40) reads");
        assert!(asks(&mut foreign, 0, Op::Read, 4, "kworker/u8:1").is_some(), "kernel threads read for other processes too");
    }

    #[test]
    fn writing_a_log_is_background_io_and_copying_a_file_is_not() {
        let mut foreign = ForeignIo::default();
        for second in 0..60 {
            assert_eq!(asks(&mut foreign, 1_000 * second, Op::Write, 64, "systemd-journal"), None);
            assert_eq!(asks(&mut foreign, 1_000 * second + 500, Op::Write, 16, "systemd-journal"), None);
            assert_eq!(asks(&mut foreign, 1_000 * second + 900, Op::Write, 512, "jbd2/sda1-8"), None);
        }
        let mut copy = ForeignIo::default();
        assert!(asks(&mut copy, 0, Op::Write, 512, "cp").is_some());
        let mut small = ForeignIo::default();
        let first = (0..20).find(|number| asks(&mut small, 20 * number, Op::Write, 4, "mariadbd").is_some());
        assert_eq!(first, Some(8), "many small writes are foreign I/O");
    }

    #[test]
    fn much_write_back_is_foreign_io() {
        let mut foreign = ForeignIo::default();
        let first = (0..20).find(|number| asks(&mut foreign, 10 * number, Op::Write, 256, "kworker/u8:1").is_some());
        assert_eq!(first, Some(4));
    }

    #[test]
    fn the_load_and_the_agent_are_not_foreign() {
        let mut foreign = ForeignIo::default();
        assert_eq!(asks(&mut foreign, 0, Op::Read, 4, "seekwise-agent"), None);
        assert_eq!(asks(&mut foreign, 0, Op::Read, 4, "seekwise-applie"), None);
        let look = |foreign: &mut ForeignIo, stream| {
            let priority = Priority::DEFAULT;
            let request = Request { id: 0, stream, op: Op::Read, sync: true, priority, sectors: 8, lba: 0, arrival: Nanos::ZERO };
            foreign.look(&Event::Queued(request), |_| Some("fio"), |stream| stream == 7)
        };
        assert_eq!(look(&mut foreign, 7), None);
        assert!(look(&mut foreign, 8).is_some(), "another fio is");
    }
}
