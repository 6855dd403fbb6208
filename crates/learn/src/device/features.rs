//! What a request's time depends on: the request, what came before, and where the platter stands.
//!
//! ```text
//! look ─▶ a row of FEATURES, for a tree          settle ─▶ what that request leaves behind:
//!                                                          where the arms are, what was read and written, until when disks are busy
//! ```
//! The paper has size, location and the gap to the request before (III.A). These three leave most of a disk's time unexplained: where
//! the platter stands when the head arrives, what the drive has in memory, and what it still has to write. The others tell that.

use block::{Nanos, Op, Request};

use super::array::{Array, Piece};
use super::mechanics::{Access, Mechanics};

/// The names of the features, in order.
pub const FEATURES: [&str; COUNT] = [
    "operation",
    "sectors",
    "location",
    "gap_sectors",
    "after_write",
    "idle_ms",
    "waiting",
    "run_sectors",
    "ahead_sectors",
    "ahead_requests",
    "reread_requests",
    "rewritten_requests",
    "known_requests",
    "seek_cylinders",
    "wait_turns",
    "buffered_writes",
    "buffered_sectors",
    "disks",
    "transfer_ms",
    "media_ms",
    "behind_ms",
    "backlog_ms",
    "stream_ms",
];

/// How many there are.
pub const COUNT: usize = 23;

/// What each of them is, for people.
pub const MEANINGS: [&str; COUNT] = [
    "0 for a read, 1 for a write, 2 for a discard",
    "of the request",
    "where on the device, from 0 to 1",
    "from the end of the request before; below 0 backwards",
    "the request before was none that reads",
    "since the request before was done",
    "further requests in the queue",
    "that were asked for one after the other up to here, in one of the last 16 runs",
    "from the end of the nearest of these runs before it to the request",
    "since that run was asked for",
    "since one of the last 32 read where it begins",
    "since one of the last 32 wrote there",
    "since one of the last 65,536 or so did either",
    "that the arm has to cross",
    "that the platter has to turn when the head is there",
    "that may not be on the media yet; without mechanics their sectors, fading within 20 ms",
    "of these writes; without mechanics fading within 500 ms",
    "that have a part in it",
    "its sectors take at the media's rate; without mechanics, 1 ms for a thousand",
    "it takes from the media, were the disk idle",
    "it takes from the media behind what is still to be written",
    "until what was written before is on the media",
    "until a drive that has read on since that run has it",
];

/// Features that times may grow with, where mechanics are known and where not.
pub(super) const SCALES: [usize; 5] = [18, 19, 20, 21, 22];
pub(super) const SCALES_WITHOUT_MECHANICS: [usize; 1] = [18];

const RUNS: usize = 16;
const RECENT: usize = 32;
/// Pages of 4 KiB that are remembered for longer, each in one place.
const PAGES: usize = 1 << 16;
/// Which feature that is.
const KNOWN: usize = 12;
/// What stands for never.
const NEVER: f64 = 1e6;
/// On a device without mechanics writes fade in these times: a buffer of some MB is empty after the first, its erasing done after the second.
const SOON_MS: f64 = 20.0;
const LATE_MS: f64 = 500.0;
/// Nothing lasts shorter: scales are above zero.
const LEAST_MS: f64 = 1e-3;
/// No drive has more to write than this many turns' worth.
const MOST_BEHIND_TURNS: f64 = 50.0;
/// What comes sooner than the head gets there, by this factor, did not come from the media.
const TOO_SOON: f64 = 0.8;

/// Requests one after the other.
#[derive(Clone, Copy, Debug, Default)]
struct Run {
    end: u64,
    sectors: u64,
    number: u64,
    done_ns: f64,
    is_write: bool,
}

/// What was asked for.
#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    lba: u64,
    end: u64,
    is_write: bool,
    number: u64,
}

/// A disk, as far as requests have left it somewhere.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    free_ns: f64,
    cylinder: u64,
    /// Behind the last sector it was asked for, and was to read.
    end: u64,
    read_end: u64,
    /// Behind what it wrote last.
    write_end: u64,
}

