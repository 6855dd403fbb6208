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
