//! The settings of a host and of its machine.

use block::{Merges, Nanos, Scale, SettingError, Tunable, Unit};

use super::QueueSettings;

/// The tunables that may change while the host runs, under Linux's names: `/sys/block/*/queue` first, then `/proc/sys/vm`.
/// [`HostSettings::value`] and [`Host::set`](super::Host::set) go by the place in here.
pub static TUNABLES: &[Tunable] = &[
    Tunable {
        name: "nr_requests",
        unit: Unit::Count,
        min: 4,
        max: 2048,
        default: 256,
        scale: Scale::Logarithmic,
        doc: "Requests that may be queued or at the device at once, synchronous and asynchronous ones each. More let the scheduler \
              sort and merge better; fewer keep waiting times short.",
    },
    Tunable {
        name: "max_sectors_kb",
        unit: Unit::Kibibytes,
        min: 4,
        max: 32_768,
        default: 1280,
        scale: Scale::Logarithmic,
        doc: "The largest request. Larger ones are split, and merging stops there.",
    },
    Tunable {
        name: "nomerges",
        unit: Unit::Count,
        min: 0,
        max: 2,
        default: 0,
        scale: Scale::Linear,
        doc: "Which requests that touch are merged: 0 all, 1 only with the request that was queued or grew last, 2 none.",
    },
    Tunable {
        name: "read_ahead_kb",
        unit: Unit::Kibibytes,
        min: 0,
        max: 65_536,
        default: 128,
        scale: Scale::Logarithmic,
        doc: "How far the kernel reads ahead of a process that reads a file in order. 0 reads one page at a time.",
    },
    Tunable {
        name: "dirty_ratio",
        unit: Unit::Percent,
        min: 1,
        max: 100,
        default: 20,
        scale: Scale::Linear,
        doc: "Share of the memory that could hold file pages which may be written and not yet on the device. Writers are slowed \
              down from half way between dirty_background_ratio and here.",
    },
    Tunable {
        name: "dirty_background_ratio",
        unit: Unit::Percent,
        min: 0,
        max: 100,
        default: 10,
        scale: Scale::Linear,
        doc: "From this share of written pages on, the kernel writes them back in the background. Not below dirty_ratio, half of \
              that is taken.",
    },
    Tunable {
        name: "dirty_expire_centisecs",
        unit: Unit::Centiseconds,
        min: 0,
        max: 360_000,
        default: 3000,
        scale: Scale::Logarithmic,
        doc: "A written page this old is written back when the kernel next looks.",
    },
    Tunable {
        name: "dirty_writeback_centisecs",
        unit: Unit::Centiseconds,
        min: 0,
        max: 360_000,
        default: 500,
        scale: Scale::Logarithmic,
        doc: "How often the kernel looks for old written pages; 0 never.",
    },
    Tunable {
        name: "swappiness",
        unit: Unit::Count,
        min: 0,
        max: 200,
        default: 60,
        scale: Scale::Linear,
        doc: "How cheap swapping is against reading files again when memory is short: 100 says equal, 0 swaps only where nothing \
              else is left.",
    },
    Tunable {
        name: "page-cluster",
        unit: Unit::Count,
        min: 0,
        max: 10,
        default: 3,
        scale: Scale::Linear,
        doc: "Swapped pages read at once, as a power of two: 3 reads eight.",
    },
];

/// The properties of the machine, fixed for a run.
pub static MACHINE: &[Tunable] = &[
    Tunable {
        name: "memory_mib",
        unit: Unit::Mebibytes,
        min: 16,
        max: 1 << 20,
        default: 1024,
        scale: Scale::Logarithmic,
        doc: "Memory for file pages and anonymous pages; what the kernel and its tables need is not part of it.",
    },
    Tunable {
        name: "swap_mib",
        unit: Unit::Mebibytes,
        min: 0,
        max: 1 << 20,
        default: 0,
        scale: Scale::Logarithmic,
        doc: "Swap area, at the end of the device. No file may reach into it.",
    },
    Tunable {
        name: "anonymous_mib",
        unit: Unit::Mebibytes,
        min: 0,
        max: 1 << 20,
        default: 0,
        scale: Scale::Logarithmic,
        doc: "Memory that background processes have allocated and touch.",
    },
    Tunable {
        name: "anonymous_touches",
        unit: Unit::PerSecond,
        min: 0,
        max: 1_000_000,
        default: 1000,
        scale: Scale::Logarithmic,
        doc: "Anonymous pages touched each second, as long as none of the touches waits for swap.",
    },
    Tunable {
        name: "anonymous_skew",
        unit: Unit::Percent,
        min: 50,
        max: 99,
        default: 80,
        scale: Scale::Linear,
        doc: "Share of the touches that go to the hotter half of any part of the anonymous pages: 50 touches all alike, 80 sends \
              64% to the hottest quarter.",
    },
    Tunable {
        name: "scheduler_switch_ms",
        unit: Unit::Milliseconds,
        min: 0,
        max: 10_000,
        default: 35,
        scale: Scale::Logarithmic,
        doc: "How long nothing goes to the device when its scheduler is exchanged in the middle of a run; longer if the device needs \
              longer for what it has. Measured on Linux 6.18: 31 to 40 ms.",
    },
    Tunable {
        name: "seed",
        unit: Unit::Count,
        min: 0,
        max: i64::MAX,
        default: 1,
        scale: Scale::Linear,
        doc: "Draws which pages are touched, and when.",
    },
];

