//! Counts the part of read-ahead that processes use.
//!
//! ```text
//! 128 KiB   1,024 KiB       1,024 KiB       500 KiB: less than before, so the file ends there
//! ├──────┤├──────────────┤├──────────────┤├───────┤
//!         the next one is read when the process reaches this one: so it has used all of the one before
//! ```
//! Linux reads the next part of a file when a process reaches the last part that was read ahead (`mm/readahead.c`). At the end of a run, the
//! last part, or some of it, was read in vain and must not count as throughput. So the first 128 KiB of a read count, which are read also with
//! the default setting, and the rest only if the run continues, or ends with the file. Runs are tracked by their location on the device, as
//! several processes may read one file in turn.

use block::{READ_AHEAD_SECTORS, Request};

use crate::event::SECTOR_BYTES;

/// Size of the table of runs' ends; a new end replaces the old one in its slot. Choice: more cost memory, fewer forget runs of files that
/// are read at the same time; not varied.
const ENDS: usize = 512;

/// The end of a run.
#[derive(Clone, Copy, Debug, Default)]
struct End {
    /// The first sector after the last read; 0: none.
    lba: u64,
    sectors: u32,
    /// Sectors of the last read whose use is undecided.
    open: u32,
}

/// Tracks read-ahead. Does not allocate after construction.
#[derive(Clone, Debug)]
pub(super) struct Ahead {
    ends: Box<[End; ENDS]>,
    /// Sectors used, and read-ahead requests completed, in this window.
    sectors: u64,
    requests: u64,
}

/// Read-ahead that was used in a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Used {
    /// Bytes.
    pub bytes: u64,
    /// The number of requests that this would have been in units of 128 KiB, minus the actual number.
    pub more_requests: u64,
}

impl Ahead {
    pub fn new() -> Ahead {
        Ahead { ends: Box::new([End::default(); ENDS]), sectors: 0, requests: 0 }
    }

    pub fn queued(&mut self, request: &Request) {
        if !request.is_read_ahead() {
            return;
        }
        let mut open = request.sectors - sure(request);
        let before = &mut self.ends[place(request.lba)];
        if before.lba == request.lba && before.lba > 0 {
            self.sectors += u64::from(before.open);
            if request.sectors < before.sectors {
                self.sectors += u64::from(std::mem::take(&mut open));
            }
            *before = End::default();
        }
        let end = request.end();
        self.ends[place(end)] = End { lba: end, sectors: request.sectors, open };
    }

    /// Counts a completed request if it was read ahead; false if it was not.
    pub fn completed(&mut self, request: &Request) -> bool {
        if request.is_read_ahead() {
            self.sectors += u64::from(sure(request));
            self.requests += 1;
        }
        request.is_read_ahead()
    }

    /// Ends the window.
    pub fn close(&mut self) -> Used {
        let (sectors, requests) = (std::mem::take(&mut self.sectors), std::mem::take(&mut self.requests));
        let more_requests = (sectors / u64::from(READ_AHEAD_SECTORS)).saturating_sub(requests);
        Used { bytes: sectors * u64::from(SECTOR_BYTES), more_requests }
    }
}

/// Sectors that always count, as they are read under any setting.
fn sure(request: &Request) -> u32 {
    request.sectors.min(READ_AHEAD_SECTORS)
}

/// The slot of a run that ends before this sector. Runs begin and end at pages; Fibonacci hashing spreads regular patterns.
fn place(lba: u64) -> usize {
    ((lba >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - ENDS.ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use block::{Nanos, Op, Priority};

    use super::*;

    /// Consecutive reads of these sizes in KiB, starting at a sector.
    fn run(ahead: &mut Ahead, mut lba: u64, kib: &[u32]) {
        for kib in kib {
            let (op, priority, sectors) = (Op::Read, Priority::DEFAULT, 2 * kib);
            let request = Request { id: 0, stream: 1, op, sync: false, priority, sectors, lba, arrival: Nanos::ZERO };
            ahead.queued(&request);
            assert!(ahead.completed(&request));
            lba = request.end();
        }
    }

    fn came_to(kib: &[u32]) -> (u64, u64) {
        let mut ahead = Ahead::new();
        run(&mut ahead, 800, kib);
        let Used { bytes, more_requests } = ahead.close();
        (bytes >> 10, more_requests)
    }

    #[test]
    fn read_ahead_counts_as_used_if_the_run_continues() {
        assert_eq!(came_to(&[128, 128, 128]), (384, 0));
        assert_eq!(came_to(&[1024, 1024, 1024]), (2 * 1024 + 128, 14));
        assert_eq!(came_to(&[16, 64, 128]), (208, 0), "small reads are requests as they are");
    }

    #[test]
    fn only_the_usual_read_ahead_counts_of_unused_one() {
        assert_eq!(came_to(&[1024]), (128, 0));
        let mut ahead = Ahead::new();
        (0..50).for_each(|number| run(&mut ahead, 1 + 100_000 * number, &[1024]));
        assert_eq!(ahead.close(), Used { bytes: 50 << 17, more_requests: 0 });
    }

    #[test]
    fn the_end_of_a_file_counts_as_used() {
        assert_eq!(came_to(&[128, 512, 1024, 500]), (128 + 512 + 1024 + 500, 12));
    }

    #[test]
    fn runs_of_many_files_do_not_disturb_each_other_nor_other_reads() {
        let mut ahead = Ahead::new();
        for part in 0..4 {
            (0..40).for_each(|file| run(&mut ahead, 8 * (1 + 1_000_003 * file) + 2048 * part, &[1024]));
        }
        let whole = 40 * (3 * 1024 + 128);
        let came = ahead.close().bytes >> 10;
        // Two of them may have the same slot.
        assert!(came <= whole && came * 20 >= whole * 19, "{came} of {whole}");
        let plain = Request {
            id: 0,
            stream: 1,
            op: Op::Read,
            sync: true,
            priority: Priority::DEFAULT,
            sectors: 2048,
            lba: 0,
            arrival: Nanos::ZERO,
        };
        ahead.queued(&plain);
        assert!(!ahead.completed(&plain) && ahead.close().bytes == 0);
    }
}
