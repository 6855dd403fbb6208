//! Runs fio as one child process, which is killed when this process dies.
//!
//! ```text
//! agent ─▶ /proc/self/exe generate ─▶ prctl(PR_SET_PDEATHSIG, SIGKILL) ─▶ exec fio, whose standard input is the scratch file
//! ```
//! Safe Rust cannot run code between fork and exec, so this program is started again to request the signal, which stays in effect across
//! exec because fio has no set-user-id bit or file capabilities. Only the scratch file is written: jobs are passed as arguments.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use block::StreamId;
use rustix::fs::{Advice, fadvise};
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::load::{Generator, Load, Place};

/// The hidden command of this program that executes fio. Choice: a verb for its effect; not varied.
pub const COMMAND: &str = "generate";
/// Timeout for fio's exit after SIGKILL: outstanding requests must complete first. Choice: above the half second that the outstanding
/// requests of a load take; not varied.
const EXIT_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum bytes of fio's output that are read. Choice: bounds the length of an error; not varied.
const MAX_OUTPUT_BYTES: u64 = 2_000;
/// Interval in which the scratch file is dropped from the page cache. Choice: a drop may lose one read-ahead (128 KiB) of each process, 1% of
/// the bytes that a hard disk reads in this time; a drive of 1 GB/s reads 100 MB; not varied.
const FORGET_INTERVAL: Duration = Duration::from_millis(100);

/// Runs one fio process at a time.
pub struct Fio {
    scratch: File,
    place: Place,
    /// `--runtime` of a load, in seconds.
    seconds: u64,
    child: Option<Child>,
    is_stopped: bool,
    /// When the page cache was last dropped; `None` for a load that does not use it.
    forgot: Option<Instant>,
    /// Process and thread ids of the current load.
    known: BTreeSet<StreamId>,
}

impl Fio {
    /// Loads for this file, within this place, that run for at most this many seconds.
    ///
    /// # Errors
    /// fio is not installed, or its version cannot be read.
    pub fn new(scratch: File, place: Place, seconds: u64) -> Result<Fio, String> {
        experiment::fio::version().map_err(|error| format!("{error:#}"))?;
        Ok(Fio { scratch, place, seconds, child: None, is_stopped: false, forgot: None, known: BTreeSet::new() })
    }

    /// Adds fio's current threads: they start one after the other, and are no longer listed after its exit.
    fn look_for_threads(&mut self) {
        let Some(child) = &self.child else { return };
        let threads = fs::read_dir(format!("/proc/{}/task", child.id())).into_iter().flatten().flatten();
        self.known.extend(threads.filter_map(|thread| thread.file_name().to_str()?.parse::<StreamId>().ok()));
    }
}

impl Generator for Fio {
    fn start(&mut self, load: &Load) -> Result<(), String> {
        let cannot = |error: std::io::Error| format!("cannot run fio: {error}");
        let mut command = Command::new("/proc/self/exe");
        command.args([COMMAND, "--parent", &std::process::id().to_string(), "--"]).args(load.arguments(self.place, self.seconds));
        command.current_dir("/").stdin(self.scratch.try_clone().map_err(cannot)?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().map_err(cannot)?;
        self.known = BTreeSet::from([child.id()]);
        (self.child, self.is_stopped) = (Some(child), false);
        self.forgot = load.is_buffered().then(Instant::now);
        Ok(())
    }

    fn asks_as(&mut self, stream: StreamId) -> bool {
        if !self.known.contains(&stream) {
            self.look_for_threads();
        }
        self.known.contains(&stream)
    }

    fn is_there(&mut self) -> Result<bool, String> {
        let Some(child) = &mut self.child else { return Ok(false) };
        let status = match child.try_wait() {
            Ok(None) => return Ok(true),
            Ok(Some(status)) => status,
            Err(error) => return Err(format!("fio: {error}")),
        };
        // Errors of jobs are in the report, which fits into the pipe.
        let (stderr, report) = (output(child.stderr.take()), output(child.stdout.take()));
        let failed = report.lines().find(|line| line.contains("error=")).unwrap_or_default();
        self.child = None;
        if self.is_stopped { Ok(false) } else { Err(format!("fio exited unexpectedly ({status}): {}{failed}", stderr.trim())) }
    }

    fn forget_cached(&mut self) {
        let Some(forgot) = self.forgot.as_mut().filter(|forgot| forgot.elapsed() >= FORGET_INTERVAL) else { return };
        *forgot = Instant::now();
        // A filesystem without page cache refuses the advice, and needs none.
        let _ = fadvise(&self.scratch, 0, None, Advice::DontNeed);
    }

    fn stop(&mut self) {
        self.look_for_threads();
        self.is_stopped = true;
        if let Some(child) = &mut self.child {
            // Fails if it has exited already.
            let _ = child.kill();
        }
    }
}

/// The output, up to 2000 bytes. Read errors are ignored: the exit status reports the failure.
fn output(stream: Option<impl Read>) -> String {
    let mut text = String::new();
    let _ = stream.map(|stream| stream.take(MAX_OUTPUT_BYTES).read_to_string(&mut text));
    text
}

impl Drop for Fio {
    fn drop(&mut self) {
        self.stop();
        let began = Instant::now();
        while self.is_there() == Ok(true) && began.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Executes fio with these arguments in this process, to be killed when the parent dies. Returns only on failure.
///
/// # Errors
/// fio is not installed, or the parent has exited already.
pub fn become_fio(parent: u32, arguments: &[String]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow::Error::new(error).context("cannot set the parent death signal");
    }
    // The parent may have died before the signal was requested.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().cast_unsigned() != parent) {
        return anyhow::anyhow!("the parent process has exited");
    }
    anyhow::Error::new(Command::new("fio").args(arguments).exec()).context("cannot run fio")
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, SeekFrom, Write as _};

    use super::super::load::loads;
    use super::*;

    /// Size of the file that the load reads over and over.
    const BYTES: u64 = 8 << 20;
    const TIMEOUT: Duration = Duration::from_secs(60);

    /// Bytes that the process has read from devices; `None` after its exit.
    fn read_bytes(process: u32) -> Option<u64> {
        let text = fs::read_to_string(format!("/proc/{process}/io")).ok()?;
        text.lines().find_map(|line| line.strip_prefix("read_bytes: "))?.parse().ok()
    }

    #[test]
    fn a_load_through_the_page_cache_keeps_reading_from_the_device() {
        if experiment::fio::version().is_err() {
            eprintln!("skipped: needs fio");
            return;
        }
        // Not the temporary folder, which may be in memory.
        let mut file = tempfile::tempfile_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        file.write_all(&vec![7; BYTES as usize]).unwrap();
        file.sync_all().unwrap();
        file.seek(SeekFrom::Start(0)).unwrap();
        let mut fio = Fio::new(file, Place { begins: 0, bytes: BYTES }, 600).unwrap();
        let load = loads(1).find(|load| load.is_buffered()).unwrap();
        // The test starts fio itself: `/proc/self/exe` is the program with the tests.
        let arguments = load.arguments(fio.place, fio.seconds);
        let child =
            Command::new("fio").args(arguments).stdin(fio.scratch.try_clone().unwrap()).stdout(Stdio::null()).spawn().unwrap();
        let (process, began) = (child.id(), Instant::now());
        (fio.child, fio.forgot) = (Some(child), Some(began));
        while read_bytes(process).is_none_or(|bytes| bytes < 4 * BYTES) {
            assert_eq!(fio.is_there(), Ok(true));
            assert!(began.elapsed() < TIMEOUT, "{load}: {:?} bytes from the device", read_bytes(process));
            fio.forget_cached();
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
