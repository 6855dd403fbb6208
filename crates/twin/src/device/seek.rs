//! Fits seek time by distance, and rotation time, to accesses that the media served.
//!
//! Such an access takes overhead and seek time, then a rotational latency that is uniform between 0 and a revolution. Without its transfer
//! time, its time lies in a band of the height of one revolution above the seek curve. The curve is that of Ruemmler and Wilkes (An
//! introduction to disk drive modeling, IEEE Computer 27(3), 1994): a square root while the arm accelerates, then a line with the root's
//! slope. The fit maximises the posterior likelihood of the band, with usual drives as the prior. Both edges of the band count: that is
//! more precise than a mean, and robust if rotational scheduling thins out the upper part and leaves the lower edge.

/// Softness of the band's edges, as a fraction of a revolution: the curve is approximate, and overheads vary. Choice: 0.2 ms at 7,200 rpm,
/// the order of the variation of overheads; not varied.
const SOFT: f64 = 0.02;
/// Fraction of outliers: accesses that wait for something other than the media. Choice: outliers that bend the curve against seeks that do
/// not count; not varied.
pub const STRANGE: f64 = 0.05;
/// Fraction of outliers if writes were reported early: many accesses then wait for their write-back. Choice: as `STRANGE`.
pub const STRANGE_BEHIND_WRITES: f64 = 0.3;
/// Tilt without rotational scheduling, see [`Waits::new`]. Choice: nearly uniform, as some drives sort a little; not varied.
pub const SLIGHT: f64 = 0.5;
/// Tilts to try if scheduling may be rotational. Choice: factors of two, from no sorting to a queue of several requests; not varied.
pub const TILTS: [f64; 3] = [SLIGHT, 2.0, 4.0];
/// Short seek at which the curve is given, as a fraction of the stroke. Choice: nearly the next cylinder, but far enough to be sampled; not
/// varied.
const SHORT: f64 = 0.005;
/// Long seek at which the curve is given, as a fraction of the stroke. Choice: most random seeks are shorter, and their average is a third;
/// not varied.
const LONG: f64 = 0.5;
/// Prior of the times at [`SHORT`] and [`LONG`], overhead included: the median in ms, and the standard deviation of the logarithm.
/// Source: data sheets of 1990 to 2015 (`research/research/src/devices`): 0.3 to 3.5 ms to the next cylinder, 3.3 to 15 on average, 0.1 to
/// 1.1 of overhead.
const USUAL: [(f64, f64); 2] = [(2.2, 0.6), (9.5, 0.4)];
/// Where the root becomes a line, as a fraction of the stroke. Choice: each is a fit, and the curve changes little in between; not varied.
const DIVISIONS: [f64; 4] = [0.25, 0.35, 0.45, 0.6];
/// Default of [`DIVISIONS`]. Choice: the second of these; not varied.
const USUAL_DIVISION: f64 = 0.35;
/// Maximum number of samples of the grid search. Choice: the grid has 110 to 330 curves, and only its best point matters; not varied.
const MAX_GRID_SAMPLES: usize = 300;
/// Number of times that the step of the refinement from its best point is halved. Choice: to a step of 0.06%, below the errors of the
/// curve; not varied.
const HALVINGS: usize = 8;
/// Number of halvings if curves are only compared: a step of 1% or less. Choice: processor time, as all speeds and divisions are compared;
/// not varied.
const COARSE: usize = 4;

/// A seek and its time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SeekSample {
    /// Distance, as a fraction of the stroke.
    pub part: f64,
    /// Service time in ms: overhead, seek, rotational delay and transfer.
    pub ms: f64,
    /// Transfer time in ms, at the assumed rate.
    pub transfer_ms: f64,
}

/// Overhead plus seek time as a function of distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Time of a short seek (`SHORT`), in ms.
    pub short_ms: f64,
    /// Time of a long seek (`LONG`), in ms.
    pub long_ms: f64,
    /// Where the root becomes a line, as a fraction of the stroke.
    pub division: f64,
    /// Factor on the assumed transfer times.
    pub slower: f64,
}

impl Curve {
    /// The curve of a usual drive: the prior.
    pub fn usual() -> Curve {
        Curve { short_ms: USUAL[0].0, long_ms: USUAL[1].0, division: USUAL_DIVISION, slower: 1.0 }
    }

    /// Rotational latency in ms: the service time without seek and transfer.
    fn wait_ms(&self, sample: &Placed) -> f64 {
        sample.ms - self.slower * sample.transfer_ms - self.short_ms - (self.long_ms - self.short_ms) * sample.shape
    }

    /// Overhead plus seek time over this fraction of the stroke, in ms.
    pub fn ms(&self, part: f64) -> f64 {
        self.short_ms + (self.long_ms - self.short_ms) * scaled_shape(part, self.division)
    }
}

