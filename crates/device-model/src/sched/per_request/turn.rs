//! Turns: a stream is served for some time, with anticipation in between; asynchronous requests have turns of their own.

use block::queue::Slot;
use block::sched::COMPLETION_BACKSTOP;
use block::{Nanos, Request, StreamId};

use super::choose::Candidate;
use super::{ASYNC, PROMPT, PerRequest, SHARE, SYNC};

/// Maximum requests of a turn while others have expired, however short they are: the starvation bound counts requests, not time.
pub(super) const TURN_PICKS: u64 = 256;
/// Factor by which asynchronous requests must be larger than synchronous ones not to be delayed.
const BULK: f64 = 2.0;

/// The stream in service, which is waited for.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    /// The stream of the last dispatched synchronous request; `None` in a turn of asynchronous ones.
    pub stream: Option<StreamId>,
    pub began: Nanos,
    pub picks: u64,
    /// Number of its requests at the device.
    pub at_device: u32,
    /// When the last of them completed.
    pub idle_since: Nanos,
    /// End of its last request, and whether that one was sequential.
    pub end: u64,
    pub is_running: bool,
    /// It is mostly sequential, and continuing takes less than switching to another stream.
    pub is_local: bool,
    /// Whether waiting for the stream was in vain.
    pub is_over: bool,
}

impl PerRequest {
    /// Whether a synchronous request is queued.
    fn sync_waits(&self) -> bool {
        self.queue.oldest(SYNC).is_some() || self.queue.oldest(PROMPT).is_some()
    }

    /// When asynchronous requests may go, as currently known: after a pause of the synchronous ones, or in their turn. `None` without any.
    pub(super) fn async_from(&self, now: Nanos) -> Option<Nanos> {
        let oldest = self.queue.oldest(ASYNC)?;
        let in_turn = self.async_expires(oldest).max(self.next_async_turn);
        let in_pause = self.sync_done + self.tuning.async_delay;
        let is_busy = self.sync_at_device > 0 || self.sync_waits();
        Some(if self.is_async_turn(now) {
            now
        } else if is_busy {
            in_turn
        } else {
            in_turn.min(in_pause)
        })
    }

    /// When an asynchronous request expires; large ones early, because they transfer more in their time than synchronous ones.
    pub(super) fn async_expires(&self, slot: Slot) -> Nanos {
        if self.is_bulk() { self.queue.request(slot).arrival + self.tuning.async_delay } else { self.queue.expires(slot) }
    }

    fn is_bulk(&self) -> bool {
        self.sectors[ASYNC].get() > self.sectors[SYNC].get().map(|sectors| BULK * sectors)
    }

    /// Whether asynchronous requests have the turn.
    fn is_async_turn(&self, now: Nanos) -> bool {
        self.turn.is_some_and(|turn| turn.stream.is_none()) && self.turn_goes_on(now)
    }

    /// Whether the turn continues although others have expired.
    pub(super) fn turn_goes_on(&self, now: Nanos) -> bool {
        self.turn
            .is_some_and(|turn| turn.is_local && !turn.is_over && turn.picks < TURN_PICKS && now < turn.began + self.tuning.turn)
    }

    /// Until when to keep the device idle because the last stream's next request should complete sooner than this candidate; `None` not to wait.
    pub(super) fn wait_until(&mut self, now: Nanos, best: &Candidate) -> Option<Nanos> {
        let turn = self.turn?;
        let stream = turn.stream.filter(|_| !turn.is_over && self.tuning.longest_wait > Nanos::ZERO)?;
        let request = self.queue.request(best.slot);
        if request.is_sync() && request.stream == stream {
            return None;
        }
        let at_device = self.at_device;
        // A device that serves several at once is faster with requests together, if they are not sequential.
        if at_device > 0 && !turn.is_running {
            return None;
        }
        let wait_ns = self.shared.with(|known| {
            // With others at the device, predictions for a single request are not meaningful.
            let of_others = known.streams.switching_ns().filter(|_| at_device > 0);
            known.streams.wait_ns(stream, of_others.unwrap_or(best.cost_ns))
        });
        if wait_ns == 0.0 {
            return None;
        }
        if turn.at_device > 0 {
            return Some(now + COMPLETION_BACKSTOP);
        }
        let until = turn.idle_since + Nanos(wait_ns as u64).min(self.tuning.longest_wait);
        if until > now {
            return Some(until);
        }
        if let Some(turn) = &mut self.turn {
            turn.is_over = true;
        }
        self.shared.with(|known| known.streams.stayed_away(stream));
        None
    }

    /// Gives the turn to the stream of a dispatched request.
    pub(super) fn take_turn(&mut self, now: Nanos, request: &Request) {
        let stream = request.is_sync().then_some(request.stream);
        let (is_local, is_next) =
            self.shared.with(|known| (stream.is_none_or(|stream| known.streams.is_local(stream)), known.streams.is_next(request)));
        self.sectors[usize::from(stream.is_some())].add(f64::from(request.sectors));
        if stream.is_none() && (self.sync_at_device > 0 || self.sync_waits()) {
            // While both are queued, synchronous requests get the larger share of the time, or asynchronous ones if they are large.
            let turn = self.tuning.turn.0;
            self.next_async_turn = now + if self.is_bulk() { Nanos(turn / SHARE) } else { Nanos(SHARE * turn) };
        }
        let turn = match &mut self.turn {
            Some(turn) if turn.stream == stream => turn,
            turn => turn.insert(Turn {
                stream,
                began: now,
                picks: 0,
                at_device: 0,
                idle_since: now,
                end: 0,
                is_running: false,
                is_local,
                is_over: false,
            }),
        };
        turn.picks += 1;
        turn.at_device += 1;
        turn.is_running = is_next || request.lba == turn.end;
        turn.end = request.end();
        (turn.is_local, turn.is_over) = (is_local, false);
    }

    /// Records a completed request, which may be one of the turn's.
    pub(super) fn end_of_one(&mut self, now: Nanos, request: &Request) {
        let stream = request.is_sync().then_some(request.stream);
        if let Some(turn) = &mut self.turn
            && turn.stream == stream
        {
            turn.at_device = turn.at_device.saturating_sub(1);
            turn.idle_since = now;
        }
    }
}
