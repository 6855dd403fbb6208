//! The thread of a store: it owns the queue, and tells it the time.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use block::{Nanos, Op, Priority, RequestId, Roster, Scheduler, Standing, StreamId};
use sim::host::{Queue, QueueSettings};
use sim::run::{Finished, Issue, Server};
use slab::Slab;

use super::buffer::Buffer;
use super::device::{Hand, Passed, StoreDevice};
use super::pool::{Done, Job, Moves, Pool};
use super::recent::{Recent, Served};
use super::totals::{ByStream, Totals};
use crate::backing::Backing;

/// The token of a flush belongs to work, that of anything else to a piece.
const OF_FLUSH: u64 = 1 << 63;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Reads into the buffers.
    Read,
    /// Writes the buffers.
    Write,
    /// Zeroes, and frees the space.
    Trim,
    /// Zeroes, and keeps the space.
    Zero,
    /// Makes durable what was completed before.
    Flush,
}

/// A range of the store, of at most [`StoreHost::most_sectors`] if data is moved.
#[derive(Debug)]
pub struct Piece {
    /// The first sector; `None`: nowhere, where reads are of zeros.
    pub lba: Option<u64>,
    /// How many.
    pub sectors: u32,
    /// The data of a read or write, as long as the range.
    pub buffer: Option<Buffer>,
}

/// Something to be done, answered once by [`Replies::done`].
pub struct Work {
    /// Who asks.
    pub stream: StreamId,
    /// What.
    pub kind: Kind,
    /// Where; nothing for a flush.
    pub pieces: Vec<Piece>,
    /// A write is durable before it is answered (FUA).
    pub is_durable: bool,
    /// Who is answered.
    pub replies: Arc<dyn Replies>,
    /// Their number for it.
    pub cookie: u64,
}

/// Who is answered. Called by the store's thread: it must not block.
pub trait Replies: Send + Sync {
    /// The work is done, or has failed. The buffers are those of its pieces, in their order.
    fn done(&self, cookie: u64, result: io::Result<()>, buffers: Vec<Buffer>);
}

/// What a store has done so far.
#[derive(Debug, Default)]
pub struct StoreStatus {
    /// Requests that the scheduler picked, after merging.
    pub requests: AtomicU64,
    /// Pieces that were asked for.
    pub pieces: AtomicU64,
    /// Requests that failed.
    pub failed: AtomicU64,
    /// Flushes of the medium.
    pub flushes: AtomicU64,
    /// For how long there was something to do, in nanoseconds.
    pub busy_ns: AtomicU64,
}

/// How a store and its tenants do.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What each stream got in the last whole second.
    pub served: BTreeMap<StreamId, Served>,
    /// The response times of each stream since the store was opened.
    pub totals: BTreeMap<StreamId, Totals>,
    /// How the guarantee of each tenant stands, by number on the roster.
    pub standings: Vec<Option<Standing>>,
}

enum Command {
    Work(Work),
    Roster(Box<Roster>),
    Report(mpsc::Sender<Report>),
}

#[derive(Default)]
struct Inbox {
    commands: Vec<Command>,
    done: Vec<Done>,
    is_ended: bool,
    /// The store's thread waits for something to do. Only then is it woken: a wake-up is a system call also if nothing waits for it.
    is_waiting: bool,
}

struct Shared {
    inbox: Mutex<Inbox>,
    wake: Condvar,
    status: StoreStatus,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts something into the inbox, and wakes the store's thread if it waits.
    fn push(&self, put: impl FnOnce(&mut Inbox)) {
        let is_waiting = {
            let mut inbox = self.lock();
            put(&mut inbox);
            std::mem::take(&mut inbox.is_waiting)
        };
        if is_waiting {
            self.wake.notify_one();
        }
    }
}

/// A store that is being served. Dropping it ends its threads, after the work that it has.
pub struct StoreHost {
    shared: Arc<Shared>,
    most_sectors: u32,
    thread: Option<JoinHandle<()>>,
}

