//! The survey of a trace before its replay, and the placement of its devices on the simulated disk.

use std::collections::BTreeMap;

use block::{Nanos, Op, Roster, StreamId};

use crate::trace::{TraceError, TraceReader, TraceRequest};
use block::keyed::Keyed;

/// Granularity at which [`Fit::Compact`] removes untouched areas: coarse enough to preserve locality.
const CHUNK_SECTORS: u64 = 32_768;

/// Requests read at once: they fit into a processor's first-level cache.
pub(super) const BATCH: usize = 256;

/// Limit on distinct chunks and on streams, which bounds memory.
const MAX_COUNTED: usize = 4_000_000;

/// Maximum number of streams with separate statistics; requests of the others are replayed but not distinguished.
pub const FOLLOWED_STREAMS: usize = 256;

/// The result of one pass over a trace: its size, devices and streams.
#[derive(Debug, Default)]
pub struct Survey {
    /// Number of requests.
    pub requests: u64,
    /// Number of damaged lines skipped.
    pub skipped: u64,
    /// Writes for which the trace does not record whether the issuer waits.
    pub writes_without_sync: u64,
    /// Requests without a recorded completion.
    pub without_response: u64,
    /// Time of the last arrival.
    pub duration: Nanos,
    /// Per device: the first sector after its highest request.
    ends: Keyed<u32, u64>,
    /// Chunks of [`CHUNK_SECTORS`] that are accessed, by device.
    chunks: Keyed<(u32, u64), ()>,
    /// Per stream: number of requests.
    streams: Keyed<StreamId, u64>,
    /// Names of the followed streams.
    names: BTreeMap<StreamId, String>,
}

impl Survey {
    /// Reads the whole trace. `each` is called every 8,192 requests with the number read so far, and ends the survey by returning
    /// false; the result is then `None`.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn take(reader: &mut dyn TraceReader, mut each: impl FnMut(u64) -> bool) -> Result<Option<Survey>, TraceError> {
        let mut survey = Survey::default();
        let mut batch = Vec::with_capacity(BATCH);
        while reader.next_batch(&mut batch, BATCH)? {
            for request in batch.drain(..) {
                survey.add(&request);
                if survey.requests.is_multiple_of(8192) && !each(survey.requests) {
                    return Ok(None);
                }
            }
        }
        survey.skipped = reader.skipped();
        for (stream, _) in survey.followed() {
            if let Some(name) = reader.stream_name(stream) {
                survey.names.insert(stream, name.to_owned());
            }
        }
        Ok(Some(survey))
    }

    #[inline]
    fn add(&mut self, request: &TraceRequest) {
        self.requests += 1;
        self.duration = request.arrival;
        self.writes_without_sync += u64::from(request.op == Op::Write && request.sync.is_none());
        self.without_response += u64::from(request.response.is_none());
        let end = request.lba.saturating_add(u64::from(request.sectors));
        if let Some(known) = self.ends.entry(request.device, usize::MAX) {
            *known = (*known).max(end);
        }
        for chunk in request.lba / CHUNK_SECTORS..=(end - 1) / CHUNK_SECTORS {
            self.chunks.entry((request.device, chunk), MAX_COUNTED);
        }
        if let Some(requests) = self.streams.entry(request.stream, MAX_COUNTED) {
            *requests += 1;
        }
    }

    /// The streams with the most requests, at most [`FOLLOWED_STREAMS`], with their numbers of requests in descending order.
    pub fn followed(&self) -> Vec<(StreamId, u64)> {
        let mut streams: Vec<_> = self.streams.iter().map(|(stream, &requests)| (stream, requests)).collect();
        streams.sort_by_key(|&(stream, requests)| (std::cmp::Reverse(requests), stream));
        streams.truncate(FOLLOWED_STREAMS);
        streams
    }

    /// Number of streams, followed or not.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// Whether the trace has this stream, followed or not.
    pub fn has_stream(&self, stream: StreamId) -> bool {
        self.streams.iter().any(|(known, _)| known == stream)
    }

    /// The name of a followed stream; `None` if it has none or is not followed.
    pub fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.names.get(&stream).map(String::as_str)
    }
}

/// Treatment of a trace that does not fit on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Reject it. Requests keep their addresses.
    #[default]
    Exact,
    /// Omit areas of 16 MiB that the trace does not access; the others keep their order.
    Compact,
}

/// The trace does not fit on the disk.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// Under [`Fit::Exact`].
    #[error("the trace reaches to sector {needed}, the disk ends at {capacity}: choose a larger disk{}", compact_hint(*compact, *capacity))]
    Exact {
        /// Sectors needed.
        needed: u64,
        /// Sectors available.
        capacity: u64,
        /// Sectors that [`Fit::Compact`] would need.
        compact: u64,
    },
    /// Under [`Fit::Compact`].
    #[error("the trace touches {needed} sectors (in pieces of 16 MiB), the disk holds {capacity}: choose a larger disk")]
    Compact {
        /// Sectors needed.
        needed: u64,
        /// Sectors available.
        capacity: u64,
    },
}

/// Suggests [`Fit::Compact`] if it would fit.
fn compact_hint(compact: u64, capacity: u64) -> String {
    if compact > capacity {
        return String::new();
    }
    format!(", or leave out untouched areas with --fit compact ({compact} sectors)")
}

