//! Formats numbers for display.

/// Shown in place of a missing number.
pub const MISSING: &str = "–";

/// Three significant digits: `0.00123`, `1.00`, `12.3`, `12300`; `1.23e9` if it would not fit a column. Values that are not
/// finite are shown as missing.
pub fn three_digits(value: f64) -> String {
    if !value.is_finite() {
        return MISSING.to_owned();
    }
    if value == 0.0 {
        return "0".to_owned();
    }
    // Formatting rounds; the exponent is that of the rounded number, so that 9.996 becomes 10.0 and not 10.00.
    let scientific = format!("{value:.2e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    if !(-3..7).contains(&exponent) {
        return scientific;
    }
    let rounded: f64 = scientific.parse().unwrap_or(value);
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{rounded:.decimals$}")
}

/// [`three_digits`] without trailing zeros after the point: `0.5`, `10`, `2000`, for the ticks of an axis.
pub fn short(value: f64) -> String {
    let text = three_digits(value);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A count with thousands separators: `1,234,567`.
pub fn grouped(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_significant_digits_of_any_size() {
        let cases = [
            (0.0, "0"),
            (-0.0, "0"),
            (1.0, "1.00"),
            (9.994, "9.99"),
            (9.996, "10.0"),
            (99.96, "100"),
            (999.6, "1000"),
            (12_345.6, "12300"),
            (0.001_234, "0.00123"),
            (0.000_999_9, "0.00100"),
            (0.000_5, "5.00e-4"),
            (12_345_678.0, "1.23e7"),
            (-4.567, "-4.57"),
            (f64::MAX, "1.80e308"),
            (f64::MIN_POSITIVE, "2.23e-308"),
            (f64::NAN, "–"),
            (f64::INFINITY, "–"),
        ];
        for (value, expected) in cases {
            assert_eq!(three_digits(value), expected, "{value}");
        }
    }

    #[test]
    fn short_numbers_drop_only_zeros_after_the_point() {
        for (value, expected) in [(0.5, "0.5"), (10.0, "10"), (2000.0, "2000"), (100.0, "100"), (1e9, "1.00e9"), (0.0, "0")] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (count, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(grouped(count), expected);
        }
    }
}
