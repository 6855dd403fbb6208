//! Formats numbers for display.

/// Shown in place of a missing number.
pub const MISSING: &str = "–";

/// Three significant digits with thousands separators: `0.00123`, `1.00`, `12.3`, `12,300`; `1.23e12` if it would not fit a column.
/// [`MISSING`] if the value is not finite.
///
/// ```
/// assert_eq!(report::number::three_digits(12.345), "12.3");
/// assert_eq!(report::number::three_digits(f64::INFINITY), "–");
/// ```
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
    if !(-6..12).contains(&exponent) {
        return scientific;
    }
    let rounded: f64 = scientific.parse().unwrap_or(value);
    if exponent >= 3 {
        return format!("{}{}", if rounded < 0.0 { "-" } else { "" }, grouped(rounded.abs() as u64));
    }
    let decimals = usize::try_from(2 - exponent).unwrap_or(0);
    format!("{rounded:.decimals$}")
}

/// [`three_digits`] without trailing zeros after the point: `0.5`, `10`, `2,000`, for the ticks of an axis.
pub fn short(value: f64) -> String {
    let text = three_digits(value);
    if !text.contains('.') || text.contains('e') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A size in bytes with a binary unit: `512 B`, `4 KiB`, `1.5 MiB`, with at most one decimal.
pub fn size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    if !bytes.is_finite() {
        return MISSING.to_owned();
    }
    // A value that rounding would show as 1024 of its unit is 1 of the next.
    let (mut scaled, mut unit) = (bytes, 0);
    while scaled.abs() >= 1023.95 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    let text = format!("{scaled:.1}");
    format!("{} {}", text.strip_suffix(".0").unwrap_or(&text), UNITS[unit])
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
            (999.6, "1,000"),
            (12_345.6, "12,300"),
            (1_060_000.0, "1,060,000"),
            (0.001_234, "0.00123"),
            (0.000_999_9, "0.00100"),
            (0.000_9, "0.000900"),
            (0.000_000_5, "5.00e-7"),
            (12_345_678.0, "12,300,000"),
            (1.2345e12, "1.23e12"),
            (-4.567, "-4.57"),
            (-4567.0, "-4,570"),
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
        for (value, expected) in [(0.5, "0.5"), (10.0, "10"), (2000.0, "2,000"), (100.0, "100"), (1e12, "1.00e12"), (0.0, "0")] {
            assert_eq!(short(value), expected);
        }
    }

    #[test]
    fn sizes_are_in_binary_units() {
        let cases = [
            (512.0, "512 B"),
            (4096.0, "4 KiB"),
            (8192.0, "8 KiB"),
            (131_072.0, "128 KiB"),
            (53_700.0, "52.4 KiB"),
            (1_048_575.0, "1 MiB"),
            (8_388_608.0, "8 MiB"),
            (0.0, "0 B"),
            (f64::NAN, "–"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(size(bytes), expected, "{bytes}");
        }
    }

    #[test]
    fn counts_have_their_thousands_apart() {
        for (count, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (u64::MAX, "18,446,744,073,709,551,615")] {
            assert_eq!(grouped(count), expected);
        }
    }
}
