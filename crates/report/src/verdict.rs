//! The winners of a comparison and their margins. A negligible difference is not called a win.

use crate::comparison::Comparison;
use crate::figure::{self, Figure};
use crate::number::{MISSING, three_digits};
use crate::record::Record;
use crate::text::printable;

/// Below this difference in percent there is no winner.
pub const NEGLIGIBLE_PERCENT: f64 = 1.0;

/// The three parts of the user preference (UP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preference {
    /// Bytes per second.
    Throughput,
    /// Mean response time.
    ResponseTime,
    /// Streams slowed down equally, by Jain's index.
    Fairness,
}

impl Preference {
    /// All, in the order reported.
    pub const ALL: [Self; 3] = [Self::Throughput, Self::ResponseTime, Self::Fairness];

    /// Its key in the machine output.
    pub fn key(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::ResponseTime => "response_time",
            Self::Fairness => "fairness",
        }
    }

    /// Its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Self::Throughput => "throughput",
            Self::ResponseTime => "response time",
            Self::Fairness => "fairness",
        }
    }

    /// The figure that decides on this preference.
    pub fn figure(self) -> &'static Figure {
        match self {
            Self::Throughput => &figure::THROUGHPUT,
            Self::ResponseTime => &figure::MEAN_RESPONSE,
            Self::Fairness => &figure::FAIRNESS,
        }
    }

    /// By how many percent `best` is better than `other`: above it if more is better, below it if less is. `None` if a percentage
    /// is undefined (such as of zero).
    fn advantage_percent(self, best: f64, other: f64) -> Option<f64> {
        if best == other {
            return Some(0.0);
        }
        let percent = match self.figure().better {
            figure::Better::Lower => (1.0 - best / other) * 100.0,
            _ => (best / other - 1.0) * 100.0,
        };
        (other > 0.0 && percent.is_finite()).then_some(percent)
    }
}

/// One scheduler's place.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranked {
    /// The scheduler's label.
    pub label: String,
    /// Its value of the deciding figure.
    pub value: f64,
    /// By how many percent the best is better; `None` if undefined.
    pub best_is_better_percent: Option<f64>,
}

/// All schedulers that have the deciding figure, best first; ties in the order of the records.
#[derive(Clone, Debug, PartialEq)]
pub struct Ranking {
    /// The preference.
    pub preference: Preference,
    /// The places, at least one.
    pub places: Vec<Ranked>,
}

impl Ranking {
    /// Ranks the records; `None` if none has the deciding figure. A record that starves a stream is not ranked by fairness.
    pub fn new(comparison: &Comparison, preference: Preference) -> Option<Self> {
        let figure = preference.figure();
        let is_ranked = |row: usize| preference != Preference::Fairness || !comparison.is_unfair(row);
        let rows = comparison.records().iter().enumerate().filter(|(row, _)| is_ranked(*row)).map(|(_, record)| record);
        let mut values: Vec<(String, f64)> =
            rows.filter_map(|record| Some((record.scheduler.label.clone(), figure.value(record)?))).collect();
        match figure.better {
            figure::Better::Lower => values.sort_by(|a, b| a.1.total_cmp(&b.1)),
            _ => values.sort_by(|a, b| b.1.total_cmp(&a.1)),
        }
        let best = values.first()?.1;
        let place = |(label, value)| Ranked { label, value, best_is_better_percent: preference.advantage_percent(best, value) };
        Some(Self { preference, places: values.into_iter().map(place).collect() })
    }

    /// The best and all that are within [`NEGLIGIBLE_PERCENT`] of it.
    pub fn leaders(&self) -> &[Ranked] {
        let negligible = |place: &Ranked| place.best_is_better_percent.is_some_and(|percent| percent < NEGLIGIBLE_PERCENT);
        let count = self.places.iter().take_while(|place| negligible(place)).count();
        &self.places[..count]
    }

    /// The winner: better than every other by at least [`NEGLIGIBLE_PERCENT`]; `None` if there is none, or nothing to compare with.
    pub fn winner(&self) -> Option<&Ranked> {
        self.places.first().filter(|_| self.places.len() > 1 && self.leaders().len() == 1)
    }
}

/// The verdict on one preference.
pub struct Part {
    /// The preference.
    pub preference: Preference,
    /// The winner, in a word or two.
    pub headline: String,
    /// The winner, or that there is none: the rest of a sentence that begins with the preference and a colon.
    pub text: String,
}

/// The verdict, preference by preference.
pub fn parts(comparison: &Comparison) -> Vec<Part> {
    Preference::ALL.into_iter().map(|preference| part(comparison, preference)).collect()
}

