//! Simulated storage devices behind the [`Device`] trait, one file or folder for each kind.

mod busy;
mod deferred;
mod flash_tally;
pub mod hdd;
pub mod limited;
pub mod modelled;
pub mod raid;
mod reciprocal;
pub mod slowed;
pub mod ssd;

use block::{Nanos, Request, RequestId};

pub use flash_tally::FlashTally;

/// The completion of a request, with a breakdown of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: RequestId,
    /// Time at which it is reported to the host.
    pub at: Nanos,
    /// Seek time of its access, including settling; zero if a cache or buffer served it.
    pub seek: Nanos,
    /// Rotational latency of its access.
    pub rotation: Nanos,
    /// Cylinders that the arm crossed for it.
    pub seek_cylinders: u32,
    /// Whether it needed no mechanical access.
    pub cache_hit: bool,
    /// Device time of this request alone; `None` if the device does not report it.
    ///
    /// * Disk: overhead, positioning and transfer, from the start of the arm; for a cache hit, the time of controller and bus.
    /// * Flash: the time of dies and channels, or of controller and link if no die was needed.
    /// * Array: the sum over its members, including reads and writes of parity.
    ///
    /// A write reported from a write cache has its expected cost; the difference to its actual cost is added to the writes reported
    /// next (`deferred.rs`). Read-ahead, flushes and rebuilds are not attributed to any request.
    pub work: Option<Nanos>,
}

/// A storage device in virtual time. It reads no clock: its host calls it at the time that [`wake_at`](Device::wake_at) returns.
///
/// ```text
/// host                         device
///  |-- submit(now, request) ---->|   at most queue_depth() at once
///  |<- wake_at() = Some(t) ------|
///  |-- advance(t, &mut done) --->|   t never decreases; several events up to t may happen
///  |<- done: [Completion] -------|
/// ```
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use block::{Nanos, Op, Priority, Request};
/// use sim::profile::{DeviceOptions, load};
///
/// let mut disk = load("atlas10k")?.build(DeviceOptions::default());
/// let (priority, arrival) = (Priority::DEFAULT, Nanos::ZERO);
/// let request = Request { id: 7, stream: 0, op: Op::Read, sync: true, priority, sectors: 8, lba: 1_000_000, arrival };
/// disk.submit(arrival, &request);
/// let mut done = Vec::new();
/// while done.is_empty() {
///     let at = disk.wake_at().ok_or("the device has stalled")?;
///     disk.advance(at, &mut done);
/// }
/// assert_eq!(done[0].id, 7);
/// assert!(done[0].seek > Nanos::ZERO && done[0].at > done[0].seek);
/// # Ok(())
/// # }
/// ```
pub trait Device: Send {
    /// Capacity in 512-byte sectors. Requests must not end beyond it.
    fn capacity_sectors(&self) -> u64;

    /// Maximum number of requests in flight; constant.
    fn queue_depth(&self) -> usize;

    /// Whether it is rotational (`/sys/block/*/queue/rotational`).
    fn is_rotational(&self) -> bool {
        false
    }

    /// Whether it has a volatile write cache, so that [`flush`](Device::flush) has an effect.
    fn has_write_cache(&self) -> bool {
        false
    }

    /// Whether a flush needs room among the requests of the queue depth, as it takes a driver tag in Linux.
    fn queues_flushes(&self) -> bool {
        true
    }

    /// Submits a request. Call `advance(now, …)` first if `wake_at()` is not later than `now`.
    fn submit(&mut self, now: Nanos, request: &Request);

    /// Writes out the volatile write cache (ATA's FLUSH CACHE, SCSI's SYNCHRONIZE CACHE, NVMe's Flush). Returns true if `advance`
    /// will report a completion of this `id` when all writes reported before `now` are on the media; false if there is no such
    /// cache and no completion follows. Call `advance` first, as for `submit`. A flush does not count towards the queue depth, and
    /// several may be in progress.
    fn flush(&mut self, _now: Nanos, _id: RequestId) -> bool {
        false
    }

    /// Estimated positioning time of a request if it were submitted now: seek and rotation, zero for a cache hit; `None` for a
    /// device without mechanics. The call has no observable effect.
    fn time_to_reach(&mut self, _now: Nanos, _request: &Request) -> Option<Nanos> {
        None
    }

    /// The time of the device's next internal event (a completion, the end of a seek, a write-back); `None` if there is none until
    /// the next `submit`. Background work without visible effect (read-ahead) may be omitted.
    fn wake_at(&self) -> Option<Nanos>;

    /// Advances to `now` and appends the completed requests, in order of completion.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Busy time up to the last `advance`: the time with at least one request in progress, including buffered writes.
    fn busy(&self) -> Nanos;

    /// Counts of flash operations since the device was built; `None` if it is not a flash device.
    fn flash(&self) -> Option<FlashTally> {
        None
    }
}
