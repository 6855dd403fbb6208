//! Infers the angle of the platter from completion times alone.
//!
//! A request served from the media completes when its last sector has passed under the head. So the completion times of two requests
//! differ by whole revolutions and by the angle between their last sectors, and between sectors of neighbouring tracks the angle grows
//! linearly with the distance: 1/L revolutions per sector, if a track and its skew take the time of L sectors. Both unknowns, the time
//! of a revolution T and the angle per sector f, are found like a spectral line. Over pairs of requests, with dt the time and d the
//! sectors between their ends,
//!
//! ```text
//! C(f) = sum exp(2 pi i (dt / T - f d))          is large only at the right T and f
//! ```
//! One Fourier transform over d gives C for all f. While T is unknown this is done for every possible speed, in steps so
//! fine that the phase error of each pair is at most `SLIP`. Distances are irregular: they are spread over a coarse grid by a smooth kernel,
//! whose own transform is divided out again (Dutt and Rokhlin, Fast Fourier transforms for nonequispaced data, SIAM J. Sci. Comput. 14(6),
//! 1993; the kernel is that of Barnett, Magland and af Klinteberg, SIAM J. Sci. Comput. 41(5), 2019). Only angles of existing track
//! lengths matter, so half of the shortest track is a sufficient resolution of the grid.
//!
//! That a host can know the position of the head was shown with measured geometry by Lumb, Schindler and Ganger (Freeblock
//! scheduling outside of disk firmware, FAST 2002) and by Yu and others (Trading capacity for performance in a disk array, OSDI
//! 2000), with a table over distances by Popovici and others (Robust, portable I/O scheduling with the Disk Mimic, USENIX 2003,
//! which the paper cites as \[4]). Finding it as a spectral line in everyday traffic, without any test of the drive, is new here.

use std::f64::consts::TAU;
use std::sync::OnceLock;

use crate::fourier::{Complex, Transform};

/// Revolutions per second of the slowest drives: 3,600 rpm, minus a tolerance.
const SLOWEST: f64 = 59.5;
/// Revolutions per second of the fastest drives: 15,000 rpm, plus a tolerance.
pub const FASTEST: f64 = 255.0;
/// Maximum time between the ends of a pair while the speed is unknown, in nanoseconds: the number of speeds to try grows with it.
const NEAR_NS: f64 = 0.8e9;
/// The same when it is known: the time of a revolution is then accurate to 1 in 10,000, an error of half a revolution in this time.
const FAR_NS: f64 = 60e9;
/// Maximum phase error of a pair at the nearest speed tried, in revolutions; the pair still agrees by more than half.
const SLIP: f64 = 0.15;
/// Maximum distance between the ends of a pair in sectors. The grid is twice as long, so that no line falls between two of its values.
const APART: u64 = 1 << 15;
/// Minimum and maximum track length in sectors, including skew: from drives of 1990 to current ones with 2 MB per track, doubled.
const TRACK: (f64, f64) = (64.0, 8_000.0);
/// Revolutions per sector in the middle of the range of angles searched.
const MIDDLE: f64 = 0.5 / TRACK.0;
/// Distance of grid points in sectors: half the distance required by angles up to `MIDDLE` from the middle.
const GRID: f64 = TRACK.0 / 2.0;
/// Number of grid points.
const LENGTH: usize = 2 * APART as usize / GRID as usize;
/// Distance of the transform's values, in revolutions per sector.
const RESOLUTION: f64 = 1.0 / (LENGTH as f64 * GRID);
/// Number of grid points over which a distance is spread; the error is below one in a thousand.
const TAPS: usize = 4;
/// Minimum number of pairs for a line.
pub const MIN_PAIRS: usize = 40;
/// Maximum number of pairs: noise falls with their square root, to 2.6%.
const MAX_PAIRS: usize = 1_500;
/// Minimum agreement of the pairs; and its minimum excess over chance, in standard deviations: among the
/// 500,000 values of a search, one in a thousand searches has such a large one by chance.
const AGREEMENT: f64 = 0.3;
const DEVIATIONS: f64 = 6.0;
/// Among lines of similar strength the lowest speed and the longest track are chosen, as multiples of either agree as well. A line
/// is of similar strength at this fraction of the strongest one's power; another speed rules a line out unless it agrees clearly less.
const NEARLY: f64 = 0.9;
const CLEARLY: f64 = 0.6;

