//! Numbers on the command line, with a message that says what would be right.

use std::ops::RangeInclusive;

/// Parses a whole number of this range; `what` names what it counts, in the plural.
pub fn within<T: TryFrom<u64>>(
    range: RangeInclusive<u64>,
    what: &'static str,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse::<u64>().ok().filter(|number| range.contains(number));
        number.and_then(|number| T::try_from(number).ok()).ok_or_else(|| wanted(&range, what))
    }
}

/// Parses a size in bytes, as in `512M`.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|character: char| !character.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().trim_end_matches('B').trim_end_matches('I') {
        "" => Some(0),
        "K" => Some(10),
        "M" => Some(20),
        "G" => Some(30),
        "T" => Some(40),
        "P" => Some(50),
        _ => None,
    };
    let number = digits.parse::<u64>().ok().filter(|&number| number > 0);
    let bytes = number.zip(shift).and_then(|(number, shift)| number.checked_mul(1 << shift));
    bytes.filter(|bytes| (4096..1 << 60).contains(bytes)).ok_or_else(|| "give a size such as 512M, 16G or 2T".to_owned())
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
