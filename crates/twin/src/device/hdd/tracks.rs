//! How sectors lie: tracks get shorter towards the inside, evenly.

use crate::device::access::Access;
use crate::device::findings::Finding;

use super::turn::Turn;

/// The innermost track is so long as a part of the outermost: 0.45 to 0.62, by the zones that makers publish.
const INNER: f64 = 0.54;
/// Surfaces of a drive if nothing is known: one to twenty were sold.
const USUAL_SURFACES: f64 = 5.0;
/// Tracks of a surface for each sector of a track, where a track has a hundred: 25 (HP C2247A, 1992) to 130 (4 TB drives), growing
/// with their number to this power.
const TRACKS_TO_SECTORS: f64 = 28.0;
const GROWTH: f64 = 0.4;
/// What a drive allows for a change of track, in ms: head switch, settling, and some to spare.
pub const SKEW_MS: f64 = 1.4;
/// A sequential reader that asks again within so many ns keeps the media at work, if the drive reads ahead.
const SOON_NS: u64 = 300_000;
/// So many sectors in a row tell the rate of the media: a few tracks.
const LONG_RUN: u64 = 2_048;
/// Below so many sectors on average the rate is that of the requests and not of the media.
const LARGE: f64 = 96.0;
/// Places that are told apart.
const PLACES: usize = 8;

/// How sectors lie.
#[derive(Clone, Debug)]
pub struct Tracks {
    capacity: f64,
    /// Sectors that pass in a turn on the outermost track, with the skew counted as if it were sectors.
    outer: f64,
    inner: f64,
    error: f64,
    accesses: usize,
}

/// A rate that was seen: where, how many sectors in a turn, over how many sectors, of how many accesses.
struct Rate {
    place: f64,
    a_turn: f64,
    sectors: u64,
    accesses: usize,
    is_least: bool,
}

impl Tracks {
    /// What a disk of this capacity usually has.
    pub fn usual(capacity: u64) -> Tracks {
        let surface = capacity as f64 / USUAL_SURFACES;
        let mean = 100.0 * (surface / (TRACKS_TO_SECTORS * 1e4)).powf(1.0 / (2.0 + GROWTH));
        let outer = mean.max(8.0) * 2.0 / (1.0 + INNER) / 1.15;
        Tracks { capacity: capacity.max(1) as f64, outer, inner: INNER, error: 0.5, accesses: 0 }
    }

    /// Takes in the rates of long runs, and the tracks' length that came with the turn.
    pub fn fit(&mut self, accesses: &[Access], turn: &Turn) {
        let mut rates = rates(accesses, turn.ms);
        for rate in &mut rates {
            rate.place = self.part(rate.place as u64);
        }
        if let Some((lba, a_turn)) = turn.line {
            // As sure as the longest run.
            let sectors = rates.iter().map(|rate| rate.sectors).max().unwrap_or(0).max(100 * LONG_RUN);
            rates.push(Rate { place: self.part(lba), a_turn, sectors, accesses: turn.accesses, is_least: false });
        }
        let (mut weighed, mut weight, mut counted) = (0.0, 0.0, 0);
        for rate in &rates {
            let outer = rate.a_turn / self.length(rate.place);
            if rate.is_least && outer <= self.outer {
                continue;
            }
            weighed += rate.sectors as f64 * outer;
            weight += rate.sectors as f64;
            counted += rate.accesses;
        }
        if weight > 0.0 {
            self.outer = weighed / weight;
            let spread = rates.iter().map(|rate| (rate.a_turn / self.length(rate.place) / self.outer - 1.0).abs());
            self.error = spread.fold(0.1, f64::max).min(0.5);
            self.accesses = counted;
        }
    }

    /// A track's length at this part of the stroke, as a part of the outermost one's.
    fn length(&self, part: f64) -> f64 {
        1.0 - (1.0 - self.inner) * part
    }

    /// Where an LBA lies, as a part of the stroke.
    pub fn part(&self, lba: u64) -> f64 {
        let steep = 1.0 - self.inner;
        let share = (lba as f64 / self.capacity).min(1.0) * (1.0 - steep / 2.0);
        (1.0 - (1.0 - 2.0 * steep * share).max(0.0).sqrt()) / steep
    }

    /// Sectors that pass in a turn where this LBA lies, with skew.
    pub fn sectors_a_turn(&self, lba: u64) -> f64 {
        self.outer * self.length(self.part(lba))
    }

    /// The outermost track's length with nothing taken off for skew, and the innermost one's part of it.
    pub fn outermost(&self, turn_ms: f64) -> (f64, f64) {
        (self.outer * (1.0 + SKEW_MS / turn_ms), self.inner)
    }

    /// Surfaces, for tracks of this length.
    pub fn surfaces(&self, mean_sectors: f64) -> u16 {
        let tracks = TRACKS_TO_SECTORS * (mean_sectors / 100.0).powf(GROWTH) * mean_sectors;
        (self.capacity / (tracks * mean_sectors)).round().clamp(1.0, 20.0) as u16
    }

    /// As people want it.
    pub fn findings(&self, turn: &Turn) -> Vec<Finding> {
        let mb_s = |a_turn: f64| a_turn * 512.0 / turn.ms / 1e3;
        vec![
            Finding::number("rate of the outermost tracks", mb_s(self.outer), "MB/s", self.error * mb_s(self.outer), self.accesses),
            Finding::number("rate of the innermost tracks", mb_s(self.outer * self.inner), "MB/s", 0.0, 0),
        ]
    }
}

/// Of each place, the fastest long run of reads.
fn rates(accesses: &[Access], turn_ms: f64) -> Vec<Rate> {
    let end = accesses.iter().map(Access::end).max().unwrap_or(1).max(1);
    let mut fastest: [Option<Rate>; PLACES] = [const { None }; PLACES];
    let mut begin = 0;
    for index in 1..=accesses.len() {
        let goes_on = accesses.get(index).is_some_and(|access| {
            !access.write && access.follows == Some(1) && access.dispatched <= accesses[index - 1].completed + SOON_NS
        });
        if goes_on {
            continue;
        }
        let run = &accesses[begin..index];
        begin = index;
        let sectors: u64 = run.iter().skip(1).map(|access| access.sectors).sum();
        if sectors < LONG_RUN {
            continue;
        }
        let took_ms = (run[run.len() - 1].completed - run[0].completed) as f64 / 1e6;
        let rate = Rate {
            place: run[0].lba as f64,
            a_turn: sectors as f64 * turn_ms / took_ms.max(1e-3),
            sectors,
            accesses: run.len(),
            is_least: (sectors as f64) < LARGE * run.len() as f64,
        };
        let place = &mut fastest[(run[0].lba as usize * PLACES / end as usize).min(PLACES - 1)];
        if place.as_ref().is_none_or(|other| other.a_turn < rate.a_turn) {
            *place = Some(rate);
        }
    }
    fastest.into_iter().flatten().collect()
}