/// The end of a request that was served from the media.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The sector after its last one.
    pub lba: u64,
    /// Completion time in nanoseconds.
    pub at_ns: f64,
}

/// The speed of the platter and the length of tracks in a region.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Line {
    /// Time of a revolution.
    pub turn_ns: f64,
    /// Revolutions per sector.
    pub per_sector: f64,
    /// Agreement of the pairs: 1 for perfect, 0 as by chance.
    pub agreement: f64,
}

/// Finds lines. Reuses its tables, so that searches do not allocate.
pub struct Finder {
    transform: Transform,
    bins: Vec<Complex>,
    /// Attenuation of each value by the kernel, from the lowest angle.
    sharpness: &'static [f64],
    /// Distance in sectors, and time between the ends.
    pairs: Vec<(f64, f64)>,
    spread: Vec<Spread>,
}

/// A pair on the grid.
struct Spread {
    /// The first grid point.
    first: usize,
    weights: [f64; TAPS],
    /// Its phase, and the increment of the phase per step of the speed.
    angle: Complex,
    step: Complex,
}

/// The kernel, as a function of the position relative to half its width.
fn kernel(part: f64) -> f64 {
    (2.3 * TAPS as f64 * ((1.0 - part * part).max(0.0).sqrt() - 1.0)).exp()
}

/// The kernel's transform at this many revolutions per grid point.
fn of_kernel(turns: f64) -> f64 {
    let (half, steps) = (TAPS as f64 / 2.0, 200);
    let value = |step: i32| {
        let part = f64::from(step) / f64::from(steps);
        kernel(part) * (TAU * turns * part * half).cos()
    };
    half / f64::from(steps) * (1 - steps..steps).map(value).sum::<f64>()
}

impl Default for Finder {
    fn default() -> Finder {
        Finder::new()
    }
}

impl Finder {
    /// A finder with precomputed tables. The largest is computed once: it takes as long as a quarter of a search.
    pub fn new() -> Finder {
        static SHARPNESS: OnceLock<Vec<f64>> = OnceLock::new();
        let sharpness = || (0..=LENGTH / 2).map(|bin| of_kernel((bin as f64 * RESOLUTION - MIDDLE) * GRID)).collect();
        Finder {
            bins: vec![Complex::ZERO; LENGTH],
            transform: Transform::new(LENGTH),
            sharpness: SHARPNESS.get_or_init(sharpness),
            pairs: Vec::new(),
            spread: Vec::new(),
        }
    }

    /// The line in these ends; `turn_ns` is the time of a revolution if known. `None` if there is no line, or too few pairs to
    /// detect it.
    pub fn find(&mut self, ends: &[End], turn_ns: Option<f64>) -> Option<Line> {
        self.pair(ends, APART, if turn_ns.is_some() { FAR_NS } else { NEAR_NS });
        if self.pairs.len() < MIN_PAIRS {
            return None;
        }
        let best = match turn_ns {
            Some(turn_ns) => {
                self.spread(1e9 / turn_ns, 0.0);
                self.strongest(turn_ns)
            }
            None => self.strongest_of_all()?,
        };
        let by_chance = (2.0 * self.pairs.len() as f64).sqrt().recip();
        let is_line = best.agreement >= AGREEMENT.max(DEVIATIONS * by_chance);
        is_line.then(|| self.sharpen(ends, best, turn_ns.is_none()))
    }

