//! Measures the load of a unit: requests, device time, and bytes per device time.

use block::{Nanos, Op, Request, SEQUENTIAL_GAP};
use observe::outstanding::Outstanding;

use super::PERIOD;

/// Time constant of the averages of a unit's load. Choice: a shorter one follows single requests, a longer one follows a change late;
/// not varied.
const MEMORY: Nanos = Nanos::from_millis(1_000);
/// Time constant of the write-back rate, three steps: it shows when a queue is full. Choice: a shorter one follows single requests, a
/// longer one lets a queue fill; not varied.
const PACE: Nanos = Nanos(3 * PERIOD.0);
/// Time constant of the utilisation of limits. Choice: twice [`MEMORY`], as limited units are bursty; not varied.
const USE: Nanos = Nanos::from_millis(2_000);
/// Minimum device time in seconds of a known speed: a few requests of a disk. Choice: less is decided by a single seek; three requests of
/// 10 ms; not varied.
const KNOWN: f64 = 0.03;
/// Mean size below which random requests are limited by number rather than by bytes: the seeks of a disk then take longer than the
/// transfers (128 KiB take 1 ms at 128 MB/s). Choice: a larger one limits more neighbours by number; not varied.
pub(crate) const SMALL_BYTES: f64 = 131_072.0;

/// Amounts in one direction.
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

    /// Whether its requests are small and random.
    pub fn is_by_requests(&self) -> bool {
        self.bytes < SMALL_BYTES * self.requests && self.sequential < 0.5 * self.requests
    }

    /// Mean size of a request in bytes; at least a sector.
    pub fn mean_bytes(&self) -> f64 {
        (self.bytes / self.requests.max(1e-9)).max(512.0)
    }
}

/// Amounts of reads and of writes, and their device time in seconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct DeviceUsage {
    pub flows: [Flow; 2],
    pub seconds: f64,
}

impl DeviceUsage {
    fn scale(&mut self, by: f64) {
        self.flows.iter_mut().for_each(|flow| flow.scale(by));
        self.seconds *= by;
    }

    fn add(&mut self, other: &DeviceUsage) {
        self.flows.iter_mut().zip(&other.flows).for_each(|(flow, other)| flow.add(other));
        self.seconds += other.seconds;
    }
}

fn is_written_back(request: &Request) -> bool {
    request.op.is_write() && !request.sync
}

/// Measurements of a unit's load.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    /// Requests queued or in flight, and calls in progress.
    pub outstanding: Outstanding,
    /// Outstanding write-back requests, and their bytes.
    written_back: u32,
    written_back_bytes: u64,
    /// Arrival of the last write-back request.
    last_written_back: Option<Nanos>,
    /// Completed write-back: since the last step, and per second as an average over [`PACE`].
    recent_written_back: Flow,
    write_back_pace: Flow,
    /// Time of its last event.
    pub last: Option<Nanos>,
    /// Amounts since the last step.
    pub recent: DeviceUsage,
    /// Amounts averaged over [`MEMORY`].
    average: DeviceUsage,
    /// The averages when it was last unlimited, or else the first ones: the amounts per device time. `None` before any request.
    pub speed: Option<DeviceUsage>,
    /// Time for which it has been neither limited nor idle, and whether it was ever limited.
    free: Nanos,
    was_limited: bool,
    /// Share of the device's time that it used after [`MEMORY`] without limits; `None` if it never was unlimited for that time.
    pub demand: Option<f64>,
    /// Fraction of its limit that it uses, averaged over [`USE`], or longer if requests are rarer; 1 without a limit.
    pub used: f64,
    /// End sectors of its last completed read and write, of any of its processes: what a limit by bytes or requests acts on is the unit's.
    ends: [u64; 2],
}

impl Meter {
    pub fn queued(&mut self, request: &Request) {
        if is_written_back(request) {
            self.written_back += 1;
            self.written_back_bytes += u64::from(request.sectors) * 512;
            self.last_written_back = Some(request.arrival);
        }
        self.last = Some(request.arrival);
    }

    pub fn completed(&mut self, request: &Request, at: Nanos, charge: Nanos) {
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

    /// Resets the numbers of outstanding requests and calls, which are unknown after a loss of events.
    pub fn lost(&mut self) {
        self.outstanding.forget(Nanos::ZERO);
        (self.written_back, self.written_back_bytes) = (0, 0);
    }

    /// Whether it has requests or calls outstanding, or had an event within this time.
    pub fn is_active(&self, now: Nanos, within: Nanos) -> bool {
        self.outstanding.is_any() || self.last.is_some_and(|last| now - last <= within)
    }

    /// Ends a period. The speed of a unit is measured while it is not limited.
    ///
    /// `limit`: the bytes per second that its limit allows, and the time for one or more requests at that rate; `None` without a limit.
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
        let is_free = !is_limited && self.recent.seconds > 0.0;
        self.free = if is_free { self.free + period } else { Nanos::ZERO };
        self.was_limited |= is_limited;
        // The speed under a limit is not the original one: it is used only if no speed is known, or the known one has little evidence. Nor
        // is that of the first moment without one: a device with a rate limit of its own makes up for idle time by a burst.
        let is_known = self.speed.is_some_and(|speed| speed.seconds >= KNOWN || self.average.seconds < 2.0 * speed.seconds);
        let is_better = self.average.seconds >= KNOWN && self.free >= if self.was_limited { MEMORY } else { period };
        if self.recent.seconds > 0.0 && (!is_known || is_better) {
            self.speed = Some(self.average);
        }
        if self.free >= MEMORY {
            self.demand = Some(self.average.seconds / MEMORY.as_secs_f64());
        }
        self.recent = DeviceUsage::default();
    }

    /// Whether it had write-back within this time.
    pub fn has_write_back(&self, now: Nanos, within: Nanos) -> bool {
        self.last_written_back.is_some_and(|last| now - last <= within)
    }

    /// Write-back in bytes and in requests: per second, and queued.
    pub fn write_back(&self) -> [(f64, f64); 2] {
        let pace = &self.write_back_pace;
        [(pace.bytes, self.written_back_bytes as f64), (pace.requests, f64::from(self.written_back))]
    }

    /// Whether it wrote in the last ten seconds or so (a mebibyte counts for 14 of [`MEMORY`]), so that a write cache may hold its data.
    pub fn has_written(&self) -> bool {
        self.average.flows[1].bytes >= 1.0
    }

    /// Number of requests completed since the last step.
    pub fn recent_requests(&self) -> u32 {
        (self.recent.flows[0].requests + self.recent.flows[1].requests) as u32
    }
}
