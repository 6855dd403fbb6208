//! VSCSI traces: a virtual machine's SCSI commands, as published by CloudPhysics.
//!
//! ```text
//!  version 1, 32 bytes:  serial u32 | length u32 | segments u32 | command u16, version u16 | LBA u64 | time u64
//!  version 2, 40 bytes:  command u16, version u16 | serial u32 | length u32 | segments u32 | LBA u64 | time u64 | response u64
//! ```
//!
//! Little-endian; length in bytes, LBA in sectors, time in microseconds. The version is the high byte of its field. The unit of
//! the response time is undocumented; we assume microseconds.

use block::{Nanos, Op};

use super::extent::Extent;
use super::records::{self, Parser, number};
use super::{Format, Head, TraceRequest};

/// The format.
pub static FORMAT: Format = Format {
    name: "vscsi",
    summary: "VSCSI (CloudPhysics) version 1 and 2: a virtual disk's SCSI commands, binary; one stream, one device",
    source: "libCacheSim, traceReader/customizedReader/vscsi.h (Waldspurger et al., FAST 2015)",
    detect: |head| version(head).is_some(),
    open: |input, options| {
        let version = version(&input.head()).ok_or_else(|| {
            input.not_of_format("is no VSCSI trace: neither 32-byte records of version 1 nor 40-byte records of version 2")
        })?;
        Ok(records::open(input, options, version))
    },
};

#[derive(Clone, Copy)]
enum Version {
    One,
    Two,
}

impl Version {
    fn record_bytes(self) -> usize {
        match self {
            Version::One => 32,
            Version::Two => 40,
        }
    }

    /// Offset of the command, which the version follows.
    fn command_at(self) -> usize {
        match self {
            Version::One => 12,
            Version::Two => 0,
        }
    }

    /// The command and the high byte of the version, of a whole record.
    fn command_and_version(self, record: &[u8]) -> (u64, u64) {
        let at = self.command_at();
        (number(&record[at..at + 2]), number(&record[at + 3..at + 4]))
    }

    fn number(self) -> u64 {
        match self {
            Version::One => 1,
            Version::Two => 2,
        }
    }
}

/// The version whose number is in its place in the first records, if most of them read or write.
fn version(head: &Head<'_>) -> Option<Version> {
    [Version::Two, Version::One].into_iter().find(|version| {
        let records = head.bytes.chunks_exact(version.record_bytes()).take(16);
        let (mut all, mut transfers) = (0, 0);
        for record in records {
            let (command, number) = version.command_and_version(record);
            if number != version.number() || command > 0xff {
                return false;
            }
            all += 1;
            transfers += u32::from(op(command).is_some());
        }
        transfers * 2 > all
    })
}

/// SCSI's read and write commands with 6, 10, 12 and 16 bytes (SBC-3).
fn op(command: u64) -> Option<Op> {
    match command {
        0x08 | 0x28 | 0xa8 | 0x88 => Some(Op::Read),
        0x0a | 0x2a | 0xaa | 0x8a => Some(Op::Write),
        _ => None,
    }
}

impl Parser for Version {
    fn record_bytes(&self) -> usize {
        (*self).record_bytes()
    }

    fn request(&self, record: &[u8]) -> Result<Option<TraceRequest>, String> {
        let (command, version) = self.command_and_version(record);
        if version != (*self).number() {
            return Err(format!("the version is {version}, not {} as in the records before", (*self).number()));
        }
        let (length, lba, time, response) = match self {
            Version::One => (&record[4..8], &record[16..24], &record[24..32], None),
            Version::Two => (&record[8..12], &record[16..24], &record[24..32], Some(&record[32..40])),
        };
        let Some(op) = op(command) else { return Ok(None) };
        let Some(extent) = Extent::of_sectors(number(lba), number(length).div_ceil(512))? else { return Ok(None) };
        let arrival = nanos(number(time), "the time")?;
        let response = response.map(|field| nanos(number(field), "the response time")).transpose()?;
        Ok(Some(TraceRequest { response, ..extent.request(arrival, op, 0, 0) }))
    }
}

fn nanos(micros: u64, what: &str) -> Result<Nanos, String> {
    micros.checked_mul(1000).map(Nanos).ok_or_else(|| format!("{what} is {micros} us, beyond 2^64 ns"))
}
