//! SPC traces, such as UMass's Financial and WebSearch: one `ASU,LBA,size,opcode,timestamp` per line.

use block::Op;

use super::Format;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;

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
    /// The specification allows further fields after the first five; we ignore them.
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
        match Extent::of_sectors(lba, sectors)? {
            Some(extent) => out.push(extent.request(arrival, op, unit, unit)),
            None => out.omit_empty(),
        }
        Ok(())
    }
}
