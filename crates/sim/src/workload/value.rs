//! Parses numbers in job files: units, times, ranges, percentages (fio's HOWTO, "Parameter types").

use block::Nanos;

/// The problem with a value and the valid alternatives; the caller adds file, line and key.
pub(super) type Fault = String;

/// The meaning of `4k`. For compatibility with old job files, fio's default is the reverse of the standard: with `kb_base=1024`,
/// `k` is 1024 and `ki` is 1000.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KiloBase {
    /// `k` is 1024 and `ki` 1000: the default.
    Old,
    /// `k` is 1000 and `ki` 1024.
    Standard,
}

const WHOLE_NUMBER: &str = "a whole number, in bytes or with a unit such as 4k, 64k, 1m, 2g";

/// Parses a whole number, optionally with a minus sign, a prefix 0x and a unit.
pub(super) fn signed(text: &str, base: KiloBase) -> Result<i64, Fault> {
    let (negative, magnitude) = match text.strip_prefix('-') {
        Some(magnitude) => (true, magnitude),
        None => (false, text),
    };
    let value = i64::try_from(integer(magnitude, base)?).map_err(|_| format!("`{text}` is too large"))?;
    Ok(if negative { -value } else { value })
}

/// Parses a whole number, optionally with a prefix 0x and a unit, or an expression in parentheses.
pub(super) fn integer(text: &str, base: KiloBase) -> Result<u64, Fault> {
    if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        return expression(inner, &|operand| integer(operand, base));
    }
    let (radix, digits) = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => (16, digits),
        None => (10, text),
    };
    let end = digits.find(|c: char| !c.is_digit(radix)).unwrap_or(digits.len());
    let (digits, unit) = digits.split_at(end);
    if digits.is_empty() {
        return Err(format!("`{text}` is not a number; it must be {WHOLE_NUMBER}"));
    }
    let number = u64::from_str_radix(digits, radix).map_err(|_| format!("`{text}` is too large"))?;
    let factor = factor(unit, base).ok_or_else(|| format!("`{text}` has the unknown unit `{unit}`; it must be {WHOLE_NUMBER}"))?;
    number.checked_mul(factor).ok_or_else(|| format!("`{text}` is too large"))
}

/// The factor of a unit; `None` if it is unknown.
fn factor(unit: &str, base: KiloBase) -> Option<u64> {
    let unit = unit.to_ascii_lowercase();
    let unit = if unit == "b" { "" } else { unit.strip_suffix('b').unwrap_or(&unit) };
    let (prefix, with_i) = match unit.strip_suffix('i') {
        Some(prefix) => (prefix, true),
        None => (unit, false),
    };
    let power = match prefix {
        "" if !with_i => 0,
        "k" => 1,
        "m" => 2,
        "g" => 3,
        "t" => 4,
        "p" => 5,
        _ => return None,
    };
    let binary = with_i == (base == KiloBase::Standard);
    Some(if binary { 1024u64 } else { 1000 }.pow(power))
}

/// Parses a duration; a number without unit is in `unit`.
pub(super) fn time(text: &str, unit: Nanos) -> Result<Nanos, Fault> {
    const RIGHT: &str = "a whole number with or without one of the units us, ms, s, m, h, d";
    let nanos = if let Some(inner) = text.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        // HOWTO: a number without unit in an expression is in microseconds.
        expression(inner, &|operand| time(operand, Nanos::from_micros(1)).map(|span| span.0))?
    } else {
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, suffix) = text.split_at(end);
        let one = match suffix.to_ascii_lowercase().as_str() {
            "" => unit.0,
            "us" | "usec" => 1_000,
            "ms" | "msec" => 1_000_000,
            "s" | "sec" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            "d" => 86_400_000_000_000,
            _ => return Err(format!("`{text}` is not a time; it must be {RIGHT}")),
        };
        if digits.is_empty() {
            return Err(format!("`{text}` is not a time; it must be {RIGHT}"));
        }
        digits
            .parse::<u64>()
            .ok()
            .and_then(|number| number.checked_mul(one))
            .ok_or_else(|| format!("`{text}` is too long a time"))?
    };
    Ok(Nanos(nanos))
}

/// Parses a decimal number.
pub(super) fn float(text: &str) -> Result<f64, Fault> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite());
    value.ok_or_else(|| format!("`{text}` is not a number; it must be one such as 1.2"))
}

/// Parses `low-high` or `low:high`, in either order, or a single value if `single`.
pub(super) fn range<T: Ord + Copy>(text: &str, single: bool, parse: impl Fn(&str) -> Result<T, Fault>) -> Result<(T, T), Fault> {
    match text.split_once(['-', ':']) {
        Some((low, high)) => {
            let (low, high) = (parse(low.trim())?, parse(high.trim())?);
            Ok((low.min(high), low.max(high)))
        }
        None if single => parse(text).map(|value| (value, value)),
        None => Err(format!("`{text}` is not a range; it must be two values, such as 4k-64k")),
    }
}

