//! Read-ahead for sequential readers.
//!
//! ```text
//! client's read ─▶ in a chunk that was read ahead? ──yes─▶ answered from memory; in one that is being read: when it is there
//!      │ no                                                      ▲
//!      ▼                                                         │
//!    queue          third read in order ─▶ next chunk, as a request of the same volume, through the same scheduler
//! ```
//! Chunks are keyed by their address on the store, so that any change of that data finds them. A change drops every chunk that it
//! overlaps when it begins and again when it completes, and nothing is read ahead for a volume that has a change in flight.

use std::collections::BTreeMap;

use block::{Nanos, StreamId};
use smallvec::SmallVec;
use uring::Buffer;

/// Memory of a store for read-ahead, all volumes together: two chunks of 1 MiB for each of eight readers.
const MOST_BYTES: u64 = 16 << 20;
/// Sequential reads after which read-ahead starts. Linux starts at the second, but a client that copies an inode table issues two.
const IN_ORDER: u32 = 3;
/// Sequences tracked per volume: several clients may have it open, or one reads several files.
const SEQUENCES: usize = 8;
/// Size of the first chunk; each next one is twice as large (Linux: four pages and up, `get_init_ra_size` in `mm/readahead.c`).
const FIRST_SECTORS: u64 = 256;
/// Read-ahead after which its benefit for a volume is evaluated: it pauses for [`PAUSE`] if more than half was dropped unused.
const JUDGED_SECTORS: u64 = 8192;
/// See [`JUDGED_SECTORS`].
const PAUSE: Nanos = Nanos::from_millis(10_000);

/// A piece of a client's read that waits for a chunk.
pub(super) struct Waiting {
    pub work: usize,
    pub place: usize,
    pub lba: u64,
    pub buffer: Buffer,
}

/// A range that is or was read ahead; the key is its first sector.
struct Chunk {
    stream: StreamId,
    sectors: u64,
    /// Sectors requested by clients.
    used: u64,
    /// `None` while it is being read.
    data: Option<Buffer>,
    /// The data was changed after the read was issued.
    is_stale: bool,
    waiting: Vec<Waiting>,
    /// Time at which the read was issued.
    at: Nanos,
}

/// A run of sequential reads.
#[derive(Clone, Copy)]
struct Sequence {
    /// Expected first sector of the next read.
    next: u64,
    length: u32,
    /// End of the range that was read ahead.
    ahead: u64,
    sectors: u64,
    at: Nanos,
}

/// State of a volume.
#[derive(Default)]
struct Reader {
    sequences: SmallVec<[Sequence; SEQUENCES]>,
    /// Changes in flight.
    changes: usize,
    /// Sectors read ahead, and those of them dropped unused, since the last evaluation.
    read: u64,
    unused: u64,
    paused_until: Nanos,
}

/// Result of a lookup.
pub(super) enum Found {
    /// The buffer has the data.
    Here(Buffer),
    /// The read is answered when its chunk is complete.
    Later,
    /// No chunk holds all of the range.
    Not(Buffer),
}

/// Read-ahead state of a store.
#[derive(Default)]
pub(super) struct ReadAhead {
    /// Largest chunk; 0 disables read-ahead.
    most_sectors: u64,
    /// No chunk crosses a multiple of this: the next region may belong to another volume.
    region_sectors: u64,
    chunks: BTreeMap<u64, Chunk>,
    /// Sectors of all chunks.
    held: u64,
    readers: BTreeMap<StreamId, Reader>,
    /// Bytes of clients' reads answered from chunks, and bytes read ahead.
    pub hit_bytes: u64,
    pub read_bytes: u64,
}

impl ReadAhead {
    /// Sets the largest chunk (0 disables read-ahead; at most half of the memory) and the region size. Changes in flight are counted even
    /// while read-ahead is disabled.
    pub(super) fn set(&mut self, most_sectors: u64, region_sectors: u64) {
        (self.most_sectors, self.region_sectors) = (most_sectors.min(MOST_BYTES / 1024), region_sectors);
        for reader in self.readers.values_mut() {
            reader.sequences.clear();
            reader.paused_until = Nanos::ZERO;
        }
        if most_sectors == 0 {
            let unread: Vec<u64> = self.chunks.iter().filter(|(_, chunk)| chunk.data.is_some()).map(|(lba, _)| *lba).collect();
            unread.into_iter().for_each(|lba| self.drop_chunk(lba));
        }
    }

    /// Largest chunk in sectors; 0 if read-ahead is disabled.
    pub(super) fn most_sectors(&self) -> u64 {
        self.most_sectors
    }

    /// Notes that a change begins or is complete. Drops every chunk that overlaps `ranges` (first sector, sectors); one that is still being
    /// read is marked as stale.
    pub(super) fn changes(&mut self, stream: StreamId, ranges: impl Iterator<Item = (u64, u64)>, begins: bool) {
        let reader = self.readers.entry(stream).or_default();
        reader.changes = if begins { reader.changes + 1 } else { reader.changes.saturating_sub(1) };
        if self.chunks.is_empty() {
            return;
        }
        for (lba, sectors) in ranges {
            let touched: SmallVec<[u64; 4]> = self
                .chunks
                .range(..lba + sectors)
                .rev()
                .take_while(|(start, chunk)| *start + chunk.sectors > lba)
                .map(|(start, _)| *start)
                .collect();
            for start in touched {
                match self.chunks.get_mut(&start) {
                    Some(chunk) if chunk.data.is_none() => chunk.is_stale = true,
                    _ => self.drop_chunk(start),
                }
            }
        }
    }

