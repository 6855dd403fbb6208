//! Positions of a device's arms, and the movements that a request needs.
//!
//! ```text
//! nothing waits:   start ── reach ── turn ── transfer         from where the arm was left; the angle is known
//! several wait:    … ▪ ▪──▶▪ …                                from the nearest of the waiting sectors below, as in a sweep;
//!                          this                               the platter then stands anywhere: half a turn
//! ```

use super::array::{Array, Piece};
use super::mechanics::{Access, Mechanics};

/// Maximum write backlog of a drive, in revolutions.
const MOST_BEHIND_TURNS: f64 = 50.0;
/// A request that completes sooner than the head can arrive, by this factor, did not reach the media.
const TOO_SOON: f64 = 0.8;
/// Number of recent request pieces remembered per disk; at least as many as are usually queued there.
const STOPS: usize = 32;

/// Flag in the rank of stops below a sector; larger than any sector number.
const BELOW: u64 = 1 << 63;

/// A position of a past or planned request on a disk.
#[derive(Clone, Copy, Debug, Default)]
struct Stop {
    end: u64,
    cylinder: u64,
    /// The number of the request; 0 if unused.
    number: u64,
}

/// State of a disk after the requests so far.
#[derive(Clone, Copy, Debug, Default)]
struct Arm {
    free_ns: f64,
    cylinder: u64,
    /// The ends of the last request and of the last read.
    end: u64,
    read_end: u64,
    /// The end of the last write.
    write_end: u64,
    stops: [Stop; STOPS],
    next_stop: usize,
}

/// Effect of a request on a disk.
#[derive(Clone, Copy, Debug)]
struct Planned {
    piece: Piece,
    access: Access,
}

/// All arms of a device.
#[derive(Clone, Debug)]
pub(super) struct Arms {
    arms: Vec<Arm>,
    pieces: Vec<Piece>,
    planned: Vec<Planned>,
    /// The request that was planned in sorted order.
    sorted: Option<u64>,
}

/// Timing of a request on the media, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Plan {
    /// Number of disks involved.
    pub parts: usize,
    /// For the slowest disk if all are idle: seek distance in cylinders, rotational latency in revolutions, transfer time, total.
    pub distance: u64,
    pub wait: f64,
    pub transfer_ns: f64,
    pub media_ns: f64,
    /// Completion behind the drive's write backlog, and the end of that backlog.
    pub done_ns: f64,
    pub busy_ns: f64,
    /// Total work of all disks divided by their number: the cost on a device whose disks are all busy.
    pub even_ns: f64,
}

impl Arms {
    /// Arms at the first sector.
    pub(super) fn at_rest(array: &Array) -> Arms {
        Arms {
            arms: vec![Arm::default(); array.disks],
            pieces: Vec::with_capacity(4 * array.disks),
            planned: Vec::with_capacity(4 * array.disks),
            sorted: None,
        }
    }

    /// Splits a request over the disks, and returns the number of parts.
    pub(super) fn split(&mut self, array: &Array, request: (u64, u64, bool)) -> usize {
        let Arms { arms, pieces, planned, .. } = self;
        array.pieces(request, |lba| nearest(arms, lba), pieces);
        planned.clear();
        pieces.iter().filter(|piece| !piece.is_first).count()
    }

    /// Plans a request that starts now, from the current positions of the arms.
    pub(super) fn plan(&mut self, array: &Array, mechanics: &Mechanics, start_ns: f64, request: (u64, u64, bool)) -> Plan {
        let mut plan = Plan { parts: self.split(array, request), done_ns: start_ns, busy_ns: start_ns, ..Plan::default() };
        let Arms { arms, pieces, planned, sorted } = self;
        *sorted = None;
        let mut read_ns = [start_ns; 2];
        // Reads for a parity are planned first, as the writes follow them.
        for is_first in [true, false] {
            for piece in pieces.iter().filter(|piece| piece.is_first == is_first) {
                let arm = &arms[piece.disk];
                let [idle_from, from] = read_ns;
                let (cylinder, lba) = (arm.cylinder, piece.lba);
                let at_once = mechanics.access(idle_from, cylinder, piece.is_write, lba, piece.sectors);
                let behind_ns = from.max(arm.free_ns);
                let access = match behind_ns > idle_from {
                    true => mechanics.access(behind_ns, cylinder, piece.is_write, lba, piece.sectors),
                    false => at_once,
                };
                plan.even_ns += at_once.done_ns - idle_from;
                if at_once.done_ns - start_ns > plan.media_ns {
                    plan.media_ns = at_once.done_ns - start_ns;
                    (plan.distance, plan.wait, plan.transfer_ns) = (at_once.distance, at_once.wait, at_once.transfer_ns);
                }
                plan.done_ns = plan.done_ns.max(access.done_ns);
                plan.busy_ns = plan.busy_ns.max(arm.free_ns);
                planned.push(Planned { piece: *piece, access });
            }
            if is_first {
                read_ns = [start_ns + plan.media_ns, plan.done_ns];
            }
        }
        plan.even_ns /= arms.len() as f64;
        plan
    }

