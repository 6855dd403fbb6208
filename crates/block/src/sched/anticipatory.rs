//! Deadline batches, with a short wait after a synchronous request for the next one of the same process.
//!
//! A process that reads block after block leaves the disk idle while it thinks (*deceptive idleness*); serving another process in between
//! costs two seeks. This scheduler waits if the process's history predicts a gain.
//!
//! ```text
//!                       last synchronous request    it completes       antic_expire passes, a close request or one of the
//!        Off ----------> WaitRequest -------------> WaitNext --------> Finished      same process arrives: serve the queue
//!         ^   no good candidate                                           |
//!         '------------------- a request leaves --------------------------'
//! ```
//!
//! Two differences from the kernel, which has more information about processes: A scheduler here is not notified of exits, so the estimate
//! `exit_no_coop` is left out, and `exit_prob` alone decides about processes without a history, as in Linux 2.6.12. And a wait begins when
//! the last request of the process in flight completes, not the first, as the disk may hold several.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{ASYNC, COMPLETION_BACKSTOP, Insertion, Pick, SYNC, Scheduler, SchedulerSpec, by_kind};
use crate::decay::{DecayingMean, decayed};
use crate::directory::Directory;
use crate::queue::{Limits, Merging, Placed, Queue, Slot};
use crate::{Nanos, Request, Tunable, Unit, tunables};

pub(super) static SPEC: SchedulerSpec = SchedulerSpec {
    name: "anticipatory",
    summary: "waits a moment for the next request of the process just served",
    source: "Iyer, Druschel, Anticipatory scheduling, SOSP 2001; Linux 2.6.32 block/as-iosched.c",
    tunables: Tunables::TUNABLES,
    work_conserving: false,
    starvation_bound: None,
    knowledge: None,
    build: |limits, values| Box::new(Anticipatory::new(limits, values)),
};

tunables! {
    /// The tunables.
    struct Tunables {
        /// The longest wait for the next request of a process. 0 never waits.
        antic_expire: Nanos = Tunable::new(Unit::Milliseconds, 0..=100, 6),
        /// How often a batch of synchronous requests checks whether its oldest has waited this long, and serves it if so.
        read_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 125).logarithmic(),
        /// How often a batch of asynchronous writes checks whether its oldest has waited this long, and serves it if so.
        write_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=300_000, 250).logarithmic(),
        /// How long synchronous requests are served before waiting asynchronous writes have their turn.
        read_batch_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 500).logarithmic(),
        /// How long asynchronous writes are served before waiting synchronous requests have their turn.
        write_batch_expire: Nanos = Tunable::new(Unit::Milliseconds, 1..=60_000, 125).logarithmic(),
    }
}

/// Cap of a recorded think time, so that a program that changes its access pattern is not penalised for long.
const MAX_THINK_TIME: u64 = Nanos::from_millis(20).0;
/// Maximum backward seek in sectors, and the factor by which backward distance counts (`MAXBACK`, `BACK_PENALTY`).
const BACK_SEEK_MAX: u64 = 1024 * 1024;
const BACK_SEEK_PENALTY: u64 = 2;
/// Probability 1 in the fixed point of the exit probability.
const ONE: u64 = 256;
/// Upper bound of the writes in a batch.
const WRITE_BATCH_MAX: u64 = 1 << 20;

struct Tuning {
    antic_expire: Nanos,
    /// By kind: how often a batch checks its oldest request, and the age at which that expires.
    expire: [Nanos; 2],
    /// By kind: how long a batch lasts while the other kind waits.
    batch_expire: [Nanos; 2],
}

impl Tuning {
    fn new(values: &[i64]) -> Tuning {
        let set = Tunables::of(values);
        Tuning {
            antic_expire: set.antic_expire,
            expire: by_kind(set.write_expire, set.read_expire),
            batch_expire: by_kind(set.write_batch_expire, set.read_batch_expire),
        }
    }
}

