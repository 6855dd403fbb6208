//! The settings among which controllers choose: named sets, or a list given by the user.

use block::{SchedulerSpec, SettingError};

use crate::setting::Setting;
use device_model::sched;

/// A named set of settings.
#[derive(Debug)]
pub struct Set {
    /// Name on the command line.
    pub name: &'static str,
    /// One line.
    pub summary: &'static str,
    /// The settings of the set.
    pub settings: fn() -> Vec<Setting>,
}

/// All sets; the first is the default.
pub static SETS: &[Set] = &[
    Set { name: "kernel", summary: "the schedulers of today's Linux, with their defaults", settings: kernel },
    Set {
        name: "kernel-tuned",
        summary: "the schedulers of today's Linux, with their defaults and tuned in two to four ways",
        settings: kernel_tuned,
    },
    Set {
        name: "linux",
        summary: "the same, each also with a read-ahead of 1 MiB, for devices with files on them",
        settings: linux,
    },
    Set {
        name: "classic",
        summary: "the schedulers of textbooks and of Linux up to 4.20, and per-request, with their defaults",
        settings: classic,
    },
    Set {
        name: "paper",
        summary: "the five of \"Self-Learning Disk Scheduling\" and per-request, with their defaults",
        settings: paper,
    },
    Set {
        name: "all",
        summary: "every scheduler but those for tenants, with its defaults and tuned in two to four ways",
        settings: all,
    },
];

/// The schedulers in the paper: its own, and the five for comparison. Source: "Self-Learning Disk Scheduling", section 5.1: four of Linux
/// 2.6.13 and SSTF, beside its own.
const OF_THE_PAPER: [&str; 6] = ["noop", "sstf", "deadline", "anticipatory", "cfq", "per-request"];

/// Tunings worth a trial, each with a reason. Every candidate costs trials, so each differs from the defaults clearly, and in one direction
/// only. Choice: more find larger gains and cost trials; two to four of each scheduler; not varied.
const TUNINGS: &[(&str, &str)] = &[
    ("deadline:fifo_batch=1", "where waiting matters and seeks are cheap: a late request is noticed at every pick"),
    ("deadline:fifo_batch=64", "where seeks are dear: longer sweeps"),
    ("deadline:read_expire=100", "where many read at random: the slowest readers wait less"),
    ("deadline:writes_starved=8", "where an asynchronous writer delays readers"),
    ("mq-deadline:fifo_batch=1", "where waiting matters and seeks are cheap: a late request is noticed at every pick"),
    ("mq-deadline:fifo_batch=64", "where seeks are dear: longer sweeps"),
    ("mq-deadline:read_expire=100", "where many read at random: the slowest readers wait less"),
    ("mq-deadline:writes_starved=8", "where an asynchronous writer delays readers"),
    ("bfq:slice_idle=0", "Linux's documentation advises it for flash and arrays"),
    ("bfq:low_latency=0", "where throughput and weights matter more than starting processes"),
    ("bfq:timeout_sync=500", "where several stream at once: longer turns, fewer seeks between them"),
    (
        "kyber:read_lat_nsec=20000000,write_lat_nsec=100000000",
        "where a read takes a disk's ten milliseconds: other targets cannot be met",
    ),
    ("kyber:write_lat_nsec=1000000000", "where an asynchronous writer delays readers: its writes give way at once"),
    ("adios:global_latency_window=96000000", "its author advises it for hard disks: longer batches"),
    ("adios:compliance_flags=1", "where large requests must not fall behind small ones"),
    ("anticipatory:antic_expire=0", "where waiting for the next request does not pay: flash, arrays, a deep queue"),
    ("anticipatory:antic_expire=20", "where processes think for longer between their requests"),
    ("anticipatory:read_batch_expire=2000", "where reads and writes disturb each other: longer runs of reads"),
    ("cfq:slice_idle=0", "Linux's documentation advises it for flash and arrays"),
    ("cfq:slice_sync=400,low_latency=0", "where several stream at once: longer turns, fewer seeks between them"),
    ("cfq:low_latency=0", "where throughput matters more than waits"),
    ("cfq:quantum=32", "where the device takes many requests at once"),
    ("per-request:async_delay=0", "where processes wait for writes in the end: they are sent as soon as they are near"),
    ("per-request:sync_expire=100", "where the slowest requests matter"),
    ("per-request:batch=64", "where throughput matters more than the slowest requests"),
];

/// A larger read-ahead, for disks that seek between several sequential readers: reading Linux's 128 KiB takes a millisecond, a seek ten.
/// Choice: a larger one wastes more at the end of a run; 1 MiB takes about as long as a seek; not varied.
const WIDER: (&str, i64) = ("read_ahead_kb", 1024);

fn classic() -> Vec<Setting> {
    sched::classic().map(Setting::of).collect()
}

fn kernel() -> Vec<Setting> {
    block::KERNEL.iter().copied().map(Setting::of).collect()
}

fn kernel_tuned() -> Vec<Setting> {
    tuned(kernel())
}

/// Each setting, and then each with a larger read-ahead.
fn linux() -> Vec<Setting> {
    let (name, kib) = WIDER;
    let wider = |setting: &Setting| Setting { host: vec![(name.to_owned(), kib)], ..setting.clone() };
    let kernel_tuned = kernel_tuned();
    kernel_tuned.iter().cloned().chain(kernel_tuned.iter().map(wider)).collect()
}