fn part(comparison: &Comparison, preference: Preference) -> Part {
    let Some(ranking) = Ranking::new(comparison, preference) else {
        return Part { preference, headline: MISSING.to_owned(), text: undefined(comparison, preference).to_owned() };
    };
    Part { preference, headline: headline(&ranking), text: text(comparison, &ranking) }
}

/// The verdict in one sentence.
pub fn sentence(comparison: &Comparison) -> String {
    let parts = parts(comparison);
    let nobody = format!("no scheduler wins by more than {NEGLIGIBLE_PERCENT}%");
    if parts.iter().all(|part| part.text == nobody) {
        let fast = own_time(comparison).map_or_else(String::new, |sentence| format!(" {sentence}"));
        return format!("No scheduler wins by more than {NEGLIGIBLE_PERCENT}% in throughput, response time or fairness.{fast}");
    }
    let joined: Vec<String> = parts.iter().map(|part| format!("{}: {}", part.preference.name(), part.text)).collect();
    let sentence = if comparison.records().len() == 1 {
        let label = printable(&comparison.common().scheduler.label);
        format!("only {label} was run, so there is no winner: {}.", joined.join("; "))
    } else {
        format!("{}.", joined.join("; "))
    };
    let mut chars = sentence.chars();
    chars.next().map_or_else(String::new, |first| first.to_uppercase().chain(chars).collect())
}

/// Whether the scheduler or controller of a record exists on today's Linux; controllers set schedulers that do.
fn can_be_set(record: &Record) -> bool {
    record.steering.is_some() || block::linux_name(&record.scheduler.name).is_some()
}

/// The schedulers that are not in today's Linux, and for each preference that only they lead the best of the others, as sentences; `None`
/// if all can be set.
pub fn not_settable(comparison: &Comparison) -> Option<String> {
    let records = comparison.records();
    let label = |record: &Record| printable(&record.scheduler.label);
    let missing: Vec<String> = records.iter().filter(|record| !can_be_set(record)).map(label).collect();
    if missing.is_empty() {
        return None;
    }
    let is_missing = |place: &Ranked| missing.contains(&printable(&place.label));
    let best_of = |preference: Preference| {
        let ranking = Ranking::new(comparison, preference)?;
        let only_missing_lead = ranking.leaders().iter().all(is_missing);
        let best = ranking.places.iter().find(|place| !is_missing(place)).filter(|_| only_missing_lead)?;
        Some(format!("{}: {} with {}", preference.name(), printable(&best.label), with_unit(preference, best.value)))
    };
    let best: Vec<String> = Preference::ALL.into_iter().filter_map(best_of).collect();
    let are = if missing.len() == 1 { "is" } else { "are" };
    let mut text = format!("Not in today's Linux {are} {}.", missing.join(", "));
    if !best.is_empty() {
        text += &format!(" The best that can be set there in {}.", best.join("; in "));
    }
    Some(text)
}

/// The rate in requests per second from which a scheduler's own processor time matters: mq-deadline and none differ by 200 ns per request,
/// which is then [`NEGLIGIBLE_PERCENT`] of a processor's time, under a lock that all processors share.
pub const FAST_IOPS: f64 = 50_000.0;

/// The verdict on a device so fast that the order of requests hardly matters: the scheduler with the least processor time, if that was
/// measured. `None` on slower devices.
fn own_time(comparison: &Comparison) -> Option<String> {
    let records = comparison.records();
    let fastest = records.iter().map(|record| record.figures.iops).fold(0.0, f64::max);
    if records.len() < 2 || fastest < FAST_IOPS {
        return None;
    }
    let own = |record: &Record| record.figures.scheduler_cpu_ns_per_request;
    let least = records.iter().filter_map(|record| Some((own(record)?, record))).min_by(|a, b| a.0.total_cmp(&b.0));
    let most = records.iter().filter_map(own).fold(0.0, f64::max);
    let begins = format!("At {} requests a second the scheduler's own processor time decides", three_digits(fastest));
    Some(match least {
        Some((least, record)) => {
            let label = printable(&record.scheduler.label);
            format!(
                "{begins}, of which {label} takes the least, {} ns a request ({} at most).",
                three_digits(least),
                three_digits(most)
            )
        }
        None => format!("{begins}; --cpu-time measures it."),
    })
}

fn undefined(comparison: &Comparison, preference: Preference) -> &'static str {
    if preference == Preference::Fairness && comparison.records().iter().all(|record| record.streams.len() < 2) {
        "not defined with fewer than two streams"
    } else {
        "not measured"
    }
}

