//! Tencent Cloud block storage (CBS) traces: one `Timestamp,Offset,Size,IOType,VolumeID` per line, in seconds and sectors.
//!
//! Times are whole seconds: the requests of one second arrive together, in file order.

use block::Op;

use super::Format;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;

/// The format.
pub static FORMAT: Format = Format {
    name: "tencent",
    summary: "Tencent CBS: seconds,offset sectors,size sectors,0 read|1 write,volume; the volume is stream and device",
    source: "SNIA IOTTA 27917, README (Zhang et al., USENIX ATC 2020)",
    detect: |head| {
        // Five numbers are not distinctive: also require a Unix time after 2001.
        let unix_time = |line: &[u8]| line.iter().take_while(|byte| byte.is_ascii_digit()).count() == 10;
        lines::detect(head, Tencent) && head.lines().take(2).any(unix_time)
    },
    open: |input, options| Ok(lines::open(input, options, Tencent)),
};

struct Tencent;

impl Parser for Tencent {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([timestamp, offset, size, kind, volume], count) = lines::split(line, b',');
        if lines::is_heading(line, b"timestamp,offset,size,iotype,volumeid") {
            return Ok(());
        }
        if count != 5 {
            return Err(format!("has {count} fields; a Tencent line is Timestamp,Offset,Size,IOType,VolumeID"));
        }
        let arrival = lines::time(timestamp, 9, "the timestamp")?;
        let (offset, size) = (lines::unsigned(offset, "the offset")?, lines::unsigned(size, "the size")?);
        let op = match kind {
            b"0" => Op::Read,
            b"1" => Op::Write,
            _ => return Err(format!("the IOType is {}, not 0 (read) or 1 (write)", lines::show(kind))),
        };
        let volume = lines::unsigned_32(volume, "the VolumeID")?;
        match Extent::of_sectors(offset, size)? {
            Some(extent) => out.push(extent.request(arrival, op, volume, volume)),
            None => out.omit_empty(),
        }
        Ok(())
    }
}
