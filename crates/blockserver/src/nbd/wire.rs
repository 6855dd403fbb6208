//! Encoding of the protocol. All numbers are big-endian.
#![allow(missing_docs, reason = "the names are those of the protocol")]

use std::io::{self, Read};

pub const NBDMAGIC: u64 = 0x4e42_444d_4147_4943;
pub const IHAVEOPT: u64 = 0x4948_4156_454f_5054;
pub const OPTION_REPLY: u64 = 0x0003_e889_0455_65a9;
pub const REQUEST: u32 = 0x2560_9513;
pub const EXTENDED_REQUEST: u32 = 0x21e4_1c71;
pub const SIMPLE_REPLY: u32 = 0x6744_6698;
pub const STRUCTURED_REPLY: u32 = 0x668e_33ef;
pub const EXTENDED_REPLY: u32 = 0x6e8a_278c;

/// Handshake flags, of the server and of the client.
pub const FIXED_NEWSTYLE: u16 = 1;
pub const NO_ZEROES: u16 = 2;

pub const OPT_EXPORT_NAME: u32 = 1;
pub const OPT_ABORT: u32 = 2;
pub const OPT_LIST: u32 = 3;
pub const OPT_STARTTLS: u32 = 5;
pub const OPT_INFO: u32 = 6;
pub const OPT_GO: u32 = 7;
pub const OPT_STRUCTURED_REPLY: u32 = 8;
pub const OPT_LIST_META_CONTEXT: u32 = 9;
pub const OPT_SET_META_CONTEXT: u32 = 10;
pub const OPT_EXTENDED_HEADERS: u32 = 11;

pub const REP_ACK: u32 = 1;
pub const REP_SERVER: u32 = 2;
pub const REP_INFO: u32 = 3;
pub const REP_META_CONTEXT: u32 = 4;
pub const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
pub const REP_ERR_POLICY: u32 = (1 << 31) + 2;
pub const REP_ERR_INVALID: u32 = (1 << 31) + 3;
pub const REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
pub const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
pub const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;
pub const REP_ERR_EXT_HEADER_REQD: u32 = (1 << 31) + 10;

pub const INFO_EXPORT: u16 = 0;
pub const INFO_NAME: u16 = 1;
pub const INFO_DESCRIPTION: u16 = 2;
pub const INFO_BLOCK_SIZE: u16 = 3;

pub const FLAG_HAS_FLAGS: u16 = 1;
pub const FLAG_READ_ONLY: u16 = 1 << 1;
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
pub const FLAG_SEND_FUA: u16 = 1 << 3;
pub const FLAG_ROTATIONAL: u16 = 1 << 4;
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
pub const FLAG_SEND_DF: u16 = 1 << 7;
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
pub const FLAG_SEND_CACHE: u16 = 1 << 10;

pub const CMD_READ: u16 = 0;
pub const CMD_WRITE: u16 = 1;
pub const CMD_DISC: u16 = 2;
pub const CMD_FLUSH: u16 = 3;
pub const CMD_TRIM: u16 = 4;
pub const CMD_CACHE: u16 = 5;
pub const CMD_WRITE_ZEROES: u16 = 6;
pub const CMD_BLOCK_STATUS: u16 = 7;

pub const CMD_FLAG_FUA: u16 = 1;
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
pub const CMD_FLAG_DF: u16 = 1 << 2;
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
pub const CMD_FLAG_PAYLOAD_LEN: u16 = 1 << 5;

pub const CHUNK_DONE: u16 = 1;
pub const CHUNK_NONE: u16 = 0;
pub const CHUNK_OFFSET_DATA: u16 = 1;
pub const CHUNK_BLOCK_STATUS: u16 = 5;
pub const CHUNK_BLOCK_STATUS_EXTENDED: u16 = 6;
pub const CHUNK_ERROR: u16 = (1 << 15) + 1;

/// `base:allocation`, and its flags.
pub const BASE_ALLOCATION: &str = "base:allocation";
pub const STATE_HOLE: u32 = 1;
pub const STATE_ZERO: u32 = 2;

pub const EPERM: u32 = 1;
pub const EIO: u32 = 5;
pub const ENOMEM: u32 = 12;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EOVERFLOW: u32 = 75;
pub const ENOTSUP: u32 = 95;
pub const ESHUTDOWN: u32 = 108;

/// Maximum payload of a request or reply, which clients may use without negotiating block sizes.
pub const MAX_PAYLOAD: u32 = 32 << 20;
/// Maximum length of a name in bytes.
pub const MAX_NAME: usize = 4096;

/// The header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub flags: u16,
    pub command: u16,
    pub cookie: u64,
    pub offset: u64,
    pub bytes: u64,
}

