//! Hours for learning mode in local time: `02:00-05:00`, `Sat,Sun 08:00-20:00`.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Datelike as _, Local, Timelike as _};

/// Minutes of a day. Derived: 24 hours of 60 minutes.
const MINUTES: u32 = 24 * 60;
/// Days of the week, from Monday. Source: the names of days in `systemd.time(7)`.
const DAYS: [&str; 7] = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

/// A time of the week, in the machine's time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WallTime {
    /// Day of the week, from Monday = 0 to 6.
    pub day: u32,
    /// Minutes since midnight.
    pub minute: u32,
}

impl WallTime {
    /// Local time at this many seconds since 1970.
    pub fn at(unix_seconds: u64) -> WallTime {
        let utc = DateTime::from_timestamp(unix_seconds.cast_signed(), 0).unwrap_or_default();
        let local = utc.with_timezone(&Local);
        WallTime { day: local.weekday().num_days_from_monday(), minute: 60 * local.hour() + local.minute() }
    }

    /// The day before.
    fn yesterday(self) -> u32 {
        (self.day + 6) % 7
    }
}

impl fmt::Display for WallTime {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{} {:02}:{:02}", DAYS[self.day as usize % 7], self.minute / 60, self.minute % 60)
    }
}

/// Hours of a day, or of some days of the week. If the end is before the beginning, they extend over midnight.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hours {
    /// The days on which they begin, from Monday.
    days: [bool; 7],
    from: u32,
    to: u32,
}

impl Hours {
    /// Whether this time is within these hours; the end is exclusive.
    pub fn contain(&self, time: WallTime) -> bool {
        let begins_today = self.days[time.day as usize % 7];
        if self.from < self.to {
            return begins_today && (self.from..self.to).contains(&time.minute);
        }
        let began_yesterday = self.days[time.yesterday() as usize % 7];
        (begins_today && time.minute >= self.from) || (began_yesterday && time.minute < self.to)
    }
}

impl FromStr for Hours {
    type Err = String;

    fn from_str(text: &str) -> Result<Hours, String> {
        let (days, hours) = match text.trim().rsplit_once(' ') {
            Some((days, hours)) => (days_of(days.trim())?, hours),
            None => ([true; 7], text.trim()),
        };
        let wrong = || format!("'{text}' should be hours of the day, as in \"02:00-05:00\" or \"Sat,Sun 08:00-20:00\"");
        let (from, to) = hours.split_once('-').ok_or_else(wrong)?;
        let (from, to) = (minute(from).ok_or_else(wrong)?, minute(to).ok_or_else(wrong)?);
        if from == to || from == MINUTES {
            return Err(format!("'{text}' should begin and end at different times; all day is 00:00-24:00"));
        }
        Ok(Hours { days, from, to })
    }
}

/// Minutes since midnight; 24:00 is the end of the day.
fn minute(text: &str) -> Option<u32> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| {
        let is_number = text.len() == 2 && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse::<u32>().ok()).flatten()
    };
    let (hour, minute) = (number(hour)?, number(minute)?);
    let minutes = 60 * hour + minute;
    (minute < 60 && minutes <= MINUTES).then_some(minutes)
}

/// `Sat,Sun` or `Mon-Fri`.
fn days_of(text: &str) -> Result<[bool; 7], String> {
    let number = |name: &str| {
        let found = DAYS.iter().position(|day| day.eq_ignore_ascii_case(name.trim()));
        found.ok_or_else(|| format!("'{}' should be a day of the week: {}", name.trim(), DAYS.join(", ")))
    };
    let mut days = [false; 7];
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        // Fri-Mon wraps around the end of the week.
        (0..=(last + 7 - first) % 7).for_each(|more| days[(first + more) % 7] = true);
    }
    Ok(days)
}

impl fmt::Display for Hours {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.days.contains(&false) {
            let named = DAYS.iter().zip(self.days).filter(|(_, is_meant)| *is_meant).map(|(name, _)| *name);
            write!(f, "{} ", named.collect::<Vec<_>>().join(","))?;
        }
        write!(f, "{:02}:{:02}-{:02}:{:02}", self.from / 60, self.from % 60, self.to / 60, self.to % 60)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether hours contain a time that is written as they are: `Sat 23:30`.
    fn contain(hours: &str, time: &str) -> bool {
        let (day, clock) = time.split_once(' ').unwrap();
        let day = DAYS.iter().position(|name| *name == day).unwrap() as u32;
        hours.parse::<Hours>().unwrap().contain(WallTime { day, minute: minute(clock).unwrap() })
    }

    #[test]
    fn hours_begin_with_their_first_minute_and_end_before_their_last() {
        for (time, is_in) in [("Mon 01:59", false), ("Mon 02:00", true), ("Sun 04:59", true), ("Sun 05:00", false)] {
            assert_eq!(contain("02:00-05:00", time), is_in, "{time}");
        }
        assert!(contain("00:00-24:00", "Tue 23:59") && contain("00:00-24:00", "Wed 00:00"));
    }

    #[test]
    fn hours_over_midnight_belong_to_the_day_on_which_they_begin() {
        for (time, is_in) in [
            ("Fri 22:00", true),
            ("Fri 23:59", true),
            ("Sat 00:00", true),
            ("Sat 05:59", true),
            ("Sat 06:00", false),
            ("Sat 22:00", false),
            ("Fri 05:00", false),
        ] {
            assert_eq!(contain("Fri 22:00-06:00", time), is_in, "{time}");
        }
        assert!(contain("22:00-06:00", "Mon 03:00") && !contain("22:00-06:00", "Mon 12:00"));
        assert!(contain("Sun 22:00-06:00", "Mon 03:00"), "over the end of the week");
    }

    #[test]
    fn days_are_lists_and_spans() {
        assert!(contain("Sat,Sun 08:00-20:00", "Sun 12:00") && !contain("Sat,Sun 08:00-20:00", "Mon 12:00"));
        assert!(contain("mon-fri 08:00-20:00", "Wed 12:00") && !contain("Mon-Fri 08:00-20:00", "Sat 12:00"));
        assert!(contain("Fri-Mon 08:00-20:00", "Sun 12:00") && !contain("Fri-Mon 08:00-20:00", "Wed 12:00"));
    }

    #[test]
    fn what_was_read_is_written_as_it_can_be_read_again() {
        for text in ["02:00-05:00", "Sat,Sun 08:00-20:00", "00:00-24:00"] {
            assert_eq!(text.parse::<Hours>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_schedule_is_refused_with_what_would_be_right() {
        let message = |text: &str| text.parse::<Hours>().unwrap_err();
        for text in ["", "night", "2-5", "02:00", "02:00-25:00", "02:00-05:60", "24:30-05:00", "+2:00-05:00"] {
            assert_eq!(
                message(text),
                format!("'{text}' should be hours of the day, as in \"02:00-05:00\" or \"Sat,Sun 08:00-20:00\"")
            );
        }
        assert!(message("Caturday 02:00-05:00").starts_with("'Caturday' should be a day of the week: Mon, "));
        assert!(message("02:00-02:00").contains("all day is 00:00-24:00"));
    }
}
