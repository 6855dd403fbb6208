//! How long the arm takes by distance, and how long a turn takes: from accesses that came from the media.
//!
//! Such an access takes overhead and seek, then waits for its sector, evenly anything up to a turn. What is left of its time when the
//! transfer is taken off lies in a band as high as a turn over the curve of seeks. The curve is that of Ruemmler and Wilkes (An
//! introduction to disk drive modeling, IEEE Computer 27(3), 1994): a root while the arm accelerates, then a line that goes on in the
//! root's direction. It is placed where the band is the likeliest, with what drives usually take as prior. Both edges of the band
//! tell: that makes it surer than a mean, and a scheduler that goes by rotation thins out the upper part and leaves the lower edge.

/// Softness of the band's edges, as a share of a turn: the curve is not quite right, overheads vary.
const SOFT: f64 = 0.02;
/// Share of accesses of which nothing is known: they wait for something else.
const STRANGE: f64 = 0.05;
/// How much likelier a short wait is than a long one, as the exponent over a turn: where a scheduler or the drive goes by rotation,
/// nothing but this says that the lower edge is at the shortest times.
const TILT: f64 = 0.5;
/// Parts of the stroke at which the curve is told: a short way and a long one.
const SHORT: f64 = 0.005;
const LONG: f64 = 0.5;
/// Times for these, with overhead, in ms, and the standard deviation of their logarithm. Data sheets of 1990 to 2015 (see the sources
/// of `laboratory`'s devices) have 0.3 to 3.5 ms to the next cylinder, 3.3 to 15 on average, 0.1 to 1.1 of overhead.
const USUAL: [(f64, f64); 2] = [(2.2, 0.6), (9.5, 0.4)];
/// Where the root becomes a line, as a part of the stroke.
const DIVISIONS: [f64; 4] = [0.25, 0.35, 0.45, 0.6];
const USUAL_DIVISION: f64 = 0.35;
/// Points that are tried first; then steps from the best, each half as long as the one before.
const FEWEST: usize = 300;
const HALVINGS: usize = 8;

/// A way of the arm, and what it took.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Way {
    /// As a part of the stroke.
    pub part: f64,
    /// Time without the transfer, in ms.
    pub ms: f64,
}

/// Overhead and seek by distance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Curve {
    /// Of a short way, in ms.
    pub short_ms: f64,
    /// Of a long one.
    pub long_ms: f64,
    /// Where the root becomes a line.
    pub division: f64,
}

impl Curve {
    /// What drives usually take.
    pub fn usual() -> Curve {
        Curve { short_ms: USUAL[0].0, long_ms: USUAL[1].0, division: USUAL_DIVISION }
    }

    /// Time of a way that is this part of the stroke, in ms.
    pub fn ms(&self, part: f64) -> f64 {
        let (short, long) = (shape(SHORT, self.division), shape(LONG, self.division));
        self.short_ms + (self.long_ms - self.short_ms) * (shape(part, self.division) - short) / (long - short)
    }
}

/// A root up to `division`, and the line that goes on from there.
fn shape(part: f64, division: f64) -> f64 {
    if part < division { part.sqrt() } else { (division + part) / (2.0 * division.sqrt()) }
}

/// The likeliest curve for turns of this length, and the logarithm of its likelihood.
pub fn fit(ways: &[Way], turn_ms: f64, divisions: &[f64]) -> (Curve, f64) {
    let few = thin(ways, FEWEST);
    let mut best = (Curve::usual(), f64::NEG_INFINITY);
    for &division in divisions {
        for short in 0..12 {
            for long in 0..14 {
                let curve = Curve { short_ms: 0.25 * 1.35f64.powi(short), long_ms: 2.5 * 1.2f64.powi(long), division };
                let likely = likelihood(&few, turn_ms, &curve);
                if likely > best.1 {
                    best = (curve, likely);
                }
            }
        }
    }
    best.1 = likelihood(ways, turn_ms, &best.0);
    let mut step = 0.15;
    for _ in 0..HALVINGS {
        for _ in 0..4 {
            let before = best.1;
            for (short, long) in [(step, 0.0), (-step, 0.0), (0.0, step), (0.0, -step), (step, step), (-step, -step)] {
                let mut curve = best.0;
                curve.short_ms *= 1.0 + short;
                curve.long_ms *= 1.0 + long;
                let likely = likelihood(ways, turn_ms, &curve);
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

/// As [`fit`], over all shapes.
pub fn fit_shape(ways: &[Way], turn_ms: f64) -> Curve {
    fit(ways, turn_ms, &DIVISIONS).0
}

/// The likeliest of these lengths of a turn, and by how much the logarithm of its likelihood exceeds the next one's.
pub fn turn(ways: &[Way], turns_ms: &[f64]) -> Option<(f64, f64)> {
    let few = thin(ways, 3 * FEWEST);
    let mut judged: Vec<(f64, f64)> = turns_ms.iter().map(|&ms| (ms, fit(&few, ms, &[USUAL_DIVISION]).1)).collect();
    judged.sort_by(|a, b| b.1.total_cmp(&a.1));
    let best = judged.first()?;
    Some((best.0, best.1 - judged.get(1).map_or(best.1, |next| next.1)))
}

/// What is added to the curve's times for these ways, within these bounds: the likeliest, 0 if there is nothing to tell.
pub fn shift(ways: &[Way], turn_ms: f64, curve: &Curve, (least, most): (f64, f64), usual: f64) -> f64 {
    let steps = 60;
    let value = |step: i32| least + (most - least) * f64::from(step) / f64::from(steps);
    let judge = |shift: f64| {
        let moved: f64 = ways.iter().map(|way| density(way.ms - curve.ms(way.part) - shift, turn_ms)).sum();
        moved - ((shift - usual) / (most - least) * 2.0).powi(2)
    };
    let judged = (0..=steps).map(|step| (judge(value(step)), value(step)));
    judged.max_by(|a, b| a.0.total_cmp(&b.0)).map_or(usual, |(_, shift)| shift)
}

/// Evenly so many of them.
pub fn thin(ways: &[Way], most: usize) -> Vec<Way> {
    ways.iter().step_by(ways.len().div_ceil(most).max(1)).copied().collect()
}

fn likelihood(ways: &[Way], turn_ms: f64, curve: &Curve) -> f64 {
    if curve.long_ms < curve.short_ms || curve.ms(0.0) < 0.05 {
        return f64::NEG_INFINITY;
    }
    let told: f64 = ways.iter().map(|way| density(way.ms - curve.ms(way.part), turn_ms)).sum();
    let prior = |value: f64, (usual, deviation): (f64, f64)| ((value / usual).ln() / deviation).powi(2) / 2.0;
    told - prior(curve.short_ms, USUAL[0]) - prior(curve.long_ms, USUAL[1])
}

/// Logarithm of the density of what is left over the curve.
fn density(left_ms: f64, turn_ms: f64) -> f64 {
    let turns = left_ms / turn_ms;
    // Logistic steps at both edges; far off them nothing needs to be computed.
    let step = |at: f64| {
        let at = at / (SOFT / 1.7);
        if at > 20.0 {
            1.0
        } else if at < -20.0 {
            0.0
        } else {
            1.0 / (1.0 + (-at).exp())
        }
    };
    let within = (step(turns) - step(turns - 1.0)).max(0.0);
    let norm = TILT / (1.0 - (-TILT).exp());
    let tilted = if within > 0.0 { within * norm * (-TILT * turns).exp() } else { 0.0 };
    ((1.0 - STRANGE) * tilted / turn_ms + STRANGE / (8.0 * turn_ms)).ln()
}
