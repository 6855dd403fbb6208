//! DiskSim's validation traces, the `*.trace` files of its folder `valid`: the requests to a real drive and their response times,
//! one request at a time.
//!
//! ```text
//! R Hit   16904996   8   6040.00000  34702.00000
//! │ │     first      │   response    from the completion to the next request, both in microseconds
//! │ │     sector     sectors
//! │ result of the drive's cache
//! read or write
//! ```
//! Arrivals are sums: each request arrives its think time after the completion of the one before. To be replayed as it was recorded
//! a trace of this kind needs a closed loop.

use block::{Nanos, Op};

use super::Format;
use super::TraceRequest;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;

/// The format.
pub static FORMAT: Format = Format {
    name: "disksim-validation",
    summary: "DiskSim validation: R or W, cache action, first sector, sectors, response us, think time us; replay it with --closed",
    source: "iotrace_validate_get_ioreq_event in disksim_iotrace.c of DiskSim 4.0, and the traces of its folder valid",
    detect: |head| lines::detect(head, Validation::default()),
    open: |input, options| Ok(lines::open(input, options, Validation::default())),
};

#[derive(Default)]
struct Validation {
    /// When the next request comes.
    next: Nanos,
}

impl Parser for Validation {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([direction, _, block, size, response, think], count) = lines::words(line);
        if count != 6 {
            return Err(wrong_count(count));
        }
        let op = match direction {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(format!("the direction is {}, not R or W", lines::show(direction))),
        };
        let (block, size) = (lines::unsigned(block, "the block")?, lines::unsigned(size, "the size")?);
        let response = lines::time(response, 3, "the response time")?;
        let think = lines::time(think, 3, "the think time")?;
        let extent = Extent::of_sectors(block, size)?;
        let arrival = self.next;
        let next = arrival.0.checked_add(response.0).and_then(|completion| completion.checked_add(think.0));
        self.next = Nanos(next.ok_or("lasts beyond 2^64 ns, together with the requests before it")?);
        match extent {
            Some(extent) => {
                // Each request waited for the one before.
                out.push(TraceRequest { sync: Some(true), response: Some(response), ..extent.request(arrival, op, 0, 0) });
            }
            None => out.omit_empty(),
        }
        Ok(())
    }
}

#[cold]
fn wrong_count(count: usize) -> String {
    const FIELDS: &str = "a validation line is R or W, cache action, block, size, response time, think time between blanks";
    match ["the direction", "the cache action", "the block", "the size", "the response time", "the think time"].get(count) {
        Some(what) => format!("lacks {what}: {FIELDS}"),
        None => format!("has more than six fields: {FIELDS}"),
    }
}
