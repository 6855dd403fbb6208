//! The state of a store: handles new work, completed transfers and the passing of time.

use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};

use block::{Nanos, Op, Priority, Request, RequestId, Roster, Scheduler, Standing, StreamId};
use sim::host::Queue;
use sim::run::{Finished, Issue, Server, ServerEvent, Transferred};
use slab::Slab;
use smallvec::SmallVec;
use uring::{Buffer, Buffers};

use super::device::Passed;
use super::job::{Done, Job, Moves, Pieces};
use super::read_ahead::{Found, ReadAhead};
use super::recent::{Recent, Served};
use super::status::StoreStatus;
use super::totals::{ByStream, Totals};
use super::work::{Kind, Piece, Replies, Work};
use backing::Backing;

/// Set in the token of a flush, whose other bits are a key of `work`. All other tokens are keys of `pieces`.
const OF_FLUSH: u64 = 1 << 63;

/// Service, response times and guarantees of a store's streams.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Service of each stream in the last whole second.
    pub served: BTreeMap<StreamId, Served>,
    /// Response times of each stream since the store was opened.
    pub totals: BTreeMap<StreamId, Totals>,
    /// Standing of each tenant's guarantee, by stream; without those for which the scheduler keeps no account.
    pub standings: BTreeMap<StreamId, Standing>,
    /// As `standings`, at the end of the second that `served` is of.
    pub at_second: BTreeMap<StreamId, Standing>,
    /// Bytes of reads answered from read-ahead, and bytes read ahead, since the store was opened.
    pub ahead_bytes: [u64; 2],
}

/// Events at a store since the previous observation.
#[derive(Debug, Default)]
pub struct Observed {
    /// Time of this observation.
    pub now: Nanos,
    /// Events of the queue in front of the device, including read-ahead.
    pub queue: Vec<ServerEvent>,
    /// Arrivals and completions of clients' reads and writes, each as one request, before splitting.
    pub clients: Vec<ServerEvent>,
    /// Events were dropped because too many had accumulated.
    pub is_incomplete: bool,
}

pub(super) enum Command {
    Work(Work),
    Roster(Box<Roster>, Vec<(StreamId, usize)>),
    Report(mpsc::Sender<Report>),
    Observe(mpsc::Sender<Observed>),
    Scheduler(Box<dyn Scheduler>),
    /// New values of the scheduler's tunables.
    Retune(Vec<i64>),
    Depth(usize),
    /// Largest chunk and region size, in sectors.
    ReadAhead(u64, u64),
}

/// Events kept until they are observed: some seconds of the fastest store.
const MOST_EVENTS: usize = 1 << 19;

/// Work in progress: of a client, or a read-ahead chunk.
struct UnderWay {
    stream: StreamId,
    kind: Kind,
    is_durable: bool,
    replies: Arc<dyn Replies>,
    cookie: u64,
    /// Pieces that are not complete.
    open: usize,
    /// Arrival time, and total bytes of the pieces.
    begun: Nanos,
    bytes: u64,
    error: Option<io::Error>,
    /// Buffers of complete pieces with their index, because pieces complete in any order.
    buffers: SmallVec<[(usize, Buffer); 1]>,
    /// Sector ranges (first, count) of a write, trim or zero; otherwise empty.
    changes: SmallVec<[(u64, u64); 1]>,
    /// First sector of the read-ahead chunk that this work fills; `None` for a client's request.
    ahead: Option<u64>,
    /// First mapped sector, for observed events; 0 if there is none.
    lba: u64,
}

/// A piece in progress.
struct PieceUnderWay {
    work: usize,
    number: usize,
    keeps_space: bool,
    buffer: Option<Buffer>,
    /// Failed in a merged request together with read-ahead; is retried by itself.
    again: bool,
}

/// Work of a thread for the store between two turns under its lock.
#[derive(Default)]
pub(super) struct Turn {
    /// Jobs to start.
    pub jobs: Vec<Job>,
    /// Those of `jobs` whose data is not in the page cache.
    pub later: Vec<Job>,
    /// Completed jobs.
    pub done: Vec<Done>,
    /// Receivers of the replies given in this turn, to be flushed.
    pub told: Vec<Arc<dyn Replies>>,
}

