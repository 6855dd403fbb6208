//! `seekwise-serve volume`: commands to a running server.

use std::path::PathBuf;
use std::time::Duration;

use crate::control::{self, Carried, Status, VolumeStatus};
use crate::migration::Progress;
use crate::server::NewVolume;
use crate::tuning::Tuned;
use clap::Args;
use terminal::size::size;

/// The subcommands.
#[derive(clap::Subcommand)]
pub enum Command {
    /// Make a volume
    Create(Create),
    /// Change the size of a volume; clients see it when they connect again
    Resize(Resize),
    /// Change the guarantees of a volume
    Promise(Promise),
    /// Move a volume to another store while it is used
    Move(Move),
    /// Delete a volume and its data
    Delete(Delete),
    /// List stores and volumes, with their statistics
    Status(Status_),
    /// List broken guarantees; exits 1 if there are any
    Check(Check),
}

/// Arguments of `check`.
#[derive(Args)]
pub struct Check {
    /// The volume [default: all]
    name: Option<String>,
    #[command(flatten)]
    socket: Socket,
}

/// Where the server is.
#[derive(Args)]
pub struct Socket {
    /// The server's control socket
    #[arg(long, value_name = "SOCKET", default_value = "/run/seekwise-serve/control.sock")]
    pub control: PathBuf,
    /// Wait this long for a server that is starting
    #[arg(long, value_name = "SECONDS", default_value = "5")]
    wait: u32,
}

impl Socket {
    /// Sends a command to the server.
    ///
    /// # Errors
    /// No server answers in time, or it rejects the command.
    pub fn ask(&self, command: &control::Command) -> anyhow::Result<Carried> {
        control::ask(&self.control, command, Duration::from_secs(self.wait.into()))
    }
}

/// Arguments of `create`.
#[derive(Args)]
pub struct Create {
    /// The volume's name
    name: String,
    /// Its size, such as 512M, 16G or 2T
    #[arg(long, value_name = "SIZE", value_parser = size)]
    size: u64,
    /// The store; may be omitted if there is one only
    #[arg(long, value_name = "STORE")]
    store: Option<String>,
    /// Give it all of its space now, not as it is written
    #[arg(long)]
    thick: bool,
    /// Space that it may use at most [default: its size]
    #[arg(long, value_name = "SIZE", value_parser = size, conflicts_with = "thick")]
    max_used: Option<u64>,
    #[command(flatten)]
    contract: Contract,
    #[command(flatten)]
    socket: Socket,
}

/// The guarantees of a volume.
#[derive(Args)]
pub struct Contract {
    /// A key of its contract, as of a tenant: `reference="sata7200"`, `weight=2`, `reservation_iops=200`; may be given several times
    #[arg(long = "promise", value_name = "KEY=VALUE")]
    promises: Vec<String>,
    /// Do not check that the store can keep everything that it has promised
    #[arg(long)]
    unchecked: bool,
}

/// Arguments of `resize`.
#[derive(Args)]
pub struct Resize {
    /// The volume
    name: String,
    /// The new size
    #[arg(long, value_name = "SIZE", value_parser = size, required_unless_present = "max_used")]
    size: Option<u64>,
    /// Space that it may use at most; 0: its size
    #[arg(long, value_name = "SIZE", value_parser = size_or_zero)]
    max_used: Option<u64>,
    /// Allow a smaller size: data beyond it are lost
    #[arg(long)]
    shrink: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Arguments of `promise`.
#[derive(Args)]
pub struct Promise {
    /// The volume
    name: String,
    #[command(flatten)]
    contract: Contract,
    #[command(flatten)]
    socket: Socket,
}

/// Arguments of `move`.
#[derive(Args)]
pub struct Move {
    /// The volume
    name: String,
    /// The store that it goes to
    #[arg(long, value_name = "STORE", required_unless_present = "cancel", conflicts_with = "cancel")]
    to: Option<String>,
    /// Rate of copying: a guarantee to the copier at both stores, and its limit
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "8M")]
    pace: u64,
    /// Do not check that the store can keep everything that it has promised
    #[arg(long)]
    unchecked: bool,
    /// End a move: the volume stays where it is
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    socket: Socket,
}