/// What a request would do to a disk.
#[derive(Clone, Copy, Debug)]
struct Planned {
    piece: Piece,
    access: Access,
}

/// What requests have left behind on a device.
#[derive(Clone, Debug)]
pub(super) struct State {
    number: u64,
    done_ns: f64,
    end: u64,
    was_write: bool,
    runs: [Run; RUNS],
    recent: [Asked; RECENT],
    pages: Vec<(u32, u32)>,
    arms: Vec<Arm>,
    buffered: (f64, f64),
    pieces: Vec<Piece>,
    planned: Vec<Planned>,
    /// The request that was looked at last, and when it began.
    asked: Option<(f64, u64, u64, bool)>,
}

impl State {
    /// A device at rest. `with_pages`: whether the feature that takes the most memory is wanted.
    pub fn new(array: &Array, with_pages: bool) -> State {
        State {
            number: 0,
            done_ns: 0.0,
            end: 0,
            was_write: false,
            runs: [Run::default(); RUNS],
            recent: [Asked::default(); RECENT],
            pages: vec![(u32::MAX, 0); if with_pages { PAGES } else { 0 }],
            arms: vec![Arm::default(); array.disks],
            buffered: (0.0, 0.0),
            pieces: Vec::with_capacity(4 * array.disks),
            planned: Vec::with_capacity(4 * array.disks),
            asked: None,
        }
    }

    /// The same, but for the pages.
    pub fn without_pages(&self) -> State {
        let State { number, done_ns, end, was_write, runs, recent, buffered, .. } = *self;
        let (arms, pieces, planned) = (self.arms.clone(), self.pieces.clone(), self.planned.clone());
        State { number, done_ns, end, was_write, runs, recent, pages: Vec::new(), arms, buffered, pieces, planned, asked: None }
    }

    /// The row of a request that begins at `start`.
    pub fn look(&mut self, device: &Known, start: Nanos, request: &Request, waiting: u32) -> [f64; COUNT] {
        let start_ns = start.0 as f64;
        let (lba, sectors, is_write) = (request.lba, u64::from(request.sectors), request.op.is_write());
        self.asked = Some((start_ns, lba, sectors, is_write));
        let mut row = [0.0; COUNT];
        row[0] = match request.op {
            Op::Read => 0.0,
            Op::Write => 1.0,
            Op::Discard => 2.0,
        };
        row[1] = sectors as f64;
        row[2] = lba as f64 / device.capacity_sectors.max(1) as f64;
        row[3] = lba as f64 - self.end as f64;
        row[4] = f64::from(u8::from(self.was_write));
        row[5] = ((start_ns - self.done_ns) / 1e6).max(0.0);
        row[6] = f64::from(waiting);
        let run = self.run_before(lba, is_write);
        if let Some(run) = run {
            row[7] = run.sectors as f64;
            row[8] = (lba - run.end) as f64;
            row[9] = (self.number - run.number) as f64;
        } else {
            (row[8], row[9]) = (NEVER, NEVER);
        }
        row[10] = self.since(lba, false);
        row[11] = self.since(lba, true);
        row[12] = self.since_known(lba);
        // What waits in the queue may have begun earlier on a disk that had nothing to do.
        let asked_ns = if waiting > 0 { start_ns.min(request.arrival.0 as f64) } else { start_ns };
        self.plan(device, asked_ns, start_ns, (lba, sectors, is_write), &mut row);
        self.reckon_stream(run, start_ns, sectors, &mut row);
        row
    }

    /// The nearest of the latest runs that ends at or before this sector.
    fn run_before(&self, lba: u64, is_write: bool) -> Option<Run> {
        let ends_before = |run: &&Run| run.number > 0 && run.end <= lba && run.is_write == is_write;
        self.runs.iter().filter(ends_before).max_by_key(|run| (run.end, run.number)).copied().filter(|run| lba - run.end < 1 << 16)
    }

    fn since(&self, lba: u64, is_write: bool) -> f64 {
        let covers = |asked: &&Asked| asked.number > 0 && asked.is_write == is_write && (asked.lba..asked.end).contains(&lba);
        let last = self.recent.iter().filter(covers).map(|asked| asked.number).max();
        last.map_or(NEVER, |number| (self.number + 1 - number) as f64)
    }

