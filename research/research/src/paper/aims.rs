//! Targets that the worst of several cases must meet.

use crate::report::paper::Bar;

/// The largest value must not exceed `bound`, all in percent. `detail` follows the name of the worst case.
pub fn at_most(id: &str, about: &str, bound: f64, values: Vec<(String, Option<f64>)>, detail: &str) -> Bar {
    let worst = worst(values, |a, b| a.total_cmp(b));
    bar((id, about), format!("at most {bound}%"), worst, |value| value <= bound, detail)
}

/// The smallest value must not be below `bound`.
pub fn at_least(id: &str, about: &str, bound: f64, values: Vec<(String, Option<f64>)>, detail: &str) -> Bar {
    let worst = worst(values, |a, b| b.total_cmp(a));
    bar((id, about), format!("at least {bound}%"), worst, |value| value >= bound, detail)
}

/// The last in this order; `None` if the list is empty or one value was not measured, as the target cannot be met then.
fn worst(values: Vec<(String, Option<f64>)>, order: impl Fn(&f64, &f64) -> std::cmp::Ordering) -> Option<(String, f64)> {
    let known = values.into_iter().map(|(name, value)| value.map(|value| (name, value))).collect::<Option<Vec<_>>>()?;
    known.into_iter().max_by(|a, b| order(&a.1, &b.1))
}

fn bar((id, about): (&str, &str), wanted: String, worst: Option<(String, f64)>, is_met: impl Fn(f64) -> bool, detail: &str) -> Bar {
    Bar {
        id: id.to_owned(),
        about: about.to_owned(),
        wanted,
        percent: worst.as_ref().map(|(_, value)| *value),
        met: worst.as_ref().map(|(_, value)| is_met(*value)),
        detail: worst.map_or_else(String::new, |(name, _)| format!("{name}{detail}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &[(&str, Option<f64>)]) -> Vec<(String, Option<f64>)> {
        values.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
    }

    #[test]
    fn the_worst_case_decides_and_what_was_not_measured_is_not_met() {
        let most = |cases: &[(&str, Option<f64>)]| at_most("a", "b", 1.0, values(cases), "; more");
        let missed = most(&[("x", Some(0.5)), ("y", Some(1.5))]);
        assert_eq!((missed.met, missed.percent, missed.detail.as_str()), (Some(false), Some(1.5), "y; more"));
        assert_eq!(
            (most(&[("x", Some(1.0))]).met, most(&[("x", Some(9.0)), ("y", None)]).met, most(&[]).met),
            (Some(true), None, None)
        );
        let least = at_least("a", "b", 97.0, values(&[("x", Some(99.0)), ("y", Some(96.9))]), "");
        assert_eq!((least.met, least.percent, least.wanted.as_str()), (Some(false), Some(96.9), "at least 97%"));
    }
}
