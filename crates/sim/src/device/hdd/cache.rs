//! The drive's memory: segments, each a run of LBAs, as SCSI drives organise it.
//!
//! ```text
//! EMPTY ──read──▶ READING ──done or stopped──▶ CLEAN ──least recently used──▶ (next use)
//!   └───write───▶ DIRTY ──arm──▶ WRITING ──done──▶ CLEAN, or EMPTY if reads may not hit it
//! ```
//! A segment is a ring: what is read beyond its size pushes out its oldest sectors.

use super::layout::SectorLocation;
use super::spec::CacheSpecification;

/// State of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Nothing.
    Empty,
    /// Data that are also on the media.
    Clean,
    /// The media are being read into it.
    Reading,
    /// Data that wait for the arm.
    Dirty,
    /// Data that the arm is writing.
    Writing,
}

/// One segment.
#[derive(Clone, Copy, Debug)]
pub struct Segment {
    /// First LBA.
    pub start: u64,
    /// LBA behind the last.
    pub end: u64,
    /// State.
    pub state: State,
    /// A write filled it last.
    pub written: bool,
    /// When it was used last, as a count of uses.
    used: u64,
    /// Data before this LBA have been sent to the host, so that read-ahead may take their room.
    pub released: u64,
    /// The LBA behind the last read that it served.
    pub asked: u64,
}

/// When a request came, for the order in which the arm serves what waits.
#[derive(Clone, Copy, Debug)]
pub struct Age {
    /// Position in the order of arrival.
    pub order: u64,
    /// Its handicap, see [`super::model::HddModel::handicap`].
    pub handicap: u64,
}

/// Data waiting for the arm. Kept apart from the segments, which are searched for every request.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// Age of the write, including its wait for room.
    pub age: Age,
    /// Earliest start of the arm.
    pub ready: u64,
    /// From this LBA on they may still be on the bus, …
    pub incoming: u64,
    /// … since then.
    pub incoming_since: u64,
    /// Where they go.
    pub place: SectorLocation,
    /// Expected cost when they were reported as written.
    pub expected: u64,
}

/// Result of a lookup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// All of it in this segment.
    Whole(usize),
    /// Its beginning in this segment.
    Partial(usize),
    /// Nothing.
    Miss,
    /// Data that must reach the media first.
    Collision,
}

/// By [`State`]: base of a segment's last use in the choice of a victim. Segments with unwritten data are never chosen.
const CLASSES: [u64; 5] = [0, 1 << 62, 2 << 62, u64::MAX, u64::MAX];

/// All segments.
#[derive(Clone, Debug)]
pub struct Cache {
    /// The segments; with a dedicated write segment the first is it.
    pub segments: Box<[Segment]>,
    /// For each segment, its waiting data if it is dirty.
    pub waiting: Box<[Waiting]>,
    /// Segments that hold data not yet on the media.
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
    /// Empty segments. `keeps_overlapped`: see [`super::model::Deviations`].
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

    /// Looks up a read of `lba..end`. Data waiting for the media are the newest and take precedence.
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

    /// Whether a look at the segments' states can find anything of `lba..end`. On which side of it a segment lies is as good as
    /// random, so that a jump for each would be guessed wrongly half the time: this takes none.
    fn may_hold(&self, lba: u64, end: u64) -> bool {
        self.segments.iter().fold(false, |any, segment| any | ((segment.end > lba) & (segment.start < end)))
    }

    /// Some of `lba..end` must reach the media before it may change.
    pub fn collides(&self, lba: u64, end: u64) -> bool {
        self.dirty > 0
            && self.may_hold(lba, end)
            && self.segments.iter().any(|s| matches!(s.state, State::Dirty | State::Writing) && s.start < end && lba < s.end)
    }

    /// A write that came no later than `upto`, by the order of arrival, is not on the media.
    pub fn holds_write(&self, upto: u64) -> bool {
        let mut writes = self.segments.iter().zip(&self.waiting);
        self.dirty > 0 && writes.any(|(s, waiting)| matches!(s.state, State::Dirty | State::Writing) && waiting.age.order <= upto)
    }

    /// A waiting write that `lba..end` continues, if it has room.
    pub fn appendable(&self, lba: u64, end: u64) -> Option<usize> {
        let fits = |s: &Segment| s.end == lba && matches!(s.state, State::Dirty | State::Writing) && end - s.start <= self.size;
        if self.dirty > 0 { self.segments.iter().position(fits) } else { None }
    }

    /// The least recently used segment that a read may have: empty before clean before one that is only being read ahead.
    pub fn for_read(&self) -> Option<usize> {
        self.victim(usize::from(self.dedicated))
    }

    /// The same for a write.
    pub fn for_write(&self) -> Option<usize> {
        match (self.is_full_of_writes(), self.dedicated) {
            (true, _) => None,
            (false, true) => Some(0),
            (false, false) => self.victim(0),
        }
    }

    /// Whether no further write fits before one reaches the media.
    pub fn is_full_of_writes(&self) -> bool {
        if self.dedicated { self.dirty > 0 } else { self.dirty >= self.write_segments }
    }

    /// Whether no further read fits before a write reaches the media.
    pub fn has_no_room_for_reads(&self) -> bool {
        !self.dedicated && self.dirty as usize >= self.segments.len()
    }

    fn victim(&self, from: usize) -> Option<usize> {
        let mut best = (u64::MAX, 0);
        for (index, segment) in self.segments.iter().enumerate().skip(from) {
            // Uses stay far below 2⁶²: state and age make one number, and the search needs no jumps.
            let rank = CLASSES[segment.state as usize] | segment.used;
            best = if rank < best.0 { (rank, index) } else { best };
        }
        (best.0 < u64::MAX).then_some(best.1)
    }

    /// Notes that a segment was used just now.
    pub fn touch(&mut self, index: usize) {
        self.uses += 1;
        self.segments[index].used = self.uses;
    }

    /// Begins to read from `lba` into a segment.
    pub fn begin_read(&mut self, index: usize, lba: u64) {
        let segment = &mut self.segments[index];
        (segment.start, segment.end, segment.released) = (lba, lba, lba);
        (segment.state, segment.written) = (State::Reading, false);
        self.touch(index);
    }

    /// Whether a read that is still in memory ended at `lba`: the reader is sequential.
    pub fn follows_on(&self, lba: u64) -> bool {
        let read = |segment: &Segment| matches!(segment.state, State::Clean | State::Reading) && !segment.written;
        self.segments.iter().any(|segment| read(segment) && segment.asked == lba)
    }

    /// The media have been read up to `end`, and the host has what lies before `released`.
    pub fn grow(&mut self, index: usize, end: u64) {
        let segment = &mut self.segments[index];
        segment.end = segment.end.max(end);
        segment.start = segment.start.max(segment.end.saturating_sub(self.size)).max(segment.released.min(segment.end));
    }

    /// The media are no longer read into a segment.
    pub fn end_read(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.state = if self.keeps && segment.start < segment.end { State::Clean } else { State::Empty };
    }

    /// Takes `lba..end` of a write into a segment. Clean copies elsewhere are updated, or dropped where reads may not hit them.
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

    /// A segment's data have reached the media.
    pub fn end_write(&mut self, index: usize) {
        let segment = &mut self.segments[index];
        segment.state = if self.keeps && self.hits_on_written { State::Clean } else { State::Empty };
        self.dirty -= 1;
    }
}
