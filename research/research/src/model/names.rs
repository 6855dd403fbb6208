//! Names of a model's features and classes, for descriptions of its classifier.

use super::Scaler;

/// The meaning of the numbers in a classifier.
#[derive(Clone, Copy, Debug)]
pub struct Names<'a> {
    features: &'a [String],
    classes: &'a [String],
    scaler: Option<&'a Scaler>,
}

impl<'a> Names<'a> {
    pub(super) fn new(features: &'a [String], classes: &'a [String], scaler: Option<&'a Scaler>) -> Names<'a> {
        Names { features, classes, scaler }
    }

    /// A feature's name.
    pub fn feature(&self, feature: usize) -> &'a str {
        self.features.get(feature).map_or("?", String::as_str)
    }

    /// A class's name.
    pub fn class(&self, class: usize) -> &'a str {
        self.classes.get(class).map_or("?", String::as_str)
    }

    /// A scaled value in the feature's original unit.
    pub fn unscaled(&self, feature: usize, value: f64) -> f64 {
        self.scaler.and_then(|scaler| scaler.0.get(feature)).map_or(value, |scale| scale.invert(value))
    }

    /// A number with six significant digits.
    pub fn number(&self, value: f64) -> String {
        if value == 0.0 {
            return "0".to_owned();
        }
        let digits = value.abs().log10().floor();
        if !(-5.0..=15.0).contains(&digits) {
            return format!("{value:.5e}");
        }
        let decimals = (5.0 - digits).max(0.0) as usize;
        let text = format!("{value:.decimals$}");
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_six_digits_that_count() {
        let names = Names::new(&[], &[], None);
        for (value, text) in
            [(0.0, "0"), (1234567.0, "1234567"), (0.1 + 0.2, "0.3"), (-0.00123456789, "-0.00123457"), (1e-9, "1.00000e-9")]
        {
            assert_eq!(names.number(value), text);
        }
    }
}