/// A square root up to `division`, then its tangent.
fn shape(part: f64, division: f64) -> f64 {
    if part < division { part.sqrt() } else { (division + part) / (2.0 * division.sqrt()) }
}

/// [`shape`] scaled to 0 at [`SHORT`] and 1 at [`LONG`].
fn scaled_shape(part: f64, division: f64) -> f64 {
    let (short, long) = (shape(SHORT, division), shape(LONG, division));
    (shape(part, division) - short) / (long - short)
}

/// Parameters of the likelihood of a curve.
#[derive(Clone, Copy, Debug)]
pub struct Band<'a> {
    /// Height of the band in ms: the rotation time.
    pub turn_ms: f64,
    /// Standard deviation of the logarithm of the transfer rate.
    pub rate_error: f64,
    /// Distribution of rotational latencies within the band.
    pub waits: &'a Waits,
}

impl Band<'_> {
    /// Log-likelihood of these latencies above the curve, in ms.
    fn likelihood(&self, left_ms: impl ExactSizeIterator<Item = f64>) -> f64 {
        let (number, a_ms) = (left_ms.len() as f64, 1.0 / self.turn_ms);
        left_ms.map(|ms| self.waits.of(ms * a_ms)).sum::<f64>() - number * self.turn_ms.ln()
    }
}

/// Log density of rotational latencies in revolutions, as a table: the search evaluates it millions of times.
#[derive(Clone, Debug)]
pub struct Waits {
    /// How much likelier a short latency is than a long one, see [`Waits::new`].
    pub tilt: f64,
    /// Values from [`FIRST`] on, [`STEPS`] per revolution; the first and last one extend beyond the table.
    table: Vec<f64>,
}

/// First value of the table, in revolutions: below it there are only outliers. Choice: several times [`SOFT`] from the edge of the band;
/// not varied.
const FIRST: f64 = -0.25;
/// Last value of the table, in revolutions. Choice: as [`FIRST`].
const LAST: f64 = 1.25;
/// Number of values of the table per revolution. Choice: a twentieth of [`SOFT`], between which values are interpolated; not varied.
const STEPS: f64 = 1_000.0;

impl Waits {
    /// `tilt`: how much likelier a short latency is than a long one, as the exponent over a revolution. With rotational scheduling, by the
    /// host or the drive, only this places the lower edge of the band at the shortest times. `strange`: the fraction of outliers,
    /// [`STRANGE`] or [`STRANGE_BEHIND_WRITES`].
    pub fn new(tilt: f64, strange: f64) -> Waits {
        let norm = tilt / (1.0 - (-tilt).exp());
        // Logistic steps at both edges.
        let step = |at: f64| 1.0 / (1.0 + (-at / (SOFT / 1.7)).exp());
        let density = |turns: f64| {
            let within = (step(turns) - step(turns - 1.0)).max(0.0);
            let tilted = if within > 0.0 { within * norm * (-tilt * turns).exp() } else { 0.0 };
            ((1.0 - strange) * tilted + strange / 8.0).ln()
        };
        let points = ((LAST - FIRST) * STEPS) as usize + 1;
        Waits { tilt, table: (0..points).map(|point| density(FIRST + point as f64 / STEPS)).collect() }
    }

    #[inline]
    fn of(&self, turns: f64) -> f64 {
        let at = ((turns - FIRST) * STEPS).clamp(0.0, (self.table.len() - 2) as f64 + 0.999);
        let point = at as usize;
        let part = at - point as f64;
        self.table[point] * (1.0 - part) + self.table[point + 1] * part
    }
}

/// A sample, with the scaled shape of the curve at its distance: 0 for [`SHORT`], 1 for [`LONG`].
#[derive(Clone, Copy)]
struct Placed {
    ms: f64,
    transfer_ms: f64,
    shape: f64,
}

fn placed(samples: &[SeekSample], division: f64) -> Vec<Placed> {
    let place =
        |&SeekSample { part, ms, transfer_ms }: &SeekSample| Placed { ms, transfer_ms, shape: scaled_shape(part, division) };
    samples.iter().map(place).collect()
}

/// The likeliest curve with this division between root and line.
pub fn fit(samples: &[SeekSample], band: Band, division: f64) -> Curve {
    fit_to(samples, band, division, HALVINGS).0
}

/// The likeliest curve after this number of halvings, and its log-likelihood.
fn fit_to(samples: &[SeekSample], band: Band, division: f64, halvings: usize) -> (Curve, f64) {
    let few = placed(&thin(samples, MAX_GRID_SAMPLES), division);
    // With short transfers the transfer rate makes no difference.
    let mean_ms = samples.iter().map(|sample| sample.transfer_ms).sum::<f64>() / samples.len().max(1) as f64;
    let starts: &[f64] = if mean_ms * band.rate_error < SOFT * band.turn_ms { &[1.0] } else { &[0.65, 1.0, 1.5] };
    let mut best = (Curve { division, ..Curve::usual() }, f64::NEG_INFINITY);
    for &slower in starts {
        for (short, long) in (0..10).flat_map(|short| (0..11).map(move |long| (short, long))) {
            let curve = Curve { short_ms: 0.3 * 1.4f64.powi(short), long_ms: 2.5 * 1.25f64.powi(long), division, slower };
            let likely = likelihood(&few, band, &curve);
            if likely > best.1 {
                best = (curve, likely);
            }
        }
    }
    let all = placed(samples, division);
    best.1 = likelihood(&all, band, &best.0);
    climb(&all, band, best, halvings)
}

