//! The applier's socket: access control, and one thread per connection. Requests are executed one at a time.

use std::fs;
use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use block::Nanos;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::client::PIPES_PER_MESSAGE;
use crate::error::{ApplierError, ErrorKind};
use crate::journal::Journal;
use crate::protocol::{Answer, Changed, Outcome, Request, Restored, Scope, SetRequest};
use crate::sysfs::{Files, RealFiles, Sysfs};
use crate::trace::{self, Instance, TraceError, Tracefs};
use crate::writer::{Moment, Rules, Writer, checked};

/// Maximum length of a request, in bytes.
const LONGEST_REQUEST: u64 = 256 << 10;
/// Time within which a refused client must send its request.
const PATIENCE: Duration = Duration::from_secs(2);
/// Maximum number of connections of root, and of permitted users: these cannot keep root's `restore` out.
const MOST_CONNECTIONS: usize = 32;
/// Maximum number of connections of other users, which are refused with an answer.
const MOST_STRANGERS: usize = 4;

/// Configuration of an applier.
pub struct Options {
    /// The kernel's folders.
    pub sysfs: Sysfs,
    /// The file operations; [`RealFiles`] unless in a test.
    pub files: Box<dyn Files>,
    /// The journal's folder, for example `/var/lib/seekwise`.
    pub journal: PathBuf,
    /// The socket.
    pub listen: Listen,
    /// Ids of users that are served besides root.
    pub users: Vec<u32>,
    /// Permissions and limits.
    pub rules: Rules,
    /// The applier ends regularly when this becomes readable or is closed.
    pub stop: OwnedFd,
    /// Writes a line to the log.
    pub log: fn(&str),
    /// Writes a detail to the log: a side effect of a scheduler switch.
    pub details: fn(&str),
}

/// The socket of an applier.
pub enum Listen {
    /// A socket is created here, and removed at the end.
    At(PathBuf),
    /// A socket from another process, such as systemd.
    On(UnixListener),
}

impl Options {
    /// The machine's own folders, the default paths, and root as the only user.
    pub fn new(stop: OwnedFd) -> Options {
        Options {
            sysfs: Sysfs::real(),
            files: Box::new(RealFiles),
            journal: PathBuf::from("/var/lib/seekwise"),
            listen: Listen::At(PathBuf::from("/run/seekwise/applier.sock")),
            users: Vec::new(),
            rules: Rules::default(),
            stop,
            log: |line| eprintln!("{line}"),
            details: |_| {},
        }
    }
}

/// State shared by all connections.
struct Shared {
    writer: Mutex<Writer>,
    sysfs: Sysfs,
    users: Vec<u32>,
    began: Instant,
    log: fn(&str),
    details: fn(&str),
    /// Open connections of root, of permitted users, and of others.
    connections: [AtomicUsize; 3],
}

/// Serves until [`Options::stop`]. Restores settings left by an earlier applier at the start, and all settings at the end.
///
/// # Errors
/// The socket cannot be created, or the journal cannot be used.
pub fn serve(options: Options) -> Result<(), ApplierError> {
    let Options { sysfs, mut files, journal, listen, users, rules, stop, log, details } = options;
    check_owner(&journal)?;
    let journal = Journal::open(&mut *files, &journal)?;
    let mut writer = Writer::new(sysfs.clone(), files, journal, rules);
    // The socket first: while another applier has it, the journal belongs to that one.
    let (listener, path) = match listen {
        Listen::On(listener) => (listener, None),
        Listen::At(path) => (bind(&path)?, Some(path)),
    };
    tell(log, "left from before", &writer.end()?);
    Instance::remove_left_behind();
    let (writer, began) = (Mutex::new(writer), Instant::now());
    let shared = Arc::new(Shared { writer, sysfs, users, began, log, details, connections: Default::default() });
    let ended = accept(&shared, &listener, stop.as_fd());
    if let Some(path) = path {
        // It may be gone already.
        let _ = fs::remove_file(path);
    }
    let restored = shared.writer.lock().unwrap_or_else(PoisonError::into_inner).end()?;
    tell(log, "at the end", &restored);
    Instance::remove_left_behind();
    ended
}

/// Checks that only the applier can write to the journal's folder: others could make root write elsewhere, and restore forged values.
pub(crate) fn check_owner(folder: &Path) -> Result<(), ApplierError> {
    let Ok(there) = fs::metadata(folder) else { return Ok(()) };
    if there.uid() == rustix::process::geteuid().as_raw() && there.mode() & 0o022 == 0 {
        return Ok(());
    }
    let message = format_args!(
        "journal {}: belongs to user {} with mode {:o}; it should be the applier's own, and only the applier may write there",
        folder.display(),
        there.uid(),
        there.mode() & 0o7777
    );
    Err(ApplierError::new(ErrorKind::Journal, message))
}

