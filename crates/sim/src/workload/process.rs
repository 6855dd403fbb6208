//! A job as a process: it keeps a number of I/Os in flight, waits, thinks, and ends.
//!
//! ```text
//!         +---------------------------- Going <---------------------------------+
//!         | depth reached        | sync, rate not yet due      | think time     |
//!         v                      v                             v                |
//!     Reaping: wait for        Quieting: wait until nothing is in flight,       |
//!     completions              then sleep                                       |
//!         +----------------------+-----------------------------+----------------+
//! ```
//! Issuing takes no time here: the host models the cost of system calls.

use block::{Nanos, Op, Priority};

use super::command_priority::Priorities;
use super::flow::Flows;
use super::in_flight::InFlight;
use super::job::Job;
use super::options::{DIRECTIONS, Length, Options};
use super::pace::{Done, Floor, Rate};
use super::plan::Plan;
use super::requests::{READ, Requests, TRIM, WRITE};
use super::think_time::Think;
use crate::host::Action;
use crate::run::Finished;

/// Minimum duration of a call, so that time advances even if a server answers immediately.
const MIN_CALL_TIME: Nanos = Nanos::from_micros(1);

/// A process's next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// It continues at this time.
    At(Nanos),
    /// It waits for a completion.
    Blocked,
    /// Its share of a flow is used up: it waits for other jobs, at most until this time.
    Stalled(Option<Nanos>),
    /// It ended at this time.
    Done(Nanos),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    Nothing,
    /// Until the depth is at most the low mark.
    Reaping,
    /// Until no I/O is in flight.
    Quieting,
    /// Until no I/O is in flight, and then for the think time.
    Thinking,
}

/// The reason for which a job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Its work was complete, or its time was over.
    Done,
    /// Another job ended, and `exitall` or `exitall_on_error` ended this one.
    Exit,
    /// Its throughput was steady: `steadystate`.
    Steady,
    /// It was slower than `rate_min` or `rate_iops_min`, which is an error in fio.
    TooSlow,
}

/// The time of a job: from the end of its ramp to its end.
struct Lifetime {
    measured_from: Nanos,
    ends: Option<Nanos>,
    ending: Ending,
    /// Whether its time is over and only syncs remain.
    stopped: bool,
}

impl Lifetime {
    fn new(options: &Length, now: Nanos) -> Lifetime {
        let measured_from = now + options.ramp;
        let ends = options.runtime.map(|runtime| measured_from + runtime);
        Lifetime { measured_from, ends, ending: Ending::Done, stopped: false }
    }

    /// Sets the end to `now`, in the way that `runtime` does, unless another cause ended the job before.
    fn end(&mut self, now: Nanos, ending: Ending) {
        if self.ending == Ending::Done {
            self.ending = ending;
            self.ends = Some(self.ends.map_or(now, |end| end.min(now)));
        }
    }

    /// The end, if it is reached at `now`; it is returned once.
    fn take_end(&mut self, now: Nanos) -> Option<Nanos> {
        let end = self.ends.take_if(|end| now >= *end)?;
        self.stopped = true;
        Some(end)
    }

    /// The earlier of a time and the end.
    fn until(&self, at: Nanos) -> Nanos {
        self.ends.map_or(at, |end| at.min(end))
    }
}

/// The completed work of a job, and its minimum rates.
struct Throughput {
    floor: Option<Floor>,
    done: [Done; DIRECTIONS],
}

impl Throughput {
    fn new(options: &Options, now: Nanos) -> Throughput {
        Throughput { floor: Floor::new(options, now), done: [Done::default(); DIRECTIONS] }
    }

    fn completed(&mut self, op: Op, bytes: u64) {
        let done = &mut self.done[direction(op)];
        done.ios += 1;
        done.bytes += bytes;
    }

    fn is_too_slow(&mut self, now: Nanos) -> bool {
        self.floor.as_mut().is_some_and(|floor| floor.is_missed(now, &self.done))
    }

    /// Number of completed bytes if `bytes`, otherwise of completed I/Os.
    fn total(&self, bytes: bool) -> u64 {
        self.done.iter().map(|done| if bytes { done.bytes } else { done.ios }).sum()
    }
}

/// A job that has started.
pub(super) struct Process {
    /// Its index among the jobs.
    index: usize,
    requests: Requests,
    rate: Rate,
    think: Think,
    in_flight: InFlight,
    lifetime: Lifetime,
    throughput: Throughput,
    offload: bool,
    flow_sleep: Nanos,
    priorities: Priorities,
    not_before: Nanos,
    wait: Wait,
    prepared: Option<Action>,
}

impl Process {
    /// Starts `job` at `now`.
    pub(super) fn start(job: &Job, plan: &Plan, requests: Requests, now: Nanos) -> Process {
        let options = job.options();
        Process {
            index: job.stream() as usize,
            requests,
            rate: Rate::new(options, now, plan.seed),
            think: Think::new(options, now),
            in_flight: InFlight::new(&options.queue, job.depth(plan.targets.len())),
            lifetime: Lifetime::new(&options.length, now),
            throughput: Throughput::new(options, now),
            offload: options.queue.offload,
            flow_sleep: options.flow.sleep,
            priorities: Priorities::new(job, plan.seed),
            not_before: now,
            wait: Wait::Nothing,
            prepared: None,
        }
    }

    /// Whether completions at `now` are measured, that is the ramp is over.
    pub(super) fn is_measured(&self, now: Nanos) -> bool {
        now >= self.lifetime.measured_from
    }

    /// Handles the completion of a call.
    pub(super) fn completed(&mut self, finished: &Finished) {
        self.in_flight.completed();
        if let Finished::Transfer(transfer) = finished {
            self.throughput.completed(transfer.issue.op, transfer.bytes);
        }
        if finished.arrival() == finished.at() {
            self.not_before = self.not_before.max(finished.at() + MIN_CALL_TIME);
        }
    }

