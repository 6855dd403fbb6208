//! The schema of an array's profile, as TOML or in one line: `raid5:disk=atlas10k,disks=5,stripe_unit_kib=64`.

use block::Nanos;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layout::{ArrayLayout, Level, MAX_MEMBERS, level};
use super::{LEVELS, MemberFailure, RebuildRate};
use crate::device::limited::spec::LimitsSpecification;

/// Default stripe unit in KiB.
const STRIPE_UNIT_KIB: f64 = 4.0;

/// Maximum stripe unit: larger than any disk.
const MAX_STRIPE_UNIT_KIB: f64 = (1u64 << 49) as f64;

/// Latest failure time: 100 years.
const MAX_FAIL_AT_S: f64 = 3.2e9;

/// The schema of an array's profile. Disks are named as everywhere: built-in ones by their names, others by their files, relative
/// to the folder of the file that names them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ArraySpecification {
    /// `"raid"`.
    pub kind: String,
    /// The profile's name; made up of level and disks if absent.
    pub name: Option<String>,
    /// One line for people; made up if absent.
    pub description: Option<String>,
    /// The RAID level.
    #[schemars(extend("enum" = LEVELS.iter().map(|level| level.number()).collect::<Vec<_>>()))]
    pub level: u32,
    /// The disks, if they differ.
    pub members: Option<Vec<String>>,
    /// The disk, if they are all the same, and how many of it there are. The words `member` and `count` of a list are accepted,
    /// too.
    #[serde(alias = "member")]
    pub disk: Option<String>,
    /// How many of `disk`.
    #[serde(alias = "count")]
    #[schemars(range(min = 2, max = MAX_MEMBERS))]
    pub disks: Option<u64>,
    /// Data stored on one disk before the next one (md: chunk). Not for RAID 1.
    #[schemars(range(min = 0.5, max = MAX_STRIPE_UNIT_KIB), extend("multipleOf" = 0.5, "default" = STRIPE_UNIT_KIB))]
    pub stripe_unit_kib: Option<f64>,
    /// The member that fails, counted from 0.
    #[schemars(range(min = 0, max = MAX_MEMBERS - 1))]
    pub failed: Option<u64>,
    /// When it fails.
    #[schemars(range(min = 0.0, max = MAX_FAIL_AT_S), extend("default" = 0.0))]
    pub fail_at_s: Option<f64>,
    /// The disk that replaces the failed member.
    pub spare: Option<String>,
    /// Maximum rebuild rate of the spare (md: `speed_limit_max`).
    #[schemars(range(min = 1), extend("default" = RebuildRate::default().idle_kib_s))]
    pub rebuild_kib_s: Option<u64>,
    /// Maximum rebuild rate while the host has requests in the array (md: `speed_limit_min`); at most `rebuild_kib_s`.
    #[schemars(range(min = 1), extend("default" = RebuildRate::default().busy_kib_s))]
    pub rebuild_busy_kib_s: Option<u64>,
    /// Rate limits of the array. Its disks have the limits of their own profiles.
    pub limits: Option<LimitsSpecification>,
}

/// A specification that was validated as far as possible without its disks.
#[derive(Clone, Copy, Debug)]
pub struct ArraySettings {
    /// The level.
    pub level: &'static dyn Level,
    /// Number of members.
    pub members: usize,
    /// Sectors of a stripe unit.
    pub unit: u64,
    /// Failure of a member.
    pub failure: Option<MemberFailure>,
    /// Limits of the rebuild rate.
    pub rate: RebuildRate,
}

/// Keys whose values are text even if they look like numbers.
const WORDS: &[&str] = &["name", "description", "disk", "member", "spare"];

impl ArraySpecification {
    /// Parses `raid5:key=value,…`: the keys of the file, except `kind`, `level` and `members`. A value in parentheses, `(…)`, may
    /// contain commas, so that an array's disk can be an array.
    ///
    /// # Errors
    /// Invalid values; the message names key, value and remedy.
    pub fn parse_line(line: &str) -> Result<ArraySpecification, String> {
        let (head, settings) = line.split_once(':').unwrap_or((line, ""));
        let number = head.strip_prefix("raid").and_then(|number| number.parse::<u32>().ok());
        let number = number.ok_or_else(|| format!("`{head}` is no array: raid0, raid1, raid5 and raid10 are"))?;
        let mut table = toml::Table::new();
        for setting in split(settings)? {
            let (key, value) = setting
                .split_once('=')
                .ok_or_else(|| format!("`{setting}` should be key=value, as in raid5:disk=atlas10k,disks=5,stripe_unit_kib=64"))?;
            if ["kind", "level", "members"].contains(&key) {
                return Err(format!(
                    "{key}: for profile files only; here the name gives the level, and disk= and disks= the members"
                ));
            }
            let value = value.strip_prefix('(').and_then(|value| value.strip_suffix(')')).unwrap_or(value);
            let typed = match (value.parse::<i64>(), value.parse::<f64>()) {
                (Ok(whole), _) if !WORDS.contains(&key) => toml::Value::Integer(whole),
                (_, Ok(number)) if !WORDS.contains(&key) => toml::Value::Float(number),
                _ => toml::Value::String(value.to_owned()),
            };
            if table.insert(key.to_owned(), typed).is_some() {
                return Err(format!("{key} is given twice; once is right"));
            }
        }
        table.insert("kind".to_owned(), "raid".into());
        table.insert("level".to_owned(), i64::from(number).into());
        ArraySpecification::deserialize(table).map_err(|error| error.to_string().trim().replace('\n', " "))
    }

