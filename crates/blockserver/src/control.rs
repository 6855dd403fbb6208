//! Control protocol over a unix socket: one line of JSON per command, one per reply.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::catalog::EXTENT_BYTES;
use crate::configuration::Configuration;
use crate::migration::Progress;
use crate::planner::Advice;
use crate::server::{NewVolume, Server};
use crate::tuning::Tuned;
use crate::verdict::Verdict;
use crate::watch::Watch;

/// Maximum length of a command line in bytes.
const MOST_BYTES: u64 = 1 << 20;
/// Interval at which a client tries to connect to a server that is starting.
const LOOKS: Duration = Duration::from_millis(20);

/// A command, tagged by `do`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command {
    /// Creates a volume.
    Create(NewVolume),
    /// Changes the size of a volume.
    Resize {
        /// Name of the volume.
        name: String,
        /// New size in bytes; `None` leaves it.
        bytes: Option<u64>,
        /// Whether the volume may shrink.
        shrink: bool,
        /// New maximum space in bytes; `None` leaves it, 0 removes it.
        #[serde(default)]
        max_used: Option<u64>,
    },
    /// Changes the contract of a volume.
    Promise {
        /// Name of the volume.
        name: String,
        /// Keys of a tenant in TOML.
        contract: String,
        /// Skips admission control.
        is_unchecked: bool,
    },
    /// Deletes a volume.
    Delete {
        /// Name of the volume.
        name: String,
    },
    /// Starts moving a volume to another store.
    Move {
        /// Name of the volume.
        name: String,
        /// Name of the destination store.
        to: String,
        /// Copy rate.
        bytes_per_second: u64,
        /// Skips admission control.
        is_unchecked: bool,
    },
    /// Cancels a move; the volume stays on its store.
    CancelMove {
        /// Name of the volume.
        name: String,
    },
    /// Proposes moves with which every store can keep its guarantees.
    Plan {
        /// Copy rate in bytes/s at which the proposed moves are started; `None` only proposes them.
        apply: Option<u64>,
    },
    /// Returns the state of all stores and volumes.
    Status,
    /// Reloads the `[[allow]]` tables of the configuration.
    Reload,
}

/// Context in which commands are executed.
#[derive(Clone)]
pub struct Ruled {
    /// Stores and volumes.
    pub server: Arc<Server>,
    /// Statistics of the volumes and the state of their guarantees.
    pub watch: Arc<Watch>,
    /// Access rules.
    pub access: Arc<Access>,
    /// Path of the configuration file.
    pub configuration: PathBuf,
}

impl Ruled {
    fn reload(&self) -> anyhow::Result<()> {
        let configuration = Configuration::read(&self.configuration)?;
        self.access.replace(&configuration.allow)?;
        tracing::info!(tables = configuration.allow.len(), "the tables [[allow]] were read again");
        Ok(())
    }
}

/// State of the server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// All stores, in the order of the configuration.
    pub stores: Vec<StoreStatus>,
    /// All volumes, ordered by name.
    pub volumes: Vec<VolumeStatus>,
}

/// State of a store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Name.
    pub name: String,
    /// Active scheduler with its tunables.
    pub scheduler: String,
    /// Maximum number of requests in flight at the device.
    pub depth: usize,
    /// Maximum read-ahead; 0 disables it.
    pub read_ahead_kb: i64,
    /// Changes by the store's controller; `None` without a controller.
    pub tuned: Option<Tuned>,
    /// I/O engine: `io_uring`, `threads` where io_uring is not permitted, or `memory` for an emulated disk.
    pub engine: String,
    /// Size in bytes, in whole extents.
    pub bytes: u64,
    /// Space not allocated to any volume.
    pub free_bytes: u64,
    /// Space that its volumes may use in total; more than `bytes` if it is overcommitted.
    pub promised_bytes: u64,
    /// Pieces submitted, before merging.
    pub pieces: u64,
    /// Requests dispatched by the scheduler, after merging.
    pub requests: u64,
    /// Dispatched requests that failed.
    pub failed: u64,
    /// Flushes of the device.
    pub flushes: u64,
}