    fn drop_chunk(&mut self, start: u64) {
        let Some(chunk) = self.chunks.remove(&start) else { return };
        self.held -= chunk.sectors;
        if let Some(reader) = self.readers.get_mut(&chunk.stream) {
            reader.unused += chunk.sectors.saturating_sub(chunk.used);
        }
    }

    /// Answers a read from a chunk, or queues it if the chunk is still being read.
    pub(super) fn find(&mut self, stream: StreamId, lba: u64, work: usize, place: usize, mut buffer: Buffer) -> Found {
        let end = lba + buffer.len() as u64 / 512;
        let Some((&start, chunk)) = self.chunks.range_mut(..=lba).next_back() else { return Found::Not(buffer) };
        if chunk.is_stale || chunk.stream != stream || end > start + chunk.sectors {
            return Found::Not(buffer);
        }
        chunk.used += end - lba;
        let Some(data) = &chunk.data else {
            chunk.waiting.push(Waiting { work, place, lba, buffer });
            return Found::Later;
        };
        let from = 512 * (lba - start) as usize;
        let length = buffer.len();
        buffer.copy_from_slice(&data[from..from + length]);
        self.hit_bytes += length as u64;
        if end == start + chunk.sectors || chunk.used >= chunk.sectors {
            self.drop_chunk(start);
        }
        Found::Here(buffer)
    }

    /// Records a read. Returns the range (first sector, sectors) to read ahead now; [`is_read`](ReadAhead::is_read) is called when that is
    /// done.
    pub(super) fn note(&mut self, now: Nanos, stream: StreamId, lba: u64, sectors: u64) -> Option<(u64, u64)> {
        let (most, region) = (self.most_sectors, self.region_sectors);
        let reader = self.readers.entry(stream).or_default();
        // Requests of a client with several connections arrive a little out of order.
        let is_next = |sequence: &Sequence| (sequence.next..sequence.next + 2 * sectors + 1).contains(&lba);
        let Some(sequence) = reader.sequences.iter_mut().find(|sequence| is_next(sequence)) else {
            let new = Sequence { next: lba + sectors, length: 1, ahead: 0, sectors: FIRST_SECTORS, at: now };
            if reader.sequences.len() < SEQUENCES {
                reader.sequences.push(new);
            } else if let Some(oldest) = reader.sequences.iter_mut().min_by_key(|sequence| sequence.at) {
                *oldest = new;
            }
            return None;
        };
        (sequence.next, sequence.at) = (lba + sectors, now);
        sequence.length = sequence.length.saturating_add(1);
        if reader.read >= JUDGED_SECTORS {
            if 2 * reader.unused > reader.read {
                reader.paused_until = now + PAUSE;
            }
            (reader.read, reader.unused) = (0, 0);
        }
        let is_enough = sequence.ahead > sequence.next + sequence.sectors / 2;
        if sequence.length < IN_ORDER || is_enough || reader.changes > 0 || now < reader.paused_until {
            return None;
        }
        let start = sequence.ahead.max(sequence.next);
        // Whole requests of the client, so that none lies in two chunks.
        let whole = |length: u64| length / sectors * sectors;
        let length = whole(sequence.sectors.min(most)).min(whole((start / region + 1) * region - start));
        // Less than two requests of the client do not justify a request.
        if length < 2 * sectors {
            return None;
        }
        let (wanted, before) = (length, *sequence);
        (sequence.ahead, sequence.sectors) = (start + length, (2 * sequence.sectors).min(most));
        if self.overlaps(start, length) || !self.has_room(wanted) {
            let sequence = self.readers.get_mut(&stream)?.sequences.iter_mut().find(|known| known.next == before.next)?;
            *sequence = before;
            return None;
        }
        self.readers.get_mut(&stream)?.read += length;
        self.held += length;
        self.read_bytes += 512 * length;
        let chunk = Chunk { stream, sectors: length, used: 0, data: None, is_stale: false, waiting: Vec::new(), at: now };
        self.chunks.insert(start, chunk);
        Some((start, length))
    }

    fn overlaps(&self, start: u64, length: u64) -> bool {
        self.chunks.range(..start + length).next_back().is_some_and(|(lba, chunk)| lba + chunk.sectors > start)
    }

    /// Drops the oldest complete chunks until `sectors` more fit; false if that is not enough.
    fn has_room(&mut self, sectors: u64) -> bool {
        while self.held + sectors > MOST_BYTES / 512 {
            let oldest = self.chunks.iter().filter(|(_, chunk)| chunk.data.is_some()).min_by_key(|(_, chunk)| chunk.at);
            let Some(oldest) = oldest.map(|(start, _)| *start) else { return false };
            self.drop_chunk(oldest);
        }
        true
    }

