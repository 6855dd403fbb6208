//! What a unit does: its requests, the device time that they take, and its speed.

use block::{Nanos, Op, Request, SEQUENTIAL_GAP};

/// Time constant of the averages of a unit's load.
const MEMORY: Nanos = Nanos::from_millis(1_000);
/// Time constant of the pace of write-back, three steps: it shows when a queue is full.
const PACE: Nanos = Nanos::from_millis(300);
/// Time constant of the use of limits.
const USE: Nanos = Nanos::from_millis(2_000);
/// A unit's speed is known from this much device time on: a few requests of a disk.
const KNOWN: f64 = 0.03;
/// Requests are limited by number rather than bytes if they are smaller than this and do not follow each other: a disk's arm moves longer
/// than it transfers (128 KiB take 1 ms at 128 MB/s).
const SMALL: f64 = 131_072.0;

/// Requests of a direction.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Flow {
    pub requests: f64,
    pub bytes: f64,
    pub sequential: f64,
}

impl Flow {
    fn scale(&mut self, by: f64) {
        *self = Flow { requests: self.requests * by, bytes: self.bytes * by, sequential: self.sequential * by };
    }

    fn add(&mut self, other: &Flow) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.sequential += other.sequential;
    }

    /// Whether its requests are small and scattered.
    pub fn is_by_requests(&self) -> bool {
        self.bytes < SMALL * self.requests && self.sequential < 0.5 * self.requests
    }

    /// Bytes of a request, on average; at least a sector.
    pub fn mean_bytes(&self) -> f64 {
        (self.bytes / self.requests.max(1e-9)).max(512.0)
    }
}

/// Requests and the device time that they took: reads, writes, seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Work {
    pub flows: [Flow; 2],
    pub seconds: f64,
}

impl Work {
    fn scale(&mut self, by: f64) {
        self.flows.iter_mut().for_each(|flow| flow.scale(by));
        self.seconds *= by;
    }

    fn add(&mut self, other: &Work) {
        self.flows.iter_mut().zip(&other.flows).for_each(|(flow, other)| flow.add(other));
        self.seconds += other.seconds;
    }
}

fn is_written_back(request: &Request) -> bool {
    request.op.is_write() && !request.sync
}

/// A unit's load.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    /// Requests queued or at the device.
    pub outstanding: u32,
    /// Of these, writes that no process waits for, and their bytes.
    written_back: u32,
    written_back_bytes: u64,
    /// When the last of them was queued.
    last_written_back: Option<Nanos>,
    /// The same, done: since the last step, and of a second as an average over [`PACE`].
    recent_written_back: Flow,
    write_back_pace: Flow,
    /// Calls in progress.
    pub calls: u32,
    /// Its last event.
    pub last: Option<Nanos>,
    /// Since the last step.
    pub recent: Work,
    /// Averages over [`MEMORY`].
    average: Work,
    /// Its averages when it was last unlimited, or the first ones: what a second of device time is worth to it.
    pub speed: Option<Work>,
    /// Time for which it has worked without limits.
    free: Nanos,
    /// Part of the device's time that it took when it had worked without limits for [`MEMORY`]; `None`: it never did.
    pub demand: Option<f64>,
    /// The part of its limit that it makes use of, averaged over [`USE`], or longer where requests are rarer; 1 without a limit.
    pub used: f64,
    /// Ends of its last requests.
    ends: [u64; 2],
}

impl Meter {
    pub fn queued(&mut self, request: &Request) {
        self.outstanding += 1;
        if is_written_back(request) {
            self.written_back += 1;
            self.written_back_bytes += u64::from(request.sectors) * 512;
            self.last_written_back = Some(request.arrival);
        }
        self.last = Some(request.arrival);
    }

    pub fn completed(&mut self, request: &Request, at: Nanos, charge: Nanos) {
        self.outstanding = self.outstanding.saturating_sub(1);
        if is_written_back(request) {
            self.written_back = self.written_back.saturating_sub(1);
            self.written_back_bytes = self.written_back_bytes.saturating_sub(u64::from(request.sectors) * 512);
            self.recent_written_back.requests += 1.0;
            self.recent_written_back.bytes += f64::from(request.sectors) * 512.0;
        }
        self.last = Some(at);
        self.recent.seconds += charge.as_secs_f64();
        let direction = usize::from(request.op.is_write());
        let flow = &mut self.recent.flows[direction];
        flow.requests += 1.0;
        flow.bytes += if request.op == Op::Discard { 0.0 } else { f64::from(request.sectors) * 512.0 };
        let gap = request.lba.abs_diff(self.ends[direction]);
        flow.sequential += f64::from(u8::from(gap <= SEQUENTIAL_GAP));
        self.ends[direction] = request.end();
    }

    /// Which requests and calls are outstanding is not known any more.
    pub fn lost(&mut self) {
        (self.outstanding, self.written_back, self.written_back_bytes, self.calls) = (0, 0, 0, 0);
    }

    /// Whether it had an event within this time.
    pub fn is_active(&self, now: Nanos, within: Nanos) -> bool {
        self.outstanding > 0 || self.calls > 0 || self.last.is_some_and(|last| now - last <= within)
    }

    /// Ends a period; a unit's speed is learned while it is not limited.
    ///
    /// `limit`: the bytes per second that it may move, and the time in which that is one request or more.
    pub fn close(&mut self, period: Nanos, limit: Option<(f64, Nanos)>) {
        let is_limited = limit.is_some();
        self.used = limit.map_or(1.0, |(bytes_per_s, time)| {
            let keep = (-period.as_secs_f64() / time.max(USE).as_secs_f64()).exp();
            let moved = self.recent.flows.iter().map(|flow| flow.bytes).sum::<f64>() / period.as_secs_f64().max(1e-9);
            keep * self.used + (1.0 - keep) * moved / bytes_per_s.max(1.0)
        });
        let keep = (-period.as_secs_f64() / MEMORY.as_secs_f64()).exp();
        self.average.scale(keep);
        self.average.add(&self.recent);
        self.write_back_pace.scale((-period.as_secs_f64() / PACE.as_secs_f64()).exp());
        self.recent_written_back.scale(1.0 / PACE.as_secs_f64());
        self.write_back_pace.add(&std::mem::take(&mut self.recent_written_back));
        // Limited, a unit's speed is not what it was: it is taken once, and again as long as little is known.
        let is_known = self.speed.is_some_and(|speed| speed.seconds >= KNOWN || self.average.seconds < 2.0 * speed.seconds);
        if self.recent.seconds > 0.0 && (!is_known || (!is_limited && self.average.seconds >= KNOWN)) {
            self.speed = Some(self.average);
        }
        let is_free = !is_limited && self.recent.seconds > 0.0;
        self.free = if is_free { self.free + period } else { Nanos::ZERO };
        if self.free >= MEMORY {
            self.demand = Some(self.average.seconds / MEMORY.as_secs_f64());
        }
        self.recent = Work::default();
    }

    /// Whether it made use of write-back within this time.
    pub fn has_write_back(&self, now: Nanos, within: Nanos) -> bool {
        self.last_written_back.is_some_and(|last| now - last <= within)
    }

    /// Bytes and requests of write-back: done per second, and queued.
    pub fn write_back(&self) -> [(f64, f64); 2] {
        let pace = &self.write_back_pace;
        [(pace.bytes, self.written_back_bytes as f64), (pace.requests, f64::from(self.written_back))]
    }

    /// Requests done since the last step.
    pub fn recent_requests(&self) -> u32 {
        (self.recent.flows[0].requests + self.recent.flows[1].requests) as u32
    }
}
