//! The settings of a host and of its machine.

use block::{Merges, Nanos, SettingError, Tunable, Unit, host_tunables, split_before, tunables};

use super::QueueSettings;

tunables! {
    /// All settings of a host: first the tunables that can change at run time, as declared by [`block::HOST_TUNABLES`]; then the machine's
    /// properties, fixed for a run.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct HostSettings {
        pub nr_requests: i64 = host_tunables::NR_REQUESTS,
        pub max_sectors_kb: i64 = host_tunables::MAX_SECTORS_KB,
        pub nomerges: i64 = host_tunables::NOMERGES,
        pub wbt_lat_usec: i64 = host_tunables::WBT_LAT_USEC,
        pub read_ahead_kb: i64 = host_tunables::READ_AHEAD_KB,
        pub dirty_ratio: i64 = host_tunables::DIRTY_RATIO,
        pub dirty_background_ratio: i64 = host_tunables::DIRTY_BACKGROUND_RATIO,
        pub dirty_bytes: i64 = host_tunables::DIRTY_BYTES,
        pub dirty_background_bytes: i64 = host_tunables::DIRTY_BACKGROUND_BYTES,
        pub dirty_expire_centisecs: i64 = host_tunables::DIRTY_EXPIRE_CENTISECS,
        pub dirty_writeback_centisecs: i64 = host_tunables::DIRTY_WRITEBACK_CENTISECS,
        pub swappiness: i64 = host_tunables::SWAPPINESS,
        pub page_cluster as "page-cluster": i64 = host_tunables::PAGE_CLUSTER,
        /// Memory for file pages and anonymous pages; the memory of the kernel and its tables is not part of it.
        pub memory_mib: i64 = Tunable::new(Unit::Mebibytes, 16..=1 << 20, 1024).logarithmic(),
        /// Swap area, at the end of the device. No file may reach into it.
        pub swap_mib: i64 = Tunable::new(Unit::Mebibytes, 0..=1 << 20, 0).logarithmic(),
        /// Memory that background processes have allocated and touch.
        pub anonymous_mib: i64 = Tunable::new(Unit::Mebibytes, 0..=1 << 20, 0).logarithmic(),
        /// Anonymous pages touched each second, as long as none of the touches waits for swap.
        pub anonymous_touches: i64 = Tunable::new(Unit::PerSecond, 0..=1_000_000, 1000).logarithmic(),
        /// Share of the touches that go to the hotter half of any part of the anonymous pages: 50 touches all alike, 80 sends 64%
        /// to the hottest quarter.
        pub anonymous_skew: i64 = Tunable::new(Unit::Percent, 50..=99, 80),
        /// How long nothing goes to the device when its scheduler is exchanged in the middle of a run; longer if the device needs longer
        /// for its outstanding requests. Measured on Linux 6.18: 31 to 40 ms.
        pub scheduler_switch_ms: i64 = Tunable::new(Unit::Milliseconds, 0..=10_000, 35).logarithmic(),
        /// Whether the driver says that it can take a request before one is taken from the scheduler, as SCSI and SATA disks do. Without,
        /// as for loop devices, NVMe and virtio, one request more than the device takes has left the scheduler.
        pub dispatch_budget: bool = Tunable::flag(true),
        /// Tags of the driver where they are more than the drive takes at once; 0 stands for the drive's queue depth. Under AHCI
        /// there are 32, also for a drive without NCQ, which takes one request at a time (can_queue in drivers/ata/ahci.h). Under
        /// none that many requests wait in the queue. For such a drive nr_requests is 64 at first, twice the tags (block/blk-mq-sched.c).
        pub driver_tags: i64 = Tunable::new(Unit::Count, 0..=10_240, 0).logarithmic(),
        /// The host's first estimate of the device's write bandwidth, in KiB a second, which a writer gets once too much is dirty.
        /// Measurements then replace it. The default is Linux's for a device that it never wrote to.
        pub write_bandwidth_kib: i64 = Tunable::new(Unit::Kibibytes, 4..=1 << 30, 102_400).logarithmic(),
        /// Draws which pages are touched, and when.
        pub seed: i64 = Tunable::new(Unit::Count, 0..=i64::MAX, 1),
    }
}

/// The tunables that can change while the host runs: the [`block::HOST_TUNABLES`]. [`HostSettings::value`] and
/// [`Host::set`](super::Host::set) take an index into this list.
pub static TUNABLES: &[Tunable] = split_before(HostSettings::TUNABLES, "memory_mib").0;

/// The machine's properties, fixed for a run.
pub static MACHINE: &[Tunable] = split_before(HostSettings::TUNABLES, "memory_mib").1;