/// Pattern search: takes steps that improve the likelihood, and halves the step `halvings` times.
fn climb(samples: &[Placed], band: Band, mut best: (Curve, f64), halvings: usize) -> (Curve, f64) {
    /// Directions of the pattern search: relative changes of the short and the long time, and of the transfer time. Choice: each alone,
    /// both times together, and transfer against time; not varied.
    const DIRECTIONS: [[f64; 3]; 5] = [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [1.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.0, -0.3, 1.0]];
    let mut step = 0.15;
    for _ in 0..halvings {
        for _ in 0..4 {
            let before = best.1;
            for ([short, long, slower], sign) in DIRECTIONS.iter().flat_map(|one| [(one, step), (one, -step)]) {
                let mut curve = best.0;
                curve.short_ms *= 1.0 + sign * short;
                curve.long_ms *= 1.0 + sign * long;
                curve.slower *= 1.0 + sign * slower;
                let likely = likelihood(samples, band, &curve);
                if likely > best.1 {
                    best = (curve, likely);
                }
            }
            if best.1 <= before {
                break;
            }
        }
        step /= 2.0;
    }
    best
}

/// Like [`fit`], over all divisions.
pub fn fit_shape(samples: &[SeekSample], band: Band) -> Curve {
    let fits = DIVISIONS.map(|division| fit_to(samples, band, division, COARSE));
    let best = fits.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map_or(USUAL_DIVISION, |best| best.0.division);
    fit(samples, band, best)
}

/// The likeliest of these rotation times, its tilt, and its log-likelihood margin over the next one (0 if there is none). `turns`: time in
/// ms and log prior of each. `None` without any.
pub fn turn(
    samples: &[SeekSample],
    turns: &[(f64, f64)],
    (rate_error, strange): (f64, f64),
    tilts: &[f64],
) -> Option<(f64, f64, f64)> {
    let mut judged: Vec<(f64, f64, f64)> = Vec::new();
    let waits: Vec<Waits> = tilts.iter().map(|&tilt| Waits::new(tilt, strange)).collect();
    for &(turn_ms, usual) in turns {
        let by_tilt =
            waits.iter().map(|waits| (waits.tilt, fit_to(samples, Band { turn_ms, rate_error, waits }, USUAL_DIVISION, COARSE).1));
        let (tilt, likely) = by_tilt.max_by(|a, b| a.1.total_cmp(&b.1))?;
        judged.push((turn_ms, tilt, likely + usual));
    }
    judged.sort_by(|a, b| b.2.total_cmp(&a.2));
    let best = judged.first()?;
    Some((best.0, best.1, best.2 - judged.get(1).map_or(best.2, |next| next.2)))
}

/// The likeliest offset from the curve for these samples in ms, within these bounds; about `usual` without samples.
pub fn shift(samples: &[SeekSample], band: Band, curve: &Curve, (least, most): (f64, f64), usual: f64) -> f64 {
    let steps = 60;
    let value = |step: i32| least + (most - least) * f64::from(step) / f64::from(steps);
    let samples = placed(samples, curve.division);
    let judge = |shift: f64| {
        let moved = band.likelihood(samples.iter().map(|sample| curve.wait_ms(sample) - shift));
        moved - ((shift - usual) / (most - least) * 2.0).powi(2)
    };
    let judged = (0..=steps).map(|step| (judge(value(step)), value(step)));
    judged.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(usual, |(_, shift)| shift)
}

/// At most `most` evenly spaced samples.
pub fn thin(samples: &[SeekSample], most: usize) -> Vec<SeekSample> {
    samples.iter().step_by(samples.len().div_ceil(most).max(1)).copied().collect()
}

fn likelihood(samples: &[Placed], band: Band, curve: &Curve) -> f64 {
    if curve.long_ms < 1.2 * curve.short_ms || curve.ms(0.0) < 0.05 {
        return f64::NEG_INFINITY;
    }
    let told = band.likelihood(samples.iter().map(|sample| curve.wait_ms(sample)));
    let prior = |value: f64, (usual, deviation): (f64, f64)| ((value / usual).ln() / deviation).powi(2) / 2.0;
    told - prior(curve.short_ms, USUAL[0]) - prior(curve.long_ms, USUAL[1]) - prior(curve.slower, (1.0, band.rate_error))
}
