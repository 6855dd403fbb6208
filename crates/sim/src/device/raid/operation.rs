//! Operations of an array, each a host request or a piece of the rebuild, executed access by access.
//!
//! ```text
//! admit: choose stripes, lock them ──▶ read ──▶ write ──▶ end ──▶ the next stripes, or over
//! ```

use block::{Nanos, Op, Priority, Request, RequestId, StreamId};

use super::{Completion, Raid};

/// Maximum number of stripes that an operation works on at once; bounds the memory of a huge request.
const STRIPES_AT_ONCE: u64 = 256;

/// The stage of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationStage {
    /// Choosing and locking its next stripes.
    Admit,
    /// Ready to read.
    Read,
    /// Ready to write.
    Write,
    /// All accesses are done.
    End,
}

/// A host request, or a piece of the rebuild.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) id: RequestId,
    pub(super) stream: StreamId,
    pub(super) priority: Priority,
    pub(super) sync: bool,
    pub(super) op: Op,
    pub(super) rebuild: bool,
    pub(super) stage: OperationStage,
    /// Whether it holds its lock.
    pub(super) locked: bool,
    /// Whether a read was lost with a failed member.
    pub(super) lost: bool,
    /// Number of accesses that are not completed.
    pub(super) open: u32,
    /// Current range and final end, in sectors of the array, or of a member for a rebuild.
    pub(super) at: u64,
    pub(super) until: u64,
    pub(super) end: u64,
    pub(super) served: Served,
}

/// The service of the members to an operation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Served {
    hit: bool,
    seek: Nanos,
    rotation: Nanos,
    seek_cylinders: u32,
    /// Total work of its accesses; `None` if a member did not report it.
    disk_time: Option<Nanos>,
}

impl Served {
    fn new() -> Served {
        Served { hit: true, seek: Nanos::ZERO, rotation: Nanos::ZERO, seek_cylinders: 0, disk_time: Some(Nanos::ZERO) }
    }

    /// Adds a completed access. The arm movement is that of the last one.
    pub(super) fn add(&mut self, completion: &Completion) {
        self.hit &= completion.cache_hit;
        (self.seek, self.rotation) = (completion.seek, completion.rotation);
        self.seek_cylinders = completion.seek_cylinders;
        self.disk_time = self.disk_time.zip(completion.work).map(|(sum, work)| sum + work);
    }

    /// The completion of a host request.
    fn completion(self, id: RequestId, now: u64) -> Completion {
        let Served { hit, seek, rotation, seek_cylinders, disk_time } = self;
        Completion { id, at: Nanos(now), seek, rotation, seek_cylinders, cache_hit: hit, work: disk_time }
    }
}

/// The current range of an operation: sectors of the array, or of a member for a rebuild.
#[derive(Clone, Copy, Debug)]
pub struct OperationRange {
    pub(super) now: u64,
    pub(super) operation: u32,
    pub(super) op: Op,
    pub(super) at: u64,
    pub(super) until: u64,
}

impl Operation {
    pub(super) fn new(request: &Request, at: u64, end: u64) -> Operation {
        Operation {
            id: request.id,
            stream: request.stream,
            priority: request.priority,
            sync: request.sync,
            op: request.op,
            rebuild: false,
            stage: OperationStage::Admit,
            locked: false,
            lost: false,
            open: 0,
            at,
            until: at,
            end,
            served: Served::new(),
        }
    }
}

impl Raid {
    /// Starts a host request for these sectors.
    pub(super) fn begin_request(&mut self, now: u64, request: &Request, at: u64, end: u64) {
        self.outstanding += 1;
        let index = self.operations.insert(Operation::new(request, at, end)) as u32;
        self.proceed(now, index);
    }

    /// Continues an operation that waits for no access, and operations that get its lock.
    pub(super) fn proceed(&mut self, now: u64, operation: u32) {
        self.run_operation(now, operation);
        while let Some(granted) = self.granted.pop_front() {
            self.operations[granted as usize].locked = true;
            self.run_operation(now, granted);
        }
    }

