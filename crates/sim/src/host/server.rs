//! The host: admits calls and runs each through its stages.
//!
//! ```text
//! Call --+-- buffered read ------ Read ----------------------------------------------+--> Finished
//!        +-- buffered write ----- Write --(O_SYNC)--> Flush -> Settle -> Barrier ----+
//!        +-- fsync -------------- Flush -> Settle -> Barrier ------------------------+
//!        +-- fadvise(DONTNEED) -- Forget -> Flush
//!        +-- direct read -------- Flush -> Settle ---------> Issue -> Pieces --------+
//!        +-- direct write ------- Flush -> Settle -> Drop -> Issue -> Pieces --------+
//!        +-- discard ----------------------------- > Drop -> Issue -> Pieces --------+
//! ```
//! A stage runs until it has to wait for a page in transfer, room in the queue, memory, or a time. The host wakes it.
//!
//! Simplified: each process has a processor of its own; a call's processor time is spent at its end; files have no locks, so
//! calls on the same file never wait for each other; blocks are as large as pages.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

use block::{Nanos, Op, SettingError, StreamId};
use slab::Slab;

use super::background::Background;
use super::read_ahead::ReadAhead;
use super::reclaim::Memory;
use super::running::{Running, Stage, Step, Wait};
use super::settings::settable;
use super::throttle::Writer;
use super::transfers::{Ended, PageRun, Purpose};
use super::{Access, Call, FileId, Files, HostError, HostSettings, HostTally, Queue, SwapTally, TUNABLES};
use super::{direct, reading, syncing, writing};
use crate::run::{Finished, Flushed, Issue, Server, ServerEvent, Steerable, Transferred};

/// Maximum number of calls in progress.
const MAX_CALLS: usize = 65_536;
/// Processor time of a call through the page cache, and of each page it copies: assumed, as on processors of 3 GHz that copy
/// 10 GB a second. Direct calls cost none.
const CALL_TIME: Nanos = Nanos(500);
const PAGE_TIME: Nanos = Nanos(400);
/// Time after which a process that waits for memory retries, if it is not woken earlier (`VMSCAN_THROTTLE_WRITEBACK`).
const MEMORY_WAIT: Nanos = Nanos::from_millis(100);

/// State of a process's open file.
struct OpenFile {
    read_ahead: ReadAhead,
    writer: Writer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A call's processor time ends.
    End(usize),
    /// A call's sleep ends.
    Resume(usize),
    /// A background process touches its next page.
    Touch(usize),
}

/// A machine with one block device: page cache, read-ahead, write-back and swap above its queue.
pub struct Host {
    settings: HostSettings,
    memory: Memory,
    background: Background,
    calls: Slab<Running>,
    open_files: Vec<OpenFile>,
    open_file_numbers: BTreeMap<(StreamId, FileId), u32>,
    timers: BinaryHeap<Reverse<(Nanos, u64, Timer)>>,
    started_timers: u64,
    /// Calls that can continue.
    ready: VecDeque<usize>,
    room_waiters: VecDeque<usize>,
    memory_waiters: Vec<usize>,
    /// Time at which `memory_waiters` retry.
    memory_retry: Option<Nanos>,
    memory_waits: u64,
    /// Buffer for completions of the queue.
    done: Vec<Finished>,
}

impl Host {
    /// A host with `files` on the device behind `queue`, whose settings are taken from `settings`.
    ///
    /// # Errors
    /// A setting is out of range, the swap area is larger than the device, a file reaches into it, or anonymous memory exceeds
    /// memory and swap together.
    pub fn new(queue: Queue, files: Arc<Files>, settings: HostSettings) -> Result<Host, HostError> {
        settings.check()?;
        let mut memory = Memory::new(queue, files, &settings)?;
        memory.transfers.queue_mut().set_settings(Nanos::ZERO, settings.queue());
        let mut host = Host {
            settings,
            memory,
            background: Background::new(&settings),
            calls: Slab::new(),
            open_files: Vec::new(),
            open_file_numbers: BTreeMap::new(),
            timers: BinaryHeap::new(),
            started_timers: 0,
            ready: VecDeque::new(),
            room_waiters: VecDeque::new(),
            memory_waiters: Vec::new(),
            memory_retry: None,
            memory_waits: 0,
            done: Vec::new(),
        };
        for process in 0..host.background.processes() {
            let at = host.background.next_touch(Nanos::ZERO, process);
            host.start_timer(at, Timer::Touch(process));
        }
        Ok(host)
    }

