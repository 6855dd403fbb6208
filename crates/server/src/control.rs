//! Commands over a unix socket: a line of JSON each way.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};

use crate::access::Access;
use crate::catalog::EXTENT_BYTES;
use crate::configuration::Configuration;
use crate::migration::Progress;
use crate::planner::Advice;
use crate::server::{NewVolume, Server};
use crate::tuning::Tuned;
use crate::watch::Watch;

/// The longest command.
const MOST_BYTES: u64 = 1 << 20;

/// What can be asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "kebab-case")]
pub enum Command {
    /// Makes a volume.
    Create(NewVolume),
    /// Changes the size.
    Resize {
        /// Which.
        name: String,
        /// The new size.
        bytes: u64,
        /// Whether it may become smaller.
        shrink: bool,
    },
    /// Changes what it is promised.
    Promise {
        /// Which.
        name: String,
        /// Keys of a tenant in TOML.
        contract: String,
        /// Whether a promise is given that the store may not keep.
        is_unchecked: bool,
    },
    /// Deletes a volume.
    Delete {
        /// Which.
        name: String,
    },
    /// Moves it to another store.
    Move {
        /// Which.
        name: String,
        /// The store.
        to: String,
        /// How fast it is copied.
        bytes_per_second: u64,
        /// Whether it goes to a store that may not keep its promise.
        is_unchecked: bool,
    },
    /// Ends a move, and leaves the volume where it is.
    CancelMove {
        /// Which.
        name: String,
    },
    /// Says which volumes should move, so that every store can keep what it promised.
    Plan {
        /// Begins the moves at this pace; absent: they are only said.
        apply: Option<u64>,
    },
    /// Says what there is.
    Status,
    /// Reads the tables `[[allow]]` of the configuration again.
    Reload,
}

/// What commands are carried out with.
#[derive(Clone)]
pub struct Ruled {
    /// The stores and volumes.
    pub server: Arc<Server>,
    /// How the volumes do.
    pub watch: Arc<Watch>,
    /// Who may open what.
    pub access: Arc<Access>,
    /// The configuration's file.
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

/// What there is.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The stores.
    pub stores: Vec<StoreStatus>,
    /// The volumes, by name.
    pub volumes: Vec<VolumeStatus>,
}

/// A store.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StoreStatus {
    /// What people call it.
    pub name: String,
    /// Its scheduler with its tunables.
    pub scheduler: String,
    /// Requests at the device at the same time, at most.
    pub depth: usize,
    /// How far the server reads ahead.
    pub read_ahead_kb: i64,
    /// What a controller did; absent if there is none.
    pub tuned: Option<Tuned>,
    /// Who moves its data: `io_uring`, `threads` where the system forbids that, or `memory` of an emulated disk.
    pub engine: String,
    /// Its size.
    pub bytes: u64,
    /// What no volume has.
    pub free_bytes: u64,
    /// Pieces that were asked for.
    pub pieces: u64,
    /// Requests that they became, after merging.
    pub requests: u64,
    /// Of these, those that failed.
    pub failed: u64,
    /// Flushes.
    pub flushes: u64,
}

/// A volume.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct VolumeStatus {
    /// What people call it.
    pub name: String,
    /// Where it is.
    pub store: String,
    /// Its size.
    pub bytes: u64,
    /// What it has of the store.
    pub allocated_bytes: u64,
    /// Clients that have it open.
    pub clients: usize,
    /// Requests so far.
    pub reads: u64,
    /// Requests so far.
    pub writes: u64,
    /// Bytes so far.
    pub read_bytes: u64,
    /// Bytes so far.
    pub written_bytes: u64,
    /// What it was promised.
    pub contract: String,
    /// Requests in the last whole second.
    pub iops: u64,
    /// Bytes in the last whole second.
    pub bytes_per_second: u64,
    /// The median response time of the last whole second in milliseconds; 0 without requests.
    pub p50_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// Of a volume with a reference disk under a scheduler that keeps account: requests done since it has its contract.
    pub judged: Option<u64>,
    /// Of these, those that were later than on the reference disk because of others.
    pub late_by_others: Option<u64>,
    /// Since when the promise is broken, in seconds since 1970; absent while it is kept.
    pub broken_since: Option<u64>,
    /// The volume that used the store most when it was broken.
    pub because_of: Option<String>,
    /// How far its move to another store is; absent if it is not being moved.
    pub moving: Option<Progress>,
    /// Why its last move failed; absent if it did not.
    pub move_failed: Option<String>,
    /// Requests that failed since the server started.
    pub failed_requests: u64,
    /// The error of the last of them, with the store.
    pub last_error: Option<String>,
    /// For how many seconds its store has answered none of the requests under way; absent if it answers.
    pub stalled_seconds: Option<u64>,
}

/// The answer to a command.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Answer {
    Done,
    Noted(String),
    Advice(Advice),
    Status(Status),
    Refused(String),
}

/// Answers the commands of a client.
///
/// # Errors
/// Of the connection.
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
        Command::Resize { name, bytes, shrink } => server.resize(&name, bytes, shrink)?,
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
            bytes: u64::from(store.extents) * EXTENT_BYTES,
            free_bytes: server.free(store) * EXTENT_BYTES,
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
            late_by_others: doing.counts.map(|counts| counts[2]),
            broken_since: doing.broken_since,
            because_of: doing.because_of,
            moving,
            move_failed,
            failed_requests,
            last_error,
            stalled_seconds,
        }
    });
    Status { stores: stores.collect(), volumes: volumes.collect() }
}

/// What a server answers to a command that it carried out.
pub enum Carried {
    /// Nothing more.
    Out,
    /// Something that its owner should know.
    Noted(String),
    /// What should move.
    Advice(Advice),
    /// What there is.
    Status(Status),
}

/// Asks a running server.
///
/// # Errors
/// No server answers at this socket, or it refuses.
pub fn ask(socket: &Path, command: &Command) -> anyhow::Result<Carried> {
    let at = || format!("{}: no server answers; is seekwise-serve running, and may you open its socket?", socket.display());
    let mut stream = UnixStream::connect(socket).with_context(at)?;
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
