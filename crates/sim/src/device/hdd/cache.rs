//! The drive's memory: segments, each a range of LBAs, as in SCSI drives.
//!
//! ```text
//! EMPTY ──read──▶ READING ──done or stopped──▶ CLEAN ──least recently used──▶ (next use)
//!   └───write───▶ DIRTY ──arm──▶ WRITING ──done──▶ CLEAN, or EMPTY if reads may not hit it
//! ```
//! A segment is a ring: data read beyond its size overwrite its oldest sectors.

use super::layout::SectorLocation;
use super::spec::CacheSpecification;

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// No data.
    Empty,
    /// Data that are on the media as well.
    Clean,
    /// Data are being read into it from the media.
    Reading,
    /// Unwritten data.
    Dirty,
    /// Data being written to the media.
    Writing,
}

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First LBA.
    pub start: u64,
    /// LBA after the last.
    pub end: u64,
    /// State.
    pub state: State,
    /// Whether it was filled by a write.
    pub written: bool,
    /// Sequence number of its last use.
    used: u64,
    /// Data before this LBA have been sent to the host, so read-ahead may overwrite them.
    pub released: u64,
    /// End of the last read served from it.
    pub asked: u64,
}

/// When a request arrived, for the queue's policy.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// Position in the order of arrival.
    pub order: u64,
    /// Its handicap in nanoseconds, see [`super::model::HddModel::handicap`].
    pub handicap: u64,
}

/// Unwritten data of a segment. Stored apart from the segments, which are searched for every request.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Age of the write, including its wait for a segment.
    pub age: Age,
    /// Earliest time at which the arm may start.
    pub ready: u64,
    /// First LBA that may still be on the bus, …
    pub incoming: u64,
    /// … and the start of its transfer.
    pub incoming_since: u64,
    /// Location of the first sector.
    pub place: SectorLocation,
    /// Expected service time charged when they were reported as written.
    pub expected: u64,
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// This segment holds all of it.
    Whole(usize),
    /// This segment holds its beginning.
    Partial(usize),
    /// No segment holds its beginning.
    Miss,
    /// Some of it is unwritten and cannot be read from memory: it must be written to the media first.
    Collision,
}

/// Replacement class by [`State`]; within a class the least recently used segment is replaced. Segments with unwritten data never
/// are.
const CLASSES: [u64; 5] = [0, 1 << 62, 2 << 62, u64::MAX, u64::MAX];

/// All segments.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The segments; a dedicated write segment is the first.
    pub segments: Box<[Segment]>,
    /// Of each segment; valid while it is dirty or being written.
    pub waiting: Box<[Waiting]>,
    /// Number of segments with data not yet on the media.
    pub dirty: u32,
    uses: u64,
    size: u64,
    write_segments: u32,
    dedicated: bool,
    hits_on_written: bool,
    keeps: bool,
    keeps_overlapped: bool,
}

impl Cache {
    /// A cache of empty segments. `keeps_overlapped`: see [`super::model::Deviations`].
    pub fn new(spec: &CacheSpecification, keeps_overlapped: bool) -> Cache {
        let place = SectorLocation { zone: 0, head: 0, cylinder: 0, sector: 0, run: 1, angle: 0 };
        let empty = Segment { start: 0, end: 0, state: State::Empty, written: false, used: 0, released: 0, asked: 0 };
        let waiting = Waiting { age: Age { order: 0, handicap: 0 }, ready: 0, incoming: 0, incoming_since: 0, place, expected: 0 };
        Cache {
            segments: vec![empty; spec.segments as usize].into(),
            waiting: vec![waiting; spec.segments as usize].into(),
            dirty: 0,
            uses: 0,
            size: u64::from(spec.segment_sectors),
            write_segments: spec.write_segments,
            dedicated: spec.dedicated_write_segment,
            hits_on_written: spec.read_hits_on_written_data,
            keeps: spec.keeps_data,
            keeps_overlapped,
        }
    }

    /// Looks up a read of `lba..end`. Unwritten data are the newest and take precedence.
    pub fn look_up(&self, lba: u64, end: u64) -> Lookup {
        let mut found = Lookup::Miss;
        if !self.may_hold(lba, end) {
            return found;
        }
        for (index, segment) in self.segments.iter().enumerate() {
            if segment.state == State::Empty || segment.end <= lba || segment.start >= end {
                continue;
            }
            let begins = segment.start <= lba;
            let whole = begins && end <= segment.end;
            match segment.state {
                State::Dirty | State::Writing => {
                    let hit = whole && self.hits_on_written && !(self.dedicated && index == 0);
                    return if hit { Lookup::Whole(index) } else { Lookup::Collision };
                }
                State::Empty | State::Clean | State::Reading => {
                    let usable =
                        begins && (self.hits_on_written || !segment.written) && (self.keeps || segment.state == State::Reading);
                    match found {
                        Lookup::Whole(_) => {}
                        _ if usable && whole => found = Lookup::Whole(index),
                        Lookup::Miss if usable => found = Lookup::Partial(index),
                        _ => {}
                    }
                }
            }
        }
        found
    }