    fn since_known(&self, lba: u64) -> f64 {
        let (page, slot) = page(lba);
        match self.pages.get(slot) {
            Some(&(known, number)) if known == page => (self.number as u32).wrapping_sub(number) as f64,
            _ => NEVER,
        }
    }

    /// What the request does to the disks, were it to go to the media.
    fn plan(&mut self, device: &Known, asked_ns: f64, start_ns: f64, request: (u64, u64, bool), row: &mut [f64; COUNT]) {
        let State { arms, pieces, planned, .. } = self;
        device.array.pieces(request, |lba| nearest(arms, lba), pieces);
        planned.clear();
        row[17] = pieces.iter().filter(|piece| !piece.is_first).count() as f64;
        let Some(mechanics) = &device.mechanics else {
            row[18] = request.1 as f64 / 1e3;
            let idle_ms = (start_ns - self.done_ns).max(0.0) / 1e6;
            (row[15], row[16]) = (self.buffered.0 * (-idle_ms / SOON_MS).exp(), self.buffered.1 * (-idle_ms / LATE_MS).exp());
            return;
        };
        let (mut media_ns, mut done_ns, mut busy_ns, mut read_ns) = (0.0f64, start_ns, start_ns, [asked_ns; 2]);
        // What is read first is planned first: writes come behind it.
        for is_first in [true, false] {
            for piece in pieces.iter().filter(|piece| piece.is_first == is_first) {
                let arm = &arms[piece.disk];
                let [idle_from, from] = read_ns;
                let (cylinder, lba) = (arm.cylinder, piece.lba);
                let at_once = mechanics.access(idle_from.max(asked_ns), cylinder, piece.is_write, lba, piece.sectors);
                let access = mechanics.access(from.max(arm.free_ns), cylinder, piece.is_write, lba, piece.sectors);
                if at_once.done_ns - asked_ns > media_ns {
                    media_ns = at_once.done_ns - asked_ns;
                    (row[13], row[14]) = (at_once.distance as f64, at_once.wait);
                    row[18] = (at_once.transfer_ns / 1e6).max(LEAST_MS);
                }
                done_ns = done_ns.max(access.done_ns);
                busy_ns = busy_ns.max(arm.free_ns);
                planned.push(Planned { piece: *piece, access });
            }
            if is_first {
                read_ns = [asked_ns + media_ns, done_ns];
            }
        }
        if busy_ns <= start_ns {
            self.buffered = (0.0, 0.0);
        }
        (row[15], row[16]) = self.buffered;
        row[19] = (media_ns / 1e6).max(LEAST_MS);
        row[20] = ((done_ns - start_ns) / 1e6).max(LEAST_MS);
        row[21] = ((busy_ns - start_ns) / 1e6).max(LEAST_MS);
    }

    /// A drive that goes on reading behind a run brings what comes next at the media's rate.
    fn reckon_stream(&self, run: Option<Run>, start_ns: f64, sectors: u64, row: &mut [f64; COUNT]) {
        let Some(run) = run else {
            row[22] = row[19].max(row[18]);
            return;
        };
        let a_sector_ms = row[18] / sectors.max(1) as f64;
        let since_ms = (start_ns - run.done_ns) / 1e6;
        row[22] = (row[18] + row[8] * a_sector_ms - since_ms).max(LEAST_MS);
    }

    /// The request that was looked at took so long: what that leaves behind.
    pub fn settle(&mut self, device: &Known, took_ns: f64) {
        let Some((start_ns, lba, sectors, is_write)) = self.asked.take() else { return };
        let done_ns = start_ns + took_ns;
        self.number += 1;
        self.move_arms(device, start_ns, done_ns, is_write);
        self.buffer(device, done_ns, if is_write { sectors as f64 } else { 0.0 });
        let end = lba + sectors;
        self.extend_run(lba, end, is_write, done_ns);
        self.recent[(self.number % RECENT as u64) as usize] = Asked { lba, end, is_write, number: self.number };
        let (page, slot) = page(lba);
        if let Some(place) = self.pages.get_mut(slot) {
            *place = (page, self.number as u32);
        }
        (self.done_ns, self.end, self.was_write) = (done_ns, end, is_write);
    }