/// The state of a store, driven by whichever thread holds its lock.
pub(super) struct Core {
    pub queue: Queue,
    passed: Arc<Mutex<Passed>>,
    backing: Arc<dyn Backing>,
    /// Data is in memory and moved at once; the device model determines when a request completes.
    is_emulated: bool,
    status: Arc<StoreStatus>,
    work: Slab<UnderWay>,
    pieces: Slab<PieceUnderWay>,
    /// Result of the last completed flush; `Err` is the operating system's error number.
    flush_result: Result<(), i32>,
    /// A flush failed, so acknowledged data may be lost: everything except reads is refused from then on.
    is_failed: bool,
    recent: Recent,
    /// Standings at the end of the last second.
    at_second: BTreeMap<StreamId, Standing>,
    totals: ByStream,
    read_ahead: ReadAhead,
    /// Streams of the roster with their tenants' numbers.
    tenants: Vec<(StreamId, usize)>,
    /// Events since the last observation; `None` before the first.
    observed: Option<Observed>,
    /// Placeholder receiver of read-ahead chunks, which are completed without a reply.
    no_one: Arc<dyn Replies>,
    /// Time of the last turn.
    last_turn: Nanos,
    // Reused, so that no request allocates.
    pub commands: Vec<Command>,
    pub done: Vec<Done>,
    finished: Vec<Finished>,
    submitted: Vec<Request>,
    issues: Vec<Issue>,
}

impl Core {
    pub(super) fn new(
        queue: Queue,
        passed: Arc<Mutex<Passed>>,
        backing: Arc<dyn Backing>,
        is_emulated: bool,
        status: Arc<StoreStatus>,
    ) -> Core {
        Core {
            queue,
            passed,
            backing,
            is_emulated,
            status,
            work: Slab::new(),
            pieces: Slab::new(),
            flush_result: Ok(()),
            is_failed: false,
            recent: Recent::default(),
            at_second: BTreeMap::new(),
            totals: ByStream::new(),
            read_ahead: ReadAhead::default(),
            tenants: Vec::new(),
            observed: None,
            no_one: Arc::new(NoOne),
            last_turn: Nanos::ZERO,
            commands: Vec::new(),
            done: Vec::new(),
            finished: Vec::new(),
            submitted: Vec::new(),
            issues: Vec::new(),
        }
    }

    /// Whether no work is in progress.
    pub(super) fn is_idle(&self) -> bool {
        self.work.is_empty()
    }

    /// Applies the completions in `done` and executes `commands`. Adds the jobs to start now to `turn`.
    pub(super) fn turn(&mut self, now: Nanos, turn: &mut Turn) {
        if !self.is_idle() {
            self.status.busy_ns.fetch_add((now - self.last_turn).0, Ordering::Relaxed);
        }
        self.last_turn = now;
        let mut done = std::mem::take(&mut self.done);
        for done in done.drain(..) {
            self.moved(done);
        }
        self.done = done;
        let mut finished = std::mem::take(&mut self.finished);
        self.queue.advance(now, &mut finished);
        self.answer(now, &mut finished, turn);
        self.finished = finished;
        let mut commands = std::mem::take(&mut self.commands);
        for command in commands.drain(..) {
            match command {
                Command::Work(work) => self.begin(now, work, turn),
                Command::Roster(roster, tenants) => {
                    self.queue.set_roster(&roster);
                    self.tenants = tenants;
                }
                // The caller may have gone.
                Command::Report(sender) => drop(sender.send(self.report(now))),
                Command::Observe(sender) => drop(sender.send(self.observe(now))),
                Command::Scheduler(scheduler) => self.queue.switch(now, scheduler),
                Command::Retune(values) => self.queue.retune(&values),
                Command::Depth(depth) => self.queue.set_depth(depth),
                Command::ReadAhead(most, region) => self.read_ahead.set(most, region),
            }
        }
        self.commands = commands;
        self.queue.dispatch(now);
        self.note_events();
        self.take_picked(turn);
        if self.is_emulated {
            for job in turn.jobs.drain(..) {
                let done = job.run(&*self.backing);
                self.moved(done);
            }
        }
    }