/// State of a volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// Name.
    pub name: String,
    /// Name of its store.
    pub store: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Space allocated on the store.
    pub allocated_bytes: u64,
    /// Maximum of that; `None`: its size.
    pub max_used_bytes: Option<u64>,
    /// Number of clients that have it open.
    pub clients: usize,
    /// Reads since the server started.
    pub reads: u64,
    /// Writes since the server started.
    pub writes: u64,
    /// Bytes read since the server started.
    pub read_bytes: u64,
    /// Bytes written since the server started.
    pub written_bytes: u64,
    /// Contract: keys of a tenant in TOML; empty without guarantees.
    pub contract: String,
    /// Requests completed in the last full second.
    pub iops: u64,
    /// Bytes read and written in the last full second.
    pub bytes_per_second: u64,
    /// Median response time of the last full second; 0 without requests.
    pub p50_ms: f64,
    /// 99th percentile of the response times of the last full second; 0 without requests.
    pub p99_ms: f64,
    /// Requests compared with the reference disk since the contract was set. `None` without a reference disk, or if the scheduler keeps no
    /// account.
    pub judged: Option<u64>,
    /// Of the judged requests, those that took longer than the worst case on the reference disk.
    pub late: Option<u64>,
    /// Of the late requests, those that would have been in time without other volumes.
    pub late_by_others: Option<u64>,
    /// Verdict on the last full second; `None` without a guarantee.
    pub verdict: Option<Verdict>,
    /// Unix time in seconds since which the guarantee is broken; `None` while it is kept.
    pub broken_since: Option<u64>,
    /// The volume that transferred most in the latest second that others broke; `None` if the store broke it.
    pub because_of: Option<String>,
    /// Shortfall in the latest broken second; `None` while the guarantee is kept.
    pub missed: Option<String>,
    /// Seconds in which the guarantee was kept.
    pub kept_seconds: u64,
    /// Seconds in which requests of others broke it.
    pub by_others_seconds: u64,
    /// Seconds in which the store broke it.
    pub by_store_seconds: u64,
    /// Seconds in which the volume asked for less than it is guaranteed.
    pub not_asked_seconds: u64,
    /// Progress of the current move; `None` if the volume is not being moved.
    pub moving: Option<Progress>,
    /// Reason why the last move failed; `None` if it did not.
    pub move_failed: Option<String>,
    /// Requests that failed since the server started.
    pub failed_requests: u64,
    /// Error of the last failed request, with its store.
    pub last_error: Option<String>,
    /// Seconds since the store last completed a request, while requests are outstanding; `None` if the volume is not stalled.
    pub stalled_seconds: Option<u64>,
}

/// The reply to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done,
    Noted(String),
    Advice(Advice),
    Status(Status),
    Refused(String),
}

