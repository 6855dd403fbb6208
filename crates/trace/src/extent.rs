//! Ranges of whole sectors, from addresses in sectors or bytes.

use block::{Nanos, Op, Priority, StreamId};

use super::TraceRequest;

/// A range of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) lba: u64,
    pub(super) sectors: u32,
}

impl Extent {
    /// A request for it, with every other field at its default.
    pub(super) fn request(self, arrival: Nanos, op: Op, device: u32, stream: StreamId) -> TraceRequest {
        let Extent { lba, sectors } = self;
        let (sync, priority, response, service) = (None, Priority::DEFAULT, None, None);
        TraceRequest { arrival, device, lba, sectors, op, sync, stream, priority, response, service }
    }

    /// From sectors; `None` if there are none.
    pub(super) fn of_sectors(lba: u64, sectors: u64) -> Result<Option<Extent>, String> {
        let in_range = lba.checked_add(sectors).is_some_and(|end| end <= 1 << 55);
        match u32::try_from(sectors) {
            Ok(0) => Ok(None),
            Ok(sectors) if in_range => Ok(Some(Extent { lba, sectors })),
            _ => {
                Err(format!("{sectors} sectors at sector {lba} are beyond any disk: at most 2^32 - 1 sectors, ending before 2^55"))
            }
        }
    }

    /// From bytes, rounded outward to whole sectors; `None` if there are none.
    pub(super) fn of_bytes(offset: u64, bytes: u64) -> Result<Option<Extent>, String> {
        if bytes == 0 {
            return Ok(None);
        }
        let end = offset.checked_add(bytes).ok_or_else(|| format!("{bytes} bytes at byte {offset} end beyond 2^64"))?;
        let lba = offset / 512;
        Extent::of_sectors(lba, end.div_ceil(512) - lba)
    }
}
