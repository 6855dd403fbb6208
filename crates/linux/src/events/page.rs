//! Parses pages of the kernel's ring buffer, as read from `trace_pipe_raw` (Linux `kernel/trace/ring_buffer.c`,
//! `include/linux/ring_buffer.h`).
//!
//! ```text
//! time stamp | committed bytes, flags | event | event | …           a page
//! type_len: 5 bits, time_delta: 27 bits | data                      an event; type_len 1 to 28 is its length in 4 bytes
//!   0: length in the next 4 bytes, then data     30: the delta's upper bits follow
//!  29: padding                                   31: the time itself, its upper bits follow
//! ```
//! Deltas are relative to the previous event, the first one to the page's time stamp.

use block::Nanos;

use super::format::PageLayout;

/// Flag: events were overwritten before this page was read (`RB_MISSED_EVENTS`).
const MISSED: u64 = 1 << 31;
/// Flag: their number is stored after the data (`RB_MISSED_STORED`).
const MISSED_STORED: u64 = 1 << 30;
/// Mask of the number of bytes in the field.
const COMMITTED: u64 = MISSED_STORED - 1;

const PADDING: u32 = 29;
const TIME_EXTEND: u32 = 30;
const TIME_STAMP: u32 = 31;
const DELTA_BITS: u32 = 27;
/// An absolute time has 59 bits; the upper ones are taken from the previous time.
const ABSOLUTE_BITS: u32 = DELTA_BITS + 32;

/// Calls `event` with each event and its time. Returns the number of events lost before this page.
///
/// # Errors
/// The page does not have this layout.
pub(super) fn each_event(page: &[u8], layout: &PageLayout, mut event: impl FnMut(Nanos, &[u8])) -> Result<u64, &'static str> {
    let (Some(mut time), Some(commit)) = (layout.timestamp.number(page), layout.commit.number(page)) else {
        return Err("a page is shorter than its head");
    };
    let committed = (commit & COMMITTED) as usize;
    let end = layout.data.offset + committed;
    let mut rest = page.get(layout.data.offset..end).ok_or("a page has more data than it is long")?;
    while let Some(head) = word(rest) {
        let (type_len, delta) = (head & 0x1f, u64::from(head >> 5));
        let follows = || word(rest.get(4..).unwrap_or_default()).ok_or("an event ends beyond its page");
        let (data, length) = match type_len {
            // The rest of the page is empty.
            PADDING if delta == 0 => break,
            // A discarded event.
            PADDING => (None, 4 + follows()? as usize),
            TIME_EXTEND => {
                time = time.wrapping_add(u64::from(follows()?) << DELTA_BITS);
                (None, 8)
            }
            TIME_STAMP => {
                let absolute = u64::from(follows()?) << DELTA_BITS | delta;
                time = absolute | time >> ABSOLUTE_BITS << ABSOLUTE_BITS;
                (None, 8)
            }
            0 => (Some(8), 4 + follows()? as usize),
            words => (Some(4), 4 + 4 * words as usize),
        };
        if type_len != TIME_STAMP {
            time = time.wrapping_add(delta);
        }
        if let Some(from) = data {
            event(Nanos(time), rest.get(from..length).ok_or("an event ends beyond its page")?);
        }
        // Lengths are rounded up to the alignment.
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    if commit & MISSED == 0 {
        return Ok(0);
    }
    let stored = page.get(end..end + 8).filter(|_| commit & MISSED_STORED != 0).and_then(|bytes| bytes.try_into().ok());
    Ok(stored.map_or(1, |bytes| u64::from_ne_bytes(bytes).max(1)))
}

fn word(bytes: &[u8]) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?))
}

/// Writes pages in the kernel's format, for tests.
#[cfg(test)]
pub(super) mod writing {
    use super::super::format::{Field, PageLayout};
    use super::{DELTA_BITS, MISSED, MISSED_STORED, PADDING, TIME_EXTEND, TIME_STAMP};

    pub(in super::super) const BYTES: usize = 4096;

    pub(in super::super) const LAYOUT: PageLayout = PageLayout {
        timestamp: Field { offset: 0, size: 8 },
        commit: Field { offset: 8, size: 8 },
        data: Field { offset: 16, size: BYTES - 16 },
    };

    /// A page being written.
    pub(in super::super) struct Page {
        began: u64,
        time: u64,
        data: Vec<u8>,
        missed: Option<Option<u64>>,
    }

    impl Page {
        pub(in super::super) fn at(time: u64) -> Page {
            Page { began: time, time, data: Vec::new(), missed: None }
        }

        /// Events were lost before it; their number if known.
        pub(in super::super) fn missed(mut self, stored: Option<u64>) -> Page {
            self.missed = Some(stored);
            self
        }

        fn words(&mut self, words: &[u32]) {
            self.data.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        }

