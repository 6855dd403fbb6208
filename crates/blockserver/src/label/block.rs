//! Blocks of a label: 4 KiB each with a header, so that a torn, foreign or stale block is recognised.
//!
//! ```text
//! byte 0        8        12     16          24      40       44     48                      4096
//!      SEEKWISE  version  index  generation  store   length   CRC    payload, then zeros
//! ```
//! Numbers are little-endian. The CRC-32 covers all other bytes of the block.

use std::fmt;
use std::str::FromStr;

/// Bytes of a block.
pub const BLOCK_BYTES: usize = 4096;
/// Maximum bytes of a payload.
pub const PAYLOAD_BYTES: usize = BLOCK_BYTES - HEADER_BYTES;

const HEADER_BYTES: usize = 48;
const MAGIC: &[u8; 8] = b"SEEKWISE";
const VERSION: u32 = 1;

/// A random identifier of a store or catalog, written as a UUID of version 4 (RFC 9562).
///
/// ```
/// use blockserver::label::Uuid;
///
/// let uuid = Uuid::random()?;
/// assert_eq!(uuid.to_string().parse::<Uuid>(), Ok(uuid));
/// assert!("1-2".parse::<Uuid>().is_err());
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Uuid(u128);

impl Uuid {
    /// A new one.
    ///
    /// # Errors
    /// The kernel gives no random bytes.
    pub fn random() -> std::io::Result<Uuid> {
        let mut bytes = [0; 16];
        let mut filled = 0;
        while filled < bytes.len() {
            filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
        }
        let random = u128::from_be_bytes(bytes);
        // RFC 9562, section 5.4: four bits of version and two of variant.
        Ok(Uuid(random & !(0xf << 76) & !(0b11 << 62) | 4 << 76 | 0b10 << 62))
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let part = |shift: u32, digits: u32| (self.0 >> shift) & ((1 << (4 * digits)) - 1);
        write!(f, "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12))
    }
}

impl FromStr for Uuid {
    type Err = String;

    fn from_str(text: &str) -> Result<Uuid, String> {
        let digits: String = text.split('-').collect();
        let is_right = digits.len() == 32 && text.len() == 36 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
        let number = u128::from_str_radix(&digits, 16).ok().filter(|_| is_right);
        number.map(Uuid).ok_or_else(|| format!("{text:?}: should be a UUID"))
    }
}

/// The content of a block.
#[derive(Debug, PartialEq, Eq)]
pub enum Decoded<'a> {
    /// Zeros.
    Zeros,
    /// Not a block of a label.
    Foreign,
    /// A block of a label that is torn or damaged.
    Damaged,
    /// A block of a later version of this program.
    Later(u32),
    /// An intact block.
    Intact {
        /// The store that it was written to.
        store: Uuid,
        /// Generation of the change that wrote it.
        generation: u64,
        /// Its payload.
        payload: &'a [u8],
    },
}

fn checksum(block: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(&block[..44]);
    sum.update(&block[HEADER_BYTES..]);
    sum.finalize()
}

/// Writes a block, of [`BLOCK_BYTES`] zeros before. The payload has at most [`PAYLOAD_BYTES`].
pub fn encode(block: &mut [u8], index: u32, generation: u64, store: Uuid, payload: &[u8]) {
    block[..8].copy_from_slice(MAGIC);
    block[8..12].copy_from_slice(&VERSION.to_le_bytes());
    block[12..16].copy_from_slice(&index.to_le_bytes());
    block[16..24].copy_from_slice(&generation.to_le_bytes());
    block[24..40].copy_from_slice(&store.0.to_le_bytes());
    block[40..44].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    block[HEADER_BYTES..HEADER_BYTES + payload.len()].copy_from_slice(payload);
    let sum = checksum(block);
    block[44..48].copy_from_slice(&sum.to_le_bytes());
}

/// Reads a block of [`BLOCK_BYTES`], which should have this index.
pub fn decode(block: &[u8], index: u32) -> Decoded<'_> {
    let number = |at: usize| u32::from_le_bytes([block[at], block[at + 1], block[at + 2], block[at + 3]]);
    if !block.starts_with(MAGIC) {
        return if block.iter().all(|byte| *byte == 0) { Decoded::Zeros } else { Decoded::Foreign };
    }
    let length = number(40) as usize;
    if checksum(block) != number(44) {
        return Decoded::Damaged;
    }
    if number(8) != VERSION {
        return Decoded::Later(number(8));
    }
    if number(12) != index || length > PAYLOAD_BYTES {
        return Decoded::Damaged;
    }
    let mut store = [0; 16];
    store.copy_from_slice(&block[24..40]);
    Decoded::Intact {
        store: Uuid(u128::from_le_bytes(store)),
        generation: u64::from(number(16)) | u64::from(number(20)) << 32,
        payload: &block[HEADER_BYTES..HEADER_BYTES + length],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_as_it_was_written_and_any_changed_bit_is_found() {
        let store = Uuid::random().unwrap();
        let mut block = vec![0; BLOCK_BYTES];
        assert_eq!(decode(&block, 7), Decoded::Zeros);
        encode(&mut block, 7, 1 << 40, store, b"payload");
        assert_eq!(decode(&block, 7), Decoded::Intact { store, generation: 1 << 40, payload: b"payload" });
        assert_eq!(decode(&block, 8), Decoded::Damaged, "another index");
        for at in 0..BLOCK_BYTES {
            block[at] ^= 1 << (at % 8);
            assert!(!matches!(decode(&block, 7), Decoded::Intact { .. }), "byte {at}");
            block[at] ^= 1 << (at % 8);
        }
    }
}