/// The first of the [`TUNABLES`]: those of the queue, which it has without a host too.
pub(super) fn of_the_queue() -> &'static [Tunable] {
    TUNABLES.split_at(3).0
}

/// What a value of `nomerges` means.
fn merges(nomerges: i64) -> Merges {
    match nomerges {
        0 => Merges::All,
        1 => Merges::WithLast,
        _ => Merges::Never,
    }
}

impl QueueSettings {
    /// The value of the tunable at `index` of [`TUNABLES`]; `None` if it is not the queue's.
    pub fn value(&self, index: usize) -> Option<i64> {
        match index {
            0 => Some(i64::from(self.nr_requests)),
            1 => Some(i64::from(self.max_sectors / 2)),
            2 => Some(match self.merges {
                Merges::All => 0,
                Merges::WithLast => 1,
                Merges::Never => 2,
            }),
            _ => None,
        }
    }

    /// These with another value, in its range, of the tunable at `index` of [`TUNABLES`], which is the queue's.
    pub(super) fn with(mut self, index: usize, value: i64) -> QueueSettings {
        match index {
            0 => self.nr_requests = value as u32,
            1 => self.max_sectors = 2 * value as u32,
            _ => self.merges = merges(value),
        }
        self
    }
}

/// The tunable at `index` of the first `tunables` of [`TUNABLES`], which may take this value.
///
/// # Errors
/// There is none, or the value is out of its range.
pub(super) fn settable(tunables: &'static [Tunable], index: usize, value: i64) -> Result<(), SettingError> {
    let Some(tunable) = tunables.get(index) else {
        let known = tunables.iter().map(|tunable| tunable.name).collect();
        return Err(SettingError::UnknownKey { owner: "host", known, key: format!("number {index}") });
    };
    tunable.check("host", value)
}

/// Every setting of a host: the [`TUNABLES`], then the [`MACHINE`]. They document meaning, unit and range of each field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the tunables of the same names document them")]
pub struct HostSettings {
    pub nr_requests: i64,
    pub max_sectors_kb: i64,
    pub nomerges: i64,
    pub read_ahead_kb: i64,
    pub dirty_ratio: i64,
    pub dirty_background_ratio: i64,
    pub dirty_expire_centisecs: i64,
    pub dirty_writeback_centisecs: i64,
    pub swappiness: i64,
    pub page_cluster: i64,
    pub memory_mib: i64,
    pub swap_mib: i64,
    pub anonymous_mib: i64,
    pub anonymous_touches: i64,
    pub anonymous_skew: i64,
    pub scheduler_switch_ms: i64,
    pub seed: i64,
}

impl Default for HostSettings {
    /// Linux's defaults, on a machine with 1 GiB, no swap and nothing running.
    fn default() -> HostSettings {
        let mut settings = HostSettings {
            nr_requests: 0,
            max_sectors_kb: 0,
            nomerges: 0,
            read_ahead_kb: 0,
            dirty_ratio: 0,
            dirty_background_ratio: 0,
            dirty_expire_centisecs: 0,
            dirty_writeback_centisecs: 0,
            swappiness: 0,
            page_cluster: 0,
            memory_mib: 0,
            swap_mib: 0,
            anonymous_mib: 0,
            anonymous_touches: 0,
            anonymous_skew: 0,
            scheduler_switch_ms: 0,
            seed: 0,
        };
        for (field, tunable) in settings.fields_mut().into_iter().zip(HostSettings::all()) {
            *field = tunable.default;
        }
        settings
    }
}

