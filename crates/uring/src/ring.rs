//! A ring for one file: transfers in, completions out.

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use io_uring::types::{Fd, Fixed, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::Errno;
use slab::Slab;

use super::{Buffer, Buffers};

/// Token of the read of the waker's eventfd.
const WAKER: u64 = u64::MAX;
/// Index of the file in the ring's table.
const FILE: Fixed = Fixed(0);

/// A completed transfer or flush.
#[derive(Debug)]
pub struct Done {
    /// The caller's token.
    pub token: u64,
    /// An error unless all bytes were transferred.
    pub result: io::Result<()>,
    /// The buffers passed in.
    pub buffers: Buffers,
}

/// Wakes the thread in [`Ring::wait`], from any thread.
#[derive(Clone, Debug)]
pub struct Waker {
    event: Arc<OwnedFd>,
}

impl Waker {
    /// Ends the current wait, or else the next one.
    pub fn wake(&self) {
        // Fails only after 2^64 - 2 wake-ups without a wait.
        let _ = rustix::io::write(&*self.event, &1_u64.to_ne_bytes());
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RingOp {
    Read,
    Write,
    Flush,
}

/// A range of memory for `readv` (`struct iovec`).
#[repr(C)]
struct Part {
    base: *mut u8,
    length: usize,
}

/// A transfer in flight.
struct UnderWay {
    token: u64,
    kind: RingOp,
    offset: u64,
    /// The memory that they own does not move with this value.
    buffers: Buffers,
    /// Bytes transferred so far.
    done: usize,
    /// With more than one buffer: the remaining part of each.
    parts: Vec<Part>,
}

/// Transfers of one file. Only the thread that calls [`enable`](Ring::enable) may use it; others can wake it.
pub struct Ring {
    ring: IoUring,
    under_way: ManuallyDrop<Slab<UnderWay>>,
    done: Vec<Done>,
    waker: Waker,
    /// Target of the read of the waker's eventfd, and whether that read is in flight.
    heard: ManuallyDrop<Buffer>,
    listens: bool,
}

// SAFETY: its pointers are to memory that it owns, and the kernel's ring is used through `&mut self` only.
unsafe impl Send for Ring {}

impl Ring {
    /// A ring for a file, sized for `depth` transfers at once. More are accepted, at the cost of further system calls.
    ///
    /// # Errors
    /// The kernel has no io_uring or forbids it, or memory is short.
    pub fn new(depth: u32, file: &File) -> io::Result<Ring> {
        // One more for the waker.
        let entries = depth.clamp(1, 4095) + 1;
        let with = |is_deferred: bool| {
            let mut builder = IoUring::builder();
            builder.setup_r_disabled();
            if is_deferred {
                // Linux 6.1: completion work runs when this thread asks for completions, instead of interrupting it.
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            builder.build(entries)
        };
        let ring = with(true).or_else(|error| if error.raw_os_error() == Some(22) { with(false) } else { Err(error) })?;
        ring.submitter().register_files(&[file.as_raw_fd()])?;
        let event = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let heard = ManuallyDrop::new(Buffer::new(8));
        Ok(Ring {
            ring,
            under_way: ManuallyDrop::new(Slab::new()),
            done: Vec::new(),
            waker: Waker { event },
            heard,
            listens: false,
        })
    }

    /// Makes the calling thread the only user of the ring.
    ///
    /// # Errors
    /// The kernel refuses it.
    pub fn enable(&mut self) -> io::Result<()> {
        self.ring.submitter().register_enable_rings()
    }

    /// A waker for this ring's thread.
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// Number of transfers and flushes in flight.
    pub fn under_way(&self) -> usize {
        self.under_way.len()
    }

    /// Queues a read of the file from a byte offset on, into the buffers in order. It is submitted by the next [`wait`](Ring::wait) at the
    /// latest.
    pub fn read(&mut self, token: u64, offset: u64, buffers: Buffers) {
        self.begin(UnderWay { token, kind: RingOp::Read, offset, buffers, done: 0, parts: Vec::new() });
    }

    /// Queues a write of the buffers in order, at a byte offset. It is submitted by the next [`wait`](Ring::wait) at the latest.
    pub fn write(&mut self, token: u64, offset: u64, buffers: Buffers) {
        self.begin(UnderWay { token, kind: RingOp::Write, offset, buffers, done: 0, parts: Vec::new() });
    }

    /// Queues a flush, which makes data durable whose writes are complete (fdatasync).
    pub fn flush(&mut self, token: u64) {
        self.begin(UnderWay { token, kind: RingOp::Flush, offset: 0, buffers: Buffers::new(), done: 0, parts: Vec::new() });
    }

    fn begin(&mut self, under_way: UnderWay) {
        let key = self.under_way.insert(under_way);
        self.submit(key);
    }

    /// Queues the remaining part of a transfer.
    fn submit(&mut self, key: usize) {
        let UnderWay { kind, offset, buffers, done, parts, .. } = &mut self.under_way[key];
        let at = *offset + *done as u64;
        let entry = match (*kind, &mut buffers[..]) {
            (RingOp::Flush, _) => opcode::Fsync::new(FILE).flags(FsyncFlags::DATASYNC).build(),
            (RingOp::Read, [buffer]) => {
                let left = &mut buffer[*done..];
                opcode::Read::new(FILE, left.as_mut_ptr(), left.len() as u32).offset(at).build()
            }
            (RingOp::Write, [buffer]) => {
                let left = &buffer[*done..];
                opcode::Write::new(FILE, left.as_ptr(), left.len() as u32).offset(at).build()
            }
            (kind, buffers) => {
                parts.clear();
                let mut skipped = *done;
                for buffer in buffers {
                    let from = skipped.min(buffer.len());
                    skipped -= from;
                    let left = &mut buffer[from..];
                    if !left.is_empty() {
                        parts.push(Part { base: left.as_mut_ptr(), length: left.len() });
                    }
                }
                if kind == RingOp::Read {
                    opcode::Readv::new(FILE, parts.as_ptr().cast(), parts.len() as u32).offset(at).build()
                } else {
                    opcode::Writev::new(FILE, parts.as_ptr().cast(), parts.len() as u32).offset(at).build()
                }
            }
        };
        self.push(entry.user_data(key as u64));
    }

    /// Adds an entry to the submission queue. Memory that it names must be in `under_way` or `heard`.
    fn push(&mut self, entry: squeue::Entry) {
        loop {
            // SAFETY: the memory that the entry names is owned by this ring until the kernel is done with it: `under_way` is only taken
            // from on completion, `heard` never, and `drop` waits for all or leaks them.
            if unsafe { self.ring.submission().push(&entry) }.is_ok() {
                return;
            }
            // The queue is full: submit all of it. This fails only for lack of memory, which is temporary.
            if self.ring.submit().is_err() {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// Submits the queued transfers, and waits until one is complete, `timeout` expires (`None`: never) or the ring is woken. Returns at
    /// once if completed transfers have not been taken yet.
    ///
    /// # Errors
    /// The kernel failed; transfers stay in flight.
    pub fn wait(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        if !self.listens {
            let event = Fd(self.waker.event.as_raw_fd());
            let heard = self.heard.as_mut_ptr();
            self.push(opcode::Read::new(event, heard, 8).build().user_data(WAKER));
            self.listens = true;
        }
        let is_waiting = timeout != Some(Duration::ZERO) && self.done.is_empty();
        let result = match timeout {
            Some(timeout) if is_waiting => {
                let timespec = Timespec::from(timeout);
                self.ring.submitter().submit_with_args(1, &SubmitArgs::new().timespec(&timespec))
            }
            _ => self.ring.submit_and_wait(usize::from(is_waiting)),
        };
        self.reap();
        match result.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO)) {
            // Timeout; a signal; or a full completion queue, which has been drained.
            Ok(_) | Err(Errno::TIME | Errno::INTR | Errno::BUSY | Errno::AGAIN) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Takes completions from the kernel. Incomplete transfers are submitted again for the rest.
    fn reap(&mut self) {
        loop {
            let Some(entry) = self.ring.completion().next() else { return };
            let (key, result) = (entry.user_data(), entry.result());
            if key == WAKER {
                self.listens = false;
                continue;
            }
            let key = key as usize;
            let Some(under_way) = self.under_way.get_mut(key) else { continue };
            let length: usize = under_way.buffers.iter().map(|buffer| buffer.len()).sum();
            let result = match result {
                // EINTR and EAGAIN: nothing was transferred, retry.
                -4 | -11 => None,
                0 if under_way.done < length && under_way.kind == RingOp::Read => Some(Err(io::ErrorKind::UnexpectedEof.into())),
                0 if under_way.done < length => Some(Err(io::ErrorKind::WriteZero.into())),
                code if code < 0 => Some(Err(io::Error::from_raw_os_error(-code))),
                done => {
                    under_way.done += done as usize;
                    (under_way.done >= length).then_some(Ok(()))
                }
            };
            match result {
                Some(result) => {
                    let UnderWay { token, buffers, .. } = self.under_way.remove(key);
                    self.done.push(Done { token, result, buffers });
                }
                None => self.submit(key),
            }
        }
    }

    /// Takes the completed transfers, in order of completion.
    pub fn done(&mut self) -> impl Iterator<Item = Done> {
        self.done.drain(..)
    }
}

impl Drop for Ring {
    /// Waits for all transfers in flight, whose memory the kernel accesses.
    fn drop(&mut self) {
        self.waker.wake();
        while !self.under_way.is_empty() || self.listens {
            if self.ring.submit_and_wait(1).is_err_and(|error| error.kind() != io::ErrorKind::Interrupted) {
                // The kernel may access the memory at any later time, so it is leaked.
                return;
            }
            while let Some(entry) = self.ring.completion().next() {
                if entry.user_data() == WAKER {
                    self.listens = false;
                } else {
                    self.under_way.try_remove(entry.user_data() as usize);
                }
            }
        }
        // SAFETY: both are dropped here and nowhere else, and the kernel has neither.
        unsafe {
            ManuallyDrop::drop(&mut self.under_way);
            ManuallyDrop::drop(&mut self.heard);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt as _;
    use std::time::Instant;

    use super::*;

    fn ring(depth: u32, file: &File) -> Option<Ring> {
        match Ring::new(depth, file) {
            Ok(mut ring) => {
                ring.enable().unwrap();
                Some(ring)
            }
            Err(error) => {
                eprintln!("skipped: io_uring: {error}");
                None
            }
        }
    }

    fn buffer(length: usize, byte: u8) -> Buffer {
        let mut buffer = Buffer::new(length);
        buffer.fill(byte);
        buffer
    }

    fn all(ring: &mut Ring) -> Vec<Done> {
        let mut done = Vec::new();
        while ring.under_way() > 0 {
            ring.wait(Some(Duration::from_secs(10))).unwrap();
            done.extend(ring.done());
        }
        done.sort_by_key(|done| done.token);
        done
    }

    #[test]
    fn more_transfers_than_fit_are_all_done_each_with_its_own_buffers() {
        let file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(4, &file) else { return };
        for number in 0..100_u64 {
            ring.write(number, number * 8192, [buffer(4096, number as u8), buffer(4096, 100 + number as u8)].into_iter().collect());
        }
        assert!(all(&mut ring).iter().all(|done| done.result.is_ok()));
        ring.flush(7);
        assert!(all(&mut ring)[0].result.is_ok());
        for number in 0..100_u64 {
            ring.read(number, number * 8192 + 4096, [buffer(4096, 0)].into_iter().collect());
        }
        let done = all(&mut ring);
        assert_eq!(done.len(), 100);
        assert!(done.iter().all(|done| done.buffers[0].iter().all(|byte| *byte == 100 + done.token as u8)));
    }

    #[test]
    fn a_read_behind_the_end_fails_with_what_was_there_and_a_bad_one_with_the_kernels_error() {
        let file = tempfile::tempfile().unwrap();
        file.write_all_at(&[9; 6000], 0).unwrap();
        let Some(mut ring) = ring(2, &file) else { return };
        ring.read(1, 0, [buffer(4096, 0), buffer(4096, 0)].into_iter().collect());
        ring.read(2, u64::MAX / 2 + 1, [buffer(512, 0)].into_iter().collect());
        let done = all(&mut ring);
        assert_eq!(done[0].result.as_ref().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!((done[0].buffers[1][1903], done[0].buffers[1][1904]), (9, 0));
        assert_eq!(done[1].result.as_ref().unwrap_err().raw_os_error(), Some(22));
    }

    #[test]
    fn a_wait_ends_with_its_time_or_when_the_ring_is_woken() {
        let file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(2, &file) else { return };
        let begun = Instant::now();
        ring.wait(Some(Duration::from_millis(20))).unwrap();
        assert!(begun.elapsed() >= Duration::from_millis(20));
        for _ in 0..3 {
            let waker = ring.waker();
            let thread = std::thread::spawn(move || waker.wake());
            ring.wait(None).unwrap();
            thread.join().unwrap();
        }
    }

    #[test]
    fn a_ring_that_goes_waits_for_its_transfers() {
        let file = tempfile::tempfile().unwrap();
        let Some(mut ring) = ring(8, &file) else { return };
        for number in 0..8_u64 {
            ring.write(number, number << 20, [buffer(1 << 20, 5)].into_iter().collect());
        }
        drop(ring);
        let mut byte = [0];
        file.read_exact_at(&mut byte, (8 << 20) - 1).unwrap();
        assert_eq!(byte, [5]);
    }
}