fn headline(ranking: &Ranking) -> String {
    match ranking.leaders() {
        [_, ..] if ranking.places.len() == 1 => three_digits(ranking.places[0].value),
        leaders @ ([_] | [_, _]) if leaders.len() < ranking.places.len() => listed(leaders),
        leaders @ [_, ..] if leaders.len() < ranking.places.len() => format!("{} nearly equal", leaders.len()),
        _ => "no clear winner".to_owned(),
    }
}

fn text(comparison: &Comparison, ranking: &Ranking) -> String {
    let all = comparison.records().len();
    let is_unfair = |row: &usize| ranking.preference == Preference::Fairness && comparison.is_unfair(*row);
    let unfair = (0..all).filter(is_unfair).count();
    let (with, ranked) = (ranking.places.len(), all - unfair);
    let mut text = winner(comparison, ranking);
    if with < ranked {
        text += &format!(" ({with} of {ranked} schedulers have a figure)");
    }
    if unfair > 0 {
        text += &format!(", without {unfair} that {} a stream", if unfair == 1 { "starves" } else { "starve" });
    }
    text
}

fn winner(comparison: &Comparison, ranking: &Ranking) -> String {
    let Some((best, others)) = ranking.places.split_first() else { return String::new() };
    let value = with_unit(ranking.preference, best.value);
    if comparison.records().len() == 1 {
        return value;
    }
    if others.is_empty() {
        return format!("{} has {value}", printable(&best.label));
    }
    let leaders = ranking.leaders();
    let trailing = &ranking.places[leaders.len().max(1)..];
    let Some(worst) = trailing.last() else { return format!("no scheduler wins by more than {NEGLIGIBLE_PERCENT}%") };
    let mut text = if leaders.len() > 1 {
        let margin = ahead(ranking.preference, worst);
        format!("{} lead with {value}, within {NEGLIGIBLE_PERCENT}% of each other and {margin}", listed(leaders))
    } else {
        let over_next = trailing.first().map(|next| ahead(ranking.preference, next)).unwrap_or_default();
        let over_worst = if trailing.len() > 1 { format!(" and {}", ahead(ranking.preference, worst)) } else { String::new() };
        format!("{} wins with {value}, {over_next}{over_worst}", printable(&best.label))
    };
    if ranking.preference == Preference::ResponseTime {
        text.push_str(&shortest_p99(comparison, leaders));
    }
    text
}

fn with_unit(preference: Preference, value: f64) -> String {
    let value = three_digits(value);
    match preference {
        Preference::Throughput => format!("{value} MB/s"),
        Preference::ResponseTime => format!("a mean of {value} ms"),
        Preference::Fairness => format!("a Jain index of {value}"),
    }
}

/// The margin of the best over another, in words.
fn ahead(preference: Preference, other: &Ranked) -> String {
    let label = printable(&other.label);
    let direction = if preference.figure().better == figure::Better::Lower { "below" } else { "above" };
    match other.best_is_better_percent {
        // "1,150% above" has to be worked out, "12.5 times" does not.
        Some(percent) if percent >= 200.0 => format!("{} times that of {label}", three_digits(1.0 + percent / 100.0)),
        Some(percent) if percent >= 10.0 => format!("{percent:.0}% {direction} {label}"),
        Some(percent) => format!("{percent:.1}% {direction} {label}"),
        None => format!("{direction} {label} with {}", three_digits(other.value)),
    }
}

fn listed(places: &[Ranked]) -> String {
    let labels: Vec<String> = places.iter().map(|place| printable(&place.label)).collect();
    match labels.as_slice() {
        [only] => only.clone(),
        [rest @ .., last] if (1..=3).contains(&rest.len()) => format!("{} and {last}", rest.join(", ")),
        _ => format!("{} schedulers", labels.len()),
    }
}

/// Names the scheduler with the shortest p99 if none of those with the shortest mean comes close to it.
fn shortest_p99(comparison: &Comparison, leaders: &[Ranked]) -> String {
    let p99 = |record| figure::P99_RESPONSE.value(record);
    let records = comparison.records().iter();
    let Some((shortest, best)) = records.clone().filter_map(|r| p99(r).map(|v| (r, v))).min_by(|a, b| a.1.total_cmp(&b.1)) else {
        return String::new();
    };
    let leads = |label: &str| leaders.iter().any(|place| place.label == label);
    let leading = records.filter(|record| leads(&record.scheduler.label)).filter_map(p99).min_by(f64::total_cmp);
    let behind = leading.filter(|&value| {
        Preference::ResponseTime.advantage_percent(best, value).is_some_and(|percent| percent >= NEGLIGIBLE_PERCENT)
    });
    behind.map_or_else(String::new, |value| {
        let label = printable(&shortest.scheduler.label);
        format!(", while {label} has the shortest p99 ({} against {} ms)", three_digits(best), three_digits(value))
    })
}
