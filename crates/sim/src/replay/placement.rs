//! The survey of a trace before its replay, and the placement of its devices on the one simulated disk.

use std::collections::{BTreeMap, BTreeSet};

use block::{Nanos, Op, StreamId};

use crate::trace::{TraceError, TraceReader, TraceRequest};

/// Granularity at which [`Fit::Compact`] drops what a trace never touches: coarse enough to keep neighbours neighbours.
const CHUNK_SECTORS: u64 = 32_768;

/// Chunks and streams are counted one by one up to this many, so that no trace, however wild, fills the memory.
const COUNTED: usize = 4_000_000;

/// Streams that are followed one by one; the others' requests are replayed like any, but not told apart.
pub const FOLLOWED_STREAMS: usize = 256;

/// One pass over a trace: its size, its devices, its streams.
#[derive(Debug, Default)]
pub struct Survey {
    /// How many requests.
    pub requests: u64,
    /// Damaged lines passed over.
    pub skipped: u64,
    /// Writes of which the trace does not say whether their issuer waits.
    pub writes_without_sync: u64,
    /// Requests whose completion the trace does not tell.
    pub without_response: u64,
    /// From the first arrival to the last.
    pub duration: Nanos,
    /// Per device: the first sector behind its last request.
    ends: BTreeMap<u32, u64>,
    /// The pieces of [`CHUNK_SECTORS`] that are touched, by device.
    chunks: BTreeSet<(u32, u64)>,
    /// Per stream: requests.
    streams: BTreeMap<StreamId, u64>,
    /// What the trace calls the followed streams.
    names: BTreeMap<StreamId, String>,
}

impl Survey {
    /// Reads the whole trace; `each` is called now and then with the requests read so far and ends the survey by returning false.
    pub fn take(reader: &mut dyn TraceReader, mut each: impl FnMut(u64) -> bool) -> Result<Option<Survey>, TraceError> {
        let mut survey = Survey::default();
        while let Some(request) = reader.next_request().transpose()? {
            survey.requests += 1;
            survey.duration = request.arrival;
            survey.writes_without_sync += u64::from(request.op == Op::Write && request.sync.is_none());
            survey.without_response += u64::from(request.response.is_none());
            let end = request.lba.saturating_add(u64::from(request.sectors));
            let known = survey.ends.entry(request.device).or_default();
            *known = (*known).max(end);
            for chunk in request.lba / CHUNK_SECTORS..=(end - 1) / CHUNK_SECTORS {
                if survey.chunks.len() < COUNTED {
                    survey.chunks.insert((request.device, chunk));
                }
            }
            if survey.streams.len() < COUNTED {
                *survey.streams.entry(request.stream).or_default() += 1;
            } else if let Some(requests) = survey.streams.get_mut(&request.stream) {
                *requests += 1;
            }
            if survey.requests.is_multiple_of(8192) && !each(survey.requests) {
                return Ok(None);
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

    /// The busiest streams with their requests, busiest first, at most [`FOLLOWED_STREAMS`].
    pub fn followed(&self) -> Vec<(StreamId, u64)> {
        let mut streams: Vec<_> = self.streams.iter().map(|(&stream, &requests)| (stream, requests)).collect();
        streams.sort_by_key(|&(stream, requests)| (std::cmp::Reverse(requests), stream));
        streams.truncate(FOLLOWED_STREAMS);
        streams
    }

    /// How many streams there are, followed or not.
    pub fn stream_count(&self) -> usize {
        self.streams.len()
    }

    /// What the trace calls a followed stream.
    pub fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.names.get(&stream).map(String::as_str)
    }
}

/// What to do with a trace that does not fit on the disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Fit {
    /// Refuse it: every request stays where it was.
    #[default]
    Exact,
    /// Leave out the parts of the devices (16 MiB each) that the trace never touches; the rest keeps its order.
    Compact,
}

/// The trace is larger than the disk.
#[derive(Debug, thiserror::Error)]
pub enum FitError {
    /// Under [`Fit::Exact`].
    #[error("the trace reaches to sector {needed}, the disk ends at {capacity}: choose a larger disk{}", or_compact(*compact, *capacity))]
    Exact {
        /// Sectors needed.
        needed: u64,
        /// Sectors there are.
        capacity: u64,
        /// Sectors that [`Fit::Compact`] would need.
        compact: u64,
    },
    /// Under [`Fit::Compact`].
    #[error("the trace touches {needed} sectors (in pieces of 16 MiB), the disk holds {capacity}: choose a larger disk")]
    Compact {
        /// Sectors needed.
        needed: u64,
        /// Sectors there are.
        capacity: u64,
    },
}

/// The other way out, where it is one.
fn or_compact(compact: u64, capacity: u64) -> String {
    if compact > capacity {
        return String::new();
    }
    format!(", or drop what is never touched with --fit compact ({compact} sectors)")
}

/// Where each device of a trace lies on the disk.
#[derive(Debug)]
pub struct Placement {
    capacity: u64,
    layout: Layout,
}

#[derive(Debug)]
enum Layout {
    /// Side by side, each from its base sector on: (device, base), by device.
    SideBySide(Vec<(u32, u64)>),
    /// Touched chunks only, in order.
    Compact(Vec<(u32, u64)>),
}

impl Placement {
    /// Lays the surveyed trace out on a disk of `capacity` sectors. One device that fits stays exactly where it was.
    pub fn new(survey: &Survey, capacity: u64, fit: Fit) -> Result<Placement, FitError> {
        let compact = (survey.chunks.len() as u64).saturating_mul(CHUNK_SECTORS);
        if fit == Fit::Compact {
            if compact > capacity || survey.chunks.len() == COUNTED {
                return Err(FitError::Compact { needed: compact, capacity });
            }
            let chunks = survey.chunks.iter().copied().collect();
            return Ok(Placement { capacity, layout: Layout::Compact(chunks) });
        }
        let mut bases = Vec::with_capacity(survey.ends.len());
        let mut needed = 0u64;
        for (&device, &end) in &survey.ends {
            bases.push((device, needed));
            // The next device starts on a chunk of its own, so that alignment survives.
            needed = if bases.len() == survey.ends.len() {
                needed.saturating_add(end)
            } else {
                needed.saturating_add(end).div_ceil(CHUNK_SECTORS).saturating_mul(CHUNK_SECTORS)
            };
        }
        if needed > capacity {
            return Err(FitError::Exact { needed, capacity, compact });
        }
        Ok(Placement { capacity, layout: Layout::SideBySide(bases) })
    }

    /// Where a request of the trace lies on the disk; `None` if it was not there when the trace was surveyed.
    pub fn lba(&self, request: &TraceRequest) -> Option<u64> {
        let lba = match &self.layout {
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
        (lba.checked_add(u64::from(request.sectors))? <= self.capacity).then_some(lba)
    }
}