    /// The strongest line at any speed; `None` if other speeds agree almost as well, as for a sequential stream, which agrees with all.
    fn strongest_of_all(&mut self) -> Option<Line> {
        let step = 2.0 * SLIP / (NEAR_NS / 1e9);
        let speeds = (0..).map(|number| SLOWEST + step * f64::from(number)).take_while(|&speed| speed < FASTEST);
        self.spread(SLOWEST, step);
        let of_each: Vec<(f64, Line)> = speeds.map(|speed| (speed, self.strongest(1e9 / speed))).collect();
        let strongest = of_each.iter().max_by(|a, b| a.1.agreement.total_cmp(&b.1.agreement))?;
        // Two or three times the speed agrees as well: prefer the lowest.
        let same = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
        let is_part = |&&(speed, line): &&(f64, Line)| {
            line.agreement >= NEARLY * strongest.1.agreement
                && [2.0, 3.0, 4.0].iter().any(|&times| same(times * speed, strongest.0))
        };
        let best = of_each.iter().filter(is_part).max_by(|a, b| a.1.agreement.total_cmp(&b.1.agreement)).unwrap_or(strongest);
        // The resolution of speeds depends on the time span of the pairs.
        let span_s = self.pairs.iter().fold(0.0, |most, &(_, between)| f64::max(most, between.abs())) / 1e9;
        let is_another = |&&(speed, _): &&(f64, Line)| {
            let times = (speed / best.0).round();
            (speed - times.max(1.0) * best.0).abs() > f64::min(2.0 * times.max(1.0) / span_s, 0.1 * speed)
        };
        let second = of_each.iter().filter(is_another).map(|(_, line)| line.agreement).fold(0.0, f64::max);
        (second < CLEARLY * best.1.agreement).then_some(best.1)
    }

    /// Collects pairs that are close enough in place and time, at most [`MAX_PAIRS`], sampled evenly.
    fn pair(&mut self, ends: &[End], far: u64, far_ns: f64) {
        self.pairs.clear();
        for (i, a) in ends.iter().enumerate() {
            for b in &ends[..i] {
                let distance = a.lba.abs_diff(b.lba);
                if distance == 0 || distance > far || (a.at_ns - b.at_ns).abs() > far_ns {
                    continue;
                }
                let between = if a.lba > b.lba { a.at_ns - b.at_ns } else { b.at_ns - a.at_ns };
                self.pairs.push((distance as f64, between));
            }
        }
        let step = self.pairs.len().div_ceil(MAX_PAIRS).max(1);
        let mut number = 0;
        self.pairs.retain(|_| {
            number += 1;
            (number - 1) % step == 0
        });
    }

    /// Spreads the pairs over the grid, with their phases at this speed in revolutions per second, to be advanced in such steps.
    fn spread(&mut self, speed: f64, step: f64) {
        let polar = |turns: f64| Complex::unit(TAU * turns.fract());
        let spread = |&(distance, between): &(f64, f64)| {
            let place = distance / GRID;
            let first = place - TAPS as f64 / 2.0;
            let weight = |tap: usize| kernel((first.ceil() + tap as f64 - place) / (TAPS as f64 / 2.0));
            Spread {
                first: (first.ceil() + LENGTH as f64) as usize % LENGTH,
                weights: std::array::from_fn(weight),
                angle: polar(between / 1e9 * speed - MIDDLE * distance),
                step: polar(between / 1e9 * step),
            }
        };
        self.spread.clear();
        self.spread.extend(self.pairs.iter().map(spread));
    }