    /// Counts what was written. Of a device without mechanics it is not known when that is on the media: it fades.
    fn buffer(&mut self, device: &Known, done_ns: f64, written: f64) {
        let since_ms = (done_ns - self.done_ns).max(0.0) / 1e6;
        let (soon, late) = match device.mechanics {
            Some(_) => (self.buffered.0 + f64::from(u8::from(written > 0.0)), self.buffered.1),
            None => (self.buffered.0 * (-since_ms / SOON_MS).exp() + written, self.buffered.1 * (-since_ms / LATE_MS).exp()),
        };
        self.buffered = (soon, late + written);
    }

    fn move_arms(&mut self, device: &Known, start_ns: f64, done_ns: f64, is_write: bool) {
        let Some(mechanics) = &device.mechanics else {
            for piece in &self.pieces {
                let arm = &mut self.arms[piece.disk];
                arm.end = piece.lba + piece.sectors;
                arm.read_end = if piece.is_write { arm.read_end } else { arm.end };
            }
            return;
        };
        let took_ns = done_ns - start_ns;
        for Planned { piece, access } in &self.planned {
            let arm = &mut self.arms[piece.disk];
            arm.end = piece.lba + piece.sectors;
            if piece.is_write {
                let goes_on = piece.lba == arm.write_end && arm.free_ns > start_ns;
                let media_ns = if goes_on { arm.free_ns + access.transfer_ns } else { access.done_ns };
                let most_ns = done_ns + MOST_BEHIND_TURNS * mechanics.turn_ns;
                (arm.free_ns, arm.cylinder, arm.write_end) = (media_ns.max(start_ns).min(most_ns), access.cylinder, arm.end);
                continue;
            }
            arm.read_end = arm.end;
            // What came sooner than the head could be there came from memory, and moved nothing.
            if is_write || took_ns >= TOO_SOON * access.reach_ns {
                arm.cylinder = access.cylinder;
                arm.free_ns = arm.free_ns.max(done_ns.min(access.done_ns.max(start_ns)));
            }
        }
    }

    fn extend_run(&mut self, lba: u64, end: u64, is_write: bool, done_ns: f64) {
        let number = self.number;
        let goes_on = self.runs.iter_mut().find(|run| run.number > 0 && run.is_write == is_write && run.end == lba);
        match goes_on {
            Some(run) => *run = Run { end, sectors: run.sectors + (end - lba), number, done_ns, is_write },
            None => {
                if let Some(oldest) = self.runs.iter_mut().min_by_key(|run| run.number) {
                    *oldest = Run { end, sectors: end - lba, number, done_ns, is_write };
                }
            }
        }
    }
}

/// What is known of a device beside its tree.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Known {
    pub capacity_sectors: u64,
    pub array: Array,
    pub mechanics: Option<Mechanics>,
}

/// Whether a tree that goes by these shares of influence wants pages remembered.
pub(super) fn wants_pages(influence: &[f64]) -> bool {
    influence.get(KNOWN).is_some_and(|share| *share > 0.0)
}

/// The mirror that reads, as in md: one that has just read up to there, or the nearest.
fn nearest(arms: &[Arm], lba: u64) -> usize {
    let goes_on = arms.iter().position(|arm| arm.read_end == lba || arm.end == lba);
    let by_distance = || arms.iter().enumerate().min_by_key(|(_, arm)| arm.end.abs_diff(lba)).map_or(0, |(number, _)| number);
    goes_on.unwrap_or_else(by_distance)
}

/// A page's number, and its place among those that are remembered.
fn page(lba: u64) -> (u32, usize) {
    let page = lba >> 3;
    (page as u32, (page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 48) as usize % PAGES)
}

/// About how long a request takes by itself, by its row.
pub(super) fn alone_ms(row: &[f64; COUNT]) -> f64 {
    // Without mechanics: eight sectors' worth for the command.
    if row[19] > 0.0 { row[19] } else { row[18] + 0.008 }
}