/// The location of a trace's devices on the simulated disk.
#[derive(Debug)]
pub struct Placement {
    capacity: u64,
    /// The first sector after the trace.
    needed: u64,
    /// Offset added to every address.
    shift: u64,
    layout: Layout,
    /// If only a tenant's requests are placed: roster, tenant, and the sector at which its volume begins on its own disk.
    of: Option<(Roster, usize, u64)>,
}

#[derive(Clone, Debug)]
enum Layout {
    /// One after the other, each from its base sector: (device, base), by device.
    SideBySide(Vec<(u32, u64)>),
    /// Accessed chunks only, in order.
    Compact(Vec<(u32, u64)>),
}

impl Placement {
    /// Places the surveyed trace on a disk of `capacity` sectors. A single device that fits keeps its addresses.
    ///
    /// # Errors
    /// The trace does not fit.
    pub fn new(survey: &Survey, capacity: u64, fit: Fit) -> Result<Placement, FitError> {
        let compact = (survey.chunks.len() as u64).saturating_mul(CHUNK_SECTORS);
        if fit == Fit::Compact {
            if compact > capacity || survey.chunks.len() == MAX_COUNTED {
                return Err(FitError::Compact { needed: compact, capacity });
            }
            let mut chunks: Vec<(u32, u64)> = survey.chunks.iter().map(|(chunk, ())| chunk).collect();
            chunks.sort_unstable();
            return Ok(Placement { capacity, needed: compact, shift: 0, layout: Layout::Compact(chunks), of: None });
        }
        let mut ends: Vec<(u32, u64)> = survey.ends.iter().map(|(device, &end)| (device, end)).collect();
        ends.sort_unstable();
        let mut bases = Vec::with_capacity(ends.len());
        let mut needed = 0u64;
        for &(device, end) in &ends {
            bases.push((device, needed));
            // The next device starts at a chunk boundary, which preserves alignment.
            needed = if bases.len() == ends.len() {
                needed.saturating_add(end)
            } else {
                needed.saturating_add(end).div_ceil(CHUNK_SECTORS).saturating_mul(CHUNK_SECTORS)
            };
        }
        if needed > capacity {
            return Err(FitError::Exact { needed, capacity, compact });
        }
        Ok(Placement { capacity, needed, shift: 0, layout: Layout::SideBySide(bases), of: None })
    }

    /// Number of sectors after the trace.
    pub fn room_sectors(&self) -> u64 {
        self.capacity - self.needed
    }

    /// The same placement, shifted by a number of sectors.
    ///
    /// # Panics
    /// There are fewer than `sectors` [left](Placement::room_sectors).
    #[must_use]
    pub fn shifted(self, sectors: u64) -> Placement {
        assert!(sectors <= self.room_sectors(), "the trace would reach beyond the disk");
        Placement { needed: self.needed + sectors, shift: self.shift + sectors, ..self }
    }

    /// The placement of a tenant's requests on a disk of `capacity` sectors that holds only its volume, from sector `begin` on.
    /// Without a volume they keep their addresses, relative to `begin`.
    #[must_use]
    pub fn alone(&self, roster: &Roster, tenant: usize, capacity: u64, begin: u64) -> Placement {
        let of = Some((roster.clone(), tenant, begin));
        Placement { capacity, needed: self.needed, shift: self.shift, layout: self.layout.clone(), of }
    }

    /// Whether the request belongs to the tenant of this placement, or the placement is for all requests.
    pub(super) fn is_meant(&self, request: &TraceRequest) -> bool {
        let Some((roster, tenant, _)) = &self.of else { return true };
        self.shared_lba(request).is_some_and(|lba| roster.owner_at(lba, request.stream) == Some(*tenant))
    }

    /// Whether this is the placement on a tenant's own disk.
    pub(super) fn is_alone(&self) -> bool {
        self.of.is_some()
    }

    /// Capacity of the disk in sectors.
    pub(super) fn capacity_sectors(&self) -> u64 {
        self.capacity
    }

    /// A request's first sector on the disk; `None` if its device or chunk was not in the surveyed trace, or it reaches beyond the
    /// disk.
    pub fn lba(&self, request: &TraceRequest) -> Option<u64> {
        let lba = self.shared_lba(request)?;
        let lba = self.of.as_ref().map_or(lba, |(roster, _, begin)| roster.tenant_lba(lba) + begin);
        (lba.checked_add(u64::from(request.sectors))? <= self.capacity).then_some(lba)
    }

    /// Its first sector on the shared disk.
    fn shared_lba(&self, request: &TraceRequest) -> Option<u64> {
        let place = match &self.layout {
            Layout::SideBySide(bases) => {
                let index = match bases[..] {
                    [(only, _)] if only == request.device => 0,
                    _ => bases.binary_search_by_key(&request.device, |&(device, _)| device).ok()?,
                };
                bases[index].1.checked_add(request.lba)?
            }
            Layout::Compact(chunks) => {
                let rank = chunks.binary_search(&(request.device, request.lba / CHUNK_SECTORS)).ok()? as u64;
                rank * CHUNK_SECTORS + request.lba % CHUNK_SECTORS
            }
        };
        place.checked_add(self.shift)
    }
}
