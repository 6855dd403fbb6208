//! Parses values of job files that are words or have several parts.

use block::{Priority, PriorityClass, did_you_mean};

use super::options::{Amount, CommandPriority, Distribution, FileService, JobKind, Pattern, Steady};
use super::value::{Fault, KiloBase, float, integer, signed, triple};

pub(super) fn choice<T: Clone>(text: &str, choices: &[(&str, T)]) -> Result<T, Fault> {
    let found = choices.iter().find(|(name, _)| *name == text).map(|(_, value)| value.clone());
    found.ok_or_else(|| {
        let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
        let meant = did_you_mean(text, names.iter().copied());
        match names.as_slice() {
            [only] => format!("`{text}` is not supported; it must be {only}"),
            _ => format!("`{text}` is not supported; it must be one of {}{meant}", names.join(", ")),
        }
    })
}

pub(super) fn boolean(text: &str) -> Result<bool, Fault> {
    choice(text, &[("0", false), ("1", true)])
}

pub(super) fn percent(text: &str) -> Result<u8, Fault> {
    let digits = text.strip_suffix('%').unwrap_or(text);
    let value = digits.parse::<u8>().ok().filter(|percent| *percent <= 100);
    value.ok_or_else(|| format!("`{text}` is out of range; it must be a whole number from 0 to 100"))
}

pub(super) fn count(text: &str, base: KiloBase, least: u32, most: u32) -> Result<u32, Fault> {
    let value = integer(text, base)?;
    let fitting = u32::try_from(value).ok().filter(|value| (least..=most).contains(value));
    fitting.ok_or_else(|| format!("`{text}` is out of range; it must be from {least} to {most}"))
}

pub(super) fn at_least_one(value: u64) -> Result<u64, Fault> {
    if value == 0 { Err("0 is out of range; it must be at least 1".to_owned()) } else { Ok(value) }
}

pub(super) fn block_size(text: &str, base: KiloBase) -> Result<u32, Fault> {
    let bytes = integer(text, base)?;
    let fitting = u32::try_from(bytes).ok().filter(|bytes| (1..=1 << 30).contains(bytes));
    fitting.ok_or_else(|| format!("`{text}` is out of range; it must be from 1 byte to 1g"))
}

pub(super) fn amount(text: &str, base: KiloBase) -> Result<Amount, Fault> {
    match text.strip_suffix('%') {
        Some(_) => percent(text).map(Amount::Percent),
        None => integer(text, base).map(Amount::Bytes),
    }
}

pub(super) fn pattern(text: &str, base: KiloBase) -> Result<Pattern, Fault> {
    const KINDS: &[(&str, (JobKind, bool))] = &[
        ("read", (JobKind::Read, false)),
        ("write", (JobKind::Write, false)),
        ("trim", (JobKind::Trim, false)),
        ("rw", (JobKind::Mixed, false)),
        ("readwrite", (JobKind::Mixed, false)),
        ("randread", (JobKind::Read, true)),
        ("randwrite", (JobKind::Write, true)),
        ("randtrim", (JobKind::Trim, true)),
        ("randrw", (JobKind::Mixed, true)),
        ("trimwrite", (JobKind::TrimWrite, false)),
        ("randtrimwrite", (JobKind::TrimWrite, true)),
    ];
    let (name, number) = match text.split_once(':') {
        Some((name, number)) => (name.trim(), Some(number.trim())),
        None => (text, None),
    };
    let (kind, random) = choice(name, KINDS)?;
    let mut pattern = Pattern { kind, random, every: 1, skip: 0 };
    match number {
        Some(number) if random => pattern.every = count(number, base, 0, u32::MAX)?.max(1),
        Some(number) => pattern.skip = signed(number, base)?,
        None => {}
    }
    Ok(pattern)
}

pub(super) fn file_service(text: &str, base: KiloBase) -> Result<(FileService, u32), Fault> {
    let (name, number) = text.split_once(':').unwrap_or((text, "1"));
    let kinds = [("roundrobin", FileService::RoundRobin), ("sequential", FileService::Sequential), ("random", FileService::Random)];
    Ok((choice(name, &kinds)?, count(number, base, 1, u32::MAX)?))
}

