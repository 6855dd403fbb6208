//! Buffers that the kernel can transfer to directly.

use std::fmt;

/// Alignment of the first byte, which is enough for O_DIRECT on any device.
const ALIGNMENT: usize = 4096;

/// A buffer of a fixed length, aligned for O_DIRECT.
///
/// ```
/// let buffer = serve::store::Buffer::new(512);
/// assert_eq!((buffer.len(), buffer.as_ptr() as usize % 4096), (512, 0));
/// ```
pub struct Buffer {
    /// Longer than needed by up to the alignment.
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Buffer {
    /// A buffer of zeros.
    pub fn new(length: usize) -> Buffer {
        let bytes = vec![0; length + ALIGNMENT];
        let start = bytes.as_ptr().align_offset(ALIGNMENT);
        // `align_offset` may answer that it does not know, which it never does outside of constants: the buffer is then unaligned.
        let start = if start > ALIGNMENT { 0 } else { start };
        Buffer { bytes, start, length }
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.length]
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.length]
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.length)
    }
}