/// Arguments of `delete`.
#[derive(Args)]
pub struct Delete {
    /// The volume
    name: String,
    #[command(flatten)]
    socket: Socket,
}

/// Arguments of `status`.
#[derive(Args)]
pub struct Status_ {
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    socket: Socket,
}

fn size_or_zero(text: &str) -> Result<u64, String> {
    if text == "0" { Ok(0) } else { size(text) }
}

impl Contract {
    /// The contract as TOML.
    fn text(&self) -> String {
        self.promises.join("\n")
    }
}

/// Runs a command.
///
/// # Errors
/// No server answers, or it rejects the command.
pub fn run(command: &Command) -> anyhow::Result<()> {
    let (socket, asked, is_json) = match command {
        Command::Create(Create { name, size, store, thick, max_used, contract, socket }) => {
            let (name, store, is_unchecked) = (name.clone(), store.clone(), contract.unchecked);
            (
                socket,
                control::Command::Create(NewVolume {
                    name,
                    store,
                    bytes: *size,
                    is_thick: *thick,
                    contract: contract.text(),
                    is_unchecked,
                    max_used: *max_used,
                }),
                false,
            )
        }
        Command::Resize(Resize { name, size, max_used, shrink, socket }) => {
            (socket, control::Command::Resize { name: name.clone(), bytes: *size, shrink: *shrink, max_used: *max_used }, false)
        }
        Command::Promise(Promise { name, contract, socket }) => (
            socket,
            control::Command::Promise { name: name.clone(), contract: contract.text(), is_unchecked: contract.unchecked },
            false,
        ),
        Command::Move(Move { name, to, pace, unchecked, socket, .. }) => {
            let name = name.clone();
            let asked = match to.clone() {
                Some(to) => control::Command::Move { name, to, bytes_per_second: *pace, is_unchecked: *unchecked },
                None => control::Command::CancelMove { name },
            };
            (socket, asked, false)
        }
        Command::Delete(Delete { name, socket }) => (socket, control::Command::Delete { name: name.clone() }, false),
        Command::Status(Status_ { json, socket }) => (socket, control::Command::Status, *json),
        Command::Check(check) => return check.run(),
    };
    let status = match socket.ask(&asked)? {
        Carried::Out => return Ok(()),
        Carried::Noted(note) => {
            terminal::eprint_line(&note);
            return Ok(());
        }
        // Only a reply to `plan`.
        Carried::Advice(_) => return Ok(()),
        Carried::Status(status) => status,
    };
    let text = if is_json { serde_json::to_string_pretty(&status)? + "\n" } else { table(&status) };
    Ok(terminal::print(&text)?)
}

impl Check {
    fn run(&self) -> anyhow::Result<()> {
        let Carried::Status(status) = self.socket.ask(&control::Command::Status)? else { return Ok(()) };
        let name = self.name.as_deref();
        if let Some(name) = name
            && !status.volumes.iter().any(|volume| volume.name == name)
        {
            anyhow::bail!("volume {name}: there is none");
        }
        let here = status.volumes.iter().filter(|volume| name.is_none_or(|name| name == volume.name));
        let broken: Vec<String> = here
            .filter(|volume| volume.broken_since.is_some())
            .map(|volume| format!("volume {}: {}{}", volume.name, volume.contract.replace('\n', ", "), verdict(volume)))
            .collect();
        if broken.is_empty() { Ok(()) } else { Err(terminal::Failed(broken.join("\n")).into()) }
    }
}

