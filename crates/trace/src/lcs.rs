//! lcs, libCacheSim's binary traces, and the records that [`oracle_general`](super::oracle_general) has, too.
//!
//! ```text
//! header        8,192 bytes (1,024 in old files)   magic u64 | version u64 | statistics | the same magic
//! version 1     24 bytes   time u32 | object u64 | size u32 | next i64
//! version 2     28 bytes   time u32 | object u64 | size u32 | operation u8, tenant u24 | next i64
//! version 3     36 bytes   time u32 | object u64 | size i64 | operation u8, tenant u24 | time to live u32 | next i64
//! versions 4-8  1, 2, 4, 8 or 16 features of 4 bytes behind that
//! ```
//!
//! Little-endian, packed; the time in seconds, the size in bytes. An object becomes a place: its number, which in the traces of
//! block caches is an address, is its first sector (the lowest 54 bits of it, because others have hashes). So requests for one
//! object are for one place; whether two objects are neighbours is known only as far as the numbers say. Requests without an
//! operation are reads; `set`, `add` and others that store an object are writes; `delete` is left out. The tenant is stream and
//! device. Times are whole seconds: the requests of one second arrive together, in file order.

use block::{Nanos, Op};

use super::extent::Extent;
use super::input::{read_up_to, stream_error};
use super::records::{self, Parser, number};
use super::{Format, Head, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "lcs",
    summary: "lcs (libCacheSim), binary: seconds, object, bytes, operation, tenant; an object is a place, the tenant stream and device",
    source: "libCacheSim, traceReader/generalReader/lcs.h and include/libCacheSim/enum.h",
    detect: |head| header(head).is_ok(),
    open: |mut input, options| {
        let (header_bytes, layout) = header(&input.head()).map_err(|message| input.not_of_format(message))?;
        let mut header = vec![0; header_bytes];
        read_up_to(&mut input.stream, &mut header).map_err(|error| stream_error(&input.path, error, "header"))?;
        Ok(records::open(input, options, layout))
    },
};

/// At the beginning and at the end of the header.
const MAGIC: [u8; 8] = 0x1234_5678_9abc_def0_u64.to_le_bytes();
/// The sizes that the header has had.
const HEADER_BYTES: [usize; 2] = [8192, 1024];
/// The bits of an object's number that are its place: the longest request there ends before sector 2^55.
const PLACE: u64 = (1 << 54) - 1;

/// Where the fields of a record are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    record_bytes: usize,
    /// The size is that long.
    size_bytes: usize,
    /// There is an operation and a tenant behind the size.
    tells_operation: bool,
}

impl Layout {
    /// Version 1, which is oracleGeneral.
    pub(super) const ONE: Layout = Layout { record_bytes: 24, size_bytes: 4, tells_operation: false };

    fn of_version(version: u64) -> Option<Layout> {
        let record_bytes = match version {
            1 => return Some(Layout::ONE),
            2 => return Some(Layout { record_bytes: 28, size_bytes: 4, tells_operation: true }),
            3 => 36,
            4 => 40,
            5 => 44,
            6 => 52,
            7 => 68,
            8 => 100,
            _ => return None,
        };
        Some(Layout { record_bytes, size_bytes: 8, tells_operation: true })
    }
}

/// The size of the header and the layout of the records behind it.
fn header(head: &Head<'_>) -> Result<(usize, Layout), String> {
    let is_magic = |at: usize| head.bytes.get(at..at + 8) == Some(&MAGIC[..]);
    let bytes = HEADER_BYTES.into_iter().find(|bytes| is_magic(0) && is_magic(bytes - 8));
    let bytes = bytes.ok_or("is no lcs trace: its header does not begin and end with libCacheSim's magic number")?;
    let version = number(head.bytes.get(8..16).unwrap_or_default());
    let layout = Layout::of_version(version);
    Ok((bytes, layout.ok_or_else(|| format!("is an lcs trace of version {version}; versions 1 to 8 are read"))?))
}

impl Parser for Layout {
    fn record_bytes(&self) -> usize {
        self.record_bytes
    }

    fn request(&self, record: &[u8]) -> Result<Option<TraceRequest>, String> {
        let Layout { size_bytes, tells_operation, .. } = *self;
        let arrival = Nanos(number(&record[..4]) * 1_000_000_000);
        let (object, size) = (number(&record[4..12]), number(&record[12..12 + size_bytes]));
        if size > i64::MAX as u64 {
            return Err(format!("the size is {}, below 0", size as i64));
        }
        let (op, tenant) = if tells_operation {
            let behind = &record[12 + size_bytes..];
            (operation(behind[0])?, number(&behind[1..4]) as u32)
        } else {
            (Some(Op::Read), 0)
        };
        let extent = Extent::of_sectors(object & PLACE, size.div_ceil(512))?;
        Ok(op.zip(extent).map(|(op, extent)| extent.request(arrival, op, tenant, tenant)))
    }
}

/// `req_op_e`; `None`: neither reads nor writes.
fn operation(number: u8) -> Result<Option<Op>, String> {
    match number {
        // nop and invalid: not known; get, gets and read.
        0 | 255 | 1 | 2 | 12 => Ok(Some(Op::Read)),
        // set, add, cas, replace, append, prepend; incr, decr; write, update.
        3..=8 | 10 | 11 | 13 | 14 => Ok(Some(Op::Write)),
        // delete.
        9 => Ok(None),
        _ => Err(format!("the operation is {number}, none of libCacheSim's (0 to 14, 255)")),
    }
}
