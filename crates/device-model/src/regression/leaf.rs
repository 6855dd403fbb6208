//! Prediction of a leaf: a constant, or a line over one of the scales.

use statistics::Rank;

use super::Leaf;
use super::examples::Examples;

/// Maximum factor by which a leaf is corrected to the sum of its rows: more would be a line that does not fit.
const MOST_CORRECTED: f64 = 64.0;

/// A candidate for a leaf's line, with its loss.
#[derive(Clone, Copy, Debug)]
struct Line {
    base: f64,
    slope: f64,
    feature: u32,
    /// Squared relative errors, with a penalty for the number of parameters.
    loss: f64,
}

/// Targets below this share of a leaf's mean are weighted as if near it: a row near zero must not outweigh all others.
const FLOOR: f64 = 0.2;

/// Sums over rows, weighted by about the inverse square of the target.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    weight: f64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
    rows: f64,
}

impl Sums {
    fn add(&mut self, x: f64, y: f64, floor: f64) {
        let weight = 1.0 / (y * y + floor * floor);
        self.weight += weight;
        self.x += weight * x;
        self.y += weight * y;
        self.xx += weight * x * x;
        self.xy += weight * x * y;
        self.yy += weight * y * y;
        self.rows += 1.0;
    }

    /// Squared relative errors of a line.
    fn squares(&self, base: f64, slope: f64) -> f64 {
        // For each row: (base + slope x - y)^2 times its weight.
        let squares = base * base * self.weight + slope * slope * self.xx + self.yy + 2.0 * base * slope * self.x
            - 2.0 * base * self.y
            - 2.0 * slope * self.xy;
        squares.max(0.0)
    }

    fn line(&self, base: f64, slope: f64, feature: u32, parameters: f64) -> Option<Line> {
        // Generalised cross-validation.
        let left = 1.0 - parameters / self.rows;
        let is_line = base.is_finite() && slope.is_finite() && slope >= 0.0 && left > 0.0;
        is_line.then(|| Line { base, slope, feature, loss: self.squares(base, slope) / (left * left) })
    }

    fn constant(&self) -> Option<Line> {
        self.line(self.y / self.weight, 0.0, 0, 1.0)
    }

    fn factor(&self, feature: u32) -> Option<Line> {
        self.line(0.0, self.xy / self.xx, feature, 1.0)
    }

    fn straight(&self, feature: u32) -> Option<Line> {
        let spread = self.weight * self.xx - self.x * self.x;
        // The slope is undetermined if all rows are equal.
        if spread <= 1e-9 * self.weight * self.xx {
            return None;
        }
        let slope = (self.weight * self.xy - self.x * self.y) / spread;
        self.line((self.y - slope * self.x) / self.weight, slope, feature, 2.0)
    }
}

/// Fits a leaf to these rows; there must be at least one.
pub(super) fn fit(examples: &Examples, scales: &[usize], rows: &[u32]) -> Leaf {
    let targets = || rows.iter().map(|&row| examples.targets[row as usize]);
    let total: f64 = targets().sum();
    let floor = FLOOR * total / rows.len() as f64;
    let mut best: Option<Line> = None;
    for &feature in scales {
        let column = &examples.columns[feature];
        let mut sums = Sums::default();
        for &row in rows {
            let x = column[row as usize];
            sums.add(if x.is_finite() { x } else { 0.0 }, examples.targets[row as usize], floor);
        }
        let feature = feature as u32;
        for line in [sums.constant(), sums.factor(feature), sums.straight(feature)].into_iter().flatten() {
            if best.is_none_or(|best| line.loss < best.loss) {
                best = Some(line);
            }
        }
    }
    let Line { base, slope, feature, .. } =
        best.unwrap_or(Line { base: total / rows.len() as f64, slope: 0.0, feature: 0, loss: 0.0 });
    let (least, most) = targets().fold((f64::INFINITY, 0.0f64), |(least, most), y| (least.min(y), most.max(y)));
    let mut leaf = Leaf { base, slope, feature, rows: rows.len() as u32, least, most, quantiles: [1.0; 3] };
    correct_sum(&mut leaf, examples, rows, total);
    let mut ratios: Vec<f64> = rows.iter().map(|&row| examples.targets[row as usize] / examples.answer(&leaf, row)).collect();
    ratios.sort_by(f64::total_cmp);
    leaf.quantiles = [0.1, 0.5, 0.9].map(|part| Rank::Nearest.of_sorted(&ratios, part).unwrap_or(1.0));
    leaf
}

/// Scales predictions so that their sum equals that of the targets.
fn correct_sum(leaf: &mut Leaf, examples: &Examples, rows: &[u32], total: f64) {
    // Predictions are clamped, so one step is not exact; three suffice.
    for _ in 0..3 {
        let answered: f64 = rows.iter().map(|&row| examples.answer(leaf, row)).sum();
        let factor = (total / answered).clamp(1.0 / MOST_CORRECTED, MOST_CORRECTED);
        leaf.base *= factor;
        leaf.slope *= factor;
    }
}