/// The history of a process (Linux `struct as_io_context`).
#[derive(Clone, Copy, Default)]
struct Process {
    think: DecayingMean,
    seek: DecayingMean,
    /// End of its last synchronous request; `None` before the first.
    last_end: Option<u64>,
    /// Completion time of its last synchronous request; `None` before the first.
    last_completion: Option<Nanos>,
    queued: u32,
    /// Requests in flight, by kind.
    at_device: [u32; 2],
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Anticipation {
    Off,
    WaitRequest,
    WaitNext,
    Finished,
}

/// Statistics of processes that have just started (`new_ttime_mean`, `new_seek_mean`, `exit_prob`).
#[derive(Default)]
struct Newcomers {
    think_total: u64,
    seek_total: u64,
    exit_probability: u64,
}

impl Newcomers {
    fn think_mean(&self) -> u64 {
        self.think_total / 256
    }

    fn seek_mean(&self) -> u64 {
        self.seek_total / 256
    }
}

struct Batch {
    kind: usize,
    began: Nanos,
    ends: Nanos,
    /// The batch of `kind` begins once the device has completed the previous batch's requests.
    changing: bool,
    /// The time of a new batch of synchronous requests is counted from its first completion.
    counts_from_completion: bool,
    /// Maximum writes in a batch, adapted so that it lasts about `write_batch_expire`.
    writes: u64,
    writes_left: u64,
    /// The current batch of writes had the disk to itself, so it does not count as too long.
    writes_uncontended: bool,
}

struct Anticipatory {
    tuning: Tuning,
    queue: Queue,
    directory: Directory,
    processes: Vec<Process>,
    newcomers: Newcomers,
    batch: Batch,
    last_expiry_check: [Nanos; 2],
    last_sector: [u64; 2],
    at_device: u32,
    anticipation: Anticipation,
    /// The process of the last dispatched request, if that was synchronous; held in the directory.
    process: Option<usize>,
    /// Completion time of its last synchronous request; `None` while one is in flight.
    process_idle_since: Option<Nanos>,
}

fn kind(request: &Request) -> usize {
    usize::from(request.is_sync())
}

impl Anticipatory {
    fn new(limits: &Limits, values: &[i64]) -> Anticipatory {
        let tuning = Tuning::new(values);
        let batch = Batch {
            kind: SYNC,
            began: Nanos::ZERO,
            ends: tuning.batch_expire[SYNC],
            changing: false,
            counts_from_completion: false,
            writes: (tuning.batch_expire[ASYNC].0 / 10_000_000).max(2),
            writes_left: 0,
            writes_uncontended: false,
        };
        Anticipatory {
            tuning,
            // Merging within a stream only keeps think times and seek distances those of one process.
            queue: Queue::new(*limits, Merging { front: true, within_stream: true }),
            directory: Directory::default(),
            processes: Vec::new(),
            newcomers: Newcomers::default(),
            batch,
            last_expiry_check: [Nanos::ZERO; 2],
            last_sector: [0; 2],
            at_device: 0,
            anticipation: Anticipation::Off,
            process: None,
            process_idle_since: None,
        }
    }

    /// Holds the process of an arriving request and returns its number.
    fn admit(&mut self, request: &Request) -> usize {
        let (number, fresh) = self.directory.hold(u64::from(request.stream));
        if number == self.processes.len() {
            self.processes.push(Process::default());
        } else if fresh {
            self.processes[number] = Process::default();
        }
        number
    }

    fn is_waiting(&self) -> bool {
        matches!(self.anticipation, Anticipation::WaitRequest | Anticipation::WaitNext)
    }

    /// End of the wait for the process; `None` if the wait has not begun.
    fn wait_ends(&self) -> Option<Nanos> {
        self.process_idle_since.map(|since| since + self.tuning.antic_expire)
    }

    /// Stands for the kernel's timer (`as_antic_timeout`).
    fn end_overdue_wait(&mut self, now: Nanos) {
        if self.anticipation != Anticipation::WaitNext || self.wait_ends().is_some_and(|end| now < end) {
            return;
        }
        self.anticipation = Anticipation::Finished;
        if let Some(number) = self.process
            && self.processes[number].think.is_empty()
        {
            self.newcomers.exit_probability = (7 * self.newcomers.exit_probability + ONE) / 8;
        }
    }

