//! Chooses the queued request that should complete soonest.

use block::Nanos;
use block::queue::Slot;

use super::positioning::Foreseen;
use super::{ASYNC, PROMPT, PerRequest, SYNC};

/// Number of candidates of a kind per pick: the oldest, and the nearest on either side. More take longer than a microsecond; half as many make
/// no difference.
const LOOKED_AT: usize = 48;

/// A candidate for the next request.
pub(super) struct Candidate {
    pub slot: Slot,
    pub is_prompt: bool,
    pub foreseen: Foreseen,
    pub cost_ns: f64,
}

impl PerRequest {
    /// The oldest expired request; kinds alternate.
    pub(super) fn expired(&self, now: Nanos) -> Option<(usize, Slot)> {
        [1 - self.expired_kind, self.expired_kind].into_iter().find_map(|kind| {
            let slot = self.queue.oldest(kind)?;
            let from = if kind == ASYNC { self.async_expires(slot).max(self.next_async_turn) } else { self.queue.expires(slot) };
            (from <= now).then_some((kind, slot))
        })
    }

    /// The request of a kind that should complete soonest.
    pub(super) fn soonest(&mut self, now: Nanos, kind: usize) -> Option<Candidate> {
        let PerRequest { queue, shared, anchors, last, tuning, .. } = self;
        shared.with(|known| {
            let mut best: Option<Candidate> = None;
            let mut consider = |slot: Slot| {
                let (foreseen, cost_ns) = known.foresee(now, last, queue.request(slot), anchors, tuning.batch as f64);
                if best.as_ref().is_none_or(|best| cost_ns < best.cost_ns) {
                    best = Some(Candidate { slot, is_prompt: kind == PROMPT, foreseen, cost_ns });
                }
            };
            let mut oldest = queue.oldest(kind);
            for _ in 0..LOOKED_AT {
                let Some(slot) = oldest else { break };
                consider(slot);
                oldest = queue.newer(slot);
            }
            // With longer queues, consider also the nearest ones, regardless of their age.
            if oldest.is_some()
                && let Some(slot) = queue.nearest(kind, last.end, u64::MAX, 1)
            {
                consider(slot);
                let mut place = queue.place(slot);
                for _ in 0..LOOKED_AT / 2 {
                    place.sequence += 1;
                    let Some(slot) = queue.from(kind, place) else { break };
                    consider(slot);
                    place = queue.place(slot);
                }
            }
            best
        })
    }

    /// A candidate from a queued request, with its cost.
    pub(super) fn candidate(&mut self, now: Nanos, slot: Slot) -> Candidate {
        let PerRequest { queue, shared, anchors, last, tuning, .. } = self;
        let (foreseen, cost_ns) = shared.with(|known| known.foresee(now, last, queue.request(slot), anchors, tuning.batch as f64));
        Candidate { slot, is_prompt: false, foreseen, cost_ns }
    }

    /// The oldest synchronous request, for a device that already has others queued and orders them itself.
    pub(super) fn oldest(&mut self, now: Nanos) -> Option<Candidate> {
        let goes_on = self.queue.nearest(SYNC, self.last.end, 0, 1).filter(|&slot| {
            let stream = self.queue.request(slot).stream;
            self.turn.is_some_and(|turn| turn.stream == Some(stream)) && self.shared.with(|known| known.streams.is_local(stream))
        });
        let slot = goes_on.or_else(|| self.queue.oldest(SYNC))?;
        Some(self.candidate(now, slot))
    }
}