/// The first of the [`TUNABLES`]: those of the queue, which also exist without a host.
pub(super) fn of_the_queue() -> &'static [Tunable] {
    const { split_before(HostSettings::TUNABLES, "read_ahead_kb").0 }
}

/// Decodes a value of `nomerges`.
fn merges(nomerges: i64) -> Merges {
    match nomerges {
        0 => Merges::All,
        1 => Merges::WithLast,
        _ => Merges::Never,
    }
}

/// Decodes a value of `wbt_lat_usec`; `None` for -1, the default.
fn write_back_latency(wbt_lat_usec: i64) -> Option<Nanos> {
    u64::try_from(wbt_lat_usec).ok().map(Nanos::from_micros)
}

impl QueueSettings {
    /// The value of the tunable at `index` of [`TUNABLES`]; `None` if it is not a tunable of the queue.
    pub fn value(&self, index: usize) -> Option<i64> {
        match of_the_queue().get(index)?.name {
            "nr_requests" => Some(i64::from(self.nr_requests)),
            "max_sectors_kb" => Some(i64::from(self.max_sectors / 2)),
            "wbt_lat_usec" => Some(self.write_back_latency.map_or(-1, |latency| (latency.0 / 1_000) as i64)),
            "nomerges" => Some(match self.merges {
                Merges::All => 0,
                Merges::WithLast => 1,
                Merges::Never => 2,
            }),
            _ => None,
        }
    }

    /// A copy with another value for the tunable at `index` of [`TUNABLES`], which must be one of the queue; the value must be in range.
    pub(super) fn with(mut self, index: usize, value: i64) -> QueueSettings {
        match of_the_queue()[index].name {
            "nr_requests" => self.nr_requests = value as u32,
            "max_sectors_kb" => self.max_sectors = 2 * value as u32,
            "wbt_lat_usec" => self.write_back_latency = write_back_latency(value),
            _ => self.merges = merges(value),
        }
        self
    }
}

/// Looks up the tunable at `index` of the first `tunables` of [`TUNABLES`], and checks the value.
///
/// # Errors
/// There is no such tunable, or the value is out of range.
pub(super) fn settable(tunables: &'static [Tunable], index: usize, value: i64) -> Result<(), SettingError> {
    let Some(tunable) = tunables.get(index) else {
        let known = tunables.iter().map(|tunable| tunable.name).collect();
        return Err(SettingError::UnknownKey { owner: "host", known, key: format!("number {index}") });
    };
    tunable.check("host", value)
}

impl Default for HostSettings {
    /// Linux's defaults, on a machine with 1 GiB, no swap and nothing running.
    fn default() -> HostSettings {
        HostSettings::of(&[])
    }
}

impl HostSettings {
    /// Parses comma-separated `key=value` pairs. Keys that are not given keep their defaults; an empty text gives none.
    ///
    /// # Errors
    /// An unknown key, a key given twice, a value that the tunable cannot have.
    pub fn parse(text: &str) -> Result<HostSettings, SettingError> {
        let pairs = Some(text).filter(|text| !text.is_empty());
        Ok(HostSettings::of(&block::parse_values("host", HostSettings::TUNABLES, pairs)?))
    }

    /// The value of the tunable at `index` of [`TUNABLES`]; `None` if there is none.
    pub fn value(&self, index: usize) -> Option<i64> {
        self.values().get(index).copied().filter(|_| index < TUNABLES.len())
    }

    /// A copy with another value, in range, for the tunable at `index` of [`TUNABLES`]. Setting a percentage limit resets the one in bytes
    /// (`dirty_ratio_handler` and `dirty_background_ratio_handler` in `mm/page-writeback.c`); one in bytes takes precedence anyway.
    pub(super) fn with(&self, index: usize, value: i64) -> HostSettings {
        let mut values = self.values();
        values[index] = value;
        let mut settings = HostSettings::of(&values);
        match TUNABLES.get(index).map(|tunable| tunable.name) {
            Some("dirty_ratio") => settings.dirty_bytes = 0,
            Some("dirty_background_ratio") => settings.dirty_background_bytes = 0,
            _ => {}
        }
        settings
    }

    /// A copy with the values of some [`TUNABLES`], by name; other names are ignored.
    #[must_use]
    pub fn with_named(&self, values: &[(String, i64)]) -> HostSettings {
        let index = |name: &String| TUNABLES.iter().position(|tunable| tunable.name == name);
        values.iter().fold(*self, |settings, (name, value)| index(name).map_or(settings, |index| settings.with(index, *value)))
    }

