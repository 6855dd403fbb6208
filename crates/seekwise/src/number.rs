//! Parsers of numbers on the command line; errors state the valid values.

use std::ops::{Range, RangeInclusive};

use block::Nanos;
use terminal::size::bytes;

pub use terminal::size::size;

/// Parses a whole number of this range; `what` is the counted noun, in the plural.
pub fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    what: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| wanted(&range, what))
    }
}

/// Parses a time with its unit, as in `90s`, `1.5ms` or `10min`.
pub fn duration(text: &str) -> Result<Nanos, String> {
    let wanted = || "give a time such as 90s, 500ms, 10min or 2h".to_owned();
    let digits = text.trim_end_matches(|sign: char| sign.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wanted()),
    };
    let is_number = digits.starts_with(|sign: char| sign.is_ascii_digit());
    let seconds = digits.parse::<f64>().ok().filter(|_| is_number).map(|number| number * unit);
    // 2^64 ns are 584 years.
    seconds.filter(|seconds| *seconds < 1.8e10).map(|seconds| Nanos((seconds * 1e9).round() as u64)).ok_or_else(wanted)
}

/// Parses a factor from 0.000001 to 1000000000.
pub fn factor(text: &str) -> Result<f64, String> {
    real(text, 1e-6..=1e9)
}

/// Parses the speed of an emulated disk as a factor from 0.01 to 1000.
pub fn speed_up(text: &str) -> Result<f64, String> {
    real(text, 0.01..=1000.0)
}

fn real(text: &str, range: RangeInclusive<f64>) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| range.contains(number));
    number.ok_or_else(|| format!("give a number from {} to {}", range.start(), range.end()))
}

/// Parses whole numbers from 1, both ends included, as in `1000..2000`, `1000..` or `..2000`.
pub fn numbers(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wanted = || "give numbers from 1, such as 1000..2000, 1000.. or ..2000".to_owned();
    let number = |text: &str| text.parse::<u64>().ok().filter(|&number| number > 0);
    let (from, to) = ends(text, number, (1, u64::MAX)).ok_or_else(wanted)?;
    if from <= to { Ok(from..=to) } else { Err(wanted()) }
}

/// Parses a range of bytes, its end excluded, as in `0..10G`, `1T..` or `..4K`.
pub fn byte_range(text: &str) -> Result<Range<u64>, String> {
    let wanted = || "give a range of bytes such as 0..10G, 1T.. or ..4K".to_owned();
    let (from, to) = ends(text, bytes, (0, u64::MAX)).ok_or_else(wanted)?;
    if from < to { Ok(from..to) } else { Err(wanted()) }
}

/// Parses a range of sizes in bytes, both ends included, as in `4K..64K`, `1M..` or `..512`.
pub fn size_range(text: &str) -> Result<RangeInclusive<u64>, String> {
    let wanted = || "give a range of sizes such as 4K..64K, 1M.. or ..512".to_owned();
    let (from, to) = ends(text, bytes, (0, u64::MAX)).ok_or_else(wanted)?;
    if from <= to { Ok(from..=to) } else { Err(wanted()) }
}

/// Parses both ends of a range separated by `..`; a missing end has its value from `usual`.
fn ends(text: &str, parse: impl Fn(&str) -> Option<u64>, usual: (u64, u64)) -> Option<(u64, u64)> {
    let (from, to) = text.split_once("..").filter(|ends| *ends != ("", ""))?;
    let end = |text: &str, usual: u64| if text.is_empty() { Some(usual) } else { parse(text) };
    Some((end(from, usual.0)?, end(to, usual.1)?))
}

/// Parses a random seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("give a whole number from 0 to {}", u64::MAX))
}

fn wanted(range: &RangeInclusive<u64>, what: &str) -> String {
    match (range.start(), range.end()) {
        (least, &u64::MAX) => format!("give {least} or more {what}"),
        (least, most) => format!("give {least} to {most} {what}"),
    }
}