/// Length of a request's header in bytes.
pub fn request_bytes(is_extended: bool) -> usize {
    if is_extended { 32 } else { 28 }
}

/// Reads the header of a request; `None` if the client closed the connection before it.
///
/// # Errors
/// The connection failed, or the magic number is wrong.
pub fn read_request(from: &mut impl Read, is_extended: bool) -> io::Result<Option<Header>> {
    let mut bytes = [0; 32];
    let length = request_bytes(is_extended);
    let mut done = 0;
    while done < length {
        match from.read(&mut bytes[done..length]) {
            Ok(0) if done == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => done += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let wanted = if is_extended { EXTENDED_REQUEST } else { REQUEST };
    if number(&bytes[..4]) != u64::from(wanted) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "no request: wrong magic number"));
    }
    Ok(Some(Header {
        flags: number(&bytes[4..6]) as u16,
        command: number(&bytes[6..8]) as u16,
        cookie: number(&bytes[8..16]),
        offset: number(&bytes[16..24]),
        bytes: number(&bytes[24..length]),
    }))
}

/// Decodes a big-endian number of up to eight bytes.
pub fn number(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Encodes the reply to an option.
pub fn option_reply(option: u32, kind: u32, data: &[u8]) -> Vec<u8> {
    let mut reply = Vec::with_capacity(20 + data.len());
    reply.extend(OPTION_REPLY.to_be_bytes());
    reply.extend(option.to_be_bytes());
    reply.extend(kind.to_be_bytes());
    reply.extend((data.len() as u32).to_be_bytes());
    reply.extend(data);
    reply
}

/// Format of replies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Simple,
    Structured,
    Extended,
}

impl Format {
    /// Appends the reply to a request that succeeded and returns no data.
    pub fn done(self, header: &Header, into: &mut Vec<u8>) {
        match self {
            Format::Simple | Format::Structured => simple(header, 0, into),
            Format::Extended => self.chunk(header, CHUNK_NONE, 0, into),
        }
    }

    /// Appends the reply to a request that failed.
    pub fn failed(self, header: &Header, error: u32, into: &mut Vec<u8>) {
        if self == Format::Simple {
            simple(header, error, into);
        } else {
            self.chunk(header, CHUNK_ERROR, 6, into);
            into.extend(error.to_be_bytes());
            into.extend(0_u16.to_be_bytes());
        }
    }

    /// Appends the head of a reply, which the data of a read follows.
    pub fn data(self, header: &Header, into: &mut Vec<u8>) {
        if self == Format::Simple {
            simple(header, 0, into);
        } else {
            self.chunk(header, CHUNK_OFFSET_DATA, 8 + header.bytes, into);
            into.extend(header.offset.to_be_bytes());
        }
    }

    /// Appends a block status reply. Each extent is a length in bytes and whether it is a hole.
    pub fn status(self, header: &Header, context: u32, extents: &[(u64, bool)], into: &mut Vec<u8>) {
        let flags = |is_hole: bool| if is_hole { STATE_HOLE | STATE_ZERO } else { 0 };
        if self == Format::Extended {
            self.chunk(header, CHUNK_BLOCK_STATUS_EXTENDED, 8 + 16 * extents.len() as u64, into);
            into.extend(context.to_be_bytes());
            into.extend((extents.len() as u32).to_be_bytes());
            for (length, is_hole) in extents {
                into.extend(length.to_be_bytes());
                into.extend(u64::from(flags(*is_hole)).to_be_bytes());
            }
            return;
        }
        self.chunk(header, CHUNK_BLOCK_STATUS, 4 + 8 * extents.len() as u64, into);
        into.extend(context.to_be_bytes());
        for (length, is_hole) in extents {
            into.extend((*length as u32).to_be_bytes());
            into.extend(flags(*is_hole).to_be_bytes());
        }
    }

    /// Appends the head of a reply's only chunk.
    fn chunk(self, header: &Header, kind: u16, payload: u64, into: &mut Vec<u8>) {
        if self == Format::Extended {
            into.extend(EXTENDED_REPLY.to_be_bytes());
        } else {
            into.extend(STRUCTURED_REPLY.to_be_bytes());
        }
        into.extend(CHUNK_DONE.to_be_bytes());
        into.extend(kind.to_be_bytes());
        into.extend(header.cookie.to_be_bytes());
        if self == Format::Extended {
            into.extend(header.offset.to_be_bytes());
            into.extend(payload.to_be_bytes());
        } else {
            into.extend((payload as u32).to_be_bytes());
        }
    }
}

fn simple(header: &Header, error: u32, into: &mut Vec<u8>) {
    into.extend(SIMPLE_REPLY.to_be_bytes());
    into.extend(error.to_be_bytes());
    into.extend(header.cookie.to_be_bytes());
}
