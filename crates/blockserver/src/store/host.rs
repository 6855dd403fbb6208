//! A running store: which threads drive its queue and move its data.
//!
//! No single thread handles all requests. Commands and completions go into the inbox. The thread that put them there also drives the queue,
//! unless another thread is doing so, which then finds them at the end of its turn (flat combining). A client's request whose data is in
//! the page cache is thus queued, dispatched, read and answered by the thread that read it from the socket.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use block::{Nanos, Roster, Scheduler, StreamId};
use sim::host::{Queue, QueueSettings};
use sim::run::Server as _;
use smallvec::SmallVec;
use uring::{Buffer, Buffers, Waker};

use super::device::{Hand, Passed, StoreDevice};
use super::job::{Done, Job, Moves};
use super::pool::Pool;
use super::ring::Mover;
use super::state::{Command, Core, Observed, Report, Turn};
use super::status::StoreStatus;
use super::work::{Kind, Piece, Replies, Work};
use backing::Backing;

/// Turns after which a thread that submitted work or moved data leaves the rest to the store's thread: a client must not wait in its socket
/// while its thread serves others.
const MOST_TURNS: usize = 64;
/// Threads for jobs that the ring does not do, which is zeroing.
const BESIDE_RING: usize = 2;

/// Size of a request of [`StoreHost::zero`] where zeros are written (a few milliseconds on a disk), and where they are only recorded.
const ZEROED_BYTES: u64 = 1 << 20;
const MOST_ZEROED_BYTES: u64 = 1 << 30;

/// Pending commands and completions, and the state of the store's thread.
#[derive(Default)]
struct Inbox {
    commands: Vec<Command>,
    done: Vec<Done>,
    /// Jobs for the ring, which only the store's thread uses.
    for_ring: Vec<Job>,
    /// A thread is in a turn, and checks the inbox again after it.
    has_turn: bool,
    /// After the last turn: the time of the queue's next event, and whether work is in progress.
    next_event: Option<Nanos>,
    is_busy: bool,
    is_ended: bool,
    /// The store's thread is waiting, until `sleeps_until` if that is set. It is woken only then, because a wake-up is a system call even
    /// if no thread waits.
    is_asleep: bool,
    sleeps_until: Option<Nanos>,
}

impl Inbox {
    fn is_empty(&self) -> bool {
        self.commands.is_empty() && self.done.is_empty()
    }

    /// Marks the store's thread as awake. Returns whether it was asleep and has to be woken.
    fn rouse(&mut self) -> bool {
        std::mem::take(&mut self.is_asleep)
    }

    /// Until when the store's thread may sleep: `Some(None)` without limit, `None` not at all. Marks it as asleep unless the result is
    /// `None`.
    fn rest(&mut self, now: Nanos) -> Option<Option<Nanos>> {
        // A thread in a turn wakes it afterwards if there is an event to wait for.
        let until = if self.has_turn { None } else { self.next_event };
        let may = (self.has_turn || self.is_empty()) && self.for_ring.is_empty() && !self.may_end();
        if !may || until.is_some_and(|until| until <= now) {
            return None;
        }
        (self.is_asleep, self.sleeps_until) = (true, until);
        Some(until)
    }

    fn may_end(&self) -> bool {
        self.is_ended && !self.is_busy && !self.has_turn && self.is_empty() && self.for_ring.is_empty()
    }
}

/// How data is moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// By the kernel, through io_uring.
    Ring,
    /// By a pool of threads.
    Threads,
    /// By the thread in a turn: data is in memory, and a model determines when a request completes.
    Memory,
}

impl Engine {
    /// Name in `status`.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Ring => "io_uring",
            Engine::Threads => "threads",
            Engine::Memory => "memory",
        }
    }
}