/// Parses names separated by colons; a colon after a backslash is part of the name.
pub(super) fn names(text: &str) -> Result<Vec<String>, Fault> {
    let mut names = vec![String::new()];
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            ':' => names.push(String::new()),
            '\\' if letters.peek() == Some(&':') => names.last_mut().into_iter().for_each(|name| name.push(':')),
            _ => names.last_mut().into_iter().for_each(|name| name.push(letter)),
        }
        if letter == '\\' && letters.peek() == Some(&':') {
            letters.next();
        }
    }
    match names.iter().find(|name| name.is_empty() || *name == "-") {
        Some(name) => Err(format!("`{text}` holds the name `{name}`; names must not be empty or `-`")),
        None => Ok(names),
    }
}

/// Parses `4k/50:64k/:…` as fio does (`bssplit_ddir` and `get_next_buflen`, fio 3.33): percentages that are blank or 0 share the
/// remainder, rounded down, and the rest to 100 is added to the largest percentage, to the last of several equal ones. An empty
/// part ends the list. A sum above 100 is an error, as the HOWTO says, though fio itself rejects it only with two blanks.
pub(super) fn split(text: &str, base: KiloBase) -> Result<Vec<(u32, u8)>, Fault> {
    /// `BSSPLIT_MAX` in fio's thread_options.h.
    const MOST: usize = 64;
    let mut sizes = Vec::new();
    for part in text.split(':').map(str::trim).take_while(|part| !part.is_empty()) {
        let (bytes, share) = part.split_once('/').unwrap_or((part, ""));
        sizes.push((block_size(bytes, base)?, if share.is_empty() { 0 } else { percent(share)? }));
    }
    if sizes.is_empty() {
        return Err(format!("`{text}` holds no size; it must be SIZE/PERCENTAGE:…, such as 4k/60:64k/40"));
    }
    if sizes.len() > MOST {
        return Err(format!("{} sizes are too many; at most {MOST} are allowed", sizes.len()));
    }
    let given: u32 = sizes.iter().map(|&(_, share)| u32::from(share)).sum();
    let left = 100u32.checked_sub(given).ok_or_else(|| format!("the percentages add up to {given}; they must add up to 100"))?;
    let blanks = sizes.iter().filter(|(_, share)| *share == 0).count() as u32;
    let each = left.checked_div(blanks).unwrap_or(0);
    sizes.iter_mut().filter(|(_, share)| *share == 0).for_each(|(_, share)| *share = each as u8);
    // `max_by_key` takes the last of equal ones.
    if let Some((_, largest)) = sizes.iter_mut().max_by_key(|(_, share)| *share) {
        *largest += (left - each * blanks) as u8;
    }
    Ok(sizes)
}

/// Replaces blank percentages by equal shares of the remainder. The given ones must add up to at most 100, and to exactly 100 if
/// none is blank.
fn shares<T>(parts: Vec<(T, Option<u8>)>) -> Result<Vec<(T, u8)>, Fault> {
    let given: u32 = parts.iter().filter_map(|(_, share)| *share).map(u32::from).sum();
    let blank = parts.iter().filter(|(_, share)| share.is_none()).count() as u32;
    let left = 100u32.checked_sub(given).ok_or_else(|| format!("the percentages add up to {given}; they must add up to 100"))?;
    if blank == 0 && left > 0 {
        return Err(format!("the percentages add up to {given}; they must add up to 100, or leave one blank"));
    }
    let mut blanks = 0..blank;
    let parts = parts.into_iter().map(|(what, share)| {
        // Rounded so that the blanks together take the whole remainder.
        let shared = |i: u32| left * (i + 1) / blank - left * i / blank;
        (what, share.unwrap_or_else(|| blanks.next().map_or(0, shared) as u8))
    });
    Ok(parts.collect())
}

pub(super) fn distributions(text: &str, base: KiloBase) -> Result<[Option<Distribution>; 3], Fault> {
    let (name, rest) = text.split_once([':', '=']).unwrap_or((text, ""));
    match name {
        "zoned" => triple(rest, |part| zones(part, percent, zone_shares).map(Distribution::Zoned)),
        "zoned_abs" => triple(rest, |part| zones(part, |v| integer(v, base), zone_bytes).map(Distribution::ZonedAbsolute)),
        _ => distribution(name, rest).map(|distribution| [0; 3].map(|_| Some(distribution.clone()))),
    }
}