    /// Completes a chunk; without `data` its read failed. Returns the pieces that waited for it, and whether they have the data; if not,
    /// each has to be read individually.
    pub(super) fn is_read(&mut self, start: u64, data: Option<Buffer>) -> (Vec<Waiting>, bool) {
        let Some(chunk) = self.chunks.get_mut(&start) else { return (Vec::new(), false) };
        let mut waiting = std::mem::take(&mut chunk.waiting);
        let data = data.filter(|_| !chunk.is_stale && self.most_sectors > 0);
        if let Some(data) = &data {
            for Waiting { lba, buffer, .. } in &mut waiting {
                let from = 512 * (*lba - start) as usize;
                let length = buffer.len();
                buffer.copy_from_slice(&data[from..from + length]);
                self.hit_bytes += length as u64;
            }
        }
        let is_there = data.is_some();
        chunk.data = data;
        if !is_there || chunk.used >= chunk.sectors {
            self.drop_chunk(start);
        }
        (waiting, is_there)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that meets the unexpected should fail")]

    use super::*;

    fn ahead() -> ReadAhead {
        let mut ahead = ReadAhead::default();
        ahead.set(2048, 131_072);
        ahead
    }

    /// Three sequential reads of 8 sectors; returns the chunk.
    fn begin(ahead: &mut ReadAhead) -> Option<(u64, u64)> {
        (0..3).filter_map(|number| ahead.note(Nanos(number), 1, 8 * number, 8)).last()
    }

    fn is_here(ahead: &mut ReadAhead, stream: StreamId, lba: u64) -> bool {
        matches!(ahead.find(stream, lba, 0, 0, Buffer::new(4096)), Found::Here(_))
    }

    #[test]
    fn the_third_read_in_order_is_read_ahead_of_and_reads_at_random_are_not() {
        let mut random = ahead();
        assert!((0..1000).all(|number| random.note(Nanos(number), 1, number * 7919 % 100_000 * 8, 8).is_none()));
        let mut ahead = ahead();
        assert_eq!(begin(&mut ahead), Some((24, 256)));
        assert!(ahead.is_read(24, Some(Buffer::new(256 * 512))).1);
        assert!(is_here(&mut ahead, 1, 24) && is_here(&mut ahead, 1, 32), "its own volume's");
        assert!(!is_here(&mut ahead, 2, 40), "another volume has nothing of it");
    }

    #[test]
    fn a_change_forgets_the_windows_that_it_touches() {
        for (when, is_kept) in [("before it is read", false), ("after it was read", false), ("elsewhere", true)] {
            let mut ahead = ahead();
            let (start, sectors) = begin(&mut ahead).expect("a chunk");
            let mut data = Some(Buffer::new(sectors as usize * 512));
            if when == "after it was read" {
                ahead.is_read(start, data.take());
            }
            let lba = if is_kept { start + sectors } else { start + sectors - 1 };
            ahead.changes(9, std::iter::once((lba, 1)), true);
            if let Some(data) = data {
                ahead.is_read(start, Some(data));
            }
            assert_eq!(is_here(&mut ahead, 1, start), is_kept, "{when}");
            assert_eq!(ahead.held == 0, !is_kept);
        }
    }

    #[test]
    fn nothing_is_read_ahead_while_the_volume_is_changed() {
        let mut ahead = ahead();
        ahead.changes(1, std::iter::once((90_000, 8)), true);
        assert_eq!(begin(&mut ahead), None);
        ahead.changes(1, std::iter::once((90_000, 8)), false);
        assert_eq!(ahead.note(Nanos(9), 1, 24, 8), Some((32, 256)));
    }

    #[test]
    fn memory_is_bounded_and_chunks_keep_to_their_region() {
        let mut ahead = ahead();
        for stream in 0..100 {
            let mut at = 131_072 * u64::from(stream);
            for number in 0..2_000 {
                if let Some((start, sectors)) = ahead.note(Nanos(number), stream, at, 64) {
                    assert_eq!(start / 131_072, (start + sectors - 1) / 131_072);
                    ahead.is_read(start, Some(Buffer::new(512)));
                }
                at += 64;
            }
            assert!(ahead.held * 512 <= MOST_BYTES);
        }
    }

    #[test]
    fn a_volume_that_does_not_go_on_is_left_alone_for_a_while() {
        let mut ahead = ahead();
        let mut read = 0;
        for number in 0..4_000_u64 {
            // Four sequential reads each, then a jump.
            let lba = number / 4 * 4096 + number % 4 * 64;
            if let Some((start, sectors)) = ahead.note(Nanos(number), 1, lba, 64) {
                read += sectors;
                ahead.is_read(start, Some(Buffer::new(512)));
            }
        }
        assert!(read <= 2 * JUDGED_SECTORS + MOST_BYTES / 512, "{read}");
        let later = Nanos(4_000) + PAUSE + PAUSE;
        assert!((0..3).filter_map(|number| ahead.note(later, 1, 70_000_000 + 64 * number, 64)).count() == 1, "it is tried again");
    }
}