impl HostSettings {
    /// All that can be set, in the order of the values: what may change in the middle of a run, then what may not.
    pub fn all() -> impl Iterator<Item = &'static Tunable> {
        TUNABLES.iter().chain(MACHINE)
    }

    /// Reads `key=value` pairs with commas between. What is not named keeps its default; an empty text names nothing.
    ///
    /// # Errors
    /// An unknown key, a key given twice, a value that is no whole number or lies outside its range.
    pub fn parse(text: &str) -> Result<HostSettings, SettingError> {
        let mut settings = HostSettings::default();
        let given = block::parse_settings("host", &[TUNABLES, MACHINE], text)?;
        for (field, given) in settings.fields_mut().into_iter().zip(given) {
            *field = given.unwrap_or(*field);
        }
        Ok(settings)
    }

    /// Each setting's value, in the order of [`HostSettings::all`].
    pub fn values(mut self) -> [i64; 17] {
        self.fields_mut().map(|field| *field)
    }

    /// The value of the tunable at `index` of [`TUNABLES`]; `None` if there is none.
    pub fn value(&self, index: usize) -> Option<i64> {
        self.values().get(index).copied().filter(|_| index < TUNABLES.len())
    }

    /// Checks that each value lies in its range.
    ///
    /// # Errors
    /// Names the first that does not.
    pub fn check(&self) -> Result<(), SettingError> {
        for (value, tunable) in self.values().into_iter().zip(HostSettings::all()) {
            tunable.check("host", value)?;
        }
        Ok(())
    }

    /// What concerns the device's queue.
    pub fn queue(&self) -> QueueSettings {
        QueueSettings {
            nr_requests: self.nr_requests as u32,
            max_sectors: 2 * self.max_sectors_kb as u32,
            merges: merges(self.nomerges),
            switch_time: Nanos::from_millis(self.scheduler_switch_ms as u64),
        }
    }

    /// By [`HostSettings::all`].
    pub(super) fn fields_mut(&mut self) -> [&mut i64; 17] {
        [
            &mut self.nr_requests,
            &mut self.max_sectors_kb,
            &mut self.nomerges,
            &mut self.read_ahead_kb,
            &mut self.dirty_ratio,
            &mut self.dirty_background_ratio,
            &mut self.dirty_expire_centisecs,
            &mut self.dirty_writeback_centisecs,
            &mut self.swappiness,
            &mut self.page_cluster,
            &mut self.memory_mib,
            &mut self.swap_mib,
            &mut self.anonymous_mib,
            &mut self.anonymous_touches,
            &mut self.anonymous_skew,
            &mut self.scheduler_switch_ms,
            &mut self.seed,
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(text: &str) -> String {
        HostSettings::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn every_setting_is_read_into_its_own_field_and_read_back() {
        for (index, tunable) in HostSettings::all().enumerate() {
            let value = if tunable.default == tunable.min { tunable.max } else { tunable.min };
            let settings = HostSettings::parse(&format!("{}={value}", tunable.name)).unwrap();
            let text = format!("{settings:?}");
            assert!(text.contains(&format!("{}: {value}", tunable.name.replace('-', "_"))), "{} in {text}", tunable.name);
            let mut expected = HostSettings::default().values();
            expected[index] = value;
            assert_eq!(settings.values(), expected);
        }
    }

    #[test]
    fn what_concerns_the_queue_reaches_it_in_its_own_units() {
        let queue = |text| HostSettings::parse(text).unwrap().queue();
        assert_eq!(queue(""), QueueSettings::default());
        let expected = QueueSettings { nr_requests: 8, max_sectors: 128, merges: Merges::Never, ..QueueSettings::default() };
        assert_eq!(queue("nr_requests=8,max_sectors_kb=64,nomerges=2"), expected);
        assert_eq!(queue("nomerges=1").merges, Merges::WithLast);
        assert_eq!(queue("scheduler_switch_ms=7").switch_time, Nanos::from_millis(7));
    }

    #[test]
    fn a_queue_and_its_host_give_the_same_values_for_the_queues_tunables() {
        let settings = HostSettings::parse("nr_requests=8,max_sectors_kb=64,nomerges=1").unwrap();
        let mut queue = QueueSettings::default();
        for index in 0..of_the_queue().len() {
            assert_eq!(settings.queue().value(index), settings.value(index));
            queue = queue.with(index, settings.value(index).unwrap());
        }
        assert_eq!(queue, settings.queue());
        assert_eq!(queue.value(of_the_queue().len()), None);
    }

    #[test]
    fn defaults_lie_in_their_ranges_and_an_empty_text_means_them() {
        HostSettings::default().check().unwrap();
        assert_eq!(HostSettings::parse("").unwrap(), HostSettings::default());
    }

    #[test]
    fn errors_name_the_key_the_value_and_the_range() {
        assert_eq!(message("swappiness=201"), "host: swappiness=201 should be a whole number from 0 to 200");
        assert_eq!(message("dirty_ratio=half"), "host: dirty_ratio=half should be a whole number from 1 to 100 %");
        assert_eq!(message("memory_mib=64,memory_mib=64"), "host: memory_mib is given twice; once is right");
        assert!(message("readahead=1").starts_with("host has no tunable 'readahead'; known are nr_requests, max_sectors_kb,"));
        let settings = HostSettings { memory_mib: 1, ..HostSettings::default() };
        assert_eq!(settings.check().unwrap_err().to_string(), "host: memory_mib=1 should be a whole number from 16 to 1048576 MiB");
    }
}