/// Creates the socket, and replaces one left by a killed applier.
fn bind(path: &Path) -> Result<UnixListener, ApplierError> {
    let at =
        |error: io::Error| ApplierError::new(ErrorKind::Unreachable, format_args!("{}: cannot listen: {error}", path.display()));
    if UnixStream::connect(path).is_ok() {
        return Err(at(io::Error::new(io::ErrorKind::AddrInUse, "another applier listens there; end that one first")));
    }
    match fs::symlink_metadata(path) {
        Ok(there) if there.file_type().is_socket() => fs::remove_file(path).map_err(at)?,
        Ok(_) => return Err(at(io::Error::new(io::ErrorKind::AlreadyExists, "something else than a socket is there"))),
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(at)?;
    // Clients are accepted or refused by user id when they connect.
    fs::set_permissions(path, fs::Permissions::from_mode(0o666)).map_err(at)?;
    Ok(listener)
}

fn accept(shared: &Arc<Shared>, listener: &UnixListener, stop: BorrowedFd) -> Result<(), ApplierError> {
    let at = |error: io::Error| ApplierError::new(ErrorKind::Unreachable, format_args!("the applier's socket: {error}"));
    // A connection that was aborted between the two calls must not block others.
    listener.set_nonblocking(true).map_err(at)?;
    loop {
        let mut waiting = [PollFd::new(listener, PollFlags::IN), PollFd::from_borrowed_fd(stop, PollFlags::IN)];
        match poll(&mut waiting, None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other.map_err(|error| at(error.into()))?,
        };
        if !waiting[1].revents().is_empty() {
            return Ok(());
        }
        match listener.accept() {
            Ok((stream, _)) => connected(shared, stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => (shared.log)(&format!("a connection could not be accepted: {error}")),
        }
    }
}

/// Starts a thread for a connection, unless there are too many. Refused users have a separate limit, so that they do not block others.
fn connected(shared: &Arc<Shared>, stream: UnixStream) {
    let turned_away = |why: &dyn std::fmt::Display| (shared.log)(&format!("a connection was turned away: {why}"));
    let user = match rustix::net::sockopt::socket_peercred(&stream) {
        Ok(peer) => peer.uid.as_raw(),
        Err(error) => return turned_away(&error),
    };
    let is_served = user == 0 || shared.users.contains(&user);
    let (kind, most) = match (user, is_served) {
        (0, _) => (0, MOST_CONNECTIONS),
        (_, true) => (1, MOST_CONNECTIONS),
        (_, false) => (2, MOST_STRANGERS),
    };
    let mine = shared.clone();
    let count = move |shared: &Shared, change: fn(&AtomicUsize) -> usize| change(&shared.connections[kind]);
    if count(shared, |count| count.fetch_add(1, Ordering::SeqCst)) >= most {
        count(shared, |count| count.fetch_sub(1, Ordering::SeqCst));
        return turned_away(&format_args!("there are {most} already"));
    }
    let spawned = std::thread::Builder::new().name("connection".to_owned()).spawn(move || {
        let connection = Connection::of(&mine, &stream);
        let ended = if is_served { connection.serve() } else { connection.turn_away(user) };
        if let Err(error) = ended {
            (mine.log)(&format!("a connection ended: {error}"));
        }
        count(&mine, |count| count.fetch_sub(1, Ordering::SeqCst));
    });
    if let Err(error) = spawned {
        count(shared, |count| count.fetch_sub(1, Ordering::SeqCst));
        turned_away(&error);
    }
}

/// A connection of a client.
struct Connection<'a> {
    shared: &'a Shared,
    stream: &'a UnixStream,
    /// The trace opened for it, and its device; it ends with the connection. One at a time, as each takes 8 MiB of the kernel's memory.
    trace: Option<(String, Instance)>,
    /// Devices on which it has set something.
    acted_on: Vec<String>,
}

impl<'a> Connection<'a> {
    fn of(shared: &'a Shared, stream: &'a UnixStream) -> Connection<'a> {
        Connection { shared, stream, trace: None, acted_on: Vec::new() }
    }

    fn serve(mut self) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        let mut reader = BufReader::new(self.stream);
        let mut line = Vec::new();
        let ended = loop {
            line.clear();
            match reader.by_ref().take(LONGEST_REQUEST).read_until(b'\n', &mut line) {
                Ok(0) => break Ok(()),
                Err(error) => break Err(error),
                Ok(_) => {}
            }
            let (answer, pipes) = self.carry_out(&line);
            let is_whole = line.last() == Some(&b'\n');
            match self.answer(&answer, &pipes) {
                Ok(()) if is_whole => {}
                other => break other,
            }
        };
        self.left();
        ended
    }

    /// Refuses with a reason, after reading a request: a connection closed earlier would be an error without a reason.
    fn turn_away(&self, user: u32) -> io::Result<()> {
        self.stream.set_nonblocking(false)?;
        self.stream.set_read_timeout(Some(PATIENCE))?;
        BufReader::new(self.stream.take(LONGEST_REQUEST)).read_until(b'\n', &mut Vec::new())?;
        let message = format_args!("the applier does not serve user {user}; root and its own watcher it does");
        self.answer(&Answer::Error(ApplierError::new(ErrorKind::Refused, message)), &[])
    }

    /// Handles the end of a connection that has set something: as its client no longer judges the result, the device is handled as at the end.
    fn left(&self) {
        let mut writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        for device in &self.acted_on {
            match writer.end_of(device) {
                Ok(restored) => tell(self.shared.log, "its client left", &restored),
                Err(error) => (self.shared.log)(&format!("{device}: its client left: {error}")),
            }
        }
    }

    fn carry_out(&mut self, line: &[u8]) -> (Answer, Vec<OwnedFd>) {
        let request = match serde_json::from_slice::<Request>(line) {
            Ok(request) => request,
            Err(error) => {
                let message = format_args!("this is no request: {error}; are client and applier of one version?");
                return (Answer::Error(ApplierError::new(ErrorKind::Refused, message)), Vec::new());
            }
        };
        let answered = match &request {
            Request::Tracepoints { device } => self.trace(device),
            _ => self.write(&request).map(|answer| (answer, Vec::new())),
        };
        answered.unwrap_or_else(|error| {
            (self.shared.log)(&format!("refused: {error}"));
            (Answer::Error(error), Vec::new())
        })
    }

    fn write(&mut self, request: &Request) -> Result<Answer, ApplierError> {
        let at = Moment { now: self.now(), unix_seconds: unix_seconds() };
        // If a thread panicked while holding the lock, the journal still has all information.
        let mut writer = self.shared.writer.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(match request {
            Request::Can { scope } => Answer::Can(writer.can(scope.name())?),
            Request::Set(wanted) => {
                let name = wanted.scope.name();
                if !self.acted_on.iter().any(|known| known == name) {
                    self.acted_on.push(name.to_owned());
                }
                let changed = writer.set(at, wanted)?;
                tell_changes(self.shared, wanted, &changed);
                Answer::Changed(changed)
            }
            Request::Foreign { scope } => Answer::Foreign(writer.foreign(scope.name())?),
            Request::Release { scope, changed } => writer.release(at, scope.name(), changed).map(|()| Answer::Done)?,
            Request::Resume { scope } => writer.resume(scope.name()).map(|()| Answer::Done)?,
            Request::Restore { scope } => {
                let restored = writer.restore(scope.as_ref().map(Scope::name))?;
                tell(self.shared.log, "restore", &restored);
                Answer::Restored(restored)
            }
            Request::Originals { scope } => Answer::Originals(writer.originals(scope.as_ref().map(Scope::name))?),
            Request::AtExit { device, policy } => writer.at_exit(device, *policy).map(|()| Answer::Done)?,
            Request::Tracepoints { .. } => return Err(ApplierError::new(ErrorKind::Refused, "a trace is not written")),
        })
    }

    fn trace(&mut self, device: &str) -> Result<(Answer, Vec<OwnedFd>), ApplierError> {
        let forbidden = |error: &dyn std::fmt::Display| ApplierError::new(ErrorKind::Forbidden, format_args!("{device}: {error}"));
        let folder = self.shared.sysfs.block(checked(device)?);
        if fs::metadata(&folder).is_err() {
            return Err(ApplierError::new(ErrorKind::NoDevice, format_args!("{device}: there is no such device")));
        }
        if let Some((traced, _)) = self.trace.as_ref().filter(|(traced, _)| traced != device) {
            let message =
                format_args!("{device}: this connection has a trace of {traced}; open another connection for another device");
            return Err(ApplierError::new(ErrorKind::Refused, message));
        }
        // One of the same device is replaced.
        self.trace = None;
        let number = trace::device_number(&folder).map_err(|error| forbidden(&error))?;
        // The folder of hardware queues of the multi-queue layer.
        let has_queue = folder.join("mq").is_dir();
        let open = || {
            let instance = Instance::create(&Tracefs::find()?, number, has_queue)?;
            let (pipes, formats) = (instance.pipes()?, instance.formats()?);
            instance.start()?;
            Ok::<_, TraceError>((instance, pipes, formats))
        };
        let (instance, pipes, formats) = open().map_err(|error| forbidden(&error))?;
        self.trace = Some((device.to_owned(), instance));
        Ok((Answer::Tracepoints { pipes: pipes.len(), formats }, pipes))
    }

    /// Sends an answer. Pipes are sent with the start of the line, as many per message as possible.
    fn answer(&self, answer: &Answer, pipes: &[OwnedFd]) -> io::Result<()> {
        let mut line = serde_json::to_vec(answer)?;
        line.push(b'\n');
        let mut sent = 0;
        for pipes in pipes.chunks(PIPES_PER_MESSAGE) {
            let pipes: Vec<BorrowedFd> = pipes.iter().map(AsFd::as_fd).collect();
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PIPES_PER_MESSAGE))];
            let mut ancillary = SendAncillaryBuffer::new(&mut space);
            ancillary.push(SendAncillaryMessage::ScmRights(&pipes));
            sendmsg(self.stream, &[IoSlice::new(&line[sent..sent + 1])], &mut ancillary, SendFlags::NOSIGNAL)?;
            sent += 1;
        }
        let mut stream = self.stream;
        stream.write_all(&line[sent..])
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.shared.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}