        /// An event at this time, not before the previous one.
        pub(in super::super) fn event(mut self, time: u64, bytes: &[u8]) -> Page {
            let mut delta = time - self.time;
            if delta >> DELTA_BITS > 0 {
                self.words(&[TIME_EXTEND | (delta as u32) << 5, (delta >> DELTA_BITS) as u32]);
                delta = 0;
            }
            let length = bytes.len().next_multiple_of(4) as u32;
            let head = (delta as u32) << 5;
            if length <= 112 && length > 0 {
                self.words(&[head | (length / 4)])
            } else {
                self.words(&[head, length + 4])
            }
            self.data.extend(bytes);
            self.data.resize(self.data.len().next_multiple_of(4), 0);
            self.time = time;
            self
        }

        /// An absolute time stamp, without its upper 5 bits.
        pub(in super::super) fn stamp(mut self, time: u64) -> Page {
            let low = time & ((1 << 59) - 1);
            self.words(&[TIME_STAMP | ((low & ((1 << DELTA_BITS) - 1)) as u32) << 5, (low >> DELTA_BITS) as u32]);
            self.time = time;
            self
        }

        /// A discarded event of this many words.
        pub(in super::super) fn discarded(mut self, time: u64, words: u32) -> Page {
            self.words(&[PADDING | ((time - self.time) as u32) << 5, 4 * (words + 1)]);
            self.data.resize(self.data.len() + 4 * words as usize, 0xaa);
            self.time = time;
            self
        }

        /// The page as read from a pipe.
        pub(in super::super) fn bytes(self) -> Vec<u8> {
            let mut commit = self.data.len() as u64;
            let mut page = self.began.to_ne_bytes().to_vec();
            commit |= if self.missed.is_some() { MISSED } else { 0 };
            commit |= if self.missed.flatten().is_some() { MISSED_STORED } else { 0 };
            page.extend(commit.to_ne_bytes());
            page.extend(self.data);
            page.extend(self.missed.flatten().unwrap_or(0).to_ne_bytes());
            page.resize(BYTES, 0);
            page
        }
    }
}

#[cfg(test)]
mod tests {
    use super::writing::{LAYOUT, Page};
    use super::*;

    fn events(page: Page) -> (Vec<(u64, Vec<u8>)>, u64) {
        let mut found = Vec::new();
        let lost = each_event(&page.bytes(), &LAYOUT, |at, bytes| found.push((at.0, bytes.to_vec()))).unwrap();
        (found, lost)
    }

    #[test]
    fn events_of_all_lengths_come_with_their_times() {
        let long = [7; 200];
        let day = 86_400_000_000_000;
        let page = Page::at(1_000).event(1_000, b"abcd").event(1_090, &long).event(day, b"efgh").event(day + 1, b"ijkl");
        let expected = [(1_000, b"abcd".to_vec()), (1_090, long.to_vec()), (day, b"efgh".to_vec()), (day + 1, b"ijkl".to_vec())];
        assert_eq!(events(page), (expected.to_vec(), 0));
    }

    #[test]
    fn what_was_discarded_is_passed_over_and_its_time_counts() {
        let page = Page::at(500).event(500, b"abcd").discarded(600, 5).event(700, b"efgh");
        assert_eq!(events(page).0, [(500, b"abcd".to_vec()), (700, b"efgh".to_vec())]);
    }

    #[test]
    fn a_time_in_full_keeps_the_upper_bits_of_the_one_before() {
        let high = 3 << 59 | 17;
        let page = Page::at(high).event(high, b"abcd").stamp(high + (1 << 40)).event(high + (1 << 40) + 2, b"efgh");
        assert_eq!(events(page).0, [(high, b"abcd".to_vec()), (high + (1 << 40) + 2, b"efgh".to_vec())]);
    }

    #[test]
    fn lost_events_are_counted_where_the_kernel_says_how_many_and_are_one_at_least() {
        assert_eq!(events(Page::at(1).event(1, b"abcd").missed(Some(4_711))).1, 4_711);
        assert_eq!(events(Page::at(1).event(1, b"abcd").missed(None)).1, 1);
    }

    #[test]
    fn a_damaged_page_is_an_error_and_not_a_panic() {
        let mut page = Page::at(1).event(1, b"abcdefgh").bytes();
        let read = |page: &[u8]| each_event(page, &LAYOUT, |_, _| {});
        assert_eq!(read(&page[..12]), Err("a page is shorter than its head"));
        page[8] = 7;
        assert!(read(&page).is_err(), "the event is longer than the committed part");
        page[9] = 0xff;
        assert!(read(&page).is_err(), "more was committed than there is room for");
        for byte in 0..=255 {
            page[16] = byte;
            let _ = read(&page);
        }
    }
}