    /// Runs an operation until it waits or is over.
    fn run_operation(&mut self, now: u64, index: u32) {
        loop {
            let operation = self.operations[index as usize];
            if operation.lost {
                // The other reads are useless without the lost one, so all are repeated; the lock is
                // kept.
                let begin = if operation.locked { OperationStage::Read } else { OperationStage::Admit };
                (self.operations[index as usize].lost, self.operations[index as usize].stage) = (false, begin);
                continue;
            }
            let next = match operation.stage {
                OperationStage::Admit => OperationStage::Read,
                OperationStage::Read => OperationStage::Write,
                OperationStage::Write => OperationStage::End,
                OperationStage::End => OperationStage::Admit,
            };
            self.operations[index as usize].stage = next;
            match operation.stage {
                OperationStage::Admit => {
                    if !self.admit(index) {
                        return;
                    }
                }
                OperationStage::Read => self.read(now, index),
                OperationStage::Write => self.write(now, index),
                OperationStage::End => {
                    if self.end(now, index) {
                        return;
                    }
                }
            }
            if self.operations[index as usize].open > 0 {
                return;
            }
        }
    }

    /// Chooses the next range of an operation. Returns whether it can start at once.
    fn admit(&mut self, index: u32) -> bool {
        let layout = self.layout;
        let operation = &mut self.operations[index as usize];
        operation.until = operation.end;
        if !operation.rebuild {
            let stripe = layout.level.stripe_sectors(&layout);
            let boundary = (operation.at / stripe + STRIPES_AT_ONCE).saturating_mul(stripe);
            operation.until = operation.end.min(boundary);
        }
        if !layout.level.must_lock(operation.op, self.redundancy.failed.is_some()) {
            return true;
        }
        let (at, until) = (operation.at, operation.until);
        let level = layout.level;
        let span = if operation.rebuild { level.span_of_members(&layout, at, until) } else { level.span(&layout, at, until) };
        operation.locked = self.locks.acquire(span, index);
        operation.locked
    }

    /// Ends the current range of an operation. Returns whether the operation is complete.
    fn end(&mut self, now: u64, index: u32) -> bool {
        let operation = &mut self.operations[index as usize];
        if operation.rebuild {
            self.piece_done(now, index);
            return true;
        }
        if operation.locked {
            operation.locked = false;
            self.locks.release(index, &mut self.granted);
        }
        let operation = &mut self.operations[index as usize];
        operation.at = operation.until;
        if operation.at < operation.end {
            return false;
        }
        let Operation { id, served, .. } = *operation;
        self.operations.remove(index as usize);
        self.report(served.completion(id, now));
        true
    }

    fn work(&self, now: u64, index: u32) -> OperationRange {
        let Operation { op, at, until, .. } = self.operations[index as usize];
        OperationRange { now, operation: index, op, at, until }
    }

    /// Issues the reads of a read, or those needed before a write.
    fn read(&mut self, now: u64, index: u32) {
        let (work, level) = (self.work(now, index), self.layout.level);
        let used = match work.op {
            _ if self.operations[index as usize].rebuild => {
                let Some(failed) = self.redundancy.failed else { return };
                level.read_for_rebuild(self, &work, failed)
            }
            Op::Read => level.read(self, &work),
            Op::Write => level.read_before_write(self, &work),
            Op::Discard => return,
        };
        self.submit_pending(&work, used, Op::Read);
    }

    /// Issues the writes of a write or a rebuild.
    fn write(&mut self, now: u64, index: u32) {
        let work = self.work(now, index);
        let used = match work.op {
            Op::Read => return,
            _ if self.operations[index as usize].rebuild => {
                let Some(spare) = self.redundancy.failed else { return };
                self.add(&work, spare, Op::Write, (work.at, work.until));
                1 << spare
            }
            Op::Write | Op::Discard => self.layout.level.write(self, &work),
        };
        self.submit_pending(&work, used, work.op);
    }
}