/// Parses up to three values, for reads, writes and trims, separated by commas: the last one given applies to those after it,
/// unless a comma ends the text. Omitted values are `None`.
pub(super) fn triple<T: Clone>(text: &str, parse: impl Fn(&str) -> Result<T, Fault>) -> Result<[Option<T>; 3], Fault> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    if parts.len() > 3 && !(parts.len() == 4 && parts[3].is_empty()) {
        return Err(format!("`{text}` has more than three values; they are for reads, writes and trims"));
    }
    let mut values = [None, None, None];
    for (value, part) in values.iter_mut().zip(&parts) {
        if !part.is_empty() {
            *value = Some(parse(part)?);
        }
    }
    for i in parts.len()..3 {
        values[i] = values[i - 1].clone();
    }
    Ok(values)
}

/// Evaluates sums, products, remainders and powers of operands parsed by `operand`, in whole numbers, with the usual precedence;
/// operators of one precedence are left-associative.
fn expression(text: &str, operand: &dyn Fn(&str) -> Result<u64, Fault>) -> Result<u64, Fault> {
    /// Operators by precedence, lowest first.
    const LEVELS: [&[char]; 3] = [&['+', '-'], &['*', '/', '%'], &['^']];
    fn level(text: &str, at: usize, operand: &dyn Fn(&str) -> Result<u64, Fault>) -> Result<u64, Fault> {
        let Some(operators) = LEVELS.get(at) else {
            return match text.trim() {
                nested if nested.contains(['(', ')']) => Err("parentheses inside parentheses are not supported".to_owned()),
                plain => operand(plain),
            };
        };
        let Some(cut) = text.rfind(*operators) else { return level(text, at + 1, operand) };
        let (left, right) = (level(&text[..cut], at, operand)?, level(&text[cut + 1..], at + 1, operand)?);
        let value = match text.as_bytes()[cut] {
            b'+' => left.checked_add(right),
            b'-' => left.checked_sub(right),
            b'*' => left.checked_mul(right),
            b'/' => left.checked_div(right),
            b'%' => left.checked_rem(right),
            _ => u32::try_from(right).ok().and_then(|power| left.checked_pow(power)),
        };
        value.ok_or_else(|| format!("`({text})` has no value between 0 and 2^64"))
    }
    // Each operator costs a level of recursion.
    if text.len() > 200 {
        return Err("an expression of more than 200 characters is not supported".to_owned());
    }
    level(text, 0, operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_have_their_meaning_in_fio() {
        for (text, old, standard) in [
            ("4096", 4096, 4096),
            ("4k", 4096, 4000),
            ("4K", 4096, 4000),
            ("4kb", 4096, 4000),
            ("8kib", 8000, 8192),
            ("1m", 1 << 20, 1_000_000),
            ("2g", 2 << 30, 2_000_000_000),
            ("1ti", 1_000_000_000_000, 1 << 40),
            ("0x1000", 4096, 4096),
            ("512b", 512, 512),
            ("(4k*2+512)", 8704, 8512),
            ("(10-4-3)", 3, 3),
            ("(2^10/4%100)", 56, 56),
        ] {
            assert_eq!(integer(text, KiloBase::Old), Ok(old), "{text}");
            assert_eq!(integer(text, KiloBase::Standard), Ok(standard), "{text}");
        }
        for text in [
            "",
            "k",
            "1e3",
            "4 k",
            "4x",
            "4ii",
            "99999999999999999999",
            "99999999p",
            "0x",
            "-4",
            "(4-5)",
            "(1/0)",
            "((1))",
            "(",
            "()",
        ] {
            assert!(integer(text, KiloBase::Old).is_err(), "{text}");
        }
        assert_eq!(signed("-8k", KiloBase::Old), Ok(-8192));
    }

    #[test]
    fn times_have_units_and_a_default_unit() {
        let second = Nanos::from_millis(1000);
        for (text, ms) in [
            ("10", 10_000),
            ("10s", 10_000),
            ("5ms", 5),
            ("5msec", 5),
            ("2m", 120_000),
            ("1H", 3_600_000),
            ("(5000)", 5),
            ("(1s+5ms)", 1005),
        ] {
            assert_eq!(time(text, second), Ok(Nanos::from_millis(ms)), "{text}");
        }
        assert_eq!(time("7", Nanos::from_micros(1)), Ok(Nanos::from_micros(7)));
        for text in ["", "s", "1.5", "5 s", "-1", "5w", "999999999999d"] {
            assert!(time(text, second).is_err(), "{text}");
        }
    }

    #[test]
    fn of_three_values_the_last_one_given_holds_for_the_rest_unless_a_comma_ends_them() {
        let parse = |text: &str| integer(text, KiloBase::Old);
        for (text, values) in [
            ("8", [Some(8), Some(8), Some(8)]),
            ("8,32", [Some(8), Some(32), Some(32)]),
            ("8,32,", [Some(8), Some(32), None]),
            (",8", [None, Some(8), Some(8)]),
            (",8,", [None, Some(8), None]),
            ("1,2,3", [Some(1), Some(2), Some(3)]),
        ] {
            assert_eq!(triple(text, parse), Ok(values), "{text}");
        }
        assert!(triple("1,2,3,4", parse).is_err());
    }

    #[test]
    fn a_range_is_put_in_order() {
        let parse = |text: &str| integer(text, KiloBase::Old);
        assert_eq!(range("8k-4k", false, parse), Ok((4096, 8192)));
        assert_eq!(range("4k:8k", false, parse), Ok((4096, 8192)));
        assert_eq!(range("4k", true, parse), Ok((4096, 4096)));
        assert!(range("4k", false, parse).is_err());
    }
}
