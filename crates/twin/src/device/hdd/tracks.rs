//! Track layout: track length decreases linearly towards the inside.

use crate::device::access::Access;
use crate::device::findings::Finding;

use super::turn::{Turn, USUAL_MS};

/// Length of the innermost track relative to the outermost. Choice: within the 0.45 to 0.62 of published zone tables; the shipped profiles
/// have 0.49 to 0.69; not varied.
const INNER: f64 = 0.54;
/// Default number of surfaces: drives have had one to twenty. Choice: the middle of these on a logarithmic scale; not varied.
const USUAL_SURFACES: f64 = 5.0;
/// Ratio of tracks per surface to sectors per track, for tracks of a hundred sectors. Source: 25 (HP C2247A, 1992) to 130 (4 TB drives),
/// from capacities, rates and cylinders (`research/research/src/devices/drive.rs`).
const TRACKS_TO_SECTORS: f64 = 28.0;
/// The ratio grows with the number of sectors per track, to this power. Source: as [`TRACKS_TO_SECTORS`].
const GROWTH: f64 = 0.4;
/// Skew for a track change, in ms: head switch, settling, and a margin. Choice: between the 1.2 of `disks/sata7200.toml` and the 1.4 and
/// 1.8 of the 60GXP (`research/research/src/devices/desktop.rs`); not varied.
pub const SKEW_MS: f64 = 1.4;
/// A sequential reader that issues its next read within this time in ns keeps a drive with read-ahead streaming. Choice: above the time
/// from a completion to the next request of a process, tens of microseconds; not varied.
const SOON_NS: u64 = 300_000;
/// Minimum length of a run that shows the media rate, in sectors: a few tracks. Choice: includes some changes of track; longer ones are
/// rare; not varied.
const LONG_RUN: u64 = 2_048;
/// Below this mean size in sectors, the rate is limited by the requests and not by the media. Choice: 48 KiB take at least the usual
/// overhead of 0.25 ms on media of up to 190 MB/s; not varied.
const LARGE: f64 = 96.0;
/// Prior standard deviation of the logarithm of the rate. Choice: capacity alone predicts the rate within a factor of 1.6; not varied.
const UNKNOWN: f64 = 0.5;
/// Number of regions with separate rates. Choice: the rate falls by 6% per region; more regions have fewer runs each; not varied.
const PLACES: usize = 8;

/// Track layout.
#[derive(Clone, Debug)]
pub struct Tracks {
    capacity: f64,
    /// Transfer rate of the outermost track in sectors per ms, track changes included.
    outer: f64,
    inner: f64,
    /// Relative error of `outer`.
    error: f64,
    accesses: usize,
}

/// An observed media rate: its LBA, sectors per ms, and the sectors and accesses that it is based on.
struct Rate {
    place: u64,
    a_ms: f64,
    sectors: u64,
    accesses: usize,
    is_least: bool,
}

impl Tracks {
    /// The default layout of a disk of this capacity in sectors.
    pub fn usual(capacity: u64) -> Tracks {
        let surface = capacity as f64 / USUAL_SURFACES;
        let mean = 100.0 * (surface / (TRACKS_TO_SECTORS * 1e4)).powf(1.0 / (2.0 + GROWTH));
        let outer = mean.max(8.0) * 2.0 / (1.0 + INNER) / 1.15 / USUAL_MS;
        Tracks { capacity: capacity.max(1) as f64, outer, inner: INNER, error: UNKNOWN, accesses: 0 }
    }

    /// Fits the rate to long sequential runs.
    pub fn fit(&mut self, accesses: &[Access]) {
        let rates = rates(accesses);
        let (mut weighed, mut weight, mut counted) = (0.0, 0.0, 0);
        for rate in &rates {
            let outer = rate.a_ms / self.length(self.part(rate.place));
            if rate.is_least && outer <= self.outer {
                continue;
            }
            weighed += rate.sectors as f64 * outer;
            weight += rate.sectors as f64;
            counted += rate.accesses;
        }
        if weight > 0.0 {
            self.outer = weighed / weight;
            let off = |rate: &Rate| (rate.a_ms / self.length(self.part(rate.place)) / self.outer - 1.0).abs();
            self.error = rates.iter().map(off).fold(0.1, f64::max).min(UNKNOWN);
            self.accesses = counted;
        }
    }

    /// Uses the track length that was found with the rotation, if any: it is more precise than the rates of runs.
    pub fn fit_line(&mut self, turn: &Turn) {
        if let Some((lba, a_turn)) = turn.line {
            self.outer = a_turn / turn.ms / self.length(self.part(lba));
            self.error = 0.1;
            self.accesses = turn.accesses;
        }
    }

    /// Divides the transfer rate by this factor.
    pub fn slow(&mut self, slower: f64, accesses: usize) {
        self.outer /= slower;
        if self.accesses == 0 {
            (self.error, self.accesses) = (0.3, accesses);
        }
    }

    /// The same track lengths on a disk of another capacity, in sectors.
    pub fn resized(&self, capacity: u64) -> Tracks {
        Tracks { capacity: capacity.max(1) as f64, ..self.clone() }
    }

    /// Standard deviation of the logarithm of the rate.
    pub fn rate_error(&self) -> f64 {
        self.error
    }

    /// Length of the track at this fraction of the stroke, relative to the outermost one.
    fn length(&self, part: f64) -> f64 {
        1.0 - (1.0 - self.inner) * part
    }

    /// Position of an LBA, as a fraction of the stroke.
    pub fn part(&self, lba: u64) -> f64 {
        let steep = 1.0 - self.inner;
        let share = (lba as f64 / self.capacity).min(1.0) * (1.0 - steep / 2.0);
        (1.0 - (1.0 - 2.0 * steep * share).max(0.0).sqrt()) / steep
    }

    /// Transfer time of this number of sectors at this LBA, in ms.
    pub fn transfer_ms(&self, lba: u64, sectors: u64) -> f64 {
        sectors as f64 / (self.outer * self.length(self.part(lba)))
    }

    /// Sectors of the outermost track, and the length of the innermost one relative to it.
    pub fn outermost(&self, turn_ms: f64) -> (f64, f64) {
        (self.outer * (turn_ms + SKEW_MS), self.inner)
    }

    /// Number of surfaces, for tracks of this mean length.
    pub fn surfaces(&self, mean_sectors: f64) -> u16 {
        let tracks = TRACKS_TO_SECTORS * (mean_sectors / 100.0).powf(GROWTH) * mean_sectors;
        (self.capacity / (tracks * mean_sectors)).round().clamp(1.0, 20.0) as u16
    }

    /// The rates as findings for display.
    pub fn findings(&self) -> Vec<Finding> {
        let mb_s = |a_ms: f64| a_ms * 0.512;
        vec![
            Finding::number("rate of the outermost tracks", mb_s(self.outer), "MB/s", self.error * mb_s(self.outer), self.accesses),
            Finding::number("rate of the innermost tracks", mb_s(self.outer * self.inner), "MB/s", 0.0, 0),
        ]
    }
}

/// The fastest long sequential read run of each region.
fn rates(accesses: &[Access]) -> Vec<Rate> {
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
            place: run[0].lba,
            a_ms: sectors as f64 / took_ms.max(1e-3),
            sectors,
            accesses: run.len(),
            is_least: (sectors as f64) < LARGE * run.len() as f64,
        };
        let place = &mut fastest[(run[0].lba as usize * PLACES / end as usize).min(PLACES - 1)];
        if place.as_ref().is_none_or(|other| other.a_ms < rate.a_ms) {
            *place = Some(rate);
        }
    }
    fastest.into_iter().flatten().collect()
}
