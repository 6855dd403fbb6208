//! The supervising process, and its protocol with the emulator.

use std::fs::OpenOptions;
use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::AttachError;
use super::queue::{self, Queue, Settings};
use super::record::{AttachRequest, DeviceBefore, Plan, Record};
use super::teardown::{run, take_down};

/// Timeout of a step: none takes longer while the emulator serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// Read-ahead of an emulated disk in KiB: the kernel's default.
const READ_AHEAD_KB: &str = "128";

/// Maximum request in KiB: more than a disk's track, and less than the limit of FUSE.
const MAX_SECTORS_KB: &str = "512";

/// Number of reads to measure the transport overhead.
const PROBES: u32 = 400;

/// A command of the emulator.
#[derive(Debug, Deserialize, Serialize)]
enum SupervisorCommand {
    /// The first command: what will be mounted.
    Begin(Plan),
    /// Attach a loop device to it.
    Attach(AttachRequest),
}

/// A reply of the supervisor.
#[derive(Debug, Deserialize, Serialize)]
enum SupervisorReply {
    Ready,
    Attached(Attached),
    Failed(String),
    /// Everything is taken down; with messages for the user.
    Done(Vec<String>),
}

/// A loop device that behaves like the disk.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// Such as `/dev/loop0`.
    pub device: String,
    /// Number of requests that the kernel sends to the drive at once.
    pub depth: u32,
    /// Duration of a 4 KiB read without service time, in nanoseconds; `None` if it was not measured.
    pub overhead_nanos: Option<u64>,
}

/// A handle of the supervising process. When dropped, the process takes everything down.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    commands: Option<ChildStdin>,
    replies: mpsc::Receiver<SupervisorReply>,
}

impl Supervisor {
    /// Starts the process; `command` runs a program that calls [`supervise`].
    ///
    /// # Errors
    /// It cannot be started, or cannot write its record.
    pub fn start(mut command: Command, plan: &Plan) -> Result<Supervisor, AttachError> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| AttachError::new(format_args!("cannot start the supervising process: {error}")))?;
        let (sender, replies) = mpsc::channel();
        let output = child.stdout.take();
        thread::spawn(move || {
            for line in output.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let reply = serde_json::from_str(&line).unwrap_or_else(|error| SupervisorReply::Failed(error.to_string()));
                if sender.send(reply).is_err() {
                    break;
                }
            }
        });
        let commands = child.stdin.take();
        let mut supervisor = Supervisor { child, commands, replies };
        match supervisor.send(&SupervisorCommand::Begin(plan.clone()))? {
            SupervisorReply::Ready => Ok(supervisor),
            other => Err(unexpected(other)),
        }
    }

    /// Attaches a loop device to the disk's file, which another thread must be serving.
    ///
    /// # Errors
    /// A prerequisite is missing, or the kernel rejects a setting.
    pub fn attach(&mut self, request: AttachRequest) -> Result<Attached, AttachError> {
        match self.send(&SupervisorCommand::Attach(request))? {
            SupervisorReply::Attached(attached) => Ok(attached),
            other => Err(unexpected(other)),
        }
    }

    /// Whether the process has ended and should be replaced.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Takes everything down and returns messages for the user. The disk must be served until then.
    pub fn finish(mut self) -> Vec<String> {
        self.commands = None;
        let reply = self.replies.recv_timeout(PATIENCE);
        let messages = match reply {
            Ok(SupervisorReply::Done(messages)) => messages,
            Ok(other) => vec![unexpected(other).to_string()],
            Err(_) => vec!["the supervising process does not answer; see what `losetup` and `mount` say".to_owned()],
        };
        let _ = self.child.wait();
        messages
    }

    fn send(&mut self, command: &SupervisorCommand) -> Result<SupervisorReply, AttachError> {
        let gone = || AttachError::new("the supervising process ended unexpectedly");
        let line = serde_json::to_string(command).map_err(AttachError::new)?;
        let commands = self.commands.as_mut().ok_or_else(gone)?;
        writeln!(commands, "{line}").map_err(|_| gone())?;
        self.replies.recv_timeout(PATIENCE).map_err(|_| gone())
    }
}

fn unexpected(reply: SupervisorReply) -> AttachError {
    match reply {
        SupervisorReply::Failed(message) => AttachError::new(message),
        other => AttachError::new(format_args!("unexpected reply from the supervising process: {other:?}")),
    }
}