    /// The strongest line for this time of a revolution, to which the phases must correspond; advances them to the next speed.
    fn strongest(&mut self, turn_ns: f64) -> Line {
        self.bins.fill(Complex::ZERO);
        for pair in &mut self.spread {
            for (tap, weight) in pair.weights.iter().enumerate() {
                self.bins[(pair.first + tap) % LENGTH] += pair.angle * *weight;
            }
            pair.angle *= pair.step;
        }
        self.transform.forward(&mut self.bins);
        // Reorder from angle 0, and divide by the kernel's attenuation.
        self.bins.rotate_right(LENGTH / 4);
        self.bins.iter_mut().zip(self.sharpness).for_each(|(bin, sharpness)| *bin = *bin * sharpness.recip());
        let (highest, lowest) = ((1.0 / TRACK.0 / RESOLUTION) as usize, (1.0 / TRACK.1 / RESOLUTION) as usize);
        let strongest = (lowest..highest)
            .max_by(|&a, &b| self.bins[a].norm_squared().total_cmp(&self.bins[b].norm_squared()))
            .unwrap_or(lowest);
        // If all requests begin at multiples of a large size, other angles agree as well: prefer the longest track.
        let nearly = NEARLY * self.bins[strongest].norm_squared();
        let mut bin = (lowest..strongest).find(|&bin| self.bins[bin].norm_squared() >= nearly).unwrap_or(strongest);
        while bin < strongest && self.bins[bin + 1].norm_squared() > self.bins[bin].norm_squared() {
            bin += 1;
        }
        let agreement = self.bins[bin].norm() / self.pairs.len().max(1) as f64;
        Line { turn_ns, per_sector: bin as f64 * RESOLUTION, agreement }
    }

    /// Mean agreement of the pairs with a line.
    fn agreement(&self, turn_ns: f64, per_sector: f64) -> f64 {
        let agree = |&(distance, between): &(f64, f64)| (TAU * (between / turn_ns - per_sector * distance)).cos();
        self.pairs.iter().map(agree).sum::<f64>() / self.pairs.len().max(1) as f64
    }

    /// Refines a line with pairs of growing distance, and also of growing time if the time of a revolution is new.
    fn sharpen(&mut self, ends: &[End], line: Line, in_time: bool) -> Line {
        let mut line = line;
        let mut width = 2.0 * RESOLUTION;
        let mut turn_width = 2.0 * SLIP * line.turn_ns * line.turn_ns / NEAR_NS;
        let mut far_ns = if in_time { NEAR_NS } else { FAR_NS };
        for octave in 0..3 {
            self.pair(ends, APART << (2 * octave), far_ns);
            if self.pairs.len() < MIN_PAIRS {
                break;
            }
            for _ in 0..2 {
                if in_time {
                    line.turn_ns =
                        self.best(line.turn_ns, turn_width, |finder, turn_ns| finder.agreement(turn_ns, line.per_sector));
                }
                line.per_sector = self.best(line.per_sector, width, |finder, f| finder.agreement(line.turn_ns, f));
                // Four steps of the next level equal one of this.
                (width, turn_width) = (width / 3.0, turn_width / 3.0);
            }
            let agreement = self.agreement(line.turn_ns, line.per_sector);
            if octave == 0 {
                line.agreement = agreement;
            }
            far_ns *= 3.0;
        }
        line
    }

