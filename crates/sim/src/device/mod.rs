//! Simulated storage devices behind the [`Device`] trait, one file or folder for each kind.

mod deferred;
pub mod hdd;
pub mod learned;
pub mod limited;
pub mod modelled;
pub mod raid;
mod reciprocal;
pub mod ssd;

use block::{Nanos, Request, RequestId};

use crate::profile::DeviceKind;

/// The kinds of devices that a profile can describe. Models of devices ([`learned`]) are no profiles, but stand in their place.
pub static KINDS: &[&DeviceKind] = &[&hdd::profile::KIND, &ssd::profile::KIND, &raid::profile::KIND];

/// A request that a device has finished, and where its time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The request's id.
    pub id: RequestId,
    /// When the host hears of it.
    pub at: Nanos,
    /// Time its access spent moving the arm (settling included); zero if a cache or buffer served it.
    pub seek: Nanos,
    /// Time its access waited for the platter to turn.
    pub rotation: Nanos,
    /// Cylinders the arm crossed for it.
    pub seek_cylinders: u32,
    /// No mechanical access stood between submission and completion.
    pub cache_hit: bool,
    /// For how long the device was at work for this request and no other. `None`: it does not tell.
    ///
    /// * Of a disk: overhead, arm, platter and transfer, from when the arm turned to it; of what its memory holds, the controller's time
    ///   and the bus's, which pass beside the arm's.
    /// * Of flash: the dies' and channels' time, or the controller's and the link's if no die was needed.
    /// * Of an array: its members' times added up, those of reads and writes of parity too.
    ///
    /// A write that is reported from a write cache is said to have cost what it is expected to need later; what it then needs more or less
    /// is added to those that are reported next (`deferred.rs`). Read-ahead, flushes and a rebuild are no request's.
    pub work: Option<Nanos>,
}

/// A storage device in virtual time. It never reads a clock: its host asks when it next wants to be called, and calls.
///
/// ```text
/// host                         device
///  |-- submit(now, request) ---->|   at most queue_depth() at once
///  |<- wake_at() = Some(t) ------|
///  |-- advance(t, &mut done) --->|   t never runs backwards; several events up to t may happen
///  |<- done: [Completion] -------|
/// ```
pub trait Device: Send {
    /// How many 512-byte sectors it holds. A request that ends beyond is the caller's mistake.
    fn capacity_sectors(&self) -> u64;

    /// How many submitted requests may be unfinished at once; always the same.
    fn queue_depth(&self) -> usize;

    /// Whether platters turn in it (`/sys/block/*/queue/rotational`).
    fn is_rotational(&self) -> bool {
        false
    }

    /// Whether it reports writes that are not on the media yet, so that [`flush`](Device::flush) has something to do.
    fn has_write_cache(&self) -> bool {
        false
    }

    /// Takes a request. Call `advance(now, …)` first if `wake_at()` is not later than `now`.
    fn submit(&mut self, now: Nanos, request: &Request);

    /// Empties the volatile write cache (ATA's FLUSH CACHE, SCSI's SYNCHRONIZE CACHE, NVMe's Flush). True: `advance` reports a
    /// completion of this `id` when everything is on the media that was reported as written before `now`. False: there is no such
    /// cache, it is done already, and no completion comes. Call `advance` first, as for `submit`. It takes no place in the queue, and
    /// several may be under way.
    fn flush(&mut self, _now: Nanos, _id: RequestId) -> bool {
        false
    }

    /// How long it would take until the device could begin to transfer this request, were it submitted now: the arm's way and the
    /// platter's, nothing for what its cache serves. `None`: a device without mechanics. Asking changes nothing that anybody sees.
    fn time_to_reach(&mut self, _now: Nanos, _request: &Request) -> Option<Nanos> {
        None
    }

    /// When the device next has something to do by itself (complete a request, end a seek, start a write-back);
    /// `None`: nothing until the next `submit`. Background work that no host can see (read-ahead) need not be announced.
    fn wake_at(&self) -> Option<Nanos>;

    /// Lets time pass until `now` and appends the requests that completed, in the order of their completion.
    fn advance(&mut self, now: Nanos, done: &mut Vec<Completion>);

    /// Time up to the last `advance` during which the device was at work for at least one request, buffered writes included.
    fn busy(&self) -> Nanos;

    /// What happened on the flash since the device was built; `None` if it has none.
    fn flash(&self) -> Option<ssd::FlashTally> {
        None
    }
}
