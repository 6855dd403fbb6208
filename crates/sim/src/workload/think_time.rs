//! Think time of a job: fio's `thinktime` and its options (fio's HOWTO, "I/O rate").

use block::Nanos;

use super::options::Options;

/// Think time of a job: fio's `handle_thinktime` in backend.c, which checks after each issued I/O and the reaping of completions
/// that follows it.
///
/// A stall is due [`thinktime_blocks`](super::options::ThinkTime::blocks) I/Os after the start of the last one. I/Os in flight are
/// waited for before it, and count towards the next one: with `thinktime_blocks_type=complete`, the default, and a queue depth
/// above 1, the next stall therefore often follows the next I/O immediately.
#[derive(Clone, Copy, Debug)]
pub(super) struct Think {
    /// Duration of a stall; zero for none. `thinktime_spin` is the part of it in which the processor is busy.
    pub(super) span: Nanos,
    blocks: Option<u32>,
    every: Option<Nanos>,
    /// Whether I/Os count when issued rather than when completed.
    at_issue: bool,
    /// Number of I/Os so far, and at the time when the last stall was due.
    counted: u64,
    counted_then: u64,
    since: Nanos,
    /// Whether an I/O was issued since the last check.
    issued: bool,
}

impl Think {
    pub(super) fn new(options: &Options, now: Nanos) -> Think {
        let default = if options.think.every.is_some() { None } else { Some(1) };
        Think {
            span: options.think.span,
            blocks: options.think.blocks.or(default),
            every: options.think.every,
            at_issue: options.think.at_issue,
            counted: 0,
            counted_then: 0,
            since: now,
            issued: false,
        }
    }

    /// Accounts for an issued I/O.
    pub(super) fn issued(&mut self) {
        self.issued = true;
        self.counted += u64::from(self.at_issue);
    }

    /// Accounts for completed I/Os.
    pub(super) fn completed(&mut self, ios: u32) {
        self.counted += if self.at_issue { 0 } else { u64::from(ios) };
    }

    /// Whether a stall begins now. Returns true only once, and only after an I/O was issued.
    pub(super) fn begins(&mut self, now: Nanos) -> bool {
        if !std::mem::take(&mut self.issued) || self.span == Nanos::ZERO {
            return false;
        }
        let by_blocks = self.blocks.is_some_and(|blocks| self.counted - self.counted_then >= u64::from(blocks));
        let begins = by_blocks || self.every.is_some_and(|every| now - self.since >= every);
        if begins {
            self.counted_then = self.counted;
        }
        begins
    }

    /// Ends the stall at `now`.
    pub(super) fn done(&mut self, now: Nanos) {
        self.since = now;
    }
}