    fn begin(&mut self, now: Nanos, work: Work, turn: &mut Turn) {
        let Work { stream, kind, pieces, is_durable, replies, cookie } = work;
        let bytes = pieces.iter().map(|piece| 512 * u64::from(piece.sectors)).sum();
        if self.is_failed && kind != Kind::Read {
            let error = io::Error::other("an earlier flush of the store failed");
            tell(turn, replies, cookie, Err(error), Buffers::new());
            return;
        }
        let (open, buffers) = (pieces.len(), SmallVec::new());
        let lba = pieces.iter().find_map(|piece| piece.lba).unwrap_or(0);
        let range = |piece: &Piece| piece.lba.map(|lba| (lba, u64::from(piece.sectors)));
        let is_change = matches!(kind, Kind::Write | Kind::Zero | Kind::Trim);
        let changes = if is_change { pieces.iter().filter_map(range).collect() } else { SmallVec::new() };
        if is_change {
            self.read_ahead.changes(stream, changes.iter().copied(), true);
        }
        self.note_second(now);
        self.recent.arrived(now, stream, kind);
        let (begun, error, ahead) = (now, None, None);
        let under_way =
            UnderWay { stream, kind, is_durable, replies, cookie, open, begun, bytes, error, buffers, changes, ahead, lba };
        let number = self.work.insert(under_way);
        self.note_client(number, None);
        let reads_ahead = kind == Kind::Read && self.read_ahead.most_sectors() > 0;
        if kind == Kind::Flush || pieces.is_empty() {
            self.flush_or_reply(now, number, turn);
            return;
        }
        self.status.pieces.fetch_add(pieces.len() as u64, Ordering::Relaxed);
        for (place, Piece { lba, sectors, buffer }) in pieces.into_iter().enumerate() {
            let Some(lba) = lba else {
                let work = &mut self.work[number];
                work.open -= 1;
                if kind == Kind::Write {
                    work.error.get_or_insert(io::Error::from_raw_os_error(5));
                }
                if let Some(mut buffer) = buffer {
                    // Unmapped ranges read as zeros; the buffer's content is arbitrary.
                    buffer.fill(0);
                    work.buffers.push((place, buffer));
                }
                continue;
            };
            let buffer = match buffer {
                Some(buffer) if reads_ahead => match self.read_ahead.find(stream, lba, number, place, buffer) {
                    Found::Later => None,
                    Found::Here(buffer) => {
                        let work = &mut self.work[number];
                        work.open -= 1;
                        work.buffers.push((place, buffer));
                        None
                    }
                    Found::Not(buffer) => Some(buffer),
                },
                buffer => buffer,
            };
            if buffer.is_some() || !reads_ahead {
                self.admit(now, number, place, lba, sectors, buffer);
            }
            if reads_ahead && let Some((lba, sectors)) = self.read_ahead.note(now, stream, lba, u64::from(sectors)) {
                self.read_chunk(now, stream, lba, sectors);
            }
        }
        if self.work[number].open == 0 {
            self.flush_or_reply(now, number, turn);
        }
    }