    /// Formats it as the text of a profile.
    ///
    /// # Errors
    /// None that its types could cause.
    pub fn to_text(&self) -> Result<String, String> {
        toml::to_string(self).map_err(|error| error.to_string())
    }

    /// The names of the disks, in order.
    ///
    /// # Errors
    /// There are none, they are given twice, or too many.
    pub fn member_names(&self) -> Result<Vec<&str>, String> {
        let names = match (&self.members, &self.disk, self.disks) {
            (Some(members), None, None) => members.iter().map(String::as_str).collect(),
            (None, Some(disk), Some(count)) => {
                // The range of `disks` was checked on reading.
                vec![disk.as_str(); usize::try_from(count).map_or(MAX_MEMBERS, |count| count.min(MAX_MEMBERS))]
            }
            (None, Some(_), None) => return Err("disks is missing: how many of `disk` there are".to_owned()),
            (None, None, Some(_)) => return Err("disk is missing: a disk's name or file".to_owned()),
            (None, None, None) => return Err("no disks: either `disk` and `disks`, or `members`, say which".to_owned()),
            (Some(_), ..) => {
                return Err("both members and disk or disks: either a list or one disk and its number is right".to_owned());
            }
        };
        Ok(names)
    }

    /// Validates everything that does not depend on the disks; values must be within the ranges of their keys.
    ///
    /// # Errors
    /// Invalid values; the message names key, value and remedy.
    pub fn check(&self) -> Result<ArraySettings, String> {
        let level = level(self.level).ok_or_else(|| format!("level: {} is none of {}", self.level, numbers()))?;
        let members = self.member_names()?.len();
        let kib = self.stripe_unit_kib.unwrap_or(STRIPE_UNIT_KIB);
        // Report too few or too many members before their files are read.
        ArrayLayout::new(level, members, 1, u64::MAX)?;
        Ok(ArraySettings { level, members, unit: (kib * 2.0) as u64, failure: self.failure(level, members)?, rate: self.rate()? })
    }

    fn failure(&self, level: &dyn Level, members: usize) -> Result<Option<MemberFailure>, String> {
        let Some(failed) = self.failed else {
            return match (self.fail_at_s, &self.spare) {
                (Some(_), _) => Err("fail_at_s without failed, the number of the member that fails".to_owned()),
                (_, Some(_)) => Err("spare without failed, the number of the member that it replaces".to_owned()),
                _ => Ok(None),
            };
        };
        if !level.survives_failure() {
            let number = level.number();
            return Err(format!("failed: {failed}, but RAID {number} does not survive a failure; other levels do"));
        }
        let member = usize::try_from(failed).ok().filter(|&member| member < members);
        let member = member.ok_or_else(|| format!("failed: {failed} should be 0 to {}, the number of a member", members - 1))?;
        let at = self.fail_at_s.unwrap_or(0.0);
        Ok(Some(MemberFailure { member, at: Nanos::from_secs_f64(at) }))
    }

    fn rate(&self) -> Result<RebuildRate, String> {
        let default = RebuildRate::default();
        let idle_kib_s = self.rebuild_kib_s.unwrap_or(default.idle_kib_s);
        let busy_kib_s = self.rebuild_busy_kib_s.unwrap_or(default.busy_kib_s.min(idle_kib_s));
        if busy_kib_s > idle_kib_s {
            return Err(format!("rebuild_busy_kib_s: {busy_kib_s} should be 1 to {idle_kib_s}, which is rebuild_kib_s"));
        }
        Ok(RebuildRate { idle_kib_s, busy_kib_s })
    }
}

/// The numbers of all levels, as in `0, 1 and 5`.
fn numbers() -> String {
    let numbers: Vec<String> = LEVELS.iter().map(|level| level.number().to_string()).collect();
    match numbers.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} and {last}", others.join(", ")),
        _ => numbers.concat(),
    }
}

/// Splits at the commas outside parentheses.
fn split(settings: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut start, mut depth) = (Vec::new(), 0, 0usize);
    for (at, character) in settings.char_indices() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.checked_sub(1).ok_or_else(|| format!("`{settings}`: a `)` without its `(`"))?,
            ',' if depth == 0 => {
                parts.push(&settings[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if depth > 0 {
        return Err(format!("`{settings}`: a `(` without its `)`"));
    }
    if !settings.is_empty() {
        parts.push(&settings[start..]);
    }
    Ok(parts)
}