    /// Whether any segment overlaps `lba..end`. Without branches, because they would be unpredictable for random requests.
    fn may_hold(&self, lba: u64, end: u64) -> bool {
        self.segments.iter().fold(false, |any, segment| any | ((segment.end > lba) & (segment.start < end)))
    }

    /// Whether unwritten data overlap `lba..end`, which may not change before they are on the media.
    pub fn collides(&self, lba: u64, end: u64) -> bool {
        self.dirty > 0
            && self.may_hold(lba, end)
            && self.segments.iter().any(|s| matches!(s.state, State::Dirty | State::Writing) && s.start < end && lba < s.end)
    }

    /// A segment with unwritten data that ends at `lba` and has room up to `end`.
    pub fn appendable(&self, lba: u64, end: u64) -> Option<usize> {
        let fits = |s: &Segment| s.end == lba && matches!(s.state, State::Dirty | State::Writing) && end - s.start <= self.size;
        if self.dirty > 0 { self.segments.iter().position(fits) } else { None }
    }

    /// The segment that a read replaces: empty before clean before one with read-ahead in progress, then least recently used.
    /// `None` if all hold unwritten data.
    pub fn for_read(&self) -> Option<usize> {
        self.victim(usize::from(self.dedicated))
    }

    /// The segment that a write replaces; `None` if no further write fits.
    pub fn for_write(&self) -> Option<usize> {
        match (self.is_full_of_writes(), self.dedicated) {
            (true, _) => None,
            (false, true) => Some(0),
            (false, false) => self.victim(0),
        }
    }

    /// Whether no further write fits until one is on the media.
    pub fn is_full_of_writes(&self) -> bool {
        if self.dedicated { self.dirty > 0 } else { self.dirty >= self.write_segments }
    }

    /// Whether no further read fits until a write is on the media.
    pub fn has_no_room_for_reads(&self) -> bool {
        !self.dedicated && self.dirty as usize >= self.segments.len()
    }

    fn victim(&self, from: usize) -> Option<usize> {
        let mut best = (u64::MAX, 0);
        for (index, segment) in self.segments.iter().enumerate().skip(from) {
            // Sequence numbers stay far below 2⁶²: class and sequence number make one rank, and the search needs no branches.
            let rank = CLASSES[segment.state as usize] | segment.used;
            best = if rank < best.0 { (rank, index) } else { best };
        }
        (best.0 < u64::MAX).then_some(best.1)
    }

    /// Marks a segment as the most recently used.
    pub fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.segments[index].used = self.uses;
    }

    /// Replaces a segment's data for a read from `lba`.
    pub fn begin_read(&mut self, index: usize, lba: u64) {
        let segment = &mut self.segments[index];
        (segment.start, segment.end, segment.released) = (lba, lba, lba);
        (segment.state, segment.written) = (State::Reading, false);
        self.touch(index);
    }

    /// Whether a read that is still in memory ended at `lba`, that is the access is sequential.
    pub fn follows_on(&self, lba: u64) -> bool {
        let read = |segment: &Segment| matches!(segment.state, State::Clean | State::Reading) && !segment.written;
        self.segments.iter().any(|segment| read(segment) && segment.asked == lba)
    }

    /// Extends a segment to `end` as data are read, dropping released data and the oldest ones beyond its size.
    pub fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size)).max(segment.released.min(segment.end));
    }

    /// Ends reading into a segment.
    pub fn end_read(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.state = if self.keeps && segment.start < segment.end { State::Clean } else { State::Empty };
    }

    /// Replaces a segment's data with a write of `lba..end`. Clean segments that overlap it are dropped, unless reads may hit
    /// written data and `keeps_overlapped` is set.
    pub fn begin_write(&mut self, index: usize, lba: u64, end: u64) {
        if !(self.hits_on_written && self.keeps_overlapped) {
            for other in &mut self.segments {
                if matches!(other.state, State::Clean) && other.start < end && lba < other.end {
                    other.state = State::Empty;
                }
            }
        }
        let segment = &mut self.segments[index];
        (segment.start, segment.end, segment.released) = (lba, end, lba);
        (segment.state, segment.written) = (State::Dirty, true);
        self.dirty += 1;
        self.touch(index);
    }

    /// Marks a segment's data as written to the media.
    pub fn end_write(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.state = if self.keeps && self.hits_on_written { State::Clean } else { State::Empty };
        self.dirty -= 1;
    }
}
