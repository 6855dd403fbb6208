//! Buffers for direct I/O, pooled for reuse when they are dropped.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::fmt;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use smallvec::SmallVec;

/// Alignment of the first byte: enough for O_DIRECT on any device.
const ALIGNMENT: usize = 4096;
/// Size classes of the pool: powers of two from the alignment on. Larger buffers are not pooled.
const CLASSES: usize = 9;
/// Maximum memory in the pool: enough for the requests in flight of a few clients, of 64 KiB each.
const MOST_KEPT: usize = 4 << 20;

/// The buffers of a request, usually one.
pub type Buffers = SmallVec<[Buffer; 1]>;

/// Memory of a dropped buffer, in the pool.
struct Kept(NonNull<u8>);

// SAFETY: the memory belongs to the owner of the value, and no pointer to it is left elsewhere.
unsafe impl Send for Kept {}

static KEPT: [Mutex<Vec<Kept>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];
static KEPT_BYTES: AtomicUsize = AtomicUsize::new(0);

/// A buffer of a fixed length, aligned for O_DIRECT.
///
/// ```
/// let buffer = uring::Buffer::new(512);
/// assert_eq!((buffer.len(), buffer.as_ptr() as usize % 4096), (512, 0));
/// ```
pub struct Buffer {
    start: NonNull<u8>,
    length: usize,
}

// SAFETY: a buffer owns its memory, as `Box<[u8]>` does.
unsafe impl Send for Buffer {}
// SAFETY: shared references only read it.
unsafe impl Sync for Buffer {}

/// The allocation's layout for a length, and its size class; `None` if it is not pooled.
fn layout(length: usize) -> (Layout, Option<usize>) {
    let bytes = length.max(1).checked_next_multiple_of(ALIGNMENT).and_then(usize::checked_next_power_of_two);
    let layout = bytes.and_then(|bytes| Layout::from_size_align(bytes, ALIGNMENT).ok());
    // Only a length of about half of the address space has no layout.
    let Some(layout) = layout else { handle_alloc_error(Layout::new::<u8>()) };
    let class = (layout.size() / ALIGNMENT).trailing_zeros() as usize;
    (layout, Some(class).filter(|class| *class < CLASSES))
}

impl Buffer {
    /// A zeroed buffer.
    pub fn new(length: usize) -> Buffer {
        let (mut buffer, is_zeroed) = Buffer::take(length);
        if !is_zeroed {
            buffer.fill(0);
        }
        buffer
    }

    /// A buffer with arbitrary content, which may be that of an earlier buffer: to be overwritten before it is read.
    pub fn dirty(length: usize) -> Buffer {
        Buffer::take(length).0
    }

    /// A buffer, and whether it is zeroed.
    fn take(length: usize) -> (Buffer, bool) {
        let (layout, class) = layout(length);
        let kept = class.and_then(|class| KEPT[class].lock().unwrap_or_else(PoisonError::into_inner).pop());
        if let Some(Kept(start)) = kept {
            KEPT_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
            return (Buffer { start, length }, false);
        }
        // SAFETY: the layout has a size of at least the alignment.
        let Some(start) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        (Buffer { start, length }, true)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let (layout, class) = layout(self.length);
        if let Some(class) = class {
            if KEPT_BYTES.fetch_add(layout.size(), Ordering::Relaxed) + layout.size() <= MOST_KEPT {
                KEPT[class].lock().unwrap_or_else(PoisonError::into_inner).push(Kept(self.start));
                return;
            }
            KEPT_BYTES.fetch_sub(layout.size(), Ordering::Relaxed);
        }
        // SAFETY: it was allocated with the layout of the same length, and its owner is being dropped.
        unsafe { dealloc(self.start.as_ptr(), layout) };
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the memory is this long, was zeroed when it was allocated, and is borrowed with the buffer.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.length) }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and the borrow is the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.length) }
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Buffer({} bytes)", self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_buffer_is_of_zeros_also_where_one_with_data_was_dropped() {
        for length in [0, 1, 512, 4096, 4097, 65_536, 3 << 20] {
            let mut buffer = Buffer::new(length);
            assert_eq!((buffer.len(), buffer.as_ptr() as usize % ALIGNMENT), (length, 0));
            buffer.fill(7);
            drop(buffer);
            assert!(Buffer::new(length).iter().all(|byte| *byte == 0), "{length}");
        }
    }

    #[test]
    fn what_is_kept_of_dropped_buffers_is_bounded() {
        let many: Vec<Buffer> = (0..200).map(|_| Buffer::dirty(64 << 10)).collect();
        drop(many);
        assert!(KEPT_BYTES.load(Ordering::Relaxed) <= MOST_KEPT);
    }
}
