//! SYSTOR '17 traces, of the LUNs behind virtual desktops: `Timestamp,Response,IOType,LUN,Offset,Size` per line, times in seconds.
//!
//! The response time may be empty. Lines are in order of completion, so arrivals are slightly out of order.

use block::Op;

use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;
use super::{Format, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "systor",
    summary: "SYSTOR '17 (virtual desktops): seconds,response seconds,R|W,LUN,offset bytes,size bytes; the LUN is stream and device",
    source: "SNIA IOTTA 4964, README (Lee et al., SYSTOR 2017)",
    detect: |head| lines::detect(head, Systor),
    open: |input, options| Ok(lines::open(input, options, Systor)),
};

struct Systor;

impl Parser for Systor {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([timestamp, response, kind, lun, offset, size], count) = lines::split(line, b',');
        if lines::is_heading(line, b"timestamp,response,iotype,lun,offset,size") {
            return Ok(());
        }
        if count != 6 {
            return Err(format!("has {count} fields; a SYSTOR line is Timestamp,Response,IOType,LUN,Offset,Size"));
        }
        let arrival = lines::time(timestamp, 9, "the Timestamp")?;
        let response = match response {
            b"" => None,
            _ => Some(lines::time(response, 9, "the Response")?),
        };
        let op = match kind {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(format!("the IOType is {}, not R or W", lines::show(kind))),
        };
        let lun = lines::unsigned_32(lun, "the LUN")?;
        let (offset, size) = (lines::unsigned(offset, "the Offset")?, lines::unsigned(size, "the Size")?);
        match Extent::of_bytes(offset, size)? {
            Some(extent) => out.push(TraceRequest { response, ..extent.request(arrival, op, lun, lun) }),
            None => out.omit_empty(),
        }
        Ok(())
    }
}
