//! Events in the kernel's format, for tests: the layouts of Linux 6.18.

use super::page::writing::Page;
use applier::trace::Formats;

const HEADER_PAGE: &str = "	field: u64 timestamp;	offset:0;	size:8;	signed:0;
	field: local_t commit;	offset:8;	size:8;	signed:1;
	field: int overwrite;	offset:8;	size:1;	signed:1;
	field: char data;	offset:16;	size:4080;	signed:0;
";

const COMMON: &str = "format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:sector_t sector;	offset:16;	size:8;	signed:0;
	field:unsigned int nr_sector;	offset:24;	size:4;	signed:0;
";

const QUEUE: &str = "	field:char rwbs[10];	offset:28;	size:10;	signed:0;
	field:char comm[16];	offset:38;	size:16;	signed:0;
";

const ISSUE: &str = "	field:unsigned int bytes;	offset:28;	size:4;	signed:0;
	field:unsigned short ioprio;	offset:32;	size:2;	signed:0;
	field:char rwbs[10];	offset:34;	size:10;	signed:0;
	field:char comm[16];	offset:44;	size:16;	signed:0;
	field:__data_loc char[] cmd;	offset:60;	size:4;	signed:0;
";

const COMPLETE: &str = "	field:int error;	offset:28;	size:4;	signed:1;
	field:unsigned short ioprio;	offset:32;	size:2;	signed:0;
	field:char rwbs[10];	offset:34;	size:10;	signed:0;
	field:__data_loc char[] cmd;	offset:44;	size:4;	signed:0;
";

const ANSWER: &str = "	field:int error;	offset:28;	size:4;	signed:1;
	field:char rwbs[10];	offset:32;	size:10;	signed:0;
";

const SYNC_COMMON: &str = "format:
	field:unsigned short common_type;	offset:0;	size:2;	signed:0;
	field:unsigned char common_flags;	offset:2;	size:1;	signed:0;
	field:unsigned char common_preempt_count;	offset:3;	size:1;	signed:0;
	field:int common_pid;	offset:4;	size:4;	signed:1;

	field:dev_t dev;	offset:8;	size:4;	signed:0;
	field:ino_t ino;	offset:16;	size:8;	signed:0;
";
/// Events of fsync: name and id.
const SYNC_CALLED: (&str, u16) = ("ext4_sync_file_enter", 1232);
const SYNC_RETURNED: (&str, u16) = ("ext4_sync_file_exit", 1231);

/// An event: name, id, rest of its description, offset of the letters and of the program's name.
type Layout = (&'static str, u16, &'static str, usize, Option<usize>);

const QUEUED: Layout = ("block_bio_queue", 2097, QUEUE, 28, Some(38));
const ISSUED: Layout = ("block_rq_issue", 2104, ISSUE, 34, Some(44));
const COMPLETED: Layout = ("block_rq_complete", 2107, COMPLETE, 34, None);
const ANSWERED: Layout = ("block_bio_complete", 2100, ANSWER, 32, None);

fn formats(layouts: &[Layout]) -> Formats {
    let event = |(name, id, rest, ..): &Layout| ((*name).to_owned(), format!("name: {name}\nID: {id}\n{COMMON}{rest}"));
    Formats { header_page: HEADER_PAGE.to_owned(), events: layouts.iter().map(event).collect() }
}

/// Formats for a disk with a queue.
pub(super) fn of_requests() -> Formats {
    formats(&[QUEUED, ISSUED, COMPLETED])
}

/// Formats for a disk with ext4.
pub(super) fn with_fsync() -> Formats {
    let mut formats = of_requests();
    let sync = [SYNC_CALLED, SYNC_RETURNED].map(|(name, id)| (name.to_owned(), format!("name: {name}\nID: {id}\n{SYNC_COMMON}")));
    formats.events.extend(sync);
    formats
}

/// Formats for a device without a queue.
pub(super) fn of_bios() -> Formats {
    formats(&[QUEUED, ANSWERED])
}

impl Page {
    /// A process issues a request.
    pub(super) fn queued(self, at: u64, letters: &str, (lba, sectors): (u64, u32), (process, program): (u32, &str)) -> Page {
        self.event(at, &event(QUEUED, letters, (lba, sectors), process, program))
    }

    /// A kernel worker sends a request to the driver.
    pub(super) fn issued(self, at: u64, letters: &str, extent: (u64, u32)) -> Page {
        self.event(at, &event(ISSUED, letters, extent, 9, "kworker/0:1H"))
    }

    /// The driver completes a request.
    pub(super) fn completed(self, at: u64, letters: &str, extent: (u64, u32)) -> Page {
        self.event(at, &event(COMPLETED, letters, extent, 14, ""))
    }

    /// A process calls fsync.
    pub(super) fn sync_called(self, at: u64, process: u32) -> Page {
        self.event(at, &event((SYNC_CALLED.0, SYNC_CALLED.1, "", 28, None), "", (0, 0), process, ""))
    }

    /// The call returns.
    pub(super) fn sync_returned(self, at: u64, process: u32) -> Page {
        self.event(at, &event((SYNC_RETURNED.0, SYNC_RETURNED.1, "", 28, None), "", (0, 0), process, ""))
    }

    /// A device without a queue completes a request.
    pub(super) fn answered(self, at: u64, letters: &str, extent: (u64, u32)) -> Page {
        self.event(at, &event(ANSWERED, letters, extent, 14, ""))
    }
}

fn event((_, id, _, rwbs, comm): Layout, letters: &str, (lba, sectors): (u64, u32), process: u32, program: &str) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    let mut put = |offset: usize, field: &[u8]| bytes[offset..offset + field.len()].copy_from_slice(field);
    put(0, &id.to_ne_bytes());
    put(4, &process.to_ne_bytes());
    put(8, &(7u32 << 20).to_ne_bytes());
    put(16, &lba.to_ne_bytes());
    put(24, &sectors.to_ne_bytes());
    put(rwbs, letters.as_bytes());
    if let Some(comm) = comm {
        put(comm, program.as_bytes());
    }
    bytes
}