    /// The value within `width` of `middle` with the highest `judge`.
    fn best(&self, middle: f64, width: f64, judge: impl Fn(&Finder, f64) -> f64) -> f64 {
        let steps = 12;
        let values = (-steps..=steps).map(|step| middle + width * f64::from(step) / f64::from(steps));
        let judged = values.map(|value| (judge(self, value), value));
        judged.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(middle, |(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Ends of requests on a disk with `sectors` per track and a skew in revolutions, at random positions within `span` sectors.
    fn ends(rpm: f64, sectors: f64, skew: f64, span: u64, count: usize, jitter_ns: f64) -> Vec<End> {
        ends_at_multiples(8, rpm, sectors, skew, span, count, jitter_ns)
    }

    fn ends_at_multiples(of: u64, rpm: f64, sectors: f64, skew: f64, span: u64, count: usize, jitter_ns: f64) -> Vec<End> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let turn_ns = 60e9 / rpm;
        let mut now = 0.0;
        (0..count)
            .map(|_| {
                let lba = random.random_range(0..span / of) * of;
                let track = (lba as f64 / sectors).floor();
                let angle = (lba as f64 / sectors + track * skew).fract();
                now += random.random_range(1e6..6e6);
                let turns: f64 = (now / turn_ns - angle).ceil();
                now = (turns + angle) * turn_ns;
                End { lba, at_ns: now + random.random_range(0.0..=jitter_ns) }
            })
            .collect()
    }

    #[test]
    fn the_speed_and_the_tracks_length_are_found_in_the_times_of_random_requests() {
        for (rpm, sectors, skew) in [
            (7_200.0, 3_290.0, 0.145),
            (10_025.0, 334.0, 0.12),
            (5_404.0, 1_100.0, 0.2),
            (15_000.0, 900.0, 0.1),
            (3_600.0, 120.0, 0.2),
            (4_316.0, 300.0, 0.1),
            (13_130.0, 600.0, 0.15),
        ] {
            let ends = ends(rpm, sectors, skew, 400_000, 300, 50_000.0);
            let line = Finder::new().find(&ends, None).expect("a line");
            assert!((line.turn_ns / (60e9 / rpm) - 1.0).abs() < 1e-4, "{rpm}: {line:?}");
            let expected = (1.0 + skew) / sectors;
            assert!((line.per_sector / expected - 1.0).abs() < 2e-3, "{rpm}: {line:?}, expected {expected}");
        }
    }

    #[test]
    fn the_longest_track_is_found_among_indistinguishable_ones() {
        let aligned = ends_at_multiples(1_024, 7_200.0, 2_500.0, 0.145, 2_000_000, 200, 50_000.0);
        let line = Finder::new().find(&aligned, None).expect("a line");
        let expected = 1.145 / 2_500.0;
        assert!((line.per_sector / expected - 1.0).abs() < 2e-3, "{line:?}, expected {expected}");
    }

    #[test]
    fn the_transform_gives_the_sum_over_all_pairs() {
        let mut finder = Finder::new();
        finder.pair(&ends(7_200.0, 500.0, 0.1, 60_000, 60, 100_000.0), APART, NEAR_NS);
        let (speed, step) = (100.0, 0.375);
        finder.spread(speed, step);
        for number in 0..3 {
            let speed = speed + step * f64::from(number);
            finder.strongest(1e9 / speed);
            for bin in [8, 131, 512, 1_000, 1_023] {
                let turns = |&(distance, between): &(f64, f64)| between / 1e9 * speed - bin as f64 * RESOLUTION * distance;
                let sum: Complex = finder.pairs.iter().map(|pair| Complex::unit(TAU * turns(pair))).sum();
                let off = (finder.bins[bin].norm() - sum.norm()).abs() / finder.pairs.len() as f64;
                assert!(off < 1e-3, "{bin} at {speed}: {} and not {}", finder.bins[bin].norm(), sum.norm());
            }
        }
    }

    #[test]
    fn no_line_is_found_without_a_platter() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..5 {
            let mut now = 0.0;
            let ends: Vec<End> = (0..400)
                .map(|_| {
                    now += random.random_range(50e3..400e3);
                    End { lba: random.random_range(0..50_000) * 8, at_ns: now }
                })
                .collect();
            assert_eq!(Finder::new().find(&ends, None), None);
        }
    }

    #[test]
    fn little_or_strange_input_finds_nothing_and_does_no_harm() {
        let mut finder = Finder::new();
        assert_eq!(finder.find(&[], None), None);
        let same = vec![End { lba: 8, at_ns: 1.0 }; 300];
        assert_eq!(finder.find(&same, None), None);
        let wide: Vec<End> = (0..300).map(|i| End { lba: u64::MAX - i * 8, at_ns: 1e18 + i as f64 }).collect();
        let _ = finder.find(&wide, None);
    }
}
