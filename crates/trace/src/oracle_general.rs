//! oracleGeneral, libCacheSim's binary traces without a header: the records of [`lcs`](super::lcs) version 1.
//!
//! An object becomes a place, as described there, and every request is a read. There is no magic number, but each record says
//! which record asks for its object again. A file is taken for oracleGeneral where the first records agree with that.

use std::collections::BTreeMap;

use super::lcs::Layout;
use super::records::{self, number};
use super::{Format, Head};

/// The format.
pub static FORMAT: Format = Format {
    name: "oraclegeneral",
    summary: "oracleGeneral (libCacheSim), binary: seconds, object, bytes; an object is a place, every request a read; one stream",
    source: "libCacheSim, traceReader/customizedReader/oracle/oracleGeneralBin.h and traceReader/generalReader/lcs.h",
    detect,
    open: |input, options| Ok(records::open(input, options, Layout::ONE)),
};

/// No trace has as many requests.
const REQUESTS: u64 = 1 << 40;

/// Records are numbered from 1; a trace whose writer numbers from 0 is recognised as well.
fn detect(head: &Head<'_>) -> bool {
    is_consistent(head, 1) || is_consistent(head, 0)
}

/// Whether there are at least two records, in order of time, and each that asks for an object again is the one that the object's
/// record before it announced.
fn is_consistent(head: &Head<'_>, first: u64) -> bool {
    // By object, the announced record.
    let mut announced = BTreeMap::new();
    let (mut records, mut last) = (0, 0);
    for (record, at) in head.bytes.chunks_exact(24).zip(first..) {
        let (Some(time), Some(object), Some(next)) = (record.get(..4), record.get(4..12), record.get(16..24)) else { return false };
        let (time, next) = (number(time), number(next));
        let is_possible = next == u64::MAX || next == i64::MAX as u64 || (at + 1..REQUESTS).contains(&next);
        if !is_possible || time < last || announced.insert(object, next).is_some_and(|announced| announced != at) {
            return false;
        }
        (last, records) = (time, records + 1);
    }
    records >= 2
}