    /// Updates think time and seek distance of the process of a synchronous request (`as_update_iohist`).
    fn update_history(&mut self, now: Nanos, number: usize, request: &Request) {
        let process = &mut self.processes[number];
        if let Some(last_end) = process.last_end {
            let idle = process.queued == 0 && process.at_device[SYNC] == 0;
            let thinking = process.last_completion.filter(|_| idle).map_or(0, |since| (now - since).0.min(MAX_THINK_TIME));
            let distance = last_end.abs_diff(request.lba);
            if process.think.is_empty() {
                self.newcomers.think_total = decayed(self.newcomers.think_total, thinking);
                self.newcomers.exit_probability = 7 * self.newcomers.exit_probability / 8;
            }
            process.think.add(thinking);
            if process.seek.is_empty() {
                self.newcomers.seek_total = decayed(self.newcomers.seek_total, distance);
            }
            // Limits the effect of a single far request on the mean; the first few may move it more.
            let slack = if process.seek.samples() <= 60 { 2 * 1024 * 1024 } else { 2 * 1024 * 64 };
            process.seek.add(distance.min(process.seek.mean().saturating_mul(4).saturating_add(slack)));
        }
        process.last_end = Some(request.end());
    }

    /// Whether a request is near enough to the last dispatched one to be served instead of waiting; the limit grows with the time waited
    /// (`as_close_req`).
    fn is_close(&self, now: Nanos, process: &Process, request: &Request) -> bool {
        let waited_ms = match self.process_idle_since {
            Some(since) if self.anticipation != Anticipation::Off => (now - since).0 / 1_000_000,
            _ => 0,
        };
        if waited_ms > 20 || waited_ms * 1_000_000 > self.tuning.antic_expire.0 {
            return true;
        }
        let near = 8192u64 << waited_ms;
        let (last, next) = (self.last_sector[self.batch.kind], request.lba);
        if last <= next.saturating_add(near / 2) && next <= last.saturating_add(near) {
            return true;
        }
        let expected = if process.seek.is_empty() { self.newcomers.seek_mean() } else { process.seek.mean() };
        expected > last.abs_diff(next)
    }

    /// Whether waiting for the process does not pay, or `request` is as good as the one waited for (`as_can_break_anticipation`).
    fn may_stop_waiting(&mut self, now: Nanos, number: usize, request: Option<&Request>) -> bool {
        let process = self.processes[number];
        if request.is_some_and(|request| self.directory.find(u64::from(request.stream)) == Some(number))
            || self.wait_ends().is_some_and(|end| now >= end)
            || process.queued > 0
            || process.at_device[SYNC] > 1
        {
            return true;
        }
        if let Some(request) = request
            && request.is_sync()
            && self.is_close(now, &process, request)
        {
            // Processes that work in the same area count as one, so the request updates the history of the process waited for.
            self.update_history(now, number, request);
            return true;
        }
        if process.think.is_empty() {
            return self.newcomers.think_mean() > self.tuning.antic_expire.0 || self.newcomers.exit_probability > ONE / 2;
        }
        process.think.mean() > self.tuning.antic_expire.0
    }

    /// Whether to keep the disk idle although `best` could be dispatched, if it is `Some` (`as_can_anticipate`).
    fn should_wait(&mut self, now: Nanos, best: Option<Slot>) -> bool {
        let Some(number) = self.process else { return false };
        if self.anticipation == Anticipation::Finished {
            return false;
        }
        let best = best.map(|slot| *self.queue.request(slot));
        !self.may_stop_waiting(now, number, best.as_ref())
    }

    /// The oldest request of a kind, if it has expired. Checked once per expiry time, as a long queue of expired requests would be served
    /// in random order (`as_fifo_expired`).
    fn expired(&mut self, now: Nanos, kind: usize) -> Option<Slot> {
        if now - self.last_expiry_check[kind] < self.tuning.expire[kind] {
            return None;
        }
        self.last_expiry_check[kind] = now;
        self.queue.oldest(kind).filter(|&slot| now > self.queue.expires(slot))
    }

    fn best(&self, kind: usize) -> Option<Slot> {
        self.queue.nearest(kind, self.last_sector[kind], BACK_SEEK_MAX, BACK_SEEK_PENALTY)
    }

    fn batch_expired(&self, now: Nanos) -> bool {
        if self.batch.changing || self.batch.counts_from_completion {
            return false;
        }
        now > self.batch.ends || (self.batch.kind == ASYNC && self.batch.writes_left == 0)
    }

