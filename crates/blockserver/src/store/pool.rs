//! Threads that run jobs.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::job::Job;

/// Jobs waiting for a thread.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Threads without a job. Only these are woken, because a wake-up is a system call even if no thread waits.
    idle: usize,
    is_ended: bool,
}

/// A first-in, first-out job queue for several threads.
#[derive(Default)]
pub(super) struct Pool {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

impl Pool {
    /// Queues jobs.
    pub(super) fn push(&self, jobs: impl ExactSizeIterator<Item = Job>) {
        let count = jobs.len();
        let idle = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.jobs.extend(jobs);
            waiting.idle
        };
        (0..count.min(idle)).for_each(|_| self.wake.notify_one());
    }

    /// Waits for the next job; `None` after [`end`](Pool::end), once all jobs are taken.
    pub(super) fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(job) = waiting.jobs.pop_front() {
                return Some(job);
            }
            if waiting.is_ended {
                return None;
            }
            waiting.idle += 1;
            waiting = self.wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            waiting.idle -= 1;
        }
    }

    /// Makes the threads end after the queued jobs.
    pub(super) fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_ended = true;
        self.wake.notify_all();
    }
}
