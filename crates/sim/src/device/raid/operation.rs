//! What an array is asked for, a request of the host or a piece of the rebuild, carried on from access to access.
//!
//! ```text
//! admit: choose stripes, lock them ──▶ read ──▶ write ──▶ end ──▶ the next stripes, or over
//! ```

use block::{Nanos, Op, Priority, Request, RequestId, StreamId};

use super::{Completion, Raid};

/// Stripes that an operation works on at once; it bounds the memory that a huge request takes.
const STRIPES_AT_ONCE: u64 = 256;

/// How far an operation has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationStage {
    /// It chooses the stripes that it works on next, and locks them.
    Admit,
    /// It may read.
    Read,
    /// It may write.
    Write,
    /// All accesses are done.
    End,
}

/// A request of the host, or a piece of the rebuild.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operation {
    pub(super) id: RequestId,
    pub(super) stream: StreamId,
    pub(super) priority: Priority,
    pub(super) sync: bool,
    pub(super) op: Op,
    pub(super) rebuild: bool,
    pub(super) stage: OperationStage,
    /// It has its sectors to itself.
    pub(super) locked: bool,
    /// Something that it was to read went with a member.
    pub(super) lost: bool,
    /// Accesses that are not done.
    pub(super) open: u32,
    /// What it works on now, from and to, and the end of all. In sectors of the array, of a rebuild in those of a member.
    pub(super) at: u64,
    pub(super) until: u64,
    pub(super) end: u64,
    pub(super) hit: bool,
    pub(super) seek: Nanos,
    pub(super) rotation: Nanos,
    pub(super) seek_cylinders: u32,
    /// What its accesses cost their members; `None` if one of them did not tell.
    pub(super) disk_time: Option<Nanos>,
}

/// What an operation works on now: sectors of the array, from and to; of a rebuild those of a member.
#[derive(Clone, Copy, Debug)]
pub struct Work {
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
            hit: true,
            seek: Nanos::ZERO,
            rotation: Nanos::ZERO,
            seek_cylinders: 0,
            disk_time: Some(Nanos::ZERO),
        }
    }
}

impl Raid {
    /// Takes a request of the host for these sectors.
    pub(super) fn begin_request(&mut self, now: u64, request: &Request, at: u64, end: u64) {
        self.outstanding += 1;
        let index = self.operations.insert(Operation::new(request, at, end)) as u32;
        self.proceed(now, index);
    }

    /// Carries an operation on that waits for no access, and those that get its lock.
    pub(super) fn proceed(&mut self, now: u64, operation: u32) {
        self.carry_on(now, operation);
        while let Some(granted) = self.granted.pop_front() {
            self.operations[granted as usize].locked = true;
            self.carry_on(now, granted);
        }
    }

    /// Carries an operation on until it waits for something or is over.
    fn carry_on(&mut self, now: u64, index: u32) {
        loop {
            let operation = self.operations[index as usize];
            if operation.lost {
                // What it had read is of no use without what it lost; what it locked it keeps.
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

    /// Chooses what the operation works on next; says whether it may begin at once.
    fn admit(&mut self, index: u32) -> bool {
        let layout = self.layout;
        let operation = &mut self.operations[index as usize];
        operation.until = operation.end;
        if !operation.rebuild {
            let stripe = layout.level.stripe_sectors(&layout);
            let boundary = (operation.at / stripe + STRIPES_AT_ONCE).saturating_mul(stripe);
            operation.until = operation.end.min(boundary);
        }
        if !layout.level.must_lock(operation.op, self.failed.is_some()) {
            return true;
        }
        let (at, until) = (operation.at, operation.until);
        let level = layout.level;
        let span = if operation.rebuild { level.span_of_members(&layout, at, until) } else { level.span(&layout, at, until) };
        operation.locked = self.locks.acquire(span, index);
        operation.locked
    }

    /// The operation is through with what it worked on; says whether it is over.
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
        let Operation { id, seek, rotation, seek_cylinders, hit, disk_time, .. } = *operation;
        self.operations.remove(index as usize);
        self.report(Completion { id, at: Nanos(now), seek, rotation, seek_cylinders, cache_hit: hit, work: disk_time });
        true
    }

    fn work(&self, now: u64, index: u32) -> Work {
        let Operation { op, at, until, .. } = self.operations[index as usize];
        Work { now, operation: index, op, at, until }
    }

    /// Reads what a read asks for, or what must be known before a write.
    fn read(&mut self, now: u64, index: u32) {
        let (work, level) = (self.work(now, index), self.layout.level);
        let used = match work.op {
            _ if self.operations[index as usize].rebuild => {
                let Some(failed) = self.failed else { return };
                level.read_for_rebuild(self, &work, failed)
            }
            Op::Read => level.read(self, &work),
            Op::Write => level.read_before_write(self, &work),
            Op::Discard => return,
        };
        self.send_off(&work, used, Op::Read);
    }

    /// Writes what a write or a rebuild writes.
    fn write(&mut self, now: u64, index: u32) {
        let work = self.work(now, index);
        let used = match work.op {
            Op::Read => return,
            _ if self.operations[index as usize].rebuild => {
                let Some(spare) = self.failed else { return };
                self.add(&work, spare, Op::Write, (work.at, work.until));
                1 << spare
            }
            Op::Write | Op::Discard => self.layout.level.write(self, &work),
        };
        self.send_off(&work, used, work.op);
    }
}