    /// Chooses the next request; `None` to wait or if there is none (`as_dispatch_request`).
    fn select(&mut self, now: Nanos) -> Option<Slot> {
        let (reads, writes) = (self.queue.lane_len(SYNC) > 0, self.queue.lane_len(ASYNC) > 0);
        if self.batch.kind == ASYNC && !reads && (self.batch.writes_left == 0 || !writes) {
            self.batch.writes_uncontended = true;
        }
        if !(reads || writes) || self.is_waiting() || self.batch.changing {
            return None;
        }
        let mut chosen = None;
        if !(reads && writes && self.batch_expired(now)) {
            chosen = self.best(self.batch.kind);
            if self.batch.kind == SYNC && self.tuning.antic_expire > Nanos::ZERO {
                if let Some(slot) = self.expired(now, SYNC) {
                    return Some(slot);
                }
                if self.should_wait(now, chosen) {
                    self.begin_wait();
                    return None;
                }
            }
            if chosen.is_some() && reads && !writes {
                self.batch.ends = now + self.tuning.batch_expire[SYNC];
            }
        }
        let chosen = chosen.or_else(|| self.begin_batch(now, reads, writes));
        let slot = self.expired(now, self.batch.kind).or(chosen)?;
        self.try_change_batch(now).then_some(slot)
    }

    fn begin_wait(&mut self) {
        if self.anticipation == Anticipation::Off {
            self.anticipation = if self.process_idle_since.is_some() { Anticipation::WaitNext } else { Anticipation::WaitRequest };
        }
    }

    /// Begins a batch and returns its first request.
    fn begin_batch(&mut self, now: Nanos, reads: bool, writes: bool) -> Option<Slot> {
        let batch = &mut self.batch;
        if reads && !(writes && batch.kind == SYNC) {
            batch.changing = batch.kind == ASYNC;
            batch.kind = SYNC;
            self.last_expiry_check[SYNC] = now;
            return self.queue.oldest(SYNC);
        }
        if batch.kind == SYNC {
            batch.changing = true;
            batch.counts_from_completion = false;
        }
        batch.kind = ASYNC;
        batch.writes_left = batch.writes;
        batch.writes_uncontended = false;
        self.best(ASYNC)
    }

    /// Begins the clock of a new batch unless requests of the last batch are in flight, as its length could not be measured otherwise.
    /// Returns whether the new batch has begun.
    fn try_change_batch(&mut self, now: Nanos) -> bool {
        if !self.batch.changing {
            return true;
        }
        if self.at_device > 0 {
            return false;
        }
        self.start_batch_clock(now);
        true
    }

    fn start_batch_clock(&mut self, now: Nanos) {
        if self.batch.kind == SYNC {
            self.adapt_write_batch(now - self.batch.began);
        }
        self.batch.began = now;
        self.batch.ends = now + self.tuning.batch_expire[self.batch.kind];
        self.batch.counts_from_completion = self.batch.kind == SYNC;
        self.batch.changing = false;
    }

    /// Adapts the number of writes in a batch from `took`, the duration of the last one (`update_write_batch`).
    fn adapt_write_batch(&mut self, took: Nanos) {
        let target = self.tuning.batch_expire[ASYNC];
        let batch = &mut self.batch;
        if took > target && !batch.writes_uncontended {
            batch.writes = if took.0 / 3 > target.0 { batch.writes / 2 } else { batch.writes - 1 };
        } else if took < target && batch.writes_left == 0 {
            batch.writes = if target.0 / 3 > took.0 { batch.writes * 2 } else { batch.writes + 1 };
        }
        batch.writes = batch.writes.clamp(1, WRITE_BATCH_MAX);
    }

    /// Dispatches a request (`as_move_to_dispatch`).
    fn dispatch(&mut self, slot: Slot) -> Request {
        let request = self.queue.take(slot);
        self.anticipation = Anticipation::Off;
        self.last_sector[kind(&request)] = request.end();
        self.at_device += 1;
        let number = self.directory.find(u64::from(request.stream));
        if let Some(number) = number {
            self.processes[number].queued -= 1;
            self.processes[number].at_device[kind(&request)] += 1;
        }
        self.anticipate_for(number.filter(|_| request.is_sync()));
        if !request.is_sync() {
            self.batch.writes_left = self.batch.writes_left.saturating_sub(1);
        }
        request
    }

    fn anticipate_for(&mut self, process: Option<usize>) {
        if let Some(number) = process {
            self.directory.hold_number(number);
        }
        if let Some(number) = core::mem::replace(&mut self.process, process) {
            self.directory.release(number);
        }
        self.process_idle_since = None;
    }