    /// The queue of the device.
    pub fn queue(&self) -> &Queue {
        self.memory.transfers.queue()
    }

    pub(super) fn queue_mut(&mut self) -> &mut Queue {
        self.memory.transfers.queue_mut()
    }

    /// The current settings.
    pub fn settings(&self) -> &HostSettings {
        &self.settings
    }

    /// Counts so far.
    pub fn tally(&self) -> HostTally {
        let reads = self.memory.cache.reads();
        let writes = self.memory.write_back.counts();
        let (reclaimed, memory_peak) = self.memory.counts();
        let (pages_in, pages_out) = self.memory.swap.swapped();
        HostTally {
            hits: reads.hits,
            misses: reads.misses,
            read_ahead: reads.ahead,
            read_ahead_used: reads.ahead_used,
            read_ahead_wasted: reads.ahead_wasted,
            dirtied: writes.dirtied,
            written_back: writes.written_back,
            dirty: self.memory.write_back.dirty_pages(),
            dirty_peak: writes.dirty_peak,
            throttled: writes.throttled,
            memory_waits: self.memory_waits,
            reclaimed,
            swap: SwapTally { pages_in, pages_out, faults: self.background.faults() },
            memory_peak,
        }
    }

    /// Sets the tunable at `index` of [`TUNABLES`] at `now`, as writing to its file under `/sys` or `/proc/sys` would.
    ///
    /// # Errors
    /// There is no such tunable, or the value is out of its range; nothing changes then.
    pub fn set(&mut self, now: Nanos, index: usize, value: i64) -> Result<(), SettingError> {
        settable(TUNABLES, index, value)?;
        let before = self.settings.queue();
        self.settings = self.settings.with(index, value);
        let queue = self.settings.queue();
        if queue != before {
            self.queue_mut().set_settings(now, queue);
        }
        self.memory.set(now, &self.settings);
        Ok(())
    }

    fn start_timer(&mut self, at: Nanos, timer: Timer) {
        self.started_timers += 1;
        self.timers.push(Reverse((at, self.started_timers, timer)));
    }

    fn start_call(&mut self, now: Nanos, call: Call) -> Running {
        let file = call.action.file();
        let bytes = self.memory.transfers.files().get(file as usize).map(|file| file.bytes);
        let cached = bytes.is_some() && self.memory.cache.cached(file) > 0;
        let mut running = Running::new(now, call, bytes.unwrap_or(0), cached);
        if !running.is_empty() {
            running.open_file = self.open_file(call.stream, file);
        }
        running
    }

    /// Whether a file has no extents on the device.
    fn is_unmapped(&self, file: FileId) -> bool {
        self.memory.transfers.files().get(file as usize).is_some_and(|file| file.extents.is_empty())
    }

    fn open_file(&mut self, stream: StreamId, file: FileId) -> u32 {
        if let Some(&number) = self.open_file_numbers.get(&(stream, file)) {
            return number;
        }
        let number = self.open_files.len() as u32;
        self.open_files.push(OpenFile { read_ahead: ReadAhead::new(), writer: Writer::new() });
        self.open_file_numbers.insert((stream, file), number);
        number
    }