/// Executes the commands of a client until it disconnects. A command that fails is answered with the reason.
///
/// # Errors
/// Errors of the connection.
pub fn answer(stream: UnixStream, ruled: &Ruled) -> std::io::Result<()> {
    let mut writer = stream.try_clone()?;
    let mut reader = BufReader::new(stream);
    loop {
        let mut line = String::new();
        if reader.by_ref().take(MOST_BYTES).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let command = serde_json::from_str(&line).context("no command");
        let answer = match command.and_then(|command| carry_out(command, ruled)) {
            Ok(answer) => answer,
            Err(error) => Answer::Refused(format!("{error:#}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        writer.write_all(text.as_bytes())?;
    }
}

fn carry_out(command: Command, ruled: &Ruled) -> anyhow::Result<Answer> {
    let server = &ruled.server;
    let noted = |note: Option<String>| note.map_or(Answer::Done, Answer::Noted);
    match command {
        Command::Create(new) => return server.create(&new).map(noted),
        Command::Resize { name, bytes, shrink, max_used } => server.resize(&name, bytes, shrink, max_used)?,
        Command::Promise { name, contract, is_unchecked } => return server.promise(&name, &contract, is_unchecked).map(noted),
        Command::Delete { name } => server.delete(&name)?,
        Command::Move { name, to, bytes_per_second, is_unchecked } => {
            return server.begin_move(&name, &to, bytes_per_second, is_unchecked).map(noted);
        }
        Command::CancelMove { name } => return server.cancel_move(&name).map(noted),
        Command::Plan { apply } => {
            let mut advice = server.plan()?;
            if let Some(bytes_per_second) = apply {
                server.apply(&mut advice, bytes_per_second);
            }
            return Ok(Answer::Advice(advice));
        }
        Command::Status => return Ok(Answer::Status(status(server, &ruled.watch))),
        Command::Reload => ruled.reload()?,
    }
    Ok(Answer::Done)
}

fn status(server: &Server, watch: &Watch) -> Status {
    let stores = server.stores().iter().map(|store| {
        let (counts, (scheduler, depth, read_ahead_kb)) = (store.host.status(), store.tuning.active());
        StoreStatus {
            name: store.name.clone(),
            scheduler,
            depth,
            read_ahead_kb,
            tuned: store.tuning.tuned(),
            engine: store.host.engine().name().to_owned(),
            bytes: store.usable_extents() * EXTENT_BYTES,
            free_bytes: server.free(store) * EXTENT_BYTES,
            promised_bytes: server.promised_bytes(store),
            pieces: counts.pieces.load(Ordering::Relaxed),
            requests: counts.requests.load(Ordering::Relaxed),
            failed: counts.failed.load(Ordering::Relaxed),
            flushes: counts.flushes.load(Ordering::Relaxed),
        }
    });
    let volumes = server.volumes().into_iter().map(|volume| {
        let [reads, writes, read_bytes, written_bytes] = volume.counts();
        let doing = watch.doing(&volume);
        let (failed_requests, last_error, stalled_seconds) = volume.health.report();
        let (moving, move_failed) = server.progress(&volume);
        VolumeStatus {
            name: volume.name.clone(),
            store: volume.store().name.clone(),
            bytes: volume.bytes(),
            allocated_bytes: volume.extents().len() as u64 * EXTENT_BYTES,
            max_used_bytes: volume.max_used(),
            clients: volume.clients(),
            reads,
            writes,
            read_bytes,
            written_bytes,
            contract: volume.contract(),
            iops: doing.served.requests,
            bytes_per_second: doing.served.bytes,
            p50_ms: doing.served.p50_ms,
            p99_ms: doing.served.p99_ms,
            judged: doing.counts.map(|counts| counts[0]),
            late: doing.counts.map(|counts| counts[1]),
            late_by_others: doing.counts.map(|counts| counts[2]),
            verdict: doing.verdict,
            broken_since: doing.broken_since,
            because_of: doing.because_of,
            missed: doing.missed,
            kept_seconds: doing.seconds[Verdict::Kept as usize],
            by_others_seconds: doing.seconds[Verdict::ByOthers as usize],
            by_store_seconds: doing.seconds[Verdict::ByStore as usize],
            not_asked_seconds: doing.seconds[Verdict::NotAsked as usize],
            moving,
            move_failed,
            failed_requests,
            last_error,
            stalled_seconds,
        }
    });
    Status { stores: stores.collect(), volumes: volumes.collect() }
}

/// Reply to a command that succeeded.
pub enum Carried {
    /// Done; nothing to report.
    Out,
    /// Done, with a note for the user.
    Noted(String),
    /// Proposed moves.
    Advice(Advice),
    /// State of the server.
    Status(Status),
}

/// Connects to a server that may be starting.
fn connect(socket: &Path, wait: Duration) -> std::io::Result<UnixStream> {
    let begun = Instant::now();
    loop {
        match UnixStream::connect(socket) {
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::ConnectionRefused)
                    && begun.elapsed() < wait =>
            {
                std::thread::sleep(LOOKS);
            }
            connected => return connected,
        }
    }
}

/// Sends a command to a server, which may be starting for the time `wait`, and returns its reply.
///
/// # Errors
/// No server answers on this socket, or the server rejects the command.
pub fn ask(socket: &Path, command: &Command, wait: Duration) -> anyhow::Result<Carried> {
    let at = || format!("{}: no server answers; is seekwise-serve running, and may you open its socket?", socket.display());
    let mut stream = connect(socket, wait).with_context(at)?;
    let mut text = serde_json::to_string(command)?;
    text.push('\n');
    stream.write_all(text.as_bytes()).with_context(at)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).with_context(at)?;
    match serde_json::from_str(&line).with_context(at)? {
        Answer::Done => Ok(Carried::Out),
        Answer::Noted(note) => Ok(Carried::Noted(note)),
        Answer::Advice(advice) => Ok(Carried::Advice(advice)),
        Answer::Status(status) => Ok(Carried::Status(status)),
        Answer::Refused(reason) => bail!("{reason}"),
    }
}