    /// Updates the batches on a completion (`as_completed_request`).
    fn advance_batch(&mut self, now: Nanos, kind: usize) {
        if self.batch.changing && self.at_device == 1 {
            self.start_batch_clock(now);
        }
        self.at_device = self.at_device.saturating_sub(1);
        if self.batch.counts_from_completion && self.batch.kind == kind {
            self.batch.counts_from_completion = false;
            self.batch.ends = now + self.tuning.batch_expire[SYNC];
        }
    }
}

impl Scheduler for Anticipatory {
    fn insert(&mut self, now: Nanos, request: Request) -> Insertion {
        self.end_overdue_wait(now);
        let kind = kind(&request);
        let expires = request.arrival.min(now) + self.tuning.expire[kind];
        let placed = self.queue.insert(kind, expires, request);
        match placed {
            Placed::Queued(_) => {
                let number = self.admit(&request);
                if request.is_sync() {
                    self.update_history(now, number, &request);
                }
                self.processes[number].queued += 1;
                if self.is_waiting()
                    && let Some(awaited) = self.process
                    && self.may_stop_waiting(now, awaited, Some(&request))
                {
                    self.anticipation = Anticipation::Finished;
                }
            }
            Placed::Merged { absorbed: Some(absorbed), .. } => {
                if let Some(number) = self.directory.find(u64::from(absorbed.stream)) {
                    self.processes[number].queued -= 1;
                    self.directory.release(number);
                }
            }
            Placed::Merged { absorbed: None, .. } => {}
        }
        placed.into()
    }

    fn pick(&mut self, now: Nanos) -> Pick {
        self.end_overdue_wait(now);
        match self.select(now) {
            Some(slot) => Pick::Go(self.dispatch(slot)),
            None if self.queue.is_empty() => Pick::Empty,
            None => match self.wait_ends() {
                Some(end) if self.anticipation == Anticipation::WaitNext => Pick::WaitUntil(end),
                _ => Pick::WaitUntil(now + COMPLETION_BACKSTOP),
            },
        }
    }

    fn completed(&mut self, now: Nanos, request: &Request, _service: Nanos) {
        let kind = kind(request);
        let known = self.directory.find(u64::from(request.stream)).filter(|&number| self.processes[number].at_device[kind] > 0);
        let Some(number) = known else { return };
        self.advance_batch(now, kind);
        let process = &mut self.processes[number];
        process.at_device[kind] -= 1;
        if kind == SYNC {
            process.last_completion = Some(now);
            if process.at_device[SYNC] == 0 && self.process == Some(number) {
                self.process_idle_since = Some(now);
                if self.anticipation == Anticipation::WaitRequest {
                    self.anticipation = Anticipation::WaitNext;
                }
            }
        }
        self.directory.release(number);
    }

    fn retune(&mut self, values: &[i64]) {
        self.tuning = Tuning::new(values);
    }

    fn set_limits(&mut self, limits: &Limits) {
        self.queue.set_limits(limits);
    }

    fn drain(&mut self, out: &mut Vec<Request>) {
        let first = out.len();
        self.queue.drain(out);
        for request in &out[first..] {
            if let Some(number) = self.directory.find(u64::from(request.stream)) {
                self.processes[number].queued -= 1;
                self.directory.release(number);
            }
        }
        self.anticipate_for(None);
        self.anticipation = Anticipation::Off;
        self.batch.changing = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Op, Priority};

    #[test]
    fn process_histories_stay_bounded_over_a_long_trace() {
        let mut scheduler = Anticipatory::new(&Limits::default(), &SPEC.defaults());
        let mut now = Nanos::ZERO;
        for stream in 0..20_000 {
            let (op, lba) = (Op::Read, u64::from(stream) * 1_000);
            let request = Request { id: 0, stream, op, sync: true, priority: Priority::DEFAULT, sectors: 8, lba, arrival: now };
            scheduler.insert(now, request);
            while let Pick::WaitUntil(time) = scheduler.pick(now) {
                now = time;
            }
            scheduler.completed(now, &request, Nanos::ZERO);
        }
        assert!(scheduler.processes.len() < 5_000, "{} are kept", scheduler.processes.len());
    }
}
