//! MQSim's traces: arrival in ns, device, first sector, size in sectors and 0 for a write or 1 for a read, between blanks.
//!
//! DiskSim's traces have the same five fields with arrivals in ms. A decimal point or a flag other than 0 and 1 shows DiskSim, and
//! times that in ms are beyond 2^64 ns show MQSim; else both are possible, and the format must be named. Arrivals are read as
//! nanoseconds, the default of MQSim's setting `Time_Unit`, which the trace does not contain: convert a trace in another unit first.

use block::Op;

use super::disksim::DiskSim;
use super::extent::Extent;
use super::lines::{self, Parser};
use super::order::Window;
use super::{Format, Head};

/// The format.
pub static FORMAT: Format = Format {
    name: "mqsim",
    summary: "MQSim: arrival ns, device, first sector, sectors, 0 write|1 read; the device is stream and device; else like disksim: \
              name it with --format",
    source: "MQSim, README, section Trace-based Workloads (Tavakkol et al., FAST 2018)",
    detect,
    open: |input, options| Ok(lines::open(input, options, Mqsim)),
};

/// One line that only DiskSim can have shows DiskSim, even where most lines could be of both.
fn detect(head: &Head<'_>) -> bool {
    let mut out = Window::default();
    let is_disksim_alone = |line: &[u8]| DiskSim.line(line, &mut out).is_ok() && Mqsim.line(line, &mut out).is_err();
    lines::detect(head, Mqsim) && !head.lines().any(is_disksim_alone)
}

struct Mqsim;

impl Parser for Mqsim {
    fn line(&mut self, line: &[u8], out: &mut Window) -> Result<(), String> {
        let ([arrival, device, sector, sectors, kind], count) = lines::words(line);
        if count != 5 {
            return Err(format!("has {count} fields; an MQSim line is time, device, sector, sectors, 0 or 1 between blanks"));
        }
        if arrival.contains(&b'.') {
            let shown = lines::show(arrival);
            return Err(format!("the arrival time is {shown}, not a whole number of ns; DiskSim's are in ms (format disksim)"));
        }
        let arrival = lines::time(arrival, 0, "the arrival time")?;
        let device = lines::unsigned_32(device, "the device")?;
        let (sector, sectors) = (lines::unsigned(sector, "the sector")?, lines::unsigned(sectors, "the number of sectors")?);
        let op = direction(kind).ok_or_else(|| format!("the type is {}, not 0 (write) or 1 (read)", lines::show(kind)))?;
        match Extent::of_sectors(sector, sectors)? {
            Some(extent) => out.push(extent.request(arrival, op, device, device)),
            None => out.omit_empty(),
        }
        Ok(())
    }
}

fn direction(field: &[u8]) -> Option<Op> {
    match field {
        b"0" => Some(Op::Write),
        b"1" => Some(Op::Read),
        _ => None,
    }
}