impl StoreHost {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(mut device: StoreDevice, scheduler: Box<dyn Scheduler>, settings: QueueSettings) -> io::Result<StoreHost> {
        let shared = Arc::new(Shared { inbox: Mutex::default(), wake: Condvar::new(), status: StoreStatus::default() });
        let passed: Arc<Mutex<Passed>> = Arc::default();
        let (backing, is_emulated, depth) = (device.backing.clone(), device.model.is_some(), device.depth);
        let hand = Hand::new(&mut device, passed.clone());
        let pool = if is_emulated {
            None
        } else {
            let shared = shared.clone();
            let done = move |done: Done| {
                shared.push(|inbox| inbox.done.push(done));
            };
            // One more, so that a flush does not wait for data.
            Some(Pool::start(depth + 1, &backing, done)?)
        };
        let mut running = Running {
            queue: Queue::new(scheduler, Box::new(hand), settings),
            passed,
            backing,
            pool,
            shared: shared.clone(),
            work: Slab::new(),
            pieces: Slab::new(),
            flush_result: Ok(()),
            is_failed: false,
            jobs: Vec::new(),
            recent: Recent::default(),
            totals: ByStream::new(),
        };
        let thread = thread::Builder::new().name("store".to_owned()).spawn(move || running.run())?;
        Ok(StoreHost { shared, most_sectors: settings.max_sectors, thread: Some(thread) })
    }

    /// The largest piece of data.
    pub fn most_sectors(&self) -> u32 {
        self.most_sectors
    }

    /// Asks for something.
    pub fn submit(&self, work: Work) {
        self.command(Command::Work(work));
    }

    /// Sets the tenants.
    pub fn set_roster(&self, roster: Roster) {
        self.command(Command::Roster(Box::new(roster)));
    }

    /// How the store and its tenants do; `None` if it ends.
    pub fn report(&self) -> Option<Report> {
        let (sender, answer) = mpsc::channel();
        self.command(Command::Report(sender));
        answer.recv().ok()
    }

    /// What was done so far.
    pub fn status(&self) -> &StoreStatus {
        &self.shared.status
    }

    fn command(&self, command: Command) {
        self.shared.push(|inbox| inbox.commands.push(command));
    }
}

