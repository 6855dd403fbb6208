//! The supervising process, and how the emulator talks to it.

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
use super::record::{DeviceBefore, Plan, Record, Wanted};
use super::teardown::{run, take_down};

/// Nothing that the supervisor does takes longer while the emulator serves.
const PATIENCE: Duration = Duration::from_secs(60);

/// What an emulated disk reads ahead, the kernel's own default.
const READ_AHEAD_KB: &str = "128";

/// The largest request: larger than a disk's track asks for, and less than FUSE takes at once.
const MAX_SECTORS_KB: &str = "512";

/// Reads by which the way to the disk is measured.
const PROBES: u32 = 400;

/// What the emulator asks.
#[derive(Debug, Deserialize, Serialize)]
enum Order {
    /// First: what will be mounted.
    Begin(Plan),
    /// Make a loop device of it.
    Attach(Wanted),
}

/// What the supervisor answers.
#[derive(Debug, Deserialize, Serialize)]
enum Answer {
    Ready,
    Attached(Attached),
    Failed(String),
    /// Everything is taken down; what was remarkable.
    Done(Vec<String>),
}

/// A loop device that behaves as the disk.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Attached {
    /// As in `/dev/loop0`.
    pub device: String,
    /// Requests that the kernel lets into the drive at once.
    pub depth: u32,
    /// What a read of 4 KiB costs that takes no time, in nanoseconds, if it was measured.
    pub way_nanos: Option<u64>,
}

/// The supervising process, seen from the emulator. Dropped, it takes everything down.
#[derive(Debug)]
pub struct Supervisor {
    child: Child,
    orders: Option<ChildStdin>,
    answers: mpsc::Receiver<Answer>,
}

impl Supervisor {
    /// Starts it; `command` is the program whose process calls [`supervise`].
    ///
    /// # Errors
    /// It cannot be started, or cannot keep its record.
    pub fn start(mut command: Command, plan: &Plan) -> Result<Supervisor, AttachError> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| AttachError::new(format_args!("cannot start the supervising process: {error}")))?;
        let (sender, answers) = mpsc::channel();
        let output = child.stdout.take();
        thread::spawn(move || {
            for line in output.map(BufReader::new).into_iter().flat_map(BufRead::lines).map_while(Result::ok) {
                let answer = serde_json::from_str(&line).unwrap_or_else(|error| Answer::Failed(error.to_string()));
                if sender.send(answer).is_err() {
                    break;
                }
            }
        });
        let orders = child.stdin.take();
        let mut supervisor = Supervisor { child, orders, answers };
        match supervisor.ask(&Order::Begin(plan.clone()))? {
            Answer::Ready => Ok(supervisor),
            other => Err(unexpected(other)),
        }
    }

    /// Makes a loop device of the disk's file, which must be served meanwhile, and by another thread.
    ///
    /// # Errors
    /// What is missing, or what the kernel refused.
    pub fn attach(&mut self, wanted: AttachRequest) -> Result<Attached, AttachError> {
        match self.ask(&Order::Attach(wanted))? {
            Answer::Attached(attached) => Ok(attached),
            other => Err(unexpected(other)),
        }
    }

    /// Whether it is gone, and somebody should start another.
    pub fn is_gone(&mut self) -> bool {
        !matches!(self.child.try_wait(), Ok(None))
    }

    /// Takes everything down and says what was remarkable. The disk must be served until then.
    pub fn finish(mut self) -> Vec<String> {
        self.orders = None;
        let answer = self.answers.recv_timeout(PATIENCE);
        let said = match answer {
            Ok(Answer::Done(said)) => said,
            Ok(other) => vec![unexpected(other).to_string()],
            Err(_) => vec!["the supervising process does not answer; see what `losetup` and `mount` say".to_owned()],
        };
        let _ = self.child.wait();
        said
    }

    fn ask(&mut self, order: &Order) -> Result<Answer, AttachError> {
        let gone = || AttachError::new("the supervising process ended unexpectedly");
        let line = serde_json::to_string(order).map_err(AttachError::new)?;
        let orders = self.orders.as_mut().ok_or_else(gone)?;
        writeln!(orders, "{line}").map_err(|_| gone())?;
        self.answers.recv_timeout(PATIENCE).map_err(|_| gone())
    }
}

fn unexpected(answer: Answer) -> AttachError {
    match answer {
        Answer::Failed(message) => AttachError::new(message),
        other => AttachError::new(format_args!("the supervising process answered {other:?}")),
    }
}

/// What the supervising process does from its first to its last moment: orders from standard input, answers to standard output.
pub fn supervise() {
    // Ctrl-C goes to every process of the terminal's group; this one outlives it.
    let _ = rustix::process::setsid();
    let mut record: Option<Record> = None;
    for line in io::stdin().lines().map_while(Result::ok) {
        let answer = match serde_json::from_str(&line) {
            Ok(Order::Begin(plan)) => Record::begin(plan).map(|begun| {
                record = Some(begun);
                Answer::Ready
            }),
            Ok(Order::Attach(wanted)) => match &mut record {
                Some(record) => attach(record, wanted).map(Answer::Attached),
                None => Err(AttachError::new("nothing was begun")),
            },
            Err(error) => Err(AttachError::new(error)),
        };
        // If nobody listens, the orders end, too.
        let _ = say(&answer.unwrap_or_else(|error| Answer::Failed(error.to_string())));
    }
    let said = record.map(take_down).unwrap_or_default();
    if say(&Answer::Done(said.clone())).is_err() {
        // The emulator is dead. Its terminal may be there still.
        let mut terminal = io::stderr().lock();
        for text in said {
            let _ = writeln!(terminal, "seekwise: {text}");
        }
    }
}

fn say(answer: &Answer) -> io::Result<()> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", serde_json::to_string(answer)?)?;
    out.flush()
}

fn attach(record: &mut Record, wanted: Wanted) -> Result<Attached, AttachError> {
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
        rotational: u8::from(wanted.rotational).to_string(),
        wbt_lat_usec: before.wbt_lat_usec.as_ref().map(|_| if wanted.rotational { "75000" } else { "2000" }.to_owned()),
        read_ahead_kb: READ_AHEAD_KB.to_owned(),
        ..before
    };
    let depth = queue.become_drive(wanted.depth, driver_depth, &settings)?;
    let way_nanos = if wanted.measure { Some(measure(&device)?) } else { None };
    Ok(Attached { device, depth, way_nanos })
}

/// What a direct read of 4 KiB takes at least, nearly: one in ten takes less, because what others do on the machine is not the way's.
/// Reads are a millisecond apart, because processors that had time to sleep are slower to answer, and those of a disk do.
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
    times.sort_unstable();
    Ok(times[times.len() / 10])
}
