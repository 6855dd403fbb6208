//! Alibaba Cloud block traces: one `device_id,opcode,offset,length,timestamp` per line, in bytes and microseconds.

use block::Op;

use super::Format;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;

/// The format.
pub static FORMAT: Format = Format {
    name: "alibaba",
    summary: "Alibaba Cloud block traces: device_id,R|W,offset bytes,length bytes,microseconds; the volume is stream and device",
    source: "github.com/alibaba/block-traces, README (Li et al., IISWC 2020)",
    detect: |head| lines::detect(head, Alibaba),
    open: |input, options| Ok(lines::open(input, options, Alibaba)),
};

struct Alibaba;

impl Parser for Alibaba {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([device, opcode, offset, length, timestamp], count) = lines::split(line, b',');
        if lines::is_heading(line, b"device_id,opcode,offset,length,timestamp") {
            return Ok(());
        }
        if count != 5 {
            return Err(format!("has {count} fields; an Alibaba line is device_id,opcode,offset,length,timestamp"));
        }
        let device = lines::unsigned_32(device, "the device_id")?;
        let op = match opcode {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(format!("the opcode is {}, not R or W", lines::show(opcode))),
        };
        let (offset, length) = (lines::unsigned(offset, "the offset")?, lines::unsigned(length, "the length")?);
        let arrival = lines::time(timestamp, 3, "the timestamp")?;
        match Extent::of_bytes(offset, length)? {
            Some(extent) => out.push(extent.request(arrival, op, device, device)),
            None => out.omit_empty(),
        }
        Ok(())
    }
}
