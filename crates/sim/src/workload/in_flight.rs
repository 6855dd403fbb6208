//! The I/Os of a job between their preparation and their reaping: batches, depth, and marks (fio's `iodepth*` options).

use std::collections::VecDeque;

use super::options::{Engine, Queue};
use crate::host::Action;

/// I/Os and syncs that are held for a batch, in flight, or completed but not reaped.
pub(super) struct InFlight {
    most: u32,
    low: u32,
    batch: u32,
    reap_least: u32,
    reap_most: u32,
    polls: bool,
    /// Whether a sync is a call among others, which does not wait for those before it.
    queues_syncs: bool,
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

/// The state of the queue after an I/O was [held](InFlight::hold).
pub(super) struct Held {
    /// Whether the depth is reached, so that completions must be [reaped](InFlight::reap).
    pub(super) is_full: bool,
    /// Number of I/Os reaped.
    pub(super) reaped: u32,
}

impl InFlight {
    /// An empty queue of at most `depth` I/Os.
    pub(super) fn new(options: &Queue, depth: u32) -> InFlight {
        let or_depth = |value: u32| if value == 0 { depth } else { value.min(depth) };
        // I/Os that other threads submit are issued one by one, and each completion allows another one.
        let (batch, low, reap_least) = match options.offload {
            true => (1, depth, 1),
            // A mark of zero stands for the full depth.
            false => (or_depth(options.batch_submit), or_depth(options.depth_low), options.batch_complete_min.clamp(1, depth)),
        };
        InFlight {
            most: depth,
            low,
            batch,
            reap_least,
            reap_most: options.batch_complete_max.max(reap_least),
            polls: options.batch_complete_min == 0,
            queues_syncs: matches!(options.engine, Engine::IoUring | Engine::PosixAio),
            held: VecDeque::with_capacity(batch as usize),
            going: 0,
            depth: 0,
            in_flight: 0,
            unseen: 0,
            syncs: 0,
        }
    }

    /// Whether an I/O is in flight.
    pub(super) fn is_any_in_flight(&self) -> bool {
        self.in_flight > 0
    }

    /// Whether no I/O is in flight or held.
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.held.is_empty()
    }

    /// Whether a held I/O waits for its batch.
    pub(super) fn is_any_held(&self) -> bool {
        !self.held.is_empty()
    }

    /// Whether a held I/O may be issued.
    pub(super) fn is_going(&self) -> bool {
        self.going > 0
    }

    /// Counts a completion.
    pub(super) fn completed(&mut self) {
        self.in_flight -= 1;
        self.unseen += 1;
    }

    /// Issues a sync. Returns whether more calls may follow before it completes.
    pub(super) fn issue_sync(&mut self) -> bool {
        self.in_flight += 1;
        self.depth += 1;
        self.syncs += 1;
        self.queues_syncs && self.depth < self.most
    }

    /// Holds an I/O until its batch is complete. `is_reaping`: whether completions are reaped already.
    pub(super) fn hold(&mut self, action: Action, is_reaping: bool) -> Held {
        self.depth += 1;
        self.held.push_back(action);
        let is_full = self.depth >= self.most;
        let reaped = if !is_full && self.polls { self.see_all() } else { 0 };
        if is_full || is_reaping || self.held.len() >= self.batch as usize {
            self.release();
        }
        Held { is_full, reaped }
    }

    /// Lets all held I/Os be issued.
    pub(super) fn release(&mut self) {
        self.going = self.held.len();
    }

    /// Issues the next held I/O; `None` if none may be issued.
    pub(super) fn issue(&mut self) -> Option<Action> {
        self.going = self.going.checked_sub(1)?;
        self.in_flight += 1;
        self.held.pop_front()
    }

    /// Reaps completions until the depth is at most the low mark. Returns whether it is, and the number of I/Os reaped.
    pub(super) fn reap(&mut self) -> (bool, u32) {
        let mut reaped = 0;
        loop {
            let least = self.reap_least.min(self.in_flight + self.unseen);
            if self.unseen < least {
                return (false, reaped);
            }
            reaped += self.see(self.unseen.min(self.reap_most));
            if self.depth <= self.low.min(self.most - 1) || self.depth == 0 {
                return (true, reaped);
            }
        }
    }

    /// Reaps all completions. Returns the number of I/Os among them.
    pub(super) fn see_all(&mut self) -> u32 {
        self.see(self.unseen)
    }

    fn see(&mut self, completions: u32) -> u32 {
        self.unseen -= completions;
        self.depth -= completions;
        let syncs = self.syncs.min(completions);
        self.syncs -= syncs;
        completions - syncs
    }
}
