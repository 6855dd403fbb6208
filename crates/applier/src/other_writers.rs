//! Observes other processes that write to one of the kernel's settings at the same time.
//!
//! The kernel has no compare-and-set for its settings, and a scheduler switch takes long: it waits until all requests are done. The value
//! of a process that wrote just before only shows then, and the agent's write, queued behind it, would overwrite it unnoticed. inotify
//! reports each open, write and close of the file.

use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

/// Maximum time to wait for a writer: longer than a busy disk needs for its requests in flight.
const MAX_WAIT: Duration = Duration::from_secs(5);
/// Interval of checks while waiting.
const POLL_INTERVAL: Duration = Duration::from_micros(200);
/// Time without events after which a file counts as closed: a process that opened it to write does so at once, and is then only delayed by
/// the kernel's own lock, on which a reader of the value waits, too.
const QUIET: Duration = Duration::from_millis(50);
/// Space for events of about 100 openings; the kernel keeps more for the next read.
const BUFFER_BYTES: usize = 8192;

/// A watch of one file. The caller must not have the file open during calls.
pub struct OtherWriters {
    events: OwnedFd,
    /// Number of openings minus closings.
    open: i64,
    /// Number of writes since [`wait`](OtherWriters::wait) last returned.
    writes: u32,
    is_gone: bool,
}

impl OtherWriters {
    /// Starts to watch a file.
    ///
    /// # Errors
    /// There is no such file, or too many watches.
    pub fn of(path: &Path) -> io::Result<OtherWriters> {
        let events = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let flags = WatchFlags::OPEN | WatchFlags::MODIFY | WatchFlags::CLOSE_WRITE | WatchFlags::CLOSE_NOWRITE;
        inotify::add_watch(&events, path, flags)?;
        Ok(OtherWriters { events, open: 0, writes: 0, is_gone: false })
    }

    /// Whether the file no longer exists; the watch is then void.
    pub fn is_gone(&mut self) -> bool {
        self.follow();
        self.is_gone
    }

    /// Waits until no process has the file open, up to a few seconds. Returns the number of writes since the last call; opening a file to
    /// replace its content, as a shell does, counts as one as well.
    pub fn wait(&mut self) -> u32 {
        let began = Instant::now();
        loop {
            self.follow();
            if self.open <= 0 || self.is_gone || began.elapsed() > MAX_WAIT {
                break;
            }
            thread::sleep(POLL_INTERVAL);
        }
        // The kernel merges equal events, so the count may be wrong and is reset.
        self.open = 0;
        std::mem::take(&mut self.writes)
    }

    /// Like [`wait`](OtherWriters::wait), and then until the file has had no events for a while: inotify merges the openings of two
    /// processes if there is no other event between them, so a writer that has opened the file but not written yet may be missed.
    pub fn wait_until_quiet(&mut self) -> u32 {
        let began = Instant::now();
        let (mut writes, mut quiet_since) = (self.wait(), Instant::now());
        while quiet_since.elapsed() < QUIET && !self.is_gone && began.elapsed() < MAX_WAIT {
            thread::sleep(POLL_INTERVAL);
            if self.follow() {
                writes += self.wait();
                quiet_since = Instant::now();
            }
        }
        writes
    }

    /// Processes the events since the last call. Returns whether there were any. inotify merges consecutive equal events, so frequent calls
    /// lose less.
    pub fn follow(&mut self) -> bool {
        let mut is_any = false;
        let mut buffer = [MaybeUninit::uninit(); BUFFER_BYTES];
        let mut reader = Reader::new(&self.events, &mut buffer);
        loop {
            let flags = match reader.next() {
                Ok(event) => event.events(),
                Err(Errno::INTR) => continue,
                // No more events; on other errors the counts stay as they are.
                Err(_) => return is_any,
            };
            is_any = true;
            self.open += i64::from(flags.contains(ReadFlags::OPEN));
            self.open -= i64::from(flags.intersects(ReadFlags::CLOSE_WRITE | ReadFlags::CLOSE_NOWRITE));
            self.writes += u32::from(flags.contains(ReadFlags::MODIFY));
            self.is_gone |= flags.contains(ReadFlags::IGNORED);
            // For a file that was open before the watch started, only the close is reported.
            self.open = self.open.max(0);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use std::fs::{self, OpenOptions};
    use std::io::Write as _;

    use super::*;

    #[test]
    fn a_writer_that_has_the_file_open_is_waited_for_and_its_write_is_counted() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut others = OtherWriters::of(file.path()).unwrap();
        others.wait();
        fs::read(file.path()).unwrap();
        OpenOptions::new().write(true).open(file.path()).unwrap().write_all(b"ours").unwrap();
        assert_eq!(others.wait(), 1);
        let mut theirs = OpenOptions::new().write(true).open(file.path()).unwrap();
        let began = Instant::now();
        let writing = thread::spawn(move || {
            thread::sleep(Duration::from_millis(50));
            theirs.write_all(b"theirs").unwrap();
        });
        assert_eq!(others.wait(), 1);
        assert!(began.elapsed() >= Duration::from_millis(50) && began.elapsed() < MAX_WAIT, "{:?}", began.elapsed());
        assert_eq!(fs::read(file.path()).unwrap(), b"theirs");
        writing.join().unwrap();
        assert_eq!(others.wait(), 0);
        assert!(!others.is_gone());
        drop(file);
        assert!(others.is_gone());
    }

    #[test]
    fn a_writer_with_an_opening_merged_with_that_of_a_reader_is_waited_for() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut others = OtherWriters::of(file.path()).unwrap();
        others.wait();
        // Two openings that inotify merges, and one close.
        let mut theirs = OpenOptions::new().write(true).open(file.path()).unwrap();
        drop(fs::File::open(file.path()).unwrap());
        assert_eq!(others.wait(), 0);
        let writing = thread::spawn(move || {
            thread::sleep(QUIET / 5);
            theirs.write_all(b"theirs").unwrap();
        });
        assert_eq!(others.wait_until_quiet(), 1);
        assert_eq!(fs::read(file.path()).unwrap(), b"theirs");
        writing.join().unwrap();
    }
}