    /// Checks that each value is in range.
    ///
    /// # Errors
    /// The first value out of range.
    pub fn check(&self) -> Result<(), SettingError> {
        for (value, tunable) in self.values().into_iter().zip(HostSettings::TUNABLES) {
            tunable.check("host", value)?;
        }
        Ok(())
    }

    /// The settings of the device's queue.
    pub fn queue(&self) -> QueueSettings {
        QueueSettings {
            nr_requests: self.nr_requests as u32,
            max_sectors: 2 * self.max_sectors_kb as u32,
            merges: merges(self.nomerges),
            write_back_latency: write_back_latency(self.wbt_lat_usec),
            has_budget: self.dispatch_budget,
            driver_tags: self.driver_tags as u32,
            switch_time: Nanos::from_millis(self.scheduler_switch_ms as u64),
        }
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
        for (index, tunable) in HostSettings::TUNABLES.iter().enumerate() {
            let value = if tunable.default == tunable.min { tunable.max } else { tunable.min };
            let settings = HostSettings::parse(&format!("{}={value}", tunable.name)).unwrap();
            let text = format!("{settings:?}");
            let shown = if tunable.unit == Unit::Flag { (value != 0).to_string() } else { value.to_string() };
            assert!(text.contains(&format!("{}: {shown}", tunable.name.replace('-', "_"))), "{} in {text}", tunable.name);
            let mut expected = HostSettings::default().values();
            expected[index] = value;
            assert_eq!(settings.values(), expected);
        }
    }

    #[test]
    fn what_may_be_set_while_a_host_runs_is_what_block_declares_in_its_order() {
        let declared = |tunables: &[Tunable]| tunables.iter().map(|tunable| format!("{tunable:?}")).collect::<Vec<_>>();
        assert_eq!(declared(TUNABLES), declared(block::HOST_TUNABLES));
    }

    #[test]
    fn what_concerns_the_queue_reaches_it_in_its_own_units() {
        let queue = |text| HostSettings::parse(text).unwrap().queue();
        assert_eq!(queue(""), QueueSettings::default());
        let expected = QueueSettings { nr_requests: 8, max_sectors: 128, merges: Merges::Never, ..QueueSettings::default() };
        assert_eq!(queue("nr_requests=8,max_sectors_kb=64,nomerges=2"), expected);
        let latency = |text| queue(text).write_back_latency;
        assert_eq!(latency("wbt_lat_usec=-1"), None);
        assert_eq!(latency("wbt_lat_usec=0"), Some(Nanos::ZERO));
        assert_eq!(latency("wbt_lat_usec=75000"), Some(Nanos::from_millis(75)));
        assert_eq!(queue("nomerges=1").merges, Merges::WithLast);
        assert_eq!(queue("scheduler_switch_ms=7").switch_time, Nanos::from_millis(7));
        assert_eq!(queue("driver_tags=32").driver_tags, 32);
    }

    #[test]
    fn a_queue_and_its_host_give_the_same_values_for_the_queues_tunables() {
        let settings = HostSettings::parse("nr_requests=8,max_sectors_kb=64,nomerges=1,wbt_lat_usec=7").unwrap();
        let mut queue = QueueSettings::default();
        for index in 0..of_the_queue().len() {
            assert_eq!(settings.queue().value(index), settings.value(index));
            queue = queue.with(index, settings.value(index).unwrap());
        }
        assert_eq!(queue, settings.queue());
        assert_eq!(queue.value(of_the_queue().len()), None);
    }

    #[test]
    fn of_a_limit_in_bytes_and_one_in_per_cent_the_one_set_last_holds() {
        let place = |name| TUNABLES.iter().position(|tunable| tunable.name == name).unwrap();
        let settings = HostSettings::parse("dirty_bytes=1048576,dirty_background_bytes=524288").unwrap();
        let set = |name, value| settings.with(place(name), value);
        let bytes = |settings: HostSettings| (settings.dirty_bytes, settings.dirty_background_bytes);
        assert_eq!(bytes(set("dirty_ratio", 10)), (0, 524_288));
        assert_eq!(bytes(set("dirty_ratio", 20)), (0, 524_288), "even the same: the kernel has 0 as long as bytes are given");
        assert_eq!(bytes(set("dirty_background_ratio", 10)), (1_048_576, 0));
        assert_eq!(bytes(set("dirty_bytes", 8192)), (8192, 524_288));
        assert_eq!(message("dirty_bytes=-1"), "host: dirty_bytes=-1 should be a whole number from 0 to 1099511627776");
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
