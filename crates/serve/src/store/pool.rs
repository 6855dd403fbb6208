//! Threads that move data between buffers and a medium.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use block::RequestId;

use super::buffer::Buffer;
use super::host::Kind;
use crate::backing::Backing;

/// A request's data to be moved.
pub(super) struct Job {
    pub id: RequestId,
    pub what: Moves,
}

/// What is done with the medium.
pub(super) enum Moves {
    /// Pieces in order of position, without gaps; their buffers come back.
    Data {
        kind: Kind,
        offset: u64,
        pieces: Vec<(usize, Buffer)>,
    },
    /// Ranges that are zeroed: offset, length, and whether their space is kept.
    Zeros(Vec<(u64, u64, bool)>),
    Flush,
}

/// A job that was done, or failed.
pub(super) struct Done {
    pub id: RequestId,
    pub result: io::Result<()>,
    pub pieces: Vec<(usize, Buffer)>,
}

impl Job {
    /// Moves the data.
    pub(super) fn run(self, backing: &dyn Backing) -> Done {
        let (result, pieces) = match self.what {
            Moves::Data { kind: Kind::Read, offset, mut pieces } => {
                let mut parts: Vec<IoSliceMut<'_>> = pieces.iter_mut().map(|(_, buffer)| IoSliceMut::new(buffer)).collect();
                (backing.read_parts(offset, &mut parts), pieces)
            }
            Moves::Data { offset, pieces, .. } => {
                let mut parts: Vec<IoSlice<'_>> = pieces.iter().map(|(_, buffer)| IoSlice::new(buffer)).collect();
                (backing.write_parts(offset, &mut parts), pieces)
            }
            Moves::Zeros(ranges) => {
                let zero = |(offset, length, keeps): (u64, u64, bool)| {
                    if keeps { backing.zero(offset, length) } else { backing.discard(offset, length) }
                };
                (ranges.into_iter().try_for_each(zero), Vec::new())
            }
            Moves::Flush => (backing.flush(), Vec::new()),
        };
        Done { id: self.id, result, pieces }
    }
}

/// Jobs that wait for a thread.
#[derive(Default)]
struct Waiting {
    jobs: VecDeque<Job>,
    is_ended: bool,
}

/// The threads. They end when the pool is dropped, after the jobs that wait.
pub(super) struct Pool {
    waiting: Arc<(Mutex<Waiting>, Condvar)>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `count` threads, which call `done` with each job.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub(super) fn start(
        count: usize,
        backing: &Arc<dyn Backing>,
        done: impl Fn(Done) + Clone + Send + 'static,
    ) -> io::Result<Pool> {
        let waiting: Arc<(Mutex<Waiting>, Condvar)> = Arc::default();
        let start = |number: usize| {
            let (waiting, backing, done) = (waiting.clone(), backing.clone(), done.clone());
            thread::Builder::new().name(format!("store-{number}")).spawn(move || {
                while let Some(job) = next(&waiting) {
                    done(job.run(&*backing));
                }
            })
        };
        let threads = (0..count).map(start).collect::<io::Result<Vec<_>>>()?;
        Ok(Pool { waiting, threads })
    }

    /// Hands over a job.
    pub(super) fn push(&self, job: Job) {
        self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner).jobs.push_back(job);
        self.waiting.1.notify_one();
    }
}

/// The next job; `None` at the end.
fn next(waiting: &(Mutex<Waiting>, Condvar)) -> Option<Job> {
    let mut locked = waiting.0.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        if let Some(job) = locked.jobs.pop_front() {
            return Some(job);
        }
        if locked.is_ended {
            return None;
        }
        locked = waiting.1.wait(locked).unwrap_or_else(PoisonError::into_inner);
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner).is_ended = true;
        self.waiting.1.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
