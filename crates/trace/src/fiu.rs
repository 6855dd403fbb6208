//! FIU traces: the requests of servers at Florida International University, with a digest of their content.
//!
//! ```text
//!  89966921819946  4253  nfsd   508030456     8      W      6     0    2ab02a1e1a2ebba3d4b2b3a0ba48a1a3
//!  nanoseconds     pid   process  sector   sectors  R or W  major minor  digests of the content
//! ```
//! The digest is ignored. A process's name may contain blanks: the fields behind it are counted from the end of the line.

use block::{Op, StreamId};

use super::Format;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::names::{Names, NamesByNumber};
use super::order::Window;

/// The format.
pub static FORMAT: Format = Format {
    name: "fiu",
    summary: "FIU (homes, mail, web-vm): ns, pid, process, sector, sectors, R|W, major, minor, digest; the process is the stream",
    source: "SNIA IOTTA 390 and 391, README (Koller and Rangaswami, FAST 2010)",
    detect: |head| lines::detect(head, Fiu::default()),
    open: |input, options| Ok(lines::open(input, options, Fiu::default())),
};

#[derive(Default)]
struct Fiu {
    programs: NamesByNumber,
    /// `major,minor`, as blkparse prints devices.
    devices: Names,
    device: Vec<u8>,
}

impl Parser for Fiu {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let mut rest = line;
        let ([sector, sectors, direction, major, minor, _digest], found) = lines::last_words(&mut rest);
        let ([time, pid], before) = lines::words(rest);
        if found < 6 || before < 3 {
            return Err(format!(
                "has {} fields; an FIU line is time, pid, process, sector, sectors, R or W, major, minor, digest",
                lines::words::<0>(line).1
            ));
        }
        let arrival = lines::time(time, 0, "the time")?;
        let pid = lines::unsigned_32(pid, "the pid")?;
        let (sector, sectors) = (lines::unsigned(sector, "the sector")?, lines::unsigned(sectors, "the number of sectors")?);
        let op = match direction {
            b"R" => Op::Read,
            b"W" => Op::Write,
            _ => return Err(format!("the direction is {}, not R or W", lines::show(direction))),
        };
        lines::unsigned_32(major, "the major number")?;
        lines::unsigned_32(minor, "the minor number")?;
        let Some(extent) = Extent::of_sectors(sector, sectors)? else {
            out.omit_empty();
            return Ok(());
        };
        self.device.clear();
        self.device.extend_from_slice(major);
        self.device.push(b',');
        self.device.extend_from_slice(minor);
        let device = self.devices.number(&self.device)?;
        self.programs.learn(pid, lines::after_words(rest, 2));
        out.push(extent.request(arrival, op, device, pid));
        Ok(())
    }

    fn stream_name(&self, stream: StreamId) -> Option<&str> {
        self.programs.name(stream)
    }

    fn device_name(&self, device: u32) -> Option<&str> {
        self.devices.name(device)
    }
}
