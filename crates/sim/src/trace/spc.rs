//! SPC traces: `ASU,LBA,size,opcode,timestamp` a line, as the UMass repository's Financial and WebSearch traces are.

use block::{Op, Priority};

use super::lines::{self, Extent, Parser};
use super::order::Window;
use super::{Format, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "spc",
    summary: "SPC (UMass Financial, WebSearch): ASU,LBA,bytes,r|w,seconds; the application storage unit is stream and device",
    source: "SPC Trace File Format Specification 1.0.1, Storage Performance Council",
    detect: |head| lines::detect(head, Spc),
    open: |input, options| Ok(lines::open(input, options, Spc)),
};

struct Spc;

impl Parser for Spc {
    /// The specification allows further fields behind the first five; they mean nothing to us.
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([unit, lba, bytes, opcode, timestamp], count) = lines::split(line, b',');
        if count < 5 {
            return Err(format!("has {count} fields; an SPC line is ASU,LBA,size,opcode,timestamp"));
        }
        let unit = lines::unsigned_32(unit, "the ASU")?;
        let op = match opcode {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return Err(format!("the opcode is {}, not r, R, w or W", lines::show(opcode))),
        };
        let lba = lines::unsigned(lba, "the LBA")?;
        let sectors = lines::unsigned(bytes, "the size")?.div_ceil(512);
        let arrival = lines::time(timestamp, 9, "the timestamp")?;
        let Some(extent) = Extent::of_sectors(lba, sectors)? else {
            out.omit();
            return Ok(());
        };
        out.push(TraceRequest {
            arrival,
            device: unit,
            lba: extent.lba,
            sectors: extent.sectors,
            op,
            sync: None,
            stream: unit,
            priority: Priority::DEFAULT,
            response: None,
        });
        Ok(())
    }
}