    /// Queues a piece at the scheduler.
    fn admit(&mut self, now: Nanos, work: usize, number: usize, lba: u64, sectors: u32, buffer: Option<Buffer>) {
        let UnderWay { stream, kind, .. } = self.work[work];
        let token =
            self.pieces.insert(PieceUnderWay { work, number, keeps_space: kind == Kind::Zero, buffer, again: false }) as u64;
        let op = match kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            Kind::Trim | Kind::Zero | Kind::Flush => Op::Discard,
        };
        self.queue.admit(now, Issue { arrival: now, lba, sectors, op, sync: true, stream, priority: Priority::DEFAULT, token });
    }

    /// Queues a read-ahead chunk, as a request of the volume that it is for.
    fn read_chunk(&mut self, now: Nanos, stream: StreamId, lba: u64, sectors: u64) {
        let (replies, kind, bytes) = (self.no_one.clone(), Kind::Read, 512 * sectors);
        let most = u64::from(self.queue.settings().max_sectors);
        let open = sectors.div_ceil(most) as usize;
        let (buffers, changes) = (SmallVec::new(), SmallVec::new());
        let (begun, error, ahead, is_durable, cookie) = (now, None, Some(lba), false, 0);
        let under_way =
            UnderWay { stream, kind, is_durable, replies, cookie, open, begun, bytes, error, buffers, changes, ahead, lba };
        let number = self.work.insert(under_way);
        for (place, from) in (0..sectors).step_by(most as usize).enumerate() {
            let length = most.min(sectors - from);
            self.admit(now, number, place, lba + from, length as u32, Some(Buffer::dirty(512 * length as usize)));
        }
    }

    /// Completes a read-ahead chunk: the pieces that wait for it get its data, or are queued individually if there is none.
    fn chunk_is_read(&mut self, now: Nanos, start: u64, mut work: UnderWay, turn: &mut Turn) {
        work.buffers.sort_unstable_by_key(|(place, _)| *place);
        let data = match (work.error, work.buffers.len()) {
            (Some(_), _) => None,
            (None, 1) => work.buffers.pop().map(|(_, buffer)| buffer),
            (None, _) => {
                let mut whole = Buffer::dirty(work.bytes as usize);
                let mut at = 0;
                for (_, buffer) in &work.buffers {
                    whole[at..at + buffer.len()].copy_from_slice(buffer);
                    at += buffer.len();
                }
                Some(whole)
            }
        };
        let (waiting, is_there) = self.read_ahead.is_read(start, data);
        for waiting in waiting {
            if !is_there {
                let sectors = (waiting.buffer.len() / 512) as u32;
                self.admit(now, waiting.work, waiting.place, waiting.lba, sectors, Some(waiting.buffer));
                continue;
            }
            let work = &mut self.work[waiting.work];
            work.open -= 1;
            work.buffers.push((waiting.place, waiting.buffer));
            if work.open == 0 {
                self.flush_or_reply(now, waiting.work, turn);
            }
        }
    }

    /// Events since the previous call. The first call starts recording and returns none.
    fn observe(&mut self, now: Nanos) -> Observed {
        self.queue.record_events();
        let observed = self.observed.replace(Observed::default());
        Observed { now, ..observed.unwrap_or_default() }
    }

    fn note_events(&mut self) {
        let Some(observed) = &mut self.observed else { return };
        self.queue.take_events(&mut observed.queue);
        if observed.queue.len().max(observed.clients.len()) > MOST_EVENTS {
            *observed = Observed { is_incomplete: true, ..Observed::default() };
        }
    }

    /// Records the arrival of a client's read or write, or its completion at `done`; does nothing before the first observation.
    fn note_client(&mut self, number: usize, done: Option<Nanos>) {
        let Some(observed) = &mut self.observed else { return };
        let UnderWay { stream, kind, begun, bytes, lba, .. } = self.work[number];
        let op = match kind {
            Kind::Read => Op::Read,
            Kind::Write => Op::Write,
            // Rare, and not used to evaluate settings.
            Kind::Trim | Kind::Zero | Kind::Flush => return,
        };
        let (sectors, priority, token) = ((bytes / 512) as u32, Priority::DEFAULT, number as u64);
        let issue = Issue { arrival: begun, lba, sectors, op, sync: true, stream, priority, token };
        observed.clients.push(match done {
            None => ServerEvent::Issued(issue),
            Some(at) => ServerEvent::Finished(Transferred { issue, bytes, dispatched: begun, at }),
        });
    }

    /// Queues a flush if the work requires one and the device has a write cache; otherwise replies.
    fn flush_or_reply(&mut self, now: Nanos, number: usize, turn: &mut Turn) {
        let work = &self.work[number];
        let flushes = work.kind == Kind::Flush || work.is_durable && work.error.is_none();
        if !flushes || !self.queue.flush(now, work.stream, OF_FLUSH | number as u64) {
            self.reply(now, number, turn);
        }
    }

    fn report(&mut self, now: Nanos) -> Report {
        self.note_second(now);
        let (standings, at_second) = (self.standings(now), self.at_second.clone());
        let ahead_bytes = [self.read_ahead.hit_bytes, self.read_ahead.read_bytes];
        Report { served: self.recent.last(now).clone(), totals: self.totals.clone(), standings, at_second, ahead_bytes }
    }

    fn standings(&self, now: Nanos) -> BTreeMap<StreamId, Standing> {
        let standing = |(stream, tenant): &(StreamId, usize)| Some((*stream, self.queue.standing(now, *tenant)?));
        self.tenants.iter().filter_map(standing).collect()
    }

    /// Notes the standings at the end of a second, before an event of the next one.
    fn note_second(&mut self, now: Nanos) {
        if self.recent.is_over(now) {
            self.at_second = self.standings(now);
        }
    }

    fn reply(&mut self, now: Nanos, number: usize, turn: &mut Turn) {
        if let Some(start) = self.work[number].ahead {
            let work = self.work.remove(number);
            self.chunk_is_read(now, start, work, turn);
            return;
        }
        self.note_client(number, Some(now));
        let UnderWay { stream, kind, begun, bytes, replies, cookie, error, mut buffers, changes, .. } = self.work.remove(number);
        if matches!(kind, Kind::Write | Kind::Zero | Kind::Trim) {
            self.read_ahead.changes(stream, changes.iter().copied(), false);
        }
        self.note_second(now);
        self.recent.record(now, stream, kind, bytes, now - begun);
        self.totals.entry(stream).or_default().record(kind, now - begun);
        buffers.sort_unstable_by_key(|(place, _)| *place);
        let buffers = buffers.into_iter().map(|(_, buffer)| buffer).collect();
        tell(turn, replies, cookie, error.map_or(Ok(()), Err), buffers);
    }

    /// Turns the requests that the scheduler dispatched into jobs.
    fn take_picked(&mut self, turn: &mut Turn) {
        let flush = {
            let mut passed = self.passed.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::swap(&mut passed.submitted, &mut self.submitted);
            passed.flush.take()
        };
        self.status.requests.fetch_add(self.submitted.len() as u64, Ordering::Relaxed);
        for request in self.submitted.drain(..) {
            let issues = &mut self.issues;
            issues.clear();
            issues.extend(self.queue.issues_of(request.id));
            issues.sort_unstable_by_key(|issue| issue.lba);
            let what = if request.op == Op::Discard {
                let range = |issue: &Issue| {
                    let keeps = self.pieces.get(issue.token as usize).is_some_and(|piece| piece.keeps_space);
                    (512 * issue.lba, issue.bytes(), keeps)
                };
                Moves::Zeros(issues.iter().map(range).collect())
            } else {
                let kind = if request.op == Op::Read { Kind::Read } else { Kind::Write };
                let mut pieces = Pieces::new();
                for issue in issues.iter() {
                    let buffer = self.pieces.get_mut(issue.token as usize).and_then(|piece| piece.buffer.take());
                    pieces.extend(buffer.map(|buffer| (issue.token as usize, buffer)));
                }
                Moves::Data { kind, offset: 512 * request.lba, pieces }
            };
            turn.jobs.push(Job { id: request.id, what });
        }
        if let Some(id) = flush {
            self.status.flushes.fetch_add(1, Ordering::Relaxed);
            turn.jobs.push(Job { id, what: Moves::Flush });
        }
    }

    /// Applies a completed job: returns the buffers to their pieces, and records an error for each piece of the request.
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
                self.status.failed.fetch_add(1, Ordering::Relaxed);
                let work = &self.work;
                let is_ahead = |piece: &PieceUnderWay| work.get(piece.work).is_some_and(|work| work.ahead.is_some());
                let mut pieces = self.queue.issues_of(id).filter_map(|issue| self.pieces.get(issue.token as usize));
                let has_ahead = pieces.any(is_ahead);
                for issue in self.queue.issues_of(id) {
                    let Some(piece) = self.pieces.get_mut(issue.token as usize) else { continue };
                    if has_ahead && self.work[piece.work].ahead.is_none() {
                        piece.again = true;
                        continue;
                    }
                    let code = error.raw_os_error();
                    let again = code.map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error);
                    self.work[piece.work].error.get_or_insert(again);
                }
            }
        }
        if !self.is_emulated {
            self.passed.lock().unwrap_or_else(PoisonError::into_inner).done.push(id);
        }
    }

    /// Completes pieces and flushes. Work whose last piece is complete is flushed if it has to be durable, then answered.
    fn answer(&mut self, now: Nanos, finished: &mut Vec<Finished>, turn: &mut Turn) {
        for finished in finished.drain(..) {
            match finished {
                Finished::Transfer(done) => {
                    let PieceUnderWay { work, number, buffer, again, .. } = self.pieces.remove(done.issue.token as usize);
                    if again {
                        self.admit(now, work, number, done.issue.lba, done.issue.sectors, buffer);
                        continue;
                    }
                    let under_way = &mut self.work[work];
                    if let Some(buffer) = buffer {
                        under_way.buffers.push((number, buffer));
                    }
                    under_way.open -= 1;
                    if under_way.open == 0 {
                        self.flush_or_reply(now, work, turn);
                    }
                }
                Finished::Flush(done) => {
                    let number = (done.token & !OF_FLUSH) as usize;
                    if let Err(code) = self.flush_result {
                        self.is_failed = true;
                        self.work[number].error.get_or_insert(io::Error::from_raw_os_error(code));
                    }
                    self.reply(now, number, turn);
                }
            }
        }
    }
}

/// Discards replies.
struct NoOne;

impl Replies for NoOne {
    fn done(&self, _: u64, _: io::Result<()>, _: Buffers) {}

    fn flush(&self) {}
}

fn tell(turn: &mut Turn, replies: Arc<dyn Replies>, cookie: u64, result: io::Result<()>, buffers: Buffers) {
    replies.done(cookie, result, buffers);
    // A duplicate in the list is harmless and rare: replies to one client usually come in a row.
    if !turn.told.last().is_some_and(|last| Arc::ptr_eq(last, &replies)) {
        turn.told.push(replies);
    }
}