    /// Runs a call until it waits or is done.
    fn step(&mut self, now: Nanos, id: usize) {
        self.memory.transfers.begin_batch();
        loop {
            let running = &mut self.calls[id];
            let open_file = running.open_file as usize;
            let memory = &mut self.memory;
            let step = match running.stage {
                Stage::Read => reading::read(now, running, &mut self.open_files[open_file].read_ahead, memory),
                Stage::Write => writing::write(now, running, &mut self.open_files[open_file].writer, memory),
                Stage::Flush => syncing::flush_range(now, running, memory),
                Stage::Settle => syncing::settle(running, memory),
                Stage::Barrier => syncing::barrier(now, id, running, memory),
                Stage::Drained if running.open > 0 => Step::Wait(Wait::Own),
                Stage::Drained => Step::Done,
                Stage::Forget => {
                    syncing::drop_clean(running, memory);
                    Step::Next(Stage::Flush)
                }
                Stage::Drop => syncing::drop_range(running, memory),
                Stage::Issue => direct::issue(now, id, running, memory),
                Stage::Pieces => direct::pieces(running, memory),
            };
            match step {
                Step::Wait(wait) => return self.wait(now, id, wait),
                Step::Next(stage) => (running.stage, running.page) = (stage, running.first_page()),
                Step::Done => return self.end(now, id),
            }
        }
    }

    /// Registers a call's wait.
    fn wait(&mut self, now: Nanos, id: usize, wait: Wait) {
        match wait {
            Wait::Transfer(transfer) => self.memory.transfers.wait(transfer, id),
            Wait::Room => self.room_waiters.push_back(id),
            Wait::Memory => {
                self.memory_waits += 1;
                self.memory_waiters.push(id);
                self.memory_retry.get_or_insert(now + MEMORY_WAIT);
            }
            Wait::Until(at) => self.start_timer(at, Timer::Resume(id)),
            // Completions of its own requests wake it.
            Wait::Own => {}
        }
    }

    /// Ends a call: its completion is reported when its processor time is over.
    fn end(&mut self, now: Nanos, id: usize) {
        let running = &self.calls[id];
        if running.is_advice() {
            self.calls.remove(id);
            return;
        }
        let cost = match running.access() {
            None | Some(Access::Direct) => Nanos::ZERO,
            _ => Nanos(CALL_TIME.0 + PAGE_TIME.0 * running.copied),
        };
        self.start_timer(now + cost, Timer::End(id));
    }

    /// The completion of a call at `at`; a transfer has its first sector on the device and the number of sectors moved.
    fn finished(&self, running: &Running, at: Nanos) -> Finished {
        let Running { call, from, to, op, .. } = *running;
        let (arrival, stream, priority, token) = (call.arrival, call.stream, call.priority, call.token);
        let Some(access) = running.access() else {
            return Finished::Flush(Flushed { arrival, stream, token, at });
        };
        let file = self.memory.transfers.files().get(running.file as usize);
        let lba = file.and_then(|file| file.pieces(from / 512, 1).next()).map_or(0, |(lba, _)| lba);
        let sectors = if running.is_empty() { 0 } else { (to.div_ceil(512) - from / 512) as u32 };
        let sync = op == Op::Read || access != Access::Buffered;
        let issue = Issue { arrival, lba, sectors, op, sync, stream, priority, token };
        Finished::Transfer(Transferred { issue, bytes: to.saturating_sub(from), dispatched: running.dispatched, at })
    }

    fn take_completions(&mut self, now: Nanos) {
        let mut done = std::mem::take(&mut self.done);
        self.memory.transfers.advance(now, &mut done);
        for piece in done.drain(..) {
            match self.memory.transfers.ended(&mut self.memory.cache, &piece) {
                Ended::Part => {}
                Ended::Transfer(purpose, run, waiters) => {
                    self.transfer_ended(now, purpose, run);
                    self.ready.extend(self.memory.transfers.waiters(waiters));
                    self.wake_memory_waiters();
                }
                Ended::OfCall(id) => {
                    let running = &mut self.calls[id];
                    running.open -= 1;
                    if let Some(piece) = piece.transfer() {
                        running.dispatched = piece.dispatched;
                    }
                    if running.open == 0 {
                        self.ready.push_back(id);
                    }
                }
            }
        }
        self.done = done;
    }