/// The main function of the supervising process: commands on standard input, replies on standard output.
pub fn supervise() {
    // Ctrl-C signals every process of the terminal's group; this one must outlive it.
    let _ = rustix::process::setsid();
    let mut record: Option<Record> = None;
    for line in io::stdin().lines().map_while(Result::ok) {
        let reply = match serde_json::from_str(&line) {
            Ok(SupervisorCommand::Begin(plan)) => Record::begin(plan).map(|begun| {
                record = Some(begun);
                SupervisorReply::Ready
            }),
            Ok(SupervisorCommand::Attach(request)) => match &mut record {
                Some(record) => attach(record, request).map(SupervisorReply::Attached),
                None => Err(AttachError::new("nothing was begun")),
            },
            Err(error) => Err(AttachError::new(error)),
        };
        // If the emulator is gone, standard input ends as well.
        let _ = send(&reply.unwrap_or_else(|error| SupervisorReply::Failed(error.to_string())));
    }
    let messages = record.map(take_down).unwrap_or_default();
    if send(&SupervisorReply::Done(messages.clone())).is_err() {
        // The emulator is dead. Its terminal may still exist.
        let mut terminal = io::stderr().lock();
        for text in messages {
            let _ = writeln!(terminal, "seekwise: {text}");
        }
    }
}

fn send(reply: &SupervisorReply) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(reply)?)?;
    out.flush()
}

fn attach(record: &mut Record, request: AttachRequest) -> Result<Attached, AttachError> {
    let file = record.state.plan.file.clone();
    let losetup = ["--find".as_ref(), "--show".as_ref(), "--direct-io=on".as_ref(), file.as_os_str()];
    let device = run("losetup", &losetup).map_err(|error| {
        let root = if rustix::process::geteuid().is_root() { "" } else { "; a loop device needs root" };
        AttachError::new(format_args!("cannot set up a loop device: {error}{root}"))
    })?;
    let name = device.trim_start_matches("/dev/").to_owned();
    let (queue, driver_depth) = (Queue::of(&name), queue::loop_depth());
    let before = queue.settings()?;
    record.state.device = Some(DeviceBefore { name: name.clone(), before: before.clone(), driver_depth });
    record.write()?;
    if std::fs::read_to_string(format!("/sys/block/{name}/loop/dio")).is_ok_and(|dio| dio.trim() != "1") {
        return Err(AttachError::new(format_args!(
            "{device}: the kernel refuses direct I/O, without which one request at a time comes through"
        )));
    }
    let settings = Settings {
        max_sectors_kb: MAX_SECTORS_KB.to_owned(),
        rotational: u8::from(request.rotational).to_string(),
        wbt_lat_usec: before.wbt_lat_usec.as_ref().map(|_| if request.rotational { "75000" } else { "2000" }.to_owned()),
        read_ahead_kb: READ_AHEAD_KB.to_owned(),
        ..before
    };
    let depth = queue.configure_as_drive(request.depth, driver_depth, &settings)?;
    let overhead_nanos = if request.measure { Some(measure(&device)?) } else { None };
    Ok(Attached { device, depth, overhead_nanos })
}

/// The 10th percentile of the time of a direct 4 KiB read, in nanoseconds; longer times include other work on the machine. Reads are a
/// millisecond apart, as on a disk: processors that had time to sleep respond more slowly.
fn measure(device: &str) -> Result<u64, AttachError> {
    let error = |error: io::Error| AttachError::new(format_args!("{device}: {error}"));
    let flags = i32::try_from(rustix::fs::OFlags::DIRECT.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(device).map_err(error)?;
    let mut buffer = vec![0_u8; 8192];
    let aligned = buffer.as_ptr().align_offset(4096);
    let buffer = buffer.get_mut(aligned..aligned + 4096).unwrap_or_default();
    let mut times = Vec::new();
    for probe in 0..PROBES {
        thread::sleep(Duration::from_millis(1));
        let begin = Instant::now();
        file.read_exact_at(buffer, u64::from(probe % 2) * 4096).map_err(error)?;
        times.push(u64::try_from(begin.elapsed().as_nanos()).unwrap_or(u64::MAX));
    }
    Ok(::statistics::Rank::Above.of_ordered(&mut times, 0.1).unwrap_or(0))
}