/// State shared by all threads of a store.
pub(super) struct Shared {
    born: Instant,
    inbox: Mutex<Inbox>,
    core: Mutex<Core>,
    pool: Pool,
    engine: Engine,
    /// Wakes the store's thread where it waits in the ring; without a ring it waits at `wake`.
    waker: Option<Waker>,
    wake: Condvar,
    backing: Arc<dyn Backing>,
    /// Data may be in the page cache, where it can be read without waiting.
    is_cached: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Nanos {
        Nanos(u64::try_from(self.born.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Changes the inbox, and wakes the store's thread if it sleeps and `change` returns true.
    fn change(&self, change: impl FnOnce(&mut Inbox) -> bool) {
        let wakes = {
            let mut inbox = self.lock();
            change(&mut inbox) && inbox.rouse()
        };
        if wakes {
            match &self.waker {
                Some(waker) => waker.wake(),
                None => self.wake.notify_one(),
            }
        }
    }

    /// Takes turns until the inbox is empty, or leaves the rest to the store's thread after `most_turns`. Returns at once if another thread
    /// is in a turn. The first turn applies `turn.done`.
    pub(super) fn run(&self, turn: &mut Turn, most_turns: usize) {
        for number in 0.. {
            if !turn.done.is_empty() {
                self.lock().done.append(&mut turn.done);
            }
            {
                let mut core = match self.core.try_lock() {
                    Ok(core) => core,
                    Err(TryLockError::Poisoned(error)) => error.into_inner(),
                    // The thread that holds the lock checks the inbox again after unlocking.
                    Err(TryLockError::WouldBlock) => return,
                };
                {
                    let mut inbox = self.lock();
                    std::mem::swap(&mut inbox.commands, &mut core.commands);
                    std::mem::swap(&mut inbox.done, &mut core.done);
                    inbox.has_turn = true;
                }
                core.turn(self.now(), turn);
                let (next_event, is_busy) = (core.queue.next_event(), !core.is_idle());
                self.change(|inbox| {
                    (inbox.has_turn, inbox.next_event, inbox.is_busy) = (false, next_event, is_busy);
                    let is_earlier = next_event.is_some_and(|next| inbox.sleeps_until.is_none_or(|until| next < until));
                    is_earlier || inbox.may_end()
                });
            }
            self.hand_over(turn);
            let has_more = !turn.done.is_empty() || !self.lock().is_empty();
            if !has_more {
                return;
            }
            if number >= most_turns {
                self.change(|inbox| {
                    inbox.done.append(&mut turn.done);
                    true
                });
                return;
            }
        }
    }

    /// Starts the jobs, and flushes the replies. Reads from the page cache are done at once.
    fn hand_over(&self, turn: &mut Turn) {
        if !self.is_cached {
            self.push(&mut turn.jobs);
        }
        for replies in turn.told.drain(..) {
            replies.flush();
        }
        if self.is_cached && !turn.jobs.is_empty() {
            let mut jobs = std::mem::take(&mut turn.jobs);
            let mut later = std::mem::take(&mut turn.later);
            for job in jobs.drain(..) {
                match job.run_now(&*self.backing) {
                    Ok(done) => turn.done.push(done),
                    Err(job) => later.push(job),
                }
            }
            self.push(&mut later);
            (turn.jobs, turn.later) = (jobs, later);
        }
    }

    fn push(&self, jobs: &mut Vec<Job>) {
        if jobs.is_empty() {
            return;
        }
        if self.engine != Engine::Ring {
            self.pool.push(jobs.drain(..));
            return;
        }
        if jobs.iter().any(|job| matches!(job.what, Moves::Zeros(_))) {
            let zeros: Vec<Job> = jobs.extract_if(.., |job| matches!(job.what, Moves::Zeros(_))).collect();
            self.pool.push(zeros.into_iter());
        }
        self.change(|inbox| {
            inbox.for_ring.append(jobs);
            true
        });
    }

    /// The store's thread: keeps the timers, and moves data through the ring.
    fn serve(&self, mut mover: Option<Mover>) {
        let _ = rustix::thread::set_current_timer_slack(Some(std::num::NonZeroU64::MIN));
        if let Some(mover) = &mut mover {
            mover.begin();
        }
        let (mut turn, mut jobs) = (Turn::default(), Vec::new());
        loop {
            self.run(&mut turn, usize::MAX);
            let mut inbox = self.lock();
            if inbox.may_end() {
                return;
            }
            std::mem::swap(&mut inbox.for_ring, &mut jobs);
            let now = self.now();
            let rest = inbox.rest(now);
            if let Some(mover) = &mut mover {
                drop(inbox);
                for job in jobs.drain(..) {
                    turn.done.extend(mover.start(job, &*self.backing));
                }
                let left = match rest {
                    Some(until) if turn.done.is_empty() => until.map(|until| Duration::from_nanos((until - now).0)),
                    _ => Some(Duration::ZERO),
                };
                mover.wait(left, &mut turn.done);
            } else if let Some(until) = rest {
                while inbox.is_asleep {
                    let Some(until) = until else {
                        inbox = self.wake.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                        continue;
                    };
                    let left = until - self.now();
                    if left == Nanos::ZERO {
                        break;
                    }
                    let waited = self.wake.wait_timeout(inbox, Duration::from_nanos(left.0));
                    inbox = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                inbox.is_asleep = false;
                continue;
            } else {
                continue;
            }
            self.lock().is_asleep = false;
        }
    }

    /// A thread of the pool.
    fn work(&self) {
        let mut turn = Turn::default();
        while let Some(job) = self.pool.next() {
            turn.done.push(job.run(&*self.backing));
            self.run(&mut turn, MOST_TURNS);
        }
    }
}

/// Passes replies to a waiting thread.
struct Waiter(mpsc::Sender<io::Result<()>>);

impl Replies for Waiter {
    fn done(&self, _: u64, result: io::Result<()>, _: Buffers) {
        // The waiting thread may have gone.
        let _ = self.0.send(result);
    }

    fn flush(&self) {}
}

/// Work submitted to one or more stores, to be started together.
#[derive(Default)]
pub struct Batch {
    stores: Vec<Arc<Shared>>,
    turn: Turn,
}

impl Batch {
    /// Starts the work. Reads from the page cache are answered before this returns, unless another thread is in a turn of their store.
    pub fn run(&mut self) {
        for store in self.stores.drain(..) {
            store.run(&mut self.turn, MOST_TURNS);
        }
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.run();
    }
}

/// A running store. Dropping it completes the work in progress and ends its threads.
pub struct StoreHost {
    shared: Arc<Shared>,
    status: Arc<StoreStatus>,
    most_sectors: u32,
    thread: Option<JoinHandle<()>>,
    movers: Vec<JoinHandle<()>>,
}

impl StoreHost {
    /// Starts the threads.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start(mut device: StoreDevice, scheduler: Box<dyn Scheduler>, settings: QueueSettings) -> io::Result<StoreHost> {
        let (status, passed) = (Arc::<StoreStatus>::default(), Arc::<Mutex<Passed>>::default());
        let (backing, is_emulated, depth) = (device.backing.clone(), device.model.is_some(), device.depth);
        // io_uring is forbidden in many containers and missing in old kernels: threads then do the same, with more context switches.
        let file = if is_emulated || device.uses_threads { None } else { backing.file() };
        let mover = file.and_then(|file| Mover::new(depth, file).ok());
        let engine = match &mover {
            _ if is_emulated => Engine::Memory,
            Some(_) => Engine::Ring,
            None => Engine::Threads,
        };
        let hand = Hand::new(&mut device, passed.clone());
        let queue = Queue::new(scheduler, Box::new(hand), settings);
        let shared = Arc::new(Shared {
            born: Instant::now(),
            inbox: Mutex::default(),
            core: Mutex::new(Core::new(queue, passed, backing.clone(), is_emulated, status.clone())),
            pool: Pool::default(),
            engine,
            waker: mover.as_ref().map(Mover::waker),
            wake: Condvar::new(),
            is_cached: backing.is_cached(),
            backing,
        });
        let mut host = StoreHost { shared, status, most_sectors: settings.max_sectors, thread: None, movers: Vec::new() };
        let threads = match engine {
            Engine::Memory => 0,
            Engine::Ring => BESIDE_RING,
            // One more, so that a flush does not wait for transfers.
            Engine::Threads => depth + 1,
        };
        for number in 0..threads {
            let shared = host.shared.clone();
            host.movers.push(thread::Builder::new().name(format!("store-{number}")).spawn(move || shared.work())?);
        }
        let shared = host.shared.clone();
        host.thread = Some(thread::Builder::new().name("store".to_owned()).spawn(move || shared.serve(mover))?);
        Ok(host)
    }

    /// The maximum sectors of a piece.
    pub fn most_sectors(&self) -> u32 {
        self.most_sectors
    }

    /// How data is moved.
    pub fn engine(&self) -> Engine {
        self.shared.engine
    }

    /// Submits work and starts it at once.
    pub fn submit(&self, work: Work) {
        self.put(work, &mut Batch::default());
    }

    /// Submits work that starts with the batch.
    pub fn put(&self, work: Work, batch: &mut Batch) {
        self.shared.lock().commands.push(Command::Work(work));
        if !batch.stores.iter().any(|store| Arc::ptr_eq(store, &self.shared)) {
            batch.stores.push(self.shared.clone());
        }
    }

    /// Zeroes ranges (byte offset and length) without freeing their space, and makes that durable. Blocks until done. Issues one request of
    /// `stream` at a time, so that the scheduler can serve others in between.
    ///
    /// # Errors
    /// The medium failed, or the store ends.
    pub fn zero(&self, stream: StreamId, ranges: impl IntoIterator<Item = (u64, u64)>) -> io::Result<()> {
        let (sender, answers) = mpsc::channel();
        let replies = Arc::new(Waiter(sender));
        let ask = |kind, pieces| {
            self.submit(Work { stream, kind, pieces, is_durable: false, replies: replies.clone(), cookie: 0 });
            answers.recv().unwrap_or_else(|_| Err(io::Error::other("the store ends")))
        };
        let most = if self.shared.backing.zeroes_at_once() { MOST_ZEROED_BYTES } else { ZEROED_BYTES };
        for (offset, bytes) in ranges {
            let end = offset + bytes;
            for from in (offset..end).step_by(most as usize) {
                let sectors = ((end - from).min(most) / 512) as u32;
                ask(Kind::Zero, [Piece { lba: Some(from / 512), sectors, buffer: None }].into())?;
            }
        }
        ask(Kind::Flush, SmallVec::new())
    }

    /// Writes blocks, as byte offset and data, and makes them durable. Blocks until done.
    ///
    /// # Errors
    /// The medium failed, or the store ends.
    pub fn write_durably(&self, stream: StreamId, blocks: Vec<(u64, Buffer)>) -> io::Result<()> {
        let (sender, answers) = mpsc::channel();
        let replies: Arc<dyn Replies> = Arc::new(Waiter(sender));
        let work = |kind, pieces| Work { stream, kind, pieces, is_durable: false, replies: replies.clone(), cookie: 0 };
        let count = blocks.len();
        let mut batch = Batch::default();
        for (offset, data) in blocks {
            let sectors = (data.len() / 512) as u32;
            self.put(work(Kind::Write, [Piece { lba: Some(offset / 512), sectors, buffer: Some(data) }].into()), &mut batch);
        }
        batch.run();
        let answer = || answers.recv().unwrap_or_else(|_| Err(io::Error::other("the store ends")));
        // All answers: a failed write must not leave another one under way.
        let written: Vec<io::Result<()>> = (0..count).map(|_| answer()).collect();
        written.into_iter().collect::<io::Result<()>>()?;
        self.submit(work(Kind::Flush, SmallVec::new()));
        answer()
    }

    /// Sets the tenants. `tenants` are the streams, with their numbers on the roster, whose standings [`report`](StoreHost::report)
    /// returns.
    pub fn set_roster(&self, roster: Roster, tenants: &[(StreamId, usize)]) {
        self.command(Command::Roster(Box::new(roster), tenants.to_vec()));
    }

    /// Replaces the scheduler; the new one takes over the queued requests.
    pub fn set_scheduler(&self, scheduler: Box<dyn Scheduler>) {
        self.command(Command::Scheduler(scheduler));
    }

    /// Sets the values of the scheduler's tunables, in their order.
    pub fn retune(&self, values: &[i64]) {
        self.command(Command::Retune(values.to_vec()));
    }

    /// Sets the maximum number of requests at the device, limited to its own maximum.
    pub fn set_depth(&self, depth: usize) {
        self.command(Command::Depth(depth));
    }

    /// Sets the largest read-ahead chunk for sequential readers, in sectors; 0 disables read-ahead. No chunk crosses a multiple of
    /// `region_sectors`.
    pub fn set_read_ahead(&self, most_sectors: u64, region_sectors: u64) {
        self.command(Command::ReadAhead(most_sectors, region_sectors));
    }

    /// Events since the previous call; the first call starts recording. `None` if the store has ended.
    pub fn observe(&self) -> Option<Observed> {
        let (sender, answer) = mpsc::channel();
        self.command(Command::Observe(sender));
        answer.recv().ok()
    }

    /// The current report; `None` if the store has ended.
    pub fn report(&self) -> Option<Report> {
        let (sender, answer) = mpsc::channel();
        self.command(Command::Report(sender));
        answer.recv().ok()
    }

    /// The counters since the store was opened.
    pub fn status(&self) -> &StoreStatus {
        &self.status
    }

    /// Blocks until the store's thread sleeps: until then it may be in a turn, in which it would answer requests of another thread.
    #[cfg(test)]
    pub(super) fn wait_for_sleep(&self) {
        while !self.shared.lock().is_asleep {
            thread::yield_now();
        }
    }

    fn command(&self, command: Command) {
        self.shared.lock().commands.push(command);
        self.shared.run(&mut Turn::default(), MOST_TURNS);
    }
}

impl Drop for StoreHost {
    fn drop(&mut self) {
        self.shared.change(|inbox| {
            inbox.is_ended = true;
            true
        });
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        self.shared.pool.end();
        for mover in self.movers.drain(..) {
            let _ = mover.join();
        }
    }
}
