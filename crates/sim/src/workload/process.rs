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

use std::collections::VecDeque;

use block::{Nanos, Op, Priority};

use super::command_priority::Priorities;
use super::flow::Flows;
use super::job::Job;
use super::options::{DIRECTIONS, Engine};
use super::pace::{Done, Floor, Rate, Think};
use super::place::Plan;
use super::requests::{READ, Requests, TRIM, WRITE};
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

/// A job that has started.
pub(super) struct Process {
    /// Its index among the jobs.
    index: usize,
    requests: Requests,
    rate: Rate,
    think: Think,
    rate_ignores_think: bool,
    depth_most: u32,
    depth_low: u32,
    batch: u32,
    reap_least: u32,
    reap_most: u32,
    polls: bool,
    syncs_in_queue: bool,
    measured_from: Nanos,
    ends: Option<Nanos>,
    ending: Ending,
    /// Whether its time is over and only syncs remain.
    stopped: bool,
    offload: bool,
    flow_sleep: Nanos,
    floor: Option<Floor>,
    done: [Done; DIRECTIONS],
    priorities: Priorities,
    not_before: Nanos,
    wait: Wait,
    prepared: Option<Action>,
    /// Prepared I/Os that wait until their batch is complete, and the number of them that may be issued.
    held: VecDeque<Action>,
    going: usize,
    /// I/Os in flight or completed but not reaped; those in flight; those completed but not reaped.
    depth: u32,
    in_flight: u32,
    unseen: u32,
    /// Syncs among `depth`, which do not count towards the think time.
    syncs: u32,
}

impl Process {
    /// Starts `job` at `now`.
    pub(super) fn start(job: &Job, plan: &Plan, requests: Requests, now: Nanos) -> Process {
        let options = job.options();
        let depth = job.depth(plan.targets.len());
        let or_depth = |value: u32| if value == 0 { depth } else { value.min(depth) };
        // I/Os that other threads submit are issued one by one, and each completion allows another one.
        let (batch, low, reap_least) = match options.offload {
            true => (1, depth, 1),
            // A mark of zero stands for the full depth.
            false => (or_depth(options.batch_submit), or_depth(options.depth_low), options.batch_complete_min.clamp(1, depth)),
        };
        let measured_from = now + options.ramp;
        Process {
            index: job.stream() as usize,
            requests,
            rate: Rate::new(options, now, plan.seed),
            think: Think::new(options, now),
            rate_ignores_think: options.rate_ignore_think,
            depth_most: depth,
            depth_low: low,
            batch,
            reap_least,
            reap_most: options.batch_complete_max.max(reap_least),
            polls: options.batch_complete_min == 0,
            syncs_in_queue: matches!(options.engine, Engine::IoUring | Engine::PosixAio),
            measured_from,
            ends: options.runtime.map(|runtime| measured_from + runtime),
            ending: Ending::Done,
            stopped: false,
            offload: options.offload,
            flow_sleep: options.flow_sleep,
            floor: Floor::new(options, now),
            done: [Done::default(); DIRECTIONS],
            priorities: Priorities::new(job, plan.seed),
            not_before: now,
            wait: Wait::Nothing,
            prepared: None,
            held: VecDeque::with_capacity(batch as usize),
            going: 0,
            depth: 0,
            in_flight: 0,
            unseen: 0,
            syncs: 0,
        }
    }

    /// Whether completions at `now` are measured, that is the ramp is over.
    pub(super) fn is_measured(&self, now: Nanos) -> bool {
        now >= self.measured_from
    }

    /// Handles the completion of a call.
    pub(super) fn completed(&mut self, finished: &Finished) {
        self.in_flight -= 1;
        self.unseen += 1;
        if let Finished::Transfer(transfer) = finished {
            let done = &mut self.done[direction(transfer.issue.op)];
            done.ios += 1;
            done.bytes += transfer.bytes;
        }
        if finished.arrival() == finished.at() {
            self.not_before = self.not_before.max(finished.at() + MIN_CALL_TIME);
        }
    }

    /// Number of completed bytes if `bytes`, otherwise of completed I/Os.
    pub(super) fn done(&self, bytes: bool) -> u64 {
        self.done.iter().map(|done| if bytes { done.bytes } else { done.ios }).sum()
    }

    /// The priority of `action`.
    pub(super) fn priority(&mut self, action: &Action) -> Priority {
        self.priorities.of(action)
    }

    /// The reason for its end; [`Ending::Done`] while it is running.
    pub(super) fn ending(&self) -> Ending {
        self.ending
    }

    /// Ends it at `now`, in the way that `runtime` does.
    pub(super) fn end(&mut self, now: Nanos, ending: Ending) {
        if self.ending == Ending::Done {
            self.ending = ending;
            self.ends = Some(self.ends.map_or(now, |end| end.min(now)));
        }
    }