fn distribution(name: &str, rest: &str) -> Result<Distribution, Fault> {
    let mut parts = rest.split(':').map(str::trim).filter(|part| !part.is_empty());
    let first = parts.next().map(float).transpose()?;
    let center = parts.next().map(float).transpose()?;
    if let Some(center) = center.filter(|center| !(0.0..=1.0).contains(center)) {
        return Err(format!("the centre `{center}` is out of range; it must be from 0 to 1"));
    }
    if let Some(part) = parts.next() {
        return Err(format!("`{part}` is one number too many"));
    }
    let inside = |value: f64, right: bool, range: &str| {
        if right { Ok(value) } else { Err(format!("`{value}` is out of range; {name} needs {range}")) }
    };
    match name {
        "random" if first.is_none() => Ok(Distribution::Uniform),
        "zipf" => {
            let theta = first.unwrap_or(1.1);
            Ok(Distribution::Zipf(
                inside(theta, theta > 0.0 && theta != 1.0 && theta <= 10.0, "a theta above 0 and at most 10, not 1")?,
                center,
            ))
        }
        "pareto" => {
            let h = first.unwrap_or(0.2);
            Ok(Distribution::Pareto(inside(h, h > 0.0 && h < 1.0, "an h above 0 and below 1")?, center))
        }
        "normal" => {
            let deviation = first.ok_or_else(|| "normal needs a deviation in percent: normal:20".to_owned())?;
            Ok(Distribution::Normal(
                inside(deviation, (0.0..100.0).contains(&deviation), "a deviation from 0 to below 100")?,
                center,
            ))
        }
        _ => Err(format!(
            "`{name}` is not supported; it must be one of random, zipf:THETA, pareto:H, normal:DEVIATION, zoned:SHARE/SIZE:…, zoned_abs:SHARE/SIZE:…"
        )),
    }
}

/// Parses `60/10:30/20:…`: percentages of the I/Os and sizes of zones; `fill` completes blank sizes.
fn zones<T>(
    text: &str,
    size: impl Fn(&str) -> Result<T, Fault>,
    fill: impl FnOnce(Vec<Option<T>>) -> Result<Vec<T>, Fault>,
) -> Result<Vec<(u8, T)>, Fault> {
    const MOST: usize = 256;
    let (mut access, mut sizes) = (Vec::new(), Vec::new());
    for part in text.split(':').map(str::trim) {
        let (share, zone) = part.split_once('/').ok_or_else(|| format!("`{part}` must be SHARE/SIZE, such as 60/10"))?;
        access.push(((), if share.is_empty() { None } else { Some(percent(share)?) }));
        sizes.push(if zone.is_empty() { None } else { Some(size(zone)?) });
    }
    if sizes.len() > MOST {
        return Err(format!("{} zones are too many; at most {MOST} are allowed", sizes.len()));
    }
    let access = shares(access)?.into_iter().map(|((), share)| share);
    Ok(access.zip(fill(sizes)?).collect())
}

/// Replaces blank sizes, in percent of the file, by equal shares of the rest of the file.
fn zone_shares(sizes: Vec<Option<u8>>) -> Result<Vec<u8>, Fault> {
    if sizes.iter().all(Option::is_some) {
        return Ok(sizes.into_iter().flatten().collect());
    }
    let sizes = sizes.into_iter().map(|size| ((), size)).collect();
    Ok(shares(sizes)?.into_iter().map(|((), size)| size).collect())
}

/// Checks that all sizes in bytes are given.
fn zone_bytes(sizes: Vec<Option<u64>>) -> Result<Vec<u64>, Fault> {
    sizes.into_iter().map(|size| size.ok_or_else(|| "a zone of zoned_abs has no size".to_owned())).collect()
}