    /// Plans one of several queued requests that are served in the order of their sectors.
    pub(super) fn plan_sorted(
        &mut self,
        array: &Array,
        mechanics: &Mechanics,
        (number, start_ns): (u64, f64),
        request: (u64, u64, bool),
        waiting: u32,
    ) -> Plan {
        let mut plan = Plan { parts: self.split(array, request), done_ns: start_ns, busy_ns: start_ns, ..Plan::default() };
        let Arms { arms, pieces, planned, sorted } = self;
        *sorted = Some(number + 1);
        let oldest = (number + 1).saturating_sub(u64::from(waiting)).max(1);
        for piece in pieces.iter() {
            let (cylinder, goes_on) = arms[piece.disk].below(piece.lba, oldest);
            let access = mechanics.access_from(cylinder, goes_on, piece.is_write, piece.lba, piece.sectors);
            plan.even_ns += access.done_ns;
            if access.done_ns > plan.media_ns {
                plan.media_ns = access.done_ns;
                (plan.distance, plan.wait, plan.transfer_ns) = (access.distance, access.wait, access.transfer_ns);
            }
            planned.push(Planned { piece: *piece, access });
        }
        plan.even_ns /= arms.len() as f64;
        // The write backlog is among the queued requests.
        plan.done_ns = start_ns + plan.media_ns;
        plan
    }

    /// Moves the arms to where the planned request, completed at `done_ns`, left them.
    pub(super) fn settle(&mut self, mechanics: Option<&Mechanics>, start_ns: f64, done_ns: f64, is_write: bool) {
        let Some(mechanics) = mechanics else {
            for piece in &self.pieces {
                self.arms[piece.disk].ask(piece);
            }
            return;
        };
        let took_ns = done_ns - start_ns;
        for Planned { piece, access } in &self.planned {
            let arm = &mut self.arms[piece.disk];
            if let Some(number) = self.sorted {
                arm.stop(piece, access.cylinder, number);
                (arm.cylinder, arm.free_ns) = (access.cylinder, done_ns);
                arm.ask(piece);
                continue;
            }
            let write_end = arm.write_end;
            arm.ask(piece);
            if piece.is_write {
                let goes_on = piece.lba == write_end && arm.free_ns > start_ns;
                let media_ns = if goes_on { arm.free_ns + access.transfer_ns } else { access.done_ns };
                let most_ns = done_ns + MOST_BEHIND_TURNS * mechanics.turn_ns;
                (arm.free_ns, arm.cylinder) = (media_ns.max(start_ns).min(most_ns), access.cylinder);
                continue;
            }
            // It completed before the head could arrive, so it was served from memory and moved no arm.
            if is_write || took_ns >= TOO_SOON * access.reach_ns {
                arm.cylinder = access.cylinder;
                arm.free_ns = arm.free_ns.max(done_ns.min(access.done_ns.max(start_ns)));
            }
        }
    }
}

impl Arm {
    fn ask(&mut self, piece: &Piece) {
        self.end = piece.lba + piece.sectors;
        match piece.is_write {
            true => self.write_end = self.end,
            false => self.read_end = self.end,
        }
    }

    fn stop(&mut self, piece: &Piece, cylinder: u64, number: u64) {
        self.stops[self.next_stop] = Stop { end: piece.lba + piece.sectors, cylinder, number };
        self.next_stop = (self.next_stop + 1) % STOPS;
    }

    /// The cylinder from which the arm reaches a sector when requests are served in the order of their sectors, and whether the sector before was
    /// requested. Requests with numbers below `oldest` are not queued any more.
    fn below(&self, lba: u64, oldest: u64) -> (u64, bool) {
        let (mut best, mut before) = (0, None);
        for stop in &self.stops {
            // The order wraps around: stops that end below the sector come before those that do not.
            let rank = if stop.end <= lba { stop.end | BELOW } else { stop.end };
            if stop.number >= oldest && rank > best {
                (best, before) = (rank, Some(stop));
            }
        }
        before.map_or((self.cylinder, self.end == lba), |stop| (stop.cylinder, stop.end == lba))
    }
}

/// Index of the mirror that reads, as in md: one that has just read up to that sector, or the nearest.
fn nearest(arms: &[Arm], lba: u64) -> usize {
    let goes_on = arms.iter().position(|arm| arm.read_end == lba || arm.end == lba);
    let by_distance = || arms.iter().enumerate().min_by_key(|(_, arm)| arm.end.abs_diff(lba)).map_or(0, |(number, _)| number);
    goes_on.unwrap_or_else(by_distance)
}
