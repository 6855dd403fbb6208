//! Threads that move data between buffers and a medium.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, PoisonError};

use super::job::Job;

/// Jobs that wait for a thread.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    /// Threads without a job. Only then is one woken: a wake-up is a system call also if nothing waits for it.
    idle: usize,
    is_ended: bool,
}

/// Jobs for a number of threads, which take one after the other.
#[derive(Default)]
pub(super) struct Pool {
    waiting: Mutex<Waiting>,
    wake: Condvar,
}

impl Pool {
    /// Hands over jobs.
    pub(super) fn push(&self, jobs: impl ExactSizeIterator<Item = Job>) {
        let count = jobs.len();
        let idle = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.jobs.extend(jobs);
            waiting.idle
        };
        (0..count.min(idle)).for_each(|_| self.wake.notify_one());
    }

    /// The next job; `None` at the end.
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

    /// Lets the threads end after the jobs that wait.
    pub(super) fn end(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).is_ended = true;
        self.wake.notify_all();
    }
}