impl Drop for StoreHost {
    fn drop(&mut self) {
        self.shared.push(|inbox| inbox.is_ended = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Work under way.
struct UnderWay {
    stream: StreamId,
    kind: Kind,
    is_durable: bool,
    replies: Arc<dyn Replies>,
    cookie: u64,
    /// Pieces that are not done.
    open: usize,
    /// When it came, and how many bytes it is of.
    begun: Nanos,
    bytes: u64,
    error: Option<io::Error>,
    buffers: Vec<Buffer>,
    /// Where each buffer belongs: pieces are done in any order.
    order: Vec<usize>,
}

/// A piece under way.
struct PieceUnderWay {
    work: usize,
    number: usize,
    keeps_space: bool,
    buffer: Option<Buffer>,
}

struct Running {
    queue: Queue,
    passed: Arc<Mutex<Passed>>,
    backing: Arc<dyn Backing>,
    /// `None`: the store is emulated, and its data is moved here.
    pool: Option<Pool>,
    shared: Arc<Shared>,
    work: Slab<UnderWay>,
    pieces: Slab<PieceUnderWay>,
    /// Of the flush that was done last.
    flush_result: Result<(), i32>,
    /// A flush failed: what was acknowledged may be lost, and nothing more is promised to be durable.
    is_failed: bool,
    jobs: Vec<Job>,
    recent: Recent,
    totals: ByStream,
}

impl Running {
    fn run(&mut self) {
        let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        let born = Instant::now();
        let now = || Nanos(u64::try_from(born.elapsed().as_nanos()).unwrap_or(u64::MAX));
        let (mut commands, mut done, mut finished) = (Vec::new(), Vec::new(), Vec::new());
        let mut busy_since = Nanos::ZERO;
        loop {
            let was_idle = self.work.is_empty();
            let is_ended = self.wait(now, &mut commands, &mut done);
            for done in done.drain(..) {
                self.moved(done);
            }
            let at = now();
            if !was_idle {
                self.shared.status.busy_ns.fetch_add((at - busy_since).0, Ordering::Relaxed);
            }
            busy_since = at;
            self.queue.advance(at, &mut finished);
            self.answer(at, &mut finished);
            for command in commands.drain(..) {
                match command {
                    Command::Work(work) => self.begin(at, work),
                    Command::Roster(roster) => self.queue.set_roster(&roster),
                    // Who asked may have gone.
                    Command::Report(sender) => drop(sender.send(self.report(at))),
                }
            }
            self.queue.dispatch(at);
            self.move_data();
            if is_ended && self.work.is_empty() {
                return;
            }
        }
    }

    /// Waits for something to do, or for the queue's next event. Returns whether the store is to end.
    fn wait(&self, now: impl Fn() -> Nanos, commands: &mut Vec<Command>, done: &mut Vec<Done>) -> bool {
        let mut inbox = self.shared.lock();
        while inbox.commands.is_empty() && inbox.done.is_empty() && !(inbox.is_ended && self.work.is_empty()) {
            inbox.is_waiting = true;
            match self.queue.next_event() {
                None => inbox = self.shared.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner),
                Some(at) => {
                    let left = at - now();
                    if left == Nanos::ZERO {
                        inbox.is_waiting = false;
                        break;
                    }
                    let waited = self.shared.wake.wait_timeout(inbox, Duration::from_nanos(left.0));
                    inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
        inbox.is_waiting = false;
        std::mem::swap(&mut inbox.commands, commands);
        std::mem::swap(&mut inbox.done, done);
        inbox.is_ended
    }

    fn begin(&mut self, now: Nanos, work: Work) {
        let Work { stream, kind, pieces, is_durable, replies, cookie } = work;
        let (open, order, buffers) = (pieces.len(), Vec::new(), Vec::new());
        let bytes = pieces.iter().map(|piece| 512 * u64::from(piece.sectors)).sum();
        if self.is_failed && kind != Kind::Read {
            let error = io::Error::other("an earlier flush of the store failed");
            replies.done(cookie, Err(error), Vec::new());
            return;
        }
        let number = self.work.insert(UnderWay {
            stream,
            kind,
            is_durable,
            replies,
            cookie,
            open,
            begun: now,
            bytes,
            error: None,
            buffers,
            order,
        });
        if kind == Kind::Flush || pieces.is_empty() {
            self.flush_or_reply(now, number);
            return;
        }
        self.shared.status.pieces.fetch_add(pieces.len() as u64, Ordering::Relaxed);
        for (place, Piece { lba, sectors, buffer }) in pieces.into_iter().enumerate() {
            let Some(lba) = lba else {
                let work = &mut self.work[number];
                work.open -= 1;
                if kind == Kind::Write {
                    work.error.get_or_insert(io::Error::from_raw_os_error(5));
                }
                if let Some(buffer) = buffer {
                    work.buffers.push(buffer);
                    work.order.push(place);
                }
                continue;
            };
            let piece = PieceUnderWay { work: number, number: place, keeps_space: kind == Kind::Zero, buffer };
            let token = self.pieces.insert(piece) as u64;
            let op = match kind {
                Kind::Read => Op::Read,
                Kind::Write => Op::Write,
                Kind::Trim | Kind::Zero | Kind::Flush => Op::Discard,
            };
            self.queue.admit(now, Issue { arrival: now, lba, sectors, op, sync: true, stream, priority: Priority::DEFAULT, token });
        }
        if self.work[number].open == 0 {
            self.flush_or_reply(now, number);
        }
    }

    /// Flushes if the work asks for it, and replies if not.
    fn flush_or_reply(&mut self, now: Nanos, number: usize) {
        let work = &self.work[number];
        let flushes = work.kind == Kind::Flush || work.is_durable && work.error.is_none();
        if !flushes || !self.queue.flush(now, work.stream, OF_FLUSH | number as u64) {
            self.reply(now, number);
        }
    }

    fn report(&mut self, now: Nanos) -> Report {
        let tenants = self.queue.roster().map_or(0, |roster| roster.tenants().len());
        let standings = (0..tenants).map(|tenant| self.queue.standing(now, tenant)).collect();
        Report { served: self.recent.last(now).clone(), totals: self.totals.clone(), standings }
    }

    fn reply(&mut self, now: Nanos, number: usize) {
        let UnderWay { stream, kind, begun, bytes, replies, cookie, error, mut buffers, order, .. } = self.work.remove(number);
        self.recent.record(now, stream, kind, bytes, now - begun);
        self.totals.entry(stream).or_default().record(kind, now - begun);
        let mut sorted: Vec<(usize, Buffer)> = order.into_iter().zip(buffers.drain(..)).collect();
        sorted.sort_by_key(|(place, _)| *place);
        replies.done(cookie, error.map_or(Ok(()), Err), sorted.into_iter().map(|(_, buffer)| buffer).collect());
    }

    /// Gives what the scheduler picked to those who move the data.
    fn move_data(&mut self) {
        let (submitted, flush) = {
            let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
            (std::mem::take(&mut passed.submitted), passed.flush.take())
        };
        for request in &submitted {
            self.shared.status.requests.fetch_add(1, Ordering::Relaxed);
            let mut issues: Vec<Issue> = self.queue.issues_of(request.id).copied().collect();
            issues.sort_by_key(|issue| issue.lba);
            let what = if request.op == Op::Discard {
                let range = |issue: &Issue| {
                    let keeps = self.pieces.get(issue.token as usize).is_some_and(|piece| piece.keeps_space);
                    (512 * issue.lba, issue.bytes(), keeps)
                };
                Moves::Zeros(issues.iter().map(range).collect())
            } else {
                let kind = if request.op == Op::Read { Kind::Read } else { Kind::Write };
                let mut pieces = Vec::with_capacity(issues.len());
                for issue in &issues {
                    let buffer = self.pieces.get_mut(issue.token as usize).and_then(|piece| piece.buffer.take());
                    pieces.extend(buffer.map(|buffer| (issue.token as usize, buffer)));
                }
                Moves::Data { kind, offset: 512 * request.lba, pieces }
            };
            self.jobs.push(Job { id: request.id, what });
        }
        let mut submitted = submitted;
        submitted.clear();
        self.passed.lock().unwrap_or_else(PoisonError::into_inner).submitted = submitted;
        if let Some(id) = flush {
            self.shared.status.flushes.fetch_add(1, Ordering::Relaxed);
            self.jobs.push(Job { id, what: Moves::Flush });
        }
        let mut jobs = std::mem::take(&mut self.jobs);
        match &self.pool {
            Some(_) if jobs.is_empty() => {}
            Some(pool) => pool.push(jobs.drain(..)),
            None => {
                for job in jobs.drain(..) {
                    let done = job.run(&*self.backing);
                    self.moved(done);
                }
            }
        }
        self.jobs = jobs;
    }

    /// Data was moved: the buffers go back, and what failed is noted for each piece of the request.
    fn moved(&mut self, done: Done) {
        let Done { id, result, pieces } = done;
        if id == RequestId::MAX {
            self.flush_result = result.map_err(|error| error.raw_os_error().unwrap_or(5));
        } else {
            for (token, buffer) in pieces {
                if let Some(piece) = self.pieces.get_mut(token) {
                    piece.buffer = Some(buffer);
                }
            }
            if let Err(error) = result {
                self.shared.status.failed.fetch_add(1, Ordering::Relaxed);
                let tokens: Vec<usize> = self.queue.issues_of(id).map(|issue| issue.token as usize).collect();
                for token in tokens {
                    let Some(piece) = self.pieces.get(token) else { continue };
                    let code = error.raw_os_error();
                    let again = code.map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error);
                    self.work[piece.work].error.get_or_insert(again);
                }
            }
        }
        if self.pool.is_some() {
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).done.push(id);
        }
    }

    /// Answers what is finished. What has to be durable is flushed first.
    fn answer(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        for finished in finished.drain(..) {
            match finished {
                Finished::Transfer(done) => {
                    let PieceUnderWay { work, number, buffer, .. } = self.pieces.remove(done.issue.token as usize);
                    let under_way = &mut self.work[work];
                    if let Some(buffer) = buffer {
                        under_way.buffers.push(buffer);
                        under_way.order.push(number);
                    }
                    under_way.open -= 1;
                    if under_way.open == 0 {
                        self.flush_or_reply(now, work);
                    }
                }
                Finished::Flush(done) => {
                    let number = (done.token & !OF_FLUSH) as usize;
                    if let Err(code) = self.flush_result {
                        self.is_failed = true;
                        self.work[number].error.get_or_insert(io::Error::from_raw_os_error(code));
                    }
                    self.reply(now, number);
                }
            }
        }
    }
}
