//! Moves data through io_uring, in the store's thread.

use std::fs::File;
use std::io;
use std::time::Duration;

use block::RequestId;
use slab::Slab;
use smallvec::SmallVec;
use uring::{Ring, Waker};

use super::job::{Done, Job, Moves, Pieces};
use super::work::Kind;
use backing::Backing;

/// A job in the ring.
struct Moving {
    id: RequestId,
    /// Piece token of each buffer.
    tokens: SmallVec<[usize; 1]>,
}

/// The ring of a store.
pub(super) struct Mover {
    ring: Ring,
    moving: Slab<Moving>,
    /// The kernel lets this thread use the ring; otherwise jobs are run synchronously.
    is_enabled: bool,
}

impl Mover {
    /// # Errors
    /// The kernel has no io_uring or forbids it.
    pub(super) fn new(depth: usize, file: &File) -> io::Result<Mover> {
        // One more for a flush.
        let ring = Ring::new(u32::try_from(depth + 1).unwrap_or(u32::MAX), file)?;
        Ok(Mover { ring, moving: Slab::new(), is_enabled: false })
    }

    pub(super) fn waker(&self) -> Waker {
        self.ring.waker()
    }

    /// Enables the ring for the calling thread, the only one that may use it. To be called first.
    pub(super) fn begin(&mut self) {
        self.is_enabled = self.ring.enable().is_ok();
    }

    /// Submits a job to the ring. Zeroing, and every job if the ring is not enabled, is run synchronously and returned.
    pub(super) fn start(&mut self, job: Job, backing: &dyn Backing) -> Option<Done> {
        if !self.is_enabled || matches!(job.what, Moves::Zeros(_)) {
            return Some(job.run(backing));
        }
        let (mut tokens, id) = (SmallVec::new(), job.id);
        match job.what {
            Moves::Data { kind, offset, pieces } => {
                let buffers = pieces
                    .into_iter()
                    .map(|(token, buffer)| {
                        tokens.push(token);
                        buffer
                    })
                    .collect();
                let token = self.moving.insert(Moving { id, tokens }) as u64;
                if kind == Kind::Read {
                    self.ring.read(token, offset, buffers);
                } else {
                    self.ring.write(token, offset, buffers);
                }
            }
            Moves::Flush | Moves::Zeros(_) => {
                let token = self.moving.insert(Moving { id, tokens }) as u64;
                self.ring.flush(token);
            }
        }
        None
    }

    /// Waits until a job is complete, `timeout` expires (`None`: never) or the ring is woken. Appends completed jobs to `done`.
    pub(super) fn wait(&mut self, timeout: Option<Duration>, done: &mut Vec<Done>) {
        if self.ring.wait(timeout).is_err() {
            // Jobs stay in flight. Retry later instead of spinning.
            std::thread::sleep(Duration::from_millis(1));
        }
        for uring::Done { token, result, buffers } in self.ring.done() {
            let Moving { id, tokens } = self.moving.remove(token as usize);
            let pieces: Pieces = tokens.into_iter().zip(buffers).collect();
            done.push(Done { id, result, pieces });
        }
    }
}