/// The tables of stores and volumes.
fn table(status: &Status) -> String {
    let gib = |bytes: u64| format!("{:.1}", bytes as f64 / f64::from(1 << 30));
    let heads = ["store", "GiB", "free GiB", "promised", "engine", "scheduler"];
    let [store, size, free, promised, engine, scheduler] = heads;
    let mut text = format!("{store:16} {size:>10} {free:>10} {promised:>10} {engine:>9}  {scheduler}\n");
    for store in &status.stores {
        let [size, free, promised] = [store.bytes, store.free_bytes, store.promised_bytes].map(gib);
        text += &format!("{:16} {size:>10} {free:>10} {promised:>10} {:>9}  {}\n", store.name, store.engine, store.scheduler);
        if let Some(tuned) = &store.tuned {
            let last = tuned.last.as_deref().unwrap_or("nothing changed yet");
            let Tuned { controller, changes, .. } = tuned;
            text += &format!(
                "  {controller}: {last} ({changes} changes; depth {}, read-ahead {} KiB)\n",
                store.depth, store.read_ahead_kb
            );
        }
    }
    let heads = ["volume", "store", "GiB", "used GiB", "clients", "IOPS", "MB/s", "p50 ms", "p99 ms"];
    let [volume, store, size, used, clients, iops, rate, p50, p99] = heads;
    text += &format!("\n{volume:16} {store:12} {size:>8} {used:>8} {clients:>7} {iops:>8} {rate:>8} {p50:>8} {p99:>8}  promise\n");
    for volume in &status.volumes {
        let rate = volume.bytes_per_second as f64 / 1e6;
        text += &format!(
            "{:16} {:12} {:>8} {:>8} {:>7} {:>8} {rate:>8.1} {:>8.2} {:>8.2}  {}{}\n",
            volume.name,
            volume.store,
            gib(volume.bytes),
            gib(volume.allocated_bytes),
            volume.clients,
            volume.iops,
            volume.p50_ms,
            volume.p99_ms,
            volume.contract.replace('\n', ", "),
            verdict(volume)
        );
    }
    for volume in &status.volumes {
        if let Some(moving) = &volume.moving {
            text += &format!("\n{}\n", progress(&volume.name, moving));
        }
        if let Some(seconds) = volume.stalled_seconds {
            text += &format!("\nstore {} has not answered {} for {seconds} s\n", volume.store, volume.name);
        }
        if let Some(error) = &volume.last_error {
            text += &format!("\n{} requests of {} failed, the last: {error}\n", volume.failed_requests, volume.name);
        }
        if let Some(reason) = &volume.move_failed {
            text += &format!("\nthe move of {} failed: {reason}\n", volume.name);
        }
    }
    text
}

/// One line about the progress of a move.
fn progress(volume: &str, moving: &Progress) -> String {
    let mib = |bytes: u64| bytes >> 20;
    let left = moving.left_seconds.map_or_else(String::new, |seconds| format!(", {} s", seconds));
    let rounds = match moving.rounds {
        0 => String::new(),
        rounds => format!("; round {} for extents written meanwhile", rounds + 1),
    };
    let (copied, to_do, pace) = (mib(moving.copied_bytes), mib(moving.left_bytes), mib(moving.bytes_per_second));
    format!("{volume} moves to {}: {copied} MiB copied, {to_do} MiB left{left}, at most {pace} MiB/s{rounds}", moving.to)
}

/// State of the guarantee; empty if there is none.
fn verdict(volume: &control::VolumeStatus) -> String {
    let VolumeStatus { kept_seconds: kept, by_others_seconds, by_store_seconds, because_of, missed, .. } = volume;
    if volume.verdict.is_none() {
        return String::new();
    }
    let broken = by_others_seconds + by_store_seconds;
    match volume.broken_since {
        None if kept + broken == 0 => " (not asked yet)".to_owned(),
        None => format!(" (kept: {kept} s; broken before: {broken} s)"),
        Some(_) => {
            let cause = because_of.as_ref().map_or_else(|| "by the store".to_owned(), |name| format!("because of {name}"));
            format!(" (BROKEN {cause}: {}; kept {kept} s, broken {broken} s)", missed.as_deref().unwrap_or_default())
        }
    }
}