/// Parses a criterion such as `iops_slope:0.1%`.
pub(super) fn steady(text: &str) -> Result<Steady, Fault> {
    const CRITERIA: &[(&str, (bool, bool))] =
        &[("iops", (false, false)), ("iops_slope", (false, true)), ("bw", (true, false)), ("bw_slope", (true, true))];
    let (name, limit) = text.split_once(':').ok_or_else(|| format!("`{text}` has no limit; it must be such as iops:2%"))?;
    let (bandwidth, slope) = choice(name.trim(), CRITERIA)?;
    let (digits, percent) = limit.trim().strip_suffix('%').map_or((limit.trim(), false), |digits| (digits, true));
    let limit = float(digits)?;
    if limit < 0.0 {
        return Err(format!("the limit `{limit}` is out of range; it must not be negative"));
    }
    Ok(Steady { bandwidth, slope, limit, percent })
}

/// Parses `64k/25/1/1:64k/75/3/2:…`: size and percentage, optionally with class and level.
pub(super) fn command_priorities(text: &str, base: KiloBase) -> Result<Vec<CommandPriority>, Fault> {
    const MOST: usize = 64;
    let rule = |part: &str| {
        let fields: Vec<&str> = part.trim().split('/').collect();
        let (bytes, share, priority) = match fields[..] {
            [bytes, share] => (bytes, share, None),
            [bytes, share, class, level] => {
                let class = priority_class(count(class, base, 0, 3)?).unwrap_or(PriorityClass::BestEffort);
                (bytes, share, Some(Priority { class, level: count(level, base, 0, 7)? as u8 }))
            }
            _ => return Err(format!("`{part}` must be SIZE/PERCENTAGE or SIZE/PERCENTAGE/CLASS/LEVEL")),
        };
        Ok(CommandPriority { bytes: Some(block_size(bytes, base)?), share: percent(share)?, priority })
    };
    let rules: Vec<CommandPriority> = text.split(':').map(rule).collect::<Result<_, _>>()?;
    if rules.len() > MOST {
        return Err(format!("{} sizes are too many; at most {MOST} are allowed", rules.len()));
    }
    Ok(rules)
}

/// Converts a number of ioprio.h: 0 none, 1 real time, 2 best effort, 3 idle. Larger numbers are not allowed.
pub(super) fn priority_class(number: u32) -> Option<PriorityClass> {
    [None, Some(PriorityClass::RealTime), Some(PriorityClass::BestEffort), Some(PriorityClass::Idle)][number as usize]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colon_behind_a_backslash_is_part_of_a_name() {
        assert_eq!(names(r"/dev/foo@3,0\:c:b").as_deref(), Ok(&["/dev/foo@3,0:c".to_owned(), "b".to_owned()][..]));
        assert!(names("a::b").is_err());
    }

    #[test]
    fn blank_shares_divide_the_remainder() {
        let base = KiloBase::Old;
        assert_eq!(split("4k/50:1k/:32k/", base), Ok(vec![(4096, 50), (1024, 25), (32768, 25)]));
        assert_eq!(split("4k/34:1k:32k:8k", base), Ok(vec![(4096, 34), (1024, 22), (32768, 22), (8192, 22)]));
        assert!(split("4k/60:8k/60", base).is_err());
    }

    /// The shares were measured with fio 3.33.
    #[test]
    fn what_lacks_to_a_hundred_percent_is_the_largest_shares() {
        let shares = |text| split(text, KiloBase::Old).map(|sizes| sizes.into_iter().map(|(_, share)| share).collect::<Vec<_>>());
        for (text, expected) in [
            ("4k/10:8k/30:16k/45:64k/14", vec![10, 30, 46, 14]),
            ("4k/10:8k/30:16k/45:64k", vec![10, 30, 45, 15]),
            ("4k/50:8k/30:16k/19", vec![51, 30, 19]),
            ("4k/10:8k/20", vec![10, 90]),
            ("4k/30:8k/30", vec![30, 70]),
            ("4k:8k:16k", vec![33, 33, 34]),
            ("4k/0:8k/0", vec![50, 50]),
            ("4k/100:8k", vec![100, 0]),
            ("4k/0:8k/100", vec![0, 100]),
            ("4k", vec![100]),
            ("4k/40:8k/60:", vec![40, 60]),
        ] {
            assert_eq!(shares(text), Ok(expected), "{text}");
        }
        assert!(shares("4k/60:8k/60").is_err_and(|fault| fault.contains("add up to 120; they must add up to 100")));
        assert!(shares(":4k/50").is_err_and(|fault| fault.contains("`:4k/50` holds no size")));
    }
}
