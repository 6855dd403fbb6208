//! DiskSim's default ASCII traces: arrival in ms, device, first block, size in blocks and hexadecimal flags, between blanks.
//!
//! MQSim's traces may look the same but count nanoseconds: see [`mqsim`](super::mqsim).

use block::Op;

use super::Format;
use super::TraceRequest;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;

// Names and values of `disksim_reqflags.h`.
pub(super) const READ: u64 = 0x1;
const TIME_CRITICAL: u64 = 0x2;
const TIME_LIMITED: u64 = 0x4;
pub(super) const SYNC: u64 = 0x80;
pub(super) const ASYNC: u64 = 0x100;

/// The format.
pub static FORMAT: Format = Format {
    name: "disksim",
    summary: "DiskSim ASCII: arrival ms, device, first sector, sectors, hexadecimal flags; the device is stream and device",
    source: "DiskSim 4.0 Reference Manual, section 7 (Input Traces); iotrace_ascii_get_ioreq_event in disksim_iotrace.c",
    detect: |head| lines::detect(head, DiskSim),
    open: |input, options| Ok(lines::open(input, options, DiskSim)),
};

pub(super) struct DiskSim;

impl Parser for DiskSim {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([arrival, device, block, size, flags], count) = lines::words(line);
        if count != 5 {
            return Err(wrong_count(count));
        }
        let arrival = lines::time(arrival, 6, "the arrival time")?;
        let device = lines::unsigned_32(device, "the device")?;
        let (block, size) = (lines::unsigned(block, "the block")?, lines::unsigned(size, "the size")?);
        let flags = hexadecimal(flags)?;
        let op = if flags & READ != 0 { Op::Read } else { Op::Write };
        let sync = match () {
            () if flags & (TIME_CRITICAL | SYNC) != 0 => Some(true),
            () if flags & (TIME_LIMITED | ASYNC) != 0 => Some(false),
            () => None,
        };
        match Extent::of_sectors(block, size)? {
            Some(extent) => out.push(TraceRequest { sync, ..extent.request(arrival, op, device, device) }),
            None => out.omit_empty(),
        }
        Ok(())
    }
}

#[cold]
fn wrong_count(count: usize) -> String {
    const FIELDS: &str = "a DiskSim line is time, device, block, size, flags between blanks";
    match ["the arrival time", "the device", "the block", "the size", "the flags"].get(count) {
        Some(what) => format!("lacks {what}: {FIELDS}"),
        None => format!("has more than five fields: {FIELDS}"),
    }
}

fn hexadecimal(field: &[u8]) -> Result<u64, String> {
    let digits = field.strip_prefix(b"0x").unwrap_or(field);
    let value =
        std::str::from_utf8(digits).ok().filter(|text| !text.starts_with('+')).and_then(|text| u64::from_str_radix(text, 16).ok());
    value.ok_or_else(|| format!("the flags are {}, not a hexadecimal number", lines::show(field)))
}