fn paper() -> Vec<Setting> {
    classic().into_iter().filter(|setting| OF_THE_PAPER.contains(&setting.spec.name)).collect()
}

/// All schedulers except those for tenants, which are chosen for their guarantees rather than their performance.
fn selectable() -> impl Iterator<Item = &'static SchedulerSpec> {
    sched::all().filter(|spec| !block::SHARING.iter().any(|sharing| sharing.name == spec.name))
}

fn all() -> Vec<Setting> {
    tuned(selectable().map(Setting::of).collect())
}

/// Each setting, followed by its tunings.
fn tuned(plain: Vec<Setting>) -> Vec<Setting> {
    // A test checks that all of them parse.
    let tuned: Vec<Setting> = TUNINGS.iter().filter_map(|(text, _)| Setting::parse(text).ok()).collect();
    let with_tunings = |plain: Setting| {
        let own: Vec<Setting> = tuned.iter().filter(|setting| setting.spec.name == plain.spec.name).cloned().collect();
        std::iter::once(plain).chain(own)
    };
    plain.into_iter().flat_map(with_tunings).collect()
}

/// Why a text could not be parsed as candidates.
#[derive(Debug, thiserror::Error)]
pub enum CandidatesError {
    /// Empty text between two semicolons.
    #[error("a set or a setting is wanted, or several with semicolons between; sets are {}", set_names())]
    Empty,
    /// Neither a set nor a known scheduler.
    #[error("{0}; sets are {sets}", sets = set_names())]
    Unknown(SettingError),
    /// A known scheduler with wrong tunables.
    #[error(transparent)]
    Setting(SettingError),
}

fn set_names() -> String {
    SETS.iter().map(|set| set.name).collect::<Vec<_>>().join(", ")
}

/// Parses names of sets and settings, separated by semicolons; duplicates are dropped. Without any text, returns the first set.
///
/// # Errors
/// A part is neither a set nor a setting.
pub fn parse<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Vec<Setting>, CandidatesError> {
    let mut candidates: Vec<Setting> = Vec::new();
    for text in texts.into_iter().flat_map(|text| text.split(';')).map(str::trim) {
        let found = match SETS.iter().find(|set| set.name == text) {
            Some(set) => (set.settings)(),
            None if text.is_empty() => return Err(CandidatesError::Empty),
            None => vec![Setting::parse(text).map_err(|error| match error {
                SettingError::UnknownScheduler { .. } => CandidatesError::Unknown(error),
                error => CandidatesError::Setting(error),
            })?],
        };
        for setting in found {
            if !candidates.contains(&setting) {
                candidates.push(setting);
            }
        }
    }
    Ok(if candidates.is_empty() { (SETS[0].settings)() } else { candidates })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(settings: &[Setting]) -> Vec<String> {
        settings.iter().map(Setting::to_string).collect()
    }

    #[test]
    fn every_tuning_is_valid_normalised_and_differs_from_the_defaults() {
        for (text, _) in TUNINGS {
            let setting = Setting::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(setting.to_string(), *text);
            assert_ne!(setting, Setting::of(setting.spec));
        }
        assert_eq!(all().len(), selectable().count() + TUNINGS.len());
        for spec in selectable().filter(|spec| !spec.tunables.is_empty()) {
            let tuned = TUNINGS.iter().filter(|(text, _)| text.split(':').next() == Some(spec.name)).count();
            assert!((2..=4).contains(&tuned), "{} is tuned in {tuned} ways", spec.name);
        }
    }

    #[test]
    fn the_linux_set_has_each_setting_with_a_larger_read_ahead_too() {
        let (all, kernel_tuned) = (texts(&linux()), texts(&kernel_tuned()));
        assert_eq!(all.len(), 2 * kernel_tuned.len());
        assert!(kernel_tuned.iter().all(|text| all.contains(text) && all.contains(&format!("{text} read_ahead_kb=1024"))));
    }

    #[test]
    fn sets_and_settings_are_parsed_without_duplicates() {
        let parse = |given: &[&str]| texts(&parse(given.iter().copied()).unwrap());
        assert_eq!(parse(&[]), texts(&kernel()));
        assert_eq!(parse(&["paper"]), ["noop", "sstf", "deadline", "anticipatory", "cfq", "per-request"]);
        assert_eq!(
            parse(&[
                "noop; deadline:fifo_batch=4,read_expire=1;noop",
                "deadline:read_expire=1,fifo_batch=4",
                "cfq read_ahead_kb=512"
            ]),
            ["noop", "deadline:read_expire=1,fifo_batch=4", "cfq read_ahead_kb=512"]
        );
        assert_eq!(parse(&["all", "paper"]), texts(&all()));
    }

    #[test]
    fn unknown_candidates_are_refused_with_the_known_ones() {
        let message = |text| parse([text]).unwrap_err().to_string();
        let unknown = message("noop;nope");
        assert!(unknown.starts_with("there is no scheduler 'nope'; known are noop, "), "{unknown}");
        assert!(unknown.ends_with("; sets are kernel, kernel-tuned, linux, classic, paper, all"), "{unknown}");
        assert!(message("deadline:fifo=1").starts_with("deadline has no tunable 'fifo'"));
        assert!(message("deadline:fifo_batch=0").contains("fifo_batch=0 should be a whole number from 1 to 1024"));
        for text in ["", "noop;", ";"] {
            assert!(message(text).starts_with("a set or a setting is wanted"), "{text}");
        }
    }
}