    /// Ends it immediately if it is too slow. As after an error, files are not synced.
    fn fail_if_too_slow(&mut self, now: Nanos) {
        if self.ending == Ending::Done && self.floor.as_mut().is_some_and(|floor| floor.is_missed(now, &self.done)) {
            self.ending = Ending::TooSlow;
            self.ends = None;
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
            if self.going > 0 {
                return Next::At(now);
            }
            match self.wait {
                Wait::Reaping => {
                    if !self.reap() {
                        return Next::Blocked;
                    }
                }
                Wait::Quieting | Wait::Thinking if self.in_flight > 0 => return Next::Blocked,
                Wait::Thinking => {
                    self.see(self.unseen);
                    now += self.think.span;
                    self.think.done(now);
                    if self.rate_ignores_think {
                        self.rate.ignore(self.think.span);
                    }
                }
                Wait::Quieting => self.see(self.unseen),
                Wait::Nothing => {}
            }
            self.wait = Wait::Nothing;
            self.not_before = now;
            if let Some(end) = self.ends.filter(|end| now >= *end) {
                self.ends = None;
                self.prepared = None;
                self.requests.stop();
                self.stopped = true;
                // The job's end shortens a sleep; I/Os in flight are waited for.
                now = end.max(real);
                self.not_before = now;
            } else if self.think.begins(now) {
                self.quiet(Wait::Thinking);
                continue;
            }
            if self.prepared.is_none() && !self.stopped && !flows.admits(self.index) {
                // I/Os held for a batch are issued, and with `flow_sleep` all I/Os in flight are waited for.
                if !self.held.is_empty() || self.flow_sleep > Nanos::ZERO && self.in_flight > 0 {
                    self.quiet(Wait::Quieting);
                    continue;
                }
                if self.flow_sleep == Nanos::ZERO {
                    return Next::Stalled(self.ends);
                }
                self.not_before = now + self.flow_sleep;
                return Next::At(self.ends.map_or(self.not_before, |end| self.not_before.min(end)));
            }
            match self.prepare(now) {
                None if self.in_flight == 0 && self.held.is_empty() => return Next::Done(now),
                None => self.quiet(Wait::Quieting),
                Some(Action::Access { op, .. }) => {
                    let due = self.rate.due(direction(op));
                    if due <= now {
                        return Next::At(now);
                    }
                    if self.offload {
                        return Next::At(self.ends.map_or(due, |end| due.min(end)));
                    }
                    // fio sleeps only when nothing is in flight.
                    if self.in_flight > 0 || !self.held.is_empty() {
                        self.quiet(Wait::Quieting);
                    } else {
                        now = due;
                    }
                }
                Some(Action::Invalidate { .. }) => return Next::At(now),
                // A sync.
                Some(_) if self.in_flight > 0 || !self.held.is_empty() => self.quiet(Wait::Quieting),
                Some(_) => return Next::At(now),
            }
        }
    }

    /// Continues at `now`, the time returned by [`next`](Process::next). `None` if the I/O waits for its batch or for its time.
    pub(super) fn go(&mut self, now: Nanos) -> Option<Action> {
        if self.going == 0 {
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
                    self.in_flight += 1;
                    self.depth += 1;
                    self.syncs += 1;
                    self.wait = if self.syncs_in_queue && self.depth < self.depth_most { Wait::Nothing } else { Wait::Quieting };
                    return Some(sync);
                }
            }
        }
        self.going = self.going.checked_sub(1)?;
        self.in_flight += 1;
        self.held.pop_front()
    }

    fn hold(&mut self, action: Action) {
        self.depth += 1;
        if let Action::Access { op, bytes, .. } = action {
            self.rate.issued(direction(op), bytes);
        }
        self.think.issued();
        self.held.push_back(action);
        if self.depth >= self.depth_most {
            self.wait = Wait::Reaping;
        } else if self.polls {
            self.see(self.unseen);
        }
        if self.wait == Wait::Reaping || self.held.len() >= self.batch as usize {
            self.going = self.held.len();
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
        self.going = self.held.len();
        self.wait = wait;
    }

    /// Reaps completions until the depth is at most the low mark. Returns false if more completions are needed.
    fn reap(&mut self) -> bool {
        loop {
            let least = self.reap_least.min(self.in_flight + self.unseen);
            if self.unseen < least {
                return false;
            }
            self.see(self.unseen.min(self.reap_most));
            if self.depth <= self.depth_low.min(self.depth_most - 1) || self.depth == 0 {
                return true;
            }
        }
    }

    fn see(&mut self, completions: u32) {
        self.unseen -= completions;
        self.depth -= completions;
        let syncs = self.syncs.min(completions);
        self.syncs -= syncs;
        self.think.completed(completions - syncs);
    }
}

fn direction(op: Op) -> usize {
    match op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Discard => TRIM,
    }
}
