//! A trace event in the kernel's format.

use block::{Nanos, Op, Priority, PriorityClass};

use super::format::{Layouts, RequestLayout, What};

/// The fields of an event; for a system call only time, type and process.
#[derive(Clone, Copy, Debug)]
pub(super) struct Raw {
    pub(super) at: Nanos,
    pub(super) lba: u64,
    pub(super) sectors: u32,
    pub(super) process: u32,
    pub(super) what: What,
    pub(super) kind: RequestFlags,
    pub(super) priority: Priority,
}

/// The kind of a request, from the letters that the kernel prints (`blk_fill_rwbs` in `kernel/trace/blktrace.c`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RequestFlags {
    /// `None` for a flush by itself, a secure erase, a zone command, or a passthrough command.
    pub(super) op: Option<Op>,
    /// Whether it is synchronous (`op_is_sync` in `blk_types.h`) and no read-ahead (`REQ_RAHEAD`).
    pub(super) sync: bool,
    /// Whether the write cache must be flushed before it.
    pub(super) flush_before: bool,
    /// Whether it must be on the media at completion (FUA).
    pub(super) fua: bool,
    /// Whether it is the flush command itself.
    pub(super) is_flush: bool,
}

impl RequestFlags {
    fn read(letters: &[u8]) -> RequestFlags {
        let flush_before = letters.first() == Some(&b'F');
        let letters = if flush_before { &letters[1..] } else { letters };
        let op = match letters {
            [b'R', ..] => Some(Op::Read),
            // Write-zeroes and secure erase transfer nothing.
            [b'W', b'Z', ..] | [b'D', b'E', ..] => None,
            [b'W', ..] => Some(Op::Write),
            [b'D', ..] => Some(Op::Discard),
            _ => None,
        };
        let flags = letters.get(1..).unwrap_or_default();
        let fua = op.is_some() && flags.contains(&b'F');
        let sync = op == Some(Op::Read) && !flags.contains(&b'A') || flush_before || fua || flags.contains(&b'S');
        // The flush command itself also has the preflush flag, as in FF; older kernels print a single F.
        let is_flush = op.is_none() && (letters.first() == Some(&b'F') || (flush_before && letters.is_empty()));
        RequestFlags { op, sync, flush_before: flush_before && !is_flush, fua, is_flush }
    }
}

impl Raw {
    /// Parses an event. Also returns the name of the issuing program, without its terminating zero. `None` for other types of events.
    pub(super) fn read<'a>(layouts: &Layouts, at: Nanos, bytes: &'a [u8]) -> Option<(Raw, &'a [u8])> {
        let id = layouts.common_type.number(bytes)?;
        let event = layouts.events.iter().find(|event| event.id == id)?;
        let (what, process) = (event.what, event.pid.number(bytes)? as u32);
        let Some(RequestLayout { sector, sectors, rwbs, comm, ioprio }) = event.request else {
            let (kind, priority) = (RequestFlags::read(&[]), Priority::DEFAULT);
            return Some((Raw { at, lba: 0, sectors: 0, process, what, kind, priority }, &[]));
        };
        let raw = Raw {
            at,
            lba: sector.number(bytes)?,
            sectors: sectors.number(bytes)? as u32,
            process,
            what,
            kind: RequestFlags::read(text(rwbs.of(bytes))),
            priority: ioprio.and_then(|ioprio| ioprio.number(bytes)).map_or(Priority::DEFAULT, priority),
        };
        Some((raw, comm.map_or(&[], |comm| text(comm.of(bytes)))))
    }
}

/// The text up to the terminating zero.
fn text(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    &bytes[..end]
}

/// Decodes Linux's priority (`include/uapi/linux/ioprio.h`): 3 bits of class, 13 of data, of which the lowest 3 are the level.
fn priority(number: u64) -> Priority {
    let level = (number & 7) as u8;
    match number >> 13 & 7 {
        1 => Priority { class: PriorityClass::RealTime, level },
        2 => Priority { class: PriorityClass::BestEffort, level },
        3 => Priority { class: PriorityClass::Idle, level },
        _ => Priority::DEFAULT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_give_the_operation_and_whether_it_is_synchronous() {
        let kind = |letters: &str| RequestFlags::read(letters.as_bytes());
        let (read, write, discard) = (Some(Op::Read), Some(Op::Write), Some(Op::Discard));
        let plain = RequestFlags { op: None, sync: false, flush_before: false, fua: false, is_flush: false };
        assert_eq!(kind("R"), RequestFlags { op: read, sync: true, ..plain });
        assert_eq!(kind("RA"), RequestFlags { op: read, sync: false, ..plain });
        assert_eq!(kind("W"), RequestFlags { op: write, ..plain });
        assert_eq!(kind("WS"), RequestFlags { op: write, sync: true, ..plain });
        assert_eq!(kind("WFS"), RequestFlags { op: write, sync: true, fua: true, ..plain });
        assert_eq!(kind("FWFSM"), RequestFlags { op: write, sync: true, flush_before: true, fua: true, ..plain });
        assert_eq!(kind("FWS"), RequestFlags { op: write, sync: true, flush_before: true, ..plain });
        assert_eq!(kind("DS"), RequestFlags { op: discard, sync: true, ..plain });
        assert_eq!(kind("FF"), RequestFlags { sync: true, is_flush: true, ..plain });
        assert_eq!(kind("F"), RequestFlags { sync: true, is_flush: true, ..plain });
        assert_eq!(kind("DE").op, None);
        assert_eq!(kind("N"), plain);
    }

    #[test]
    fn priorities_are_linux_numbers() {
        assert_eq!(priority(0), Priority::DEFAULT);
        assert_eq!(priority(1 << 13 | 2), Priority { class: PriorityClass::RealTime, level: 2 });
        assert_eq!(priority(3 << 13 | 7), Priority { class: PriorityClass::Idle, level: 7 });
    }
}
