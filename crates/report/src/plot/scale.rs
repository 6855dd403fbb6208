//! Maps values to positions along an axis, and chooses its ticks.

/// Values beyond this would risk overflow and are not drawn.
const LIMIT: f64 = 1e15;

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Scale {
    /// Linear.
    Linear {
        /// Value at the beginning of the axis.
        min: f64,
        /// Value at its end.
        max: f64,
        /// Distance between ticks.
        step: f64,
    },
    /// Logarithmic.
    Log {
        /// Value at the beginning of the axis, above 0.
        min: f64,
        /// Value at its end.
        max: f64,
    },
}

/// Whether a value can be drawn. Not-a-number compares as false.
pub fn drawable(value: f64) -> bool {
    value.abs() <= LIMIT
}

impl Scale {
    /// From the smallest to the largest value, unrounded. `None` if there is nothing to draw.
    pub fn exact(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (min, mut max) = range(values)?;
        if max <= min {
            max = min + min.abs().max(1.0);
        }
        Some(Self::Linear { min, max, step: round_step((max - min) / 5.0) })
    }

    /// From zero, or below if there are negative values, to a round number at or above the largest.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Option<Self> {
        match Self::exact(values.chain([0.0]))? {
            Self::Linear { min, max, step } => {
                Some(Self::Linear { min: (min / step).floor() * step, max: (max / step).ceil() * step, step })
            }
            log => Some(log),
        }
    }

    /// From a round number at or below the smallest positive value to one at or above the largest.
    pub fn log(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (min, max) = range(values.filter(|&value| value > 1.0 / LIMIT))?;
        let (min, max) = (round_ratio(min, f64::floor), round_ratio(max, f64::ceil));
        Some(Self::Log { min, max: if max > min { max } else { min * 10.0 } })
    }

    /// Whether it is logarithmic, without a zero.
    pub fn is_log(&self) -> bool {
        matches!(self, Self::Log { .. })
    }

    /// The value's position: 0 at the beginning of the axis, 1 at its end. Values outside are drawn at the nearer end.
    pub fn place(&self, value: f64) -> f64 {
        let place = match self {
            Self::Linear { min, max, .. } => (value - min) / (max - min),
            Self::Log { min, max } => (value.max(*min) / min).ln() / (max / min).ln(),
        };
        place.clamp(0.0, 1.0)
    }

    /// Round values along the axis, at most a dozen.
    pub fn ticks(&self) -> Vec<f64> {
        match self {
            Self::Linear { min, max, step } => {
                let first = (min / step).ceil();
                let ticks = (0..12).map(|i| (first + f64::from(i)) * step);
                ticks.take_while(|tick| *tick <= max + step * 1e-9).collect()
            }
            Self::Log { min, max } => log_ticks(*min, *max),
        }
    }
}

fn range(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values.filter(|&value| drawable(value)).fold(None, |range, value| match range {
        None => Some((value, value)),
        Some((min, max)) => Some((f64::min(min, value), f64::max(max, value))),
    })
}

/// 1, 2 or 5 times a power of ten, at or above `step`.
fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.max(1.0 / LIMIT).log10().floor());
    [1.0, 2.0, 5.0].into_iter().map(|digit| digit * power).find(|round| *round >= step * (1.0 - 1e-9)).unwrap_or(10.0 * power)
}

/// The power of ten next to the value, or 2 or 5 times it, whichever is nearest on the side that `side` rounds to.
fn round_ratio(value: f64, side: fn(f64) -> f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let candidates = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let upwards = side(0.5) > 0.5;
    let tolerance = value * 1e-9;
    if upwards {
        candidates.into_iter().find(|round| *round >= value - tolerance).unwrap_or(value)
    } else {
        candidates.into_iter().rev().find(|round| *round <= value + tolerance).unwrap_or(value)
    }
}

fn log_ticks(min: f64, max: f64) -> Vec<f64> {
    let decades = (max / min).log10();
    let digits: &[f64] = if decades <= 2.2 { &[1.0, 2.0, 5.0] } else { &[1.0] };
    // The limit on values bounds the decades, and the stride the ticks.
    let stride = ((decades / 7.0).ceil() as i32).max(1);
    let (first, last) = (min.log10().floor() as i32, max.log10().ceil() as i32);
    (first..=last)
        .filter(|exponent| exponent.rem_euclid(stride) == 0)
        .flat_map(|exponent| digits.iter().map(move |digit| digit * 10f64.powi(exponent)))
        .filter(|tick| *tick >= min * (1.0 - 1e-9) && *tick <= max * (1.0 + 1e-9))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_linear_axis_from_zero_ends_at_round_ticks() {
        let scale = Scale::from_zero([3.0, 47.0].into_iter()).unwrap();
        assert_eq!(scale.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        assert_eq!(scale.place(25.0), 0.5);
    }

    #[test]
    fn an_exact_axis_ends_at_its_data_and_its_ticks_stay_inside() {
        let scale = Scale::exact([0.0, 4087.0].into_iter()).unwrap();
        assert_eq!(scale.place(4087.0), 1.0);
        assert_eq!(scale.ticks(), [0.0, 1000.0, 2000.0, 3000.0, 4000.0]);
    }

    #[test]
    fn a_logarithmic_axis_runs_between_one_two_five_numbers() {
        let scale = Scale::log([0.31, 900.0].into_iter()).unwrap();
        assert_eq!(scale, Scale::Log { min: 0.2, max: 1000.0 });
        assert_eq!(scale.ticks().len(), 4);
        assert_eq!(Scale::log([3.0, 40.0].into_iter()).unwrap().ticks(), [2.0, 5.0, 10.0, 20.0, 50.0]);
    }

    #[test]
    fn odd_values_give_axes_with_few_finite_ticks_or_none_at_all() {
        assert_eq!(Scale::exact([f64::NAN, f64::INFINITY, 1e300].into_iter()), None);
        assert_eq!(Scale::log([0.0, -3.0].into_iter()), None);
        for values in [[0.0, 0.0], [1e15, 1e15], [-1e15, 1e15], [1e-300, 1e15], [5e-15, 1e15], [7.0, 7.0], [1e15, 999e12]] {
            for scale in [Scale::exact(values.into_iter()), Scale::from_zero(values.into_iter()), Scale::log(values.into_iter())] {
                let Some(scale) = scale else { continue };
                let ticks = scale.ticks();
                assert!(ticks.len() <= 12 && ticks.iter().all(|tick| tick.is_finite()), "{values:?}: {scale:?}: {ticks:?}");
                assert!(values.iter().all(|&value| (0.0..=1.0).contains(&scale.place(value))), "{values:?}: {scale:?}");
            }
        }
    }
}