fn unix_seconds() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

/// Logs a change: requested attributes and others that changed with them in one line; tunables that a scheduler switch added or removed as
/// a detail.
fn tell_changes(shared: &Shared, wanted: &SetRequest, changed: &[Changed]) {
    let is_meant = |change: &&Changed| change.wanted.is_some() || (change.before.is_some() && change.now.is_some());
    let (meant, followed): (Vec<&Changed>, Vec<&Changed>) = changed.iter().partition(is_meant);
    let words = |change: &&Changed| {
        let (before, now) = (change.before.as_deref().unwrap_or("-"), change.now.as_deref().unwrap_or("-"));
        let note = if change.note.is_empty() { String::new() } else { format!(" ({})", change.note) };
        format!("{} {before} -> {now}{note}", change.attribute)
    };
    let list = |changes: &[&Changed]| changes.iter().map(words).collect::<Vec<_>>().join(", ");
    if !meant.is_empty() {
        (shared.log)(&format!("{}: {}: {}", wanted.scope.name(), list(&meant), wanted.why));
    }
    if !followed.is_empty() {
        (shared.details)(&format!("{}: came and went with the scheduler: {}", wanted.scope.name(), list(&followed)));
    }
}

/// Logs the results of restoring.
fn tell(log: fn(&str), when: &str, restored: &[Restored]) {
    for Restored { scope, attribute, original, outcome } in restored {
        let original = original.as_deref().unwrap_or("?");
        let line = match outcome {
            Outcome::Back { instead_of } => format!("{attribute} {instead_of} -> {original}: put back"),
            Outcome::AlreadyThere => format!("{attribute} {original}: was there already"),
            Outcome::Foreign { now } => {
                format!("{attribute} {}: changed externally; it stays, {original} is not put back", now.as_deref().unwrap_or("-"))
            }
            Outcome::EarlierBoot => format!("{attribute}: of an earlier boot, forgotten: the kernel remembers no settings"),
            Outcome::Gone => format!("{attribute}: its device is gone, forgotten: the kernel remembers no settings"),
            Outcome::Failed { reason } => format!("{attribute} {original}: could not be put back: {reason}"),
        };
        log(&format!("{scope}: {when}: {line}"));
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    #[test]
    fn a_journal_that_others_could_write_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let mode = |mode| fs::set_permissions(folder.path(), fs::Permissions::from_mode(mode)).unwrap();
        mode(0o755);
        check_owner(folder.path()).unwrap();
        check_owner(&folder.path().join("missing")).unwrap();
        for writable in [0o777, 0o770, 0o1777] {
            mode(writable);
            let (_stop, ends) = UnixStream::pair().unwrap();
            let (journal, listen) = (folder.path().to_owned(), Listen::At(folder.path().join("socket")));
            let error = serve(Options { journal, listen, ..Options::new(OwnedFd::from(ends)) }).unwrap_err();
            assert!(error.kind == ErrorKind::Journal && error.message.contains("only the applier may write there"), "{error}");
        }
        mode(0o700);
        if std::os::unix::fs::chown(folder.path(), Some(1), None).is_ok() {
            assert!(check_owner(folder.path()).unwrap_err().message.contains("belongs to user 1"));
        }
    }
}
