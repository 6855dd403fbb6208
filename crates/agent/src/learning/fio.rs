//! The real fio: one process, which dies with this one.
//!
//! ```text
//! agent ─▶ /proc/self/exe generate ─▶ prctl(PR_SET_PDEATHSIG, SIGKILL) ─▶ exec fio, whose standard input is the scratch file
//! ```
//! Between fork and exec nothing may be done in safe Rust, so this program is started once more to ask for the signal; it stays asked for
//! across exec, unless the program that is executed has other privileges, which fio has not. Nothing is written but the scratch file: the
//! jobs are arguments, and there is no report.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use block::StreamId;
use rustix::process::{Signal, getppid, set_parent_process_death_signal};

use super::load::{Generator, Load, Place};

/// The command of this program that becomes fio.
pub const COMMAND: &str = "generate";
/// How long it is waited for at the end: what it asked of a disk has to be answered first.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum characters of fio's error output that are reported.
const MOST_SAID: u64 = 2_000;

/// Runs fio.
pub struct Fio {
    scratch: File,
    place: Place,
    /// Seconds after which a load ends by itself.
    seconds: u64,
    child: Option<Child>,
    is_stopped: bool,
    /// Processes and threads that are, or were, fio's.
    known: BTreeSet<StreamId>,
}

impl Fio {
    /// Loads for this file, within this place, that last so long at most.
    ///
    /// # Errors
    /// There is no fio.
    pub fn new(scratch: File, place: Place, seconds: u64) -> Result<Fio, String> {
        experiment::fio::version().map_err(|error| format!("{error:#}"))?;
        Ok(Fio { scratch, place, seconds, child: None, is_stopped: false, known: BTreeSet::new() })
    }

    /// Whom fio has now: threads come one after the other, and are gone when it is.
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
        // What a job has failed of is in the report, which is a page or two and fits into the pipe.
        let (stderr, report) = (said(child.stderr.take()), said(child.stdout.take()));
        let failed = report.lines().find(|line| line.contains("error=")).unwrap_or_default();
        self.child = None;
        if self.is_stopped { Ok(false) } else { Err(format!("fio ended by itself ({status}): {}{failed}", stderr.trim())) }
    }

    fn stop(&mut self) {
        self.look_for_threads();
        self.is_stopped = true;
        if let Some(child) = &mut self.child {
            // One that has ended by itself is as good.
            let _ = child.kill();
        }
    }
}

/// What cannot be read is not needed: the status tells that it failed.
fn said(stream: Option<impl Read>) -> String {
    let mut said = String::new();
    let _ = stream.map(|stream| stream.take(MOST_SAID).read_to_string(&mut said));
    said
}

impl Drop for Fio {
    fn drop(&mut self) {
        self.stop();
        let began = Instant::now();
        while self.is_there() == Ok(true) && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

/// Becomes fio with these arguments, to be killed with the parent. Returns only if that fails.
///
/// # Errors
/// There is no fio, or the parent is gone already.
pub fn become_fio(parent: u32, arguments: &[String]) -> anyhow::Error {
    if let Err(error) = set_parent_process_death_signal(Some(Signal::KILL)) {
        return anyhow::Error::new(error).context("cannot ask to be killed with the parent");
    }
    // It may have died before it could be asked for.
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().cast_unsigned() != parent) {
        return anyhow::anyhow!("the process that wanted it is gone");
    }
    anyhow::Error::new(Command::new("fio").args(arguments).exec()).context("cannot run fio")
}