    fn transfer_ended(&mut self, now: Nanos, purpose: Purpose, run: PageRun) {
        match purpose {
            Purpose::Read => {}
            Purpose::WriteBack => self.memory.write_back.written(run.file, run.pages),
            Purpose::SwapIn => {
                self.memory.swap.read_done();
                let timers = &mut self.timers;
                self.background.wake(run.first, |process| timers.push(Reverse((now, 0, Timer::Touch(process)))));
            }
            Purpose::SwapOut => self.memory.swap.write_done(),
        }
    }

    fn wake_memory_waiters(&mut self) {
        self.memory.retry_reclaim();
        self.memory_retry = None;
        self.ready.extend(self.memory_waiters.drain(..));
    }

    fn run_ready(&mut self, now: Nanos) {
        while let Some(id) = self.ready.pop_front() {
            self.step(now, id);
        }
    }

    /// Resumes calls that wait for room in the queue: the first in any case, others while there is room.
    fn run_room_waiters(&mut self, now: Nanos) {
        if let Some(id) = self.room_waiters.pop_front() {
            self.calls[id].may_overfill = true;
            self.step(now, id);
        }
        while let Some(&id) = self.room_waiters.front()
            && !self.memory.transfers.is_full(self.calls[id].call.stream, true)
        {
            self.room_waiters.pop_front();
            self.step(now, id);
        }
    }

    fn run_timers(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        while let Some(&Reverse((at, _, timer))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            match timer {
                Timer::End(id) => {
                    let running = self.calls.remove(id);
                    let done = self.finished(&running, at);
                    self.queue_mut().record_event(ServerEvent::Returned(done));
                    finished.push(done);
                }
                Timer::Resume(id) => self.ready.push_back(id),
                Timer::Touch(process) => {
                    self.memory.transfers.begin_batch();
                    if let Some(at) = self.background.touch(now, process, &mut self.memory) {
                        self.start_timer(at, timer);
                    }
                }
            }
        }
    }
}

impl Server for Host {
    type Work = Call;

    fn has_room(&self) -> bool {
        self.calls.len() < MAX_CALLS && self.queue().has_room()
    }

    fn admit(&mut self, now: Nanos, call: Call) {
        let running = self.start_call(now, call);
        let is_empty = running.is_empty();
        if running.is_advice() && (is_empty || self.is_unmapped(call.action.file())) {
            return;
        }
        let is_advice = running.is_advice();
        let id = self.calls.insert(running);
        // Advice has no completion, so its call is not recorded either.
        if !is_advice {
            self.queue_mut().record_event(ServerEvent::Called { stream: call.stream, at: now });
        }
        // Calls on empty ranges, beyond the end, or on a file without extents end at once.
        if is_empty || self.is_unmapped(call.action.file()) { self.start_timer(now, Timer::End(id)) } else { self.step(now, id) }
    }

    fn next_event(&self) -> Option<Nanos> {
        let timer = self.timers.peek().map(|Reverse((at, ..))| *at);
        [self.queue().next_event(), timer, self.memory.write_back.wake_at(), self.memory_retry].into_iter().flatten().min()
    }

    fn advance(&mut self, now: Nanos, finished: &mut Vec<Finished>) {
        self.take_completions(now);
        if self.memory_retry.is_some_and(|at| at <= now) {
            self.wake_memory_waiters();
        }
        self.run_timers(now, finished);
        self.run_ready(now);
        self.run_room_waiters(now);
        self.run_ready(now);
        self.memory.transfers.begin_batch();
        self.memory.write_back.flush(now, &mut self.memory.cache, &mut self.memory.transfers);
        self.run_timers(now, finished);
    }

    fn dispatch(&mut self, now: Nanos) {
        self.queue_mut().dispatch(now);
    }

    fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }

    fn steerable(&mut self) -> Option<&mut dyn Steerable> {
        Some(self)
    }
}