    /// Number of completed bytes if `bytes`, otherwise of completed I/Os.
    pub(super) fn done(&self, bytes: bool) -> u64 {
        self.throughput.total(bytes)
    }

    /// The priority of `action`.
    pub(super) fn priority(&mut self, action: &Action) -> Priority {
        self.priorities.of(action)
    }

    /// The reason for its end; [`Ending::Done`] while it is running.
    pub(super) fn ending(&self) -> Ending {
        self.lifetime.ending
    }

    /// Ends it at `now`, in the way that `runtime` does.
    pub(super) fn end(&mut self, now: Nanos, ending: Ending) {
        self.lifetime.end(now, ending);
    }

    /// Ends it immediately if it is too slow. As after an error, files are not synced.
    fn fail_if_too_slow(&mut self, now: Nanos) {
        if self.lifetime.ending == Ending::Done && self.throughput.is_too_slow(now) {
            self.lifetime.ending = Ending::TooSlow;
            self.lifetime.ends = None;
            self.prepared = None;
            self.requests.abort();
        }
    }

    /// Its next step, unless a completion precedes it.
    pub(super) fn next(&mut self, now: Nanos, flows: &mut Flows) -> Next {
        let real = now;
        self.fail_if_too_slow(now);
        let mut now = now.max(self.not_before);
        loop {
            if self.in_flight.is_going() {
                return Next::At(now);
            }
            match self.wait {
                Wait::Reaping => {
                    if !self.reap() {
                        return Next::Blocked;
                    }
                }
                Wait::Quieting | Wait::Thinking if self.in_flight.is_any_in_flight() => return Next::Blocked,
                Wait::Thinking => {
                    self.see_all();
                    now += self.think.span;
                    self.think.done(now);
                    self.rate.paused(self.think.span);
                }
                Wait::Quieting => self.see_all(),
                Wait::Nothing => {}
            }
            self.wait = Wait::Nothing;
            self.not_before = now;
            if let Some(end) = self.lifetime.take_end(now) {
                self.prepared = None;
                self.requests.stop();
                // The job's end shortens a sleep; I/Os in flight are waited for.
                now = end.max(real);
                self.not_before = now;
            } else if self.think.begins(now) {
                self.quiet(Wait::Thinking);
                continue;
            }
            if self.prepared.is_none() && !self.lifetime.stopped && !flows.admits(self.index) {
                // I/Os held for a batch are issued, and with `flow_sleep` all I/Os in flight are waited for.
                if self.in_flight.is_any_held() || self.flow_sleep > Nanos::ZERO && self.in_flight.is_any_in_flight() {
                    self.quiet(Wait::Quieting);
                    continue;
                }
                if self.flow_sleep == Nanos::ZERO {
                    return Next::Stalled(self.lifetime.ends);
                }
                self.not_before = now + self.flow_sleep;
                return Next::At(self.lifetime.until(self.not_before));
            }
            match self.prepare(now) {
                None if self.in_flight.is_idle() => return Next::Done(now),
                None => self.quiet(Wait::Quieting),
                Some(Action::Access { op, .. }) => {
                    let due = self.rate.due(direction(op));
                    if due <= now {
                        return Next::At(now);
                    }
                    if self.offload {
                        return Next::At(self.lifetime.until(due));
                    }
                    // fio sleeps only when nothing is in flight.
                    if self.in_flight.is_idle() {
                        now = due;
                    } else {
                        self.quiet(Wait::Quieting);
                    }
                }
                Some(Action::Invalidate { .. }) => return Next::At(now),
                // A sync.
                Some(_) if !self.in_flight.is_idle() => self.quiet(Wait::Quieting),
                Some(_) => return Next::At(now),
            }
        }
    }

    /// Continues at `now`, the time returned by [`next`](Process::next). `None` if the I/O waits for its batch or for its time.
    pub(super) fn go(&mut self, now: Nanos) -> Option<Action> {
        if !self.in_flight.is_going() {
            if let Some(Action::Access { op, .. }) = self.prepared
                && self.rate.due(direction(op)) > now
            {
                return None;
            }
            match self.prepared.take()? {
                // It has no completion.
                advice @ Action::Invalidate { .. } => return Some(advice),
                access @ Action::Access { .. } => self.hold(access),
                sync => {
                    self.wait = if self.in_flight.issue_sync() { Wait::Nothing } else { Wait::Quieting };
                    return Some(sync);
                }
            }
        }
        self.in_flight.issue()
    }

    fn hold(&mut self, action: Action) {
        if let Action::Access { op, bytes, .. } = action {
            self.rate.issued(direction(op), bytes);
        }
        self.think.issued();
        let held = self.in_flight.hold(action, self.wait == Wait::Reaping);
        self.think.completed(held.reaped);
        if held.is_full {
            self.wait = Wait::Reaping;
        }
    }

    fn prepare(&mut self, now: Nanos) -> Option<Action> {
        if self.prepared.is_none() {
            let drawn = self.requests.draw_direction().map(|drawn| self.rate.choose(drawn, now));
            self.prepared = self.requests.next_in(drawn);
        }
        self.prepared
    }

    fn quiet(&mut self, wait: Wait) {
        self.in_flight.release();
        self.wait = wait;
    }

    /// Reaps completions until the depth is at most the low mark. Returns false if more completions are needed.
    fn reap(&mut self) -> bool {
        let (is_low, reaped) = self.in_flight.reap();
        self.think.completed(reaped);
        is_low
    }

    fn see_all(&mut self) {
        let reaped = self.in_flight.see_all();
        self.think.completed(reaped);
    }
}

fn direction(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => TRIM,
    }
}
