//! Read-ahead windows, from the pattern of a process's reads.
//!
//! ```text
//!                |<----- async_size ---------|
//!     |------------------- size -------------------|
//!     |==================#===========================|
//!     ^start             ^marker: reading it sets off the next window
//! ```
//! Follows `mm/readahead.c` of Linux 6.x (`ondemand_readahead`, before the folio orders). In pages of 4 KiB.

use super::FileId;
use super::page_cache::{PAGE, PageCache};

/// Read-ahead state of one open file (`struct file_ra_state`).
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadAhead {
    start: u64,
    size: u64,
    async_size: u64,
    /// End of the last byte read.
    pub previous: u64,
}

/// Pages to read; the marker is set on the first of the last `ahead`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReadWindow {
    pub start: u64,
    pub pages: u64,
    pub ahead: u64,
}

/// Maximum window sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowLimits {
    /// `read_ahead_kb`.
    pub window: u64,
    /// The largest request of the device, for calls larger than a window.
    pub transfer: u64,
}

impl ReadAhead {
    /// The state of a file just opened.
    pub fn new() -> ReadAhead {
        ReadAhead { start: 0, size: 0, async_size: 0, previous: u64::MAX }
    }

    /// Returns the window to read when a page that a call needs is missing (`page_cache_sync_ra`); the call still needs `requested`
    /// pages from `index` on.
    pub fn missed(&mut self, cache: &PageCache, file: FileId, index: u64, requested: u64, most: WindowLimits) -> ReadWindow {
        if most.window == 0 {
            return ReadWindow { start: index, pages: 1, ahead: 0 };
        }
        let max = window_for_request(requested, most);
        if index == 0 {
            return self.begin(index, requested, max);
        }
        if self.is_expected(index) {
            return self.advance(index, max);
        }
        let follows = self.previous != u64::MAX && index.wrapping_sub(self.previous / PAGE) <= 1;
        if follows || requested > max {
            return self.begin(index, requested, max);
        }
        self.continue_history(cache, file, index, requested, max).unwrap_or(ReadWindow { start: index, pages: requested, ahead: 0 })
    }

    /// Returns the window to read ahead when a call reads a page with a marker (`page_cache_async_ra`).
    pub fn marked(
        &mut self,
        cache: &PageCache,
        file: FileId,
        index: u64,
        requested: u64,
        most: WindowLimits,
    ) -> Option<ReadWindow> {
        if most.window == 0 {
            return None;
        }
        let max = window_for_request(requested, most);
        if index == 0 {
            return Some(self.begin(index, requested, max));
        }
        if self.is_expected(index) {
            return Some(self.advance(index, max));
        }
        // A marker of another reader, or an old one of this reader: the cache shows how far read-ahead got.
        let start = cache.next_miss(file, index + 1, max);
        if start - index > max {
            return None;
        }
        self.start = start;
        self.size = next_size(start - index + requested, max);
        self.async_size = self.size;
        Some(self.window(index, max))
    }

    fn is_expected(&self, index: u64) -> bool {
        self.size > 0 && (index == self.start + self.size - self.async_size.min(self.size) || index == self.start + self.size)
    }

    fn begin(&mut self, index: u64, requested: u64, max: u64) -> ReadWindow {
        self.start = index;
        self.size = first_size(requested, max);
        self.async_size = if self.size > requested { self.size - requested } else { self.size };
        self.window(index, max)
    }

    fn advance(&mut self, index: u64, max: u64) -> ReadWindow {
        self.start += self.size;
        self.size = next_size(self.size, max);
        self.async_size = self.size;
        self.window(index, max)
    }

    /// `try_context_readahead`: the pages right before this one are cached, so the file is being read sequentially.
    fn continue_history(&mut self, cache: &PageCache, file: FileId, index: u64, requested: u64, max: u64) -> Option<ReadWindow> {
        let mut history = cache.history(file, index, max);
        if history <= requested {
            return None;
        }
        // The history reaches back to the start of the file, which is a strong hint.
        if history >= index {
            history *= 2;
        }
        self.start = index;
        self.size = (history + requested).min(max);
        self.async_size = 1;
        Some(self.window(index, max))
    }

    /// A window whose marker is the page being read is merged with the next.
    fn window(&mut self, index: u64, max: u64) -> ReadWindow {
        if index == self.start && self.size == self.async_size {
            let more = next_size(self.size, max);
            if self.size + more <= max {
                self.async_size = more;
                self.size += more;
            } else {
                self.size = max;
                self.async_size = max >> 1;
            }
        }
        ReadWindow { start: self.start, pages: self.size, ahead: self.async_size }
    }
}

fn window_for_request(requested: u64, most: WindowLimits) -> u64 {
    if requested > most.window && most.transfer > most.window { requested.min(most.transfer) } else { most.window }
}

/// `get_init_ra_size`.
fn first_size(requested: u64, max: u64) -> u64 {
    let size = requested.next_power_of_two();
    match size {
        _ if size <= max / 32 => size * 4,
        _ if size <= max / 4 => size * 2,
        _ => max,
    }
}

/// `get_next_ra_size`.
fn next_size(current: u64, max: u64) -> u64 {
    match current {
        _ if current < max / 16 => 4 * current,
        _ if current <= max / 2 => 2 * current,
        _ => max,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: WindowLimits = WindowLimits { window: 32, transfer: 320 };

    #[test]
    fn windows_double_up_to_the_limit_and_stay_there() {
        let (cache, mut state) = (PageCache::new(1024, 1, false), ReadAhead::new());
        let first = state.missed(&cache, 0, 0, 1, MOST);
        assert_eq!(first, ReadWindow { start: 0, pages: 4, ahead: 3 });
        let mut marker = first.start + first.pages - first.ahead;
        let mut sizes = Vec::new();
        for _ in 0..5 {
            let window = state.marked(&cache, 0, marker, 1, MOST).unwrap();
            sizes.push(window.pages);
            marker = window.start + window.pages - window.ahead;
        }
        assert_eq!(sizes, [8, 16, 32, 32, 32]);
    }

    #[test]
    fn a_first_read_in_the_middle_of_a_file_reads_nothing_ahead_and_a_second_in_order_starts_a_window() {
        let (cache, mut state) = (PageCache::new(1024, 1, false), ReadAhead::new());
        assert_eq!(state.missed(&cache, 0, 500, 2, MOST), ReadWindow { start: 500, pages: 2, ahead: 0 });
        state.previous = 502 * 4096;
        assert_eq!(state.missed(&cache, 0, 502, 2, MOST), ReadWindow { start: 502, pages: 4, ahead: 2 });
    }

    #[test]
    fn cached_pages_of_another_reader_reveal_sequential_reading() {
        let (mut cache, mut state) = (PageCache::new(1024, 1, false), ReadAhead::new());
        for index in 490..500 {
            cache.insert(0, index, 0);
        }
        assert_eq!(state.missed(&cache, 0, 500, 1, MOST), ReadWindow { start: 500, pages: 11, ahead: 1 });
    }

    #[test]
    fn a_call_larger_than_the_window_is_read_at_once_as_far_as_the_device_takes_it() {
        let (cache, mut state) = (PageCache::new(1024, 1, false), ReadAhead::new());
        assert_eq!(state.missed(&cache, 0, 0, 100, MOST).pages, 100);
        let mut state = ReadAhead::new();
        assert_eq!(state.missed(&cache, 0, 0, 1000, MOST).pages, 320);
    }
}
